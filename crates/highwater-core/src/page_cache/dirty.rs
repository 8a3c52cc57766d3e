//! Dirtying and cleaning pages: flags, marks, counters (rules/dirty-throttling#dirtying,
//! rules/faults#counters, rules/writeback#completion).
//!
//! ```text
//!          set_page_dirty          clear_page_dirty_for_io      start         end
//! clean ------------------> DIRTY ------------------------> - ------> WRITEBACK ----> clean
//!    ^                        |           may become DIRTY again at any time
//!    +------------------------+
//!          cancel_dirty
//! ```
//!
//! A file page is counted in its node (nr_dirty, nr_writeback), its zone (write pending) and its
//! device (reclaimable, writeback); a swap cache page only in node and zone, and only while it is
//! under writeback. The tree's marks follow the flags. The DIRTY mark stays until writeback starts,
//! so a page that was cleaned and then not written is found again.
//!
//! Synchronisation: a change of DIRTY needs the page lock, or the lock of a page table that maps
//! the page. Flag and mark of writeback change together under the tree's lock. Writeback ends in
//! interrupts, which take the tree's lock but not `xa_lock`, because the interrupted task may hold
//! it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{DirtyAccount, File, Mappings, Mark};
use crate::config::FileFolios;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, PageMapping, Pfn};
use crate::vmstat::{NodeStat, ZoneStat};

impl<H: Devices> Kernel<H> {
    /// Marks a file page (or a swap cache page) dirty; true if it was clean. Counts it, marks it in
    /// the tree, queues the file for writeback.
    ///
    /// Linux: same name.
    ///
    /// A page that was to leave at the end of its writeback stays after all: it was used through a
    /// mapping. (`write` does not come this way and leaves the flag alone.)
    #[doc(alias = "folio_mark_dirty")]
    pub fn set_page_dirty(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        match page.mapping() {
            PageMapping::File(id) => {
                page.flag_test_clear::<H>(PageFlags::RECLAIM);
                self.all_stored(folio);
                if page.is(PageFlags::DIRTY) {
                    return false;
                }
                if page.is(PageFlags::SWAPBACKED) {
                    return !page.flag_test_set::<H>(PageFlags::DIRTY);
                }
                self.file(cx, id).is_some_and(|file| self.dirty_file_page(cx, &file, folio))
            }
            _ => !page.flag_test_set::<H>(PageFlags::DIRTY),
        }
    }

    /// Marks a page dirty whose file is at hand: counts it, marks it in the tree, queues the file
    /// for writeback.
    #[doc(alias = "filemap_dirty_folio")]
    #[doc(alias = "__set_page_dirty_nobuffers")]
    pub(crate) fn dirty_file_page(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        folio: Folio,
    ) -> bool {
        let page = self.mem.map.page(folio);
        if page.flag_test_set::<H>(PageFlags::DIRTY) {
            return false;
        }
        if file.is_memory() {
            // No flusher writes it: only reclaim does, to swap.
            return true;
        }
        let account = self.mem.account(cx.cpu(), folio);
        account.plus(NodeStat::Dirty).zone_plus(ZoneStat::ZoneWritePending).plus(NodeStat::Dirtied);
        self.page_dirtied(cx, file, folio);
        self.mark_page(cx, file, page.index(), Mark::Dirty, true);
        self.file_dirtied(cx, file, folio);
        true
    }

    /// Marks a page dirty again that was cleaned for I/O but is not written after all; nr_dirtied
    /// does not count it twice. Its mark is still there.
    #[doc(alias = "folio_redirty_for_writepage")]
    #[doc(alias = "redirty_page_for_writepage")]
    pub(crate) fn redirty_page(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if !page.flag_test_set::<H>(PageFlags::DIRTY) {
            let account = self.mem.account(cx.cpu(), folio);
            account.plus(NodeStat::Dirty).zone_plus(ZoneStat::ZoneWritePending);
            self.page_redirtied(file, folio.nr_pages());
        }
    }

    /// Cleans the page table entries of a locked page and clears DIRTY before it is written; true
    /// if it was dirty.
    ///
    /// Linux: same name.
    #[doc(alias = "folio_clear_dirty_for_io")]
    pub fn clear_page_dirty_for_io(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let PageMapping::File(id) = page.mapping() else {
            return page.flag_test_clear::<H>(PageFlags::DIRTY);
        };
        match self.file(cx, id) {
            Some(file) => self.clean_file_page(cx, &file, folio),
            None => false,
        }
    }

    /// [`Kernel::clear_page_dirty_for_io`] for a page with a known file.
    pub(crate) fn clean_file_page(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        folio: Folio,
    ) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED), "cleaned a page that was not locked");
        if page.is_mapped() && self.clean_mappings(cx, folio) {
            self.all_stored(folio);
            self.dirty_file_page(cx, file, folio);
        }
        let was_dirty = page.flag_test_clear::<H>(PageFlags::DIRTY);
        if was_dirty {
            self.count_cleaned(cx, file, folio);
        }
        was_dirty
    }

    /// Clears DIRTY of a page that will not be written after all (truncation), and uncounts it.
    #[doc(alias = "folio_cancel_dirty")]
    #[doc(alias = "cancel_dirty_page")]
    pub fn cancel_dirty(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) {
        let was_dirty = self.mem.map.page(folio).flag_test_clear::<H>(PageFlags::DIRTY);
        if was_dirty && folio.is_large() {
            self.forget_stored(folio);
        }
        if was_dirty && !file.is_memory() {
            self.count_cleaned(cx, file, folio);
        }
    }

    /// Uncounts a dirty page that became clean without being written.
    #[doc(alias = "folio_account_cleaned")]
    fn count_cleaned(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) {
        let account = self.mem.account(cx.cpu(), folio);
        account.minus(NodeStat::Dirty).zone_minus(ZoneStat::ZoneWritePending);
        self.page_cleaned(file, folio.nr_pages());
    }

    /// Marks a page as under writeback (file or swap).
    #[doc(alias = "folio_start_writeback")]
    #[doc(alias = "set_page_writeback")]
    pub fn start_page_writeback(&self, cx: &Cx<'_, H>, folio: Folio) {
        let file = self.file_of_page(cx, folio);
        self.start_writeback_of(cx, file.as_deref(), folio, folio.nr_pages() as u32);
    }

    /// [`Kernel::start_page_writeback`] for a page with a known file; `None`: a swap cache page. Of
    /// a larger folio `nr` pages are written.
    pub(crate) fn start_writeback_of(
        &self,
        cx: &Cx<'_, H>,
        file: Option<&File<H>>,
        folio: Folio,
        nr: u32,
    ) {
        let page = self.mem.map.page(folio);
        debug_assert!(!page.is(PageFlags::WRITEBACK), "written twice at a time");
        if let Some(file) = file {
            let index = page.index();
            let _xa = file.xa_lock.lock(cx.cpu());
            let mut tree = file.tree.lock(cx.cpu());
            page.flag_set::<H>(PageFlags::WRITEBACK);
            tree.mark(index, Mark::Writeback, true);
            tree.mark(index, Mark::ToWrite, false);
            if !page.is(PageFlags::DIRTY) {
                tree.mark(index, Mark::Dirty, false);
            }
            drop(tree);
            self.write_started(file, folio.nr_pages());
        } else {
            page.flag_set::<H>(PageFlags::WRITEBACK);
        }
        if folio.is_large() {
            self.mem.map.begin_pieces(folio, nr);
        }
        let account = self.mem.account(cx.cpu(), folio);
        account.plus(NodeStat::Writeback).zone_plus(ZoneStat::ZoneWritePending);
    }

    /// Ends writeback of a page: rotates a RECLAIM page, wakes waiters and throttled reclaimers
    /// (rules/page-decisions#end-of-writeback, rules/writeback#completion). From interrupts.
    ///
    /// Linux: same name.
    #[doc(alias = "folio_end_writeback")]
    pub fn end_page_writeback(&self, cx: &Cx<'_, H>, folio: Folio) {
        let file = self.file_of_page(cx, folio);
        let frames: Vec<Pfn> = folio.frames().collect();
        self.end_writeback_of(cx, file.as_deref(), &frames);
    }

    /// [`Kernel::end_page_writeback`] for frames of one file; none = of the swap cache.
    pub(crate) fn end_writeback_of(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, frames: &[Pfn]) {
        if file.is_none() || self.mem.policy.folio.file != FileFolios::None {
            return self.end_writeback_in_pieces(cx, file, frames);
        }
        self.end_writeback_runs(cx, file, frames);
    }

    /// Does that for frames of which some belong to larger folios. A folio that the device took in
    /// pieces is under writeback until the last of them is done.
    fn end_writeback_in_pieces(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, frames: &[Pfn]) {
        let mut at = 0;
        while let Some(&pfn) = frames.get(at) {
            let folio = self.mem.map.folio(pfn);
            let same_kind = |&pfn: &Pfn| match folio.is_large() {
                true => folio.contains(pfn),
                false => !self.mem.map.folio(pfn).is_large(),
            };
            let nr = frames[at..].iter().take_while(|&pfn| same_kind(pfn)).count();
            if !folio.is_large() {
                self.end_writeback_runs(cx, file, &frames[at..at + nr]);
            } else if self.mem.map.end_piece::<H>(folio, nr as u32) {
                self.end_writeback_runs(cx, file, &folio.frames().collect::<Vec<_>>());
            }
            at += nr;
        }
    }

    fn end_writeback_runs(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, frames: &[Pfn]) {
        // Frames of one zone are counted together; the zone of a frame never changes, so it may be
        // asked for after the page is gone.
        let zone_of = |pfn: Pfn| self.mem.map.page(pfn).zone_id();
        for run in frames.chunk_by(|&a, &b| zone_of(a) == zone_of(b)) {
            for (folio, page) in self.mem.map.folios(run) {
                // While the folio is sure to be its group's.
                if let Some(owner) = self.mem.groups.owner_if_on(folio) {
                    let (at, pages) = ((owner, page.node()), folio.nr_pages() as i64);
                    self.mem.groups.add(cx.cpu(), at, NodeStat::Writeback, -pages);
                }
                self.end_flag(cx, file, folio, page);
            }
            let (zone, nr) = (zone_of(run[0]), run.len() as u64);
            let account = self.mem.account_pages(cx.cpu(), zone, nr);
            account
                .minus(NodeStat::Writeback)
                .zone_minus(ZoneStat::ZoneWritePending)
                .plus(NodeStat::Written);
            self.write_done(cx, file, zone.node(), nr);
        }
    }

    /// Once WRITEBACK is clear the page may be freed by others.
    fn end_flag(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, folio: Folio, page: &Page) {
        if page.flag_test_clear::<H>(PageFlags::RECLAIM) {
            self.lru_rotate(cx, folio);
        }
        let before = if let Some(file) = file {
            let mut tree = file.tree.lock(cx.cpu());
            tree.mark(page.index(), Mark::Writeback, false);
            Self::clear_writeback(page)
        } else {
            Self::clear_writeback(page)
        };
        self.wake_after_writeback(cx, folio, before);
    }

    pub(super) fn file_of_page(&self, cx: &Cx<'_, H>, folio: Folio) -> Option<Arc<File<H>>> {
        match self.mem.map.page(folio).mapping() {
            PageMapping::File(id) => self.file(cx, id),
            _ => None,
        }
    }
}
