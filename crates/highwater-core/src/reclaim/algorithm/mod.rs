//! Reclaim algorithms: which pages of a lruvec are reclaimed.
//!
//! A node pass comes to a set of lists (a lruvec) with a priority, and leaves the choice of pages
//! to a reclaim algorithm. The algorithm decides how many and which pages to scan, what their uses
//! mean, and which are reclaimed. It does not decide which tasks to slow down, when to stop and
//! when to kill. All algorithms share the code below them: a page is written, unmapped, replaced by
//! a shadow and freed in the same way.
//!
//! ```text
//!  kswapd, direct reclaim, node reclaim           need memory, with a priority
//!        │
//!  node_pass ── shrink_slab, throttle             per node
//!        │  shrink · age · candidates · run_done
//!     an ALGORITHM                                per set of lists: this folder
//!        │
//!  batch ── lru::isolate, folios (judge)          isolates pages, has them judged, puts back
//!        │
//!  vm::rmap · swap · page_cache · writeback       per page
//! ```
//!
//! | place | function |
//! |---|---|
//! | a node pass, for each set of lists: [`super::node_pass`] | [`ReclaimAlgorithm::shrink`] |
//! | kswapd before each of its steps: `kswapd::balance` | [`ReclaimAlgorithm::age`] |
//! | the end of a pass for a high order: repeat it? | [`ReclaimAlgorithm::candidates`] |
//! | the end of a run of kswapd, of an attempt of direct reclaim | [`ReclaimAlgorithm::run_done`] |
//! | direct reclaim that got nothing: another attempt? | [`Control::spared`], which `shrink` sets |
//!
//! # Contract
//!
//! The caller guarantees
//! * no lock, and a task that may wait as far as `sc.gfp` allows (it may allocate, but then does
//!   not reclaim, because the task is marked);
//! * a fresh `sc.sums` for each pass, and `sc.nr_scanned` from the start of a priority;
//! * nothing about other tasks: several may be in an algorithm at once, even for the same lists, and
//!   only `lru_lock` and the LRU flag of a page exclude each other.
//!
//! An algorithm must
//! * isolate pages only through [`Kernel::reclaim_batch`] and [`Kernel::refill_batch`] (or
//!   `lru::isolate` and [`Kernel::shrink_pages`], which these use), and put back every page that is
//!   not freed: the audit finds each frame in exactly one place after every simulated step. Both
//!   functions also count for `/proc/vmstat` (pgscan, pgsteal, pgrefill, pgdeactivate, isolated
//!   pages), report to the balance of the types, and collect the sums by which a pass slows down or
//!   wakes flushers;
//! * handle every page on its lists, with any flags: new pages, pages that `mark_accessed` or a
//!   refault made ACTIVE, pages that writeback rotated to the tail;
//! * scan about `size >> priority` pages in a pass, so that priorities work: gentle at 12,
//!   everything at 0. Stop early once `sc.nr_to_reclaim` pages are freed, unless
//!   [`Control::scans_all`];
//! * free memory in the end if any is reclaimable: an unused page must be reclaimed within a few
//!   passes of priority 0, or tasks are killed while memory was available;
//! * respect `sc.may_unmap`, `may_swap`, `reclaim_idx` (the two batches do, but an algorithm that skips
//!   anonymous pages without swap saves a useless scan);
//! * plug around its writes, and yield between batches.
//!
//! A test runs the same scenarios for every algorithm (`tests`), `highwater-sim` runs each of them
//! under pressure with the audit on, and the swarm draws them.
//!
//! # An algorithm with state of its own: MGLRU
//!
//! Its lists are not those of the other algorithms, so some of its parts are outside of this
//! folder:
//!
//! | part | place |
//! |---|---|
//! | lists by generation, entry of pages, marks | [`crate::lru::generations`], for `lru::locked` |
//! | sorting at the end of the oldest generation | its own batch there |
//! | tokens in shadows, refaults by tier | the same, in place of the working set's clock |
//! | eviction, budget, choice of type and tier | `shrink`, in place of budget and balance |
//! | walks over page tables | `age` (kswapd) and `shrink` (direct reclaim), by `vm::aging` |
//! | look-around | `Trail::around` of the reference check |
//! | the order of memory cgroups | `reclaim::memcg::turns` |
//! | its state of a reclaim | [`MglruRun`] in [`Control`] |
//!
//! Key types: [`ReclaimAlgorithm`], [`Algorithm`] (its name).
//!
//! Synchronisation: shared state is behind `lru_lock`.
//!
//! From: [`super::node_pass`], `reclaim::kswapd`, [`super::direct`] · to: [`super::batch`],
//! [`super::budget`], `lru::balance`.

mod share;

#[cfg(test)]
mod tests;

pub(super) use mglru::MglruRun;
pub(super) use share::Inputs;

use super::Control;
use super::folios::{Busy, Decision, Marks, References, Rules, Uses};
use crate::config::{Algorithm, algorithms};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::units::LruVecId;
use crate::zone::NodeId;

/// A set of lists and the node that it belongs to.
type At = (NodeId, LruVecId);

/// The functions of an algorithm. It has no state; the kernel holds that.
pub(super) trait ReclaimAlgorithm<H: Devices> {
    /// Shrinks a set of lists by the share that `sc.priority` asks for; the pages freed.
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64;

    /// Decides what the lists of several memory cgroups have in common in a pass: from those of the
    /// group whose memory is wanted, once ([`Control::inputs`]).
    fn begin(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        let _ = (kernel, cx, at, sc);
    }

    /// Prepares a set of lists for later passes. kswapd has the time, and pages are judged better
    /// if they were checked a while ago.
    fn age(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control);

    /// Pages of a node that `shrink` could reach at present.
    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64;

    /// A run over a node is finished, successful or not: later refaults are compared with the
    /// present state of the lists on which it prepared.
    fn run_done(&self, kernel: &Kernel<H>, vec: LruVecId);
}

/// Makes the modules of all algorithms, and of a name its algorithm.
macro_rules! dispatch {
    ($($(#[$about:meta])* $name:ident = $module:ident,)*) => {
        $(mod $module;)*

        impl<H: Devices> Kernel<H> {
            /// The algorithm of this kernel.
            pub(super) fn algorithm(&self) -> &dyn ReclaimAlgorithm<H> {
                match self.mem.policy.reclaim.algorithm {
                    $(Algorithm::$name => &$module::$name,)*
                }
            }
        }
    };
}
algorithms!(dispatch);
