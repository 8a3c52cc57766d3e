//! stutter: the time to map and touch memory while a large file is copied and another program holds
//! most of memory (mmtests; rules/benchmarks#stutter-script).
//!
//! Key types: [`Sizes`] (the script's sizes, computed from memory), [`Copier`] (copies the file and
//! syncs), [`Zeros`] (writes a file of zeros). The memory hog and the latency worker are those of
//! [`stutterp`](crate::stutterp), which was derived from this benchmark.

mod copier;
mod sizes;
mod zeros;

pub use crate::stop::Stop;
pub use crate::stutterp::{Hog, HogHabit, Lap, Latency};
pub use copier::Copier;
pub use sizes::{Shares, Sizes};
pub use zeros::Zeros;
