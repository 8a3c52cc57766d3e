//! Kernel presets: the version bundles of spec 01 §15 as policy values.

use alloc::string::ToString;

use super::policy::*;
use super::{Scheme, ThrottlePolicy};

/// Name and one-line description of every preset.
pub const PRESETS: &[(&str, &str)] = &[
    ("4.3", "zonelist cache removed, fair zones, order-0 per-CPU lists, RESERVE pageblocks"),
    ("4.3-zonelist-cache", "4.3 before study 000: a zonelist cache skips zones found full"),
    ("4.6", "4.3 with high-atomic pageblocks, the free-block watermark test, the scale factor"),
    ("5.4", "boost and NOFRAGMENT, order-0 per-CPU lists of six batches"),
    ("5.16", "5.16-rc1: the allocator of 5.17, the throttling of study 001 (its after)"),
    ("5.17", "high orders cached on per-CPU lists without limit (study 002 before)"),
    ("5.17-order0-pcp", "5.17 with per-CPU lists for order 0 only (study 002 revert)"),
    ("5.18", "5.17 with the high-order limit when mostly freeing (study 002 after)"),
    ("6.1", "late 6.1: as released, high orders limited when mostly freeing"),
    ("order0-pcp", "6.1 with per-CPU lists for order 0 only"),
    ("cached", "6.1 without the high-order limit: cached until the ordinary one"),
    ("mark-accessed", "6.1: unmapping a young file page marks it accessed (study 003 before)"),
    ("set-referenced", "6.1, but unmapping a young file page only sets its referenced bit"),
    ("congestion-wait-5.15", "5.16 with 5.15's congestion waits (study 001 before)"),
    ("series-1", "study 001 up to commit 1: node passes wait for writeback, not for congestion"),
    ("series-2", "up to commit 2: who finds too many pages isolated waits for others to put back"),
    ("series-3", "up to commit 3: direct reclaim without progress waits 100 ms for others'"),
    ("series-4", "up to commit 4: as series-3 (it changes a failure that is not modelled)"),
    ("series-5", "up to commit 5: allocations do not wait between rounds of reclaim"),
    ("series-6", "up to commit 6: the wait for isolated pages lasts 20 ms"),
    ("series-7", "up to commit 7: the wait for progress lasts 500 ms"),
    ("series-8", "up to commit 8: only an efficient reclaimer ends it; as events-5.16"),
    ("only-writeback", "5.15 and of study 001 only the waits for writeback; as series-1"),
    ("only-isolated", "5.15 and of study 001 only the waits for isolated pages, as they ended"),
    ("only-no-progress", "5.15 and of study 001 only the waits for progress, as they ended"),
    ("only-no-retry-wait", "5.15 and of study 001 only that allocations do not wait"),
    ("events-5.16", "5.16 by another name: all of study 001 (its after)"),
    ("events-6.1", "5.16 with 6.1's throttling: short waits, as a last resort"),
    ("prioritised", "5.16, but who made reclaim necessary waits longest"),
    ("prioritised-shares", "of prioritised only the lengths of waits"),
    ("prioritised-wakes", "of prioritised only the number of tasks that progress wakes"),
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
        "5.16" => v5_16(),
        "5.17" => v5_17(),
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
        name => {
            let mut p = v5_16();
            p.reclaim.throttle = study_001(name)?;
            p
        }
    };
    policy.name = name.to_string();
    Some(policy)
}

/// The throttling of a policy of study 001. All stand on 5.16 and differ in nothing else.
fn study_001(name: &str) -> Option<ThrottlePolicy> {
    let (before, after) = (ThrottlePolicy::CONGESTION_515, ThrottlePolicy::SERIES_516);
    if let Some(step) = name.strip_prefix("series-") {
        return match step.as_bytes() {
            [digit @ b'1'..=b'8'] => Some(ThrottlePolicy::series(digit - b'0')),
            _ => None,
        };
    }
    Some(match name {
        "congestion-wait-5.15" => before,
        "only-writeback" => ThrottlePolicy { node_pass: after.node_pass, ..before },
        "only-isolated" => ThrottlePolicy {
            isolated: after.isolated,
            isolated_jiffies: after.isolated_jiffies,
            ..before
        },
        "only-no-progress" => ThrottlePolicy {
            no_progress: after.no_progress,
            no_progress_jiffies: after.no_progress_jiffies,
            progress_wake: after.progress_wake,
            ..before
        },
        "only-no-retry-wait" => ThrottlePolicy { retry_wait: after.retry_wait, ..before },
        "events-5.16" => after,
        "events-6.1" => ThrottlePolicy::THROTTLE_61,
        "prioritised" => ThrottlePolicy::PRIORITISED,
        "prioritised-shares" => {
            ThrottlePolicy { sleep_share: ThrottlePolicy::PRIORITISED.sleep_share, ..after }
        }
        "prioritised-wakes" => {
            ThrottlePolicy { progress_wakes: ThrottlePolicy::PRIORITISED.progress_wakes, ..after }
        }
        _ => return None,
    })
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
            scheme: Scheme::TwoList,
            lru: LruTopology::Node,
            throttle: ThrottlePolicy::THROTTLE_61,
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

/// The base of study 001: its kernels are 5.15 with and without the series, which 5.16-rc1 took.
/// Of reclaim's switches these are as in 5.15, and not as in 6.1: a lruvec's scan goes on until the
/// larger side is done (`proportional`), and kswapd may write single pages of any file
/// (`file_pageout`; XFS refused only direct reclaim, which does not get that far).
fn v5_16() -> Policy {
    let mut p = v5_17();
    p.reclaim.throttle = ThrottlePolicy::SERIES_516;
    p
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
    p.reclaim.proportional = Proportional::Once515;
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
    p.reclaim.throttle = ThrottlePolicy::CONGESTION_515;
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
    p.reclaim.throttle = ThrottlePolicy::CONGESTION_45;
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
    fn study_001_policies_differ_in_nothing_but_throttling() {
        let base = preset("5.16").unwrap();
        let mut found = 0;
        for (name, _) in PRESETS {
            if study_001(name).is_some() {
                let mut policy = preset(name).unwrap();
                policy.reclaim.throttle = base.reclaim.throttle;
                policy.name = "5.16".to_string();
                assert_eq!(policy, base, "{name}");
                found += 1;
            }
        }
        assert_eq!(found, 18);
        assert_eq!(base.reclaim.throttle, preset("series-8").unwrap().reclaim.throttle);
        assert_eq!(base.reclaim.proportional, Proportional::Once515);
        for not_one in ["series-0", "series-9", "series-08", "series-+8"] {
            assert!(preset(not_one).is_none(), "{not_one}");
        }
        let later = preset("events-6.1").unwrap().reclaim.throttle;
        for name in ["5.17", "5.18", "6.1"] {
            assert_eq!(preset(name).unwrap().reclaim.throttle, later, "{name}");
        }
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
