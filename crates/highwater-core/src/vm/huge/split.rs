//! Splits a huge page into 512 pages (rules/huge-pages#page-split).
//!
//! While a huge page is whole, its head has the state of all pages; afterwards each page has its
//! own. In between no other code may read the state. It is excluded as follows:
//!
//! | reader | excluded by |
//! |---|---|
//! | faults, unmapping, reclaim's walks | the lock of the only table that maps it |
//! | the swap cache | the lock of the slots |
//! | the lists | the caller has it isolated |
//! | holders of a reference | there are none: the count is frozen at the expected number |
//!
//! A huge page is mapped in one table, unless a fork copied its leaf or its entries. Then entries
//! are in several tables, whose locks cannot be held at once. So they become migration entries for
//! the time of the split ([`super::apart`]); a real kernel always does this.
//!
//! From: `reclaim::folios`, the shrinker of the queue · to: `lru`, `swap`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::NR;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{BlockFlags, Folio, Order, PageFlags, PageMapping, Pfn};
use crate::vm::{Mm, PageTable, Ptes, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

/// What every page of a huge page has of its flags.
const INHERITED: PageFlags = PageFlags::DIRTY
    .union(PageFlags::UPTODATE)
    .union(PageFlags::USED)
    .union(PageFlags::ACTIVE)
    .union(PageFlags::SWAPBACKED)
    .union(PageFlags::SWAPCACHE)
    .union(PageFlags::WORKINGSET)
    .union(PageFlags::MARKS)
    .union(PageFlags::FORKED);

/// Where a huge page is mapped.
struct Home<H: Devices> {
    mm: Arc<Mm<H>>,
    table: Arc<PageTable<H>>,
    start: u32,
}

impl<H: Devices> Kernel<H> {
    /// Splits an isolated, locked huge page without other references. Its head stays locked and
    /// belongs to the caller. Used tail pages are added to `tails`, isolated as well (a
    /// reference each); unused ones are freed. False if the page has other references; then only
    /// the leaf was split.
    ///
    /// Linux: same name.
    #[doc(alias = "split_huge_page_to_list")]
    #[doc(alias = "split_huge_page")]
    pub(crate) fn split_folio(&self, cx: &Cx<'_, H>, folio: Folio, tails: &mut Vec<Folio>) -> bool {
        debug_assert!(self.mem.map.page(folio).is(PageFlags::LOCKED));
        let is_split = self.try_split(cx, folio, tails);
        let event = match is_split {
            true => VmEvent::ThpSplitPage,
            false => VmEvent::ThpSplitPageFailed,
        };
        self.mem.events.add(cx.cpu(), event, 1);
        is_split
    }

    /// Reports whether only the huge page's entries, the swap cache and the caller refer to it.
    #[doc(alias = "can_split_folio")]
    #[doc(alias = "can_split_huge_page")]
    pub(crate) fn may_split(&self, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let is_busy = page.flags().intersects(PageFlags::WRITEBACK | PageFlags::PINNED);
        !is_busy && page.refcount() == self.expected_refs(folio)
    }

    fn expected_refs(&self, folio: Folio) -> u32 {
        let page = self.mem.map.page(folio);
        let cached = if page.is(PageFlags::SWAPCACHE) { NR } else { 0 };
        1 + page.mapcount() + cached
    }

    fn home_of(&self, cx: &Cx<'_, H>, folio: Folio) -> Option<Home<H>> {
        let page = self.mem.map.page(folio);
        let PageMapping::Anon(id) = page.mapping() else { return None };
        let (mm, start) = (self.mm(cx, id)?, page.index());
        let table = mm.table_of(cx.cpu(), start)?;
        Some(Home { mm, table, start })
    }

    fn try_split(&self, cx: &Cx<'_, H>, folio: Folio, tails: &mut Vec<Folio>) -> bool {
        if !self.may_split(folio) {
            return false;
        }
        if self.mem.map.page(folio).is(PageFlags::FORKED) {
            return self.try_split_forked(cx, folio, tails);
        }
        let home = self.home_of(cx, folio);
        if let Some(home) = &home {
            let is_locked = self.mem.map.page(folio).is(PageFlags::MLOCKED);
            let mut ptes = home.table.lock(cx.cpu());
            if ptes.maps(home.start, folio) && ptes.leaf().is_some() {
                let vma = home.mm.vma_of(cx.cpu(), home.start);
                let flags = vma.map_or(VmaFlags::LOCKED, |vma| vma.flags);
                self.split_leaf(cx, &home.mm, &mut ptes, home.start, flags);
            }
            drop(ptes);
            if is_locked {
                // The split took the lock off the pages; the batch that does so has a reference.
                self.lru_add_drain(cx);
            }
        }
        let mut ptes = home.as_ref().map(|home| home.table.lock(cx.cpu()));
        let start = home.as_ref().map_or(0, |home| home.start);
        let mapped = mapped_pages(ptes.as_ref(), folio, start);
        if !self.take_apart_queued(cx, folio, &mapped) {
            return false;
        }
        // The entries name the same frames; in Linux they are away meanwhile.
        let nr_mapped = mapped.iter().filter(|&&is| is).count() as u32;
        cx.charge(Cost::ClearPte, nr_mapped);
        cx.charge(Cost::SetPte, nr_mapped);
        drop(ptes.take());
        if nr_mapped != 0 {
            // It counts whole as long as any part of it was mapped.
            let unmapped = u64::from(NR - nr_mapped);
            let head = Folio::page(folio.pfn());
            self.mem.account(cx.cpu(), head).of_pages(unmapped).minus(NodeStat::AnonPages);
        }
        self.sort_tails(cx, folio, tails);
        true
    }

    /// As [`Self::take_apart`]; also removes it from the queue.
    pub(super) fn take_apart_queued(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        mapped: &[bool; NR as usize],
    ) -> bool {
        let was_queued = self.unqueue_split(cx, folio);
        let is_apart = self.take_apart(cx, folio, mapped);
        if !is_apart && was_queued {
            self.requeue_split(cx, folio);
        }
        is_apart
    }

    /// Splits a huge page into single pages, with a reference each for the caller; false if it has
    /// other users. `mapped`: pages that have an entry, whose table is locked.
    #[doc(alias = "__split_huge_page")]
    fn take_apart(&self, cx: &Cx<'_, H>, folio: Folio, mapped: &[bool; NR as usize]) -> bool {
        let page = self.mem.map.page(folio);
        let nr_mapped = mapped.iter().filter(|&&is| is).count() as u32;
        if page.is(PageFlags::MLOCKED) || nr_mapped != page.mapcount() {
            return false;
        }
        let expected = self.expected_refs(folio);
        let apart = || {
            let Some(frozen) = page.freeze::<H>(expected) else { return false };
            // Each page gets its own references.
            frozen.keep();
            self.split_charge(folio);
            self.make_pages(folio, mapped);
            true
        };
        match self.slot_of(folio) {
            Some(slot) => self.swap.area(slot).change(cx.cpu(), |_| apart()),
            None => apart(),
        }
    }

    /// Gives every frame its own descriptor.
    fn make_pages(&self, folio: Folio, mapped: &[bool; NR as usize]) {
        let head = self.mem.map.page(folio);
        let (flags, owner, index) = (head.flags(), head.mapping(), head.index());
        let cached = u32::from(flags.contains(PageFlags::SWAPCACHE));
        let migratetype = head.migratetype();
        for (at, (frame, &is_mapped)) in (0..).zip(folio.frames().zip(mapped)) {
            let page = self.mem.map.page(frame);
            page.init_mapcount(is_mapped.into());
            if frame != folio.pfn() {
                page.init_flags(flags & INHERITED);
                page.set_mapping(owner, index.wrapping_add(at));
            }
            // A lookup through a migration entry finds the head until the page is complete.
            page.set(BlockFlags::USED, Order::ZERO, migratetype);
            page.unfreeze(u32::from(is_mapped) + cached + 1);
        }
    }

    /// Frees unused pages, and returns the others.
    pub(super) fn sort_tails(&self, cx: &Cx<'_, H>, folio: Folio, tails: &mut Vec<Folio>) {
        let mut unused = Vec::new();
        for frame in folio.frames().skip(1) {
            let (tail, page) = (Folio::page(frame), self.mem.map.page(frame));
            if page.is_mapped() || page.is(PageFlags::SWAPCACHE) {
                tails.push(tail);
            } else {
                unused.push(tail);
            }
        }
        cx.charge(Cost::LruMove, tails.len() as u32);
        self.release_pages(cx, &unused);
    }

    /// Splits up to `nr` of a node's queued huge pages; returns their number
    /// (rules/huge-pages#deferred-split). Pages in use stay queued.
    pub(crate) fn split_deferred(&self, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> u64 {
        let (mut nr_split, mut busy) = (0, Vec::new());
        for _ in 0..nr.min(self.nr_deferred(cx, node)) {
            let Some(folio) = self.next_deferred(cx, node) else { break };
            let is_split = self.try_lock_page(folio) && {
                let is_split = self.split_listed(cx, folio);
                self.unlock_page(cx, folio);
                is_split
            };
            // Of a split one this is a reference to its first page.
            if is_split {
                nr_split += 1;
                self.put_page(cx, Folio::page(folio.pfn()));
            } else {
                busy.push(folio);
            }
        }
        for folio in busy {
            // It may be unmapped altogether by now; then this was the last reference.
            if self.mem.map.page(folio).is_mapped() {
                self.requeue_split(cx, folio);
            }
            self.put_page(cx, folio);
        }
        nr_split
    }

    /// Splits a locked huge page that is on a list, and puts its pages back there.
    fn split_listed(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        self.lru_add_drain(cx);
        if !self.isolate_page(cx, folio) {
            return false;
        }
        // The caller's reference would be one too many.
        let was_last = self.mem.map.page(folio).put::<H>(1);
        debug_assert!(!was_last, "the isolation has a reference");
        let mut tails = Vec::new();
        let is_split = self.split_folio(cx, folio, &mut tails);
        let head = if is_split { Folio::page(folio.pfn()) } else { folio };
        self.mem.map.page(head).get::<H>(1);
        self.putback_page(cx, head);
        tails.into_iter().for_each(|tail| self.putback_page(cx, tail));
        is_split
    }
}

/// Which pages of a huge page have an entry in the table.
fn mapped_pages<H: Devices>(
    ptes: Option<&Ptes<'_, H>>,
    folio: Folio,
    start: u32,
) -> [bool; NR as usize] {
    let mut mapped = [false; NR as usize];
    if let Some(ptes) = ptes {
        for (at, is_mapped) in (0..).zip(&mut mapped) {
            *is_mapped = ptes.get(start + at).pfn() == Some(Pfn(folio.pfn().0 + at));
        }
    }
    mapped
}
