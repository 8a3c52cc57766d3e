//! Nodes and zones: the memory ranges that the allocator works on.
//!
//! * [`Zone`]: one zone of one node: free lists behind the zone lock, per-CPU lists, watermarks;
//!   [`ZoneInfo`] is the part that needs no lock and no host.
//! * [`watermark`]: pure functions over numbers: minimum, marks, reserves, thresholds, batches.
//! * [`zonelist`]: the order in which zones are tried.
//!
//! The lists of a zone are data here; [`crate::page_alloc`] moves blocks between them.
//!
//! Pages enter a zone in [`crate::page_alloc::boot`].

mod alloc_flags;
mod fresh;
mod high_atomic;
mod info;
mod pcp;
mod pcp_sizes;
mod quick;
pub mod watermark;
#[allow(clippy::module_inception, reason = "a zone is the main thing of the zone folder")]
mod zone;
pub mod zonelist;

pub use crate::units::{MemoryPolicy, NodeId, NodeMask, ZoneId, ZoneType};
pub use alloc_flags::AllocFlags;
pub(crate) use fresh::FreshRun;
pub use info::{Mark, ZoneFlags, ZoneInfo};
pub(crate) use pcp::Deferred;
pub use pcp::{OwnedLists, Pcp};
pub use zone::{CpuZone, FreeArea, MAX_FAILURES, Node, Zone};
