//! Time of many operations by cause, policies side by side: causes are rows, policies are columns.
//!
//! There is one table per kind of operation, with its bands one below the other (`all`, ..,
//! `slowest 1 %`). A reader who asks where the 99th percentile went looks down one column. Another
//! table covers everything that tasks did. Trees of causes are flattened ([`reasons`]). In each
//! column the printed parts add up to `all causes` ([`apportion`]).

use std::collections::{BTreeMap, BTreeSet};

use highwater_results::explain::{Band, Cause, TaskTime};

use super::Column;
use super::figures::{Unit, apportion, percent, thousandths};
use super::reasons::{Reason, reasons};
use crate::table::{Cell, Layout, Table};

/// A cause gets a row if it took at least this many thousandths of some policy's time ...
const SHOWN_THOUSANDTHS: u64 = 10;
/// ... and is among this many largest.
const SHOWN_MAX: usize = 10;

/// Causes in which daemons wait for work.
pub const IDLE: &[&str] = &[
    "sleeping",
    "waiting: a transfer to be done",
    "waiting: dirty pages to write",
    "waiting: kswapd has nothing to do",
    "waiting: the OOM reaper has nothing to do",
];
/// Tasks that spend this many thousandths of their time waiting for work get no rows.
const IDLE_THOUSANDTHS: u128 = 990;

/// Time and count of one kind under one policy.
#[derive(Clone, Debug, Default)]
struct Part {
    count: u64,
    causes: Cause,
}

/// Meaning of the times in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Per {
    /// Mean of an operation.
    Operation,
    /// Sum over the run.
    Run,
}

/// Tables of the operations of policies on one machine.
pub fn operations(policies: &[Column<'_>]) -> Vec<Table> {
    let bands = || policies.iter().flat_map(|(_, run)| &run.bands);
    let mut names: Vec<&str> = Vec::new();
    for band in bands() {
        if !names.contains(&band.operation.as_str()) {
            names.push(&band.operation);
        }
    }
    let of_name = |name: &str| {
        let same = |band: &&Band| band.operation == name;
        // Percentiles in thousandths, because whole numbers can be sorted.
        let edge = |percentile: f64| (percentile * 1000.0).round() as u64;
        let edges: BTreeSet<(u64, std::cmp::Reverse<u64>)> =
            bands().filter(same).map(|b| (edge(b.from), std::cmp::Reverse(edge(b.to)))).collect();
        let groups = edges.into_iter().map(|(from, std::cmp::Reverse(to))| {
            let is_it = |band: &&Band| same(band) && (edge(band.from), edge(band.to)) == (from, to);
            let parts = policies.iter().map(|(_, run)| match run.bands.iter().find(is_it) {
                Some(band) => Part { count: band.count, causes: band.causes.clone() },
                None => Part::default(),
            });
            (band_name(from, to), parts.collect())
        });
        table(
            &format!("{name}: where the time went"),
            "band",
            "operations",
            Per::Operation,
            policies,
            groups.collect(),
        )
    };
    names.into_iter().map(of_name).collect()
}

/// The table of task times over the whole run.
pub fn tasks(policies: &[Column<'_>]) -> Option<Table> {
    let tasks = || policies.iter().flat_map(|(_, run)| &run.tasks);
    let mut kinds: Vec<&str> = Vec::new();
    for task in tasks() {
        if !kinds.contains(&task.kind.as_str()) {
            kinds.push(&task.kind);
        }
    }
    let mut groups: Vec<(String, Vec<Part>)> = kinds
        .into_iter()
        .map(|kind| {
            let same = |task: &&TaskTime| task.kind == kind;
            let parts = policies.iter().map(|(_, run)| match run.tasks.iter().find(same) {
                Some(task) => Part { count: task.count, causes: task.causes.clone() },
                None => Part::default(),
            });
            (kind.to_owned(), parts.collect())
        })
        .collect();
    let nr_kinds = groups.len();
    let idle: Vec<String> =
        groups.iter().filter(|(_, parts)| is_idle(parts)).map(|(kind, _)| kind.clone()).collect();
    groups.retain(|(kind, _)| !idle.contains(kind));
    if nr_kinds == 0 {
        return None;
    }
    let what = "what tasks did with their time";
    let mut table = table(what, "kind", "tasks", Per::Run, policies, groups);
    if !idle.is_empty() {
        table.notes.push(format!("next to nothing was done by {}", idle.join(", ")));
    }
    Some(table)
}

/// True if the tasks waited for work nearly all the time.
fn is_idle(parts: &[Part]) -> bool {
    parts.iter().all(|part| {
        let all = reasons(&part.causes);
        let idle = all.iter().filter(|reason| IDLE.contains(&reason.name.as_str()));
        let idle_ns: u64 = idle.map(|reason| reason.ns).sum();
        u128::from(idle_ns) * 1000 >= u128::from(part.causes.ns) * IDLE_THOUSANDTHS
    })
}

/// `all`, `slowest 1 %`, `50 to 90 %`.
fn band_name(from: u64, to: u64) -> String {
    let text = |thousandths: u64| format!("{}", thousandths as f64 / 1000.0);
    match (from, to) {
        (0, 100_000) => "all".to_owned(),
        (0, to) => format!("fastest {} %", text(to)),
        (from, 100_000) => format!("slowest {} %", text(100_000 - from.min(100_000))),
        (from, to) => format!("{} to {} %", text(from), text(to)),
    }
}

fn table(
    what: &str,
    group_label: &str,
    counted: &str,
    per: Per,
    policies: &[Column<'_>],
    groups: Vec<(String, Vec<Part>)>,
) -> Table {
    let value_ns = |part: &Part| match per {
        Per::Operation => part.causes.ns / part.count.max(1),
        Per::Run => part.causes.ns,
    };
    let values = || groups.iter().flat_map(|(_, parts)| parts).map(value_ns).filter(|&ns| ns > 0);
    let unit = Unit::for_ns(match per {
        // The unit of the shortest time gives each value three significant decimals.
        Per::Operation => values().min().unwrap_or(0),
        Per::Run => values().max().unwrap_or(0),
    });
    let how = match per {
        Per::Operation => "mean",
        Per::Run => "sum over the run",
    };
    let title = format!("{what} ({how}, {}, and percent)", unit.name);
    let mut columns = Vec::new();
    for (index, (label, _)) in policies.iter().enumerate() {
        columns.push(label.clone());
        columns.push("%".to_owned());
        if index > 0 {
            columns.push("change".to_owned());
        }
    }
    let mut table = Table::new(title, &[group_label, "cause"], columns, Layout::Fitted);
    for (name, parts) in &groups {
        let first = table.rows.len();
        group(&mut table, name, counted, parts, &|part| {
            // Thousandths of the unit, rounded to the nearest.
            let ns = u128::from(part.causes.ns) * 1000;
            let by = u128::from(unit.ns)
                * match per {
                    Per::Operation => u128::from(part.count.max(1)),
                    Per::Run => 1,
                };
            u64::try_from((ns + by / 2) / by).unwrap_or(u64::MAX)
        });
        // The name appears only in the first row of a group.
        table.rows.iter_mut().skip(first + 1).for_each(|row| row.labels[0].clear());
    }
    table
}

/// Rows of one band, or of one kind of task.
fn group(
    table: &mut Table,
    name: &str,
    counted: &str,
    parts: &[Part],
    thousandths_of: &dyn Fn(&Part) -> u64,
) {
    let all: Vec<Vec<Reason>> = parts.iter().map(|part| reasons(&part.causes)).collect();
    let rows = row_names(parts, &all);
    // By policy, then by row: time in thousandths of the unit, share in tenths of a percent.
    let mut figures: Vec<Option<Vec<(u64, u64)>>> = Vec::new();
    for (part, reasons) in parts.iter().zip(&all) {
        if part.count == 0 {
            figures.push(None);
            continue;
        }
        let ns_of = |row: &String| {
            reasons.iter().find(|reason| reason.name == *row).map_or(0, |reason| reason.ns)
        };
        let mut weights: Vec<u64> = rows.iter().map(ns_of).collect();
        let shown: u64 = weights.iter().sum();
        weights.push(part.causes.ns - shown);
        let values = apportion(thousandths_of(part), &weights);
        let tenths = apportion(1000, &weights);
        figures.push(Some(values.into_iter().zip(tenths).collect()));
    }
    let count = |part: &Part| match part.count {
        0 => Cell::Missing,
        count => Cell::text(count.to_string()),
    };
    let counts: Vec<Cell> = parts.iter().map(count).collect();
    push(table, name, counted, counts.into_iter().map(|cell| (cell, Cell::text(""), None)));
    let sums = parts.iter().map(|part| (part.count > 0).then(|| (thousandths_of(part), 1000)));
    push(table, name, "all causes", cells(sums.collect()));
    for (row, cause) in rows.iter().enumerate() {
        let of_row = figures.iter().map(|column| column.as_ref().map(|rows| rows[row]));
        push(table, name, cause, cells(of_row.collect()));
    }
    let rest = |column: &Option<Vec<(u64, u64)>>| column.as_ref().map(|rows| rows[rows.len() - 1]);
    let rests: Vec<Option<(u64, u64)>> = figures.iter().map(rest).collect();
    let names: BTreeSet<&str> = all.iter().flatten().map(|reason| reason.name.as_str()).collect();
    if names.len() > rows.len() {
        push(table, name, &format!("other ({} causes)", names.len() - rows.len()), cells(rests));
    }
}

/// Names of the causes that get a row, the largest first. Size is the sum of the policies' means,
/// so a policy with many operations counts no more than one with few.
fn row_names(parts: &[Part], all: &[Vec<Reason>]) -> Vec<String> {
    let mut means: BTreeMap<&str, u64> = BTreeMap::new();
    let mut large: BTreeSet<&str> = BTreeSet::new();
    for (part, reasons) in parts.iter().zip(all) {
        let least_ns = u128::from(part.causes.ns) * u128::from(SHOWN_THOUSANDTHS);
        for reason in reasons {
            *means.entry(&reason.name).or_default() += reason.ns / part.count.max(1);
            if u128::from(reason.ns) * 1000 >= least_ns {
                large.insert(&reason.name);
            }
        }
    }
    let mut rows: Vec<(&str, u64)> = means.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let nr_all = rows.len();
    let shown: Vec<String> = rows
        .iter()
        .filter(|(name, _)| large.contains(name))
        .take(SHOWN_MAX)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    if nr_all == shown.len() + 1 {
        // A single small cause needs one row either way, so it keeps its name.
        return rows.into_iter().map(|(name, _)| name.to_owned()).collect();
    }
    shown
}

/// Value, percent and, from the second policy on, the change.
type Cells = (Cell, Cell, Option<Cell>);

fn cells(figures: Vec<Option<(u64, u64)>>) -> impl Iterator<Item = Cells> {
    let base = figures.first().copied().flatten().map(|(value, _)| value);
    figures.into_iter().enumerate().map(move |(index, figure)| match figure {
        None => (Cell::Missing, Cell::Missing, (index > 0).then_some(Cell::Missing)),
        Some((value, tenths)) => {
            let change = |base: Option<u64>| match base {
                None => Cell::Missing,
                Some(base) if value >= base => {
                    Cell::text(format!("+{}", thousandths(value - base)))
                }
                Some(base) => Cell::text(format!("-{}", thousandths(base - value))),
            };
            let change = (index > 0).then(|| change(base));
            (Cell::text(thousandths(value)), Cell::text(percent(tenths)), change)
        }
    })
}

fn push(table: &mut Table, group: &str, cause: &str, cells: impl Iterator<Item = Cells>) {
    let mut row = Vec::new();
    for (index, (value, percent, change)) in cells.enumerate() {
        row.extend([value, percent]);
        if index > 0 {
            row.push(change.unwrap_or(Cell::text("")));
        }
    }
    table.push(&[group, cause], row);
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use highwater_results::explain::ExplainedRun;

    use super::super::tests::{cause, explanation, leaf};
    use super::*;
    use crate::render::terminal;

    fn policies(runs: &[ExplainedRun]) -> Vec<Column<'_>> {
        runs.iter().map(|run| (run.label.clone(), Cow::Borrowed(run))).collect()
    }

    #[test]
    fn bands_of_two_policies() {
        let explanation = explanation();
        let tables = operations(&policies(&explanation.runs));
        let expected = "\
mmap-48: where the time went (mean, ms, and percent)
band        cause                   6.1-before      %  6.1-after      %    change
all         operations                     200               100
            all causes                  30.000  100.0     10.000  100.0   -20.000
            throttled: no progress      20.000   66.7      2.500   25.0   -17.500
            running in page fault       10.000   33.3      7.500   75.0    -2.500
slowest 1 % operations                       2                 1
            all causes                1000.000  100.0    100.000  100.0  -900.000
            throttled: no progress     990.000   99.0     90.000   90.0  -900.000
            running in page fault       10.000    1.0     10.000   10.0    +0.000
";
        let text = terminal(&tables[0]);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn what_tasks_did() {
        let explanation = explanation();
        let table = tasks(&policies(&explanation.runs)).unwrap();
        let text = terminal(&table);
        assert!(
            text.starts_with("what tasks did with their time (sum over the run, s, and percent)"),
            "{text}"
        );
        assert!(
            table.row(&["hog", "tasks"]).is_some() && table.row(&["kswapd", "tasks"]).is_none(),
            "{text}"
        );
        assert_eq!(table.notes, ["next to nothing was done by kswapd"]);
    }

    #[test]
    fn small_causes_share_a_row_and_the_column_adds_up() {
        let small: Vec<Cause> = (0..5).map(|i| leaf(&format!("small {i}"), 3, 1)).collect();
        let mut children = vec![leaf("big", 985, 1)];
        children.extend(small);
        let part = Part { count: 3, causes: cause("op", 1, children) };
        let mut table = Table::new("t", &["b", "c"], vec!["p".into(), "%".into()], Layout::Fitted);
        group(&mut table, "all", "operations", &[part], &|_| 333_333);
        let names: Vec<&str> = table.rows.iter().map(|row| row.labels[1].as_str()).collect();
        assert_eq!(names, ["operations", "all causes", "big", "other (5 causes)"]);
        assert_eq!(table.rows[3].cells[1].value_text(), "1.5");
        let number = |row: usize| {
            table.rows[row].cells[0].value_text().replace('.', "").parse::<u64>().unwrap()
        };
        assert_eq!(number(2) + number(3), 333_333);
    }

    #[test]
    fn names_of_bands() {
        assert_eq!(band_name(0, 100_000), "all");
        assert_eq!(band_name(0, 50_000), "fastest 50 %");
        assert_eq!(band_name(90_000, 99_000), "90 to 99 %");
        assert_eq!(band_name(99_900, 100_000), "slowest 0.1 %");
    }
}
