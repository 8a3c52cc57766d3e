//! The simulated CPUs: who runs where ([`sched`]), interrupts between them ([`ipi`]) and what
//! their caches hold ([`cache_warmth`]).

pub mod ipi;
pub mod sched;

pub use sched::{CpuTimes, SchedParams, Topology};

/// Index of a simulated CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuId(pub u16);

impl CpuId {
    /// The index as `usize`.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}
