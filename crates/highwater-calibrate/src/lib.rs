//! Measures the costs of primitives on this computer, without root and within a given time.
//!
//! ```text
//!  Options ──▶ run ──▶ Calibration { rows, left out, where }
//!                        each row: median, quartiles, samples, how it was measured
//! ```
//!
//! | module | measures |
//! |---|---|
//! | `calls` | a system call that does nothing; the timer interrupt |
//! | `memory` | clearing, copying and reading 4 KiB by footprint, in order and at random |
//! | `lines` | locks, a cache line and blocks that move between two CPUs |
//! | `wake` | futex wake-ups, context switches, interrupts between CPUs |
//! | `faults` | first touches, mapped files, copies, unmapping, huge pages |
//! | `cached` | reads, writes and truncation of a cached file |
//! | `streams` | TCP and Unix stream calls by size, and what a TCP segment adds |
//! | `disk` | fsync, direct reads at several depths, swap areas that can be read |
//! | [`works`] | composite works, for a comparison with the model |
//!
//! A primitive that this computer does not let a program measure is left out, with a reason
//! ([`LeftOut`]). Nothing is guessed here. This crate reads clocks, so nothing that is simulated may
//! use it: a test of crate `highwater` holds that.

#![deny(unsafe_code)]

mod cached;
mod calls;
mod cpus;
mod disk;
mod faults;
mod lines;
mod memory;
mod others;
mod row;
mod session;
mod streams;
mod system;
mod wake;
pub mod works;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use cpus::{Pair, Relation};
pub use disk::Place;
pub use row::{LeftOut, Row, Spread, Unit};
use session::Session;

/// Least time of a calibration: with less, a row would have a few samples of a few microseconds.
pub const SECONDS_MIN: f64 = 1.0;
/// Most time of a calibration.
pub const SECONDS_MAX: f64 = 60.0;
/// Time of a calibration unless the user says otherwise.
pub const SECONDS: f64 = 20.0;
/// Time of a first look.
pub const SECONDS_QUICK: f64 = 3.0;
/// Most pairs of CPUs whose distance is measured.
pub const PAIRS_MAX: usize = 8;

/// Cache sizes in bytes, from which the footprints follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// First-level data cache of a core.
    pub l1: u64,
    /// Second-level cache of a core.
    pub l2: u64,
    /// Last-level cache.
    pub llc: u64,
}

/// The options of a calibration.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it takes, about, in seconds.
    pub seconds: f64,
    /// Directory whose disk and file system are measured.
    pub dir: PathBuf,
    /// Cache sizes of a CPU; `None`: unknown, and the levels of memory are left out.
    pub caches: Option<CacheSizes>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// Measured rows, in the order of measurement.
    pub rows: Vec<Row>,
    /// Rows that could not be measured here, with the reason.
    pub left_out: Vec<LeftOut>,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Pairs of CPUs whose distance was measured.
    pub pairs: Vec<Pair>,
    /// The disk of the directory.
    pub place: Place,
    /// Seconds that it took.
    pub seconds: f64,
    /// Share of all CPUs that other programs and other guests of the host used meanwhile; `None`:
    /// the kernel does not say.
    pub others: Option<f64>,
}

impl Calibration {
    /// The row with a name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The median of the row with a name.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.row(name).map(|row| row.spread.median)
    }
}

/// One part of the measurements, by its name for progress.
type Part = (&'static str, fn(&mut Session<'_>));

/// The parts, in order. Memory comes first: later parts subtract its figures from theirs.
const PARTS: &[Part] = &[
    ("system calls", calls::measure),
    ("memory", memory::measure),
    ("locks and lines", lines::measure),
    ("wake-ups", wake::measure),
    ("faults", faults::measure),
    ("cached file", cached::measure),
    ("TCP and Unix streams", streams::measure),
    ("disk", disk::measure),
];

/// Measures. `progress` is called with the parts that are done, all parts, and the next one's name.
///
/// # Errors
/// If the directory is none, or this process cannot find out on which CPUs it may run.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Calibration, String> {
    check_dir(&options.dir)?;
    let cpus = cpus::allowed()?;
    let pairs = cpus::pairs(&cpus, PAIRS_MAX);
    let place = disk::place(&options.dir);
    let before = others::Used::now();
    let mut session = Session::new(options, &cpus, &pairs, &place);
    for (done, (name, measure)) in PARTS.iter().enumerate() {
        progress(done, PARTS.len(), name);
        // Affinity is restored after each part, so that a part finds all CPUs.
        let _home = cpus::Home::here();
        measure(&mut session);
    }
    progress(PARTS.len(), PARTS.len(), "");
    let (rows, left_out, took) = session.finish();
    let others = before.zip(others::Used::now()).map(|(before, after)| after.since(&before));
    Ok(Calibration { rows, left_out, cpus, pairs, place, seconds: took.as_secs_f64(), others })
}

fn check_dir(dir: &Path) -> Result<(), String> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{}: is no directory", dir.display())),
        Err(error) => Err(format!("{}: {error}", dir.display())),
    }
}
