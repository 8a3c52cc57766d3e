//! Reclaim for memory cgroups: what a charge over a limit does, and how a pass visits groups
//! (rules/memory-cgroups).
//!
//! ```text
//!  a charge ──▶ stock ──▶ counters ──over max──▶ reclaim that group ─▶ drain ─▶ again ─▶ kill
//!                  │
//!                  └─ a group on the path over high ──▶ on the way to user space: reclaim, sleep
//! ```
//!
//! | file | has |
//! |---|---|
//! | [`charge`] | the charge, with its retries |
//! | [`limit`] | reclaim of one group and those below it |
//! | [`turns`] | the same for the machine under MGLRU, of groups that take turns |
//! | [`pass`] | a node pass over groups: protection, sizes, slab |
//! | [`high`] | `memory.high`: reclaim and sleep |
//! | [`oom`] | killing within a group |
//! | [`settings`] | writes to limits, `memory.reclaim` |
//! | [`version_one`] | limits and rules of version 1 |
//! | [`soft_limit`] | soft limits of version 1 |
//!
//! kswapd never reclaims for a limit: the task whose charge does not fit does, in its own time, on
//! whatever CPU that is. So a group with a low limit slows down itself and nobody else.
//!
//! From: `memcg` (through [`crate::memcg::Charge`]), programs · to: [`super::node_pass`], `memcg`.

mod charge;
mod high;
mod limit;
mod oom;
mod pass;
mod settings;
mod soft_limit;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_v1;
mod turns;
mod version_one;

pub use settings::{GroupSetting, NotReclaimed};
