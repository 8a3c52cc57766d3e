//! The page lock, and waiting for pages (rules/sleeping-locks#page-queues).

use super::page_waits::Patience;
use crate::host::{Cx, Devices, Stall, StallScope};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, Pfn};

impl<H: Devices> Kernel<H> {
    /// Takes the lock of a page the caller has a reference to, sleeping as long as it takes.
    ///
    /// Linux: same name.
    #[doc(alias = "folio_lock")]
    pub fn lock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.lock_or_give_up(cx, folio, Patience::Uninterruptible);
    }

    /// Takes the lock of a page, or gives up because the task is to die; true if it has the lock.
    #[must_use]
    #[doc(alias = "folio_lock_killable")]
    pub fn lock_page_killable(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        self.lock_or_give_up(cx, folio, Patience::Killable)
    }

    fn lock_or_give_up(&self, cx: &Cx<'_, H>, folio: Folio, patience: Patience) -> bool {
        let page = self.mem.map.page(folio);
        if page.try_lock::<H>() {
            return true;
        }
        self.plug_flush(cx);
        let _stalls = lock_stalls(cx, page);
        self.page_waits.wait_exclusive(cx, (folio, page), "a page lock", patience)
    }

    /// Takes the lock of a page if it is free.
    #[doc(alias = "folio_trylock")]
    #[doc(alias = "trylock_page")]
    #[inline(always)]
    pub fn try_lock_page(&self, folio: Folio) -> bool {
        self.mem.map.page(folio).try_lock::<H>()
    }

    /// Releases a page lock and wakes the tasks that wait for it.
    ///
    /// Linux: same name.
    #[doc(alias = "folio_unlock")]
    #[inline]
    pub fn unlock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.unlock(cx, folio, self.mem.map.page(folio));
    }

    /// The same for a page with its descriptor.
    #[inline(always)]
    pub(crate) fn unlock(&self, cx: &Cx<'_, H>, folio: Folio, page: &Page) {
        let before = page.flag_clear::<H>(PageFlags::LOCKED);
        debug_assert!(before.contains(PageFlags::LOCKED), "unlocked a page that was not locked");
        if before.contains(PageFlags::WAITERS) {
            self.page_waits.wake(cx, (folio, page), PageFlags::LOCKED);
        }
    }

    /// Clears WRITEBACK. Returns the flags before; pass them to [`Kernel::wake_after_writeback`] once the tree's lock is
    /// dropped.
    #[inline(always)]
    pub(crate) fn clear_writeback(page: &Page) -> PageFlags {
        let before = page.flag_clear::<H>(PageFlags::WRITEBACK);
        debug_assert!(before.contains(PageFlags::WRITEBACK), "ended writeback twice");
        before
    }

    /// Wakes the tasks that wait for the end of a page's writeback, if the result of
    /// [`Kernel::clear_writeback`] shows that there are any.
    #[inline(always)]
    pub(crate) fn wake_after_writeback(&self, cx: &Cx<'_, H>, folio: Folio, before: PageFlags) {
        if before.contains(PageFlags::WAITERS) {
            self.page_waits.wake(cx, (folio, self.mem.map.page(folio)), PageFlags::WRITEBACK);
        }
    }

    /// Waits until the holder of a page's lock releases it (the read is done). Another task may hold
    /// it by then.
    #[doc(alias = "folio_wait_locked")]
    #[doc(alias = "wait_on_page_locked")]
    pub fn wait_on_locked(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.wait_on_locked_or_give_up(cx, folio, Patience::Uninterruptible);
    }

    /// Waits as [`Kernel::wait_on_locked`], but gives up because the task is to die; true if it did
    /// not.
    #[doc(alias = "folio_wait_locked_killable")]
    #[must_use]
    pub fn wait_on_locked_killable(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        self.wait_on_locked_or_give_up(cx, folio, Patience::Killable)
    }

    fn wait_on_locked_or_give_up(&self, cx: &Cx<'_, H>, folio: Folio, patience: Patience) -> bool {
        let page = self.mem.map.page(folio);
        if !page.is(PageFlags::LOCKED) {
            return true;
        }
        self.plug_flush(cx);
        let _stalls = lock_stalls(cx, page);
        let bit = PageFlags::LOCKED;
        self.page_waits.wait_shared(cx, (folio, page), bit, "a page's input", patience)
    }

    /// Waits until a page is no longer under writeback.
    #[doc(alias = "folio_wait_writeback")]
    #[doc(alias = "wait_on_page_writeback")]
    pub fn wait_on_writeback(&self, cx: &Cx<'_, H>, folio: Folio) {
        let (page, bit) = (self.mem.map.page(folio), PageFlags::WRITEBACK);
        // Again if it was put under writeback again before this task ran: the only shared wait that looks again.
        while page.is(bit) {
            self.plug_flush(cx);
            let _stall = cx.stall(Stall::Io);
            let patience = Patience::Uninterruptible;
            self.page_waits.wait_shared(cx, (folio, page), bit, "a page's writeback", patience);
        }
    }

    /// Waits until an entry may be no longer a migration entry of frame `from`. The migration holds
    /// the lock of the page in that frame until the entries are stored.
    #[doc(alias = "migration_entry_wait")]
    pub(crate) fn wait_for_move(&self, cx: &Cx<'_, H>, from: Pfn, is_over: impl FnMut() -> bool) {
        self.plug_flush(cx);
        let _stall = cx.stall(Stall::Io);
        // The flags of a folio's other frames are not used.
        let is_first = self.mem.map.folio(from).pfn() == from;
        let page = is_first.then(|| self.mem.map.page(from));
        self.page_waits.wait_for_move(cx, from, page, "a page's move", is_over);
    }

    /// Wakes the waiters on a tail frame of a folio that was moved or split.
    pub(crate) fn wake_moved(&self, cx: &Cx<'_, H>, frame: Pfn) {
        self.page_waits.wake_frame(cx, frame);
    }
}

/// The resource on which a task that waits for a page lock is stalled. It is a device; it is memory
/// too if the page is a refault of the working set (rules/pressure#memory).
fn lock_stalls<'a, H: Devices>(
    cx: &Cx<'a, H>,
    page: &Page,
) -> (StallScope<'a, H>, Option<StallScope<'a, H>>) {
    let is_back = !page.is(PageFlags::UPTODATE) && page.is(PageFlags::WORKINGSET);
    (cx.stall(Stall::Io), is_back.then(|| cx.stall(Stall::Memory)))
}
