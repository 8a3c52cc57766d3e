//! Finds the least value that meets objectives: how much memory does this job need?
//!
//! An [`Objective`] is a metric and a bound (`reader.get.p99<5ms`). [`search()`] halves a range
//! until it is narrow. Every point runs the same seeds. A point is good only if all objectives hold
//! in every seed and no task ended early: by an OOM kill, a refused `mmap`, or a machine that does
//! not boot.
//!
//! Key types: [`Fit`] (the question), [`Answer`] (the result), [`Point`] (one tried value).

mod ask;
mod objective;
mod search;

pub use ask::{Answer, Fit, FitError, Place, Point, Refused};
pub use objective::Objective;
pub use search::{Found, above, search};
