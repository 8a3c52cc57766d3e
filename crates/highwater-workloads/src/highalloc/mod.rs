//! stress-highalloc: the number of huge blocks that can be allocated while kernels are built, and
//! after (mmtests; rules/benchmarks#highalloc-script).
//!
//! Key types:
//!
//! * [`Sizes`]: the script's sizes, computed from memory.
//! * [`Disk`] and [`Tree`]: kernel sources as files.
//! * [`Build`]: a `make` of one job (the body of a task).
//! * [`Programs`]: how the host runs processes.
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
//! | [`shop`] | the things that processes of a build share, and how one starts another |
//! | [`pipe`] | a pipe between two of them |
//! | [`child`] | a process and its mapped memory |
//! | [`system`] | the programs of a booted distribution |
//! | [`pass`] | the attempts, and the wait between two |
//! | [`mod@flush`] | writing, reading and deleting a file |

mod build;
mod child;
mod compile;
mod flush;
mod pass;
mod pipe;
mod shop;
mod sizes;
mod system;
mod tree;

pub use build::{Build, Built};
pub use flush::flush;
pub use pass::{Pass, PassEnd, pace_jiffies};
pub use shop::Programs;
pub use sizes::{BUILD_MIB, HUGE_ORDER, RATE_MIB, Sizes};
pub use system::{Daemon, SystemSize};
pub use tree::{Disk, Entry, Tree};
