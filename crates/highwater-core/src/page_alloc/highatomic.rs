//! The reserve of pageblocks for atomic high-order requests (rules/buddy#highatomic-reserve).

use super::{Buddy, PageAllocator, Request};
use crate::host::{Cx, Host, Lock, Probe};
use crate::page::{MigrateType, Order, PAGEBLOCK_PAGES, Pfn};
use crate::zone::Zone;

impl<P: Probe> Buddy<'_, P> {
    /// Sets the pageblock of a fresh high-atomic page aside, if the reserve is not full.
    fn reserve_pageblock(&mut self, pfn: Pfn) {
        let reserved = self.zone.nr_reserved_highatomic();
        let limit = self.zone.managed() / 100 + PAGEBLOCK_PAGES;
        if reserved >= limit || !self.zone.pageblock_type(pfn).is_mergeable() {
            return;
        }
        self.zone.set_reserved_highatomic(reserved + PAGEBLOCK_PAGES);
        self.zone.set_pageblock_type(pfn, MigrateType::HighAtomic);
        self.move_pageblock(pfn, MigrateType::HighAtomic, true);
    }

    /// Gives one pageblock back to `migratetype`; true if that freed any page.
    fn unreserve_pageblock(&mut self, migratetype: MigrateType) -> bool {
        for order in 0..=Order::MAX.0 {
            let head = self.area.lists[order as usize][MigrateType::HighAtomic.idx()].head();
            let Some(pfn) = head else { continue };
            if self.zone.pageblock_type(pfn) == MigrateType::HighAtomic {
                let reserved = self.zone.nr_reserved_highatomic();
                self.zone.set_reserved_highatomic(reserved - PAGEBLOCK_PAGES.min(reserved));
            }
            self.zone.set_pageblock_type(pfn, migratetype);
            if self.move_pageblock(pfn, migratetype, true).is_some_and(|(free, _)| free > 0) {
                return true;
            }
        }
        false
    }
}

impl<H: Host> PageAllocator<H> {
    /// After a successful high-atomic allocation from `zone`.
    pub(super) fn reserve_highatomic(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pfn: Pfn) {
        // Cheap look first: most of the time the reserve is full or the block belongs to it.
        let limit = zone.managed() / 100 + PAGEBLOCK_PAGES;
        if zone.nr_reserved_highatomic() >= limit {
            return;
        }
        let mut area = zone.free.lock(cx.cpu());
        self.buddy(cx, zone, &mut area).reserve_pageblock(pfn);
    }

    /// Gives reserved pageblocks of the request's zones back when memory is short. Unless `force`,
    /// each zone keeps its last one. True if pages became free.
    pub(super) fn unreserve_highatomic(
        &self,
        cx: &Cx<'_, H>,
        req: &Request<'_>,
        force: ForceUnreserve,
    ) -> bool {
        for (_, entry) in req.candidates() {
            let zone = self.zone_at(entry);
            let keep = force == ForceUnreserve::No;
            if keep && zone.nr_reserved_highatomic() <= PAGEBLOCK_PAGES {
                continue;
            }
            let mut area = zone.free.lock(cx.cpu());
            if self.buddy(cx, zone, &mut area).unreserve_pageblock(req.migratetype) {
                return true;
            }
        }
        false
    }
}

/// May the last reserved pageblock of a zone go too?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForceUnreserve {
    /// Keep it.
    No,
    /// Give it back.
    Yes,
}
