//! `--cgroupfs`: the machine's files, read by parsers that were written for Linux.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use procfs_core::process::{SmapsRollup, Stat, StatM, Status};
use procfs_core::{
    CpuPressure, FromRead, IoPressure, Meminfo, MemoryPressure, ProcessCGroups, VmStat,
};

use super::{highwater, stdout};

const MIB: u64 = 1 << 20;

/// A worker whose group reclaims from itself, beside a task in the root group.
const JOB: &str = r#"
name = "pods"
title = "t"
seconds = 4
[[file]]
name = "data"
size = "200M"
[[group]]
name = "pods"
min = "max"
[[group]]
name = "web"
parent = "pods"
max = "64M"
low = "8M"
[[task]]
name = "web-server-with-a-long-name"
group = "web"
[[task.phase]]
do = "map"
of = "heap"
size = "24M"
[[task.phase]]
do = "touch"
of = "heap"
write = true
[[task.phase]]
do = "read"
of = "data"
bytes = "64K"
rate = 500
forever = true
op = "get"
[[task]]
name = "root"
[[task.phase]]
do = "map"
of = "own"
size = "10M"
[[task.phase]]
do = "touch"
of = "own"
write = true
[[task.phase]]
do = "sleep"
us = 10000000
"#;

/// Runs a job on a small machine; the directory of its files.
fn run(dir: &Path, job: &str, more: &[&str]) -> PathBuf {
    let (file, files) = (dir.join("job.toml"), dir.join("files"));
    fs::write(&file, job).unwrap();
    let [file, files] = [&file, &files].map(|path| path.to_str().unwrap().to_owned());
    let run =
        ["run", &file, "--mem", "512M", "--cpus", "2", "--swap", "256M", "--cgroupfs", &files];
    stdout(&[&run, more].concat());
    PathBuf::from(files)
}

fn text(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn parsed<T: FromRead>(dir: &Path, file: &str) -> T {
    T::from_file(dir.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A file with a name and a number a line.
fn keyed(dir: &Path, file: &str) -> BTreeMap<String, u64> {
    let text = text(dir, file);
    let pairs = text.lines().map(|line| line.split_once(' ').expect("a name and a number"));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn number(dir: &Path, file: &str) -> u64 {
    text(dir, file).trim().parse().unwrap()
}

/// All files below a directory, with their contents.
fn all(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    drop(found.insert(
                        path.strip_prefix(dir).unwrap().to_owned(),
                        fs::read(&path).unwrap(),
                    ))
                }
            }
        }
    }
    found
}

/// The row of `samples.csv` at a time.
fn sample(out: &Path, ms: &str) -> BTreeMap<String, u64> {
    let text = text(out, "samples.csv");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = header.iter().position(|name| *name == "ms").unwrap();
    let row = lines.find(|row| row[at] == ms).expect("a sample at this time");
    let number = |value: &str| value.parse().ok();
    header
        .iter()
        .zip(row)
        .filter_map(|(name, value)| Some(((*name).to_owned(), number(value)?)))
        .collect()
}

#[test]
fn parsers_for_linux_read_the_machines_counters() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("out");
    let keep = ["--out", out.to_str().unwrap(), "--sample-every", "500"];
    let files = run(temporary.path(), JOB, &keep);
    let at = files.join("000002.000s");
    let counted = sample(&out, "2000");

    let VmStat(vmstat) = parsed(&at, "proc/vmstat");
    let mut nr_same = 0;
    for (name, &value) in &counted {
        if let Some(&shown) = vmstat.get(name) {
            // Levels are read without what CPUs keep for themselves; totals are exact.
            let is_level = name.starts_with("nr_") || name.starts_with("workingset");
            assert!(is_level || shown == value as i64, "{name}: {shown}, counted {value}");
            nr_same += usize::from(shown == value as i64);
        }
    }
    assert!(nr_same > 90, "{nr_same} counters are in both");

    let web = at.join("sys/fs/cgroup/pods/web");
    assert_eq!(number(&web, "memory.current"), counted["group/web/current"] * 4096);
    assert_eq!(number(&web, "memory.swap.current"), counted["group/web/swap"] * 4096);

    let meminfo: Meminfo = parsed(&at, "proc/meminfo");
    assert_eq!(meminfo.swap_total, 256 * MIB - 4096);
    assert!(meminfo.mem_total < 512 * MIB && meminfo.mem_total > 450 * MIB);
    // CPUs keep some pages for themselves: less than a MiB.
    assert!(meminfo.mem_free.abs_diff(counted["nr_free_pages"] * 4096) < MIB);
    let available = meminfo.mem_available.unwrap();
    assert!((meminfo.mem_free - 16 * MIB..meminfo.mem_total).contains(&available), "{available}");
    assert_eq!(meminfo.anon_pages, Some(vmstat["nr_anon_pages"] as u64 * 4096));

    let memory: MemoryPressure = parsed(&at, "proc/pressure/memory");
    assert_eq!(memory.some.total, counted["pressure/memory/some"]);
    let of_web: MemoryPressure = parsed(&web, "memory.pressure");
    assert!(of_web.some.total > 0 && of_web.full.total <= of_web.some.total, "{of_web:?}");
    let io: IoPressure = parsed(&at, "proc/pressure/io");
    assert_eq!(io.full.total, counted["pressure/io/full"]);
    let cpu: CpuPressure = parsed(&at, "proc/pressure/cpu");
    assert_eq!(cpu.some.total, counted["pressure/cpu/some"]);
}

#[test]
fn processes_are_in_their_groups() {
    let temporary = tempfile::tempdir().unwrap();
    let files = run(temporary.path(), JOB, &[]);
    let at = files.join("000003.000s");
    let group = at.join("sys/fs/cgroup/pods/web");
    let pid: i32 = text(&group, "cgroup.procs").trim().parse().unwrap();
    let own = at.join(format!("proc/{pid}"));

    let stat: Stat = parsed(&own, "stat");
    assert_eq!((stat.pid, stat.comm.as_str(), stat.num_threads), (pid, "web-server-with", 1));
    assert!(stat.stime > 0 && stat.starttime == 0);
    let statm: StatM = parsed(&own, "statm");
    assert_eq!((statm.size, stat.vsize, stat.rss), (24 * 256, 24 * MIB, statm.resident));
    let status: Status = parsed(&own, "status");
    assert_eq!((status.name, status.pid, status.threads), (stat.comm, pid, 1));
    assert_eq!((status.vmsize, status.vmrss), (Some(24 << 10), Some(4 * statm.resident)));
    let ProcessCGroups(groups) = parsed(&own, "cgroup");
    assert_eq!((groups[0].hierarchy, groups[0].pathname.as_str()), (0, "/pods/web"));
    let rollup: SmapsRollup = parsed(&own, "smaps_rollup");
    assert_eq!(rollup.memory_map_rollup.0[0].extension.map["Rss"], 4096 * statm.resident);

    let root: Vec<i32> =
        text(&at, "sys/fs/cgroup/cgroup.procs").lines().map(|pid| pid.parse().unwrap()).collect();
    let comms: Vec<String> =
        root.iter().map(|pid| parsed::<Stat>(&at, &format!("proc/{pid}/stat")).comm).collect();
    assert!(
        comms.contains(&"root".to_owned()) && comms.contains(&"kswapd0".to_owned()),
        "{comms:?}"
    );

    // The group has what its one process and its page cache have, and a CPU's stock at most.
    let current = number(&group, "memory.current");
    let stat = keyed(&group, "memory.stat");
    let sum = stat["anon"] + stat["file"] + stat["kernel"];
    assert!(
        current <= 64 * MIB && current + 2 * MIB > sum && current < sum + 2 * MIB,
        "{current} {sum}"
    );
    assert_eq!(number(&group, "memory.max"), 64 * MIB);
    assert_eq!(number(&group, "memory.low"), 8 * MIB);
    assert_eq!(text(&group, "memory.high"), "max\n");
    assert_eq!(text(&group.join(".."), "memory.min"), "max\n");
    assert!(number(&group, "memory.peak") >= current);
    assert_eq!(text(&group, "cgroup.subtree_control"), "", "a leaf");
    let (events, above) = (keyed(&group, "memory.events"), group.join(".."));
    assert!(events["max"] > 0 && events == keyed(&above, "memory.events"));
    assert_eq!(keyed(&above, "memory.events.local")["max"], 0);
    assert_eq!(keyed(&above, "cgroup.stat")["nr_descendants"], 1);
    assert_eq!(text(&above, "cgroup.subtree_control"), "memory\n");
    assert!(
        stat["pgscan_direct"] > 0
            && stat["pgscan"] == stat["pgscan_direct"] + stat["pgscan_kswapd"]
    );
    assert!(!at.join("sys/fs/cgroup/memory.current").exists(), "the root has none");
    assert!(number(&above, "memory.current") >= current);
    // Linked: the latest. Its tasks have ended.
    assert_eq!(keyed(&files, "sys/fs/cgroup/pods/web/cgroup.events")["populated"], 0);
}

#[test]
fn files_repeat_and_follow_the_kernel() {
    let temporary = tempfile::tempdir().unwrap();
    let quick = ["--cgroupfs-every", "700ms"];
    let files = run(temporary.path(), JOB, &quick);
    let first = all(&files);
    assert!(files.join("000000.700s/proc/meminfo").exists());
    // In the same directory: what an earlier command left there is replaced.
    assert!(all(&run(temporary.path(), JOB, &quick)) == first);
    let names = |dir: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let group = |files: &Path| files.join("000000.700s/sys/fs/cgroup/pods/web");
    assert!(names(&group(&files)).contains(&"memory.peak".to_owned()));
    run(temporary.path(), JOB, &[&quick[..], &["--policy", "5.10"]].concat());
    assert!(!names(&group(&files)).contains(&"memory.peak".to_owned()));
    let stat = text(&group(&files), "memory.stat");
    assert!(stat.starts_with("anon ") && !stat.contains("swapcached"), "{stat}");
    assert!(!keyed(&group(&files), "memory.events").contains_key("oom_group_kill"));
    assert_eq!(text(&files, "000000.700s/proc/pressure/cpu").lines().count(), 1);
}

/// A run has the same results with and without files; a job without groups has its root alone.
#[test]
fn results_do_not_depend_on_files() {
    let temporary = tempfile::tempdir().unwrap();
    let start = JOB.find("[[group]]").unwrap();
    let end = JOB.find("[[task]]").unwrap();
    let without = format!("{}{}", &JOB[..start], &JOB[end..]).replace("group = \"web\"\n", "");
    for job in [JOB, &without] {
        let file = temporary.path().join("job.toml");
        fs::write(&file, job).unwrap();
        let run = ["run", file.to_str().unwrap(), "--mem", "512M", "--cpus", "2", "--swap", "256M"];
        let files = temporary.path().join("some");
        let every = ["--cgroupfs-every", "100ms", "--cgroupfs", files.to_str().unwrap()];
        let plain = stdout(&[&run[..], &["--format", "json"]].concat());
        assert_eq!(stdout(&[&run[..], &["--format", "json"], &every].concat()), plain);
    }
    let root = temporary.path().join("some/000002.000s/sys/fs/cgroup");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 2);
    assert!(text(&root, "cgroup.procs").lines().count() > 4);
}

#[test]
fn units_have_a_directory_each() {
    let temporary = tempfile::tempdir().unwrap();
    let files = temporary.path().join("files");
    let short = ["stutterp.ladder=[4,5]", "stutterp.seconds=0.2", "stutterp.warm-up=0.2"];
    let steps = short.map(|setting| ["--set", setting]).concat();
    let run = ["run", "stutterp", "--machine", super::SMALL, "--cgroupfs", files.to_str().unwrap()];
    let output = highwater(&[&run[..], &steps].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("/UNIT (mmap-4, ...; 2 of them): files of /proc"), "{errors}");
    assert!(errors.contains("not modelled in these files: always 0: Buffers"), "{errors}");
    for unit in ["mmap-4", "mmap-5"] {
        let meminfo: Meminfo = parsed(&files, &format!("{unit}/proc/meminfo"));
        assert!(meminfo.mem_total > 0);
    }
}

#[test]
fn a_watched_run_has_the_files_of_its_look() {
    let temporary = tempfile::tempdir().unwrap();
    let (file, files) = (temporary.path().join("job.toml"), temporary.path().join("files"));
    fs::write(&file, JOB).unwrap();
    let [file, dir] = [&file, &files].map(|path| path.to_str().unwrap().to_owned());
    let machine = ["--mem", "512M", "--cpus", "2", "--swap", "256M", "--at", "1.5s"];
    stdout(&[&["watch", &file, "--cgroupfs", &dir], &machine[..]].concat());
    assert!(!files.join("proc").is_symlink());
    let _: Meminfo = parsed(&files, "proc/meminfo");
    assert_eq!(text(&files, "sys/fs/cgroup/pods/web/cgroup.procs").lines().count(), 1);
}

#[test]
fn what_cannot_have_files_is_one_line() {
    let temporary = tempfile::tempdir().unwrap();
    let (new, other) = (temporary.path().join("new"), temporary.path().join("other"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), "mine").unwrap();
    let [new, other] = [&new, &other].map(|path| path.to_str().unwrap());
    let machine = ["--mem", "512M", "--cpus", "2"];
    for (args, reason) in [
        (&["run", "anon", "--cgroupfs", other][..], "not of an earlier --cgroupfs; name an empty"),
        (&["run", "anon", "--cgroupfs-every", "1s"], "--cgroupfs <DIR>"),
        (&["run", "pagealloc", "--cgroupfs", new], "the page allocator alone"),
        (&["run", "pagealloc", "--host", "native", "--cgroupfs", new], "leave out --host native"),
        (&["run", "anon", "--cgroupfs", new, "--cgroupfs-every", "x"], "is no time such as 1.5s"),
        (
            &["run", "anon", "--cgroupfs", new, "--cgroupfs-every", "0"],
            "is too short: at least 1us",
        ),
    ] {
        let output = highwater(&[args, &machine].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = errors.lines().last().unwrap();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{args:?}: {errors}");
    }
    assert_eq!(fs::read_to_string(Path::new(other).join("notes")).unwrap(), "mine");
}
