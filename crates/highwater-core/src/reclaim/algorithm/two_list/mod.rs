//! Two lists for each type: the algorithm of all modelled kernels.
//!
//! ```text
//!             new, refault beyond the working set
//!                 │
//!                 ▼
//!   ┌──────── inactive ────────┐  tail: unused ──▶ reclaimed, leaves a shadow
//!   │ head                tail │──▶ used once (mapped) ──▶ head again, noted
//!   └──────────────────────────┘──▶ used more ──┐
//!        ▲                                      │ activate
//!        │ deactivate, used or not              ▼
//!   ┌───────── active ─────────┐◀── mark_accessed twice, refault within the working set
//!   │ tail                head │
//!   └──────────────────────────┘
//! ```
//!
//! Pages are reclaimed only from the inactive list. There a page must be used again to become
//! active, so a stream that is read once passes through it and does not affect the active list. The
//! active list is shrunk only in two cases: the inactive one has become too short for that test, or
//! refaults show that pages of the working set are already being evicted
//! ([`Pass::may_deactivate`]).
//!
//! Pages leave the active list whether they were used or not. Most active pages were used at some
//! time, and walking their mappings repeatedly would cost more than a second chance on the inactive
//! list.
//!
//! * `mod`: the scan loop of a set of lists, and the inputs of a pass
//! * [`active`]: deactivation · [`references`]: the meaning of uses of a page at the tail
//!
//! From: [`super`] · to: [`crate::reclaim::batch`], [`crate::reclaim::budget`], `lru::balance`.

mod active;
mod references;

pub(super) use references::decide;

use super::{At, Inputs, ReclaimAlgorithm};
use crate::config::LruTopology;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::reclaim::Control;
use crate::reclaim::budget::{self, ScanPlan};
use crate::units::LruVecId;
use crate::zone::NodeId;

/// The algorithm.
pub(super) struct TwoList;

/// The work of a pass over a set of lists. Not kept in [`Control`], because it belongs to this
/// algorithm and is new for each round.
struct Pass {
    /// By [`PageType`]: active pages may be deactivated. If not, they are spared.
    may_deactivate: [bool; 2],
    /// Pages to scan.
    targets: budget::Lists,
}

impl<H: Devices> ReclaimAlgorithm<H> for TwoList {
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        let inputs = match sc.inputs {
            Some(inputs) => kernel.inputs_of_group(cx, at, sc, inputs),
            None => kernel.prepare(cx, at, sc),
        };
        let targets = kernel.scan_targets(at, sc, &inputs);
        let pass = Pass { may_deactivate: inputs.may_deactivate, targets };
        let got = kernel.shrink_lists(cx, at, sc, &pass);
        kernel.age_anon(cx, at, sc);
        got
    }

    fn begin(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        sc.inputs = Some(kernel.prepare(cx, at, sc));
    }

    /// Of the types, only anonymous pages are aged without need: without swapping, or with plenty
    /// of cache, their lists are never scanned, and when they are at last, all pages would look
    /// used.
    fn age(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) {
        match kernel.mem.groups.is_on() {
            true => kernel.age_groups(cx, at.0, sc),
            false => kernel.age_anon(cx, at, sc),
        }
    }

    /// Inactive pages: active ones have to come down first. Without a free slot, those of files.
    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64 {
        kernel.inactive_on(node)
    }

    /// Refaults that the next run finds beyond these happened since.
    fn run_done(&self, kernel: &Kernel<H>, vec: LruVecId) {
        kernel.snapshot_refaults(vec);
    }
}

impl<H: Devices> Kernel<H> {
    /// Collects what the scan budget of a pass depends on (rules/scan-budget#preparation).
    #[doc(alias = "prepare_scan_count")]
    fn prepare(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> Inputs {
        let (_, vec) = at;
        let weights = self.balance_weights(cx, vec);
        let per_node = self.mem.policy.reclaim.lru == LruTopology::Node;
        // Refaults show that a shorter active list would have kept these pages, so it holds pages
        // that are needed less. Without refaults active pages are left alone, as the machine's
        // working set. (With lists per zone only sizes decide.)
        let may_deactivate = |page_type| {
            let refaulted = per_node && self.refaults_changed(vec, page_type);
            sc.spare_nothing || refaulted || self.inactive_list_is_low(vec, page_type)
        };
        let may_anon = may_deactivate(PageType::Anon);
        let may_file = may_deactivate(PageType::File);
        // Much cache of which none comes back: a stream. It is taken alone, at no cost to programs.
        let inactive_file = self.pages_of_lists(vec, LruKind::InactiveFile);
        let is_stream = inactive_file >> sc.priority != 0 && !may_file;
        let cache_trim_mode = is_stream && !sc.trims_no_more;
        sc.trims_cache = cache_trim_mode;
        // Hardly any cache, and anonymous pages that may go without touching active ones. A limit
        // of a memory cgroup says nothing about the machine's cache.
        let file_is_tiny = !sc.is_of_group() && {
            let inactive_anon = self.pages_on(at, LruKind::InactiveAnon);
            let worth_it = !may_anon && inactive_anon >> sc.priority != 0;
            (worth_it || !per_node) && self.is_short_of_file(at)
        };
        let may_deactivate = [may_anon, may_file];
        Inputs { weights, may_deactivate, cache_trim_mode, file_is_tiny }
    }

    /// The shared inputs of a pass, for one of its groups: version 1's groups each have a
    /// swappiness.
    #[inline]
    fn inputs_of_group(&self, cx: &Cx<'_, H>, at: At, sc: &Control, shared: Inputs) -> Inputs {
        if !self.mem.groups.is_v1() {
            return shared;
        }
        let (node, vec) = at;
        let target = self.lru.id_of_target(sc.target, node);
        let weights = self.balance_weights_with(cx, target, self.swappiness_of(vec));
        Inputs { weights, ..shared }
    }

    /// The pages to scan of each of the lists.
    fn scan_targets(&self, (_, vec): At, sc: &mut Control, inputs: &Inputs) -> budget::Lists {
        let lists = self.lru.vec(vec);
        let sizes = core::array::from_fn(|i| lists.size_upto(LruKind::ALL[i], sc.reclaim_idx));
        let input = self.mode_input(sc, vec, inputs.file_is_tiny, inputs.cache_trim_mode);
        let mode = budget::mode(input, inputs.weights);
        match self.mem.groups.is_on() {
            true => self.group_targets(self.lru.group_of(vec), sc, sizes, mode),
            false => budget::targets(sizes, sc.priority, mode),
        }
    }

    /// Shrinks one set of LRU lists by its scan budget, a batch of each list in turn
    /// (rules/scan-budget#scan-loop). The lists take turns, a batch each, so when the scan ends
    /// they have been scanned in about the right proportion.
    #[doc(alias = "shrink_lruvec")]
    #[inline(never)]
    fn shrink_lists(&self, cx: &Cx<'_, H>, at: At, sc: &mut Control, pass: &Pass) -> u64 {
        let rule = self.mem.policy.reclaim.proportional;
        let mut plan = ScanPlan::new(pass.targets, sc.scans_all(), rule);
        let mut got = 0;
        // Plugging merges the writes: neighbours in swap go in one request.
        self.plug_start(cx);
        while plan.goes_on() {
            for page_type in PageType::ALL {
                let want = plan.bite(LruKind::new(page_type, false) as usize);
                if want != 0 {
                    got += self.shrink_inactive(cx, at, sc, page_type, want);
                }
                // The share of an active list that is spared is used up all the same: the others
                // must not get more for it.
                let want = plan.bite(LruKind::new(page_type, true) as usize);
                if want == 0 {
                } else if pass.may_deactivate[page_type as usize] {
                    self.shrink_active(cx, at, sc, page_type, want);
                } else {
                    sc.spared = true;
                }
            }
            cx.host.yield_now();
            if !plan.round_done(got, sc.nr_to_reclaim) {
                break;
            }
        }
        self.plug_finish(cx);
        got
    }

    /// Reclaims a batch of `want` pages at most from the tail of the inactive list of a type;
    /// returns the pages freed.
    ///
    /// Linux: here the two-list LRU's rules; `reclaim_batch` does the work.
    #[doc(alias = "shrink_inactive_list")]
    pub(in crate::reclaim) fn shrink_inactive(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        page_type: PageType,
        want: u64,
    ) -> u64 {
        let rules = references::rules(self.mem.policy.reclaim.anon_new);
        self.reclaim_batch(cx, at, sc, page_type, want, rules)
    }
}
