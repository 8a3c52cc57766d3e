//! Reclaim algorithms: which pages of a lruvec are reclaimed.
//!
//! A node pass comes to a set of lists (a lruvec) with a priority, and leaves the choice of pages
//! to a reclaim algorithm (a *scheme* in the code). The scheme decides how many and which pages to
//! scan, what their uses mean, and which are reclaimed. It does not decide which tasks to slow
//! down, when to stop and when to kill. All schemes share the code below them: a page is written,
//! unmapped, replaced by a shadow and freed in the same way.
//!
//! ```text
//!  kswapd, direct reclaim, node reclaim           need memory, with a priority
//!        │
//!  node_pass ── shrink_slab, throttle             per node
//!        │  shrink · age · candidates · run_done
//!     a SCHEME                                    per set of lists: this folder
//!        │
//!  batch ── lru::isolate, folios (judge)          isolates pages, has them judged, puts back
//!        │
//!  vm::rmap · swap · page_cache · writeback       per page
//! ```
//!
//! | place | function |
//! |---|---|
//! | a node pass, for each set of lists: [`super::node_pass`] | [`ReclaimScheme::shrink`] |
//! | kswapd before each of its steps: `kswapd::balance` | [`ReclaimScheme::age`] |
//! | the end of a pass for a high order: repeat it? | [`ReclaimScheme::candidates`] |
//! | the end of a run of kswapd, of an attempt of direct reclaim | [`ReclaimScheme::run_done`] |
//! | direct reclaim that got nothing: another attempt? | [`Control::spared`], which `shrink` sets |
//!
//! # Contract
//!
//! The caller guarantees
//! * no lock, and a task that may wait as far as `sc.gfp` allows (it may allocate, but then does
//!   not reclaim, because the task is marked);
//! * a fresh `sc.sums` for each pass, and `sc.nr_scanned` from the start of a priority;
//! * nothing about other tasks: several may be in a scheme at once, even for the same lists, and
//!   only `lru_lock` and the LRU flag of a page exclude each other.
//!
//! A scheme must
//! * take pages off their lists only through [`Kernel::reclaim_batch`] and [`Kernel::refill_batch`] (or
//!   `lru::isolate` and [`Kernel::shrink_pages`], of which those are made), and put back every page that
//!   is not freed: the audit finds each frame in exactly one place after every simulated step. Those two
//!   also count what `/proc/vmstat` needs (pgscan, pgsteal, pgrefill, pgdeactivate, isolated pages),
//!   tell the balance of the types what it wants to know, and collect the sums by which a pass slows
//!   down or wakes flushers;
//! * deal with every page on its lists, whoever put it there with whatever flags: new ones, those that
//!   `mark_accessed` or a refault made ACTIVE, those that writeback rotated to the tail;
//! * look at about `size >> priority` pages a pass, so that priorities mean something: gentle at 12,
//!   everything at 0. Stop early once `sc.nr_to_reclaim` pages are freed, except where
//!   [`Control::scans_all`];
//! * free memory in the end if there is any to free: a page that nobody uses any more must go within a
//!   few passes of priority 0, or tasks are killed for memory that was there;
//! * respect `sc.may_unmap`, `may_swap`, `reclaim_idx` (the two batches do, but a scheme that never
//!   chooses anonymous pages without swap spares itself a scan for nothing);
//! * plug around what it writes, and yield between batches.
//!
//! A test runs the same scenes for every scheme (`tests`), `highwater-sim` drives each of them under
//! pressure with the audit on, and the swarm draws them.
//!
//! # A scheme with more state: MGLRU
//!
//! The multi-generational LRU replaces everything here, and a little outside. Its parts, and the hooks
//! that they would use:
//!
//! | part | hook |
//! |---|---|
//! | eviction loop, budget, choice of type and tier | `shrink`, instead of `budget` and the balance |
//! | sorting by generation, tiers protected at the tail | a batch of its own over `lru::isolate`: it moves pages between lists before it takes any |
//! | aging: page-table walks, a new generation | `age` (kswapd), and within `shrink` (direct reclaim) |
//! | look-around in the reference check; "mapped and referenced stays" | [`Rules::uses`]: it is told what the walk of a page's mappings found |
//! | lists by generation, where pages enter | `lru::locked`, which names a page's list by its flags: `LruKind::of` becomes a question to the scheme |
//! | sizes and births of generations, filters | state beside the lists, behind `lru_lock`, as `lru::balance`'s is |
//! | tokens in shadows, refaults by tier | `workingset_eviction` and `workingset_refault`, the scheme's to answer |
//! | no second attempt, no snapshot of refaults | `sc.spared` stays false, `run_done` does nothing |
//! | min_ttl: the OOM killer before thrashing | `age`'s answer |
//!
//! Key types: [`ReclaimScheme`], [`Scheme`] (its name).
//!
//! Synchronisation: what schemes share is behind `lru_lock`; a scheme has no state of its own so
//! far.
//!
//! From: [`super::node_pass`], `reclaim::kswapd`, [`super::direct`] · to: [`super::batch`],
//! [`super::budget`], `lru::balance`.

mod share;
#[cfg(test)]
mod tests;

use super::Control;
use super::folios::{Busy, Decision, References, Rules, Uses};
use crate::config::{Scheme, schemes};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::units::LruVecId;
use crate::zone::NodeId;

/// A set of lists and the node that it belongs to.
type At = (NodeId, LruVecId);

/// What a scheme is asked. It has no state: that is the kernel's.
pub(super) trait ReclaimScheme<H: Devices> {
    /// Shrinks a set of lists by the share that `sc.priority` asks for; the pages freed.
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64;

    /// Gets a set of lists ready for what may come: kswapd has the time, and pages that are to be judged
    /// soon are judged better if they were looked at a while ago.
    fn age(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &Control);

    /// Pages of a node that `shrink` could come to as things are.
    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64;

    /// A run over a node is done, successful or not: the next one compares with what is now.
    fn run_done(&self, kernel: &Kernel<H>, node: NodeId);
}

/// Makes the modules of all schemes, and of a name its scheme.
macro_rules! dispatch {
    ($($(#[$about:meta])* $name:ident = $module:ident,)*) => {
        $(mod $module;)*

        impl<H: Devices> Kernel<H> {
            /// The scheme of this kernel.
            pub(super) fn scheme(&self) -> &dyn ReclaimScheme<H> {
                match self.mem.policy.reclaim.scheme {
                    $(Scheme::$name => &$module::$name,)*
                }
            }
        }
    };
}
schemes!(dispatch);
