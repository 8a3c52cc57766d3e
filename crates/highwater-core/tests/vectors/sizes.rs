//! Boot-time sizing (rules/watermarks#min-free, rules/watermarks#marks, rules/per-cpu-lists#sizes).

use highwater_core::config::{Machine, MovableMin, Thp, ZoneSpec};
use highwater_core::zone::watermark;
use highwater_core::zone::{NodeId, ZoneType};

use crate::common::*;

fn dma() -> ZoneSpec {
    ZoneSpec {
        zone: ZoneType::Dma,
        start_pfn: 1,
        spanned: 4095,
        present: 3998,
        managed_at_boot: 3840,
        managed: 3840,
    }
}

pub(super) fn guest_1_gib(managed_at_boot: u64, thp: Thp) -> Machine {
    let dma32 = managed_zone(ZoneType::Dma32, 4096, 258_016, managed_at_boot, 241_529);
    let mut m = machine(vec![node(&[0, 1], &[dma(), dma32])]);
    m.tunables.thp = thp;
    m
}

/// What a booted machine computed: `(min_free_kbytes, [(min, low, high), pcp high, pcp batch])`.
type Sizes = (u64, Vec<([u64; 3], u32, u32)>);

fn sizes(machine: &Machine) -> Sizes {
    let host = host();
    let (alloc, _) = boot_on(&host, machine, &policy("6.1"));
    let zones = alloc.populated_zones().map(|z| {
        let m = z.marks();
        ([m.min, m.low, m.high], z.pcp_high(), z.pcp_batch())
    });
    (alloc.min_free_kbytes(), zones.collect())
}

#[test]
fn guest_with_thp() {
    let expected = (45_056, vec![([177, 221, 265], 110, 1), ([11_086, 13_857, 16_628], 6928, 63)]);
    for managed_at_boot in [239_159, 240_000, 240_531] {
        assert_eq!(sizes(&guest_1_gib(managed_at_boot, Thp::Always)), expected);
    }
    for outside in [239_158, 240_532] {
        assert_ne!(sizes(&guest_1_gib(outside, Thp::Always)), expected, "{outside}");
    }
    let (_, zones) = sizes(&guest_1_gib(241_529, Thp::Always));
    assert_eq!((zones[0].0, zones[1].0), ([176, 220, 264], [11_087, 13_858, 16_629]));
}

/// 7.2 computes the reserves again when the memory of the kernel's start is freed.
#[test]
fn reserves_of_7_2_follow_all_memory() {
    let host = host();
    for (kernel, reserve) in [("6.12", 240_000 / 256), ("7.2", 241_529 / 256)] {
        let (alloc, _) = boot_on(&host, &guest_1_gib(240_000, Thp::Always), &policy(kernel));
        let dma = alloc.zone(NodeId(0), ZoneType::Dma).unwrap();
        assert_eq!(dma.lowmem_reserves(), [0, reserve, reserve, reserve, reserve], "{kernel}");
    }
}

#[test]
fn the_movable_zone_leaves_the_shares() {
    let normal = ZoneSpec::full(ZoneType::Normal, 1 << 20, 131_072);
    let movable = ZoneSpec::full(ZoneType::Movable, (1 << 20) + 131_072, 65_536);
    let m = machine(vec![node(&[0], &[normal, movable])]);
    let marks = |movable_min| {
        let host = host();
        let mut policy = policy("6.1");
        policy.watermark.movable_min = movable_min;
        let (alloc, _) = boot_on(&host, &m, &policy);
        alloc.set_min_free_kbytes(2896);
        let of_zone = |zone: &highwater_core::zone::Zone<Host>| {
            let m = zone.marks();
            [m.min, m.low, m.high]
        };
        alloc.populated_zones().map(of_zone).collect::<Vec<_>>()
    };
    assert_eq!(marks(MovableMin::Share), [[482, 613, 744], [241, 306, 371]]);
    assert_eq!(marks(MovableMin::Clamped), [[724, 905, 1086], [64, 154, 244]]);
}

#[test]
fn managed_now_is_not_managed_at_init() {
    let host = host();
    let (alloc, _) = boot_on(&host, &guest_1_gib(240_000, Thp::Always), &policy("6.1"));
    let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
    assert_eq!((zone.managed(), zone.nr_free_pages()), (241_529, 241_529));
    assert_eq!(zone.spanned(), 258_016);
}

#[test]
fn guest_without_thp() {
    let m = guest_1_gib(241_529, Thp::Never);
    let expected = (3962, vec![([15, 18, 21], 9, 1), ([974, 1217, 1460], 608, 63)]);
    assert_eq!(sizes(&m), expected);
    assert_eq!(watermark::min_free_kbytes(245_369, 262_144), 3962);
}

#[test]
fn square_root_table() {
    let table = [
        (16, 512),
        (128, 1448),
        (1024, 4096),
        (8192, 11_585),
        (16_384, 16_384),
        (1_048_576, 131_072),
        (4_194_304, 262_144),
    ];
    for (lowmem_mib, kbytes) in table {
        assert_eq!(watermark::min_free_kbytes(lowmem_mib << 8, 262_144), kbytes);
    }
    assert_eq!(watermark::min_free_kbytes(4_194_304 << 8, 65_536), 65_536, "the cap of 4.3");
}

#[test]
fn lowmem_reserve_of_a_guest() {
    let reserves = |m: &Machine| {
        let host = host();
        let (alloc, _) = boot_on(&host, m, &policy("6.1"));
        alloc.populated_zones().map(|z| z.lowmem_reserves()).collect::<Vec<_>>()
    };
    let small = reserves(&guest_1_gib(241_529, Thp::Always));
    assert_eq!(small, [[0, 943, 943, 943, 943], [0; 5]]);
    let large = reserves(&guest_4_gib(Thp::Always));
    assert_eq!(large, [[0, 2988, 4012, 4012, 4012], [0, 0, 1024, 1024, 1024], [0; 5]]);
}

fn guest_4_gib(thp: Thp) -> Machine {
    let dma32 = managed_zone(ZoneType::Dma32, 4096, 782_336, 765_000, 765_000);
    let normal = ZoneSpec::full(ZoneType::Normal, 1 << 20, 262_144);
    let mut m = machine(vec![node(&[0, 1, 2, 3], &[dma(), dma32, normal])]);
    m.tunables.thp = thp;
    m
}

#[test]
fn guest_with_4_gib() {
    let (kbytes, zones) = sizes(&guest_4_gib(Thp::Never));
    assert_eq!(kbytes, 8122);
    let marks: Vec<_> = zones.iter().map(|z| (z.0, z.1)).collect();
    assert_eq!(marks, [([7, 10, 13], 4), ([1506, 2271, 3036], 567), ([516, 778, 1040], 252)]);
    let (kbytes, zones) = sizes(&guest_4_gib(Thp::Madvise));
    assert_eq!(kbytes, 67_584);
    let marks: Vec<_> = zones.iter().map(|z| (z.0, z.1)).collect();
    assert_eq!(
        marks,
        [([62, 77, 92], 19), ([12_536, 15_670, 18_804], 3917), ([4296, 5370, 6444], 1342)]
    );
    let host = host();
    let (alloc, _) = boot_on(&host, &guest_4_gib(Thp::Never), &policy("6.1"));
    assert_eq!(alloc.node(NodeId(0)).total_reserve(), 3840 + 4060 + 1040);
}

fn two_nodes(thp: Thp) -> Machine {
    let dma32 = managed_zone(ZoneType::Dma32, 4096, 782_336, 480_000, 480_000);
    let n0 = ZoneSpec::full(ZoneType::Normal, 1 << 20, 3_600_000);
    let n1 = ZoneSpec::full(ZoneType::Normal, (1 << 20) + 3_600_384, 4_128_768);
    let cpus = |from: u16| (from..from + 24).collect::<Vec<_>>();
    let mut m = machine(vec![node(&cpus(0), &[dma(), dma32, n0]), node(&cpus(24), &[n1])]);
    m.tunables.thp = thp;
    m
}

#[test]
fn two_nodes_and_their_thresholds() {
    let host = host();
    let (alloc, _) = boot_on(&host, &two_nodes(Thp::Never), &policy("6.1"));
    let zones: Vec<_> = alloc.populated_zones().collect();
    let marks: Vec<_> = zones
        .iter()
        .map(|z| (z.marks().min, z.marks().low, z.marks().high, z.pcp_high()))
        .collect();
    assert_eq!(alloc.min_free_kbytes(), 22_926);
    assert_eq!((marks[0].0, marks[0].1, marks[0].2), (2, 5, 8));
    assert_eq!(
        marks[1..],
        [(334, 814, 1294, 252), (2512, 6112, 9712, 254), (2881, 7009, 11_137, 292)]
    );
    let thresholds: Vec<_> = zones.iter().map(|z| z.stats.threshold()).collect();
    assert_eq!(thresholds[1..], [60, 96, 96]);
    assert_eq!(zones[3].drift_mark(), 15_745);
}

#[test]
fn two_nodes_with_thp() {
    let (kbytes, zones) = sizes(&two_nodes(Thp::Always));
    assert_eq!(kbytes, 90_112);
    assert_eq!((zones[3].0, zones[3].1), ([11_325, 15_453, 19_581], 643));
}

#[test]
fn sysctls_change_watermarks() {
    let mut m = guest_1_gib(241_529, Thp::Never);
    m.tunables.watermark_scale_factor = 200;
    let (_, zones) = sizes(&m);
    assert_eq!((zones[0].0, zones[1].0), ([15, 91, 167], [974, 5804, 10_634]));
    let mut m = guest_1_gib(241_529, Thp::Never);
    m.tunables.percpu_pagelist_high_fraction = 8;
    let (_, zones) = sizes(&m);
    assert_eq!((zones[0].1, zones[1].1), (240, 15_095));
    let mut m = guest_1_gib(241_529, Thp::Always);
    m.tunables.min_free_kbytes = Some(8192);
    assert_eq!(sizes(&m).0, 8192, "a sysctl has the last word");
}

#[test]
fn lists_by_a_fraction_of_a_zone() {
    // rules/per-cpu-lists#fraction
    let lists = |kernel: &str, set: fn(&mut Machine)| {
        let mut machine = guest_1_gib(241_529, Thp::Never);
        set(&mut machine);
        let host = host();
        let (alloc, _) = boot_on(&host, &machine, &policy(kernel));
        alloc.populated_zones().map(|zone| (zone.pcp_batch(), zone.pcp_high())).collect::<Vec<_>>()
    };
    let fraction = |machine: &mut Machine| machine.tunables.percpu_pagelist_fraction = 8;
    let high_fraction = |machine: &mut Machine| machine.tunables.percpu_pagelist_high_fraction = 8;
    let old = lists("5.10", fraction);
    assert_eq!((old[0], old[1]), ((96, 480), (96, 30_191)));
    // Each kernel knows one of the two.
    assert_eq!(lists("6.1", fraction), lists("6.1", |_| ()));
    assert_eq!(lists("5.10", high_fraction), lists("5.10", |_| ()));
    assert_ne!(lists("6.1", high_fraction), lists("6.1", |_| ()));
}

#[test]
fn thresholds_and_drift_marks_of_the_guest() {
    let host = host();
    let (alloc, _) = boot_on(&host, &guest_1_gib(241_529, Thp::Never), &policy("6.1"));
    let zones: Vec<_> = alloc.populated_zones().collect();
    assert_eq!((zones[0].stats.threshold(), zones[1].stats.threshold()), (4, 16));
    assert_eq!(zones[0].drift_mark(), 29);
    assert_eq!(zones[1].drift_mark(), 32, "kept from CPU bring-up");
    let mut one_cpu = guest_1_gib(241_529, Thp::Never);
    one_cpu.nodes[0].cpus = vec![0];
    let (alone, _) = boot_on(&host, &one_cpu, &policy("6.1"));
    let marks: Vec<u64> = alone.populated_zones().map(|z| z.drift_mark()).collect();
    assert_eq!(marks, [0, 0], "one CPU brings up nothing");
    let (alloc, _) = boot_on(&host, &guest_1_gib(240_000, Thp::Always), &policy("6.1"));
    let pressure = |t: ZoneType| {
        let zone = alloc.zone(NodeId(0), t).unwrap();
        watermark::stat_threshold_pressure(&zone.marks(), 2)
    };
    assert_eq!((pressure(ZoneType::Dma), pressure(ZoneType::Dma32)), (22, 125));
}

#[test]
fn per_cpu_sizes_of_4_3() {
    // rules/per-cpu-lists#sizes: half a MiB caps the batch, high is six batches.
    let host = host();
    let (alloc, _) = boot_on(&host, &guest_1_gib(241_529, Thp::Never), &policy("4.3"));
    let zone = alloc.zone(NodeId(0), ZoneType::Dma32).unwrap();
    assert_eq!((zone.pcp_batch(), zone.pcp_high()), (31, 186));
    // Below 8192 pages (rules/per-cpu-lists#sizes): nothing is kept, on 5.10 as on 4.3.
    for name in ["4.3", "5.4", "5.10"] {
        let sizing = policy(name).pcp.sizing;
        let sizes = |managed| watermark::pcp_sizes(managed, 1000, 2, 0, sizing);
        assert_eq!((sizes(3840), sizes(8191), sizes(8192)), ((1, 0), (1, 0), (1, 6)), "{name}");
    }
    let m = zone.marks();
    assert_eq!((m.low - m.min, m.high - m.min), (m.min / 4, m.min / 2));
}
