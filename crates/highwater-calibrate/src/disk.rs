//! The disk of a directory, and swap areas that this process may read.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fstatvfs, major, minor, open};
use serde::Serialize;

use crate::row::{Spread, Unit};
use crate::session::{Session, timed};
use crate::system::{PAGE, Region};

/// Bytes of the file that is read: larger than the caches of small controllers.
const FILE_MAX: u64 = 128 << 20;
/// With a smaller file a disk would answer from its own memory.
const FILE_MIN: u64 = 8 << 20;
/// Shares of a measurement that filling the file may take.
const FILLING: u32 = 12;
/// Bytes of a read, and the name of its rows.
const SIZES: [(usize, &str); 2] = [(PAGE, "4k"), (1 << 20, "1m")];
/// Reads in flight at once.
const DEPTHS: [usize; 3] = [1, 4, 16];
/// Reads that each thread does at least.
const READS_MIN: usize = 6;
/// Windows of reads whose rates are the samples of a row, at most.
const WINDOWS: usize = 8;
/// Reads in flight on a swap area.
const SWAP_DEPTHS: [usize; 2] = [1, 8];

/// A directory's place: the disk below its file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// The disk's name in `/sys/block`; `None`: no single disk is below the file system.
    pub disk: Option<String>,
    /// The disk says that it rotates.
    pub is_rotational: Option<bool>,
    /// Type of the file system, as `/proc/self/mountinfo` has it.
    pub filesystem: Option<String>,
}

/// Finds the disk below a directory.
pub(crate) fn place(dir: &Path) -> Place {
    let dev = fs::metadata(dir).map(|found| found.dev()).unwrap_or(0);
    let number = format!("{}:{}", major(dev), minor(dev));
    let mounted = mounted(&number);
    let disk = disk_of_number(&number).or_else(|| {
        // File systems that span disks have numbers of their own; their source names one.
        let source = fs::canonicalize(&mounted.as_ref()?.source).ok()?;
        let dev = fs::metadata(source).ok()?.rdev();
        disk_of_number(&format!("{}:{}", major(dev), minor(dev)))
    });
    let is_rotational = disk.as_ref().and_then(|disk| {
        let text = fs::read_to_string(format!("/sys/block/{disk}/queue/rotational")).ok()?;
        Some(text.trim() == "1")
    });
    let filesystem = mounted.map(|mounted| mounted.filesystem);
    Place { dir: dir.to_owned(), disk, is_rotational, filesystem }
}

struct Mounted {
    filesystem: String,
    source: String,
}

fn mounted(number: &str) -> Option<Mounted> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(number))?;
    let (_, rest) = line.split_once(" - ")?;
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Mounted { filesystem: words.next()?, source: words.next()? })
}

/// The disk with a device number, or that of the partition with the number. Below a device that maps another one
/// (dm-crypt, LVM) it is that one; a device that maps several is no single disk.
fn disk_of_number(number: &str) -> Option<String> {
    let mut path = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    loop {
        let below = fs::read_dir(path.join("slaves")).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
        match &below[..] {
            [] => break,
            [one] => path = fs::canonicalize(one).ok()?,
            _ => return None,
        }
    }
    let of_disk = if path.join("partition").exists() { path.parent()? } else { &path };
    Some(of_disk.file_name()?.to_str()?.to_owned())
}

/// A file without a name, which is gone when it is closed, however this process ends.
pub(crate) fn unnamed_file(dir: &Path) -> Result<File, String> {
    let failed = |error: rustix::io::Errno| format!("{}: {error}", dir.display());
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = open(dir, flags | OFlags::TMPFILE, mode) {
        return Ok(File::from(file));
    }
    // A file system without O_TMPFILE: the name goes away at once.
    let path = dir.join(format!(".highwater-calibrate.{}", std::process::id()));
    let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode).map_err(failed)?;
    fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(File::from(file))
}

pub(crate) fn measure(session: &mut Session<'_>) {
    let on = on(session.place);
    if session.place.disk.is_none() {
        let why = format!("{on}: a directory on a disk is needed (--dir)");
        session.leave_out("fsync and reads of a disk", why);
        return swaps(session);
    }
    let file = match unnamed_file(session.dir) {
        Ok(file) => file,
        Err(why) => {
            session.leave_out("fsync and reads of a disk", why);
            return swaps(session);
        }
    };
    let page = vec![5; PAGE];
    let mut at = 0;
    let failed = |error: std::io::Error| format!("a file of this directory: {error}");
    session.measure(
        "fsync.4k",
        format!("fsync after a pwrite of 4 KiB at the end of a file, {on}"),
        || {
            file.write_all_at(&page, at).map_err(failed)?;
            at += PAGE as u64;
            let mut done = Ok(());
            let took = timed(|| done = file.sync_all());
            done.map_err(failed)?;
            Ok(took.as_nanos() as f64)
        },
    );
    reads_of_file(session, &on);
    swaps(session);
}

/// Where the measured file is, in words.
fn on(place: &Place) -> String {
    let filesystem = place.filesystem.as_deref().unwrap_or("a file system");
    let dir = place.dir.display();
    match &place.disk {
        Some(disk) => format!("{filesystem} on {disk}"),
        None => format!("{dir} is {filesystem}, which has no disk of its own"),
    }
}

fn reads_of_file(session: &mut Session<'_>, on: &str) {
    let name = "reads of a disk";
    let (file, bytes) = match filled(session) {
        Ok(filled) => filled,
        Err(why) => return session.leave_out(name, why),
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let direct = open(&path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
    let direct = direct.map(File::from).map_err(std::io::Error::from).and_then(|file| {
        let mut region = Region::anonymous(PAGE, false).map_err(std::io::Error::other)?;
        file.read_exact_at(region.bytes_mut(), 0)?;
        Ok(file)
    });
    let file = match direct {
        Ok(direct) => direct,
        Err(error) => {
            let why = format!(
                "{on}: no direct reads (O_DIRECT: {error}); through the page cache they would measure memory"
            );
            return session.leave_out(name, why);
        }
    };
    let how = format!("O_DIRECT, {on}");
    for (size, size_name) in SIZES {
        for depth in DEPTHS {
            let name = format!("read.{size_name}.depth{depth}");
            reads(session, &file, bytes, (size, depth), &name, &how);
        }
    }
}

/// An unnamed file with bytes that no file system makes smaller, on the disk.
fn filled(session: &Session<'_>) -> Result<(File, u64), String> {
    let dir = session.dir.display();
    let mut file = unnamed_file(session.dir)?;
    let stat = fstatvfs(&file).map_err(|error| format!("{dir}: {error}"))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let wanted = FILE_MAX.min(free / 4);
    if wanted < FILE_MIN {
        return Err(format!("{dir}: {} MiB are free; {} are needed", free >> 20, FILE_MIN >> 18));
    }
    let failed = |error: std::io::Error| format!("{dir}: {error}");
    let most = session.share() * FILLING;
    let begun = Instant::now();
    let (mut bytes, mut state) = (0, 0x2545_f491_4f6c_dd1du64);
    let mut chunk = vec![0; 1 << 20];
    while bytes < wanted && (bytes < FILE_MIN || begun.elapsed() < most) {
        for word in chunk.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        file.write_all(&chunk).map_err(failed)?;
        bytes += chunk.len() as u64;
    }
    file.sync_all().map_err(failed)?;
    Ok((file, bytes))
}

/// Random reads by `depth` threads: the time of a read, and the rate of all.
fn reads(
    session: &mut Session<'_>,
    file: &File,
    bytes: u64,
    (size, depth): (usize, usize),
    name: &str,
    how: &str,
) {
    match read_at_random(file, bytes, size, depth, session.share()) {
        Ok((time, rate)) => {
            let how = format!("random reads of {} KiB, {depth} in flight, {how}", size >> 10);
            session.put(name, Unit::Ns, how.as_str(), Ok(time));
            let (unit, factor) = match size > PAGE {
                true => (Unit::BytesPerS, size as f64),
                false => (Unit::PerS, 1.0),
            };
            let rate = Spread {
                median: rate.median * factor,
                q1: rate.q1 * factor,
                q3: rate.q3 * factor,
                samples: rate.samples,
            };
            session.put(format!("{name}.rate"), unit, how, Ok(rate));
        }
        Err(why) => session.leave_out(name, why),
    }
}

/// Times of single reads, and reads each second in windows of reads.
fn read_at_random(
    file: &File,
    bytes: u64,
    size: usize,
    depth: usize,
    share: Duration,
) -> Result<(Spread, Spread), String> {
    let slots = (bytes / size as u64).max(1);
    let begun = Instant::now();
    let reader = |seed: u64| -> Result<Vec<(Duration, f64)>, String> {
        let mut region = Region::anonymous(size, false)?;
        let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed + 1);
        let mut done = Vec::new();
        while done.len() < READS_MIN || begun.elapsed() < share {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = state % slots * size as u64;
            let mut read = Ok(());
            let took = timed(|| read = file.read_exact_at(region.bytes_mut(), at));
            read.map_err(|error| format!("reading: {error}"))?;
            done.push((begun.elapsed(), took.as_nanos() as f64));
        }
        Ok(done)
    };
    let mut all = Vec::new();
    thread::scope(|scope| -> Result<(), String> {
        let readers: Vec<_> =
            (0..depth as u64).map(|seed| scope.spawn(move || reader(seed))).collect();
        for reader in readers {
            all.extend(reader.join().map_err(|_| "a reader panicked".to_owned())??);
        }
        Ok(())
    })?;
    all.sort_by_key(|(at, _)| *at);
    let windows = (all.len() / (2 * depth)).clamp(1, WINDOWS);
    let mut before = Duration::ZERO;
    let mut rates = Vec::with_capacity(windows);
    for window in all.chunks(all.len().div_ceil(windows).max(1)) {
        let at = window.last().map_or(before, |(at, _)| *at);
        rates.push(window.len() as f64 / (at - before).as_secs_f64().max(1e-9));
        before = at;
    }
    let times = all.into_iter().map(|(_, took)| took).collect();
    Spread::of(times).zip(Spread::of(rates)).ok_or_else(|| "no read ended".to_owned())
}

/// Swap areas, as far as they can be read.
fn swaps(session: &mut Session<'_>) {
    let text = match fs::read_to_string("/proc/swaps") {
        Ok(text) => text,
        Err(error) => return session.leave_out("swap", format!("/proc/swaps: {error}")),
    };
    let areas: Vec<&str> =
        text.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
    if areas.is_empty() {
        session.leave_out("swap", "no swap area is in use");
    }
    for (nr, area) in areas.into_iter().enumerate() {
        match readable(area) {
            Ok((file, bytes)) => {
                for depth in SWAP_DEPTHS {
                    let name = format!("swap.{nr}.read.4k.depth{depth}");
                    let how = format!("O_DIRECT, the swap area {area}");
                    reads(session, &file, bytes, (PAGE, depth), &name, &how);
                }
            }
            Err(why) => session.leave_out(format!("swap.{nr}"), why),
        }
    }
}

fn readable(area: &str) -> Result<(File, u64), String> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file: OwnedFd = open(area, flags, Mode::empty()).map_err(|error| {
        format!("{area} cannot be read: {error}; its disk may be named with --dir")
    })?;
    let mut file = File::from(file);
    // The length of a block device is where its end is.
    let bytes = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))
        .map_err(|error| format!("{area}: {error}"))?;
    match bytes >= FILE_MIN {
        true => Ok((file, bytes)),
        false => Err(format!("{area} is too small to measure")),
    }
}
