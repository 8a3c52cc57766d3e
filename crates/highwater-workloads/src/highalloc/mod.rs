//! stress-highalloc: how many huge blocks can be had while kernels are built, and after
//! (mmtests; rules/benchmarks#highalloc-script).
//!
//! Key types: [`Sizes`] (what the script computes from memory), [`Disk`] and [`Tree`] (kernel sources as files),
//! [`Build`] (a `make` of one job: the body of a task), [`Daemon`] (a program
//! of the system beside), [`Pass`] (the attempts), [`flush()`] (a file as large as memory).
//! The order of all that is the driver's: `highwater::workload::highalloc`.
//!
//! | file | holds |
//! |---|---|
//! | [`sizes`] | formulas |
//! | [`tree`] | trees: how large their files are, unpacking, copying |
//! | [`build`] | what `make` does, compile by compile |
//! | [`compile`] | the processes of one compile |
//! | [`child`] | a process, and the memory that it maps |
//! | [`system`] | the programs of a booted distribution |
//! | [`pass`] | the attempts, and the wait between two |
//! | [`mod@flush`] | writing, reading and deleting a file |
//!
//! CPU time of programs is the host's to pass: whoever starts a build says how ([`Compute`]).

mod build;
mod child;
mod compile;
mod flush;
mod pass;
mod sizes;
mod system;
mod tree;

pub use build::{Build, Built};
pub use flush::flush;
pub use pass::{Pass, PassEnd, pace_jiffies};
pub use sizes::{BUILD_MIB, HUGE_ORDER, RATE_MIB, Sizes};
pub use system::{Daemon, SystemSize};
pub use tree::{Disk, Entry, Tree};

use highwater_core::host::Cx;

/// Has a program compute for so many nanoseconds of CPU time, in its own code.
pub type Compute<H> = dyn Fn(&Cx<'_, H>, u64);
