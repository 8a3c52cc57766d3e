//! Plans of `compare` and `run`: resolves names of experiments, machines and policies before
//! anything runs.

use std::path::Path;
use std::thread;

use highwater_core::config::Policy;
use highwater_results::MachineFigures;

use super::args::{self, CompareArgs, HostArg, MachineArgs, RunArgs};
use super::{CliError, remark, remark_once};
use crate::experiment::{self, Experiment, HostKind, RunPlan, ablation};
use crate::input::names::unknown;
use crate::machine_file::{MachineArg, MachineFile, check_boots};
use crate::policy_file;
use crate::settings::Settings;
use crate::sysctls;
use crate::workload::job::Job;
use crate::workload::{Registry, Workload};

/// Seed unless one is given.
const DEFAULT_SEED: u64 = 1;

/// The plan of `compare`, with every name resolved. It has `iterations` seeds, or the experiment's
/// number, unless the user gives a number.
pub(super) fn experiment_plan(
    registry: &Registry,
    name: &str,
    args: &CompareArgs,
    iterations: Option<u32>,
) -> Result<RunPlan, CliError> {
    let mut experiment = experiment_of(registry, name, args)?;
    experiment.iterations = args.iterations.or(iterations).unwrap_or(experiment.iterations);
    let host = host_kind(args.host);
    let set = [&experiment.go_beyond(args.beyond, &args.set.set)?, &args.set.set[..]].concat();
    let set = settings(&mut experiment, &set, host)?;
    if let (Some(_), Some(set)) = (args.iterations, set.iterations()) {
        return Err(CliError::new(format!("--set {set}: there is --iterations, too")));
    }
    let machines = machines(&mut experiment, &args.machine, &set, host)?;
    experiment.set_variants()?;
    let policies = policies(&experiment, &args.policies, &set)?;
    // For a change, judge by the kernels of its two ends: policies in between have the newer
    // kernel's sysctls.
    sysctls::judge(&machines, &policies, &set)?.iter().for_each(|line| remark_once(line));
    let policies = if args.ablate { taken_apart(&machines, &policies)? } else { policies };
    let settings = set.texts();
    let jobs = args.jobs.map_or_else(default_jobs, usize::from);
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let sample_every_ms = sampling(args.sample_every, host)?;
    let plan = RunPlan::new(experiment, machines, policies);
    Ok(RunPlan { host, seed, jobs, sample_every_ms, settings, ..plan })
}

/// The experiment for `compare`.
fn experiment_of(
    registry: &Registry,
    name: &str,
    args: &CompareArgs,
) -> Result<Experiment, CliError> {
    let mut experiment = Experiment::load(registry, name)?;
    let name = experiment.name.clone();
    let refused = |option, which| CliError::new(format!("{option}: {name} has no {which} version"));
    if args.quick {
        experiment = experiment.quick().ok_or_else(|| refused("--quick", "smaller"))?;
    } else if args.full {
        experiment = experiment.full().ok_or_else(|| refused("--full", "larger"))?;
    }
    Ok(experiment)
}

/// The plan of `run`: one workload under one policy.
pub(super) fn workload_plan(registry: &Registry, args: &RunArgs) -> Result<RunPlan, CliError> {
    let mut experiment = experiment_of_workload(registry, &args.workload)?;
    let host = host_kind(args.host);
    // A job's file says on which machine; of a study's workload the user does.
    if host == HostKind::Sim && experiment.job.entry().name != Job::NAME {
        args.machine.require()?;
    }
    let set = settings(&mut experiment, &args.set.set, host)?;
    let machines = machines(&mut experiment, &args.machine, &set, host)?;
    let policies = policies(&experiment, std::slice::from_ref(&args.policy), &set)?;
    sysctls::judge(&machines, &policies, &set)?.iter().for_each(|line| remark_once(line));
    let (seed, settings) = (args.seed.unwrap_or(DEFAULT_SEED), set.texts());
    let sample_every_ms = sampling(args.sample_every, host)?;
    let plan = RunPlan::new(experiment, machines, policies);
    Ok(RunPlan { host, seed, sample_every_ms, settings, ..plan })
}

/// The experiment that `run` makes of a workload: that of its study, or the workload's defaults.
fn experiment_of_workload(registry: &Registry, name: &str) -> Result<Experiment, CliError> {
    let Some(entry) = registry.find(name) else {
        let Some(mut job) = Experiment::load_job(registry, name)? else {
            return Err(no_workload(registry, name));
        };
        job.iterations = 1;
        return Ok(job);
    };
    let Some(study) = entry.study else { return Ok(Experiment::of_job(entry.defaults())) };
    let mut experiment = Experiment::load(registry, study)?;
    entry.name.clone_into(&mut experiment.name);
    experiment.iterations = 1;
    // The study's variants are for comparisons; in `run` the user sets what differs.
    experiment.machines.clear();
    Ok(experiment)
}

/// A name that is neither a workload's, nor a job's, nor a file's.
fn no_workload(registry: &Registry, name: &str) -> CliError {
    let with_suffix = format!("{name}.toml");
    if Path::new(&with_suffix).is_file() {
        let meant = format!("did you mean {with_suffix}?");
        return CliError::new(format!("no file and no workload \"{name}\"; {meant}"));
    }
    // If loading an experiment fails too, `compare` reports the reason.
    if let Ok(Experiment { name: whole, job, .. }) = Experiment::load(registry, name) {
        let workload = job.entry().name;
        return CliError::new(format!(
            "{whole} is an experiment, of the workload {workload}: `highwater compare {name}` runs it"
        ));
    }
    let jobs = experiment::jobs(registry).unwrap_or_default();
    let mut known = registry.names();
    known.extend(jobs.iter().map(|job| job.name.as_str()));
    let meant = unknown("workload", name, &known).replacen(
        "unknown workload",
        "no file and no workload",
        1,
    );
    let then = if meant.ends_with('?') { "" } else { ";" };
    CliError::new(format!("{meant}{then} `highwater list workloads` lists them"))
}

/// The user's settings. Those that belong to the experiment are applied to it.
fn settings(
    experiment: &mut Experiment,
    texts: &[String],
    host: HostKind,
) -> Result<Settings, CliError> {
    let settings = Settings::parse(texts, experiment.job.entry().name)?;
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
                // A machine from a file has its own name.
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
    let set = |machine: MachineFile| -> Result<MachineFile, CliError> {
        Ok(settings.set_machine(args.equip(&machine, &settings.storage(), host)?)?)
    };
    let machines: Vec<MachineFile> = machines.into_iter().map(set).collect::<Result<_, _>>()?;
    if host == HostKind::Sim {
        for MachineFile { name, machine, .. } in &machines {
            check_boots(machine)
                .map_err(|reason| CliError::new(format!("machine {name}: {reason}")))?;
        }
    }
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

/// The user's machine, once for each variant of the experiment. There are no published figures for
/// it.
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

/// Refuses a parameter in which the variants differ, because each variant sets it already.
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

/// Policies with column headings, with the settings applied.
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
    // The comparison would compare a policy with itself, and the user might not notice.
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
fn taken_apart(
    machines: &[MachineFile],
    policies: &[(Policy, String)],
) -> Result<Vec<(Policy, String)>, CliError> {
    let (Some(first), Some(last)) = (policies.first(), policies.last()) else {
        return Err(CliError::new("--ablate: there are no policies".to_owned()));
    };
    let (from, to, points) = (&first.1, &last.1, first.0.differences(&last.0));
    let Some(only) = points.first() else {
        return Err(CliError::new(format!("--ablate: {from} and {to} are the same policy")));
    };
    if let Some(reason) = sysctls::of_one_end(machines, first, last) {
        return Err(CliError::new(format!("--ablate: {reason}")));
    }
    if let Some(parts) = ablation(first, last) {
        return Ok(parts);
    }
    // The two policies differ in one switch: show it as the whole change.
    remark(&format!("--ablate: {from} and {to} differ in {only} only: that is the whole change"));
    Ok(vec![first.clone(), last.clone()])
}

/// The user's policies, each headed by its name, else the experiment's.
fn policies_named(
    experiment: &Experiment,
    names: &[String],
) -> Result<Vec<(Policy, String)>, CliError> {
    if names.is_empty() {
        let mut policies: Vec<(_, String)> = Vec::new();
        for at in 0..experiment.nr_policies() {
            let (policy, label) = experiment.load_policy(at)?;
            // Refuse equal headings before spending hours: nobody could tell the columns apart.
            if policies.iter().any(|(_, other)| *other == label) {
                let reason = format!("two policies have the label \"{label}\"");
                return Err(experiment
                    .wrong(&experiment.policy_path(at, "label"), "label", reason)
                    .into());
            }
            policies.push((policy, label));
        }
        return Ok(policies);
    }
    let mut policies = Vec::new();
    for name in names {
        let policy = policy_file::load(name)?;
        // Use the given name, because the experiment's heading may belong to another column.
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
