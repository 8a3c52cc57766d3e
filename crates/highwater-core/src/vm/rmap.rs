//! Reverse mapping: finds the entries that map a page (rules/rmap#places).
//!
//! A page has its mapping. Anonymous memory is mapped at its index in its mm. If the page has
//! [`PageFlags::FORKED`], it may be mapped at the same index in mms forked from that one
//! ([`super::family`]). A file page is mapped wherever the file's map ranges put its index. Each
//! such [`Place`] is only a candidate: the entry there is checked under the table's lock.
//!
//! | walk | caller | effect on an entry |
//! |---|---|---|
//! | [`Kernel::page_referenced`] | reclaim | clears the young bit ([`super::look_around`]: those around it too); no flush: a stale bit costs one more round |
//! | [`Kernel::try_to_unmap`] | reclaim | clears it, or replaces it by a swap entry; flushes are collected |
//! | [`crate::page_cache::Mappings::clean_mappings`] | writeback | makes it clean and read-only, flushes at once |
//! | [`crate::page_cache::Mappings::unmap_everywhere`] | truncation | unmaps it as munmap would |
//! | [`Kernel::unmap_to_move`], [`Kernel::map_moved`] | migration | replaces it by a migration entry, then by one for the new frame ([`super::moving`]) |
//!
//! Synchronisation: the caller has the page locked, or it is isolated and anonymous. File, mm,
//! VMAs and tables are found under `Table` locks, one step at a time, and kept by reference counts.
//! Reclaim's walks use what they found before as long as it has not changed ([`Changes`]).
//!
//! [`Changes`]: crate::sync::changes::Changes
//!
//! From: `reclaim::folios`, `page_cache::dirty`, `page_cache::truncate` · to: `zap`, `tlb`, `swap`.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ops::ControlFlow;

use super::look_around::Around;
use super::zap::Tally;
use super::{FlushRange, Mm, PTES, PageTable, Pte, Ptes, Rss, VmaFlags};
use crate::host::{Cost, CpuSet, Cx, Devices, Lock, Phase, Probe, TaskLocal};
use crate::kernel::Kernel;
use crate::page::{FileId, Folio, MmId, PageFlags, PageMapping};
use crate::page_cache::{File, MapRange, MapRanges};
use crate::swap::Slot;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;

/// The result of walking a page's mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referenced {
    /// VMAs that used the page since the last walk, and the OR of their flags (LOCKED among them if
    /// the walk stopped there).
    By(u32, VmaFlags),
    /// A lock was contended: nothing is known. The locks of this walk never are (a table's is
    /// waited for, the others are held for single steps), so hosts do not see it.
    Contended,
}

/// Translations that a reclaimer cleared and has not flushed yet (`tlb_ubc`). One flush of
/// everything, on every CPU that may hold one, ends a whole list of pages.
#[doc(alias = "tlbflush_unmap_batch")]
#[derive(Debug)]
pub struct UnmapBatch {
    cpus: Cell<CpuSet>,
    is_pending: Cell<bool>,
    /// An entry was dirty: its page must not be written before the flush.
    has_dirty: Cell<bool>,
}

impl TaskLocal for UnmapBatch {}

impl Default for UnmapBatch {
    fn default() -> Self {
        UnmapBatch {
            cpus: Cell::new(CpuSet::EMPTY),
            is_pending: Cell::new(false),
            has_dirty: Cell::new(false),
        }
    }
}

impl UnmapBatch {
    fn add(&self, cpus: &CpuSet, is_dirty: bool) {
        self.cpus.set(self.cpus.get().union(cpus));
        self.is_pending.set(true);
        self.has_dirty.set(self.has_dirty.get() || is_dirty);
    }

    /// The CPUs to flush, none if there is nothing to do; the batch is empty afterwards.
    fn take(&self, dirty_only: bool) -> Option<CpuSet> {
        let is_due = self.is_pending.get() && (!dirty_only || self.has_dirty.get());
        is_due.then(|| {
            self.is_pending.set(false);
            self.has_dirty.set(false);
            self.cpus.replace(CpuSet::EMPTY)
        })
    }
}

/// The state that reclaim's walks for the pages of a batch share.
pub(crate) struct Trail<H: Devices> {
    pub(super) last: LastWalk<H>,
    /// Only uses by tasks of this memory cgroup and below count; the root: all do.
    pub(super) group: GroupId,
    /// MGLRU: reference checks look around each young entry, and leave here what they find.
    pub(crate) around: Option<Box<Around>>,
}

/// The objects of the last walk. Neighbours on a list mostly belong to the same mm and file, so
/// keeping these saves a search and two atomic counts each. They may be removed meanwhile; then they
/// map nothing any more.
pub(super) struct LastWalk<H: Devices> {
    file: Option<Arc<File<H>>>,
    /// The only range of `file` that is mapped, and [`File::mapping_changes`] when it was found.
    sole: Option<(u64, MapRange)>,
    step: Step<H>,
}

/// Mm and table; and the part of a VMA that the table covers, for as long as the mm does not
/// change.
struct Step<H: Devices> {
    mm: Option<Arc<Mm<H>>>,
    table: Option<Arc<PageTable<H>>>,
    /// [`MmTables::changes`] when `pages` and `flags` were found.
    ///
    /// [`MmTables::changes`]: super::MmTables::changes
    changes: u64,
    /// Pages for which `table` has entries and whose VMA has `flags`; empty if unknown.
    pages: (u32, u32),
    flags: VmaFlags,
}

impl<H: Devices> Default for Trail<H> {
    fn default() -> Self {
        Trail { last: LastWalk::default(), group: GroupId::ROOT, around: None }
    }
}

impl<H: Devices> Default for LastWalk<H> {
    fn default() -> Self {
        let (changes, pages, flags) = (0, (0, 0), VmaFlags::empty());
        let step = Step { mm: None, table: None, changes, pages, flags };
        LastWalk { file: None, sole: None, step }
    }
}

impl<H: Devices> Trail<H> {
    /// Reclaim for a group's limit counts only its tasks' uses of a page
    /// (rules/memory-cgroups#reclaim).
    pub(crate) fn set_group(&mut self, group: GroupId) {
        self.group = group;
    }

    /// A file by number.
    #[inline(always)]
    pub(crate) fn file(
        &mut self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        id: FileId,
    ) -> Option<&Arc<File<H>>> {
        self.last.file(kernel, cx, id)
    }
}

impl<H: Devices> LastWalk<H> {
    /// A file by number.
    #[inline(always)]
    pub(super) fn file(
        &mut self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        id: FileId,
    ) -> Option<&Arc<File<H>>> {
        if self.file.as_ref().is_none_or(|file| file.id != id) {
            self.file = kernel.file(cx, id);
            self.sole = None;
        }
        self.file.as_ref()
    }
}

/// Where a page may be mapped.
pub(super) struct Place<'a, H: Devices> {
    pub mm: &'a Mm<H>,
    pub table: &'a PageTable<H>,
    pub vpn: u32,
    /// Flags of the VMA; none if munmap has taken it out and is about to clear the entry.
    pub flags: VmaFlags,
    /// First and end of the pages for which the table has entries of the same VMA; empty if there
    /// is no VMA.
    pub pages: (u32, u32),
}

pub(super) type Flow = ControlFlow<()>;

/// Map ranges of a file that are looked at per hold of their lock.
const RANGES: usize = 8;

impl<H: Devices> Kernel<H> {
    /// Calls `visit` for every page table that may map a page, until it breaks. No lock is held.
    #[doc(alias = "rmap_walk")]
    #[inline]
    pub(super) fn each_place(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        last: &mut LastWalk<H>,
        mut visit: impl FnMut(&Place<'_, H>) -> Flow,
    ) {
        let page = self.mem.map.page(folio);
        let index = page.index();
        match page.mapping() {
            PageMapping::None => {}
            PageMapping::Anon(mm) => {
                let flow = self.visit_place(cx, mm, index, &mut last.step, &mut visit);
                if flow.is_continue() && page.is(PageFlags::FORKED) {
                    self.visit_descendants(cx, mm, index, &mut last.step, &mut visit);
                }
            }
            PageMapping::File(id) => {
                last.file(self, cx, id);
                let LastWalk { file: Some(file), sole, step } = last else { return };
                let range = match *sole {
                    Some((changes, range)) if changes == file.mapping_changes.get() => range,
                    _ => {
                        let mappings = file.mappings.lock(cx.cpu());
                        if let [range] = mappings.all() {
                            *sole = Some((mappings.changes().get(), *range));
                        }
                        let all = mappings.all().iter();
                        let mut hits = all.filter(|range| range.vpn_of(index).is_some());
                        let Some(&first) = hits.next() else { return };
                        if hits.next().is_some() {
                            return self.visit_ranges(cx, file, mappings, index, step, &mut visit);
                        }
                        first
                    }
                };
                let Some(vpn) = range.vpn_of(index) else { return };
                let _ = self.visit_place(cx, range.mm, vpn, step, &mut visit);
            }
        }
    }

    /// Visits one place of a walk over several that the caller knows.
    pub(super) fn visit_at(
        &self,
        cx: &Cx<'_, H>,
        mm: MmId,
        vpn: u32,
        last: &mut LastWalk<H>,
        mut visit: impl FnMut(&Place<'_, H>) -> Flow,
    ) -> Flow {
        self.visit_place_again(cx, mm, vpn, &mut last.step, &mut visit)
    }

    /// Visits the VMAs of a file that map a page, in their order, a few for each hold of their
    /// lock.
    #[doc(alias = "rmap_walk_file")]
    #[inline(never)]
    fn visit_ranges<'f>(
        &self,
        cx: &Cx<'_, H>,
        file: &'f File<H>,
        mut mappings: <H::Lock<MapRanges> as Lock<MapRanges>>::Guard<'f>,
        index: u32,
        step: &mut Step<H>,
        visit: &mut impl FnMut(&Place<'_, H>) -> Flow,
    ) {
        let mut after = None;
        loop {
            let mut found = [MapRange::NONE; RANGES];
            let ranges = mappings.after(after.as_ref()).iter();
            let hits = ranges.filter(|range| range.vpn_of(index).is_some());
            let n = found.iter_mut().zip(hits).map(|(slot, range)| *slot = *range).count();
            drop(mappings);
            for range in &found[..n] {
                let Some(vpn) = range.vpn_of(index) else { continue };
                if self.visit_place_again(cx, range.mm, vpn, step, visit).is_break() {
                    return;
                }
            }
            if n < RANGES {
                return;
            }
            after = Some(found[RANGES - 1]);
            mappings = file.mappings.lock(cx.cpu());
        }
    }

    /// Visits an anonymous page's places in the address spaces that forked from its own. The
    /// oldest comes first: a fork meanwhile copies an entry to an mm that is looked at later.
    #[doc(alias = "rmap_walk_anon")]
    #[cold]
    fn visit_descendants(
        &self,
        cx: &Cx<'_, H>,
        owner: MmId,
        vpn: u32,
        step: &mut Step<H>,
        visit: &mut impl FnMut(&Place<'_, H>) -> Flow,
    ) {
        let mut after = owner;
        loop {
            let mut found = [owner; RANGES];
            let n = self.families.lock(cx.cpu()).next_descendants(owner, after, &mut found);
            for &mm in &found[..n] {
                if self.visit_place_again(cx, mm, vpn, step, visit).is_break() {
                    return;
                }
            }
            if n < RANGES {
                return;
            }
            after = found[RANGES - 1];
        }
    }

    /// As [`Kernel::visit_place`], for pages with several places.
    #[inline(never)]
    fn visit_place_again(
        &self,
        cx: &Cx<'_, H>,
        id: MmId,
        vpn: u32,
        step: &mut Step<H>,
        visit: &mut impl FnMut(&Place<'_, H>) -> Flow,
    ) -> Flow {
        self.visit_place(cx, id, vpn, step, visit)
    }

    /// Finds the page table and the VMA flags at an address of an address space, and visits them.
    #[doc(alias = "page_vma_mapped_walk")]
    #[inline(always)]
    fn visit_place(
        &self,
        cx: &Cx<'_, H>,
        id: MmId,
        vpn: u32,
        step: &mut Step<H>,
        visit: &mut impl FnMut(&Place<'_, H>) -> Flow,
    ) -> Flow {
        if step.mm.as_ref().is_none_or(|mm| mm.id != id) {
            step.mm = self.mm(cx, id);
            step.pages = (0, 0);
        }
        let Some(mm) = &step.mm else { return Flow::Continue(()) };
        let (first, end) = step.pages;
        if vpn < first || end <= vpn || step.changes != mm.table_changes.get() {
            let tables = mm.tables.lock(cx.cpu());
            let Some(table) = tables.table(vpn) else { return Flow::Continue(()) };
            if step.table.as_ref().is_none_or(|last| !Arc::ptr_eq(last, table)) {
                step.table = Some(Arc::clone(table));
            }
            let vma = tables.vma(vpn);
            step.changes = tables.changes().get();
            step.pages = vma.map_or((0, 0), |vma| {
                let (first, last) = (vpn & !(PTES as u32 - 1), vpn | (PTES as u32 - 1));
                (vma.start.max(first), vma.end.min(last + 1))
            });
            step.flags = vma.map_or(VmaFlags::empty(), |vma| self.flags_of_walk(vma));
        }
        let flags = step.flags;
        let Some(table) = &step.table else { return Flow::Continue(()) };
        visit(&Place { mm, table, vpn, flags, pages: step.pages })
    }

    /// Clears the young bit of every entry that maps a page and reports the uses
    /// (rules/page-decisions#reference-walk). If a VMA is mlocked, the page is mlocked and the walk
    /// stops.
    ///
    /// Linux: same name.
    #[doc(alias = "folio_referenced")]
    #[inline]
    pub(crate) fn page_referenced(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        trail: &mut Trail<H>,
    ) -> Referenced {
        match self.mem.map.page(folio).mapcount() {
            0 => Referenced::By(0, VmaFlags::empty()),
            mappings => self.mapped_page_referenced(cx, folio, mappings, trail),
        }
    }

    /// Does that for a page that is mapped: walks its places and counts the entries that were used.
    #[doc(alias = "folio_referenced_one")]
    #[doc(alias = "page_referenced_one")]
    #[inline(never)]
    fn mapped_page_referenced(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        mut left: u32,
        trail: &mut Trail<H>,
    ) -> Referenced {
        if folio.is_large() && !self.mem.map.page(folio).is_anon() {
            return self.folio_of_file_referenced(cx, folio, trail);
        }
        let (mut users, mut flags) = (0, VmaFlags::empty());
        let over = self.passed_over(trail.group);
        let passes_over_any = over.is_any();
        let Trail { last, around, .. } = trail;
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, last, |place| {
            if passes_over_any && self.passes_over(over, place) {
                return Flow::Continue(());
            }
            let mut ptes = place.table.lock(cx.cpu());
            if folio.is_large() {
                return self.large_referenced(
                    cx,
                    folio,
                    place,
                    &mut ptes,
                    (&mut users, &mut flags),
                    around,
                );
            }
            if !ptes.maps(place.vpn, folio) {
                return Flow::Continue(());
            }
            cx.charge(Cost::RmapMapping, 1);
            if place.flags.contains(VmaFlags::LOCKED) {
                // Under the table's lock: munlock cannot come in between.
                self.mlock_page(cx, folio);
                flags |= VmaFlags::LOCKED;
                return Flow::Break(());
            }
            // Sequential readers do not come back.
            let was_used = self.clear_young_around(cx, place, &mut ptes, place.vpn, around);
            if was_used && !place.flags.contains(VmaFlags::SEQ_READ) {
                users += 1;
                flags |= place.flags;
            }
            left -= 1;
            if left == 0 { Flow::Break(()) } else { Flow::Continue(()) }
        });
        Referenced::By(users, flags)
    }

    /// Unmaps a locked page everywhere for reclaim; true if nothing maps it any more. Flushes are
    /// collected until [`Kernel::flush_unmapped`].
    ///
    /// Linux: same name.
    pub(crate) fn try_to_unmap(&self, cx: &Cx<'_, H>, folio: Folio, trail: &mut Trail<H>) -> bool {
        let _phase = cx.phase(Phase::Unmap);
        let page = self.mem.map.page(folio);
        if folio.is_large() && !page.is_anon() {
            return self.unmap_folio_of_file(cx, folio, trail);
        }
        cx.charge(Cost::RmapWalk, 1);
        self.each_place(cx, folio, &mut trail.last, |place| {
            let mut ptes = place.table.lock(cx.cpu());
            if folio.is_large() {
                return self.unmap_large(cx, folio, place, &mut ptes);
            }
            if !ptes.maps(place.vpn, folio) {
                return Flow::Continue(());
            }
            cx.charge(Cost::RmapMapping, 1);
            if place.flags.contains(VmaFlags::LOCKED) {
                self.mlock_page(cx, folio);
                return Flow::Break(());
            }
            let was = ptes.take(place.vpn);
            cx.charge(Cost::ClearPte, 1);
            self.flush_later(cx, place, was.is_dirty());
            let slot = || self.slot_of(folio);
            let Some(new) = self.entry_after_unmap(cx, folio, slot, was) else {
                ptes.set(place.vpn, was);
                return Flow::Break(());
            };
            if !new.is_none() {
                ptes.set(place.vpn, new);
                cx.charge(Cost::SetPte, 1);
                Rss::add::<H>(&place.mm.rss.swap, 1);
            }
            let mut tally = Tally::default();
            tally.unmapped(self, cx.cpu(), folio, 1, page.is_anon());
            tally.flush(self, cx.cpu(), place.mm);
            let was_last = page.put::<H>(1);
            debug_assert!(!was_last, "a page without its reclaimer's reference");
            if page.is_mapped() { Flow::Continue(()) } else { Flow::Break(()) }
        });
        !page.is_mapped()
    }

    /// One place of a large folio: a VMA that used any part of it counts as one user.
    fn large_referenced(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        place: &Place<'_, H>,
        ptes: &mut Ptes<'_, H>,
        (users, flags): (&mut u32, &mut VmaFlags),
        around: &mut Option<Box<Around>>,
    ) -> Flow {
        let is_leaf = ptes.leaf().is_some();
        if is_leaf && ptes.maps(place.vpn, folio) && place.flags.contains(VmaFlags::LOCKED) {
            self.mlock_page(cx, folio);
            *flags |= VmaFlags::LOCKED;
            return Flow::Break(());
        }
        let mut was_used = false;
        let entries = if is_leaf { 1 } else { folio.nr_pages() as u32 };
        for (vpn, frame) in (place.vpn..).zip(folio.frames()).take(entries as usize) {
            if ptes.get(vpn).pfn() == Some(frame) {
                cx.charge(Cost::RmapMapping, 1);
                was_used |= self.clear_young_around(cx, place, ptes, vpn, around);
            }
        }
        if was_used && !place.flags.contains(VmaFlags::SEQ_READ) {
            *users += 1;
            *flags |= place.flags;
        }
        Flow::Continue(())
    }

    /// Unmaps a table's part of a large folio: splits its leaf first, then replaces each entry by a
    /// swap entry.
    fn unmap_large(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        place: &Place<'_, H>,
        ptes: &mut Ptes<'_, H>,
    ) -> Flow {
        let page = self.mem.map.page(folio);
        let is_leaf = ptes.maps(place.vpn, folio) && ptes.leaf().is_some();
        if is_leaf && place.flags.contains(VmaFlags::LOCKED) {
            self.mlock_page(cx, folio);
            return Flow::Break(());
        }
        if is_leaf {
            self.split_leaf(cx, place.mm, ptes, place.vpn, place.flags);
        }
        let (mut tally, mut nr_swapped, mut is_stuck) = (Tally::default(), 0, false);
        for (vpn, frame) in (place.vpn..).zip(folio.frames()) {
            if ptes.get(vpn).pfn() != Some(frame) {
                continue;
            }
            cx.charge(Cost::RmapMapping, 1);
            let was = ptes.take(vpn);
            cx.charge(Cost::ClearPte, 1);
            self.flush_later(cx, &Place { vpn, ..*place }, was.is_dirty());
            let slot = || self.slot_of(Folio::page(frame));
            let Some(new) = self.entry_after_unmap(cx, folio, slot, was) else {
                ptes.set(vpn, was);
                is_stuck = true;
                break;
            };
            if !new.is_none() {
                ptes.set(vpn, new);
                cx.charge(Cost::SetPte, 1);
                nr_swapped += 1;
            }
            tally.unmapped(self, cx.cpu(), folio, 1, true);
            let was_last = page.put::<H>(1);
            debug_assert!(!was_last, "a page without its reclaimer's reference");
        }
        Rss::add::<H>(&place.mm.rss.swap, nr_swapped);
        tally.flush(self, cx.cpu(), place.mm);
        if is_stuck { Flow::Break(()) } else { Flow::Continue(()) }
    }

    /// Returns the entry that replaces one that mapped a page; `None`: the page must stay mapped.
    /// `slot`: where the page is in swap. A dirty entry makes its page dirty in any case.
    ///
    /// Linux: one function walks to the entry and replaces it; here only the new entry is chosen.
    /// The walk is `Kernel::visit_place`, the rest is in `Kernel::try_to_unmap` and
    /// `Kernel::unmap_large`.
    #[doc(alias = "try_to_unmap_one")]
    fn entry_after_unmap(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        slot: impl FnOnce() -> Option<Slot>,
        was: Pte,
    ) -> Option<Pte> {
        let page = self.mem.map.page(folio);
        if !page.is_anon() {
            if was.is_dirty() {
                self.set_page_dirty(cx, folio);
            }
            return Some(Pte::NONE);
        }
        if was.is_dirty() {
            page.flag_set::<H>(PageFlags::DIRTY);
        }
        if page.is(PageFlags::SWAPBACKED) {
            let slot = slot()?;
            self.swap_dup(cx, slot);
            return Some(Pte::swap(slot).with_shared_swap(page.is(PageFlags::FORKED)));
        }
        // Lazily freed: it is dropped if it was not written since and has no other user.
        if !page.is(PageFlags::DIRTY) && page.refcount() == 1 + page.mapcount() {
            return Some(Pte::NONE);
        }
        page.flag_set::<H>(PageFlags::SWAPBACKED);
        None
    }

    /// Defers the TLB flush of an entry that reclaim cleared: other CPUs are flushed later, all at
    /// once. This CPU's own translation is cheaper to drop now.
    #[doc(alias = "set_tlb_ubc_flush_pending")]
    pub(super) fn flush_later(&self, cx: &Cx<'_, H>, place: &Place<'_, H>, is_dirty: bool) {
        let cpus = place.mm.cpus.load();
        if cpus.without(cx.cpu()).is_empty() {
            self.flush_tlb(cx, place.mm, FlushRange::page(place.vpn));
        } else {
            cx.local::<UnmapBatch>().add(&cpus, is_dirty);
            place.mm.flush_pending.store(true, Relaxed);
        }
    }

    /// Flushes what [`Kernel::try_to_unmap`] left to flush; `dirty_only` = only if a dirty entry
    /// was among it.
    #[doc(alias = "try_to_unmap_flush")]
    #[doc(alias = "try_to_unmap_flush_dirty")]
    #[inline]
    pub(crate) fn flush_unmapped(&self, cx: &Cx<'_, H>, dirty_only: bool) {
        if let Some(cpus) = cx.local::<UnmapBatch>().take(dirty_only) {
            self.flush_tlb_cpus(cx, &cpus);
        }
    }
}
