//! Counts of allocator events, the same for a trace and for the model, so that they can be laid
//! beside each other.

use std::collections::{BTreeMap, HashMap};

use highwater_core::page::MAX_ORDER;

/// Kinds of events, by tracepoint; failed allocations count separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// `mm_page_alloc` that returned a block.
    Alloc,
    /// `mm_page_alloc` that did not.
    AllocFailed,
    /// `mm_page_free`.
    Free,
    /// `mm_page_free_batched`.
    FreeBatched,
    /// `mm_page_alloc_zone_locked`: a block leaves the buddy lists.
    ZoneLocked,
    /// `mm_page_pcpu_drain`: a block goes back to the buddy lists.
    PcpuDrain,
    /// `mm_page_alloc_extfrag`: a fallback to another type's block.
    ExtFrag,
}

impl EventKind {
    /// All, in the order of reports.
    pub const ALL: [EventKind; 7] = [
        EventKind::Alloc,
        EventKind::AllocFailed,
        EventKind::Free,
        EventKind::FreeBatched,
        EventKind::ZoneLocked,
        EventKind::PcpuDrain,
        EventKind::ExtFrag,
    ];

    /// The tracepoint's name; with a remark for failed allocations, which share one.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Alloc => "mm_page_alloc",
            EventKind::AllocFailed => "mm_page_alloc failed",
            EventKind::Free => "mm_page_free",
            EventKind::FreeBatched => "mm_page_free_batched",
            EventKind::ZoneLocked => "mm_page_alloc_zone_locked",
            EventKind::PcpuDrain => "mm_page_pcpu_drain",
            EventKind::ExtFrag => "mm_page_alloc_extfrag",
        }
    }
}

/// A block, and how often it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotBlock {
    /// First frame.
    pub pfn: u64,
    /// Order.
    pub order: u8,
    /// Allocations.
    pub uses: u64,
}

/// Event counts, and how often each block was allocated.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    by_order: BTreeMap<(EventKind, u8), u64>,
    by_cpu: BTreeMap<(EventKind, u32), u64>,
    by_type: BTreeMap<(u8, u8), u64>,
    uses: HashMap<(u64, u8), u64>,
}

impl Tally {
    /// Counts an event; `order` of a fallback is the requested order.
    pub fn count(&mut self, kind: EventKind, cpu: u32, order: u8) {
        *self.by_order.entry((kind, order)).or_default() += 1;
        *self.by_cpu.entry((kind, cpu)).or_default() += 1;
    }

    /// Counts the use of a block, an [`EventKind::Alloc`] counted apart.
    pub fn count_use(&mut self, pfn: u64, order: u8, migratetype: u8) {
        *self.uses.entry((pfn, order)).or_default() += 1;
        *self.by_type.entry((order, migratetype)).or_default() += 1;
    }

    /// Events of a kind.
    pub fn total(&self, kind: EventKind) -> u64 {
        self.by_order.range((kind, 0)..=(kind, u8::MAX)).map(|(_, n)| n).sum()
    }

    /// Events of a kind and order.
    pub fn of_order(&self, kind: EventKind, order: u8) -> u64 {
        self.by_order.get(&(kind, order)).copied().unwrap_or(0)
    }

    /// Every kind and order that occurred, with its count.
    pub fn by_order(&self) -> impl Iterator<Item = (EventKind, u8, u64)> {
        self.by_order.iter().map(|(&(kind, order), &n)| (kind, order, n))
    }

    /// Every kind and CPU that occurred, with its count.
    pub fn by_cpu(&self) -> impl Iterator<Item = (EventKind, u32, u64)> {
        self.by_cpu.iter().map(|(&(kind, cpu), &n)| (kind, cpu, n))
    }

    /// Allocations by order and migratetype.
    pub fn allocations(&self) -> impl Iterator<Item = (u8, u8, u64)> {
        self.by_type.iter().map(|(&(order, migratetype), &n)| (order, migratetype, n))
    }

    /// The `n` blocks allocated most often: most used first, then by frame.
    pub fn hottest(&self, n: usize) -> Vec<HotBlock> {
        let mut blocks: Vec<_> =
            self.uses.iter().map(|(&(pfn, order), &uses)| HotBlock { pfn, order, uses }).collect();
        blocks.sort_unstable_by_key(|b| (std::cmp::Reverse(b.uses), b.pfn, b.order));
        blocks.truncate(n);
        blocks
    }

    /// Uses of the block allocated most often.
    pub fn hottest_uses(&self) -> u64 {
        self.uses.values().copied().max().unwrap_or(0)
    }

    /// Different blocks allocated, by order.
    pub fn distinct(&self) -> [u64; MAX_ORDER] {
        let mut distinct = [0; MAX_ORDER];
        for &(_, order) in self.uses.keys() {
            if let Some(count) = distinct.get_mut(usize::from(order)) {
                *count += 1;
            }
        }
        distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_order_cpu_and_block() {
        let mut tally = Tally::default();
        for (cpu, order, pfn) in [(0, 0, 7), (1, 2, 8), (1, 2, 8), (1, 2, 4)] {
            tally.count(EventKind::Alloc, cpu, order);
            tally.count_use(pfn, order, 1);
        }
        tally.count(EventKind::Free, 0, 2);
        assert_eq!((tally.total(EventKind::Alloc), tally.of_order(EventKind::Alloc, 2)), (4, 3));
        assert_eq!(tally.by_cpu().next(), Some((EventKind::Alloc, 0, 1)));
        let hottest = tally.hottest(2);
        assert_eq!((hottest[0].pfn, hottest[0].uses, hottest[1].pfn), (8, 2, 4));
        assert_eq!((tally.hottest_uses(), tally.distinct()[2]), (2, 2));
    }
}
