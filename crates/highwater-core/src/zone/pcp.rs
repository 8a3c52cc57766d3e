//! One CPU's pages of a zone.

use crate::page::{MigrateType, Order, PAGEBLOCK_ORDER, PageList, PageRing, Pfn};
use crate::units::CpuId;

/// Most lists any policy has.
const PCP_LISTS_MAX: usize = 15;
/// Types that lists hold.
const TYPES: usize = MigrateType::MERGEABLE.len();

/// One CPU's page lists of one zone (pcp).
#[doc(alias = "per_cpu_pages")]
#[derive(Debug)]
pub struct Pcp {
    pub(crate) lists: [PageRing; PCP_LISTS_MAX],
    pub(crate) count: u32,
    /// The weight of recent frees, halved by each allocation: doublings of a batch, or freed pages
    /// (`FreeFactor::FreeCount`).
    pub(crate) free_factor: u32,
    /// Limit of the lists, where they tune it; 0: no free or refill has set it yet.
    pub(crate) high: u32,
    /// This CPU's share of its last-level cache, pages; 0: unknown.
    pub(crate) cache_slice: u32,
    /// Doublings of a refill, where lists tune their limit.
    pub(crate) alloc_factor: u8,
    /// The block freed last was of order 1 to 3, where that matters.
    pub(crate) was_high_order: bool,
    /// Pages up to which blocks of orders 1 to 3 are kept, where the policy learns it; 0: nothing was learned yet.
    pub(crate) high_limit: u32,
    /// Pages that were given back by that limit and not wanted back since.
    pub(crate) given: u32,
    /// Blocks that were freed and are on no list yet.
    pub(crate) deferred: Deferred,
    /// Free blocks of the pageblocks that this CPU owns (rules/per-cpu-lists#owned-blocks).
    pub(crate) owned: OwnedLists,
}

impl Pcp {
    /// Empty lists of a CPU.
    pub(crate) fn new(cpu: CpuId, cache_slice: u32) -> Pcp {
        Pcp {
            lists: Default::default(),
            count: 0,
            free_factor: 0,
            high: 0,
            cache_slice,
            alloc_factor: 0,
            was_high_order: false,
            high_limit: 0,
            given: 0,
            deferred: Deferred::default(),
            owned: OwnedLists { cpu, pages: 0, lists: Default::default() },
        }
    }

    /// Pages on all lists, deferred frees and owned pageblocks included.
    pub(crate) fn all_pages(&self) -> u32 {
        self.count + self.owned.pages + self.deferred.pages()
    }

    /// Pages on all lists, owned pageblocks apart.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The limit that this CPU tuned for itself (rules/per-cpu-lists#auto); 0 if it has not.
    pub fn high(&self) -> u32 {
        self.high
    }

    /// Sets the limit that the CPU goes on tuning, as captured.
    pub fn set_high(&mut self, high: u32) {
        self.high = high;
    }

    /// Forgets what recent allocations and frees have shown.
    pub(crate) fn forget_use(&mut self) {
        (self.free_factor, self.alloc_factor) = (0, 0);
        (self.high, self.was_high_order) = (0, false);
    }

    /// Every list, by index.
    pub fn lists(&self) -> &[PageRing] {
        &self.lists
    }

    /// Free blocks of the pageblocks that this CPU owns.
    pub fn owned(&self) -> &OwnedLists {
        &self.owned
    }
}

/// Blocks of one order that were freed here lately, in that order ([`Pcp::deferred`]).
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    blocks: [Pfn; Deferred::MOST],
    len: usize,
    order: Order,
}

impl Deferred {
    /// Blocks, at most.
    pub(crate) const MOST: usize = 32;

    /// True if there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// May a block of `order` come?
    #[inline(always)]
    pub(crate) fn takes(&self, order: Order) -> bool {
        self.len == 0 || self.order == order
    }

    /// True if there is no room for another one.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.len == Deferred::MOST
    }

    /// Records a deferred free of a block; its order is deferrable, and there is room.
    #[inline(always)]
    pub(crate) fn push(&mut self, pfn: Pfn, order: Order) {
        debug_assert!(self.takes(order) && !self.is_full());
        self.blocks[self.len % Deferred::MOST] = pfn;
        self.order = order;
        self.len += 1;
    }

    /// The block, if there is one only, and its order.
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<(Pfn, Order)> {
        (self.len == 1).then_some((self.blocks[0], self.order))
    }

    /// Forgets them.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Removes up to `most` of the oldest: returns all of them with the removed ones first, their
    /// number, and their order.
    #[inline(always)]
    pub(crate) fn take(&mut self, most: usize) -> ([Pfn; Deferred::MOST], usize, Order) {
        let (all, nr) = (self.blocks, most.min(self.len));
        self.blocks.copy_within(nr..self.len, 0);
        self.len -= nr;
        (all, nr, self.order)
    }

    /// Pages of all of them.
    #[inline(always)]
    pub(crate) fn pages(&self) -> u32 {
        (self.len as u32) << self.order.0
    }
}

/// The free blocks of the pageblocks that a CPU owns, by order and type.
#[derive(Debug)]
pub struct OwnedLists {
    pub(crate) cpu: CpuId,
    pub(crate) pages: u32,
    lists: [[PageList; TYPES]; PAGEBLOCK_ORDER as usize + 1],
}

impl OwnedLists {
    /// Pages on all of them.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Every list, with its order and type.
    pub fn lists(&self) -> impl Iterator<Item = (Order, MigrateType, &PageList)> {
        self.lists.iter().zip(0..).flat_map(|(lists, order)| {
            lists.iter().zip(MigrateType::MERGEABLE).map(move |(list, t)| (Order(order), t, list))
        })
    }

    /// The list of an order up to a pageblock's, and of a mergeable type.
    #[inline]
    pub(crate) fn list(&mut self, order: Order, migratetype: MigrateType) -> &mut PageList {
        &mut self.lists[order.idx()][migratetype.idx()]
    }

    /// Some block, if there is one.
    pub(crate) fn any(&self) -> Option<Pfn> {
        self.lists.iter().flatten().find_map(PageList::tail)
    }

    /// Takes any block off its list, with its order.
    pub(crate) fn pop(&mut self, map: &[crate::page::Page]) -> Option<(Pfn, Order)> {
        for (order, lists) in (0..).zip(&mut self.lists) {
            for list in lists {
                if let Some(pfn) = list.pop_head(map) {
                    self.pages -= 1 << order;
                    return Some((pfn, Order(order)));
                }
            }
        }
        None
    }
}
