//! `/proc` text: golden strings for small machines, and the very lines of a real 6.1.

use crate::common::*;
use highwater_core::config::{Machine, ZoneSpec};
use highwater_core::host::CpuId;
use highwater_core::page::{MigrateType, Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::proc::{
    DirtyThresholds, Promised, SwapSpace, buddyinfo, meminfo, node_vmstat, numastat, pagetypeinfo,
    vmstat, zoneinfo, zoneinfo_with,
};
use highwater_core::vmstat::{NodeStat, NumaStat, VmEvent, ZoneStat};
use highwater_core::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);

fn text(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    write(&mut out).unwrap();
    out
}

/// Two nodes, the second without memory; one order-4 block in use.
fn small(host: &Host) -> Alloc {
    let zone = ZoneSpec::full(ZoneType::Dma32, 4096, 8192);
    let m = machine(vec![node(&[0], &[zone]), node(&[1], &[])]);
    let (alloc, cx) = boot_on(host, &m, &policy("6.1"));
    get(&alloc, &cx, Gfp::GFP_KERNEL, 4);
    alloc
}

#[test]
fn buddyinfo_golden() {
    let host = host();
    let alloc = small(&host);
    assert_eq!(
        text(|w| buddyinfo(w, &alloc)),
        "Node 0, zone    DMA32      0      0      0      0      1      1      1      1      1      \
         1      7 \n"
    );
}

#[test]
fn meminfo_has_the_columns_and_items_of_its_kernel() {
    let host = host();
    let alloc = small(&host);
    let node0 = alloc.node(NodeId(0));
    node0.stats.set_threshold(0);
    node0.stats.add(CPU, NodeStat::FilePages as usize, 300);
    node0.stats.add(CPU, NodeStat::Swapcached as usize, 20);
    node0.stats.add(CPU, NodeStat::InactiveFile as usize, 280);
    let swap = SwapSpace { free: 10, total: 25 };
    let shown = text(|w| meminfo(w, &alloc, Promised { swap, commit_limit: 50, committed: 7 }));
    let has = |line: &str| assert!(shown.contains(&format!("{line}\n")), "{line}:\n{shown}");
    has("MemTotal:          32768 kB");
    has("MemFree:           32704 kB");
    // 280 pages of cache: the half of it is below the low mark of 226. The reserve is the high mark.
    let available = (8176 - 271 + 280 - 140) * 4;
    has(&format!("MemAvailable:   {available:>8} kB"));
    has("Cached:             1120 kB");
    has("Inactive(file):     1120 kB");
    has("SwapTotal:           100 kB");
    has("SwapFree:             40 kB");
    has("CommitLimit:         200 kB");
    has("Committed_AS:         28 kB");
    has("VmallocTotal:   34359738367 kB");
    has("HardwareCorrupted:     0 kB");
    has("HugePages_Total:       0");
    has("Hugepagesize:       2048 kB");
    let other = self::host();
    let (old, _) = boot_on(&other, &one_zone(4096, 8192, 1), &policy("5.10"));
    let shown = text(|w| meminfo(w, &old, Promised::default()));
    assert!(!shown.contains("Zswap") && shown.contains("KReclaimable"), "{shown}");
}

#[test]
fn an_observer_reads_the_lists_of_cpus_without_their_locks() {
    let host = host();
    let alloc = small(&host);
    let with_locks = text(|w| zoneinfo(w, &alloc, CPU, |_| false));
    let count = |zone: &_, cpu| alloc.peek_pcp_levels(zone, cpu).unwrap();
    assert_eq!(text(|w| zoneinfo_with(w, &alloc, |_| false, count)), with_locks);
}

/// The lines that later kernels add, as 6.18 prints them.
#[test]
fn zoneinfo_has_the_lines_of_its_kernel() {
    let host = host();
    let shown = |kernel: &str| {
        let (alloc, cx) = boot_on(&host, &one_zone(4096, 65_536, 1), &policy(kernel));
        let take = || alloc.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
        alloc.free(&cx, take().unwrap(), Order(0)).unwrap();
        text(|w| zoneinfo(w, &alloc, CPU, |_| false))
    };
    let (old, middle, new) = (shown("6.1"), shown("6.12"), shown("7.2"));
    for line in
        ["        promo    ", "high_min:", "reserved_highatomic:", "              count:    "]
    {
        assert!(!old.contains(line) && new.contains(line), "{line}\n{new}");
    }
    assert!(middle.contains("\n        promo    ") && !middle.contains("high_min:"), "{middle}");
    let number = |label: &str| -> u64 {
        let line = new.lines().find_map(|line| line.strip_prefix(label)).unwrap();
        line.trim().parse().unwrap()
    };
    let [high, low, most] = ["high:    ", "high_min:", "high_max:"]
        .map(|label| number(&format!("              {label}")));
    assert!(low <= high && high <= most && low < most, "{low} {high} {most}\n{new}");
    assert_eq!(number("  free_highatomic:     "), 0);
}

#[test]
fn pagetypeinfo_golden() {
    let host = host();
    let alloc = small(&host);
    let expected = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 
Node    0, zone    DMA32, type    Unmovable      0      0      0      0      1      1      1      1      1      1      0 
Node    0, zone    DMA32, type      Movable      0      0      0      0      0      0      0      0      0      0      7 
Node    0, zone    DMA32, type  Reclaimable      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone    DMA32, type   HighAtomic      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone    DMA32, type      Isolate      0      0      0      0      0      0      0      0      0      0      0 

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate 
Node 0, zone    DMA32            2           14            0            0            0 
";
    assert_eq!(text(|w| pagetypeinfo(w, &alloc, CPU)), expected);
}

#[test]
fn long_lists_are_capped() {
    let host = host();
    let m = one_zone(4096, 4096 + (1 << 18), 1);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    let zone = only_zone(&alloc);
    zone.set_pcp_sizes(1, 4);
    let pages: Vec<Pfn> =
        (0..210_000).map(|_| get(&alloc, &cx, Gfp::GFP_HIGHUSER_MOVABLE, 0)).collect();
    for pfn in pages.iter().filter(|p| p.0 % 2 == 0) {
        alloc.free(&cx, *pfn, highwater_core::page::Order(0)).unwrap();
    }
    let shown = text(|w| pagetypeinfo(w, &alloc, CPU));
    let line = shown.lines().find(|l| l.contains("type      Movable")).unwrap();
    assert!(
        line.starts_with("Node    0, zone    DMA32, type      Movable >100000      "),
        "{line}"
    );
    assert!(text(|w| buddyinfo(w, &alloc)).contains("DMA32 10"), "buddyinfo shows them all");
}

#[test]
fn zoneinfo_golden() {
    let host = host();
    let alloc = small(&host);
    let node0 = alloc.node(NodeId(0));
    node0.stats.set_threshold(0);
    node0.stats.add(CPU, NodeStat::AnonTransparentHugepages as usize, 3 * 512);
    node0.stats.add(CPU, NodeStat::AnonPages as usize, 1536);
    let shown = text(|w| zoneinfo(w, &alloc, CPU, |node| node == NodeId(0)));
    let empty = |node: u16, zone: &str| {
        format!(
            "Node {node}, zone {zone:>8}
  pages free     0
        boost    0
        min      0
        low      0
        high     0
        spanned  0
        present  0
        managed  0
        cma      0
        protection: (0, 0, 0, 0, 0)
"
        )
    };
    let items = |names: &[&str], value: &dyn Fn(&str) -> u64| -> String {
        names.iter().map(|n| format!("      {n:<12} {}\n", value(n))).collect()
    };
    let names = |all: &mut dyn Iterator<Item = &'static str>| all.collect::<Vec<_>>();
    let node_names = names(&mut NodeStat::ALL.iter().map(|i| i.name()));
    let zone_names = names(&mut ZoneStat::ALL.iter().map(|i| i.name()));
    let numa_names = names(&mut NumaStat::ALL.iter().map(|i| i.name()));
    let mut expected = empty(0, "DMA");
    expected += "Node 0, zone    DMA32\n  per-node stats\n";
    expected += &items(&node_names, &|n| match n {
        "nr_anon_transparent_hugepages" => 3,
        "nr_anon_pages" => 1536,
        _ => 0,
    });
    expected += "  pages free     8176
        boost    0
        min      181
        low      226
        high     271
        spanned  8192
        present  8192
        managed  8192
        cma      0
        protection: (0, 0, 0, 0, 0)
";
    expected += &items(&zone_names, &|n| if n == "nr_free_pages" { 8176 } else { 0 });
    expected += &items(&numa_names, &|n| u64::from(n == "numa_hit" || n == "numa_local"));
    expected += "  pagesets
    cpu: 0
              count: 0
              high:  226
              batch: 1
  vm stats threshold: 4
    cpu: 1
              count: 0
              high:  226
              batch: 1
  vm stats threshold: 4
  node_unreclaimable:  1
  start_pfn:           4096
";
    for zone in ["Normal", "Movable", "Device"] {
        expected += &empty(0, zone);
    }
    for zone in ["DMA", "DMA32", "Normal", "Movable", "Device"] {
        expected += &empty(1, zone);
    }
    for (ours, wanted) in shown.lines().zip(expected.lines()) {
        assert_eq!(ours, wanted);
    }
    assert_eq!(shown.len(), expected.len());
}

#[test]
fn a_nodes_texts() {
    let host = host();
    let alloc = small(&host);
    let cx = highwater_core::host::Cx::new(&host, CpuId(0));
    let (gfp, order) = (Gfp::GFP_KERNEL, highwater_core::page::Order(0));
    alloc.alloc(&cx, &highwater_core::page_alloc::NoRelief, gfp, order, NodeId(0), None).unwrap();
    let expected =
        "numa_hit 2\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 2\nother_node 0\n";
    assert_eq!(text(|w| numastat(w, &alloc, NodeId(0))), expected);
    let shown = text(|w| node_vmstat(w, &alloc, NodeId(0)));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), ZoneStat::COUNT + NumaStat::COUNT + NodeStat::COUNT);
    assert!(lines[0].starts_with("nr_free_pages ") && lines.contains(&"numa_local 2"));
    let nobody = text(|w| numastat(w, &alloc, NodeId(9)));
    assert!(nobody.lines().all(|line| line.ends_with(" 0")), "{nobody}");
}

#[test]
fn vmstat_golden() {
    let host = host();
    let alloc = small(&host);
    let dirty = DirtyThresholds { threshold: 700, background: 350 };
    let shown = text(|w| vmstat(w, &alloc, dirty));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "nr_free_pages 8176");
    assert_eq!(lines.last(), Some(&"nr_unstable 0"));
    let events = VmEvent::of_kernel(alloc.policy.counters()).count();
    let nr = ZoneStat::COUNT + NumaStat::COUNT + NodeStat::COUNT + 2 + events + 1;
    assert_eq!(lines.len(), nr);
    let at = |name: &str| lines.iter().position(|l| l.split(' ').next() == Some(name)).unwrap();
    let order = [
        "nr_free_pages",
        "nr_free_cma",
        "numa_hit",
        "numa_other",
        "nr_inactive_anon",
        "pgpromote_candidate",
        "nr_dirty_threshold",
        "nr_dirty_background_threshold",
        "pgpgin",
        "pgalloc_dma",
        "allocstall_dma",
        "pgskip_dma",
        "pgfree",
        "direct_map_level3_splits",
        "nr_unstable",
    ];
    let places: Vec<usize> = order.iter().map(|n| at(n)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(lines[at("nr_dirty_threshold")], "nr_dirty_threshold 700");
    assert_eq!(lines[at("nr_dirty_background_threshold")], "nr_dirty_background_threshold 350");
    assert_eq!(lines[at("pgalloc_dma32")], "pgalloc_dma32 16");
    assert!(lines.iter().all(|l| l.split(' ').count() == 2));
}

fn reference(name: &str) -> String {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reference/linux-6.1/traces");
    let path = format!("{dir}/{name}");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The machine that a zoneinfo text describes.
fn machine_of(zoneinfo: &str) -> Machine {
    // What this kernel released after boot (init memory, initrd), as in static-1024-2.
    const RELEASED: u64 = 2969;
    let mut zones: Vec<ZoneSpec> = Vec::new();
    for entry in zoneinfo.split("Node 0, zone ").skip(1) {
        let field = |name: &str| -> Option<u64> {
            let line = entry.lines().find(|l| l.trim_start().starts_with(name))?;
            line.split_whitespace().last()?.parse().ok()
        };
        let name = entry.lines().next().unwrap().trim();
        let zone = ZoneType::ALL.into_iter().find(|t| t.name() == name).unwrap();
        let Some(start_pfn) = field("start_pfn") else { continue };
        let managed = field("managed").unwrap();
        let released = if zone == ZoneType::Dma32 { RELEASED } else { 0 };
        zones.push(ZoneSpec {
            zone,
            start_pfn,
            spanned: field("spanned").unwrap(),
            present: field("present").unwrap(),
            managed_at_boot: managed - released,
            managed,
        });
    }
    machine(vec![node(&[0, 1], &zones)])
}

/// A line with its numbers blotted out: numbers after a name keep their column, numbers in tables
/// their width.
fn shape(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if !c.is_ascii_digit() || out.ends_with(|p: char| p.is_alphabetic()) {
            out.push(c);
            continue;
        }
        let mut width = 1;
        while rest.next_if(|d| d.is_ascii_digit()).is_some() {
            width += 1;
        }
        // A right-aligned number takes its padding from the left.
        let table = rest.peek() == Some(&' ') || rest.peek() == Some(&',');
        if table {
            let blanks = out.len() - out.trim_end_matches(' ').len();
            out.truncate(out.len() - blanks);
            out.push_str(&"_".repeat(blanks + width));
        } else {
            out.push('#');
        }
    }
    out
}

#[test]
fn layouts_are_those_of_a_real_machine_line_by_line() {
    for name in ["file-read", "netperf-tcp-16384", "unix-stream-16384"] {
        let real = reference(&format!("{name}.zoneinfo"));
        let host = host();
        let (alloc, _) = boot_on(&host, &machine_of(&real), &policy("6.1"));
        for (text, real) in [
            (text(|w| zoneinfo(w, &alloc, CPU, |_| false)), real.clone()),
            (text(|w| buddyinfo(w, &alloc)), reference(&format!("{name}.buddyinfo"))),
            (text(|w| pagetypeinfo(w, &alloc, CPU)), reference(&format!("{name}.pagetypeinfo"))),
        ] {
            let protection = |l: &&str| !l.contains("protection");
            let ours: Vec<String> = text.lines().filter(protection).map(shape).collect();
            let theirs: Vec<String> = real.lines().filter(protection).map(shape).collect();
            for (our, their) in ours.iter().zip(&theirs) {
                assert_eq!(our, their, "{name}");
            }
            assert_eq!(ours.len(), theirs.len(), "{name}");
            assert_eq!(text.ends_with('\n'), real.ends_with('\n'));
        }
    }
}

#[test]
fn what_boot_decides_is_equal_to_the_last_byte() {
    let decided = [
        "Node 0",
        "boost",
        "min",
        "low",
        "high",
        "spanned",
        "present",
        "managed",
        "cma",
        "protection",
        "high:",
        "batch:",
        "vm stats",
        "node_unreclaimable",
        "start_pfn",
        "cpu:",
    ];
    for name in ["file-read", "netperf-tcp-16384", "unix-stream-16384"] {
        let real = reference(&format!("{name}.zoneinfo"));
        let host = host();
        let (alloc, _) = boot_on(&host, &machine_of(&real), &policy("6.1"));
        let shown = text(|w| zoneinfo(w, &alloc, CPU, |_| false));
        let pick = |text: &str| -> Vec<String> {
            let wanted = |l: &&str| decided.iter().any(|d| l.trim_start().starts_with(d));
            text.lines().filter(wanted).map(str::to_string).collect()
        };
        assert_eq!(pick(&shown), pick(&real), "{name}");
        // And as many pageblocks are sampled.
        let samples = |text: &str| -> Vec<u64> {
            let rows = text.lines().skip_while(|l| !l.starts_with("Number of blocks")).skip(1);
            rows.map(|l| l.split_whitespace().filter_map(|n| n.parse::<u64>().ok()).sum()).collect()
        };
        let ours = text(|w| pagetypeinfo(w, &alloc, CPU));
        assert_eq!(samples(&ours), samples(&reference(&format!("{name}.pagetypeinfo"))));
    }
}

#[test]
fn pageblock_types_are_counted_where_they_are() {
    let host = host();
    let m = one_zone(4096, 8192, 1);
    let (alloc, cx) = boot_on(&host, &m, &policy("6.1"));
    let zone = only_zone(&alloc);
    alloc.convert_pageblock(&cx, zone, Pfn(4096 + 512), MigrateType::HighAtomic);
    alloc.convert_pageblock(&cx, zone, Pfn(4096 + 1024), MigrateType::Reclaimable);
    let shown = text(|w| pagetypeinfo(w, &alloc, CPU));
    let last = shown.lines().last().unwrap();
    assert_eq!(
        last,
        "Node 0, zone    DMA32            0            6            1            1            0 "
    );
}
