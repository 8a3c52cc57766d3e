//! `capture`: on a recorded tree, on one of a kernel that is a preset, and on the running kernel.

use std::fs;
use std::path::Path;

use super::{highwater, root, stdout};

/// `/proc` and `/sys` of a virtual machine, as far as they are read: two processes of one user.
const TREE: &str = "crates/highwater/tests/cli/captured";

/// The files of a capture into a directory.
struct Captured {
    output: String,
    errors: String,
    job: String,
    machine: String,
    reference: String,
}

fn paths(dir: &Path) -> [String; 3] {
    ["job.toml", "machine.toml", "static.json"].map(|name| dir.join(name).display().to_string())
}

fn capture(dir: &Path, more: &[&str]) -> Captured {
    let [job, machine, reference] = paths(dir);
    let files = ["-o", &job, "--machine", &machine, "--reference", &reference];
    let output = highwater(&[&["capture"][..], &files, more].concat());
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{errors}");
    let output = String::from_utf8(output.stdout).expect("text");
    Captured { output, errors, job, machine, reference }
}

fn complaint(args: &[&str]) -> String {
    let output = highwater(&[args, &["--quiet"]].concat());
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn a_recorded_tree_becomes_files_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let done = capture(dir.path(), &["--root", TREE]);
    for part in [
        "Linux 6.18.44, 24105 MiB; CPUs: 2, nodes: 1, disks: 1, swap areas: 1\n",
        "processes: 2, left out: 0; averages since each began; ",
        "node 0 Normal: low                                         20163                         20163\n",
        "node 0 Normal: list high                                   10081                         10081\n",
        "# Linux 6.18.44 is no preset; 7.2-two-lists is the nearest one: all 34 figures are the same\n",
    ] {
        assert!(done.output.contains(part), "{part}\n{}", done.output);
    }
    for line in [
        "process 101 (worker): its open files (fd) are not in the tree",
        "process 102 (keeper): its maps (smaps), its reads and writes (io), its open files (fd) are not in the tree",
        "worker: a guess: which pages it touches and how often",
        "worker: a guess: 2155.5 KiB a second were written to a file that was open between two looks only, or cannot be seen.",
    ] {
        assert!(done.errors.lines().any(|known| known == line), "{line}\n{}", done.errors);
    }

    let machine = fs::read_to_string(&done.machine).unwrap();
    for line in [
        "costs = \"server-3ghz\"",
        "thp_defrag = \"madvise\"",
        "model = \"ssd\"",
        "rotational = true",
        "size = \"1G\"",
        "priority = 100",
    ] {
        assert!(machine.lines().any(|known| known == line), "{line}\n{machine}");
    }
    // Computed by the kernel, and by the model.
    assert!(!machine.contains("min_free_kbytes"), "{machine}");
    assert!(stdout(&["zoneinfo", "--machine", &done.machine]).contains("managed  5394266"));

    let job = fs::read_to_string(&done.job).unwrap();
    for part in [
        "# Not known, and assumed:",
        "name = \"worker\"",
        "op = \"work\"",
        "# keeper (process 102, threads: 3, of them at work: 0): 9.0 MiB in memory, 6.0 MiB private (",
        "# Its smaps could not be read",
        "# Working set: not measured, touches are guessed.",
        // No file was seen, so what it read may all have been of sockets.
        "# Left out: 11192.0 KiB a second that it read from what cannot be seen",
        "could not be seen: they are not in the job",
    ] {
        assert!(job.contains(part), "{part}\n{job}");
    }
    let compared = stdout(&["compare", &done.job, "--machine", &done.machine, "--quick"]);
    assert!(compared.contains("Ops worker.touch rate"), "{compared}");
    assert!(compared.contains("Ops worker.write p50"), "{compared}");
    // The job finds the machine that lies beside it.
    let alone = stdout(&["compare", &done.job, "--quick"]);
    assert_eq!(alone, compared);

    let checked = stdout(&["check", &done.reference]);
    assert!(checked.contains("34 of 34 fields agree"), "{checked}");
    assert!(checked.contains("# Linux 6.18.44 is no preset: "), "{checked}");
}

#[test]
fn what_is_there_is_not_replaced_unless_asked() {
    let dir = tempfile::tempdir().unwrap();
    let [job, machine, reference] = paths(dir.path());
    let files =
        ["capture", "--root", TREE, "-o", &job, "--machine", &machine, "--reference", &reference];
    fs::write(&machine, "mine").unwrap();
    let text = complaint(&files);
    assert!(text.contains("machine.toml: is there already; --force replaces it"), "{text}");
    assert_eq!(fs::read_to_string(&machine).unwrap(), "mine");
    assert!(!Path::new(&job).exists() && !Path::new(&reference).exists());
    stdout(&[&files[..], &["--force"]].concat());
    assert!(fs::read_to_string(&machine).unwrap().contains("[[node]]"));
    let text = complaint(&["capture", "--root", TREE, "-o", &job, "--machine", &job, "--force"]);
    assert!(text.contains("two of the files have this name"), "{text}");
}

#[test]
fn what_cannot_be_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    copy(&root().join(TREE), &tree);
    let at = tree.to_str().unwrap();
    for file in ["proc/pagetypeinfo", "proc/buddyinfo", "sys/block/vda/size"] {
        fs::remove_file(tree.join(file)).unwrap();
    }
    fs::remove_dir_all(tree.join("sys/devices")).unwrap();
    let zoneinfo = tree.join("proc/zoneinfo");
    let whole = fs::read_to_string(&zoneinfo).unwrap();
    fs::write(&zoneinfo, whole.replacen("managed  5394266", "managed  1507328", 1)).unwrap();
    let done = capture(dir.path(), &["--root", at, "--pid", "102", "--force"]);
    assert!(done.errors.contains("the zones manage 8922 MiB of the 24105 MiB"), "{}", done.errors);
    stdout(&["zoneinfo", "--machine", &done.machine]);
    fs::write(&zoneinfo, whole).unwrap();
    let done = capture(dir.path(), &["--root", at, "--pid", "102", "--force"]);
    assert!(!done.errors.contains("the zones manage"), "{}", done.errors);
    assert!(done.errors.contains("proc/buddyinfo: "), "{}", done.errors);
    assert!(done.errors.contains("types of pageblocks are not known"), "{}", done.errors);
    let machine = fs::read_to_string(&done.machine).unwrap();
    assert!(machine.contains("the kernel reports no disk") && machine.contains("# No [cache]"));
    assert!(!fs::read_to_string(&done.job).unwrap().contains("worker"));
    stdout(&["compare", &done.job, "--quick"]);

    let [job, machine, reference] = paths(&dir.path().join("tree"));
    let files =
        ["capture", "--root", at, "-o", &job, "--machine", &machine, "--reference", &reference];
    let text = complaint(&[&files[..], &["--pid", "4000000"]].concat());
    assert!(text.contains("--pid: no process 4000000"), "{text}");
    let damaged = |file: &str, from: &str, to: &str| {
        let path = tree.join(file);
        let good = fs::read_to_string(&path).unwrap();
        assert!(good.contains(from), "{file}");
        fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let text = complaint(&files);
        fs::write(&path, good).unwrap();
        text
    };
    let text = damaged("proc/meminfo", "24684084", "many");
    assert!(text.contains("proc/meminfo:1: MemTotal: \"many\" is no number of kB"), "{text}");
    let text = damaged("proc/101/io", "rchar: ", "rchar: x");
    assert!(text.contains("proc/101/io:1: rchar: "), "{text}");
    let text = damaged("proc/zoneinfo", "managed  5394266", "managed  z");
    assert!(text.contains("proc/zoneinfo:") && text.contains("managed: "), "{text}");
    let text = damaged("proc/meminfo", "24684084", "98736336");
    assert!(text.contains("pages of this kernel are larger than 4 KiB"), "{text}");
    let text = damaged("proc/meminfo", "24684084", "18446744073709551615");
    assert!(text.contains("pages of this kernel would be larger than 64 KiB"), "{text}");
    let text = damaged("proc/zoneinfo", "zone    DMA32", "zone  HighMem");
    assert!(text.contains("HighMem is not modelled"), "{text}");
    fs::remove_file(tree.join("proc/zoneinfo")).unwrap();
    let text = complaint(&files);
    assert!(text.contains("proc/zoneinfo: cannot be read: "), "{text}");
    assert!(!Path::new(&machine).exists());
}

/// Zones of a real 6.1, whose marks follow from what was managed before the kernel released its init memory.
#[test]
fn a_kernel_that_is_a_preset_boots_with_its_own_marks() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    copy(&root().join(TREE), &tree);
    let texts = root().join("reference/linux-6.1/traces");
    for name in ["zoneinfo", "buddyinfo", "pagetypeinfo"] {
        let text = texts.join(format!("unix-stream-16384.{name}"));
        fs::copy(text, tree.join("proc").join(name)).unwrap();
    }
    let write = |file: &str, text: &str| fs::write(tree.join(file), text).unwrap();
    write("proc/version", "Linux version 6.1.0-44-amd64 (a@b) #1\n");
    write("proc/meminfo", "MemTotal:        981464 kB\n");
    write("proc/sys/vm/min_free_kbytes", "45056\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    let done = capture(dir.path(), &["--root", tree.to_str().unwrap()]);
    assert!(done.output.contains("# Linux 6.1.0 is the preset 6.1: all "), "{}", done.output);
    let machine = fs::read_to_string(&done.machine).unwrap();
    assert!(machine.contains("managed = 241526, managed-at-boot = 2"), "{machine}");
    let checked = stdout(&["check", &done.reference]);
    assert!(checked.contains("1 of 1 file agrees") && !checked.contains('#'), "{checked}");
    // A mark that nobody could compute is told.
    let zoneinfo = fs::read_to_string(tree.join("proc/zoneinfo")).unwrap();
    write("proc/zoneinfo", &zoneinfo.replacen("low      13856", "low      13857", 1));
    let done = capture(dir.path(), &["--root", tree.to_str().unwrap(), "--force"]);
    let row = done.output.lines().find(|line| line.starts_with("node 0 DMA32: low"));
    assert!(row.is_some_and(|row| row.ends_with("differs")), "{}", done.output);
    assert!(done.output.contains("# Linux 6.1.0 is the preset 6.1: 1 of "), "{}", done.output);
}

/// The texts of a simulated machine with two nodes, of which Linux would number the second otherwise: some CPUs and a node
/// are off.
#[test]
fn a_simulated_machine_captured_is_itself() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let text = stdout(&["zoneinfo", "--machine", "nodes-2"]);
    let gaps = text
        .replace("Node 1,", "Node 2,")
        .replace("cpu: 2\n", "cpu: 4\n")
        .replace("cpu: 3\n", "cpu: 7\n");
    assert_ne!(gaps, text);
    let write = |file: &str, text: &str| {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/zoneinfo", &gaps);
    write("proc/version", "Linux version 6.1.0 (a@b) #1\n");
    // What the zones have, and what huge pages ask for in three of them.
    write("proc/meminfo", "MemTotal: 2014464 kB\n");
    write("proc/sys/vm/min_free_kbytes", "67584\n");
    write("sys/devices/system/cpu/online", "0-1,4,7\n");
    for (node, cpus, distances) in [(0, "0-1", "10 21"), (2, "4,7", "21 10")] {
        let dir = format!("sys/devices/system/node/node{node}");
        write(&format!("{dir}/cpulist"), cpus);
        write(&format!("{dir}/distance"), distances);
    }
    let done = capture(dir.path(), &["--root", tree.to_str().unwrap()]);
    assert!(
        done.output.contains("is the preset 6.1: all 52 figures are the same"),
        "{}",
        done.output
    );
    assert!(done.output.contains("no job: no process of yours"), "{}", done.output);
    assert!(!Path::new(&done.job).exists());
    assert!(done.errors.contains("numbered without gaps"), "{}", done.errors);
    assert_eq!(stdout(&["zoneinfo", "--machine", &done.machine]), text);
    let machine = fs::read_to_string(&done.machine).unwrap();
    assert!(machine.contains("distances = [[10, 21], [21, 10]]"), "{machine}");
    assert!(stdout(&["check", &done.reference]).contains("1 of 1 file agrees"));
    write("sys/devices/system/node/node2/distance", "21 10 10");
    let text = complaint(&["capture", "--root", tree.to_str().unwrap(), "--force"]);
    assert!(text.contains("node2/distance: \"21 10 10\" are no distances of 2 nodes"), "{text}");
}

#[test]
fn the_running_kernel_is_captured() {
    if !Path::new("/proc/zoneinfo").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // This process is there, and may be looked at.
    let pid = std::process::id().to_string();
    let done = capture(dir.path(), &["--seconds", "1", "--every", "200", "--pid", &pid]);
    assert!(done.output.contains("watched for 1."), "{}", done.output);
    stdout(&["zoneinfo", "--machine", &done.machine]);
    stdout(&["compare", &done.job, "--machine", &done.machine, "--quick"]);
    // Of a kernel that is no preset figures may differ.
    let checked = highwater(&["check", &done.reference]);
    assert!(checked.status.code().is_some_and(|code| code < 2), "{checked:?}");
}
