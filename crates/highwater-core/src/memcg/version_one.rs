//! Parts that only groups of a version 1 hierarchy have: soft limits, a swappiness of each group,
//! and tasks that wait instead of an OOM kill (rules/memory-cgroups#v1).
//!
//! The limits of version 1 are counters: `vmstat::groups`. Writes to its settings, and reclaim for
//! soft limits, are `reclaim::memcg`'s.
//!
//! Key types: [`VersionOne`] (settings of all groups, and the queue of waiting tasks),
//! [`OomControl`].
//!
//! Synchronisation: atomics, and the wait queue's lock. A waiting task counts itself before it
//! looks for room. An uncharge takes its pages off before it looks for waiting tasks. So one of the
//! two sees the other.

use alloc::boxed::Box;

use super::group::TaskGroup;
use crate::host::{Cx, Devices, Stall, Tasks};
use crate::kernel::Kernel;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use crate::units::GroupId;
use crate::vmstat::UNLIMITED;
use crate::wait::WaitQueue;

/// Name of the wait of a task that found no memory in its group.
const WAIT: &str = "memory in a group without OOM kills";

/// The lines of a group's `memory.oom_control`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomControl {
    /// Its tasks wait instead of a kill.
    pub oom_kill_disable: bool,
    /// Tasks wait for memory of the group, or of one above.
    pub under_oom: bool,
}

/// Settings of one group.
struct Own {
    /// Pages; [`UNLIMITED`]: none.
    soft_limit: AtomicU64,
    /// 0 to 200.
    swappiness: AtomicU64,
    oom_kill_disable: AtomicBool,
    /// Tasks that wait for room below its limit.
    nr_waiting: AtomicU64,
}

/// Version 1's settings of all groups.
pub(crate) struct VersionOne<H: Tasks> {
    /// By group; empty in a version 2 hierarchy.
    own: Box<[Own]>,
    /// Waiting tasks of all groups.
    nr_waiting: AtomicU64,
    wait: WaitQueue<H>,
}

impl<H: Tasks> VersionOne<H> {
    /// Settings of `capacity` groups; 0 in a version 2 hierarchy.
    pub(super) fn new(host: &H, capacity: usize) -> Self {
        let own = || Own {
            soft_limit: AtomicU64::new(UNLIMITED),
            swappiness: AtomicU64::new(0),
            oom_kill_disable: AtomicBool::new(false),
            nr_waiting: AtomicU64::new(0),
        };
        VersionOne {
            own: (0..capacity).map(|_| own()).collect(),
            nr_waiting: AtomicU64::new(0),
            wait: WaitQueue::new(host),
        }
    }

    /// A new group: no soft limit, kills, and its parent's swappiness.
    fn reset(&self, group: GroupId, swappiness: u64) {
        if let Some(own) = self.own.get(group.idx()) {
            own.soft_limit.store(UNLIMITED, SeqCst);
            own.swappiness.store(swappiness, SeqCst);
            own.oom_kill_disable.store(false, SeqCst);
        }
    }

    /// The soft limit of a group in pages.
    pub(crate) fn soft_limit(&self, group: GroupId) -> u64 {
        self.own.get(group.idx()).map_or(UNLIMITED, |own| own.soft_limit.load(SeqCst))
    }

    pub(crate) fn set_soft_limit(&self, group: GroupId, pages: u64) {
        self.own[group.idx()].soft_limit.store(pages, SeqCst);
    }

    pub(crate) fn set_swappiness(&self, group: GroupId, swappiness: u64) {
        self.own[group.idx()].swappiness.store(swappiness, SeqCst);
    }

    /// True if tasks wait where the OOM killer would kill for this group's limit.
    pub(crate) fn is_oom_kill_disabled(&self, group: GroupId) -> bool {
        self.own.get(group.idx()).is_some_and(|own| own.oom_kill_disable.load(SeqCst))
    }

    pub(crate) fn set_oom_kill_disable(&self, group: GroupId, disable: bool) {
        self.own[group.idx()].oom_kill_disable.store(disable, SeqCst);
    }
}

impl<H: Devices> Kernel<H> {
    /// A new group begins with the defaults of version 1.
    pub(crate) fn reset_version_one(&self, group: GroupId, parent: GroupId) {
        self.memcg.v1.reset(group, self.group_swappiness(parent));
    }

    /// The swappiness that reclaim of a group goes by: the group's own in a version 1 hierarchy,
    /// else `vm.swappiness`.
    #[doc(alias = "mem_cgroup_swappiness")]
    pub fn group_swappiness(&self, group: GroupId) -> u64 {
        match self.memcg.v1.own.get(group.idx()) {
            Some(own) if !group.is_root() => own.swappiness.load(SeqCst),
            _ => self.mem.tunables.swappiness.get(),
        }
    }

    /// Pages that a group and those below it have above the soft limit.
    ///
    /// Linux: same name.
    pub(crate) fn soft_limit_excess(&self, group: GroupId) -> u64 {
        self.mem.groups.memory[group].usage().saturating_sub(self.memcg.v1.soft_limit(group))
    }

    /// A group's `memory.oom_control`.
    pub fn oom_control(&self, group: GroupId) -> OomControl {
        let v1 = &self.memcg.v1;
        let waits =
            |at: GroupId| v1.own.get(at.idx()).is_some_and(|own| own.nr_waiting.load(SeqCst) != 0);
        OomControl {
            oom_kill_disable: v1.is_oom_kill_disabled(group),
            under_oom: self.memcg.ancestors(group).any(waits),
        }
    }

    /// A fault begins: a refusal of an earlier system call is none of its own.
    #[inline]
    pub(crate) fn forget_refusal(&self, cx: &Cx<'_, H>) {
        if self.mem.groups.is_v1() {
            cx.local::<TaskGroup>().in_oom.set(None);
        }
    }

    /// A fault found no memory. If that was for the limit of a group without OOM kills, waits for
    /// room there; the fault is to be tried again then. The task holds no lock.
    ///
    /// Linux: only faults wait. A system call that finds no memory fails.
    #[doc(alias = "mem_cgroup_oom_synchronize")]
    pub(crate) fn waits_for_group_memory(&self, cx: &Cx<'_, H>) -> bool {
        if !self.mem.groups.is_on() {
            return false;
        }
        let Some(over) = cx.local::<TaskGroup>().in_oom.take() else { return false };
        let v1 = &self.memcg.v1;
        let own = &v1.own[over.idx()];
        own.nr_waiting.fetch_add(1, SeqCst);
        v1.nr_waiting.fetch_add(1, SeqCst);
        let may_go_on =
            || self.mem.groups.memory.margin(over) > 0 || !v1.is_oom_kill_disabled(over);
        let may_go_on = {
            let _stall = cx.stall(Stall::Memory);
            v1.wait.wait_killable(cx, WAIT, may_go_on)
        };
        v1.nr_waiting.fetch_sub(1, SeqCst);
        own.nr_waiting.fetch_sub(1, SeqCst);
        may_go_on
    }

    /// A group uses less, or may have more: tasks that wait for its memory, or for that of a group
    /// above, look again.
    #[doc(alias = "memcg_oom_recover")]
    #[inline]
    pub(crate) fn oom_recover(&self, cx: &Cx<'_, H>, group: GroupId) {
        if self.memcg.v1.nr_waiting.load(SeqCst) != 0 && self.oom_control(group).under_oom {
            self.memcg.v1.wait.wake_all(cx.host, cx.cpu());
        }
    }
}
