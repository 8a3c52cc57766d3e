//! Slow paths: queueing, wake-up, hand-off (rules/sleeping-locks#rwsem-release, rules/sleeping-locks#rwsem-handoff).

use alloc::vec::Vec;

use super::spin::Spins;
use super::{
    HANDOFF, NONSPINNABLE, Newcomers, READER, READERS, RwSem, WAITERS, WRITER, Waiter, Waiters,
};
use crate::host::{Cx, Lock, Tasks};
use crate::sync::atomic::Ordering::*;

/// Readers that come in together at most.
const READERS_MAX: usize = 256;
/// Timer ticks after which the first that sleeps sets HANDOFF.
const PATIENCE: u64 = 1;

/// Whom a look at the list may let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The first, whatever it is.
    Any,
    /// Readers, if the first is one.
    Readers,
    /// As Readers; the caller holds the lock for reading, so no writer can come in.
    ReadersBesides,
}

impl<H: Tasks> RwSem<H> {
    /// Takes the lock for reading after the fast path failed: steals it, or queues and sleeps.
    #[doc(alias = "rwsem_down_read_slowpath")]
    #[cold]
    #[inline(never)]
    pub(super) fn read_slow(&self, cx: &Cx<'_, H>) {
        cx.host.settle();
        if self.rules.newcomers == Newcomers::Spin && self.spin(cx, Spins::Reader) {
            return self.came_in_as_reader(cx);
        }
        let owner = self.owner.load(Relaxed);
        let state = self.state.fetch_add(1, AcqRel) + 1;
        let is_free = state & !READERS == 0;
        let is_one_of_many = owner & READER != 0 && state & READERS > 1 && state & WRITER == 0;
        let steals = self.rules.newcomers == Newcomers::Steal
            && !is_one_of_many
            && state & (WRITER | HANDOFF) == 0;
        if is_free || steals {
            self.own_as_reader();
            return self.came_in_as_reader(cx);
        }
        let Some((ticket, woken)) = self.queue_reader(cx) else { return self.own_as_reader() };
        woken.iter().for_each(|task| cx.host.unpark(task));
        while self.waiters.lock(cx.cpu()).place_of(ticket).is_ok() {
            cx.host.park(self.why);
        }
        self.own_as_reader();
    }

    /// A reader overtook sleeping tasks: if it is the only reader inside and the first of them is a
    /// reader, it lets in the readers among them.
    fn came_in_as_reader(&self, cx: &Cx<'_, H>) {
        if self.state.load(Relaxed) & (READERS | WAITERS) == WAITERS | 1 {
            self.wake_readers(cx);
        }
    }

    /// A reader that counted itself queues; none if it may stay. Its ticket, and whom it has to wake.
    fn queue_reader(&self, cx: &Cx<'_, H>) -> Option<(u64, Vec<H::Task>)> {
        let mut waiters = self.waiters.lock(cx.cpu());
        let is_first = waiters.list.is_empty();
        if is_first && self.state.load(Acquire) & (WRITER | HANDOFF) == 0 {
            return None;
        }
        let ticket = waiters.push(cx, false);
        if is_first {
            self.state.fetch_or(WAITERS, AcqRel);
        }
        let state = self.state.fetch_sub(1, AcqRel) - 1;
        let woken = self.choose_queued(cx, &mut waiters, state, ticket);
        Some((ticket, woken))
    }

    /// Chooses whom the holder of ticket `me`, which has just queued, lets in, perhaps itself.
    /// Readers inside let in readers of the list if one of these is first.
    #[doc(alias = "rwsem_cond_wake_waiter")]
    fn choose_queued(
        &self,
        cx: &Cx<'_, H>,
        waiters: &mut Waiters<H::Task>,
        state: u32,
        me: u64,
    ) -> Vec<H::Task> {
        match (state & WRITER != 0, state & READERS != 0) {
            (true, _) => Vec::new(),
            (false, true) => self.choose(cx, waiters, Wake::Readers, me),
            (false, false) => {
                self.owner.fetch_and(!NONSPINNABLE, Relaxed);
                self.choose(cx, waiters, Wake::Any, me)
            }
        }
    }

    /// Takes the lock for writing after the fast path failed: spins, or queues and sleeps.
    #[doc(alias = "rwsem_down_write_slowpath")]
    #[cold]
    #[inline(never)]
    pub(super) fn write_slow(&self, cx: &Cx<'_, H>) {
        cx.host.settle();
        if self.spin(cx, Spins::Writer) {
            return;
        }
        let (ticket, woken) = self.queue_writer(cx);
        woken.iter().for_each(|task| cx.host.unpark(task));
        while !self.try_as_waiter(cx, ticket) {
            if self.is_next(cx, ticket) && self.spin_until_free(cx) {
                continue;
            }
            cx.host.park(self.why);
        }
        self.own_as_writer(cx);
    }

    fn queue_writer(&self, cx: &Cx<'_, H>) -> (u64, Vec<H::Task>) {
        let mut waiters = self.waiters.lock(cx.cpu());
        let is_first = waiters.list.is_empty();
        let ticket = waiters.push(cx, true);
        if is_first {
            self.state.fetch_or(WAITERS, AcqRel);
            return (ticket, Vec::new());
        }
        let state = self.state.load(Acquire);
        let woken = self.choose_queued(cx, &mut waiters, state, ticket);
        (ticket, woken)
    }

    /// Tries to take the lock for a writer in the list. If the writer has waited long, no other task
    /// gets the lock from now on.
    #[doc(alias = "rwsem_try_write_lock")]
    fn try_as_waiter(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        let mut waiters = self.waiters.lock(cx.cpu());
        let Ok(at) = waiters.place_of(ticket) else { return false };
        let is_first = at == 0;
        let mut state = self.state.load(Acquire);
        loop {
            if state & HANDOFF != 0 && !is_first {
                return false;
            }
            if state & (WRITER | READERS) != 0 {
                if is_first {
                    self.ask_for_handoff(cx, waiters.list[at].since);
                }
                return false;
            }
            let is_last = if waiters.list.len() == 1 { WAITERS } else { 0 };
            let taken = (state | WRITER) & !HANDOFF & !is_last;
            match self.state.compare_exchange(state, taken, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        waiters.list.remove(at);
        true
    }

    fn ask_for_handoff(&self, cx: &Cx<'_, H>, since: u64) {
        if self.rules.hands_off && cx.host.jiffies() > since + PATIENCE {
            self.state.fetch_or(HANDOFF, AcqRel);
        }
    }

    /// True if the caller is the first sleeping task, and no other task may take the lock.
    fn is_next(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        self.state.load(Acquire) & HANDOFF != 0
            && self.waiters.lock(cx.cpu()).place_of(ticket) == Ok(0)
    }

    /// Wakes the first waiter when a writer leaves, unless readers inside let it in already.
    #[doc(alias = "rwsem_wake")]
    #[cold]
    #[inline(never)]
    pub(super) fn wake_first(&self, cx: &Cx<'_, H>) {
        self.wake(cx, Wake::Any);
    }

    /// The last reader left.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_after_readers(&self, cx: &Cx<'_, H>) {
        self.owner.fetch_and(!NONSPINNABLE, Relaxed);
        self.wake(cx, Wake::Any);
    }

    /// The caller holds the lock for reading after a steal or a downgrade: lets queued readers in if one is at the head.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_readers(&self, cx: &Cx<'_, H>) {
        self.wake(cx, Wake::ReadersBesides);
    }

    fn wake(&self, cx: &Cx<'_, H>, whom: Wake) {
        let woken = {
            let mut waiters = self.waiters.lock(cx.cpu());
            self.choose(cx, &mut waiters, whom, 0)
        };
        woken.iter().for_each(|task| cx.host.unpark(task));
    }

    /// Lets in the waiters that may come in: a writer only learns that it may try, readers have the
    /// lock from now on. Returns the waiters to be woken, without the holder of ticket `me`.
    #[doc(alias = "rwsem_mark_wake")]
    fn choose(
        &self,
        cx: &Cx<'_, H>,
        waiters: &mut Waiters<H::Task>,
        whom: Wake,
        me: u64,
    ) -> Vec<H::Task> {
        let mut woken = Vec::new();
        let Some(first) = waiters.list.front() else { return woken };
        if first.is_writer {
            if whom == Wake::Any && first.ticket != me {
                woken.push(first.task.clone());
            }
            return woken;
        }
        let mut nr_counted = 0;
        if whom != Wake::ReadersBesides {
            // So that no writer comes in while the others are counted.
            if self.state.fetch_add(1, AcqRel) & WRITER != 0 {
                self.ask_for_handoff(cx, first.since);
                self.state.fetch_sub(1, AcqRel);
                return woken;
            }
            nr_counted = 1;
            self.own_as_reader();
        }
        let (mut at, mut nr) = (0, 0);
        while at < waiters.list.len() && (nr as usize) < READERS_MAX {
            if waiters.list[at].is_writer {
                if !self.rules.readers_pass_writers {
                    break;
                }
                at += 1;
                continue;
            }
            let reader = waiters.list.remove(at);
            woken.extend(reader.filter(|waiter| waiter.ticket != me).map(|waiter| waiter.task));
            nr += 1;
        }
        self.state.fetch_add(nr - nr_counted, AcqRel);
        let is_empty = if waiters.list.is_empty() { WAITERS } else { 0 };
        self.state.fetch_and(!(HANDOFF | is_empty), AcqRel);
        woken
    }
}

impl<T> Waiters<T> {
    pub(super) fn place_of(&self, ticket: u64) -> Result<usize, usize> {
        self.list.binary_search_by_key(&ticket, |waiter| waiter.ticket)
    }

    pub(super) fn next_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket - 1
    }

    /// Queues the running task.
    fn push<H: Tasks<Task = T>>(&mut self, cx: &Cx<'_, H>, is_writer: bool) -> u64 {
        let ticket = self.next_ticket();
        let (since, task) = (cx.host.jiffies(), cx.host.current());
        self.list.push_back(Waiter { ticket, is_writer, since, task });
        ticket
    }
}
