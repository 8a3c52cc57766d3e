//! Bad input: exit status 2, nothing on stdout, one line on stderr that says what is wrong where.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{highwater, root, stdout, trace};

/// The one line of complaint about a command line; it has to contain all of `parts`.
fn complaint(args: &[&str], parts: &[&str]) {
    let output = highwater(args);
    let errors = String::from_utf8(output.stderr).expect("the complaint is text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    assert!(output.stdout.is_empty(), "{args:?} prints something");
    assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    assert!(errors.starts_with("error: "), "{args:?}: {errors}");
    for part in parts {
        assert!(errors.contains(part), "{args:?}: no \"{part}\" in: {errors}");
    }
}

/// A file with this content, and the directory that holds it.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join(name);
    std::fs::write(&path, content).expect("a file can be written");
    let path = path.to_str().expect("its name is text").to_owned();
    (dir, path)
}

fn event(text: &str) -> String {
    format!("            task-1       [000] .....     1.000001: {text}\n")
}

/// Devices have no end, or are not there to be read; large files are no definitions.
#[test]
fn definitions_are_files_and_small() {
    let node = ["zoneinfo", "--machine", "/dev/zero"];
    complaint(&node, &["/dev/zero: cannot be read: it is neither a regular file nor a pipe"]);
    let policy = ["zoneinfo", "--machine", "small-vm", "--policy", "/dev/zero"];
    complaint(&policy, &["/dev/zero: cannot be read: it is neither"]);
    complaint(&["compare", "/dev/zero"], &["/dev/zero", "neither a regular file nor a pipe"]);
    complaint(&["check", "/dev/zero"], &["/dev/zero: cannot be read: it is neither"]);
    complaint(&["replay", "/dev/zero"], &["/dev/zero", "not a regular file"]);
    let (_dir, path) = file("m.toml", &vec![b'#'; (1 << 20) + 1]);
    for args in [
        &["zoneinfo", "--machine", &path][..],
        &["zoneinfo", "--machine", "small-vm", "--policy", &path],
        &["compare", &path],
    ] {
        complaint(args, &["m.toml", "larger than 1048576 bytes"]);
    }
}

/// A comment of a job may quote what the job is about.
#[test]
fn a_job_that_quotes_a_log_is_a_job() {
    let job = "# reproduces the posted \"page allocation failure: order:4\" of bug 123\nseconds = 0.01\n\
               [[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"sleep\"\nus = 100\n";
    let (_dir, path) = file("job.toml", job.as_bytes());
    stdout(&["run", &path, "--machine", "small-vm", "--policy", "6.1"]);
    let log = "dd: page allocation failure: order:4, mode:0xdc0(GFP_KERNEL)\n";
    let (_dir, path) = file("x.toml", log.as_bytes());
    complaint(&["compare", &path], &["this is a kernel log", "expected: an experiment file"]);
}

#[test]
fn missing_file() {
    complaint(&["replay", "no/such.trace.gz"], &["no/such.trace.gz: cannot be read"]);
    complaint(&["check", "no/such.json"], &["no/such.json: cannot be read"]);
}

#[test]
fn directory_as_a_trace() {
    complaint(&["replay", "reference"], &["reference: ", "directory"]);
}

#[test]
fn not_gzip_in_spite_of_its_name() {
    let (_dir, path) = file("x.trace.gz", b"\x00\x01\x02 this is no trace\n");
    complaint(&["replay", &path], &["x.trace.gz"]);
}

#[test]
fn truncated_gzip() {
    let whole = std::fs::read(root().join(trace("netperf-tcp-16384"))).expect("a reference trace");
    let (_dir, path) = file("cut.trace.gz", &whole[..whole.len() / 2]);
    complaint(&["replay", &path], &["cut.trace.gz:", "gzip", "lines before it are whole"]);
}

#[test]
fn garbage_lines_only() {
    let (_dir, path) = file("x.trace", b"lorem ipsum\ndolor sit amet\n\n");
    complaint(&["replay", &path], &["no kmem page-allocator event in 3 lines"]);
}

#[test]
fn empty_file() {
    let (_dir, path) = file("x.trace", b"");
    complaint(&["replay", &path], &["x.trace", "empty"]);
}

#[test]
fn negative_order() {
    let text = event("mm_page_free: page=1 pfn=0x1870 order=0")
        + &event("mm_page_free: page=1 pfn=0x1880 order=-1");
    let (_dir, path) = file("x.trace", text.as_bytes());
    complaint(&["replay", &path], &["x.trace:2: order: "]);
}

#[test]
fn pfn_out_of_range() {
    let text = event("mm_page_free: page=1 pfn=0x7fffffffffffffff order=0");
    let (_dir, path) = file("x.trace", text.as_bytes());
    complaint(&["replay", &path], &["x.trace:1: pfn: "]);
}

#[test]
fn more_memory_than_can_be_held() {
    for pfn in ["0x1fffffff", "0x7fffffff", "0xffffffff", "0xffffffffff"] {
        let text = event(&format!("mm_page_free: page=1 pfn={pfn} order=0"));
        let (_dir, path) = file("x.trace", text.as_bytes());
        complaint(&["replay", &path], &["x.trace", ": pfn: the highest is ", pfn]);
    }
    complaint(&["zoneinfo", "--mem", "2T", "--cpus", "1"], &["--mem", "1150 GiB"]);
    let (_dir, path) = file("m.toml", b"[[node]]\nmemory = \"2T\"\ncpus = \"0\"\n");
    complaint(&["zoneinfo", "--machine", &path], &["m.toml:1: node", "1150 GiB"]);
}

#[test]
fn pfn_beyond_the_machine() {
    let text = event("mm_page_free: page=1 pfn=0x1870 order=0")
        + &event("mm_page_free: page=1 pfn=0x80000 order=0");
    let (_dir, path) = file("x.trace", text.as_bytes());
    let args = ["replay", &path, "--machine", "small-vm"];
    complaint(&args, &["x.trace:2: pfn: 0x80000 is in no zone of machine small-vm"]);
}

#[test]
fn block_off_its_boundary() {
    let text = event("mm_page_free: page=1 pfn=0x1871 order=3");
    let (_dir, path) = file("x.trace", text.as_bytes());
    complaint(&["replay", &path], &["x.trace:1: pfn: 0x1871 is not the start of a block"]);
}

#[test]
fn cpu_that_the_machine_does_not_have() {
    let trace = trace("unix-stream-16384");
    let args = ["replay", &trace, "--mem", "1G", "--cpus", "1"];
    complaint(&args, &["events of CPU 1", "CPUs 0 to 0"]);
}

#[test]
fn broken_file_beside_the_trace() {
    let text = event("mm_page_free: page=1 pfn=0x1870 order=0");
    let (dir, path) = file("x.trace", text.as_bytes());
    std::fs::write(dir.path().join("x.zoneinfo"), "Node 0, zone DMA\n  pages free many\n").unwrap();
    complaint(&["replay", &path], &["x.zoneinfo:2: free"]);
}

#[test]
fn unknown_names() {
    let trace = trace("file-read");
    let newer = "Linux 7.0 is not modelled; nearest: 6.12 before it, 7.2 after it; see docs/src/not-modelled";
    complaint(
        &["replay", &trace, "--policy", "7.0"],
        &["--policy: ", newer, "not-modelled.md#kernels"],
    );
    let many =
        ["unknown policy \"zebra\"; there are ", ", among them ", "`highwater list policies`"];
    complaint(&["replay", &trace, "--policy", "zebra"], &many);
    let between = "nearest: 5.4 before it, 5.10 after it";
    complaint(&["replay", &trace, "--policy", "5.8"], &[between]);
    let lru = "the multi-generational LRU is a reclaim algorithm: ";
    complaint(&["replay", &trace, "--policy", "mglru"], &[lru, "policy.reclaim.algorithm=mglru"]);
    complaint(&["zoneinfo", "--machine", "mainframe"], &["unknown machine", "small-vm"]);
    complaint(&["compare", "999"], &["999"]);
    complaint(&["list", "kernels"], &["kernels"]);
    complaint(&["show", "kernel", "6.1"], &["kernel"]);
    complaint(&["show", "policy", "7.0"], &["error: Linux 7.0 is not modelled"]);
    complaint(&["show", "policy", "6.1", "--against", "7.0"], &["Linux 7.0 is not modelled"]);
    complaint(&["frobnicate"], &["frobnicate"]);
}

#[test]
fn disks_that_cannot_be() {
    let node = "[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n";
    let disk = "[[disk]]\nmodel = \"nvme\"\nsize = \"1G\"\nsource = \"data sheet\"\n";
    for (rest, part) in [
        (disk.replace("nvme", "tape"), "m.toml:5: model: unknown model \"tape\""),
        (disk.replace("1G", "big"), "m.toml:6: size: \"big\" is not a size"),
        (disk.replace("data sheet", ""), "m.toml:7: source: must be a text"),
        (format!("{disk}seek-min-ns = 1\n"), "m.toml:8: seek-min-ns: is no figure of model"),
        (format!("{disk}[[swap]]\ndisk = \"sda\"\n"), "m.toml:9: disk: unknown disk \"sda\""),
    ] {
        let (_dir, path) = file("m.toml", format!("{node}{rest}").as_bytes());
        complaint(&["zoneinfo", "--machine", &path], &[part]);
    }
}

#[test]
fn machine_without_memory() {
    let (_dir, path) = file("m.toml", b"[[node]]\nmemory = \"0\"\ncpus = \"0-1\"\n");
    complaint(&["zoneinfo", "--machine", &path], &["m.toml:1: nodes: a machine needs memory"]);
    complaint(&["zoneinfo", "--mem", "0", "--cpus", "2"], &["no kernel boots"]);
    complaint(&["zoneinfo"], &["--machine"]);
}

#[test]
fn cpu_on_a_missing_node() {
    let text =
        b"[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n\n[[node]]\nmemory = \"1G\"\ncpus = \"5\"\n";
    let (_dir, path) = file("m.toml", text);
    complaint(&["zoneinfo", "--machine", &path], &["m.toml:7: nodes[1].cpus[0]: CPU 5"]);
}

#[test]
fn overlapping_zones() {
    let zone = |kind: &str| {
        format!(
            "{{ zone = \"{kind}\", start-pfn = 4096, spanned = 9000, present = 9000, managed = 9000 }}"
        )
    };
    let text = format!(
        "[[node]]\ncpus = \"0\"\nzones = [\n  {},\n  {},\n]\n",
        zone("DMA32"),
        zone("Movable")
    );
    let (_dir, path) = file("m.toml", text.as_bytes());
    complaint(&["buddyinfo", "--machine", &path], &["m.toml:5: nodes[0].zones[1]: overlaps"]);
}

#[test]
fn toml_typos() {
    let (_dir, path) = file("m.toml", b"[[node]]\nmemroy = \"1G\"\ncpus = \"0\"\n");
    complaint(&["zoneinfo", "--machine", &path], &["m.toml:2: memroy: unknown field"]);
    let (_dir, path) = file("m.toml", b"[[node]\nmemory = \"1G\"\n");
    complaint(&["zoneinfo", "--machine", &path], &["m.toml:1"]);
    let (_dir, path) = file("p.toml", b"base = \"6.1\"\n[pcp]\nlists = \"order-zero\"\n");
    let args = ["zoneinfo", "--machine", "small-vm", "--policy", &path];
    complaint(&args, &["p.toml:3: pcp.lists: must be one of order0, high-order15"]);
    let (_dir, path) = file("p.toml", b"base = \"6.1\"\n[pcp]\nlist = \"order0\"\n");
    let args = ["zoneinfo", "--machine", "small-vm", "--policy", &path];
    complaint(&args, &["p.toml:3: pcp.list: unknown field"]);
    let (_dir, path) = file("p.toml", b"\xff\xfe");
    complaint(&["zoneinfo", "--machine", "small-vm", "--policy", &path], &["p.toml"]);
}

/// What Linux has and the model has not is told as such, wherever it is asked for.
#[test]
fn keys_of_what_is_not_modelled() {
    let (_dir, machine) = file(
        "m.toml",
        b"[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n[tunables]\nnuma_balancing = 1\n",
    );
    let balancing = "m.toml:5: numa_balancing: NUMA balancing: not modelled (in Linux since 3.8)";
    complaint(&["zoneinfo", "--machine", &machine], &[balancing, "nearest: "]);
    let (_dir, policy) = file("p.toml", b"base = \"6.1\"\n[reclaim]\nmglru = true\n");
    let lru = "p.toml:3: reclaim.mglru: the multi-generational LRU is a reclaim algorithm: ";
    complaint(&["show", "policy", &policy], &[lru]);
    let job = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"compute\"\nus = 1.0\n";
    let (_dir, grouped) =
        file("j.toml", job.replace("\"t\"\n", "\"t\"\ngroup = \"a\"\n").as_bytes());
    let unknown = "j.toml:3: group: unknown group \"a\"; there is no [[group]]";
    complaint(&["run", &grouped], &[unknown]);
    let (_dir, direct) = file("j.toml", format!("{job}direct = true\n").as_bytes());
    complaint(&["run", &direct], &["j.toml:6: direct: direct I/O: not modelled", "`dontneed`"]);
    let (_dir, limit) = file("j.toml", format!("[memory]\nhigh = \"1G\"\n{job}").as_bytes());
    complaint(&["run", &limit], &["unknown key \"memory\""]);
}

#[test]
fn impossible_options() {
    complaint(&["compare", "002", "--iterations", "0"], &["--iterations", "0"]);
    complaint(&["compare", "002", "--jobs", "0"], &["--jobs"]);
    complaint(&["compare", "002", "--seed", "xyz"], &["--seed"]);
    complaint(&["compare", "002", "--format", "yaml"], &["yaml", "terminal"]);
    complaint(&["zoneinfo", "--mem", "8", "--cpus", "1"], &["--mem", "8G"]);
    complaint(&["zoneinfo", "--machine", "small-vm", "--mem", "8G"], &["--mem"]);
    complaint(&["zoneinfo", "--cpus", "2"], &["--mem"]);
    complaint(&["bench", "--nodes", "0"], &["--nodes", "1..=64"]);
    let few = ["bench", "--nodes", "3", "--threads", "4", "--threads", "2"];
    complaint(&few, &["--nodes 3 --threads 2: each node needs a CPU"]);
    complaint(&["bench", "--pages", "--nodes", "2"], &["--pages", "--nodes"]);
    complaint(&["bench", "--policy", "6.2"], &["--policy", "Linux 6.2", "nearest: 6.1"]);
}

#[test]
fn bad_nodes() {
    complaint(&["zoneinfo", "--numa", "4G,cpu=0-1"], &["--numa", "cpu=0-1"]);
    complaint(&["zoneinfo", "--numa", "lots,cpus=0"], &["--numa", "lots"]);
    complaint(&["zoneinfo", "--numa", "1G,cpus=0", "--numa", "1G,cpus=0"], &["CPU 0"]);
    complaint(&["zoneinfo", "--numa", "1G,cpus=0", "--numa-distance", "0,1=21"], &["0,1=21"]);
    complaint(&["zoneinfo", "--numa", "1G,cpus=0", "--numa-distance", "near"], &["near"]);
    complaint(&["zoneinfo", "--numa-distance", "0,1=21"], &["--numa"]);
}

#[test]
fn references_that_are_none() {
    let (_dir, path) = file("x.json", b"{ \"schema\": 1, \"kind\": \"novel\" }");
    complaint(&["check", &path], &["x.json:1", "kind", "novel"]);
    let (dir, _path) = file("x.txt", b"nothing here");
    let dir = dir.path().to_str().unwrap();
    complaint(&["check", dir], &["no captured file"]);
}

#[test]
fn foreign_lines_are_skipped_and_counted() {
    let mut text = String::from("# tracer: nop\nCPU 0 is empty\n");
    text += &event("sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b next_pid=2");
    text += &event("mm_page_free: page=1 pfn=0x1870 order=0");
    text += &event("mm_vmscan_kswapd_wake: nid=0 order=0");
    let (_dir, path) = file("x.trace", text.as_bytes());
    let report: serde_json::Value =
        serde_json::from_str(&stdout(&["replay", &path, "--format", "json"])).unwrap();
    let skipped = &report["trace_counts"]["skipped"];
    assert_eq!(skipped["other_events"], 2);
    assert_eq!(skipped["unrecognised"], 1);
    assert_eq!(skipped["comments"], 1);
    assert_eq!(report["trace_counts"]["events"], 1);
    assert!(stdout(&["replay", &path]).contains("skipped lines: 2 of other events"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for page in 0..2000u64 {
        let line = event(&format!("mm_page_free: page=1 pfn={:#x} order=0", 0x4000 + page));
        encoder.write_all(line.as_bytes()).unwrap();
    }
    let (_dir, path) = file("x.trace.gz", &encoder.finish().unwrap());
    let mut child = Command::new(crate::program())
        .current_dir(Path::new(&root()))
        .args(["replay", &path, "--format", "json", "--hottest", "2000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

/// An experiment of one small run, to be changed.
const EXPERIMENT: &str = "# Does it matter = much?\nname = \"e\"\ntitle = \"t\"\nworkload = \"unmap\"\niterations = 1\n\
    [[policy]]\nname = \"6.1\"\nlabel = \"a\"\n[[policy]]\nname = \"cached\"\nlabel = \"b\"\n\
    [[machine]]\nname = \"small-vm\"\n[unmap]\nrounds = 1\nprocesses = [1]\n";

#[test]
fn names_in_an_experiment_lead_to_files_beside_it() {
    let text = EXPERIMENT.replace("small-vm", "m.toml").replace("cached", "p.toml");
    let (dir, path) = file("e.toml", text.as_bytes());
    let machine = root().join("crates/highwater/tests/cli/small.toml");
    std::fs::copy(machine, dir.path().join("m.toml")).unwrap();
    std::fs::write(dir.path().join("p.toml"), "base = \"6.1-no-boost\"\n").unwrap();
    let ran = stdout(&["compare", &path, "--format", "csv"]);
    assert!(ran.contains("small,") && ran.contains(",b,"), "{ran}");
    std::fs::remove_file(dir.path().join("m.toml")).unwrap();
    complaint(&["compare", &path], &["e.toml:13: name: ", "m.toml: cannot be read: "]);
}

#[test]
fn names_in_an_experiment_that_lead_nowhere_have_their_place() {
    for (from, to, parts) in [
        (
            "small-vm",
            "smal-vm",
            &["e.toml:13: name: unknown machine \"smal-vm\"; did you mean"][..],
        ),
        ("\"cached\"", "\"cachd\"", &["e.toml:10: name: unknown policy \"cachd\"; did you mean"]),
        ("\"b\"", "\"a\"", &["e.toml:11: label: two policies have the label \"a\""]),
        ("[unmap]", "[unmp]", &["e.toml:14: unmp: unknown key \"unmp\"; did you mean unmap? "]),
        ("name = \"e\"\n", "", &["e.toml: name: missing"]),
        (
            "iterations = 1",
            "iterations = -1",
            &["e.toml:5: iterations: must be a number from 0 to"],
        ),
    ] {
        let (_dir, path) = file("e.toml", EXPERIMENT.replacen(from, to, 1).as_bytes());
        complaint(&["compare", &path], parts);
    }
}

#[test]
fn policies_of_one_name_are_told_what_to_change() {
    let full = stdout(&["show", "policy", "6.1", "--toml"]);
    let (dir, path) = file("full.toml", full.as_bytes());
    let shown = stdout(&["show", "policy", &path, "--against", "6.1", "--format", "csv"]);
    assert!(!shown.contains("full"), "nothing differs: {shown}");
    let same = dir.path().join("same.toml");
    std::fs::write(&same, format!("name = \"6.1\"\n{full}")).unwrap();
    let same = same.to_str().unwrap();
    let reason = "same.toml: is called \"6.1\", as another policy is; change its name";
    let compare = ["compare", "003", "--quick", "--policy", "6.1", "--policy"];
    complaint(&[&compare[..], &[same]].concat(), &[reason]);
    complaint(&[&compare[..], &["6.1"]].concat(), &["--policy 6.1: named twice"]);
    let replay = ["replay", &trace("file-read"), "--policy", "6.1", "--policy", same];
    complaint(&replay, &[reason]);
}

#[test]
fn complaints_are_about_what_was_typed() {
    for args in [["show", "policy", "nosuch"], ["show", "machine", "nosuch"]] {
        let errors = String::from_utf8(highwater(&args).stderr).unwrap();
        assert!(errors.starts_with("error: unknown ") && !errors.contains("--"), "{errors}");
    }
    complaint(&["show", "schema"], &["which schema? Say one of results, columns, explanation, "]);
    complaint(&["compare", "003", "--fail-if-worse", "-5"], &["must be a number of percent, 0"]);
    let errors = String::from_utf8(highwater(&["run", "unmap", "--quick"]).stderr).unwrap();
    let meant =
        "error: unexpected argument '--quick' found; a similar argument exists: '--quiet'\n";
    assert_eq!(errors, meant);
    complaint(&["zoneinfo", "--mem", "1G", "--cpus", "1025"], &["--cpus", "1025", "1..=1024"]);
    complaint(
        &["zoneinfo", "--numa", "1G,cpus=0-1024"],
        &["CPU 1024: a machine has CPUs 0 to 1023"],
    );
}
