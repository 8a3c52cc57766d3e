//! The simulated CPUs: who runs where ([`sched`]) and how often ([`Nice`]), interrupts between them ([`ipi`]) and what
//! their caches hold ([`cache_warmth`]).

pub mod cache_warmth;
pub mod ipi;
pub mod sched;
pub(crate) mod shares;
mod warm_frames;

pub use highwater_core::host::CpuId;
pub use sched::{CpuTimes, SchedParams, Topology};
pub use shares::Nice;
