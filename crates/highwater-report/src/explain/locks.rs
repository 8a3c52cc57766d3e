//! The table that lock_stat prints: who was waited for, how long, and who held it longest.

use highwater_results::explain::{ExplainedRun, LockRow};

use super::Column;
use crate::table::{Cell, Layout, Table};

/// Values that people compare with lock_stat's are in its unit.
const UNIT_NS: f64 = 1000.0;

/// Locks of policies on one machine, those waited for longest first; each policy with all its seeds.
pub fn locks(policies: &[Column<'_>]) -> Option<Table> {
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
    let mut nr_idle = 0;
    for (label, runs) in policies {
        let mut rows = merged(runs);
        let nr_classes = rows.len();
        rows.retain(|row| row.contended > 0);
        nr_idle += nr_classes - rows.len();
        for row in rows {
            table.push(&[label, &row.class], cells(&row));
        }
    }
    if table.rows.is_empty() && nr_idle == 0 {
        return None;
    }
    if nr_idle > 0 {
        let lines = if nr_idle == 1 { "class was" } else { "classes were" };
        table.notes.push(format!("{nr_idle} {lines} never waited for"));
    }
    Some(table)
}

/// The classes of several seeds, those waited for longest first.
pub(super) fn merged(runs: &[&ExplainedRun]) -> Vec<LockRow> {
    let mut rows: Vec<LockRow> = Vec::new();
    for other in runs.iter().flat_map(|run| &run.locks) {
        let Some(row) = rows.iter_mut().find(|row| row.class == other.class) else {
            rows.push(other.clone());
            continue;
        };
        row.taken += other.taken;
        row.contended += other.contended;
        row.wait_ns += other.wait_ns;
        row.wait_ns_max = row.wait_ns_max.max(other.wait_ns_max);
        row.hold_ns += other.hold_ns;
        if other.hold_ns_max > row.hold_ns_max {
            row.hold_ns_max = other.hold_ns_max;
            row.worst_holder.clone_from(&other.worst_holder);
        }
    }
    rows.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.class.cmp(&b.class)));
    rows
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
        if row.worst_holder.is_empty() {
            Cell::Missing
        } else {
            Cell::text(row.worst_holder.clone())
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::explanation;
    use super::*;
    use crate::render::terminal;

    #[test]
    fn those_waited_for_longest_come_first() {
        let explanation = explanation();
        let runs: Vec<_> = explanation.runs.iter().map(|r| (r.label.clone(), vec![r])).collect();
        let table = locks(&runs[..1]).unwrap();
        let expected = "\
locks (us)
policy     class     taken  contended     %  wait total  wait mean  wait max  hold total  hold mean  hold max                     longest holder
6.1-before lru         400        100  25.0        5000      50.00    900.00        8000      20.00    950.00  kswapd0 in node pass > isolate
6.1-before zone       1000         10   1.0          50       5.00     12.00        2000       2.00     30.00                                  -
# 1 class was never waited for
";
        let text = terminal(&table);
        let squeezed = |text: &str| {
            let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&text), squeezed(expected), "\n{text}");
    }

    #[test]
    fn seeds_are_added_up() {
        let explanation = explanation();
        let run = &explanation.runs[0];
        let rows = merged(&[run, run]);
        assert_eq!(
            (rows[0].class.as_str(), rows[0].taken, rows[0].wait_ns),
            ("lru", 800, 10_000_000)
        );
        assert_eq!(rows[0].hold_ns_max, 950_000);
    }

    #[test]
    fn no_locks_no_table() {
        assert!(locks(&[]).is_none());
    }
}
