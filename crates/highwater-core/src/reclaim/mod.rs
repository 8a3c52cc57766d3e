//! Page reclaim (spec 02): kswapd, direct reclaim, what becomes of each page, throttling, OOM.
//!
//! Key types: [`Control`] (one reclaim's state), [`ReclaimNode`] (a node's kswapd and queues),
//! [`budget`] (pure sums).
//!
//! From: `page_alloc::slow` through `Relief`, kswapd's own loop · to: `lru`, `vm::rmap`, `swap`,
//! `page_cache`.

mod active;
mod balance;
pub mod budget;
mod control;
mod direct;
mod folios;
mod inactive;
mod isolate;
mod kswapd;
mod node;
mod oom;
mod shrinker;
mod suitable;
#[cfg(test)]
mod tests;
mod throttle;

pub use control::{Control, PassSums};
pub use isolate::{IsolateMode, Isolated};
pub use kswapd::ReclaimNode;
pub use oom::OomState;
pub use shrinker::{Shrinker, Shrinkers, Shrunk};
pub use suitable::{Suitability, fragmentation_index, suitability};
pub use throttle::{Demand, DemandDomain};

pub use crate::units::ThrottleReason;
