//! State that the tasks of a run share, and the gate at which they stop for an audit.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Signals};
use highwater_core::net::Connection;
use highwater_core::page::{Order, Pfn};
use highwater_core::page_cache::File;
use highwater_core::vm::Mm;
use highwater_core::vmstat::VmEvent;

use super::options::Options;
use crate::engine::TaskId;
use crate::host::SimHost;
use crate::machine::SimKernel;

/// Times between two looks of a task at the gate. All look at the same moments: on a slow machine
/// with many tasks, one of them would always be awake, and an audit needs a moment at which none
/// is.
const GATE_SLEEP_NS: u64 = 100_000_000;

/// Counters of work that costs real time.
const EFFORT: [VmEvent; 4] =
    [VmEvent::Pgfault, VmEvent::Pgfree, VmEvent::PgscanKswapd, VmEvent::PgscanDirect];

/// The part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// With faults, until the work is done.
    Safety,
    /// Without faults: every task does its last operations and ends.
    Liveness,
}

/// Shared state of one run.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) machine: SimKernel,
    /// Files by their place in the options; a new one after a deletion.
    pub(super) files: RefCell<Vec<Arc<File<SimHost>>>>,
    /// Small files, whose inodes come and go.
    pub(super) small: RefCell<Vec<Arc<File<SimHost>>>>,
    /// Tasks that run.
    pub(super) tasks: RefCell<Vec<Enlisted>>,
    /// Blocks that tasks took straight from the allocator, by first frame.
    pub(super) blocks: RefCell<BTreeSet<Pfn>>,
    /// Connections that no task has accepted, and those that are open.
    pub(super) listening: RefCell<Vec<Arc<Connection<SimHost>>>>,
    pub(super) nr_sockets: Cell<u64>,
    /// Tasks that were started and have not ended.
    pub(super) nr_alive: Cell<u64>,
    /// Tasks so far.
    pub(super) nr_started: Cell<u64>,
    /// Work that the counters do not include.
    spent: Cell<u64>,
    pub(super) phase: Cell<Phase>,
    /// When the faults ended, pages in the swap cache could not be read.
    pub(super) has_failed_swapins: Cell<bool>,
    pub(super) gate: Gate,
    pub(super) tally: Tally,
}

/// Results of calls, for reports.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) nr_ops: Cell<u64>,
    pub(super) nr_io_errors: Cell<u64>,
    pub(super) nr_no_memory: Cell<u64>,
    pub(super) nr_killed: Cell<u64>,
    /// Tasks without memory for an address space.
    pub(super) nr_refused: Cell<u64>,
    /// Of the liveness phase: tasks that did all of their operations, and that were killed before.
    pub(super) nr_finished: Cell<u64>,
    pub(super) nr_cut_short: Cell<u64>,
}

/// Adds one.
pub(super) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// A task that other tasks can kill.
#[derive(Clone)]
pub(super) struct Enlisted {
    pub(super) id: TaskId,
    pub(super) signals: Arc<Signals>,
}

impl Shared {
    pub(super) fn new(options: &Options, machine: SimKernel) -> Rc<Shared> {
        let gate = Gate {
            close_at: RefCell::new(closing_points(options)),
            is_closed: Cell::new(false),
            nr_waiting: Cell::new(0),
        };
        Rc::new(Shared {
            machine,
            files: RefCell::new(Vec::new()),
            small: RefCell::new(Vec::new()),
            tasks: RefCell::new(Vec::new()),
            blocks: RefCell::new(BTreeSet::new()),
            listening: RefCell::new(Vec::new()),
            nr_sockets: Cell::new(0),
            nr_alive: Cell::new(0),
            nr_started: Cell::new(0),
            spent: Cell::new(0),
            phase: Cell::new(Phase::Safety),
            has_failed_swapins: Cell::new(false),
            gate,
            tally: Tally::default(),
            options: options.clone(),
        })
    }

    /// Frees a block that a program took for itself.
    pub(super) fn give_back(&self, cx: &Cx<'_, SimHost>, (pfn, order): (Pfn, Order)) {
        self.blocks.borrow_mut().remove(&pfn);
        self.machine.kernel.mem.free(cx, pfn, order).expect("a block in use, with one user");
    }

    /// Adds work that the counters do not include.
    pub(super) fn spend(&self, work: u64) {
        self.spent.set(self.spent.get() + work);
    }

    /// The remaining work, given the kernel's work so far; closes the gate when an audit is due.
    pub(super) fn work_left(&self) -> u64 {
        let events = &self.machine.kernel.mem.events;
        let counted: u64 = EFFORT.iter().map(|&event| events.read(event)).sum();
        let transferred = events.read(VmEvent::Pgpgin) + events.read(VmEvent::Pgpgout);
        let done = self.spent.get() + counted + transferred / 4;
        let left = self.options.work.saturating_sub(done);
        let mut points = self.gate.close_at.borrow_mut();
        if points.last().is_some_and(|&point| left <= point) {
            points.pop();
            self.gate.is_closed.set(true);
        }
        left
    }

    /// True in the liveness phase.
    pub(super) fn is_live(&self) -> bool {
        self.phase.get() == Phase::Liveness
    }

    /// Waits while the gate is closed. A killed task may pass, so that its memory is freed.
    pub(super) fn pass_gate(&self, cx: &Cx<'_, SimHost>) {
        let gate = &self.gate;
        if !gate.is_closed.get() {
            return;
        }
        count(&gate.nr_waiting);
        while gate.is_closed.get() && !cx.is_dying() {
            let sim = cx.host.sim();
            sim.sleep_until((sim.now_ns() / GATE_SLEEP_NS + 1) * GATE_SLEEP_NS);
        }
        gate.nr_waiting.set(gate.nr_waiting.get() - 1);
    }

    /// True if every task that has not ended waits at the gate.
    pub(super) fn all_wait(&self) -> bool {
        self.gate.is_closed.get() && self.gate.nr_waiting.get() == self.nr_alive.get()
    }
}

/// Remaining work at which the gate closes, in rising order.
fn closing_points(options: &Options) -> Vec<u64> {
    let parts = options.nr_audits + 1;
    (1..parts).map(|part| options.work * part / parts).collect()
}

/// Tasks stop here while the machine is audited.
pub(super) struct Gate {
    close_at: RefCell<Vec<u64>>,
    pub(super) is_closed: Cell<bool>,
    nr_waiting: Cell<u64>,
}

/// An address space and the tasks that use it.
pub(super) struct Group {
    pub(super) mm: Arc<Mm<SimHost>>,
    pub(super) regions: RefCell<Vec<Region>>,
    pub(super) nr_users: Cell<u64>,
    pub(super) next_region: Cell<u64>,
    /// Calls of munmap in progress, and so far.
    pub(super) nr_unmapping: Cell<u64>,
    pub(super) nr_unmaps: Cell<u64>,
}

/// A part of an address space that one call mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Number within the address space, never reused.
    pub(super) id: u64,
    pub(super) start: u32,
    pub(super) pages: u32,
    pub(super) is_anon: bool,
    pub(super) is_writable: bool,
    /// No part of it was unmapped.
    pub(super) is_whole: bool,
}

impl Group {
    /// The group of a child: the regions of its parent that are still mapped.
    pub(super) fn fork_of(parent: &Group, mm: Arc<Mm<SimHost>>) -> Rc<Group> {
        let group = Group::new(mm);
        let copy = |region: &Region| Region { is_whole: false, ..*region };
        *group.regions.borrow_mut() = parent.regions.borrow().iter().map(copy).collect();
        group.next_region.set(parent.next_region.get());
        group
    }

    pub(super) fn new(mm: Arc<Mm<SimHost>>) -> Rc<Group> {
        Rc::new(Group {
            mm,
            regions: RefCell::new(Vec::new()),
            nr_users: Cell::new(1),
            next_region: Cell::new(0),
            nr_unmapping: Cell::new(0),
            nr_unmaps: Cell::new(0),
        })
    }

    /// True if every access of the kind is allowed to a region, now and when it was chosen.
    pub(super) fn must_be_there(&self, region: &Region, is_write: bool) -> bool {
        let is_sure = region.is_anon && region.is_whole && (region.is_writable || !is_write);
        is_sure && self.nr_unmapping.get() == 0 && self.regions.borrow().contains(region)
    }

    /// Regions that share pages with `start..end` are not whole any more.
    pub(super) fn pierce(&self, start: u32, end: u32) {
        let mut regions = self.regions.borrow_mut();
        let hit = regions.iter_mut().filter(|r| r.start < end && start < r.start + r.pages);
        hit.for_each(|region| region.is_whole = false);
    }
}
