//! Page migration (rules/compaction#migrate-page).
//!
//! A large folio of a file moves like a page, to frames of its size. It is split if there are none
//! ([`large`]).
//!
//! A page in use can move to another frame while programs run. It is unmapped as for reclaim, with
//! migration entries in its place. Its cache gets the new frame, its contents are copied, and its
//! entries are restored. A task that needs the page meanwhile waits for its lock.
//!
//! A page may be unmovable at the moment. As in reclaim, its references decide: only the cache and
//! the mover may have one. For short obstacles (a lock, a temporary reference) the batch tries
//! again, up to ten times. For long ones (writeback) only synchronous modes wait.
//!
//! | outcome | cause | effect on the page |
//! |---|---|---|
//! | moved | the page lives in the new frame | onto its list again, by the add batch; the old frame is free |
//! | gone | all other users dropped it | freed |
//! | again | a lock, or references too many | back on the batch's list, for the next round |
//! | busy | a write that this mode does not wait for | left with the caller |
//!
//! Key types: [`Mode`] (how long a mover waits), [`Outcome`] (the result of a batch), [`Frames`]
//! (frames to move to), `Moved` (the end of one page).
//!
//! Synchronisation: the page's lock; its entries' tables; its cache's lock while the frame is
//! exchanged.
//!
//! From: `compaction` · to: `vm::moving`, `page_cache`, `swap`, `lru`.

mod frames;
mod large;
#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod tests;

pub(crate) use frames::Frames;

use crate::host::{Cx, Devices, Phase, TaskFlags};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, PageList, PageMapping};
use crate::vm::HUGE;
use crate::vmstat::{NodeStat, VmEvent};

/// Rounds that a batch is tried.
const ROUNDS: u32 = 10;
/// Rounds after which locks are waited for.
const PATIENT_AFTER: u32 = 2;

/// The mode of a migration: how long it waits for a page.
#[doc(alias = "migrate_mode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// For nothing.
    Async,
    /// For locks, not for writes.
    SyncLight,
    /// For everything.
    Sync,
}

/// What moving a batch came to, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Moved, or gone meanwhile.
    pub moved: u64,
    /// Not moved, and tried.
    pub failed: u64,
    /// There were no frames left to move to.
    pub is_out_of_frames: bool,
}

impl Outcome {
    /// Everything was moved.
    pub const fn is_complete(&self) -> bool {
        self.failed == 0 && !self.is_out_of_frames
    }
}

/// The end of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Yes,
    Again,
    Busy,
    OutOfFrames,
    /// There are no frames for a large folio, which was split.
    Split,
}

/// A batch on its way.
#[derive(Default)]
struct Batch {
    outcome: Outcome,
    /// To be tried (again).
    again: PageList,
    /// Pages of folios that were split, to be tried.
    pieces: PageList,
    /// Tried in vain, or not tried.
    left: PageList,
}

impl Batch {
    fn moved<H: Devices>(&mut self, kernel: &Kernel<H>, cx: &Cx<'_, H>, folio: Folio) {
        self.outcome.moved += folio.nr_pages();
        if folio.order() == HUGE {
            kernel.mem.events.add(cx.cpu(), VmEvent::ThpMigrationSuccess, 1);
        }
    }

    fn failed<H: Devices>(&mut self, kernel: &Kernel<H>, cx: &Cx<'_, H>, folio: Folio) {
        self.left.push_tail(&kernel.mem.map, folio);
        self.count_failed(kernel, cx, folio);
    }

    fn count_failed<H: Devices>(&mut self, kernel: &Kernel<H>, cx: &Cx<'_, H>, folio: Folio) {
        self.outcome.failed += folio.nr_pages();
        if folio.order() == HUGE {
            kernel.mem.events.add(cx.cpu(), VmEvent::ThpMigrationFail, 1);
        }
    }
}

/// Flags that move to the new frame. Not: the page lock, its list, and the state of the frame.
const KEPT: PageFlags = PageFlags::USED
    .union(PageFlags::UPTODATE)
    .union(PageFlags::DIRTY)
    .union(PageFlags::ACTIVE)
    .union(PageFlags::ERROR)
    .union(PageFlags::SWAPBACKED)
    .union(PageFlags::SWAPCACHE)
    .union(PageFlags::WORKINGSET)
    .union(PageFlags::RECLAIM)
    .union(PageFlags::SWAP_READAHEAD)
    .union(PageFlags::FORKED);

/// Where isolated pages of a kind are counted.
pub(crate) const fn isolated_stat(is_file: bool) -> NodeStat {
    if is_file { NodeStat::IsolatedFile } else { NodeStat::IsolatedAnon }
}

impl<H: Devices> Kernel<H> {
    /// Migrates isolated pages (a reference each, off their lists, counted as isolated) from the
    /// head of `from` on. Pages that do not move stay on `from`, still isolated. `frames` has the
    /// target frames; when it has none for a folio, `more` provides others, once.
    ///
    /// Linux: same name.
    pub(crate) fn migrate_pages(
        &self,
        cx: &Cx<'_, H>,
        from: &mut PageList,
        frames: &mut Frames,
        mode: Mode,
        mut more: impl FnMut(&mut Frames),
    ) -> Outcome {
        let _phase = cx.phase(Phase::Migrate);
        let mut batch = Batch { again: core::mem::take(from), ..Batch::default() };
        self.migrate_batch(cx, &mut batch, frames, mode, &mut more);
        // The pages of split folios come after the others.
        let pieces = core::mem::take(&mut batch.pieces);
        if !pieces.is_empty() {
            batch.again = pieces;
            match batch.outcome.is_out_of_frames {
                true => batch.left.splice_head(&self.mem.map, core::mem::take(&mut batch.again)),
                false => self.migrate_batch(cx, &mut batch, frames, mode, &mut more),
            }
        }
        *from = batch.left;
        let outcome = batch.outcome;
        let count = |event, pages| match pages {
            0 => {}
            pages => self.mem.events.add(cx.cpu(), event, pages),
        };
        count(VmEvent::PgmigrateSuccess, outcome.moved);
        count(VmEvent::PgmigrateFail, outcome.failed);
        outcome
    }

    /// Makes the rounds over the folios of `again`; those that do not move go to `left`.
    fn migrate_batch(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch,
        frames: &mut Frames,
        mode: Mode,
        more: &mut impl FnMut(&mut Frames),
    ) {
        let map = &self.mem.map;
        for round in 0..ROUNDS {
            let mut now = core::mem::take(&mut batch.again);
            while let Some(pfn) = now.pop_head(map) {
                let folio = map.folio(pfn);
                let modes = (mode, round > PATIENT_AFTER);
                match self.migrate_page(cx, folio, (frames, &mut batch.pieces), modes, more) {
                    Moved::Yes => batch.moved(self, cx, folio),
                    Moved::Again => batch.again.push_tail(map, pfn),
                    Moved::Busy => batch.failed(self, cx, folio),
                    Moved::OutOfFrames => {
                        batch.outcome.is_out_of_frames = true;
                        batch.failed(self, cx, folio);
                        break;
                    }
                    Moved::Split => {}
                }
                cx.host.yield_now();
            }
            if batch.outcome.is_out_of_frames {
                // Pages that were not tried yet are not failures.
                batch.left.splice_head(map, now);
                break;
            }
            if batch.again.is_empty() {
                break;
            }
        }
        let again = core::mem::take(&mut batch.again);
        for pfn in again.iter(map) {
            batch.count_failed(self, cx, map.folio(pfn));
        }
        batch.left.splice_head(map, again);
    }

    /// Moves one isolated page to a new frame, and puts it back or frees the old frame by the
    /// outcome.
    #[doc(alias = "unmap_and_move")]
    fn migrate_page(
        &self,
        cx: &Cx<'_, H>,
        old: Folio,
        (frames, pieces): (&mut Frames, &mut PageList),
        (mode, is_patient): (Mode, bool),
        more: &mut impl FnMut(&mut Frames),
    ) -> Moved {
        let page = self.mem.map.page(old);
        if page.refcount_acquire() == 1 {
            // All other users dropped it.
            self.count_isolated_page(cx, old, false);
            self.put_page(cx, old);
            return Moved::Yes;
        }
        let map = &self.mem.map;
        let new = frames.take(map, old.order()).or_else(|| {
            more(frames);
            frames.take(map, old.order())
        });
        let Some(new) = new else {
            return self.move_without_frames(cx, old, pieces);
        };
        let moved = self.lock_and_move(cx, old, new, (mode, is_patient));
        match moved {
            Moved::Yes => {
                // Read the kind from the new frame: the old one is unused now.
                self.count_isolated_page(cx, new, false);
                self.putback_page(cx, new);
                self.put_moved_page(cx, old);
            }
            _ => frames.put_back(map, new),
        }
        moved
    }

    fn lock_and_move(
        &self,
        cx: &Cx<'_, H>,
        old: Folio,
        new: Folio,
        (mode, is_patient): (Mode, bool),
    ) -> Moved {
        if !self.try_lock_page(old) {
            // A task that frees memory must not wait for a lock whose holder may wait for memory.
            let may_wait = mode != Mode::Async && is_patient;
            if !may_wait || cx.flags().contains(TaskFlags::MEMALLOC) {
                return Moved::Again;
            }
            self.lock_page(cx, old);
        }
        let moved = self.move_locked(cx, old, new, (mode, is_patient));
        self.unlock_page(cx, old);
        moved
    }

    /// Moves a locked page: waits for writeback, unmaps it, copies it to the new frame and maps it
    /// again.
    #[doc(alias = "__unmap_and_move")]
    #[doc(alias = "move_to_new_folio")]
    fn move_locked(
        &self,
        cx: &Cx<'_, H>,
        old: Folio,
        new: Folio,
        (mode, is_patient): (Mode, bool),
    ) -> Moved {
        let page = self.mem.map.page(old);
        if page.is(PageFlags::WRITEBACK) {
            match (mode, is_patient) {
                (Mode::Async | Mode::SyncLight, _) => return Moved::Busy,
                (Mode::Sync, false) => return Moved::Again,
                (Mode::Sync, true) => self.wait_on_writeback(cx, old),
            }
        }
        if self.is_held_by_journal(cx, page) {
            return Moved::Busy;
        }
        if page.flags().intersects(PageFlags::PRIVATE | PageFlags::PINNED) {
            // Private data of a filesystem or device is not modelled, so such a page cannot move.
            return Moved::Busy;
        }
        let is_moved = self.unmap_to_move(cx, old) && self.exchange(cx, old, new);
        if is_moved {
            self.move_buffers(cx, old, new);
            for (from, to) in old.frames().zip(new.frames()) {
                self.copy_frame(cx, from, Folio::page(to));
            }
            // Tasks that found the page in its cache waited for this.
            self.mem.map.page(new).flag_set::<H>(page.flags() & KEPT);
        }
        let target = if is_moved { new } else { old };
        self.map_moved(cx, old, target);
        if !is_moved {
            return Moved::Again;
        }
        // Only now: until the entries are stored, code that clears one reads the kind of page.
        page.set_mapping(PageMapping::None, 0);
        page.flag_clear::<H>(KEPT);
        self.unlock_page(cx, new);
        Moved::Yes
    }

    /// A dirty page of a journalled file stays until it is written (rules/compaction#journal).
    pub(crate) fn is_held_by_journal(&self, cx: &Cx<'_, H>, page: &Page) -> bool {
        let PageMapping::File(id) = page.mapping() else { return false };
        page.is(PageFlags::DIRTY)
            && self.file(cx, id).is_some_and(|file| file.spec.filesystem.is_journalled)
    }

    /// Replaces a locked, unmapped page by its new frame in the page cache or swap cache, if no other
    /// task has a reference. The new frame is locked and holds nothing yet; the old frame keeps its
    /// mapping.
    #[doc(alias = "folio_migrate_mapping")]
    #[doc(alias = "migrate_page_move_mapping")]
    fn exchange(&self, cx: &Cx<'_, H>, old: Folio, new: Folio) -> bool {
        let page = self.mem.map.page(old);
        let owner = page.mapping();
        let take_over = || {
            let target = self.mem.map.page(new);
            let kept = (page.flags() & KEPT) - PageFlags::UPTODATE;
            target.init_flags(kept | PageFlags::LOCKED);
            target.set_mapping(owner, page.index());
            self.move_stored(old, new);
            self.share_charge(old, new);
        };
        if page.is(PageFlags::SWAPCACHE) {
            return self.replace_in_swap_cache(cx, old, new, take_over);
        }
        if let PageMapping::File(id) = owner {
            let Some(file) = self.file(cx, id) else { return false };
            return self.replace_in_file(cx, &file, old, new, take_over);
        }
        let Some(frozen) = page.freeze::<H>(1) else { return false };
        take_over();
        frozen.thaw(1);
        true
    }

    /// Adds a page to the count of isolated pages, or removes it.
    pub(crate) fn count_isolated_page(&self, cx: &Cx<'_, H>, folio: Folio, is_isolated: bool) {
        let stat = isolated_stat(self.mem.map.page(folio).is_file_lru());
        let account = self.mem.account(cx.cpu(), folio);
        let _ = if is_isolated { account.plus(stat) } else { account.minus(stat) };
    }

    /// Puts isolated pages back on their lists.
    #[doc(alias = "putback_movable_pages")]
    pub(crate) fn putback_isolated(&self, cx: &Cx<'_, H>, pages: &mut PageList) {
        while let Some(pfn) = pages.pop_head(&self.mem.map) {
            let folio = self.mem.map.folio(pfn);
            self.count_isolated_page(cx, folio, false);
            self.putback_page(cx, folio);
        }
    }
}
