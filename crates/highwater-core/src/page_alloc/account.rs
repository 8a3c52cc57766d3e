//! Where pages are counted.
//!
//! What is said of a folio (dirty, mapped, in the page cache) is counted in its node, some of it in its
//! zone too, and always by as many pages as it has. This is the one door to those counters for whoever
//! has a folio in hand: which node, which zone and how many pages is not for callers to know.
//!
//! Two levels, because two kinds of questions are asked. Reclaim works on nodes: how much there is to
//! scan, how much of it is dirty. Requests are about zones: one that must lie low is not helped by what
//! could be reclaimed above (rules/slow-path#reclaim-retry), so the few items that this depends on are
//! counted by zone as well. Counting everything twice would make every fault and every write pay for
//! that.
//!
//! A plus without its minus, or one with another number of pages, is a drift that no reader can see:
//! the counters are sums. That is why pages, node and zone are taken from the folio here, and not
//! passed in.
//!
//! Synchronisation: none; additions go to the CPU's own differences (rules/zone-counters#differences).

use super::PageAllocator;
use crate::host::{CpuId, Host};
use crate::page::{Folio, Page};
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::{NodeId, ZoneId};

/// The counters of the node and the zone of some pages.
pub struct Account<'a, H: Host> {
    mem: &'a PageAllocator<H>,
    cpu: CpuId,
    node: NodeId,
    zone: ZoneId,
    pages: i64,
}

impl<H: Host> PageAllocator<H> {
    /// The counters that a folio counts in.
    #[inline(always)]
    pub fn account(&self, cpu: CpuId, folio: Folio) -> Account<'_, H> {
        self.account_page(cpu, (folio, self.map.page(folio)))
    }

    /// The same, with its descriptor in hand.
    #[inline(always)]
    pub(crate) fn account_page(&self, cpu: CpuId, (folio, page): (Folio, &Page)) -> Account<'_, H> {
        // Not the zone's node: that is a division.
        let (node, zone) = (page.node(), page.zone_id());
        Account { mem: self, cpu, node, zone, pages: folio.nr_pages() as i64 }
    }

    /// The counters of a zone, for several folios at once.
    #[inline(always)]
    pub fn account_pages(&self, cpu: CpuId, zone: ZoneId, pages: u64) -> Account<'_, H> {
        Account { mem: self, cpu, node: zone.node(), zone, pages: pages as i64 }
    }
}

impl<H: Host> Account<'_, H> {
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
