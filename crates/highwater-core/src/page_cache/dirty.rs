//! Dirtying and cleaning pages: flags, marks, counters (spec 04 §1, §7.1, §8.5).
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
//! under writeback. The tree's marks follow the flags; the DIRTY mark stays until writeback starts,
//! so that a page which was cleaned and then not written is found again.
//!
//! Synchronisation: who changes DIRTY holds the page lock, or the lock of a page table that maps
//! the page. Flag and mark of writeback change together under the tree's lock. The end of writeback
//! comes from interrupts: it takes the tree's lock but not `xa_lock`, which a task it interrupted
//! may hold.

use alloc::sync::Arc;

use super::{DirtyAccount, File, Mappings, Mark};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{PageFlags, PageOwner, Pfn};
use crate::vmstat::{NodeStat, ZoneStat};

impl<H: Devices> Kernel<H> {
    /// A file page (or a swap cache page) becomes dirty; true if it was clean. Counts it, marks it
    /// in the tree, queues the file for writeback.
    ///
    /// A page that was to leave at the end of its writeback stays after all: it was used through a
    /// mapping. (The spec is silent; `write` does not come this way and leaves the flag alone.)
    pub fn set_page_dirty(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let page = self.mem.map.page(pfn);
        match page.owner() {
            PageOwner::File(id) => {
                page.flag_test_clear::<H>(PageFlags::RECLAIM);
                if page.is(PageFlags::DIRTY) {
                    return false;
                }
                self.file(cx, id).is_some_and(|file| self.dirty_file_page(cx, &file, pfn))
            }
            _ => !page.flag_test_set::<H>(PageFlags::DIRTY),
        }
    }

    /// [`Kernel::set_page_dirty`] for a page whose file is at hand.
    pub(crate) fn dirty_file_page(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, pfn: Pfn) -> bool {
        let page = self.mem.map.page(pfn);
        if page.flag_test_set::<H>(PageFlags::DIRTY) {
            return false;
        }
        self.count_dirty(cx, pfn, 1);
        self.count_node(cx, pfn, NodeStat::Dirtied, 1);
        self.page_dirtied(cx, file);
        self.mark_page(cx, file, page.index(), Mark::Dirty, true);
        self.file_dirtied(cx, file);
        true
    }

    /// A page that was cleaned for I/O is not written after all: dirty again, as if it had not been
    /// touched (nr_dirtied does not count it twice). Its mark is still there.
    pub(crate) fn redirty_page(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) {
        let page = self.mem.map.page(pfn);
        if !page.flag_test_set::<H>(PageFlags::DIRTY) {
            self.count_dirty(cx, pfn, 1);
            self.page_redirtied(file);
        }
    }

    /// Before a locked page is written: cleans its page table entries and clears DIRTY; true if it
    /// was dirty.
    pub fn clear_page_dirty_for_io(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let page = self.mem.map.page(pfn);
        let PageOwner::File(id) = page.owner() else {
            return page.flag_test_clear::<H>(PageFlags::DIRTY);
        };
        match self.file(cx, id) {
            Some(file) => self.clean_file_page(cx, &file, pfn),
            None => false,
        }
    }

    /// [`Kernel::clear_page_dirty_for_io`] for a page whose file is at hand.
    pub(crate) fn clean_file_page(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, pfn: Pfn) -> bool {
        let page = self.mem.map.page(pfn);
        debug_assert!(page.is(PageFlags::LOCKED), "cleaned a page that was not locked");
        if page.is_mapped() && self.clean_mappings(cx, pfn) {
            self.dirty_file_page(cx, file, pfn);
        }
        let was_dirty = page.flag_test_clear::<H>(PageFlags::DIRTY);
        if was_dirty {
            self.count_cleaned(cx, file, pfn);
        }
        was_dirty
    }

    /// A page will not be written after all (truncation): DIRTY goes, and what was counted.
    pub fn cancel_dirty(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) {
        if self.mem.map.page(pfn).flag_test_clear::<H>(PageFlags::DIRTY) {
            self.count_cleaned(cx, file, pfn);
        }
    }

    fn count_cleaned(&self, cx: &Cx<'_, H>, file: &File<H>, pfn: Pfn) {
        self.count_dirty(cx, pfn, -1);
        self.page_cleaned(file);
    }

    /// Writeback of a page begins (file or swap).
    pub fn start_page_writeback(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let file = self.file_of_page(cx, pfn);
        self.start_writeback_of(cx, file.as_deref(), pfn);
    }

    /// [`Kernel::start_page_writeback`] for a page whose file is at hand; none = a swap cache page.
    pub(crate) fn start_writeback_of(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, pfn: Pfn) {
        let page = self.mem.map.page(pfn);
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
            self.write_started(file);
        } else {
            page.flag_set::<H>(PageFlags::WRITEBACK);
        }
        self.count_writeback(cx, pfn, 1);
    }

    /// Writeback of a page ended: RECLAIM pages are rotated, waiters woken, throttled reclaimers
    /// told (spec 02 §11, spec 04 §8.5). From interrupts.
    pub fn end_page_writeback(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let file = self.file_of_page(cx, pfn);
        self.end_writeback_of(cx, file.as_deref(), &[pfn]);
    }

    /// [`Kernel::end_page_writeback`] for pages of one file; none = swap cache pages.
    pub(crate) fn end_writeback_of(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, pages: &[Pfn]) {
        // Frames of one zone are counted together; the zone of a frame never changes, so it may be
        // asked for after the page is gone.
        let zone_of = |pfn: Pfn| self.mem.map.page(pfn).zone_id();
        for run in pages.chunk_by(|&a, &b| zone_of(a) == zone_of(b)) {
            run.iter().for_each(|&pfn| self.end_flag(cx, file, pfn));
            let nr = run.len() as u64;
            self.count_writeback(cx, run[0], -(nr as i64));
            self.count_node(cx, run[0], NodeStat::Written, nr as i64);
            self.write_done(cx, file, self.mem.map.page(run[0]).node(), nr);
        }
    }

    /// Once WRITEBACK is clear the page may be freed by others.
    fn end_flag(&self, cx: &Cx<'_, H>, file: Option<&File<H>>, pfn: Pfn) {
        let page = self.mem.map.page(pfn);
        if page.flag_test_clear::<H>(PageFlags::RECLAIM) {
            self.lru_rotate(cx, pfn);
        }
        let before = if let Some(file) = file {
            let mut tree = file.tree.lock(cx.cpu());
            tree.mark(page.index(), Mark::Writeback, false);
            page.flag_clear::<H>(PageFlags::WRITEBACK)
        } else {
            page.flag_clear::<H>(PageFlags::WRITEBACK)
        };
        debug_assert!(before.contains(PageFlags::WRITEBACK), "ended writeback twice");
        self.wake_page(cx, pfn);
    }

    fn file_of_page(&self, cx: &Cx<'_, H>, pfn: Pfn) -> Option<Arc<File<H>>> {
        match self.mem.map.page(pfn).owner() {
            PageOwner::File(id) => self.file(cx, id),
            _ => None,
        }
    }

    fn count_dirty(&self, cx: &Cx<'_, H>, pfn: Pfn, by: i64) {
        self.count_node(cx, pfn, NodeStat::Dirty, by);
        self.count_pending(cx, pfn, by);
    }

    fn count_writeback(&self, cx: &Cx<'_, H>, pfn: Pfn, by: i64) {
        self.count_node(cx, pfn, NodeStat::Writeback, by);
        self.count_pending(cx, pfn, by);
    }

    fn count_node(&self, cx: &Cx<'_, H>, pfn: Pfn, item: NodeStat, by: i64) {
        if let Some(zone) = self.mem.zone_of(pfn) {
            self.mem.node(zone.node).stats.add(cx.cpu(), item as usize, by);
        }
    }

    fn count_pending(&self, cx: &Cx<'_, H>, pfn: Pfn, by: i64) {
        if let Some(zone) = self.mem.zone_of(pfn) {
            zone.stats.add(cx.cpu(), ZoneStat::ZoneWritePending as usize, by);
        }
    }
}
