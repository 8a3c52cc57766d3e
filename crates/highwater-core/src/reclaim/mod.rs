//! Page reclaim (rules/node-pass#pass): getting memory back when it is short.
//!
//! Nearly all memory is in use nearly all the time, most of it for things that could be had again: cache
//! can be read, anonymous memory can come from swap. So a machine does not wait until memory is gone. It
//! takes pages back all along, a few at a time, from where they are likely not to be missed. That is four
//! questions, which are kept apart here:
//!
//! | question | rooms |
//! |---|---|
//! | who works, and when has he done enough? | `kswapd`, `direct`, `node_reclaim` |
//! | how much is looked at, of which lists? | `node_pass`, `scheme`, [`budget`] |
//! | what becomes of one page? | `batch`, `folios` |
//! | what if that does not help? | `throttle` (wait for others), `oom` (kill) |
//!
//! ```text
//!  a zone is below LOW ──────▶ kswapd ────────┐
//!  below MIN, and may wait ──▶ direct ────────┼─▶ node_pass ─▶ scheme ─▶ batch ─▶ folios ─▶ freed
//!  zone_reclaim_mode ────────▶ node_reclaim ──┘       ├─▶ shrinker         ▲
//!                                │                    └─▶ throttle         └── MADV_PAGEOUT
//!                                └─ nothing, round after round: the allocator asks for oom
//! ```
//!
//! What ties them together is one number, the *priority*. At 12 a pass looks at a 4096th of each list, at 0
//! at all of it, and a pass that got too little is followed by a harder one. Nobody computes how much cache
//! a machine ought to have: the pressure rises until it is met. A gentle pass meets only the pages at the
//! tails, which were used least lately; a hard one gets to those that would be missed.
//!
//! # What holds everywhere
//!
//! * A page under judgement is *isolated*: on no list, its LRU flag clear, with a reference of the
//!   reclaimer's. Nobody else moves it, and `lru_lock` is free while it is judged, unmapped and written.
//! * Reclaim begins with no lock held, and its task has PF_MEMALLOC: what it allocates on the way (swap
//!   cache, bios) comes from the reserves and does not enter reclaim again (rules/requests#memalloc). Without
//!   that, a machine out of memory could not write a page to get some.
//! * Counters are read cheaply nearly everywhere and may lag (rules/reclaim-events#accuracy). That is
//!   tolerated since no decision is for long: the next pass makes it anew, from new numbers. kswapd,
//!   which sleeps on the strength of a comparison, looks closer (rules/watermarks#safe-test).
//! * Nothing is promised about which page goes first. What is promised is that pages which nobody uses go in
//!   the end: the allocator concludes from "nothing, down to priority 0" that somebody has to die.
//!
//! Key types: [`Control`] (one reclaim's state), [`ReclaimNode`] (a node's kswapd and queues), [`budget`]
//! (pure sums).
//!
//! From: `page_alloc::slow` through `Relief`, kswapd's own loop · to: `lru`, `vm::rmap`, `swap`,
//! `page_cache`.

mod batch;
pub mod budget;
mod control;
mod direct;
mod folios;
mod huge_shrinker;
mod huge_swap;
mod inode_shrinker;
mod kswapd;
mod node_deferral;
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
pub(crate) use huge_shrinker::{DeferredSplitShrinker, HugeZeroShrinker};
pub use inode_shrinker::InodeShrinker;
pub use oom::{OomReport, OomState};
pub use shadow_shrinker::ShadowShrinker;
pub use shrinker::{Shrinker, Shrinkers, Shrunk};
pub use state::{ReclaimNode, ReclaimState};
pub use throttle::{DemandAccount, DemandDomain};
