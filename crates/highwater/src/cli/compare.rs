//! `highwater compare` and `highwater run`: resolve names, run the cells, print tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use highwater_report::compare::{Options, RowSet, comparison};
use highwater_report::render::{Format, json};
use highwater_report::{Table, by_seed, duration, evidence, histogram, vmstat};
use highwater_results::published::PublishedError;
use highwater_results::store::Store;
use highwater_results::{Document, TableKind};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::{CompareArgs, CompareCommand, HostArg, MachineArgs, RunArgs};
use super::{CliError, Outcome, print};
use crate::error::InputError;
use crate::experiment::{
    self, Experiment, HostKind, MachineEntry, Progress, RunPlan, STUTTERP_ROWS, Workload,
    WorkloadName, headline_table, published_tables, stalls_table,
};
use crate::machine_file::{MachineArg, MachineFile};
use crate::policy_file;

/// Seed unless one is given.
const DEFAULT_SEED: u64 = 1;

/// Names and titles of the experiments that come with the program.
pub(super) fn experiments() -> Vec<(String, String)> {
    let all = experiment::embedded().unwrap_or_default();
    all.into_iter().map(|e| (e.name, e.title)).collect()
}

/// Names of the workloads, with a line about each.
pub(super) fn workloads() -> Vec<(String, String)> {
    WorkloadName::ALL.iter().map(|w| (w.name().to_owned(), w.about().to_owned())).collect()
}

/// Runs an experiment.
pub(super) fn run(args: &CompareCommand) -> Result<Outcome, CliError> {
    let CompareCommand { plan: args, histograms } = args;
    finish(&plan(args)?, *histograms, args.out.as_deref(), args.format)
}

/// What `compare` runs, with every name resolved.
pub(super) fn plan(args: &CompareArgs) -> Result<RunPlan, CliError> {
    let mut experiment = experiment_of(args)?;
    let host = host_kind(args.host);
    let machines = machines(&mut experiment, &args.machine, host)?;
    let policies = policies(&experiment, &args.policies)?;
    let jobs = args.jobs.map_or_else(default_jobs, usize::from);
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    Ok(RunPlan { experiment, host, machines, policies, seed, jobs, explain: None })
}

/// The experiment that `compare` was asked for.
pub(super) fn experiment_of(args: &CompareArgs) -> Result<Experiment, CliError> {
    let mut experiment = load(&args.experiment)?;
    if args.quick {
        experiment = experiment.quick();
    } else if args.full {
        let name = experiment.name.clone();
        let refused = || CliError::new(format!("--full: {name} has no larger version"));
        experiment = experiment.full().ok_or_else(refused)?;
    }
    if let Some(iterations) = args.iterations {
        experiment.iterations = iterations;
    }
    Ok(experiment)
}

/// Runs one workload under one policy.
pub(super) fn run_one(args: &RunArgs) -> Result<Outcome, CliError> {
    let mut experiment = experiment_of_workload(&args.workload)?;
    let host = host_kind(args.host);
    if host == HostKind::Sim {
        args.machine.require()?;
    }
    let machines = machines(&mut experiment, &args.machine, host)?;
    let policies = policies(&experiment, std::slice::from_ref(&args.policy))?;
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let plan = RunPlan { experiment, host, machines, policies, seed, jobs: 1, explain: None };
    finish(&plan, args.histograms, args.out.as_deref(), args.format)
}

/// The experiment that `run` makes of a workload.
pub(super) fn experiment_of_workload(name: &str) -> Result<Experiment, CliError> {
    let Some(workload) = WorkloadName::ALL.iter().find(|w| w.name() == name) else {
        let known: Vec<_> = WorkloadName::ALL.iter().map(|w| w.name()).collect();
        let known = known.join(", ");
        return Err(CliError::new(format!("unknown workload \"{name}\"; there is {known}")));
    };
    let mut experiment = load(workload.default_experiment())?;
    experiment.name = workload.name().to_owned();
    experiment.iterations = 1;
    Ok(experiment)
}

fn load(name: &str) -> Result<Experiment, CliError> {
    Experiment::load(name).map_err(|error| CliError::new(error.to_string()))
}

const fn host_kind(arg: HostArg) -> HostKind {
    match arg {
        HostArg::Sim => HostKind::Sim,
        HostArg::Native => HostKind::Native,
    }
}

pub(super) fn default_jobs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The machines to run on: the user's, else the experiment's; on this computer one of its shape.
fn machines(
    experiment: &mut Experiment,
    args: &MachineArgs,
    host: HostKind,
) -> Result<Vec<MachineFile>, CliError> {
    if let (HostKind::Native, Some(reason)) = (host, experiment.workload.native_refusal()) {
        return Err(CliError::new(format!("--host native: {reason}")));
    }
    let machines = match (args.resolve()?, host) {
        (Some(machine), _) => vec![machine],
        (None, HostKind::Sim) => {
            let mut loaded = Vec::new();
            for at in 0..experiment.machines.len() {
                let machine = MachineFile::load(&experiment.machines[at].name)
                    .map_err(|error| of_experiment(experiment, "machine", error))?;
                // A file's machine has a name of its own.
                experiment.machines[at].name.clone_from(&machine.name);
                loaded.push(machine);
            }
            loaded
        }
        (None, HostKind::Native) => {
            let name = &experiment.name;
            let Some(shape) = &experiment.native else {
                let what = "the experiment has no shape for native runs; give --mem and --cpus";
                return Err(CliError::new(format!("experiment {name}: native: {what}")));
            };
            let mem = Some(format!("{}K", shape.memory.0 >> 10));
            let arg = MachineArg { mem, cpus: Some(shape.cpus), ..MachineArg::default() };
            let Some(mut machine) = arg.resolve()? else {
                return Err(CliError::new(format!("experiment {name}: native: no memory")));
            };
            "native".clone_into(&mut machine.name);
            vec![machine]
        }
    };
    let wanted = experiment.workload.cpus_needed();
    for machine in &machines {
        let cpus = machine.machine.nr_cpus();
        if wanted > cpus {
            let workload = experiment.workload.name().name();
            return Err(CliError::new(format!(
                "machine {}: {workload} runs on CPU {}, but there are {cpus} CPUs",
                machine.name,
                wanted - 1
            )));
        }
    }
    // Only machines of the experiment have published figures.
    let known: Vec<MachineEntry> = experiment.machines.clone();
    experiment.machines =
        known.into_iter().filter(|e| machines.iter().any(|m| m.name == e.name)).collect();
    Ok(machines)
}

/// A name in an experiment that leads nowhere; the option of that name was not given.
fn of_experiment(experiment: &Experiment, field: &str, error: InputError) -> CliError {
    if error.line.is_some() || !error.file.starts_with("--") {
        return error.into();
    }
    CliError::new(format!("experiment {}: {field}: {}", experiment.name, error.reason))
}

/// Policies with column headings: the user's, else the experiment's.
fn policies(
    experiment: &Experiment,
    names: &[String],
) -> Result<Vec<(highwater_core::config::Policy, String)>, CliError> {
    if names.is_empty() {
        let of = |entry: &experiment::PolicyEntry| {
            let policy = policy_file::load(&entry.name)
                .map_err(|error| of_experiment(experiment, "policy", error))?;
            Ok((policy, entry.label.clone()))
        };
        return experiment.policies.iter().map(of).collect();
    }
    let mut policies = Vec::new();
    for name in names {
        let policy = policy_file::load(name)?;
        let entry = experiment.policies.iter().find(|e| e.name == policy.name);
        let label = entry.map_or_else(|| policy.name.clone(), |e| e.label.clone());
        if policies.iter().any(|(_, other)| *other == label) {
            return Err(CliError::new(format!("--policy {name}: named twice")));
        }
        policies.push((policy, label));
    }
    Ok(policies)
}

fn finish(
    plan: &RunPlan,
    histograms: bool,
    out: Option<&std::path::Path>,
    format: Format,
) -> Result<Outcome, CliError> {
    let workload = &plan.experiment.workload;
    if histograms && !matches!(workload, Workload::Stutterp(_)) {
        let name = workload.name().name();
        return Err(CliError::new(format!("--histograms: {name} counts no delays")));
    }
    let stop = stop_on_interrupt()?;
    let bar = Bar::new();
    let mut document =
        experiment::run(plan, &bar, &stop).map_err(|error| CliError::new(error.to_string()))?;
    bar.0.finish_and_clear();
    document.command_line = command_line();
    document.validate().map_err(|error| CliError::new(error.to_string()))?;
    let tables = tables(plan, &document, histograms)?;
    let text = match format {
        Format::Json => json::document(&document, &tables),
        _ => format.renderer().tables(&tables),
    };
    if let Some(dir) = out {
        let failed = |error: highwater_results::store::StoreError| CliError::new(error.to_string());
        let store = Store::create(dir).map_err(failed)?;
        store.write_document(&document).map_err(failed)?;
        store
            .write_text("report.txt", &Format::Terminal.renderer().tables(&tables))
            .map_err(failed)?;
    }
    print(&text)?;
    Ok(Outcome::Done)
}

/// Everything to show: per machine the comparison, the published figures, what else was counted.
fn tables(plan: &RunPlan, document: &Document, histograms: bool) -> Result<Vec<Table>, CliError> {
    let is_stutterp = matches!(plan.experiment.workload, Workload::Stutterp(_));
    let style = Options::default().style;
    let mut tables = Vec::new();
    for (machine, runs) in document.by_machine() {
        let experiment = &plan.experiment;
        let mut headline = None;
        for metric in &document.metrics {
            let rows = match metric.table {
                TableKind::VariableTime if is_stutterp => {
                    RowSet::Only(STUTTERP_ROWS.map(str::to_owned).to_vec())
                }
                _ => RowSet::Means,
            };
            tables.push(comparison(metric, &runs, &Options { rows, style }));
            if is_stutterp && metric.table != TableKind::VariableTime {
                continue;
            }
            tables.extend(published(published_tables(experiment, metric, machine, &runs))?);
            headline = published(headline_table(experiment, metric, machine, &runs))?.or(headline);
            if runs.len() > 1 && experiment.iterations > 1 {
                tables.push(evidence::evidence(metric, &runs, style));
            }
            if runs.len() > 1 && metric.table == TableKind::VariableTime {
                tables.push(by_seed::samples(metric, &runs, style));
            }
        }
        tables.extend(published(experiment::claims_table(experiment, machine, &runs))?);
        tables.push(duration::duration(&runs, style));
        if is_stutterp {
            let totals = by_seed::totals(&runs);
            tables.extend(Some(totals).filter(|table| !table.rows.is_empty()));
            tables.push(vmstat::vmstat(&runs, style));
            tables.extend(published(stalls_table(experiment, machine, &runs))?);
        } else {
            tables.push(vmstat::brief(&runs, style));
        }
        if histograms {
            tables.extend(histogram::all_side_by_side(&runs));
        }
        tables.extend(headline);
    }
    Ok(tables)
}

fn published<T>(result: Result<T, PublishedError>) -> Result<T, CliError> {
    result.map_err(|error| CliError::new(error.to_string()))
}

/// The command without what does not change its results.
pub(super) fn command_line() -> Vec<String> {
    let mut words = vec!["highwater".to_owned()];
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--jobs" | "--out" | "--folded" => {
                args.next();
            }
            w if ["--jobs=", "--out=", "--folded="].iter().any(|o| w.starts_with(o)) => {}
            _ => words.push(word),
        }
    }
    words
}

/// Set when the user asks to stop; asked twice, the process ends at once.
pub(super) fn stop_on_interrupt() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|error| CliError::new(format!("cannot watch for interrupts: {error}")))?;
    Ok(stop)
}

/// Progress on stderr, if that is a terminal.
pub(super) struct Bar(pub(super) ProgressBar);

impl Bar {
    pub(super) fn new() -> Bar {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left") {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl Progress for Bar {
    fn cell_done(&self, done: usize, total: usize) {
        self.0.set_length(total as u64);
        self.0.set_position(done as u64);
    }
}
