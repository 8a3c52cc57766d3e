//! Lock classes and the order in which they may nest.
//!
//! | outer | inner | where |
//! |---|---|---|
//! | [`LockClass::Drain`] | [`LockClass::Pcp`] | draining every CPU's lists |
//! | [`LockClass::Pcp`] | [`LockClass::Zone`] | refill and bulk drain |
//! | [`LockClass::Oom`] | everything above | the OOM killer allocates nothing itself |
//!
//! A class nests only inside classes with a smaller rank.

/// What a lock protects; hosts account contention per class (as lock_stat does).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockClass {
    /// The OOM killer's mutex.
    Oom = 0,
    /// Serialises `drain_all`.
    Drain = 1,
    /// One CPU's page lists of one zone.
    Pcp = 2,
    /// A zone's free lists and pageblock types.
    Zone = 3,
    /// Locks of tests and workloads (socket buffers and the like).
    Workload = 4,
}

impl LockClass {
    /// Number of classes.
    pub const COUNT: usize = 5;
    /// Every class, by rank.
    pub const ALL: [LockClass; Self::COUNT] =
        [LockClass::Oom, LockClass::Drain, LockClass::Pcp, LockClass::Zone, LockClass::Workload];

    /// The name lock reports use.
    pub const fn name(self) -> &'static str {
        match self {
            LockClass::Oom => "oom_lock",
            LockClass::Drain => "pcpu_drain_mutex",
            LockClass::Pcp => "pcp->lock",
            LockClass::Zone => "zone->lock",
            LockClass::Workload => "workload",
        }
    }

    /// True if a lock of class `inner` may be taken while holding one of `self`.
    pub const fn may_nest(self, inner: LockClass) -> bool {
        (self as u8) < (inner as u8)
    }
}
