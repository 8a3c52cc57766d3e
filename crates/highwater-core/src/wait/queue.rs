//! Wait queues: tasks that wait until a condition holds.

use alloc::collections::VecDeque;

use crate::host::{CpuId, Cx, Host, Lock, Tasks};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::order::LockClass;

/// Tasks waiting for the same thing, in the order in which they came.
///
/// A waker changes the condition first and wakes after that; a waiter enters the queue first and
/// looks at the condition after that. So no wake-up is lost, if the change is made under a lock that
/// the waiter's look takes too, or is sequentially consistent: a plain store may become visible only
/// after the waker has found the queue empty.
#[doc(alias = "wait_queue_head")]
pub struct WaitQueue<H: Tasks> {
    waiters: H::Lock<Waiters<H::Task>>,
    /// Length of the queue, which shows without the lock that no task waits.
    len: AtomicU32,
}

struct Waiters<T> {
    queue: VecDeque<(u64, T)>,
    next_ticket: u64,
}

impl<H: Tasks> WaitQueue<H> {
    /// An empty queue.
    pub fn new(host: &H) -> Self {
        let waiters = Waiters { queue: VecDeque::new(), next_ticket: 0 };
        WaitQueue { waiters: host.new_lock(LockClass::Wait, waiters), len: AtomicU32::new(0) }
    }

    /// True if a task waits.
    #[inline(always)]
    pub fn has_waiters(&self) -> bool {
        self.len.load(SeqCst) != 0
    }

    /// Number of waiters.
    pub fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// True if no task waits.
    pub fn is_empty(&self) -> bool {
        !self.has_waiters()
    }

    /// Joins the wait queue; the ticket is given back with [`WaitQueue::leave`]. This is for
    /// callers that look at their condition in between: a wake-up after this ends the next
    /// [`WaitQueue::park`].
    #[doc(alias = "prepare_to_wait")]
    pub(crate) fn enter(&self, cx: &Cx<'_, H>) -> u64 {
        let task = cx.host.current();
        let mut waiters = self.waiters.lock(cx.cpu());
        let ticket = waiters.next_ticket;
        waiters.next_ticket += 1;
        waiters.queue.push_back((ticket, task));
        self.len.store(waiters.queue.len() as u32, SeqCst);
        ticket
    }

    /// Leaves the wait queue; true if no task had woken the caller.
    #[doc(alias = "finish_wait")]
    pub(crate) fn leave(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        let mut waiters = self.waiters.lock(cx.cpu());
        let before = waiters.queue.len();
        waiters.queue.retain(|(t, _)| *t != ticket);
        self.len.store(waiters.queue.len() as u32, Relaxed);
        waiters.queue.len() != before
    }

    /// True while the holder of a ticket has not been woken.
    fn is_queued(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        self.waiters.lock(cx.cpu()).queue.binary_search_by_key(&ticket, |(t, _)| *t).is_ok()
    }

    /// Sleeps until the holder of a ticket is woken. A host may end a sleep for other reasons (a
    /// wake-up meant for an earlier one); those do not count.
    pub(crate) fn park(&self, cx: &Cx<'_, H>, ticket: u64, why: &'static str) {
        while self.is_queued(cx, ticket) {
            cx.host.park(why);
        }
    }

    /// As [`WaitQueue::park`], for `timeout` timer ticks at most; the ticks that were left.
    pub(crate) fn park_jiffies(
        &self,
        cx: &Cx<'_, H>,
        ticket: u64,
        why: &'static str,
        timeout: u64,
    ) -> u64 {
        let mut left = timeout;
        while left != 0 && self.is_queued(cx, ticket) {
            left = cx.host.park_jiffies(why, left);
        }
        left
    }

    /// Waits until `ready` says so. Uninterruptible.
    pub fn wait(&self, cx: &Cx<'_, H>, why: &'static str, ready: impl FnMut() -> bool) {
        self.wait_or(cx, why, ready, || false);
    }

    /// Waits until `ready` or until the task is to die; true if `ready`.
    #[must_use]
    pub fn wait_killable(
        &self,
        cx: &Cx<'_, H>,
        why: &'static str,
        ready: impl FnMut() -> bool,
    ) -> bool {
        self.wait_or(cx, why, ready, || cx.is_dying())
    }

    #[inline(never)]
    fn wait_or(
        &self,
        cx: &Cx<'_, H>,
        why: &'static str,
        mut ready: impl FnMut() -> bool,
        give_up: impl Fn() -> bool,
    ) -> bool {
        loop {
            if ready() {
                return true;
            }
            if give_up() {
                return false;
            }
            let ticket = self.enter(cx);
            // Call it only once, because it may take a lock.
            let is_ready = ready();
            if !is_ready && !give_up() {
                cx.host.park(why);
            }
            self.leave(cx, ticket);
            if is_ready {
                return true;
            }
        }
    }

    /// Waits until `ready`, behind earlier waiters: only the first one calls `ready`, and again at
    /// each [`WaitQueue::prompt`]. Uninterruptible.
    pub fn wait_in_turn(&self, cx: &Cx<'_, H>, why: &'static str, mut ready: impl FnMut() -> bool) {
        if !self.has_waiters() && ready() {
            return;
        }
        let ticket = self.enter(cx);
        while !(self.is_first(cx, ticket) && ready()) {
            cx.host.park(why);
        }
        self.leave(cx, ticket);
        // There may be room for the next waiter too.
        self.prompt(cx.host, cx.cpu());
    }

    /// True if the holder of a ticket is the first.
    fn is_first(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        self.waiters.lock(cx.cpu()).queue.front().is_some_and(|(first, _)| *first == ticket)
    }

    /// Makes the first of the tasks that [wait in turn](WaitQueue::wait_in_turn) check again. It
    /// stays first if it is not ready. Only for queues whose waiters all wait in turn.
    pub fn prompt(&self, host: &H, cpu: CpuId) {
        if !self.has_waiters() {
            return;
        }
        let first = self.waiters.lock(cpu).queue.front().map(|(_, task)| task.clone());
        if let Some(task) = first {
            host.unpark(&task);
        }
    }

    /// Sleeps until woken, for `timeout` timer ticks at most; the ticks that were left.
    pub fn sleep_jiffies(&self, cx: &Cx<'_, H>, why: &'static str, timeout: u64) -> u64 {
        let ticket = self.enter(cx);
        let left = self.park_jiffies(cx, ticket, why, timeout);
        self.leave(cx, ticket);
        left
    }

    /// Waits until `ready`, for `timeout` timer ticks at most; the ticks that were left, at least
    /// 1 if `ready`.
    pub fn wait_jiffies(
        &self,
        cx: &Cx<'_, H>,
        why: &'static str,
        timeout: u64,
        ready: impl FnMut() -> bool,
    ) -> u64 {
        self.wait_jiffies_or(cx, why, timeout, ready, || false)
    }

    /// As [`WaitQueue::wait_jiffies`], but a task that is to die stops waiting.
    pub fn wait_jiffies_killable(
        &self,
        cx: &Cx<'_, H>,
        why: &'static str,
        timeout: u64,
        ready: impl FnMut() -> bool,
    ) -> u64 {
        self.wait_jiffies_or(cx, why, timeout, ready, || cx.is_dying())
    }

    fn wait_jiffies_or(
        &self,
        cx: &Cx<'_, H>,
        why: &'static str,
        timeout: u64,
        mut ready: impl FnMut() -> bool,
        give_up: impl Fn() -> bool,
    ) -> u64 {
        let mut left = timeout;
        loop {
            if ready() {
                return left.max(1);
            }
            if left == 0 || give_up() {
                return left;
            }
            let ticket = self.enter(cx);
            let is_ready = ready();
            if !is_ready && !give_up() {
                left = cx.host.park_jiffies(why, left);
            }
            self.leave(cx, ticket);
            if is_ready {
                return left.max(1);
            }
        }
    }

    /// Wakes every task that waits now.
    #[doc(alias = "wake_up_all")]
    #[inline]
    pub fn wake_all(&self, host: &H, cpu: CpuId) {
        if self.has_waiters() {
            self.wake_those(host, cpu);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_those(&self, host: &H, cpu: CpuId) {
        let woken = {
            let mut waiters = self.waiters.lock(cpu);
            self.len.store(0, Relaxed);
            core::mem::take(&mut waiters.queue)
        };
        for (_, task) in &woken {
            host.unpark(task);
        }
    }

    /// Wakes the task that has waited longest.
    #[doc(alias = "wake_up")]
    pub fn wake_one(&self, host: &H, cpu: CpuId) {
        if !self.has_waiters() {
            return;
        }
        let first = {
            let mut waiters = self.waiters.lock(cpu);
            let first = waiters.queue.pop_front();
            self.len.store(waiters.queue.len() as u32, Relaxed);
            first
        };
        if let Some((_, task)) = first {
            host.unpark(&task);
        }
    }
}

impl<H: Tasks> core::fmt::Debug for WaitQueue<H>
where
    H: Host,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "WaitQueue({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;

    /// A condition that takes something when it holds (a lock) holds once.
    #[test]
    fn what_became_ready_on_the_way_in_is_not_asked_again() {
        let host = Solo::default();
        let (cx, queue) = (Cx::new(&host, CpuId(0)), WaitQueue::new(&host));
        let mut asked = 0;
        queue.wait(&cx, "the second answer", || {
            asked += 1;
            asked == 2
        });
        assert_eq!(asked, 2);
        let left = queue.wait_jiffies(&cx, "the fourth answer", 5, || {
            asked += 1;
            asked == 4
        });
        assert_eq!((asked, left, queue.len()), (4, 5, 0));
    }
}
