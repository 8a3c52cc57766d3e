//! A decoded request: its zones in order, and its rights (rules/requests#alloc-flags).
//!
//! Callers state needs and limits in one word: [`Gfp`]. Its effect depends on the calling context.
//! An interrupt has no cpuset. A task that frees memory must not wait for memory. An OOM victim has
//! to finish. So rights come from the request *and* the task, and are recomputed when they may have
//! changed: once in the fast path, in each round of the slow path, because a task may become an OOM
//! victim while it waits for memory.
//!
//! | request | may go down to | because |
//! |---|---|---|
//! | all, fast path | LOW | between LOW and MIN kswapd should catch up before tasks have to wait |
//! | all, slow path | MIN | the request has woken kswapd, and reclaims next if it can wait |
//! | HIGH, realtime | half of MIN | the caller says that it is urgent |
//! | HIGH that cannot wait | 3/8 of MIN | it cannot reclaim itself |
//! | OOM victim | half of MIN | it frees its memory when it exits; only half, because there may be several victims |
//! | a task that frees memory (MEMALLOC) | nothing left | one page for it frees many, and it must not fail half way |
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
    /// The node whose zonelist it is (its zonelist cache is used unless THISNODE).
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
    /// NUMA hits are counted against this zone too: a task that may not use the local node has not
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
/// A scope states what a task is doing (a transaction, I/O), which the functions that it calls
/// cannot know. So the flags are removed from all its requests here, not by each caller. NOIO
/// removes FS as well, because writing through a filesystem is I/O. Pinned pages must not be in
/// movable memory, because that memory must remain free to be emptied.
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
/// Both decide which requests may use the reserves. The legacy rule checks the ATOMIC flag; the
/// later one checks whether the request can wait. They differ for a request that cannot wait but
/// lacks the flag: the legacy rule gives it less, although it has no alternative either. HIGHATOMIC
/// is for orders above 0 only, because a single page needs no contiguous block.
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
/// In this order: NOMEMALLOC in the request is final; then MEMALLOC in the request; then the
/// context. In an interrupt the interrupted task's state does not count. The exception is a soft
/// interrupt marked MEMALLOC, which is part of freeing memory.
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

/// The rights with which the slow path tries last for a request of a task, before it gives up: by
/// the request (rules/requests#slow-flags) and by the task's state (rules/requests#reserve-flags).
///
/// For a judge of requests that a real kernel refused; [`PageAllocator::alloc`] computes them anew
/// in each round.
#[must_use]
pub fn last_rights(gfp: Gfp, order: Order, task: TaskFlags, rule: MinReserveRule) -> AllocFlags {
    slow_flags(gfp, order, task, rule) | reserve_flags(gfp, task)
}

impl<H: Host> PageAllocator<H> {
    /// Reports whether the task's cpuset allows a node (rules/allocation#cpuset).
    ///
    /// A cpuset separates the memory of tasks. It is no reason to fail for an interrupt, which
    /// belongs to no task, nor for an exiting victim, whose failure would keep memory in use.
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
