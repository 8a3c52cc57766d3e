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
    assert_eq!(own.verdict(), Verdict::PartlyFragmented);
    assert_eq!(
        own.sentence(),
        "Partly fragmented: 4 huge pages are free now, but 97% of the 283 MiB that is free is in smaller \
         blocks; compaction could add at most 137."
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
        "t: there is nothing in it; expected: /proc/buddyinfo, /proc/zoneinfo, /proc/pagetypeinfo"
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
