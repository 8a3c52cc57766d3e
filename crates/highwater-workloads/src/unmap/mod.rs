//! Unmapping young file pages (study 003).
//!
//! The workload has two parts. In the first ([`Mapper`]), each process maps a cached file, reads
//! every page and unmaps it, twice. The second time the pages are inactive and referenced, so a
//! kernel that marks them accessed activates them. Both unmaps are timed: the difference is the
//! cost of activation. All processes unmap at the same moment, which shows the cost of a contended
//! LRU lock. The second part ([`aftermath()`]) shows what reclaim then does with such pages.
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

/// The reason why the workload failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {error}")]
pub struct UnmapError {
    /// The operation.
    pub doing: &'static str,
    /// Its error.
    pub error: Error,
}

fn called<T>(doing: &'static str, result: Result<T, Error>) -> Result<T, UnmapError> {
    result.map_err(|error| UnmapError { doing, error })
}
