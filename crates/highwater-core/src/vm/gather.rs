//! Pages to be freed after their translations are flushed (rules/unmap#gather).
//!
//! An unmap collects the pages whose entries it clears, and the span of virtual pages it cleared.
//! The span is flushed and the pages are freed together: at the end, when the gather is full, or
//! when the unmap says that a flush must come first (dirty file pages). A page keeps the reference
//! of its entry until then, so it is not reused while a TLB still maps it.
//!
//! Key type: [`Gather`]. Its pages are in 8 inline slots and in batch pages of 510, which are real
//! pages allocated without reclaim. If none is available, it flushes at once.
//!
//! From: `unmap`, `madvise` · to: `tlb`, `lru` (release), `swap` (unmapped cached copies).

use alloc::vec::Vec;

use super::{FlushRange, Mm};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, Pfn};
use crate::page_alloc::Gfp;

/// Slots of the gather itself (`MMU_GATHER_BUNDLE`).
pub(super) const INLINE_SLOTS: usize = 8;
/// Slots of a batch page: a page less its header of 16 bytes, 8 bytes each.
pub(super) const BATCH_SLOTS: usize = 510;
/// Most batch pages: no more than 10 000 pages wait at a time.
pub(super) const MAX_BATCHES: usize = 10_000 / BATCH_SLOTS;

/// Unmapped pages and what has to be flushed before they are freed.
#[doc(alias = "mmu_gather")]
pub struct Gather<'a, H: Devices> {
    mm: &'a Mm<H>,
    range: FlushRange,
    /// All of the mm goes: flushes are of everything.
    is_whole: bool,
    pages: Vec<Folio>,
    /// Batch pages taken so far; they stay until the gather ends.
    frames: Vec<Pfn>,
    /// Pages that fit before the next batch page is needed.
    room: usize,
    /// Flushes because it was full or the unmap asked.
    nr_forced: u32,
}

/// Pages that a gather with `batches` batch pages holds.
const fn capacity(batches: usize) -> usize {
    INLINE_SLOTS + BATCH_SLOTS * batches
}

impl<'a, H: Devices> Gather<'a, H> {
    /// Begins an empty gather for an address space.
    #[doc(alias = "tlb_gather_mmu")]
    pub fn new(mm: &'a Mm<H>) -> Self {
        Gather {
            mm,
            range: FlushRange::EMPTY,
            is_whole: false,
            pages: Vec::new(),
            frames: Vec::new(),
            room: INLINE_SLOTS,
            nr_forced: 0,
        }
    }

    /// An empty gather for the end of an mm.
    pub fn new_whole(mm: &'a Mm<H>) -> Self {
        Gather { is_whole: true, ..Gather::new(mm) }
    }

    /// The mm it works on.
    pub fn mm(&self) -> &'a Mm<H> {
        self.mm
    }

    /// Pages waiting.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True if no page waits.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How often it flushed before its end.
    pub fn nr_forced(&self) -> u32 {
        self.nr_forced
    }

    /// An entry was cleared or changed: its translation must go.
    #[inline(always)]
    pub fn cleared(&mut self, vpn: u32) {
        self.cleared_range(vpn, vpn.saturating_add(1));
    }

    /// Entries of several pages were cleared or changed.
    #[inline(always)]
    pub fn cleared_range(&mut self, start: u32, end: u32) {
        self.range.cover(start, end);
    }

    /// A table that covered `vpn` is freed. Its entries are gone already; the flush also removes
    /// the processors' cached copies of the table itself.
    pub fn freed_table(&mut self, vpn: u32) {
        self.cleared(vpn);
        self.range.tables_freed = true;
    }
}

impl<H: Devices> Kernel<H> {
    /// Adds an unmapped page; true if that filled the gather: the caller flushes and frees
    /// ([`Kernel::gather_flush`]) before it adds another.
    #[doc(alias = "__tlb_remove_page_size")]
    #[doc(alias = "__tlb_remove_page")]
    #[inline]
    #[must_use]
    pub(crate) fn gather_page(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        folio: Folio,
    ) -> bool {
        gather.pages.push(folio);
        gather.pages.len() == gather.room && !self.gather_grow(cx, gather)
    }

    /// Adds a batch page to the gather; false if it has its most, or there is no memory.
    #[doc(alias = "tlb_next_batch")]
    fn gather_grow(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>) -> bool {
        let in_use = (gather.room - INLINE_SLOTS) / BATCH_SLOTS;
        if in_use == gather.frames.len() {
            if in_use == MAX_BATCHES {
                return false;
            }
            let (gfp, node) = (Gfp::GFP_NOWAIT | Gfp::NOWARN, self.mem.cpu_node(cx.cpu()));
            let Some(pfn) = self.mem.alloc(cx, self, gfp, Order::ZERO, node, None) else {
                return false;
            };
            self.mem.map.page(pfn).reset_usage();
            gather.frames.push(pfn);
        }
        gather.room = capacity(in_use + 1);
        true
    }

    /// Flushes the translations gathered so far; pages go on waiting. Callers may hold a table's
    /// lock.
    #[doc(alias = "tlb_flush_mmu_tlbonly")]
    pub(crate) fn gather_flush_tlb(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>) {
        if gather.range.is_empty() {
            return;
        }
        let mut range = gather.range;
        if gather.is_whole {
            range = FlushRange { tables_freed: range.tables_freed, ..FlushRange::ALL };
        }
        self.flush_tlb(cx, gather.mm, range);
        gather.range = FlushRange::EMPTY;
    }

    /// Flushes the TLB and frees the pages gathered so far, in the middle of an unmap. Callers hold
    /// no spin lock.
    #[doc(alias = "tlb_flush_mmu")]
    pub(crate) fn gather_flush(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>) {
        gather.nr_forced += 1;
        self.gather_flush_tlb(cx, gather);
        self.gather_free(cx, gather);
    }

    /// Ends a gather: flushes the TLB, frees the pages, and gives the batch pages back.
    #[doc(alias = "tlb_finish_mmu")]
    pub(crate) fn gather_finish(&self, cx: &Cx<'_, H>, mut gather: Gather<'_, H>) {
        self.gather_flush_tlb(cx, &mut gather);
        self.gather_free(cx, &mut gather);
        for &frame in &gather.frames {
            let freed = self.mem.free(cx, frame, Order::ZERO);
            debug_assert!(freed.is_ok(), "a batch page was shared: {freed:?}");
        }
    }

    /// Frees the gathered pages, a batch at a time, and lets others run after each.
    #[doc(alias = "tlb_batch_pages_flush")]
    fn gather_free(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>) {
        let mut rest = gather.pages.as_slice();
        let mut size = INLINE_SLOTS;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(size.min(rest.len()));
            self.free_chunk(cx, chunk);
            cx.host.yield_now();
            (rest, size) = (later, BATCH_SLOTS);
        }
        gather.pages.clear();
        gather.room = INLINE_SLOTS;
    }

    /// Drops one reference of each page (rules/unmap#release): swap cache copies that nothing maps
    /// any more give up their slots first.
    #[doc(alias = "free_pages_and_swap_cache")]
    fn free_chunk(&self, cx: &Cx<'_, H>, pages: &[Folio]) {
        self.drain_to_unmap(cx);
        for &folio in pages {
            self.try_free_swap_cache(cx, folio);
        }
        self.release_pages(cx, pages);
    }
}
