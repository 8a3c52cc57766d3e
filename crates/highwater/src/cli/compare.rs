//! `highwater compare` and `highwater run`: resolve names, run the cells, print tables.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use highwater_core::config::Policy;
use highwater_report::worse::WorseError;
use highwater_results::store::{DOCUMENT_FILE, Store, StoreError};
use highwater_results::{MachineFigures, SERIES_FILE, Section};

use super::args::{
    self, CompareArgs, CompareCommand, FailArgs, HostArg, MachineArgs, RunArgs, SetArgs,
};
use super::progress::{Bar, NEVER, exit_on_interrupt};
use super::report::{self, Look};
use super::vary::GRID_FILE;
use super::{CliError, Outcome, print, vary};
use crate::experiment::{self, Experiment, HostKind, Ran, RunPlan, ablation};
use crate::input::names::unknown;
use crate::machine_file::{MachineArg, MachineFile};
use crate::policy_file;
use crate::settings::Settings;
use crate::workload::Registry;

/// Seed unless one is given.
const DEFAULT_SEED: u64 = 1;

/// Runs an experiment.
pub(super) fn run(registry: &Registry, args: &CompareCommand) -> Result<Outcome, CliError> {
    let CompareCommand { plan: args, histograms, all, fail } = args;
    let out = Out::new(args.out.as_deref(), args.force);
    if !args.vary.is_empty() {
        if *histograms || fail.fail_if_worse.is_some() {
            let reason = "--histograms and --fail-if-worse are of one comparison";
            return Err(CliError::new(format!("--vary {}: {reason}", args.vary[0])));
        }
        return vary::run(registry, args, out.as_ref());
    }
    let look = Look::new(args.format, *all);
    finish(&plan(registry, args, None)?, *histograms, fail, out.as_ref(), look)
}

/// What `compare` runs, with every name resolved. Of `iterations` seeds, or as many as the experiment has, unless the
/// user says how many.
pub(super) fn plan(
    registry: &Registry,
    args: &CompareArgs,
    iterations: Option<u32>,
) -> Result<RunPlan, CliError> {
    let mut experiment = experiment_of(registry, args)?;
    experiment.iterations = args.iterations.or(iterations).unwrap_or(experiment.iterations);
    let host = host_kind(args.host);
    let set = settings(&mut experiment, &args.set, host)?;
    if let (Some(_), Some(set)) = (args.iterations, set.iterations()) {
        return Err(CliError::new(format!("--set {set}: there is --iterations, too")));
    }
    let machines = machines(&mut experiment, &args.machine, &set, host)?;
    experiment.set_variants()?;
    let policies = policies(&experiment, &args.policies, &set)?;
    let policies = if args.ablate { taken_apart(&policies)? } else { policies };
    let settings = set.texts();
    let jobs = args.jobs.map_or_else(default_jobs, usize::from);
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let (explain, sample_every_ms) = (None, sampling(args.sample_every, host)?);
    Ok(RunPlan {
        experiment,
        host,
        machines,
        policies,
        seed,
        jobs,
        explain,
        sample_every_ms,
        settings,
    })
}

/// The experiment that `compare` was asked for.
fn experiment_of(registry: &Registry, args: &CompareArgs) -> Result<Experiment, CliError> {
    let mut experiment = Experiment::load(registry, &args.experiment)?;
    let name = experiment.name.clone();
    let refused = |option, which| CliError::new(format!("{option}: {name} has no {which} version"));
    if args.quick {
        experiment = experiment.quick().ok_or_else(|| refused("--quick", "smaller"))?;
    } else if args.full {
        experiment = experiment.full().ok_or_else(|| refused("--full", "larger"))?;
    }
    Ok(experiment)
}

/// Runs one workload under one policy.
pub(super) fn run_one(registry: &Registry, args: &RunArgs) -> Result<Outcome, CliError> {
    let mut experiment = experiment_of_workload(registry, &args.workload)?;
    let host = host_kind(args.host);
    if host == HostKind::Sim {
        args.machine.require()?;
    }
    let set = settings(&mut experiment, &args.set, host)?;
    let machines = machines(&mut experiment, &args.machine, &set, host)?;
    let policies = policies(&experiment, std::slice::from_ref(&args.policy), &set)?;
    let (seed, settings) = (args.seed.unwrap_or(DEFAULT_SEED), set.texts());
    let (jobs, explain) = (1, None);
    let sample_every_ms = sampling(args.sample_every, host)?;
    let plan = RunPlan {
        experiment,
        host,
        machines,
        policies,
        seed,
        jobs,
        explain,
        sample_every_ms,
        settings,
    };
    let out = Out::new(args.out.as_deref(), args.force);
    let (fail, look) = (FailArgs::default(), Look::new(args.format, args.all));
    finish(&plan, args.histograms, &fail, out.as_ref(), look)
}

/// The experiment that `run` makes of a workload: its study's, or if it has none, its defaults.
fn experiment_of_workload(registry: &Registry, name: &str) -> Result<Experiment, CliError> {
    let Some(entry) = registry.find(name) else {
        return Err(CliError::new(unknown("workload", name, &registry.names())));
    };
    let Some(study) = entry.study else { return Ok(Experiment::of_job(entry.defaults())) };
    let mut experiment = Experiment::load(registry, study)?;
    entry.name.clone_into(&mut experiment.name);
    experiment.iterations = 1;
    // The study's variants are for comparisons; here the user says what is otherwise.
    experiment.machines.clear();
    Ok(experiment)
}

/// What was set; what of it is the experiment's is set in it.
fn settings(
    experiment: &mut Experiment,
    args: &SetArgs,
    host: HostKind,
) -> Result<Settings, CliError> {
    let settings = Settings::parse(&args.set, experiment.job.entry().name)?;
    settings.check_host(host)?;
    settings.set_experiment(experiment)?;
    Ok(settings)
}

/// How often to take samples: of virtual time only.
fn sampling(every_ms: Option<u64>, host: HostKind) -> Result<Option<u64>, CliError> {
    match (every_ms, host) {
        (Some(_), HostKind::Native) => {
            Err(CliError::new("--sample-every: with --host native there is no virtual time"))
        }
        (every_ms, _) => Ok(every_ms),
    }
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
    settings: &Settings,
    host: HostKind,
) -> Result<Vec<MachineFile>, CliError> {
    let entry = experiment.job.entry();
    if let (HostKind::Native, Some(reason)) = (host, entry.not_native) {
        return Err(CliError::new(format!("--host native: {reason}")));
    }
    refuse_set_twice(experiment, settings)?;
    let machines = match (args.resolve()?, host) {
        (Some(machine), _) => on_each_variant(experiment, machine),
        (None, HostKind::Sim) => {
            let mut loaded = Vec::new();
            for at in 0..experiment.machines.len() {
                let mut machine = experiment.load_machine(at)?;
                machine.name = name_of(&machine, &experiment.machines[at].variant);
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
    let set = |machine| settings.set_machine(machine);
    let machines: Vec<MachineFile> = machines.into_iter().map(set).collect::<Result<_, _>>()?;
    let wanted = experiment.job.cpus_needed();
    for (at, machine) in machines.iter().enumerate() {
        let name = &machine.name;
        if machines[..at].iter().any(|other| other.name == *name) {
            let reason = "two machines have this name";
            return Err(CliError::new(format!("experiment {}: {name}: {reason}", experiment.name)));
        }
        let cpus = machine.machine.nr_cpus();
        if wanted > cpus {
            let workload = entry.name;
            return Err(CliError::new(format!(
                "machine {}: {workload} runs on CPU {}, but there are {cpus} CPUs",
                machine.name,
                wanted - 1
            )));
        }
    }
    // Only machines of the experiment have published figures.
    let known: Vec<MachineFigures> = experiment.machines.clone();
    experiment.machines =
        known.into_iter().filter(|e| machines.iter().any(|m| m.name == e.name)).collect();
    Ok(machines)
}

/// The name in reports of a machine that runs a variant.
fn name_of(machine: &MachineFile, variant: &str) -> String {
    match variant {
        "" => machine.name.clone(),
        variant => format!("{}-{variant}", machine.name),
    }
}

/// A machine of the user's, once for each variant of the experiment. Nothing was published of it.
fn on_each_variant(experiment: &mut Experiment, machine: MachineFile) -> Vec<MachineFile> {
    let mut variants: Vec<MachineFigures> = Vec::new();
    for MachineFigures { variant, set, .. } in &experiment.machines {
        let (variant, set) = (variant.clone(), set.clone());
        let name = name_of(&machine, &variant);
        if variants.iter().all(|other| other.name != name) {
            variants.push(MachineFigures { name, variant, set, ..MachineFigures::default() });
        }
    }
    if variants.iter().all(|variant| variant.set.is_empty()) {
        return vec![machine];
    }
    let named = |variant: &MachineFigures| {
        let mut named = machine.clone();
        named.name.clone_from(&variant.name);
        named
    };
    let machines = variants.iter().map(named).collect();
    experiment.machines = variants;
    machines
}

/// A parameter that is what variants differ in has no other value.
fn refuse_set_twice(experiment: &Experiment, settings: &Settings) -> Result<(), CliError> {
    let set = experiment.machines.iter().flat_map(|machine| &machine.set);
    for key in set.filter_map(|text| text.split('=').next()) {
        if let Some(text) = settings.of_workload(key) {
            let workload = experiment.job.entry().name;
            let reason = format!("what the variants differ in; highwater run {workload} takes it");
            return Err(CliError::new(format!("--set {text}: {reason}")));
        }
    }
    Ok(())
}

/// Policies with column headings, with what was set.
fn policies(
    experiment: &Experiment,
    names: &[String],
    settings: &Settings,
) -> Result<Vec<(Policy, String)>, CliError> {
    let named = policies_named(experiment, names)?;
    let mut policies = named.clone();
    for (policy, _) in &mut policies {
        settings.set_policy(policy)?;
    }
    // Nothing would be compared, and nobody would notice.
    let is_same =
        |all: &[(Policy, String)], a: usize, b: usize| all[a].0.differences(&all[b].0).is_empty();
    for b in 1..policies.len() {
        if let Some(a) = (0..b).find(|&a| is_same(&policies, a, b) && !is_same(&named, a, b)) {
            let (set, first, second) = (settings.of_policies(), &policies[a].1, &policies[b].1);
            return Err(CliError::new(format!(
                "{set}: {first} and {second} are the same policy then; --policy says which to run"
            )));
        }
    }
    Ok(policies)
}

/// The change from the first policy to the last taken apart.
fn taken_apart(policies: &[(Policy, String)]) -> Result<Vec<(Policy, String)>, CliError> {
    let (Some(first), Some(last)) = (policies.first(), policies.last()) else {
        return Err(CliError::new("--ablate: there are no policies".to_owned()));
    };
    ablation(first, last).ok_or_else(|| {
        let (from, to, points) = (&first.1, &last.1, first.0.differences(&last.0));
        let only = points.first().map_or("in nothing".to_owned(), |d| format!("in {d} only"));
        CliError::new(format!(
            "--ablate: {from} and {to} differ {only}: there is nothing to take apart"
        ))
    })
}

/// The user's policies, each headed by its name, else the experiment's.
fn policies_named(
    experiment: &Experiment,
    names: &[String],
) -> Result<Vec<(Policy, String)>, CliError> {
    if names.is_empty() {
        let mut policies: Vec<(_, String)> = Vec::new();
        for (at, entry) in experiment.policies.iter().enumerate() {
            let policy = experiment.load_policy(at)?;
            let label = entry.label.clone();
            // Before hours are spent on columns that nobody could tell apart.
            if policies.iter().any(|(_, other)| *other == label) {
                let reason = format!("two policies have the label \"{label}\"");
                return Err(experiment
                    .wrong(&format!("policy.{at}.label"), "label", reason)
                    .into());
            }
            policies.push((policy, label));
        }
        return Ok(policies);
    }
    let mut policies = Vec::new();
    for name in names {
        let policy = policy_file::load(name)?;
        // The name that was given: the experiment's heading may be of another column.
        let label = policy.name.clone();
        args::refuse_namesake(
            &label,
            name,
            policies.iter().map(|(_, other): &(_, String)| other.as_str()),
        )?;
        policies.push((policy, label));
    }
    Ok(policies)
}

/// Runs a plan and prints its report; with `out`, keeps the results.
fn finish(
    plan: &RunPlan,
    histograms: bool,
    fail: &FailArgs,
    out: Option<&Out<'_>>,
    look: Look,
) -> Result<Outcome, CliError> {
    let entry = plan.experiment.job.entry();
    if histograms && !entry.counts_delays {
        let name = entry.name;
        return Err(CliError::new(format!("--histograms: {name} counts no delays")));
    }
    // Before hours are spent on what cannot be judged or kept.
    if fail.fail_if_worse.is_some() {
        match (plan.policies.len(), plan.experiment.iterations) {
            (..2, _) => return Err(report::cannot_judge(WorseError::Alone)),
            (_, ..2) => return Err(report::cannot_judge(WorseError::OneSeed)),
            _ => {}
        }
    }
    let is_new = |out: &&Out<'_>| !out.dir.exists();
    let made = out.filter(is_new).map(|out| out.dir.to_owned());
    let store = out.map(Out::create).transpose()?;
    let is_keeping = exit_on_interrupt(made)?;
    let bar = Bar::start(plan);
    let Ran { mut document, series, .. } = experiment::run_all(plan, &bar, &NEVER)?;
    bar.finish();
    document.command_line = command_line();
    if histograms {
        // Before what the study is about, which is read last.
        let at = document.sections.len().saturating_sub(1);
        document.sections.insert(at, Section::Histograms);
    }
    document.validate().map_err(|error| CliError::new(error.to_string()))?;
    // First to the reader: a disk that is full takes the files, not the table.
    print(&report::text(&document, look)?)?;
    if let Some(store) = store {
        is_keeping.store(true, Ordering::Relaxed);
        let failed = |error: StoreError| CliError::new(error.to_string());
        store.write_document(&document).map_err(failed)?;
        let text = report::text(&document, look.kept())?;
        store.write_text("report.txt", &text).map_err(failed)?;
        if document.sampled.is_some() {
            let text = highwater_report::render::series::series(&series);
            store.write_text(SERIES_FILE, &text).map_err(failed)?;
        } else {
            // What another run left there is not this one's.
            store.remove(SERIES_FILE).map_err(failed)?;
        }
    }
    report::judge(&document, fail).map(report::tell)
}

/// Where results go.
pub(super) struct Out<'a> {
    pub(super) dir: &'a Path,
    /// Whatever is there.
    force: bool,
}

impl<'a> Out<'a> {
    fn new(dir: Option<&'a Path>, force: bool) -> Option<Out<'a>> {
        dir.map(|dir| Out { dir, force })
    }

    /// The directory, if it has no results that this run is not to replace.
    pub(super) fn create(&self) -> Result<Store, CliError> {
        let dir = self.dir.display();
        let has = |file: &str| self.dir.join(file).exists();
        if !self.force && (has(DOCUMENT_FILE) || has(GRID_FILE)) {
            let reason = "there are results in it; --force replaces them";
            return Err(CliError::new(format!("--out {dir}: {reason}")));
        }
        Store::create(self.dir).map_err(|error| CliError::new(error.to_string()))
    }
}

/// Options with a value that change no results.
const OF_OUTPUT: [&str; 5] = ["--jobs", "--out", "--folded", "--format", "--fail-if-worse"];

/// The command without what does not change its results.
pub(super) fn command_line() -> Vec<String> {
    let mut words = vec!["highwater".to_owned()];
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--force" | "--all" => {}
            option if OF_OUTPUT.contains(&option) => {
                args.next();
            }
            w if w.split_once('=').is_some_and(|(option, _)| OF_OUTPUT.contains(&option)) => {}
            _ => words.push(word),
        }
    }
    words
}
