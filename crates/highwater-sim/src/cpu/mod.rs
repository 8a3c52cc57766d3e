//! The simulated CPUs: scheduling ([`sched`]), nice values ([`Nice`]), interrupts between CPUs
//! ([`ipi`]) and cache warmth ([`cache_warmth`]).

pub mod cache_warmth;
pub mod ipi;
pub mod sched;
pub(crate) mod shares;
mod warm_frames;

pub use highwater_core::host::CpuId;
pub use sched::{CpuTimes, SchedParams, SchedPolicy, Topology};
pub use shares::Nice;
