//! [`SimHost`]: the virtual-time machine as the core's [`Host`].
//!
//! Charge points become nanoseconds of the running task's CPU. Locks contend in virtual time.
//! Frames hold no bytes but have a cache warmth. Trace events go to the run's digest and to a sink.
//! A host belongs to one [`Sim`]; tasks share it through an `Rc`.
//!
//! | core asks for | here |
//! |---|---|
//! | `Lock` | spin lock; sleeping lock for `Oom` and `Drain` |
//! | `CpuLock` | private lock: no synchronisation while uncontended |
//! | `charge` | cost table; see [`crate::cost`] |
//! | `frame_*` | [`crate::cpu::cache_warmth`] |
//! | `interrupt` | [`Sim::interrupt`] |
//! | `yield_now` | synchronise; gives way if the time slice is over |
//! | `user_point` | the same, once a program is [`USER_AHEAD_NS`] ahead |
//! | `phase_*`, `op_*` | the ledger, if one is open: [`crate::ledger`] |
//! | `submit` | the disks: [`crate::disk`] |
//! | `park`, `unpark` | the engine's |

mod devices;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use highwater_core::config::Machine;
use highwater_core::host::{
    Cost, CpuId, CpuSet, GroupChange, Host, IpiScope, Lock, Phase, Stall, Tasks,
};
use highwater_core::page::{Order, Pfn};
use highwater_core::sync::order::LockClass as CoreLockClass;
use highwater_core::sync::prefetch::prefetch_read;
use highwater_core::trace::{Event, Kind};
use highwater_core::units::GroupId;

use crate::cost::CostModel;
use crate::cpu::Topology;
use crate::cpu::cache_warmth::{CacheWarmth, Touch};
use crate::digest::DigestPlan;
use crate::engine::{EngineConfig, Sim, TaskId};
use crate::ledger::KindSet;
use crate::lock::{LockClass, LockGuard, LockKind, SimLock};
use devices::Disk;

/// Time by which a program that touches its memory may run ahead of events. The program only sets
/// young and dirty bits meanwhile, which other tasks then see up to this much too early. A touch
/// takes a few nanoseconds, so giving way at each one would cost much more than the touch.
const USER_AHEAD_NS: u64 = 20_000;

/// Receives trace events: virtual time, CPU, event.
pub type TraceSink = Box<dyn Fn(u64, CpuId, &Event)>;

/// Destinations of the core's trace events.
#[derive(Default)]
pub struct Tracing {
    /// Fold every event into the run's digest (scheduling events always are). Costs a few
    /// nanoseconds per event and finds the first divergent event by name.
    pub digest: bool,
    /// A further receiver.
    pub sink: Option<TraceSink>,
    /// Kinds of events that the sink gets; `None`: all. An event without any receiver is not even
    /// built.
    pub sink_kinds: Option<KindSet>,
    /// Kinds of events that go to the ledger's journal, if there is one.
    pub journal: KindSet,
}

impl Tracing {
    /// Events that have a receiver.
    fn traced(&self) -> KindSet {
        let by_sink = match (&self.sink, self.sink_kinds) {
            (None, _) => KindSet::NONE,
            (Some(_), None) => KindSet::all(),
            (Some(_), Some(kinds)) => kinds,
        };
        let by_digest = if self.digest { KindSet::all() } else { KindSet::NONE };
        self.journal.or(by_sink).or(by_digest)
    }
}

/// The machine that the core runs on.
pub struct SimHost {
    sim: Sim,
    costs: CostModel,
    /// By [`Cost`].
    meters: [Meter; Cost::COUNT],
    disks: Vec<Disk>,
    lock_classes: [Rc<LockClass>; CoreLockClass::COUNT],
    warmth: RefCell<CacheWarmth>,
    /// By frame: the CPU whose cache has its descriptor. Integers that begin as 0, so that frames
    /// without a use take no memory.
    descriptors: RefCell<Vec<u16>>,
    /// Cost of getting a descriptor's cache line from another CPU, of the same node or not.
    line_ns: [u64; 2],
    /// By CPU.
    cpu_nodes: Box<[u16]>,
    /// By CPU: its last-level cache, divided by the CPUs of the socket.
    cache_slices: Box<[u64]>,
    /// First frame and node of each range of memory, by frame.
    node_ranges: Vec<(u64, u16)>,
    tracing: Tracing,
    /// Events that have a receiver.
    traced: KindSet,
}

/// A charge point: its cost, and the total charged so far.
struct Meter {
    ns: u64,
    total_ns: Cell<u64>,
}

/// The engine that a machine needs: its CPUs and its scheduling costs.
pub fn engine_config(machine: &Machine, costs: &CostModel) -> EngineConfig {
    EngineConfig {
        topology: Topology { node_of: cpu_nodes(machine) },
        sched: costs.sched,
        digest: DigestPlan::default(),
    }
}

impl SimHost {
    /// The host for `machine`. `sim` belongs to an engine with the machine's CPUs
    /// ([`engine_config`]).
    pub fn new(sim: &Sim, machine: &Machine, costs: CostModel, tracing: Tracing) -> Self {
        let lock_classes = CoreLockClass::ALL
            .map(|class| sim.lock_class(class.name(), lock_kind(class), costs.lock(class)));
        let zones = || {
            (0u16..).zip(&machine.nodes).flat_map(|(node, spec)| {
                spec.zones.iter().map(move |zone| (zone.start_pfn, zone.spanned, node))
            })
        };
        let nr_frames = zones().map(|(start, spanned, _)| start + spanned).max().unwrap_or(0);
        let mut node_ranges: Vec<(u64, u16)> =
            zones().map(|(start, _, node)| (start, node)).collect();
        node_ranges.sort_unstable();
        node_ranges.dedup_by_key(|&mut (_, node)| node);

        let nr_nodes = machine.nodes.len().max(1) as u64;
        let socket_of_node: Vec<u16> = (0..nr_nodes)
            .map(|node| (node * costs.nr_sockets.min(nr_nodes) / nr_nodes) as u16)
            .collect();
        let socket_of_cpu: Vec<u16> =
            cpu_nodes(machine).into_iter().map(|node| socket_of_node[usize::from(node)]).collect();
        let nr_of = |socket| socket_of_cpu.iter().filter(|&&other| other == socket).count() as u64;
        let cache_slices =
            socket_of_cpu.iter().map(|&at| costs.cache_sizes.llc_bytes / nr_of(at)).collect();
        let warmth = CacheWarmth::new(
            costs.cache_sizes,
            costs.cache_costs,
            socket_of_cpu,
            socket_of_node,
            nr_frames as usize,
        );
        // Cost of moving a lock's cache line, beyond that of taking one that is local.
        let line = costs.lock(CoreLockClass::Lru);
        let line_ns =
            [line.same_node_ns, line.cross_node_ns].map(|ns| ns.saturating_sub(line.hot_ns));
        SimHost {
            sim: sim.clone(),
            meters: std::array::from_fn(|at| Meter {
                ns: costs.ns(Cost::ALL[at]),
                total_ns: Cell::new(0),
            }),
            costs,
            disks: Vec::new(),
            lock_classes,
            warmth: RefCell::new(warmth),
            descriptors: RefCell::new(vec![0; nr_frames as usize]),
            line_ns,
            cpu_nodes: cpu_nodes(machine).into(),
            cache_slices,
            node_ranges,
            traced: tracing.traced(),
            tracing,
        }
    }

    /// The simulation.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// All costs of this machine.
    pub fn costs(&self) -> &CostModel {
        &self.costs
    }

    /// Nanoseconds charged for operations of a kind so far, by all tasks and interrupts.
    pub fn charged_ns(&self, cost: Cost) -> u64 {
        self.meters[cost as usize].total_ns.get()
    }

    fn node_of(&self, pfn: Pfn) -> u16 {
        let after = self.node_ranges.partition_point(|&(start, _)| start <= pfn.get());
        self.node_ranges[after.saturating_sub(1)].1
    }

    /// Charges a copy of `bytes` bytes from or to memory that starts in frame `pfn`.
    fn copy(&self, pfn: Pfn, offset: usize, bytes: usize, touch: Touch) {
        let (cpu, node) = (self.sim.cpu(), self.node_of(pfn));
        let (first, offset, bytes) = (pfn.get() as usize, offset as u64, bytes as u64);
        let ns = self.warmth.borrow_mut().touch_range(cpu, first, node, touch, offset, bytes);
        self.sim.charge(ns);
    }
}

impl Host for SimHost {
    type Lock<T> = SimLock<T>;
    type CpuLock<T> = SimLock<T>;

    const HAS_DATA: bool = false;
    const THREADED: bool = false;

    fn new_lock<T>(&self, class: CoreLockClass, value: T) -> SimLock<T> {
        SimLock::new(&self.sim, &self.lock_classes[class as usize], value)
    }

    fn new_cpu_lock<T>(&self, class: CoreLockClass, owner: CpuId, value: T) -> SimLock<T> {
        SimLock::with_owner(&self.sim, &self.lock_classes[class as usize], owner, value)
    }

    #[inline(always)]
    fn cpu(&self, _cached: CpuId) -> CpuId {
        self.sim.cpu()
    }

    fn cache_slice_bytes(&self, cpu: CpuId) -> u64 {
        self.cache_slices.get(usize::from(cpu.0)).copied().unwrap_or(0)
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.sim.now_ns()
    }

    #[inline(always)]
    fn charge(&self, cost: Cost, count: u32) {
        let meter = &self.meters[cost as usize];
        let ns = meter.ns * u64::from(count);
        meter.total_ns.set(meter.total_ns.get() + ns);
        if matches!(cost, Cost::UserTouch) {
            self.sim.charge_user(ns);
        } else {
            self.sim.charge(ns);
        }
    }

    fn frame_zero(&self, pfn: Pfn, order: Order) {
        let cpu = self.sim.cpu();
        let node = self.node_of(pfn);
        let nr_frames = order.pages() as usize;
        let ns = self.warmth.borrow_mut().zero_block(cpu, pfn.get() as usize, node, nr_frames);
        self.sim.charge(ns);
    }

    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        self.copy(pfn, offset, src.len(), Touch::CopyTo);
    }

    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        self.copy(pfn, offset, dst.len(), Touch::CopyFrom);
    }

    fn frame_copy_out(&self, pfn: Pfn, offset: usize, len: usize) {
        self.copy(pfn, offset, len, Touch::CopyFrom);
    }

    fn frame_dma(&self, pfn: Pfn) {
        self.warmth.borrow_mut().forget(pfn.get() as usize);
    }

    #[inline(always)]
    fn descriptors_use(&self, frames: impl IntoIterator<Item = Pfn>) {
        let me = self.sim.cpu().0;
        let node_of = |cpu: u16| self.cpu_nodes[usize::from(cpu)];
        let (my_node, mut ns) = (node_of(me), 0);
        let descriptors = &mut self.descriptors.borrow_mut()[..];
        for pfn in frames {
            let last = std::mem::replace(&mut descriptors[pfn.get() as usize], me);
            if last != me {
                ns += self.line_ns[usize::from(node_of(last) != my_node)];
            }
        }
        self.sim.charge(ns);
    }

    #[inline(always)]
    fn descriptor_soon(&self, pfn: Pfn) {
        if let Some(last) = self.descriptors.borrow().get(pfn.get() as usize) {
            prefetch_read(last);
        }
    }

    fn interrupt(&self, targets: &CpuSet, scope: IpiScope, work: Cost, count: u32) {
        let handler_ns = self.costs.ns(work) * u64::from(count);
        let nr = self.sim.interrupt(targets.iter(), scope, handler_ns);
        let meter = &self.meters[work as usize];
        meter.total_ns.set(meter.total_ns.get() + nr * handler_ns);
    }

    #[inline(always)]
    fn trace(&self, cpu: CpuId, event: &Event) {
        if self.traced.has(event.kind()) {
            // Passed by value: the event is only built if it has a receiver.
            self.trace_slow(cpu, *event);
        }
    }

    #[inline(always)]
    fn traces(&self, kind: Kind) -> bool {
        self.traced.has(kind)
    }

    #[inline(always)]
    fn phase_begin(&self, phase: Phase) {
        if self.sim.is_booking() {
            self.sim.begin_phase(phase);
        }
    }

    #[inline(always)]
    fn group_phase_begin(&self, phase: Phase, group: GroupId) {
        if self.sim.is_booking() {
            self.sim.begin_group_phase(phase, group);
        }
    }

    #[inline(always)]
    fn phase_end(&self, phase: Phase) {
        if self.sim.is_booking() {
            self.sim.end_phase(phase);
        }
    }

    #[inline(always)]
    fn stall_begin(&self, stall: Stall) {
        if self.sim.is_pressing() {
            self.sim.stall(stall, true);
        }
    }

    #[inline(always)]
    fn stall_end(&self, stall: Stall) {
        if self.sim.is_pressing() {
            self.sim.stall(stall, false);
        }
    }

    fn group_changed(&self, change: GroupChange) {
        if self.sim.is_pressing() {
            self.sim.group_changed(change);
        }
    }

    #[inline(always)]
    fn op_begin(&self) {
        if self.sim.is_booking() {
            self.sim.begin_op();
        }
    }

    fn sleep_and_op_begin(&self, ns: u64) {
        if self.sim.is_booking() {
            self.sim.sleep_and_begin_op(ns);
        } else {
            self.sim.sleep_ns(ns);
        }
    }

    #[inline(always)]
    fn op_end(&self, name: &str) {
        if self.sim.is_booking() {
            self.sim.end_op(name);
        }
    }

    #[inline(always)]
    fn user_point(&self) {
        self.sim.sync_beyond(USER_AHEAD_NS);
    }

    #[inline(always)]
    fn again<T>(
        &self,
        lock: &SimLock<T>,
        (cost, count): (Cost, u32),
        times: impl FnOnce(&T, u32) -> u32,
    ) -> u32 {
        let meter = &self.meters[cost as usize];
        let work_ns = meter.ns * u64::from(count);
        let nr = lock.again(work_ns, USER_AHEAD_NS, times);
        meter.total_ns.set(meter.total_ns.get() + work_ns * u64::from(nr));
        nr
    }

    fn needs_resched(&self) -> bool {
        self.sim.is_slice_over()
    }

    fn preemptions(&self) -> u64 {
        self.sim.preemptions()
    }

    fn yield_now(&self) {
        self.sim.charge(self.costs.yield_check_ns);
        self.sim.sync();
    }

    fn sleep_jiffies(&self, jiffies: u64) {
        self.sim.sleep_jiffies(jiffies);
    }

    fn sleep_ns(&self, ns: u64) {
        self.sim.sleep_ns(ns);
    }
}

impl SimHost {
    #[cold]
    #[inline(never)]
    fn trace_slow(&self, cpu: CpuId, event: Event) {
        if self.tracing.digest {
            for word in event.words() {
                self.sim.fold(word);
            }
        }
        if self.tracing.journal.has(event.kind()) && self.sim.is_booking() {
            self.sim.note_event(cpu, event);
        }
        if let Some(sink) = &self.tracing.sink
            && self.tracing.sink_kinds.is_none_or(|kinds| kinds.has(event.kind()))
        {
            sink(self.sim.now_ns(), cpu, &event);
        }
    }
}

impl Tasks for SimHost {
    type Task = TaskId;

    fn current(&self) -> TaskId {
        match self.sim.current() {
            Some(task) => task,
            None => panic!("current was called outside a task"),
        }
    }

    fn park(&self, why: &'static str) {
        self.sim.park(why);
    }

    fn park_jiffies(&self, why: &'static str, timeout: u64) -> u64 {
        self.sim.park_jiffies(why, timeout)
    }

    fn unpark(&self, task: &TaskId) {
        self.sim.unpark(*task);
    }

    const KNOWS_WHO_RUNS: bool = true;

    #[inline]
    fn current_word(&self) -> u64 {
        self.sim.current_word()
    }

    fn is_on_cpu(&self, word: u64) -> bool {
        self.sim.is_on_cpu(word)
    }

    fn relax(&self, ns: u64) {
        self.sim.charge(ns);
        self.sim.sync();
    }

    #[inline]
    fn settle(&self) {
        self.sim.sync();
    }
}

impl<T> Lock<T> for SimLock<T> {
    type Guard<'a>
        = LockGuard<'a, T>
    where
        T: 'a;

    #[inline(always)]
    fn lock(&self, _cpu: CpuId) -> LockGuard<'_, T> {
        SimLock::lock(self)
    }

    #[inline(always)]
    fn try_lock(&self, _cpu: CpuId) -> Option<LockGuard<'_, T>> {
        SimLock::try_lock(self)
    }

    fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        SimLock::peek(self, read)
    }
}

const fn lock_kind(class: CoreLockClass) -> LockKind {
    match class {
        CoreLockClass::Oom | CoreLockClass::Drain => LockKind::Sleep,
        CoreLockClass::Pcp
        | CoreLockClass::LruBatch
        | CoreLockClass::Wait
        | CoreLockClass::Table => LockKind::Private,
        CoreLockClass::PageTable
        | CoreLockClass::Mapping
        | CoreLockClass::Swap
        | CoreLockClass::Lru
        | CoreLockClass::Zone
        | CoreLockClass::Queue
        | CoreLockClass::Workload => LockKind::Spin,
    }
}

/// Node of each CPU, by CPU number.
fn cpu_nodes(machine: &Machine) -> Vec<u16> {
    let cpus = (0u16..)
        .zip(&machine.nodes)
        .flat_map(|(node, spec)| spec.cpus.iter().map(move |&cpu| (usize::from(cpu), node)));
    let mut nodes = Vec::new();
    for (cpu, node) in cpus {
        if nodes.len() <= cpu {
            nodes.resize(cpu + 1, 0);
        }
        nodes[cpu] = node;
    }
    nodes
}
