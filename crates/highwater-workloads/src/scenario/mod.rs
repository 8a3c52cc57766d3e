//! The ground on which small programs were run on a real Linux, and counted: what was in memory before they began, and how
//! they made their files.
//!
//! The programs themselves are [jobs](crate::jobs); what the real kernel counted is in `reference/linux-6.1`
//! (rules/benchmarks#scenarios).
//!
//! Key types: [`Baseline`] (what else was in memory), [`FileMaker`].

mod baseline;
mod files;

pub use baseline::{Baseline, Held, IdleLists, ZoneFree};
pub use files::FileMaker;

use highwater_core::kernel::Error;

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// A call failed.
    #[error("{doing}: {error}")]
    Call {
        /// What was to be done.
        doing: &'static str,
        /// Why it failed.
        error: Error,
    },
    /// The files do not fit the disk.
    #[error("a file of {0} pages does not fit the disk")]
    DiskFull(u64),
}
