//! Aging of an address space: the walk over its page tables (rules/mglru#walk).
//!
//! MGLRU ages a lruvec by a walk over the mms whose tasks ran ([`super::mm_list`]). The walk
//! reports the folio of each young entry to its caller, which moves it to the youngest generation.
//! A look at an entry costs an eighth of a sequential cache line; the way from a folio to its entry
//! costs several random lines. So the walk is worth its cost where at least about one entry in 8 is
//! young, and it remembers such *dense* tables.
//!
//! ```text
//! age_mm        mmap_lock by trylock; drops it at the end of a GiB if it must pause
//!   next_regions    VMAs that may hold pages to age, a table (2 MiB) at a time
//!   age_table       skipped if unused, or if the caller's filter does not hold it
//!     age_entries   table lock by trylock; clears young bits; reports folios
//! ```
//!
//! Key types: [`AgingScope`] (the pages to look for), [`AgingVisitor`] (the caller's side),
//! [`AgingCounts`] (the result).
//!
//! Synchronisation: `mmap_lock` for reading keeps the VMAs. Both locks are tried only: a task that
//! reclaims may hold others. Young bits are cleared without a flush: a stale translation costs one
//! more round.
//!
//! From: `reclaim` · to: [`super::page_table`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::tables::{PMD_SHIFT, TABLE_SHIFT};
use super::{Backing, Mm, PTES, PageTable, Pte, Vma, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, MmId, PageFlags};
use crate::units::{GroupId, NodeId};

/// Entries in a cache line of Linux's tables, of 8 bytes each: the unit of the walk's cost.
const LINE: u32 = 8;

/// The pages that an aging is about: those of one lruvec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagesToAge {
    /// Their node.
    pub(crate) node: NodeId,
    /// Anonymous pages too: they can be swapped.
    pub(crate) with_anon: bool,
    /// Their memory cgroup; none: any.
    pub(crate) group: Option<GroupId>,
}

/// The pages that a walk looks for, and the tables that it may skip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgingScope {
    /// The pages.
    pub(crate) of: PagesToAge,
    /// The mm is new to this list: the filter does not apply.
    pub(crate) forced: bool,
    /// Tables with a clear accessed bit in the entry above are skipped (bit 0x4; in 6.12 not if
    /// the walk is forced).
    pub(crate) skips_unused_tables: bool,
    /// A table whose lock is taken counts as dense (7.2).
    pub(crate) contended_is_dense: bool,
}

/// The caller's side of a walk.
///
/// A table's key is the number of its mm in the upper half, and the first page of its 2 MiB over
/// 512 in the lower.
pub(crate) trait AgingVisitor<H: Devices> {
    /// The filter: true if the table is worth a look. Not asked in forced walks. No lock of a table
    /// is held.
    fn wants_table(&mut self, key: u64) -> bool;

    /// The table is dense: the next walk should look at it. Under the table's lock, or none if
    /// that was taken.
    fn dense_table(&mut self, key: u64);

    /// A young entry maps a page of this folio; its bit is cleared by now. A folio of several pages
    /// may come several times. Under the table's lock: changes to lists and sizes should be batched
    /// until [`AgingVisitor::paused`].
    fn used(&mut self, cx: &Cx<'_, H>, folio: Folio);

    /// Asked after each GiB: true if the walk must pause, because the caller has batched as many
    /// changes as it may.
    fn is_full(&self) -> bool;

    /// Asked after each GiB: true if the rest of the mm is to be left out, because another task
    /// waits for the end of the aging.
    fn gives_up(&self) -> bool;

    /// The walk pauses or has ended, and holds no lock: batched changes may be applied.
    fn paused(&mut self, cx: &Cx<'_, H>);
}

/// Counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgingCounts {
    /// Entries looked at; a leaf is one.
    pub(crate) entries: u64,
    /// Young entries of pages to age, now cleared.
    pub(crate) young: u64,
    /// Tables whose entries were looked at.
    pub(crate) tables: u64,
    /// Tables looked at that were dense.
    pub(crate) dense: u64,
    /// Tables skipped because no access went through them.
    pub(crate) unused: u64,
    /// Tables skipped because the filter did not hold them.
    pub(crate) unwanted: u64,
    /// Tables, or leaves, skipped because their lock was taken.
    pub(crate) contended: u64,
    /// Times that the walk had to give up `mmap_lock`.
    pub(crate) pauses: u64,
    /// `mmap_lock` was not free: the walk ended there.
    pub(crate) was_locked_out: bool,
}

/// The key of the table around a virtual page.
pub(super) const fn table_key(mm: MmId, vpn: u32) -> u64 {
    (mm.0 as u64) << u32::BITS | (vpn >> TABLE_SHIFT) as u64
}

/// At least one young entry a cache line, on average.
#[doc(alias = "suitable_to_scan")]
pub(super) const fn is_dense(nr_young: u32, nr_seen: u32) -> bool {
    nr_young * LINE >= nr_seen
}

/// Charges a look at entries in order. Each line of them costs as a frame's descriptor in a scan of
/// compaction: a sequential line and a few tests. A young entry is cleared, and its folio's flags
/// change.
pub(super) fn charge_look<H: Devices>(cx: &Cx<'_, H>, nr_seen: u32, nr_young: u32) {
    cx.charge(Cost::CompactScan, nr_seen.div_ceil(LINE));
    cx.charge(Cost::ClearPte, nr_young);
    cx.charge(Cost::MarkReferenced, nr_young);
}

/// The walk of one mm.
struct AgingWalk<'a, V> {
    scope: &'a AgingScope,
    visitor: &'a mut V,
    counts: AgingCounts,
    /// Ranges of the current table that belong to VMAs to walk.
    regions: Vec<Range<u32>>,
}

impl<H: Devices> Kernel<H> {
    /// Walks the page tables of an mm: clears the young bits of pages to age and reports their
    /// folios.
    #[doc(alias = "walk_mm")]
    pub(crate) fn age_mm(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        scope: &AgingScope,
        visitor: &mut impl AgingVisitor<H>,
    ) -> AgingCounts {
        let counts = AgingCounts::default();
        let mut walk = AgingWalk { scope, visitor, counts, regions: Vec::new() };
        let mut next = Some(0);
        while let Some(from) = next {
            let Some(guard) = mm.mmap_lock.try_read(cx) else {
                walk.counts.was_locked_out = true;
                break;
            };
            next = self.age_from(cx, mm, from, &mut walk);
            drop(guard);
            walk.visitor.paused(cx);
            if next.is_some() {
                walk.counts.pauses += 1;
                cx.host.yield_now();
            }
        }
        walk.counts
    }

    /// Walks the tables from page `from` on, with `mmap_lock` held; returns the page at which to
    /// continue after a pause, none if the walk is over.
    #[doc(alias = "walk_page_range")]
    #[doc(alias = "walk_pud_range")]
    fn age_from<V: AgingVisitor<H>>(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        from: u32,
        walk: &mut AgingWalk<'_, V>,
    ) -> Option<u32> {
        let (mut next, mut last_gib) = (from, None);
        while let Some((first, table)) = self.next_regions(cx, mm, next, walk) {
            let gib = first >> PMD_SHIFT;
            if last_gib.replace(gib).is_some_and(|last| last != gib) {
                if walk.visitor.gives_up() {
                    return None;
                }
                if cx.host.needs_resched() || walk.visitor.is_full() {
                    return Some(first);
                }
            }
            self.age_table(cx, mm, first, &table, walk);
            next = first + PTES as u32;
        }
        None
    }

    /// Finds the first table, at or after page `from`, that covers a part of a VMA to walk. Notes
    /// all such parts in `walk.regions`.
    #[doc(alias = "get_next_vma")]
    fn next_regions<V>(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        mut from: u32,
        walk: &mut AgingWalk<'_, V>,
    ) -> Option<(u32, Arc<PageTable<H>>)> {
        let tables = mm.tables.lock(cx.cpu());
        let with_anon = walk.scope.of.with_anon;
        let is_walked = |vma: &&Arc<Vma<H>>| !self.skips_vma(vma, with_anon);
        loop {
            let vma = tables.vmas_in(from, Mm::<H>::TOP).find(is_walked)?;
            let (first, table) = tables.next_table(vma.start.max(from), Mm::<H>::TOP)?;
            if vma.end <= first {
                from = first;
                continue;
            }
            let end = first + PTES as u32;
            let part = |vma: &Arc<Vma<H>>| vma.start.max(first)..vma.end.min(end);
            walk.regions.clear();
            walk.regions.extend(tables.vmas_in(first, end).filter(is_walked).map(part));
            return Some((first, Arc::clone(table)));
        }
    }

    /// True if a walk leaves a VMA out: programs cannot use it, its pages cannot be reclaimed, or
    /// their uses say nothing about uses to come.
    #[doc(alias = "should_skip_vma")]
    fn skips_vma(&self, vma: &Vma<H>, with_anon: bool) -> bool {
        let no_recency = VmaFlags::SEQ_READ | VmaFlags::RAND_READ;
        let is_swapped = match &vma.backing {
            Backing::Anon => true,
            Backing::File { open, .. } => open.file.is_memory(),
        };
        !vma.allows(false)
            || vma.flags.intersects(VmaFlags::LOCKED | no_recency)
            || !self.has_recency(self.flags_of_walk(vma))
            || (is_swapped && !with_anon)
    }

    /// Ages one table, or the leaf in its place.
    #[doc(alias = "walk_pmd_range")]
    fn age_table<V: AgingVisitor<H>>(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        first: u32,
        table: &PageTable<H>,
        walk: &mut AgingWalk<'_, V>,
    ) {
        if table.is_bare() {
            return;
        }
        if table.peek_leaf().is_some() {
            return self.age_leaf(cx, first, table, walk);
        }
        if walk.scope.skips_unused_tables && !table.is_used() {
            walk.counts.unused += 1;
            return;
        }
        let key = table_key(mm.id, first);
        // A table that the filter does not hold keeps its accessed bit: see `super::page_table`.
        if !walk.scope.forced && !walk.visitor.wants_table(key) {
            walk.counts.unwanted += 1;
            return;
        }
        self.age_entries(cx, key, table, walk);
    }

    /// Ages a huge page that a leaf maps.
    #[doc(alias = "walk_pmd_range_locked")]
    fn age_leaf<V: AgingVisitor<H>>(
        &self,
        cx: &Cx<'_, H>,
        first: u32,
        table: &PageTable<H>,
        walk: &mut AgingWalk<'_, V>,
    ) {
        let Some(mut ptes) = table.try_lock(cx.cpu()) else {
            walk.counts.contended += 1;
            return;
        };
        // It may have been split or unmapped meanwhile; then its pages wait for the next walk.
        let Some(leaf) = ptes.leaf() else { return };
        walk.counts.entries += 1;
        let folio = self.folio_to_age(leaf, &walk.scope.of);
        if let Some(folio) = folio {
            ptes.clear_young(first);
            self.dirty_to_folio(cx, folio, leaf);
            walk.counts.young += 1;
            walk.visitor.used(cx, folio);
        }
        charge_look(cx, 1, u32::from(folio.is_some()));
    }

    /// Ages the entries of a table that belong to VMAs to walk.
    #[doc(alias = "walk_pte_range")]
    fn age_entries<V: AgingVisitor<H>>(
        &self,
        cx: &Cx<'_, H>,
        key: u64,
        table: &PageTable<H>,
        walk: &mut AgingWalk<'_, V>,
    ) {
        let Some(mut ptes) = table.try_lock(cx.cpu()) else {
            walk.counts.contended += 1;
            if walk.scope.contended_is_dense {
                walk.visitor.dense_table(key);
            }
            return;
        };
        if ptes.leaf().is_some() {
            return;
        }
        let (mut nr_seen, mut nr_young, mut all_old) = (0, 0, true);
        ptes.take_use();
        for vpn in walk.regions.iter().cloned().flatten() {
            nr_seen += 1;
            let pte = ptes.get(vpn);
            if !pte.is_young() {
                continue;
            }
            let Some(folio) = self.folio_to_age(pte, &walk.scope.of) else {
                all_old = false;
                continue;
            };
            ptes.clear_young(vpn);
            nr_young += 1;
            self.dirty_to_folio(cx, folio, pte);
            walk.visitor.used(cx, folio);
        }
        ptes.settle_use(all_old && nr_seen == PTES as u32);
        charge_look(cx, nr_seen, nr_young);
        walk.counts.tables += 1;
        walk.counts.entries += u64::from(nr_seen);
        walk.counts.young += u64::from(nr_young);
        if is_dense(nr_young, nr_seen) {
            walk.counts.dense += 1;
            walk.visitor.dense_table(key);
        }
    }

    /// The folio of a young entry, if it is one of the pages to age.
    #[doc(alias = "get_pfn_folio")]
    pub(super) fn folio_to_age(&self, pte: Pte, of: &PagesToAge) -> Option<Folio> {
        if !pte.is_young() {
            return None;
        }
        let folio = self.mapped_folio(pte)?;
        let page = self.mem.map.page(folio);
        let is_of_group = |group: GroupId| self.lru.group_of(self.lruvec_of(page)) == group;
        let counts = page.node() == of.node
            && (of.with_anon || page.is_file_lru())
            && of.group.is_none_or(is_of_group);
        counts.then_some(folio)
    }

    /// An entry's dirty bit goes to its folio too; the entry keeps it. Anonymous memory outside the
    /// swap cache is written in any case and needs no flag.
    pub(super) fn dirty_to_folio(&self, cx: &Cx<'_, H>, folio: Folio, pte: Pte) {
        let page = self.mem.map.page(folio);
        if !pte.is_dirty() || page.is(PageFlags::DIRTY) {
            return;
        }
        if !page.is_anon() {
            self.set_page_dirty(cx, folio);
        } else if page.is(PageFlags::SWAPCACHE) || !page.is(PageFlags::SWAPBACKED) {
            page.flag_set::<H>(PageFlags::DIRTY);
        }
    }
}
