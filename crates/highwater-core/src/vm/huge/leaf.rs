//! Leaves: mapping, unmapping and splitting them (rules/huge-pages#leaf-split), and the number that
//! map a huge page.
//!
//! Code that changes a single entry of a range mapped by a leaf calls [`Kernel::split_leaf`] first,
//! because only the kernel can convert a leaf's counts.
//!
//! After a fork several address spaces map a huge page by a leaf each. Their number is the mapcount
//! of the folio's *second* frame (Linux's `compound_mapcount`, in the same place), which has no
//! other meaning while the folio is whole. Leaves change under different table locks, so the count
//! is atomic.

use core::ops::Range;

use super::NR;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::vm::rmap::Flow;
use crate::vm::{FlushRange, LastWalk, Mm, Pte, Ptes, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Puts 512 entries in the place of the leaf around `vpn`, if there is one. Those of the huge page of
    /// zeros name the single one. References and mappings stay as they are. `flags`: those of the VMA.
    #[doc(alias = "__split_huge_pmd")]
    pub(in crate::vm) fn split_leaf(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        ptes: &mut Ptes<'_, H>,
        vpn: u32,
        flags: VmaFlags,
    ) {
        let Some(leaf) = ptes.leaf() else { return };
        let start = vpn & !(NR - 1);
        self.mem.events.add(cx.cpu(), VmEvent::ThpSplitPmd, 1);
        // A program that writes through the old translation would set the leaf's bits.
        self.flush_tlb(cx, mm, FlushRange { start, end: start + NR, tables_freed: false });
        if self.is_zero_leaf(leaf) {
            ptes.take_leaf();
            let zero = Pte::new(self.zero_page).with_young(leaf.is_young());
            (start..start + NR).for_each(|vpn| ptes.set(vpn, zero));
            self.put_huge_zero(cx);
        } else {
            ptes.split_leaf();
            self.count_leaf_gone(cx, leaf);
            // Pages with separate entries are not mlocked together. Of the address spaces that
            // share it since a fork, only those that mlocked it munlock it.
            if let Some(folio) = self.mapped_folio(leaf)
                && flags.contains(VmaFlags::LOCKED)
                && self.mem.map.page(folio).is(PageFlags::MLOCKED)
            {
                self.munlock_page(cx, folio);
            }
        }
        cx.charge(Cost::SetPte, NR);
    }

    /// Splits the leaf that crosses a page, if there is one, because the memory on both sides is
    /// about to differ.
    pub(in crate::vm) fn split_leaf_across(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        flags: VmaFlags,
    ) {
        if !vpn.is_multiple_of(NR)
            && let Some(table) = mm.table_of(cx.cpu(), vpn)
        {
            self.split_leaf(cx, mm, &mut table.lock(cx.cpu()), vpn, flags);
        }
    }

    /// The second frame of a huge page: its mapcount is the number of leaves.
    fn leaf_counter(&self, folio: Folio) -> &Page {
        self.mem.map.page(folio.pfn().add(1))
    }

    /// Returns the number of leaves that map a huge page.
    #[doc(alias = "compound_mapcount")]
    pub(crate) fn nr_leaves(&self, folio: Folio) -> u32 {
        self.leaf_counter(folio).mapcount()
    }

    /// A leaf more maps a huge page; its references and mappings are the caller's to add.
    pub(super) fn count_leaf(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.leaf_counter(folio).map_add::<H>(1) {
            self.mem.account(cx.cpu(), folio).plus(NodeStat::AnonTransparentHugepages);
        }
    }

    /// An entry or a leaf that mapped frames of a huge page was removed (`gone`). Queues the page
    /// for a split if one of these frames is unmapped now and others are still mapped
    /// (rules/huge-pages#deferred-split).
    pub(in crate::vm) fn queue_if_partly_mapped(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        mut gone: Range<u32>,
    ) {
        let page = self.mem.map.page(folio);
        let mapcount = page.mapcount();
        // A leaf maps all of it.
        if mapcount == 0 || page.is(PageFlags::DEFERRED) || self.nr_leaves(folio) != 0 {
            return;
        }
        // With fewer mappings than frames one has none; after a fork there may be more, and still one without.
        if mapcount < NR || gone.any(|frame| !self.maps_frame(cx, folio, Pfn(frame))) {
            self.queue_split(cx, folio);
        }
    }

    /// True if an entry maps a frame of a huge page. Entries are only looked at: the caller holds a table's lock.
    fn maps_frame(&self, cx: &Cx<'_, H>, folio: Folio, frame: Pfn) -> bool {
        let (mut is_mapped, at) = (false, frame.0 - folio.pfn().0);
        self.each_place(cx, folio, &mut LastWalk::default(), |place| {
            is_mapped |= place.table.peek(place.vpn + at).pfn() == Some(frame);
            if is_mapped { Flow::Break(()) } else { Flow::Continue(()) }
        });
        is_mapped
    }

    /// A leaf was taken out of its table, which stays for the next one.
    pub(in crate::vm) fn leaf_taken(&self, cx: &Cx<'_, H>, ptes: &mut Ptes<'_, H>, leaf: Pte) {
        ptes.set_bare(true);
        if self.is_zero_leaf(leaf) {
            self.put_huge_zero(cx);
        } else {
            self.count_leaf_gone(cx, leaf);
        }
    }

    fn is_zero_leaf(&self, leaf: Pte) -> bool {
        leaf.pfn().is_some_and(|pfn| self.is_huge_zero(pfn))
    }

    /// nr_anon_transparent_hugepages counts pages mapped by leaves, once for all of a page's
    /// leaves.
    fn count_leaf_gone(&self, cx: &Cx<'_, H>, leaf: Pte) {
        if let Some(folio) = self.mapped_folio(leaf)
            && self.leaf_counter(folio).map_remove::<H>(1)
        {
            self.mem.account(cx.cpu(), folio).minus(NodeStat::AnonTransparentHugepages);
        }
    }
}
