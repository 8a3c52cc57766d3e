//! Readahead (rules/readahead#state): decides which pages to read before they are needed.
//!
//! ```text
//!             start                      start + size
//!   ............|----------|================|........
//!   read before | needed   | async_size     |
//!                          ^ the mark: reading this page starts the next window
//! ```
//!
//! [`ReadAhead`] is a descriptor's state. Its methods decide, as pure functions of the state and
//! the tree; `Kernel::submit_window` ([`submit`]) submits the reads. A decision works on a copy of
//! the state: tasks that share a descriptor may overwrite each other's state, as in the kernel.
//!
//! [`ReadAhead::decide`] has the rule up to 6.10, [`restart`] the later ones.
//!
//! From: `read`, `vm::fault` · to: `block`.

mod restart;
mod submit;

use super::{File, OpenFile, ReadMode, Tree};
use crate::config::{MmapMiss, ReadaheadRule};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, PAGE_SHIFT, PAGE_SIZE, PageFlags};

/// Forced reading goes in pieces of 2 MiB.
const FORCED_CHUNK: u32 = (2 << 20) / PAGE_SIZE as u32;
/// Net misses of faults after which a file is taken for randomly used.
const MMAP_MISSES: u32 = 100;
/// Most net misses that are counted.
const MMAP_MISSES_MAX: u32 = 10 * MMAP_MISSES;

/// State of a descriptor's readahead (`struct file_ra_state`).
#[doc(alias = "file_ra_state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadAhead {
    /// First page of the current window.
    pub start: u32,
    /// Its pages.
    pub size: u32,
    /// How many of them, at its end, are read ahead of need.
    pub async_size: u32,
    /// Last byte read by read(); none before the first.
    pub prev_pos: Option<u64>,
    /// Order of the folios of the current window, which the next one's go by (7.2). Not the order
    /// of every folio in it: alignment makes smaller ones.
    pub order: u8,
    /// Net misses of faults.
    pub mmap_miss: u32,
    /// Most pages of a window; 0 = none.
    pub ra_pages: u32,
    /// Advice.
    pub mode: ReadMode,
}

/// A window to read: pages `start..start+size`, the mark at `start+size-async_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First page.
    pub start: u32,
    /// Pages.
    pub size: u32,
    /// Pages from the mark to the end; 0 = no mark.
    pub async_size: u32,
}

/// The reason for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// The page is missing.
    Miss,
    /// The page is cached and has the mark; its folio has this order.
    Mark(Order),
}

impl Trigger {
    /// The order of the folio that has the mark.
    const fn marked(self) -> Order {
        match self {
            Trigger::Miss => Order::ZERO,
            Trigger::Mark(order) => order,
        }
    }

    /// True if page `index`, the first one of its folio, is the one with the mark at `mark`.
    const fn is_at(self, index: u32, mark: u32) -> bool {
        index == mark >> self.marked().0 << self.marked().0
    }
}

/// Computes the size of the first readahead window for a request.
#[doc(alias = "get_init_ra_size")]
const fn init_size(req: u32, max: u32) -> u32 {
    let n = req.next_power_of_two();
    if n <= max / 32 {
        n * 4
    } else if n <= max / 4 {
        n * 2
    } else {
        max
    }
}

/// Computes the size of the readahead window after one.
#[doc(alias = "get_next_ra_size")]
const fn next_size(size: u32, max: u32) -> u32 {
    if size < max / 16 {
        size * 4
    } else if size <= max / 2 {
        size * 2
    } else {
        max
    }
}

impl ReadAhead {
    /// Makes the readahead state of a descriptor that was not read yet, of a file on a device with
    /// such windows.
    #[doc(alias = "file_ra_state_init")]
    pub fn new(ra_pages: u32) -> Self {
        ReadAhead { ra_pages, ..ReadAhead::default() }
    }

    /// Largest window for a request: one larger than usual gets as much as the device takes at
    /// once.
    const fn max_window(&self, req: u32, io_pages: u32) -> u32 {
        let max = self.ra_pages;
        if req > max && io_pages > max { if req < io_pages { req } else { io_pages } } else { max }
    }

    /// The page at which the last read() ended: the next one to read, if that read whole pages.
    fn prev_page(&self) -> Option<u64> {
        self.prev_pos.map(|last| (last + 1) >> PAGE_SHIFT)
    }

    /// Decides what to read when page `index` is wanted, `req` pages of it and its successors
    /// (rules/readahead#decision). `tree` is what is cached; None = read nothing.
    #[doc(alias = "ondemand_readahead")]
    fn decide(
        &mut self,
        index: u32,
        req: u32,
        max: u32,
        trigger: Trigger,
        tree: &Tree,
    ) -> Option<Window> {
        let end = self.start.saturating_add(self.size);
        if index == 0 {
            self.begin(index, req, max);
        } else if trigger.is_at(index, end - self.async_size.min(end)) || index == end {
            self.start = end;
            self.size = self.size.max(next_size(self.size, max));
            self.async_size = self.size;
        } else if trigger != Trigger::Miss {
            // Somebody else read this window: go on behind it, at the speed it suggests.
            let missing = tree.next_missing(index + 1, max)?;
            self.start = missing;
            self.size = next_size((missing - index).saturating_add(req), max);
            self.async_size = self.size;
        } else if req > max || self.is_next(index) {
            self.begin(index, req, max);
        } else {
            let before = tree.run_before(index, max);
            if before <= req {
                // A small random read: read only the requested pages, and keep no state.
                return Some(Window { start: index, size: req, async_size: 0 });
            }
            self.follow_history(index, req, max, before);
        }
        self.grow_at_once(index, max);
        Some(self.window())
    }

    /// The window of the state.
    const fn window(&self) -> Window {
        Window { start: self.start, size: self.size, async_size: self.async_size }
    }

    /// The `before` cached pages right before the missing one show that the file is read in order.
    fn follow_history(&mut self, index: u32, req: u32, max: u32, before: u32) {
        // A run from the start of the file is a long one.
        let before = if before >= index { before * 2 } else { before };
        self.start = index;
        self.size = before.saturating_add(req).min(max);
        self.async_size = 1;
    }

    /// The page follows the last one read, or is that one.
    fn is_next(&self, index: u32) -> bool {
        self.prev_page().is_some_and(|prev| (prev..=prev + 1).contains(&u64::from(index)))
    }

    fn begin(&mut self, index: u32, req: u32, max: u32) {
        self.start = index;
        self.size = init_size(req, max);
        self.async_size = if self.size > req { self.size - req } else { self.size };
    }

    /// If its first page has the mark, a window would trigger the next one at once, so the two are
    /// joined.
    fn grow_at_once(&mut self, index: u32, max: u32) {
        if index != self.start || self.size != self.async_size {
            return;
        }
        let next = next_size(self.size, max);
        if self.size.saturating_add(next) <= max {
            self.async_size = next;
            self.size += next;
        } else {
            self.size = max;
            self.async_size = max / 2;
        }
    }

    /// What to read around a page that a fault missed (rules/readahead#mmap-miss), no advice given.
    /// None = that page alone.
    fn around(&mut self, index: u32) -> Option<Window> {
        self.mmap_miss = (self.mmap_miss + 1).min(MMAP_MISSES_MAX);
        if self.mmap_miss > MMAP_MISSES {
            return None;
        }
        self.order = 0;
        self.start = index.saturating_sub(self.ra_pages / 2);
        self.size = self.ra_pages;
        self.async_size = self.ra_pages / 4;
        Some(self.window())
    }
}

impl<H: Devices> Kernel<H> {
    /// Reads a page that read() misses, and a window after it; `req` = pages left in the call.
    #[doc(alias = "page_cache_sync_ra")]
    #[doc(alias = "page_cache_sync_readahead")]
    pub fn readahead_sync(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, index: u32, req: u32) {
        let state = *open.readahead.lock(cx.cpu());
        if state.ra_pages == 0 {
            self.readahead_forced(cx, open, index, 1);
        } else if state.mode == ReadMode::Random {
            self.readahead_forced(cx, open, index, req);
        } else {
            self.readahead(cx, open, state, (index, req), Trigger::Miss);
        }
    }

    /// Reads the next window when a reader reaches the page with the readahead mark. Clears the
    /// mark. (A page under writeback has no such mark: there the bit means something else.)
    #[doc(alias = "page_cache_async_ra")]
    #[doc(alias = "page_cache_async_readahead")]
    pub fn readahead_async(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        folio: Folio,
        index: u32,
        req: u32,
    ) {
        let page = self.mem.map.page(folio);
        let state = *open.readahead.lock(cx.cpu());
        if state.ra_pages == 0 || page.is(PageFlags::WRITEBACK) {
            return;
        }
        page.flag_test_clear::<H>(PageFlags::READAHEAD);
        self.readahead(cx, open, state, (index, req), Trigger::Mark(folio.order()));
    }

    fn readahead(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        mut state: ReadAhead,
        (index, req): (u32, u32),
        trigger: Trigger,
    ) {
        let max = state.max_window(req, self.io_pages(&open.file));
        let marked = trigger.marked();
        let window = {
            let tree = open.file.tree.lock(cx.cpu());
            match self.mem.policy.readahead {
                ReadaheadRule::Continue => state.decide(index, req, max, trigger, &tree),
                rule => state.decide_anew(index, req, max, trigger, &tree, rule),
            }
        };
        let order = window.map_or(Order::ZERO, |window| {
            self.order_of_window(&open.file, &mut state, window, marked)
        });
        open.store_window(cx, &state);
        if let Some(window) = window {
            self.submit_window(cx, &open.file, window, order);
        }
    }

    /// Reads `nr` pages whatever the state says, and leaves it alone (random advice, WILLNEED).
    #[doc(alias = "force_page_cache_ra")]
    #[doc(alias = "force_page_cache_readahead")]
    pub(crate) fn readahead_forced(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, index: u32, nr: u32) {
        let ra_pages = open.readahead.lock(cx.cpu()).ra_pages;
        let end = index.saturating_add(nr.min(self.io_pages(&open.file).max(ra_pages)));
        let mut start = index;
        while start < end {
            let size = (end - start).min(FORCED_CHUNK);
            let window = Window { start, size, async_size: 0 };
            self.submit_window(cx, &open.file, window, Order::ZERO);
            start += size;
        }
    }

    /// Reads around a page that a fault missed, or as the VMA's advice says
    /// (rules/readahead#mmap-miss).
    #[doc(alias = "do_sync_mmap_readahead")]
    pub fn readahead_mmap_miss(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        index: u32,
        mode: ReadMode,
    ) {
        let mut state = *open.readahead.lock(cx.cpu());
        if state.ra_pages == 0 {
            return;
        }
        match mode {
            ReadMode::Random => {}
            ReadMode::Sequential => self.readahead_sync(cx, open, index, state.ra_pages),
            ReadMode::Normal => {
                let window = state.around(index);
                let order = window.map_or(Order::ZERO, |window| {
                    self.order_of_window(&open.file, &mut state, window, Order::ZERO)
                });
                open.store_window(cx, &state);
                open.readahead.lock(cx.cpu()).mmap_miss = state.mmap_miss;
                if let Some(window) = window {
                    self.submit_window(cx, &open.file, window, order);
                }
            }
        }
    }

    /// Counts a fault that found its page cached, and reads the next window if the page has the
    /// readahead mark (rules/faults#file-read).
    #[doc(alias = "do_async_mmap_readahead")]
    pub fn readahead_mmap_hit(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        folio: Folio,
        index: u32,
        mode: ReadMode,
    ) {
        let ra_pages = open.readahead.lock(cx.cpu()).ra_pages;
        if mode == ReadMode::Random || ra_pages == 0 {
            return;
        }
        let page = self.mem.map.page(folio);
        // A page that is still being read is no hit in 7.2.
        if self.mem.policy.fault.mmap_miss != MmapMiss::Fault || !page.is(PageFlags::LOCKED) {
            self.note_mmap_hits(cx, open, 1);
        }
        if page.is(PageFlags::READAHEAD) {
            self.readahead_async(cx, open, folio, index, ra_pages);
        }
    }

    /// A fault found `nr` pages that count as hits (rules/readahead#mmap-hits).
    pub fn note_mmap_hits(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, nr: u32) {
        let mut state = open.readahead.lock(cx.cpu());
        state.mmap_miss = state.mmap_miss.saturating_sub(nr);
    }

    /// Largest readahead window of a file's device, pages.
    pub(crate) fn ra_pages(&self, file: &File<H>) -> u32 {
        self.block.device(file.spec.device).spec.ra_pages
    }

    /// Largest request of a file's device.
    fn io_pages(&self, file: &File<H>) -> u32 {
        self.block.device(file.spec.device).spec.max_request_pages
    }
}

#[cfg(test)]
mod tests {
    use super::super::node_memory::Objects;
    use super::super::tree::Entry;
    use super::*;
    use crate::block::DeviceSpec;
    use crate::page::Pfn;
    use alloc::vec::Vec;

    const RA_PAGES: u32 = DeviceSpec::RA_PAGES;
    use crate::slab::ObjectId;

    const MAX: u32 = 32;
    /// A single page has the mark.
    pub(super) const MARK: Trigger = Trigger::Mark(Order::ZERO);

    /// Caches pages `range`.
    pub(super) fn cache(tree: &mut Tree, range: core::ops::Range<u32>) {
        for index in range {
            let mut spare = Objects::default();
            spare.extend((0..tree.nodes_missing(index)).map(|i| ObjectId(i as u32)));
            tree.store(index, Entry::Page(Pfn(index)), &mut spare);
        }
    }

    /// Reads a file in calls of `pages` pages; the first windows as (trigger, start, size, async).
    fn sequential(pages: u32, windows: usize) -> Vec<(u32, u32, u32, u32)> {
        sequential_by(pages, windows, |state, index, left, trigger, tree| {
            state.decide(index, left, MAX, trigger, tree)
        })
    }

    /// As [`sequential`], by another rule.
    pub(super) fn sequential_by(
        pages: u32,
        windows: usize,
        decide: impl Fn(&mut ReadAhead, u32, u32, Trigger, &Tree) -> Option<Window>,
    ) -> Vec<(u32, u32, u32, u32)> {
        let (mut state, mut tree) = (ReadAhead::new(RA_PAGES), Tree::default());
        let (mut seen, mut mark) = (Vec::new(), None);
        let mut page = 0;
        while seen.len() < windows {
            let left = pages - page % pages;
            let trigger = if tree.page(page).is_none() { Trigger::Miss } else { MARK };
            if trigger == Trigger::Miss || mark == Some(page) {
                let window = decide(&mut state, page, left, trigger, &tree).unwrap();
                cache(&mut tree, window.start..window.start + window.size);
                mark = Some(window.start + window.size - window.async_size);
                seen.push((page, window.start, window.size, window.async_size));
                if mark == Some(page) {
                    continue;
                }
            }
            page += 1;
            state.prev_pos = Some(u64::from(page) * PAGE_SIZE as u64 - 1);
        }
        seen
    }

    /// Windows grow while reads go on (rules/readahead#decision, rules/readahead#sizes).
    #[test]
    fn sequential_reads_get_growing_windows() {
        let four =
            [(0, 0, 4, 3), (1, 4, 8, 8), (4, 12, 16, 16), (12, 28, 32, 32), (28, 60, 32, 32)];
        assert_eq!(sequential(1, 5), four);
        let eight = [(0, 0, 8, 4), (4, 8, 16, 16), (8, 24, 32, 32), (24, 56, 32, 32)];
        assert_eq!(sequential(4, 4), eight);
        let all = [(0, 0, 32, 16), (16, 32, 32, 32), (32, 64, 32, 32)];
        assert_eq!((sequential(16, 3), sequential(32, 3)), (all.into(), all.into()));
        let init = [(1, 4), (2, 4), (3, 8), (4, 8), (5, 16), (8, 16), (9, 32)];
        assert!(init.iter().all(|&(req, size)| init_size(req, 32) == size));
        let init = [(1, 4), (2, 8), (16, 32), (32, 64)];
        assert!(init.iter().all(|&(req, size)| init_size(req, 64) == size));
    }

    /// A read that continues no sequence gets no window (rules/readahead#decision).
    #[test]
    fn random_reads_get_what_they_ask_for() {
        let prev_pos = Some(10 * PAGE_SIZE as u64);
        let mut state =
            ReadAhead { start: 8, size: 4, async_size: 3, prev_pos, ..ReadAhead::new(RA_PAGES) };
        let before = state;
        let window = state.decide(1000, 4, MAX, Trigger::Miss, &Tree::default());
        assert_eq!(window, Some(Window { start: 1000, size: 4, async_size: 0 }));
        assert_eq!(state, before);
    }

    /// Half of the window lies before the page (rules/readahead#mmap-miss).
    #[test]
    fn misses_of_faults_read_around() {
        let mut state = ReadAhead::new(RA_PAGES);
        let window = |start, size, async_size| Some(Window { start, size, async_size });
        assert_eq!(state.around(100), window(84, 32, 8));
        assert_eq!(state.around(5), window(0, 32, 8));
        for _ in 2..100 {
            assert!(state.around(5000).is_some());
        }
        assert_eq!((state.around(5000), state.mmap_miss), (None, 101));
        for _ in 0..2000 {
            state.around(9);
        }
        assert_eq!(state.mmap_miss, 1000);
    }

    #[test]
    fn a_large_read_gets_what_the_device_takes_at_once() {
        let state = ReadAhead::new(RA_PAGES);
        assert_eq!(
            [(16, 320), (100, 320), (1000, 320), (100, 16)]
                .map(|(req, io)| { state.max_window(req, io) }),
            [32, 100, 320, 32]
        );
        let mut state = ReadAhead { prev_pos: Some(500 * PAGE_SIZE as u64 - 1), ..state };
        let window = state.decide(500, 100, 100, Trigger::Miss, &Tree::default());
        assert_eq!(window, Some(Window { start: 500, size: 100, async_size: 50 }));
    }

    #[test]
    fn history_in_the_cache_makes_a_read_sequential() {
        let mut tree = Tree::default();
        cache(&mut tree, 0..6);
        cache(&mut tree, 100..110);
        let mut state = ReadAhead::new(RA_PAGES);
        let window = state.decide(110, 4, MAX, Trigger::Miss, &tree);
        assert_eq!(window, Some(Window { start: 110, size: 14, async_size: 1 }));
        let mut state = ReadAhead::new(RA_PAGES);
        let window = state.decide(6, 2, MAX, Trigger::Miss, &tree);
        assert_eq!(window, Some(Window { start: 6, size: 14, async_size: 1 }), "counted twice");
        let window = ReadAhead::new(RA_PAGES).decide(110, 10, MAX, Trigger::Miss, &tree);
        assert_eq!(window, Some(Window { start: 110, size: 10, async_size: 0 }));
    }

    #[test]
    fn a_foreign_mark_goes_on_behind_what_is_cached() {
        let mut tree = Tree::default();
        cache(&mut tree, 200..212);
        let mut state = ReadAhead::new(RA_PAGES);
        let window = state.decide(204, 1, MAX, MARK, &tree);
        assert_eq!(window, Some(Window { start: 212, size: 18, async_size: 18 }));
        cache(&mut tree, 212..300);
        let before = state;
        assert_eq!(state.decide(204, 1, MAX, MARK, &tree), None);
        assert_eq!(state, before);
    }

    #[test]
    fn reading_on_after_a_hole_is_sequential() {
        let at = |index| {
            let prev_pos = Some(8 * PAGE_SIZE as u64 - 1);
            let mut state = ReadAhead { prev_pos, ..ReadAhead::new(RA_PAGES) };
            state.decide(index, 1, MAX, Trigger::Miss, &Tree::default()).unwrap().size
        };
        assert_eq!([7, 8, 9, 10].map(at), [1, 4, 4, 1]);
    }
}
