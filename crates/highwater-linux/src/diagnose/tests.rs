//! Reports made up in the dialects of several kernels, and what follows from their numbers.

use highwater_results::import::log::Log;

use super::{Answer, Cause, answers, json, markdown, terminal};

/// A report of 5.4: an atomic page, both zones below mark and reserve.
const ATOMIC: &str = "\
[  100.000001] worker: page allocation failure: order:0, mode:0xa20(GFP_ATOMIC), nodemask=(null),cpuset=/,mems_allowed=0
[  100.000002] CPU: 1 PID: 77 Comm: worker Not tainted 5.4.30 #1
[  100.000003] Mem-Info:
[  100.000004] active_anon:1000 inactive_anon:1000 isolated_anon:0
                active_file:9000 inactive_file:9000 isolated_file:0
                unevictable:0 dirty:100 writeback:900 unstable:0
                slab_reclaimable:500 slab_unreclaimable:700
                mapped:100 shmem:10 pagetables:50 bounce:0
                free:2800 free_pcp:0 free_cma:0
[  100.000005] Node 0 active_anon:4000kB inactive_anon:4000kB active_file:36000kB inactive_file:36000kB unevictable:0kB isolated(anon):0kB isolated(file):0kB mapped:400kB dirty:400kB writeback:3600kB shmem:40kB
[  100.000006] Node 0 DMA32 free:9200kB min:4000kB low:5000kB high:6000kB active_anon:0kB inactive_anon:0kB active_file:0kB inactive_file:0kB unevictable:0kB writepending:0kB present:120000kB managed:100000kB mlocked:0kB kernel_stack:0kB pagetables:0kB bounce:0kB free_pcp:0kB local_pcp:0kB free_cma:0kB
[  100.000007] lowmem_reserve[]: 0 2000 2000 2000
[  100.000008] Node 0 Normal free:2000kB min:8000kB low:10000kB high:12000kB active_anon:4000kB inactive_anon:4000kB active_file:36000kB inactive_file:36000kB unevictable:0kB writepending:4000kB present:210000kB managed:200000kB mlocked:0kB kernel_stack:0kB pagetables:0kB bounce:0kB free_pcp:0kB local_pcp:0kB free_cma:0kB
[  100.000009] lowmem_reserve[]: 0 0 0 0
[  100.000010] Node 0 DMA32: 300*4kB (U) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 1200kB
[  100.000011] Node 0 Normal: 500*4kB (UM) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 2000kB
[  100.000012] 18010 total pagecache pages
[  100.000013] Free swap  = 0kB
[  100.000014] Total swap = 0kB
[  100.000015] 82500 pages RAM
[  100.000016] 0 pages HighMem/MovableOnly
[  100.000017] 7500 pages reserved
";

pub(super) fn one(text: &str, check: impl FnOnce(&Answer<'_>)) {
    let log = Log::read(text.as_bytes());
    let answers = answers(&log);
    assert_eq!(answers.len(), 1);
    check(&answers[0]);
}

#[test]
fn an_atomic_request_at_its_mark() {
    one(ATOMIC, |answer| {
        assert_eq!(answer.reasons.cause, Cause::AtMarkNowait);
        assert!(answer.reasons.is_certain);
        assert_eq!(answer.judge.policy.name, "5.4");
        // 8000 kB are 2000 pages: half for __GFP_HIGH, three quarters of that for atomic requests.
        let normal = &answer.rows[1];
        assert_eq!((normal.mark_pages, normal.spare_pages), (Some(750), Some(500 - 750)));
        assert_eq!((normal.passes, normal.has_block), (Some(false), Some(true)));
        assert!(answer.to_do[0].contains("sysctl vm.min_free_kbytes=137"), "{:?}", answer.to_do);
        // DMA32: 2300 pages, mark 375, reserve 2000.
        let dma32 = &answer.rows[0];
        assert_eq!((dma32.spare_pages, dma32.passes), (Some(2300 - 375 - 2000), Some(false)));
        assert_eq!(answer.reasons.also, [Cause::Reserve]);
        assert_eq!(
            answer.sentence,
            "node 0 DMA32 has 9200 kB free, 76 pages (304 kB) too few (mark 1500 kB of min 4000 kB, lowmem_reserve 8000 \
             kB), and the request may not wait for reclaim."
        );
    });
}

/// Zones that the kernel left out count in the setting, too: only the ratio is known then.
#[test]
fn a_setting_for_zones_that_are_not_in_the_text() {
    let more = ATOMIC.replace("82500 pages RAM", "16777216 pages RAM");
    one(&more, |answer| {
        let found = answer.remedies.iter().find(|r| r.change.ends_with("vm.min_free_kbytes"));
        let found = found.expect("a trial");
        assert_eq!(found.change, "1.15 times vm.min_free_kbytes");
        assert!(answer.to_do[0].contains("to 1.15 times its value"), "{:?}", answer.to_do);
    });
    // Boosts came with 5.0, although the nearest preset to 5.2 is older.
    one(&EXPLAINED.replace("6.1.90", "5.2.0"), |answer| {
        assert_eq!(answer.rows[2].mark_pages, Some(1919), "half of 5116, three quarters of that");
    });
}

/// The least min_free_kbytes is where the request begins to pass.
#[test]
fn min_free_kbytes_that_would_have_helped() {
    one(ATOMIC, |answer| {
        let found = answer.remedies.iter().find(|r| r.change.starts_with("vm.min_free_kbytes"));
        let found = found.expect("a trial");
        assert_eq!(found.helps, Some(true));
        // Normal: taken since low: 2500 - 500 = 2000 pages; low - 3/8 min has to be above that, with
        // low = min + max(500, min / 4): 2287 pages, 1.1429 times as much as now, 12000 kB.
        let value: u64 =
            found.change.split([' ', '=']).filter_map(|word| word.parse().ok()).next().unwrap();
        assert!((13_700..=13_800).contains(&value), "{}", found.change);
    });
}

/// The report that the book explains by hand (docs/src/diagnose.md).
const EXPLAINED: &str = include_str!("../../../../docs/src/logs/atomic-order-2.txt");

#[test]
fn the_arithmetic_of_the_book() {
    one(EXPLAINED, |answer| {
        assert_eq!(answer.reasons.cause, Cause::AtMarkNowait);
        assert_eq!(answer.reasons.also, [Cause::Reserve]);
        let of_zone = |row: &super::ZoneRow<'_>| {
            (row.mark_pages.unwrap(), row.reserve_pages.unwrap(), row.spare_pages.unwrap())
        };
        let sums: Vec<_> = answer.rows.iter().map(of_zone).collect();
        // DMA: 3325 - 24 - 3886; DMA32: 4949 - 4777 - 945; Normal: 1800 - 1919.
        assert_eq!(sums, [(24, 3886, -585), (4777, 945, -773), (1919, 0, -119)]);
    });
}

/// Normal: min without boost is 4092 pages. Each percent more of it lifts low by 51 pages and the
/// mark by 15, and 120 are missing: 3.4 percent.
#[test]
fn min_free_kbytes_scales_no_boost() {
    one(EXPLAINED, |answer| {
        let found = answer.remedies.iter().find(|r| r.change.starts_with("vm.min_free_kbytes"));
        assert_eq!(found.expect("a trial").change, "vm.min_free_kbytes = 69888 (now about 67572)");
    });
}

/// A single atomic page need not leave the boost: 3/8 of 4092 pages instead of 5116.
#[test]
fn an_atomic_page_skips_the_boost() {
    let single = EXPLAINED
        .replace("order:2, mode:0x40a20(GFP_ATOMIC|__GFP_COMP)", "order:0, mode:0xa20(GFP_ATOMIC)");
    one(&single, |answer| {
        let normal = &answer.rows[2];
        assert_eq!((normal.mark_pages, normal.passes), (Some(1535), Some(true)));
        assert_eq!(answer.remedies[0].helps, Some(true), "{}", answer.remedies[0].result);
    });
    let waits = single.replace("0xa20(GFP_ATOMIC)", "0xcc0(GFP_KERNEL)");
    one(&waits, |answer| assert_eq!(answer.rows[2].mark_pages, Some(5116)));
}

#[test]
fn the_allocator_refuses_what_the_rows_refuse() {
    one(ATOMIC, |answer| {
        let same = &answer.remedies[0];
        assert_eq!(same.helps, Some(false), "{}", same.result);
    });
    // With 1200 more free pages in Normal both serve it.
    let more = ATOMIC
        .replace("Normal free:2000kB", "Normal free:6800kB")
        .replace("500*4kB (UM)", "1700*4kB (UM)")
        .replace("= 2000kB", "= 6800kB");
    one(&more, |answer| {
        assert!(answer.rows[1].serves());
        assert_eq!(answer.remedies[0].helps, Some(true), "{}", answer.remedies[0].result);
    });
}

/// A request that goes round until others free memory ends in the trial, where nobody does.
#[test]
fn requests_that_never_give_up_are_refused_once() {
    let flags = [
        "0x50(GFP_NOFS)",
        "0xc00(GFP_NOIO)",
        "0x4dc0(GFP_KERNEL|__GFP_RETRY_MAYFAIL)",
        "0x8cc0(GFP_KERNEL|__GFP_NOFAIL)",
    ];
    for version in ["2.6.32", "4.4.1", "4.8.0", "5.4.30", "6.1.0", "6.12.0", "7.2.0"] {
        for flags in flags {
            let text = ATOMIC.replace("0xa20(GFP_ATOMIC)", flags).replace("5.4.30", version);
            one(&text, |answer| {
                let same = &answer.remedies[0];
                assert_eq!(same.helps, Some(false), "{version} {flags}: {}", same.result);
            });
        }
    }
}

/// Kernels before 5.0 have no boost: their marks would have passed this request.
#[test]
fn a_boost_is_of_its_kernel() {
    // 4750 pages, 512 of them high-atomic; min is 5116, of which 1024 are boost.
    let text = EXPLAINED
        .replace("order:2, mode:0x40a20(GFP_ATOMIC|__GFP_COMP)", "order:0, mode:0xcc0(GFP_KERNEL)")
        .replace("Normal free:7212kB", "Normal free:19000kB");
    one(&text, |answer| {
        let trial = |name: &str| {
            answer.remedies.iter().find(|it| it.change.starts_with(name)).expect("a trial")
        };
        let kernel = trial("another kernel");
        assert_eq!(kernel.helps, Some(true), "{}", kernel.result);
        assert!(
            kernel.result.starts_with("the rules of 4.3, 4.5, 4.6 serve it"),
            "{}",
            kernel.result
        );
        let boost = trial("vm.watermark_boost_factor = 0");
        assert_eq!(
            (boost.helps, boost.result.as_str()),
            (Some(true), "marks without a boost; served from node 0 Normal")
        );
    });
}

/// Order 2 in blocks below it: fragmented for every kernel; before 4.4 also with two large blocks.
#[test]
fn blocks_of_lower_orders() {
    let order = |text: &str| {
        text.replace(
            "order:0, mode:0xa20(GFP_ATOMIC)",
            "order:2, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)",
        )
        .replace("Normal free:2000kB", "Normal free:62000kB")
        .replace("500*4kB (UM) 0*8kB 0*16kB", "15000*4kB (UM) 250*8kB (U) 0*16kB")
        .replace("= 2000kB", "= 62000kB")
    };
    one(&order(ATOMIC), |answer| {
        assert_eq!(answer.reasons.cause, Cause::Fragmented);
        let normal = &answer.rows[1];
        assert_eq!((normal.passes, normal.has_block), (Some(true), Some(false)));
        assert_eq!(answer.remedies[0].helps, Some(false));
        assert!(
            answer
                .remedies
                .iter()
                .any(|r| r.change == "order 1 (8 kB) instead" && r.helps == Some(true))
        );
        assert!(
            answer.remedies.iter().any(|r| r.change.starts_with("compaction of node 0 Normal"))
        );
    });
    // Without I/O the kernel does not compact, so compaction by others is worth a try.
    let no_io =
        order(ATOMIC).replace("0x40cc0(GFP_KERNEL|__GFP_COMP)", "0x40c00(GFP_NOIO|__GFP_COMP)");
    one(&no_io, |answer| {
        let found = answer.remedies.iter().find(|r| r.change == "compaction of node 0 Normal");
        let found = found.expect("a trial");
        assert_eq!(found.helps, Some(true), "{}", found.result);
        assert!(found.result.starts_with("the kernel does not compact"), "{}", found.result);
    });
    let kept = order(ATOMIC).replace("250*8kB (U) 0*16kB", "246*8kB (U) 2*16kB (H)");
    one(&kept, |answer| assert_eq!(answer.reasons.cause, Cause::HighatomicOnly));
    let cma = order(ATOMIC).replace("250*8kB (U) 0*16kB", "246*8kB (U) 2*16kB (C)");
    one(&cma, |answer| assert_eq!(answer.reasons.cause, Cause::CmaOnly));
}

#[test]
fn a_cgroup_at_its_limit() {
    let text = "\
[    5.000000] eater invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[    5.000001] CPU: 0 PID: 9 Comm: eater Not tainted 5.15.0 #1
[    5.000002] memory: usage 65536kB, limit 65536kB, failcnt 12
[    5.000003] swap: usage 0kB, limit 9007199254740988kB, failcnt 0
[    5.000004] Memory cgroup stats for /box:
[    5.000005] anon 60000000
[    5.000006] file 4096
[    5.000007] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/box,task_memcg=/box,task=eater,pid=9,uid=0
[    5.000008] Memory cgroup out of memory: Killed process 9 (eater) total-vm:70000kB, anon-rss:58000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0
";
    one(text, |answer| {
        assert_eq!(answer.reasons.cause, Cause::MemcgLimit);
        assert_eq!(answer.sentence, "The memory cgroup /box has reached its limit of 64 MiB.");
        assert_eq!(
            answer.severity.as_deref(),
            Some(
                "A process was killed: eater (pid 9) with 57 MiB. The group was at its limit; nothing in the text says \
                 that the machine is short."
            )
        );
        assert_eq!(answer.holders[0].what, "anonymous memory");
        // The kernel's lines for version 2 of the interface.
        let raise = "Raise the limit: /sys/fs/cgroup/box/memory.max. 64 MiB was not enough.";
        assert!(answer.to_do[0].starts_with(raise), "{:?}", answer.to_do);
    });
}

/// Numbers that no machine has: no overflow, and the marks are named.
#[test]
fn absurd_numbers_are_corrupt_marks() {
    let absurd = "18446744073709551612kB";
    one(&ATOMIC.replace("min:8000kB", &format!("min:{absurd}")), |answer| {
        assert_eq!(answer.reasons.cause, Cause::CorruptMarks);
    });
    for number in ["9200kB", "2000kB", "8000kB", "12000kB", "200000kB", "4000kB", "1200kB"] {
        let log = Log::read(ATOMIC.replace(number, absurd).as_bytes());
        assert!(!terminal(&log, &answers(&log), None, 100).is_empty());
    }
    for line in [
        "min:0kB low:18446744073709551615kB high:18446744073709551615kB",
        "min:8000kB low:10000kB high:12000kB reserved_highatomic:18446744073709551615KB free_highatomic:0KB",
    ] {
        for version in ["4.4.0", "6.1.0", "6.12.0"] {
            let text = ATOMIC
                .replace("min:8000kB low:10000kB high:12000kB", line)
                .replace("order:0, mode:0xa20(GFP_ATOMIC)", "order:2, mode:0xcc0(GFP_KERNEL)")
                .replace("5.4.30", version);
            let log = Log::read(text.as_bytes());
            assert!(!terminal(&log, &answers(&log), None, 100).is_empty());
        }
    }
    let counters =
        ATOMIC.replace(":9000", ":18446744073709551612").replace(":1000", ":18446744073709551612");
    let log = Log::read(counters.as_bytes());
    assert!(!terminal(&log, &answers(&log), None, 100).is_empty());
}

/// With a second node that has memory.
fn two_nodes(head: &str) -> String {
    let kernel =
        ATOMIC.replace("mode:0xa20(GFP_ATOMIC), nodemask=(null),cpuset=/,mems_allowed=0", head);
    let node = "[  100.000010] Node 1 Normal free:90000kB min:8000kB low:10000kB high:12000kB present:210000kB \
                managed:200000kB free_cma:0kB\n[  100.000010] lowmem_reserve[]: 0 0 0 0\n";
    let list = "[  100.000012] Node 1 Normal: 22500*4kB (U) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB \
                0*2048kB 0*4096kB = 90000kB\n";
    let at = kernel.find("[  100.000010]").unwrap();
    let with_zone = format!("{}{node}{}", &kernel[..at], &kernel[at..]);
    let at = with_zone.find("[  100.000012] 18010").unwrap();
    format!("{}{list}{}", &with_zone[..at], &with_zone[at..])
}

#[test]
fn nodes_that_the_request_may_not_use() {
    let all = two_nodes("mode:0xa20(GFP_ATOMIC), nodemask=(null),cpuset=/,mems_allowed=0-1");
    one(&all, |answer| assert_eq!(answer.reasons.cause, Cause::ServedAtDumpTime));
    let mask = two_nodes("mode:0xa20(GFP_ATOMIC), nodemask=0,cpuset=/,mems_allowed=0-1");
    one(&mask, |answer| assert_eq!(answer.reasons.cause, Cause::Bound));
    let user =
        two_nodes("mode:0x100cca(GFP_HIGHUSER_MOVABLE), nodemask=(null),cpuset=a,mems_allowed=0");
    one(&user, |answer| assert_eq!(answer.reasons.cause, Cause::Bound));
    // The node is not printed: it is one of those that are short.
    let this = two_nodes(
        "mode:0x200a20(GFP_ATOMIC|__GFP_THISNODE), nodemask=(null),cpuset=/,mems_allowed=0-1",
    );
    one(&this, |answer| {
        assert_eq!(answer.reasons.cause, Cause::AtMarkNowait);
        assert!(!answer.reasons.is_certain);
        assert!(
            answer.unknown.iter().any(|line| line.contains("__GFP_THISNODE")),
            "{:?}",
            answer.unknown
        );
    });
}

/// Without zones or request nothing is made up.
#[test]
fn too_little_text_is_said() {
    let head = ATOMIC.lines().next().unwrap().replace("order:0", "order:2");
    one(&head, |answer| {
        assert_eq!(answer.reasons.cause, Cause::CannotTell);
        assert!(!answer.reasons.is_certain);
        assert!(answer.unknown[0].starts_with("not in the text: "), "{:?}", answer.unknown);
    });
    let dump: Vec<&str> = ATOMIC.lines().skip(2).collect();
    one(&dump.join("\n"), |answer| {
        assert_eq!(answer.rows[1].passes, None, "no request, no test");
        assert!(!answer.reasons.is_certain);
    });
}

/// A report cut at every byte: no panic, and the answer is certain only with all its parts.
#[test]
fn cut_reports_claim_nothing_that_they_lack() {
    for end in 0..ATOMIC.len() {
        let log = Log::read(&ATOMIC.as_bytes()[..end]);
        for answer in answers(&log) {
            let has_zones = answer.rows.iter().any(|row| row.zone.min.is_some());
            assert!(!answer.reasons.is_certain || has_zones, "at {end}");
            assert!(answer.remedies.iter().all(|remedy| !remedy.result.is_empty()));
        }
    }
}

#[test]
fn all_forms_have_the_answer() {
    let both = format!("{ATOMIC}{}", ATOMIC.replace("  100.0", "  101.0"));
    let log = Log::read(both.as_bytes());
    let answers = answers(&log);
    assert_eq!(answers.len(), 2);
    let text = terminal(&log, &answers, None, 100);
    // The first line is an answer.
    assert!(text.starts_with("  1  node 0 DMA32 has 9200 kB free"), "{text}");
    assert!(text.contains("\n2 reports; --report N shows another one in full.\n"), "{text}");
    assert!(text.contains("the same process reports again, 1.000 s later"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let single = terminal(&log, &answers, Some(2), 100);
    assert!(single.lines().count() <= 40 && single.starts_with("Report 2 of 2\n"), "{single}");
    let document = json(&log, &answers);
    assert_eq!(document["reports"][1]["cause"], "at-mark-nowait");
    assert_eq!(document["reports"][0]["zones"][1]["spare_pages"], -250);
    assert!(
        markdown(&log, &answers, Some(1)).starts_with("## Report 1 of 2\n\n**node 0 DMA32 has")
    );
}
