//! stutterp: the time to map and touch memory while writers fill the page cache and hogs fill the
//! rest (mmtests; rules/benchmarks#stutterp-step).
//!
//! Key types:
//!
//! * [`Writer`], [`Reader`], [`Hog`], [`Latency`]: the four kinds of workers, each a value whose
//!   `run` is the body of a task.
//! * [`Stop`]: ends the workers.
//! * [`Step`]: the number and sizes of the workers.
//! * [`worker_seed`]: the seed of a worker's random choices.
//!
//! A worker is a process with an address space, so that the OOM killer sees it. A killed worker
//! ends without an error, and its work is missing from then on, as in the benchmark.

mod hog;
mod latency;
mod memory;
mod reader;
mod step;
mod writer;

pub use crate::random::{Chooser, worker_seed};
pub use crate::stop::Stop;
pub use hog::{Hog, HogHabit};
pub use latency::{Lap, Latency};
pub use reader::Reader;
pub use step::{Sizes, Step};
pub use writer::{Writer, WriterHabit};
