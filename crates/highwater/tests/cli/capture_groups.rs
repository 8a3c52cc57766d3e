//! `capture` of memory cgroups: version 2, version 1, both, a container, and this computer's own.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{highwater, json, root, stdout};

/// Two processes of one user: 101 (worker) has 30.7 MiB of private memory and 2.8 MiB of files.
const TREE: &str = "crates/highwater/tests/cli/captured";
const UNLIMITED: &str = "9223372036854771712";
const V2: &str = "sys/fs/cgroup";
const V1: &str = "sys/fs/cgroup/memory";
const MOUNT_V2: &str = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
const MOUNT_V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
const SERVICE: &str = "system.slice/worker.service";

/// A recorded tree with control groups.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(mounts: &[&str], cgroups: [&str; 2]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        copy(&root().join(TREE), tree.0.path());
        tree.write("proc/self/mountinfo", &mounts.join("\n"));
        for (pid, cgroup) in [101, 102].iter().zip(cgroups) {
            tree.write(&format!("proc/{pid}/cgroup"), cgroup);
        }
        tree
    }

    /// Version 2: worker is in a service of a slice, keeper in a scope without a controller below
    /// another slice.
    fn v2(option: &str) -> Tree {
        let cgroups = [format!("0::/{SERVICE}\n"), "0::/user.slice/session.scope\n".to_owned()];
        let mount = format!("{MOUNT_V2}{option}");
        let tree = Tree::new(&[&mount], [&cgroups[0], &cgroups[1]]);
        tree.write(&format!("{V2}/cgroup.controllers"), "cpu io memory pids\n");
        tree.write(&format!("{V2}/cgroup.procs"), "2\n");
        tree.group(&format!("{V2}/system.slice"), "", &[("memory.low", "67108864")]);
        let settings = [
            ("memory.max", "209719295"),
            ("memory.high", "134217728"),
            ("memory.min", "0"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("cpu.max", "50000 100000"),
        ];
        tree.group(&format!("{V2}/{SERVICE}"), "101\n", &settings);
        tree.group(&format!("{V2}/user.slice"), "", &[("memory.high", "max")]);
        tree.write(&format!("{V2}/user.slice/session.scope/cgroup.procs"), "102\n4242\n");
        tree
    }

    /// Version 1, where only the memory controller has the group.
    fn v1(mounts: &[&str]) -> Tree {
        let tree = Tree::new(mounts, ["4:memory:/batch/one\n0::/\n", "4:memory:/\n0::/\n"]);
        tree.write(&format!("{V1}/release_agent"), "");
        tree.write(&format!("{V1}/memory.use_hierarchy"), "1\n");
        tree.write(&format!("{V1}/cgroup.procs"), "102\n");
        for (dir, procs, limit) in [("batch", "", UNLIMITED), ("batch/one", "101\n", "268435456")] {
            let dir = format!("{V1}/{dir}");
            tree.write(&format!("{dir}/cgroup.procs"), procs);
            tree.files(
                &dir,
                &[
                    ("memory.limit_in_bytes", limit),
                    ("memory.memsw.limit_in_bytes", if limit == UNLIMITED { limit } else { "402653184" }),
                    ("memory.soft_limit_in_bytes", UNLIMITED),
                    ("memory.swappiness", "60"),
                    ("memory.use_hierarchy", "1"),
                    ("memory.usage_in_bytes", "62914560"),
                    ("memory.max_usage_in_bytes", "73400320"),
                    ("memory.kmem.usage_in_bytes", "5242880"),
                    ("memory.stat", "cache 0\nrss 0\ntotal_cache 10485760\ntotal_rss 41943040\ntotal_swap 1048576"),
                ],
            );
        }
        tree
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn files(&self, dir: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(&format!("{dir}/{file}"), &format!("{text}\n"));
        }
    }

    /// A group with the memory controller of version 2.
    fn group(&self, dir: &str, procs: &str, files: &[(&str, &str)]) {
        self.write(&format!("{dir}/cgroup.procs"), procs);
        let usual = [
            ("memory.max", "max"),
            ("memory.current", "62914560"),
            ("memory.peak", "73400320"),
            ("memory.swap.current", "0"),
            ("memory.stat", "anon 41943040\nfile 10485760\nkernel 5242880"),
        ];
        self.files(dir, &usual);
        self.files(dir, files);
    }

    /// A directory where a file should be: no user can read it.
    fn spoil(&self, file: &str) {
        let path = self.0.path().join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(path).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.0.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    fn args(&self, out: &Path, more: &[&str]) -> Vec<String> {
        let file = |name: &str| out.join(name).display().to_string();
        let root = self.0.path().display().to_string();
        let files = [file("job.toml"), file("machine.toml"), file("static.json")];
        let options = ["-o", "--machine", "--reference"].map(str::to_owned);
        let mut args = vec!["capture".to_owned(), "--root".to_owned(), root, "--force".to_owned()];
        args.extend(options.into_iter().zip(files).flat_map(|(option, file)| [option, file]));
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args
    }

    /// The output of the command, and the job.
    fn captured(&self, more: &[&str]) -> Captured {
        let out = tempfile::tempdir().unwrap();
        let args = self.args(out.path(), more);
        let output = highwater(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        // Long lines of a table's notes go on with a blank behind the `#`.
        let joined = text.replace("\n#  ", " ");
        let job = out.path().join("job.toml");
        let parsed = fs::read_to_string(&job).unwrap();
        Captured { output: joined, errors, job: parsed, path: job.display().to_string(), _out: out }
    }

    fn refused(&self, more: &[&str]) -> String {
        let out = tempfile::tempdir().unwrap();
        let args = self.args(out.path(), more);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.push("--quiet");
        let output = highwater(&args);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(!out.path().join("job.toml").exists());
        errors.replace(&self.0.path().display().to_string(), "")
    }
}

struct Captured {
    output: String,
    errors: String,
    job: String,
    path: String,
    _out: tempfile::TempDir,
}

impl Captured {
    fn toml(&self) -> toml::Table {
        self.job.parse().unwrap()
    }

    /// Groups of the job, without their comments.
    fn groups(&self) -> Vec<String> {
        let table = self.toml();
        let groups = table.get("group").and_then(toml::Value::as_array).cloned();
        let line = |group: &toml::Value| {
            let group = group.as_table().unwrap();
            let pair = |(key, value): (&String, &toml::Value)| {
                format!("{key} {}", value.to_string().replace('"', ""))
            };
            let mut pairs: Vec<String> = group.iter().map(pair).collect();
            pairs.sort_by_key(|pair| !pair.starts_with("name "));
            pairs.join(", ")
        };
        groups.iter().flatten().map(line).collect()
    }

    /// Tasks and their groups.
    fn tasks(&self) -> Vec<String> {
        let table = self.toml();
        let text = |task: &toml::Value, key: &str| {
            task.get(key).and_then(toml::Value::as_str).unwrap_or("-").to_owned()
        };
        let tasks = table["task"].as_array().unwrap().iter();
        tasks.map(|task| format!("{} {}", text(task, "name"), text(task, "group"))).collect()
    }

    fn says(&self, part: &str) {
        assert!(self.output.contains(part), "{part}\n{}", self.output);
    }

    fn run(&self) -> Value {
        json(&["run", &self.path, "--seed", "1", "--format", "json"])
    }
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
fn groups_of_version_2_come_with_their_settings() {
    let tree = Tree::v2(",memory_recursiveprot");
    let done = tree.captured(&[]);
    assert_eq!(
        done.groups(),
        [
            "name system-slice, low 64M",
            // Whole pages, as the kernel has them: 209719295 is one byte less than 51201 pages.
            "name worker-service, high 128M, max 200M, oom-group true, parent system-slice, swap-max 0",
            "name user-slice",
        ]
    );
    assert_eq!(done.tasks(), ["worker worker-service", "keeper user-slice"]);
    let mount = done.toml()["group-mount"].to_string();
    assert_eq!(mount, "[\"memory_recursiveprot\"]");
    for part in [
        "memory cgroups are version 2, at ",
        "memory_recursiveprot is on, in the job too",
        "/system.slice/worker.service: cpu.max = 50000 100000: a job's groups have no CPU limits",
        // Of these figures the book has a part.
        "60.0      33.6      9.3    7.2     5.0   5.0     1 of 1",
        // The session has a process that is not captured.
        "1 of 2",
    ] {
        done.says(part);
    }
    assert!(done.job.contains("# It is charged for 60.0 MiB (at most 70.0 MiB), and has 0.0 MiB"));
    let explained = "# Captured processes explain 33.6 MiB; not explained: 9.3 MiB of other processes, 7.2 MiB of page \
                     cache, 5.0 MiB of the kernel, 5.0 MiB of the rest.";
    assert!(done.job.contains(explained), "{}", done.job);

    // It runs as it is, and the group's memory is the task's.
    let document = done.run();
    let samples = document["runs"][0]["samples"].as_array().unwrap();
    let peak = samples.iter().find(|sample| sample["operation"] == "worker-service peak").unwrap();
    let peak = peak["values"][0].as_f64().unwrap();
    assert!((30.0..=200.0).contains(&peak), "{peak}");
    let compared =
        stdout(&["compare", &done.path, "--quick", "--policy", "6.1", "--policy", "5.4"]);
    assert!(compared.contains("worker-service"), "{compared}");
    let old = "Linux 5.4 does not have memory_recursiveprot (since 5.7), with which the job mounts groups: ignored";
    assert!(compared.replace("\n#  ", " ").contains(old), "{compared}");

    stdout(&["run", &done.path, "--seed", "1", "--set", "job.group-mount=[]"]);
    let without = Tree::v2("").captured(&[]);
    assert!(!without.job.contains("group-mount"), "{}", without.job);
}

#[test]
fn groups_of_version_1_stay_so() {
    let tree = Tree::v1(&[MOUNT_V1]);
    let done = tree.captured(&[]);
    assert_eq!(
        done.groups(),
        ["name batch", "name one, limit 256M, memsw-limit 384M, parent batch"]
    );
    assert_eq!(done.toml()["group-version"].to_string(), "1");
    // The root has no settings.
    assert_eq!(done.tasks(), ["worker one", "keeper -"]);
    for part in [
        "memory cgroups are version 1, at ",
        "the job's groups are version 1 too; its other controllers are not read",
    ] {
        done.says(part);
    }
    assert!(!done.output.contains("memsw") && !done.output.contains("swappiness"));
    let explained =
        "not explained: 9.3 MiB of other processes, 7.2 MiB of page cache, 5.0 MiB of the kernel";
    assert!(done.job.contains(explained), "{}", done.job);
    assert!(
        done.job
            .contains("# It is charged for 60.0 MiB (at most 70.0 MiB), and has 1.0 MiB in swap.")
    );
    done.run();

    tree.files(
        &format!("{V1}/batch"),
        &[
            ("memory.use_hierarchy", "0"),
            ("memory.soft_limit_in_bytes", "1048576"),
            ("memory.swappiness", "0"),
        ],
    );
    let done = tree.captured(&[]);
    assert_eq!(
        done.groups(),
        ["name batch, soft-limit 1M, swappiness 0", "name one, limit 256M, memsw-limit 384M"]
    );
    done.says(
        "/batch/one: not charged to /batch (memory.use_hierarchy = 0): in the job it has no parent",
    );
    done.run();

    // A group has its parent's swappiness, so one that has the machine's below it says so.
    tree.files(
        &format!("{V1}/batch"),
        &[
            ("memory.use_hierarchy", "1"),
            ("memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 0"),
        ],
    );
    let done = tree.captured(&[]);
    assert_eq!(
        done.groups(),
        [
            "name batch, oom-control true, soft-limit 1M, swappiness 0",
            "name one, limit 256M, memsw-limit 384M, parent batch, swappiness 60"
        ]
    );
}

#[test]
fn a_hybrid_says_which_version_has_the_controller() {
    let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    let tree = Tree::v1(&[unified, MOUNT_V1]);
    tree.write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
    let done = tree.captured(&[]);
    assert_eq!(done.groups().len(), 2);
    done.says(
        "both versions of control groups are mounted; the memory controller is in version 1, at ",
    );
    // Nobody copied the mounts: both are where distributions have them.
    tree.remove("proc/self");
    assert_eq!(tree.captured(&[]).groups(), done.groups());
}

#[test]
fn a_container_sees_its_own_group_as_the_top() {
    let tree = Tree::new(&[MOUNT_V2], ["0::/\n", "0::/../other\n"]);
    tree.write(&format!("{V2}/cgroup.controllers"), "memory\n");
    tree.write(&format!("{V2}/cgroup.events"), "populated 1\n");
    tree.group(V2, "0\n101\n", &[("memory.max", "536870912")]);
    let done = tree.captured(&[]);
    assert_eq!(done.groups(), ["name container, max 512M"]);
    assert_eq!(done.tasks(), ["worker container", "keeper -"]);
    done.says("shows a container's own group / and those below it: limits of the groups above are not visible");
    done.says("process 102 (keeper): its group /../other is outside of what ");
    // Another process, of another PID namespace.
    done.says("1 of 2");
    done.run();

    // Without a namespace the mount's top has a path.
    let line = "35 31 0:32 /docker/3f8a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    let tree = Tree::new(&[line], ["4:memory:/docker/3f8a\n"; 2]);
    tree.write(&format!("{V1}/cgroup.procs"), "101\n102\n");
    tree.files(V1, &[("memory.limit_in_bytes", "1073741824")]);
    let done = tree.captured(&["--cgroup", "/docker/3f8a"]);
    assert_eq!(done.groups(), ["name 3f8a, limit 1G"]);
    done.says("own group /docker/3f8a and those below it");
    let hidden = Tree::new(&[MOUNT_V2], ["0::/x\n"; 2]);
    hidden.write(&format!("{V2}/y/cgroup.procs"), "0\n0\n");
    let text = hidden.refused(&["--cgroup", "/y"]);
    let expected = "/y/cgroup.procs: its 2 processes cannot be seen from this PID namespace";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn processes_are_chosen_by_group_and_unit() {
    let tree = Tree::v2("");
    let mounted = format!("/{V2}/system.slice");
    for choice in [
        ["--cgroup", "/system.slice"],
        ["--cgroup", "system.slice/worker.service/"],
        ["--cgroup", &mounted],
        ["--unit", "worker"],
        ["--unit", "worker.service"],
        ["--unit", "system.slice"],
    ] {
        assert_eq!(tree.captured(&choice).tasks(), ["worker worker-service"], "{choice:?}");
    }
    let both = tree.captured(&["--unit", "worker", "--cgroup", "/user.slice", "--cgroup", "/"]);
    assert_eq!(both.tasks().len(), 2);
    let more = tree.captured(&["--unit", "worker", "--pid", "102"]);
    assert_eq!(more.tasks().len(), 2);
    // A tree without /sys/fs/cgroup has the paths of processes.
    tree.remove(V2);
    let done = tree.captured(&["--unit", "worker"]);
    assert_eq!((done.tasks(), done.groups().len()), (vec!["worker -".to_owned()], 0));
    let lost = "no control groups with a memory controller are mounted: the job has none";
    assert!(done.errors.lines().any(|line| line == lost), "{}", done.errors);
}

#[test]
fn groups_that_cannot_be_captured_are_refused_in_a_line() {
    let tree = Tree::v2("");
    let refused = |more: &[&str], part: &str| {
        let text = tree.refused(more);
        assert!(text.contains(part), "{part}\n{text}");
    };
    refused(
        &["--unit", "wroker"],
        "--unit: no control group is called wroker.service, wroker.scope, wroker.slice (4 groups were looked at); did you \
         mean worker.service?",
    );
    refused(&["--unit", "zzz.scope"], "a unit has a group while it runs: `systemctl status`");
    refused(
        &["--cgroup", "/system.slice/wrker.service"],
        "did you mean /system.slice/worker.service?",
    );
    refused(&["--cgroup", "/system.slice/../x"], "--cgroup: no process is in the control group");
    tree.group(&format!("{V2}/user.slice/worker.service"), "", &[]);
    refused(
        &["--unit", "worker"],
        "--unit: 2 groups are called worker: /system.slice/worker.service, /user.slice/worker.service; name one of them with \
         --cgroup",
    );
    refused(
        &["--cgroup", "/user.slice/worker.service"],
        "--cgroup: /sys/fs/cgroup/user.slice/worker.service/cgroup.procs: no process is in the control group",
    );
    let max = format!("{V2}/{SERVICE}/memory.max");
    tree.write(&max, "much\n");
    refused(&[], "/memory.max: \"much\" is not a number of bytes or max");
    tree.write(&max, "max\n");
    let stat = format!("{V2}/{SERVICE}/memory.stat");
    tree.write(&stat, "anon 1\nfile x\n");
    refused(&[], "worker.service/memory.stat:2: file: \"x\" is not a number of bytes");
    tree.write(&stat, "anon 1\n");
    let procs = format!("{V2}/{SERVICE}/cgroup.procs");
    tree.write(&procs, "101\nno\n");
    refused(
        &["--unit", "system.slice"],
        "worker.service/cgroup.procs:2: \"no\" is not a PID; cgroup.procs has one PID a line",
    );
    tree.write(&procs, "101\n");
    // Somebody who names the group needs its limit. Else a note is enough.
    tree.spoil(&max);
    refused(&["--cgroup", SERVICE], "worker.service/memory.max: cannot be read: ");
    let done = tree.captured(&[]);
    done.says("worker.service/memory.max: cannot be read: ");
    assert!(!done.groups()[1].contains("max 2"), "{:?}", done.groups());
    tree.spoil(&procs);
    refused(&["--cgroup", SERVICE], "worker.service/cgroup.procs: cannot be read: ");
}

/// Any control groups of this computer will do, and any user.
#[test]
fn the_groups_of_this_process_are_captured() {
    let Ok(cgroup) = fs::read_to_string("/proc/self/cgroup") else { return };
    if !Path::new("/proc/zoneinfo").exists() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let file = |name: &str| out.path().join(name).display().to_string();
    let (job, machine, reference) = (file("job.toml"), file("machine.toml"), file("static.json"));
    let files = ["-o", &job, "--machine", &machine, "--reference", &reference, "--force"];
    let pid = std::process::id().to_string();
    let common = ["capture", "--seconds", "0"];
    let done = highwater(&[&common[..], &files, &["--pid", &pid]].concat());
    let (text, errors) = (done.stdout, String::from_utf8(done.stderr).unwrap());
    let text = String::from_utf8(text).unwrap();
    assert!(done.status.success(), "{errors}");
    let parsed: toml::Table = fs::read_to_string(&job).unwrap().parse().unwrap();
    match parsed.contains_key("group") {
        true => assert!(text.contains("Memory cgroups of the captured processes"), "{text}"),
        false => {
            let reasons = [
                "no control groups with a memory controller are mounted",
                "the captured processes are in none but the root",
                "/proc/PID/cgroup of no process can be read",
                "it is in no group of the job",
            ];
            assert!(reasons.iter().any(|reason| errors.contains(reason)), "{errors}");
        }
    }
    stdout(&["run", &job, "--seed", "1", "--set", "job.seconds=2"]);
    // Its own group by name: it is captured, or a line says why it cannot be.
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let path = paths.max_by_key(|path| path.len()).unwrap_or("/").to_owned();
    let done = highwater(&[&common[..], &files, &["--cgroup", &path, "--quiet"]].concat());
    let errors = String::from_utf8(done.stderr).unwrap();
    match done.status.code() {
        Some(0) => assert!(fs::read_to_string(&job).unwrap().contains("[[task]]")),
        code => assert_eq!((code, errors.lines().count()), (Some(2), 1), "{errors}"),
    }
}
