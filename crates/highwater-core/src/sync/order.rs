//! Lock classes and the order in which they may nest.
//!
//! | outer | inner | where |
//! |---|---|---|
//! | [`LockClass::Oom`] | everything below | the OOM killer looks at tasks and memory |
//! | [`LockClass::Drain`] | [`LockClass::Pcp`] | draining every CPU's lists |
//! | [`LockClass::PageTable`] | [`LockClass::Mapping`], [`LockClass::LruBatch`], [`LockClass::Pcp`] | unmapping: dirtying pages, activating them, gather pages |
//! | [`LockClass::Mapping`] | [`LockClass::Swap`] | removing a page from its file or the swap cache |
//! | [`LockClass::LruBatch`] | [`LockClass::Lru`] | draining a CPU's batches |
//! | [`LockClass::Pcp`] | [`LockClass::Zone`] | refill and bulk drain |
//! | anything | [`LockClass::Queue`], [`LockClass::Wait`], [`LockClass::Table`] | leaves |
//!
//! A class nests only inside classes with a smaller rank. Locks over which tasks sleep (an address
//! mm's, a file's) are [`RwSem`](crate::wait::RwSem)s; they come before all of these.

/// What a lock protects; hosts account contention per class (as lock_stat does).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockClass {
    /// The OOM killer's mutex.
    Oom = 0,
    /// Serialises `drain_all`.
    Drain = 1,
    /// The entries of one page table.
    PageTable = 2,
    /// A file's pages (`i_pages`), or the swap cache's.
    Mapping = 3,
    /// A swap area's slots.
    Swap = 4,
    /// One CPU's LRU batches.
    LruBatch = 5,
    /// The LRU lists of a node.
    Lru = 6,
    /// One CPU's page lists of one zone.
    Pcp = 7,
    /// A zone's free lists and pageblock types.
    Zone = 8,
    /// A device's request queue.
    Queue = 9,
    /// A wait queue.
    Wait = 10,
    /// Tables by number (mms, files, tasks): bookkeeping that a kernel reads without locks. A
    /// simulated machine neither charges for it nor lets it contend.
    Table = 11,
    /// Locks of tests and workloads (socket buffers and the like).
    Workload = 12,
}

impl LockClass {
    /// Number of classes.
    pub const COUNT: usize = 13;
    /// Every class, by rank.
    pub const ALL: [LockClass; Self::COUNT] = [
        LockClass::Oom,
        LockClass::Drain,
        LockClass::PageTable,
        LockClass::Mapping,
        LockClass::Swap,
        LockClass::LruBatch,
        LockClass::Lru,
        LockClass::Pcp,
        LockClass::Zone,
        LockClass::Queue,
        LockClass::Wait,
        LockClass::Table,
        LockClass::Workload,
    ];

    /// The name lock reports use.
    pub const fn name(self) -> &'static str {
        match self {
            LockClass::Oom => "oom_lock",
            LockClass::Drain => "pcpu_drain_mutex",
            LockClass::PageTable => "ptlock",
            LockClass::Mapping => "xa_lock",
            LockClass::Swap => "swap_info->lock",
            LockClass::LruBatch => "lru_pvecs->lock",
            LockClass::Lru => "lruvec->lru_lock",
            LockClass::Pcp => "pcp->lock",
            LockClass::Zone => "zone->lock",
            LockClass::Queue => "queue",
            LockClass::Wait => "wait_queue",
            LockClass::Table => "table",
            LockClass::Workload => "workload",
        }
    }

    /// True if a lock of class `inner` may be taken while holding one of `self`.
    pub const fn may_nest(self, inner: LockClass) -> bool {
        (self as u8) < (inner as u8)
    }
}
