//! Unmapping young file pages (study 003).
//!
//! Two parts. [`Mapper`]: processes map a cached file each, read every page, unmap it, twice; the
//! second time the pages are inactive and referenced, so a kernel that marks them accessed activates
//! them. Both unmaps are timed, so that the difference is what activation costs. All processes unmap
//! at the same moment, which shows what the LRU lock costs when many want it.
//! [`aftermath()`]: what reclaim makes of such pages afterwards.
//!
//! A timed unmap is the whole of `munmap`: the study's probe saw only the loop over one page table,
//! which is nearly all of it.

mod aftermath;
mod barrier;
mod mapper;

pub use aftermath::{Aftermath, aftermath};
pub use barrier::Barrier;
pub use mapper::{Mapper, RoundTimes};

use highwater_core::kernel::Error;

/// Why the workload failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {error}")]
pub struct UnmapError {
    /// What it did.
    pub doing: &'static str,
    /// Why that failed.
    pub error: Error,
}

fn called<T>(doing: &'static str, result: Result<T, Error>) -> Result<T, UnmapError> {
    result.map_err(|error| UnmapError { doing, error })
}
