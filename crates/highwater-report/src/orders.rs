//! Figures of each order at the ends of a run's phases: the fragmentation of free memory.
//!
//! A metric's operations are named `METRIC PHASE at order N`. The table has one row for each phase
//! and run, and one column for each order. One row per operation would make about a hundred rows.

use highwater_results::{Metric, Run};

use crate::table::{Cell, Layout, Table};

/// Phase and order of an operation.
fn parts<'a>(metric: &str, operation: &'a str) -> Option<(&'a str, u32)> {
    let (phase, order) = operation.strip_prefix(metric)?.trim_start().split_once(" at order ")?;
    Some((phase, order.parse().ok()?))
}

/// The means of runs of one machine.
pub fn orders(metric: &Metric, runs: &[&Run]) -> Table {
    let name = &metric.name;
    let all: Vec<(&str, u32)> =
        metric.operations.iter().filter_map(|operation| parts(name, operation)).collect();
    let (mut phases, mut orders) = (Vec::new(), Vec::new());
    for &(phase, order) in &all {
        if !phases.contains(&phase) {
            phases.push(phase);
        }
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    let title = format!("{name} by order ({})", metric.unit);
    let columns = orders.iter().map(|order| format!("order {order}")).collect();
    let mut table = Table::new(title, &["end of", "run"], columns, Layout::Fitted);
    for phase in phases {
        for run in runs {
            let mean = |order: &u32| {
                let values = run.values(&format!("{name} {phase} at order {order}"));
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                if values.is_empty() { Cell::Missing } else { Cell::number(mean, 0) }
            };
            table.push(&[phase, &run.label], orders.iter().map(mean).collect());
        }
    }
    if !metric.about.is_empty() {
        table.notes.push(metric.about.clone());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Better, TableKind};

    #[test]
    fn phases_are_rows_and_orders_columns() {
        let mut metric = Metric::new("unusable", "thousandths", Better::Lower, TableKind::Single);
        let operation = |phase: &str, order: u32| format!("unusable {phase} at order {order}");
        metric.operations =
            ["builds", "pass 1"].iter().flat_map(|p| [2, 9].map(|o| operation(p, o))).collect();
        metric.operations.push("something else".to_owned());
        let mut run = Run::new("m", "p", "p");
        run.push(&operation("builds", 9), 0, 1, 10.0);
        run.push(&operation("builds", 9), 1, 2, 20.0);
        let table = orders(&metric, &[&run]);
        assert_eq!(table.columns, ["order 2", "order 9"]);
        let texts = |row: &crate::table::Row| -> Vec<String> {
            row.cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(table.rows.iter().map(texts).collect::<Vec<_>>(), [["-", "15"], ["-", "-"]]);
        assert_eq!(table.rows[1].labels, ["pass 1", "p"]);
    }
}
