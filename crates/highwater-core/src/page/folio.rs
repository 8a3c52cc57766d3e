//! Folios: pages that are managed as one.
//!
//! A [`Folio`] names `2^order` frames by the first of them, its *head*. The state of a page in use
//! (flags, references, mapcount, mapping, its place on a list) is in the head's descriptor and
//! holds for all frames. Page counts go by [`Folio::nr_pages`]. Nearly all folios are single pages,
//! and for those a folio costs no more than a frame number.
//!
//! | have | want | how |
//! |---|---|---|
//! | a frame (of a page table entry, of a tree's slot) | the folio it belongs to | [`PageMap::folio`] |
//! | a block fresh from the allocator | a folio | [`PageMap::make_folio`] |
//! | a folio | its descriptor | [`PageMap::page`] takes both |
//! | a folio to be freed | a plain block | [`PageMap::dissolve_folio`] |
//!
//! Support for larger folios: lists, isolation, references, accounting, leaves of page tables and
//! their unmapping take any order, and so does the page cache (`page_cache::folios`). Anonymous
//! memory and swap take orders 0 and 9; order 9 can be split (`vm::huge`).
//!
//! The other frames of a larger folio are marked as tails ([`BlockFlags::TAIL`]) with the folio's
//! order. Blocks are aligned to their size, so the head is found from any of them.

use alloc::vec::Vec;
use core::fmt;

use super::usage::{count_down, count_up};
use super::{BlockFlags, MigrateType, Order, Page, PageFlags, PageMap, Pfn};
use crate::host::Host;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One or more frames that are managed as one page (`struct folio`).
///
/// One word, the number of pages above the frame number: batches copy them around a lot, and count
/// pages at every turn.
#[doc(alias = "folio")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Folio(u64);

const NR_SHIFT: u32 = 32;

impl Folio {
    /// `2^order` frames from `pfn` on.
    #[inline(always)]
    pub const fn new(pfn: Pfn, order: Order) -> Folio {
        debug_assert!(pfn.is_aligned(order), "a folio is aligned to its size");
        Folio(pfn.0 as u64 | order.pages() << NR_SHIFT)
    }

    /// A single page.
    #[inline(always)]
    pub const fn page(pfn: Pfn) -> Folio {
        Folio(pfn.0 as u64 | 1 << NR_SHIFT)
    }

    /// Its first frame, whose descriptor holds the state of all.
    #[inline(always)]
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 as u32)
    }

    /// log2 of its pages.
    #[inline(always)]
    pub const fn order(self) -> Order {
        Order(self.nr_pages().trailing_zeros() as u8)
    }

    /// Its pages.
    #[inline(always)]
    pub const fn nr_pages(self) -> u64 {
        self.0 >> NR_SHIFT
    }

    /// True if it is more than a page.
    #[inline(always)]
    pub const fn is_large(self) -> bool {
        self.nr_pages() != 1
    }

    /// True if a frame is part of it.
    #[inline(always)]
    pub const fn contains(self, pfn: Pfn) -> bool {
        pfn.0 >> self.order().0 == self.pfn().0 >> self.order().0
    }

    /// Adds its frames to a list of frames.
    #[inline]
    pub fn push_frames(self, frames: &mut Vec<Pfn>) {
        // Nearly always.
        if !self.is_large() {
            return frames.push(self.pfn());
        }
        frames.extend(self.frames());
    }

    /// Its frames, in order.
    #[inline]
    pub fn frames(self) -> impl Iterator<Item = Pfn> {
        (self.pfn().0..self.pfn().0 + self.nr_pages() as u32).map(Pfn)
    }
}

/// Page 0: the initial value of arrays.
impl Default for Folio {
    #[inline(always)]
    fn default() -> Folio {
        Folio::page(Pfn(0))
    }
}

impl From<Folio> for Pfn {
    #[inline(always)]
    fn from(folio: Folio) -> Pfn {
        folio.pfn()
    }
}

impl fmt::Debug for Folio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{:x}", self.pfn().0)?;
        if self.is_large() { write!(f, "{:?}", self.order()) } else { Ok(()) }
    }
}

impl PageMap {
    /// Returns the folio to which a frame in use belongs.
    #[doc(alias = "page_folio")]
    #[inline(always)]
    pub fn folio(&self, pfn: Pfn) -> Folio {
        self.lookup(pfn).0
    }

    /// The folio that a frame in use belongs to, and its descriptor.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[inline(always)]
    pub fn lookup(&self, pfn: Pfn) -> (Folio, &Page) {
        let page = self.page(pfn);
        let order = page.order();
        if order.0 == 0 {
            return (Folio::page(pfn), page);
        }
        // Of blocks in use only folios are looked up by frame; their heads and tails both know the
        // order.
        let folio = Folio::new(Pfn(pfn.0 >> order.0 << order.0), order);
        (folio, self.page(folio))
    }

    /// The folios of consecutive frames, each whole, and their descriptors.
    ///
    /// The caller may drop the last reference to a folio: the iterator does not access it or its
    /// frames again.
    pub fn folios<'a>(
        &'a self,
        frames: &'a [Pfn],
    ) -> impl Iterator<Item = (Folio, &'a Page)> + use<'a> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (folio, page) = self.lookup(*frames.get(at)?);
            at += folio.nr_pages() as usize;
            Some((folio, page))
        })
    }

    /// The folios of frames of which consecutive ones may be parts of a folio, with the number of
    /// those.
    ///
    /// As with [`PageMap::folios`], the caller may drop the last reference to each.
    pub fn folio_parts<'a>(
        &'a self,
        frames: &'a [Pfn],
    ) -> impl Iterator<Item = (Folio, &'a Page, u32)> + use<'a> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (folio, page) = self.lookup(*frames.get(at)?);
            let nr = match folio.is_large() {
                false => 1,
                true => frames[at..].iter().take_while(|&&pfn| folio.contains(pfn)).count(),
            };
            at += nr;
            Some((folio, page, nr as u32))
        })
    }

    /// Makes a folio of a block from the allocator: its tail frames know their head.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[doc(alias = "prep_compound_page")]
    pub fn make_folio(&self, pfn: Pfn, order: Order) -> Folio {
        let folio = Folio::new(pfn, order);
        for tail in folio.frames().skip(1) {
            self.page(tail).set(BlockFlags::TAIL, order, MigrateType::Unmovable);
        }
        if folio.is_large() {
            self.page(pfn).insert_block_flags(BlockFlags::HEAD);
        }
        folio
    }

    /// `nr` pages of a large folio are handed to a device, which may do them in pieces.
    pub(crate) fn begin_pieces(&self, folio: Folio, nr: u32) {
        self.second(folio).pieces().store(nr, Relaxed);
    }

    /// The device is done with `nr` pages of a large folio; true if those were the last.
    pub(crate) fn end_piece<H: Host>(&self, folio: Folio, nr: u32) -> bool {
        count_down::<H>(self.second(folio).pieces(), nr)
    }

    fn second(&self, folio: Folio) -> &Page {
        debug_assert!(folio.is_large(), "a single page has no second frame");
        self.page(folio.pfn().add(1))
    }

    /// The count of a frame of a large folio of a file: how many entries map this page of it. Their
    /// sum is the folio's mapcount.
    #[inline]
    fn frame_mapped(&self, folio: Folio, frame: Pfn) -> &AtomicU32 {
        match frame == folio.pfn() {
            true => self.second(folio).first_mapped(),
            false => self.page(frame).mapcount_cell(),
        }
    }

    /// A fresh large folio enters a file: none of its pages is mapped or stored to.
    pub(crate) fn reset_frames(&self, folio: Folio) {
        self.second(folio).first_mapped().store(0, Relaxed);
        for frame in folio.frames().skip(1) {
            self.page(frame).init_flags(PageFlags::empty());
            self.page(frame).init_mapcount(0);
        }
    }

    /// An entry more maps a frame of a file's folio; true if none did before.
    #[inline]
    pub(crate) fn map_frame<H: Host>(&self, folio: Folio, frame: Pfn) -> bool {
        let is_first = self.page(folio).map_add::<H>(1);
        if !folio.is_large() {
            return is_first;
        }
        count_up::<H>(self.frame_mapped(folio, frame))
    }

    /// An entry less maps a frame of a file's folio; true if none does now.
    #[inline]
    pub(crate) fn unmap_frame<H: Host>(&self, folio: Folio, frame: Pfn) -> bool {
        let is_last = self.page(folio).map_remove::<H>(1);
        if !folio.is_large() {
            return is_last;
        }
        count_down::<H>(self.frame_mapped(folio, frame), 1)
    }

    /// The entries that map a frame of a large folio of a file.
    pub fn frame_mapcount(&self, folio: Folio, frame: Pfn) -> u32 {
        self.frame_mapped(folio, frame).load(Relaxed)
    }

    /// The frame of a file's folio that holds page `index` of the file.
    #[inline(always)]
    pub fn frame_of(&self, folio: Folio, index: u32) -> Pfn {
        match folio.is_large() {
            true => folio.pfn().add(index.wrapping_sub(self.page(folio).index())),
            false => folio.pfn(),
        }
    }

    /// The pages of a file that a folio of it holds: the first one, and the one after the last.
    #[inline]
    pub fn indices_of(&self, folio: Folio) -> (u32, u32) {
        let first = self.page(folio).index();
        (first, first.saturating_add(folio.nr_pages() as u32))
    }

    /// A folio without users becomes a plain block again, to be freed.
    ///
    /// # Panics
    /// If the machine has no such frame.
    pub fn dissolve_folio(&self, folio: Folio) {
        for tail in folio.frames().skip(1) {
            self.page(tail).clear();
        }
        if folio.is_large() {
            self.page(folio.pfn()).remove_block_flags(BlockFlags::HEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_frame_of_a_folio_finds_its_head() {
        let map = PageMap::new(1024);
        map.page(Pfn(512)).set(BlockFlags::USED, Order(9), MigrateType::Movable);
        let folio = map.make_folio(Pfn(512), Order(9));
        assert_eq!((folio.nr_pages(), folio.is_large()), (512, true));
        for pfn in [512, 513, 700, 1023].map(Pfn) {
            assert_eq!(map.folio(pfn), folio);
            assert!(folio.contains(pfn));
        }
        assert!(!folio.contains(Pfn(511)) && map.page(Pfn(512)).has(BlockFlags::HEAD));
        assert_eq!(map.page(folio).order(), Order(9));
        map.dissolve_folio(folio);
        assert_eq!(map.folio(Pfn(700)), Folio::page(Pfn(700)));
        assert_eq!(map.page(Pfn(512)).order(), Order(9), "the block is still what was allocated");
    }

    /// The caller may free the folio: its tails are plain frames then, and may be reused.
    #[test]
    fn frames_are_looked_at_once_a_folio() {
        let map = PageMap::new(16);
        for (pfn, order) in [(4, Order(2)), (8, Order::ZERO), (10, Order(1))] {
            map.page(Pfn(pfn)).set(BlockFlags::USED, order, MigrateType::Movable);
            map.make_folio(Pfn(pfn), order);
        }
        let frames = [4, 5, 6, 7, 8, 10, 11].map(Pfn);
        let mut met = Vec::new();
        for (folio, page) in map.folios(&frames) {
            assert_eq!(page.order(), folio.order());
            map.dissolve_folio(folio);
            met.push(folio.pfn().0);
        }
        assert_eq!(met, [4, 8, 10]);
        let mut listed = Vec::new();
        for (pfn, order) in [(4, Order(2)), (8, Order::ZERO)] {
            Folio::new(Pfn(pfn), order).push_frames(&mut listed);
        }
        assert_eq!(listed, frames[..5]);
    }

    #[test]
    fn a_page_is_a_folio_of_one() {
        let map = PageMap::new(8);
        map.page(Pfn(3)).set(BlockFlags::USED, Order::ZERO, MigrateType::Movable);
        let folio = map.make_folio(Pfn(3), Order::ZERO);
        assert_eq!((folio, folio), (Folio::page(Pfn(3)), map.folio(Pfn(3))));
        assert!(!map.page(folio).has(BlockFlags::HEAD));
        assert_eq!(folio.frames().collect::<Vec<_>>(), [Pfn(3)]);
        let large = Folio::new(Pfn(0x200), Order(9));
        assert_eq!((format!("{folio:?}"), format!("{large:?}")), ("F3".into(), "F200o9".into()));
    }
}
