//! Truncation and invalidation (rules/page-cache#truncate, rules/page-cache#invalidate).
//!
//! | | dirty | under writeback | mapped | locked | shadows |
//! |---|---|---|---|---|---|
//! | truncate | dropped | waits | unmaps | waits | dropped |
//! | invalidate | stays | stays | stays | stays | dropped |
//!
//! Pages that invalidation would have dropped but for dirt, a mapping or another user go through
//! the deactivate-file batch: soon met by reclaim. Both work in batches of 15 pages.

use alloc::sync::Arc;

use super::lookup::PageBatch;
use super::{DirtyAccount, Entry, File, Mappings, MemoryFiles};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::lru::BatchKind;
use crate::page::{Folio, PAGE_SHIFT, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;

/// Where a walk over a file's pages goes on; none = it is done.
type Next = Option<u32>;

impl<H: Devices> Kernel<H> {
    /// Cuts a file to `pages` pages: later pages are unmapped and dropped, dirty or not.
    #[doc(alias = "truncate_pagecache")]
    pub fn truncate(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, pages: u32) {
        let _phase = cx.phase(Phase::Truncate);
        let _rwsem = file.rwsem.write(cx);
        file.size.fetch_min(u64::from(pages) << PAGE_SHIFT, Relaxed);
        self.truncate_pages(cx, file, pages);
    }

    /// Deletes a file: truncates it and drops it from the table.
    pub fn delete_file(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) {
        let _phase = cx.phase(Phase::Truncate);
        let _rwsem = file.rwsem.write(cx);
        file.size.store(0, Relaxed);
        // No page is added after this, because additions check under the same lock.
        let xa = file.xa_lock.lock(cx.cpu());
        file.is_deleted.store(true, Relaxed);
        drop(xa);
        self.truncate_pages(cx, file, 0);
        if !file.is_memory() {
            self.file_deleted(cx, file);
        }
        self.drop_inode(cx, file);
        self.files.lock(cx.cpu()).remove(&file.id.0);
    }

    /// Removes everything from `first` on: pages, shadows, and swap slots of a file in memory.
    ///
    /// A task may swap a page of such a file in after the pages were removed and before the slots
    /// are. So the slots come last, and the pages once more if a slot became one.
    #[doc(alias = "truncate_inode_pages_range")]
    #[doc(alias = "shmem_undo_range")]
    fn truncate_pages(&self, cx: &Cx<'_, H>, file: &File<H>, first: u32) {
        self.cut_folio(cx, file, first);
        loop {
            self.remove_pages(cx, file, first);
            self.drop_shadows(cx, file, first, u32::MAX);
            if !file.is_memory() {
                return;
            }
            self.drop_swapped(cx, file, first);
            if file.tree.lock(cx.cpu()).next_page(first).is_none() {
                return;
            }
        }
    }

    /// Removes all pages from `first` on: unused ones in batches, then the rest one by one, waiting
    /// for each.
    fn remove_pages(&self, cx: &Cx<'_, H>, file: &File<H>, first: u32) {
        let mut next = Some(first);
        while let Some(from) = next {
            let mut batch = PageBatch::default();
            next = self.lock_pages(cx, file, (from, u32::MAX), &mut batch);
            self.truncate_locked(cx, file, &batch);
            cx.host.yield_now();
        }
        let mut from = first;
        while let Some((index, _)) = { file.tree.lock(cx.cpu()).next_page(from) } {
            from = index;
            let Some(folio) = self.find_lock_page(cx, file, index) else { continue };
            let (begins, ends) = self.mem.map.indices_of(folio);
            if begins < first {
                // Cut by the range, and it could not be split.
                self.unlock_page(cx, folio);
                self.put_page(cx, folio);
                from = ends;
                continue;
            }
            self.wait_on_writeback(cx, folio);
            let mut batch = PageBatch::default();
            batch.push(folio);
            self.truncate_locked(cx, file, &batch);
        }
    }

    /// Takes locked pages out of their file, gives up the caller's references and the tree's.
    pub(super) fn truncate_locked(&self, cx: &Cx<'_, H>, file: &File<H>, pages: &[Folio]) {
        if pages.is_empty() {
            return;
        }
        for &folio in pages {
            if self.mem.map.page(folio).is_mapped() {
                self.unmap_everywhere(cx, folio);
            }
            self.cancel_dirty(cx, file, folio);
        }
        let xa = file.xa_lock.lock(cx.cpu());
        for &folio in pages {
            self.delete_from_page_cache(cx, file, (folio, self.mem.map.page(folio)), None);
        }
        cx.charge(Cost::TruncatePage, pages.len() as u32);
        drop(xa);
        for &folio in pages {
            self.unlock_page(cx, folio);
            let is_last = self.mem.map.page(folio).put::<H>(folio.nr_pages() as u32);
            debug_assert!(!is_last, "the caller had a reference of its own");
        }
        self.lru_add_drain(cx);
        self.release_pages(cx, pages);
    }

    /// Drops clean, unmapped, unused pages `start..end`; the pages dropped and those that failed.
    /// Pages that are locked or under writeback are skipped and not counted.
    #[doc(alias = "invalidate_mapping_pages")]
    pub fn invalidate(&self, cx: &Cx<'_, H>, file: &File<H>, start: u32, end: u32) -> (u64, u64) {
        let (mut dropped, mut failed) = (0, 0);
        let mut next = Some(start);
        while let Some(from) = next {
            let mut batch = PageBatch::default();
            next = self.lock_pages(cx, file, (from, end), &mut batch);
            if batch.is_empty() {
                continue;
            }
            for &folio in batch.iter() {
                let is_dropped = self.invalidate_page(cx, file, folio);
                self.unlock_page(cx, folio);
                if is_dropped {
                    dropped += folio.nr_pages();
                } else {
                    failed += folio.nr_pages();
                    if !self.mem.map.page(folio).is(PageFlags::UNEVICTABLE) {
                        self.lru_batch(cx, BatchKind::DeactivateFile, folio);
                    }
                }
            }
            cx.charge(Cost::TruncatePage, batch.len() as u32);
            self.lru_add_drain(cx);
            self.release_pages(cx, &batch);
            cx.host.yield_now();
        }
        self.drop_shadows(cx, file, start, end);
        (dropped, failed)
    }

    /// Takes a locked page out of its file if only the tree and the caller use it. The caller keeps
    /// its reference.
    #[doc(alias = "mapping_evict_folio")]
    #[doc(alias = "invalidate_inode_page")]
    fn invalidate_page(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if page.flags().intersects(PageFlags::DIRTY | PageFlags::WRITEBACK) {
            return false;
        }
        let is_removed = self.remove_unused(cx, file, (folio, page));
        if is_removed {
            page.unfreeze(1);
        }
        is_removed
    }

    /// Collects pages of a range that are neither locked nor under writeback, and locks them. The
    /// batch may be empty although there is more to come.
    #[doc(alias = "find_lock_entries")]
    fn lock_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (from, end): (u32, u32),
        batch: &mut PageBatch,
    ) -> Next {
        let (mut found, max) = (PageBatch::default(), self.lookup_batch());
        let mut next = None;
        file.tree.lock(cx.cpu()).walk(from, end, |index, pfn| {
            let (folio, page) = self.mem.map.lookup(pfn);
            if found.last() == Some(&folio) && folio.is_large() {
                return true;
            }
            if found.len() == max {
                next = Some(index);
                return false;
            }
            // A folio that sticks out of the range is not dropped for it.
            let is_whole =
                !folio.is_large() || File::<H>::covers((from, end), self.mem.map.indices_of(folio));
            if is_whole && page.try_get::<H>() {
                found.push(folio);
            }
            true
        });
        for &folio in found.iter() {
            if self.try_lock_page(folio) {
                if self.is_page_of(file, folio)
                    && !self.mem.map.page(folio).is(PageFlags::WRITEBACK)
                {
                    batch.push(folio);
                    continue;
                }
                self.unlock_page(cx, folio);
            }
            self.put_page(cx, folio);
        }
        next
    }

    /// Removes all shadows, because the file's inode is freed.
    pub(super) fn forget_shadows(&self, cx: &Cx<'_, H>, file: &File<H>) {
        self.drop_shadows(cx, file, 0, u32::MAX);
    }

    /// Forgets the shadows of a range, a node at a time.
    fn drop_shadows(&self, cx: &Cx<'_, H>, file: &File<H>, start: u32, end: u32) {
        let mut from = start;
        loop {
            let node = file.tree.lock(cx.cpu()).next_shadow_node(from, end);
            let Some(base) = node else { return };
            let xa = file.xa_lock.lock(cx.cpu());
            let shadows = file.tree.lock(cx.cpu()).shadows_in_node(base);
            let indices = (0..64).filter(|bit| shadows & 1 << bit != 0).map(|bit| base + bit);
            for index in indices.filter(|index| (from..end).contains(index)) {
                self.replace_entry(cx, file, index, Entry::Empty);
            }
            drop(xa);
            let Some(next) = base.checked_add(64) else { return };
            from = next;
        }
    }
}
