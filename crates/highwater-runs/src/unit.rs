//! A unit of work: one policy on one machine with one seed, and what accompanies the run.

use std::sync::Arc;

use highwater_core::config::Policy;
use highwater_files::machine_file::MachineFile;
use highwater_sim::engine::Passed;

use crate::kernel_files::KernelFiles;
use crate::recorder::Recorder;
use crate::sampling::Sampling;
use crate::watching::Watcher;

/// Where a unit of work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Virtual time.
    Sim,
    /// Threads and memory of this computer.
    Native,
}

impl HostKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            HostKind::Sim => "sim",
            HostKind::Native => "native",
        }
    }
}

/// One policy on one machine with one seed, or an independent part of that.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The machine.
    pub machine: &'a MachineFile,
    /// The policy.
    pub policy: &'a Policy,
    /// The seed: the same for every policy of an iteration.
    pub seed: u64,
    /// Where.
    pub host: HostKind,
    /// Number of this unit in the cell, from 0.
    pub part: usize,
    /// Book the time of operations by cause; how many of the slowest to keep.
    pub explain: Option<usize>,
    /// The outcome reports a task whose call fails; without this flag the unit fails.
    pub tolerates_failures: bool,
    /// Keep only the slowest of this operation.
    pub only_op: Option<&'a str>,
    /// Where to add elapsed virtual time and events, for a progress display.
    pub clock: Option<&'a Arc<Passed>>,
    /// Takes samples of counters over virtual time.
    pub sampling: Option<&'a Sampling>,
    /// Records events.
    pub recorder: Option<&'a Recorder>,
    /// Publishes looks for `watch`.
    pub watcher: Option<&'a Watcher>,
    /// Writes the machine's files of `/proc` and of its groups.
    pub files: Option<&'a KernelFiles>,
}

impl<'a> Unit<'a> {
    /// The first unit of a cell in virtual time, no time booked.
    pub const fn of(machine: &'a MachineFile, policy: &'a Policy, seed: u64) -> Unit<'a> {
        Unit {
            machine,
            policy,
            seed,
            host: HostKind::Sim,
            part: 0,
            explain: None,
            tolerates_failures: false,
            only_op: None,
            clock: None,
            sampling: None,
            recorder: None,
            watcher: None,
            files: None,
        }
    }
}
