//! `highwater explain`: run an experiment with its time booked by cause, print where the time of the
//! slowest operations went.

use std::path::Path;

use highwater_report::explain as report;
use highwater_report::render::Format;
use highwater_results::explain::{EXPLAIN_FILE, Explanation};
use highwater_results::store::{Store, StoreError, write_atomically};

use super::args::ExplainArgs;
use super::interrupt::{AtEnd, NEVER, exit_on_interrupt};
use super::out::{check_dir, check_file};
use super::plan::run_plan;
use super::progress::Bar;
use super::{CliError, Outcome, command_line, print, remark};
use crate::experiment::RunPlan;
use crate::explain::{self, source};
use crate::plan::processors;
use crate::workload::job::Job;
use crate::workload::{Registry, Workload};

/// Where `--folded` prints to stdout.
const STDOUT: &str = "-";
/// Default number of seeds: one slow operation has one story.
const ONCE: u32 = 1;

/// Explains an experiment, or the results in a directory.
pub(super) fn run(registry: &Registry, args: &ExplainArgs) -> Result<Outcome, CliError> {
    let path = Path::new(&args.experiment);
    // Before anything runs.
    args.out.as_deref().map_or(Ok(()), |dir| check_dir("--out", dir))?;
    if let Some(file) = args.folded.as_deref().filter(|file| *file != Path::new(STDOUT)) {
        check_file("--folded", file)?;
    }
    let explanation = match source::of(registry, &args.experiment)? {
        source::Source::Experiment => measure(run_plan(registry, &args.options(ONCE))?, args)?,
        source::Source::Results(document) => {
            refuse_options(args, &[])?;
            let mut plan = source::repeat(registry, &document, path)?;
            plan.experiment.iterations = args.iterations.unwrap_or(ONCE);
            // Unless the user asks for several seeds, take the one with the slowest operation.
            if let (None, Some((run, slowest))) = (args.iterations, document.slowest()) {
                plan.seed = slowest.seed;
                let (operation, label, machine) = (&slowest.operation, &run.label, &run.machine);
                let place = format!("{operation} under {label} on {machine}");
                remark(&format!("seed {}: the slowest operation, {place}", slowest.seed));
            }
            plan.jobs = args.jobs.said().unwrap_or_else(processors);
            measure(plan, args)?
        }
        source::Source::Explained(mut known) => {
            let of_a_run =
                [("--iterations", args.iterations.is_some()), ("--jobs", args.jobs.jobs.is_some())];
            refuse_options(args, &of_a_run)?;
            if let Some(op) = &args.op {
                explain::of_operation(&mut known, op, &[]).map_err(CliError::new)?;
            }
            known.runs.iter_mut().for_each(|run| run.worst.truncate(args.worst));
            *known
        }
    };
    if let Some(dir) = &args.out {
        write(dir, &explanation)?;
    }
    match args.folded.as_deref() {
        Some(file) if file == Path::new(STDOUT) => print(&report::folded(&explanation))?,
        Some(file) => {
            write_atomically(file, report::folded(&explanation).as_bytes()).map_err(failed)?;
            print(&report::render_in(&explanation, args.format, super::terminal()))?;
        }
        None => print(&report::render_in(&explanation, args.format, super::terminal()))?,
    }
    Ok(Outcome::Done)
}

/// Runs a plan with its time booked.
fn measure(mut plan: RunPlan, args: &ExplainArgs) -> Result<Explanation, CliError> {
    plan.explain = Some(args.worst);
    plan.only_op.clone_from(&args.op);
    if let Some(op) = &args.op {
        check_operation(&plan, op)?;
    }
    exit_on_interrupt(AtEnd::default())?;
    let bar = Bar::start(&plan);
    let mut explanation = explain::explain(&plan, command_line(), &bar, &NEVER)?;
    bar.finish();
    if let Some(op) = &args.op {
        let known = plan.experiment.job.operations();
        explain::of_operation(&mut explanation, op, &known).map_err(CliError::new)?;
    }
    Ok(explanation)
}

/// Refuses an operation that the workload is known not to have, before anything runs.
pub(super) fn check_operation(plan: &RunPlan, op: &str) -> Result<(), CliError> {
    let known = plan.experiment.job.operations();
    let is_job = plan.experiment.job.entry().name == Job::NAME;
    if known.is_empty() && !is_job {
        // Nobody knows before a run.
        return Ok(());
    }
    explain::is_operation(op, known.iter().map(String::as_str)).map_err(CliError::new)?;
    match plan.experiment.job.not_booked(op) {
        Some(reason) => Err(CliError::new(format!("--op {op}: {reason}"))),
        None => Ok(()),
    }
}

/// A directory defines its own run, so these options are refused. `more` lists further options that
/// do not apply.
fn refuse_options(args: &ExplainArgs, more: &[(&str, bool)]) -> Result<(), CliError> {
    let machine = &args.machine;
    let given = [
        ("--quick", args.size.quick),
        ("--full", args.size.full),
        ("--seed", args.seed.seed.is_some()),
        ("--host", args.host.is_some()),
        ("--policy", !args.policies.is_empty()),
        ("--set", !args.set.set.is_empty()),
        ("--machine", machine.machine.is_some()),
        ("--mem", machine.mem.is_some()),
        ("--cpus", machine.cpus.is_some()),
        ("--numa", !machine.numa.is_empty()),
        ("--numa-distance", !machine.numa_distance.is_empty()),
        ("--disk", machine.disk.is_some()),
        ("--swap", machine.swap.is_some()),
    ];
    match given.iter().chain(more).find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let dir = &args.experiment;
            Err(CliError::new(format!("{option}: not with a directory; {dir} says what was run")))
        }
    }
}

/// All that can be kept.
fn write(dir: &Path, explanation: &Explanation) -> Result<(), CliError> {
    let store = Store::create(dir).map_err(failed)?;
    for (name, text) in [
        (EXPLAIN_FILE, report::json(explanation)),
        ("explain.txt", report::render(explanation, Format::Terminal)),
        ("folded.txt", report::folded(explanation)),
    ] {
        store.write_text(name, &text).map_err(failed)?;
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: StoreError) -> CliError {
    CliError::new(error.to_string())
}
