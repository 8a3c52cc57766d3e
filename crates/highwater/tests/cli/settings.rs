//! `--set`: what was set is what runs, the results say so, and what cannot be is refused before anything runs.

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
    assert!(explained(&[]).contains("\"unmap/3\""));
    let three = explained(&["unmap.processes=3"]);
    assert!(!three.contains("\"unmap/3\"") && three.contains("\"unmap.processes=3\""), "{three}");
    let text = stdout(&set(&explain[..5], &["unmap.processes=1"]));
    assert!(text.contains("\n# set for this run: unmap.processes=1\n"), "{text}");
}

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
        ("machine.memory=4K", "nodes: a machine needs memory: at least 1028 KiB"),
        ("machine.memry=1G", "memry: unknown field `memry`"),
        ("machine.disk.dat.model=hdd", "unknown name \"dat\"; did you mean data?"),
        ("machine.disk.data.model=tape", "model: unknown model \"tape\""),
        ("machine.cpus=0", "must be a number from 1 to 1024"),
        ("machine.cpus=1025", "must be a number from 1 to 1024"),
        (
            "machine.disk.model=nvme",
            "disk: there are 2: which of them? Say machine.disk.0.model or machine.disk.1.model or machine.disk.data.model or ",
        ),
        ("vm.swapiness=1", "swapiness: unknown field `swapiness`; did you mean swappiness?"),
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
