//! Import of `/proc` texts: the captured ones, and damaged ones.

use std::path::PathBuf;

use highwater_results::import::ImportError;
use highwater_results::import::proc::{
    BlockCount, Buddyinfo, PageTypeInfo, Vmstat, Zoneinfo, ZoneinfoPageset, in_orders,
};
use proptest::prelude::*;

fn reference(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/linux-6.1/traces").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(reference(name)).unwrap()
}

/// Line and field of an error, which must fit on one line.
fn place<T: std::fmt::Debug>(result: Result<T, ImportError>) -> (u64, String) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("f:") && !text.contains('\n'), "{text}");
    (error.line().unwrap(), error.field().unwrap().to_owned())
}

const TRACES: [&str; 3] = ["unix-stream-16384", "netperf-tcp-16384", "file-read"];

// --- zoneinfo ---

#[test]
fn zoneinfo_of_a_real_machine() {
    let info = Zoneinfo::read(reference("unix-stream-16384.zoneinfo")).unwrap();
    let names: Vec<_> =
        info.zones.iter().map(|z| (z.node, z.zone.as_str(), z.is_populated())).collect();
    assert_eq!(
        names,
        [
            (0, "DMA", true),
            (0, "DMA32", true),
            (0, "Normal", false),
            (0, "Movable", false),
            (0, "Device", false)
        ]
    );
    let dma = info.zone(0, "DMA").unwrap();
    let per_node = dma.per_node.as_ref().unwrap();
    assert_eq!(per_node.len(), 43);
    assert_eq!(per_node[0], ("nr_inactive_anon".to_owned(), 1903));
    assert_eq!(per_node[42], ("pgpromote_candidate".to_owned(), 0));
    assert_eq!(dma.protection, [0, 931, 931, 931, 931]);
    let dma32 = info.zone(0, "DMA32").unwrap();
    assert_eq!(
        (dma32.free, dma32.boost, dma32.min, dma32.low, dma32.high),
        (163963, 0, 11085, 13856, 16627)
    );
    assert_eq!((dma32.spanned, dma32.present, dma32.managed), (258013, 258013, 241526));
    assert_eq!((dma32.start_pfn, dma32.node_unreclaimable), (Some(4096), Some(false)));
    assert_eq!((dma32.stat("cma"), dma32.stat("numa_interleave")), (Some(0), Some(637)));
    assert_eq!(dma32.per_node, None);
    let pageset = |cpu, count| ZoneinfoPageset {
        cpu,
        count,
        high: 6928,
        batch: 63,
        high_min: None,
        stat_threshold: Some(16),
    };
    assert_eq!(dma32.pagesets, [pageset(0, 449), pageset(1, 170)]);
    let normal = info.zone(0, "Normal").unwrap();
    assert!(normal.pagesets.is_empty() && normal.start_pfn.is_none());
    for trace in TRACES {
        assert_eq!(Zoneinfo::read(reference(&format!("{trace}.zoneinfo"))).unwrap().zones.len(), 5);
    }
}

#[test]
fn zoneinfo_of_an_old_kernel_lacks_boost_and_has_its_own_lines() {
    let text = b"Node 1, zone   Normal\n  pages free     10\n        min      1\n        low      2\n        high     3\n\
        \x20       scanned  0\n        spanned  100\n        present  90\n        managed  80\n    nr_free_pages 10\n\
        \x20       protection: (0, 0)\n  pagesets\n    cpu: 0\n              count: 4\n              high:  186\n\
        \x20             batch: 31\n  vm stats threshold: 6\n  all_unreclaimable: 0\n  start_pfn:         4096\n\
        \x20 inactive_ratio:    1\n";
    let info = Zoneinfo::parse("f", text).unwrap();
    let zone = &info.zones[0];
    assert_eq!(
        (zone.node, zone.boost, zone.stat("scanned"), zone.stat("nr_free_pages")),
        (1, 0, Some(0), Some(10))
    );
    assert_eq!(zone.pagesets.len(), 1);
}

#[test]
fn zoneinfo_of_a_new_kernel_says_what_lists_tune_themselves_from() {
    let text = b"Node 0, zone   Normal\n  pages free     10\n        min      1\n        low      2\n        high     3\n\
        \x20       promo    4\n        spanned  100\n        present  90\n        managed  80\n\
        \x20       protection: (0, 0)\n  pagesets\n    cpu: 0\n              count:    4\n              high:     186\n\
        \x20             batch:    63\n              high_min: 41\n              high_max: 400\n  vm stats threshold: 6\n\
        \x20 node_unreclaimable:  0\n  start_pfn:           4096\n";
    let info = Zoneinfo::parse("f", text).unwrap();
    let zone = &info.zones[0];
    assert_eq!((zone.pagesets[0].high, zone.pagesets[0].high_min), (186, Some(41)));
    assert_eq!(zone.stat("promo"), Some(4));
}

/// RHEL 8 prints a counter without its name. A text may begin with the command that printed it.
#[test]
fn zoneinfo_of_rhel_8_has_a_number_without_a_name() {
    let text = b"# cat /proc/zoneinfo\nNode 0, zone      DMA\n  per-node stats\n      nr_dirtied   305939\n\
        \x20     nr_written   260861\n                   537792\n  pages free     3975\n        min      33\n\
        \x20       low      41\n        high     49\n        spanned  4095\n        present  3999\n        managed  3977\n\
        \x20       protection: (0, 3828, 7894, 7894, 7894)\n  pagesets\n  node_unreclaimable:  0\n  start_pfn:           1\n";
    let info = Zoneinfo::parse("f", text).unwrap();
    let zone = &info.zones[0];
    assert_eq!(zone.per_node.as_ref().unwrap().len(), 2);
    assert_eq!((zone.min, zone.managed, zone.protection[1]), (33, 3977, 3828));
    let vmstat = Vmstat::parse("f", b"nr_written 260861\n 537792\nnr_dirty 1\n").unwrap();
    assert_eq!(vmstat.counters.len(), 2);
}

/// 2.6.32: no `managed`, counters in the zone, and the last priority of reclaim.
#[test]
fn zoneinfo_of_2_6_does_not_say_what_is_managed() {
    let text = b"Node 0, zone      DMA\n  pages free     3931\n        min      5\n        low      6\n\
        \x20       high     7\n        scanned  0 (aa: 0 ia: 0 af: 0 if: 0)\n        spanned  4080\n\
        \x20       present  3840\n    nr_free_pages 3931\n    nr_inactive_anon 0\n\
        \x20       protection: (0, 2991, 16121, 16121)\n  pagesets\n    cpu: 0\n              count: 0\n\
        \x20             high:  0\n              batch: 1\n  vm stats threshold: 6\n  all_unreclaimable: 1\n\
        \x20 prev_priority:     12\n  start_pfn:         16\n  inactive_ratio:    1\n";
    let info = Zoneinfo::parse("f", text).unwrap();
    let zone = &info.zones[0];
    // More pages are free than the kernel calls present.
    assert_eq!((zone.present, zone.managed, zone.stat("scanned")), (3931, 3840, Some(0)));
    assert_eq!(zone.node_unreclaimable, Some(true));
}

#[test]
fn damaged_zoneinfo_names_line_and_field() {
    let whole = text("unix-stream-16384.zoneinfo");
    let damaged = |from: &str, to: &str| {
        assert!(whole.contains(from));
        place(Zoneinfo::parse("f", whole.replacen(from, to, 1).as_bytes()))
    };
    assert_eq!(damaged("nr_dirty     5", "nr_dirty     x"), (23, "nr_dirty".to_owned()));
    assert_eq!(damaged("nr_dirty     5", "nr_dirty"), (23, "nr_dirty".to_owned()));
    assert_eq!(damaged("free     3808", "free     -1").1, "free");
    assert_eq!(damaged("managed  3840", "managed  3999").1, "managed");
    assert_eq!(damaged("present  3998", "present  4096").1, "present");
    assert_eq!(damaged("        min      178\n", "").1, "min");
    assert_eq!(damaged("protection: (0, 931,", "protection: (0, ,").1, "protection");
    assert_eq!(damaged("protection: (0, 931,", "protection: 0, 931,").1, "protection");
    assert_eq!(damaged("cpu: 1", "cpu: 0").1, "cpu");
    assert_eq!(damaged("cpu: 1", "cpu: 8192").1, "cpu");
    assert_eq!(damaged("    cpu: 0\n", "").1, "count");
    assert_eq!(damaged("              batch: 1\n", "").1, "batch");
    assert_eq!(damaged("  start_pfn:           1\n", "").1, "start_pfn");
    assert_eq!(damaged("node_unreclaimable:  0", "node_unreclaimable:  2").1, "node_unreclaimable");
    assert_eq!(damaged("zone    DMA32", "zone      DMA").1, "zone");
    assert_eq!(damaged("Node 0, zone      DMA", "Node x, zone      DMA"), (1, "Node".to_owned()));
    assert_eq!(place(Zoneinfo::parse("f", b"")), (1, "Node".to_owned()));
    assert_eq!(place(Zoneinfo::parse("f", b"nr_dirty 1\n")), (1, "Node".to_owned()));
    let cut = whole.find("  start_pfn").unwrap();
    assert_eq!(place(Zoneinfo::parse("f", &whole.as_bytes()[..cut])).1, "start_pfn");
}

// --- buddyinfo ---

#[test]
fn buddyinfo_of_a_real_machine() {
    let info = Buddyinfo::read(reference("unix-stream-16384.buddyinfo")).unwrap();
    assert_eq!(info.zones.len(), 2);
    assert_eq!((info.zones[1].node, info.zones[1].zone.as_str()), (0, "DMA32"));
    assert_eq!(info.zones[1].nr_free, [1, 1, 0, 1, 1, 3, 0, 2, 1, 1, 159]);
    for trace in TRACES {
        for end in ["", ".end"] {
            let info = Buddyinfo::read(reference(&format!("{trace}.buddyinfo{end}"))).unwrap();
            assert!(info.zones.iter().all(|z| z.nr_pages() > 3000));
        }
    }
}

#[test]
fn buddyinfo_agrees_with_the_free_count_of_the_same_moment() {
    let buddy = Buddyinfo::read(reference("unix-stream-16384.buddyinfo")).unwrap();
    let zoneinfo = Zoneinfo::read(reference("unix-stream-16384.zoneinfo")).unwrap();
    assert_eq!(buddy.zones[0].nr_pages(), zoneinfo.zone(0, "DMA").unwrap().free);
}

#[test]
fn damaged_buddyinfo_names_line_and_field() {
    let parse = |text: &str| place(Buddyinfo::parse("f", text.as_bytes()));
    let row = "Node 0, zone      DMA      0      0      0      0      0      1      1      1      0      1";
    let dma32 = row.replace("  DMA", "DMA32");
    assert_eq!(parse(&format!("{row} 3\n{dma32}")), (2, "order 10".to_owned()));
    assert_eq!(parse(&format!("{row} 3\n{dma32} 3 4")), (2, "order 11".to_owned()));
    assert_eq!(parse(&format!("{row} {}", "1 ".repeat(23))), (1, "order 32".to_owned()));
    assert_eq!(parse("Node 0, zone DMA 1 2 3"), (1, "order 3".to_owned()));
    assert_eq!(parse(&format!("{row} -3")), (1, "order 10".to_owned()));
    assert_eq!(parse(&format!("{row} 3\n{row} 3\n")), (2, "zone".to_owned()));
    let many: String =
        (0..6000).map(|n| row.replace("Node 0", &format!("Node {n}")) + " 3\n").collect();
    assert_eq!(parse(&many), (5121, "zone".to_owned()));
    assert_eq!(parse("Node 0 zone DMA 1"), (1, "Node".to_owned()));
    assert_eq!(parse("Node 0, zone "), (1, "zone".to_owned()));
    assert_eq!(parse("hello"), (1, "line".to_owned()));
    assert_eq!(parse(""), (1, "Node".to_owned()));
}

#[test]
fn rows_of_kernels_with_other_orders() {
    // Pages of 64 KiB on arm64: 14 orders. On ppc64: 9, here without nodes.
    let arm = "Node 0, zone    DMA32     12     10      5      5      5      4      3      1      3      2      1      1      1      0 \n";
    let info = Buddyinfo::parse("f", arm.as_bytes()).unwrap();
    assert_eq!((info.nr_orders(), info.zones[0].nr_free[12]), (14, 1));
    let (blocks, taken_apart) = in_orders::<11>(&info.zones[0].nr_free);
    assert_eq!((blocks[9], blocks[10], taken_apart), (2, 1 + 2 + 4, 6 << 10));
    let power = Buddyinfo::parse("f", b"zone Normal 1 2 3 4 5 6 7 8 9\n").unwrap();
    assert_eq!((power.zones[0].node, power.nr_orders()), (0, 9));
    assert_eq!(in_orders::<11>(&power.zones[0].nr_free).0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]);
}

// --- pagetypeinfo ---

#[test]
fn pagetypeinfo_of_a_real_machine() {
    let info = PageTypeInfo::read(reference("unix-stream-16384.pagetypeinfo")).unwrap();
    assert_eq!((info.pageblock_order, info.pages_per_block), (9, 512));
    assert_eq!(info.free.len(), 10);
    let movable = &info.free[6];
    assert_eq!((movable.zone.as_str(), movable.migratetype.as_str()), ("DMA32", "Movable"));
    assert_eq!(movable.nr_free[10], BlockCount { nr_blocks: 159, is_capped: false });
    let counts: Vec<_> =
        info.pageblocks[1].nr_blocks.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(
        counts,
        [
            ("Unmovable", 171),
            ("Movable", 327),
            ("Reclaimable", 6),
            ("HighAtomic", 0),
            ("Isolate", 0)
        ]
    );
    // The types of a zone add up to what buddyinfo said at the same moment.
    let buddy = Buddyinfo::read(reference("unix-stream-16384.buddyinfo")).unwrap();
    for zone in &buddy.zones {
        for order in 0..11 {
            let rows = info.free.iter().filter(|row| row.zone == zone.zone);
            let sum: u64 = rows.map(|row| row.nr_free[order].nr_blocks).sum();
            assert_eq!(sum, zone.nr_free[order], "{} order {order}", zone.zone);
        }
    }
    for trace in TRACES {
        assert_eq!(
            PageTypeInfo::read(reference(&format!("{trace}.pagetypeinfo")))
                .unwrap()
                .pageblocks
                .len(),
            2
        );
    }
}

#[test]
fn capped_counts_and_damage_of_pagetypeinfo() {
    let whole = text("unix-stream-16384.pagetypeinfo");
    let dma32 = "DMA32, type      Movable      0 ";
    let capped = whole.replacen(dma32, "DMA32, type      Movable >100000 ", 1);
    let info = PageTypeInfo::parse("f", capped.as_bytes()).unwrap();
    assert_eq!(info.free[6].nr_free[0], BlockCount { nr_blocks: 100_000, is_capped: true });

    let damaged = |from: &str, to: &str| {
        assert!(whole.contains(from));
        place(PageTypeInfo::parse("f", whole.replacen(from, to, 1).as_bytes()))
    };
    assert_eq!(damaged(dma32, "DMA32, type      Movable      y "), (11, "order 0".to_owned()));
    assert_eq!(damaged(dma32, "DMA32, type      Movable "), (11, "order 10".to_owned()));
    assert_eq!(damaged(dma32, "DMA32, Movable      0 "), (11, "type".to_owned()));
    assert_eq!(
        damaged("Page block order: 9", "Page block order: nine"),
        (1, "Page block order".to_owned())
    );
    assert_eq!(damaged("Page block order: 9\n", "\n").1, "Page block order");
    assert_eq!(damaged("          327", "          "), (18, "Isolate".to_owned()));
    assert_eq!(damaged("          327", "          327 1"), (18, "type".to_owned()));
    assert_eq!(place(PageTypeInfo::parse("f", b"Page block order: 9\n")).1, "Free pages count");
    assert_eq!(
        place(PageTypeInfo::parse("f", b"Node 0, zone DMA, type x 0\n")).1,
        "Free pages count"
    );
}

// --- vmstat ---

#[test]
fn vmstat_keeps_order_and_finds_by_name() {
    let vmstat =
        Vmstat::parse("f", b"nr_free_pages 167771\npgalloc_dma32 42\n\npgfree 7\n").unwrap();
    assert_eq!(vmstat.counters[1], ("pgalloc_dma32".to_owned(), 42));
    assert_eq!((vmstat.get("pgfree"), vmstat.get("pgfault")), (Some(7), None));
}

#[test]
fn damaged_vmstat_names_line_and_field() {
    let parse = |text: &str| place(Vmstat::parse("f", text.as_bytes()));
    assert_eq!(parse("a 1\nb\n"), (2, "b".to_owned()));
    assert_eq!(parse("a 1\nb 1 2\n"), (2, "b".to_owned()));
    assert_eq!(parse("a 1\nb -1\n"), (2, "b".to_owned()));
    assert_eq!(parse("a 1\na 1\n"), (2, "a".to_owned()));
    assert_eq!(parse("a 99999999999999999999\n"), (1, "a".to_owned()));
    assert_eq!(parse("{\"a\": 1}\n"), (1, "name".to_owned()));
    assert_eq!(parse("\n\n"), (3, "name".to_owned()));
}

#[test]
fn names_out_of_a_damaged_file_do_not_break_the_message() {
    let text = b"Node 0, zone \x00\x1b[2J\n  pages free     1\n";
    let error = Zoneinfo::parse("f", text).unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
    let error = Vmstat::parse("f", b"a\x1bb 1\n").unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
}

#[test]
fn unreadable_files_say_why() {
    let error = Zoneinfo::read("/nowhere/zoneinfo").unwrap_err();
    assert!(
        error.to_string().starts_with("/nowhere/zoneinfo: cannot be read: no such file"),
        "{error}"
    );
    assert!(
        Vmstat::read(env!("CARGO_MANIFEST_DIR"))
            .unwrap_err()
            .to_string()
            .contains("is a directory")
    );
}

// --- properties ---

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Zoneinfo::parse("f", &bytes);
        let _ = Buddyinfo::parse("f", &bytes);
        let _ = PageTypeInfo::parse("f", &bytes);
        let _ = Vmstat::parse("f", &bytes);
    }

    #[test]
    fn damaged_texts_never_panic(at in 0.0..1.0, cut in 0_usize..30, insert in "[ -~\n]{0,6}") {
        for name in ["zoneinfo", "buddyinfo", "pagetypeinfo"] {
            let mut text = std::fs::read(reference(&format!("file-read.{name}"))).unwrap();
            let start = (at * text.len() as f64) as usize;
            let end = (start + cut).min(text.len());
            text.splice(start..end, insert.bytes());
            let _ = Zoneinfo::parse("f", &text);
            let _ = Buddyinfo::parse("f", &text);
            let _ = PageTypeInfo::parse("f", &text);
            let _ = Vmstat::parse("f", &text);
        }
    }
}
