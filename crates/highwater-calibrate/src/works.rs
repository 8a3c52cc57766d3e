//! Composite works, such as benchmarks do them, for a comparison with a model: calibration never
//! runs them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::disk::unnamed_file;
use crate::row::Spread;
use crate::session::{Session, each};
use crate::system::{PAGE, Region};
use crate::wake::cpu_time;
use crate::{Options, check_dir, cpus, disk, streams};

/// Bytes of a mapping that is not touched.
pub const MAPPED: usize = 4 << 20;
/// Bytes of memory that is touched, and of a mapped file.
pub const TOUCHED: usize = 16 << 20;
/// Bytes of a mapped file that is written.
pub const WRITTEN: usize = 4 << 20;
/// Bytes of a file that is read from memory.
pub const CACHED: usize = 16 << 20;
/// Bytes of a file that is read from a disk.
pub const COLD: usize = 64 << 20;

/// A composite work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// mmap and munmap of memory that is not touched.
    MapUnmap,
    /// mmap, a write to each page, munmap: will-it-scale's `page_fault1`.
    PageFault1,
    /// The same with a private mapping of a cached file: `page_fault2`.
    PageFault2,
    /// The same with a shared mapping of a cached file: `page_fault3`.
    PageFault3,
    /// A cached file, 4 KiB at a time.
    CachedRead4K,
    /// A cached file, 1 MiB at a time.
    CachedRead1M,
    /// A file that is not in memory, 1 MiB at a time.
    ColdRead,
    /// 4 KiB appended and synced, as a log does.
    FsyncLog,
    /// A message of so many bytes of a TCP stream on the loopback device.
    TcpStream(usize),
}

impl Work {
    /// All works.
    pub const ALL: [Work; 11] = [
        Work::MapUnmap,
        Work::PageFault1,
        Work::PageFault2,
        Work::PageFault3,
        Work::CachedRead4K,
        Work::CachedRead1M,
        Work::ColdRead,
        Work::FsyncLog,
        Work::TcpStream(1024),
        Work::TcpStream(4096),
        Work::TcpStream(16_384),
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Work::MapUnmap => "mmap-munmap",
            Work::PageFault1 => "page_fault1",
            Work::PageFault2 => "page_fault2",
            Work::PageFault3 => "page_fault3",
            Work::CachedRead4K => "cached-read-4k",
            Work::CachedRead1M => "cached-read-1m",
            Work::ColdRead => "cold-read",
            Work::FsyncLog => "fsync-log",
            Work::TcpStream(1024) => "tcp-stream-1024",
            Work::TcpStream(4096) => "tcp-stream-4096",
            Work::TcpStream(16_384) => "tcp-stream-16384",
            Work::TcpStream(_) => "tcp-stream",
        }
    }

    /// The steps of a round.
    pub const fn about(self) -> &'static str {
        match self {
            Work::MapUnmap => "mmap and munmap of 4 MiB",
            Work::PageFault1 => "mmap 16 MiB, write each page, munmap",
            Work::PageFault2 => {
                "private mapping of a cached file, 4 MiB: mmap, write each page, munmap"
            }
            Work::PageFault3 => {
                "shared mapping of a cached file, 4 MiB: mmap, write each page, munmap"
            }
            Work::CachedRead4K => "16 MiB of a cached file, read by 4 KiB",
            Work::CachedRead1M => "16 MiB of a cached file, read by 1 MiB",
            Work::ColdRead => "64 MiB of a file that is not in memory, read by 1 MiB",
            Work::FsyncLog => "append 4 KiB to a file, fsync",
            Work::TcpStream(_) => "a message of a TCP stream from one CPU to another",
        }
    }

    /// Whether a round waits for a disk. The others use a CPU alone: their time is CPU time, in which
    /// other programs do not count.
    pub const fn waits(self) -> bool {
        matches!(self, Work::ColdRead | Work::FsyncLog)
    }

    /// Time of a round, on this computer.
    pub(crate) fn measure(self, session: &Session<'_>) -> Result<Spread, String> {
        let dir = session.dir;
        match self {
            Work::MapUnmap => session.samples(|| {
                const TIMES: usize = 32;
                let begun = cpu_time();
                for _ in 0..TIMES {
                    drop(Region::anonymous(MAPPED, false)?);
                }
                Ok(each(cpu_time() - begun, TIMES))
            }),
            Work::PageFault1 => session.samples(|| {
                let begun = cpu_time();
                let region = Region::anonymous(TOUCHED, false)?;
                write_pages(&region);
                drop(region);
                Ok(each(cpu_time() - begun, 1))
            }),
            Work::PageFault2 => mapped(session, false),
            Work::PageFault3 => mapped(session, true),
            Work::CachedRead4K => read(session, &filled(dir, CACHED)?, CACHED, PAGE, false),
            Work::CachedRead1M => read(session, &filled(dir, CACHED)?, CACHED, 1 << 20, false),
            Work::ColdRead => {
                if session.place.disk.is_none() {
                    return Err("the directory is on no disk (--dir)".to_owned());
                }
                let file = filled(dir, COLD)?;
                file.sync_all().map_err(failed)?;
                read(session, &file, COLD, 1 << 20, true)
            }
            Work::TcpStream(size) => streams::slower_side(session, size),
            Work::FsyncLog => {
                let mut file = unnamed_file(dir)?;
                session.samples(|| {
                    let begun = Instant::now();
                    file.write_all(&[3; PAGE]).and_then(|()| file.sync_all()).map_err(failed)?;
                    Ok(each(begun.elapsed(), 1))
                })
            }
        }
    }
}

/// Measures every work, in the order of [`Work::ALL`]. `progress` is called as that of [`crate::run`].
///
/// # Errors
/// If the directory is none, or this process cannot find out on which CPUs it may run.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Result<Spread, String>>, String> {
    check_dir(&options.dir)?;
    let (cpus, place) = (cpus::allowed()?, disk::place(&options.dir));
    let _home = cpus::Home::here();
    // One CPU, as a job's single task has.
    if let Some(last) = cpus.last() {
        cpus::pin(*last)?;
    }
    let works = Work::ALL.len();
    let session = Session::for_parts(options, works as u32, &cpus, &place);
    let measure = |(at, work): (usize, &Work)| {
        progress(at, works, work.name());
        work.measure(&session)
    };
    Ok(Work::ALL.iter().enumerate().map(measure).collect())
}

fn failed(error: std::io::Error) -> String {
    format!("a file of this directory: {error}")
}

fn write_pages(region: &Region) {
    (0..region.len()).step_by(PAGE).for_each(|at| region.write(at));
}

/// An unnamed file in the page cache.
fn filled(dir: &Path, bytes: usize) -> Result<File, String> {
    let mut file = unnamed_file(dir)?;
    let piece = vec![7; 1 << 20];
    for _ in 0..bytes >> 20 {
        file.write_all(&piece).map_err(failed)?;
    }
    Ok(file)
}

fn mapped(session: &Session<'_>, shared: bool) -> Result<Spread, String> {
    let file = filled(session.dir, WRITTEN)?;
    session.samples(|| {
        let begun = cpu_time();
        let region = Region::of_file(file.as_fd(), WRITTEN, shared, true)?;
        write_pages(&region);
        drop(region);
        Ok(each(cpu_time() - begun, 1))
    })
}

fn read(
    session: &Session<'_>,
    file: &File,
    bytes: usize,
    piece: usize,
    is_cold: bool,
) -> Result<Spread, String> {
    let mut buffer = vec![0; piece];
    session.samples(|| {
        if is_cold {
            fadvise(file, 0, None, Advice::DontNeed).map_err(|error| error.to_string())?;
        }
        let (begun, cpu) = (Instant::now(), cpu_time());
        for at in (0..bytes).step_by(piece) {
            file.read_exact_at(&mut buffer, at as u64).map_err(failed)?;
        }
        let took = if is_cold { begun.elapsed() } else { cpu_time() - cpu };
        Ok(each(took, 1))
    })
}
