//! Memory of a process besides its page tables: a stack and several objects (rules/slab#process).
//!
//! Mms created by fork have it. The first mms of a machine do not: they stand for programs
//! that ran before, and their memory is part of the captured machine's.
//!
//! None of it can be moved or reclaimed. A build forks for every file that it compiles, so some of
//! it is always new, and lies wherever memory was free. That splits large free ranges.
//!
//! From: [`super::fork`], `syscall::process` · to: `slab`, `page_alloc`.

use super::Mm;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::memcg::Uncharge;
use crate::page::{Folio, Order, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::slab::{CacheKind, ObjectId};
use crate::units::Error;
use crate::vmstat::NodeStat;

/// Blocks of a kernel stack: 16 KiB on x86-64.
pub(crate) const STACK_ORDER: Order = Order(2);
/// Its amount in `nr_kernel_stack`, in KiB.
pub(crate) const STACK_KIB: i64 = 16;

/// The memory of one process.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    /// Its stack.
    pub stack: Pfn,
    /// Its task, signals, files, address space.
    pub object: ObjectId,
}

impl<H: Devices> Kernel<H> {
    /// Allocates a process's memory for an mm.
    pub(super) fn add_process_memory(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> Result<(), Error> {
        let gfp = Gfp::GFP_KERNEL;
        let node = self.mem.cpu_node(cx.cpu());
        let object = self.slab_take(cx, CacheKind::Process, gfp).ok_or(Error::NoMemory)?;
        let Some(stack) = self.mem.alloc(cx, self, gfp | Gfp::ZERO, STACK_ORDER, node, None) else {
            self.slab_give(cx, CacheKind::Process, object);
            return Err(Error::NoMemory);
        };
        if !self.charge_kernel(cx, stack, STACK_ORDER.pages(), gfp) {
            let freed = self.mem.free(cx, stack, STACK_ORDER);
            debug_assert!(freed.is_ok(), "nobody knew the stack: {freed:?}");
            self.slab_give(cx, CacheKind::Process, object);
            return Err(Error::NoMemory);
        }
        self.mem.map.page(stack).init_flags(PageFlags::STACK);
        self.count_stack(cx, stack, STACK_KIB);
        *mm.process.lock(cx.cpu()) = Some(ProcessMemory { stack, object });
        Ok(())
    }

    /// The process has ended, or could not be made.
    pub(super) fn drop_process_memory(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        let taken = mm.process.lock(cx.cpu()).take();
        let Some(ProcessMemory { stack, object }) = taken else { return };
        self.count_stack(cx, stack, -STACK_KIB);
        self.uncharge_kernel(cx, stack, STACK_ORDER.pages(), Uncharge::ToStock);
        self.mem.map.page(stack).init_flags(PageFlags::empty());
        let freed = self.mem.free(cx, stack, STACK_ORDER);
        debug_assert!(freed.is_ok(), "a stack that is not ours: {freed:?}");
        self.slab_give(cx, CacheKind::Process, object);
    }

    /// The process goes on in another mm (exec).
    pub(crate) fn move_process_memory(&self, cx: &Cx<'_, H>, from: &Mm<H>, to: &Mm<H>) {
        let memory = from.process.lock(cx.cpu()).take();
        *to.process.lock(cx.cpu()) = memory;
    }

    fn count_stack(&self, cx: &Cx<'_, H>, stack: Pfn, kib: i64) {
        let node = self.mem.map.page(stack).node();
        self.mem.node(node).stats.add(cx.cpu(), NodeStat::KernelStack as usize, kib);
        if let Some(owner) = self.mem.groups.owner_if_on(Folio::page(stack)) {
            self.mem.groups.add(cx.cpu(), (owner, node), NodeStat::KernelStack, kib);
        }
    }
}
