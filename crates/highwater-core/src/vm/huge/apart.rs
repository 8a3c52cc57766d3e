//! Splits a huge page that several mms map by single entries since a fork
//! (rules/huge-pages#page-split).
//!
//! ```text
//! entries of all mms ──▶ migration entries ──▶ 512 descriptors ──▶ entries again
//! ```
//!
//! A task that needs one of its pages meanwhile waits until the entry is restored. A task that
//! clears a migration entry (munmap) has nothing else to do.
//!
//! From: [`super::split`] · to: `rmap`.

use alloc::vec::Vec;

use super::NR;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};
use crate::vm::rmap::{Flow, Place};
use crate::vm::{FlushRange, LastWalk, Pte};
use crate::vmstat::NodeStat;

impl<H: Devices> Kernel<H> {
    /// As `try_split`, for one that a fork shared.
    pub(super) fn try_split_forked(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        tails: &mut Vec<Folio>,
    ) -> bool {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::MLOCKED) {
            return false;
        }
        self.unmap_all_of(cx, folio);
        let is_apart =
            !page.is_mapped() && self.take_apart_queued(cx, folio, &[false; NR as usize]);
        self.map_all_again(cx, folio.pfn());
        // The caller wakes the waiters of the first page, with its lock.
        folio.frames().skip(1).for_each(|frame| self.wake_moved(cx, frame));
        if is_apart {
            self.sort_tails(cx, folio, tails);
        }
        is_apart
    }

    /// Replaces every entry that maps a part of a huge page by a migration entry before it is
    /// split.
    #[doc(alias = "unmap_folio")]
    #[doc(alias = "unmap_page")]
    fn unmap_all_of(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut LastWalk::default(), |place| {
            let mut ptes = place.table.lock(cx.cpu());
            if ptes.maps(place.vpn, folio) {
                self.split_leaf(cx, place.mm, &mut ptes, place.vpn, place.flags);
            }
            let (mut nr, mut is_dirty) = (0, false);
            for (vpn, frame) in (place.vpn..).zip(folio.frames()) {
                if ptes.get(vpn).pfn() != Some(frame) {
                    continue;
                }
                let was = ptes.take(vpn);
                is_dirty |= was.is_dirty();
                ptes.set(vpn, Pte::moving(frame, was.is_writable(), was.is_young()));
                nr += 1;
            }
            if nr == 0 {
                return Flow::Continue(());
            }
            let (start, end) = (place.vpn, place.vpn + NR);
            self.flush_tlb(cx, place.mm, FlushRange { start, end, tables_freed: false });
            if is_dirty {
                page.flag_set::<H>(PageFlags::DIRTY);
            }
            cx.charge(Cost::RmapMapping, 1);
            cx.charge(Cost::ClearPte, nr);
            if page.map_remove::<H>(nr) {
                self.mem.account(cx.cpu(), folio).minus(NodeStat::AnonPages);
            }
            let was_last = page.put::<H>(nr);
            debug_assert!(!was_last, "a page without its splitter's reference");
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
    }

    /// Maps the pages from `first` on again wherever a migration entry waits: 512 single pages, or
    /// still one.
    #[doc(alias = "remap_page")]
    fn map_all_again(&self, cx: &Cx<'_, H>, first: Pfn) {
        let head = self.mem.map.folio(first);
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, head, &mut LastWalk::default(), |place: &Place<'_, H>| {
            let mut ptes = place.table.lock(cx.cpu());
            for at in 0..NR {
                let (vpn, frame) = (place.vpn + at, Pfn(first.0 + at));
                let entry = ptes.get(vpn);
                if entry.moving_from() != Some(frame) {
                    continue;
                }
                let folio = self.mem.map.folio(frame);
                let page = self.mem.map.page(folio);
                page.get::<H>(1);
                if page.map_add::<H>(1) {
                    self.mem.account(cx.cpu(), folio).plus(NodeStat::AnonPages);
                }
                ptes.set(vpn, entry.moved_to(frame));
                cx.charge(Cost::SetPte, 1);
            }
            Flow::Continue(())
        });
    }
}
