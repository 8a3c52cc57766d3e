//! Files that grow, are truncated or deleted; their places on disk, and the positions of tasks in
//! them.

use super::*;

/// A job of one task.
fn job(files: &str, phases: &[&str]) -> String {
    let phases: String =
        phases.iter().map(|phase| format!("[[task.phase]]\n{}\n", lines(phase))).collect();
    format!("{files}\n[[task]]\nname = \"t\"\n{phases}")
}

/// Keys with commas between them.
fn lines(phase: &str) -> String {
    phase.replace(", ", "\n")
}

fn file(name: &str, rest: &str) -> String {
    format!("[[file]]\nname = \"{name}\"\n{}\n", lines(rest))
}

fn counter(document: &Document, name: &str) -> i64 {
    document.runs[0].counters.get(name)
}

#[test]
fn a_file_that_begins_empty_grows_by_appends() {
    let appends = "do = \"append\", of = \"wal\", bytes = \"16K\", times = 4, op = \"append\"";
    let commit = "do = \"fsync\", of = \"wal\", op = \"commit\"";
    let read = "do = \"read\", of = \"wal\", bytes = \"4K\", op = \"read\"";
    for size in ["size = \"0%\"", "size = 0.0", "size = \"0\""] {
        let document = ran(&job(&file("wal", size), &[appends, commit, appends, commit, read]));
        assert_eq!(counter(&document, "nr_dirtied"), 32, "{size}");
        assert_eq!(counter(&document, "nr_written"), 32, "{size}");
        // Written data is read from memory.
        assert_eq!(counter(&document, "pgpgin"), 0, "{size}");
        assert!(value(&document, "t.read rate") > 0.0);
        // A sync is a transfer to the disk and back.
        assert!(value(&document, "t.commit p50") > 50.0, "{}", value(&document, "t.commit p50"));
    }
    // Two that append to it do not write over one another.
    let two =
        job(&file("wal", "size = \"0\""), &[appends, commit]).replace("\"t\"", "\"t\"\ncount = 2");
    assert_eq!(counter(&ran(&two), "nr_dirtied"), 32);
}

/// The posted job: endless rounds of appends to a file of 0 % and syncs, beside a service.
#[test]
fn rounds_of_appends_to_an_empty_file_cost_time() {
    let text = "seconds = 0.2\n[[file]]\nname = \"wal\"\nsize = \"0%\"\n[[task]]\nname = \"log\"\nrounds = 0\n\
                [[task.phase]]\ndo = \"append\"\nof = \"wal\"\nbytes = \"16K\"\ntimes = 4\nop = \"append\"\n\
                [[task.phase]]\ndo = \"fsync\"\nof = \"wal\"\nop = \"commit\"\n\
                [[task.phase]]\ndo = \"mark\"\nof = \"round\"\n\
                [[task.phase]]\ndo = \"mark\"\nof = \"round{n}\"\nonly = \"first\"\n";
    let document = ran(text);
    let commits = value(&document, "log.commit rate");
    assert!((1_000.0..10_000.0).contains(&commits), "{commits}");
    // Counters of a step that comes in every round: of a round on average.
    assert_eq!(value(&document, "round nr_dirtied"), 16.0);
    assert_eq!(value(&document, "round1 nr_dirtied"), 0.0);
}

#[test]
fn a_full_file_with_room_begins_again_and_a_full_disk_is_an_error() {
    let append = "do = \"append\", of = \"log\", bytes = \"16K\", times = 10";
    let wraps = ran(&job(&file("log", "size = \"0\", room = \"64K\""), &[append]));
    assert_eq!(counter(&wraps, "nr_dirtied"), 16, "the same pages again");
    let disk = "[[disk]]\nname = \"small\"\nmodel = \"ssd\"\nsize = \"64K\"\nsource = \"test\"\n";
    let full = job(&(disk.to_owned() + &file("log", "size = \"0\", disk = \"small\"")), &[append]);
    let error = failed(&full);
    assert!(error.starts_with("t cannot append to log: disk small is full"), "{error}");
    assert!(error.ends_with(" (x.toml:14)"), "{error}");
}

/// The disk has room: the file has not.
#[test]
fn a_block_larger_than_its_file_is_refused() {
    let put =
        |action: &str, bytes: &str| format!("do = \"{action}\", of = \"f\", bytes = \"{bytes}\"");
    for (rest, action, room) in [
        ("size = \"0\", room = \"4M\"", "append", "4 MiB"),
        ("size = \"0\", room = \"4M\", memory = true", "append", "4 MiB"),
        ("size = \"3M\"", "append", "3 MiB"),
        ("size = \"3M\"", "write", "3 MiB"),
    ] {
        let error = experiment(&job(&file("f", rest), &[&put(action, "8M")])).unwrap_err();
        let said = format!("bytes: cannot {action} 8 MiB to f, which has room for {room}");
        assert!(error.starts_with("x.toml:") && error.ends_with(&said), "{error}");
    }
    // Also for a step; the last page may be partial.
    let step =
        "do = \"request\"\n[[task.phase.step]]\ndo = \"append\"\nof = \"f\"\nbytes = \"5000B\"";
    let error = experiment(&job(&file("f", "size = \"4K\""), &[step])).unwrap_err();
    let said = "bytes: cannot append 5000 bytes to f, which has room for 4 KiB";
    assert!(error.ends_with(said), "{error}");
    assert!(experiment(&job(&file("f", "size = \"5000B\""), &[&put("append", "8K")])).is_ok());
    // Shares of memory are known when the job runs.
    let share = job(&file("f", "size = \"0\", room = \"25%\""), &[&put("append", "64M")]);
    let error = failed(&share);
    assert!(error.starts_with("t cannot append 64 MiB to f, which has room for 12 MiB"), "{error}");
}

#[test]
fn truncate_and_delete_drop_dirty_pages() {
    let (write, read) =
        ("do = \"write\", of = \"f\", bytes = \"1M\"", "do = \"read\", of = \"f\", op = \"read\"");
    for drop in ["truncate", "delete"] {
        let drop = format!("do = \"{drop}\", of = \"f\", op = \"drop\"");
        let document = ran(&job(&file("f", "size = \"4M\""), &[write, &drop, read]));
        assert_eq!((counter(&document, "nr_dirtied"), counter(&document, "nr_written")), (1024, 0));
        let none = "t.read: none has ended".to_owned();
        assert!(document.runs[0].notes.contains(&none), "{:?}", document.runs[0].notes);
        assert!(value(&document, "t.drop max") > 50.0, "pages are dropped one by one");
    }
    // The rest of a truncated file still exists.
    let cut = "do = \"truncate\", of = \"f\", size = \"1M\"";
    let document = ran(&job(&file("f", "size = \"4M\""), &[write, cut, read]));
    assert_eq!(counter(&document, "pgpgin"), 0);
    // And it grows again, from there.
    let append = "do = \"append\", of = \"f\", bytes = \"1M\", times = 2";
    let sync = "do = \"fsync\", of = \"f\"";
    let document = ran(&job(&file("f", "size = \"4M\""), &[write, cut, append, sync]));
    assert_eq!(counter(&document, "nr_written"), 768);
}

#[test]
fn a_deleted_file_lives_as_long_as_it_is_mapped() {
    let phases = [
        "do = \"map\", of = \"m\", file = \"f\", shared = true",
        "do = \"touch\", of = \"m\", write = true, op = \"first\"",
        "do = \"delete\", of = \"f\"",
        "do = \"touch\", of = \"m\", op = \"again\"",
        "do = \"unmap\", of = \"m\", op = \"unmap\"",
    ];
    let document = ran(&job(&file("f", "size = \"4M\""), &phases));
    assert!(value(&document, "t.first major") > 0.0);
    assert_eq!((value(&document, "t.again minor"), value(&document, "t.again major")), (0.0, 0.0));
    assert_eq!(counter(&document, "nr_written"), 0);
    // The file that a map is of became shorter: SIGBUS.
    let cut = phases.map(|phase| phase.replace("do = \"delete\"", "do = \"truncate\""));
    let error = failed(&job(&file("f", "size = \"4M\""), &cut.each_ref().map(String::as_str)));
    assert!(error.starts_with("t cannot touch m: the page is not there (SIGBUS"), "{error}");
}

#[test]
fn a_sequential_reader_goes_on_where_it_was() {
    let part = "do = \"read\", of = \"f\", bytes = \"1M\", times = 4, op = \"read\"";
    let random = "do = \"advise\", of = \"f\", advice = \"random\"";
    // Two halves read each page once; a third half finds its pages in memory.
    let document = ran(&job(&file("f", "size = \"8M\""), &[random, part, part, part]));
    assert_eq!(counter(&document, "pgpgin"), 8 << 10);
    let once = ran(&job(&file("f", "size = \"8M\""), &[random, part]));
    assert_eq!(counter(&once, "pgpgin"), 4 << 10);
    // Each writer has its own position.
    let write = "do = \"write\", of = \"f\", bytes = \"1M\", times = 4";
    let document = ran(&job(&file("f", "size = \"8M\""), &[random, part, write, write]));
    assert_eq!(counter(&document, "nr_dirtied"), 2048);
}

#[test]
fn what_is_behind_a_reader_can_be_dropped() {
    let read = "do = \"read\", of = \"f\", bytes = \"1M\", times = 1";
    let drop = "do = \"advise\", of = \"f\", advice = \"dontneed\", behind = true";
    let text = job(&file("f", "size = \"8M\""), &[read, drop]);
    let rounds = |text: &str| text.replace("name = \"t\"", "name = \"t\"\nrounds = 16");
    // Twice through the file: twice from the disk, or once.
    assert!(counter(&ran(&rounds(&text)), "pgpgin") >= 15 << 10);
    let kept = rounds(&text.replace("dontneed", "normal"));
    assert_eq!(counter(&ran(&kept), "pgpgin"), 8 << 10);
    let error = experiment(&job(
        "",
        &[
            "do = \"map\", of = \"a\", size = \"1M\"",
            "do = \"advise\", of = \"a\", advice = \"cold\", behind = true",
        ],
    ));
    assert!(error.unwrap_err().contains("behind: is for files"));
}

#[test]
fn a_file_is_followed() {
    let append = "do = \"append\", of = \"log\", bytes = \"4K\", times = 8";
    let follow = |op: &str| {
        format!("do = \"read\", of = \"log\", bytes = \"16K\", pattern = \"follow\", op = \"{op}\"")
    };
    let (first, nothing, second) = (follow("first"), follow("nothing"), follow("second"));
    let cut = "do = \"truncate\", of = \"log\"";
    let phases = [append, &first, &nothing, cut, append, &second];
    let document = ran(&job(&file("log", "size = \"0\""), &phases));
    let p50 = |op: &str| value(&document, &format!("t.{op} p50"));
    // A block of 16K is read, not an end of a file.
    for op in ["first", "second"] {
        assert!(p50(op) > 2.0 * p50("nothing"), "{op}: {} {}", p50(op), p50("nothing"));
    }
    let error =
        experiment(&job(&file("log", "size = \"0\""), &[&format!("{first}, forever = true")]));
    assert!(error.unwrap_err().contains("pattern: a file that is followed"));
}

#[test]
fn a_file_names_its_disk() {
    let stick = "[[disk]]\nname = \"stick\"\nmodel = \"ssd\"\nsize = \"1G\"\nwrite-bytes-per-s = 10000000\nsource = \"test\"\n";
    let copy = |disk: &str| {
        let files = stick.to_owned() + &file("film", "size = \"8M\"") + &file("copy", disk);
        let phases = [
            "do = \"request\", times = 8\n[[task.phase.step]]\ndo = \"read\"\nof = \"film\"\nbytes = \"1M\"\n\
             [[task.phase.step]]\ndo = \"append\"\nof = \"copy\"\nbytes = \"1M\"",
            "do = \"fsync\", of = \"copy\", op = \"sync\"",
        ];
        job(&files, &phases)
    };
    let (slow, fast) = (ran(&copy("size = \"0\", disk = \"stick\"")), ran(&copy("size = \"0\"")));
    for document in [&slow, &fast] {
        assert_eq!((counter(document, "pgpgin"), counter(document, "nr_written")), (8 << 10, 2048));
    }
    // 8 MiB at 10 MB/s, and at 450.
    let (slow, fast) = (value(&slow, "t.sync max"), value(&fast, "t.sync max"));
    assert!((500_000.0..900_000.0).contains(&slow) && fast < 60_000.0, "{slow} {fast}");
    let error = failed(&copy("size = \"0\", disk = \"stik\""));
    assert_eq!(
        error,
        "copy: unknown disk \"stik\"; did you mean stick? (there are disk, stick); a [[disk]] in the job plugs \
         another one in (x.toml:13)"
    );
}

/// A machine without disks is given one, which has whichever name the job left.
#[test]
fn a_disk_of_the_job_keeps_its_name_on_a_machine_without_disks() {
    let disk = |name: &str| {
        format!("[[disk]]\nname = \"{name}\"\nmodel = \"hdd\"\nsize = \"1G\"\nsource = \"test\"\n")
    };
    let read = "do = \"read\", of = \"f\", pattern = \"uniform\", times = 8, op = \"read\"";
    let files = disk("disk") + &disk("given") + &file("f", "size = \"8M\", disk = \"disk\"");
    let document = ran(&job(&files, &[read]));
    // An arm moves: milliseconds, not the microseconds of flash.
    let longest = value(&document, "t.read max");
    assert!(longest > 3_000.0, "{longest}");
    let notes = &document.runs[0].notes;
    assert!(notes.iter().all(|note| !note.contains("machine's own")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("the machine has no disk")), "{notes:?}");
}

#[test]
fn what_cannot_be_of_files_is_told_with_its_line() {
    let said = |files: &str| experiment(&job(files, &["do = \"sleep\", us = 1"])).unwrap_err();
    let less = said(&file("f", "size = \"8M\", room = \"4M\""));
    assert_eq!(less, "x.toml:4: room: must be above 0, and not below the size");
    let memory = said(&file("f", "size = \"0\", memory = true"));
    assert!(memory.starts_with("x.toml:3: size: how far may a file in memory grow?"), "{memory}");
    let disk =
        said("[[disk]]\nname = \"d\"\nmodel = \"floppy\"\nsize = \"1G\"\nsource = \"test\"\n");
    assert!(disk.starts_with("x.toml:3: model: unknown model \"floppy\""), "{disk}");
    let endless = job(&file("f", "size = \"0\""), &["do = \"write\", of = \"f\""]);
    assert!(
        experiment(&endless).unwrap_err().contains("x.toml:9: of: the file begins empty: how far")
    );
}
