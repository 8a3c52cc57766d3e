//! `highwater bench`.

use highwater_core::page::Order;
use highwater_native::bench::{
    BenchError, BenchOptions, BenchRow, PageRow, Pattern, run as measure, run_pages,
};
use highwater_report::{Cell, Layout, Table};

use super::args::BenchArgs;
use super::progress::Bar;
use super::{CliError, Outcome, print};
use crate::policy_file;

/// Measures the allocator on this computer, beside simpler ones; or page cache and faults, beside the computer's own.
pub(super) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    let failed = |error: BenchError| CliError::new(format!("bench: {error}"));
    let policy = policy_file::load(&args.policy)?;
    let bar = Bar::counting("bench", 1, "tables");
    if args.pages {
        let rows = run_pages(&policy, args.quick).map_err(failed)?;
        bar.finish();
        print(&super::tables(args.format, &[pages_table(&rows)]))?;
        return Ok(Outcome::Done);
    }
    let nodes = usize::from(args.nodes);
    let mut options =
        BenchOptions { quick: args.quick, nodes, policy: Some(policy), ..BenchOptions::default() };
    if !args.orders.is_empty() {
        options.orders = args.orders.iter().map(|&order| Order(order)).collect();
    }
    if !args.threads.is_empty() {
        options.threads = args.threads.iter().map(|&n| usize::from(n)).collect();
        if let Some(few) = args.threads.iter().find(|&&threads| threads < args.nodes) {
            let why = "each node needs a CPU, and so a thread";
            return Err(CliError::new(format!("--nodes {nodes} --threads {few}: {why}")));
        }
    } else {
        options.threads.retain(|&threads| threads >= nodes);
        if options.threads.is_empty() {
            options.threads = vec![nodes];
        }
    }
    if !args.patterns.is_empty() {
        let wanted = |p: &Pattern| args.patterns.iter().any(|name| name == p.name());
        options.patterns = Pattern::ALL.into_iter().filter(wanted).collect();
    }
    let rows = measure(&options).map_err(failed)?;
    bar.finish();
    print(&super::tables(args.format, &[table(args, &rows)]))?;
    Ok(Outcome::Done)
}

fn table(args: &BenchArgs, rows: &[BenchRow]) -> Table {
    let labels = ["allocator", "order", "pattern", "threads"];
    // CPU time alone would favour sleeping locks, whose waiters use no CPU time.
    let columns = ["CPU time", "best", "elapsed", "note"].map(str::to_owned).to_vec();
    let mut title = "native allocator benchmarks, ns per alloc+free".to_owned();
    if args.policy != "6.1" {
        title += &format!(", policy {}", args.policy);
    }
    if args.nodes > 1 {
        title += &format!(", {} nodes", args.nodes);
    }
    let mut table = Table::new(&title, &labels, columns, Layout::Fitted);
    for row in rows {
        let order = row.order.0.to_string();
        let threads = row.threads.to_string();
        let labels = [row.allocator, &order, row.pattern.name(), &threads];
        let times = [row.ns_per_pair, row.ns_per_pair_min, row.wall_ns_per_pair];
        let mut cells = times.map(|ns| Cell::number(ns, 1)).to_vec();
        cells.push(Cell::text(row.note.clone()));
        table.push(&labels, cells);
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
