//! Presets: the kernels of rules/allocator-versions#bundles and the policies of the studies, each
//! as its differences from a neighbour.
//!
//! `presets!` is the table. The root, 4.3, has the defaults of the switches' declarations. Every
//! other preset names its base and the switches that it changes. So the kernels read as history. A
//! switch appears only where a kernel or study changed it, and a new switch only in the presets
//! that change it.

use alloc::string::ToString;

use super::KernelVersion;
use super::policy::*;
use crate::host::HZ;

/// Two hundredths of a second.
const FIFTIETH: u16 = (HZ / 50) as u16;
/// Half a second.
const HALF: u16 = (HZ / 2) as u16;

/// The definition of a preset.
struct Recipe {
    /// The preset from which it differs; `None`: the defaults of the declarations.
    base: Option<&'static str>,
    apply: fn(&mut Policy),
    /// Switches that it sets.
    #[cfg(test)]
    nr_lines: usize,
}

macro_rules! presets {
    ($(
        #[doc = $about:literal]
        $name:literal = $($base:literal with)? { $($($path:ident).+ = $value:expr,)* }
    )*) => {
        /// Name and one-line description of every preset.
        pub const PRESETS: &[(&str, &str)] = &[$(($name, $about.trim_ascii()),)*];

        /// The recipe of each of [`PRESETS`].
        const RECIPES: &[Recipe] = &[$(Recipe {
            base: presets!(@base $($base)?),
            apply: |_policy| { $(_policy.$($path).+ = $value;)* },
            #[cfg(test)]
            nr_lines: { const LINES: &[&str] = &[$(stringify!($($path).+)),*]; LINES.len() },
        },)*];
    };
    (@base) => { None };
    (@base $base:literal) => { Some($base) };
}

presets! {
    /// zonelist cache removed, fair zones, order-0 per-CPU lists, RESERVE pageblocks
    "4.3" = {}
    /// 4.3 before study 000: a zonelist cache skips zones that were found full
    "4.3-zonelist-cache" = "4.3" with {
        zonelist.cache = true,
    }
    /// 4.3 with a zonelist cache by another name (study 000 before)
    "zonelist-cache" = "4.3-zonelist-cache" with {}
    /// 4.3 by another name: no zonelist cache (study 000 after)
    "none" = "4.3" with {}
    /// custom: none, and node reclaim defers a node that yielded nothing (beyond study 000)
    "node-deferral" = "none" with {
        zonelist.reclaim_deferral = true,
    }
    /// 4.3 with high-atomic pageblocks and the free-block watermark test
    "4.5" = "4.3" with {
        kernel = KernelVersion::of("4.5"),
        watermark.test = WatermarkTest::FreeBlock,
        highatomic = HighatomicKind::HighAtomic,
    }
    /// 4.5 by another name: kswapd itself compacts (study 004 before)
    "kswapd-inline" = "4.5" with {}
    /// 4.5 with kcompactd, which compacts for kswapd (study 004 after)
    "kcompactd" = "kswapd-inline" with {
        compaction.restart_flush = RestartFlush::Anyone,
        compaction.flush_request = FlushRequest::Request,
        compaction.kcompactd = Kcompactd::Exclusive,
        reclaim.kswapd.goal = KswapdGoal::Room,
        reclaim.kswapd.compacts = false,
        reclaim.kswapd.hand_over = HandOver::AfterNap,
    }
    /// custom: kcompactd, which also checks for fragmentation twice a second, as in later kernels
    "kcompactd-polls" = "kcompactd" with {
        compaction.proactive = true,
    }
    /// custom: kcompactd, which also compacts when a zone's last huge block is split (beyond study 004)
    "kcompactd-prompted" = "kcompactd" with {
        compaction.proactive = true,
        compaction.prompted = true,
    }
    /// 4.5 with kcompactd and the scale factor
    "4.6" = "kcompactd" with {
        kernel = KernelVersion::of("4.6"),
        watermark.gaps = HighWatermark::ScaleFactor,
        compaction.suitable_mark = SuitableMark::ByCost,
        compaction.index_orders = IndexOrders::Costly,
        thp.defrag = DefragDefault::Madvise,
    }
    /// watermark boost and NOFRAGMENT, order-0 per-CPU lists of six batches
    "5.4" = "4.6" with {
        kernel = KernelVersion::of("5.4"),
        pcp.sizing = PcpSizing::SixBatchesMib,
        watermark.reserves = MinReserveRule::LegacyOom,
        watermark.boost = true,
        fallback = FallbackRule::Compatible,
        slow_path.rounds = SlowPathRounds::Counted,
        slow_path.deferred_is_stall = true,
        slow_path.compaction_needs = CompactionNeeds::Nothing,
        compaction.finish = FinishTest::Block,
        compaction.spare = SpareMark::MinEnds,
        compaction.contended = AsyncContended::EndsWithBlock,
        compaction.resched = AsyncResched::GivesWay,
        compaction.async_sources = AsyncSources::Requested,
        compaction.gives_up_blocks = true,
        compaction.finishes_blocks = true,
        compaction.flush = FlushRule::Sampled,
        compaction.tells_partial = true,
        compaction.capture = true,
        compaction.cache_pages = CachePages::WithFs,
        compaction.kcompactd = Kcompactd::Inclusive,
        compaction.kcompactd_skip = KcompactdSkip::Honoured,
        compaction.kcompactd_gfp = KcompactdGfp::Kernel,
        compaction.ready = ReadyTest::HighMark,
        compaction.rounds = ReclaimRounds::UntilSuitable,
        reclaim.kswapd.goal = KswapdGoal::AnyZone,
        reclaim.kswapd.hand_over = HandOver::BeforeNap,
        zonelist.fair = false,
        zonelist.node_load = NodeLoad::OneMore,
        zonelist.reclaim_distance_exclusive = false,
        zonelist.nofragment = true,
        compaction.scanners = Scanners::Searching,
        reclaim.lru = LruTopology::Node,
        reclaim.throttle.node_pass = NodePassWait::Congestion,
        reclaim.throttle.isolated = IsolatedWait::Sleep,
        reclaim.throttle.retry_wait = RetryWait::WritePending,
        reclaim.throttle.devices = DeviceCongestion::BlkMqDead,
        reclaim.dirty_at_tail = DirtyAtTail::Activate,
        reclaim.lru_batch = 15,
        reclaim.write_marks_accessed = false,
        reclaim.zap_exclusive = false,
        thp.effort = ThpEffort::ByAdvice,
        thp.nodes = HugeNodes::HereFirst,
        thp.swap = ThpSwap::Whole,
        locks.rwsem_readers = RwsemReaders::All,
        locks.rwsem_handoff = true,
        locks.rwsem_newcomers = RwsemNewcomers::Spin,
    }
    /// LRU cost instead of rotations; anonymous pages start inactive and leave shadow entries; congestion waits never end early
    "5.10" = "5.4" with {
        kernel = KernelVersion::of("5.10"),
        watermark.min_free_kbytes_max = 262_144,
        slow_path.compaction_needs = CompactionNeeds::Io,
        slow_path.thisnode_gives_up = true,
        zonelist.node_load = NodeLoad::NodesLeft,
        reclaim.balance = BalanceRule::Cost,
        reclaim.anon_new = AnonStart::Inactive,
        reclaim.anon_workingset = true,
        reclaim.proportional = Proportional::OneRound,
        locks.page_lock = PageLockRule::HandOver,
        thp.write = HugeWrite::Split,
    }
    /// 5.16-rc1: the allocator of 5.17 and the throttling of study 001 (study 001 after)
    "5.16" = "series-8" with {
        kernel = KernelVersion::of("5.16"),
    }
    /// high orders cached on per-CPU lists without limit (study 002 before)
    "5.17" = "5.16" with {
        kernel = KernelVersion::of("5.17"),
        reclaim.throttle.node_pass = NodePassWait::Congested,
        reclaim.throttle.no_progress = NoProgressWait::LastResort,
        reclaim.throttle.no_progress_jiffies = 1,
        reclaim.throttle.skip_unless_pending = true,
    }
    /// 5.17 with per-CPU lists for order 0 only (study 002 revert)
    "5.17-order0-pcp" = "5.17" with {
        pcp.lists = PcpLists::Order0,
    }
    /// 5.17 with a high-order limit on CPUs that mostly free (study 002 after)
    "5.18" = "5.17" with {
        kernel = KernelVersion::of("5.18"),
        pcp.high_order_free = HighOrderFree::Limited,
        pcp.drain_order = DrainOrder::FreedListFirst,
        merge = MergeRule::Mergeable,
    }
    /// custom: 5.18, and CPUs own whole pageblocks (beyond study 002)
    "pcp-blocks" = "5.18" with {
        pcp.own_blocks = true,
    }
    /// custom: 5.18, and each CPU learns its limit for high orders (beyond study 002)
    "pcp-adaptive" = "5.18" with {
        pcp.high_order_free = HighOrderFree::Adaptive,
    }
    /// late 6.1: as released, with a high-order limit on CPUs that mostly free
    "6.1" = "5.18" with {
        kernel = KernelVersion::of("6.1"),
        pcp.lists = PcpLists::HighOrder14,
        pcp.free_factor = FreeFactor::Capped,
        pcp.event_unit = EventUnit::Pages,
        pcp.refill_falls_back = true,
        pcp.chunked_drain_all = true,
        watermark.reserves = MinReserveRule::NonBlocking,
        slow_path.compaction_needs = CompactionNeeds::Io,
        slow_path.thisnode_gives_up = true,
        slow_path.unreserve = Unreserve::WhenHopeless,
        slow_path.nofail_dip = NofailDip::MinReserve,
        reclaim.proportional = Proportional::OneRound,
        reclaim.file_pageout = FilePageout::Offered,
        memcg.charge_batch = 64,
        memcg.high_sync = HighSync::AlsoInCharge,
        memcg.atomic = AtomicCharge::ForceIfHigh,
        memcg.stats = MemcgStats::RstatGlobal,
    }
    /// 6.1 booted with MGLRU, the multi-generational LRU, switched on
    "6.1-mglru" = "6.1" with {
        reclaim.algorithm = Algorithm::Mglru,
    }
    /// 6.12 as Debian builds it, with MGLRU on
    "6.12" = "6.1-mglru" with {
        kernel = KernelVersion::of("6.12"),
        pcp.sizing = PcpSizing::Auto,
        pcp.free_factor = FreeFactor::FreeCount,
        pcp.high_order_free = HighOrderFree::LimitedBatch,
        pcp.drain_type = DrainType::Pageblock,
        fallback = FallbackRule::ClaimSteal,
        merge = MergeRule::MergeableRetype,
        highatomic_limit = HighatomicLimit::RoundedUp,
        watermark.highatomic_unusable = HighatomicUnusable::Free,
        watermark.boost_wake = BoostWake::Kswapd,
        watermark.boost_exempt = BoostExempt::High,
        watermark.movable_min = MovableMin::Clamped,
        slow_path.retry_in_cpuset = true,
        reclaim.gate_exact = true,
        reclaim.file_pageout = FilePageout::Never,
        reclaim.balance = BalanceRule::CostRotations,
        reclaim.lru_batch = 31,
        reclaim.recency_guard = RecencyGuard::SeqRandNoreuse,
        reclaim.kswapd.retries_trimming = true,
        reclaim.kswapd.slab_is_progress = true,
        reclaim.mglru.active_keeps_marks = false,
        reclaim.mglru.kswapd_ages = false,
        reclaim.mglru.dirty_tail = DirtyTail::Judged,
        reclaim.mglru.flusher_wake = FlusherWake::PerPass,
        reclaim.mglru.recent = RecentRule::OldestAndCount,
        reclaim.mglru.group_turns = true,
        fault.count_retries = false,
        fault.mmap_miss = MmapMiss::PageNotWs,
        readahead = ReadaheadRule::Restart,
        folio.file = FileFolios::Xfs,
        folio.order1 = true,
        folio.marks_runs = true,
        folio.compact_moves = CompactMoves::BelowTarget,
        compaction.scan_count = ScanCount::Frames,
        compaction.isolated_limit = IsolatedLimit::EighthWithFs,
        compaction.capture_movable = true,
        unmap.free_order = FreeOrder::Highest,
        swap.zero_pages = ZeroPages::Flag,
        block.plug_flush = PlugFlush::Oldest,
        tree_nodes = TreeNodes::AfterGracePeriod,
        memcg.walk = GroupWalk::Partial,
        memcg.reclaim_batch = ReclaimBatch::Quarter,
        memcg.target_protected = TargetProtected::Never,
        memcg.stats = MemcgStats::RstatPerGroup,
    }
    /// 6.12 with MGLRU switched off: the two lists
    "6.12-two-lists" = "6.12" with {
        reclaim.algorithm = Algorithm::TwoList,
    }
    /// 7.2 as Debian builds it, with MGLRU on
    "7.2" = "6.12" with {
        kernel = KernelVersion::of("7.2"),
        pcp.high_order_free = HighOrderFree::LimitedHalfMin,
        pcp.drain_portion = DrainPortion::Batch,
        pcp.highatomic_refills = false,
        watermark.recounts_reserves = true,
        slow_path.rounds = SlowPathRounds::CompactFirst,
        compaction.gap_max = 32,
        compaction.suitable_mark = SuitableMark::Named,
        compaction.ready = ReadyTest::HighMarkByCost,
        slow_path.compaction_stalls = CompactionStalls::NotDeferred,
        zonelist.skip_kswapd_nodes = true,
        reclaim.file_pageout = FilePageout::NeverCounted,
        reclaim.free_page_fallback = false,
        reclaim.kswapd.failures_end = FailuresEnd::Balanced,
        reclaim.mglru.read_entry = ReadEntry::ByMarks,
        reclaim.mglru.first_use = FirstUse::Marks,
        reclaim.mglru.aging = AgingRule::Count,
        reclaim.mglru.type_choice = TypeChoice::Refaults,
        reclaim.mglru.oldest = OldestRule::OneApart,
        reclaim.mglru.flusher_wake = FlusherWake::PerBatch,
        reclaim.mglru.recent = RecentRule::FourGenerations,
        reclaim.mglru.shares_protection = true,
        fault.mmap_miss = MmapMiss::Fault,
        readahead = ReadaheadRule::RestartAligned,
        folio.file = FileFolios::All,
        folio.fault_maps = FaultMaps::Folio,
        folio.truncate = FolioCut::Halves,
        unmap.drains_lru = false,
        swap.slot_cache = false,
        swap.write_frees_slot = false,
        writeback.wb_thresh_floor = WbThreshFloor::Share,
        memcg.stock_slots = 7,
        memcg.scan_events = ScanEvents::Node,
        memcg.reparent_lru = true,
        memcg.sock_throttled = true,
        memcg.soft_limit = false,
    }
    /// 7.2 with MGLRU switched off: the two lists
    "7.2-two-lists" = "7.2" with {
        reclaim.algorithm = Algorithm::TwoList,
    }
    /// 6.1 with per-CPU lists for order 0 only
    "order0-pcp" = "6.1" with {
        pcp.lists = PcpLists::Order0,
    }
    /// 6.1 without the high-order limit: high orders stay cached up to the ordinary limit
    "cached" = "6.1" with {
        pcp.high_order_free = HighOrderFree::Cached,
    }
    /// 6.1: unmapping a young file page marks it accessed (study 003 before)
    "mark-accessed" = "6.1" with {}
    /// 6.1, but unmapping a young file page only sets its referenced bit
    "set-referenced" = "6.1" with {
        reclaim.unmap_young_file = UnmapYoung::SetReferenced,
    }
    /// custom: set-referenced, and reclaim activates a page whose second use was noted (beyond study 003)
    "handed-over" = "set-referenced" with {
        reclaim.unmap_young_file = UnmapYoung::HandedOver,
    }
    /// 5.16 with 5.15's congestion waits (study 001 before)
    "congestion-wait-5.15" = "5.4" with {
        kernel = KernelVersion::of("5.15"),
        pcp.lists = PcpLists::HighOrder15,
        pcp.free_factor = FreeFactor::Uncapped,
        pcp.event_unit = EventUnit::Operations,
        pcp.sizing = PcpSizing::LowWatermark,
        pcp.reclaim_active_limit = true,
        watermark.min_free_kbytes_max = 262_144,
        compaction.proactive = true,
        reclaim.balance = BalanceRule::Cost,
        reclaim.anon_new = AnonStart::Inactive,
        reclaim.anon_workingset = true,
        locks.page_lock = PageLockRule::HandOver,
        locks.rwsem_newcomers = RwsemNewcomers::Steal,
        thp.write = HugeWrite::Split,
    }
    /// study 001 up to commit 1: node passes wait for writeback, not for congestion
    "series-1" = "congestion-wait-5.15" with {
        reclaim.throttle.node_pass = NodePassWait::Writeback,
    }
    /// up to commit 2: a reclaimer that finds too many pages isolated waits until others put some back
    "series-2" = "series-1" with {
        reclaim.throttle.isolated = IsolatedWait::Event,
    }
    /// up to commit 3: direct reclaim without progress waits 100 ms for others' progress
    "series-3" = "series-2" with {
        reclaim.throttle.no_progress = NoProgressWait::EveryPass,
    }
    /// up to commit 4: same as series-3 (the commit changes a failure that is not modelled)
    "series-4" = "series-3" with {}
    /// up to commit 5: allocations do not wait between rounds of reclaim
    "series-5" = "series-4" with {
        reclaim.throttle.retry_wait = RetryWait::None,
    }
    /// up to commit 6: the wait for isolated pages lasts 20 ms
    "series-6" = "series-5" with {
        reclaim.throttle.isolated_jiffies = FIFTIETH,
    }
    /// up to commit 7: the wait for progress lasts 500 ms
    "series-7" = "series-6" with {
        reclaim.throttle.no_progress_jiffies = HALF,
    }
    /// up to commit 8: only an efficient reclaimer ends that wait; same as events-5.16
    "series-8" = "series-7" with {
        reclaim.throttle.progress_wake = ProgressWake::Eighth,
    }
    /// 5.15 with only the waits for writeback of study 001; same as series-1
    "only-writeback" = "congestion-wait-5.15" with {
        reclaim.throttle.node_pass = NodePassWait::Writeback,
    }
    /// 5.15 with only the waits for isolated pages of study 001, in their final form
    "only-isolated" = "congestion-wait-5.15" with {
        reclaim.throttle.isolated = IsolatedWait::Event,
        reclaim.throttle.isolated_jiffies = FIFTIETH,
    }
    /// 5.15 with only the waits for progress of study 001, in their final form
    "only-no-progress" = "congestion-wait-5.15" with {
        reclaim.throttle.no_progress = NoProgressWait::EveryPass,
        reclaim.throttle.no_progress_jiffies = HALF,
        reclaim.throttle.progress_wake = ProgressWake::Eighth,
    }
    /// 5.15 with only one change of study 001: allocations do not wait between rounds
    "only-no-retry-wait" = "congestion-wait-5.15" with {
        reclaim.throttle.retry_wait = RetryWait::None,
    }
    /// 5.16 by another name: all of study 001 (study 001 after)
    "events-5.16" = "5.16" with {}
    /// 5.16 with 6.1's throttling: short waits, as a last resort
    "events-6.1" = "5.17" with {}
    /// 5.16, but the tasks that made reclaim necessary wait longest
    "prioritised" = "5.16" with {
        reclaim.throttle.progress_wakes = WakeCount::PerBatch,
        reclaim.throttle.sleep_share = SleepShare::Demand,
    }
    /// 5.16 with only the wait lengths of prioritised
    "prioritised-shares" = "5.16" with {
        reclaim.throttle.sleep_share = SleepShare::Demand,
    }
    /// 5.16 with only prioritised's number of tasks that progress wakes
    "prioritised-wakes" = "5.16" with {
        reclaim.throttle.progress_wakes = WakeCount::PerBatch,
    }
}

/// Steps to the root at most; more would be a circle.
const STEPS_MAX: usize = 24;

const _: () = {
    let mut rank = 0;
    while rank < PRESETS.len() {
        let (mut at, mut steps) = (rank, 0);
        while let Some(base) = RECIPES[at].base {
            at = match rank_of(base) {
                Some(rank) => rank,
                None => panic!("a preset stands on one that is not there"),
            };
            steps += 1;
            assert!(steps <= STEPS_MAX, "presets stand on each other in a circle");
        }
        rank += 1;
    }
};

/// Where a preset is in the table.
const fn rank_of(name: &str) -> Option<usize> {
    let mut rank = 0;
    while rank < PRESETS.len() {
        if is_same(PRESETS[rank].0.as_bytes(), name.as_bytes()) {
            return Some(rank);
        }
        rank += 1;
    }
    None
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The preset of a name, none if there is no such preset.
pub fn preset(name: &str) -> Option<Policy> {
    let mut policy = build(rank_of(name)?);
    policy.name = name.to_string();
    Some(policy)
}

fn build(rank: usize) -> Policy {
    let recipe = &RECIPES[rank];
    let mut policy = recipe.base.and_then(rank_of).map_or_else(Policy::default, build);
    (recipe.apply)(&mut policy);
    policy
}

/// The preset that one is described as differing from; none for the root, and if there is no such
/// preset.
pub fn preset_base(name: &str) -> Option<&'static str> {
    RECIPES[rank_of(name)?].base
}

/// The preset that is another one with this reclaim algorithm, or that one itself if it has it;
/// none if there is no such preset.
pub fn preset_with(name: &str, algorithm: Algorithm) -> Option<&'static str> {
    let own = preset(name)?;
    let is_it = |other: &Policy| {
        let mut turned = own.clone();
        turned.reclaim.algorithm = algorithm;
        other.reclaim.algorithm == algorithm
            && other.kernel == own.kernel
            && turned.differences(other).is_empty()
    };
    // Itself first: a preset may have another name as well.
    let own_rank = rank_of(name)?;
    let mut ranks = core::iter::once(own_rank).chain(0..PRESETS.len());
    ranks.find(|&rank| is_it(&build(rank))).map(|rank| PRESETS[rank].0)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn of(name: &str) -> Policy {
        preset(name).expect(name)
    }

    #[test]
    fn every_listed_preset_exists_and_carries_its_name() {
        for (name, about) in PRESETS {
            assert_eq!(of(name).name, *name);
            assert!(!about.is_empty(), "{name}");
            assert_ne!(preset_base(name).is_some(), *name == "4.3", "{name}");
        }
        for not_one in ["7.0", "", "series-0", "series-9", "series-08", "series-+8"] {
            assert!(preset(not_one).is_none(), "{not_one}");
            assert!(preset_base(not_one).is_none(), "{not_one}");
        }
    }

    #[test]
    fn presets_say_only_what_is_different() {
        for (rank, (name, _)) in PRESETS.iter().enumerate() {
            let Some(base) = preset_base(name) else { continue };
            let differences = of(base).differences(&of(name));
            let is_other_kernel = of(base).kernel != of(name).kernel;
            // Each line changes something, so there are as many differences as lines.
            let nr_lines = differences.len() + usize::from(is_other_kernel);
            assert_eq!(nr_lines, RECIPES[rank].nr_lines, "{name}: {differences:?}");
        }
    }

    #[test]
    fn later_kernels_have_a_preset_for_each_of_both_algorithms() {
        let [two_lists, mglru] = [Algorithm::TwoList, Algorithm::Mglru];
        for (version, lists, generations) in [
            ("6.1", "6.1", "6.1-mglru"),
            ("6.12", "6.12-two-lists", "6.12"),
            ("7.2", "7.2-two-lists", "7.2"),
        ] {
            for name in [version, lists, generations] {
                assert_eq!(preset_with(name, two_lists), Some(lists), "{name}");
                assert_eq!(preset_with(name, mglru), Some(generations), "{name}");
            }
            assert_eq!(changes(lists, generations), ["reclaim.algorithm: two-list -> mglru"]);
        }
        assert_eq!(preset_with("mark-accessed", two_lists), Some("mark-accessed"));
        assert_eq!(preset_with("5.10", mglru), None);
        assert_eq!(preset_with("7.9", mglru), None);
    }

    #[test]
    fn presets_called_by_a_version_are_that_kernel() {
        for (name, _) in PRESETS {
            let (kernel, is_own) = (of(name).kernel, preset_base(name).is_some());
            match name.parse::<KernelVersion>() {
                Ok(version) => assert_eq!(kernel, version, "{name}"),
                Err(_) => assert!(is_own, "{name} stands on a kernel"),
            }
        }
        assert_eq!(of("zonelist-cache").kernel, KernelVersion::new(4, 3));
        assert_eq!(of("kcompactd-polls").kernel, KernelVersion::new(4, 5));
        assert_eq!(of("series-3").kernel, KernelVersion::new(5, 15));
        assert_eq!(of("handed-over").kernel, KernelVersion::new(6, 1));
    }

    #[test]
    fn every_switch_is_turned_by_a_preset_or_marked_as_exploratory() {
        for field in Policy::describe() {
            let values = || PRESETS.iter().map(|(name, _)| of(name).get(&field.path));
            let is_turned = values().any(|value| value != Some(field.default));
            assert_ne!(is_turned, field.is_exploratory, "{}", field.path);
        }
    }

    #[test]
    fn study_001_policies_differ_in_nothing_but_throttling() {
        let base = of("5.16");
        let study: Vec<&str> = PRESETS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| ["series-", "only-", "prioritised"].iter().any(|p| name.starts_with(p)))
            .chain(["congestion-wait-5.15", "events-5.16", "events-6.1"])
            .collect();
        assert_eq!(study.len(), 18);
        for name in study {
            for difference in base.differences(&of(name)) {
                assert!(difference.path.starts_with("reclaim.throttle."), "{name}: {difference}");
            }
        }
        for (alias, of_what) in [
            ("series-8", "5.16"),
            ("events-5.16", "5.16"),
            ("series-4", "series-3"),
            ("only-writeback", "series-1"),
            ("events-6.1", "5.17"),
            ("mark-accessed", "6.1"),
        ] {
            assert_eq!(of(alias).differences(&of(of_what)), [], "{alias}");
        }
        let later = of("events-6.1").reclaim.throttle;
        for name in ["5.17", "5.18", "6.1"] {
            assert_eq!(of(name).reclaim.throttle, later, "{name}");
        }
    }

    /// A policy's differences from another, as text.
    fn changes(from: &str, to: &str) -> Vec<alloc::string::String> {
        of(from).differences(&of(to)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn studies_002_and_003_differ_in_nothing_but_the_change() {
        assert_eq!(
            changes("6.1", "set-referenced"),
            ["reclaim.unmap-young-file: mark-accessed -> set-referenced"]
        );
        assert_eq!(changes("6.1", "cached"), ["pcp.high-order-free: limited -> cached"]);
        assert_eq!(changes("5.17", "5.17-order0-pcp"), ["pcp.lists: high-order15 -> order0"]);
        assert_eq!(
            changes("5.17", "5.18"),
            [
                "pcp.high-order-free: cached -> limited",
                "pcp.drain-order: round-robin -> freed-list-first",
                "merge: not-isolated -> mergeable",
            ]
        );
        assert_eq!(changes("5.18", "pcp-blocks"), ["pcp.own-blocks: false -> true"]);
        assert_eq!(changes("5.18", "pcp-adaptive"), ["pcp.high-order-free: limited -> adaptive"]);
    }
}
