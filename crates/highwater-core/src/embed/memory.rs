//! The allocator, and a CPU that uses it.

use core::fmt;

use super::{FreeError, Gfp, Host, Machine, MachineError, NoSuchCpu, Policy, Stats};
use crate::audit::{self, AuditError};
use crate::host::Cx;
use crate::page_alloc::{self, NoRelief, PageAllocator};
use crate::units::{CpuId, NodeId, Order, Pfn};

/// All memory of a machine under one page allocator.
///
/// It can be shared by threads if the host's locks can. Nothing reclaims: a request for which no memory
/// is free fails, and the caller frees something.
pub struct Memory<H: Host> {
    allocator: PageAllocator<H>,
}

impl<H: Host> fmt::Debug for Memory<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Memory");
        out.field("machine", &self.allocator.machine().name);
        out.field("free_pages", &self.free_pages()).finish_non_exhaustive()
    }
}

impl<H: Host> Memory<H> {
    /// Boots a machine: all its memory is free afterwards. The rules are the policy's.
    ///
    /// # Errors
    /// If the machine cannot exist.
    pub fn boot(host: &H, machine: &Machine, policy: &Policy) -> Result<Memory<H>, MachineError> {
        Ok(Memory { allocator: page_alloc::boot(host, machine, policy)? })
    }

    /// A CPU of the machine, for the thread that runs on it. The number is checked here only.
    ///
    /// Each CPU has page lists of its own, so at most one thread at a time may act as a CPU. A host whose
    /// locks exclude other threads stays sound without that, but slows down.
    ///
    /// # Errors
    /// If the machine has no such CPU.
    pub fn cpu<'m, 'h>(&'m self, host: &'h H, cpu: CpuId) -> Result<Cpu<'m, 'h, H>, NoSuchCpu> {
        Ok(Cpu { memory: self, cx: self.allocator.task(host, cpu)? })
    }

    /// Pages on the buddy lists of all zones. Pages on the lists of CPUs do not count.
    pub fn free_pages(&self) -> u64 {
        self.allocator.nr_free_pages()
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.allocator.nr_cpus()
    }

    /// Number of nodes.
    pub fn nr_nodes(&self) -> usize {
        self.allocator.nr_nodes()
    }

    /// The allocator under this module, with everything that the promise of stability does not cover.
    pub fn allocator(&self) -> &PageAllocator<H> {
        &self.allocator
    }
}

/// A CPU that allocates and frees. For one thread at a time.
pub struct Cpu<'m, 'h, H: Host> {
    memory: &'m Memory<H>,
    cx: Cx<'h, H>,
}

impl<H: Host> fmt::Debug for Cpu<'_, '_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cpu").field(&self.cx.cpu().0).finish()
    }
}

/// The reason why a request got no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// By the rules for this request no block is to be had.
    NoMemory {
        /// The request's.
        order: Order,
    },
    /// No block is that large.
    OrderTooLarge {
        /// The request's.
        order: Order,
    },
    /// The machine has no such node.
    NoSuchNode {
        /// The request's.
        node: NodeId,
        /// Number of nodes that it has.
        nr_nodes: usize,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AllocError::NoMemory { order } => {
                write!(f, "no block of order {} ({} KiB) is to be had", order.0, 4u64 << order.0)
            }
            AllocError::OrderTooLarge { order } => {
                let most = Order::MAX.0;
                write!(f, "order {} is above the largest, {most} ({} KiB)", order.0, 4u64 << most)
            }
            AllocError::NoSuchNode { node, nr_nodes } => {
                write!(f, "there is no node {}: the machine has {nr_nodes}", node.0)
            }
        }
    }
}

impl core::error::Error for AllocError {}

impl<H: Host> Cpu<'_, '_, H> {
    /// Its number.
    pub fn id(&self) -> CpuId {
        self.cx.cpu()
    }

    /// The node that it belongs to.
    pub fn node(&self) -> NodeId {
        self.memory.allocator.cpu_node(self.cx.cpu())
    }

    /// Allocates a block of `2^order` pages, near a node; others serve the request where that one cannot.
    ///
    /// The block is aligned to its size. Free it by [`Cpu::free`], on any CPU.
    ///
    /// A request that may wait and fails is tried again after [`Cpu::drain`]: nothing reclaims here,
    /// so a page on a CPU's list would never be found. Frees that another CPU has not yet added to
    /// the shared counts can still hide that many pages (Linux: vmstat's threshold).
    ///
    /// # Errors
    /// If no such block is to be had, or no such block or node exists.
    #[inline]
    pub fn alloc(&self, order: Order, gfp: Gfp, node: NodeId) -> Result<Pfn, AllocError> {
        let allocator = &self.memory.allocator;
        if order > Order::MAX {
            return Err(AllocError::OrderTooLarge { order });
        }
        if node.idx() >= allocator.nr_nodes() {
            return Err(AllocError::NoSuchNode { node, nr_nodes: allocator.nr_nodes() });
        }
        let alloc = || allocator.alloc(&self.cx, &NoRelief, gfp, order, node, None);
        // As in Linux, only requests that may wait drain the lists of other CPUs.
        let may_wait = gfp.contains(Gfp::DIRECT_RECLAIM);
        alloc()
            .or_else(|| may_wait.then(|| self.settled()).flatten().and_then(|()| alloc()))
            .ok_or(AllocError::NoMemory { order })
    }

    /// Gives the watermark test all that it counts as free: pages of every CPU's lists, and this CPU's
    /// differences of the counters. None if the lists hold nothing.
    #[cold]
    fn settled(&self) -> Option<()> {
        let allocator = &self.memory.allocator;
        let listed = |cpu: CpuId| {
            let on = self.cx.cpu();
            allocator.populated_zones().any(|zone| allocator.pcp_count(zone, cpu, on) > 0)
        };
        allocator.cpus().any(listed).then(|| {
            self.drain();
            allocator.refresh_cpu_stats(&self.cx);
        })
    }

    /// Frees a block.
    ///
    /// # Errors
    /// If the frame is not the start of a block of that order that is in use. Nothing changes then.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.memory.allocator.free(&self.cx, pfn, order)
    }

    /// Moves the pages on the lists of all CPUs to the buddy lists, where free blocks merge.
    pub fn drain(&self) {
        self.memory.allocator.drain_all(&self.cx, None);
    }

    /// Figures of every zone, and all counters.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.memory.allocator, self.cx.cpu())
    }

    /// Checks that every frame is in exactly one place: free, on a CPU's lists, in use or reserved. Nobody
    /// else may allocate or free meanwhile.
    ///
    /// # Errors
    /// The first rule that is broken: a bug here, or memory that somebody overwrote.
    pub fn audit(&self) -> Result<(), AuditError> {
        audit::check(&self.memory.allocator, &self.cx).map(|_| ())
    }
}
