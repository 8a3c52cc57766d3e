//! madvise (rules/unmap#madvise).
//!
//! | advice | effect |
//! |---|---|
//! | Normal, Sequential, Random, HugePage, NoHugePage | changes the flags of VMAs |
//! | DontNeed | unmaps now; tables stay |
//! | Free | anonymous pages become reclaimable without swap, unless written again |
//! | Cold | young and referenced bits go, active pages become inactive |
//! | PageOut | as Cold, then reclaims them |
//!
//! Flags change with `mmap_lock` held for writing, everything else with it held for reading, one
//! VMA and one gather at a time.
//!
//! From: the hosts' programs · to: `zap`, `gather`, `lru` batches, `reclaim::folios`.

use alloc::vec::Vec;
use core::ops::Range;

use crate::host::{Cost, Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::BatchKind;
use crate::page::{Folio, PageFlags};
use crate::units::Error;
use crate::vm::{Backing, Gather, Mm, PTES, PageTable, Pte, Rss, Vma, VmaFlags};

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
const fn flag_change(advice: Advice) -> Option<(VmaFlags, VmaFlags)> {
    let none = VmaFlags::empty();
    let (sequential, random) = (VmaFlags::SEQ_READ, VmaFlags::RAND_READ);
    match advice {
        Advice::Normal => Some((none, sequential.union(random))),
        Advice::Sequential => Some((sequential, random)),
        Advice::Random => Some((random, sequential)),
        Advice::HugePage => Some((VmaFlags::HUGEPAGE, VmaFlags::NOHUGEPAGE)),
        Advice::NoHugePage => Some((VmaFlags::NOHUGEPAGE, VmaFlags::HUGEPAGE)),
        Advice::DontNeed | Advice::Free | Advice::Cold | Advice::PageOut => None,
    }
}

/// May this advice act on a VMA? Locked memory stays; only anonymous memory can be freed lazily.
fn suits(advice: Advice, flags: VmaFlags, is_anon: bool) -> bool {
    match advice {
        Advice::Free => is_anon && !flags.contains(VmaFlags::LOCKED),
        Advice::DontNeed | Advice::Cold | Advice::PageOut => !flags.contains(VmaFlags::LOCKED),
        _ => true,
    }
}

impl<H: Devices> Kernel<H> {
    /// Applies advice to a range of an address space (`madvise`).
    ///
    /// # Errors
    /// If part of the range is not mapped (the rest got the advice), or at the first VMA that the
    /// advice does not suit.
    #[doc(alias = "do_madvise")]
    pub fn madvise(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        pages: u32,
        advice: Advice,
    ) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Advise);
        cx.charge(Cost::Syscall, 1);
        let end = start.checked_add(pages).ok_or(Error::Invalid)?;
        self.enter_mm(cx, mm);
        if let Some((add, remove)) = flag_change(advice) {
            let _guard = mm.mmap_lock.write(cx);
            if advice == Advice::HugePage {
                self.khugepaged_enter(cx, mm);
            }
            return self.change_vma_flags(cx, mm, (start, end), add, remove).1;
        }
        let _guard = mm.mmap_lock.read(cx);
        let mut next = start;
        let mut result = Ok(());
        while next < end {
            let Some(vma) = self.next_vma(cx, mm, next).filter(|vma| vma.start < end) else {
                return Err(Error::Fault);
            };
            if vma.start > next {
                result = Err(Error::Fault);
            }
            if !suits(advice, vma.flags, matches!(vma.backing, Backing::Anon)) {
                return Err(Error::Invalid);
            }
            let part = vma.start.max(next)..vma.end.min(end);
            next = part.end;
            self.advise_vma(cx, mm, &vma, part, advice);
        }
        result
    }

    /// Applies advice to the part of one VMA that lies in the range.
    #[doc(alias = "madvise_vma_behavior")]
    fn advise_vma(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vma: &Vma<H>,
        part: Range<u32>,
        advice: Advice,
    ) {
        let mut gather = Gather::new(mm);
        if advice == Advice::DontNeed {
            self.drain_to_unmap(cx);
            self.zap_range(cx, &mut gather, &self.zap_of(vma, part));
        } else {
            self.lru_add_drain(cx);
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
        let mm = gather.mm();
        let mut isolated = Vec::new();
        let mut next = range.start;
        while let Some((table, part)) = mm.next_table(cx.cpu(), next, range.end) {
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
        let mm = gather.mm();
        let mut ptes = table.lock(cx.cpu());
        self.flush_pending(cx, mm);
        for vpn in part {
            let pte = ptes.get(vpn);
            if let Some(slot) = pte.slot() {
                ptes.set(vpn, Pte::NONE);
                Rss::add::<H>(&mm.rss.swap, -1);
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

    /// A page that is about to be freed lazily gives up its swap copy and its dirty flag; false if
    /// it cannot, because another task has it locked or maps it.
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
        self.flush_pending(cx, gather.mm());
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
        let (locked, plain) = (VmaFlags::LOCKED, VmaFlags::empty());
        for advice in [Advice::DontNeed, Advice::Cold, Advice::PageOut] {
            assert!(suits(advice, plain, false) && !suits(advice, locked, true), "{advice:?}");
        }
        assert!(suits(Advice::Free, plain, true) && !suits(Advice::Free, plain, false));
        assert!(!suits(Advice::Free, locked, true));
        assert!(suits(Advice::Sequential, locked, false));
    }

    #[test]
    fn sequential_and_random_exclude_each_other() {
        let both = VmaFlags::SEQ_READ | VmaFlags::RAND_READ;
        assert_eq!(flag_change(Advice::Normal), Some((VmaFlags::empty(), both)));
        assert_eq!(flag_change(Advice::Random), Some((VmaFlags::RAND_READ, VmaFlags::SEQ_READ)));
        assert_eq!(flag_change(Advice::DontNeed), None);
    }
}
