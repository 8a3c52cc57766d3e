//! `/proc` of other people's machines, as it is posted (`posted/`, shortened): what their kernels computed comes out of
//! the model, and what is not modelled is called by its name.

use std::fs;
use std::path::{Path, PathBuf};

use super::{highwater, root};

pub(super) const POSTED: &str = "crates/highwater/tests/cli/posted";

/// A copy of a tree.
pub(super) fn tree(name: &str, dir: &Path) -> PathBuf {
    let to = dir.join(name);
    copy(&root().join(POSTED).join(name), &to);
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => fs::write(&to, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// Status, output and complaints.
pub(super) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = highwater(args);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn capture(root: &Path, dir: &Path) -> (Option<i32>, String, String) {
    let files =
        ["job.toml", "machine.toml", "static.json"].map(|n| dir.join(n).display().to_string());
    let [job, machine, reference] = &files;
    let root = root.to_str().unwrap();
    run(&[
        "capture",
        "--force",
        "--root",
        root,
        "-o",
        job,
        "--machine",
        machine,
        "--reference",
        reference,
    ])
}

/// What `check` says of a tree: agreeing fields, all fields, and the text.
pub(super) fn check(root: &Path) -> (u32, u32, String) {
    let (_, text, errors) = run(&["check", root.to_str().unwrap()]);
    let first = text.lines().next().unwrap_or_else(|| panic!("{errors}"));
    let numbers: Vec<u32> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1], text)
}

/// RHEL 8 prints a number without a name; its lists were sized while the last zone had one section.
#[test]
fn rhel_8_is_exact_and_its_lists_are_those_of_late_memory() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("rhel-8", dir.path());
    let (status, text, errors) = capture(&at, dir.path());
    assert_eq!(status, Some(0), "{errors}");
    for row in ["DMA32: min", "Normal: high", "Normal: protection", "Normal: list"] {
        let found = text.lines().find(|line| line.contains(row));
        assert!(found.is_some_and(|line| !line.contains("differs")), "{row}\n{text}");
    }
    assert!(text.contains("the kernel's version is not known; "), "{text}");
    assert!(text.contains("all 34 figures are the same"), "{text}");
    assert!(text.contains("node 0 Normal: its kernel initialises memory late"), "{text}");
    let (agreeing, all, text) = check(&at);
    assert!(agreeing == all && text.contains("batch 31, high 186"), "{text}");
    // Between two presets the one is taken that fits.
    fs::write(at.join("proc/version"), "Linux version 4.18.0-80.el8.x86_64 (a@b) #1\n").unwrap();
    let (_, _, text) = check(&at);
    assert!(
        text.contains("# Linux 4.18.0 is no preset: its figures are compared with those of 4.6"),
        "{text}"
    );
}

/// No machine is so: the zone and the field are named, and no line of a text that nobody wrote.
#[test]
fn what_zones_cannot_be_is_told_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("rhel-8", dir.path());
    // A number that no kernel takes is told of once, and is not said to be missing.
    fs::create_dir_all(at.join("proc/sys/vm")).unwrap();
    fs::write(at.join("proc/sys/vm/min_free_kbytes"), "99999999999\n").unwrap();
    let (_, _, text) = check(&at);
    let notes: Vec<&str> = text.lines().filter(|line| line.contains("min_free_kbytes")).collect();
    assert!(text.contains("vm.min_free_kbytes is not known: ") && notes.len() == 2, "{text}");
    assert!(!text.contains("is not told"), "{text}");
    let file = at.join("proc/zoneinfo");
    let zoneinfo = fs::read_to_string(&file).unwrap();
    let (before, start) = zoneinfo.split_once("start_pfn:").unwrap();
    let (_, after) = start.split_once('\n').unwrap();
    fs::write(&file, format!("{before}start_pfn:           18446744073709551615\n{after}"))
        .unwrap();
    let said = "node 0, zone DMA: start_pfn: 2^40 pages or more: beyond any machine's memory\n";
    let (status, _, errors) = run(&["check", at.to_str().unwrap()]);
    assert_eq!((status, errors), (Some(2), format!("error: {}: {said}", at.display())));
    let (status, _, errors) = capture(&at, dir.path());
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.ends_with(&format!("error: proc/zoneinfo: {said}")), "{errors}");
}

/// A board of 128 MiB without DMA zones: lists with fewer entries, one ratio, pageblocks of order 10.
#[test]
fn a_small_32_bit_board_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("arm-32", dir.path());
    let (status, text, errors) = capture(&at, dir.path());
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        text.contains("Linux 4.1.25 is no preset; 4.3 is the nearest one: all 12 figures"),
        "{text}"
    );
    assert!(text.contains("pageblocks of this kernel are of order 10"), "{text}");
    assert!(!errors.contains("lowmem_reserve_ratio"), "{errors}");
    // A reference with such a list says the same.
    let reference = dir.path().join("static.json");
    let json = fs::read_to_string(&reference).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&json).unwrap();
    document["zones"][0]["protection"] = serde_json::json!([0, 0]);
    fs::write(&reference, document.to_string()).unwrap();
    let (_, text, _) = run(&["check", reference.to_str().unwrap()]);
    assert!(text.contains("12 of 12 fields agree"), "{text}");
    document["zones"][0]["protection"] = serde_json::json!([0, 7]);
    fs::write(&reference, document.to_string()).unwrap();
    assert!(run(&["check", reference.to_str().unwrap()]).1.contains("11 of 12 fields agree"));
}

/// A text that says 6.1 and has the sizes of another kernel.
#[test]
fn a_kernel_is_judged_by_the_preset_that_fits() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("server-32g", dir.path());
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (88, 88), "{text}");
    assert!(
        text.contains("# Linux 6.1.0 says that it is 6.1, which has 24 figures otherwise"),
        "{text}"
    );
    assert!(text.contains("compared with those of 5.4, which fit better"), "{text}");
    assert!(text.contains("stat_threshold is what kswapd set it to"), "{text}");
    for version in [None, Some("Linux version 5.7.0 (a@b) #1\n")] {
        let file = at.join("proc/version");
        match version {
            None => fs::remove_file(file).unwrap(),
            Some(text) => fs::write(file, text).unwrap(),
        }
        let (agreeing, all, text) = check(&at);
        assert!(agreeing == all && text.contains("those of 5."), "{text}");
    }
    // The same without sysctls: what follows from the marks gives the marks.
    fs::remove_dir_all(at.join("proc/sys")).unwrap();
    fs::remove_file(at.join("proc/meminfo")).unwrap();
    let (agreeing, all, text) = check(&at);
    assert_eq!(agreeing, all, "{text}");
    assert!(text.contains("vm.min_free_kbytes is not known: 67584 is taken"), "{text}");
    // What was in /proc lies in the directory itself, or there is one file only.
    let (agreeing, all, _) = check(&at.join("proc"));
    assert_eq!((agreeing, all), (88, 88));
    let (agreeing, all, _) = check(&at.join("proc/zoneinfo"));
    assert_eq!((agreeing, all), (88, 88));
}

/// DMA to 1 and to 4 GiB, 14 orders.
#[test]
fn zones_of_arm64_boot() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("arm-64", dir.path());
    let row = fs::read_to_string(root().join(POSTED).join("b64k.buddyinfo")).unwrap();
    fs::write(at.join("proc/buddyinfo"), row).unwrap();
    let (status, text, errors) = capture(&at, dir.path());
    assert_eq!(status, Some(0), "{errors}");
    assert!(text.contains("14 orders of blocks, the model 11"), "{text}");
    let machine = dir.path().join("machine.toml");
    let (status, zones, errors) = run(&["zoneinfo", "--machine", machine.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(zones.contains("start_pfn:           262144"), "{zones}");
    // All of it DMA, up to 4 GiB.
    let zoneinfo = fs::read_to_string(at.join("proc/zoneinfo")).unwrap();
    let first = zoneinfo.split("Node 0, zone    DMA32").next().unwrap();
    let one = first.replace("261632", "1048576").replace("2807, 2807, 2807", "0, 0, 0");
    fs::write(at.join("proc/zoneinfo"), one).unwrap();
    fs::write(at.join("proc/meminfo"), "MemTotal: 980856 kB\n").unwrap();
    assert_eq!(capture(&at, dir.path()).0, Some(0));
}

/// A zone as a kernel of 4 CPUs prints it.
pub(super) fn zone(
    name: &str,
    start: u64,
    managed: u64,
    marks: [u64; 3],
    protection: &str,
    list: [u64; 2],
    threshold: u64,
) -> String {
    let [min, low, high] = marks;
    let sets: String = (0..4)
        .map(|cpu| {
            format!(
                "    cpu: {cpu}\n              count: 0\n              high:  {}\n              batch: {}\n  vm stats \
                 threshold: {threshold}\n",
                list[0], list[1]
            )
        })
        .collect();
    format!(
        "Node 0, zone {name:>8}\n  pages free     {high}\n        min      {min}\n        low      {low}\n        high     \
         {high}\n        spanned  {managed}\n        present  {managed}\n        managed  {managed}\n        protection: \
         ({protection})\n  pagesets\n{sets}  node_unreclaimable:  0\n  start_pfn:           {start}\n"
    )
}

fn machine_of(dir: &Path, zoneinfo: &str, files: &[(&str, &str)]) -> PathBuf {
    let at = dir.join("tree");
    fs::create_dir_all(at.join("proc/sys/vm")).unwrap();
    fs::write(at.join("proc/zoneinfo"), zoneinfo).unwrap();
    for (name, text) in files {
        fs::write(at.join("proc").join(name), text).unwrap();
    }
    at
}

/// HighMem, pages of 64 KiB and more memory than fits: sizes are compared, and what there is no machine for is named.
#[test]
fn machines_that_cannot_be_booted_are_judged_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let high = zone("DMA", 16, 3951, [17, 21, 25], "0, 789, 1960, 1960", [0, 1], 6)
        + &zone("Normal", 4096, 202_000, [914, 1142, 1371], "0, 0, 9375, 9375", [186, 31], 24)
        + &zone("HighMem", 229_376, 300_000, [128, 467, 806], "0, 0, 0, 0", [186, 31], 30);
    let version = ("version", "Linux version 3.16.0 (a@b) #1\n");
    let at = machine_of(dir.path(), &high, &[version, ("sys/vm/min_free_kbytes", "3728\n")]);
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (48, 48), "{text}");
    let (status, text, errors) = capture(&at, dir.path());
    assert_eq!(status, Some(2), "{errors}");
    assert!(
        errors.contains("no machine file, no reference: node 0: HighMem is not modelled"),
        "{errors}"
    );
    assert!(text.contains("node 0 HighMem: low"), "{text}");
    assert!(!dir.path().join("machine.toml").exists());

    // 8 GiB of pages of 64 KiB.
    let large = zone("DMA", 0, 65_536, [512, 640, 768], "0, 256, 256", [18, 3], 42)
        + &zone("Normal", 65_536, 65_536, [512, 640, 768], "0, 0, 0", [18, 3], 42);
    let files = [
        ("version", "Linux version 5.4.0 (a@b) #1\n"),
        ("sys/vm/min_free_kbytes", "65536\n"),
        ("meminfo", "MemTotal: 8388608 kB\n"),
    ];
    let at = machine_of(dir.path(), &large, &files);
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (32, 32), "{text}");
    let (_, _, errors) = capture(&at, dir.path());
    assert!(errors.contains("pages of this kernel are larger than 4 KiB (64 KiB)"), "{errors}");

    // 6 TiB.
    let pages = 6 << 28;
    let many = zone(
        "Normal",
        1 << 20,
        pages,
        [65_536, 1_676_148, 3_286_760],
        "0, 0, 0",
        [419_037, 63],
        102,
    );
    let files = [
        ("version", "Linux version 6.1.0 (a@b) #1\n"),
        ("sys/vm/min_free_kbytes", "262144\n"),
        ("meminfo", "MemTotal: 6442450944 kB\n"),
    ];
    let at = machine_of(dir.path(), &many, &files);
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (16, 16), "{text}");
    let (_, _, errors) = capture(&at, dir.path());
    assert!(
        errors.contains("no machine file: memory up to 6148 GiB; machines here end at 1150 GiB"),
        "{errors}"
    );
    let reference = dir.path().join("static.json");
    assert!(run(&["check", reference.to_str().unwrap()]).1.contains("16 of 16 fields agree"));
}

/// A text of Linux that was given to the wrong command is called by its name, and the right command is named.
#[test]
fn texts_given_to_the_wrong_command_are_recognised() {
    let at = |name: &str| format!("{POSTED}/{name}");
    let (zoneinfo, buddyinfo) = (at("rhel-8/proc/zoneinfo"), at("rhel-8/proc/buddyinfo"));
    let (types, trace) = (at("rhel-8/proc/pagetypeinfo"), at("vendor-nr-free/t.trace"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("dmesg").display().to_string();
    fs::write(&log, "[ 1.5] a invoked oom-killer: gfp_mask=0x0\n[ 1.6] Mem-Info:\n").unwrap();
    for (args, said) in [
        (&["replay", &*zoneinfo][..], "this is /proc/zoneinfo: `highwater check FILE`"),
        (
            &["replay", &buddyinfo],
            "this is /proc/buddyinfo: `highwater replay X.trace` reads it as X.buddyinfo",
        ),
        (&["replay", &log], "this is a kernel log"),
        (&["check", &types], "this is /proc/pagetypeinfo: "),
        (&["check", &log], "this is a kernel log"),
        (&["zoneinfo", "--machine", &zoneinfo], "this is /proc/zoneinfo: "),
        (
            &["zoneinfo", "--machine", &trace],
            "this is a trace: `highwater replay FILE` reads it; expected: a machine file",
        ),
        (&["compare", &log], "this is a kernel log"),
        (&["capture", "--root", &zoneinfo, "--force"], "this is /proc/zoneinfo: "),
    ] {
        let (status, _, errors) = run(args);
        assert_eq!((status, errors.lines().count()), (Some(2), 1), "{args:?}: {errors}");
        assert!(errors.contains(said), "{args:?}: {errors}");
    }
}
