//! Policies of a swarm: a preset, often with switches turned that no kernel ever combined.

use highwater_core::config::{
    AnonStart, BalanceRule, DirtyAtTail, DrainOrder, FallbackRule, FreeFactor, HighOrderFree,
    HighWatermark, HighatomicKind, KswapdModel, LruTopology, MergeRule, MinReserveRule, PRESETS,
    PcpLists, PcpSizing, Policy, Proportional, Scheme, SlowPathPolicy, ThrottlePolicy, UnmapYoung,
    WatermarkTest, preset,
};

use super::draw::Draw;
use crate::rng::Stream;

/// A policy.
pub(super) fn draw(stream: &mut Stream) -> Policy {
    let name = match stream.below(3) {
        0 => "6.1",
        _ => stream.pick(PRESETS).0,
    };
    let mut policy = preset(name).expect("it is listed");
    // One switch in so many is turned; none: the kernel as it was.
    if let Some(rarity) = stream.pick(&[None, Some(10), Some(3)]) {
        turn_reclaim(stream, rarity, &mut policy);
        turn_allocator(stream, rarity, &mut policy);
        turn(stream, rarity, &mut policy.reclaim.scheme, Scheme::ALL);
        policy.name.push_str(", turned");
    }
    policy
}

/// Puts another value in the place of one in `rarity`.
fn turn<T: Copy>(stream: &mut Stream, rarity: u64, value: &mut T, choices: &[T]) {
    if stream.one_in(rarity) {
        *value = stream.pick(choices);
    }
}

fn turn_reclaim(s: &mut Stream, rarity: u64, policy: &mut Policy) {
    const BOTH: &[bool] = &[false, true];
    let p = &mut policy.reclaim;
    let kswapd = [KswapdModel::Inline45, KswapdModel::Kcompactd46, KswapdModel::Node61];
    turn(s, rarity, &mut p.kswapd, &kswapd);
    turn(s, rarity, &mut p.lru, &[LruTopology::Zone, LruTopology::Node]);
    let throttle = [
        ThrottlePolicy::CONGESTION_45,
        ThrottlePolicy::CONGESTION_515,
        ThrottlePolicy::SERIES_516,
        ThrottlePolicy::THROTTLE_61,
        ThrottlePolicy::PRIORITISED,
    ];
    turn(s, rarity, &mut p.throttle, &throttle);
    let unmap = [UnmapYoung::MarkAccessed, UnmapYoung::SetReferenced];
    turn(s, rarity, &mut p.unmap_young_file, &unmap);
    turn(s, rarity, &mut p.balance, &[BalanceRule::Rotated, BalanceRule::Cost]);
    turn(s, rarity, &mut p.anon_new, &[AnonStart::Active, AnonStart::Inactive]);
    turn(s, rarity, &mut p.dirty_at_tail, &[DirtyAtTail::Keep, DirtyAtTail::Activate]);
    turn(s, rarity, &mut p.proportional, &[Proportional::Once515, Proportional::Stop61]);
    turn(s, rarity, &mut p.lru_batch, &[1, 2, 14, 15]);
    turn(s, rarity, &mut p.write_marks_accessed, BOTH);
    turn(s, rarity, &mut p.zap_exclusive, BOTH);
    turn(s, rarity, &mut p.anon_workingset, BOTH);
    turn(s, rarity, &mut p.file_pageout, BOTH);
}

fn turn_allocator(s: &mut Stream, rarity: u64, policy: &mut Policy) {
    const BOTH: &[bool] = &[false, true];
    let p = &mut policy.pcp;
    let lists = [PcpLists::Order0, PcpLists::HighOrder15, PcpLists::HighOrder14];
    turn(s, rarity, &mut p.lists, &lists);
    turn(s, rarity, &mut p.high_order_free, &[HighOrderFree::Cached, HighOrderFree::Limited]);
    let factors = [FreeFactor::None, FreeFactor::Uncapped, FreeFactor::Capped];
    turn(s, rarity, &mut p.free_factor, &factors);
    turn(s, rarity, &mut p.drain_order, &[DrainOrder::RoundRobin, DrainOrder::FreedListFirst]);
    let sizing = [PcpSizing::SixBatches, PcpSizing::SixBatchesMib, PcpSizing::LowWatermark];
    turn(s, rarity, &mut p.sizing, &sizing);
    turn(s, rarity, &mut p.refill_falls_back, BOTH);
    turn(s, rarity, &mut p.reclaim_active_limit, BOTH);
    turn(s, rarity, &mut p.chunked_drain_all, BOTH);
    let p = &mut policy.watermark;
    turn(s, rarity, &mut p.test, &[WatermarkTest::FreeBlock, WatermarkTest::HalvedMarks]);
    let reserves = [MinReserveRule::Legacy, MinReserveRule::LegacyOom, MinReserveRule::NonBlocking];
    turn(s, rarity, &mut p.reserves, &reserves);
    turn(s, rarity, &mut p.gaps, &[HighWatermark::Quarters, HighWatermark::ScaleFactor]);
    turn(s, rarity, &mut p.boost, BOTH);
    turn(s, rarity, &mut policy.fallback, &[FallbackRule::Largest, FallbackRule::Compatible]);
    let highatomic = [HighatomicKind::Reserve, HighatomicKind::HighAtomic];
    turn(s, rarity, &mut policy.highatomic, &highatomic);
    turn(s, rarity, &mut policy.merge, &[MergeRule::NotIsolated, MergeRule::Mergeable]);
    let slow = [SlowPathPolicy::V43, SlowPathPolicy::V517, SlowPathPolicy::V61];
    turn(s, rarity, &mut policy.slow_path, &slow);
    let p = &mut policy.zonelist;
    turn(s, rarity, &mut p.cache, BOTH);
    turn(s, rarity, &mut p.fair, BOTH);
    turn(s, rarity, &mut p.reclaim_distance_exclusive, BOTH);
    turn(s, rarity, &mut p.nofragment, BOTH);
}
