//! Page reclaim (rules/node-pass#pass): frees memory when it is short.
//!
//! Nearly all memory is in use nearly all the time, most of it for data that can be restored: page
//! cache from files, anonymous memory from swap. So a machine does not wait until memory is used
//! up. It reclaims all the time, a few pages at once, those that are least likely to be missed. The
//! code separates four questions:
//!
//! | question | modules |
//! |---|---|
//! | which task reclaims, and when has it done enough? | `kswapd`, `direct`, `node_reclaim` |
//! | how many pages of which lists are scanned? | `node_pass`, `algorithm`, [`budget`] |
//! | what happens to each page? | `batch`, `folios` |
//! | what if that does not help? | `throttle` (wait for others), `oom` (kill) |
//!
//! ```text
//!  a zone is below LOW ──────▶ kswapd ────────┐
//!  below MIN, and may wait ──▶ direct ────────┼─▶ node_pass ─▶ algorithm ─▶ batch ─▶ folios ─▶ freed
//!  zone_reclaim_mode ────────▶ node_reclaim ──┘       ├─▶ shrinker         ▲
//!                                │                    └─▶ throttle         └── MADV_PAGEOUT
//!                                └─ nothing, round after round: the allocator calls oom
//! ```
//!
//! One number connects them, the *priority*. At 12 a pass scans 1/4096 of each list, at 0 all of
//! it, and a harder pass follows one that got too little. No code computes how much cache a machine
//! should have: the pressure rises until enough is reclaimed. A gentle pass meets only the least
//! recently used pages at the tails; a hard one reaches pages that would be missed.
//!
//! # Invariants
//!
//! * A page that is being judged is *isolated*: on no list, its LRU flag clear, with a reference of
//!   the reclaimer. No other task moves it, and `lru_lock` is free while it is judged, unmapped and
//!   written.
//! * Reclaim begins with no lock held, and its task has PF_MEMALLOC. Its own allocations (swap
//!   cache, bios) use the reserves and do not enter reclaim again (rules/requests#memalloc).
//!   Without that, a machine without free memory could not write a page to free one.
//! * Counters are read cheaply nearly everywhere and may lag (rules/reclaim-events#accuracy). That
//!   is tolerated because decisions are short-lived: the next pass decides again by new numbers.
//!   kswapd sleeps by such a comparison, so it reads exact counts (rules/watermarks#safe-test).
//! * The order in which pages are reclaimed is not guaranteed. It is guaranteed that unused pages
//!   are reclaimed in the end: if priority 0 frees nothing, the allocator calls the OOM killer.
//!
//! Key types: [`Control`] (one reclaim's state), [`ReclaimNode`] (a node's kswapd and queues),
//! [`budget`] (pure arithmetic).
//!
//! From: `page_alloc::slow` through `Relief`, kswapd's own loop · to: `lru`, `vm::rmap`, `swap`,
//! `page_cache`.

mod algorithm;
mod batch;
pub mod budget;
mod control;
mod counts;
mod direct;
mod folios;
mod huge_shrinker;
mod huge_swap;
mod inode_shrinker;
mod kswapd;
mod memcg;
mod node_deferral;
mod node_pass;
mod node_reclaim;
mod oom;
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
pub use memcg::{GroupSetting, NotReclaimed};
pub use oom::{OomReport, OomState};
pub use shadow_shrinker::ShadowShrinker;
pub use shrinker::{ObjectsOf, Shrinker, Shrinkers, Shrunk};
pub use state::{ReclaimNode, ReclaimState};
pub use throttle::{DemandAccount, DemandDomain};
