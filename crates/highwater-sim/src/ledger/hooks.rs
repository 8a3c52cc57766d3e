//! Entry points for the engine, locks and the host while a ledger is open.
//!
//! The engine checks `State::book` only where it stops, wakes and resumes tasks. Hot paths call
//! [`Sim::is_booking`], which is one test of a flag.

use std::rc::Rc;

use highwater_core::host::Phase;
use highwater_core::trace::Event;
use highwater_core::units::GroupId;

use super::book::Counts;
use super::journal::{Role, What, Window};
use super::{BlockedBy, Book, Ledger, NodeKey, Pause, Transfer};
use crate::cpu::CpuId;
use crate::engine::Sim;
use crate::engine::executor::Inner;
use crate::engine::state::State;
use crate::engine::task::{Errand, Placement, TaskIndex, TaskState, WaitOn};

/// The ledger.
impl Sim {
    /// Begins to book the time of every task by cause. Earlier bookings and the longest waits and
    /// holds of locks are reset.
    pub fn open_ledger(&self) {
        self.open_ledger_of(usize::MAX);
    }

    /// As [`Sim::open_ledger`], but keeps only the `nr_kept` slowest operations whole, so that a
    /// long run's ledger takes no more memory than a short one's.
    pub fn open_ledger_of(&self, nr_kept: usize) {
        self.open_ledger_with(nr_kept, None, None);
    }

    /// As [`Sim::open_ledger_of`]. If a name `only` is given, only operations of that name are kept
    /// whole. If a window of time is given, the ledger's [journal](Ledger::journal) keeps each
    /// change in it.
    pub fn open_ledger_with(&self, nr_kept: usize, only: Option<&str>, journal: Option<Window>) {
        self.sync();
        let inner = &*self.inner;
        let state = &mut *inner.state.borrow_mut();
        let now_ns = inner.local_ns.get().max(state.now_ns);
        let mut book = Book::new(nr_kept, only, journal);
        for task in state.tasks.live() {
            state.begin_life(&mut book, task, now_ns);
        }
        if let Some(me) = inner.current() {
            book.resume(me, inner.cpu.get(), inner.counts());
        }
        state.book = Some(Box::new(book));
        inner.booking.set(true);
        inner.locks.borrow().iter().for_each(|class| class.forget_longest());
    }

    /// Ends the booking and returns the ledger; empty if none was open.
    pub fn close_ledger(&self) -> Ledger {
        self.sync();
        let inner = &*self.inner;
        self.book(|book, me, counts| book.settle(me, counts));
        inner.booking.set(false);
        let state = &mut *inner.state.borrow_mut();
        let now_ns = inner.local_ns.get().max(state.now_ns);
        let ledger = state.book.take().map_or_else(Ledger::default, |book| book.close(now_ns));
        Ledger { groups: state.group_names.clone(), ..ledger }
    }

    /// True while a ledger is open.
    #[inline(always)]
    pub(crate) fn is_booking(&self) -> bool {
        self.inner.booking.get()
    }

    /// Calls `tell` with the book and the running task, if both exist.
    fn book(&self, tell: impl FnOnce(&mut Book, TaskIndex, Counts)) {
        let inner = &*self.inner;
        if let Some(me) = inner.current()
            && let Some(book) = &mut inner.state.borrow_mut().book
        {
            tell(book, me, inner.counts());
        }
    }

    /// The running task, an interrupt, ends this transfer from now on (`None`: no transfer any
    /// more). Waits that it ends are waits for the transfer.
    pub(crate) fn ending_transfer(&self, transfer: Option<Transfer>) {
        if self.is_booking() {
            self.book(|book, me, _| book.ending_transfer(me, transfer));
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn begin_phase(&self, phase: Phase) {
        self.enter(NodeKey::Phase(phase));
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn begin_group_phase(&self, phase: Phase, group: GroupId) {
        self.enter(NodeKey::GroupPhase(phase, group));
    }

    fn enter(&self, key: NodeKey) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.descend(me, key);
        });
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn end_phase(&self, phase: Phase) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.ascend_from_phase(me, phase);
        });
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn begin_op(&self) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.begin_op(me);
        });
    }

    /// Sleeps; an operation begins when the sleep is over.
    pub(crate) fn sleep_and_begin_op(&self, ns: u64) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.begin_op_after_sleep(me);
        });
        self.sleep_ns(ns);
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.sleep_is_over(me);
        });
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn end_op(&self, name: &str) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.end_op(me, name);
        });
    }

    /// The running task begins to wait for a lock.
    pub(crate) fn begin_lock_wait(&self, class: &'static str, holder: TaskIndex) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.want_lock(me, holder);
            book.descend(me, NodeKey::Lock(class));
        });
    }

    /// The running task is about to spin until a lock is free that its last holder released in the
    /// future.
    pub(crate) fn book_spin(&self, last_holder: TaskIndex, ns: u64) {
        self.book(|book, me, counts| book.spin(me, last_holder, counts.now_ns + ns));
    }

    /// The running task has the lock.
    pub(crate) fn end_lock_wait(&self, class: &'static str) {
        self.book(|book, me, counts| {
            book.settle(me, counts);
            book.ascend(me, NodeKey::Lock(class));
        });
    }

    /// Charges kernel time and books it to a leaf.
    pub(crate) fn charge_as(&self, leaf: NodeKey, ns: u64) {
        if self.is_booking() {
            self.book(|book, me, counts| book.settle(me, counts));
        }
        self.charge(ns);
        if self.is_booking() {
            self.book(|book, me, counts| book.settle_as(me, counts, Some(leaf)));
        }
    }

    /// The running task passes a tracepoint: for the journal, if there is one.
    pub(crate) fn note_event(&self, cpu: CpuId, event: Event) {
        self.book(|book, me, counts| book.note_at(me, counts.now_ns, What::Passes(cpu, event)));
    }

    /// The running task's name and, if it is known, its current node.
    pub(crate) fn who_and_what(&self) -> Option<(Rc<str>, Vec<NodeKey>)> {
        let me = self.inner.current()?;
        let state = self.inner.state.borrow();
        let doing = state.book.as_ref().map_or_else(Vec::new, |book| book.doing(me));
        Some((Rc::clone(&state.tasks.info(me).name), doing))
    }
}

impl Inner {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            now_ns: self.local_ns.get(),
            user_ns: self.user_ns.get(),
            tick_ns: self.ticks_ns.get(),
        }
    }

    /// Books the running task's time; the engine then counts its user time from 0.
    #[inline(always)]
    pub(crate) fn book_run(&self, state: &mut State, me: TaskIndex) {
        if self.booking.get() {
            state.tell(|book| {
                book.settle(me, self.counts());
                book.reset_user();
            });
        }
    }

    /// A task resumes now.
    #[inline(always)]
    pub(crate) fn book_resume(&self, state: &mut State, me: TaskIndex) {
        if self.booking.get() {
            let cpu = self.cpu.get();
            state.tell(|book| book.resume(me, cpu, self.counts()));
        }
    }
}

impl State {
    /// Kept out of line, for callers without an open ledger.
    #[cold]
    #[inline(never)]
    fn tell(&mut self, what: impl FnOnce(&mut Book)) {
        if let Some(book) = &mut self.book {
            what(book);
        }
    }

    /// The running task has left its CPU or lets earlier events go first.
    #[inline(always)]
    pub(crate) fn book_pause(&mut self, me: TaskIndex, pause: Pause) {
        if self.book.is_some() {
            self.tell(|book| book.pause(me, pause));
        }
    }

    /// A waiting task is made runnable; `None`: by its timer.
    #[inline(always)]
    pub(crate) fn book_ready(
        &mut self,
        task: TaskIndex,
        now_ns: u64,
        by: Option<(BlockedBy, TaskIndex)>,
    ) {
        if self.book.is_some() {
            self.tell(|book| book.ready(task, now_ns, by));
        }
    }

    /// A runnable task is in the runqueue of its CPU.
    #[inline(always)]
    pub(crate) fn book_queued(&mut self, task: TaskIndex, now_ns: u64) {
        if self.book.is_some() {
            let holder = self.sched.cpus[self.tasks[task].cpu.idx()].current;
            self.tell(|book| book.queue(task, holder, now_ns));
        }
    }

    /// Interrupts delay a runnable task further.
    #[inline(always)]
    pub(crate) fn book_stolen(&mut self, task: TaskIndex, ns: u64) {
        if self.book.is_some() {
            self.tell(|book| book.steal(task, ns));
        }
    }

    /// The task's part in a journal: interrupt, kernel thread or program.
    pub(crate) fn role(&self, task: TaskIndex) -> Role {
        let is_interrupt = matches!(self.tasks[task].placement, Placement::Interrupt(_));
        Role { is_interrupt, is_kernel: self.tasks.info(task).kernel_thread }
    }

    /// Registers a task that exists when the ledger is opened.
    fn begin_life(&self, book: &mut Book, task: TaskIndex, now_ns: u64) {
        let info = self.tasks.info(task);
        let pause = match (self.tasks[task].state, &info.wait_on) {
            (TaskState::Queued, _) => Pause::Queued,
            (TaskState::Sleeping, _) => Pause::Wait(NodeKey::Sleep),
            (TaskState::LockWait | TaskState::Spinning, WaitOn::Lock(class, _)) => {
                Pause::Wait(NodeKey::Lock(class))
            }
            (_, WaitOn::Reason(why)) => Pause::Wait(NodeKey::Wait(why)),
            (_, WaitOn::Exit(_)) => Pause::Wait(NodeKey::Wait(END_OF_TASK)),
            (TaskState::Parked | TaskState::Timed, _) => Pause::Wait(NodeKey::Wait("something")),
            _ => Pause::GaveWay,
        };
        // A task that ran ahead begins at its own clock.
        let pending_ns = match (self.tasks[task].state, self.tasks[task].errand) {
            // Its time is booked when it has computed.
            (_, Errand::Computes { .. }) => None,
            (TaskState::Ready, _) => self.queue.time_of(task.0),
            _ => None,
        };
        let since_ns = pending_ns.map_or(now_ns, |at_ns| at_ns.max(now_ns));
        book.begin(task, &info.name, self.role(task), since_ns, pause);
    }
}

/// Name of the wait for the end of another task.
pub(crate) const END_OF_TASK: &str = "the end of a task";
