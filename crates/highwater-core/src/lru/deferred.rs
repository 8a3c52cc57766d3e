//! Folios on the deferred split queue (rules/huge-pages#deferred-split).
//!
//! Part of a huge page was unmapped, so the folio holds unused memory. Splitting it at once would
//! often be wasted work, because usually all of it is being unmapped, page by page. So it is queued
//! on its node, and reclaim splits queued folios when memory is short.
//!
//! A folio is on its node's queue while it has the flag [`PageFlags::DEFERRED`]. It is linked
//! through its *second* frame, because its head is on an LRU list. The queue holds no reference, so
//! freeing a folio takes it off the queue first.
//!
//! Synchronisation: a queue and the flags of those on it are behind the queue's lock (`Table`
//! class).

use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};
use crate::vmstat::VmEvent;
use crate::zone::NodeId;

/// The frame that links a folio.
fn link(folio: Folio) -> Pfn {
    folio.pfn().add(1)
}

impl<H: Devices> Kernel<H> {
    /// Queues a partly unmapped huge page for the shrinker that splits it, unless it is queued
    /// already. Each queueing counts. A folio on its way to swap is not queued, because reclaim
    /// unmaps all of it.
    #[doc(alias = "deferred_split_folio")]
    #[doc(alias = "deferred_split_huge_page")]
    pub(crate) fn queue_split(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.flags().intersects(PageFlags::DEFERRED | PageFlags::SWAPCACHE) {
            return;
        }
        if self.requeue_split(cx, folio) {
            self.mem.events.add(cx.cpu(), VmEvent::ThpDeferredSplitPage, 1);
        }
    }

    /// As [`Self::queue_split`], of one that was counted before; false if it was queued.
    pub(crate) fn requeue_split(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let mut queue = self.lru.deferred[page.node().idx()].lock(cx.cpu());
        let is_new = !page.flag_test_set::<H>(PageFlags::DEFERRED);
        if is_new {
            queue.push_tail(&self.mem.map, link(folio));
        }
        is_new
    }

    /// Takes a folio off its queue; true if it was on it.
    pub(crate) fn unqueue_split(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if !page.is(PageFlags::DEFERRED) {
            return false;
        }
        let mut queue = self.lru.deferred[page.node().idx()].lock(cx.cpu());
        let was_queued = page.flag_test_clear::<H>(PageFlags::DEFERRED);
        if was_queued {
            queue.remove(&self.mem.map, link(folio));
        }
        was_queued
    }

    /// Folios on a node's queue.
    pub(crate) fn nr_deferred(&self, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        self.lru.deferred[node.idx()].lock(cx.cpu()).len().into()
    }

    /// Takes the first folio off a node's queue, with a reference for the caller. Skips folios that
    /// are being freed.
    pub(crate) fn next_deferred(&self, cx: &Cx<'_, H>, node: NodeId) -> Option<Folio> {
        let mut queue = self.lru.deferred[node.idx()].lock(cx.cpu());
        while let Some(second) = queue.pop_head(&self.mem.map) {
            let (folio, page) = self.mem.map.lookup(second);
            page.flag_clear::<H>(PageFlags::DEFERRED);
            if page.try_get::<H>() {
                return Some(folio);
            }
        }
        None
    }
}
