//! Devices: requests from the block layer, and their completion.
//!
//! A [`Bio`] is one submitter's request. An [`IoRequest`] is a device's request: contiguous bios
//! that [`crate::block`] merged.

use alloc::vec::Vec;

use super::Tasks;
use crate::units::{DeviceId, IoDirection, IoError, Pfn, Urgency};

/// The kind of mapping of its pages, which decides the effect of its end.
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

/// One block I/O: pages that are contiguous on one device (`struct bio`).
#[doc(alias = "bio")]
#[derive(Debug)]
pub struct Bio {
    /// The device.
    pub device: DeviceId,
    /// The mapping of its pages.
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

/// Where a bio's list of pages lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BioVector {
    /// In the bio: it is short.
    #[default]
    Inline,
    /// In a separate page.
    Page(Pfn),
    /// In a page of a reserve; the index selects the reserve.
    Reserve(usize),
}

/// Which count a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteClass {
    /// None: it is not throttled.
    #[default]
    Free,
    /// Writes.
    Other,
    /// kswapd's writes.
    Kswapd,
}

/// One request of a device: contiguous on it, scattered in memory (`struct request`).
#[doc(alias = "request")]
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
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)>;
}
