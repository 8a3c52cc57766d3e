//! The runs of `compare` and `sweep`.

use clap::Args;

use super::{JobsArgs, MachineArgs, SeedArgs, SetArgs, SizeArgs};
use crate::plan::{Factor, Options, PlanError};

/// The runs of a comparison or a sweep.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    /// How large it is.
    pub size: SizeArgs,
    /// Runs of each policy
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: Option<u32>,
    #[command(flatten)]
    /// Which seed.
    pub seed: SeedArgs,
    #[command(flatten)]
    /// How many at a time.
    pub jobs: JobsArgs,
    #[command(flatten)]
    /// The machine instead of the experiment's own.
    pub machine: MachineArgs,
    /// Policies instead of the experiment's own; the first is the baseline
    #[arg(long = "policy", value_name = "NAME|FILE")]
    pub policies: Vec<String>,
    /// Also run the experiment's policies that no kernel shipped, and compare them with before and
    /// after
    #[arg(long, conflicts_with_all = ["policies", "ablate"])]
    pub beyond: bool,
    /// Take the change apart: between the first and the last policy, run the first with each
    /// differing switch of the last (+KEY), and the last without each (-KEY)
    #[arg(long)]
    pub ablate: bool,
    /// Run everything at each of several values of a --set key, or on each of several machines
    /// (machine=A,B); with several --vary, at every combination. Prints a tidy table with --format
    /// csv; --out DIR keeps it as grid.csv, and the results of each point
    #[arg(long, value_name = "KEY=A,B,..")]
    pub vary: Vec<String>,
    #[command(flatten)]
    /// Single keys.
    pub set: SetArgs,
}

impl PlanArgs {
    /// The library's options, without `--vary`.
    pub fn options(&self, experiment: &str) -> Options {
        let of = Options::compare(experiment);
        Options {
            size: self.size.said(),
            seed: self.seed.seed.unwrap_or(of.seed),
            machine: self.machine.options(),
            policies: self.policies.clone(),
            beyond: self.beyond,
            ablate: self.ablate,
            settings: self.set.said(),
            iterations: self.iterations,
            jobs: self.jobs.said(),
            ..of
        }
    }

    /// The keys that vary.
    pub fn factors(&self) -> Result<Vec<Factor>, PlanError> {
        self.vary.iter().map(|text| Factor::parse(text)).collect()
    }

    /// The first option that says what runs: all but `--jobs`.
    pub fn first_given(&self) -> Option<&'static str> {
        let MachineArgs { machine, mem, cpus, numa, numa_distance, disk, swap, state } =
            &self.machine;
        let given = [
            ("--quick", self.size.quick),
            ("--full", self.size.full),
            ("--iterations", self.iterations.is_some()),
            ("--seed", self.seed.seed.is_some()),
            ("--machine", machine.is_some()),
            ("--mem", mem.is_some()),
            ("--cpus", cpus.is_some()),
            ("--numa", !numa.is_empty()),
            ("--numa-distance", !numa_distance.is_empty()),
            ("--disk", disk.is_some()),
            ("--swap", swap.is_some()),
            ("--state", state.is_some()),
            ("--policy", !self.policies.is_empty()),
            ("--beyond", self.beyond),
            ("--ablate", self.ablate),
            ("--vary", !self.vary.is_empty()),
            ("--set", !self.set.set.is_empty()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }
}
