//! Writes one file's dirty pages (rules/writeback#one-file).
//!
//! Pages are found by mark, in batches. Each is locked, cleaned (its mappings too), put under
//! writeback, unlocked, and added to a bio as long as pages are contiguous on the device. An
//! incomplete bio is submitted before any wait. Its pages are under writeback, and the task that
//! holds the awaited resource may wait for them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::WriteReason;
use crate::block::{Bio, BioKind};
use crate::config::{FileFolios, FilePageout};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe, Urgency};
use crate::kernel::Kernel;
use crate::lru::{BATCH_MAX, PAGEVEC};
use crate::page::{Folio, PageFlags, PageMapping, Pfn};
use crate::page_cache::{File, Mark};

/// Most pages of a bio.
const BIO_PAGES: usize = 256;

/// What became of a single-page write that reclaim asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageWrite {
    /// Started (or done); the page is unlocked.
    Started,
    /// The filesystem will not: activate the page, which is still locked and dirty again.
    Refused,
}

/// The result of a pass over a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Pages whose writeback was started.
    pub pages: u64,
    /// Where the next pass goes on; 0 after the last dirty page.
    pub next: u32,
}

/// The bio that is being filled, and its pages.
struct Filling<'a, H: Devices> {
    file: &'a Arc<File<H>>,
    bio: Option<Bio>,
    /// Under [`Urgency::Sync`] pages under writeback are waited for and written again.
    urgency: Urgency,
}

impl<H: Devices> Kernel<H> {
    /// Writes dirty pages `start..end` of a file, `nr` at most; the pages written. Does not wait
    /// for them; with [`WriteReason::Sync`] it waits for earlier writeback of pages that are dirty
    /// again, others leave those alone.
    #[doc(alias = "do_writepages")]
    pub fn write_file_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        range: (u32, u32),
        nr: u64,
        reason: WriteReason,
    ) -> u64 {
        self.write_pass(cx, file, range, nr, reason).pages
    }

    /// Writes the dirty or tagged pages of a range, in bios as large as runs of them allow.
    #[doc(alias = "write_cache_pages")]
    pub(super) fn write_pass(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        (start, end): (u32, u32),
        nr: u64,
        reason: WriteReason,
    ) -> Written {
        let _phase = cx.phase(Phase::Writeback);
        let urgency = reason.urgency();
        // Pages dirtied while a sync goes on are not its business, or it might never end.
        let mark = if urgency == Urgency::Sync {
            tag_dirty(cx, file, (start, end));
            Mark::ToWrite
        } else {
            Mark::Dirty
        };
        // The mark of a folio is on its first page, which may lie before the range.
        let start = self.first_of_folio(cx, file, start);
        let mut out = Written { pages: 0, next: start };
        let mut filling = Filling { file, bio: None, urgency };
        self.writeback_of(file).begin_sample(cx);
        self.plug_start(cx);
        while out.pages < nr {
            let mut batch = [(0, Folio::default()); BATCH_MAX];
            let found = self.next_batch(cx, file, (out.next, end), mark, &mut batch);
            if found == 0 {
                out.next = 0;
                break;
            }
            cx.charge(Cost::PageCacheLookup, found as u32);
            let (mut refs, mut nr_refs) = ([Folio::default(); BATCH_MAX], 0);
            for &(index, folio) in &batch[..found] {
                if out.pages < nr {
                    if self.write_one(cx, &mut filling, index, folio, mark) {
                        out.pages += folio.nr_pages();
                    }
                    out.next = index.saturating_add(folio.nr_pages() as u32);
                }
                refs[nr_refs] = folio;
                nr_refs += 1;
            }
            self.release_pages(cx, &refs[..nr_refs]);
            cx.host.yield_now();
        }
        self.send(cx, &mut filling);
        self.plug_finish(cx);
        self.writeback_of(file).end_sample(cx);
        out
    }

    /// The first page of the folio that has a page of a file; that page itself, if it is not
    /// cached.
    fn first_of_folio(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> u32 {
        if self.mem.policy.folio.file == FileFolios::None {
            return index;
        }
        let tree = file.tree.lock(cx.cpu());
        let folio = tree.page(index).map(|pfn| self.mem.map.folio(pfn));
        folio.map_or(index, |folio| self.mem.map.page(folio).index())
    }

    /// Looks up pages with a mark, a reference on each; how many.
    fn next_batch(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (mut from, end): (u32, u32),
        mark: Mark,
        batch: &mut [(u32, Folio); BATCH_MAX],
    ) -> usize {
        let tree = file.tree.lock(cx.cpu());
        let (mut found, max) = (0, self.lookup_batch());
        while found < max {
            match tree.next_marked(from, mark) {
                Some((index, pfn)) if index < end => {
                    let (folio, page) = self.mem.map.lookup(pfn);
                    // A page in the tree may be frozen for a moment: reclaim looks at it.
                    if page.try_get::<H>() {
                        batch[found] = (index, folio);
                        found += 1;
                    }
                    from = index.saturating_add(1);
                }
                _ => break,
            }
        }
        found
    }

    /// Starts writeback of one page if it is still the file's, dirty and not on its way already.
    fn write_one(
        &self,
        cx: &Cx<'_, H>,
        filling: &mut Filling<'_, H>,
        index: u32,
        folio: Folio,
        mark: Mark,
    ) -> bool {
        let (page, file) = (self.mem.map.page(folio), filling.file);
        if !self.try_lock_page(folio) {
            self.send(cx, filling);
            self.lock_page(cx, folio);
        }
        if page.is(PageFlags::WRITEBACK) && filling.urgency == Urgency::Sync {
            self.send(cx, filling);
            self.wait_on_writeback(cx, folio);
        }
        let is_ours = page.mapping() == PageMapping::File(file.id) && page.index() == index;
        if !is_ours || page.is(PageFlags::WRITEBACK) || !self.clean_file_page(cx, file, folio) {
            if is_ours {
                self.drop_stale_marks(cx, file, index, folio, mark);
            }
            self.unlock_page(cx, folio);
            return false;
        }
        if folio.is_large() {
            let runs = self.take_stored(folio);
            self.start_writeback_of(cx, Some(file), folio, nr_of(&runs));
            self.unlock_page(cx, folio);
            self.add_runs(cx, filling, (index, folio), &runs);
            return true;
        }
        self.start_writeback_of(cx, Some(file), folio, 1);
        self.unlock_page(cx, folio);
        self.add_frames(cx, filling, index, &[folio.pfn()]);
        true
    }

    /// A page that was cleaned without being written keeps its mark. A page that is not written now
    /// loses the sync mark.
    fn drop_stale_marks(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        folio: Folio,
        mark: Mark,
    ) {
        let page = self.mem.map.page(folio);
        let _xa = file.xa_lock.lock(cx.cpu());
        let mut tree = file.tree.lock(cx.cpu());
        if mark == Mark::ToWrite {
            tree.mark(index, mark, false);
        }
        if !page.is(PageFlags::DIRTY) {
            tree.mark(index, Mark::Dirty, false);
        }
    }

    /// Adds runs of pages of a folio.
    fn add_runs(
        &self,
        cx: &Cx<'_, H>,
        filling: &mut Filling<'_, H>,
        (index, folio): (u32, Folio),
        runs: &[Range<u32>],
    ) {
        for run in runs {
            let frames: Vec<Pfn> = run.clone().map(|at| folio.pfn().add(at)).collect();
            let mut at = index + run.start;
            for part in frames.chunks(BIO_PAGES) {
                self.add_frames(cx, filling, at, part);
                at += part.len() as u32;
            }
        }
    }

    fn add_frames(&self, cx: &Cx<'_, H>, filling: &mut Filling<'_, H>, index: u32, frames: &[Pfn]) {
        let spec = &filling.file.spec;
        let at = filling.file.device_page(index);
        if let Some(bio) = &mut filling.bio {
            if bio.start + bio.pages.len() as u64 == at
                && bio.pages.len() + frames.len() <= BIO_PAGES
            {
                bio.pages.extend_from_slice(frames);
                return;
            }
            self.send(cx, filling);
        }
        let kind = BioKind::FileWrite;
        let mut pages = Vec::with_capacity(PAGEVEC.max(frames.len()));
        pages.extend_from_slice(frames);
        let urgency = filling.urgency;
        let vector = self.bio_vector(cx, spec.filesystem.writer);
        filling.bio = Some(Bio { device: spec.device, kind, start: at, pages, urgency, vector });
    }

    fn send(&self, cx: &Cx<'_, H>, filling: &mut Filling<'_, H>) {
        if let Some(bio) = filling.bio.take() {
            self.submit_bio(cx, bio);
        }
    }

    /// True if reclaim writes single pages of a file (rules/writeback#single-page).
    pub(crate) fn writes_single_pages(&self, file: &File<H>) -> bool {
        match self.mem.policy.reclaim.file_pageout {
            FilePageout::Any => true,
            FilePageout::Offered => file.spec.filesystem.has_writepage,
            FilePageout::Never | FilePageout::NeverCounted => false,
        }
    }

    /// Writes one locked file page whose DIRTY was cleared for I/O, for reclaim.
    pub(crate) fn write_file_page(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
    ) -> PageWrite {
        if !self.writes_single_pages(file) {
            // Dirty it was before: not dirtied once more (nr_dirtied), but counted dirty.
            self.redirty_page(cx, file, folio);
            return PageWrite::Refused;
        }
        let first = self.mem.map.page(folio).index();
        let runs = self.take_stored(folio);
        self.start_writeback_of(cx, Some(file), folio, nr_of(&runs));
        self.unlock_page(cx, folio);
        let (device, kind) = (file.spec.device, BioKind::FileWrite);
        for run in runs {
            let start = file.device_page(first + run.start);
            let pages = run.map(|at| folio.pfn().add(at)).collect();
            let vector = self.bio_vector(cx, file.spec.filesystem.writer);
            let urgency = Urgency::Normal;
            self.submit_bio(cx, Bio { device, kind, start, pages, urgency, vector });
        }
        PageWrite::Started
    }

    /// Waits until no page `start..end` of a file is under writeback.
    #[doc(alias = "filemap_fdatawait_range")]
    pub fn wait_file_writeback(&self, cx: &Cx<'_, H>, file: &File<H>, (start, end): (u32, u32)) {
        let mut from = start;
        loop {
            let mut batch = [(0, Folio::default()); BATCH_MAX];
            let found = self.next_batch(cx, file, (from, end), Mark::Writeback, &mut batch);
            if found == 0 {
                return;
            }
            let folios = batch.map(|(_, folio)| folio);
            for &folio in &folios[..found] {
                self.wait_on_writeback(cx, folio);
            }
            self.release_pages(cx, &folios[..found]);
            from = batch[found - 1].0.saturating_add(1);
        }
    }
}

/// Pages of some runs.
fn nr_of(runs: &[Range<u32>]) -> u32 {
    runs.iter().map(|run| run.len() as u32).sum()
}

/// Marks every dirty page of a range TOWRITE.
#[doc(alias = "tag_pages_for_writeback")]
fn tag_dirty<H: Devices>(cx: &Cx<'_, H>, file: &File<H>, (start, end): (u32, u32)) {
    let _xa = file.xa_lock.lock(cx.cpu());
    let mut tree = file.tree.lock(cx.cpu());
    let mut from = start;
    while let Some((index, _)) = tree.next_marked(from, Mark::Dirty) {
        if index >= end {
            break;
        }
        tree.mark(index, Mark::ToWrite, true);
        from = index.saturating_add(1);
    }
}
