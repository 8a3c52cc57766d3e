//! Where the scanners are, and which pageblocks they leave out (rules/compaction#positions,
//! rules/compaction#skip-bits).

use super::run::{FastStart, Run, block_end, block_of};
use super::state::ZoneState;
use crate::config::FlushRule;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::migrate::Mode;
use crate::page::{BlockFlags, MigrateType, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, PageFlags, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::zone::Zone;

const PB: u32 = PAGEBLOCK_PAGES as u32;
/// Frames of a pageblock that are looked at before its skip bit is cleared: every eighth.
const SAMPLE: usize = 8;

impl<H: Devices> Run<'_, H> {
    /// Sets both positions: the ends of the zone, or where the last run was.
    pub(super) fn begin(&mut self) {
        let (start, last_block) = ends(self.zone);
        if self.goal.whole_zone {
            (self.migrate_pfn, self.free_pfn) = (start, last_block);
            return;
        }
        let is_inside = |pfn: u32| self.zone.spans(Pfn(pfn));
        let slot = ZoneState::slot(self.goal.mode);
        let state = self.state;
        self.migrate_pfn = state.cached_migrate[slot].load(Relaxed);
        self.free_pfn = state.cached_free.load(Relaxed);
        if !is_inside(self.free_pfn) {
            self.free_pfn = last_block;
            state.cached_free.store(last_block, Relaxed);
        }
        if !is_inside(self.migrate_pfn) {
            self.migrate_pfn = start;
            state.cached_migrate.iter().for_each(|cached| cached.store(start, Relaxed));
        }
        // Up to 5.0 runs over a whole zone are not distinguished.
        if !self.is_plain() && self.migrate_pfn <= state.init_migrate.load(Relaxed) {
            self.goal.whole_zone = true;
        }
    }

    /// Reports whether both scanners are in the same pageblock, or past each other.
    #[doc(alias = "compact_scanners_met")]
    pub(super) const fn have_met(&self) -> bool {
        have_met(self.migrate_pfn, self.free_pfn)
    }

    /// Records that the pageblock that ends at `pfn` is finished: the next run continues after it.
    /// A quirk of 6.1: it continues one pageblock later, because the passed value is already an
    /// end.
    ///
    /// Linux: same name.
    pub(super) fn update_cached_migrate(&self, pfn: u32) {
        self.remember_migrate(block_end(pfn));
    }

    /// The next run goes on here.
    pub(super) fn remember_migrate(&self, next: u32) {
        let slots = if self.goal.mode == Mode::Async { 1 } else { 2 };
        for cached in &self.state.cached_migrate[..slots] {
            cached.store(cached.load(Relaxed).max(next), Relaxed);
        }
    }

    /// A pageblock that begins at `block` has no more targets.
    pub(super) fn update_cached_free(&self, block: u32) {
        let cached = &self.state.cached_free;
        cached.store(cached.load(Relaxed).min(block), Relaxed);
    }

    /// A search found a source at `pfn`.
    pub(super) fn note_fast_start(&mut self, pfn: u32) {
        self.fast_start = match self.fast_start {
            FastStart::Unset => FastStart::At(pfn),
            FastStart::At(lowest) => FastStart::At(lowest.min(pfn)),
            FastStart::Used => FastStart::Used,
        };
    }

    /// Searches find nothing any more: goes back, once, to the lowest source that they found,
    /// because the searches skipped much in between.
    pub(super) fn back_to_fast_start(&mut self) {
        if let FastStart::At(pfn) = self.fast_start {
            self.migrate_pfn = pfn;
            self.fast_start = FastStart::Used;
        }
    }
}

/// Are two positions in the same pageblock, or past each other?
pub(super) const fn have_met(migrate: u32, free: u32) -> bool {
    free >> PAGEBLOCK_ORDER <= migrate >> PAGEBLOCK_ORDER
}

/// A zone's first frame and its last pageblock.
pub(super) fn ends<H: Devices>(zone: &Zone<H>) -> (u32, u32) {
    (zone.start.0, block_of(zone.end.0 - 1))
}

impl<H: Devices> Kernel<H> {
    /// Forgets the skip bits of a node's zones that were scanned to the end, when kswapd goes to
    /// sleep.
    #[doc(alias = "reset_isolation_suitable")]
    pub(crate) fn reset_compaction(&self, cx: &Cx<'_, H>, node: crate::units::NodeId) {
        if self.compacts() {
            for zone in self.mem.zones_of(node) {
                if self.compaction.zone(zone.id()).flush_pending.load(Relaxed) {
                    self.flush_skip_bits(cx, zone);
                }
            }
        }
    }

    /// Clears a zone's skip bits and cached scanner positions, as far as the policy says
    /// (rules/compaction#flush).
    #[doc(alias = "__reset_isolation_suitable")]
    pub(super) fn flush_skip_bits(&self, cx: &Cx<'_, H>, zone: &Zone<H>) {
        match self.mem.policy.compaction.flush {
            FlushRule::All => self.flush_all(zone),
            FlushRule::Sampled => self.flush_sampled(cx, zone),
        }
    }

    /// Clears every skip bit; the scanners begin at the zone's ends.
    fn flush_all(&self, zone: &Zone<H>) {
        let state = self.compaction.zone(zone.id());
        state.flush_pending.store(false, Relaxed);
        for block in (block_of(zone.start.0)..zone.end.0).step_by(PB as usize) {
            zone.set_pageblock_skip(Pfn(block.max(zone.start.0)), false);
        }
        let (start, last_block) = ends(zone);
        state.reset(Pfn(start), Pfn(last_block));
    }

    /// Clears the skip bits of pageblocks that seem to have something by now, and begins there: the lowest one with
    /// a page that could be moved, and the highest one with a free block.
    fn flush_sampled(&self, cx: &Cx<'_, H>, zone: &Zone<H>) {
        let state = self.compaction.zone(zone.id());
        if !state.flush_pending.swap(false, Relaxed) {
            return;
        }
        let (mut low, mut high) = (zone.start.0, zone.end.0 - 1);
        // Movable pages lie below, free frames above: the bounds of those found.
        let (mut source, mut target) = (None, None);
        let (mut low_result, mut high_result) = (high, low);
        while low < high {
            if self.reset_block(zone, low, true, source.is_some()) && source.is_none() {
                source = Some(low);
                low_result = low;
                state.init_migrate.store(low, Relaxed);
                state.cached_migrate.iter().for_each(|cached| cached.store(low, Relaxed));
            }
            if self.reset_block(zone, high, target.is_some(), true) && target.is_none() {
                target = Some(high);
                high_result = high;
                state.init_free.store(high, Relaxed);
                state.cached_free.store(high, Relaxed);
            }
            low = block_end(low);
            high = high.saturating_sub(PB);
            if low.is_multiple_of(PB * 32) {
                cx.host.yield_now();
            }
        }
        if low_result >= high_result {
            state.cached_migrate.iter().for_each(|cached| cached.store(low, Relaxed));
            state.cached_free.store(high, Relaxed);
        }
    }

    /// Clears the skip bit of the pageblock around a frame if a sample of it has a source or a
    /// target, whichever is asked for. Returns true if it has, or if the bit is clear and both are
    /// asked for.
    ///
    /// Linux 5.1 on.
    #[doc(alias = "__reset_isolation_pfn")]
    fn reset_block(&self, zone: &Zone<H>, pfn: u32, as_source: bool, as_target: bool) -> bool {
        let map = &self.mem.map;
        let block = block_of(pfn).max(zone.start.0);
        let end = block_end(block).min(zone.end.0);
        let head = map.block(Pfn(block));
        if head.zone_id() != zone.id() || is_huge(map.page(Pfn(block))) {
            return false;
        }
        if as_source && as_target && !zone.pageblock_skip(Pfn(block)) {
            return true;
        }
        if !as_source && zone.pageblock_type(Pfn(block)) != MigrateType::Movable {
            return false;
        }
        let is_useful = |pfn: u32| {
            let (page, is_free) = (map.page(Pfn(pfn)), map.block(Pfn(pfn)).has(BlockFlags::BUDDY));
            (as_source && page.is(PageFlags::LRU) && !is_free) || (as_target && is_free)
        };
        let found = (block..end).step_by(SAMPLE).any(is_useful);
        if found {
            zone.set_pageblock_skip(Pfn(block), false);
        }
        found
    }
}

/// Part of a folio as large as a pageblock.
pub(super) fn is_huge(page: &crate::page::Page) -> bool {
    let word = page.block();
    let is_compound = word.has(BlockFlags::HEAD) || word.has(BlockFlags::TAIL);
    is_compound && word.order().0 >= PAGEBLOCK_ORDER
}
