//! Sleeping reader-writer lock: of an address space (`mmap_lock`), of a file
//! (rules/sleeping-locks#rwsem).
//!
//! ```text
//!  state   WRITER | WAITERS | HANDOFF | number of readers
//!  owner   the last writer, while it is inside; or READER, with NONSPINNABLE
//!  list    sleeping tasks, first come first:  writer, reader, reader, writer ...
//! ```
//!
//! Key types: [`RwSem`], its guards, [`RwSemRules`] (differences between kernels). [`spin`] has
//! optimistic spinning, [`slow`] sleeping and waking.
//!
//! Synchronisation: `state` changes atomically. WAITERS, HANDOFF and the list change under the list's lock. A releaser that
//! grants the lock to queued readers does it under the list's lock.

mod slow;
mod spin;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;

use crate::host::{Cx, Tasks};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::sync::order::LockClass;

/// A writer is inside.
const WRITER: u32 = 1 << 31;
/// Somebody sleeps.
const WAITERS: u32 = 1 << 30;
/// The first sleeping task is next: no other task may take the lock.
const HANDOFF: u32 = 1 << 29;
/// The number of readers.
const READERS: u32 = HANDOFF - 1;

/// Owner: readers, not a writer.
const READER: u64 = 1;
/// Owner: readers that stay longer than it is worth to spin.
const NONSPINNABLE: u64 = 2;
/// Owner: a writer's word begins here.
const WORD_SHIFT: u32 = 2;

/// How a reader acts when the lock is held or has waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomers {
    /// It sleeps behind them.
    Queue,
    /// It spins while the owner runs, as writers do, and may overtake sleeping tasks.
    Spin,
    /// It overtakes sleeping tasks if no writer is inside and no other reader did so.
    Steal,
}

/// What kernels do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwSemRules {
    /// Readers that sleep behind a writer come in together with those before it.
    pub readers_pass_writers: bool,
    /// The first that sleeps is handed the lock after more than a tick.
    pub hands_off: bool,
    /// Readers that come.
    pub newcomers: Newcomers,
}

/// A sleeping reader-writer lock; tasks that sleep hold up new readers.
///
/// It holds no value; its user defines what it protects.
#[doc(alias = "rw_semaphore")]
pub struct RwSem<H: Tasks> {
    state: AtomicU32,
    owner: AtomicU64,
    /// Tasks that spin, and the first of them: its ticket, and its word for [`Tasks::is_on_cpu`].
    nr_spinners: AtomicU32,
    first_spinner: AtomicU64,
    first_word: AtomicU64,
    waiters: H::Lock<Waiters<H::Task>>,
    rules: RwSemRules,
    why: &'static str,
}

struct Waiters<T> {
    /// By ticket.
    list: VecDeque<Waiter<T>>,
    next_ticket: u64,
    /// Tickets and words of spinning tasks, in the order of their arrival (an MCS queue).
    spinners: VecDeque<(u64, u64)>,
}

struct Waiter<T> {
    ticket: u64,
    is_writer: bool,
    /// Timer ticks when it queued.
    since: u64,
    task: T,
}

/// Shared access until dropped.
pub struct ReadGuard<'a, 'h, H: Tasks> {
    sem: &'a RwSem<H>,
    cx: &'a Cx<'h, H>,
}

/// Exclusive access until dropped.
pub struct WriteGuard<'a, 'h, H: Tasks> {
    sem: &'a RwSem<H>,
    cx: &'a Cx<'h, H>,
}

impl<H: Tasks> RwSem<H> {
    /// A free lock; `why` appears in reports of stuck tasks.
    pub fn new(host: &H, rules: RwSemRules, why: &'static str) -> Self {
        let waiters = Waiters { list: VecDeque::new(), next_ticket: 1, spinners: VecDeque::new() };
        RwSem {
            state: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            nr_spinners: AtomicU32::new(0),
            first_spinner: AtomicU64::new(0),
            first_word: AtomicU64::new(0),
            waiters: host.new_lock(LockClass::Wait, waiters),
            rules,
            why,
        }
    }

    /// Takes the lock for reading.
    #[doc(alias = "down_read")]
    pub fn read<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> ReadGuard<'a, 'h, H> {
        if !self.try_reader() {
            self.read_slow(cx);
        }
        ReadGuard { sem: self, cx }
    }

    /// Takes the lock for reading if that needs no waiting.
    #[doc(alias = "down_read_trylock")]
    pub fn try_read<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> Option<ReadGuard<'a, 'h, H>> {
        // Not `then_some`: it would make a guard in either case, and dropping that would release a
        // lock that is not held.
        self.try_reader().then(|| ReadGuard { sem: self, cx })
    }

    /// Takes the lock for writing.
    #[doc(alias = "down_write")]
    pub fn write<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> WriteGuard<'a, 'h, H> {
        if !self.try_writer(cx) {
            self.write_slow(cx);
        }
        WriteGuard { sem: self, cx }
    }

    /// Takes the lock for writing if that needs no waiting.
    #[doc(alias = "down_write_trylock")]
    pub fn try_write<'a, 'h>(&'a self, cx: &'a Cx<'h, H>) -> Option<WriteGuard<'a, 'h, H>> {
        self.try_writer(cx).then(|| WriteGuard { sem: self, cx })
    }

    #[inline]
    fn try_reader(&self) -> bool {
        let take = |state: u32| (state & !READERS == 0).then_some(state + 1);
        let is_taken = self.state.fetch_update(Acquire, Relaxed, take).is_ok();
        if is_taken {
            self.own_as_reader();
        }
        is_taken
    }

    #[inline]
    fn try_writer(&self, cx: &Cx<'_, H>) -> bool {
        let is_taken = self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok();
        if is_taken {
            self.own_as_writer(cx);
        }
        is_taken
    }

    #[inline]
    fn own_as_reader(&self) {
        let before = self.owner.load(Relaxed);
        // Most readers are not the first ones: nothing is written then.
        if before & READER == 0 {
            self.owner.store(READER | before & NONSPINNABLE, Relaxed);
        }
    }

    #[inline]
    fn own_as_writer(&self, cx: &Cx<'_, H>) {
        self.owner.store(cx.host.current_word() << WORD_SHIFT, Relaxed);
    }

    /// Runs all events earlier than the caller's clock, if others look at the lock. Only the simulator needs it: its tasks
    /// run ahead of each other.
    #[inline]
    fn settle(&self, cx: &Cx<'_, H>) {
        if self.state.load(Relaxed) & WAITERS != 0 || self.nr_spinners.load(Relaxed) != 0 {
            cx.host.settle();
        }
    }
}

impl<'a, 'h, H: Tasks> WriteGuard<'a, 'h, H> {
    /// Turns a writer's lock into a reader's; no writer comes in between.
    #[doc(alias = "downgrade_write")]
    pub fn downgrade(self) -> ReadGuard<'a, 'h, H> {
        let (sem, cx) = (self.sem, self.cx);
        core::mem::forget(self);
        sem.settle(cx);
        sem.owner.store(READER, Relaxed);
        let before = sem.state.fetch_sub(WRITER - 1, AcqRel);
        // A reader on its way into the queue may be counted.
        debug_assert!(before & WRITER != 0, "a writer was inside: {before:#x}");
        if before & WAITERS != 0 {
            sem.wake_readers(cx);
        }
        ReadGuard { sem, cx }
    }
}

impl<H: Tasks> Drop for ReadGuard<'_, '_, H> {
    #[inline]
    fn drop(&mut self) {
        self.sem.settle(self.cx);
        let before = self.sem.state.fetch_sub(1, Release);
        debug_assert!(before & WRITER == 0 && before & READERS != 0, "a reader among {before:#x}");
        if before & (READERS | WAITERS) == WAITERS | 1 {
            self.sem.wake_after_readers(self.cx);
        }
    }
}

impl<H: Tasks> Drop for WriteGuard<'_, '_, H> {
    #[inline]
    fn drop(&mut self) {
        self.sem.settle(self.cx);
        self.sem.owner.store(0, Relaxed);
        let before = self.sem.state.fetch_sub(WRITER, Release);
        // A reader on its way into the queue may be counted.
        debug_assert!(before & WRITER != 0, "a writer was inside: {before:#x}");
        if before & WAITERS != 0 {
            self.sem.wake_first(self.cx);
        }
    }
}
