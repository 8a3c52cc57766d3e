//! Devices: what the block layer hands down, and how it comes back.

use alloc::vec::Vec;

use super::Tasks;
use crate::block::{Bio, DeviceId, WriteClass};

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoDirection {
    /// From the device to memory.
    Read,
    /// From memory to the device.
    Write,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// The device could not read or write (EIO).
    Device,
    /// There is no room (ENOSPC).
    NoSpace,
}

impl core::fmt::Display for IoError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            IoError::Device => "input/output error",
            IoError::NoSpace => "no space left on device",
        })
    }
}

impl core::error::Error for IoError {}

/// What a transfer is for, the least urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Written because there are many dirty pages, or old ones.
    Background,
    /// Somebody asked for it and does not wait: reclaim that wants pages clean, swapping out.
    #[default]
    Normal,
    /// Somebody waits for it: reads, fsync.
    Sync,
}

/// One transfer: contiguous on the device, scattered in memory.
#[derive(Debug)]
pub struct IoRequest {
    /// Number within its device, in order of submission.
    pub id: u64,
    /// The device.
    pub device: DeviceId,
    /// Which way.
    pub direction: IoDirection,
    /// First page on the device.
    pub start: u64,
    /// Pages.
    pub nr_pages: u32,
    /// What for: of its parts, the most urgent one's.
    pub urgency: Urgency,
    /// Which writes in flight it counts as.
    pub write_class: WriteClass,
    /// Its parts, in device order.
    pub bios: Vec<Bio>,
}

/// A host with block devices.
pub trait Devices: Tasks {
    /// Starts a transfer. When it is done the host calls [`crate::Kernel::end_request`], from
    /// interrupt context on some CPU. A device that is done at once gives the request back with its
    /// result, and the caller ends it.
    ///
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)>;
}
