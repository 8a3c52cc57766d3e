//! Removed groups that wait for their offline step (rules/memory-cgroups#removal).
//!
//! `rmdir` only takes the directory away. The group goes on as before until a worker takes it
//! offline: swapped pages still take its id, its limits and its protection still count.
//!
//! Synchronisation: the list is behind a `Table` lock, which is not held during the step.
//!
//! From: `syscall::groups` · to: `wait`.

use alloc::collections::VecDeque;

use crate::host::{Cx, Lock, Tasks};
use crate::sync::order::LockClass;
use crate::units::GroupId;
use crate::wait::WaitQueue;

/// Ticks from `rmdir` to the offline step: a grace period of RCU and a worker's start. In the
/// captures of `reparent-move` it came 50 to 70 ms after `rmdir` on 7.2, and between 26 and 116 ms
/// on 6.1.
const OFFLINE_JIFFIES: u64 = 15;

/// Removed groups whose offline step is to come, and the worker for it.
pub(crate) struct Removed<H: Tasks> {
    due: H::Lock<Due>,
    /// The worker sleeps here.
    worker: WaitQueue<H>,
}

#[derive(Default)]
struct Due {
    /// Group and time (jiffies) of its step, the first to come first.
    groups: VecDeque<(GroupId, u64)>,
    /// The worker runs: before it begins, and on a host without it, the step comes at once.
    has_worker: bool,
}

impl<H: Tasks> Removed<H> {
    pub(super) fn new(host: &H) -> Self {
        Removed {
            due: host.new_lock(LockClass::Table, Due::default()),
            worker: WaitQueue::new(host),
        }
    }

    /// The worker takes this group offline later; false if there is no worker.
    pub(crate) fn push(&self, cx: &Cx<'_, H>, group: GroupId) -> bool {
        let at = cx.host.jiffies() + OFFLINE_JIFFIES;
        {
            let mut due = self.due.lock(cx.cpu());
            if !due.has_worker {
                return false;
            }
            due.groups.push_back((group, at));
        }
        self.worker.wake_all(cx.host, cx.cpu());
        true
    }

    /// For the worker: waits for the next group whose step is due. Once `is_stopping`, those that
    /// are left are due at once; none: no group is left, and the worker is to return.
    pub(crate) fn next(&self, cx: &Cx<'_, H>, is_stopping: impl Fn() -> bool) -> Option<GroupId> {
        self.due.lock(cx.cpu()).has_worker = true;
        let first = || self.due.lock(cx.cpu()).groups.front().copied();
        let ready = || is_stopping() || first().is_some();
        self.worker.wait(cx, "groups to take offline", ready);
        if let Some((_, at)) = first() {
            let left = at.saturating_sub(cx.host.jiffies());
            self.worker.wait_jiffies(cx, "the offline step of a group", left, &is_stopping);
        }
        let mut due = self.due.lock(cx.cpu());
        let next = due.groups.pop_front();
        due.has_worker = next.is_some();
        next.map(|(group, _)| group)
    }

    /// Wakes the worker: the kernel shuts down.
    pub(crate) fn wake_all(&self, cx: &Cx<'_, H>) {
        self.worker.wake_all(cx.host, cx.cpu());
    }
}
