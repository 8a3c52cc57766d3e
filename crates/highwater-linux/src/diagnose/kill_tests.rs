//! OOM kills made up in several dialects: sizes, advice, and what is not claimed.

use super::Cause;
use super::tests::one;

/// A kill of the machine: one process has most of it, half in swap.
const MACHINE: &str = "\
[   10.000000] cron invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
[   10.000001] CPU: 0 PID: 8 Comm: cron Not tainted 5.10.0 #1
[   10.000002] Mem-Info:
[   10.000003] active_anon:40000 inactive_anon:8000 isolated_anon:0
                active_file:100 inactive_file:100 isolated_file:0
                unevictable:0 dirty:0 writeback:0
                slab_reclaimable:300 slab_unreclaimable:900
                mapped:100 shmem:10 pagetables:200 bounce:0
                free:1800 free_pcp:0 free_cma:0
[   10.000004] Node 0 active_anon:160000kB inactive_anon:32000kB active_file:400kB inactive_file:400kB unevictable:0kB isolated(anon):0kB isolated(file):0kB mapped:400kB dirty:0kB writeback:0kB shmem:40kB
[   10.000005] Node 0 Normal free:7200kB min:8000kB low:10000kB high:12000kB reserved_highatomic:0KB present:220000kB managed:210000kB free_cma:0kB
[   10.000006] lowmem_reserve[]: 0 0 0 0
[   10.000007] Node 0 Normal: 1800*4kB (UM) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 7200kB
[   10.000008] Free swap  = 0kB
[   10.000009] Total swap = 200000kB
[   10.000010] 55000 pages RAM
[   10.000011] 2500 pages reserved
[   10.000012] Tasks state (memory values in pages):
[   10.000013] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[   10.000014] [     40]     0    40    90000     20000   400000    45000             0 weaver
[   10.000015] [     41]     0    41    30000     22000   100000        0             0 spinner
[   10.000016] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/loom.service,task=weaver,pid=40,uid=0
[   10.000017] Out of memory: Killed process 40 (weaver) total-vm:360000kB, anon-rss:80000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:400kB oom_score_adj:0
";

/// Of two processes the one with less resident memory is the larger: the rest of it is in swap.
#[test]
fn swap_counts_as_memory_of_a_task() {
    one(MACHINE, |answer| {
        assert_eq!(answer.reasons.cause, Cause::MemoryShort);
        assert_eq!(answer.tasks[0].what, "weaver (pid 40)");
        assert_eq!((answer.tasks[0].kb, answer.tasks[0].swap_kb), (80_000, Some(180_000)));
        assert_eq!((answer.tasks[1].kb, answer.tasks[1].swap_kb), (88_000, None));
        assert_eq!(
            answer.severity.as_deref(),
            Some(
                "A process was killed: weaver (pid 40) of loom.service with 78 MiB and 176 MiB in swap."
            )
        );
    });
}

#[test]
fn the_largest_process_its_unit_and_the_full_swap() {
    one(MACHINE, |answer| {
        let [task, swap] = answer.to_do.as_slice() else { panic!("{:?}", answer.to_do) };
        assert!(task.contains("systemctl set-property loom.service MemoryMax=SIZE"), "{task}");
        assert!(swap.starts_with("90 % of the full swap is of weaver (pid 40)"), "{swap}");
        assert!(answer.remedies.is_empty(), "a kill frees memory: {:?}", answer.remedies);
    });
    // Without a unit, on a kernel whose systemd has the older name.
    let old = MACHINE.replace("/system.slice/loom.service", "/").replace("5.10.0", "3.10.0");
    one(&old, |answer| {
        let setting = "(systemd-run -p MemoryLimit=SIZE PROGRAM)";
        assert!(answer.to_do[0].contains(setting), "{:?}", answer.to_do);
    });
    let none = MACHINE.replace("Total swap = 200000kB", "Total swap = 0kB");
    one(&none.replace("    45000    ", "        0    "), |answer| {
        // 48,000 pages are anonymous.
        assert!(
            answer.to_do.iter().any(|line| line.starts_with("Add swap if part of the 188 MiB"))
        );
    });
}

/// Since 5.0 a kill prints its node mask only in the line of the constraint.
#[test]
fn a_memory_policy_in_the_line_of_the_kill() {
    let node = "[   10.000006] Node 1 Normal free:90000kB min:8000kB low:10000kB high:12000kB present:220000kB \
                managed:210000kB free_cma:0kB\n[   10.000006] lowmem_reserve[]: 0 0 0 0\n";
    let at = MACHINE.find("[   10.000007]").unwrap();
    let two = format!("{}{node}{}", &MACHINE[..at], &MACHINE[at..])
        .replace("mems_allowed=0,", "mems_allowed=0-1,");
    let bound = two.replace(
        "constraint=CONSTRAINT_NONE,nodemask=(null)",
        "constraint=CONSTRAINT_MEMORY_POLICY,nodemask=0",
    );
    one(&bound, |answer| {
        assert_eq!(answer.reasons.cause, Cause::Bound, "{}", answer.sentence);
        assert!(answer.to_do[0].contains("numactl"), "{:?}", answer.to_do);
    });
    one(&two, |answer| assert_eq!(answer.reasons.cause, Cause::ServedAtDumpTime));
    // Before 4.10 neither line has it: a node that is short beside one that is not tells of a policy.
    let old: Vec<&str> = two.lines().filter(|line| !line.contains("oom-kill:")).collect();
    let old = old.join("\n") + "\n";
    for (version, why) in
        [("4.4.0", "this kernel does not print"), ("5.10.0", "is not in the text")]
    {
        one(&old.replace("5.10.0", version), |answer| {
            assert_eq!(answer.reasons.cause, Cause::Bound, "{}", answer.sentence);
            assert!(!answer.reasons.is_certain);
            assert!(answer.sentence.contains("probably a memory policy"), "{}", answer.sentence);
            assert!(answer.sentence.contains(why), "{}", answer.sentence);
        });
    }
}

#[test]
fn places_that_hold_the_slab_are_named() {
    let sites = "[   10.000011] Memory allocations:
[   10.000011]   200000000   48828 mm/slub.c:2264 func:alloc_slab_page
[   10.000011]   102400000   50000 fs/a.c:82 [a] func:a_inode_alloc
[   10.000011]    51200000   50000 fs/file_table.c:202 func:alloc_empty_file
";
    let at = MACHINE.find("[   10.000012]").unwrap();
    let slab = format!("{}{sites}{}", &MACHINE[..at], &MACHINE[at..])
        .replace("slab_unreclaimable:900", "slab_unreclaimable:30000");
    one(&slab, |answer| {
        assert_eq!(answer.reasons.cause, Cause::UnreclaimableSlab);
        let line = &answer.to_do[0];
        assert!(
            line.contains("a_inode_alloc 98 MiB (50000 objects), alloc_empty_file 49 MiB"),
            "{line}"
        );
        assert!(line.contains("file-nr") && !line.contains("alloc_slab_page"), "{line}");
        // 30,000 of the 52,500 pages that are not reserved, here and in the sentence.
        assert!(answer.sentence.contains("57 % of what it can use"), "{}", answer.sentence);
    });
}

/// A kill in a cgroup of version 1, whose counter of memory and swap is not in use.
const GROUP: &str = "\
[   20.000000] sh invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[   20.000001] CPU: 0 PID: 9 Comm: sh Not tainted 5.2.0 #1
[   20.000002] memory: usage 65536kB, limit 65536kB, failcnt 12
[   20.000003] memory+swap: usage 0kB, limit 9007199254740988kB, failcnt 0
[   20.000004] kmem: usage 0kB, limit 9007199254740988kB, failcnt 0
[   20.000005] Memory cgroup stats for /box:
[   20.000006] anon 4096
[   20.000007] file 60000000
[   20.000008] file_dirty 59000000
[   20.000009] file_writeback 0
[   20.000010] inactive_anon 4096
[   20.000011] active_anon 0
[   20.000012] Memory cgroup out of memory: Killed process 9 (sh) total-vm:70000kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB
";

#[test]
fn a_counter_that_is_not_in_use_is_no_zero() {
    let with_anon = GROUP.replace("inactive_anon 4096", "inactive_anon 20000000");
    one(&with_anon, |answer| {
        let swap = answer.remedies.iter().find(|it| it.change.starts_with("swap")).expect("a line");
        assert_eq!(swap.result, "how much it uses is not in the text; its limit allows more");
    });
    one(GROUP, |answer| {
        let swap = answer.remedies.iter().find(|it| it.change.starts_with("swap")).expect("a line");
        assert_eq!((swap.helps, swap.result.as_str()), (Some(false), "only 4 kB could be swapped"));
    });
}

#[test]
fn dirty_page_cache_of_a_cgroup_is_the_reason() {
    one(GROUP, |answer| {
        assert!(
            answer.to_do[0]
                .starts_with("56 MiB of 57 MiB page cache are dirty, none of it under writeback,"),
            "{:?}",
            answer.to_do
        );
        let setting = "/sys/fs/cgroup/memory/box/memory.limit_in_bytes";
        assert!(answer.to_do[1].contains(setting), "{:?}", answer.to_do);
        assert!(answer.remedies[0].result.contains("have to reach the disk first"));
    });
    let clean = GROUP.replace("file_dirty 59000000", "file_dirty 0");
    one(&clean, |answer| assert!(answer.to_do[0].starts_with("Raise the limit")));
}

#[test]
fn shared_and_kernel_memory_of_a_cgroup_are_no_page_cache() {
    let shared = GROUP.replace("file_dirty 59000000", "file_dirty 0\nshmem 59000000");
    one(&shared, |answer| {
        let cache = &answer.remedies[0];
        assert!(cache.result.starts_with("only 976 kB (1 %) are page cache"), "{}", cache.result);
        assert!(answer.to_do[0].starts_with("Look for files on tmpfs"), "{:?}", answer.to_do);
    });
    let kernel = GROUP
        .replace("kmem: usage 0kB", "kmem: usage 60000kB")
        .replace("file 60000000", "file 4096")
        .replace("file_dirty 59000000", "file_dirty 0");
    one(&kernel, |answer| {
        assert_eq!(answer.holders[0].what, "other kernel memory");
        let first =
            "59 MiB are kernel memory of the group: the statistics do not show the rest. Killing";
        assert!(answer.to_do[0].starts_with(first), "{:?}", answer.to_do);
    });
}

/// A line alone says that, and how to get the rest.
#[test]
fn a_line_alone() {
    one("Nov 28 03:00:01 box kernel: Out of memory: Killed process 40 (weaver)\n", |answer| {
        assert_eq!(answer.sentence, "Memory ran out; what was short is not in these lines.");
        assert!(answer.to_do[0].contains("journalctl -k | grep -A 300"), "{:?}", answer.to_do);
    });
}

/// `__GFP_DMA` is bound to the lowest zones; another mask would be served.
#[test]
fn a_request_of_the_lowest_zone() {
    let text = MACHINE.lines().take(12).collect::<Vec<_>>().join("\n") + "\n";
    let dma = "[   10.000005] Node 0 DMA free:160kB min:400kB low:500kB high:600kB present:16000kB managed:15000kB \
               free_cma:0kB\n[   10.000005] lowmem_reserve[]: 0 0 0 0\n";
    let at = text.find("[   10.000005]").unwrap();
    let text = format!("{}{dma}{}", &text[..at], &text[at..])
        .replace(
            "cron invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
            "modprobe: page allocation failure: order:0, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)",
        )
        .replace("Normal free:7200kB", "Normal free:90000kB");
    one(&text, |answer| {
        assert_eq!(answer.reasons.cause, Cause::MemoryShort);
        assert!(
            answer.sentence.starts_with("Zone DMA is short, and the request may use no higher one"),
            "{}",
            answer.sentence
        );
        let other = answer.remedies.iter().find(|it| it.change.starts_with("without __GFP_DMA,"));
        let other = other.expect("a trial");
        assert_eq!((other.helps, other.result.as_str()), (Some(true), "served from node 0 Normal"));
        assert!(answer.to_do[0].contains("DMA mask"), "{:?}", answer.to_do);
    });
}

/// A table that lacks most tasks does not say which one to make smaller.
#[test]
fn a_table_that_was_cut_is_said_so() {
    let cut = MACHINE
        .replace("    20000   400000    45000", "      200   400000        0")
        .replace("    22000   100000", "      100   100000");
    one(&cut, |answer| {
        assert!(
            answer.to_do[0].contains("anonymous memory of processes (187 MiB)"),
            "{:?}",
            answer.to_do
        );
        let said =
            |line: &String| line.starts_with("the tasks in the table hold 1200 kB of 187 MiB");
        assert!(answer.unknown.iter().any(said), "{:?}", answer.unknown);
    });
    one(MACHINE, |answer| {
        assert!(!answer.unknown.iter().any(|line| line.contains("in the table")));
    });
}

#[test]
fn a_panic_in_place_of_a_kill() {
    let at = MACHINE.find("[   10.000017]").unwrap();
    let panic = "[   10.000017] Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is \
                 enabled\n";
    one(&format!("{}{panic}", &MACHINE[..at]), |answer| {
        assert_eq!(
            answer.severity.as_deref(),
            Some("The kernel panicked in place of a kill, because vm.panic_on_oom is set.")
        );
        assert!(answer.to_do[0].starts_with("With vm.panic_on_oom=0"), "{:?}", answer.to_do);
    });
}

/// A page fault whose kill has no request: free memory in the lowest zone alone says nothing.
#[test]
fn a_kill_that_a_page_fault_asked_for() {
    let fault = MACHINE
        .replace("gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)", "gfp_mask=0x0()")
        .replace("Tainted", "tainted")
        .replace(
            "[   10.000002] Mem-Info:",
            "[   10.000002]  pagefault_out_of_memory+0x48/0x50\n[   10.000002] Mem-Info:",
        );
    let much = fault.replace("Normal free:7200kB", "Normal free:90000kB");
    one(&much, |answer| {
        assert_eq!(answer.reasons.cause, Cause::ServedAtDumpTime, "{}", answer.sentence);
        assert!(
            answer.sentence.starts_with("A page fault asked for the kill"),
            "{}",
            answer.sentence
        );
        assert!(answer.to_do[0].starts_with("Look for the cgroup"), "{:?}", answer.to_do);
    });
    let dma = "[   10.000005] Node 0 DMA free:9000kB min:40kB low:50kB high:60kB present:16000kB managed:15000kB \
               free_cma:0kB\n[   10.000005] lowmem_reserve[]: 0 2000 2000 2000\n";
    let at = fault.find("[   10.000005]").unwrap();
    let short = format!("{}{dma}{}", &fault[..at], &fault[at..]);
    one(&short, |answer| {
        assert_eq!(answer.reasons.cause, Cause::MemoryShort, "{}", answer.sentence)
    });
}
