//! Pages at the tail that are dirty or under writeback (rules/page-decisions#steps, steps 5, 6, 12
//! to 14).
//!
//! Reclaim does not wait for them and rarely writes them: flushers write in file order, which is
//! faster for a disk. So most of them are marked, counted (the count slows the pass down), and
//! moved out of the way.
//!
//! From: [`super`] · to: `writeback::io`, `swap`.

use super::{Batch, Verdict};
use crate::block::Pool;
use crate::config::{FilePageout, References};
use crate::host::{Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::PageType;
use crate::page::{Folio, Page, PageFlags, PageMapping};
use crate::reclaim::Control;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::vmstat::NodeStat;
use crate::writeback::PageWrite;

/// Reports whether reclaim of a version 1 group waits for a page under writeback: if it was met
/// before, and the task holds nothing that the write may need.
///
/// Linux: case 3 of a page under writeback in `shrink_folio_list`.
const fn waits_for_writeback(sc: &Control, flags: PageFlags) -> bool {
    flags.contains(PageFlags::RECLAIM) && sc.may_enter_fs(flags.contains(PageFlags::SWAPCACHE))
}

impl<H: Devices> Kernel<H> {
    /// Steps 12 to 14, of a page to which one of them applies: a verdict, or none if it can go now.
    #[inline(always)]
    pub(super) fn not_clean(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
        references: References,
    ) -> Option<Verdict> {
        if page.is(PageFlags::PINNED) {
            return Some(Verdict::Activate);
        }
        if page.is(PageFlags::DIRTY)
            && let Some(verdict) = self.dirty_page(cx, batch, (folio, page), references)
        {
            return Some(verdict);
        }
        // Private data of a filesystem is not modelled, so it cannot be released.
        page.is(PageFlags::PRIVATE).then_some(Verdict::Activate)
    }

    /// Counts a page that is dirty or under writeback (step 5). Lazily freed pages do not count,
    /// since their contents do not matter. Anonymous pages do not count either: no flusher writes
    /// them.
    #[doc(alias = "folio_check_dirty_writeback")]
    #[doc(alias = "page_check_dirty_writeback")]
    #[inline(always)]
    pub(super) fn count_dirty_state(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
        flags: PageFlags,
    ) {
        if flags.contains(PageFlags::SWAPBACKED) || page.is_anon() {
            return;
        }
        let is_dirty = flags.contains(PageFlags::DIRTY);
        let is_writeback = flags.contains(PageFlags::WRITEBACK);
        // Devices that say so themselves (up to 4.20).
        let is_congested =
            self.block.congestion.any(Pool::Async) && self.is_on_congested_device(cx, batch, page);
        let (stats, nr) = (&mut batch.stats, folio.nr_pages());
        // The caller knows that it is one of them.
        stats.dirty += nr;
        if is_dirty && !is_writeback {
            stats.unqueued_dirty += nr;
        }
        if is_congested || is_writeback && flags.contains(PageFlags::RECLAIM) {
            stats.congested += nr;
        }
    }

    #[cold]
    fn is_on_congested_device(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        page: &Page,
    ) -> bool {
        let PageMapping::File(id) = page.mapping() else { return false };
        let file = batch.trail.file(self, cx, id);
        file.is_some_and(|f| self.block.device(f.spec.device).is_congested(Pool::Async))
    }

    /// True if this reclaim waits for a page under writeback. kswapd on lists full of such pages
    /// does not: its pass waits.
    #[inline]
    pub(super) fn waits_for_page(&self, batch: &Batch<'_, H>, page: &Page) -> bool {
        let sc = &batch.sc;
        self.is_reclaim_of_v1(sc)
            && !(sc.is_kswapd && batch.tail.full_of_writeback.load(Relaxed))
            && waits_for_writeback(sc, page.flags())
    }

    /// Step 6, unless the page is waited for ([`waits_for_writeback`]). It flags the page, so that
    /// the end of writeback moves it to the tail. If it meets only such pages, the pass slows down.
    ///
    /// If kswapd meets a page a second time, on lists where it met only such pages lately, the page
    /// counts as `immediate`: reclaim went through the whole list before the disk wrote the page.
    /// The pass waits for that.
    pub(super) fn under_writeback(
        &self,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
    ) -> Verdict {
        let is_full = batch.tail.full_of_writeback.load(Relaxed);
        if batch.sc.is_kswapd && page.is(PageFlags::RECLAIM) && is_full {
            batch.stats.immediate += folio.nr_pages();
        } else {
            page.flag_set::<H>(PageFlags::RECLAIM);
            batch.stats.writeback += folio.nr_pages();
        }
        batch.out_of_the_way
    }

    /// Step 13: a verdict, or none if the page is clean now and still locked.
    ///
    /// Only kswapd writes file pages, and only those it met before on a node full of them: flushers
    /// do it in better order. Pages in the order of the tail lie all over the disk.
    #[inline(always)]
    fn dirty_page(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
        references: References,
    ) -> Option<Verdict> {
        if page.is_file_lru() {
            let is_full_of_dirty = batch.tail.full_of_dirty.load(Relaxed);
            let writes = self.mem.policy.reclaim.file_pageout != FilePageout::NeverCounted;
            let is_kswapd = batch.sc.is_kswapd && writes;
            if !(is_kswapd && page.is(PageFlags::RECLAIM) && is_full_of_dirty) {
                let pages = folio.nr_pages() as i64;
                batch.counters.add(cx.cpu(), NodeStat::VmscanImmediateReclaim as usize, pages);
                page.flag_set::<H>(PageFlags::RECLAIM);
                return Some(batch.out_of_the_way);
            }
        }
        let sc = &batch.sc;
        let may_write = references != References::ReclaimClean
            && sc.may_enter_fs(page.is(PageFlags::SWAPCACHE))
            && sc.may_writepage;
        if !may_write {
            return Some(Verdict::Keep);
        }
        // A CPU with a writable cached translation could change the page unnoticed while it is
        // written, because its dirty bit was cleared.
        self.flush_unmapped(cx, true);
        self.pageout(cx, batch, (folio, page))
    }

    /// Writes one page for reclaim, or returns none if it is clean, locked, and can be removed now
    /// (step 13c). That happens if another task wrote it, or if the device finishes at once.
    /// Usually the write is under way, and a later scan frees the page.
    ///
    /// Linux: same name.
    #[inline(never)]
    fn pageout(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
    ) -> Option<Verdict> {
        let _phase = cx.phase(Phase::Pageout);
        let users = 1 + folio.nr_pages() as u32 + u32::from(page.is(PageFlags::PRIVATE));
        // Somebody else has it: removal would fail, so the write would be for nothing.
        if page.refcount() != users {
            return Some(Verdict::Keep);
        }
        let page_type = PageType::of(page);
        if page.is(PageFlags::SWAPCACHE) {
            if !self.clear_page_dirty_for_io(cx, folio) {
                return None;
            }
            // Before the write, which may end before it returns: its end looks for the flag.
            page.flag_set::<H>(PageFlags::RECLAIM);
            self.swap_write(cx, folio, self.contents_to_swap(cx, folio));
        } else {
            let PageMapping::File(id) = page.mapping() else { return Some(Verdict::Keep) };
            let Some(file) = batch.trail.file(self, cx, id) else {
                return Some(Verdict::Keep);
            };
            if file.is_memory() {
                if !self.swap_out_memory(cx, file, folio) {
                    return Some(Verdict::Activate);
                }
            } else {
                // Some write whole ranges only (XFS from 6.0, rules/writeback#single-page).
                if !self.writes_single_pages(file) {
                    return Some(Verdict::Activate);
                }
                if !self.clean_file_page(cx, file, folio) {
                    return None;
                }
                page.flag_set::<H>(PageFlags::RECLAIM);
                if self.write_file_page(cx, file, folio) == PageWrite::Refused {
                    page.flag_clear::<H>(PageFlags::RECLAIM);
                    return Some(Verdict::Activate);
                }
            }
        }
        if !page.is(PageFlags::WRITEBACK) {
            // Done already, or failed.
            page.flag_clear::<H>(PageFlags::RECLAIM);
        }
        cx.event(Event::WriteFolio { pfn: folio.pfn(), page_type });
        self.mem.account(cx.cpu(), folio).plus(NodeStat::VmscanWrite);
        batch.stats.pageout += folio.nr_pages();
        // The write has unlocked the page. If it cannot be locked again, another task has found it.
        let is_busy = || page.flags().intersects(PageFlags::WRITEBACK | PageFlags::DIRTY);
        if is_busy() || !page.try_lock::<H>() {
            return Some(Verdict::KeepUnlocked);
        }
        is_busy().then_some(Verdict::Keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::Gfp;
    use crate::zone::ZoneType;

    /// The first time it is marked; the second time a task that holds nothing waits for it.
    #[test]
    fn a_page_is_waited_for_the_second_time() {
        let with = |gfp| Control::new(32, 0, gfp, ZoneType::Device);
        let met = PageFlags::WRITEBACK | PageFlags::RECLAIM;
        let full = with(Gfp::GFP_KERNEL);
        assert!(!waits_for_writeback(&full, PageFlags::WRITEBACK));
        assert!(waits_for_writeback(&full, met));
        // Without FS the task may hold what the write of a file needs, but not of a page to swap.
        let without_fs = with(Gfp::GFP_NOFS);
        assert!(!waits_for_writeback(&without_fs, met));
        assert!(waits_for_writeback(&without_fs, met | PageFlags::SWAPCACHE));
    }
}
