//! Kernel presets: the version bundles of spec 01 §15 as policy values.

use alloc::string::ToString;

use super::policy::*;

/// Name and one-line description of every preset.
pub const PRESETS: &[(&str, &str)] = &[
    ("4.3", "zonelist cache removed, fair zones, order-0 per-CPU lists, RESERVE pageblocks"),
    ("4.3-zonelist-cache", "4.3 before study 000: a zonelist cache skips zones found full"),
    ("4.6", "4.3 with high-atomic pageblocks, the free-block watermark test, the scale factor"),
    ("5.4", "boost and NOFRAGMENT, order-0 per-CPU lists of six batches"),
    ("5.16", "the allocator of study 001's kernels: as 5.17"),
    ("5.17", "high orders cached on per-CPU lists without limit (study 002 before)"),
    ("5.17-order0-pcp", "5.17 with per-CPU lists for order 0 only (study 002 revert)"),
    ("5.18", "5.17 with the high-order limit when mostly freeing (study 002 after)"),
    ("6.1", "late 6.1: as released, high orders limited when mostly freeing"),
    ("order0-pcp", "6.1 with per-CPU lists for order 0 only"),
    ("cached", "6.1 without the high-order limit: cached until the ordinary one"),
    ("mark-accessed", "6.1: unmapping a young file page marks it accessed (study 003 before)"),
    ("set-referenced", "6.1, but unmapping a young file page only sets its referenced bit"),
];

/// The preset of a name, none if there is no such preset.
pub fn preset(name: &str) -> Option<Policy> {
    let mut policy = match name {
        "4.3" => v4_3(),
        "4.3-zonelist-cache" => {
            let mut p = v4_3();
            p.zonelist.cache = true;
            p
        }
        "4.6" => {
            let mut p = v4_3();
            p.watermark.test = WatermarkTest::FreeBlock;
            p.watermark.gaps = HighWatermark::ScaleFactor;
            p.highatomic = HighatomicKind::HighAtomic;
            p.reclaim.kswapd = KswapdModel::Kcompactd46;
            p
        }
        "5.4" => v5_4(),
        "5.16" | "5.17" => v5_17(),
        "5.17-order0-pcp" => {
            let mut p = v5_17();
            p.pcp.lists = PcpLists::Order0;
            p
        }
        "5.18" => {
            let mut p = v5_17();
            p.pcp.high_order_free = HighOrderFree::Limited;
            p.pcp.drain_order = DrainOrder::FreedListFirst;
            p.merge = MergeRule::Mergeable;
            p
        }
        "6.1" => v6_1(),
        "order0-pcp" => {
            let mut p = v6_1();
            p.pcp.lists = PcpLists::Order0;
            p
        }
        "cached" => {
            let mut p = v6_1();
            p.pcp.high_order_free = HighOrderFree::Cached;
            p
        }
        "mark-accessed" => v6_1(),
        "set-referenced" => {
            let mut p = v6_1();
            p.reclaim.unmap_young_file = UnmapYoung::SetReferenced;
            p
        }
        _ => return None,
    };
    policy.name = name.to_string();
    Some(policy)
}

fn v6_1() -> Policy {
    Policy {
        name: "6.1".to_string(),
        pcp: PcpPolicy {
            lists: PcpLists::HighOrder14,
            high_order_free: HighOrderFree::Limited,
            free_factor: FreeFactor::Capped,
            drain_order: DrainOrder::FreedListFirst,
            event_unit: EventUnit::Pages,
            sizing: PcpSizing::LowWatermark,
            refill_falls_back: true,
            reclaim_active_limit: true,
            chunked_drain_all: true,
        },
        watermark: WatermarkPolicy {
            test: WatermarkTest::FreeBlock,
            reserves: MinReserveRule::NonBlocking,
            gaps: HighWatermark::ScaleFactor,
            min_free_kbytes_max: 262_144,
            boost: true,
        },
        fallback: FallbackRule::Compatible,
        highatomic: HighatomicKind::HighAtomic,
        merge: MergeRule::Mergeable,
        slow_path: SlowPathPolicy::V61,
        zonelist: ZonelistPolicy {
            cache: false,
            fair: false,
            node_load_4_3: false,
            reclaim_distance_exclusive: false,
            nofragment: true,
        },
        reclaim: ReclaimPolicy {
            kswapd: KswapdModel::Node61,
            lru: LruTopology::Node,
            throttle: ThrottlePolicy::Throttle61,
            unmap_young_file: UnmapYoung::MarkAccessed,
            balance: BalanceRule::Cost,
            anon_new: AnonStart::Inactive,
            dirty_at_tail: DirtyAtTail::Activate,
            proportional: Proportional::Stop61,
            lru_batch: 15,
            write_marks_accessed: false,
            zap_exclusive: false,
            anon_workingset: true,
            file_pageout: false,
        },
    }
}

fn v5_17() -> Policy {
    let mut p = v6_1();
    p.pcp.lists = PcpLists::HighOrder15;
    p.pcp.high_order_free = HighOrderFree::Cached;
    p.pcp.free_factor = FreeFactor::Uncapped;
    p.pcp.drain_order = DrainOrder::RoundRobin;
    p.pcp.event_unit = EventUnit::Operations;
    p.pcp.refill_falls_back = false;
    p.pcp.chunked_drain_all = false;
    p.watermark.reserves = MinReserveRule::LegacyOom;
    p.merge = MergeRule::NotIsolated;
    p.slow_path = SlowPathPolicy::V517;
    p.reclaim.file_pageout = true;
    p
}

fn v5_4() -> Policy {
    let mut p = v5_17();
    p.pcp.lists = PcpLists::Order0;
    p.pcp.free_factor = FreeFactor::None;
    p.pcp.event_unit = EventUnit::Pages;
    p.pcp.sizing = PcpSizing::SixBatchesMib;
    p.pcp.reclaim_active_limit = false;
    p.watermark.min_free_kbytes_max = 65_536;
    p.reclaim.throttle = ThrottlePolicy::Congestion515;
    p.reclaim.proportional = Proportional::Once515;
    p.reclaim.balance = BalanceRule::Rotated;
    p.reclaim.anon_new = AnonStart::Active;
    p.reclaim.anon_workingset = false;
    p
}

fn v4_3() -> Policy {
    let mut p = v5_4();
    p.pcp.sizing = PcpSizing::SixBatches;
    p.watermark.test = WatermarkTest::HalvedMarks;
    p.watermark.reserves = MinReserveRule::Legacy;
    p.watermark.gaps = HighWatermark::Quarters;
    p.watermark.boost = false;
    p.fallback = FallbackRule::Largest;
    p.highatomic = HighatomicKind::Reserve;
    p.slow_path = SlowPathPolicy::V43;
    p.zonelist.fair = true;
    p.zonelist.node_load_4_3 = true;
    p.zonelist.reclaim_distance_exclusive = true;
    p.zonelist.nofragment = false;
    p.reclaim.kswapd = KswapdModel::Inline45;
    p.reclaim.lru = LruTopology::Zone;
    p.reclaim.throttle = ThrottlePolicy::Congestion45;
    p.reclaim.dirty_at_tail = DirtyAtTail::Keep;
    p.reclaim.lru_batch = 14;
    p.reclaim.write_marks_accessed = true;
    p.reclaim.zap_exclusive = true;
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_preset_exists_and_carries_its_name() {
        for (name, _) in PRESETS {
            assert_eq!(preset(name).expect(name).name, *name);
        }
        assert!(preset("7.0").is_none());
    }

    #[test]
    fn study_003_policies_differ_in_nothing_but_the_change() {
        let mut set = preset("set-referenced").unwrap();
        set.reclaim.unmap_young_file = UnmapYoung::MarkAccessed;
        set.name = "mark-accessed".to_string();
        assert_eq!(set, preset("mark-accessed").unwrap());
    }

    #[test]
    fn study_002_policies_differ_in_nothing_but_the_change() {
        let mut cached = preset("cached").unwrap();
        cached.pcp.high_order_free = HighOrderFree::Limited;
        cached.name = "6.1".to_string();
        assert_eq!(cached, preset("6.1").unwrap());
        let mut order0 = preset("5.17-order0-pcp").unwrap();
        order0.pcp.lists = PcpLists::HighOrder15;
        order0.name = "5.17".to_string();
        assert_eq!(order0, preset("5.17").unwrap());
    }
}
