//! Levels, costs and counts of cache warmth, by example.

use super::*;
use crate::rng::Stream;

pub(super) const SIZES: CacheSizes =
    CacheSizes { l1_bytes: 32 << 10, l2_bytes: 256 << 10, llc_bytes: 8 << 20 };
const LEVELS: LevelCosts = LevelCosts {
    l1_ns: 30,
    l2_ns: 80,
    llc_ns: 200,
    dram_ns: 450,
    llc_in_order_ns: 70,
    dram_in_order_ns: 190,
};
pub(super) const COSTS: CacheCosts = CacheCosts {
    zero: LEVELS,
    copy: LevelCosts { l1_ns: 25, l2_ns: 45, ..LEVELS },
    zero_2m_ns: 100_000,
};
/// Bytes after whose fetching an LLC has nothing left of a frame.
const GONE: u64 = 5 * SIZES.llc_bytes;
pub(super) const A: CpuId = CpuId(0);
pub(super) const B: CpuId = CpuId(1);
pub(super) const FAR: CpuId = CpuId(2);

/// CPUs 0 and 1 on socket 0 with node 0, CPU 2 on socket 1 with node 1.
fn caches() -> CacheWarmth {
    CacheWarmth::new(SIZES, COSTS, vec![0, 0, 1], vec![0, 1], 16)
}

#[test]
fn an_untouched_frame_is_in_memory_local_or_remote() {
    let caches = caches();
    assert_eq!(caches.level(A, 3, 0), Level::Dram);
    assert_eq!(caches.level(A, 3, 1), Level::RemoteDram);
    assert_eq!(caches.level(FAR, 3, 1), Level::Dram);
}

#[test]
fn own_distance_selects_l1_l2_llc_dram() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    for (distance, level) in [
        (0, Level::L1),
        ((32 << 10) - 1, Level::L1),
        (32 << 10, Level::L2),
        ((256 << 10) - 1, Level::L2),
        (256 << 10, Level::Llc),
        // Half of it is left after ln 2 = 0.693 sizes.
        (11 << 19, Level::Llc),
        (12 << 19, Level::Dram),
    ] {
        let mut later = caches.clone();
        later.touch_elsewhere(A, distance);
        assert_eq!(later.level(A, 3, 0), level, "{distance}");
    }
}

#[test]
fn neighbours_traffic_pushes_out_of_the_llc_only() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    caches.touch_elsewhere(B, GONE);
    assert_eq!(caches.level(A, 3, 0), Level::L1, "own caches are private");
    caches.touch_elsewhere(A, 256 << 10);
    assert_eq!(caches.level(A, 3, 0), Level::Dram);
}

#[test]
fn another_cpu_of_the_socket_snoops_only_what_is_dirty_and_near() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    caches.touch(A, 4, 0, Touch::CopyFrom);
    assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
    assert_eq!(caches.level(B, 4, 0), Level::Llc, "clean");
    caches.touch_elsewhere(A, 256 << 10);
    assert_eq!(caches.level(B, 3, 0), Level::Llc, "written back since");
    caches.touch_elsewhere(A, GONE);
    assert_eq!(caches.level(B, 3, 0), Level::Dram);
}

#[test]
fn another_socket_is_far_whatever_the_level() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    assert_eq!(caches.level(FAR, 3, 0), Level::RemoteCache);
    caches.touch_elsewhere(FAR, 100 << 20);
    assert_eq!(caches.level(FAR, 3, 0), Level::RemoteCache, "its own traffic does not matter");
    caches.touch_elsewhere(B, GONE);
    assert_eq!(caches.level(FAR, 3, 0), Level::RemoteDram);
    assert_eq!(caches.level(FAR, 3, 1), Level::Dram, "a frame of its own node");
}

#[test]
fn a_read_by_another_cpu_cleans_and_an_own_read_does_not() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    caches.touch(A, 3, 0, Touch::CopyFrom);
    assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
    caches.touch(B, 3, 0, Touch::CopyFrom);
    assert_eq!(caches.level(A, 3, 0), Level::Llc);
    caches.touch(A, 3, 0, Touch::CopyTo);
    assert_eq!(caches.level(B, 3, 0), Level::LlcSnoop);
}

#[test]
fn parts_of_a_frame_are_as_warm_as_its_first_part_was() {
    let mut caches = caches();
    let mut parts = |cpu, touch| -> u64 {
        (0..4).map(|at| caches.touch_range(cpu, 3, 0, touch, at * 1024, 1024)).sum()
    };
    // From memory, not one part from memory and three from L1.
    assert_eq!(parts(A, Touch::CopyTo), 4 * 113);
    assert_eq!(parts(B, Touch::CopyFrom), 4 * 75, "dirty in the other core");
    assert_eq!(parts(A, Touch::CopyTo), 4 * 50, "a second pass is judged anew");
}

#[test]
fn a_whole_frame_ends_the_one_that_was_begun() {
    let mut caches = caches();
    let mut copy = |bytes| caches.touch_range(A, 3, 0, Touch::CopyTo, 0, bytes);
    // A quarter from memory, then all of it from L1, and the next quarter begins anew.
    assert_eq!([copy(1024), copy(4096), copy(1024)], [113, 25, 7]);
}

#[test]
fn a_frame_left_alone_for_terabytes_stays_cold() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    caches.touch(B, 4, 0, Touch::Zero);
    caches.touch_elsewhere(A, (1 << 40) - (64 << 10));
    for _ in 0..100 {
        assert_eq!(caches.level(A, 3, 0), Level::Dram);
        assert_eq!(caches.level(B, 3, 0), Level::Dram);
        assert_eq!(caches.level(B, 4, 0), Level::L1, "its CPU did nothing since");
        caches.touch_elsewhere(A, 1 << 10);
    }
    for _ in 0..10 {
        caches.touch_elsewhere(A, (1 << 39) + 12_345);
        assert_eq!(caches.level(A, 3, 0), Level::Dram);
        assert_eq!(caches.level(B, 4, 0), Level::L1);
    }
    caches.touch(A, 3, 0, Touch::Zero);
    assert_eq!(caches.level(A, 3, 0), Level::L1);
}

#[test]
fn costs_follow_level_kind_and_factor() {
    let mut caches = caches();
    assert_eq!(caches.touch(A, 3, 0, Touch::Zero), 450);
    assert_eq!(caches.touch(A, 3, 0, Touch::Zero), 30);
    assert_eq!(caches.touch(A, 3, 0, Touch::CopyFrom), 25);
    assert_eq!(caches.touch(B, 3, 0, Touch::CopyFrom), 300);
    assert_eq!(caches.touch(FAR, 3, 0, Touch::CopyTo), 500);
    assert_eq!(caches.touch(FAR, 5, 0, Touch::Zero), 720);
    assert_eq!(Level::L2.ns(&LEVELS, false), 80);
    assert_eq!(caches.touch_range(A, 6, 0, Touch::Zero, 0, 64), 8);
    assert_eq!(caches.touch_range(A, 12, 0, Touch::Zero, 0, 4096), 450);
}

#[test]
fn huge_blocks_cost_a_flat_figure_and_small_ones_their_frames() {
    let mut caches = CacheWarmth::new(SIZES, COSTS, vec![0, 1], vec![0, 1], 2048);
    assert_eq!(caches.zero_block(A, 0, 0, 512), 100_000);
    assert_eq!(caches.zero_block(A, 0, 1, 1024), 320_000);
    assert_eq!(caches.level(A, 1023, 1), Level::L1);
    assert_eq!(caches.level(A, 900, 1), Level::Llc);
    assert_eq!(caches.zero_block(A, 1030, 0, 16), 450 + 15 * 190);
    assert_eq!(caches.zero_block(A, 1030, 0, 16), 16 * 80, "60 KiB away each");
}

#[test]
fn dma_leaves_no_warm_copy() {
    let mut caches = caches();
    caches.touch(A, 3, 0, Touch::Zero);
    caches.forget(3);
    assert_eq!(caches.level(A, 3, 0), Level::Dram);
}

/// rules/costs#llc-share.
#[test]
fn a_share_is_left_after_others_were_fetched() {
    for (sizes, parts, ns) in [
        (0.0, 65_536, 200),
        (0.25, 51_039, 255),
        (0.5, 39_750, 298),
        (1.0, 24_109, 358),
        (1.5, 14_623, 394),
        (2.0, 8869, 416),
        (4.0, 1200, 445),
        (4.999, 442, 448),
        (5.0, 0, 450),
    ] {
        let mut caches = caches();
        caches.touch(A, 3, 0, Touch::Zero);
        caches.touch_elsewhere(B, (sizes * (8 << 20) as f64) as u64);
        // Out of its own caches, which takes nothing from the LLC.
        caches.cores[A.idx()].bytes += 1 << 20;
        assert_eq!(caches.shares.left(caches.socket_bytes[0] - 4096), parts, "{sizes}");
        let before = caches.socket_bytes[0];
        assert_eq!(caches.touch(A, 3, 0, Touch::Zero), ns, "{sizes}");
        let fetched = caches.socket_bytes[0] - before;
        assert_eq!(fetched, 4096 * u64::from(65_536 - parts) / 65_536, "{sizes}");
    }
}

#[test]
fn what_is_written_and_read_soon_after_is_fetched_once() {
    let mut caches = CacheWarmth::new(SIZES, COSTS, vec![0, 0, 1], vec![0, 1], 4096);
    for pfn in 0..2048 {
        caches.touch(A, pfn, 0, Touch::CopyTo);
        caches.touch(B, pfn, 0, Touch::CopyFrom);
        caches.touch(A, pfn, 0, Touch::CopyTo);
    }
    // The writer's next touch finds all but the line that was fetched last.
    assert_eq!(caches.socket_bytes[0], 2048 * 4096);
    // Another socket fetches from this one's cache: that takes room in its own only.
    caches.touch(FAR, 7, 0, Touch::CopyFrom);
    assert_eq!(caches.socket_bytes, [2048 * 4096, 4096]);
}

/// Share of touches that find their data in the LLC: `frames` gives the frame of a touch.
fn hits(mut frames: impl FnMut(u64) -> u64) -> f64 {
    let mut caches = CacheWarmth::new(SIZES, COSTS, vec![0, 0], vec![0], 1 << 16);
    let nr = 100_000;
    for at in 0..nr {
        caches.touch(A, frames(at) as usize, 0, Touch::CopyTo);
    }
    let before = caches.socket_bytes[0];
    for at in nr..2 * nr {
        caches.touch(A, frames(at) as usize, 0, Touch::CopyTo);
    }
    1.0 - (caches.socket_bytes[0] - before) as f64 / (nr * FRAME_BYTES) as f64
}

/// rules/costs#llc-share: a cache of 2048 frames. In turn the share h = exp(-n/2048 (1 - h)), at
/// random as much as fits.
#[test]
fn the_last_level_holds_as_much_as_fits() {
    let mut stream = Stream::new(1, "cache");
    let mut random = |below: u64| stream.below(below);
    for (nr, share) in [(1800, 1.0), (3000, 0.446), (4096, 0.203), (8192, 0.02)] {
        let found = hits(|at| at % nr);
        assert!((found - share).abs() < 0.015, "{nr} in turn: {found}, {share}");
    }
    for nr in [1800, 3000, 4096, 20_000] {
        let (found, fits) = (hits(|_| random(nr)), (2048.0 / nr as f64).min(1.0));
        assert!((found - fits).abs() < 0.01, "{nr} at random: {found}, {fits}");
    }
}

#[test]
fn frames_in_address_order_cost_less_than_the_first() {
    let mut caches = CacheWarmth::new(SIZES, COSTS, vec![0, 1], vec![0, 1], 64);
    let of = |first: u64, next: u64, nr: u64| first + (nr - 1) * next;
    assert_eq!(caches.touch_range(A, 0, 0, Touch::CopyTo, 0, 32 << 10), of(450, 190, 8));
    // Other work in between does not matter; reading and writing are apart.
    assert_eq!(caches.touch_range(A, 20, 0, Touch::CopyFrom, 0, 4096), 450);
    let mut piece = |at| caches.touch_range(A, 8, 0, Touch::CopyTo, at, 2048);
    assert_eq!([0, 2048, 4096, 6144].map(&mut piece), [95; 4]);
    assert_eq!(caches.touch_range(A, 10, 0, Touch::CopyTo, 100, 8192), 186 + 190 + 5);
    assert_eq!(caches.zero_block(A, 32, 0, 16), of(450, 190, 16));
    assert_eq!(caches.zero_block(A, 30, 0, 1), 450, "backwards");
    assert_eq!(caches.zero_block(B, 32, 0, 4), 500 + 176 + 176 + 177, "in another socket's cache");
    caches.touch_elsewhere(A, 1 << 20);
    assert_eq!(caches.touch_range(A, 48, 1, Touch::CopyFrom, 0, 8192), 720 + 304, "its memory");
    // Of both, 13 % are in memory by now.
    assert_eq!(caches.touch_range(A, 0, 0, Touch::CopyFrom, 0, 8192), 232 + 85);
}
