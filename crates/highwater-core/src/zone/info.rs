//! The part of a zone that needs no lock: span, marks, reserves, counters, pageblock types.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bitflags::bitflags;
use crossbeam_utils::CachePadded;

use super::high_atomic::HighatomicPages;
use super::pcp_sizes::PcpSizes;
use super::quick::QuickMarks;
use super::watermark::{self, Marks};
use super::{AllocFlags, NodeId, ZoneId, ZoneType};
use crate::config::{MinReserveRule, WatermarkTest};
use crate::host::CpuId;
use crate::page::{
    BlockWord, MAX_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn,
};
use crate::sync::atomic::{
    AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::vmstat::{StatSet, ZoneStat};

bitflags! {
    /// Zone state bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ZoneFlags: u32 {
        /// A boost happened; the next allocation wakes kswapd (rules/watermarks#boost).
        const BOOSTED_WATERMARK = 1;
        /// kswapd balances this zone: per-CPU lists keep less (rules/per-cpu-lists#limit).
        const RECLAIM_ACTIVE = 2;
        /// 4.3: this round's fair share is used up (rules/allocation#fair-zones).
        const FAIR_DEPLETED = 4;
        /// The last free block of a pageblock or more was split; the next allocation prompts kcompactd.
        const BROKEN_UP = 8;
        /// A request found the zone below its high mark, and no drain has found it above since:
        /// per-CPU lists that tune themselves do not grow (rules/per-cpu-lists#below-high).
        const BELOW_HIGH = 16;
    }
}

/// Which mark a check uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mark {
    /// Minimum.
    Min = 0,
    /// Wakes kswapd.
    Low = 1,
    /// kswapd's target.
    High = 2,
}

const TYPE_MASK: u8 = 0x7;
const SKIP_BIT: u8 = 0x8;

/// Counts of the free lists, for readers without the lock. They have separate cache lines: refills
/// write them while the watermark tests of all CPUs read the rest of the zone.
#[derive(Default)]
struct FreeBlocks {
    /// Blocks of each order.
    nr_free: [AtomicU32; MAX_ORDER],
    /// Bit `t` of `types[o]`: the list of order `o` and type `t` is not empty.
    types: [AtomicU8; MAX_ORDER],
}

/// A zone without its free lists: marks, reserves, counters, pageblock types.
///
/// Synchronisation: marks, reserves and sizes change under the allocator's set-up and sysctl
/// paths only; `nr_free`, `types` and pageblock types under the zone lock; readers are lock-free.
#[doc(alias = "zone")]
pub struct ZoneInfo {
    /// Node.
    pub node: NodeId,
    /// Zone type.
    pub zone: ZoneType,
    /// First frame.
    pub start: Pfn,
    /// One past the last frame.
    pub end: Pfn,
    /// Spanned minus holes.
    pub present: u64,
    /// Mobility grouping is on (the machine is not tiny).
    pub grouping: bool,
    /// Zone counters.
    pub stats: StatSet<{ ZoneStat::COUNT }>,
    managed: AtomicU64,
    marks: [AtomicU64; 4],
    /// Kept if the fast test is one of these sums.
    above_low: QuickMarks,
    /// The mark in these sums, plus 1; 0: they are not kept.
    above_mark: AtomicU8,
    boost: AtomicU64,
    reserve: [AtomicU64; 5],
    drift_mark: AtomicU64,
    flags: AtomicU32,
    pub(super) highatomic: HighatomicPages,
    pcp: PcpSizes,
    blocks: CachePadded<FreeBlocks>,
    pageblocks: Box<[AtomicU8]>,
    /// The CPU that owns a pageblock, plus 1; 0: none.
    owners: Box<[AtomicU16]>,
    first_pageblock: u32,
    /// The place in the words of the allocator's frames in this zone.
    pub(crate) place: u32,
    boost_factor: AtomicU64,
    /// 4.3 fair allocation: pages left in this round.
    pub(crate) alloc_batch: AtomicI64,
    /// Pages that reclaim looked at since one came free (rules/kswapd#zone-reclaimable).
    scanned: AtomicU64,
}

impl ZoneInfo {
    /// A zone of frames `start..end` with nothing managed yet; all pageblocks movable, or
    /// unmovable if grouping is off.
    pub fn new(
        node: NodeId,
        zone: ZoneType,
        start: Pfn,
        end: Pfn,
        present: u64,
        nr_cpus: usize,
        grouping: bool,
    ) -> ZoneInfo {
        let first_pageblock = start.0 >> PAGEBLOCK_ORDER;
        let nr_blocks = ((end.0 - 1) >> PAGEBLOCK_ORDER) - first_pageblock + 1;
        let initial = if grouping { MigrateType::Movable } else { MigrateType::Unmovable };
        let blocks: Vec<_> = (0..nr_blocks).map(|_| AtomicU8::new(initial as u8)).collect();
        ZoneInfo {
            node,
            zone,
            start,
            end,
            present,
            grouping,
            stats: StatSet::new(nr_cpus),
            managed: AtomicU64::new(0),
            marks: [const { AtomicU64::new(0) }; 4],
            above_low: QuickMarks::new(),
            above_mark: AtomicU8::new(0),
            boost: AtomicU64::new(0),
            reserve: [const { AtomicU64::new(0) }; 5],
            drift_mark: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            highatomic: HighatomicPages::default(),
            pcp: PcpSizes::new(),
            blocks: CachePadded::default(),
            pageblocks: blocks.into_boxed_slice(),
            owners: (0..nr_blocks).map(|_| AtomicU16::new(0)).collect(),
            first_pageblock,
            place: BlockWord::managed_place(node, zone),
            boost_factor: AtomicU64::new(0),
            alloc_batch: AtomicI64::new(0),
            scanned: AtomicU64::new(0),
        }
    }

    /// Its number.
    pub fn id(&self) -> ZoneId {
        ZoneId::new(self.node, self.zone)
    }

    /// End minus start.
    pub fn spanned(&self) -> u64 {
        u64::from(self.end.0 - self.start.0)
    }

    /// True if the frame lies in the zone's span.
    #[inline(always)]
    pub fn spans(&self, pfn: Pfn) -> bool {
        (self.start..self.end).contains(&pfn)
    }

    /// Pages handed to the allocator so far.
    #[inline(always)]
    pub fn managed(&self) -> u64 {
        self.managed.load(Relaxed)
    }

    /// Counts pages handed to the allocator (boot, released init memory).
    pub fn add_managed(&self, pages: u64) {
        self.managed.fetch_add(pages, Relaxed);
    }

    /// Free pages, plain read (per-CPU differences ignored).
    #[inline(always)]
    pub fn nr_free_pages(&self) -> u64 {
        self.stats.read(ZoneStat::FreePages as usize)
    }

    /// Free pages, differences included.
    pub fn nr_free_pages_exact(&self) -> u64 {
        self.stats.read_exact(ZoneStat::FreePages as usize)
    }

    #[inline(always)]
    pub(crate) fn add_free(&self, cpu: CpuId, pages: i64) {
        self.stats.add(cpu, ZoneStat::FreePages as usize, pages);
    }

    /// So many blocks are free, one after the other.
    #[inline(always)]
    pub(crate) fn add_free_blocks(&self, cpu: CpuId, order: Order, blocks: u32) {
        self.stats.add_often(cpu, ZoneStat::FreePages as usize, order.0, blocks);
    }

    /// Reclaim scanned this many of the zone's pages.
    pub(crate) fn note_scanned(&self, pages: u64) {
        self.scanned.store(self.scanned.load(Relaxed) + pages, Relaxed);
    }

    /// A page came free: reclaim is of use here.
    #[inline(always)]
    pub(crate) fn note_freed(&self) {
        if self.scanned.load(Relaxed) != 0 {
            self.scanned.store(0, Relaxed);
        }
    }

    /// Pages that reclaim looked at since one came free.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned.load(Relaxed)
    }

    /// A mark with the boost in force.
    #[inline(always)]
    pub fn mark(&self, mark: Mark) -> u64 {
        self.marks[mark as usize].load(Relaxed) + self.boost.load(Relaxed)
    }

    /// The marks without boost.
    pub fn marks(&self) -> Marks {
        let m = |i: usize| self.marks[i].load(Relaxed);
        Marks { min: m(0), low: m(1), high: m(2), promo: m(3) }
    }

    /// Sets the marks; a rebuild clears the boost.
    pub fn set_marks(&self, m: &Marks) {
        for (slot, value) in self.marks.iter().zip([m.min, m.low, m.high, m.promo]) {
            slot.store(value, Relaxed);
        }
        self.boost.store(0, Relaxed);
        self.marks_changed();
    }

    /// The boost in force.
    #[inline(always)]
    pub fn boost(&self) -> u64 {
        self.boost.load(Relaxed)
    }

    /// Sets the boost in force.
    pub fn set_boost(&self, pages: u64) {
        self.boost.store(pages, Relaxed);
        self.marks_changed();
    }

    /// Takes back at most `pages` of the boost (kswapd at the end of a balancing run).
    pub fn reduce_boost(&self, pages: u64) {
        let less = |boost: u64| Some(boost.saturating_sub(pages));
        let _ = self.boost.fetch_update(Relaxed, Relaxed, less);
        self.marks_changed();
    }

    /// `watermark_boost_factor` in force.
    pub fn boost_factor(&self) -> u64 {
        self.boost_factor.load(Relaxed)
    }

    /// Sets `watermark_boost_factor`.
    pub fn set_boost_factor(&self, factor: u64) {
        self.boost_factor.store(factor, Relaxed);
    }

    /// Pages that the zone reserves against requests whose highest zone is `highest`.
    #[inline(always)]
    pub fn lowmem_reserve(&self, highest: ZoneType) -> u64 {
        self.reserve[highest.idx()].load(Relaxed)
    }

    /// All five reserves.
    pub fn lowmem_reserves(&self) -> [u64; 5] {
        core::array::from_fn(|i| self.reserve[i].load(Relaxed))
    }

    /// Sets all five reserves.
    pub fn set_lowmem_reserves(&self, reserve: &[u64; 5]) {
        for (slot, &value) in self.reserve.iter().zip(reserve) {
            slot.store(value, Relaxed);
        }
        self.marks_changed();
    }

    /// The fast test of single pages is that of [`WatermarkTest::FreeBlock`]: from now on
    /// [`Self::is_above_low`] computes it. `mark` is low; high where each request has to find out
    /// whether the zone is above that as well.
    pub(crate) fn keep_above_low(&self, mark: Mark) {
        self.above_mark.store(mark as u8 + 1, Relaxed);
        self.marks_changed();
    }

    pub(super) fn marks_changed(&self) {
        if let Some(mark) = self.above_mark.load(Relaxed).checked_sub(1) {
            self.above_low.refresh(|highest| {
                self.marks[usize::from(mark)].load(Relaxed)
                    + self.boost.load(Relaxed)
                    + self.reserve[highest].load(Relaxed)
                    + self.nr_unusable()
            });
        }
    }

    /// More is free than a request for a single page without rights may leave: the fast test of the low
    /// mark, and a yes for certain. A no may be for want of a sum, or because the sum has a higher
    /// mark.
    #[inline(always)]
    pub(crate) fn is_above_low(&self, highest: ZoneType) -> bool {
        self.above_low.is_exceeded_by(self.stats.read_signed(ZoneStat::FreePages as usize), highest)
    }

    /// The mark below which free counts need a snapshot (0 = none).
    pub fn drift_mark(&self) -> u64 {
        self.drift_mark.load(Relaxed)
    }

    /// Recomputes the difference threshold and, where drift could reach `min`, the drift mark.
    pub(crate) fn refresh_thresholds(&self, online_cpus: u64) {
        let threshold = watermark::stat_threshold(online_cpus, self.managed());
        self.stats.set_threshold(threshold);
        if let Some(mark) = watermark::drift_mark(&self.marks(), online_cpus, threshold) {
            self.drift_mark.store(mark, Relaxed);
        }
    }

    /// Per-CPU list limit, pages; where each CPU tunes its own, the least one (`high_min`).
    #[inline(always)]
    pub fn pcp_high(&self) -> u32 {
        self.pcp.high_min.load(Relaxed)
    }

    /// The largest limit of a CPU's lists that tunes itself, pages; otherwise [`Self::pcp_high`].
    pub fn pcp_high_max(&self) -> u32 {
        self.pcp.high_max.load(Relaxed)
    }

    /// The limit that all CPUs' lists have; 0 if each CPU computes its own at each free.
    #[inline(always)]
    pub(crate) fn pcp_shared_high(&self) -> u32 {
        self.pcp.shared_high.load(Relaxed)
    }

    /// Per-CPU list batch, pages.
    #[inline(always)]
    pub fn pcp_batch(&self) -> u32 {
        self.pcp.batch.load(Relaxed)
    }

    /// The least pages at which some limit of the per-CPU lists may apply: `high`, or four batches while the zone
    /// is balanced; 0 if each CPU computes its own.
    #[inline(always)]
    pub(crate) fn pcp_least_limit(&self) -> u32 {
        self.pcp.least_limit.load(Relaxed)
    }

    /// Sets batch and limit of every CPU's lists. Limits that tune themselves get this one value.
    pub fn set_pcp_sizes(&self, batch: u32, high: u32) {
        self.set_pcp_range(batch, high, high);
    }

    /// As [`Self::set_pcp_sizes`], with the range in which a CPU tunes its limit. Where CPUs do not
    /// tune it, it is `high_min`.
    pub fn set_pcp_range(&self, batch: u32, high_min: u32, high_max: u32) {
        self.pcp.set(batch, high_min, high_max);
    }

    /// Each CPU computes the limit of its lists at each free, from now on; `tunes`: it may change
    /// it.
    pub(crate) fn count_frees(&self, tunes: bool) {
        self.pcp.count_frees(tunes);
    }

    /// True if a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: ZoneFlags) -> bool {
        self.flags.load(Relaxed) & flag.bits() != 0
    }

    /// Sets a flag.
    pub fn set_flag(&self, flag: ZoneFlags) {
        self.flags.fetch_or(flag.bits(), Relaxed);
    }

    /// Clears a flag; true if it was set.
    pub fn clear_flag(&self, flag: ZoneFlags) -> bool {
        self.flags.fetch_and(!flag.bits(), Relaxed) & flag.bits() != 0
    }

    /// Blocks on the lists of an order, all types.
    ///
    /// # Panics
    /// If the order is above [`Order::MAX`].
    pub fn nr_free_blocks(&self, order: Order) -> u32 {
        self.blocks.nr_free[order.idx()].load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn note_list(
        &self,
        order: Order,
        migratetype: MigrateType,
        empty: bool,
        blocks: i32,
    ) {
        let nr = &self.blocks.nr_free[order.idx()];
        nr.store(nr.load(Relaxed).wrapping_add_signed(blocks), Relaxed);
        if migratetype == MigrateType::HighAtomic {
            self.note_highatomic(order, blocks);
        }
        let types = &self.blocks.types[order.idx()];
        let bit = 1u8 << migratetype as u8;
        let old = types.load(Relaxed);
        let new = if empty { old & !bit } else { old | bit };
        if new != old {
            types.store(new, Relaxed);
        }
    }

    /// Which types have blocks of an order, bit = type.
    pub(crate) fn list_types(&self, order: Order) -> u8 {
        self.blocks.types[order.idx()].load(Relaxed)
    }

    /// The stored type numbers of all pageblocks, valid or not (for the audit).
    pub(crate) fn raw_pageblock_types(&self) -> impl Iterator<Item = u8> + '_ {
        self.pageblocks.iter().map(|block| block.load(Relaxed) & TYPE_MASK)
    }

    #[cfg(test)]
    pub(crate) fn set_raw_pageblock_type(&self, pfn: Pfn, raw: u8) {
        self.pageblock(pfn).store(raw, Relaxed);
    }

    /// Returns the type of the pageblock that a frame is in.
    ///
    /// # Panics
    /// If the frame is not in the zone's span ([`ZoneInfo::spans`]).
    #[doc(alias = "get_pfnblock_migratetype")]
    #[inline(always)]
    pub fn pageblock_type(&self, pfn: Pfn) -> MigrateType {
        MigrateType::from_index(u32::from(self.pageblock(pfn).load(Relaxed) & TYPE_MASK))
    }

    /// Sets a pageblock's type (zone lock held). With grouping off the mergeable types all become
    /// unmovable.
    ///
    /// # Panics
    /// If the frame is not in the zone's span ([`ZoneInfo::spans`]).
    #[doc(alias = "set_pageblock_migratetype")]
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) {
        let t = match migratetype {
            t if t.is_mergeable() && !self.grouping => MigrateType::Unmovable,
            t => t,
        };
        // The skip hint shares the byte and changes without the lock.
        let set = |byte: u8| Some((byte & !TYPE_MASK) | t as u8);
        let _ = self.pageblock(pfn).fetch_update(Relaxed, Relaxed, set);
    }

    /// The CPU that owns the pageblock a frame is in (rules/per-cpu-lists#owned-blocks). Certain only
    /// under that CPU's list lock.
    ///
    /// # Panics
    /// If the frame is not in the zone's span ([`ZoneInfo::spans`]).
    #[inline]
    pub fn owner(&self, pfn: Pfn) -> Option<CpuId> {
        match self.owner_at(pfn).load(Acquire) {
            0 => None,
            n => Some(CpuId(n - 1)),
        }
    }

    /// Sets a pageblock's owner, under the list lock of the CPU that gets or loses it.
    ///
    /// Release pairs with the acquire of a task that frees a page of it without that lock: the
    /// former owner's accesses to its pages happened before.
    pub(crate) fn set_owner(&self, pfn: Pfn, owner: Option<CpuId>) {
        self.owner_at(pfn).store(owner.map_or(0, |cpu| cpu.0 + 1), Release);
    }

    /// Removes the owners of all pageblocks of this zone (its lists are empty, and no other task
    /// works on it).
    pub(crate) fn disown_all(&self) {
        self.owners.iter().for_each(|owner| owner.store(0, Relaxed));
    }

    fn owner_at(&self, pfn: Pfn) -> &AtomicU16 {
        &self.owners[((pfn.0 >> PAGEBLOCK_ORDER) - self.first_pageblock) as usize]
    }

    /// Returns the skip bit of a pageblock (compaction's hint).
    #[doc(alias = "get_pageblock_skip")]
    pub fn pageblock_skip(&self, pfn: Pfn) -> bool {
        self.pageblock(pfn).load(Relaxed) & SKIP_BIT != 0
    }

    /// Sets or clears the skip bit of a pageblock.
    ///
    /// Linux: same name.
    pub fn set_pageblock_skip(&self, pfn: Pfn, skip: bool) {
        let block = self.pageblock(pfn);
        if skip {
            block.fetch_or(SKIP_BIT, Relaxed);
        } else {
            block.fetch_and(!SKIP_BIT, Relaxed);
        }
    }

    /// First frame of each pageblock sample that `/proc/pagetypeinfo` takes: every 512 pages from
    /// the zone's start.
    pub fn pageblock_samples(&self) -> impl Iterator<Item = Pfn> + use<> {
        (self.start.0..self.end.0).step_by(PAGEBLOCK_PAGES as usize).map(Pfn)
    }

    #[inline(always)]
    fn pageblock(&self, pfn: Pfn) -> &AtomicU8 {
        &self.pageblocks[((pfn.0 >> PAGEBLOCK_ORDER) - self.first_pageblock) as usize]
    }

    /// Tests a watermark as kswapd does (rules/watermarks#safe-test): exact, and where drift of the
    /// free count could hide that the minimum is reached, on a snapshot of it.
    #[doc(alias = "zone_watermark_ok_safe")]
    pub fn watermark_ok_safe(
        &self,
        rule: (WatermarkTest, MinReserveRule),
        order: Order,
        mark: u64,
        highest: ZoneType,
    ) -> bool {
        let mut free = self.nr_free_pages();
        if self.drift_mark() != 0 && free < self.drift_mark() {
            free = self.nr_free_pages_exact();
        }
        self.watermark_ok(rule, order, mark, highest, AllocFlags::empty(), free)
    }

    /// Tests whether a request of `order` may take pages when `free` pages are judged against
    /// `mark` (rules/watermarks#exact-test; up to 4.3 rules/watermarks#halved-marks).
    ///
    /// # Panics
    /// If the order is above [`Order::MAX`].
    #[doc(alias = "__zone_watermark_ok")]
    #[doc(alias = "zone_watermark_ok")]
    #[inline]
    pub fn watermark_ok(
        &self,
        rule: (WatermarkTest, MinReserveRule),
        order: Order,
        mark: u64,
        highest: ZoneType,
        flags: AllocFlags,
        free: u64,
    ) -> bool {
        let (test, reserves) = rule;
        let unusable = if flags.intersects(watermark::reserve_flags(reserves)) {
            0
        } else {
            self.nr_unusable()
        };
        let (free, min) = watermark::sides(order.0, free, unusable, mark, flags, reserves);
        if free <= min + self.lowmem_reserve(highest) as i64 {
            return false;
        }
        if order == Order::ZERO {
            return true;
        }
        match test {
            WatermarkTest::FreeBlock => {
                let types =
                    self.blocks.types[order.idx()..].iter().map(|types| types.load(Relaxed));
                let may_use_highatomic = watermark::reserves_reach_highatomic(reserves, flags);
                watermark::has_block(types, may_use_highatomic)
            }
            WatermarkTest::HalvedMarks => {
                let nr_free = core::array::from_fn(|o| self.blocks.nr_free[o].load(Relaxed));
                watermark::halved_marks_ok(order.idx(), &nr_free, free, min)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_safe_test_looks_closer_below_the_drift_mark() {
        let end = Pfn(8192);
        let zone = ZoneInfo::new(NodeId(0), ZoneType::Dma32, Pfn(4096), end, 4096, 2, true);
        zone.add_managed(4096);
        zone.set_marks(&Marks { min: 10, low: 12, high: 14, promo: 16 });
        zone.add_free(CpuId(0), 20);
        zone.refresh_thresholds(2);
        assert_eq!(zone.drift_mark(), 14 + 2 * u64::from(zone.stats.threshold()));
        zone.add_free(CpuId(1), -4);
        let rule = (WatermarkTest::FreeBlock, MinReserveRule::NonBlocking);
        let flags = AllocFlags::empty();
        let plain = zone.nr_free_pages();
        assert!(zone.watermark_ok(rule, Order::ZERO, 17, ZoneType::Dma32, flags, plain));
        assert!(!zone.watermark_ok_safe(rule, Order::ZERO, 17, ZoneType::Dma32));
    }

    /// After a change of any part of the sum, the quick test gives the result of the exact one.
    #[test]
    fn the_quick_test_follows_what_it_sums_up() {
        let end = Pfn(8192);
        let zone = ZoneInfo::new(NodeId(0), ZoneType::Dma32, Pfn(4096), end, 4096, 1, true);
        zone.add_free(CpuId(0), 100);
        assert!(!zone.is_above_low(ZoneType::Dma32), "not in use");
        zone.keep_above_low(Mark::Low);
        let rule = (WatermarkTest::FreeBlock, MinReserveRule::NonBlocking);
        let agree = || {
            let (mark, flags) = (zone.mark(Mark::Low), AllocFlags::empty());
            let [quick, exact] = [ZoneType::Dma32, ZoneType::Normal].map(|highest| {
                let (free, order) = (zone.nr_free_pages(), Order::ZERO);
                let exact = zone.watermark_ok(rule, order, mark, highest, flags, free);
                assert_eq!(zone.is_above_low(highest), exact);
                exact
            });
            (quick, exact)
        };
        assert_eq!(agree(), (true, true));
        zone.set_marks(&Marks { min: 10, low: 60, high: 70, promo: 80 });
        assert_eq!(agree(), (true, true));
        zone.set_lowmem_reserves(&[0, 0, 40, 0, 0]);
        assert_eq!(agree(), (true, false));
        zone.set_boost(40);
        assert_eq!(agree(), (false, false));
        zone.reduce_boost(1);
        assert_eq!(agree(), (true, false));
        zone.set_reserved_highatomic(1);
        assert_eq!(agree(), (false, false));
        zone.set_marks(&Marks { min: 10, low: 0, high: 70, promo: 80 });
        assert_eq!(agree(), (true, true));
        // The free pages of the reserve, once these are what is taken off.
        zone.set_marks(&Marks { min: 10, low: 60, high: 70, promo: 80 });
        zone.set_lowmem_reserves(&[0; 5]);
        zone.set_boost(0);
        zone.take_off_free_highatomic();
        assert_eq!(agree(), (true, true));
        zone.note_list(Order(6), MigrateType::HighAtomic, false, 1);
        assert_eq!(agree(), (false, false));
        zone.add_free(CpuId(0), -200);
        assert_eq!(agree(), (false, false));
    }
}
