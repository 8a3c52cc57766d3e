//! Writeback (rules/dirty-throttling#limits, rules/writeback#flusher): limits, throttling of
//! writers, the flusher of each device, writing one file.
//!
//! Key types: [`Writeback`] (one device's dirty files, its flusher's work, its speed),
//! [`DirtyDomain`] (the state shared by all devices). Decisions are pure arithmetic: [`limits`],
//! [`Position`], [`Rates`], [`Pauses`], [`RecentCount`].
//!
//! From: `page_cache::dirty`, `reclaim` (wake-ups) · to: `block`.

mod flusher;
mod group;
mod io;
pub mod limits;
mod pause;
mod position;
mod rate;
mod share;
#[cfg(test)]
mod tests;
mod throttle;

pub use flusher::{DirtyFiles, WriteReason, Writeback};
pub use io::PageWrite;
pub use limits::{DirtiedPages, DirtyLimits, DirtySettings};
pub use pause::Pauses;
pub use position::Position;
pub use rate::{Rates, Sample};
pub use share::RecentCount;
pub use throttle::DirtyDomain;
