//! Per-CPU batches (spec 02 §3).

use alloc::vec::Vec;

use crate::host::{CpuId, Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

/// What a batch does to its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BatchKind {
    /// Onto the list its flags name.
    Add = 0,
    /// To the tail of the inactive list (end of writeback). Filled from interrupts.
    Rotate = 1,
    /// Out of the way, after a failed invalidation.
    DeactivateFile = 2,
    /// To the inactive list (MADV_COLD).
    Deactivate = 3,
    /// To the inactive file list (MADV_FREE).
    LazyFree = 4,
    /// To the active list (mark_accessed).
    Activate = 5,
    /// To the unevictable list or back: filled by `mlock_page`, `mlock_new_page`, `munlock_page`.
    Mlock = 6,
}

impl BatchKind {
    /// Number of kinds.
    pub const COUNT: usize = 7;
}

/// One CPU's batches: at most 15 pages each, a reference held on every page.
#[derive(Debug, Default)]
pub struct Batches {
    /// By [`BatchKind`].
    pub(crate) pages: [Vec<Pfn>; BatchKind::COUNT],
}

impl<H: Devices> Kernel<H> {
    /// Queues a page for a batch operation on this CPU, taking a reference; a full batch is drained.
    pub fn lru_batch(&self, cx: &Cx<'_, H>, kind: BatchKind, pfn: Pfn) {
        let _ = (cx, kind, pfn);
        todo!()
    }

    /// A new page goes onto its list (`folio_add_lru`).
    pub fn lru_add(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        self.lru_batch(cx, BatchKind::Add, pfn);
    }

    /// Drains this CPU's batches (`lru_add_drain`).
    pub fn lru_add_drain(&self, cx: &Cx<'_, H>) {
        self.lru_add_drain_cpu(cx, cx.cpu());
    }

    /// Drains the batches of one CPU, in table order, then mlock's.
    pub fn lru_add_drain_cpu(&self, cx: &Cx<'_, H>, cpu: CpuId) {
        let _ = (cx, cpu);
        todo!()
    }

    /// Drains every CPU's batches.
    pub fn lru_add_drain_all(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }

    /// End of writeback of a page marked RECLAIM: to the tail, if it is clean and on a list.
    /// From interrupts.
    pub fn lru_rotate(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
