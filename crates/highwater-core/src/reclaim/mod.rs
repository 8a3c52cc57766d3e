//! Page reclaim (rules/node-pass#pass): kswapd, direct reclaim, what becomes of each page,
//! throttling, OOM.
//!
//! Key types: [`Control`] (one reclaim's state), [`ReclaimNode`] (a node's kswapd and queues),
//! [`budget`] (pure sums).
//!
//! From: `page_alloc::slow` through `Relief`, kswapd's own loop · to: `lru`, `vm::rmap`, `swap`,
//! `page_cache`.

mod batch;
pub mod budget;
mod control;
mod direct;
mod folios;
mod kswapd;
mod node_pass;
mod node_reclaim;
mod oom;
mod scheme;
mod shadow_shrinker;
mod shrinker;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod throttle;

pub use crate::units::ThrottleReason;
pub use control::{Control, PassSums};
pub use oom::OomState;
pub use shadow_shrinker::ShadowShrinker;
pub use shrinker::{Shrinker, Shrinkers, Shrunk};
pub use state::{ReclaimNode, ReclaimState};
pub use throttle::{Account, DemandDomain};
