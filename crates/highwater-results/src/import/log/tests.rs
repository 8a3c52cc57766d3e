//! Whole logs, made up for these tests in the dialects of real kernels.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A failed allocation of 6.x: counters of nodes and zones apart, boost, high-atomic, CMA.
const NEW: &str = "\
[   61.100000] brewer: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), nodemask=(null),cpuset=/,mems_allowed=0
[   61.100001] CPU: 3 UID: 71 PID: 911 Comm: brewer Not tainted 6.12.7-test.x86_64 #1
[   61.100002] Call Trace:
[   61.100003]  <TASK>
[   61.100004]  warn_alloc+0x11/0x22
[   61.100005] Mem-Info:
[   61.100006] active_anon:101 inactive_anon:202 isolated_anon:3
[   61.100006]  active_file:404 inactive_file:505 isolated_file:6
[   61.100006]  slab_reclaimable:707 slab_unreclaimable:808
[   61.100006]  free:10234 free_pcp:12 free_cma:512
[   61.100007] Node 0 active_anon:404kB inactive_anon:808kB shmem_thp:0kB all_unreclaimable? no
[   61.100008] Node 0 DMA free:14080kB boost:0kB min:96kB low:120kB high:144kB reserved_highatomic:0KB free_highatomic:0KB active_anon:0kB present:15992kB managed:15360kB free_cma:0kB
[   61.100009] lowmem_reserve[]: 0 1801 3777 3777 3777
[   61.100010] Node 0 Normal free:26856kB boost:2048kB min:9016kB low:10272kB high:11528kB reserved_highatomic:2048KB free_highatomic:1984KB active_anon:404kB present:2097152kB managed:2023424kB free_cma:2048kB
[   61.100011] lowmem_reserve[]: 0 0 0 0 0
[   61.100012] Node 0 DMA: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 1*256kB (U) 1*512kB (U) 1*1024kB (U) 2*2048kB (UM) 2*4096kB (M) = 14080kB
[   61.100013] Node 0 Normal: 3001*4kB (UME) 1207*8kB (UMEH) 324*16kB (UC) 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 26844kB
[   61.100014] Node 0 hugepages_total=5 hugepages_free=4 hugepages_surp=0 hugepages_size=2048kB
[   61.100015] 1611 total pagecache pages
[   61.100016] 17 pages in swap cache
[   61.100017] Free swap  = 65532kB
[   61.100018] Total swap = 131068kB
[   61.100019] 528286 pages RAM
[   61.100020] 0 pages HighMem/MovableOnly
[   61.100021] 18590 pages reserved
[   61.100022] 4096 pages cma reserved
[   61.100023] 2 pages hwpoisoned
";

/// An OOM kill of 2.6.32 to 4.3: flags by number, everything in the zone line.
const OLD: &str = "\
potter invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0
potter cpuset=/ mems_allowed=0-1
Pid: 4711, comm: potter Not tainted 3.10.99-box.i686 #1
Mem-Info:
DMA per-cpu:
CPU    0: hi:    0, btch:   1 usd:   0
active_anon:91011 inactive_anon:31 isolated_anon:0
 active_file:71 inactive_file:82 isolated_file:0
 free:1213 slab_reclaimable:1415 slab_unreclaimable:1617
DMA free:1604kB min:64kB low:80kB high:96kB active_anon:0kB present:15992kB managed:15916kB pages_scanned:3 all_unreclaimable? yes
lowmem_reserve[]: 0 871 1939 1939
Normal free:3120kB min:3728kB low:4660kB high:5592kB active_anon:2048kB present:894968kB managed:877140kB pages_scanned:77 all_unreclaimable? yes
lowmem_reserve[]: 0 0 8544 8544
HighMem free:128kB min:512kB low:1024kB high:1536kB active_anon:99332kB present:1093636kB managed:1093636kB pages_scanned:0 all_unreclaimable? no
lowmem_reserve[]: 0 0 0 0
DMA: 1*4kB (U) 0*8kB 0*16kB 0*32kB 1*64kB (R) 0*128kB 0*256kB 1*512kB (R) 1*1024kB (R) 0*2048kB 0*4096kB = 1604kB
Normal: 0*4kB 0*8kB 3*16kB (R) 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 3*1024kB (R) 0*2048kB 0*4096kB = 3120kB
HighMem: 0*4kB 16*8kB (M) 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 128kB
153 total pagecache pages
Free swap  = 0kB
Total swap = 262140kB
501149 pages RAM
273409 pages HighMem/MovableOnly
4476 pages reserved
[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name
[ 1301]     0  1301     2611       71       8       91         -1000 warden
[ 4711]  1000  4711   223344    91022     311     2001             0 potter
Out of memory: Kill process 4711 (potter) score 604 or sacrifice child
Killed process 4711 (potter) total-vm:893376kB, anon-rss:363912kB, file-rss:176kB
";

/// An OOM kill of a cgroup since 5.3.
pub(super) const MEMCG: &str = "\
[  500.000001][ T6021] weaver invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=300
[  500.000002][ T6021] CPU: 1 PID: 6021 Comm: weaver Tainted: G        W          5.15.9 #7
[  500.000003][ T6021] memory: usage 65536kB, limit 65536kB, failcnt 917
[  500.000004][ T6021] swap: usage 128kB, limit 9007199254740988kB, failcnt 0
[  500.000005][ T6021] Memory cgroup stats for /loom/warp:
[  500.000006][ T6021] anon 60817408
[  500.000006][ T6021] file 1323008
[  500.000007][ T6021] Tasks state (memory values in pages):
[  500.000008][ T6021] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[  500.000009][ T6021] [   6021]  1000  6021    81233    15107   204800       32           300 weaver
[  500.000010][ T6021] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/loom/warp,task_memcg=/loom/warp,task=weaver,pid=6021,uid=1000
[  500.000011][ T6021] Memory cgroup out of memory: Killed process 6021 (weaver) total-vm:324932kB, anon-rss:59392kB, file-rss:1036kB, shmem-rss:0kB, UID:1000 pgtables:200kB oom_score_adj:300
[  500.100000][   T55] oom_reaper: reaped process 6021 (weaver), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
";

pub(super) fn read(text: &str) -> Log {
    Log::read(text.as_bytes())
}

pub(super) fn one(text: &str) -> Report {
    let mut log = read(text);
    assert_eq!(log.reports.len(), 1, "{log:#?}");
    log.reports.remove(0)
}

/// A report without what says where and in which form it stood.
fn contents(mut report: Report) -> Report {
    report.prefix.clear();
    report.damage.clear();
    (report.first_line, report.last_line, report.time, report.clock) = (0, 0, None, None);
    report
}

/// The text without prefixes.
fn bare(text: &str) -> String {
    let lines = text.lines().map(|line| prefix::Prefix::strip(line).1);
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

/// Breaks lines at blanks as a mail program does.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            if used > 0 && used + word.trim_end().len() > width {
                out.push('\n');
                used = 0;
            }
            out.push_str(word);
            used += word.len();
        }
        out.push('\n');
    }
    out
}

/// Quoted-printable with lines of 76 characters.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.replace('=', "=3D");
        let mut used = 0;
        for c in line.chars() {
            // A code stays on one line.
            if used >= 73 && c != '3' && c != 'D' {
                out.push_str("=\n");
                used = 0;
            }
            out.push(c);
            used += 1;
        }
        out.push('\n');
    }
    out
}

#[test]
fn a_failed_allocation_of_a_new_kernel() {
    let report = one(NEW);
    assert_eq!(report.kind, ReportKind::PageAllocationFailure);
    let task = &report.task;
    assert_eq!(
        (task.comm.as_deref(), task.pid, task.uid, task.cpu),
        (Some("brewer"), Some(911), Some(71), Some(3))
    );
    assert_eq!(report.arch.as_deref(), Some("x86-64"));
    assert_eq!((report.request.order, report.highest_zone.as_deref()), (Some(4), Some("Normal")));
    assert_eq!(report.zone_types, ["DMA", "DMA32", "Normal", "Movable", "Device"]);
    assert_eq!(
        (report.page_size, report.prefix.as_str(), report.time),
        (Some(4096), "[t]", Some(61.1))
    );
    let normal = &report.zones[1];
    assert_eq!((normal.node, normal.boost, normal.managed), (Some(0), Some(2048), Some(2_023_424)));
    assert_eq!((normal.reserved_highatomic, normal.free_highatomic), (Some(2048), Some(1984)));
    assert_eq!((normal.free_cma, normal.largest_free_order()), (Some(2048), Some(2)));
    assert_eq!(report.reserve_for_request(&report.zones[0]), Some(3777));
    assert_eq!(report.counters["slab_unreclaimable"], 808);
    assert_eq!(
        (report.swap.free, report.swap.total, report.swap.cache_pages),
        (Some(65532), Some(131_068), Some(17))
    );
    assert_eq!((report.pages.ram, report.pages.hwpoisoned), (Some(528_286), Some(2)));
    assert_eq!(report.hugepages[0].free, Some(4));
    assert_eq!(report.missing, [""; 0]);
    assert_eq!(report.damage, [""; 0]);
    let differs = Finding::FreeDiffers {
        node: Some(0),
        zone: "Normal".into(),
        free_kb: 26856,
        list_kb: 26844,
    };
    assert_eq!(report.findings, [differs]);
}

#[test]
fn an_oom_kill_of_an_old_kernel() {
    let report = one(OLD);
    assert_eq!((report.kind, report.prefix.as_str()), (ReportKind::Oom, "none"));
    assert_eq!(report.request.mems_allowed.as_deref(), Some("0-1"));
    let gfp = report.request.gfp.as_ref().unwrap();
    assert!(!gfp.has_names && gfp.rules.unwrap().may_wait);
    assert_eq!(report.highest_zone.as_deref(), Some("Movable"));
    assert_eq!(report.zone_types, ["DMA", "Normal", "HighMem", "Movable"]);
    assert_eq!(report.reserve_for_request(&report.zones[1]), Some(8544));
    assert_eq!(
        (report.zones[1].pages_scanned, report.zones[1].all_unreclaimable),
        (Some(77), Some(true))
    );
    assert_eq!(report.zones[1].list.as_ref().unwrap().blocks[2].types, "R");
    assert_eq!((report.tasks.rows.len(), report.tasks.rows[1].values["nr_ptes"]), (2, 311));
    let kill = report.kill.as_ref().unwrap();
    assert_eq!((kill.pid, kill.score, kill.memory_kb["file-rss"]), (Some(4711), Some(604), 176));
    assert_eq!(report.arch.as_deref(), Some("x86-32"));
}

#[test]
fn an_oom_kill_of_a_cgroup() {
    let report = one(MEMCG);
    assert_eq!((report.kind, report.prefix.as_str()), (ReportKind::MemcgOom, "[t][ Tn]"));
    let memcg = report.memcg.as_ref().unwrap();
    assert_eq!(memcg.memory, Some(MemcgLimit { usage: 65536, limit: 65536, failcnt: Some(917) }));
    assert_eq!((memcg.path.as_deref(), memcg.stats["anon"]), (Some("/loom/warp"), 60_817_408));
    assert_eq!(report.constraint.as_deref(), Some("MEMCG"));
    let kill = report.kill.as_ref().unwrap();
    assert!(kill.is_reaped && !kill.is_global);
    assert_eq!(
        (kill.oom_memcg.as_deref(), kill.memory_kb["anon-rss"]),
        (Some("/loom/warp"), 59392)
    );
}

#[test]
fn every_form_of_a_log_says_the_same() {
    for text in [NEW, OLD, MEMCG] {
        let plain = bare(text);
        let right = contents(one(&plain));
        for (name, changed) in [
            ("quoted", each_line(&plain, |line| format!("> > {line}"))),
            ("indented", each_line(&plain, |line| format!("    {line}"))),
            ("syslog", each_line(&plain, |line| format!("Mar  3 07:08:09 box kernel: {line}"))),
            ("kmsg", each_line(&plain, |line| format!("4,71,61100000,-;{line}"))),
            ("level", each_line(&plain, |line| format!("<4>[   61.100000] {line}"))),
            ("day", each_line(&plain, |line| format!("[Wed Mar  3 07:08:09 2021] {line}"))),
            ("crlf", each_line(&plain, |line| format!("{line}\r"))),
            ("twice", each_line(&plain, |line| format!("{line}\n{line}"))),
            ("wrapped", wrapped(&plain, 70)),
            (
                "wrapped, stamped",
                wrapped(&each_line(&plain, |l| format!("[   61.100000] {l}")), 70),
            ),
            ("quoted-printable", encoded(&plain)),
            ("quoted, wrapped", each_line(&wrapped(&plain, 70), |line| format!("> {line}"))),
        ] {
            assert_eq!(contents(one(&changed)), right, "{name}: {changed}");
        }
    }
}

#[test]
fn lines_run_together_or_broken_up() {
    let right = contents(one(&bare(NEW)));
    let flat = bare(NEW).replace('\n', " ") + "\n";
    assert_eq!(contents(one(&flat)), right);
    let tokens = bare(NEW).split_whitespace().collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(contents(one(&tokens)), right);
    // Continuations that lost their line: every block has a line and a stamp of its own.
    let broken = each_line(NEW, |line| match line.split_once("] ") {
        Some((stamp, rest)) if rest.contains("*4kB") => {
            let tokens: Vec<String> =
                rest.split(' ').map(|token| format!("{stamp}] {token}")).collect();
            tokens.join("\n")
        }
        _ => line.to_owned(),
    });
    assert_eq!(contents(one(&broken)), contents(one(NEW)));
}

#[test]
fn escaped_line_ends() {
    for (escape, name) in [("#012", "#012"), ("\\x0a", "\\x0a")] {
        let text = NEW.replace("\n[   61.100006]  ", &format!("{escape} "));
        let report = one(&text);
        assert_eq!(report.damage, [name]);
        assert_eq!(contents(report), contents(one(NEW)));
    }
}

#[test]
fn a_head_or_a_tail_that_is_missing() {
    let dump = NEW.split_once("Mem-Info:").unwrap().1.split_once('\n').unwrap().1;
    let report = one(dump);
    assert_eq!((report.kind, report.request.order), (ReportKind::Other, None));
    assert_eq!(
        (report.damage, report.missing),
        (vec!["head cut".to_owned()], vec!["request".to_owned()])
    );
    let head = NEW.split_once("Mem-Info:").unwrap().0;
    let report = one(&(head.to_owned() + "\n"));
    assert_eq!(report.missing, ["counters", "zones", "lists", "swap", "pages RAM"]);
    assert_eq!((report.page_size, report.swap.total), (None, None));
    assert!(report.zone_types.is_empty() && report.zones.is_empty());
}

#[test]
fn a_request_after_its_dump() {
    let dump = NEW.split_once("[   61.100005]").unwrap().1;
    let late = "[   61.200000] vmalloc: allocation failure: 68719476736 bytes\n";
    let report = one(&format!("[   61.100005]{dump}{late}"));
    assert_eq!(report.kind, ReportKind::Vmalloc);
    assert!(report.request.follows_dump && report.damage.contains(&"head last".to_owned()));
    assert_eq!(report.vmalloc.unwrap().bytes, Some(68_719_476_736));
}

#[test]
fn terminals_cut_lines() {
    let narrow: String = NEW.lines().map(|line| format!("{:<80.80}\n", line)).collect();
    let report = one(&narrow);
    assert!(report.damage.contains(&"lines cut at the right".to_owned()));
    assert_eq!((report.zones[1].free, report.zones[1].managed), (Some(26856), None));
    assert_eq!(report.zones[1].list.as_ref().unwrap().total_kb, None);
    assert!(report.zones[1].has_cut_list());
    let is_cut = |finding: &Finding| matches!(finding, Finding::ListCut { .. });
    assert!(report.findings.len() == 2 && report.findings.iter().all(is_cut));
    // Broken at the width instead: nothing is lost.
    let mut broken = String::new();
    for line in NEW.lines() {
        for part in line.as_bytes().chunks(80) {
            broken.push_str(std::str::from_utf8(part).unwrap());
            broken.push('\n');
        }
    }
    assert_eq!(contents(one(&broken)), contents(one(NEW)));
}

#[test]
fn several_reports_are_apart_and_related() {
    let log = read(&format!("{NEW}{}{MEMCG}", NEW.replace("61.1", "62.1")));
    let kinds: Vec<ReportKind> = log.reports.iter().map(|report| report.kind).collect();
    let failure = ReportKind::PageAllocationFailure;
    assert_eq!(kinds, [failure, failure, ReportKind::MemcgOom]);
    let first = &log.relations[0];
    assert_eq!((first.earlier, first.later, first.kind), (0, 1, RelationKind::SameProcess));
    assert!((first.seconds.unwrap() - 1.0).abs() < 1e-6);
    assert_eq!(log.relations[1].kind, RelationKind::OomAfterFailure);
}

#[test]
fn two_callers_that_alternate() {
    let with = |caller: &str, text: &str| {
        let stamp = format!("[   61.100000][ {caller}] ");
        each_line(&bare(text), |line| stamp.clone() + line)
    };
    let (a, b) = (with("T911", NEW), with("T4711", OLD));
    let mut mixed = String::new();
    let (mut a_lines, mut b_lines) = (a.lines(), b.lines());
    loop {
        let pair = (a_lines.next(), b_lines.next());
        mixed.extend([pair.0, pair.1].into_iter().flatten().map(|line| format!("{line}\n")));
        if pair == (None, None) {
            break;
        }
    }
    let log = read(&mixed);
    assert_eq!(log.reports.len(), 2);
    assert_eq!(contents(log.reports[0].clone()), contents(one(&a)));
    assert_eq!(contents(log.reports[1].clone()).zones, contents(one(&b)).zones);
}

#[test]
fn other_kinds_of_reports() {
    let stall = "khelper: page allocation stalls for 12345ms, order:3, mode:0x14000c0(GFP_KERNEL), nodemask=(null)\n";
    assert_eq!((one(stall).kind, one(stall).request.waited_ms), (ReportKind::Stall, Some(12345)));
    let hung = "[   99.000000] INFO: task kswapd0:34 blocked for more than 120 seconds.\n[   99.000001]  shrink_node+0x1/0x2\n";
    let report = one(hung);
    assert_eq!((report.kind, report.task.pid), (ReportKind::Stall, Some(34)));
    assert!(report.context.is_kswapd && report.context.in_reclaim);
    assert!(
        read("INFO: task sh:34 blocked for more than 120 seconds.\n wait_for_tape+0x1/0x2\n")
            .reports
            .is_empty()
    );
    let nobody = "Out of memory and no killable processes...\n";
    assert!(one(nobody).kill.unwrap().has_no_victim);
    let asked = "fisher invoked oom-killer: gfp_mask=0x0(), order=0, oom_score_adj=0\nmemory: usage 4kB, limit 8kB, failcnt 0\n";
    assert_eq!((one(asked).kind, one(asked).highest_zone), (ReportKind::Other, None));
    let sysrq = OLD.replace("order=0", "order=-1");
    assert_eq!(one(&sysrq).request.order, Some(-1));
    assert_eq!(read("nothing here\n12 monkeys\n"), Log { lines: 2, ..Log::default() });
    assert_eq!(read(""), Log { lines: 0, ..Log::default() });
}

#[test]
fn two_lines_about_one_vmalloc() {
    let text = "[   12.000001] vmalloc: allocation failure: 8192 bytes\n\
                [   12.000002] weaver: page allocation failure: order:0, mode:0x80d2\n\
                [   12.000003] CPU: 0 PID: 6 Comm: weaver Not tainted 3.14.77 #13\n";
    let report = one(text);
    assert_eq!((report.kind, report.request.order), (ReportKind::Vmalloc, Some(0)));
    assert_eq!((report.vmalloc.unwrap().bytes, report.task.pid), (Some(8192), Some(6)));
    assert_eq!(read(&text.replace("order:0", "order:2")).reports.len(), 2);
}

/// All whole numbers of a text.
fn numbers(text: &str) -> BTreeSet<u64> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// All numbers of a log that are read from the text.
fn printed(log: &Log) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for report in &log.reports {
        let mut put = |value: Option<u64>| all.extend(value);
        for zone in &report.zones {
            for value in
                [zone.free, zone.min, zone.low, zone.high, zone.boost, zone.present, zone.managed]
            {
                put(value);
            }
            for value in
                [zone.reserved_highatomic, zone.free_highatomic, zone.free_cma, zone.pages_scanned]
            {
                put(value);
            }
            zone.counters.values().for_each(|value| put(Some(*value)));
            zone.lowmem_reserve.iter().flatten().for_each(|value| put(Some(*value)));
            if let Some(list) = &zone.list {
                put(list.total_kb);
                list.blocks.iter().for_each(|block| put(Some(block.count)));
            }
        }
        report
            .nodes
            .iter()
            .flat_map(|node| node.counters.values())
            .for_each(|value| put(Some(*value)));
        report.counters.values().for_each(|value| put(Some(*value)));
        let (swap, pages) = (&report.swap, &report.pages);
        for value in
            [swap.free, swap.total, swap.cache_pages, pages.ram, pages.reserved, pages.cma_reserved]
        {
            put(value);
        }
        for value in report.tasks.rows.iter().flat_map(|row| row.values.values()) {
            put(u64::try_from(*value).ok());
        }
        if let Some(memcg) = &report.memcg {
            let limits = [memcg.memory, memcg.swap, memcg.kmem, memcg.memory_and_swap];
            for limit in limits.iter().flatten() {
                [Some(limit.usage), Some(limit.limit), limit.failcnt]
                    .into_iter()
                    .for_each(&mut put);
            }
            memcg.stats.values().for_each(|value| put(Some(*value)));
        }
        if let Some(kill) = &report.kill {
            kill.memory_kb.values().for_each(|value| put(Some(*value)));
            put(kill.score);
        }
        put(report.request.order.and_then(|order| u64::try_from(order).ok()));
        put(report.task.pid.and_then(|pid| u64::try_from(pid).ok()));
    }
    all
}

/// Answers quote names; none may control a terminal, and no two numbers become one.
#[test]
fn control_characters_are_replaced() {
    let text =
        NEW.replace("brewer", "bre\u{4}w\u{9b}2Jer").replace("free:26856kB", "free:26\u{2}856kB");
    let log = Log::read(text.as_bytes());
    assert_eq!(log.reports[0].task.comm.as_deref(), Some("bre\u{fffd}w\u{fffd}2Jer"));
    assert!(!printed(&log).contains(&26_856));
}

#[test]
fn a_text_that_ends_anywhere_gives_whole_numbers_only() {
    for text in [NEW, OLD, MEMCG] {
        let right = numbers(text);
        for end in 0..=text.len() {
            let log = Log::read(&text.as_bytes()[..end]);
            let found = printed(&log);
            let invented: Vec<_> = found.difference(&right).collect();
            assert!(
                invented.is_empty(),
                "{invented:?} in {:?}",
                &text[end.saturating_sub(80)..end]
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shuffled_lines_invent_nothing(seed in any::<u64>(), which in 0usize..3) {
        let text = [NEW, OLD, MEMCG][which];
        let mut lines: Vec<&str> = text.lines().collect();
        let mut state = seed | 1;
        for index in (1..lines.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            lines.swap(index, (state >> 33) as usize % (index + 1));
        }
        let log = Log::read((lines.join("\n") + "\n").as_bytes());
        let (found, right) = (printed(&log), numbers(text));
        prop_assert!(found.is_subset(&right), "{:?}", found.difference(&right));
    }

    #[test]
    fn any_bytes_give_a_log(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Log::read(&bytes);
    }

    #[test]
    fn changed_bytes_do_no_harm(at in 0usize..4000, byte in any::<u8>(), other in any::<u8>()) {
        let mut bytes = NEW.as_bytes().to_vec();
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes[(at * 7) % length] = other;
        let _ = Log::read(&bytes);
    }
}

/// `kernel.log` of a run: each policy has a heading, and times begin anew.
#[test]
fn headings_of_runs_name_the_kernel() {
    let one = "[    4.600000] a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
               [    4.600000] Mem-Info:\n[    4.600000] active_anon:1 inactive_anon:2 isolated_anon:0\n\
               [    4.600000] Out of memory: Killed process 4 (a) total-vm:8kB, anon-rss:4kB, file-rss:0kB\n";
    let text =
        format!("== 6.1 on m, seed 1\n{one}== 5.4 on m, seed 1\n{one}== mine on m, seed 1\n{one}");
    let log = Log::read(text.as_bytes());
    let kernels: Vec<_> = log
        .reports
        .iter()
        .map(|report| report.kernel.as_ref().map(|k| k.release.clone()))
        .collect();
    assert_eq!(kernels, [Some("6.1".to_owned()), Some("5.4".to_owned()), None]);
}
