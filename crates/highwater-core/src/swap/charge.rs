//! Slots that groups pay for: `memory.swap.max` and `memory.swap.high`
//! (rules/memory-cgroups#swap).
//!
//! A slot is charged when it is taken and uncharged when it is free, not when its page is read: a
//! page in the swap cache counts for both. Each slot names the id of the group that pays.
//!
//! From: `swap`, `vm`, `reclaim` · to: `memcg`, counters.

use core::hint::cold_path;

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::memcg::GroupEvent;
use crate::page::Folio;

impl<H: Devices> Kernel<H> {
    /// Charges the slots of a folio to its group, or, if that was removed, to the nearest group
    /// above that was not. Returns the id that the slots are to name; none if `memory.swap.max`
    /// refuses. 0: the root's, which pays nothing.
    #[doc(alias = "__mem_cgroup_try_charge_swap")]
    pub(crate) fn charge_swap(&self, folio: Folio) -> Option<u16> {
        if !self.mem.groups.is_on() {
            return Some(0);
        }
        cold_path();
        let counters = &self.mem.groups.swap;
        let owner = self.mem.groups.owner(folio);
        let payer = self.mem.groups.memory.ancestors(owner).find(|&g| self.memcg.is_online(g));
        let payer = payer.filter(|payer| !payer.is_root());
        let Some(payer) = payer else { return Some(0) };
        if counters.try_charge(payer, folio.nr_pages()).is_err() {
            self.memcg.event(payer, GroupEvent::SwapMax);
            self.memcg.event(payer, GroupEvent::SwapFail);
            return None;
        }
        let id = self.memcg.id(payer);
        (0..folio.nr_pages()).for_each(|_| self.memcg.hold_id(id));
        Some(id)
    }

    /// No slot was to be had for a folio at all.
    pub(crate) fn note_swap_failed(&self, folio: Folio) {
        if let Some(owner) = self.mem.groups.owner_if_on(folio) {
            self.memcg.event(owner, GroupEvent::SwapFail);
        }
    }

    /// A slot that names an id is free.
    #[doc(alias = "__mem_cgroup_uncharge_swap")]
    pub(crate) fn uncharge_swap(&self, cx: &Cx<'_, H>, id: u16) {
        if id == 0 {
            return;
        }
        let group = self.memcg.by_id(id);
        debug_assert!(group.is_some(), "a slot keeps its id");
        self.memcg.drop_id(id);
        if let Some(group) = group {
            self.mem.groups.swap.uncharge(group, 1);
            self.release_if_empty(cx, group);
        }
    }

    /// True if more than half of the swap that a folio's group can have is in use: then a slot is
    /// given up as soon as its page is read.
    #[doc(alias = "mem_cgroup_swap_full")]
    #[inline]
    pub(crate) fn is_swap_full(&self, folio: Folio) -> bool {
        self.swap.is_full() || (self.mem.groups.is_on() && self.is_group_swap_full(folio))
    }

    /// True if the group of a folio, or one above, has used up half of its swap.
    #[inline(never)]
    fn is_group_swap_full(&self, folio: Folio) -> bool {
        let owner = self.mem.groups.owner(folio);
        let counters = &self.mem.groups.swap;
        let mut below_root = counters.ancestors(owner).filter(|group| !group.is_root());
        below_root.any(|group| {
            let counter = &counters[group];
            let half = |limit: u64| 2 * counter.usage() >= limit;
            half(counter.max()) || half(counter.high())
        })
    }
}
