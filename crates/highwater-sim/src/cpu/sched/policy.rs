//! The names of the schedulers, and which kernel has which.

use highwater_core::config::KernelVersion;

/// The scheduler of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedPolicy {
    /// First in, first out; a woken task waits for the end of the running one's slice.
    #[default]
    Fifo,
    /// The completely fair scheduler, as in Linux 6.1.
    Cfs,
    /// Earliest eligible virtual deadline first, as in Linux 6.12.
    Eevdf,
}

impl SchedPolicy {
    /// All of them.
    pub const ALL: [SchedPolicy; 3] = [SchedPolicy::Fifo, SchedPolicy::Cfs, SchedPolicy::Eevdf];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            SchedPolicy::Fifo => "fifo",
            SchedPolicy::Cfs => "cfs",
            SchedPolicy::Eevdf => "eevdf",
        }
    }

    /// One sentence about it.
    pub const fn about(self) -> &'static str {
        match self {
            SchedPolicy::Fifo => {
                "First in, first out, in turns of a tick; a woken task does not preempt."
            }
            SchedPolicy::Cfs => "CFS, the scheduler of Linux 4.3 to 6.5, as in 6.1.",
            SchedPolicy::Eevdf => "EEVDF, the scheduler of Linux 6.6 and later, as in 6.12.",
        }
    }

    /// The scheduler of a kernel.
    pub fn of_kernel(version: KernelVersion) -> SchedPolicy {
        match version < KernelVersion::of("6.6") {
            true => SchedPolicy::Cfs,
            false => SchedPolicy::Eevdf,
        }
    }

    /// The scheduler of a name.
    pub fn from_name(name: &str) -> Option<SchedPolicy> {
        SchedPolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
