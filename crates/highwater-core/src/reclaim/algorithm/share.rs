//! The inputs of algorithms that divide their work between two types.
//!
//! The budget is pure arithmetic ([`crate::reclaim::budget`]). This module provides its inputs, for
//! any algorithm whose work is a number of pages of each type.
//!
//! The inputs are read once, when a pass begins. A pass that followed them would scan the type that
//! it is freeing less and less, and the other one in its place.
//!
//! They are cheap reads, off by the CPUs' differences at most. All of them are compared with sums
//! over whole zones, or shifted by the priority. A few hundred pages change only decisions in which
//! either result is acceptable.
//!
//! From: the algorithms · to: `lru::balance`, counters.

use super::At;
use crate::config::LruTopology;
use crate::host::Devices;
use crate::kernel::Kernel;
use crate::lru::LruKind;
use crate::lru::balance::Weights;
use crate::reclaim::Control;
use crate::reclaim::budget::ModeInput;
use crate::units::LruVecId;
use crate::vmstat::NodeStat;
use crate::zone::{Mark, NodeId};

/// Inputs of the scan mode that all memory cgroups of a pass share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reclaim) struct Inputs {
    pub(in crate::reclaim) weights: Weights,
    /// By [`crate::lru::PageType`]: active pages may be deactivated. If not, they are spared.
    pub(in crate::reclaim) may_deactivate: [bool; 2],
    pub(in crate::reclaim) cache_trim_mode: bool,
    pub(in crate::reclaim) file_is_tiny: bool,
}

impl<H: Devices> Kernel<H> {
    /// Pages on a list as a pass sees them: of the node, from its counters, which lag by a batch
    /// per CPU; exactly, where lists are a zone's (up to 4.7).
    pub(super) fn pages_on(&self, (node, vec): At, list: LruKind) -> u64 {
        match self.mem.policy.reclaim.lru {
            LruTopology::Node => self.mem.node(node).stats.read(list.node_stat() as usize),
            LruTopology::Zone => self.lru.vec(vec).size(list),
        }
    }

    /// Inactive pages of a node; without a free slot, those of files.
    pub(super) fn inactive_on(&self, node: NodeId) -> u64 {
        let stats = &self.mem.node(node).stats;
        let mut inactive = stats.read(NodeStat::InactiveFile as usize);
        if self.swap.nr_free() > 0 {
            inactive += stats.read(NodeStat::InactiveAnon as usize);
        }
        inactive
    }

    /// True if so little page cache is left that freeing all of it would not lift the zones above
    /// their high marks (rules/scan-budget#tiny-file). Reclaiming more cache would then evict the
    /// programs' own text repeatedly, while idle anonymous memory stays.
    pub(super) fn is_short_of_file(&self, at: At) -> bool {
        let (node, vec) = at;
        let file =
            self.pages_on(at, LruKind::ActiveFile) + self.pages_on(at, LruKind::InactiveFile);
        let zones =
            || self.mem.zones_of(node).filter(move |zone| self.lru.holds_zone(vec, zone.id()));
        // The most that reclaiming cache could give: free pages now, plus every page of cache.
        let free: u64 = zones().map(|zone| zone.nr_free_pages()).sum();
        let managed = zones().filter(|zone| zone.managed() != 0);
        let high: u64 = managed.map(|zone| zone.mark(Mark::High)).sum();
        file + free <= high
    }

    /// A slot is to be had for pages of these lists: a memory cgroup may have used up its own.
    fn can_swap_from(&self, vec: LruVecId) -> bool {
        self.swap.nr_free() > 0
            && (!self.mem.groups.is_on() || self.has_swap_room(self.lru.group_of(vec)))
    }

    /// The inputs that decide between the types before their weights do (rules/scan-budget#mode). Without a
    /// free slot nothing can be swapped, so anonymous pages would be scanned for nothing.
    pub(super) fn mode_input(
        &self,
        sc: &Control,
        vec: LruVecId,
        file_is_tiny: bool,
        cache_trim_mode: bool,
    ) -> ModeInput {
        let swappiness = self.swappiness_of(vec);
        // For the limit of a group, swappiness 0 is a ban (rules/memory-cgroups#reclaim).
        let is_banned = sc.is_of_group() && swappiness == 0;
        ModeInput {
            can_swap: sc.may_swap && !is_banned && self.can_swap_from(vec),
            priority: sc.priority,
            swappiness,
            file_is_tiny,
            cache_trim_mode,
        }
    }
}
