//! Options as JSON: what the Python package makes of its arguments, and what a pickled plan holds.

use highwater::experiment::HostKind;
use highwater::input::held::Texts;
use highwater::machine_file::MachineArg;
use highwater::machine_file::equip::Storage;
use highwater::plan::{
    BisectOptions, ExplainOptions, Factor, FitOptions, MachineOptions, OneRunOptions, Options, Size,
};
use highwater::replay::ReplayOptions;
use highwater::settings::Said;
use serde::Deserialize;

use crate::error::Failed;

/// Most seeds, and most simulations at a time, as the command has it.
const SEEDS_MAX: u32 = 10_000;
const JOBS_MAX: usize = 1024;
const CPUS_MAX: u16 = highwater::input::size::CPUS_MAX;

/// The arguments of a plan or a search; those that are not given are null or empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Spec {
    /// The experiment, job, workload, trace or directory.
    what: String,
    /// One run of a workload, as the command `run` does it.
    is_run: bool,
    quick: bool,
    full: bool,
    beyond: bool,
    ablate: bool,
    histograms: bool,
    story: bool,
    machine: Option<String>,
    mem: Option<String>,
    cpus: Option<u16>,
    numa: Vec<String>,
    numa_distance: Vec<String>,
    disk: Option<String>,
    swap: Option<String>,
    state: Option<String>,
    policies: Vec<String>,
    set: Vec<String>,
    vary: Vec<(String, Vec<String>)>,
    iterations: Option<u32>,
    seed: Option<u64>,
    jobs: Option<usize>,
    native: Option<bool>,
    sample_every_ms: Option<u64>,
    /// Of `fit`.
    slo: Vec<String>,
    min: Option<String>,
    from: Option<String>,
    to: Option<String>,
    within: Option<f64>,
    allow_kills: bool,
    /// Of `bisect`.
    metric: String,
    /// Of `explain`.
    op: Option<String>,
    worst: Option<usize>,
    /// Of `replay`.
    no_sidecars: bool,
    partial: bool,
}

/// Options, and the texts of files that they name.
pub(crate) struct Given {
    pub(crate) spec: Spec,
    pub(crate) texts: Texts,
}

impl Spec {
    /// Reads the JSON, and refuses what the command's parser would refuse.
    pub(crate) fn parse(text: &str) -> Result<Spec, Failed> {
        let spec: Spec =
            serde_json::from_str(text).map_err(|error| Failed::said(error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), Failed> {
        let within = |name: &str, value: Option<u64>, most: u64| match value {
            Some(value) if !(1..=most).contains(&value) => {
                Err(Failed::said(format!("{name}: must be between 1 and {most}, not {value}")))
            }
            _ => Ok(()),
        };
        within("seeds", self.iterations.map(u64::from), SEEDS_MAX.into())?;
        within("jobs", self.jobs.map(|jobs| jobs as u64), JOBS_MAX as u64)?;
        within("cpus", self.cpus.map(u64::from), CPUS_MAX.into())?;
        within("sample_every_ms", self.sample_every_ms, 86_400_000)?;
        let has_shape = self.mem.is_some() || self.cpus.is_some();
        let pairs = [
            ("quick", self.quick, "full", self.full),
            ("machine", self.machine.is_some(), "mem and cpus", has_shape),
            ("machine", self.machine.is_some(), "numa", !self.numa.is_empty()),
            ("mem and cpus", has_shape, "numa", !self.numa.is_empty()),
            ("beyond", self.beyond, "policies", !self.policies.is_empty()),
            ("beyond", self.beyond, "ablate", self.ablate),
            ("vary", !self.vary.is_empty(), "sample_every_ms", self.sample_every_ms.is_some()),
        ];
        match pairs.iter().find(|(_, one, _, other)| *one && *other) {
            Some((one, _, other, _)) => Err(Failed::said(format!("{one}: not with {other}"))),
            None => Ok(()),
        }
    }

    /// The machine that is given instead of the experiment's.
    fn machine(&self) -> MachineOptions {
        let arg = MachineArg {
            name: self.machine.clone(),
            mem: self.mem.clone(),
            cpus: self.cpus,
            numa: self.numa.clone(),
            numa_distance: self.numa_distance.clone(),
        };
        let storage = Storage::new(self.disk.clone(), self.swap.clone());
        MachineOptions { arg, storage, state: self.state.clone() }
    }

    fn host(&self) -> Option<HostKind> {
        self.native.map(|is_native| if is_native { HostKind::Native } else { HostKind::Sim })
    }

    /// Options of `compare` and `run`.
    pub(crate) fn options(&self) -> Options {
        let what = self.what.as_str();
        let options = if self.is_run { Options::run(what) } else { Options::compare(what) };
        let size = match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::AsWritten,
        };
        let vary = self.vary.iter().map(|(key, values)| Factor::new(key.as_str(), values.clone()));
        Options {
            size,
            machine: self.machine(),
            policies: self.policies.clone(),
            beyond: self.beyond,
            ablate: self.ablate,
            settings: self.set.iter().map(|text| Said::set(text.as_str())).collect(),
            vary: vary.collect(),
            iterations: self.iterations,
            seed: self.seed.unwrap_or(options.seed),
            jobs: self.jobs,
            host: self.host().unwrap_or(options.host),
            sample_every_ms: self.sample_every_ms,
            story: self.story,
            histograms: self.histograms,
            ..options
        }
    }

    /// Options of one run that is taken step by step.
    pub(crate) fn one_run(&self) -> Result<OneRunOptions, Failed> {
        let options = Options { policies: Vec::new(), ..self.options() };
        let policy = match &self.policies[..] {
            [] => None,
            [policy] => Some(policy.clone()),
            _ => return Err(Failed::said("policies: a session runs under one policy")),
        };
        match self.iterations {
            None | Some(1) => Ok(OneRunOptions { options, policy, seed: self.seed }),
            Some(nr) => Err(Failed::said(format!("seeds: a session has one seed, not {nr}"))),
        }
    }

    /// Options of `fit`.
    pub(crate) fn fit(&self) -> FitOptions {
        let new = FitOptions::new(self.what.as_str(), "");
        FitOptions {
            options: self.options(),
            objectives: self.slo.clone(),
            min: self.min.clone().unwrap_or(new.min),
            from: self.from.clone(),
            to: self.to.clone(),
            within: self.within.unwrap_or(new.within),
            allow_kills: self.allow_kills,
        }
    }

    /// Options of `bisect`.
    pub(crate) fn bisect(&self) -> Result<BisectOptions, Failed> {
        let [from, to] = &self.policies[..] else {
            return Err(Failed::said("bisect: needs two policies, A and B"));
        };
        let new = BisectOptions::new(from, to, self.what.as_str(), self.metric.as_str());
        let options = Options { ends: true, ..self.options() };
        Ok(BisectOptions { options, ..new })
    }

    /// Options of `explain`.
    pub(crate) fn explain(&self) -> ExplainOptions {
        let new = ExplainOptions::new(self.what.as_str());
        ExplainOptions {
            options: self.options(),
            seed: self.seed,
            host: self.host(),
            op: self.op.clone(),
            worst: self.worst.unwrap_or(new.worst),
        }
    }

    /// Options of `replay`.
    pub(crate) fn replay(&self) -> ReplayOptions {
        ReplayOptions {
            policies: self.policies.clone(),
            machine: self.machine(),
            sidecars: !self.no_sidecars,
            partial: self.partial,
            ..ReplayOptions::new(&self.what)
        }
    }
}

impl Given {
    /// Options from JSON, with texts.
    pub(crate) fn new(spec: &str, texts: Texts) -> Result<Given, Failed> {
        Ok(Given { spec: Spec::parse(spec)?, texts })
    }
}
