//! What would a kernel with one rule changed have done? A policy of your own, replayed over a trace.
//!
//! ```text
//! cargo run --release --example custom_policy -p highwater [trace]
//! ```
//!
//! A policy is a value: take a kernel's and change a field. (The same as a file, for the command:
//! `base = "6.1"` and `[pcp] lists = "order0"`.)

use std::error::Error;
use std::path::PathBuf;

use highwater::core::config::{HighOrderFree, PcpLists, preset};
use highwater::replay::{self, EventKind, UseSidecars};

const TRACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../reference/linux-6.1/traces/unix-stream-16384.trace.gz"
);

fn main() -> Result<(), Box<dyn Error>> {
    let trace = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(TRACE), PathBuf::from);

    let kernel = preset("6.1").ok_or("no such kernel")?;
    // Single pages only on the CPUs' lists, as before 5.14.
    let mut order0 = kernel.clone();
    "6.1, order 0 lists".clone_into(&mut order0.name);
    order0.pcp.lists = PcpLists::Order0;
    // Larger blocks stay on the lists however much a CPU frees.
    let mut cached = kernel.clone();
    "6.1, no limit".clone_into(&mut cached.name);
    cached.pcp.high_order_free = HighOrderFree::Cached;

    // The trace was captured from a real 6.1; the files beside it say where memory stood.
    let report = replay::run(&trace, &[kernel, order0, cached], None, UseSidecars::Yes)?;

    println!("{:22}{:>12}{:>12}{:>16}", "", "refills", "drains", "hottest block");
    let line = |name: &str, tally: &replay::Tally| {
        let (refills, drains) = (EventKind::ZoneLocked, EventKind::PcpuDrain);
        let (refills, drains) = (tally.total(refills), tally.total(drains));
        println!("{name:22}{refills:>12}{drains:>12}{:>11} uses", tally.hottest_uses());
    };
    line("Linux, as traced", &report.survey.tally);
    for replay in &report.replays {
        line(&replay.policy.name, &replay.tally);
    }
    Ok(())
}
