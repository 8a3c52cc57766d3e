//! Collapses a range of single pages into a huge page (rules/huge-pages#collapse).
//!
//! ```text
//! no lock       allocate the huge page, read in swapped pages
//! mmap_lock     take the entries, flush ─▶ lock and isolate each page ─▶ copy ─▶ leaf ─▶ free the old ones
//!                                                │
//!                                                └─ one is in use: put the entries back
//! ```
//!
//! With `mmap_lock` held for writing, no fault and no unmapping is under way. With its entries
//! cleared and flushed, no program writes a page that is being copied.
//!
//! From: [`super::khugepaged`].

use alloc::vec::Vec;

use super::{HUGE, NR};
use crate::host::{Cost, CpuId};
use crate::host::{Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, PageFlags};
use crate::page_alloc::Gfp;
use crate::vm::zap::Tally;
use crate::vm::{Access, FlushRange, Mm, Pte, Ptes};
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collapsed {
    /// The range is mapped by a leaf.
    Done,
    /// It changed meanwhile, or a page is in use.
    Busy,
    /// There is no huge page to be had.
    NoMemory,
}

type Entries = [Pte; NR as usize];

impl<H: Devices> Kernel<H> {
    /// Collapses the range at `start` into one huge page, near `node`. No lock is held.
    #[doc(alias = "collapse_huge_page")]
    pub(super) fn collapse(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        node: NodeId,
    ) -> Collapsed {
        let gfp = match self.mem.tunables.khugepaged_defrag.get() {
            true => Gfp::GFP_TRANSHUGE,
            false => Gfp::GFP_TRANSHUGE_LIGHT,
        };
        let new = self.mem.alloc_folio(cx, self, gfp | Gfp::THISNODE, HUGE, node);
        let Some(new) = new else {
            self.mem.events.add(cx.cpu(), VmEvent::ThpCollapseAllocFailed, 1);
            return Collapsed::NoMemory;
        };
        if !self.charge_folio(cx, new, mm.group(), gfp) {
            self.put_page(cx, new);
            return Collapsed::NoMemory;
        }
        self.mem.events.add(cx.cpu(), VmEvent::ThpCollapseAlloc, 1);
        if self.read_range_in(cx, mm, start) && self.collapse_into(cx, mm, start, new) {
            return Collapsed::Done;
        }
        self.put_page(cx, new);
        Collapsed::Busy
    }

    /// Swaps in the pages that a range lacks, as faults do; false if one cannot be had.
    #[doc(alias = "__collapse_huge_page_swapin")]
    fn read_range_in(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32) -> bool {
        let is_swapped = |vpn: u32| {
            let table = mm.table_of(cx.cpu(), vpn);
            table.is_some_and(|table| table.peek(vpn).slot().is_some())
        };
        (start..start + NR)
            .filter(|&vpn| is_swapped(vpn))
            .all(|vpn| self.fault_in(cx, mm, vpn, Access::Read).is_ok())
    }

    /// False, with nothing changed, if the range has changed, or one of its pages is in use.
    fn collapse_into(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32, new: Folio) -> bool {
        self.lru_add_drain(cx);
        let _guard = mm.mmap_lock.write(cx);
        let vma = mm.vma_of(cx.cpu(), start);
        let vma = vma.filter(|vma| self.huge.range(vma, start) == Some(start));
        let (Some(vma), Some(table)) = (vma, mm.table_of(cx.cpu(), start)) else {
            return false;
        };
        let mut ptes = table.lock(cx.cpu());
        if ptes.leaf().is_some() || ptes.is_bare() {
            return false;
        }
        self.flush_pending(cx, mm);
        let entries = self.take_entries(cx, mm, &mut ptes, start);
        let Some(old) = self.isolate_all(cx, &entries) else {
            for (vpn, pte) in (start..).zip(entries).filter(|(_, pte)| !pte.is_none()) {
                ptes.set(vpn, pte);
            }
            return false;
        };
        // Nobody adds an entry meanwhile: faults wait for the mm.
        drop(ptes);
        self.copy_entries(cx, &entries, new);
        let mut ptes = table.lock(cx.cpu());
        self.map_new_huge(cx, mm, &vma, &mut ptes, new, start);
        drop(ptes);
        self.free_old(cx, mm, &old);
        true
    }

    fn take_entries(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        ptes: &mut Ptes<'_, H>,
        start: u32,
    ) -> Entries {
        let entries = core::array::from_fn(|at| ptes.take(start + at as u32));
        cx.charge(Cost::ClearPte, NR);
        self.flush_tlb(cx, mm, FlushRange { start, end: start + NR, tables_freed: false });
        entries
    }

    /// Locks and isolates every page of a range, or none if one cannot be, or is not as
    /// [`super::khugepaged`] found it.
    #[doc(alias = "__collapse_huge_page_isolate")]
    fn isolate_all(&self, cx: &Cx<'_, H>, entries: &Entries) -> Option<Vec<Folio>> {
        let t = &self.mem.tunables;
        let mut nr_none = 0;
        let mut taken = Vec::new();
        let is_all = entries.iter().all(|&pte| {
            // Neither here nor gone: swapped out, or on its way to another frame.
            if pte.slot().is_some() || pte.moving_from().is_some() {
                return false;
            }
            let Some(folio) = self.mapped_folio(pte) else {
                nr_none += 1;
                return nr_none <= t.khugepaged_max_ptes_none.get();
            };
            let is_taken = self.isolate_for_collapse(cx, folio);
            if is_taken {
                taken.push(folio);
            }
            is_taken
        });
        if is_all {
            return Some(taken);
        }
        for folio in taken {
            self.unlock_page(cx, folio);
            self.putback_page(cx, folio);
        }
        None
    }

    fn isolate_for_collapse(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let busy = PageFlags::WRITEBACK | PageFlags::PINNED | PageFlags::MLOCKED;
        if folio.is_large() || !page.is_anon() || page.flags().intersects(busy) {
            return false;
        }
        if !self.try_lock_page(folio) {
            return false;
        }
        // Without its place in the swap cache: the copy has none.
        let is_out = !page.is(PageFlags::SWAPCACHE) || self.free_swap_cache(cx, folio, false);
        let is_ours = is_out && page.refcount() == 1 && page.mapcount() == 1;
        if is_ours && self.isolate_page(cx, folio) {
            return true;
        }
        self.unlock_page(cx, folio);
        false
    }

    /// Copies the range's pages to the huge page, and zeros where nothing was mapped.
    #[doc(alias = "__collapse_huge_page_copy")]
    fn copy_entries(&self, cx: &Cx<'_, H>, entries: &Entries, new: Folio) {
        for (&pte, frame) in entries.iter().zip(new.frames()) {
            match self.mapped_folio(pte) {
                Some(old) => self.copy_frame(cx, old.pfn(), Folio::page(frame)),
                None => cx.host.frame_zero(frame, Order::ZERO),
            }
        }
    }

    /// Frees the single pages, which have neither entries nor users any more.
    fn free_old(&self, cx: &Cx<'_, H>, mm: &Mm<H>, old: &[Folio]) {
        let cpu: CpuId = cx.cpu();
        let mut tally = Tally::default();
        for &folio in old {
            tally.unmapped(self, cpu, folio, 1, true);
            let was_last = self.mem.map.page(folio).put::<H>(1);
            debug_assert!(!was_last, "the isolation has a reference");
            self.unlock_page(cx, folio);
        }
        tally.flush(self, cpu, mm);
        self.release_pages(cx, old);
    }
}
