use highwater_report::{Format, PAGE_WIDTH};

use super::*;

const BUDDY: &str = "Node 0, zone    DMA32     10      0      0      0      0      0      0      0      0      2      1\n\
                     Node 0, zone   Normal  60000   5000    100      0      0      0      0      0      0      0      0\n";

fn zoneinfo() -> String {
    let zone = |name: &str, free: u64, low: u64, size: u64, start: u64| {
        format!(
            "Node 0, zone {name}\n  pages free     {free}\n        min      {}\n        low      {low}\n        \
             high     {}\n        spanned  {size}\n        present  {size}\n        managed  {size}\n        \
             protection: (0, 0, 0, 0)\n  pagesets\n    cpu: 0\n              count: 0\n              high:  6\n              \
             batch: 1\n  start_pfn:           {start}\n",
            low / 2,
            low * 2,
        )
    };
    zone("DMA32", 2058, 500, 4096, 4096) + &zone("Normal", 70_400, 4000, 262_144, 1_048_576)
}

fn types() -> String {
    let row = |name: &str, zone: &str, first: u64| {
        format!("Node    0, zone {zone}, type {name} {first} 0 0 0 0 0 0 0 0 0 0\n")
    };
    format!(
        "Page block order: 9\nPages per block:  512\n\n\
         Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10\n{}{}\n\
         Number of blocks type     Unmovable      Movable\nNode 0, zone   Normal          100          400\n",
        row("Unmovable", "Normal", 50_000),
        row("Movable", "Normal", 20_000)
    )
}

fn of(texts: &[&str]) -> Snapshot {
    let named: Vec<(&str, &[u8])> = texts.iter().map(|text| ("t", text.as_bytes())).collect();
    Snapshot::parse(&named).unwrap()
}

fn printed(snapshot: &Snapshot) -> String {
    Format::Terminal.tables(&snapshot.tables(), PAGE_WIDTH)
}

#[test]
fn buddyinfo_alone_has_no_marks() {
    let own = of(&[BUDDY]);
    // Next to none: 8 of 283 MiB.
    assert_eq!(own.verdict(), Verdict::Fragmented);
    assert_eq!(
        own.sentence(),
        "Fragmented: 283 MiB is free, but only 4 huge pages are free now; compaction could add at most 137."
    );
    let json = own.json();
    assert_eq!(json["zones"][0]["min_pages"], Value::Null);
    assert_eq!(json["zones"][0]["orders"][1]["free_blocks_above_mark"], Value::Null);
    assert_eq!(json["zones"][0]["orders"][1]["compaction"], Value::Null);
    assert_eq!(json["zones"][1]["orders"][1]["meaning"], "fragmentation");
    assert!(own.notes[0].contains("4 kB is assumed, by the 11 orders"), "{:?}", own.notes);
}

#[test]
fn zoneinfo_alone_has_no_blocks() {
    let own = of(&[&zoneinfo()]);
    assert_eq!(own.verdict(), Verdict::CannotTell);
    assert!(
        own.sentence().starts_with("Cannot tell whether memory is fragmented: 283 MiB is free")
    );
    assert_eq!(own.json()["zones"][0]["free_blocks"], Value::Null);
    assert_eq!(own.tables().len(), 1);
}

#[test]
fn all_three_together() {
    let own = of(&[BUDDY, &zoneinfo(), &types()]);
    let normal = &own.zones[1];
    let huge = normal.orders.last().unwrap();
    // Only the 20,000 pages of movable pageblocks can be gathered.
    assert_eq!((huge.order, huge.now, huge.could_add), (9, 0, 39));
    assert_eq!(huge.above_mark, Some(0));
    let text = printed(&own);
    assert!(text.lines().all(|line| line.chars().count() <= PAGE_WIDTH), "{text}");
    assert!(text.contains("195 MiB in 100"), "{text}");
}

#[test]
fn only_small_blocks_are_fragmented_and_little_memory_is_short() {
    let short = "Node 0, zone Normal 3 1 0 0 0 0 0 0 0 0 0\n";
    assert_eq!(of(&[short]).verdict(), Verdict::ShortOfMemory);
    assert_eq!(
        of(&[short]).sentence(),
        "Short of memory: only 20 kB is free, and no block of 2 MiB."
    );
    let pieces = "Node 0, zone Normal 90000 1 0 0 0 0 0 0 0 0 0\n";
    assert_eq!(
        of(&[pieces]).sentence(),
        "Fragmented: 352 MiB is free, but no block of 2 MiB; compaction could make at most 175."
    );
    let whole = "Node 0, zone Normal 3 1 0 0 0 0 0 0 0 0 100\n";
    assert_eq!(
        of(&[whole]).sentence(),
        "Not fragmented: 200 huge pages are free now, 100% of the 400 MiB that is free; compaction could add none."
    );
}

#[test]
fn larger_pages_are_known_by_their_orders_or_by_meminfo() {
    let large = "Node 0, zone DMA32 12 10 5 5 5 4 3 1 3 2 1 1 1 0\n";
    let own = of(&[large]);
    assert_eq!((own.sizes.page, own.sizes.huge_order), (65_536, 13));
    assert!(own.sentence().contains("no block of 512 MiB"), "{}", own.sentence());
    let meminfo = "MemTotal: 1064960 kB\nHugepagesize: 2048 kB\n";
    let own = of(&[&zoneinfo(), meminfo]);
    assert_eq!((own.sizes.page, own.sizes.note.is_none()), (4096, true));
    let few = "Node 0, zone Normal 1 1 1 1 1 1 1 1\n";
    let own = of(&[few]);
    assert_eq!((own.sizes.huge_order, own.sizes.is_huge_page), (7, false));
}

#[test]
fn damaged_and_foreign_texts_are_refused_with_a_reason() {
    let refused = |texts: &[&str]| {
        let named: Vec<(&str, &[u8])> = texts.iter().map(|text| ("t", text.as_bytes())).collect();
        Snapshot::parse(&named).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[""]),
        "t: the text is empty; expected: /proc/buddyinfo, /proc/zoneinfo, /proc/pagetypeinfo"
    );
    assert_eq!(
        refused(&[BUDDY, "[  1.5] a invoked oom-killer: gfp_mask=0x0, order=0\n"]),
        "t: this is a kernel log: give it alone; only texts of /proc are read together"
    );
    assert!(refused(&[BUDDY, BUDDY]).contains("a second /proc/buddyinfo"));
    assert!(refused(&["nr_free_pages 1\n"]).contains("this is /proc/vmstat"));
    let cut = &BUDDY[..BUDDY.len() - 20];
    assert!(refused(&[cut]).contains("order"), "{}", refused(&[cut]));
    let zoneinfo = zoneinfo();
    assert!(refused(&[&zoneinfo[..zoneinfo.len() / 2]]).starts_with("t:"));
    assert!(refused(&["MemTotal: 1 kB\n"]).contains("no zone"));
}

#[test]
fn thousands_of_zones_are_shown_in_part() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for node in 0..4000 {
        let _ = writeln!(
            text,
            "Node {node}, zone Normal {node} 0 0 0 0 0 0 0 0 0 18446744073709551615"
        );
    }
    let own = of(&[&text]);
    let tables = own.tables();
    assert!(tables.iter().all(|table| table.rows.len() <= 30));
    assert!(tables[0].notes[0].contains("3970 zones"), "{:?}", tables[0].notes);
    assert_eq!(own.json()["zones"].as_array().map(Vec::len), Some(4000));
}

#[test]
fn a_folder_answers_with_the_texts_that_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Snapshot::read(&[dir.path().to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("no buddyinfo, zoneinfo or pagetypeinfo"), "{refused}");
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    std::fs::write(dir.path().join("proc/buddyinfo"), BUDDY).unwrap();
    std::fs::write(dir.path().join("proc/zoneinfo"), zoneinfo()).unwrap();
    let own = Snapshot::read(&[dir.path().to_owned()]).unwrap();
    assert_eq!(own.texts, ["/proc/zoneinfo", "/proc/buddyinfo"]);
    let files = [dir.path().join("proc/buddyinfo"), dir.path().join("proc/zoneinfo")];
    assert_eq!(Snapshot::read(&files).unwrap().sentence(), own.sentence());
}

#[test]
fn absurd_numbers_do_not_overflow() {
    let most = u64::MAX;
    let zone = |name: &str| {
        format!(
            "Node 0, zone {name}\n  pages free     {most}\n        min      {most}\n        low      {most}\n        \
             high     {most}\n        spanned  {most}\n        present  {most}\n        managed  {most}\n        \
             protection: (0, {most})\n  start_pfn:           1\n"
        )
    };
    let row = |name: &str| {
        format!("Node 0, zone {name}, type Movable {}\n", format!("{most} ").repeat(11))
    };
    let orders = "Free pages count per migrate type at order 0 1 2 3 4 5 6 7 8 9 10\n";
    let types = format!(
        "Page block order: {most}\nPages per block: {most}\n{orders}{}{}",
        row("DMA").repeat(100),
        row("Normal")
    );
    let buddy = format!("Node 0, zone Normal {}\n", format!("{most} ").repeat(32));
    let meminfo = format!("MemTotal: {most} kB\nHugepagesize: {most} kB\n");
    for texts in [
        vec![zone("DMA") + &zone("Normal")],
        vec![zone("DMA") + &zone("Normal"), types.clone(), meminfo],
        vec![buddy],
        vec![types],
    ] {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let own = of(&texts);
        let _ = (own.sentence(), own.json(), printed(&own));
    }
}

#[test]
fn texts_in_one_are_the_same_as_each_alone() {
    let alone = of(&[BUDDY, &zoneinfo(), &types()]);
    for text in [
        format!("{BUDDY}{}{}", zoneinfo(), types()),
        format!("{}\n{BUDDY}{}", types(), zoneinfo()),
        format!(
            "Creating a pod\n==> a <==\n{}\n==> b <==\n{BUDDY}\n==> c <==\n{}",
            zoneinfo(),
            types()
        ),
    ] {
        let own = of(&[&text]);
        assert_eq!(own.sentence(), alone.sentence());
        assert_eq!(own.json()["zones"], alone.json()["zones"]);
        let files = |own: &Snapshot| {
            let mut raw = own.raw.clone();
            raw.iter_mut().for_each(|(_, text)| *text = text.trim_end().to_owned());
            raw.sort();
            raw
        };
        assert_eq!(files(&own), files(&alone), "as state files");
    }
    let own = of(&[&format!("Linux version 6.1\n{BUDDY}")]);
    assert!(own.notes[0].starts_with("t: line 1 left out"), "{:?}", own.notes);
    let twice = format!("{BUDDY}{}{BUDDY}", zoneinfo());
    let refused = Snapshot::parse(&[("t", twice.as_bytes())]).unwrap_err().to_string();
    assert_eq!(refused, "t: a second /proc/buddyinfo: give one machine at a time");
}

/// A zone of zoneinfo of 6.1: free pages, marks, what it keeps from requests up to Normal, and page
/// cache.
fn zone_of(node: u32, name: &str, free: u64, low: u64, reserve: u64, cache: u64) -> String {
    format!(
        "Node {node}, zone {name}\n  per-node stats\n      nr_inactive_file {cache}\n      nr_active_file 0\n  \
         pages free     {free}\n        min      {low}\n        low      {low}\n        high     {low}\n        \
         spanned  9999999\n        present  9999999\n        managed  9999999\n        \
         protection: (0, 0, {reserve}, {reserve}, {reserve})\n  start_pfn:           1\n"
    )
}

#[test]
fn texts_of_different_moments_are_said_to_be_so_first() {
    let buddy =
        "Node 0, zone DMA 0 0 0 0 0 0 0 0 0 1 3\nNode 0, zone Normal 40000 0 0 0 0 0 0 0 0 0 0\n";
    let info =
        zone_of(0, "DMA", 3584, 11, 31_932, 0) + &zone_of(0, "Normal", 5_000_000, 1600, 0, 0);
    let own = of(&[buddy, &info]);
    let sentence = own.sentence();
    assert!(
        sentence.starts_with(
            "The texts contradict each other: zoneinfo has 19.1 GiB free, buddyinfo 170 MiB. By buddyinfo: \
             fragmented: "
        ),
        "{sentence}"
    );
    assert!(sentence.contains("only 7 huge pages are free now (none of them above"), "{sentence}");
    assert_eq!(own.json()["texts_contradict"], true);
    let agree = of(&[buddy, &info.replace("5000000", "40000")]);
    assert!(agree.sentence().starts_with("Fragmented: "), "{}", agree.sentence());
}

#[test]
fn page_cache_is_what_reclaim_could_add() {
    let buddy = "Node 0, zone Normal 40000 0 0 0 0 0 0 0 0 0 0\n";
    let own = of(&[buddy, &zone_of(0, "Normal", 40_000, 1600, 0, 512 * 70)]);
    assert!(
        own.sentence().ends_with("reclaim of the 140 MiB of page cache at most 70 more."),
        "{}",
        own.sentence()
    );
    // Without zoneinfo, meminfo says it for the machine.
    let own = of(&[buddy, "MemTotal: 9 kB\nActive(file): 4096 kB\nInactive(file): 2048 kB\n"]);
    assert!(own.sentence().contains("6144 kB of page cache at most 3 more"), "{}", own.sentence());
}

#[test]
fn nodes_that_differ_are_named() {
    let row = |node: u32, first: u64, last: u64| {
        format!("Node {node}, zone Normal {first} 0 0 0 0 0 0 0 0 0 {last}\n")
    };
    let own = of(&[&(row(0, 200_000, 0) + &row(1, 150_000, 0) + &row(2, 10, 5000))]);
    assert_eq!(own.verdict(), Verdict::NodesDiffer);
    assert_eq!(
        own.sentence(),
        "Nodes differ: nodes 0, 1 are fragmented (1367 MiB free, 0 huge pages), node 2 is not fragmented \
         (19.5 GiB free, 10000 huge pages); compaction could add at most 682."
    );
    assert_eq!(own.json()["nodes"][2]["verdict"], "not-fragmented");
    let same = of(&[&(row(0, 10, 5000) + &row(1, 10, 5000))]);
    assert_eq!(same.verdict(), Verdict::NotFragmented);
}

#[test]
fn an_order_is_asked_for_as_the_kernel_does() {
    let buddy =
        "Node 0, zone DMA32 9 9 9 9 9 0 0 0 0 0 0\nNode 0, zone Normal 9000 0 0 0 3 0 0 0 0 0 0\n";
    let info = zone_of(0, "DMA32", 279, 10, 2000, 0) + &zone_of(0, "Normal", 9048, 1600, 0, 0);
    let ask = |texts: &[&str], order: u32| of(texts).for_order(order).sentence();
    assert_eq!(
        ask(&[buddy, &info], 4),
        "Yes: a request of order 4 (64 kB, GFP_KERNEL, unmovable) would be served: 3 blocks of 64 kB are free \
         above the min watermarks and reserves, 3 in node 0 Normal."
    );
    let short =
        info.replace("low      1600", "low      9040").replace("min      1600", "min      9040");
    assert!(
        ask(&[buddy, &short], 4).starts_with(
            "No: a request of order 4 (64 kB, GFP_KERNEL, unmovable) would not be served at once: 12 blocks of 64 \
             kB are free, but min watermarks and reserves keep them; "
        ),
        "{}",
        ask(&[buddy, &short], 4)
    );
    assert!(ask(&[buddy], 4).starts_with("Probably: "), "{}", ask(&[buddy], 4));
    assert!(ask(&[SMALL_DMA], 4).starts_with("Probably not: "), "{}", ask(&[SMALL_DMA], 4));
    assert!(ask(&[buddy, &info], 6).contains("no block of this size; compaction could make"));
    assert_eq!(
        ask(&["Node 0, zone Normal 1 1 1 1 1 1 1 1\n"], 9),
        "No: a request of order 9 (2 MiB, GFP_KERNEL, unmovable) always fails here: the largest order is 7."
    );
    let json = of(&[buddy, &info]).for_order(4).json();
    assert_eq!((&json["order"], &json["is_served"]), (&4.into(), &true.into()));
    assert_eq!(of(&[buddy, &info]).json()["is_served"], Value::Null);
}

/// Two gigabytes in small blocks, and the DMA zone of a PC.
const SMALL_DMA: &str = "Node 0, zone DMA 0 0 0 0 0 0 0 0 0 1 3\n\
                         Node 0, zone Normal 200000 100000 20000 5000 0 0 0 0 0 0 0\n";

#[test]
fn blocks_of_a_small_dma_zone_make_no_machine_less_fragmented() {
    let own = of(&[SMALL_DMA]);
    assert_eq!(
        own.sentence(),
        "Fragmented: 2045 MiB is free, but only 7 huge pages are free now (all of them in zone DMA, which its \
         reserve usually keeps: zoneinfo would say); compaction could add at most 1015."
    );
    assert!(printed(&own).contains("block is free"));
}

#[test]
fn the_reserve_of_old_kernels_is_shown() {
    let types = types()
        .replace("type Movable 20000", "type Reserve 20000")
        .replace("Unmovable      Movable\n", "Unmovable      Reserve\n");
    let text = printed(&of(&[&types]));
    assert!(text.contains("Reserve") && text.contains("78 MiB in 400"), "{text}");
}

#[test]
fn bars_say_which_blocks_fit() {
    let bars = of(&[BUDDY, &zoneinfo()]).free_blocks();
    assert_eq!(bars.len(), 2);
    use highwater_report::html::Fitness;
    let fits: Vec<Fitness> = bars[0].orders.iter().map(|of| of.fitness).collect();
    assert_eq!((fits[0], fits[9]), (Fitness::TooSmall, Fitness::Fits));
}
