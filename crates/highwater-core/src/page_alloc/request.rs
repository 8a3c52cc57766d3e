//! A request, decoded: which zones, in which order, with which rights (rules/requests#alloc-flags).
//!
//! Callers say in one word what they need and what they can bear: [`Gfp`]. What that is worth depends
//! on who asks. An interrupt has no cpuset; a task that frees memory must not wait for memory; a victim
//! of the OOM killer has to come to its end. So rights come from the request *and* the task, and are
//! worked out anew where they may have changed: the fast path once, the slow path in each round, since
//! a task may be chosen as a victim while it waits for memory itself.
//!
//! | who | may go down to | because |
//! |---|---|---|
//! | everybody, fast path | LOW | between LOW and MIN kswapd is to catch up before anybody waits |
//! | everybody, slow path | MIN | who gets here has woken kswapd, and helps it next if he can wait |
//! | HIGH, realtime | half of MIN | the caller says that it is urgent |
//! | HIGH that cannot wait | 3/8 of MIN | he can do nothing about it himself |
//! | OOM victim | half of MIN | it frees all once it exits; half, as there may be several |
//! | who frees memory (MEMALLOC) | nothing left | a page for him frees many, and he must not fail half way |
//!
//! These are late 6.1's numbers; rules/watermarks#effective-min has the older ones.
//!
//! From: [`super::fast`], [`super::slow`].

use super::{Gfp, PageAllocator};
use crate::config::MinReserveRule;
use crate::host::{Cx, Host, TaskFlags};
use crate::page::{MigrateType, Order};
use crate::zone::zonelist::{ZoneRef, Zonelist};
use crate::zone::{AllocFlags, NodeId, NodeMask, ZoneType};

/// An allocation request while it is being served.
///
/// Two things in it change on the way: the mask of nodes (the cpuset's for the first pass, the caller's
/// later, none for the privileged) and with it the preferred entry. The zonelist stays: it is the
/// node's that was asked for, however many of its entries are stepped over.
#[doc(alias = "alloc_context")]
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Flags in force (scopes applied).
    pub gfp: Gfp,
    /// Size.
    pub order: Order,
    /// Highest zone allowed; also selects the lowmem_reserve column.
    pub highest: ZoneType,
    /// Type asked for.
    pub migratetype: MigrateType,
    /// Nodes allowed, none = all.
    pub nodes: Option<NodeMask>,
    /// Zones to try.
    pub zonelist: &'a Zonelist,
    /// The node whose list it is (its zonelist cache is used unless THISNODE).
    pub list_node: NodeId,
    /// Position of the preferred zone: scan start and statistics baseline.
    pub preferred: Option<usize>,
    /// Spread dirty pages over nodes.
    pub spread_dirty: bool,
}

impl<'a> Request<'a> {
    /// Eligible entries with their positions, from the preferred one on.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = (usize, ZoneRef)> + use<'a> {
        let (zonelist, highest, nodes) = (self.zonelist, self.highest, self.nodes);
        let mut at = self.preferred;
        core::iter::from_fn(move || {
            let i = at?;
            at = zonelist.next(i + 1, highest, nodes);
            Some((i, zonelist.entries()[i]))
        })
    }

    /// Finds the first zone of the zonelist that the request may use, after `nodes` changed.
    ///
    /// Also what NUMA counts call a hit changes with it: a task that may not use the near node has not
    /// missed it.
    #[doc(alias = "first_zones_zonelist")]
    pub(super) fn find_preferred(&mut self) {
        self.preferred = self.zonelist.next(0, self.highest, self.nodes);
    }

    /// The preferred entry.
    #[inline(always)]
    pub(super) fn preferred_entry(&self) -> Option<ZoneRef> {
        self.preferred.map(|i| self.zonelist.entries()[i])
    }
}

/// Removes IO and FS from a request's gfp flags as the task's memalloc scopes ask
/// (rules/requests#scopes).
///
/// A scope is about what a task is in the middle of (a transaction, an input or output), which the
/// functions it calls cannot know. So it is taken off all its requests here, not by each caller. NOIO
/// takes FS as well: to write through a filesystem is I/O. Pinned pages must not sit in movable memory:
/// they would block what was set apart for being emptied.
#[doc(alias = "current_gfp_context")]
#[inline(always)]
pub(super) fn apply_scopes(gfp: Gfp, task: TaskFlags) -> Gfp {
    let mut gfp = gfp;
    if task.intersects(TaskFlags::NOIO | TaskFlags::NOFS | TaskFlags::PIN) {
        if task.contains(TaskFlags::NOIO) {
            gfp -= Gfp::IO | Gfp::FS;
        } else if task.contains(TaskFlags::NOFS) {
            gfp -= Gfp::FS;
        }
        if task.contains(TaskFlags::PIN) {
            gfp -= Gfp::MOVABLE;
        }
    }
    gfp
}

/// Works out the allocation flags of the slow path, by the later rule or the legacy one
/// (rules/requests#slow-flags).
///
/// Both answer who may use what others are refused. The legacy rule asks what the request is called
/// (ATOMIC); the later one, whether it can wait. The difference is a request that cannot wait but was
/// not called atomic: by the first rule it gets less, although it has no other way out either.
/// HIGHATOMIC is for orders above 0 only: a single page need not be found in one piece.
#[doc(alias = "gfp_to_alloc_flags")]
pub(super) fn slow_flags(
    gfp: Gfp,
    order: Order,
    task: TaskFlags,
    rule: MinReserveRule,
) -> AllocFlags {
    let mut flags = AllocFlags::CPUSET;
    if gfp.contains(Gfp::HIGH) {
        flags |= AllocFlags::MIN_RESERVE;
    }
    if gfp.contains(Gfp::KSWAPD_RECLAIM) {
        flags |= AllocFlags::KSWAPD;
    }
    if gfp.contains(Gfp::MOVABLE) {
        flags |= AllocFlags::CMA;
    }
    let realtime = task.contains(TaskFlags::REALTIME) && !task.in_interrupt();
    match rule {
        MinReserveRule::NonBlocking => {
            if !gfp.contains(Gfp::DIRECT_RECLAIM) {
                if !gfp.contains(Gfp::NOMEMALLOC) {
                    flags |= AllocFlags::NON_BLOCK;
                    if order > Order::ZERO && flags.contains(AllocFlags::MIN_RESERVE) {
                        flags |= AllocFlags::HIGHATOMIC;
                    }
                }
                // What must not fail may leave its cpuset; a request that just does not wait may fail
                // in it.
                if flags.contains(AllocFlags::MIN_RESERVE) {
                    flags -= AllocFlags::CPUSET;
                }
            } else if realtime {
                flags |= AllocFlags::MIN_RESERVE;
            }
        }
        MinReserveRule::LegacyOom | MinReserveRule::Legacy => {
            if gfp.contains(Gfp::ATOMIC) {
                if !gfp.contains(Gfp::NOMEMALLOC) {
                    flags |= AllocFlags::NON_BLOCK;
                }
                flags -= AllocFlags::CPUSET;
            } else if realtime {
                flags |= AllocFlags::NON_BLOCK;
            }
            if order > Order::ZERO && flags.contains(AllocFlags::NON_BLOCK) {
                flags |= AllocFlags::HIGHATOMIC;
            }
        }
    }
    flags
}

/// Works out which reserves the task's state opens to a request (rules/requests#reserve-flags).
///
/// In this order: the caller's word against it is final; then its word for it; then what the context
/// says. In an interrupt the interrupted task's state counts for nothing, but for a soft interrupt that
/// is marked MEMALLOC: it is part of freeing memory.
#[doc(alias = "__gfp_pfmemalloc_flags")]
pub(super) fn reserve_flags(gfp: Gfp, task: TaskFlags) -> AllocFlags {
    if gfp.contains(Gfp::NOMEMALLOC) {
        return AllocFlags::empty();
    }
    let memalloc = task.contains(TaskFlags::MEMALLOC);
    if gfp.contains(Gfp::MEMALLOC) || (task.contains(TaskFlags::IN_SOFTIRQ) && memalloc) {
        return AllocFlags::NO_WATERMARKS;
    }
    if task.in_interrupt() {
        return AllocFlags::empty();
    }
    if memalloc {
        AllocFlags::NO_WATERMARKS
    } else if task.contains(TaskFlags::OOM_VICTIM) {
        AllocFlags::OOM
    } else {
        AllocFlags::empty()
    }
}

impl<H: Host> PageAllocator<H> {
    /// Reports whether the task's cpuset allows a node (rules/allocation#cpuset).
    ///
    /// A cpuset is there to keep tasks from each other's memory. It is no reason to fail where no task
    /// asks (an interrupt) or where failing keeps memory in use (a victim that is to exit).
    #[doc(alias = "__cpuset_zone_allowed")]
    #[doc(alias = "__cpuset_node_allowed")]
    pub(crate) fn cpuset_allows(&self, cx: &Cx<'_, H>, node: NodeId, gfp: Gfp) -> bool {
        let task = cx.flags();
        if task.in_interrupt() || cx.mems_allowed().contains(node) {
            return true;
        }
        if task.contains(TaskFlags::OOM_VICTIM) {
            return true;
        }
        // Soft walls: a kernel allocation on a task's behalf may leave its nodes when they are full.
        // Without nested cpusets the nearest hardwall ancestor is the root: all nodes.
        !gfp.contains(Gfp::HARDWALL)
    }
}
