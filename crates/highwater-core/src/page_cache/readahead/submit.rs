//! Submits the reads of a window (rules/readahead#submit), in pages or in larger folios
//! (rules/large-folios#readahead).

use alloc::vec::Vec;

use super::{ReadAhead, Window};
use crate::block::{Bio, BioKind, BioVector};
use crate::config::ReadaheadRule;
use crate::host::{Cx, Devices, Lock, Phase, Urgency};
use crate::kernel::Kernel;
use crate::page::{Order, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::page_cache::File;
use crate::page_cache::folios::{Maker, Placement};
use crate::page_cache::lookup::{AddError, FILE_GFP};

/// Flags for allocating pages that are not needed yet: those of any file page, but without
/// filesystem calls and without retries.
const READAHEAD_GFP: Gfp = FILE_GFP.difference(Gfp::FS).union(Gfp::NORETRY).union(Gfp::NOWARN);

/// Up to 6.16 a window of fewer pages than this is read in single pages.
const LEAST_WINDOW: u32 = 4;

/// The order of the folios of a window up to 6.16: two more than the order of the folio that had
/// the mark, and no folio larger than the window.
fn order_after_mark(marked: Order, size: u32, max: Order) -> Order {
    if size < LEAST_WINDOW {
        return Order::ZERO;
    }
    let order = if marked.0 < 9 { marked.0 + 2 } else { marked.0 };
    Order(order.min(max.0).min(size.ilog2() as u8))
}

impl ReadAhead {
    /// The order of the folios of a window from 6.17 on, which the state remembers.
    fn remembered_order(&mut self, size: u32, max: Order) -> Order {
        self.order = self.order.min(max.0).min(size.max(1).ilog2() as u8);
        Order(self.order)
    }
}

impl<H: Devices> Kernel<H> {
    /// Returns the order of the folios that fill a window (rules/large-folios#readahead). `marked`:
    /// the order of the folio with the mark that started it, or 0.
    #[doc(alias = "page_cache_ra_order")]
    pub(super) fn order_of_window(
        &self,
        file: &File<H>,
        state: &mut ReadAhead,
        window: Window,
        marked: Order,
    ) -> Order {
        let max = self.max_folio_order(file, Maker::Readahead);
        // A small random read gets what it asked for, in pages, and changes no state.
        if window.async_size == 0 {
            return Order::ZERO;
        }
        match self.mem.policy.readahead {
            ReadaheadRule::RestartAligned => state.remembered_order(window.size, max),
            _ if max == Order::ZERO => max,
            _ => order_after_mark(marked, window.size, max),
        }
    }

    /// Reads the absent pages of a window, up to the end of the file, without waiting
    /// (rules/readahead#submit): one bio for each run of them. Ends early where there is no memory.
    #[doc(alias = "page_cache_ra_unbounded")]
    #[doc(alias = "__do_page_cache_readahead")]
    #[doc(alias = "do_page_cache_ra")]
    pub(super) fn submit_window(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        window: Window,
        order: Order,
    ) {
        let _phase = cx.phase(Phase::Readahead);
        self.plug_start(cx);
        match order {
            Order::ZERO => self.submit_pages(cx, file, window, window.start),
            _ => self.submit_folios(cx, file, window, order),
        }
        self.plug_finish(cx);
    }

    /// The page of a window that gets the mark.
    fn mark_of(&self, file: &File<H>, window: Window) -> Option<u64> {
        let end = u64::from(window.start) + u64::from(window.size);
        let has_mark = window.async_size != 0
            && (end < file.size_pages()
                || self.mem.policy.readahead != ReadaheadRule::RestartAligned);
        has_mark.then(|| end.saturating_sub(window.async_size.into()))
    }

    /// The page behind the last one of a window that the file has.
    fn end_of(&self, file: &File<H>, window: Window) -> u32 {
        let end = u64::from(window.start) + u64::from(window.size);
        end.min(file.size_pages()).min(file.spec.max_pages.into()) as u32
    }

    /// Reads a window in folios. Where there is no memory for one, or some of its pages are cached,
    /// the rest is read in pages: as much as the window has left (6.17 on), or as much as it has in
    /// all (before).
    fn submit_folios(&self, cx: &Cx<'_, H>, file: &File<H>, window: Window, order: Order) {
        let (mark, end) = (self.mark_of(file, window), self.end_of(file, window));
        let order1 = self.mem.policy.folio.order1;
        let mut run = Vec::new();
        for (index, order) in (Placement { at: window.start, end, order, order1 }) {
            let Ok(folio) = self.create_folio(cx, file, (index, order), READAHEAD_GFP) else {
                self.submit_run(cx, file, index, &mut run);
                let rest = match self.mem.policy.readahead {
                    ReadaheadRule::RestartAligned => window,
                    _ => Window { start: index, ..window },
                };
                return self.submit_pages(cx, file, rest, index);
            };
            let is_marked = |mark: u64| mark >> order.0 << order.0 == u64::from(index);
            if mark.is_some_and(is_marked) {
                self.mem.map.page(folio).flag_set::<H>(PageFlags::READAHEAD);
            }
            folio.push_frames(&mut run);
        }
        self.submit_run(cx, file, end, &mut run);
    }

    /// Reads the absent pages of a window from `from` on, in single pages.
    fn submit_pages(&self, cx: &Cx<'_, H>, file: &File<H>, window: Window, from: u32) {
        let (mark, end) = (self.mark_of(file, window), self.end_of(file, window));
        let mut run = Vec::new();
        let mut index = from;
        while index < end {
            let created = match self.is_cached(cx, file, index) {
                true => Err(AddError::Exists),
                false => self.create_page(cx, file, index, READAHEAD_GFP),
            };
            match created {
                Ok(folio) => {
                    if mark == Some(index.into()) {
                        self.mem.map.page(folio).flag_set::<H>(PageFlags::READAHEAD);
                    }
                    if run.is_empty() {
                        run.reserve_exact((end - index) as usize);
                    }
                    folio.push_frames(&mut run);
                }
                Err(AddError::Exists) => self.submit_run(cx, file, index, &mut run),
                Err(_) => break,
            }
            index += 1;
        }
        self.submit_run(cx, file, index, &mut run);
    }

    fn is_cached(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> bool {
        file.tree.lock(cx.cpu()).page(index).is_some()
    }

    /// Submits the reads of fresh pages that end right before `end`. They stay locked until they
    /// are read. A locked page stays in the tree, whose reference keeps it.
    #[doc(alias = "read_pages")]
    fn submit_run(&self, cx: &Cx<'_, H>, file: &File<H>, end: u32, run: &mut Vec<Pfn>) {
        if run.is_empty() {
            return;
        }
        for (folio, page) in self.mem.map.folios(run) {
            if folio.is_large() {
                self.mem.map.begin_pieces(folio, folio.nr_pages() as u32);
            }
            let is_last = page.put::<H>(1);
            debug_assert!(!is_last, "a locked page left the cache");
        }
        let pages = core::mem::take(run);
        let (device, start) = (file.spec.device, file.device_page(end - pages.len() as u32));
        let (kind, vector) = (BioKind::FileRead, BioVector::Inline);
        let bio = Bio { device, kind, start, pages, urgency: Urgency::Sync, vector };
        self.submit_bio(cx, bio);
    }
}
