//! Nodes and zones: the memory ranges that the allocator works on.
//!
//! * [`Zone`]: one zone of one node: free lists behind the zone lock, per-CPU lists, watermarks;
//!   [`ZoneInfo`] is the part that needs no lock and no host.
//! * [`watermark`]: pure functions over numbers: minimum, marks, reserves, thresholds, batches.
//! * [`zonelist`]: in which order zones are tried.
//! * [`boot`]: from a machine description to zones with free lists.
//!
//! From a page's view: born in [`boot`], next [`crate::page_alloc`].

pub mod boot;
mod ids;
mod info;
pub mod watermark;
#[allow(clippy::module_inception, reason = "a zone is the main thing of the zone folder")]
mod zone;
pub mod zonelist;

pub use ids::{NodeId, NodeMask, ZoneType};
pub use info::{Mark, ZoneFlags, ZoneInfo};
pub use zone::{CpuZone, FreeArea, Node, Zone};
