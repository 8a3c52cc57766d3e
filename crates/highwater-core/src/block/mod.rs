//! The block layer: bios, plugs, merging, a request queue with a depth for each device.
//!
//! A submitter fills [`Bio`]s; a plug ([`Plug`]) collects and merges them; requests wait for a free
//! tag of their device's queue and go to the host ([`crate::host::Devices::submit`]), which gives
//! them back through [`crate::Kernel::end_request`]. What a finished page means to its owner is
//! decided there.
//!
//! Synchronisation: a plug is its task's own; tags are one atomic word. Ends come from interrupts
//! and take no lock over which a task could be interrupted.
//!
//! From: `page_cache::read`, `writeback::io`, `swap::io` · to: the host's disks.

mod complete;
mod congestion;
#[cfg(test)]
pub(crate) mod manual;
mod plug;
mod queue;
#[cfg(test)]
mod tests;
mod vectors;
mod wbt;

pub use congestion::{Congestion, Pool, thresholds as congestion_thresholds};
pub use plug::Plug;
pub use queue::{BlockDevice, BlockLayer};
pub use vectors::{BioVector, BioVectors};
pub use wbt::WriteClass;

use alloc::vec::Vec;

use crate::host::{IoDirection, Urgency};
use crate::page::Pfn;

/// Number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u8);

/// What the kernel knows of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct DeviceSpec {
    /// Size in pages.
    pub pages: u64,
    /// Requests in flight at once (tags).
    pub depth: u32,
    /// Largest request, pages.
    pub max_request_pages: u32,
    /// Seeks cost time (`queue/rotational`): swap slots and swap readahead depend on it.
    pub rotational: bool,
    /// Done before submission returns (RAM-backed).
    pub synchronous: bool,
    /// Pages under writeback must not change (checksums).
    pub stable_writes: bool,
}

/// Whose I/O it is: decides what the end of it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BioKind {
    /// File pages are read: they are locked, and unlocked when done.
    FileRead,
    /// File pages are written: they are under writeback until done.
    FileWrite,
    /// Swap pages are read.
    SwapRead,
    /// Swap pages are written.
    SwapWrite,
}

impl BioKind {
    /// Which way the data goes.
    pub const fn direction(self) -> IoDirection {
        match self {
            BioKind::FileRead | BioKind::SwapRead => IoDirection::Read,
            BioKind::FileWrite | BioKind::SwapWrite => IoDirection::Write,
        }
    }
}

/// Pages that are contiguous on one device.
#[derive(Debug)]
pub struct Bio {
    /// The device.
    pub device: DeviceId,
    /// Whose it is.
    pub kind: BioKind,
    /// First page on the device.
    pub start: u64,
    /// The frames, in device order.
    pub pages: Vec<Pfn>,
    /// What for.
    pub urgency: Urgency,
    /// Memory that it takes.
    pub vector: BioVector,
}
