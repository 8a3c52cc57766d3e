//! Waiting for pages: the page lock and the end of writeback.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::host::{Cx, Devices, Stall, StallScope, Tasks};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::wait::WaitQueue;

/// Wait queues shared by all pages, by hash of the frame.
pub struct PageWaits<H: Tasks> {
    queues: Box<[WaitQueue<H>]>,
}

const QUEUES: usize = 256;

impl<H: Tasks> PageWaits<H> {
    /// Empty queues.
    pub fn new(host: &H) -> Self {
        let queues: Vec<_> = (0..QUEUES).map(|_| WaitQueue::new(host)).collect();
        PageWaits { queues: queues.into() }
    }

    fn queue(&self, folio: Folio) -> &WaitQueue<H> {
        &self.queues[(folio.pfn().0.wrapping_mul(0x9e37_79b1) >> 24) as usize % QUEUES]
    }
}

impl<H: Devices> Kernel<H> {
    /// Takes the lock of a page the caller has a reference to, sleeping as long as it takes.
    pub fn lock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.try_lock::<H>() {
            return;
        }
        self.plug_flush(cx);
        let _stalls = lock_stalls(cx, page);
        self.page_waits.queue(folio).wait(cx, "a page lock", || page.try_lock::<H>());
    }

    /// Takes the lock of a page, or gives up because the task is to die; true if it has the lock.
    #[must_use]
    pub fn lock_page_killable(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if page.try_lock::<H>() {
            return true;
        }
        self.plug_flush(cx);
        let _stalls = lock_stalls(cx, page);
        self.page_waits.queue(folio).wait_killable(cx, "a page lock", || page.try_lock::<H>())
    }

    /// Takes the lock of a page if it is free.
    #[inline(always)]
    pub fn try_lock_page(&self, folio: Folio) -> bool {
        self.mem.map.page(folio).try_lock::<H>()
    }

    /// Releases a page lock and wakes who waits for it.
    #[inline]
    pub fn unlock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.unlock(cx, folio, self.mem.map.page(folio));
    }

    /// The same of a page whose descriptor is at hand.
    #[inline(always)]
    pub(crate) fn unlock(&self, cx: &Cx<'_, H>, folio: Folio, page: &Page) {
        let before = page.flag_clear::<H>(PageFlags::LOCKED);
        debug_assert!(before.contains(PageFlags::LOCKED), "unlocked a page that was not locked");
        self.page_waits.queue(folio).wake_all(cx.host, cx.cpu());
    }

    /// Waits until nobody holds the lock of a page (its read is done).
    pub fn wait_on_locked(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::LOCKED) {
            self.plug_flush(cx);
            let done = || !page.is(PageFlags::LOCKED);
            let _stalls = lock_stalls(cx, page);
            self.page_waits.queue(folio).wait(cx, "a page's input", done);
        }
    }

    /// [`Kernel::wait_on_locked`] that gives up because the task is to die; true if nobody holds the
    /// lock.
    #[must_use]
    pub fn wait_on_locked_killable(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if !page.is(PageFlags::LOCKED) {
            return true;
        }
        self.plug_flush(cx);
        let done = || !page.is(PageFlags::LOCKED);
        let _stalls = lock_stalls(cx, page);
        self.page_waits.queue(folio).wait_killable(cx, "a page's input", done)
    }

    /// Waits until a page is no longer under writeback.
    pub fn wait_on_writeback(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::WRITEBACK) {
            self.plug_flush(cx);
            let done = || !page.is(PageFlags::WRITEBACK);
            let _stall = cx.stall(Stall::Io);
            self.page_waits.queue(folio).wait(cx, "a page's writeback", done);
        }
    }

    /// Waits until an entry is no longer on its way from frame `from`: whoever moves its page has the lock of the
    /// page in that frame until the entries are stored.
    pub(crate) fn wait_for_move(&self, cx: &Cx<'_, H>, from: Pfn, is_over: impl FnMut() -> bool) {
        self.plug_flush(cx);
        let _stall = cx.stall(Stall::Io);
        self.page_waits.queue(Folio::page(from)).wait(cx, "a page's move", is_over);
    }

    /// Wakes who waits for a page (its writeback ended).
    #[inline]
    pub(crate) fn wake_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.page_waits.queue(folio).wake_all(cx.host, cx.cpu());
    }
}

/// What a task is stalled on that waits for a page lock: a device, and memory too if the page is read that was reclaimed
/// from a working set (rules/pressure#memory).
fn lock_stalls<'a, H: Devices>(
    cx: &Cx<'a, H>,
    page: &Page,
) -> (StallScope<'a, H>, Option<StallScope<'a, H>>) {
    let is_back = !page.is(PageFlags::UPTODATE) && page.is(PageFlags::WORKINGSET);
    (cx.stall(Stall::Io), is_back.then(|| cx.stall(Stall::Memory)))
}
