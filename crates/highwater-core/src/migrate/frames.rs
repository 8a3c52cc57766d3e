//! Frames to move pages to (rules/compaction#targets).

use crate::page::{BlockFlags, Folio, MAX_ORDER, MigrateType, Order, PageList, PageMap, Pfn};

/// Free frames to move pages to, in use with one reference: blocks by their order. The last block
/// that was added of an order is used first.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    lists: [PageList; MAX_ORDER],
    pages: u32,
}

impl Frames {
    /// Its frames.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// True if there is no frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Adds a block whose word says its order.
    pub(crate) fn push(&mut self, map: &PageMap, pfn: Pfn, order: Order) {
        debug_assert_eq!(map.block(pfn).order(), order);
        self.lists[order.idx()].push_head(map, pfn);
        self.pages += order.pages() as u32;
    }

    /// Adds the frames of an isolated block one by one: the highest is used first.
    pub(crate) fn push_singly(&mut self, map: &PageMap, pfn: Pfn, order: Order) {
        for frame in pfn.0..pfn.0 + (1 << order.0) {
            self.push(map, Pfn(frame), Order::ZERO);
        }
    }

    /// Adds an isolated block, each frame of which is a page in use, as one block.
    pub(crate) fn push_isolated(&mut self, map: &PageMap, pfn: Pfn, order: Order) {
        for tail in pfn.0 + 1..pfn.0 + (1 << order.0) {
            map.page(Pfn(tail)).clear();
            map.page(Pfn(tail)).set_refcount(0);
        }
        self.push_block(map, pfn, order);
    }

    fn push_block(&mut self, map: &PageMap, pfn: Pfn, order: Order) {
        let head = map.page(pfn);
        head.set(BlockFlags::USED, order, MigrateType::Movable);
        head.set_refcount(1);
        self.push(map, pfn, order);
    }

    /// Takes the frames for a folio of an order out of the smallest block that is large enough. The
    /// upper halves of a block that is split stay.
    pub(crate) fn take(&mut self, map: &PageMap, order: Order) -> Option<Folio> {
        let (mut high, pfn) = (order.idx()..MAX_ORDER)
            .find_map(|high| self.lists[high].pop_head(map).map(|pfn| (high as u8, pfn)))?;
        self.pages -= 1 << high;
        if high != order.0 {
            while high > order.0 {
                high -= 1;
                self.push_block(map, pfn.add(1 << high), Order(high));
            }
            map.page(pfn).set(BlockFlags::USED, order, MigrateType::Movable);
        }
        if order == Order::ZERO {
            return Some(Folio::page(pfn));
        }
        let folio = map.make_folio(pfn, order);
        map.reset_frames(folio);
        Some(folio)
    }

    /// Puts back the frames of a folio that were not used.
    pub(crate) fn put_back(&mut self, map: &PageMap, folio: Folio) {
        map.dissolve_folio(folio);
        self.push(map, folio.pfn(), folio.order());
    }

    /// Takes any block.
    pub(crate) fn pop(&mut self, map: &PageMap) -> Option<(Pfn, Order)> {
        let (order, pfn) = (0..MAX_ORDER)
            .find_map(|order| self.lists[order].pop_head(map).map(|pfn| (order as u8, pfn)))?;
        self.pages -= 1 << order;
        Some((pfn, Order(order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isolated(map: &PageMap, pfns: core::ops::Range<u32>) {
        for pfn in pfns.map(Pfn) {
            map.page(pfn).set(BlockFlags::USED, Order::ZERO, MigrateType::Movable);
            map.page(pfn).set_refcount(1);
        }
    }

    /// rules/compaction#large-folios.
    #[test]
    fn blocks_are_split_on_demand() {
        let map = PageMap::new(64);
        isolated(&map, 16..32);
        isolated(&map, 40..44);
        let mut frames = Frames::default();
        frames.push_isolated(&map, Pfn(16), Order(4));
        frames.push_isolated(&map, Pfn(40), Order(2));
        assert_eq!(frames.pages(), 20);
        let take = |frames: &mut Frames, order| frames.take(&map, Order(order));
        assert_eq!(take(&mut frames, 1), Some(Folio::new(Pfn(40), Order(1))), "the smallest");
        assert_eq!(take(&mut frames, 0), Some(Folio::page(Pfn(42))));
        assert_eq!(take(&mut frames, 3), Some(Folio::new(Pfn(16), Order(3))));
        assert_eq!((take(&mut frames, 4), frames.pages()), (None, 9));
        assert_eq!(map.folio(Pfn(23)), Folio::new(Pfn(16), Order(3)), "it is a folio");
        frames.put_back(&map, Folio::new(Pfn(16), Order(3)));
        let mut left = alloc::vec::Vec::new();
        while let Some((pfn, order)) = frames.pop(&map) {
            let page = map.page(pfn);
            assert!(page.has(BlockFlags::USED) && page.order() == order && page.refcount() == 1);
            assert!(!page.has(BlockFlags::HEAD));
            left.push((pfn.0, order.0));
        }
        assert_eq!(left, [(43, 0), (16, 3), (24, 3)]);
        assert_eq!(map.folio(Pfn(23)), Folio::page(Pfn(23)), "no tail of a block that is free");
    }

    #[test]
    fn single_frames_are_used_from_the_highest_on() {
        let map = PageMap::new(64);
        isolated(&map, 16..20);
        let mut frames = Frames::default();
        frames.push_singly(&map, Pfn(16), Order(2));
        let all = core::iter::from_fn(|| frames.take(&map, Order::ZERO));
        assert!(all.map(|folio| folio.pfn().0).eq([19, 18, 17, 16]));
        assert!(frames.is_empty());
    }
}
