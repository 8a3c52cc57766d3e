//! The phase of a task, for hosts that account its time by cause.
//!
//! Phases nest: [`Cx::phase`] begins one, dropping the scope ends it. A host without accounting
//! does nothing here.

use super::{Cx, Host};
use crate::units::GroupId;

macro_rules! phases {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that takes time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Phase { $($(#[$doc])* $name,)* }

        impl Phase {
            /// Every phase.
            pub const ALL: &'static [Phase] = &[$(Phase::$name,)*];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Phase::$name => $text,)* }
            }
        }
    };
}

phases! {
    /// A page fault.
    Fault = "page fault",
    /// Reading a page back from swap.
    SwapIn = "swap in",
    /// Mapping memory.
    Mmap = "mmap",
    /// Unmapping.
    Munmap = "munmap",
    /// Locking pages, and unlocking them.
    Mlock = "mlock",
    /// Advice about memory or files.
    Advise = "advice",
    /// Reading a file.
    Read = "read",
    /// Reading pages before they are needed, together with the page that is needed.
    Readahead = "read ahead",
    /// Writing a file into the page cache.
    Write = "write",
    /// Holding up a writer of dirty pages.
    BalanceDirty = "balance dirty pages",
    /// Writing a file's dirty pages and waiting for them.
    Fsync = "fsync",
    /// Writing everybody's dirty pages and waiting for them.
    Sync = "sync",
    /// Cutting and deleting files.
    Truncate = "truncate",
    /// Dropping clean caches.
    DropCaches = "drop caches",
    /// Allocation without the pages at hand.
    AllocSlow = "slow allocation",
    /// Reclaim by a task that allocates.
    DirectReclaim = "direct reclaim",
    /// Reclaim by a task whose charge a memory cgroup's limit refused.
    LimitReclaim = "reclaim for the limit",
    /// Other reclaim from a memory cgroup: above `memory.high`, or by a write to one of its files.
    GroupReclaim = "group reclaim",
    /// Reclaim and sleep of a task whose cgroup is above `memory.high`.
    MemoryHigh = "memory.high",
    /// Reclaim of one node rather than allocating from another.
    NodeReclaim = "node reclaim",
    /// A pass of kswapd over its node.
    BalanceNode = "balance node",
    /// Taking pages off a list.
    Isolate = "isolate",
    /// Judging pages of an inactive list.
    ShrinkInactive = "inactive list",
    /// Ageing an active list.
    ShrinkActive = "active list",
    /// Putting pages back on their lists.
    PutBack = "put back",
    /// Writing single pages, and swapping out.
    Pageout = "page out",
    /// Unmapping a page wherever it is mapped.
    Unmap = "try to unmap",
    /// Shrinking slabs.
    ShrinkSlab = "shrink slab",
    /// Slowing a reclaimer down.
    Throttle = "throttle",
    /// Compaction, by a task that allocates or by a daemon.
    Compact = "compaction",
    /// Moving pages to other frames.
    Migrate = "migrate",
    /// Choosing and killing a task.
    OomKill = "OOM killer",
    /// Writing dirty pages of files.
    Writeback = "writeback",
    /// Emptying per-CPU lists and batches.
    Drain = "drain",
    /// Copying a process.
    Fork = "fork",
    /// Starting another program in a process.
    Exec = "exec",
    /// The end of a process.
    Exit = "exit",
    /// Spinning for a lock over which tasks sleep, while its owner runs.
    SpinOnOwner = "spin on owner",
}

/// A phase that lasts until this is dropped.
#[must_use]
pub struct PhaseScope<'a, H: Host> {
    host: &'a H,
    phase: Phase,
}

impl<H: Host> Cx<'_, H> {
    /// The task does this from now on, until the scope is dropped.
    #[inline(always)]
    pub fn phase(&self, phase: Phase) -> PhaseScope<'_, H> {
        self.host.phase_begin(phase);
        PhaseScope { host: self.host, phase }
    }

    /// The task does this for a memory cgroup from now on, until the scope is dropped.
    #[inline(always)]
    pub fn group_phase(&self, phase: Phase, group: GroupId) -> PhaseScope<'_, H> {
        self.host.group_phase_begin(phase, group);
        PhaseScope { host: self.host, phase }
    }
}

impl<H: Host> Drop for PhaseScope<'_, H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.host.phase_end(self.phase);
    }
}
