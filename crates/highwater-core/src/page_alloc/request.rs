//! A request, decoded: which zones, in which order, with which rights
//! (rules/requests#alloc-flags).

use super::{Gfp, PageAllocator};
use crate::config::MinReserveRule;
use crate::host::{Cx, Host, TaskFlags};
use crate::page::{MigrateType, Order};
use crate::zone::zonelist::{ZoneRef, Zonelist};
use crate::zone::{AllocFlags, NodeId, NodeMask, ZoneType};

/// A request while it is being served.
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
    pub(super) fn candidates(&self) -> impl Iterator<Item = (usize, ZoneRef)> + use<'a> {
        let (zonelist, highest, nodes) = (self.zonelist, self.highest, self.nodes);
        let mut at = self.preferred;
        core::iter::from_fn(move || {
            let i = at?;
            at = zonelist.next(i + 1, highest, nodes);
            Some((i, zonelist.entries()[i]))
        })
    }

    /// Recomputes the preferred entry after `nodes` changed.
    pub(super) fn find_preferred(&mut self) {
        self.preferred = self.zonelist.next(0, self.highest, self.nodes);
    }

    /// The preferred entry.
    #[inline(always)]
    pub(super) fn preferred_entry(&self) -> Option<ZoneRef> {
        self.preferred.map(|i| self.zonelist.entries()[i])
    }
}

/// Memalloc scopes of the task, applied on entry (rules/requests#scopes).
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

/// Slow-path flags, by the later rule or the legacy one (rules/requests#slow-flags).
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

/// Reserve flags: what the task's state allows beyond the request (rules/requests#reserve-flags).
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
    /// Is a node allowed by the task's cpuset (rules/allocation#cpuset)?
    pub(crate) fn cpuset_allows(&self, cx: &Cx<'_, H>, node: NodeId, gfp: Gfp) -> bool {
        let task = cx.flags();
        if task.in_interrupt() || cx.mems_allowed().contains(node) {
            return true;
        }
        if task.contains(TaskFlags::OOM_VICTIM) {
            return true;
        }
        // Without nested cpusets the nearest hardwall ancestor is the root: all nodes.
        !gfp.contains(Gfp::HARDWALL)
    }
}
