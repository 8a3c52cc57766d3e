//! Slots that groups pay for: `memory.swap.max` and `memory.swap.high`
//! (rules/memory-cgroups#swap).
//!
//! A slot is charged when it is taken and uncharged when it is free, not when its page is read: a
//! page in the swap cache counts for both. Each slot names the id of the group that pays.
//!
//! Version 1 has one limit for memory and swap together, so a page counts once. It counts as memory
//! until it leaves the swap cache, and as swap until it is read again: only between the two does
//! its slot name a group (rules/memory-cgroups#v1-memsw).
//!
//! From: `swap`, `vm`, `reclaim` · to: `memcg`, counters.

use core::hint::cold_path;

use super::Slot;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::memcg::{GroupEvent, Kept};
use crate::page::Folio;
use crate::units::GroupId;
use crate::vmstat::GroupStat;

impl<H: Devices> Kernel<H> {
    /// Charges the slots of a folio to its group, or, if that has no id any more, to the nearest
    /// group above that has one. Returns the id that the slots are to name; none if `memory.swap.max`
    /// refuses. 0: the root's, which pays nothing.
    #[doc(alias = "__mem_cgroup_try_charge_swap")]
    pub(crate) fn charge_swap(&self, folio: Folio) -> Option<u16> {
        if !self.mem.groups.is_on() {
            return Some(0);
        }
        cold_path();
        if self.mem.groups.is_v1() {
            return Some(0);
        }
        let counters = &self.mem.groups.swap;
        let Some(payer) = self.payer_of_slots(folio) else { return Some(0) };
        if counters.try_charge(payer, folio.nr_pages()).is_err() {
            self.memcg.event(payer, GroupEvent::SwapMax);
            self.memcg.event(payer, GroupEvent::SwapFail);
            return None;
        }
        Some(self.hold_slots(payer, folio))
    }

    /// The group that pays for the slots of a folio: its own, or, if that has no id any more, the
    /// nearest one above that has one. None: the root's.
    ///
    /// A group has its id until its offline step, and after it as long as another slot names it.
    fn payer_of_slots(&self, folio: Folio) -> Option<GroupId> {
        let owner = self.mem.groups.owner(folio);
        let payer = self.mem.groups.memory.ancestors(owner).find(|&g| self.memcg.has_id(g));
        payer.filter(|payer| !payer.is_root())
    }

    /// The slots of a folio name a group's id, which is returned.
    fn hold_slots(&self, payer: GroupId, folio: Folio) -> u16 {
        let id = self.memcg.id(payer);
        (0..folio.nr_pages()).for_each(|_| self.memcg.hold_id(id));
        id
    }

    /// A folio leaves the swap cache for reclaim, in a version 1 hierarchy: returns the id that its
    /// slots are to name from now on; 0 for none. [`Self::leave_memory`] follows.
    pub(super) fn charge_swapped_out(&self, folio: Folio) -> u16 {
        if !self.mem.groups.is_on() || !self.mem.groups.is_v1() {
            return 0;
        }
        cold_path();
        let Some(payer) = self.payer_of_slots(folio) else { return 0 };
        self.mem.groups.swap.charge(payer, folio.nr_pages());
        self.hold_slots(payer, folio)
    }

    /// The folio is out of the swap cache, and its slots name `id`: it is no longer charged as
    /// memory, but goes on counting for memory and swap together.
    #[doc(alias = "mem_cgroup_swapout")]
    pub(super) fn leave_memory(&self, cx: &Cx<'_, H>, folio: Folio, id: u16) {
        let Some(payer) = self.memcg.by_id(id).filter(|_| id != 0) else { return };
        let counters = &self.mem.groups.memory;
        let (owner, pages) = (self.mem.groups.owner(folio), folio.nr_pages());
        self.mem.groups.set_owner(folio, GroupId::ROOT);
        counters.uncharge_own(owner, pages);
        if let Some(memsw) = counters.memsw().filter(|_| payer != owner) {
            memsw.charge(payer, pages);
            memsw.uncharge(owner, pages);
        }
        self.memcg.keep(owner, Kept::User, -(pages as i64));
        self.count_paging(cx, folio, owner, GroupStat::Pgpgout);
        self.oom_recover(cx, owner);
        self.release_if_empty(cx, owner);
    }

    /// The page of a slot is in memory again, and charged as such: in a version 1 hierarchy the
    /// slot names nobody from now on.
    #[doc(alias = "mem_cgroup_swapin_uncharge_swap")]
    pub(super) fn uncharge_swapped_in(&self, cx: &Cx<'_, H>, slot: Slot) {
        if self.mem.groups.is_on() && self.mem.groups.is_v1() {
            cold_path();
            let id = {
                let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
                let id = slots.owner(slot.offset);
                if id != 0 {
                    slots.set_owner(slot.offset, 0);
                }
                id
            };
            self.uncharge_swap(cx, id);
        }
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
            if let Some(memsw) = self.mem.groups.memory.memsw() {
                memsw.uncharge(group, 1);
                self.oom_recover(cx, group);
            }
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
