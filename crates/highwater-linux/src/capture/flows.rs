//! Which of the bytes that a process read and wrote belong to files.
//!
//! `/proc/PID/io` sums everything that went through `read` and `write`. `rchar` and `wchar` include
//! sockets and pipes. `read_bytes` counts bytes that came from a disk, `write_bytes` pages of files
//! that became dirty. `fdinfo` has positions, which `read` and `write` move, and `pread` and
//! `pwrite` do not. The rules:
//!
//! | bytes | count as |
//! |---|---|
//! | a position moved, or a file grew | bytes of that file |
//! | the rest of `rchar`, with no socket, pipe or terminal open | reads of the files open for reading |
//! | the same with sockets open | reads of those files if calls average a page or more (a guess, with a remark); otherwise left out |
//! | bytes from a disk | reads of files, minus what faults on mapped files read |
//! | pages that became dirty | writes to files, at most `wchar` |
//! | the rest of `wchar` | sockets, pipes, or pages that were already dirty: left out, with a remark |

use std::collections::BTreeMap;

use super::files::Used;
use super::process::{Io, Process};

/// Reads of at least this many bytes per call are taken for blocks of a file.
const BLOCK_LEAST: f64 = 4096.0;
/// Most directories into which a process's files are grouped.
const DIRECTORIES_MAX: usize = 4;
/// A directory with less than this share of the bytes gets no group of its own.
const PART_LEAST: f64 = 0.02;
/// Fewer bytes a second than this count as none.
const BYTES_LEAST: f64 = 16.0;
/// A remark says so if pages that became dirty exceed the bytes that calls wrote by this factor.
const FOLIOS_LEAST: f64 = 1.2;
/// The factor by which faults on mapped files may read more than they touch (fault-around).
const AROUND: u64 = 2;

/// Reads or writes of a file, or of several in one directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flow {
    /// The file, or the directory with a trailing slash; `None` for files that were open only
    /// between two looks.
    pub path: Option<String>,
    /// Total size of the files in bytes; 0 if unknown.
    pub size: u64,
    /// Bytes a second.
    pub bytes: f64,
    /// Calls a second.
    pub calls: f64,
    /// They go on where the last one ended.
    pub is_sequential: bool,
    /// The file is in memory: tmpfs.
    pub is_memory: bool,
}

/// Reads and writes of files of a process, a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flows {
    /// Reads that hit the page cache.
    pub cached: Vec<Flow>,
    /// Reads that came from a disk.
    pub disk: Option<Flow>,
    /// Writes that made pages of files dirty.
    pub writes: Vec<Flow>,
    /// A line for each thing that was left out or guessed.
    pub remarks: Vec<String>,
}

/// The flows of a process; `None` if we have no permission to read its `io`.
pub(super) fn of(process: &Process) -> Option<Flows> {
    process.last.io?;
    let mut flows = Flows::default();
    reads(process, &mut flows);
    writes(process, &mut flows);
    flows.cached.retain(|flow| flow.bytes >= BYTES_LEAST);
    flows.writes.retain(|flow| flow.bytes >= BYTES_LEAST);
    flows.disk = flows.disk.filter(|flow| flow.bytes >= BYTES_LEAST);
    Some(flows)
}

fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}

/// The descriptors of a process that are not files, in words.
fn streams(process: &Process) -> String {
    let Some(open) = &process.last.open else {
        return "its open files cannot be seen".to_owned();
    };
    let kinds: Vec<String> =
        open.others.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    match kinds.is_empty() {
        true => "no sockets or pipes".to_owned(),
        false => kinds.join(", "),
    }
}

fn reads(process: &Process, flows: &mut Flows) {
    let rate = |of: fn(&Io) -> u64| process.io_rate(of).unwrap_or(0.0);
    let (all, calls, disk) =
        (rate(|io| io.read_chars), rate(|io| io.reads), rate(|io| io.disk_read));
    if all <= 0.0 || calls <= 0.0 || process.seconds <= 0.0 {
        return;
    }
    let files: Vec<&Used> = process.uses.0.values().collect();
    let moved: u64 = files.iter().map(|file| file.read).sum();
    let moved = (moved as f64 / process.seconds).min(all);
    let rest = all - moved;
    let readable: Vec<&Used> =
        files.iter().copied().filter(|f| f.can_read && f.size != Some(0)).collect();
    let has_streams = process.last.open.as_ref().is_none_or(super::files::Open::has_streams);
    let mean = all / calls;
    // Bytes that came from a disk, minus what faults on mapped files and on swap can have read.
    let faulted = process.rate(|look| look.major_faults) > 0.0;
    let mapped = AROUND * (process.last.memory.file + process.last.memory.swap);
    let mapped = if faulted { mapped as f64 / process.seconds } else { 0.0 };
    let mut is_guess = false;
    let taken = match () {
        () if !has_streams => rest,
        () if !readable.is_empty() && mean >= BLOCK_LEAST => {
            is_guess = rest > all * PART_LEAST;
            rest
        }
        () if readable.is_empty() => (disk - mapped).clamp(0.0, rest),
        () => (disk - moved).clamp(0.0, rest),
    };
    let of_files = moved + taken;
    let left_out = all - of_files;
    if is_guess {
        flows.remarks.push(format!(
            "Guess: {} a second that it read at no known position are of files: files are open for reading, and calls have {} on \
             average. It has more open ({}), and some of this may be of these.",
            kib(rest),
            kib(mean),
            streams(process)
        ));
    }
    if left_out > all * PART_LEAST {
        let left_out = kib(left_out);
        flows.remarks.push(match &process.last.open {
            Some(_) => format!(
                "Left out: {left_out} a second that it read from sockets, pipes or the kernel ({}), not from files.",
                streams(process)
            ),
            None => format!(
                "Left out: {left_out} a second that it read from what cannot be seen: its open files are not known, and sockets \
                 count, too."
            ),
        });
    }
    if of_files <= 0.0 {
        return;
    }
    let from_disk = disk.min(of_files);
    let per_byte = calls / all;
    let flow = |path: Option<String>, size: u64, bytes: f64, is_sequential: bool| Flow {
        path,
        size,
        bytes,
        calls: bytes * per_byte,
        is_sequential,
        is_memory: false,
    };
    let is_sequential = moved > of_files / 2.0;
    if from_disk > of_files * PART_LEAST {
        flows.disk = Some(flow(None, 0, from_disk, is_sequential));
    }
    let cached = if flows.disk.is_some() { of_files - from_disk } else { of_files };
    if cached <= of_files * PART_LEAST {
        return;
    }
    // Moved positions say which files were read; the rest is divided by size.
    let mut shares = directories(&readable, |file| match moved > of_files / 2.0 {
        true => file.read as f64,
        false => file.size.unwrap_or(1) as f64,
    });
    if shares.is_empty() {
        shares.push((None, 0, 1.0));
    }
    for (path, size, share) in shares {
        flows.cached.push(flow(path, size, cached * share, is_sequential));
    }
}

/// Files grouped by directory, the heaviest first: path, size, and share of the listed files'
/// weight.
fn directories(files: &[&Used], weight: impl Fn(&Used) -> f64) -> Vec<(Option<String>, u64, f64)> {
    let mut all: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for file in files {
        let sum = all.entry(directory(&file.path)).or_default();
        sum.0 = sum.0.saturating_add(file.size.unwrap_or(0));
        sum.1 += weight(file);
    }
    let mut all: Vec<(String, (u64, f64))> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    all.truncate(DIRECTORIES_MAX);
    let whole: f64 = all.iter().map(|(_, (_, weight))| weight).sum();
    if whole <= 0.0 {
        return Vec::new();
    }
    all.retain(|(_, (_, weight))| *weight >= whole * PART_LEAST);
    let whole: f64 = all.iter().map(|(_, (_, weight))| weight).sum();
    let row = |(path, (size, weight)): (String, (u64, f64))| (Some(path), size, weight / whole);
    all.into_iter().map(row).collect()
}

/// The directory of a path, with its slash.
fn directory(path: &str) -> String {
    path.rfind('/').map_or(path, |at| &path[..=at]).to_owned()
}

fn writes(process: &Process, flows: &mut Flows) {
    let rate = |of: fn(&Io) -> u64| process.io_rate(of).unwrap_or(0.0);
    let all = rate(|io| io.written_chars);
    let (calls, dirtied) = (rate(|io| io.writes), rate(|io| io.disk_written));
    if all <= 0.0 || calls <= 0.0 || process.seconds <= 0.0 {
        if dirtied > 0.0 {
            flows.remarks.push(format!(
                "Left out: {} a second of pages that became dirty without a call that writes: mapped files.",
                kib(dirtied)
            ));
        }
        return;
    }
    let mut to_files = dirtied.min(all);
    if dirtied > all * FOLIOS_LEAST {
        flows.remarks.push(format!(
            "Pages that became dirty have {} a second, and calls wrote {}: a kernel with large folios counts all of a folio of \
             which a part was written. The job writes what calls wrote.",
            kib(dirtied),
            kib(all)
        ));
    }
    let files: Vec<&Used> = process.uses.0.values().filter(|file| file.can_write).collect();
    let written = |file: &Used| file.written as f64 / process.seconds;
    let flow = |path: Option<String>, size: u64, bytes: f64, is_memory: bool| Flow {
        path,
        size,
        bytes,
        calls: calls * bytes / all,
        is_sequential: true,
        is_memory,
    };
    // Files in memory never become dirty.
    let mut in_memory = 0.0;
    for file in files.iter().filter(|file| file.is_memory && file.written > 0) {
        let bytes = written(file).min(all - to_files - in_memory).max(0.0);
        in_memory += bytes;
        flows.writes.push(flow(Some(file.path.clone()), file.size.unwrap_or(0), bytes, true));
    }
    let mut grown: Vec<&&Used> = files.iter().filter(|f| !f.is_memory && f.written > 0).collect();
    grown.sort_by_key(|file| std::cmp::Reverse(file.written));
    grown.truncate(DIRECTORIES_MAX);
    let growth: f64 = grown.iter().map(|file| written(file)).sum();
    // Dirty pages count whole, and a write may have been smaller. The growth of the file is the
    // better estimate.
    if to_files <= 0.0 {
        grown.clear();
    }
    let known = growth.min(to_files);
    let rest = to_files - known;
    let in_place: Vec<&Used> = files
        .iter()
        .copied()
        .filter(|f| {
            !f.is_memory && !f.is_append && f.can_read && f.written == 0 && f.size != Some(0)
        })
        .collect();
    let is_told_apart = rest > to_files * PART_LEAST;
    let places = if is_told_apart { directories(&in_place, |_| 1.0) } else { Vec::new() };
    // Only files that were replaced between two looks can have received the rest.
    let of_grown = if places.is_empty() && growth > 0.0 { to_files } else { known };
    for file in &grown {
        let bytes = of_grown * written(file) / growth;
        flows.writes.push(flow(Some(file.path.clone()), file.size.unwrap_or(0), bytes, false));
    }
    if !places.is_empty() {
        flows.remarks.push(format!(
            "Guess: {} a second were written in place, at no known position, to files in {}; in equal parts.",
            kib(rest),
            places.iter().filter_map(|place| place.0.as_deref()).collect::<Vec<_>>().join(", ")
        ));
        let nr = places.len() as f64;
        for (path, _, _) in places {
            flows.writes.push(flow(path, 0, rest / nr, false));
        }
    } else if grown.is_empty() && rest > 0.0 {
        flows.remarks.push(format!(
            "Guess: {} a second were written to a file that was open between two looks only, or cannot be seen.",
            kib(rest)
        ));
        flows.writes.push(flow(None, 0, rest, false));
    }
    to_files += in_memory;
    if all - to_files > all * PART_LEAST {
        flows.remarks.push(format!(
            "Left out: {} a second that it wrote to sockets or pipes ({}), or to pages of files that were dirty before.",
            kib(all - to_files),
            streams(process)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::Open;
    use super::super::process::Look;
    use super::*;

    fn process(io: Io, others: &[(&'static str, u32)], uses: &[Used]) -> Process {
        let open = Open { others: others.iter().copied().collect(), ..Open::default() };
        let look = |io| Look { io: Some(io), open: Some(open.clone()), ..Look::default() };
        let mut process = Process::new(1, "a".to_owned(), look(Io::default()), 10.0);
        process.seen(look(io));
        process.uses.0 =
            (0..).zip(uses.iter().cloned()).map(|(at, used)| (format!("{at}"), used)).collect();
        process
    }

    fn used(path: &str, access: &str, size: u64) -> Used {
        Used {
            path: path.to_owned(),
            can_read: access.contains('r'),
            can_write: access.contains('w'),
            is_append: access.contains('a'),
            size: Some(size),
            ..Used::default()
        }
    }

    /// An append-only file beside clients: bytes that clients send are not disk reads.
    #[test]
    fn what_comes_from_sockets_is_no_read() {
        let io = Io {
            read_chars: 10_000_000,
            reads: 20_000,
            written_chars: 12_000_000,
            writes: 24_000,
            disk_written: 11_000_000,
            ..Io::default()
        };
        let aof = Used { written: 10_000_000, ..used("/data/incr.aof", "w", 10_000_000) };
        let flows = of(&process(io, &[("sockets", 21)], std::slice::from_ref(&aof))).unwrap();
        assert_eq!((flows.cached.len(), flows.disk.is_some()), (0, false), "{flows:?}");
        let [write] = &flows.writes[..] else { panic!("{flows:?}") };
        assert_eq!(write.path.as_deref(), Some("/data/incr.aof"));
        // It alone can have become dirty.
        assert!((write.bytes - 1_100_000.0).abs() < 1.0, "{write:?}");
        assert!(
            flows.remarks[0].contains("976.6 KiB a second that it read from sockets"),
            "{flows:?}"
        );
        assert!(
            flows.remarks[1].contains("97.7 KiB a second that it wrote to sockets"),
            "{flows:?}"
        );
        // Pages of the program's file that faults brought in are not reads either.
        let mut faults = process(Io { disk_read: 7_000_000, ..io }, &[("sockets", 21)], &[aof]);
        faults.last.memory.file = 8 << 20;
        faults.last.major_faults = 90;
        assert_eq!(of(&faults).unwrap().disk, None);
    }

    /// A database that uses `pread`, and has a socket that it does not `read` from.
    #[test]
    fn blocks_of_files_are_reads() {
        let io = Io {
            read_chars: 29_000_000,
            reads: 3_900,
            disk_read: 9_000_000,
            written_chars: 36_000_000,
            writes: 4_100,
            disk_written: 1_060_000_000,
        };
        let files = [
            used("/pg/base/5/1", "rw", 100 << 20),
            used("/pg/base/5/2", "rw", 20 << 20),
            used("/pg/pg_wal/9", "rw", 16 << 20),
            used("/pg/log", "wa", 500),
        ];
        let flows = of(&process(io, &[("sockets", 1), ("event descriptors", 3)], &files)).unwrap();
        let disk = flows.disk.as_ref().unwrap();
        assert!((disk.bytes - 900_000.0).abs() < 1.0 && !disk.is_sequential, "{flows:?}");
        let cached: f64 = flows.cached.iter().map(|flow| flow.bytes).sum();
        assert!((cached - 2_000_000.0).abs() < 1.0, "{flows:?}");
        assert_eq!(
            (flows.cached[0].path.as_deref(), flows.cached[0].size),
            (Some("/pg/base/5/"), 120 << 20)
        );
        // No more than calls wrote, whatever large folios count.
        let written: f64 = flows.writes.iter().map(|flow| flow.bytes).sum();
        assert!((written - 3_600_000.0).abs() < 1.0, "{flows:?}");
        let to: Vec<_> = flows.writes.iter().filter_map(|flow| flow.path.as_deref()).collect();
        assert_eq!(to, ["/pg/base/5/", "/pg/pg_wal/"]);
        for part in ["Guess: 2832.0 KiB a second that it read", "large folios", "Guess: 3515.6 KiB"]
        {
            assert!(flows.remarks.iter().any(|line| line.contains(part)), "{part}: {flows:?}");
        }
    }

    #[test]
    fn a_position_that_moves_says_where_it_reads() {
        let io = Io { read_chars: 1_000_000, reads: 1000, disk_read: 1_000_000, ..Io::default() };
        let file = Used { read: 1_000_000, ..used("/data/log", "r", 5 << 20) };
        let flows = of(&process(io, &[("terminals", 3)], std::slice::from_ref(&file))).unwrap();
        assert!(flows.disk.is_some_and(|flow| flow.is_sequential) && flows.cached.is_empty());
        // From memory, the file has a name.
        let flows = of(&process(Io { disk_read: 0, ..io }, &[("terminals", 3)], &[file])).unwrap();
        assert_eq!(flows.cached[0].path.as_deref(), Some("/data/"));
        assert!(flows.remarks.is_empty(), "{flows:?}");
        // Without sockets or pipes everything is of files.
        let flows = of(&process(Io { disk_read: 0, ..io }, &[], &[])).unwrap();
        assert_eq!((flows.cached.len(), flows.cached[0].path.as_deref()), (1, None));
    }

    #[test]
    fn files_in_memory_are_written_without_a_disk() {
        let io = Io { written_chars: 1_000_000, writes: 100, ..Io::default() };
        let file = Used { written: 800_000, is_memory: true, ..used("/dev/shm/x", "w", 1 << 20) };
        let flows = of(&process(io, &[("sockets", 1)], &[file])).unwrap();
        assert!(flows.writes[0].is_memory && (flows.writes[0].bytes - 80_000.0).abs() < 1.0);
        assert!(
            flows.remarks[0].contains("19.5 KiB a second that it wrote to sockets"),
            "{flows:?}"
        );
    }
}
