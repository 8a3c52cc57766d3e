//! The context of every core function: which task runs, on which CPU of which host.

use alloc::sync::Arc;
use core::cell::Cell;

use bitflags::bitflags;

use super::local::Locals;
use super::{Cost, Host};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::trace::{Event, Kind};
use crate::units::{CpuId, MemoryPolicy, NodeId, NodeMask};

bitflags! {
    /// State of the running task that allocation decisions read (rules/requests#reserve-flags).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct TaskFlags: u32 {
        /// PF_MEMALLOC: reclaiming already; may use all reserves and must not recurse.
        const MEMALLOC = 1 << 0;
        /// PF_MEMALLOC_NOIO scope.
        const NOIO = 1 << 1;
        /// PF_MEMALLOC_NOFS scope.
        const NOFS = 1 << 2;
        /// PF_MEMALLOC_PIN scope: long-term pins must not come from movable memory.
        const PIN = 1 << 3;
        /// A kernel thread.
        const KTHREAD = 1 << 4;
        /// A workqueue worker (sleeps where others only yield).
        const WORKER = 1 << 5;
        /// Real-time scheduling class.
        const REALTIME = 1 << 6;
        /// Chosen by the OOM killer.
        const OOM_VICTIM = 1 << 7;
        /// Exiting.
        const EXITING = 1 << 8;
        /// A fatal signal is pending.
        const FATAL_SIGNAL = 1 << 9;
        /// In hard interrupt context.
        const IN_INTERRUPT = 1 << 10;
        /// Serving a soft interrupt.
        const IN_SOFTIRQ = 1 << 11;
        /// Writing a core dump.
        const DUMPING = 1 << 12;
        /// A node's kswapd.
        const KSWAPD = 1 << 13;
        /// Compacts for itself, and takes the block that comes of it
        /// ([`crate::page_alloc::Capture`]).
        const CAPTURING = 1 << 14;
        /// In a page fault of a VMA with recency: pages that it brings are used (`in_lru_fault`).
        const LRU_FAULT = 1 << 15;
    }
}

impl TaskFlags {
    /// In hard or soft interrupt context: whatever the interrupted task is does not matter.
    #[inline(always)]
    pub const fn in_interrupt(self) -> bool {
        self.intersects(TaskFlags::IN_INTERRUPT.union(TaskFlags::IN_SOFTIRQ))
    }
}

/// Receives charges and trace events; [`Cx`] forwards them to the host, tests record them.
pub trait Probe {
    /// The CPU work is accounted to.
    fn cpu(&self) -> CpuId;
    /// Accounts work.
    fn charge(&self, cost: Cost, count: u32);
    /// Emits a trace event.
    fn event(&self, event: Event);
    /// Whether a kind of event is observed, and at its exact time. ([`Host::traces`])
    fn traces(&self, kind: Kind) -> bool {
        let _ = kind;
        true
    }
}

/// The running task as the memory manager sees it.
///
/// One per task; not shared between threads.
pub struct Cx<'h, H: Host> {
    /// The machine.
    pub host: &'h H,
    cpu: Cell<CpuId>,
    flags: Cell<TaskFlags>,
    mems_allowed: Cell<NodeMask>,
    memory_policy: Cell<MemoryPolicy>,
    interleaved: Cell<Option<NodeId>>,
    signals: Arc<Signals>,
    /// What subsystems keep with the task.
    pub(super) locals: Locals,
}

/// Flags that others set on a task: the OOM killer's, a fatal signal's.
#[derive(Debug)]
pub struct Signals {
    flags: AtomicU32,
    // The task's allowed nodes, for the OOM killer: nodes it is bound to, and nodes of its cpuset.
    bound: AtomicU64,
    mems_allowed: AtomicU64,
}

impl Default for Signals {
    fn default() -> Self {
        Signals {
            flags: AtomicU32::new(0),
            bound: AtomicU64::new(NodeMask::ALL.bits()),
            mems_allowed: AtomicU64::new(NodeMask::ALL.bits()),
        }
    }
}

impl Signals {
    /// Flags set so far.
    #[inline(always)]
    pub fn flags(&self) -> TaskFlags {
        TaskFlags::from_bits_retain(self.flags.load(Relaxed))
    }

    /// Sets flags; they stay.
    pub fn raise(&self, flags: TaskFlags) {
        self.flags.fetch_or(flags.bits(), Relaxed);
    }

    fn publish_nodes(&self, policy: MemoryPolicy, mems_allowed: NodeMask) {
        let bound = match policy {
            MemoryPolicy::Bind(nodes) => nodes,
            _ => NodeMask::ALL,
        };
        self.bound.store(bound.bits(), Relaxed);
        self.mems_allowed.store(mems_allowed.bits(), Relaxed);
    }

    /// The nodes that the task is bound to by its memory policy; all if it is not.
    pub(crate) fn bound(&self) -> NodeMask {
        NodeMask::from_bits(self.bound.load(Relaxed))
    }

    /// The nodes of the task's cpuset.
    pub(crate) fn mems_allowed(&self) -> NodeMask {
        NodeMask::from_bits(self.mems_allowed.load(Relaxed))
    }
}

impl<'h, H: Host> Cx<'h, H> {
    /// A task on `cpu` with no special state, allowed on all nodes.
    ///
    /// For hosts, and before an allocator exists: a context does not know its machine's number of
    /// CPUs, and functions use the CPU as an index. [`PageAllocator::task`] and [`Kernel::task`]
    /// refuse a CPU that does not exist. No later code checks it.
    ///
    /// [`PageAllocator::task`]: crate::page_alloc::PageAllocator::task
    /// [`Kernel::task`]: crate::Kernel::task
    pub fn new(host: &'h H, cpu: CpuId) -> Self {
        Cx {
            host,
            cpu: Cell::new(cpu),
            flags: Cell::new(TaskFlags::empty()),
            mems_allowed: Cell::new(NodeMask::ALL),
            memory_policy: Cell::new(MemoryPolicy::Default),
            interleaved: Cell::new(None),
            signals: Arc::new(Signals::default()),
            locals: Locals::default(),
        }
    }

    /// The CPU the task runs on now.
    #[inline(always)]
    pub fn cpu(&self) -> CpuId {
        let cpu = self.host.cpu(self.cpu.get());
        // If the host does not remember it, skip the cost for callers that ignore the result.
        if H::THREADED {
            self.cpu.set(cpu);
        }
        cpu
    }

    /// Tells where the task runs (hosts and replay call this; the core never does). The machine has
    /// to have the CPU, as for [`Cx::new`].
    pub fn set_cpu(&self, cpu: CpuId) {
        self.cpu.set(cpu);
    }

    /// The task's state flags, its own and those others set.
    #[inline(always)]
    pub fn flags(&self) -> TaskFlags {
        self.flags.get() | self.signals.flags()
    }

    /// What others may set on this task.
    pub fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// True if the task waits for a block that it frees itself.
    #[inline(always)]
    pub(crate) fn is_capturing(&self) -> bool {
        self.flags.get().contains(TaskFlags::CAPTURING)
    }

    /// True if the task is to die.
    #[inline]
    pub fn is_dying(&self) -> bool {
        self.flags().contains(TaskFlags::FATAL_SIGNAL)
    }

    /// Replaces the task's own state flags and returns the old ones (to restore at a scope's end).
    pub fn set_flags(&self, flags: TaskFlags) -> TaskFlags {
        self.flags.replace(flags)
    }

    /// Does something with a flag of the task set. Others may change meanwhile (a killer marks its
    /// victim): only that flag is put back.
    #[inline]
    pub fn with_flag<T>(&self, flag: TaskFlags, run: impl FnOnce() -> T) -> T {
        let before = self.set_flags(self.flags() | flag);
        let result = run();
        if !before.contains(flag) {
            self.set_flags(self.flags() - flag);
        }
        result
    }

    /// Nodes the task's cpuset allows.
    #[inline(always)]
    pub fn mems_allowed(&self) -> NodeMask {
        self.mems_allowed.get()
    }

    /// Replaces the allowed nodes. The task's memory policy is rebound to them
    /// (rules/memory-policies#rebind), assuming that all nodes exist and have memory.
    /// [`Kernel::set_mems_allowed`] checks which do.
    ///
    /// [`Kernel::set_mems_allowed`]: crate::Kernel::set_mems_allowed
    pub fn set_mems_allowed(&self, nodes: NodeMask) {
        self.move_cpuset(self.mems_allowed.get(), nodes);
    }

    /// The same, of a task that could use the nodes `old`.
    pub(crate) fn move_cpuset(&self, old: NodeMask, new: NodeMask) {
        self.mems_allowed.set(new);
        self.set_memory_policy(self.memory_policy.get().rebound(old, new));
    }

    /// The task's memory policy.
    #[inline(always)]
    pub fn memory_policy(&self) -> MemoryPolicy {
        self.memory_policy.get()
    }

    /// Replaces the policy without checks; programs call [`Kernel::set_memory_policy`].
    ///
    /// [`Kernel::set_memory_policy`]: crate::Kernel::set_memory_policy
    pub fn set_memory_policy(&self, policy: MemoryPolicy) {
        self.memory_policy.set(policy);
        self.signals.publish_nodes(policy, self.mems_allowed.get());
    }

    /// The next of the nodes that the task takes in turn; none of an empty set.
    pub(crate) fn next_interleaved(&self, nodes: NodeMask) -> Option<NodeId> {
        let next = match self.interleaved.get() {
            Some(last) => nodes.after(last),
            None => nodes.first(),
        };
        self.interleaved.set(next);
        next
    }
}

impl<H: Host> Probe for Cx<'_, H> {
    #[inline(always)]
    fn cpu(&self) -> CpuId {
        Cx::cpu(self)
    }

    #[inline(always)]
    fn charge(&self, cost: Cost, count: u32) {
        self.host.charge(cost, count);
    }

    #[inline(always)]
    fn event(&self, event: Event) {
        self.host.trace(Cx::cpu(self), &event);
    }

    #[inline(always)]
    fn traces(&self, kind: Kind) -> bool {
        self.host.traces(kind)
    }
}
