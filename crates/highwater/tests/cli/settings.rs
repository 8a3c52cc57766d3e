//! `--set`: what was set is what runs, the results say so, and what cannot be is refused before
//! anything runs.

use super::{SMALL, highwater, json, stdout};

/// A comparison that takes no time.
const UNMAP: [&str; 6] = ["compare", "003", "--quick", "--machine", SMALL, "--format"];

fn set<'a>(args: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
    let set = settings.iter().flat_map(|&setting| ["--set", setting]);
    args.iter().copied().chain(set).collect()
}

fn refused(setting: &str) -> String {
    let output = highwater(&set(&UNMAP[..5], &[setting]));
    assert_eq!(output.status.code(), Some(2), "{setting}");
    assert!(output.stdout.is_empty(), "{setting}");
    let text = String::from_utf8(output.stderr).unwrap();
    let line = text.strip_prefix(&format!("error: --set {setting}: "));
    line.unwrap_or_else(|| panic!("{text}")).trim_end().to_owned()
}

#[test]
fn keys_of_workload_machine_and_policy_are_set_and_kept() {
    let settings = [
        "unmap.rounds=1",
        "unmap.processes=1,2",
        "machine.memory=96M",
        "machine.disk.data.model=hdd",
        "machine.costs=little-core",
        "vm.swappiness=10",
        "policy.watermark.boost=false",
    ];
    let mut args = UNMAP.to_vec();
    args.push("json");
    let document = json(&set(&args, &settings));
    assert_eq!(document["settings"], serde_json::json!(settings));
    let of = |what: &serde_json::Value| what["definition"].as_str().unwrap().to_owned();
    let workload = of(&document["workload"]);
    assert!(workload.contains("rounds = 1\n") && workload.contains("processes = [1, 2]"));
    let machine = of(&document["machines"][0]);
    for part in ["model = \"hdd\"", "swappiness = 10", "seek-max-ns", "spanned = 20480"] {
        assert!(machine.contains(part), "{part}: {machine}");
    }
    // Figures of the model that was are gone; the other disk has its own.
    assert_eq!(machine.matches("channels").count(), 1, "{machine}");
    for policy in document["policies"].as_array().unwrap() {
        assert!(of(policy).contains("boost = false"));
    }
    let operations: Vec<_> = document["runs"][0]["samples"].as_array().unwrap().iter().collect();
    assert!(operations.iter().any(|s| s["operation"] == "again-2"));
    assert!(!operations.iter().any(|s| s["operation"] == "again-4"));
}

#[test]
fn reports_say_what_was_set_and_explain_takes_it_too() {
    let compared = stdout(&set(&UNMAP[..5], &["unmap.rounds=1"]));
    assert!(compared.contains("# set for this run: unmap.rounds=1\n"), "{compared}");
    let run = ["run", "unmap", "--machine", SMALL];
    let ran = stdout(&set(&run, &["unmap.rounds=1", "machine.cpus=2"]));
    assert!(ran.contains("# set for this run: unmap.rounds=1 machine.cpus=2\n"), "{ran}");
    let explain = ["explain", "003", "--quick", "--machine", SMALL, "--format", "json"];
    let explained = |set_: &[&str]| stdout(&set(&explain, set_));
    assert!(explained(&[]).contains("\"unmap/4\""));
    let three = explained(&["unmap.processes=3"]);
    assert!(!three.contains("\"unmap/4\"") && three.contains("\"unmap.processes=3\""), "{three}");
    let text = stdout(&set(&explain[..5], &["unmap.processes=1"]));
    assert!(text.contains("\n# set for this run: unmap.processes=1\n"), "{text}");
}

/// Answers to names of Linux that are not names here.
const MGLRU: &str = "the multi-generational LRU is a reclaim algorithm: write --set \
                     policy.reclaim.algorithm=mglru, or algorithm = \"mglru\" under ";

#[test]
fn what_cannot_be_set_is_refused_with_what_was_meant() {
    for (setting, reason) in [
        ("rounds", "is not KEY=VALUE, as in machine.memory=2G"),
        ("unmap.round=1", "unknown parameter \"round\"; did you mean rounds?"),
        ("unmap.rounds=0", "rounds: must be at least 1"),
        ("unmap.rounds=many", "must be a number from 0 to 4294967295; not \"many\""),
        ("unmap.rounds=-1", "must be a number from 0 to 4294967295; not -1"),
        ("stutterp.seconds=1", "unknown key \"stutterp.seconds\"; there are machine.KEY"),
        ("iterations=0", "must be a number from 1 to 10000"),
        ("machine.memory=lots", "\"lots\" is not a size such as 512M or 8G"),
        ("machine.memory=4K", "nodes: 4 KiB of memory: no kernel boots in less than 4 MiB"),
        ("machine.memry=1G", "memry: unknown field `memry`"),
        ("machine.disk.dat.model=hdd", "unknown name \"dat\"; did you mean data?"),
        ("machine.disk.data.model=tape", "model: unknown model \"tape\""),
        ("machine.cpus=0", "must be a number from 1 to 1024"),
        ("machine.cpus=1025", "must be a number from 1 to 1024"),
        (
            "machine.disk.model=nvme",
            "disk: there are 2: which of them? Say machine.disk.0.model or machine.disk.1.model or machine.disk.data.model or ",
        ),
        ("vm.swapiness=1", "unknown sysctl \"swapiness\"; did you mean swappiness?"),
        ("vm.zswap=1", "zswap: not modelled (in Linux since 3.11); nearest: "),
        ("memory.high=1G", "memory cgroups outside of a job: not modelled (in Linux since 2.6.25"),
        ("lru_gen.enabled=7", MGLRU),
        ("vm.mglru=1", MGLRU),
        ("policy.reclaim.mglru=true", MGLRU),
        (
            "vm.lru_gen_min_ttl_ms=1000",
            "min_ttl_ms, debugfs and switching at run time of the multi-generational LRU: not modelled",
        ),
        ("vm.numa_balancing=1", "NUMA balancing: not modelled (in Linux since 3.8)"),
        ("policy.reclaim.demotion=true", "memory tiering (demotion and promotion): not modelled"),
        (
            "vm.percpu_pagelist_fraction=8",
            "6.1-mark-accessed and 6.1-set-referenced do not have it (it went with 5.14)",
        ),
        (
            "vm.compact_memory=1",
            "cannot be set for a run; a phase of a job compacts: do = \"compact\"",
        ),
        (
            "vm.clean_min_ratio=15",
            "protection of file or anonymous pages by a least share (le9): not ",
        ),
        ("vm.extra_free_kbytes=4096", "Android's extra_free_kbytes: not modelled (in no release: "),
        (
            "vm.compact_unevictable_allowed=2",
            "compact_unevictable_allowed: must be true or false; not 2",
        ),
        ("swappiness=1", "sysctls begin with vm.: --set vm.swappiness=1"),
        (
            "machine.disk.data.scheduler=bfq",
            "scheduler: the schedulers BFQ, Kyber and CFQ: not modelled",
        ),
        ("vm.thp_defrag=sometimes", "thp_defrag: unknown value `sometimes`"),
        ("vm.dirty_bytes=0", "Linux refuses 0; set vm.dirty_ratio=PERCENT instead"),
        ("vm.dirty_bytes=4096", "tunables.dirty_bytes: 4096 is not between 8192 and "),
        ("machine.memory=0%", "must be a size, or a share above 0%, at most 6400%"),
        ("machine.memory=half", "\"half\" is not a size such as 512M or 8G"),
        ("vm.swappiness=900", "tunables.swappiness: 900 is not between 0 and 200"),
        (
            "policy.watermark.bost=true",
            "unknown switch \"watermark.bost\"; did you mean watermark.boost",
        ),
        ("policy.watermark.boost=7", "must be true or false"),
        ("native.cpus=2", "changes nothing with --host sim"),
        ("vm.swappiness=10 # ten", "swappiness: must be a number"),
        ("machine.cost.lock_bogus.ns=3", "unknown key \"lock_bogus\""),
    ] {
        let line = refused(setting);
        assert!(line.starts_with(reason), "{setting}: {line}");
    }
}

/// Sysctls by the kernels of the policies: refused where no policy has them, named where some have
/// not.
#[test]
fn a_kernel_has_the_sysctls_that_there_were_by_then() {
    let run = |settings: &[&str], policies: &[&str]| {
        let policies = policies.iter().flat_map(|&policy| ["--policy", policy]);
        let args: Vec<&str> = UNMAP[..5].iter().copied().chain(policies).collect();
        let quick = [&["unmap.rounds=1", "unmap.processes=1"], settings].concat();
        let output = highwater(&[&set(&args, &quick)[..], &["--iterations", "1"]].concat());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let scale = "vm.watermark_scale_factor=100";
    let (status, _, told) = run(&[scale], &["4.3", "4.5"]);
    let reason = "4.3 and 4.5 do not have it (it came with 4.6)";
    assert_eq!((status, told), (Some(2), format!("error: --set {scale}: {reason}\n")));
    let (status, report, told) = run(&[scale], &["4.3", "6.1"]);
    let some = "4.3 does not have it (it came with 4.6): ignored there";
    assert!(status == Some(0) && told.contains(&format!("--set {scale}: {some}\n")), "{told}");
    let note = "Linux 4.3 does not have watermark_scale_factor: set for this machine, ignored";
    assert!(report.contains(note), "{report}");
    let (status, _, told) = run(&["vm.swappiness=200"], &["4.3", "6.1"]);
    assert!(status == Some(2) && told.contains("4.3 refuses it: 200 is not between 0 and 100"));
    assert_eq!(run(&["vm.swappiness=200"], &["6.1"]).0, Some(0));
}

/// What `sysctl -w` of the one does to the other.
#[test]
fn of_bytes_and_ratio_the_last_one_set_holds() {
    let limits = |settings: &[&str]| {
        let text = machine(&["--mem", "64M"], settings);
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{key} = ")));
            line.unwrap_or_else(|| panic!("{key}: {text}")).split(" = ").nth(1).unwrap().to_owned()
        };
        (value("dirty_bytes"), value("dirty_ratio"))
    };
    let is = |bytes: &str, ratio: &str| (bytes.to_owned(), ratio.to_owned());
    assert_eq!(limits(&["vm.dirty_bytes=1048576"]), is("1048576", "0"));
    assert_eq!(limits(&["vm.dirty_bytes=1048576", "vm.dirty_ratio=30"]), is("0", "30"));
    assert_eq!(limits(&["vm.dirty_ratio=30", "vm.dirty_bytes=1048576"]), is("1048576", "0"));
}

#[test]
fn memory_is_a_share_of_what_the_machine_has() {
    let zones = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("start-pfn")).map(str::to_owned).collect()
    };
    let half = machine(&["--mem", "192M"], &["machine.memory=50%"]);
    assert_eq!(zones(&half), zones(&machine(&["--mem", "96M"], &[])));
    let nodes = ["--numa", "64M,cpus=0", "--numa", "192M,cpus=1"];
    let one = machine(&nodes, &["machine.node.1.memory=50%"]);
    let given = ["--numa", "64M,cpus=0", "--numa", "96M,cpus=1"];
    assert_eq!(zones(&one), zones(&machine(&given, &[])));
}

#[test]
fn a_machine_of_a_size_has_the_disk_and_the_swap_that_were_named() {
    let shape = ["--mem", "64M", "--disk", "hdd", "--swap", "32M"];
    let text = machine(&shape, &[]);
    for part in ["model = \"hdd\"", "[[swap]]\ndisk = \"disk\"\nsize = \"32768K\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!machine(&["--mem", "64M", "--disk", "nvme", "--swap", "0"], &[]).contains("[[swap]]"));
    // A disk without a word about swap has some, which is said.
    let run = ["run", "unmap", "--set", "unmap.rounds=1", "--mem", "64M", "--disk", "nvme"];
    let output = highwater(&run);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("--disk nvme: with 100M of swap, twice the memory; --swap SIZE says"),
        "{told}"
    );
    let output = highwater(&["zoneinfo", "--mem", "64M", "--swap", "1G"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, "--swap 1G: ignored: nothing that this prints depends on disks or swap\n");
    let output = highwater(&["run", "unmap", "--machine", SMALL, "--disk", "hdd"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("has its own disks; --set machine.disk.data.model=hdd changes one"));
}

/// The machine of a run with these settings.
fn machine(args: &[&str], settings: &[&str]) -> String {
    let run = ["run", "unmap", "--set", "unmap.rounds=1", "--format", "json"];
    let document = json(&set(&[&run[..], args].concat(), settings));
    document["machines"][0]["definition"].as_str().unwrap().to_owned()
}

#[test]
fn a_machine_is_the_same_in_whatever_order_its_keys_are_set() {
    let settings =
        ["machine.disk.data.depth=3", "machine.disk.data.model=hdd", "machine.memory=96M"];
    let costs = ["machine.cost.tick.ns=5", "machine.costs=little-core"];
    let mut all: Vec<&str> = settings.iter().chain(&costs).copied().collect();
    let one = machine(&["--machine", SMALL], &all);
    assert!(one.contains("depth = 3\n"), "{one}");
    all.reverse();
    assert_eq!(machine(&["--machine", SMALL], &all), one);
    let list = machine(&["--mem", "64M"], &["vm.lowmem_reserve_ratio=128,256,32,0"]);
    assert!(list.contains("lowmem_reserve_ratio = [128, 256, 32, 0]"), "{list}");
}

#[test]
fn nodes_share_memory_as_they_did_and_zones_of_their_own_stay() {
    let nodes = ["--numa", "64M,cpus=0", "--numa", "192M,cpus=1"];
    let doubled = machine(&nodes, &["machine.memory=512M"]);
    let given = ["--numa", "128M,cpus=0", "--numa", "384M,cpus=1"];
    let zones = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("start-pfn")).map(str::to_owned).collect()
    };
    assert_eq!(zones(&doubled), zones(&machine(&given, &[])));

    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("own.toml");
    let zone = "{ zone = \"Normal\", start-pfn = 1048576, spanned = 16384, present = 16384, managed = 16000 }";
    std::fs::write(&file, format!("[[node]]\ncpus = \"0\"\nzones = [{zone}]\n")).unwrap();
    let run = ["run", "unmap", "--machine", file.to_str().unwrap()];
    let output = highwater(&set(&run, &["machine.memory=128M"]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the machine's zones are not those of a PC of its size"), "{text}");
}

#[test]
fn machines_that_get_one_name_are_noticed_before_anything_runs() {
    let output = highwater(&["compare", "003", "--quick", "--set", "machine.name=x"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "error: experiment 003-unmap-accessed: x: two machines have this name\n");
}

#[test]
fn seeds_are_counted_once() {
    for text in ["iterations=2", "iterations = 2"] {
        let both = ["--quick", "--iterations", "3", "--set", text];
        for command in ["compare", "explain"] {
            let output = highwater(&[&[command, "003"][..], &both].concat());
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert_eq!(error, format!("error: --set {text}: there is --iterations, too\n"));
        }
    }
}

#[test]
fn what_is_text_stays_text_whatever_it_looks_like() {
    let machine = machine(&["--machine", SMALL], &["machine.name=512"]);
    assert!(machine.contains("name = \"512\"\n"), "{machine}");
}

#[test]
fn a_key_is_set_once() {
    for (first, second) in
        [("unmap.rounds=1", "unmap.rounds=2"), ("vm.swappiness=1", "machine.tunables.swappiness=1")]
    {
        let output = highwater(&set(&UNMAP[..5], &[first, second]));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        let expected =
            format!("error: --set {second}: there is --set {first}, too: one key has one value\n");
        assert_eq!(text, expected);
    }
}

#[test]
fn a_machine_keeps_its_name_unless_that_is_set() {
    let run = ["compare", "003", "--quick", "--host", "native", "--format", "json"];
    let settings = ["unmap.rounds=1", "unmap.processes=1", "vm.swappiness=10"];
    assert_eq!(json(&set(&run, &settings))["machines"][0]["name"], "native");
}

/// Nobody waits for a comparison of a policy with itself.
#[test]
fn what_makes_two_policies_the_same_is_told_before_anything_runs() {
    let setting = "policy.reclaim.unmap-young-file=set-referenced";
    let told = format!(
        "error: --set {setting}: 6.1-mark-accessed and 6.1-set-referenced are the same policy then; --policy says \
         which to run\n"
    );
    for command in ["compare", "explain"] {
        let output = highwater(&[command, "003", "--quick", "--set", setting]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{command}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
    }
    // What was the same before anything was set is what the user asked for.
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("twin.toml");
    let toml = stdout(&["show", "policy", "6.1", "--toml"]);
    std::fs::write(&file, toml).unwrap();
    let twins = ["--policy", "6.1", "--policy", file.to_str().unwrap(), "--iterations", "1"];
    let run = [&UNMAP[..5], &twins, &["--set", "policy.watermark.boost=false"]].concat();
    assert!(stdout(&run).contains("nothing"));
}
