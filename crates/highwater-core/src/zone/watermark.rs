//! Sizes (rules/watermarks#marks) and tests (rules/watermarks#exact-test) as pure functions over
//! numbers.
//!
//! Callers hold the state; nothing here reads a zone. Sizes are in pages unless a unit is written.

use super::AllocFlags;
use crate::config::{HighWatermark, MinReserveRule, PcpSizing, Policy, WatermarkTest};
use crate::page::{MAX_ORDER, MigrateType};

/// Lower bound of the computed min_free_kbytes.
const MIN_FREE_KBYTES_MIN: u64 = 128;
/// Migratetypes that keep a block free of others' pages (rules/watermarks#thp-min-free).
const PCP_TYPES: u64 = MigrateType::PCP_TYPES as u64;
/// Pages of a pageblock.
const PAGEBLOCK: u64 = crate::page::PAGEBLOCK_PAGES;
/// Upper bound of a per-CPU difference threshold.
const STAT_THRESHOLD_MAX: u64 = 125;

/// MIN, LOW, HIGH and PROMO of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Marks {
    /// Below this only privileged requests succeed.
    pub min: u64,
    /// Below this kswapd is woken.
    pub low: u64,
    /// kswapd sleeps above this.
    pub high: u64,
    /// Promotion between memory tiers.
    pub promo: u64,
}

impl Marks {
    /// The same distances from another min watermark.
    #[must_use]
    pub const fn with_min(self, min: u64) -> Marks {
        let Marks { min: old, low, high, promo } = self;
        Marks { min, low: low - old + min, high: high - old + min, promo: promo - old + min }
    }
}

/// The min watermark of the movable zone from 6.9 on, where it has no share of min_free_kbytes
/// (rules/watermarks#marks).
pub fn movable_min(managed: u64) -> u64 {
    (managed / 1024).clamp(32, 128)
}

impl Policy {
    /// How free pages are compared with a mark.
    #[inline(always)]
    pub(crate) const fn watermark_rule(&self) -> (WatermarkTest, MinReserveRule) {
        (self.watermark.test, self.watermark.reserves)
    }
}

/// Integer square root, rounded down.
pub const fn isqrt(x: u64) -> u64 {
    x.isqrt()
}

/// Computes min_free_kbytes from the pages that buffers may use (rules/watermarks#min-free).
#[doc(alias = "calculate_min_free_kbytes")]
pub fn min_free_kbytes(bufpages: u64, max_kbytes: u64) -> u64 {
    isqrt(bufpages * 4 * 16).clamp(MIN_FREE_KBYTES_MIN, max_kbytes)
}

/// The min_free_kbytes for transparent huge pages (rules/watermarks#thp-min-free): room for
/// pageblocks of each type.
pub fn thp_min_free_kbytes(nr_zones: u64, bufpages: u64) -> u64 {
    let pages = PAGEBLOCK * nr_zones * 2 + PAGEBLOCK * nr_zones * PCP_TYPES * PCP_TYPES;
    4 * pages.min(bufpages / 20)
}

/// `x * num / den` without overflow, as the kernel's fraction helper rounds.
pub const fn mult_frac(x: u64, num: u64, den: u64) -> u64 {
    (x / den) * num + (x % den) * num / den
}

/// A zone's marks from its share of min_free_kbytes (rules/watermarks#marks).
pub fn marks(
    min_free_kbytes: u64,
    managed: u64,
    managed_total: u64,
    scale_factor: u64,
    gaps: HighWatermark,
) -> Marks {
    let min = (min_free_kbytes / 4) * managed / managed_total.max(1);
    match gaps {
        HighWatermark::ScaleFactor => {
            let gap = (min / 4).max(mult_frac(managed, scale_factor, 10_000));
            Marks { min, low: min + gap, high: min + 2 * gap, promo: min + 3 * gap }
        }
        HighWatermark::Quarters => {
            Marks { min, low: min + min / 4, high: min + min / 2, promo: min + min / 2 }
        }
    }
}

/// Reserves of the zones of one node against requests that could use higher zones
/// (rules/watermarks#lowmem-reserve): `result[i][j]` is the reserve of zone `i` against requests
/// whose highest zone is `j`.
pub fn lowmem_reserve(managed: [u64; 5], ratio: [u64; 4]) -> [[u64; 5]; 5] {
    let mut reserve = [[0; 5]; 5];
    for (i, &ratio) in ratio.iter().enumerate() {
        if ratio == 0 || managed[i] == 0 {
            continue;
        }
        let mut above = 0;
        for j in i + 1..5 {
            above += managed[j];
            reserve[i][j] = above / ratio;
        }
    }
    reserve
}

/// A zone's reserve against ordinary use: its part of totalreserve
/// (rules/watermarks#total-reserve).
pub fn total_reserve(managed: u64, reserve: &[u64; 5], zone: usize, high: u64) -> u64 {
    let largest = reserve[zone..].iter().copied().max().unwrap_or(0);
    managed.min(largest + high)
}

/// The least that `percpu_pagelist_high_fraction` may be, so the largest lists: those that tune
/// their size grow up to it.
pub const PCP_FRACTION_MIN: u64 = 8;
/// Largest batch where `percpu_pagelist_fraction` says the size of lists: 8 times the shift of a page.
const FRACTION_BATCH_MAX: u64 = 96;

/// Computes batch and limit of a zone's per-CPU lists (rules/per-cpu-lists#sizes): `(batch, high)`.
/// `fraction` is the sysctl's; 0: unset. Of [`PcpSizing::Auto`] `high` is the least limit, and with
/// [`PCP_FRACTION_MIN`] the largest one.
///
/// `cpus` are the online CPUs of the zone's node, or all online CPUs if it has none.
#[doc(alias = "zone_batchsize")]
#[doc(alias = "zone_highsize")]
pub fn pcp_sizes(
    managed: u64,
    low: u64,
    cpus: u64,
    fraction: u64,
    sizing: PcpSizing,
) -> (u32, u32) {
    let cap = if sizing == PcpSizing::SixBatches { 128 } else { 256 };
    let base = ((managed / 1024).min(cap) / 4).max(1);
    let rounded = base + base / 2;
    // 0 for a zone below 8192 pages: before 5.13 its lists keep nothing.
    let raw = (1 << rounded.ilog2()) - 1;
    let batch = raw.max(1);
    let (batch, high) = match sizing {
        PcpSizing::SixBatches | PcpSizing::SixBatchesMib => match managed.checked_div(fraction) {
            None => (batch, 6 * raw),
            // rules/per-cpu-lists#fraction
            Some(high) => ((high / 4).clamp(1, FRACTION_BATCH_MAX), high),
        },
        PcpSizing::LowWatermark | PcpSizing::Auto => {
            let total = managed.checked_div(fraction).unwrap_or(low);
            (batch, (total / cpus.max(1)).max(batch * 4))
        }
    };
    (batch as u32, high as u32)
}

/// Computes the normal threshold of per-CPU counter differences (rules/zone-counters#thresholds).
#[doc(alias = "calculate_normal_threshold")]
pub fn stat_threshold(online_cpus: u64, managed: u64) -> u8 {
    let fls = |x: u64| u64::from(u64::BITS - x.leading_zeros());
    let threshold = 2 * fls(online_cpus) * (1 + fls(managed >> 15));
    threshold.min(STAT_THRESHOLD_MAX) as u8
}

/// Computes the threshold of per-CPU counter differences while kswapd is awake.
#[doc(alias = "calculate_pressure_threshold")]
pub fn stat_threshold_pressure(marks: &Marks, online_cpus: u64) -> u8 {
    ((marks.low - marks.min) / online_cpus.max(1)).clamp(1, STAT_THRESHOLD_MAX) as u8
}

/// The mark below which a free count needs a snapshot read, if drift could reach `min`
/// (rules/watermarks#drift-mark).
pub fn drift_mark(marks: &Marks, online_cpus: u64, threshold: u8) -> Option<u64> {
    let max_drift = online_cpus * u64::from(threshold);
    (max_drift > marks.low - marks.min).then_some(marks.high + max_drift)
}

/// Largest boost of a zone (rules/watermarks#boost).
pub fn boost_max(high: u64, boost_factor: u64) -> u64 {
    mult_frac(high, boost_factor, 10_000).max(PAGEBLOCK)
}

/// Flags that may dip into the high-atomic reserve's pages (rules/watermarks#exact-test).
#[inline(always)]
pub fn reserve_flags(rule: MinReserveRule) -> AllocFlags {
    match rule {
        MinReserveRule::NonBlocking => AllocFlags::NON_BLOCK
            .union(AllocFlags::MIN_RESERVE)
            .union(AllocFlags::HIGHATOMIC)
            .union(AllocFlags::OOM),
        MinReserveRule::LegacyOom => AllocFlags::NON_BLOCK.union(AllocFlags::OOM),
        MinReserveRule::Legacy => AllocFlags::NON_BLOCK,
    }
}

/// The minimum a request has to leave, before lowmem_reserve (rules/watermarks#effective-min).
#[inline]
pub fn effective_min(mark: i64, flags: AllocFlags, rule: MinReserveRule) -> i64 {
    let mut m = mark;
    match rule {
        MinReserveRule::NonBlocking => {
            if flags.contains(AllocFlags::MIN_RESERVE) {
                m -= m / 2;
                if flags.contains(AllocFlags::NON_BLOCK) {
                    m -= m / 4;
                }
            }
            if flags.contains(AllocFlags::OOM) {
                m -= m / 2;
            }
        }
        MinReserveRule::LegacyOom | MinReserveRule::Legacy => {
            if flags.contains(AllocFlags::MIN_RESERVE) {
                m -= m / 2;
            }
            if rule == MinReserveRule::LegacyOom && flags.contains(AllocFlags::OOM) {
                m -= m / 2;
            } else if flags.contains(AllocFlags::NON_BLOCK) {
                m -= m / 4;
            }
        }
    }
    m
}

/// The two sides of the order-0 comparison: pages that would be left for a request of `order`, and
/// the minimum that has to be left before lowmem_reserve (rules/watermarks#exact-test). The zone
/// passes if the first is above the sum of the second and its reserve.
///
/// `unusable`: free pages that the request may not have, such as those of high-atomic pageblocks for
/// requests without [`reserve_flags`].
#[inline(always)]
pub fn sides(
    order: u8,
    free: u64,
    unusable: u64,
    mark: u64,
    flags: AllocFlags,
    rule: MinReserveRule,
) -> (i64, i64) {
    let left = free as i64 - ((1 << order) - 1) - unusable as i64;
    (left, effective_min(mark as i64, flags, rule))
}

/// May the request take blocks of the high-atomic reserve (rules/watermarks#exact-test)?
pub fn reserves_reach_highatomic(rule: MinReserveRule, flags: AllocFlags) -> bool {
    match rule {
        MinReserveRule::NonBlocking => flags.intersects(AllocFlags::HIGHATOMIC | AllocFlags::OOM),
        MinReserveRule::LegacyOom | MinReserveRule::Legacy => {
            flags.intersects(AllocFlags::NON_BLOCK | AllocFlags::OOM)
        }
    }
}

/// High-order part of the exact test: is a block of the order on a usable list
/// (rules/watermarks#exact-test)?
///
/// `types` are those of the order and of all above: bit `t` is set if the list of type `t` is not empty.
#[inline]
pub fn has_block(types: impl IntoIterator<Item = u8>, may_use_highatomic: bool) -> bool {
    let usable = 0b111 | u8::from(may_use_highatomic) << MigrateType::HighAtomic as u8;
    types.into_iter().any(|types| types & usable != 0)
}

/// The high-order test up to 4.3 (rules/watermarks#halved-marks): blocks below the order do not
/// count, and the mark halves with each order. `free` and `mark` are those of the order-0
/// comparison.
pub fn halved_marks_ok(
    order: usize,
    nr_free: &[u32; MAX_ORDER],
    mut free: i64,
    mut mark: i64,
) -> bool {
    for (o, &blocks) in nr_free.iter().enumerate().take(order) {
        free -= i64::from(blocks) << o;
        mark >>= 1;
        if free <= mark {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_free_kbytes_by_size() {
        let mib = |m: u64| min_free_kbytes(m << 8, 262_144);
        let table = [
            (16, 512),
            (128, 1448),
            (1024, 4096),
            (8192, 11585),
            (16384, 16384),
            (1048576, 131072),
            (4194304, 262144),
        ];
        for (lowmem_mib, kbytes) in table {
            assert_eq!(mib(lowmem_mib), kbytes, "{lowmem_mib} MiB");
        }
    }

    #[test]
    fn the_movable_zone_keeps_little() {
        let mins = [20_000, 65_536, 262_144].map(movable_min);
        assert_eq!(mins, [32, 64, 128]);
        // 724 pages over 131,072 managed ones of other zones.
        let m = marks(2896, 65_536, 131_072, 10, HighWatermark::ScaleFactor);
        assert_eq!(m, Marks { min: 362, low: 452, high: 542, promo: 632 });
        assert_eq!(m.with_min(64), Marks { min: 64, low: 154, high: 244, promo: 334 });
    }

    #[test]
    fn reserves_by_zone() {
        let r = lowmem_reserve([3840, 241_529, 0, 0, 0], [256, 256, 32, 0]);
        assert_eq!(r[0], [0, 943, 943, 943, 943]);
        assert_eq!(r[1], [0; 5]);
        let r = lowmem_reserve([3840, 765_000, 262_144, 0, 0], [256, 256, 32, 0]);
        assert_eq!(r[0], [0, 2988, 4012, 4012, 4012]);
        assert_eq!(r[1], [0, 0, 1024, 1024, 1024]);
    }

    #[test]
    fn counter_thresholds() {
        let t = |cpus, managed| stat_threshold(cpus, managed);
        assert_eq!((t(2, 3840), t(2, 241_529)), (4, 16));
        assert_eq!((t(48, 480_000), t(48, 3_600_000)), (60, 96));
        let m = |min, low, high| Marks { min, low, high, promo: 0 };
        assert_eq!(stat_threshold_pressure(&m(177, 221, 265), 2), 22);
        assert_eq!(stat_threshold_pressure(&m(11086, 13857, 16628), 2), 125);
        assert_eq!(drift_mark(&m(15, 18, 21), 2, 4), Some(29));
        assert_eq!(drift_mark(&m(974, 1217, 1460), 2, 16), None);
        assert_eq!(drift_mark(&m(2881, 7009, 11137), 48, 96), Some(15745));
    }

    #[test]
    fn minimum_by_privilege() {
        let passing = |flags, rule| effective_min(11_086, flags, rule);
        let new = MinReserveRule::NonBlocking;
        let both = AllocFlags::MIN_RESERVE | AllocFlags::NON_BLOCK;
        assert_eq!(passing(AllocFlags::empty(), new), 11_086);
        assert_eq!(passing(AllocFlags::NON_BLOCK, new), 11_086);
        assert_eq!(passing(AllocFlags::MIN_RESERVE, new), 5_543);
        assert_eq!(passing(AllocFlags::OOM, new), 5_543);
        assert_eq!(passing(both, new), 4_158);
        assert_eq!(passing(AllocFlags::NON_BLOCK, MinReserveRule::LegacyOom), 8_315);
        assert_eq!(passing(both, MinReserveRule::LegacyOom), 4_158);
    }

    #[test]
    fn high_orders_need_a_block() {
        let nr_free = [12_000, 500, 100, 20, 5, 2, 0, 0, 0, 0, 0];
        let types = nr_free.map(|n| u8::from(n > 0) << 1);
        let free = 13_704 - 7;
        assert!(free > 8000 && has_block(types[3..].iter().copied(), false));
        assert!(!halved_marks_ok(3, &nr_free, free, 8000));
    }

    #[test]
    fn boost_is_capped() {
        assert_eq!((boost_max(16_628, 15_000), boost_max(265, 15_000)), (24_942, 512));
    }
}
