//! Making, entering and removing memory cgroups: `mkdir` and `rmdir` of a directory of cgroups, and
//! writes to its `cgroup.procs` (rules/memory-cgroups#removal).
//!
//! From: programs · to: `memcg`, `lru`, `page_cache`, `vm`.

use crate::host::{Cx, Devices, GroupChange, Lock};
use crate::kernel::Kernel;
use crate::memcg::objects::TokenId;
use crate::memcg::turns::Turn;
use crate::memcg::{GroupLife, Stocks, TaskGroup};
use crate::units::{Error, GroupId};
use crate::vm::Mm;

impl<H: Devices> Kernel<H> {
    /// Makes a group below another.
    ///
    /// # Errors
    /// If the kernel was made with room for fewer groups, or the parent was removed.
    #[doc(alias = "mem_cgroup_css_alloc")]
    pub fn make_group(&self, cx: &Cx<'_, H>, parent: GroupId) -> Result<GroupId, Error> {
        let _changes = self.memcg.changes.lock(cx.cpu());
        // Under the lock, because another task may remove the parent.
        if !self.memcg.has_directory(parent) {
            return Err(Error::Invalid);
        }
        let Some(group) = self.memcg.take_place() else {
            return Err(Error::Limit("more memory cgroups than the kernel was made for"));
        };
        self.mem.groups.reset(group);
        self.mem.groups.memory.reset(group, parent);
        self.mem.groups.swap.reset(group, parent);
        self.reset_version_one(group, parent);
        self.memcg.tokens.give(TokenId(group.0), group);
        for node in self.mem.nodes() {
            let vec = self.lru.vec(self.lru.id_of_group(group, node.id));
            vec.start_again(cx.cpu(), self.mem.policy.reclaim.balance);
        }
        self.memcg.tree.insert(group, parent);
        self.memcg.take_turns(cx.cpu(), group, Turn::New);
        self.memcg.set_life(group, GroupLife::Online);
        cx.host.group_changed(GroupChange::Made { group, parent });
        Ok(group)
    }

    /// Moves the running task, and its address space if it has one, to a group. Memory that they
    /// already have stays charged to the old group.
    ///
    /// # Errors
    /// If there is no such group.
    #[doc(alias = "mem_cgroup_attach")]
    #[doc(alias = "cgroup_attach_task")]
    pub fn join_group(
        &self,
        cx: &Cx<'_, H>,
        mm: Option<&Mm<H>>,
        group: GroupId,
    ) -> Result<(), Error> {
        if !self.memcg.has_directory(group) {
            return Err(Error::Invalid);
        }
        let own = &cx.local::<TaskGroup>().group;
        self.memcg.move_task(own.replace(group), group);
        cx.host.group_changed(GroupChange::Joined { group });
        if let Some(mm) = mm {
            mm.set_group(group);
        }
        Ok(())
    }

    /// Removes a group that has no task and no group below it. Its charges stay; its place is free
    /// for another group once they are gone. A worker takes it offline some tens of milliseconds
    /// later; on a host without that daemon this is done at once.
    ///
    /// # Errors
    /// If there is no such group, or a task is in it, or there are groups below it.
    #[doc(alias = "cgroup_destroy_locked")]
    #[doc(alias = "kill_css")]
    pub fn remove_group(&self, cx: &Cx<'_, H>, group: GroupId) -> Result<(), Error> {
        {
            let _changes = self.memcg.changes.lock(cx.cpu());
            if group.is_root()
                || !self.memcg.has_directory(group)
                || self.memcg.nr_tasks(group) != 0
                || self.memcg.tree.children(group).any(|child| self.memcg.has_directory(child))
            {
                return Err(Error::Invalid);
            }
            self.memcg.set_life(group, GroupLife::Removed);
            cx.host.group_changed(GroupChange::Removed { group });
        }
        if !self.memcg.removed.push(cx, group) {
            self.take_offline(cx, group);
        }
        Ok(())
    }

    /// Takes removed groups offline when their time comes, until the kernel shuts down.
    #[doc(alias = "css_killed_work_fn")]
    pub(crate) fn run_group_remover(&self, cx: &Cx<'_, H>) {
        while let Some(group) = self.memcg.removed.next(cx, || self.is_stopping()) {
            self.take_offline(cx, group);
        }
    }

    /// The offline step of a removed group: what it has goes to its parent, but for pages and
    /// slots, which stay charged to it until 7.2.
    #[doc(alias = "mem_cgroup_css_offline")]
    fn take_offline(&self, cx: &Cx<'_, H>, group: GroupId) {
        let parent = self.mem.groups.memory.parent(group).unwrap_or_default();
        let changes = self.memcg.changes.lock(cx.cpu());
        self.mem.groups.memory.set_min(group, 0);
        self.mem.groups.memory.set_low(group, 0);
        self.memcg.set_offline(group);
        self.memcg.take_turns(cx.cpu(), group, Turn::Next);
        // Objects follow the token; so do tokens that came from below.
        for token in self.memcg.all().map(|group| TokenId(group.0)) {
            if self.memcg.tokens.owner(token) == group {
                self.memcg.tokens.give(token, parent);
            }
        }
        self.inodes.lock(cx.cpu()).reparent(group, parent);
        self.shadow_nodes.lock(cx.cpu()).reparent(group, parent);
        self.drain_group_stocks(cx, group, Stocks::Own);
        drop(changes);
        if self.mem.policy.memcg.reparent_lru {
            self.reparent_lru(cx, group, parent);
        }
        self.release_if_empty(cx, group);
    }
}
