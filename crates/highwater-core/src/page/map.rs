//! The page array: a descriptor for each frame, index = pfn.
//!
//! Boot builds the free lists of a machine of any size without touching unused descriptors. The
//! array starts as zeros. It is divided into *chunks*, each an aligned block of the largest order.
//! While a chunk is as boot left it, one word stands for all of its descriptors:
//!
//! | word of the chunk | its frames |
//! |---|---|
//! | 0, or the place of one of them and [`WRITTEN_OUT`] | have their own words |
//! | a place, nothing else | belong to a zone; the allocator never had them |
//! | the head of a free block | are that block: *fresh* |
//!
//! Code that walks frames calls [`PageMap::block`], which handles both. Before a descriptor of a
//! chunk changes, [`PageMap::write_out`] writes the words of all of them. Only code that takes a
//! fresh block off the free lists ([`crate::page_alloc::Buddy`]) needs to do this: the chunk of a
//! page in use is always written out.
//!
//! A chunk's word keeps its zone after that. It is nearly always the zone of all its frames, and is
//! known without reading a descriptor ([`PageMap::likely_zone`]).
//!
//! A head's byte ([`PageMap::set_head`]) belongs to the block's user while the block is in use.
//! After a deferred free it belongs to the freeing CPU, under the lock of that CPU's lists.
//!
//! Synchronisation: a chunk changes under its zone's lock. A scanner that reads without the lock
//! sees its frames before or after the change.

use core::ops::Range;

use super::zeroed::ZeroedSlice;
use super::{BlockWord, MigrateType, Order, Page, Pfn};
use crate::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::prefetch::prefetch_read;
use crate::units::{NodeId, ZoneId, ZoneType};

const CHUNK_SHIFT: u32 = Order::MAX.0 as u32;
/// Frames of a chunk.
pub(crate) const CHUNK: u32 = 1 << CHUNK_SHIFT;
/// In a chunk's word: its descriptors have been written. Not a flag of blocks.
const WRITTEN_OUT: u32 = 1 << 31;

/// In a head's byte: the block was freed, and its descriptor does not say so yet. No order plus 1.
const PUT_DOWN: u8 = u8::MAX;

/// The array of all descriptors, index = pfn.
#[derive(Debug)]
pub struct PageMap {
    pages: ZeroedSlice<Page>,
    /// By chunk: the word that stands for its descriptors; 0 or [`WRITTEN_OUT`]: each descriptor
    /// counts.
    chunks: ZeroedSlice<AtomicU32>,
    /// By frame: see [`PageMap::set_head`]. Empty if the host does not use it.
    heads: ZeroedSlice<AtomicU8>,
}

/// The descriptors as a slice, for [`super::PageList`].
impl core::ops::Deref for PageMap {
    type Target = [Page];

    #[inline(always)]
    fn deref(&self) -> &[Page] {
        &self.pages
    }
}

impl PageMap {
    /// Descriptors for frames `0..nr_frames`, none of which is the allocator's.
    pub fn new(nr_frames: u32) -> PageMap {
        let nr_chunks = nr_frames.div_ceil(CHUNK);
        let pages = ZeroedSlice::new(nr_frames as usize);
        let (chunks, heads) = (ZeroedSlice::new(nr_chunks as usize), ZeroedSlice::new(0));
        PageMap { pages, chunks, heads }
    }

    /// The same, with head bytes for [`PageMap::is_head`].
    pub(crate) fn with_heads(nr_frames: u32) -> PageMap {
        PageMap { heads: ZeroedSlice::new(nr_frames as usize), ..PageMap::new(nr_frames) }
    }

    /// Records in a near byte that a block in use begins at this frame, with the state of its
    /// descriptor, which may be far. Code that changes this state in the descriptor clears the byte
    /// first ([`PageMap::forget_head`]). Without a byte the descriptor counts. Blocks where zones
    /// meet get no byte ([`PageMap::likely_zone`]).
    #[inline(always)]
    pub(crate) fn set_head(&self, pfn: Pfn, order: Order, state: BlockWord) {
        if self.likely_zone(pfn) == state.zone_id()
            && let Some(head) = self.heads.get(pfn.idx())
        {
            head.store(order.0 + 1, Relaxed);
        }
    }

    /// A block of `order` in use is known to begin here.
    #[inline(always)]
    pub(crate) fn is_head(&self, pfn: Pfn, order: Order) -> bool {
        self.head(pfn) == order.0 + 1
    }

    /// Whether the block that begins here has a deferred free ([`PageMap::put_down_head`]).
    #[inline(always)]
    pub(crate) fn is_put_down(&self, pfn: Pfn) -> bool {
        self.head(pfn) == PUT_DOWN
    }

    /// The order of the block in use that is known to begin here; for a block with a deferred free,
    /// an order that does not exist.
    pub(crate) fn known_head(&self, pfn: Pfn) -> Option<Order> {
        self.head(pfn).checked_sub(1).map(Order)
    }

    #[inline(always)]
    fn head(&self, pfn: Pfn) -> u8 {
        self.heads.get(pfn.idx()).map_or(0, |head| head.load(Relaxed))
    }

    /// Marks the free of the block that begins here as deferred; its descriptor is updated later.
    #[inline(always)]
    pub(crate) fn put_down_head(&self, pfn: Pfn) {
        self.heads[pfn.idx()].store(PUT_DOWN, Relaxed);
    }

    /// Clears the byte: only the descriptor of a block that begins here counts.
    #[inline(always)]
    pub(crate) fn forget_head(&self, pfn: Pfn) {
        if let Some(head) = self.heads.get(pfn.idx()) {
            head.store(0, Relaxed);
        }
    }

    /// Returns the descriptor of a frame, or of a folio's head. For frames that may never have been
    /// used, read the word with [`PageMap::block`] instead.
    ///
    /// # Panics
    /// If there is no such frame: [`PageMap::get`] asks.
    #[doc(alias = "pfn_to_page")]
    #[inline(always)]
    pub fn page(&self, at: impl Into<Pfn>) -> &Page {
        &self.pages[at.into().idx()]
    }

    /// The frame of a descriptor of this array.
    #[doc(alias = "page_to_pfn")]
    #[inline(always)]
    pub(crate) fn pfn_of(&self, page: &Page) -> Pfn {
        let first = self.pages.as_ptr().addr();
        let at = core::ptr::from_ref(page).addr().wrapping_sub(first) / size_of::<Page>();
        debug_assert!(at < self.pages.len(), "a descriptor of another array");
        Pfn(at as u32)
    }

    /// The descriptor of a frame, if the frame exists; as [`PageMap::page`].
    #[inline(always)]
    pub fn get(&self, pfn: Pfn) -> Option<&Page> {
        self.pages.get(pfn.idx())
    }

    /// A frame's descriptor is wanted soon, if there is such a frame.
    #[inline(always)]
    pub(crate) fn hint(&self, pfn: Pfn) {
        if let Some(page) = self.get(pfn) {
            prefetch_read(page);
        }
    }

    /// What any frame says of its block.
    ///
    /// # Panics
    /// If there is no such frame: [`PageMap::get`] asks.
    #[inline(always)]
    pub fn block(&self, pfn: Pfn) -> BlockWord {
        let word = self.page(pfn).block();
        if word.is_reserved() { self.untouched_block(pfn) } else { word }
    }

    /// Reserved, or in a chunk that is as boot left it.
    #[cold]
    fn untouched_block(&self, pfn: Pfn) -> BlockWord {
        match self.chunk(pfn) {
            // Read again: it may have been written out since.
            None => self.page(pfn).block(),
            Some(word) if pfn.0.is_multiple_of(CHUNK) => word,
            Some(word) => word.tail(),
        }
    }

    /// The word that stands for a frame's chunk. Acquire pairs with the release in
    /// [`PageMap::write_out`]: a reader that finds none sees the written descriptors.
    fn chunk(&self, pfn: Pfn) -> Option<BlockWord> {
        let word = self.chunks[(pfn.0 >> CHUNK_SHIFT) as usize].load(Acquire);
        (word != 0 && word & WRITTEN_OUT == 0).then_some(BlockWord::from_word(word))
    }

    /// The zone of a frame that exists, unless zones meet in its chunk: then that of one of them.
    #[inline(always)]
    pub(crate) fn likely_zone(&self, pfn: Pfn) -> ZoneId {
        let word = self.chunks[(pfn.0 >> CHUNK_SHIFT) as usize].load(Relaxed);
        BlockWord::from_word(word).zone_id()
    }

    /// The frame's chunk is as boot left it.
    pub(crate) fn is_untouched(&self, pfn: Pfn) -> bool {
        self.chunk(pfn).is_some()
    }

    /// The frame's chunk is a free block and as boot left it.
    pub(crate) fn is_fresh(&self, pfn: Pfn) -> bool {
        self.chunk(pfn).is_some_and(|word| !word.is_reserved())
    }

    /// The first fresh chunk of a range that begins with a chunk.
    pub(crate) fn next_fresh(&self, range: Range<u32>) -> Option<Pfn> {
        range.step_by(CHUNK as usize).map(Pfn).find(|&pfn| self.is_fresh(pfn))
    }

    /// A chunk that the allocator did not have is a free block from now on (zone lock held).
    pub(crate) fn set_fresh(&self, pfn: Pfn, migratetype: MigrateType) {
        let chunk = &self.chunks[(pfn.0 >> CHUNK_SHIFT) as usize];
        let word = BlockWord::from_word(chunk.load(Relaxed)).free(Order::MAX, migratetype);
        chunk.store(word.to_word(), Release);
    }

    /// Writes the words of a chunk's frames (zone lock held).
    pub(crate) fn write_out(&self, pfn: Pfn) {
        let Some(word) = self.chunk(pfn) else { return };
        let first = pfn.0 & !(CHUNK - 1);
        for tail in first + 1..first + CHUNK {
            self.page(Pfn(tail)).init(word.tail());
        }
        self.page(Pfn(first)).init(word);
        let place = word.place() | WRITTEN_OUT;
        self.chunks[(pfn.0 >> CHUNK_SHIFT) as usize].store(place, Release);
    }

    /// All frames of chunks that are no longer as boot left them, in order.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Pfn> + '_ {
        let mut at: u32 = 0;
        core::iter::from_fn(move || {
            while at.is_multiple_of(CHUNK)
                && (at as usize) < self.len()
                && self.is_untouched(Pfn(at))
            {
                at += CHUNK;
            }
            at += 1;
            (at as usize <= self.len()).then_some(Pfn(at - 1))
        })
    }

    /// Sets the zone of a range of frames. Call it before they are freed to the allocator, because
    /// blocks merge within the frames of a zone.
    ///
    /// # Panics
    /// If one of the frames does not exist.
    pub fn assign(&self, start: Pfn, nr: u32, node: NodeId, zone: ZoneType) {
        let (word, end) = (BlockWord::reserved(node, zone), start.0 + nr);
        let mut at = start.0;
        while at < end {
            let chunk = &self.chunks[(at >> CHUNK_SHIFT) as usize];
            if at.is_multiple_of(CHUNK) && end - at >= CHUNK {
                chunk.store(word.to_word(), Relaxed);
                at += CHUNK;
            } else {
                chunk.store(word.place() | WRITTEN_OUT, Relaxed);
                self.page(Pfn(at)).set_place(word);
                at += 1;
            }
        }
    }

    /// Frames are the allocator's from now on.
    ///
    /// # Panics
    /// If one of the frames does not exist.
    pub fn give(&self, start: Pfn, nr: u32) {
        for pfn in (start.0..start.0 + nr).map(Pfn) {
            self.write_out(pfn);
            self.page(pfn).set_managed(true);
        }
    }

    /// A frame is not the allocator's any longer, and nothing else either.
    pub(crate) fn withhold(&self, pfn: Pfn) {
        self.write_out(pfn);
        self.forget_head(pfn);
        let page = self.page(pfn);
        page.clear();
        page.set_managed(false);
        page.set_refcount(0);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::page::BlockFlags;

    fn map() -> PageMap {
        let map = PageMap::new(4 * CHUNK);
        map.assign(Pfn(100), 3 * CHUNK, NodeId(1), ZoneType::Normal);
        map
    }

    /// A frame as the allocator's walkers see it.
    fn tell(map: &PageMap, pfn: u32) -> (u16, bool, bool, u8) {
        let word = map.block(Pfn(pfn));
        (word.node().0, word.is_reserved(), word.has(BlockFlags::BUDDY), word.order().0)
    }

    #[test]
    fn a_chunk_says_what_its_frames_would_say() {
        let map = map();
        map.set_fresh(Pfn(CHUNK), MigrateType::Movable);
        let all = [0, 100, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, 3 * CHUNK + 100];
        let told = all.map(|pfn| tell(&map, pfn));
        let reserved = (1, true, false, 0);
        let free = [(1, false, true, 10), (1, false, false, 0)];
        let outside = (0, true, false, 0);
        assert_eq!(told, [outside, reserved, free[0], free[1], reserved, reserved, outside]);
        assert_eq!(map.page(Pfn(CHUNK + 1)).word(), 0, "nothing is written");
        (0..4).for_each(|chunk| map.write_out(Pfn(chunk * CHUNK + 5)));
        assert_eq!(all.map(|pfn| tell(&map, pfn)), told);
        assert_eq!(map.block(Pfn(CHUNK)).migratetype(), MigrateType::Movable);
        assert_eq!(map.touched().count(), map.len());
    }

    #[test]
    fn the_zone_of_a_chunk_is_known_without_its_frames() {
        let map = PageMap::with_heads(4 * CHUNK);
        let zones = [ZoneType::Dma, ZoneType::Normal];
        // They meet in the second chunk, which is the upper one's then.
        let border = CHUNK + 100;
        map.assign(Pfn(0), border, NodeId(0), zones[0]);
        map.assign(Pfn(border), 4 * CHUNK - border, NodeId(1), zones[1]);
        let [lower, upper] = [ZoneId::new(NodeId(0), zones[0]), ZoneId::new(NodeId(1), zones[1])];
        let likely = |map: &PageMap| {
            [5, CHUNK, border, 2 * CHUNK, 4 * CHUNK - 1].map(|pfn| map.likely_zone(Pfn(pfn)))
        };
        assert_eq!(likely(&map), [lower, upper, upper, upper, upper]);
        map.give(Pfn(0), 4 * CHUNK);
        assert_eq!(likely(&map), [lower, upper, upper, upper, upper]);
        // If a frame's chunk does not have its zone, no zone is known.
        for (pfn, is_known) in [(8, true), (CHUNK + 8, false), (border, true)] {
            let pfn = Pfn(pfn);
            map.set_head(pfn, Order(2), map.page(pfn).block());
            assert_eq!((map.is_head(pfn, Order(2)), map.is_head(pfn, Order(0))), (is_known, false));
        }
        map.put_down_head(Pfn(8));
        assert_eq!((map.is_put_down(Pfn(8)), map.is_head(Pfn(8), Order(2))), (true, false));
        map.forget_head(Pfn(8));
        assert_eq!(map.known_head(Pfn(8)), None);
    }

    #[test]
    fn only_touched_frames_are_gone_over() {
        let map = map();
        let touched = |map: &PageMap| map.touched().map(|pfn| pfn.0).collect::<Vec<_>>();
        let ends = (0..CHUNK).chain(3 * CHUNK..4 * CHUNK);
        assert!(touched(&map).into_iter().eq(ends));
        map.give(Pfn(2 * CHUNK + 7), 2);
        assert!(touched(&map).into_iter().eq((0..CHUNK).chain(2 * CHUNK..4 * CHUNK)));
        let word = |at: u32| tell(&map, 2 * CHUNK + at);
        assert_eq!((word(6).1, word(7).1, word(8).1, word(9).1), (true, false, false, true));
        map.withhold(Pfn(2 * CHUNK + 7));
        assert_eq!(word(7), (1, true, false, 0));
    }

    #[test]
    fn fresh_chunks_are_found_in_order() {
        let map = map();
        for chunk in [2, 1] {
            map.set_fresh(Pfn(chunk * CHUNK), MigrateType::Movable);
        }
        let next = |from: u32| map.next_fresh(from * CHUNK..4 * CHUNK).map(|pfn| pfn.0 / CHUNK);
        assert_eq!([0, 1, 2, 3].map(next), [Some(1), Some(1), Some(2), None]);
        map.write_out(Pfn(CHUNK));
        assert_eq!((next(0), map.is_fresh(Pfn(CHUNK))), (Some(2), false));
    }
}
