//! The interface between the core and the machine that it runs on.
//!
//! A *host* supplies locks, time, the cost of operations, the memory behind a frame and a sink for
//! trace events. Two exist: `highwater-sim` (virtual time, one OS thread) and `highwater-native`
//! (threads, a real arena). The core gets time, CPU identity and memory in no other way.
//!
//! Key types: [`Host`], [`Lock`], [`Cx`] (the running task and its CPU), [`Cost`] (charge points).

mod cost;
mod cx;
mod groups;
mod io;
mod local;
mod phase;
mod solo;
mod stall;
mod task;

pub use cost::Cost;
pub use cx::{Cx, Probe, Signals, TaskFlags};
pub use groups::GroupChange;
pub use io::{Bio, BioKind, BioVector, Devices, IoRequest, WriteClass};
pub use local::TaskLocal;
pub use phase::{Phase, PhaseScope};
pub use solo::{EventSink, Solo, SoloLock};
pub use stall::{Stall, StallScope};
pub use task::Tasks;

use core::ops::DerefMut;

pub use crate::units::{
    AtomicCpuSet, CpuId, CpuSet, HZ, IoDirection, IoError, NS_PER_JIFFY, NoSuchCpu, Urgency,
};

use crate::sync::order::LockClass;
use crate::trace::{Event, Kind};
use crate::units::{GroupId, Order, Pfn};

/// Mutual exclusion around a `T`.
///
/// Caller guarantees: `cpu` is the CPU it runs on; locks nest as [`crate::sync::order`] says.
/// Implementation must: let one caller in at a time, order its accesses after those of the
/// previous holder, and release when the guard drops.
pub trait Lock<T> {
    /// Access to the protected value until dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Takes the lock, waiting as long as it takes.
    fn lock(&self, cpu: CpuId) -> Self::Guard<'_>;

    /// Takes the lock if that needs no waiting.
    fn try_lock(&self, cpu: CpuId) -> Option<Self::Guard<'_>>;

    /// Reads the value for an observer outside the machine: without taking the lock, a charge or
    /// any other trace. `None` while the lock is held, or if the host has no such observers.
    fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let _ = read;
        None
    }
}

/// Which of the CPUs asked an interrupt reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiScope {
    /// All of them.
    All,
    /// Only CPUs that run a task. An idle CPU keeps the last task's address space lazily, and
    /// flushes its TLB when it runs a task again.
    BusyOnly,
}

/// A machine: the services that the memory manager needs from below.
pub trait Host: Sized {
    /// A lock that any CPU takes (zone lock).
    type Lock<T>: Lock<T>;
    /// A lock that nearly always its own CPU takes (per-CPU lists).
    type CpuLock<T>: Lock<T>;

    /// True if tasks run at the same time as others. If false, all tasks share one thread and
    /// change places only inside calls of this trait: plain loads and stores are then atomic.
    const THREADED: bool = true;

    /// True if page descriptors are likely to miss the caches and other CPUs really contend for
    /// locks. Then a CPU defers frees of blocks of orders 0 to 3, up to 32 per CPU and zone, and
    /// prefetches their descriptors meanwhile. Drains release the zone lock now and then. Deferring
    /// takes one more byte per frame. It is only for hosts that ignore trace events and charges of
    /// frees: these come late, or not at all if a deferred page is allocated again at once.
    const DEFERS_FREES: bool = false;

    /// True if frames hold bytes: [`Host::frame_read`] returns what [`Host::frame_write`] stored.
    const HAS_DATA: bool;

    /// Makes a lock of a class.
    fn new_lock<T>(&self, class: LockClass, value: T) -> Self::Lock<T>;

    /// Makes a per-CPU lock; `owner` is the CPU that takes it in the common case.
    fn new_cpu_lock<T>(&self, class: LockClass, owner: CpuId, value: T) -> Self::CpuLock<T>;

    /// The CPU that the caller runs on. `cached` is the CPU of the last call, or the CPU that was
    /// set last, if tasks share a thread.
    #[inline(always)]
    fn cpu(&self, cached: CpuId) -> CpuId {
        cached
    }

    /// Time since boot, nanoseconds.
    fn now_ns(&self) -> u64;

    /// Timer ticks since boot.
    #[inline]
    fn jiffies(&self) -> u64 {
        self.now_ns() / NS_PER_JIFFY
    }

    /// Bytes of a CPU's last-level cache, divided by the CPUs that share it. 0: unknown, and rules
    /// that ask are those of small caches. Called at boot.
    fn cache_slice_bytes(&self, cpu: CpuId) -> u64 {
        let _ = cpu;
        0
    }

    /// Accounts `count` operations of a kind to the caller; real machines do nothing here.
    fn charge(&self, cost: Cost, count: u32);

    /// Fills `2^order` frames with zeros.
    fn frame_zero(&self, pfn: Pfn, order: Order);

    /// Stores bytes into memory that starts at frame `pfn`, `offset` bytes in (may cross frames of
    /// one block).
    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]);

    /// Loads bytes from memory that starts at frame `pfn`. A host without data leaves `dst` alone.
    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]);

    /// A program copies `len` bytes of frame `pfn` into its private memory.
    fn frame_copy_out(&self, pfn: Pfn, offset: usize, len: usize) {
        let mut buffer = [0; 512];
        for at in (0..len).step_by(buffer.len()) {
            let part = buffer.len().min(len - at);
            self.frame_read(pfn, offset + at, &mut buffer[..part]);
        }
    }

    /// A device wrote frame `pfn`, so cached copies are stale. Real machines handle this
    /// themselves.
    fn frame_dma(&self, pfn: Pfn) {
        let _ = pfn;
    }

    /// The running CPU takes the descriptors of these frames off a list: their cache lines come from the
    /// CPUs that did so last. Real machines see to that themselves.
    #[inline(always)]
    fn descriptors_use(&self, frames: impl IntoIterator<Item = Pfn>) {
        let _ = frames;
    }

    /// The descriptor of frame `pfn` may soon be taken off a list. The host may prefetch what
    /// [`Host::descriptors_use`] will read. This is a hint that changes nothing.
    #[inline(always)]
    fn descriptor_soon(&self, pfn: Pfn) {
        let _ = pfn;
    }

    /// Interrupts the CPUs in `targets` that are in `scope` and waits until each has done `count`
    /// operations of a kind (IPI). Real machines have no other CPU's state to change and do
    /// nothing.
    #[doc(alias = "smp_call_function_many")]
    #[doc(alias = "on_each_cpu_mask")]
    fn interrupt(&self, targets: &CpuSet, scope: IpiScope, work: Cost, count: u32) {
        let _ = (targets, scope, work, count);
    }

    /// Receives every trace event, in the order in which this CPU produced them.
    fn trace(&self, cpu: CpuId, event: &Event);

    /// False if [`Host::trace`] ignores a kind of event. Then accounting between two such events
    /// cannot be distinguished from accounting after both.
    #[inline(always)]
    fn traces(&self, kind: Kind) -> bool {
        let _ = kind;
        true
    }

    /// The running task begins to do something ([`Cx::phase`]); phases nest.
    #[inline(always)]
    fn phase_begin(&self, phase: Phase) {
        let _ = phase;
    }

    /// The running task begins to do something for a memory cgroup ([`Cx::group_phase`]). It ends
    /// like any phase.
    #[inline(always)]
    fn group_phase_begin(&self, phase: Phase, group: GroupId) {
        let _ = group;
        self.phase_begin(phase);
    }

    /// The running task ends its innermost phase.
    #[inline(always)]
    fn phase_end(&self, phase: Phase) {
        let _ = phase;
    }

    /// The running task is stalled ([`Cx::stall`]); stalls nest.
    #[inline(always)]
    fn stall_begin(&self, stall: Stall) {
        let _ = stall;
    }

    /// The stall that began last is over.
    #[inline(always)]
    fn stall_end(&self, stall: Stall) {
        let _ = stall;
    }

    /// Memory cgroups changed, or the running task moved to another one.
    fn group_changed(&self, change: GroupChange) {
        let _ = change;
    }

    /// A program begins an operation whose time may be explained. Operations do not nest.
    #[inline(always)]
    fn op_begin(&self) {}

    /// Sleeps as [`Host::sleep_ns`]; then an operation begins. It begins when the time is over,
    /// even if the task does not run yet. So a late wake-up is part of the operation, if the host
    /// can measure it.
    fn sleep_and_op_begin(&self, ns: u64) {
        self.sleep_ns(ns);
        self.op_begin();
    }

    /// The operation ends; `name` is its name.
    #[inline(always)]
    fn op_end(&self, name: &str) {
        let _ = name;
    }

    /// A program is in user mode, where it can be preempted at any time. A host whose tasks yield
    /// only at certain points lets other tasks run here, if it is their turn.
    #[inline(always)]
    fn user_point(&self) {}

    /// The running program has just taken a lock, released it, done user work of `count` times
    /// `cost`, and called [`Host::user_point`]. Now it repeats this as long as no other task could
    /// run in between and no event is due. `times` gets the highest possible number of repetitions,
    /// and returns the number that it wants. The function returns the number of repetitions done; a
    /// host that cannot tell returns 0.
    ///
    /// For sweeps over memory without events: they have the same cost, charged at once instead of
    /// one by one.
    #[inline(always)]
    fn again<T>(
        &self,
        lock: &Self::Lock<T>,
        (cost, count): (Cost, u32),
        times: impl FnOnce(&T, u32) -> u32,
    ) -> u32 {
        let _ = (lock, cost, count, times);
        0
    }

    /// Reports whether another task waits for this CPU and the running one has used up its slice
    /// (`need_resched`). A host that cannot tell returns false.
    #[doc(alias = "need_resched")]
    #[inline(always)]
    fn needs_resched(&self) -> bool {
        false
    }

    /// How often the running task lost its CPU although it could have gone on. A host that takes a CPU away in kernel code
    /// says so here: on kernels that wait for `cond_resched` the task would have found [`Host::needs_resched`] first.
    #[inline(always)]
    fn preemptions(&self) -> u64 {
        0
    }

    /// Lets others run (`cond_resched`).
    #[doc(alias = "cond_resched")]
    fn yield_now(&self);

    /// Sleeps for `jiffies` timer ticks, rounded as the kernel's timer wheel does.
    #[doc(alias = "schedule_timeout_uninterruptible")]
    fn sleep_jiffies(&self, jiffies: u64);

    /// Sleeps for a time that timer ticks do not round, as programs do (`nanosleep`). A host without
    /// fine timers sleeps until the tick after.
    fn sleep_ns(&self, ns: u64) {
        self.sleep_jiffies(ns.div_ceil(NS_PER_JIFFY));
    }
}
