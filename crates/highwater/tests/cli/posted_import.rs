//! Texts as people post them: without sysctls, from old and new kernels, packed, quoted, and given to the wrong command.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::posted_proc::{POSTED, check, run, tree, zone};
use super::{root, stdout};

/// A file with a text.
fn file(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Runs `check` on a `zoneinfo` alone.
fn check_zoneinfo(dir: &Path, text: impl AsRef<[u8]>) -> (u32, u32, String) {
    let path = PathBuf::from(file(dir, "a.zoneinfo", text));
    check(&path)
}

/// Without the sysctl the number is found with which marks and reserves come out, also one that was set by hand.
#[test]
fn min_free_kbytes_is_found_from_the_marks() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("arm-32", dir.path());
    fs::remove_dir_all(at.join("proc/sys")).unwrap();
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (12, 12), "{text}");
    let said = "vm.min_free_kbytes is not known: 1227 is taken (1224 to 1227 give these marks)";
    assert!(text.contains(said), "{text}");

    let at = tree("arm-64", dir.path());
    fs::remove_file(at.join("proc/sys/vm/min_free_kbytes")).unwrap();
    let (_, _, text) = check(&at);
    assert!(text.contains("65536 is taken"), "{text}");
    assert!(!text.contains(": protection") && !text.contains(": min"), "{text}");

    // What the model computes for memory of one, two and three zones, with numbers that nobody computes.
    for (memory, kbytes, policy) in [
        ("12M", 900, "6.1"),
        ("300M", 20_000, "5.10"),
        ("1G", 32_768, "4.3"),
        ("2G", 4096, "5.4"),
        ("4G", 6573, "5.10"),
        ("5G", 3276, "5.10"),
        ("6G", 6580, "4.3"),
    ] {
        let machine = format!(
            "name = \"a\"\ncosts = \"server-3ghz\"\n[[node]]\nmemory = \"{memory}\"\ncpus = \"0-1\"\n[tunables]\n\
             min_free_kbytes = {kbytes}\n"
        );
        let machine = file(dir.path(), "machine.toml", machine);
        let zoneinfo = stdout(&["zoneinfo", "--machine", &machine, "--policy", policy]);
        let (agreeing, all, text) = check_zoneinfo(dir.path(), zoneinfo);
        assert_eq!(agreeing, all, "{memory} {kbytes} {policy}: {text}");
        assert!(text.contains("vm.min_free_kbytes is not known"), "{text}");
    }
}

/// Before 3.9 there is no `managed`, and `present` is without the page structs, wherever these are.
#[test]
fn zones_that_do_not_say_what_they_manage_have_their_free_pages() {
    let dir = tempfile::tempdir().unwrap();
    let old = |free: u64, spanned: u64| {
        let dma = zone("DMA", 1, 3839, [14, 17, 21], "0, 991, 991, 991", [0, 1], 4)
            .replace("pages free     21", &format!("pages free     {free}"))
            .replace("spanned  3839", &format!("spanned  {spanned}"));
        let dma32 = zone("DMA32", 4096, 253_920, [987, 1233, 1480], "0, 0, 0, 0", [186, 31], 24);
        let lines = (dma + &dma32).replace("managed ", "#");
        lines.lines().filter(|line| !line.trim().starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    let (_, all, text) = check_zoneinfo(dir.path(), old(3934, 4095));
    assert!(all > 30, "{text}");
    let said =
        "node 0 DMA: 3934 pages are free and 3839 present: the free ones are taken to be there";
    assert!(text.contains("has no `managed` lines (kernels before 3.9)"), "{text}");
    assert!(text.contains(said), "{text}");
    let path = file(dir.path(), "a.zoneinfo", old(5000, 4095));
    assert!(run(&["check", &path]).2.contains("5000 pages in a span of 4095"));
}

/// A failed request names no frame: nothing says what the machine is.
#[test]
fn a_failed_request_alone_asks_for_its_machine() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join(POSTED).join("failed-request/l05.trace")).unwrap();
    let trace = file(dir.path(), "l05.trace", text);
    for command in ["replay", "check"] {
        let (status, _, errors) = run(&[command, &trace]);
        assert_eq!((status, errors.lines().count()), (Some(2), 1), "{errors}");
        assert!(errors.contains("no frame in the trace"), "{errors}");
        assert!(errors.contains("--machine") && errors.contains("l05.zoneinfo"), "{errors}");
    }
    let (status, _, errors) = run(&["replay", &trace, "--mem", "1G"]);
    assert_eq!(status, Some(0), "{errors}");
}

/// No error of a parser where the whole file is another.
#[test]
fn files_for_other_commands_are_called_by_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| file(dir.path(), name, text);
    let zoneinfo = format!("{POSTED}/arm-32/proc/zoneinfo");
    let smaps = file(
        "smaps",
        "00400000-0040b000 r-xp 00000000 08:01 9 /bin/cat\nSize:  44 kB\nRss:  4 kB\n",
    );
    let pressure = file("memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    let free =
        file("free", "   total  used  free  shared  buff/cache  available\nMem:  1 1 1 1 1 1\n");
    let job = file("job.toml", "[[task]]\nname = \"a\"\ndo = \"compute 1ms\"\n");
    let words = file("words", "what is this\n");
    let empty = file("empty", "");
    for (args, said) in [
        (["report", &*zoneinfo], "this is /proc/zoneinfo: `highwater check FILE`"),
        (["report", &smaps], "this is /proc/PID/smaps: "),
        (["check", &smaps], "this is /proc/PID/smaps: "),
        (["check", &pressure], "this is pressure (PSI) of /proc/pressure: "),
        (["check", &free], "this is output of the program free: no command reads that"),
        (["check", &job], "this is a job file: `highwater compare FILE` runs it"),
        (["report", &job], "this is a job file: `highwater compare FILE` runs it"),
        (["report", &words], "not a file that this command reads; expected: results"),
        (["check", &words], "not a file that this command reads; expected: /proc/zoneinfo"),
        (["check", &empty], "there is nothing in it; expected: /proc/zoneinfo"),
    ] {
        let (status, _, errors) = run(&args);
        assert_eq!((status, errors.lines().count()), (Some(2), 1), "{args:?}: {errors}");
        assert!(errors.contains(said), "{args:?}: {errors}");
    }
}

/// gzip by its first bytes, a byte order mark, quotes of a mail, the prompt behind the text; a foreign line is named.
#[test]
fn what_is_around_a_text_does_not_hide_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("arm-32", dir.path());
    let text = fs::read_to_string(at.join("proc/zoneinfo")).unwrap();
    let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
    for (form, said) in [
        (packed(&text), ""),
        (format!("\u{feff}{text}").into_bytes(), ""),
        (quoted.into_bytes(), "lines begin with `>`, as quotes in a mail"),
        (format!("{text}me@router:~$ ").into_bytes(), "`me@router:~$`, is a shell's prompt"),
        (format!("{text}[root@box ~]# exit\n").into_bytes(), "`[root@box ~]# exit`, is a shell's"),
        (format!("{text}/ # ").into_bytes(), "`/ #`, is a shell's prompt"),
    ] {
        let (_, all, text) = check_zoneinfo(dir.path(), form);
        assert_eq!(all, 12, "{text}");
        assert!(text.contains(said), "{text}");
    }
    for (more, said) in [
        ("logout\n", "`logout` is no line of /proc/zoneinfo"),
        ("Thanks for any help!\n", "`Thanks for any help!` is no line of /proc/zoneinfo"),
    ] {
        let path = file(dir.path(), "a.zoneinfo", format!("{text}{more}"));
        let (status, _, errors) = run(&["check", &path]);
        assert!(status == Some(2) && errors.contains(said), "{errors}");
        let path = file(dir.path(), "a.zoneinfo", format!("{more}{text}"));
        assert!(run(&["check", &path]).2.contains(said), "{said}");
    }

    // All of a tree, packed.
    for name in ["zoneinfo", "meminfo", "buddyinfo", "version"] {
        let path = at.join("proc").join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(at.join("proc").join(format!("{name}.gz")), packed(&text)).unwrap();
        fs::remove_file(path).unwrap();
    }
    let (agreeing, all, text) = check(&at);
    assert_eq!((agreeing, all), (12, 12), "{text}");
    assert!(text.contains("Linux 4.1.25"), "{text}");
    assert!(
        run(&["replay", at.join("proc/zoneinfo.gz").to_str().unwrap()])
            .2
            .contains("/proc/zoneinfo")
    );

    // Packed beside a trace.
    for name in ["l05.trace", "l05.zoneinfo"] {
        let text =
            fs::read_to_string(root().join(POSTED).join("failed-request").join(name)).unwrap();
        file(dir.path(), &format!("{name}.gz"), packed(&text));
    }
    let text = stdout(&["replay", dir.path().join("l05.trace.gz").to_str().unwrap()]);
    assert!(text.contains("captured"), "{text}");
}

/// A pipe is read once.
#[test]
#[cfg(unix)]
fn zoneinfo_comes_through_a_pipe() {
    let zoneinfo = root().join(POSTED).join("arm-32/proc/zoneinfo");
    let check = |command: &str| {
        let program = crate::program();
        let (file, program) = (zoneinfo.display(), program.display());
        let line = format!("{command} '{file}' | '{program}' check /dev/stdin");
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for command in ["cat", "gzip -c"] {
        let text = check(command);
        assert!(text.contains("/dev/stdin: zoneinfo: ") && text.contains("of 12 fields"), "{text}");
    }
}

/// Lines that only kernels since 6.7 print: none of the presets before is the kernel's.
#[test]
fn lines_of_later_kernels_choose_among_later_presets() {
    let dir = tempfile::tempdir().unwrap();
    let zones = zone("DMA", 1, 3840, [67, 83, 99], "0, 0, 0, 0, 0", [42, 1], 4);
    let high_min =
        zones.replace("              batch:", "              high_min: 42\n              batch:");
    let promo = zones.replace("        spanned", "        promo    115\n        spanned");
    for text in [high_min, promo] {
        let (_, _, text) = check_zoneinfo(dir.path(), text);
        let later = ["6.12", "7.2"].map(|name| format!("those of {name}, which fit best"));
        assert!(later.iter().any(|said| text.contains(said)), "{text}");
    }
    let before = check_zoneinfo(dir.path(), zones).2;
    assert!(before.contains("the kernel's version is not known"), "{before}");
}

/// A setting of Android's that raises marks is named.
#[test]
fn extra_free_kbytes_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = tree("arm-32", dir.path());
    let file = at.join("proc/sys/vm/extra_free_kbytes");
    fs::write(&file, "24300\n").unwrap();
    let said =
        "vm.extra_free_kbytes is 24300 (Android): that kernel adds it to the low and high marks";
    assert!(check(&at).2.contains(said));
    fs::write(&file, "0\n").unwrap();
    assert!(!check(&at).2.contains("extra_free_kbytes"));
}

/// Lists of CPUs that differ in the same way are one line.
#[test]
fn equal_lines_of_cpus_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let zones = zone("DMA", 1, 3840, [67, 83, 99], "0, 0, 0, 0, 0", [7777, 77], 4);
    let (_, _, text) = check_zoneinfo(dir.path(), zones);
    assert!(text.contains("node 0 DMA: cpus 0-3 high: Linux 7777"), "{text}");
    assert!(text.contains("node 0 DMA: cpus 0-3 batch: Linux 77"), "{text}");
    assert!(!text.contains("cpu 1"), "{text}");
}

/// A node without memory is in the text, with zones that have no pages: it has its share of the CPUs.
#[test]
fn nodes_without_memory_have_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = ["--numa", "1G,cpus=0-1", "--numa", "0,cpus=2-3"];
    let zoneinfo = stdout(&[&["zoneinfo"][..], &nodes].concat());
    let (agreeing, all, text) = check_zoneinfo(dir.path(), zoneinfo);
    assert_eq!(agreeing, all, "{text}");
}
