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
use crate::reclaim::Control;
use crate::reclaim::budget::ModeInput;
use crate::zone::Mark;

impl<H: Devices> Kernel<H> {
    /// Pages on a list as a pass sees them: of the node, from its counters, which lag by a batch per CPU;
    /// exactly, where lists are a zone's (up to 4.7).
    pub(super) fn pages_on(&self, (node, vec): At, list: LruKind) -> u64 {
        match self.mem.policy.reclaim.lru {
            LruTopology::Node => self.mem.node(node).stats.read(list.node_stat() as usize),
            LruTopology::Zone => self.lru.vec(vec).size(list),
        }
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

    /// What decides between the types before their weights do (rules/scan-budget#mode). Without a free slot
    /// nothing can be swapped, so anonymous pages would be scanned for nothing.
    pub(super) fn mode_input(
        &self,
        sc: &Control,
        file_is_tiny: bool,
        cache_trim_mode: bool,
    ) -> ModeInput {
        ModeInput {
            can_swap: sc.may_swap && self.swap.nr_free() > 0,
            priority: sc.priority,
            swappiness: self.mem.tunables.swappiness.get(),
            file_is_tiny,
            cache_trim_mode,
        }
    }
}
