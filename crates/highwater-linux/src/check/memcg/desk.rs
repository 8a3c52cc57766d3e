//! The hand-over of operations to a worker, one at a time, and the pace of each.
//!
//! ```text
//! main program:  give ─▶ ............................ wait ─▶ outcome
//! worker:               take ─▶ does it ─▶ finish ─────┘
//! ```
//!
//! Synchronisation: a machine's tasks are coroutines of one thread, and none of them can run
//! between a look at a cell and the entry into a queue.

use std::cell::{Cell, RefCell};

use highwater_core::host::{Cx, Host};
use highwater_core::kernel::Error;
use highwater_core::units::GroupId;
use highwater_core::wait::WaitQueue;
use highwater_results::import::linux61::Work;
use highwater_sim::host::SimHost;

/// An order to a worker.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// An operation of the script, and the least time that it is to take.
    Work { work: Work, took_ns: Option<u64> },
    /// It belongs to this group from now on.
    Join(GroupId),
    /// Its end; nothing is reported.
    End,
}

/// The outcome of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Pages, or KiB.
    pub(super) done: u64,
    /// Milliseconds of pages that took long.
    pub(super) slept_ms: f64,
    /// Why it ended early.
    pub(super) failed: Option<Error>,
    /// The OOM killer chose the worker meanwhile.
    pub(super) is_killed: bool,
    /// The worker was gone before.
    pub(super) is_dead: bool,
}

/// The speed of an operation: that of the captured machine, as far as the model is faster.
///
/// No cost table knows how busy the computer below an emulated CPU was. Its speed decides how much
/// work lies between two runs of the worker that sums up statistics of groups, and kernels from 6.12
/// on reclaim by these sums. So each part of an operation ends no earlier than that part did on the
/// captured machine if it ran evenly. Times are input: no time of such an operation is compared. A
/// model that is slower is not held up; an operation with a time limit has its time already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    begin_ns: u64,
    /// None: as fast as it can.
    took_ns: Option<u64>,
}

impl Pace {
    /// The pace of an operation that begins now.
    pub(super) fn begin(cx: &Cx<'_, SimHost>, took_ns: Option<u64>) -> Pace {
        Pace { begin_ns: cx.host.now_ns(), took_ns }
    }

    /// The caller has done `done` of `total` parts. It computes until the captured machine had.
    pub(super) fn keep(self, cx: &Cx<'_, SimHost>, done: u64, total: u64) {
        let Some(took_ns) = self.took_ns else { return };
        let part_ns = u128::from(took_ns) * u128::from(done.min(total)) / u128::from(total.max(1));
        let due_ns = self.begin_ns + part_ns as u64;
        let early_ns = due_ns.saturating_sub(cx.host.now_ns());
        if early_ns != 0 {
            cx.host.sim().compute(early_ns);
        }
    }
}

/// The place where the main program and a worker meet.
pub(super) struct Desk {
    order: RefCell<Option<Order>>,
    outcome: RefCell<Option<Outcome>>,
    /// The worker has ended.
    is_gone: Cell<bool>,
    /// An order was given and its outcome was not taken.
    is_busy: Cell<bool>,
    changed: WaitQueue<SimHost>,
}

impl Desk {
    pub(super) fn new(host: &SimHost) -> Desk {
        Desk {
            order: RefCell::default(),
            outcome: RefCell::default(),
            is_gone: Cell::new(false),
            // Its start is its first order.
            is_busy: Cell::new(true),
            changed: WaitQueue::new(host),
        }
    }

    fn wake(&self, cx: &Cx<'_, SimHost>) {
        self.changed.wake_all(cx.host, cx.cpu());
    }

    /// The main program hands an operation over.
    pub(super) fn give(&self, cx: &Cx<'_, SimHost>, order: Order) {
        self.is_busy.set(true);
        *self.order.borrow_mut() = Some(order);
        self.wake(cx);
    }

    /// The main program waits for the outcome of what it gave. None if it gave nothing.
    pub(super) fn wait(&self, cx: &Cx<'_, SimHost>) -> Option<Outcome> {
        if !self.is_busy.replace(false) {
            return None;
        }
        let is_over = || self.outcome.borrow().is_some() || self.is_gone.get();
        self.changed.wait(cx, "a worker's operation", is_over);
        let gone = Outcome { is_dead: true, ..Outcome::default() };
        Some(self.outcome.borrow_mut().take().unwrap_or(gone))
    }

    /// The worker waits for its next operation; none if it is to die.
    pub(super) fn take(&self, cx: &Cx<'_, SimHost>) -> Option<Order> {
        let has_order = || self.order.borrow().is_some();
        let is_given = self.changed.wait_killable(cx, "the next operation", has_order);
        if is_given { self.order.borrow_mut().take() } else { None }
    }

    /// The worker reports.
    pub(super) fn finish(&self, cx: &Cx<'_, SimHost>, outcome: Outcome) {
        *self.outcome.borrow_mut() = Some(outcome);
        self.wake(cx);
    }

    /// The worker has ended; an operation that it was in ended like this.
    pub(super) fn leave(&self, cx: &Cx<'_, SimHost>, outcome: Option<Outcome>) {
        self.is_gone.set(true);
        *self.outcome.borrow_mut() = outcome;
        self.wake(cx);
    }

    /// Waits until the worker has ended: for its children.
    pub(super) fn wait_for_end(&self, cx: &Cx<'_, SimHost>) {
        let _ = self.changed.wait_killable(cx, "the end of the parent", || self.is_gone.get());
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.get()
    }
}
