//! Transfers: place, direction, purpose and errors.

/// Number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u8);

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
    /// No space left (ENOSPC).
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

/// The purpose of a transfer, the least urgent first.
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
