//! A native host with a booted allocator on it, shared by threads.

use highwater_core::config::{Machine, Policy};
use highwater_core::host::{CpuId, Cx};
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{FreeError, Gfp, NoRelief, PageAllocator};

use crate::cpu::{CpuLease, LeaseError};
use crate::host::{NativeError, NativeHost, NativeOptions};

/// A machine made of this process: share it by reference (scoped threads) or in an `Arc`.
pub struct NativeMachine {
    /// CPUs, memory, locks, clock.
    pub host: NativeHost,
    /// All memory.
    pub alloc: PageAllocator<NativeHost>,
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<NativeMachine>();
};

impl NativeMachine {
    /// Maps the memory of `machine` and boots it.
    ///
    /// # Errors
    /// If the machine cannot exist, its memory cannot be mapped, or threads cannot be pinned.
    pub fn boot(
        machine: &Machine,
        policy: &Policy,
        options: &NativeOptions,
    ) -> Result<NativeMachine, NativeError> {
        machine.validate()?;
        let host = NativeHost::new(machine.nr_cpus(), machine.end_pfn(), options)?;
        let alloc = boot(&host, machine, policy)?;
        crate::arena::advise_huge_pages(&alloc.map);
        Ok(NativeMachine { host, alloc })
    }

    /// Runs the calling thread on a CPU, waiting until that is free.
    ///
    /// # Errors
    /// If there is no such CPU, or the thread runs on one already.
    pub fn enter(&self, cpu: CpuId) -> Result<Task<'_>, LeaseError> {
        let lease = self.host.enter(cpu)?;
        Ok(Task { machine: self, cx: Cx::new(&self.host, cpu), _lease: lease })
    }
}

/// The calling thread as a task that runs on a CPU of a [`NativeMachine`].
pub struct Task<'m> {
    /// The machine.
    pub machine: &'m NativeMachine,
    /// Host and CPU, for calls into the core.
    pub cx: Cx<'m, NativeHost>,
    _lease: CpuLease,
}

/// A task that leaves a CPU flushes its deferred frees there.
impl Drop for Task<'_> {
    fn drop(&mut self) {
        self.machine.alloc.free_mine_deferred(&self.cx);
    }
}

impl Task<'_> {
    /// Allocates a block near this CPU's node. Nothing is reclaimed if memory is short.
    #[inline]
    pub fn alloc(&self, gfp: Gfp, order: Order) -> Option<Pfn> {
        let alloc = &self.machine.alloc;
        let node = alloc.cpu_node(self.cx.cpu());
        alloc.alloc(&self.cx, &NoRelief, gfp, order, node, None)
    }

    /// Frees a block.
    ///
    /// # Errors
    /// If no block in use starts there.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.machine.alloc.free(&self.cx, pfn, order)
    }

    /// Drains the per-CPU lists of all CPUs to the buddy lists.
    pub fn drain_all(&self) {
        self.machine.alloc.drain_all(&self.cx, None);
    }
}
