//! Two policies side by side on the simulated machine: one experiment, one table.
//!
//! ```text
//! cargo run --release --example before_after -p highwater
//! ```
//!
//! The command does the same and shows more: `highwater compare 002 --quick --machine
//! netperf-1-socket --policy 5.17 --policy 5.18`.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use highwater::experiment::{self, Experiment, Progress, RunPlan};
use highwater::machine_file::MachineFile;
use highwater::policy_file;
use highwater::report::{Format, Options, RowSet, comparison};
use highwater::workload::Registry;

fn main() -> Result<(), Box<dyn Error>> {
    // Study 002: netperf over loopback, blocks allocated on one CPU and freed on another.
    let experiment = Experiment::load(&Registry::default(), "002")?;
    let experiment = experiment.quick().ok_or("the study has a smaller version")?;

    // The first policy is the baseline. 5.17 keeps high-order blocks on a CPU's lists without
    // limit, 5.18 gives them back once the CPU mostly frees.
    let policies = [("5.17", "before"), ("5.18", "after")]
        .into_iter()
        .map(|(name, label)| Ok((policy_file::load(name)?, label.to_owned())))
        .collect::<Result<_, highwater::InputError>>()?;
    // A small cache: on "netperf-2-socket" the two differ by less than a percent.
    let machines = vec![MachineFile::load("netperf-1-socket")?];
    let plan = RunPlan { jobs: 2, ..RunPlan::new(experiment, machines, policies) };

    // Results are plain rows; reports are made of rows only. The same plan gives the same bytes.
    let document = experiment::run(&plan, &Dots, &AtomicBool::new(false))?;
    let options = Options { rows: RowSet::Means, ..Options::default() };
    let mut tables = Vec::new();
    for (_, runs) in document.by_machine() {
        tables.extend(document.metrics.iter().map(|metric| comparison(metric, &runs, &options)));
    }
    println!("{}", Format::Terminal.renderer().tables(&tables));
    Ok(())
}

/// Told about every finished cell (one policy on one machine with one seed).
struct Dots;

impl Progress for Dots {
    fn cell_done(&self, done: usize, total: usize) {
        eprintln!("{done} of {total}");
    }
}
