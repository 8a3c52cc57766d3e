//! Memory of the kernel that groups pay for: pages, and slab objects by the byte
//! (rules/memory-cgroups#kernel).
//!
//! Objects name a *token*, not their group. A removed group hands its token to its parent, so its
//! objects follow without being touched. Here a token has the number of the group that it was made
//! for.
//!
//! From: `slab`, `vm` · to: [`super::objects`], [`super::Charge`].

use core::hint::cold_path;

use super::group::{CpuStock, Kept};
use super::objects::{Released, SlabChange, SlabKind, TOKEN_BYTES, TokenId, pages_for};
use super::{Charge, Surplus};
use crate::host::{Cx, Devices, Lock, TaskFlags};
use crate::kernel::Kernel;
use crate::page::Pfn;
use crate::page_alloc::Gfp;
use crate::units::{GroupId, NodeId};
use crate::vmstat::GroupStat;

/// Where an uncharge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncharge {
    /// Into the CPU's stock.
    ToStock,
    /// Off the counters.
    AtOnce,
}

impl<H: Devices> Kernel<H> {
    /// The group that pays for what the kernel allocates for the running task: none for interrupts
    /// and kernel threads.
    #[doc(alias = "current_obj_cgroup")]
    #[doc(alias = "get_obj_cgroup_from_current")]
    pub(crate) fn payer(&self, cx: &Cx<'_, H>) -> GroupId {
        let group = self.group_of_task(cx);
        let unpaid = TaskFlags::KTHREAD | TaskFlags::IN_INTERRUPT | TaskFlags::IN_SOFTIRQ;
        if group.is_root() || cx.flags().intersects(unpaid) { GroupId::ROOT } else { group }
    }

    /// Charges pages of the kernel that begin at a frame, to the running task's group; false if its
    /// limit refuses.
    #[doc(alias = "__memcg_kmem_charge_page")]
    #[must_use]
    pub(crate) fn charge_kernel(&self, cx: &Cx<'_, H>, pfn: Pfn, pages: u64, gfp: Gfp) -> bool {
        let group = self.payer(cx);
        if group.is_root() {
            return true;
        }
        cold_path();
        if !self.try_charge(cx, group, gfp, pages) {
            return false;
        }
        self.mem.groups.set_owner(pfn, group);
        self.memcg.keep(group, Kept::Kernel, pages as i64);
        self.count_kernel(cx, group, pages as i64);
        true
    }

    /// Uncharges pages of the kernel that are about to be freed. They go into the CPU's stock,
    /// except those of page tables, which are freed as pages of users are (captured: usage falls at
    /// once when a mapping goes).
    #[doc(alias = "__memcg_kmem_uncharge_page")]
    #[inline]
    pub(crate) fn uncharge_kernel(&self, cx: &Cx<'_, H>, pfn: Pfn, pages: u64, how: Uncharge) {
        if !self.mem.groups.is_on() {
            return;
        }
        cold_path();
        let group = self.mem.groups.owner(pfn);
        if group.is_root() {
            return;
        }
        self.mem.groups.set_owner(pfn, GroupId::ROOT);
        self.memcg.keep(group, Kept::Kernel, -(pages as i64));
        // The token's owner pays by now.
        let payer = self.memcg.tokens.owner(TokenId(group.0));
        self.count_kernel(cx, payer, -(pages as i64));
        match how {
            Uncharge::ToStock => self.refill_stock(cx, payer, pages),
            Uncharge::AtOnce if payer.is_root() => {}
            Uncharge::AtOnce => {
                self.mem.groups.memory.uncharge(payer, pages);
                self.oom_recover(cx, payer);
            }
        }
        self.release_if_empty(cx, group);
    }

    fn count_kernel(&self, cx: &Cx<'_, H>, group: GroupId, pages: i64) {
        self.mem.groups.count(cx.cpu(), (group, NodeId(0)), GroupStat::Kernel, pages);
    }

    /// Gives pages that are charged to a group to the CPU's stock.
    ///
    /// Linux: same name.
    pub(crate) fn refill_stock(&self, cx: &Cx<'_, H>, group: GroupId, pages: u64) {
        // Nothing is counted for the root itself.
        if group.is_root() {
            return;
        }
        let surplus = self.memcg.stocks[cx.cpu().idx()].lock(cx.cpu()).pages.refill(group, pages);
        surplus.into_iter().for_each(|surplus| self.uncharge_surplus(cx, surplus));
    }

    /// Uncharges what a stock had too much of.
    pub(crate) fn uncharge_surplus(&self, cx: &Cx<'_, H>, surplus: Surplus) {
        surplus.uncharge(&self.mem.groups.memory);
        self.oom_recover(cx, surplus.group);
        self.release_if_empty(cx, surplus.group);
    }

    /// Charges a slab object of `bytes` bytes on a node to a group; false if its limit refuses.
    #[doc(alias = "obj_cgroup_charge")]
    #[doc(alias = "memcg_slab_pre_alloc_hook")]
    #[must_use]
    pub(crate) fn charge_object(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        (bytes, node, kind): (usize, NodeId, SlabKind),
        gfp: Gfp,
    ) -> bool {
        let (token, bytes) = (TokenId(group.0), bytes as u32 + TOKEN_BYTES);
        let stock = &self.memcg.stocks[cx.cpu().idx()];
        if !stock.lock(cx.cpu()).objects.consume(token, bytes) {
            let (pages, rest) = pages_for(bytes);
            let payer = self.memcg.tokens.owner(token);
            if !payer.is_root() && !self.try_charge(cx, payer, gfp, pages) {
                return false;
            }
            self.count_kernel(cx, payer, pages as i64);
            // The charge may have slept: it may be another CPU by now.
            self.change_stock(cx, |stock, kernel| {
                stock.objects.put_rest(&kernel.memcg.tokens, token, rest)
            });
        }
        self.memcg.keep(group, Kept::Objects, i64::from(bytes));
        let change = SlabChange { token, node, kind, bytes: i64::from(bytes) };
        self.change_stock(cx, |stock, kernel| stock.objects.note(&kernel.memcg.tokens, change));
        true
    }

    /// Uncharges a slab object that is freed.
    #[doc(alias = "obj_cgroup_uncharge")]
    #[doc(alias = "memcg_slab_free_hook")]
    pub(crate) fn uncharge_object(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        (bytes, node, kind): (usize, NodeId, SlabKind),
    ) {
        let (token, bytes) = (TokenId(group.0), bytes as u32 + TOKEN_BYTES);
        self.change_stock(cx, |stock, kernel| {
            stock.objects.free(&kernel.memcg.tokens, token, bytes)
        });
        let change = SlabChange { token, node, kind, bytes: -i64::from(bytes) };
        self.change_stock(cx, |stock, kernel| stock.objects.note(&kernel.memcg.tokens, change));
        self.memcg.keep(group, Kept::Objects, -i64::from(bytes));
        self.release_if_empty(cx, group);
    }

    /// Changes the stock of bytes; what it gives back goes to the stock of pages and the counts.
    fn change_stock(&self, cx: &Cx<'_, H>, change: impl FnOnce(&mut CpuStock, &Self) -> Released) {
        let released = change(&mut self.memcg.stocks[cx.cpu().idx()].lock(cx.cpu()), self);
        self.take_released(cx, released);
    }

    pub(super) fn take_released(&self, cx: &Cx<'_, H>, released: Released) {
        for (token, pages) in released.pages {
            let payer = self.memcg.tokens.owner(token);
            self.count_kernel(cx, payer, -(pages as i64));
            self.refill_stock(cx, payer, pages);
        }
        for SlabChange { token, node, kind, bytes } in released.slab {
            let item = match kind {
                SlabKind::Reclaimable => GroupStat::SlabReclaimable,
                SlabKind::Unreclaimable => GroupStat::SlabUnreclaimable,
            };
            let at = (self.memcg.tokens.owner(token), node);
            self.mem.groups.count(cx.cpu(), at, item, bytes);
        }
    }
}
