//! From arguments to the library's options.

use super::{
    CompareArgs, ExplainArgs, HostArg, JobsArgs, MachineArgs, ReplayArgs, RunArgs, SizeArgs,
};
use crate::cli::remark_once;
use crate::experiment::HostKind;
use crate::machine_file::MachineArg;
use crate::machine_file::equip::Storage;
use crate::plan::{ExplainOptions, MachineOptions, Options, Size};
use crate::replay::ReplayOptions;

impl CompareArgs {
    /// The library's options, without `--vary`.
    pub fn options(&self, experiment: &str) -> Options {
        Options {
            host: self.host.kind(),
            sample_every_ms: self.sample.sample_every,
            story: self.keep.out.is_some(),
            said: Some(crate::cli::command_line()),
            ..self.plan.options(experiment)
        }
    }
}

/// Options whose results name the typed command.
pub(super) fn options(of: Options, seed: Option<u64>) -> Options {
    let seed = seed.unwrap_or(of.seed);
    Options { seed, said: Some(crate::cli::command_line()), ..of }
}

impl SizeArgs {
    /// The library's option.
    pub const fn said(self) -> Size {
        match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::AsWritten,
        }
    }
}

impl JobsArgs {
    /// The library's option.
    pub fn said(self) -> Option<usize> {
        self.jobs.map(usize::from)
    }
}

impl HostArg {
    /// The host.
    pub const fn kind(self) -> HostKind {
        match self {
            HostArg::Sim => HostKind::Sim,
            HostArg::Native => HostKind::Native,
        }
    }
}

impl RunArgs {
    /// The library's options.
    pub fn options(&self) -> Options {
        Options {
            machine: self.machine.options(),
            policies: vec![self.policy.clone()],
            settings: self.set.said(),
            host: self.host.kind(),
            sample_every_ms: self.sample.sample_every,
            story: self.keep.out.is_some(),
            histograms: self.histograms,
            ..options(Options::run(&self.workload), self.seed.seed)
        }
    }
}

impl ExplainArgs {
    /// The library's options.
    pub fn options(&self) -> ExplainOptions {
        let options = Options {
            size: self.size.said(),
            machine: self.machine.options(),
            policies: self.policies.clone(),
            settings: self.set.said(),
            iterations: self.iterations,
            jobs: self.jobs.said(),
            ..options(Options::compare(&self.experiment), None)
        };
        ExplainOptions {
            options,
            seed: self.seed.seed,
            host: self.host.map(HostArg::kind),
            op: self.op.clone(),
            worst: self.worst,
        }
    }
}

impl ReplayArgs {
    /// The library's options.
    pub fn options(&self) -> ReplayOptions {
        ReplayOptions {
            policies: self.policies.clone(),
            machine: self.machine.options(),
            sidecars: !self.no_sidecars,
            partial: self.partial,
            ..ReplayOptions::new(&self.trace)
        }
    }
}

impl MachineArgs {
    /// The library's options.
    pub fn options(&self) -> MachineOptions {
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

    /// Says so if storage was asked for where nothing depends on it.
    pub fn ignore_storage(&self, what: &str) {
        let storage = self.options().storage;
        if !storage.is_empty() {
            remark_once(&format!("{}: ignored: {what}", storage.options()));
        }
    }
}
