//! The command line as a value: the experiment, its machines and policies, and settings of keys.

use std::thread;

use super::{Factor, MachineOptions, Plan, PlanError, resolve, vary};
use crate::experiment::HostKind;
use crate::settings::Said;
use highwater_files::machine_file::state::OPTION as STATE;
use highwater_runs::workload::Registry;

/// The experiment, workload or job to run, by the name that the user gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An experiment by name, number or file, as `compare` runs it: all its policies on all its machines.
    Experiment(String),
    /// A workload or a job by name or file, as `run` runs it: one seed, the policy 6.1 unless another is named. A workload
    /// of a study needs a machine.
    Workload(String),
}

impl What {
    /// The name that the user gave.
    pub fn name(&self) -> &str {
        match self {
            What::Experiment(name) | What::Workload(name) => name,
        }
    }
}

/// The version of an experiment that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// The version that its file describes.
    #[default]
    AsWritten,
    /// A short version, for a first look (`--quick`).
    Quick,
    /// The study's own sizes and times, where the experiment is smaller by default (`--full`).
    Full,
}

/// Everything that decides what `compare` or `run` runs. Each field has its option's name.
///
/// ```
/// use highwater_plan::plan::Options;
///
/// let options = Options::compare("003").quick().policy("6.1").set("vm.swappiness=10");
/// let words = "highwater compare 003 --quick --policy 6.1 --set vm.swappiness=10";
/// assert_eq!(options.command_line().join(" "), words);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The experiment, workload or job.
    pub what: What,
    /// The version of the experiment.
    pub size: Size,
    /// The machine, instead of the experiment's own.
    pub machine: MachineOptions,
    /// Policies by name or file instead of the experiment's own; the first is the baseline.
    pub policies: Vec<String>,
    /// The policies are the two ends of a search (`bisect A B`), and errors call them A and B.
    pub ends: bool,
    /// Also run the experiment's policies that no kernel shipped.
    pub beyond: bool,
    /// Take the change from the first policy to the last one apart.
    pub ablate: bool,
    /// Settings of single keys.
    pub settings: Vec<Said>,
    /// Keys that take several values: a point for each combination.
    pub vary: Vec<Factor>,
    /// Seeds of each policy; none: the experiment's number.
    pub iterations: Option<u32>,
    /// Seeds of each policy if neither `iterations` nor a setting gives a number.
    pub iterations_unless_set: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// Simulations at a time; none: one for each CPU.
    pub jobs: Option<usize>,
    /// Run in virtual time, or on this computer.
    pub host: HostKind,
    /// Milliseconds of virtual time between two samples of counters; none: no samples.
    pub sample_every_ms: Option<u64>,
    /// Keep the story of the first seed, from which charts are drawn; a grid keeps none.
    pub story: bool,
    /// Show histograms of throttled sleeps.
    pub histograms: bool,
    /// The command line that results name; none: [`Options::command_line`].
    pub said: Option<Vec<String>>,
}

/// The default seed.
const DEFAULT_SEED: u64 = 1;

impl Options {
    /// Options without any changes to what the file says.
    fn of(what: What) -> Options {
        Options {
            what,
            size: Size::AsWritten,
            machine: MachineOptions::default(),
            policies: Vec::new(),
            ends: false,
            beyond: false,
            ablate: false,
            settings: Vec::new(),
            vary: Vec::new(),
            iterations: None,
            iterations_unless_set: None,
            seed: DEFAULT_SEED,
            jobs: None,
            host: HostKind::Sim,
            sample_every_ms: None,
            story: false,
            histograms: false,
            said: None,
        }
    }

    /// `highwater compare NAME`.
    pub fn compare(experiment: impl Into<String>) -> Options {
        Options::of(What::Experiment(experiment.into()))
    }

    /// `highwater run NAME`.
    pub fn run(workload: impl Into<String>) -> Options {
        Options::of(What::Workload(workload.into()))
    }

    /// With `--quick`.
    #[must_use]
    pub fn quick(self) -> Options {
        Options { size: Size::Quick, ..self }
    }

    /// With `--full`.
    #[must_use]
    pub fn full(self) -> Options {
        Options { size: Size::Full, ..self }
    }

    /// With `--beyond`.
    #[must_use]
    pub fn beyond(self) -> Options {
        Options { beyond: true, ..self }
    }

    /// With `--ablate`.
    #[must_use]
    pub fn ablate(self) -> Options {
        Options { ablate: true, ..self }
    }

    /// On the machine of this name or file.
    #[must_use]
    pub fn machine(mut self, name: impl Into<String>) -> Options {
        self.machine.arg.name = Some(name.into());
        self
    }

    /// On a machine of one node with this much memory (`8G`) and this many CPUs.
    #[must_use]
    pub fn machine_of(mut self, memory: impl Into<String>, cpus: u16) -> Options {
        (self.machine.arg.mem, self.machine.arg.cpus) = (Some(memory.into()), Some(cpus));
        self
    }

    /// With a disk of this model, on a machine that has none.
    #[must_use]
    pub fn disk(mut self, model: impl Into<String>) -> Options {
        self.machine.storage.disk = Some(model.into());
        self
    }

    /// With swap of this size (`2G`; `0`: no swap).
    #[must_use]
    pub fn swap(mut self, size: impl Into<String>) -> Options {
        self.machine.storage.swap = Some(size.into());
        self
    }

    /// Starting with the free memory of this directory.
    #[must_use]
    pub fn state(mut self, dir: impl Into<String>) -> Options {
        self.machine.state = Some(dir.into());
        self
    }

    /// Under the policy of this name or file, beside those named before.
    #[must_use]
    pub fn policy(mut self, name: impl Into<String>) -> Options {
        self.policies.push(name.into());
        self
    }

    /// With a key set, `KEY=VALUE`.
    #[must_use]
    pub fn set(mut self, said: impl Into<Said>) -> Options {
        self.settings.push(said.into());
        self
    }

    /// With a key that takes each of these values.
    #[must_use]
    pub fn vary<V: Into<String>>(
        mut self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Options {
        self.vary.push(Factor::new(key, values));
        self
    }

    /// With this number of seeds of each policy.
    #[must_use]
    pub fn iterations(self, seeds: u32) -> Options {
        Options { iterations: Some(seeds), ..self }
    }

    /// With this first seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Options {
        Options { seed, ..self }
    }

    /// With this number of simulations at a time.
    #[must_use]
    pub fn jobs(self, jobs: usize) -> Options {
        Options { jobs: Some(jobs), ..self }
    }

    /// On this host.
    #[must_use]
    pub fn host(self, host: HostKind) -> Options {
        Options { host, ..self }
    }

    /// With samples of counters every `ms` milliseconds of virtual time.
    #[must_use]
    pub fn sample_every_ms(self, ms: u64) -> Options {
        Options { sample_every_ms: Some(ms), ..self }
    }

    /// With the story of the first seed, as `--out DIR` keeps it.
    #[must_use]
    pub fn story(self) -> Options {
        Options { story: true, ..self }
    }

    /// The command line that runs the same. Results name it, so two programs with equal options
    /// write equal bytes.
    ///
    /// `run` lacks some of these options (`--quick`, `--iterations`, `--vary`). The words then say
    /// what ran, and the command refuses them.
    pub fn command_line(&self) -> Vec<String> {
        if let Some(said) = &self.said {
            return said.clone();
        }
        let command = match &self.what {
            What::Experiment(name) => ["highwater", "compare", name],
            What::Workload(name) => ["highwater", "run", name],
        };
        let mut words: Vec<String> = command.map(str::to_owned).to_vec();
        let size = match self.size {
            Size::AsWritten => None,
            Size::Quick => Some("--quick"),
            Size::Full => Some("--full"),
        };
        let host = (self.host == HostKind::Native).then_some("--host native");
        let flags = [(self.beyond, "--beyond"), (self.ablate, "--ablate")];
        let flags = flags.iter().filter_map(|(is_on, flag)| is_on.then_some(*flag));
        words.extend(size.into_iter().chain(flags).map(str::to_owned));
        words.extend(host.iter().flat_map(|host| host.split(' ')).map(str::to_owned));
        let arg = &self.machine.arg;
        let number = |number: &Option<u32>| number.map(|number| number.to_string());
        let one = |value: &Option<String>| value.clone().into_iter().collect::<Vec<_>>();
        let pairs: [(&str, Vec<String>); 14] = [
            ("--iterations", one(&number(&self.iterations))),
            ("--seed", one(&Some(self.seed).filter(|s| *s != DEFAULT_SEED).map(|s| s.to_string()))),
            ("--machine", one(&arg.name)),
            ("--mem", one(&arg.mem)),
            ("--cpus", one(&number(&arg.cpus.map(u32::from)))),
            ("--numa", arg.numa.clone()),
            ("--numa-distance", arg.numa_distance.clone()),
            ("--disk", one(&self.machine.storage.disk)),
            ("--swap", one(&self.machine.storage.swap)),
            (STATE, one(&self.machine.state)),
            ("--policy", self.policies.clone()),
            ("--set", self.settings.iter().map(|said| said.text.clone()).collect()),
            ("--vary", self.vary.iter().map(ToString::to_string).collect()),
            ("--sample-every", one(&self.sample_every_ms.map(|ms| ms.to_string()))),
        ];
        for (option, values) in pairs {
            words.extend(values.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        words.extend(self.histograms.then(|| "--histograms".to_owned()));
        words
    }

    /// Resolves every name and value, so a wrong one is found before anything runs. [`Plan::remarks`]
    /// lists what was added, dropped or ignored.
    ///
    /// # Errors
    /// Names the option, file or key that is wrong, and what to do.
    pub fn plan(&self, registry: &Registry) -> Result<Plan, PlanError> {
        let mut remarks: Vec<String> = Vec::new();
        let plan = self.plan_with(registry, &mut |remark| {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        })?;
        Ok(Plan { remarks, ..plan })
    }

    /// The same; remarks go to a function as they come up, also those before an error.
    ///
    /// # Errors
    /// As [`Options::plan`].
    pub fn plan_with(
        &self,
        registry: &Registry,
        say: &mut dyn FnMut(String),
    ) -> Result<Plan, PlanError> {
        let factors = vary::slowest_first(&self.vary);
        let points = vary::combinations(&factors)?;
        let keys: Vec<String> = factors.iter().map(|factor| factor.key.clone()).collect();
        if let Some(machines) = factors.first().filter(|factor| factor.key == vary::MACHINE) {
            self.machine.check_varied(&machines.values)?;
        }
        let mut planned = Vec::new();
        for values in points {
            let run = resolve::resolve(registry, self, &keys, &values, say)?;
            planned.push(super::Point { values, run });
        }
        Ok(Plan {
            keys,
            points: planned,
            remarks: Vec::new(),
            command_line: self.command_line(),
            histograms: self.histograms,
        })
    }
}

/// Default number of simulations at a time: one for each CPU.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
