//! Searches free lists for a place to scan (rules/compaction#search).
//!
//! A pageblock with a free block needs few pages moved. The free lists know these pageblocks, and
//! reading the first entries of a few lists is cheaper than scanning frames. A found entry goes to
//! the other end of its list, so the next search finds others.

use super::run::{Run, block_of};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::migrate::{Frames, Mode};
use crate::page::{MigrateType, Order, PAGEBLOCK_PAGES, PageList, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::FreeArea;

const PB: u32 = PAGEBLOCK_PAGES as u32;
/// Entries of a search for targets after both positions were reset: then it is worth a longer look.
const LIMIT_AT_START: u32 = PB / 2;

/// Limits the entries that a search of the free lists looks at, fewer after searches that found
/// nothing.
///
/// Linux 5.1 on.
#[doc(alias = "freelist_scan_limit")]
pub(super) const fn limit(fast_fail: u32) -> u32 {
    let shift = if fast_fail < 31 { fast_fail } else { 31 };
    (32 >> shift) + 1
}

/// The same for targets.
pub(super) const fn target_limit(fast_fail: u32) -> u32 {
    let half = limit(fast_fail) / 2;
    if half == 0 { 1 } else { half }
}

/// First frame that a search for sources does not go to.
pub(super) const fn source_bound(zone_start: u32, migrate: u32, free: u32) -> u32 {
    let distance = (free - migrate) / 2;
    let distance = if migrate == zone_start { distance } else { distance / 4 };
    block_of(migrate + distance)
}

/// The lowest frames that a search for targets prefers, and accepts.
pub(super) const fn target_bounds(migrate: u32, free: u32) -> (u32, u32) {
    let distance = free.saturating_sub(migrate);
    (block_of(free - distance / 4), block_of(free - distance / 2))
}

fn movable(area: &mut FreeArea, order: Order) -> &mut PageList {
    &mut area.lists[order.idx()][MigrateType::Movable.idx()]
}

impl<H: Devices> Kernel<H> {
    /// Chooses where to look for sources: a pageblock found by the free lists, or the scanner's
    /// position.
    ///
    /// Linux 5.1 on.
    #[doc(alias = "fast_find_migrateblock")]
    pub(super) fn search_source(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>) -> u32 {
        let goal = run.goal;
        let zone = run.zone;
        let Some(order) = goal.order.filter(|order| order.is_costly()) else {
            return run.migrate_pfn;
        };
        let is_at_start = run.migrate_pfn == zone.start.0 || run.migrate_pfn.is_multiple_of(PB);
        let serves = !goal.direct || goal.migratetype == MigrateType::Movable;
        if goal.ignore_skip || !is_at_start || !serves || run.free_pfn <= run.migrate_pfn {
            return run.migrate_pfn;
        }
        let bound = source_bound(zone.start.0, run.migrate_pfn, run.free_pfn);
        let limit = limit(run.fast_fail);
        let (mut scanned, mut found) = (0, None);
        for at in (Order::COSTLY.0..order.0).rev() {
            if found.is_some() || scanned >= limit {
                break;
            }
            let mut area = zone.free.lock(cx.cpu());
            let list = movable(&mut area, Order(at));
            for pfn in list.iter(&self.mem.map) {
                scanned += 1;
                let is_wanted = pfn.0 < bound && !zone.pageblock_skip(pfn);
                if is_wanted || scanned >= limit {
                    list.rotate_after(&self.mem.map, pfn);
                }
                if is_wanted {
                    found = Some(pfn);
                }
                if is_wanted || scanned >= limit {
                    break;
                }
            }
        }
        run.migrate_scanned += u64::from(scanned);
        cx.charge(Cost::CompactScan, scanned);
        match found {
            Some(pfn) => {
                run.note_fast_start(pfn.0);
                run.fast_fail = 0;
                zone.set_pageblock_skip(pfn, true);
                block_of(pfn.0).max(zone.start.0)
            }
            None => {
                run.fast_fail += 1;
                run.back_to_fast_start();
                run.migrate_pfn
            }
        }
    }

    /// Takes a free block off the free lists as target, preferably from the zone's upper end, and
    /// free blocks around it.
    ///
    /// Linux 5.1 on.
    #[doc(alias = "fast_isolate_freepages")]
    pub(super) fn search_targets(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'_, H>,
        wanted: u32,
        targets: &mut Frames,
    ) {
        let Some(order) = run.goal.order.filter(|order| order.0 > 0) else { return };
        let is_starting = run.free_pfn >= run.state.init_free.load(Relaxed);
        let mut limit = match is_starting {
            true => LIMIT_AT_START,
            false => target_limit(run.fast_fail),
        };
        let (preferred, accepted) = target_bounds(run.migrate_pfn, run.free_pfn);
        let (mut highest, mut scanned, mut found) = (0, 0, None);
        let mut at = Some(run.search_order);
        while let Some(here) = at {
            let mut area = run.zone.free.lock(cx.cpu());
            let look = self.look_for_target(&mut area, Order(here), preferred, accepted, limit);
            scanned += look.scanned;
            highest = highest.max(look.highest);
            limit = look.limit;
            if look.is_preferred {
                run.fast_fail = 0;
                run.search_order = here;
            }
            if let Some(pfn) = look.found {
                let size = self.mem.map.page(pfn).order();
                if !self.mem.buddy(cx, run.zone, &mut area).isolate(pfn) {
                    // The zone can spare nothing.
                    break;
                }
                drop(area);
                scanned += size.pages() as u32 - 1;
                self.add_targets(cx, pfn, size, targets);
                found = Some(pfn);
                break;
            }
            drop(area);
            if look.scanned >= limit {
                limit = (limit / 2).max(1);
            }
            at = run.next_search_order(here, order);
        }
        if found.is_none() {
            run.fast_fail += 1;
            if is_starting {
                if highest >= accepted {
                    run.free_pfn = highest;
                } else if run.goal.direct {
                    run.free_pfn = accepted;
                }
            }
        }
        let cached = &run.state.cached_free;
        if highest != 0 && highest >= cached.load(Relaxed) {
            cached.store(highest.saturating_sub(PB).max(run.zone.start.0), Relaxed);
        }
        run.free_scanned += u64::from(scanned);
        cx.charge(Cost::CompactScan, scanned);
        let Some(pfn) = found else { return };
        let is_hasty = run.goal.direct && run.goal.mode == Mode::Async;
        if targets.pages() < wanted && !is_hasty {
            let (start, end) = (block_of(pfn.0).max(run.zone.start.0), block_of(pfn.0) + PB);
            let end = end.min(run.zone.end.0);
            let taken = self.take_free(cx, run, (start, end), (1, u32::MAX), targets);
            if targets.pages() < wanted || taken.at >= end {
                run.zone.set_pageblock_skip(pfn, true);
            }
        }
    }

    /// Looks at the last entries of one list.
    fn look_for_target(
        &self,
        area: &mut FreeArea,
        order: Order,
        preferred: u32,
        accepted: u32,
        mut limit: u32,
    ) -> Look {
        let map = &self.mem.map;
        let list = movable(area, order);
        let mut look = Look::default();
        let mut second_best: u32 = 0;
        let mut last = None;
        for pfn in list.iter_back(map) {
            look.scanned += 1;
            last = Some(pfn);
            look.highest = look.highest.max(block_of(pfn.0));
            if pfn.0 >= preferred {
                look.found = Some(pfn);
                look.is_preferred = true;
                break;
            }
            if pfn.0 >= accepted && pfn.0 > second_best {
                second_best = pfn.0;
                limit = (limit / 2).max(1);
            }
            if look.scanned >= limit {
                break;
            }
        }
        if look.found.is_none() && second_best != 0 {
            look.found = Some(Pfn(second_best));
        }
        if let Some(pfn) = last {
            list.rotate_to(map, pfn);
        }
        look.limit = limit;
        look
    }
}

/// The result of searching a list.
#[derive(Default)]
struct Look {
    scanned: u32,
    /// First frame of the highest pageblock seen.
    highest: u32,
    found: Option<Pfn>,
    is_preferred: bool,
    /// Entries for the next list.
    limit: u32,
}

impl<H: Devices> Run<'_, H> {
    /// Returns the next order to search, or `None` after all. The next search then starts one order
    /// lower.
    ///
    /// Linux 5.1 on: same name.
    fn next_search_order(&mut self, here: u8, order: Order) -> Option<u8> {
        let top = order.0 - 1;
        let below = |order: u8| order.checked_sub(1).unwrap_or(top);
        let next = below(here);
        if next == self.search_order {
            self.search_order = below(self.search_order);
            return None;
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_get_shorter() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(limit), [33, 17, 9, 5, 3, 2, 1]);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(target_limit), [16, 8, 4, 2, 1, 1, 1]);
        assert_eq!(limit(1000), 1);
    }

    #[test]
    fn searches_keep_to_their_end_of_the_zone() {
        let (start, free) = (0x10000, 0x50000);
        assert_eq!(source_bound(start, start, free), 0x30000);
        assert_eq!(source_bound(start, 0x12000, free), 0x19c00);
        assert_eq!(target_bounds(start, free), (0x40000, 0x30000));
    }
}
