//! A request, decoded: which zones, in which order, with which rights (spec 01 §4).

use bitflags::bitflags;

use super::{Gfp, PageAllocator};
use crate::config::MinReserveRule;
use crate::host::{Cx, Host, TaskFlags};
use crate::page::{MigrateType, Order};
use crate::zone::zonelist::{ZoneRef, Zonelist};
use crate::zone::{Mark, NodeId, NodeMask, ZoneType};

bitflags! {
    /// What a get_page pass may do. The low two bits select the mark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct AllocFlags: u32 {
        /// Mark index, bit 0 ([`Mark::Low`]).
        const MARK_LOW = 1 << 0;
        /// Mark index, bit 1 ([`Mark::High`]).
        const MARK_HIGH = 1 << 1;
        /// Ignore watermarks.
        const NO_WATERMARKS = 1 << 2;
        /// OOM victim: half of the reserves.
        const OOM = 1 << 3;
        /// Cannot block (6.1); "harder" in the legacy rules.
        const NON_BLOCK = 1 << 4;
        /// May use half of the reserves (`__GFP_HIGH`).
        const MIN_RESERVE = 1 << 5;
        /// Enforce the cpuset.
        const CPUSET = 1 << 6;
        /// May use contiguous-memory areas (none are configured).
        const CMA = 1 << 7;
        /// Rather fail than mix types in a pageblock.
        const NOFRAGMENT = 1 << 8;
        /// May use the high-atomic reserve.
        const HIGHATOMIC = 1 << 9;
        /// May wake kswapd.
        const KSWAPD = 1 << 10;
        /// 4.3: fair share of each zone.
        const FAIR = 1 << 11;
    }
}

impl AllocFlags {
    /// The mark these flags check against.
    #[inline(always)]
    pub const fn mark(self) -> Mark {
        match self.bits() & 3 {
            0 => Mark::Min,
            1 => Mark::Low,
            _ => Mark::High,
        }
    }
}

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

/// Memalloc scopes of the task, applied on entry (§4).
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

/// Slow-path flags (§4; legacy §6.5).
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

/// Reserve flags: what the task's state allows beyond the request (§4).
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
    /// Is a node allowed by the task's cpuset (§3)?
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
