//! Memory of sockets that groups pay for: whole pages of buffers, beside the pages' own accounting
//! (rules/memory-cgroups#sockets).
//!
//! A socket names a group: that of the task that made it, or that accepted it. Bytes in its buffers
//! are charged to that group in pages. The frames behind the bytes have no owner: data is shared
//! by both ends of a loopback connection, and both ends pay for what is in their own queues.
//!
//! | who charges | request | refused |
//! |---|---|---|
//! | a program that sends | `GFP_KERNEL`: reclaims from its group, may kill in it | the sender waits |
//! | a soft interrupt that receives | `GFP_NOWAIT`: never waits | the segment is dropped and sent again |
//! | either, for a socket below its guaranteed minimum | the same with NOFAIL | is charged above the limit |
//!
//! A socket keeps its group: a removed group stays, with its charges, until its last socket is
//! closed.
//!
//! From: `net` · to: [`super::Charge`], counters.

use super::group::Kept;
use super::{Charge, GroupEvent};
use crate::host::{Cx, Devices, TaskFlags};
use crate::kernel::Kernel;
use crate::page_alloc::Gfp;
use crate::units::{GroupId, NodeId};
use crate::vmstat::GroupStat;

/// The context in which a socket is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The program that sends.
    Program,
    /// The soft interrupt that receives; on the loopback device it runs on the sender's CPU.
    SoftInterrupt,
}

/// The answer that a charge may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Must {
    /// It may.
    MayFail,
    /// The protocol guarantees this memory.
    Succeed,
}

impl<H: Devices> Kernel<H> {
    /// A new socket of the running task: it names the task's group. Kernel threads and interrupts
    /// have none, and groups of version 1 do not pay for sockets.
    ///
    /// Linux: version 1 counts them for `memory.kmem.tcp`, apart from memory.
    #[doc(alias = "mem_cgroup_sk_alloc")]
    pub(crate) fn group_of_new_socket(&self, cx: &Cx<'_, H>) -> GroupId {
        if self.mem.groups.is_v1() {
            return GroupId::ROOT;
        }
        let group = self.payer(cx);
        if !group.is_root() {
            self.memcg.keep(group, Kept::Sockets, 1);
        }
        group
    }

    /// A socket of a group is gone; all its pages were uncharged before.
    #[doc(alias = "mem_cgroup_sk_free")]
    pub(crate) fn forget_socket(&self, cx: &Cx<'_, H>, group: GroupId) {
        if !group.is_root() {
            self.memcg.keep(group, Kept::Sockets, -1);
            self.release_if_empty(cx, group);
        }
    }

    /// Charges pages for a socket's buffers to its group. Returns false if the group's limit
    /// refuses.
    ///
    /// Linux: a refusal also marks the group's sockets as under memory pressure.
    #[doc(alias = "mem_cgroup_charge_skmem")]
    #[must_use]
    pub(crate) fn charge_socket(
        &self,
        cx: &Cx<'_, H>,
        (group, pages): (GroupId, u64),
        side: Side,
        must: Must,
    ) -> bool {
        if group.is_root() || pages == 0 {
            return true;
        }
        let mut gfp = match side {
            Side::Program => Gfp::GFP_KERNEL,
            Side::SoftInterrupt => Gfp::GFP_NOWAIT,
        };
        if must == Must::Succeed {
            gfp |= Gfp::NOFAIL;
        }
        let charge = || match self.memcg.is_online(group) {
            true => self.try_charge(cx, group, gfp, pages),
            false => self.charge_removed(group, pages, must),
        };
        let is_charged = match side {
            Side::Program => charge(),
            Side::SoftInterrupt => cx.with_flag(TaskFlags::IN_SOFTIRQ, charge),
        };
        if is_charged {
            self.count_socket(cx, group, pages as i64);
        } else if self.mem.policy.memcg.sock_throttled {
            self.memcg.event(group, GroupEvent::SockThrottled);
        }
        is_charged
    }

    /// The same for a group that was removed while the socket was open: page by page, and without
    /// reclaim. Here a CPU's stock does not keep a group, so a removed group has none.
    fn charge_removed(&self, group: GroupId, pages: u64, must: Must) -> bool {
        let counters = &self.mem.groups.memory;
        match counters.try_charge(group, pages) {
            Ok(()) => true,
            Err(_) if must == Must::Succeed => {
                counters.charge(group, pages);
                true
            }
            Err(_) => false,
        }
    }

    /// Uncharges pages of a socket's buffers: they go to the CPU's stock, or off the counters if
    /// the group was removed.
    #[doc(alias = "mem_cgroup_uncharge_skmem")]
    pub(crate) fn uncharge_socket(&self, cx: &Cx<'_, H>, group: GroupId, pages: u64) {
        if group.is_root() || pages == 0 {
            return;
        }
        self.count_socket(cx, group, -(pages as i64));
        if self.memcg.is_online(group) {
            self.refill_stock(cx, group, pages);
        } else {
            self.mem.groups.memory.uncharge(group, pages);
            self.oom_recover(cx, group);
            self.release_if_empty(cx, group);
        }
    }

    fn count_socket(&self, cx: &Cx<'_, H>, group: GroupId, pages: i64) {
        self.memcg.keep(group, Kept::SocketPages, pages);
        self.mem.groups.count(cx.cpu(), (group, NodeId(0)), GroupStat::Sock, pages);
    }
}
