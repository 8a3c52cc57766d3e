//! Charging and uncharging pages of users (rules/memory-cgroups#who-pays).
//!
//! A page is charged before it is mapped or put into the page cache, and stays charged to that
//! group until it is freed, wherever the task that touched it goes.
//!
//! From: `vm::fault`, `page_cache`, `swap`, `migrate` · to: [`super::Charge`], counters.

use core::hint::cold_path;

use super::Charge;
use super::group::{Kept, TaskGroup};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::page_alloc::Gfp;
use crate::units::GroupId;
use crate::vmstat::{GroupStat, UNLIMITED};

impl<H: Devices> Kernel<H> {
    /// The group that a task's page cache is charged to; the root if groups are off.
    #[doc(alias = "mem_cgroup_from_task")]
    #[inline(always)]
    pub(crate) fn group_of_task(&self, cx: &Cx<'_, H>) -> GroupId {
        if !self.mem.groups.is_on() {
            return GroupId::ROOT;
        }
        cold_path();
        cx.local::<TaskGroup>().group.get()
    }

    /// Counts an event of the running task's group.
    #[doc(alias = "count_memcg_event_mm")]
    #[inline(always)]
    pub(crate) fn count_of_task(&self, cx: &Cx<'_, H>, item: GroupStat) {
        if self.mem.groups.is_on() {
            cold_path();
            self.count_of_group_task(cx, item);
        }
    }

    #[inline(never)]
    fn count_of_group_task(&self, cx: &Cx<'_, H>, item: GroupStat) {
        let at = (cx.local::<TaskGroup>().group.get(), self.mem.cpu_node(cx.cpu()));
        self.mem.groups.count(cx.cpu(), at, item, 1);
    }

    /// Charges a new folio to a group; false if its limit refuses, after reclaim as far as `gfp`
    /// allows. Nothing maps the folio yet.
    ///
    /// Linux: same job; the folio's group is stored in the descriptor.
    #[doc(alias = "mem_cgroup_charge")]
    #[doc(alias = "charge_memcg")]
    #[must_use]
    #[inline(always)]
    pub(crate) fn charge_folio(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        group: GroupId,
        gfp: Gfp,
    ) -> bool {
        if group.is_root() {
            return true;
        }
        cold_path();
        // An address space may outlive the group of its last task.
        let group = self.memcg.online(group);
        if !self.try_charge(cx, group, gfp, folio.nr_pages()) {
            return false;
        }
        self.own_folio(cx, folio, group);
        true
    }

    fn own_folio(&self, cx: &Cx<'_, H>, folio: Folio, group: GroupId) {
        debug_assert!(self.mem.groups.owner(folio).is_root(), "{folio:?} is charged twice");
        self.mem.groups.set_owner(folio, group);
        self.memcg.keep(group, Kept::User, folio.nr_pages() as i64);
        self.count_paging(cx, folio, group, GroupStat::Pgpgin);
    }

    /// Counts the pages of a folio that was charged or uncharged. Only version 1 shows such counts.
    #[inline]
    pub(crate) fn count_paging(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        group: GroupId,
        item: GroupStat,
    ) {
        if self.mem.groups.is_v1() {
            let at = (group, self.mem.map.page(folio).node());
            self.mem.groups.count(cx.cpu(), at, item, folio.nr_pages() as i64);
        }
    }

    /// Uncharges a folio that is about to be freed. Its pages do not go into the CPU's stock.
    #[doc(alias = "mem_cgroup_uncharge")]
    #[doc(alias = "mem_cgroup_uncharge_list")]
    #[inline(always)]
    pub(crate) fn uncharge_folio(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.mem.groups.is_on() {
            cold_path();
            self.uncharge_owned(cx, folio);
        }
    }

    #[inline(never)]
    fn uncharge_owned(&self, cx: &Cx<'_, H>, folio: Folio) {
        let owner = self.mem.groups.owner(folio);
        if owner.is_root() {
            return;
        }
        self.mem.groups.set_owner(folio, GroupId::ROOT);
        self.mem.groups.memory.uncharge(owner, folio.nr_pages());
        self.memcg.keep(owner, Kept::User, -(folio.nr_pages() as i64));
        self.count_paging(cx, folio, owner, GroupStat::Pgpgout);
        self.oom_recover(cx, owner);
        self.release_if_empty(cx, owner);
    }

    /// A removed group's folio is its parent's from now on. The parent has paid for it all along;
    /// the root pays for nothing.
    pub(crate) fn hand_up_folio(&self, folio: Folio, from: GroupId, to: GroupId) {
        let pages = folio.nr_pages();
        self.mem.groups.set_owner(folio, to);
        self.memcg.keep(from, Kept::User, -(pages as i64));
        if to.is_root() {
            self.mem.groups.memory.uncharge(from, pages);
        } else {
            self.mem.groups.memory.hand_up(from, pages);
            self.memcg.keep(to, Kept::User, pages as i64);
        }
    }

    /// A folio's contents move to another frame: the charge is for both, until the old frame is
    /// freed ([`Kernel::leave_charge`]).
    ///
    /// Linux: charges the new folio by force, and uncharges the old one when it is freed.
    #[doc(alias = "mem_cgroup_migrate")]
    pub(crate) fn share_charge(&self, from: Folio, to: Folio) {
        if let Some(owner) = self.mem.groups.owner_if_on(from) {
            debug_assert_eq!(from.nr_pages(), to.nr_pages());
            self.mem.groups.set_owner(to, owner);
        }
    }

    /// A frame is freed whose contents moved: the other one has the charge.
    pub(crate) fn leave_charge(&self, folio: Folio) {
        if self.mem.groups.is_on() {
            self.mem.groups.set_owner(folio, GroupId::ROOT);
        }
    }

    /// A huge page becomes single pages, or several folios: all keep the owner.
    #[doc(alias = "split_page_memcg")]
    pub(crate) fn split_charge(&self, folio: Folio) {
        if self.mem.groups.is_on() {
            let owner = self.mem.groups.owner(folio);
            folio.frames().for_each(|frame| self.mem.groups.set_owner(frame, owner));
        }
    }

    /// Slots that a group may still take: the least of it and all above.
    #[doc(alias = "mem_cgroup_get_nr_swap_pages")]
    pub(crate) fn swap_room(&self, group: GroupId) -> u64 {
        let counters = &self.mem.groups.swap;
        let below_root = counters.ancestors(group).filter(|group| !group.is_root());
        let room = |group: GroupId| counters[group].max().saturating_sub(counters[group].usage());
        below_root.map(room).min().unwrap_or(UNLIMITED)
    }

    /// True if a group may still take a slot.
    pub(crate) fn has_swap_room(&self, group: GroupId) -> bool {
        self.swap_room(group) > 0
    }

    /// The group that a page coming back from swap is charged to (rules/memory-cgroups#who-pays).
    /// It is the one that its slot names, while that is online; else the group of the address space
    /// that wants it.
    #[doc(alias = "mem_cgroup_swapin_charge_folio")]
    pub(crate) fn group_of_swapped(&self, id: u16, faulting: GroupId) -> GroupId {
        match self.memcg.by_id(id) {
            Some(group) if self.memcg.is_online(group) && id != 0 => group,
            _ => faulting,
        }
    }
}
