//! The setting in which small programs ran on a real Linux while its counters were recorded: the
//! content of memory before they began, and the way they made their files.
//!
//! The programs themselves are [jobs](crate::jobs); the counters of the real kernel are in
//! `reference/linux-6.1` (rules/benchmarks#scenarios).
//!
//! Key types: [`Baseline`] (the other content of memory), [`FileMaker`].

mod baseline;
mod files;

pub use baseline::{Baseline, Held, IdleLists, ZoneFree};
pub use files::FileMaker;

use highwater_core::kernel::Error;

/// The reason why a program cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// A call failed.
    #[error("{doing}: {error}")]
    Call {
        /// The purpose of the call.
        doing: &'static str,
        /// The reason.
        error: Error,
    },
    /// The files do not fit the disk.
    #[error("a file of {0} pages does not fit the disk")]
    DiskFull(u64),
}
