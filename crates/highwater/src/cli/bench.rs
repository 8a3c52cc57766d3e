//! `highwater bench`.

use highwater_core::config::preset;
use highwater_core::page::Order;
use highwater_native::bench::{
    BenchError, BenchOptions, BenchRow, PageRow, Pattern, run as measure, run_pages,
};
use highwater_report::{Cell, Layout, Table};

use super::args::BenchArgs;
use super::{CliError, Outcome, print};

/// Measures the allocator on this computer, beside simpler ones; or page cache and faults, beside the computer's own.
pub(super) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    let failed = |error: BenchError| CliError::new(format!("bench: {error}"));
    if args.pages {
        let policy = preset("6.1").ok_or_else(|| CliError::new("the 6.1 preset is missing"))?;
        let rows = run_pages(&policy, args.quick).map_err(failed)?;
        print(&super::tables(args.format, &[pages_table(&rows)]))?;
        return Ok(Outcome::Done);
    }
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
    let rows = measure(&options).map_err(failed)?;
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

fn pages_table(rows: &[PageRow]) -> Table {
    let columns = ["highwater", "this computer's kernel"].map(str::to_owned).to_vec();
    let title = "page cache and faults, ns per page";
    let mut table = Table::new(title, &["operation"], columns, Layout::Fitted);
    for row in rows {
        let cells = vec![Cell::number(row.ours_ns, 1), Cell::number(row.system_ns, 1)];
        table.push(&[row.operation.name()], cells);
    }
    table
}
