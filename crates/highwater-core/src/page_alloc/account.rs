//! Page counters of nodes and zones.
//!
//! The states of a folio (dirty, mapped, in the page cache) are counted in its node, some of them
//! in its zone too, by its number of pages. This is the only entry point to those counters for code
//! with a folio: callers need not know the node, the zone or the number of pages.
//!
//! There are two levels, for two users. Reclaim works on nodes: how much there is to scan, how much
//! of it is dirty. Requests need zones: pages that could be reclaimed in higher zones do not help a
//! request for low memory (rules/slow-path#reclaim-retry). So the few items that this depends on
//! are also counted by zone. Counting everything twice would cost time at every fault and write.
//!
//! The counters are sums, so a plus without its minus, or with another number of pages, is a drift
//! that no reader can detect. That is why pages, node and zone come from the folio here, and are
//! not passed in.
//!
//! Synchronisation: none; additions go to per-CPU differences (rules/zone-counters#differences).

use core::hint::cold_path;

use super::PageAllocator;
use crate::host::{CpuId, Host};
use crate::page::{Folio, Page};
use crate::vmstat::{GroupStat, NodeStat, ZoneStat};
use crate::zone::{NodeId, ZoneId};

/// The counters of the node and the zone of some pages.
pub struct Account<'a, H: Host> {
    mem: &'a PageAllocator<H>,
    cpu: CpuId,
    node: NodeId,
    zone: ZoneId,
    pages: i64,
    /// For the counters of its memory cgroup; none where several folios are counted together.
    folio: Option<Folio>,
}

impl<H: Host> PageAllocator<H> {
    /// The counters that a folio counts in.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[inline(always)]
    pub fn account(&self, cpu: CpuId, folio: Folio) -> Account<'_, H> {
        self.account_page(cpu, (folio, self.map.page(folio)))
    }

    /// The same, with its descriptor in hand.
    #[inline(always)]
    pub(crate) fn account_page(&self, cpu: CpuId, (folio, page): (Folio, &Page)) -> Account<'_, H> {
        // Not the zone's node: that is a division.
        let (node, zone) = (page.node(), page.zone_id());
        let pages = folio.nr_pages() as i64;
        Account { mem: self, cpu, node, zone, pages, folio: Some(folio) }
    }

    /// Adds to the count of the memory cgroup that pays for a folio. Takes values, so that an
    /// [`Account`] need not be in memory for it.
    #[inline(never)]
    fn count_for_owner(
        &self,
        (cpu, node): (CpuId, NodeId),
        folio: Folio,
        item: NodeStat,
        pages: i64,
    ) {
        self.groups.add(cpu, (self.groups.owner(folio), node), item, pages);
    }

    /// The counters of a zone, for several folios at once. Memory cgroups do not count them.
    ///
    /// # Panics
    /// If the machine has no such node.
    #[inline(always)]
    pub fn account_pages(&self, cpu: CpuId, zone: ZoneId, pages: u64) -> Account<'_, H> {
        Account { mem: self, cpu, node: zone.node(), zone, pages: pages as i64, folio: None }
    }
}

impl<H: Host> Account<'_, H> {
    /// The node has the pages more of an item, which the folio's memory cgroup does not count.
    #[inline(always)]
    pub fn node_plus(self, item: NodeStat) -> Self {
        self.mem.node(self.node).stats.add(self.cpu, item as usize, self.pages);
        self
    }

    /// It has them less.
    #[inline(always)]
    pub fn node_minus(self, item: NodeStat) -> Self {
        self.mem.node(self.node).stats.add(self.cpu, item as usize, -self.pages);
        self
    }

    /// The folio's memory cgroup has so many events more.
    pub(crate) fn group_event(self, item: GroupStat) -> Self {
        if self.mem.groups.is_on()
            && let Some(folio) = self.folio
        {
            let at = (self.mem.groups.owner(folio), self.node);
            self.mem.groups.count(self.cpu, at, item, self.pages);
        }
        self
    }

    /// The same counters, for some of the folio's pages only.
    #[must_use]
    pub fn of_pages(self, pages: u64) -> Self {
        Account { pages: pages as i64, ..self }
    }

    /// The node has the pages more of an item.
    #[inline(always)]
    pub fn plus(self, item: NodeStat) -> Self {
        let pages = self.pages;
        self.node(item, pages)
    }

    /// The node has them less of an item.
    #[inline(always)]
    pub fn minus(self, item: NodeStat) -> Self {
        let pages = self.pages;
        self.node(item, -pages)
    }

    /// The zone has the pages more of an item.
    #[inline(always)]
    pub fn zone_plus(self, item: ZoneStat) -> Self {
        let pages = self.pages;
        self.zone(item, pages)
    }

    /// The zone has them less of an item.
    #[inline(always)]
    pub fn zone_minus(self, item: ZoneStat) -> Self {
        let pages = self.pages;
        self.zone(item, -pages)
    }

    #[inline(always)]
    fn node(self, item: NodeStat, pages: i64) -> Self {
        self.mem.node(self.node).stats.add(self.cpu, item as usize, pages);
        if self.mem.groups.is_on() {
            cold_path();
            if let Some(folio) = self.folio {
                self.mem.count_for_owner((self.cpu, self.node), folio, item, pages);
            }
        }
        self
    }

    #[inline(always)]
    fn zone(self, item: ZoneStat, pages: i64) -> Self {
        if let Some(zone) = self.mem.zone_by_id(self.zone) {
            zone.stats.add(self.cpu, item as usize, pages);
        }
        self
    }
}
