//! The least of something that keeps objectives: how much memory does this job need?
//!
//! An [`Objective`] is a figure and a bound (`reader.get.p99<5ms`); [`search()`] halves a range until it is narrow. Every
//! point runs the same seeds, and counts as good only if in every seed all objectives hold and no task ended before its
//! time: an OOM kill, a map that was refused, a machine that does not boot.
//!
//! Key types: [`Fit`] (what is asked), [`Answer`] (what came out), [`Point`] (one value that was tried).

mod ask;
mod objective;
mod search;

pub use ask::{Answer, Fit, FitError, Place, Point, Refused};
pub use objective::Objective;
pub use search::{Found, above, search};
