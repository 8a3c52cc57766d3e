//! The verdict as a table: a captured kernel beside the model's boot.

use highwater_report::table::Cell;
use highwater_report::{Layout, Table};
use highwater_results::words::count;

use super::{Capture, Verdict};
use crate::figure::Figure;

impl Capture {
    /// The running kernel beside the model's boot: a row for each figure of a zone.
    pub fn table(&self, verdict: &Verdict) -> Table {
        table(self, verdict)
    }
}

fn table(captured: &Capture, verdict: &Verdict) -> Table {
    let kernel = &captured.system.kernel;
    let preset = verdict.nearest.preset;
    let heads = [kernel.as_str(), "model", ""].map(str::to_owned).to_vec();
    let title = format!("What a boot of the machine computes, {preset}");
    let mut table = Table::new(title, &["figure"], heads, Layout::Fitted);
    for figure in rows(&verdict.figures) {
        let differs = if figure.agrees { "" } else { "differs" };
        let cells = [figure.real.as_str(), &figure.model, differs].map(Cell::text).to_vec();
        table.push(&[&figure.field], cells);
    }
    let nr_wrong = verdict.figures.iter().filter(|figure| !figure.agrees).count();
    let nr_all = verdict.figures.len();
    let is = if verdict.nearest.is_exact {
        format!("{kernel} is the preset {preset}")
    } else if let Some((own, nr_own)) = verdict.nearest.instead_of {
        format!(
            "{kernel} says that it is {own}, which has {} otherwise; {preset} fits better",
            count(nr_own, "figure")
        )
    } else if kernel == "Linux" {
        format!("the kernel's version is not known; {preset} fits best")
    } else {
        format!("{kernel} is no preset; {preset} is the nearest one")
    };
    table.notes.push(match nr_wrong {
        0 => format!("{is}: all {nr_all} figures are the same"),
        1 => format!("{is}: 1 of {} differs", count(nr_all, "figure")),
        _ => format!("{is}: {nr_wrong} of {nr_all} figures differ"),
    });
    table.notes.extend(verdict.notes.iter().cloned());
    let boosted = captured.system.zones.iter().filter(|zone| zone.boost > 0);
    for zone in boosted {
        let (node, name, boost) = (zone.node, &zone.zone, zone.boost);
        table.notes.push(format!(
            "node {node} {name}: its marks are compared without a boost of {}",
            count(boost, "page")
        ));
    }
    if captured.system.zones.iter().flat_map(|z| &z.pagesets).any(|set| set.high_min.is_some()) {
        table.notes.push("high of lists: what it tunes itself from (high_min)".to_owned());
    }
    table
}

/// Equal figures of several CPUs become one row.
fn rows(figures: &[Figure]) -> Vec<Figure> {
    let mut rows: Vec<Figure> = Vec::new();
    for figure in figures {
        let mut row = figure.clone();
        if let Some((zone, rest)) = figure.field.split_once(": cpu ")
            && let Some((_, what)) = rest.split_once(' ')
        {
            row.field = format!("{zone}: list {what}");
        }
        let is_same = |known: &Figure| {
            (&known.field, &known.real, &known.model) == (&row.field, &row.real, &row.model)
        };
        if !rows.iter().any(is_same) {
            rows.push(row);
        }
    }
    rows
}
