//! stress-highalloc: the number of huge blocks that can be allocated while kernels are built, and
//! after (mmtests; rules/benchmarks#highalloc-script).
//!
//! Key types:
//!
//! * [`Sizes`]: the script's sizes, computed from memory.
//! * [`Disk`] and [`Tree`]: kernel sources as files.
//! * [`Build`]: a `make` of one job (the body of a task).
//! * [`Daemon`]: another program of the system.
//! * [`Pass`]: the attempts.
//! * [`flush()`]: a file as large as memory.
//!
//! The driver, `highwater::workload::highalloc`, decides the order.
//!
//! | file | holds |
//! |---|---|
//! | [`sizes`] | formulas |
//! | [`tree`] | trees: sizes of their files, unpacking, copying |
//! | [`build`] | the work of `make`, compile by compile |
//! | [`compile`] | the processes of one compile |
//! | [`child`] | a process and its mapped memory |
//! | [`system`] | the programs of a booted distribution |
//! | [`pass`] | the attempts, and the wait between two |
//! | [`mod@flush`] | writing, reading and deleting a file |
//!
//! The host passes CPU time of programs: the caller that starts a build supplies [`Compute`].

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

/// Makes a program compute for this many nanoseconds of CPU time, in user mode.
pub type Compute<H> = dyn Fn(&Cx<'_, H>, u64);
