//! `highwater bench`.

use highwater_core::page::Order;
use highwater_native::bench::{BenchOptions, BenchRow, Pattern, run as measure};
use highwater_report::{Cell, Layout, Table};

use super::args::BenchArgs;
use super::{CliError, Outcome, print};

/// Measures the allocator on this computer, beside simpler ones.
pub(super) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    let mut options = BenchOptions { quick: args.quick, ..BenchOptions::default() };
    if !args.orders.is_empty() {
        options.orders = args.orders.iter().map(|&order| Order(order)).collect();
    }
    if !args.threads.is_empty() {
        options.threads = args.threads.iter().map(|&n| usize::from(n)).collect();
    }
    if !args.patterns.is_empty() {
        let wanted = |p: &Pattern| args.patterns.iter().any(|name| name == p.name());
        options.patterns = Pattern::ALL.into_iter().filter(wanted).collect();
    }
    let rows = measure(&options).map_err(|error| CliError::new(format!("bench: {error}")))?;
    print(&super::tables(args.format, &[table(&rows)]))?;
    Ok(Outcome::Done)
}

fn table(rows: &[BenchRow]) -> Table {
    let labels = ["allocator", "order", "pattern", "threads"];
    let columns = vec!["ns per alloc+free".to_owned(), "note".to_owned()];
    let mut table = Table::new("native allocator benchmarks", &labels, columns, Layout::Fitted);
    for row in rows {
        let order = row.order.0.to_string();
        let threads = row.threads.to_string();
        let labels = [row.allocator, &order, row.pattern.name(), &threads];
        table.push(&labels, vec![Cell::number(row.ns_per_pair, 1), Cell::text(row.note.clone())]);
    }
    table
}
