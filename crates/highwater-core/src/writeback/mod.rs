//! Writeback (spec 04 §7, §8): limits, the flusher of each device, writing one file.
//!
//! Key types: [`Writeback`] (one device's dirty files and its flusher's work), [`limits`] (pure
//! sums).
//!
//! From: `page_cache::dirty`, `reclaim` (wake-ups) · to: `block`.

mod flusher;
mod io;
pub mod limits;
#[cfg(test)]
mod tests;
mod throttle;

pub use flusher::{DirtyFiles, WriteReason, Writeback};
pub use io::PageWrite;
pub use limits::{DirtiedPages, DirtyLimits};
pub use throttle::DirtyDomain;
