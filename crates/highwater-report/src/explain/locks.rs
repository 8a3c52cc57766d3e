//! The lock_stat table: contentions, waiting times, and the task that held each lock longest.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use highwater_results::explain::{Explanation, LockRow};

use super::Column;
use crate::table::{Cell, Layout, Table};

/// Values are in lock_stat's unit (microseconds), so that readers can compare them.
const UNIT_NS: f64 = 1000.0;

/// Lock classes that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Classes that a task waited for under some policy; a note gives the number of the others.
    Waited,
    /// All classes that were taken.
    Taken,
}

/// Locks of policies on one machine, those with the longest total wait first.
pub fn locks(policies: &[Column<'_>], classes: Classes) -> Option<Table> {
    let columns = [
        "taken",
        "contended",
        "%",
        "wait total",
        "wait mean",
        "wait max",
        "hold total",
        "hold mean",
        "hold max",
        "longest holder",
    ];
    let columns = columns.map(str::to_owned).to_vec();
    let title = "locks (us)";
    let mut table = Table::new(title, &["policy", "class"], columns, Layout::Fitted);
    let all = || policies.iter().flat_map(|(_, run)| &run.locks).filter(|row| row.taken > 0);
    let names = |wanted: fn(&LockRow) -> bool| {
        all().filter(|row| wanted(row)).map(|row| row.class.as_str()).collect::<BTreeSet<&str>>()
    };
    let taken = names(|_| true);
    let waited = names(|row| row.contended > 0);
    let shown = if classes == Classes::Taken { &taken } else { &waited };
    for (label, run) in policies {
        let of_policy = run.locks.iter().filter(|row| row.taken > 0);
        let mut rows: Vec<&LockRow> =
            of_policy.filter(|row| shown.contains(row.class.as_str())).collect();
        rows.sort_by_key(|row| (Reverse((row.wait_ns, row.hold_ns)), &row.class));
        for row in rows {
            table.push(&[label, &row.class], cells(row));
        }
    }
    if taken.is_empty() {
        return None;
    }
    match taken.len() - waited.len() {
        _ if classes == Classes::Taken => {}
        0 => {}
        1 => table.notes.push("1 class of locks was taken and never waited for".to_owned()),
        nr => table.notes.push(format!("{nr} classes of locks were taken and never waited for")),
    }
    Some(table)
}

/// Every class that a run took, as numbers. Nothing is rounded, summed or left out.
pub(super) fn rows(explanation: &Explanation) -> Table {
    let columns = [
        "taken",
        "contended",
        "wait ns",
        "wait ns max",
        "hold ns",
        "hold ns max",
        "longest holder",
    ];
    let columns = columns.map(str::to_owned).to_vec();
    let labels = ["machine", "policy", "seed", "class"];
    let mut table = Table::new("locks", &labels, columns, Layout::Fitted);
    for run in &explanation.runs {
        let seed = run.seed.to_string();
        for row in run.locks.iter().filter(|row| row.taken > 0) {
            let numbers = [
                row.taken,
                row.contended,
                row.wait_ns,
                row.wait_ns_max,
                row.hold_ns,
                row.hold_ns_max,
            ];
            // Exact below 2^53.
            let mut cells: Vec<Cell> =
                numbers.iter().map(|&number| Cell::number(number as f64, 0)).collect();
            cells.push(holder(row));
            table.push(&[&run.machine, &run.label, &seed, &row.class], cells);
        }
    }
    table
}

fn holder(row: &LockRow) -> Cell {
    match row.worst_holder.as_str() {
        "" => Cell::Missing,
        holder => Cell::text(holder.to_owned()),
    }
}

fn cells(row: &LockRow) -> Vec<Cell> {
    let us = |ns: u64, decimals: u8| Cell::number(ns as f64 / UNIT_NS, decimals);
    let mean = |ns: u64, count: u64| Cell::number(ns as f64 / UNIT_NS / count.max(1) as f64, 2);
    let share = 100.0 * row.contended as f64 / row.taken.max(1) as f64;
    vec![
        Cell::number(row.taken as f64, 0),
        Cell::number(row.contended as f64, 0),
        Cell::number(share, 1),
        us(row.wait_ns, 0),
        mean(row.wait_ns, row.contended),
        us(row.wait_ns_max, 2),
        us(row.hold_ns, 0),
        mean(row.hold_ns, row.taken),
        us(row.hold_ns_max, 2),
        match row.worst_holder.as_str() {
            "" => Cell::Missing,
            holder => Cell::text(shortened(holder)),
        },
    ]
}

/// Shortens a holder's path to its last two parts, so that a table fits a page. CSV and JSON have the
/// whole path.
fn shortened(holder: &str) -> String {
    let (task, path) = holder.split_once(": ").unwrap_or(("", holder));
    let parts: Vec<&str> = path.split(" > ").collect();
    match parts.as_slice() {
        [_, .., before, last] if parts.len() > 3 && !task.is_empty() => {
            format!("{task}: ... > {before} > {last}")
        }
        _ => holder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::tests::explanation;
    use super::*;
    use crate::render::Format;

    #[test]
    fn a_long_path_of_a_holder_is_shortened() {
        let long = "leaker/0: page fault > slow allocation > direct reclaim > isolate";
        assert_eq!(shortened(long), "leaker/0: ... > direct reclaim > isolate");
        for short in ["leaker/0: exit", "kswapd0 in node pass > isolate", "a: b > c > d", ""] {
            assert_eq!(shortened(short), short);
        }
    }

    #[test]
    fn those_waited_for_longest_come_first() {
        let explanation = explanation();
        let table = locks(&columns(&explanation)[..1], Classes::Waited).unwrap();
        let expected = "\
locks (us)
policy     class     taken  contended     %  wait total  wait mean  wait max  hold total  hold mean  hold max                     longest holder
6.1-before lru         400        100  25.0        5000      50.00    900.00        8000      20.00    950.00  kswapd0 in node pass > isolate
6.1-before zone       1000         10   1.0          50       5.00     12.00        2000       2.00     30.00                                  -
# 1 class of locks was taken and never waited for
";
        // A page of 150 columns keeps the table in one piece.
        let text = Format::Terminal.tables(std::slice::from_ref(&table), 150);
        let squeezed = |text: &str| {
            let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&text), squeezed(expected), "\n{text}");
    }

    fn columns(explanation: &Explanation) -> Vec<Column<'_>> {
        let runs = explanation.runs.iter();
        runs.map(|run| (run.label.clone(), Cow::Borrowed(run))).collect()
    }

    #[test]
    fn a_class_is_counted_once_whatever_the_number_of_policies() {
        let mut explanation = explanation();
        explanation.runs[1].locks[0].contended = 0;
        let table = locks(&columns(&explanation), Classes::Waited).unwrap();
        assert_eq!(table.notes, ["1 class of locks was taken and never waited for"]);
        assert_eq!(table.rows.len(), 4, "waited for under one policy: shown for both");
        let table = locks(&columns(&explanation), Classes::Taken).unwrap();
        assert_eq!((table.rows.len(), table.notes.len()), (6, 0));
    }

    #[test]
    fn as_numbers_all_are_there() {
        let mut explanation = explanation();
        explanation.runs[1].locks[2].taken = 0;
        let table = rows(&explanation);
        assert_eq!(table.rows.len(), 5, "none that nobody took");
        assert_eq!(table.rows[2].labels, ["server", "6.1-before", "1", "i_pages"]);
        assert_eq!(table.rows[0].cells[4].value_text(), "2000000");
    }

    #[test]
    fn no_locks_no_table() {
        assert!(locks(&[], Classes::Taken).is_none());
    }
}
