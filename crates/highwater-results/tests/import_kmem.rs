//! Trace import, tested with the captured traces and with damaged ones.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use highwater_results::import::ImportError;
use highwater_results::import::kmem::{
    KmemEvent, KmemKind, KmemReader, OnDamage, SkippedLines, gzip_damage,
};
use proptest::prelude::*;

fn reference(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reference/linux-6.1/traces").join(name)
}

/// A captured trace, unpacked.
fn reference_text(name: &str) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(reference(name)).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Parses a text whose last line, like all others, has a line end.
fn parse(text: &str) -> Result<(Vec<KmemEvent>, SkippedLines), ImportError> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    parse_bytes(format!("{text}{end}").into_bytes())
}

fn parse_bytes(bytes: Vec<u8>) -> Result<(Vec<KmemEvent>, SkippedLines), ImportError> {
    let mut reader = KmemReader::from_reader("t", std::io::Cursor::new(bytes))?;
    let events = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((events, reader.skipped()))
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A header line, so that a single bad line is the second.
fn error_of(line: &str) -> ImportError {
    parse(&format!("# tracer: nop\n{line}\n")).unwrap_err()
}

// --- captured traces ---

/// Events of each tracepoint: alloc, extfrag, zone_locked, free, free_batched, pcpu_drain.
fn check_counts(name: &str, expected: [u64; 6], nr_frees_of_order: (u8, u64)) {
    let mut reader = KmemReader::open(reference(name)).unwrap();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut nr_frees = 0;
    let mut time_ns_last = 0;
    for event in reader.by_ref() {
        let event = event.unwrap();
        *counts.entry(event.kind.event_name()).or_default() += 1;
        assert!(event.cpu < 2);
        assert!(event.time_ns >= time_ns_last, "ftrace merges its buffers by time");
        time_ns_last = event.time_ns;
        nr_frees += u64::from(
            matches!(event.kind, KmemKind::Free { order, .. } if order == nr_frees_of_order.0),
        );
    }
    let names = [
        "mm_page_alloc",
        "mm_page_alloc_extfrag",
        "mm_page_alloc_zone_locked",
        "mm_page_free",
        "mm_page_free_batched",
        "mm_page_pcpu_drain",
    ];
    let found = names.map(|name| counts.get(name).copied().unwrap_or(0));
    assert_eq!(found, expected, "{name}");
    assert_eq!(nr_frees, nr_frees_of_order.1, "{name}");
    let skipped = reader.skipped();
    let nr_promised_entries = Some(reader.nr_events());
    let comments = SkippedLines { nr_comments: 12, nr_promised_entries, ..Default::default() };
    assert_eq!(skipped, comments, "{name}");
    assert_eq!(reader.nr_events(), expected.iter().sum::<u64>());
}

#[test]
fn unix_stream_reference_has_its_exact_counts() {
    check_counts("unix-stream-16384.trace.gz", [16485, 7, 16695, 16472, 83, 16649], (2, 16384));
}

#[test]
fn netperf_reference_has_its_exact_counts() {
    check_counts("netperf-tcp-16384.trace.gz", [16502, 2, 330, 16476, 83, 0], (3, 16383));
}

#[test]
fn file_read_reference_has_its_exact_counts() {
    check_counts("file-read.trace.gz", [49386, 1, 49406, 25113, 24476, 26973], (1, 14));
}

#[test]
fn first_events_of_a_reference_in_full() {
    let mut reader = KmemReader::open(reference("unix-stream-16384.trace.gz")).unwrap();
    let first = reader.next().unwrap().unwrap();
    // GFP_KERNEL_ACCOUNT|__GFP_ZERO
    let kind = KmemKind::Alloc { pfn: 0x194c, order: 1, migratetype: 0, gfp: 0x40_0dc0 };
    assert_eq!(first, KmemEvent { cpu: 0, time_ns: 5_584_503_000, pid: 1, kind });
    let events: Vec<_> = reader.map(Result::unwrap).map(|event| event.kind).collect();
    assert!(events.contains(&KmemKind::ExtFrag {
        pfn: 0x10000,
        alloc_order: 0,
        fallback_order: 10,
        alloc_migratetype: 0,
        fallback_migratetype: 1,
        change_ownership: true,
    }));
    assert!(events.contains(&KmemKind::PcpuDrain { pfn: 0x18fc, order: 2, migratetype: 0 }));
    assert!(events.contains(&KmemKind::ZoneLocked {
        pfn: 0x1afd8,
        order: 0,
        migratetype: 0,
        percpu_refill: Some(true)
    }));
}

// --- the other forms, made from a captured trace ---

/// One line of ftrace text, split at its fixed columns (independent of the code under test).
struct FtraceLine<'t> {
    comm: &'t str,
    pid: &'t str,
    cpu: &'t str,
    flags: &'t str,
    time: &'t str,
    event: &'t str,
    fields: &'t str,
}

fn take_apart(line: &str) -> FtraceLine<'_> {
    let (task, rest) = (line[..24].trim(), &line[24..]);
    let (comm, pid) = task.rsplit_once('-').unwrap();
    let mut words = rest.split_whitespace();
    let cpu = words.next().unwrap().trim_matches(['[', ']']);
    let flags = words.next().unwrap();
    let time = words.next().unwrap().trim_end_matches(':');
    let event = words.next().unwrap().trim_end_matches(':');
    let fields = &rest[rest.find(event).unwrap() + event.len() + 2..];
    FtraceLine { comm, pid, cpu, flags, time, event, fields }
}

/// Rewrites the fields' `pfn=0x..` as older kernels print it.
fn decimal_pfn(fields: &str) -> String {
    let words = fields.split(' ').map(|word| match word.strip_prefix("pfn=0x") {
        Some(hex) => format!("pfn={}", u64::from_str_radix(hex, 16).unwrap()),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn rewritten(text: &str, form: impl Fn(&FtraceLine<'_>) -> String) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| form(&take_apart(line)) + "\n").collect()
}

#[test]
fn every_form_of_the_same_trace_gives_the_same_events() {
    let whole = reference_text("file-read.trace.gz");
    // A stretch with all kinds but one, and the very end with the drains.
    let lines: Vec<&str> = whole.lines().filter(|line| !line.starts_with('#')).collect();
    let slice = [&lines[..3000], &lines[lines.len() / 2..][..3000], &lines[lines.len() - 3000..]]
        .concat()
        .join("\n");
    let (expected, _) = parse(&slice).unwrap();
    assert_eq!(expected.len(), 9000);

    type Form = fn(&FtraceLine<'_>) -> String;
    let forms: [(&str, Form); 10] = [
        ("ftrace without flags", |l| {
            format!(
                "{:>16}-{:<7} [{}] {:>12}: {}: {}",
                l.comm, l.pid, l.cpu, l.time, l.event, l.fields
            )
        }),
        ("ftrace with tgid", |l| {
            let FtraceLine { comm, pid, cpu, flags, time, event, fields } = l;
            format!("{comm:>16}-{pid:<7} ({pid:>7}) [{cpu}] {flags} {time:>12}: {event}: {fields}")
        }),
        ("ftrace with unknown tgid, no flags", |l| {
            format!(
                "{:>16}-{:<7} (-------) [{}] {:>12}: {}: {}",
                l.comm, l.pid, l.cpu, l.time, l.event, l.fields
            )
        }),
        ("ftrace with decimal pfn", |l| {
            let fields = decimal_pfn(l.fields);
            format!(
                "{:>16}-{:<5} [{}] {} {:>12}: {}: {fields}",
                l.comm, l.pid, l.cpu, l.flags, l.time, l.event
            )
        }),
        ("trace-cmd", |l| {
            let event = format!("{}:", l.event);
            format!(
                "{:>16}-{:<5} [{}] {:>12}: {event:<21} {}",
                l.comm, l.pid, l.cpu, l.time, l.fields
            )
        }),
        ("trace-cmd with flags", |l| {
            let event = format!("{}:", l.event);
            format!(
                "{:>16}-{:<7} [{}] {} {:>12}: {event:<21} {}",
                l.comm, l.pid, l.cpu, l.flags, l.time, l.fields
            )
        }),
        ("trace-cmd without formulas", |l| {
            let fields = decimal_pfn(l.fields);
            let (_, fields) = fields.split_once(' ').unwrap();
            let (comm, pid, cpu, time, event) = (l.comm, l.pid, l.cpu, l.time, l.event);
            format!("{comm:>16}-{pid:<5} [{cpu}] {time:>12}: {event}:  [FAILED TO PARSE] {fields}")
        }),
        ("perf", |l| {
            let event = format!("kmem:{}", l.event);
            format!(
                "{:>16} {:>7} [{}] {:>12}: {event:>28}: {}",
                l.comm, l.pid, l.cpu, l.time, l.fields
            )
        }),
        ("perf with pid/tid and nanoseconds", |l| {
            let FtraceLine { comm, pid, cpu, time, event, fields, .. } = l;
            let fields = decimal_pfn(fields);
            format!("{comm:>16} {pid:>7}/{pid:<7} [{cpu}] {time}000: kmem:{event}: {fields}")
        }),
        ("perf with period and windows line ends", |l| {
            let FtraceLine { comm, pid, cpu, time, event, fields, .. } = l;
            format!("{comm:>16} {pid:>7} [{cpu}] {time}:          1 kmem:{event}: {fields}\r")
        }),
    ];
    for (name, form) in forms {
        let text = rewritten(&slice, form);
        let (events, skipped) = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(events.len(), expected.len(), "{name}");
        let differing = events.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(differing, None, "{name}");
        assert_eq!(skipped, SkippedLines::default(), "{name}");
    }
}

#[test]
fn gzip_is_told_by_its_bytes_not_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let text = "  a-1 [000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0\n";
    let two_members = [gzip(text), gzip(text)].concat();
    for (name, bytes, nr_events) in [
        ("plain.txt", text.as_bytes().to_vec(), 1),
        ("plain.gz", text.as_bytes().to_vec(), 1),
        ("packed", gzip(text), 1),
        ("packed.gz", gzip(text), 1),
        ("two.gz", two_members, 2),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let events: Vec<_> = KmemReader::open(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(events.len(), nr_events, "{name}");
    }
}

// --- skipped lines ---

#[test]
fn skipped_lines_are_counted_by_reason() {
    let text = "# entries-in-buffer/entries-written: 10/14   #P:2\n\n   \ncpus=2\nCPU:0 [LOST 123 EVENTS]\nCPU:1 [LOST EVENTS]\nCPU:1 [4 EVENTS DROPPED]\n\
        \x20 a-1 [000] ..... 1.5: sched_switch: prev_comm=mm_page_alloc: pfn=1\n\
        \x20 a-1 [000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0\n\
        \x20 a-1 [000] ..... 1.5: mm_page_alloc_zone_locked: page=(null) pfn=0 order=3 migratetype=0 percpu_refill=0\n\
        \x20 a-1 [000] ..... 1.5: mm_page_alloc: page=1 pfn=0x10 order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_NEW\n\
        \tffffffff8123 get_page_from_freelist+0x12 ([kernel.kallsyms])\n\
        \x20 a-1 [000] ..... 1.5: mm_pa";
    let (events, skipped) = parse(text).unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(
        skipped,
        SkippedLines {
            nr_blank: 2,
            nr_comments: 1,
            nr_other_events: 2,
            nr_unrecognised: 2,
            nr_without_page: 1,
            nr_lost_notices: 3,
            nr_lost_events: 127,
            nr_overwritten_events: 4,
            nr_promised_entries: Some(10),
            nr_bad: 0,
            first_bad: None,
            unknown_gfp_names: BTreeMap::from([("__GFP_NEW".to_owned(), 1)]),
        }
    );
    assert_eq!(skipped.nr_lines() + 2, text.lines().count() as u64);
    assert_eq!((skipped.nr_entries(2), skipped.nr_missing_entries(2)), (7, 3));
}

#[test]
fn bytes_that_are_not_utf8_may_stand_in_a_command_name() {
    let line = b"  a\xff\xfe-1 [000] ..... 1.5: mm_page_free: page=\xff pfn=0x10 order=0\n";
    assert_eq!(parse_bytes(line.to_vec()).unwrap().0.len(), 1);
}

// --- errors ---

#[test]
fn impossible_fields_name_file_line_and_field() {
    for (fields, field, problem) in [
        ("mm_page_alloc: page=1 order=0 migratetype=0 gfp_flags=GFP_KERNEL", "pfn", "missing"),
        ("mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0", "gfp_flags", "missing"),
        (
            "mm_page_alloc: page=1 pfn=0x1 order=-1 migratetype=0 gfp_flags=0x0",
            "order",
            "`-1` is negative",
        ),
        ("mm_page_free: page=1 pfn=0x1 order=11", "order", "11 is above 10"),
        ("mm_page_free: page=1 pfn=0x1 order=99999999999999999999", "order", "64 bits"),
        ("mm_page_free: page=1 pfn=0x1 order=two", "order", "`two` is not a number"),
        ("mm_page_free: page=1 pfn=0x1 order=\u{fffd}", "order", "is not a number"),
        ("mm_page_free: page=1 pfn=0x1", "order", "missing"),
        ("mm_page_free: page=1 pfn=0x1 ord", "order", "missing"),
        ("mm_page_free: page=1 pfn=0x10000000000 order=0", "pfn", "not a page frame"),
        ("mm_page_free: page=1 pfn=0xzz order=0", "pfn", "`0xzz` is not a number"),
        ("mm_page_free: page=1 pfn=-1 order=0", "pfn", "only an allocation can fail"),
        ("mm_page_free_batched: page=1", "pfn", "missing"),
        ("mm_page_free_batched: page=1 pfn=0x1 order=11", "order", "above 10"),
        ("mm_page_pcpu_drain: page=1 pfn=0x1 order=0 migratetype=9", "migratetype", "9 is above 5"),
        (
            "mm_page_alloc_zone_locked: pfn=1 order=0 migratetype=0 percpu_refill=2",
            "percpu_refill",
            "above 1",
        ),
        (
            "mm_page_alloc_extfrag: pfn=1 alloc_order=0 fallback_order=12",
            "fallback_order",
            "12 is above 10",
        ),
    ] {
        let error = error_of(&format!("  a-1 [000] ..... 1.5: {fields}"));
        assert_eq!(
            (error.file(), error.line(), error.field()),
            ("t", Some(2), Some(field)),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.starts_with(&format!("t:2: {field}: ")) && text.contains(problem), "{text}");
        assert!(!text.contains('\n'));
    }
}

#[test]
fn broken_columns_name_the_column() {
    for (line, field) in [
        ("  a-1 ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0", "cpu"),
        ("  a-1 [70000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0", "cpu"),
        ("  a [000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0", "pid"),
        ("  a-1 [000] ..... 123456: mm_page_free: page=1 pfn=0x10 order=0", "timestamp"),
    ] {
        let error = error_of(line);
        assert_eq!((error.line(), error.field()), (Some(2), Some(field)), "{error}");
    }
}

#[test]
fn the_first_error_ends_the_iteration() {
    let text = "a-1 [0] 1.5: mm_page_free: pfn=1 order=0\na-1 [0] 1.5: mm_page_free: pfn=1 order=99\n\
        a-1 [0] 1.5: mm_page_free: pfn=1 order=0\n";
    let mut reader = KmemReader::from_reader("t", text.as_bytes()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
    assert!(reader.next().is_none());
}

#[test]
fn a_text_without_events_is_an_error() {
    for (text, word) in [
        ("", "the file is empty"),
        ("# tracer: nop\n#\n", "in 2 lines"),
        ("  a-1 [000] ..... 1.5: sched_switch: x\n", "in 1 lines"),
        ("Hello, world\n", "no kmem page-allocator event"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, ImportError::NoEvents { .. }));
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn files_that_cannot_be_read_say_why_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let read = |path: PathBuf| {
        KmemReader::open(path).and_then(|reader| reader.collect::<Result<Vec<_>, _>>())
    };
    let packed = std::fs::read(reference("netperf-tcp-16384.trace.gz")).unwrap();
    let mut damaged = packed.clone();
    let nr_bytes = damaged.len();
    damaged[nr_bytes - 8] ^= 1;
    for (path, words) in [
        (directory.path().join("missing"), "no such file"),
        (directory.path().to_path_buf(), "is a directory"),
        (write("text.gz", b"no trace\n"), "named .gz, but not gzip data"),
        (
            write("truncated.gz", &packed[..packed.len() / 2]),
            "bad gzip data: the file ends in the middle",
        ),
        (write("stub.gz", &packed[..4]), "bad gzip data: the file ends in the middle"),
        (write("damaged.gz", &damaged), "bad gzip data"),
        (write("perf.data", b"PERFILE2\0\0\0\0"), "perf script"),
        (write("trace.dat", b"\x17\x08\x44tracing6"), "trace-cmd report"),
        (write("binary", &[0x80; 200_000]), "longer than 65536 bytes"),
    ] {
        let name = path.display().to_string();
        let error = read(path).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && text.starts_with(&name), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn a_truncated_gzip_gives_its_events_before_the_error() {
    let packed = std::fs::read(reference("netperf-tcp-16384.trace.gz")).unwrap();
    let half = std::io::Cursor::new(packed[..packed.len() / 2].to_vec());
    let mut reader = KmemReader::from_reader("half", half).unwrap();
    let mut nr_good = 0;
    let error = loop {
        match reader.next().expect("an end in the middle is an error") {
            Ok(_) => nr_good += 1,
            Err(error) => break error,
        }
    };
    assert!(nr_good > 1000 && nr_good < 33393, "{nr_good}");
    // Twelve comments come before the events.
    let line = nr_good + 13;
    let whole = format!("the {} lines before it are whole, with {nr_good} events", line - 1);
    let text = format!("half:{line}: bad gzip data: the file ends in the middle; {whole}");
    assert_eq!(error.to_string(), text);
    assert_eq!(error.line(), Some(line));
}

#[test]
fn what_is_whole_of_a_truncated_gzip_is_used_if_asked_for() {
    let packed = std::fs::read(reference("netperf-tcp-16384.trace.gz")).unwrap();
    let whole: Vec<_> =
        KmemReader::open(reference("netperf-tcp-16384.trace.gz")).unwrap().collect();
    let read = |bytes: &[u8]| {
        let bytes = std::io::Cursor::new(bytes.to_vec());
        let mut reader = KmemReader::from_reader("t", bytes).unwrap().on_damage(OnDamage::UseWhole);
        let events: Result<Vec<_>, _> = reader.by_ref().collect();
        (events, reader.cut_at())
    };
    let (events, cut_at) = read(&packed[..packed.len() / 2]);
    let events = events.unwrap();
    assert!(events.len() > 1000 && cut_at == Some(events.len() as u64 + 13), "{cut_at:?}");
    assert!(events.iter().zip(&whole).all(|(half, whole)| half == whole.as_ref().unwrap()));
    // Only the check sum is missing.
    let (events, cut_at) = read(&packed[..packed.len() - 4]);
    assert_eq!((events.unwrap().len(), cut_at.is_some()), (whole.len(), true));
    let (events, cut_at) = read(&packed);
    assert_eq!((events.unwrap().len(), cut_at), (whole.len(), None));
    // Without a complete line there is no trace. Damage is not an early end.
    assert!(matches!(read(&packed[..4]).0, Err(ImportError::NoEvents { .. })));
    let mut damaged = packed.clone();
    damaged[packed.len() - 8] ^= 1;
    assert!(matches!(read(&damaged).0, Err(ImportError::Gzip { .. })));
}

#[test]
fn a_line_without_its_end_is_not_read() {
    let line =
        |pfn: u64| format!("  a-1 [000] ..... 1.5: mm_page_free: page=1 pfn={pfn:#x} order=0");
    let read = |text: String| {
        let bytes = std::io::Cursor::new(text.into_bytes());
        let mut reader = KmemReader::from_reader("t", bytes).unwrap();
        let events: Result<Vec<_>, _> = reader.by_ref().collect();
        (events.map(|events| events.len()), reader.unended_at())
    };
    // The last line looks complete, but its order may have been 10.
    let (events, at) = read(format!("{}\n{}", line(16), line(32)));
    assert_eq!((events.unwrap(), at), (1, Some(2)));
    let (events, at) = read(format!("{}\n{}\n", line(16), line(32)));
    assert_eq!((events.unwrap(), at), (2, None));
    let (events, at) = read(format!("{}\n  ", line(16)));
    assert_eq!((events.unwrap(), at), (1, None), "blanks say nothing");
    assert!(matches!(read(line(16)).0, Err(ImportError::NoEvents { .. })));
}

#[test]
fn bad_lines_are_counted_if_what_is_whole_is_asked_for() {
    let text = "  a-1 [000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0\n\
                \x20 a-1 [000] ..... 1.5: mm_page_free: page=1 pfn=0x1z order=0\n\
                \x20 a-1 [000] ..... 1.5: mm_page_free: page=1 order=0\n";
    let read = |on_damage| {
        let mut reader =
            KmemReader::from_reader("t", text.as_bytes()).unwrap().on_damage(on_damage);
        let events: Result<Vec<_>, _> = reader.by_ref().collect();
        (events, reader.skipped())
    };
    assert!(matches!(read(OnDamage::Refuse).0, Err(ImportError::Field { line: 2, .. })));
    let (events, skipped) = read(OnDamage::UseWhole);
    assert_eq!((events.unwrap().len(), skipped.nr_bad), (1, 2));
    let first = skipped.first_bad.unwrap();
    assert_eq!((first.line, first.field.as_str()), (2, "pfn"));
}

#[test]
fn damage_of_gzip_data_is_found_wherever_it_is() {
    let packed = std::fs::read(reference("netperf-tcp-16384.trace.gz")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.trace.gz");
    let damage = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        gzip_damage(&path).is_some()
    };
    assert!(!damage(&packed) && !damage(&packed[..packed.len() / 2]) && !damage(b"no gzip\n"));
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 1;
    assert!(damage(&damaged));
}

#[test]
fn headers_say_what_was_written_over() {
    let event = "  a-1 [000] ..... 1.5: mm_page_free: page=1 pfn=0x10 order=0\n";
    for (head, nr_overwritten) in [
        ("# entries-in-buffer/entries-written: 66391/70000   #P:2\n", 3609),
        ("# entries-in-buffer/entries-written: 7/9\n# entries-in-buffer/entries-written: 1/2\n", 3),
        ("# entries-in-buffer/entries-written: 9/7   #P:2\n", 0),
        ("# entries-in-buffer/entries-written: 7\n", 0),
        ("# entries-in-buffer/entries-written: many/more\n", 0),
    ] {
        let (_, skipped) = parse(&format!("{head}{event}")).unwrap();
        assert_eq!(skipped.nr_overwritten_events, nr_overwritten, "{head}");
        assert_eq!(skipped.nr_comments, head.lines().count() as u64, "{head}");
    }
}

// --- properties ---

/// Text made of the pieces that the parser looks for, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 24] = [
        b"  a-1 ",
        b"[000]",
        b" [001] d..3. ",
        b"(   12)",
        b" 1.500000: ",
        b" 1.5:",
        b"mm_page_alloc: ",
        b"kmem:mm_page_free:",
        b"mm_page_alloc_extfrag: ",
        b" page=(null) pfn=0",
        b" pfn=0x",
        b" pfn=18446744073709551615",
        b" order=3",
        b" order=-",
        b" migratetype=1",
        b" gfp_flags=GFP_KERNEL|",
        b" gfp_flags=0xcc0",
        b"CPU:0 [LOST 12 EVENTS]",
        b"\n",
        b"\xff",
        b"99999999999999999999",
        b"-1",
        b"/",
        b"#",
    ];
    let piece = proptest::sample::select(&PIECES[..]);
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse_bytes(bytes);
    }

    #[test]
    fn arbitrary_pieces_never_panic_and_stay_in_bounds(bytes in pieces()) {
        match parse_bytes(bytes) {
            Ok((events, _)) => for event in events {
                prop_assert!(event.cpu < 8192);
                prop_assert!(event.kind.pfn().is_none_or(|pfn| pfn < 1 << 40));
            },
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn a_damaged_line_is_read_or_refused(at in 0_usize..140, byte in any::<u8>()) {
        let mut line = b"            netu-113     [001] d..3.     5.962217: mm_page_alloc_zone_locked: page=000000003ac48fc6 \
            pfn=0x18fc order=2 migratetype=0 percpu_refill=1".to_vec();
        line[at] = byte;
        let _ = parse_bytes(line);
    }

    /// An event that is written in a program's form and read back is the same event, for any
    /// command name.
    #[test]
    fn written_events_are_read_back(
        comm in "[ -~]{1,15}",
        pid in 1_i32..4_194_304,
        cpu in 0_u32..8192,
        micros in 0_u64..1 << 50,
        pfn in 0_u64..1 << 40,
        order in 0_u8..=10,
        form in 0..5,
    ) {
        // No reader can handle blanks at the end of a name, or a name that is itself a CPU column.
        prop_assume!(!comm.contains('[') && !comm.ends_with([' ', '-', ':']));
        let (s, us) = (micros / 1_000_000, micros % 1_000_000);
        let fields = format!("page=0000000012345678 pfn={pfn:#x} order={order}");
        let line = match form {
            0 => format!("{comm:>16}-{pid:<7} [{cpu:03}] d..3. {s:>5}.{us:06}: mm_page_free: {fields}"),
            1 => format!("{comm:>16}-{pid:<7} ({pid:>7}) [{cpu:03}] {s:>5}.{us:06}: mm_page_free: {fields}"),
            2 => format!("{comm:>16}-{pid:<5} [{cpu:03}] {s:>5}.{us:06}: mm_page_free:         {fields}"),
            3 => format!("{comm:>16} {pid:>7} [{cpu:03}] {s:>5}.{us:06}:   kmem:mm_page_free: {fields}"),
            _ => format!("{comm:>16} {:>7}/{pid:<7} [{cpu:03}] {s:>5}.{us:06}: kmem:mm_page_free: {fields}", 7),
        };
        let (events, _) = parse(&line).unwrap();
        let kind = KmemKind::Free { pfn, order };
        prop_assert_eq!(events, vec![KmemEvent { cpu, time_ns: micros * 1000, pid, kind }]);
    }
}
