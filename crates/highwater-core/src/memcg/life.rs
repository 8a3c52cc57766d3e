//! The end of groups, and of tasks in them (rules/memory-cgroups#removal). Making, entering and
//! removing them is `syscall::groups`.

use super::GroupLife;
use super::group::{Kept, TaskGroup};
use super::objects::TokenId;
use crate::config::MemcgStats;
use crate::host::{CpuId, Cx, Devices, GroupChange, Lock};
use crate::kernel::Kernel;
use crate::units::GroupId;
use crate::vmstat::{FLUSH_PERIOD, Reader};

impl<H: Devices> Kernel<H> {
    /// The running task ends, and leaves its group.
    #[doc(alias = "cgroup_exit")]
    pub(crate) fn leave_group(&self, cx: &Cx<'_, H>) {
        if self.mem.groups.is_on() {
            let own = &cx.local::<TaskGroup>().group;
            self.memcg.move_task(own.replace(GroupId::ROOT), GroupId::ROOT);
            cx.host.group_changed(GroupChange::Joined { group: GroupId::ROOT });
        }
    }

    /// Gives back what CPUs hold for the groups below one, itself included.
    ///
    /// Linux: other CPUs do it in queued work, for which nobody waits.
    #[doc(alias = "drain_all_stock")]
    pub(crate) fn drain_group_stocks(&self, cx: &Cx<'_, H>, group: GroupId, which: Stocks) {
        for cpu in 0..self.memcg.stocks.len() {
            let is_chosen = |other: GroupId| match which {
                Stocks::Own => other == group,
                Stocks::Subtree => self.mem.groups.memory.is_within(other, group),
            };
            let (surplus, released) = {
                let mut stock = self.memcg.stocks[CpuId(cpu as u16).idx()].lock(cx.cpu());
                let holds_objects = stock
                    .objects
                    .token()
                    .is_some_and(|token| is_chosen(self.memcg.tokens.owner(token)));
                let released = holds_objects.then(|| stock.objects.drain(&self.memcg.tokens));
                if released.is_none() && !stock.pages.has_pages(is_chosen) {
                    continue;
                }
                (stock.pages.drain(is_chosen), released)
            };
            surplus.into_iter().for_each(|surplus| self.uncharge_surplus(cx, surplus));
            if let Some(released) = released {
                self.take_released(cx, released);
            }
        }
    }

    /// A removed group to which nothing is charged any more is gone; its place is free once the
    /// kernel's memory from its time is freed too.
    #[doc(alias = "mem_cgroup_css_released")]
    #[inline]
    pub(crate) fn release_if_empty(&self, cx: &Cx<'_, H>, group: GroupId) {
        match self.memcg.life(group) {
            GroupLife::Free | GroupLife::Online | GroupLife::Removed => {}
            GroupLife::Offline => self.release(cx, group),
            GroupLife::Hollow => self.vacate(cx, group),
        }
    }

    #[cold]
    fn release(&self, cx: &Cx<'_, H>, group: GroupId) {
        let has_child = self.memcg.tree.first_child(group).is_some();
        let keepers = [Kept::User, Kept::Sockets, Kept::SocketPages];
        let is_kept = keepers.iter().any(|&kind| self.memcg.kept(group, kind) != 0);
        if has_child || is_kept || self.mem.groups.swap[group].usage() != 0 {
            return;
        }
        self.memcg.set_life(group, GroupLife::Hollow);
        let parent = self.memcg.tree.ancestors(group).nth(1);
        self.memcg.tree.remove(group);
        self.memcg.forget_positions(group);
        self.memcg.turns.iter().for_each(|turns| turns.lock(cx.cpu()).remove(group));
        self.vacate(cx, group);
        if let Some(parent) = parent {
            self.release_if_empty(cx, parent);
        }
    }

    /// A place is free for another group once no memory of the kernel names it. No CPU may hold
    /// bytes of its token then: they would be the next group's.
    fn vacate(&self, cx: &Cx<'_, H>, group: GroupId) {
        let kernel = [Kept::Kernel, Kept::Objects];
        if kernel.iter().any(|&kind| self.memcg.kept(group, kind) != 0) {
            return;
        }
        let token = TokenId(group.0);
        for stock in &self.memcg.stocks {
            let released = {
                let mut stock = stock.lock(cx.cpu());
                let is_held = stock.objects.token() == Some(token);
                is_held.then(|| stock.objects.drain(&self.memcg.tokens))
            };
            if let Some(released) = released {
                self.take_released(cx, released);
            }
        }
        // Bytes that are parked in the token were charged too.
        let (payer, pages) = (self.memcg.tokens.owner(token), self.memcg.tokens.end(token));
        if !payer.is_root() {
            self.mem.groups.memory.uncharge(payer, pages);
        }
        self.memcg.set_life(group, GroupLife::Free);
    }

    /// Reports whether this kernel adds up the statistics of groups now and then.
    pub(crate) fn has_stats_flusher(&self) -> bool {
        self.mem.groups.is_on() && self.mem.policy.memcg.stats != MemcgStats::Batches
    }

    /// Adds up the statistics of all groups every two seconds, until the kernel shuts down.
    ///
    /// Linux 5.13 on. Reclaim goes by sums that are as old as the last flush, so it matters when
    /// the worker ran.
    #[doc(alias = "flush_memcg_stats_dwork")]
    pub(crate) fn run_stats_flusher(&self, cx: &Cx<'_, H>) {
        self.mem.groups.worker_begins();
        loop {
            let wait = &self.memcg.flusher_wait;
            wait.wait_jiffies(cx, "statistics to add up", FLUSH_PERIOD, || self.is_stopping());
            if self.is_stopping() {
                return;
            }
            self.mem.groups.flush_all(cx.host.jiffies());
        }
    }

    /// Adds up the statistics of groups if this reader does so.
    pub(crate) fn flush_group_stats(&self, cx: &Cx<'_, H>, reader: Reader, group: GroupId) {
        self.mem.groups.flush_for(reader, group, cx.host.jiffies());
    }
}

/// Groups whose charges CPUs give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stocks {
    /// One alone.
    Own,
    /// One and all below.
    Subtree,
}
