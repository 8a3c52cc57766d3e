//! Balance of anonymous memory and page cache: how much of each type is scanned.
//!
//! Reclaim can drop page cache, and can swap anonymous memory out. The lists do not show which type
//! will be missed less. Only later events show it: writes by reclaim, and refaults. So the lists
//! record what happens to their pages, and the scan budget uses two weights. The policy's rule
//! ([`BalanceRule`]) decides what is recorded and how the weights are computed. The calls are the
//! same for all implementations:
//!
//! | event | call | where |
//! |---|---|---|
//! | pages were taken off a list | [`Weigh::isolated`] | `lru::isolate` |
//! | pages were put back although they were at the tail | [`Weigh::rotated`] | `lru::isolate` |
//! | pages were written by reclaim, or came back too soon | [`Weigh::cost`] | [`Kernel::lru_note_cost`] |
//! | a pass begins | [`Weigh::weights`] | [`Kernel::balance_weights`] |
//!
//! # Contract of an implementation
//!
//! The caller holds `lru_lock` of the lists, so an implementation is plain state beside them. The
//! caller reports every event, whether or not the implementation uses it. An implementation must
//! learn: a type whose pages were in use when they were isolated, or had a cost, weighs less at the
//! next pass. It must forget: weights depend on recent events in proportion to the lists, or a
//! burst of an hour ago would still count. It must not take locks, and must give weights after any
//! events, also after none. Tests check every implementation (`contract`).
//!
//! A new implementation needs a file here and a line in the table below.
//!
//! Key types: [`Balance`] (the records of one set of lists), [`Weights`].
//!
//! Synchronisation: behind `lru_lock` of the lists.
//!
//! From: `lru::isolate`, `lru::workingset`, `reclaim` · to: nothing.

#[cfg(test)]
mod contract;

use super::{LruKind, PageType};
pub use crate::config::Weights;
use crate::config::{BalanceRule, ListSizes};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::units::LruVecId;

/// Largest `vm.swappiness`: anonymous memory only.
pub(crate) const SWAPPINESS_MAX: u64 = 200;

/// The cost of a type, as reclaim and refaults report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Pages that reclaim wrote, or that came back too soon.
    pub io: u64,
    /// Pages that were scanned and not reclaimed, or that an active list kept.
    pub rotated: u64,
}

impl Effort {
    /// That many pages of I/O.
    pub const fn io(pages: u64) -> Effort {
        Effort { io: pages, rotated: 0 }
    }
}

/// An implementation: its records, and the weights.
trait Weigh: Default {
    /// False: costs are not recorded, so callers need not take the lock to report them.
    const NOTES_COST: bool;
    /// True: pages that an active list keeps are reported as a cost too.
    const NOTES_ACTIVE: bool = false;

    /// Pages of a type were taken off a list, active or not.
    #[inline(always)]
    fn isolated(&mut self, _page_type: PageType, _pages: u64) {}

    /// Pages, by [`PageType`], were found in use at a tail and put back.
    #[inline(always)]
    fn rotated(&mut self, _pages: [u64; 2]) {}

    /// Notes the cost of a type; `evictable` pages are on the lists.
    ///
    /// Linux 5.8 on.
    #[doc(alias = "lru_note_cost")]
    #[inline(always)]
    fn cost(&mut self, _page_type: PageType, _effort: Effort, _evictable: u64) {}

    /// The lists of a removed group went behind these (7.2): so do their records.
    fn absorb(&mut self, _other: &Self) {}

    /// The weights of a pass. `size`: pages of a type on the lists.
    fn weights(&mut self, swappiness: u64, size: impl Fn(PageType) -> u64) -> Weights;
}

/// Implementations by policy rule. Only this code reads the policy: when the lists are made, and
/// before a lock is taken for an event that the implementation does not use.
macro_rules! answers {
    ($($rule:ident => $module:ident::$answer:ident,)*) => {
        $(
            mod $module;
            pub use $module::$answer;
        )*

        /// Tests every implementation.
        #[cfg(test)]
        mod tests {
            use super::contract;

            #[test]
            fn nothing_noted_is_weighed_too() {
                $(contract::weighs_from_the_start::<super::$answer>();)*
            }

            #[test]
            fn what_is_long_past_does_not_count() {
                $(contract::learns_and_forgets::<super::$answer>();)*
            }
        }

        /// The records of one set of lists.
        #[derive(Debug, PartialEq, Eq)]
        pub enum Balance {
            $(
                #[doc = concat!("As [`", stringify!($answer), "`] does.")]
                $rule($answer),
            )*
        }

        impl Balance {
            /// Nothing noted yet.
            pub(super) fn new(rule: BalanceRule) -> Self {
                match rule {
                    $(BalanceRule::$rule => Balance::$rule($answer::default()),)*
                }
            }

            /// Is [`Balance::cost`] of use?
            const fn notes_cost(rule: BalanceRule) -> bool {
                match rule {
                    $(BalanceRule::$rule => $answer::NOTES_COST,)*
                }
            }

            /// Does an active list report the pages that it keeps?
            const fn notes_active(rule: BalanceRule) -> bool {
                match rule {
                    $(BalanceRule::$rule => $answer::NOTES_ACTIVE,)*
                }
            }

            /// Pages of a type were taken off a list.
            #[inline(always)]
            pub(super) fn isolated(&mut self, page_type: PageType, pages: u64) {
                match self {
                    $(Balance::$rule(notes) => notes.isolated(page_type, pages),)*
                }
            }

            /// Pages, by [`PageType`], were put back although they were at a tail.
            #[inline(always)]
            pub(super) fn rotated(&mut self, pages: [u64; 2]) {
                match self {
                    $(Balance::$rule(notes) => notes.rotated(pages),)*
                }
            }

            fn cost(&mut self, page_type: PageType, effort: Effort, evictable: u64) {
                match self {
                    $(Balance::$rule(notes) => notes.cost(page_type, effort, evictable),)*
                }
            }

            /// The records of lists that went behind these.
            pub(super) fn absorb(&mut self, other: &Balance) {
                match (self, other) {
                    $((Balance::$rule(notes), Balance::$rule(other)) => notes.absorb(other),)*
                    // All lists of a kernel are weighed by one rule.
                    _ => debug_assert!(false, "two rules in one kernel"),
                }
            }

            fn weights(&mut self, swappiness: u64, size: impl Fn(PageType) -> u64) -> Weights {
                match self {
                    $(Balance::$rule(notes) => notes.weights(swappiness, size),)*
                }
            }
        }
    };
}

answers! {
    Rotated => rotation::ByRotation,
    Cost => cost::ByCost,
    CostRotations => cost_rotations::ByCostAndRotations,
}

impl<H: Devices> Kernel<H> {
    /// Charges an effort to a type's cost on the lists `vec`. Even a charge of 0 lets older costs
    /// fade. No effect on kernels that do not use cost (up to 5.7).
    pub fn lru_note_cost(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        page_type: PageType,
        effort: Effort,
    ) {
        if !Balance::notes_cost(self.mem.policy.reclaim.balance) {
            return;
        }
        if !self.mem.groups.is_on() {
            self.note_cost_of(cx, vec, (page_type, effort), |list| self.lru.vec(vec).size(list));
            return;
        }
        // The lists of all groups above paid for it too.
        let node = self.lru.node_of(vec);
        for group in self.memcg.tree.ancestors(self.lru.group_of(vec)) {
            let vec = self.lru.id_of_group(group, node);
            let size = |list| self.pages_of_lists(vec, list);
            self.note_cost_of(cx, vec, (page_type, effort), size);
        }
    }

    #[inline(always)]
    fn note_cost_of(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        (page_type, effort): (PageType, Effort),
        size: impl Fn(LruKind) -> u64,
    ) {
        let mut lru = self.lock_lru(cx, vec);
        let evictable = LruKind::ALL[..4].iter().map(|&list| size(list)).sum();
        lru.lists.balance.cost(page_type, effort, evictable);
    }

    /// An active list of a type kept pages that were in use. Costs them if the policy's rule does.
    pub(crate) fn note_kept_active(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        page_type: PageType,
        pages: u64,
    ) {
        if Balance::notes_active(self.mem.policy.reclaim.balance) {
            self.lru_note_cost(cx, vec, page_type, Effort { io: 0, rotated: pages });
        }
    }

    /// The weights of a pass over the lists `vec`: events before the pass count, events during it
    /// do not.
    pub(crate) fn balance_weights(&self, cx: &Cx<'_, H>, vec: LruVecId) -> Weights {
        self.balance_weights_with(cx, vec, self.swappiness_of(vec))
    }

    /// The swappiness that reclaim of a set of lists goes by: version 1's groups have their own.
    #[inline]
    pub(crate) fn swappiness_of(&self, vec: LruVecId) -> u64 {
        match self.mem.groups.is_on() && self.mem.groups.is_v1() {
            true => self.group_swappiness(self.lru.group_of(vec)),
            false => self.mem.tunables.swappiness.get(),
        }
    }

    /// The same by another swappiness: costs are the reclaimed group's, swappiness is that of a
    /// group below it (version 1).
    pub(crate) fn balance_weights_with(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        swappiness: u64,
    ) -> Weights {
        let lists = self.lru.vec(vec);
        let size = |page_type| {
            lists.size(LruKind::new(page_type, false)) + lists.size(LruKind::new(page_type, true))
        };
        let usual = lists.lists.lock(cx.cpu()).balance.weights(swappiness, size);
        let Some(own) = &self.own else { return usual };
        let [anon, file] = [PageType::Anon, PageType::File].map(size);
        match own.weights(&ListSizes { anon, file, swappiness }, usual) {
            Weights { over: 0, .. } => Weights { anon: 1, file: 1, over: 2 },
            Weights { anon, file, over } => {
                Weights { anon: anon.min(over), file: file.min(over), over }
            }
        }
    }
}
