//! The reserve of pageblocks for atomic high-order requests (rules/buddy#highatomic-reserve).
//!
//! An atomic request above order 0 needs a contiguous block at once. Reclaim and compaction are too
//! slow for it, and watermarks do not help, because they count pages and not blocks. Up to 4.3 the
//! marks were halved with each order, so that a few larger blocks were always left. That refused
//! many requests which a free block could have served. Since 4.5 such requests have reserved
//! pageblocks instead, made *on demand*. The first request that succeeds reserves the pageblock of
//! its page, and the pages around it are kept for the next one. A machine without such requests has
//! no such reserve.
//!
//! | | |
//! |---|---|
//! | grows | after each successful request with HIGHATOMIC that was served from elsewhere |
//! | up to | 1 % of the zone and a pageblock, which the last pageblock may exceed; since 6.8: 1 % of the zone, rounded up to whole pageblocks |
//! | refills itself | pages freed from its pageblocks go back to HighAtomic lists |
//! | shrinks | pageblock by pageblock, when the slow path finds nothing |
//!
//! For all other requests, watermark tests subtract the *whole* reserved pageblocks, including
//! pages in use or on per-CPU lists. That is strict but cheap: one number per zone, instead of free
//! counts by type at every split and merge. Since 6.13 they subtract the free pages of the reserve.
//!
//! Synchronisation: the reserved count and the types of pageblocks change under the zone lock;
//! watermark tests read the count without.
//!
//! From: [`super::fast`] (grows), [`super::slow`] (shrinks) · to: [`super::fallback`] (moves
//! pageblocks).

use super::{Buddy, PageAllocator, Request};
use crate::config::HighatomicLimit;
use crate::host::{Cx, Host, Lock, Probe};
use crate::page::{MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn};
use crate::zone::Zone;

impl<P: Probe> Buddy<'_, P> {
    /// Sets the pageblock of a fresh high-atomic page aside, if the reserve is not full.
    ///
    /// The limit is asked again here: others may have reserved since it was asked without the lock. A
    /// page that came from the reserve lies in a pageblock that is not mergeable: nothing more is set
    /// aside for it.
    fn reserve_pageblock(&mut self, pfn: Pfn, order: Order) {
        let reserved = self.zone.nr_reserved_highatomic();
        let limit = limit(self.policy.highatomic_limit, self.zone.managed());
        if reserved >= limit || !self.zone.pageblock_type(pfn).is_mergeable() {
            return;
        }
        let pages = self.reserve_unit(order);
        let moves_first = self.policy.highatomic_limit == HighatomicLimit::RoundedUp
            && order < Order(PAGEBLOCK_ORDER);
        // A pageblock that reaches out of the zone is left alone.
        if moves_first && self.move_pageblock(pfn, MigrateType::HighAtomic, true).is_none() {
            return;
        }
        self.zone.set_reserved_highatomic(reserved + pages);
        self.set_pageblock_types(pfn, pages, MigrateType::HighAtomic);
        if !moves_first {
            self.move_pageblock(pfn, MigrateType::HighAtomic, true);
        }
    }

    /// Pages that the reserve grows or shrinks by for a block.
    fn reserve_unit(&self, order: Order) -> u64 {
        match self.policy.highatomic_limit {
            HighatomicLimit::Exceeded => PAGEBLOCK_PAGES,
            HighatomicLimit::RoundedUp => PAGEBLOCK_PAGES.max(order.pages()),
        }
    }

    /// Sets the types of the pageblocks of an aligned block.
    #[doc(alias = "change_pageblock_range")]
    fn set_pageblock_types(&self, pfn: Pfn, pages: u64, migratetype: MigrateType) {
        for block in (0..pages).step_by(PAGEBLOCK_PAGES as usize) {
            self.zone.set_pageblock_type(pfn.add(block as u32), migratetype);
        }
    }

    /// Gives one pageblock back to `migratetype`; true if that freed any page.
    ///
    /// It is found by its free blocks, because a reserved pageblock without any does not help a
    /// request that is short of memory. A block on a HighAtomic list need not lie in a reserved
    /// pageblock (it may have been freed to its remembered type), so the count falls only for a
    /// reserved pageblock.
    ///
    /// The pageblock takes the type of the request that is short of memory, which will fill it.
    fn unreserve_pageblock(&mut self, migratetype: MigrateType) -> bool {
        for order in 0..=Order::MAX.0 {
            let head = self.area.lists[order as usize][MigrateType::HighAtomic.idx()].head();
            let Some(pfn) = head else { continue };
            if self.zone.pageblock_type(pfn) == MigrateType::HighAtomic {
                let reserved = self.zone.nr_reserved_highatomic();
                let pages = self.reserve_unit(Order(order));
                self.zone.set_reserved_highatomic(reserved - pages.min(reserved));
            }
            self.set_pageblock_types(pfn, self.reserve_unit(Order(order)), migratetype);
            if self.move_pageblock(pfn, migratetype, true).is_some_and(|(free, _)| free > 0) {
                return true;
            }
        }
        false
    }
}

impl<H: Host> PageAllocator<H> {
    /// Reserves the pageblock of a successful high-order atomic allocation from `zone`, up to a
    /// limit.
    ///
    /// Linux 4.4 on.
    #[doc(alias = "reserve_highatomic_pageblock")]
    pub(super) fn reserve_highatomic(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        pfn: Pfn,
        order: Order,
    ) {
        // Cheap look first: most of the time the reserve is full or the block belongs to it.
        if zone.nr_reserved_highatomic() >= limit(self.policy.highatomic_limit, zone.managed()) {
            return;
        }
        let mut area = zone.free.lock(cx.cpu());
        self.buddy(cx, zone, &mut area).reserve_pageblock(pfn, order);
    }

    /// Gives reserved pageblocks of the request's zones back when memory is short. Unless `force`,
    /// each zone keeps its last one. True if pages became free.
    ///
    /// Linux 4.4 on.
    ///
    /// One pageblock a call: the caller tries again after it, and the rest of the reserve stays.
    #[doc(alias = "unreserve_highatomic_pageblock")]
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

/// Reserved pages from which on a zone reserves no more (rules/buddy#highatomic-limit).
fn limit(rule: HighatomicLimit, managed: u64) -> u64 {
    let share = managed / 100;
    match rule {
        HighatomicLimit::Exceeded => share + PAGEBLOCK_PAGES,
        HighatomicLimit::RoundedUp if share < PAGEBLOCK_PAGES => 0,
        HighatomicLimit::RoundedUp => share.next_multiple_of(PAGEBLOCK_PAGES),
    }
}

/// May the last reserved pageblock of a zone go too? After a reclaim that made progress it may not:
/// there is hope, and an interrupt has none. When nothing else is left it goes: better than to kill for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForceUnreserve {
    /// Keep it.
    No,
    /// Give it back.
    Yes,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/buddy#highatomic-limit.
    #[test]
    fn the_limit_is_a_hundredth_in_pageblocks() {
        let [old, new] = [HighatomicLimit::Exceeded, HighatomicLimit::RoundedUp];
        assert_eq!(limit(old, 241_529), 2927);
        assert_eq!([51_199, 51_200, 241_529].map(|managed| limit(new, managed)), [0, 512, 2560]);
    }
}
