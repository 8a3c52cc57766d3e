//! CLOCK: one queue per type, with a second chance.
//!
//! ```text
//!     new ──▶ head ─────────────── the queue ─────────────── tail ──▶ not used: reclaimed
//!              ▲                                              │
//!              └──────────── used: its bits are cleared ──────┘
//! ```
//!
//! It is the oldest algorithm that checks uses. The hand passes every page once per turn; a page
//! that was used since is rotated, one that was not is reclaimed. There is nothing to tune: no
//! active list, no ratio, no refaults. It lacks what those are for. A stream that is read once
//! stays for a whole turn, and pushes the hand over all other pages. A page used a thousand times
//! per turn counts like one used once.
//!
//! The queue of a type is its inactive list. Other parts of the kernel use two lists, and continue
//! to make pages ACTIVE: a second `mark_accessed`, a refault, anonymous pages of kernels up to 5.8.
//! Such pages belong to the queue and were used. Before each batch, up to a batch of them moves to
//! the head of the queue, with REFERENCED set. So each still has its second chance, like a page
//! that was used in the queue.
//!
//! Pages that cannot be reclaimed now, because they are dirty or under writeback, are rotated too.
//! Under pressure from writers the hand then turns in vain, faster and faster. These pages are
//! counted, so this ends as in any algorithm: reclaimers wait, and flushers are woken. A page whose
//! write ends moves to the tail.
//!
//! From: [`super`] · to: [`crate::reclaim::batch`], [`crate::reclaim::budget`], `lru::balance`.

use super::{At, Busy, Decision, Marks, ReclaimAlgorithm, References, Rules, Uses};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::page::PageFlags;
use crate::reclaim::Control;
use crate::reclaim::batch::Look;
use crate::reclaim::budget::{self, ScanPlan};
use crate::units::LruVecId;
use crate::vm::VmaFlags;
use crate::zone::NodeId;

/// The algorithm.
pub(super) struct Clock;

/// A used page is rotated, and its record of use is cleared. Without an active list to keep them
/// out of the way, busy pages are rotated too.
const SECOND_CHANCE: Rules =
    Rules { uses: Some(second_chance), busy: Busy::Keep, marks: Marks::TakenOff };

fn second_chance(uses: &Uses) -> Decision {
    if uses.flags.contains(VmaFlags::LOCKED) {
        return (References::Activate, false);
    }
    match uses.users {
        Some(0) if !uses.was_referenced => (References::Reclaim, false),
        // Its uses are unknown: keep it.
        Some(_) | None => (References::Keep, false),
    }
}

impl<H: Devices> ReclaimAlgorithm<H> for Clock {
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        kernel.shrink_queues(cx, at, sc, SECOND_CHANCE)
    }

    /// The hand is all the aging there is.
    fn age(&self, _: &Kernel<H>, _: &Cx<'_, H>, _: At, _: &mut Control) {}

    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64 {
        kernel.queued_on(node)
    }

    /// Refaults are not compared: they would say whether to shrink an active list.
    fn run_done(&self, _: &Kernel<H>, _: LruVecId) {}
}

/// The part that algorithms with one queue for each type share.
impl<H: Devices> Kernel<H> {
    /// Pages on the queues of a node; without swap, on those of files.
    pub(super) fn queued_on(&self, node: NodeId) -> u64 {
        let can_swap = self.swap.nr_free() > 0;
        let of_type = |page_type| {
            let stats = &self.mem.node(node).stats;
            let size =
                |is_active| stats.read(LruKind::new(page_type, is_active).node_stat() as usize);
            size(false) + size(true)
        };
        of_type(PageType::File) + if can_swap { of_type(PageType::Anon) } else { 0 }
    }

    /// Takes from the tails of both queues by the share that the priority asks for; the pages
    /// freed.
    pub(super) fn shrink_queues(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        rules: Rules,
    ) -> u64 {
        let targets = self.queue_targets(cx, at, sc);
        let mut plan = ScanPlan::new(targets, sc.scans_all(), self.mem.policy.reclaim.proportional);
        let mut got = 0;
        self.plug_start(cx);
        while plan.goes_on() {
            for page_type in PageType::ALL {
                let want = plan.bite(LruKind::new(page_type, false) as usize);
                if want != 0 {
                    self.join_queue(cx, at, sc, page_type, want);
                    got += self.reclaim_batch(cx, at, sc, page_type, want, rules);
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

    /// Pages to scan, as if both lists of a type were its inactive list. The types share the work
    /// as in any algorithm: the hand does not depend on their costs.
    fn queue_targets(&self, cx: &Cx<'_, H>, at: At, sc: &Control) -> budget::Lists {
        let weights = self.balance_weights(cx, at.1);
        let lists = self.lru.vec(at.1);
        let mut sizes = [0; 4];
        for page_type in PageType::ALL {
            let [queue, active] = [false, true].map(|a| LruKind::new(page_type, a));
            let size = |list| lists.size_upto(list, sc.reclaim_idx);
            sizes[queue as usize] = size(queue) + size(active);
        }
        let anon = sizes[LruKind::InactiveAnon as usize];
        let file_is_tiny = anon >> sc.priority != 0 && self.is_short_of_file(at);
        let mode = budget::mode(self.mode_input(sc, at.1, file_is_tiny, false), weights);
        budget::targets(sizes, sc.priority, mode)
    }

    /// Takes ACTIVE pages down to the head of the queue, as many as may leave its tail next. The
    /// hand could not get past them otherwise: it sees the queue only.
    fn join_queue(&self, cx: &Cx<'_, H>, at: At, sc: &Control, page_type: PageType, want: u64) {
        if self.lru.vec(at.1).size(LruKind::new(page_type, true)) == 0 {
            return;
        }
        self.refill_batch(cx, at, sc, page_type, want, |_, page| {
            page.flag_set::<H>(PageFlags::REFERENCED);
            Look { was_used: true, stays: false }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_use_is_a_second_chance_and_is_forgotten() {
        let none = VmaFlags::empty();
        let unused = Uses {
            users: Some(0),
            flags: none,
            was_referenced: false,
            was_noted: false,
            was_workingset: false,
            is_file: true,
        };
        for is_file in [false, true] {
            let unused = Uses { is_file, ..unused };
            assert_eq!(second_chance(&unused), (References::Reclaim, false));
            for used in [
                Uses { users: Some(1), ..unused },
                Uses { users: Some(9), flags: VmaFlags::EXEC, ..unused },
                Uses { was_referenced: true, ..unused },
                Uses { users: Some(1), was_referenced: true, ..unused },
                Uses { users: None, ..unused },
            ] {
                assert_eq!(second_chance(&used), (References::Keep, false), "{used:?}");
            }
            let locked = Uses { flags: VmaFlags::LOCKED, ..unused };
            assert_eq!(second_chance(&locked), (References::Activate, false));
        }
    }
}
