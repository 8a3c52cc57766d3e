//! The slowest operations: a bar for each, split by reason, and an icicle chart for the slowest of
//! each policy.

use highwater_results::explain::{Cause, CauseKind, ExplainedRun};
use highwater_results::words::count;
use serde::Serialize;

use super::figure::Figure;
use super::svg::Svg;
use super::table::View;
use crate::explain::figures::human;
use crate::explain::reasons::reasons;
use crate::table::{Cell, Layout, Table};

/// Number of reasons with a separate colour; smaller ones are `other`.
const REASONS_MAX: usize = 8;
const OTHER: &str = "other";
/// Operations shown per policy.
const OPERATIONS_MAX: usize = 5;
const ICICLE_WIDTH: f64 = 720.0;
const ICICLE_ROW: f64 = 19.0;
/// A narrower rectangle is invisible.
const ICICLE_PX_MIN: f64 = 1.0;
/// Approximate width of a letter.
const LETTER_PX: f64 = 6.3;

/// The bars of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bars {
    /// Names of reasons, by colour.
    legend: Vec<String>,
    bars: Vec<Bar>,
    table: View,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Bar {
    /// `6.1-before: mmap-48, 12.3 ms`.
    label: String,
    /// Width in percent of the longest bar.
    width: f64,
    parts: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Segment {
    /// Number of the reason in the legend.
    colour: usize,
    /// Share of this bar in percent.
    share: f64,
    title: String,
}

/// Bars of the slowest operations of runs on one machine; none if there are none.
pub(super) fn bars(machine: &str, runs: &[&ExplainedRun]) -> Option<Bars> {
    let worst = || {
        runs.iter().flat_map(|run| run.worst.iter().take(OPERATIONS_MAX).map(move |op| (*run, op)))
    };
    let longest_ns = worst().map(|(_, op)| op.ns).max().filter(|&ns| ns > 0)?;
    let mut totals: Vec<(String, u64)> = Vec::new();
    for reason in worst().flat_map(|(_, op)| reasons(&op.causes)) {
        match totals.iter_mut().find(|(name, _)| *name == reason.name) {
            Some((_, ns)) => *ns += reason.ns,
            None => totals.push((reason.name, reason.ns)),
        }
    }
    totals.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut legend: Vec<String> =
        totals.iter().take(REASONS_MAX).map(|(name, _)| name.clone()).collect();
    if totals.len() > REASONS_MAX {
        legend.push(OTHER.to_owned());
    }
    let heads = legend.iter().map(|name| format!("{name}, ms"));
    let heads: Vec<String> = std::iter::once("all, ms".to_owned()).chain(heads).collect();
    let title = format!("Slowest operations on {machine}: where their time went");
    let mut table = Table::new(title, &["policy", "operation", "at"], heads, Layout::Fitted);
    let mut bars = Vec::new();
    for (run, op) in worst() {
        let mut parts_ns = vec![0; legend.len()];
        for reason in reasons(&op.causes) {
            let at = legend.iter().position(|name| *name == reason.name);
            parts_ns[at.unwrap_or(legend.len() - 1)] += reason.ns;
        }
        let percent =
            |part: u64, whole: u64| (10_000.0 * part as f64 / whole as f64).round() / 100.0;
        let parts =
            parts_ns.iter().enumerate().filter(|(_, ns)| **ns > 0).map(|(colour, &ns)| Segment {
                colour,
                share: percent(ns, op.ns.max(1)),
                title: format!("{}: {}", legend[colour], human(ns)),
            });
        bars.push(Bar {
            label: format!("{}: {}, {}", run.label, op.name, human(op.ns)),
            width: percent(op.ns, longest_ns),
            parts: parts.collect(),
        });
        let ms = |ns: u64| Cell::number(ns as f64 / 1e6, 3);
        let cells = std::iter::once(op.ns).chain(parts_ns).map(ms).collect();
        table.push(&[&run.label, &op.name, &human(op.start_ns)], cells);
    }
    Some(Bars { legend, bars, table: View::of(&table) })
}

/// The slowest operation of a run as an icicle chart: a bar below another happened inside it.
pub(super) fn icicle(run: &ExplainedRun) -> Option<Figure> {
    let op = run.worst.first().filter(|op| op.ns > 0)?;
    let depth = depth(&op.causes);
    let title = format!("{}: {} of {}", run.label, op.name, human(op.ns));
    let what = format!("{title}, from the outside in");
    let mut svg = Svg::new(ICICLE_WIDTH as u32, (ICICLE_ROW * depth as f64) as u32 + 2, &what);
    let mut table = Table::new(
        what.clone(),
        &["cause"],
        vec!["ms".into(), "times".into(), "share".into()],
        Layout::Fitted,
    );
    let place = Place { left: 0.0, row: 0, ns_px: op.ns as f64 / ICICLE_WIDTH };
    add(&mut svg, &mut table, &op.causes, place, op.ns);
    let mut figure = Figure::drawn(&title, svg.finish(), &table);
    figure.is_wide = true;
    Some(figure)
}

fn depth(cause: &Cause) -> usize {
    1 + cause.children.iter().map(depth).max().unwrap_or(0)
}

#[derive(Clone, Copy)]
struct Place {
    left: f64,
    row: usize,
    /// Nanoseconds per pixel.
    ns_px: f64,
}

fn add(svg: &mut Svg, table: &mut Table, cause: &Cause, place: Place, whole_ns: u64) {
    let width = cause.ns as f64 / place.ns_px;
    if width < ICICLE_PX_MIN {
        return;
    }
    let (x, y) = (place.left, ICICLE_ROW * place.row as f64);
    let told = format!("{}: {}, {}", cause.name, human(cause.ns), count(cause.count, "time"));
    svg.rect(
        &format!("ice i{}", colour(cause.kind())),
        (x, y + 1.0),
        (width - 1.0, ICICLE_ROW - 2.0),
        &told,
    );
    let letters = ((width - 6.0) / LETTER_PX) as usize;
    if letters >= 4 {
        let name: String = if cause.name.chars().count() > letters {
            cause.name.chars().take(letters - 1).chain(['…']).collect()
        } else {
            cause.name.clone()
        };
        svg.words((x + 4.0, y + 14.0), "start", &name);
    }
    let indent = "\u{2003}".repeat(place.row);
    table.push(
        &[&format!("{indent}{}", cause.name)],
        vec![
            Cell::number(cause.ns as f64 / 1e6, 3),
            Cell::number(cause.count as f64, 0),
            Cell::share(cause.ns as f64, whole_ns as f64, 1),
        ],
    );
    let mut left = x;
    for child in &cause.children {
        add(svg, table, child, Place { left, row: place.row + 1, ..place }, whole_ns);
        left += child.ns as f64 / place.ns_px;
    }
}

/// The number of a kind's colour in the style sheet.
const fn colour(kind: CauseKind) -> usize {
    match kind {
        CauseKind::Phase => 0,
        CauseKind::Lock => 1,
        CauseKind::Wait => 2,
        CauseKind::Running | CauseKind::Busy => 3,
    }
}
