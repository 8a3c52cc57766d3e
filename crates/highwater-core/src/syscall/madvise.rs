//! madvise (rules/unmap#madvise).
//!
//! | advice | what it does |
//! |---|---|
//! | Normal, Sequential, Random, HugePage, NoHugePage | changes the flags of areas |
//! | DontNeed | unmaps now; tables stay |
//! | Free | anonymous pages become reclaimable without swap, unless written again |
//! | Cold | young and referenced bits go, active pages become inactive |
//! | PageOut | as Cold, then reclaims them |
//!
//! Flags change with `mmap_lock` held for writing, everything else under it for reading, an area at
//! a time and a gather each.
//!
//! From: the hosts' programs · to: `zap`, `gather`, `lru` batches, `reclaim::folios`.

use alloc::vec::Vec;
use core::ops::Range;

use crate::host::{Cost, Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::BatchKind;
use crate::page::{Folio, PageFlags};
use crate::units::Error;
use crate::vm::{Area, AreaFlags, Backing, Gather, PTES, PageTable, Pte, Rss, Space, Zap};

/// Advice on a range of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Clears SEQUENTIAL and RANDOM.
    Normal,
    /// Read in order: not kept.
    Sequential,
    /// Read at random: no readahead.
    Random,
    /// Unmap; anonymous contents are lost.
    DontNeed,
    /// Contents may be dropped.
    Free,
    /// Not needed soon.
    Cold,
    /// Reclaim now.
    PageOut,
    /// Huge pages.
    HugePage,
    /// No huge pages.
    NoHugePage,
}

/// Flags that an advice sets and clears; none for advice that acts on pages.
const fn flag_change(advice: Advice) -> Option<(AreaFlags, AreaFlags)> {
    let none = AreaFlags::empty();
    let (sequential, random) = (AreaFlags::SEQ_READ, AreaFlags::RAND_READ);
    match advice {
        Advice::Normal => Some((none, sequential.union(random))),
        Advice::Sequential => Some((sequential, random)),
        Advice::Random => Some((random, sequential)),
        Advice::HugePage => Some((AreaFlags::HUGEPAGE, AreaFlags::NOHUGEPAGE)),
        Advice::NoHugePage => Some((AreaFlags::NOHUGEPAGE, AreaFlags::HUGEPAGE)),
        Advice::DontNeed | Advice::Free | Advice::Cold | Advice::PageOut => None,
    }
}

/// May this advice act on an area? Locked memory stays; only anonymous memory can be freed lazily.
fn suits(advice: Advice, flags: AreaFlags, is_anon: bool) -> bool {
    match advice {
        Advice::Free => is_anon && !flags.contains(AreaFlags::LOCKED),
        Advice::DontNeed | Advice::Cold | Advice::PageOut => !flags.contains(AreaFlags::LOCKED),
        _ => true,
    }
}

impl<H: Devices> Kernel<H> {
    /// Applies advice to a range of an address space (`madvise`).
    ///
    /// # Errors
    /// If part of the range is not mapped (the rest got the advice), or at the first area that the
    /// advice does not suit.
    #[doc(alias = "do_madvise")]
    pub fn madvise(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        pages: u32,
        advice: Advice,
    ) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Advise);
        cx.charge(Cost::Syscall, 1);
        let end = start.checked_add(pages).ok_or(Error::Invalid)?;
        self.enter_space(cx, space);
        if let Some((add, remove)) = flag_change(advice) {
            let _guard = space.mmap_lock.write(cx);
            if advice == Advice::HugePage {
                self.khugepaged_enter(cx, space);
            }
            return self.change_area_flags(cx, space, (start, end), add, remove).1;
        }
        let _guard = space.mmap_lock.read(cx);
        let mut next = start;
        let mut result = Ok(());
        while next < end {
            let Some(area) = self.next_area(cx, space, next).filter(|area| area.start < end) else {
                return Err(Error::Fault);
            };
            if area.start > next {
                result = Err(Error::Fault);
            }
            if !suits(advice, area.flags, matches!(area.backing, Backing::Anon)) {
                return Err(Error::Invalid);
            }
            let part = area.start.max(next)..area.end.min(end);
            next = part.end;
            self.advise_area(cx, space, &area, part, advice);
        }
        result
    }

    /// Applies advice to the part of one VMA that lies in the range.
    #[doc(alias = "madvise_vma_behavior")]
    fn advise_area(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        area: &Area<H>,
        part: Range<u32>,
        advice: Advice,
    ) {
        self.lru_add_drain(cx);
        let mut gather = Gather::new(space);
        if advice == Advice::DontNeed {
            let zap = Zap { start: part.start, end: part.end, flags: area.flags, only: None };
            self.zap_range(cx, &mut gather, &zap);
        } else {
            self.advise_tables(cx, &mut gather, part, advice);
        }
        self.gather_finish(cx, gather);
    }

    /// Walks the entries of a range, a table at a time; others may run after each.
    fn advise_tables(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        range: Range<u32>,
        advice: Advice,
    ) {
        let space = gather.space();
        let mut isolated = Vec::new();
        let mut next = range.start;
        while let Some((table, part)) = space.next_table(cx.cpu(), next, range.end) {
            next = part.end;
            if advice == Advice::Free {
                self.free_lazily(cx, gather, &table, part);
            } else {
                let pageout = (advice == Advice::PageOut).then_some(&mut isolated);
                self.cool_down(cx, gather, &table, part, pageout);
                if !isolated.is_empty() {
                    self.reclaim_pages(cx, &isolated);
                    isolated.clear();
                }
            }
            cx.host.yield_now();
        }
    }

    /// Marks the pages that one table's entries map as lazily freed (MADV_FREE).
    #[doc(alias = "madvise_free_pte_range")]
    fn free_lazily(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        table: &PageTable<H>,
        part: Range<u32>,
    ) {
        let space = gather.space();
        let mut ptes = table.lock(cx.cpu());
        self.flush_pending(cx, space);
        for vpn in part {
            let pte = ptes.get(vpn);
            if let Some(slot) = pte.slot() {
                ptes.set(vpn, Pte::NONE);
                Rss::add::<H>(&space.rss.swap, -1);
                self.swap_put(cx, slot);
                continue;
            }
            let Some(folio) = self.mapped_folio(pte) else { continue };
            // The advice is about pages: of a larger folio others may still be needed.
            if folio.is_large() || !self.make_clean_for_free(cx, folio) {
                continue;
            }
            if pte.is_young() || pte.is_dirty() {
                let pte = ptes.take(vpn);
                ptes.set(vpn, pte.with_young(false).with_dirty(false));
                cx.charge(Cost::ClearPte, 1);
                gather.cleared(vpn);
            }
            self.lru_batch(cx, BatchKind::LazyFree, folio);
        }
    }

    /// A page that is about to be freed lazily gives up its copy on swap and its dirty flag; false if
    /// it cannot: somebody else has it locked or maps it.
    fn make_clean_for_free(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if !page.flags().intersects(PageFlags::SWAPCACHE | PageFlags::DIRTY) {
            return true;
        }
        if !self.try_lock_page(folio) {
            return false;
        }
        let is_free = page.mapcount() == 1
            && (!page.is(PageFlags::SWAPCACHE) || self.free_swap_cache(cx, folio, false));
        if is_free {
            page.flag_clear::<H>(PageFlags::DIRTY);
        }
        self.unlock_page(cx, folio);
        is_free
    }

    /// Makes the pages that one table's entries map cold (MADV_COLD); MADV_PAGEOUT isolates them
    /// besides.
    #[doc(alias = "madvise_cold_or_pageout_pte_range")]
    fn cool_down(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        table: &PageTable<H>,
        part: Range<u32>,
        mut pageout: Option<&mut Vec<Folio>>,
    ) {
        let mut ptes = table.lock(cx.cpu());
        self.flush_pending(cx, gather.space());
        let is_whole = part.len() == PTES;
        for vpn in part {
            let Some(folio) = self.mapped_folio(ptes.get(vpn)) else {
                continue;
            };
            let page = self.mem.map.page(folio);
            // What others map too is not this program's to judge.
            if !page.is(PageFlags::LRU) || u64::from(page.mapcount()) != folio.nr_pages() {
                continue;
            }
            // A huge page goes as a whole, once, or not at all: of the rest nothing was said.
            let is_first = vpn.is_multiple_of(PTES as u32);
            if folio.is_large() && !(is_whole && is_first && ptes.leaf().is_some()) {
                continue;
            }
            if ptes.clear_young(vpn) {
                cx.charge(Cost::ClearPte, 1);
                gather.cleared(vpn);
            }
            page.flag_test_clear::<H>(PageFlags::USED);
            match &mut pageout {
                Some(isolated) => {
                    if self.isolate_page(cx, folio) {
                        if page.is(PageFlags::UNEVICTABLE) {
                            self.putback_page(cx, folio);
                        } else {
                            isolated.push(folio);
                        }
                    }
                }
                None => self.lru_batch(cx, BatchKind::Deactivate, folio),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_stays_and_only_anonymous_memory_is_freed_lazily() {
        let (locked, plain) = (AreaFlags::LOCKED, AreaFlags::empty());
        for advice in [Advice::DontNeed, Advice::Cold, Advice::PageOut] {
            assert!(suits(advice, plain, false) && !suits(advice, locked, true), "{advice:?}");
        }
        assert!(suits(Advice::Free, plain, true) && !suits(Advice::Free, plain, false));
        assert!(!suits(Advice::Free, locked, true));
        assert!(suits(Advice::Sequential, locked, false));
    }

    #[test]
    fn sequential_and_random_exclude_each_other() {
        let both = AreaFlags::SEQ_READ | AreaFlags::RAND_READ;
        assert_eq!(flag_change(Advice::Normal), Some((AreaFlags::empty(), both)));
        assert_eq!(flag_change(Advice::Random), Some((AreaFlags::RAND_READ, AreaFlags::SEQ_READ)));
        assert_eq!(flag_change(Advice::DontNeed), None);
    }
}
