//! Reverse mapping of large folios of files (rules/large-folios#faults).
//!
//! Such a folio is mapped page by page, by any number of VMAs, each of which may map a part of it
//! only and lie across two page tables. So a walk goes over *parts*: the pages of a folio that one
//! VMA maps through one table.
//!
//! | walk | effect |
//! |---|---|
//! | [`Kernel::folio_of_file_referenced`] | a VMA with any young entry is one user |
//! | [`Kernel::unmap_folio_of_file`] | clears all entries, or stops at a locked VMA |
//! | [`Kernel::clean_folio_of_file`] | makes all entries clean and read-only |
//! | [`Kernel::unmap_folio_everywhere`] | unmaps it as munmap would |
//! | [`Kernel::unmap_folio_to_move`], [`Kernel::map_moved_folio`] | puts a migration entry for each, and entries again |
//!
//! Synchronisation: as [`super::rmap`].

use core::ops::Range;

use super::rmap::{Flow, LastWalk, Place, Referenced, Trail};
use super::zap::{Tally, Zap};
use super::{FlushRange, Gather, PTES, Pte, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageMapping, Pfn};
use crate::page_cache::MapRange;
use crate::vmstat::NodeStat;

/// Pages of a folio that one VMA maps through one page table.
struct Part {
    /// Their places in the folio.
    pages: Range<u32>,
    /// Number of the VMA in this walk.
    vma: u32,
    /// The VMA covers all of the folio.
    is_whole: bool,
}

impl Part {
    /// The entries, and the frames that they map if they map the folio.
    fn entries(&self, vpn: u32, folio: Folio) -> impl Iterator<Item = (u32, Pfn)> + use<> {
        let first = folio.pfn();
        (vpn..).zip(self.pages.clone().map(move |at| first.add(at)))
    }
}

/// The virtual pages at which a range maps pages `first..end` of its file, and the first of those
/// pages.
fn overlap(range: &MapRange, first: u32, end: u32) -> Option<(Range<u32>, u32)> {
    let pages = range.end - range.start;
    let from = first.max(range.file_page);
    let to = end.min(range.file_page.saturating_add(pages));
    if from >= to {
        return None;
    }
    let start = range.start + (from - range.file_page);
    Some((start..start + (to - from), from))
}

impl<H: Devices> Kernel<H> {
    /// Calls `visit` for each part of a file's folio, until it breaks. No lock is held.
    #[inline(never)]
    fn each_part(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        last: &mut LastWalk<H>,
        mut visit: impl FnMut(&Place<'_, H>, &Part) -> Flow,
    ) {
        let page = self.mem.map.page(folio);
        let (first, end) = self.mem.map.indices_of(folio);
        let PageMapping::File(id) = page.mapping() else { return };
        let Some(file) = last.file(self, cx, id).cloned() else { return };
        let (mut after, mut vma) = (None, 0);
        loop {
            let range = {
                let mappings = file.mappings.lock(cx.cpu());
                let mut ranges = mappings.after(after.as_ref()).iter();
                ranges.find(|range| overlap(range, first, end).is_some()).copied()
            };
            let Some(range) = range else { return };
            after = Some(range);
            vma += 1;
            let Some((vpns, index)) = overlap(&range, first, end) else { continue };
            let is_whole = vpns.len() as u64 == folio.nr_pages();
            let mut at = vpns.start;
            while at < vpns.end {
                let stop = vpns.end.min((at | (PTES as u32 - 1)).saturating_add(1));
                let from = index - first + (at - vpns.start);
                let part = Part { pages: from..from + (stop - at), vma, is_whole };
                let flow = self.visit_at(cx, range.mm, at, last, |place| visit(place, &part));
                if flow.is_break() {
                    return;
                }
                at = stop;
            }
        }
    }

    /// Clears the young bits of all entries that map a folio of a file, and reports the uses: a VMA
    /// with any of them is one user. A locked VMA that maps all of it locks the folio and ends the
    /// walk.
    pub(super) fn folio_of_file_referenced(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        trail: &mut Trail<H>,
    ) -> Referenced {
        let (mut users, mut flags, mut last_user) = (0, VmaFlags::empty(), 0);
        let over = self.passed_over(trail.group);
        let Trail { last, around, .. } = trail;
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, last, |place, part| {
            if over.is_any() && self.passes_over(over, place) {
                return Flow::Continue(());
            }
            let mut ptes = place.table.lock(cx.cpu());
            let (mut was_used, mut nr_mapped) = (false, 0);
            for (vpn, frame) in part.entries(place.vpn, folio) {
                if ptes.get(vpn).pfn() == Some(frame) {
                    cx.charge(Cost::RmapMapping, 1);
                    nr_mapped += 1;
                    was_used |= self.clear_young_around(cx, place, &mut ptes, vpn, around);
                }
            }
            if nr_mapped != 0 && place.flags.contains(VmaFlags::LOCKED) {
                flags |= VmaFlags::LOCKED;
                if part.is_whole {
                    self.mlock_page(cx, folio);
                }
                return Flow::Break(());
            }
            if was_used && !place.flags.contains(VmaFlags::SEQ_READ) && last_user != part.vma {
                last_user = part.vma;
                users += 1;
                flags |= place.flags;
            }
            Flow::Continue(())
        });
        Referenced::By(users, flags)
    }

    /// Unmaps a locked folio of a file everywhere for reclaim; true if nothing maps it any more. It
    /// stays mapped where a VMA is locked.
    pub(super) fn unmap_folio_of_file(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        trail: &mut Trail<H>,
    ) -> bool {
        let page = self.mem.map.page(folio);
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, &mut trail.last, |place, part| {
            let mut ptes = place.table.lock(cx.cpu());
            let mut tally = Tally::default();
            for (vpn, frame) in part.entries(place.vpn, folio) {
                if ptes.get(vpn).pfn() != Some(frame) {
                    continue;
                }
                cx.charge(Cost::RmapMapping, 1);
                if place.flags.contains(VmaFlags::LOCKED) {
                    if part.is_whole {
                        self.mlock_page(cx, folio);
                    }
                    tally.flush(self, cx.cpu(), place.mm);
                    return Flow::Break(());
                }
                let was = ptes.take(vpn);
                cx.charge(Cost::ClearPte, 1);
                self.flush_later(cx, &Place { vpn, ..*place }, was.is_dirty());
                if was.is_dirty() {
                    self.set_page_dirty(cx, folio);
                }
                ptes.set(vpn, Pte::NONE);
                tally.unmapped_frame(self, cx.cpu(), (folio, frame));
                let was_last = page.put::<H>(1);
                debug_assert!(!was_last, "a folio without its reclaimer's reference");
            }
            tally.flush(self, cx.cpu(), place.mm);
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
        !page.is_mapped()
    }

    /// Write-protects and cleans every entry of a folio of a file; true if one was dirty or could
    /// have become so.
    pub(super) fn clean_folio_of_file(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let mut nr_cleaned = 0;
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, &mut LastWalk::default(), |place, part| {
            if !place.flags.contains(VmaFlags::SHARED) {
                return Flow::Continue(());
            }
            let mut ptes = place.table.lock(cx.cpu());
            for (vpn, frame) in part.entries(place.vpn, folio) {
                let was = ptes.get(vpn);
                if was.pfn() != Some(frame) {
                    continue;
                }
                cx.charge(Cost::RmapMapping, 1);
                if was.is_dirty() || was.is_writable() {
                    let was = ptes.take(vpn);
                    ptes.set(vpn, was.with_dirty(false).with_writable(false));
                    cx.charge(Cost::ClearPte, 1);
                    self.flush_tlb(cx, place.mm, FlushRange::page(vpn));
                    nr_cleaned += 1;
                }
            }
            Flow::Continue(())
        });
        nr_cleaned != 0
    }

    /// Unmaps a folio of a file from every mm that maps it (truncation); it is locked.
    pub(super) fn unmap_folio_everywhere(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, &mut LastWalk::default(), |place, part| {
            cx.charge(Cost::RmapMapping, 1);
            let (start, flags) = (place.vpn, place.flags);
            let has_recency = self.has_recency(flags);
            let mut gather = Gather::new(place.mm);
            self.drain_to_unmap(cx);
            let end = start + part.pages.len() as u32;
            let zap = Zap { start, end, flags, has_recency, only: Some(folio) };
            self.zap_range(cx, &mut gather, &zap);
            self.gather_finish(cx, gather);
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
    }

    /// Replaces every entry of a locked folio of a file by a migration entry of its frame; true if
    /// nothing maps the folio any more.
    pub(super) fn unmap_folio_to_move(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, &mut LastWalk::default(), |place, part| {
            let mut ptes = place.table.lock(cx.cpu());
            for (vpn, frame) in part.entries(place.vpn, folio) {
                if ptes.get(vpn).pfn() != Some(frame) {
                    continue;
                }
                cx.charge(Cost::RmapMapping, 1);
                let was = ptes.take(vpn);
                cx.charge(Cost::ClearPte, 1);
                self.flush_tlb(cx, place.mm, FlushRange::page(vpn));
                if was.is_dirty() {
                    self.set_page_dirty(cx, folio);
                }
                ptes.set(vpn, Pte::moving(frame, was.is_writable(), was.is_young()));
                cx.charge(Cost::SetPte, 1);
                if self.mem.map.unmap_frame::<H>(folio, frame) {
                    self.mem.account(cx.cpu(), folio).of_pages(1).minus(NodeStat::Mapped);
                }
                let was_last = page.put::<H>(1);
                debug_assert!(!was_last, "a folio without its mover's reference");
            }
            if place.flags.contains(VmaFlags::LOCKED) && part.is_whole {
                self.munlock_isolated(cx, folio);
            }
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
        !page.is_mapped()
    }

    /// Maps a migrated folio of a file (or one that stays) again wherever a migration entry of a
    /// frame of `from` waits for it.
    pub(super) fn map_moved_folio(&self, cx: &Cx<'_, H>, from: Folio, folio: Folio) {
        cx.charge(Cost::RmapWalk, 1);
        self.each_part(cx, folio, &mut LastWalk::default(), |place, part| {
            let mut ptes = place.table.lock(cx.cpu());
            let mut nr = 0;
            let frames = part.entries(place.vpn, folio).zip(part.entries(place.vpn, from));
            for ((vpn, frame), (_, was)) in frames {
                let entry = ptes.get(vpn);
                if entry.moving_from() != Some(was) {
                    continue;
                }
                self.mem.map.page(folio).get::<H>(1);
                self.map_file_frame(cx, folio, frame);
                cx.charge(Cost::RmapMapping, 1);
                ptes.set(vpn, entry.moved_to(frame));
                cx.charge(Cost::SetPte, 1);
                nr += 1;
            }
            if nr != 0 && place.flags.contains(VmaFlags::LOCKED) && part.is_whole {
                self.mlock_isolated(cx, folio);
            }
            Flow::Continue(())
        });
        // Faults wait for the lock of the first frame, and for the others' entries.
        from.frames().skip(1).for_each(|frame| self.wake_moved(cx, frame));
    }

    /// An mlock or munlock of a VMA met a page of a folio of a file: true if it is the first one
    /// there, and the VMA maps all of the folio, which is locked as a whole or not at all.
    pub(super) fn is_locked_whole(
        &self,
        (folio, frame): (Folio, Pfn),
        vpn: u32,
        vma: Range<u32>,
    ) -> bool {
        let at = frame.0 - folio.pfn().0;
        let start = vpn.checked_sub(at);
        at == 0
            && start.is_some_and(|start| {
                vma.start <= start && start + folio.nr_pages() as u32 <= vma.end
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::MmId;

    #[test]
    fn ranges_map_parts_of_a_folio() {
        let range = MapRange { mm: MmId(1), start: 1000, end: 1100, file_page: 40 };
        assert_eq!(overlap(&range, 32, 64), Some((1000..1024, 40)));
        assert_eq!(overlap(&range, 64, 96), Some((1024..1056, 64)));
        assert_eq!(overlap(&range, 128, 160), Some((1088..1100, 128)));
        assert_eq!(overlap(&range, 0, 32), None);
        assert_eq!(overlap(&range, 160, 192), None);
        let last = MapRange { start: u32::MAX - 10, end: u32::MAX, file_page: 0, ..range };
        assert_eq!(overlap(&last, 512, 1024), None);
        assert_eq!(overlap(&range, 0, 512), Some((1000..1100, 40)));
    }
}
