//! Disks: duration of transfers (rules/block#ssd, rules/block#hdd) and the order in which they are
//! served (rules/block#scheduler).
//!
//! Key types:
//!
//! * [`DiskSpec`]: a disk as a machine has it.
//! * [`DiskModel`]: the duration of one transfer. [`Ssd`], [`Hdd`] and [`Ram`] are models;
//!   [`Limited`] and [`Faulty`] wrap any of them.
//! * [`FIGURES`]: the figures of a disk in machine files.
//! * [`DiskQueue`]: the waiting requests, the order in which they are served, the time of the next
//!   completion.
//!
//! ```text
//! submit --> waiting --(a channel is free; the scheduler chooses)--> in service --(time)--> done
//! ```
//!
//! Everything here is arithmetic over virtual nanoseconds. The host ([`crate::host`]) chooses the
//! CPU that a completion interrupts, and charges the interrupt.
//!
//! Each model multiplies its result by a factor from 0.9 to 1.1, drawn for each transfer from the
//! disk's random stream. No two real transfers take the same time, and the same seed gives the same
//! times.

mod faulty;
mod figures;
mod hdd;
mod limited;
mod queue;
mod ram;
mod spec;
mod ssd;

pub use faulty::{Faulty, FaultySpec};
pub use figures::{FIGURES, Figure, FigureValue};
pub use hdd::{Hdd, HddSpec};
pub use limited::{Limited, RateLimit};
pub use queue::{DiskQueue, DiskStats, Finished, Scheduler};
pub use ram::Ram;
pub use spec::{DiskKind, DiskSpec};
pub use ssd::{Ssd, SsdSpec};

use highwater_core::host::{IoDirection, IoError};
use highwater_core::page::PAGE_SIZE;

use crate::rng::Stream;

/// A request to move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Read or write.
    pub direction: IoDirection,
    /// First page on the disk.
    pub start: u64,
    /// Pages.
    pub nr_pages: u32,
}

impl Transfer {
    /// Page after the last.
    pub const fn end(&self) -> u64 {
        self.start + self.nr_pages as u64
    }

    /// Bytes to move.
    pub const fn bytes(&self) -> u64 {
        self.nr_pages as u64 * PAGE_SIZE as u64
    }
}

/// End of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Time at which it is done.
    pub done_ns: u64,
    /// Its result.
    pub result: Result<(), IoError>,
}

/// Duration of transfers on one disk.
///
/// Caller guarantees: times do not go backwards from call to call, and at most
/// [`DiskModel::channels`] transfers are in service. Implementation must: answer not earlier than
/// `now_ns`, and use only its own state and random stream.
pub trait DiskModel {
    /// Transfers that it serves in parallel.
    fn channels(&self) -> usize;

    /// Begins a transfer at `now_ns`.
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service;

    /// Ends the disk's faults: later transfers neither fail nor are slow for them.
    fn heal(&mut self) {}
}

impl<D: DiskModel + ?Sized> DiskModel for Box<D> {
    fn channels(&self) -> usize {
        (**self).channels()
    }

    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service {
        (**self).serve(now_ns, transfer)
    }

    fn heal(&mut self) {
        (**self).heal();
    }
}

/// By direction: reads, writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
}

impl<T: Copy> PerDirection<T> {
    /// The same for both.
    pub const fn both(value: T) -> Self {
        PerDirection { read: value, write: value }
    }

    /// The value of a direction.
    pub const fn of(&self, direction: IoDirection) -> T {
        match direction {
            IoDirection::Read => self.read,
            IoDirection::Write => self.write,
        }
    }
}

/// The deterministic ±10 % (rules/block#ssd).
#[derive(Clone, Debug)]
struct Jitter(Stream);

impl Jitter {
    /// The jitter of disk `index` of a run.
    fn new(seed: u64, index: usize) -> Self {
        Jitter(Stream::indexed(seed, "disk/jitter", index as u64))
    }

    /// The factor of the next transfer, in thousandths: 900 to 1100.
    fn next(&mut self) -> u64 {
        self.0.range(900, 1101)
    }
}

/// `ns` times a factor in thousandths.
const fn scale(ns: u64, thousandths: u64) -> u64 {
    ns * thousandths / 1000
}

/// Nanoseconds to move `bytes`.
const fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (bytes as u128 * 1_000_000_000 / bytes_per_s as u128) as u64
}
