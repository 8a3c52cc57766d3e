//! The block layer: bios, plugs, merging, a request queue with a depth for each device.
//!
//! A submitter fills [`Bio`]s, and a plug ([`Plug`]) collects and merges them. Requests wait for a
//! free tag of their device's queue and go to the host ([`crate::host::Devices::submit`]). The host
//! returns them through [`crate::Kernel::end_request`], which hands each finished page to its
//! mapping.
//!
//! Synchronisation: a plug belongs to its task; tags are one atomic word. Transfers end in
//! interrupts, which take no lock that a task holds with interrupts enabled.
//!
//! From: `page_cache::read`, `writeback::io`, `swap::io` · to: the host's disks.

mod complete;
mod congestion;
mod device;
#[cfg(test)]
pub(crate) mod manual;
mod plug;
mod queue;
#[cfg(test)]
mod tests;
mod vectors;
mod wbt;

pub use crate::host::{Bio, BioKind, BioVector, WriteClass};
pub use crate::units::DeviceId;
pub use complete::Completion;
pub use congestion::{Congestion, Pool, thresholds as congestion_thresholds};
pub use device::DeviceSpec;
pub use plug::Plug;
pub use queue::{BlockDevice, BlockLayer};
pub use vectors::{BioVectors, Writer};
