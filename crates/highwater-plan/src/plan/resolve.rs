//! Resolves names to experiments, machines and policies: the run of one point of a plan.

use std::path::Path;

use highwater_core::config::Policy;
use highwater_results::{MachineFigures, setting};

use super::vary::MACHINE;
use super::{MachineOptions, Options, PlanError, Size, What, processors};
use crate::experiment::{self, Experiment, HostKind, RunPlan, ablation};
use crate::settings::{Said, SaidBy, Settings};
use crate::sysctls;
use highwater_files::input::InputError;
use highwater_files::input::names::unknown;
use highwater_files::machine_file::{MachineArg, MachineFile, check_boots};
use highwater_files::policy_file;
use highwater_runs::workload::job::Job;
use highwater_runs::workload::{Registry, Workload};

/// The policy of a single run.
const DEFAULT_POLICY: &str = "6.1";
/// Slowest operations of each policy on each machine that a story keeps.
const STORY_OPERATIONS: usize = 5;

/// The option that names policies.
pub const OPTION: &str = "--policy";
/// The same of `bisect`.
const ENDS: [&str; 2] = ["A", "B"];

/// The run of options without a varied key.
pub fn only(
    registry: &Registry,
    options: &Options,
    say: &mut Say<'_>,
) -> Result<RunPlan, PlanError> {
    resolve(registry, options, &[], &[], say)
}

/// The receiver of remarks.
pub type Say<'a> = dyn FnMut(String) + 'a;

/// The run of the grid's point at which `keys` have these `values`, with every name resolved.
pub(super) fn resolve(
    registry: &Registry,
    options: &Options,
    keys: &[String],
    values: &[String],
    say: &mut Say<'_>,
) -> Result<RunPlan, PlanError> {
    let host = options.host;
    let options = &Options { machine: options.machine.at(keys, values), ..options.clone() };
    let mut experiment = experiment_of(registry, options)?;
    experiment.iterations =
        options.iterations.or(options.iterations_unless_set).unwrap_or(experiment.iterations);
    let mut said = options.settings.clone();
    let of_point = keys.iter().zip(values).filter(|(key, _)| *key != MACHINE);
    said.extend(of_point.map(|(key, value)| Said::of(SaidBy::Vary, key, value)));
    let beyond = experiment.go_beyond(options.beyond, &said)?.into_iter();
    let beyond = beyond.map(|text| Said { text, by: SaidBy::Beyond });
    let said: Vec<Said> = beyond.chain(said).collect();
    let set = settings(&mut experiment, &said, host)?;
    if let (Some(_), Some(said)) = (options.iterations, set.iterations()) {
        return Err(PlanError::refused(said.to_string(), "there is --iterations, too"));
    }
    let machines = machines(&mut experiment, &options.machine, &set, host, say)?;
    experiment.set_variants()?;
    let policies = policies(&experiment, options, &set)?;
    // For a change, judge by the kernels of its two ends: policies in between have the newer
    // kernel's sysctls.
    sysctls::judge(&machines, &policies, &set)?.into_iter().for_each(&mut *say);
    let policies = match options.ablate {
        true => taken_apart(&machines, &policies, say)?,
        false => policies,
    };
    let sample_every_ms = sampling(options.sample_every_ms, host)?;
    let entry = experiment.job.entry();
    if options.histograms && !entry.counts_delays {
        let reason = format!("{} counts no delays", entry.name);
        return Err(PlanError::refused("--histograms", reason));
    }
    let story = (options.story && keys.is_empty()).then_some(STORY_OPERATIONS);
    let (seed, settings) = (options.seed, set.texts());
    let jobs = match options.what {
        What::Experiment(_) => options.jobs.unwrap_or_else(processors),
        What::Workload(_) => options.jobs.unwrap_or(1),
    };
    let plan = RunPlan::new(experiment, machines, policies);
    Ok(RunPlan { host, seed, jobs, sample_every_ms, story, settings, ..plan })
}

/// The experiment of the options, in the version that was asked for.
fn experiment_of(registry: &Registry, options: &Options) -> Result<Experiment, PlanError> {
    let mut experiment = match &options.what {
        What::Experiment(name) => Experiment::load(registry, name)?,
        What::Workload(name) => {
            let experiment = experiment_of_workload(registry, name)?;
            // A job's file says on which machine; of a study's workload the user does.
            if options.host == HostKind::Sim && experiment.job.entry().name != Job::NAME {
                options.machine.require()?;
            }
            experiment
        }
    };
    let (name, is_job) = (experiment.name.clone(), experiment.job.entry().name == Job::NAME);
    let refused = |option: &'static str, which| {
        let or_set = match is_job {
            true => ", or set its seconds (--set job.seconds=2)",
            false => "",
        };
        let reason = format!("{name} has no {which} version: leave {option} out{or_set}");
        PlanError::refused(option, reason)
    };
    experiment = match options.size {
        Size::AsWritten => experiment,
        Size::Quick => experiment.quick().ok_or_else(|| refused("--quick", "smaller"))?,
        Size::Full => experiment.full().ok_or_else(|| refused("--full", "larger"))?,
    };
    if let What::Workload(_) = options.what {
        // One run, of any size.
        experiment.iterations = 1;
    }
    Ok(experiment)
}

/// The names of policies that the user gives.
fn policies_of(options: &Options) -> Vec<String> {
    match &options.what {
        What::Workload(_) if options.policies.is_empty() => vec![DEFAULT_POLICY.to_owned()],
        _ => options.policies.clone(),
    }
}

/// The experiment that `run` makes of a workload: that of its study, or the workload's defaults.
fn experiment_of_workload(registry: &Registry, name: &str) -> Result<Experiment, PlanError> {
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
fn no_workload(registry: &Registry, name: &str) -> PlanError {
    let with_suffix = format!("{name}.toml");
    if Path::new(&with_suffix).is_file() {
        let meant = format!("did you mean {with_suffix}?");
        return PlanError::Unknown(format!("no file and no workload \"{name}\"; {meant}"));
    }
    // If loading an experiment fails too, `compare` reports the reason.
    if let Ok(Experiment { name: whole, job, .. }) = Experiment::load(registry, name) {
        let workload = job.entry().name;
        return PlanError::Unknown(format!(
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
    PlanError::Unknown(format!("{meant}{then} `highwater list workloads` lists them"))
}

/// The user's settings. Those that belong to the experiment are applied to it.
fn settings(
    experiment: &mut Experiment,
    said: &[Said],
    host: HostKind,
) -> Result<Settings, PlanError> {
    let settings = Settings::parse(said, experiment.job.entry().name)?;
    settings.check_host(host)?;
    experiment.set(&settings)?;
    Ok(settings)
}

/// How often to take samples: of virtual time only.
fn sampling(every_ms: Option<u64>, host: HostKind) -> Result<Option<u64>, PlanError> {
    match (every_ms, host) {
        (Some(_), HostKind::Native) => {
            let reason = "with --host native there is no virtual time";
            Err(PlanError::refused("--sample-every", reason))
        }
        (every_ms, _) => Ok(every_ms),
    }
}

/// The machines to run on: the user's, else the experiment's; on this computer one of its shape.
fn machines(
    experiment: &mut Experiment,
    options: &MachineOptions,
    settings: &Settings,
    host: HostKind,
    say: &mut Say<'_>,
) -> Result<Vec<MachineFile>, PlanError> {
    let entry = experiment.job.entry();
    if let (HostKind::Native, Some(reason)) = (host, entry.not_native) {
        return Err(PlanError::refused("--host native", reason));
    }
    refuse_set_twice(experiment, settings)?;
    let machines = match (options.resolve()?, host) {
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
                return Err(PlanError::refused(format!("experiment {name}: native"), what));
            };
            let mem = Some(format!("{}K", shape.memory.0 >> 10));
            let arg = MachineArg { mem, cpus: Some(shape.cpus), ..MachineArg::default() };
            let Some(mut machine) = arg.resolve()? else {
                return Err(PlanError::refused(format!("experiment {name}: native"), "no memory"));
            };
            "native".clone_into(&mut machine.name);
            vec![machine]
        }
    };
    let set = |machine: MachineFile| -> Result<MachineFile, PlanError> {
        let (equipped, added) = options.equip(&machine, &settings.storage(), host)?;
        added.into_iter().for_each(&mut *say);
        options.start(settings.set_machine(equipped)?, host, &mut *say)
    };
    let machines: Vec<MachineFile> = machines.into_iter().map(set).collect::<Result<_, _>>()?;
    if host == HostKind::Sim {
        for MachineFile { name, machine, .. } in &machines {
            check_boots(machine)
                .map_err(|reason| PlanError::refused(format!("machine {name}"), reason))?;
        }
    }
    let wanted = experiment.job.cpus_needed();
    for (at, machine) in machines.iter().enumerate() {
        let name = &machine.name;
        if machines[..at].iter().any(|other| other.name == *name) {
            let reason = "two machines have this name";
            let experiment = &experiment.name;
            return Err(PlanError::refused(format!("experiment {experiment}: {name}"), reason));
        }
        let cpus = machine.machine.nr_cpus();
        if wanted > cpus {
            let workload = entry.name;
            let last = wanted - 1;
            let reason = format!("{workload} runs on CPU {last}, but there are {cpus} CPUs");
            return Err(PlanError::refused(format!("machine {name}"), reason));
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
fn refuse_set_twice(experiment: &Experiment, settings: &Settings) -> Result<(), PlanError> {
    let set = experiment.machines.iter().flat_map(|machine| &machine.set);
    for (key, _) in set.filter_map(|text| setting::split(text)) {
        if let Some(said) = settings.of_workload(key) {
            let workload = experiment.job.entry().name;
            let reason = format!("what the variants differ in; highwater run {workload} takes it");
            return Err(PlanError::refused(said.to_string(), reason));
        }
    }
    Ok(())
}

/// Policies with column headings, with the settings applied.
fn policies(
    experiment: &Experiment,
    options: &Options,
    settings: &Settings,
) -> Result<Vec<(Policy, String)>, PlanError> {
    let named = policies_named(experiment, options)?;
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
            let reason = match options.ends {
                true => "are the same policy then: there is nothing to explain",
                false => "are the same policy then; --policy says which to run",
            };
            return Err(PlanError::refused(set, format!("{first} and {second} {reason}")));
        }
    }
    Ok(policies)
}

/// The change from the first policy to the last taken apart.
fn taken_apart(
    machines: &[MachineFile],
    policies: &[(Policy, String)],
    say: &mut Say<'_>,
) -> Result<Vec<(Policy, String)>, PlanError> {
    let (Some(first), Some(last)) = (policies.first(), policies.last()) else {
        return Err(PlanError::refused("--ablate", "there are no policies"));
    };
    let (from, to, points) = (&first.1, &last.1, first.0.differences(&last.0));
    let Some(only) = points.first() else {
        let reason = format!("{from} and {to} are the same policy");
        return Err(PlanError::refused("--ablate", reason));
    };
    if let Some(reason) = sysctls::of_one_end(machines, first, last) {
        return Err(PlanError::refused("--ablate", reason));
    }
    if let Some(parts) = ablation(first, last) {
        return Ok(parts);
    }
    // The two policies differ in one switch: show it as the whole change.
    say(format!("--ablate: {from} and {to} differ in {only} only: that is the whole change"));
    Ok(vec![first.clone(), last.clone()])
}

/// The user's policies, each headed by its name, else the experiment's.
fn policies_named(
    experiment: &Experiment,
    options: &Options,
) -> Result<Vec<(Policy, String)>, PlanError> {
    let names = policies_of(options);
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
    for (at, name) in names.iter().enumerate() {
        let option = match options.ends {
            true => ENDS.get(at).copied().unwrap_or(OPTION),
            false => OPTION,
        };
        let policy = policy_file::load(name).map_err(|error| match error.file == OPTION {
            true => InputError { file: option.to_owned(), ..error },
            false => error,
        })?;
        // Use the given name, because the experiment's heading may belong to another column.
        let label = policy.name.clone();
        let others = policies.iter().map(|(_, other): &(_, String)| other.as_str());
        refuse_namesake(option, &label, name, others)?;
        policies.push((policy, label));
    }
    Ok(policies)
}

/// Refuses a policy whose column would have the heading of one of the `others`. `given` is what the user wrote, behind
/// the option.
///
/// # Errors
/// Says what to change.
pub fn refuse_namesake<'o>(
    option: &str,
    name: &str,
    given: &str,
    mut others: impl Iterator<Item = &'o str>,
) -> Result<(), PlanError> {
    if others.all(|other| other != name) {
        return Ok(());
    }
    let reason = match name == given {
        true => "named twice".to_owned(),
        false => format!("is called \"{name}\", as another policy is; change its name"),
    };
    Err(PlanError::refused(format!("{option} {given}"), reason))
}
