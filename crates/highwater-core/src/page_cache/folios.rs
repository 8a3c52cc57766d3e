//! Large folios of files: which files have them, of which order, and their slots in the tree
//! (rules/large-folios#files, rules/large-folios#writes).
//!
//! ```text
//! tree      slot i of a folio's slots names frame i of it; a lookup through any slot finds the folio
//! marks     on the first slot
//! shadows   in all slots, the same one
//! dirty     one flag and one count for the folio; STORED on each frame that was stored to, which is what is written
//! mapped    each frame has a count of the entries that map it; the folio's mapcount is their sum
//! ```
//!
//! The tree has a reference for each page. Counters of pages count all of them.
//!
//! From: `readahead`, `syscall::write`, reclaim · to: [`super::lookup`].

use alloc::vec::Vec;
use core::ops::Range;

use super::lookup::AddError;
use super::node::SLOTS;
use super::node_memory::Objects;
use super::{Entry, File, Tree};
use crate::block::{Bio, BioKind, BioVector, Writer};
use crate::config::FileFolios;
use crate::host::{Cost, Cx, Devices, IoError, Lock, Probe, Tasks, Urgency};
use crate::kernel::Kernel;
use crate::lru::Shadow;
use crate::page::{Folio, Order, PAGE_SHIFT, Page, PageFlags, PageMapping};
use crate::page_alloc::{Gfp, Wish};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::NodeStat;

/// Largest folio of a file: 2 MiB.
const MAX_FILE_ORDER: Order = Order(9);

/// Pages of one node of a file's tree.
pub(super) const NODE_PAGES: u32 = SLOTS as u32;

/// The maker of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Readahead.
    Readahead,
    /// A write.
    Write,
}

/// Computes the order of the folio that a write of `bytes` begins at page `index`
/// (rules/large-folios#writes): as large as the write, and no larger than the index's alignment.
#[doc(alias = "fgf_set_order")]
pub(crate) fn write_order(index: u32, bytes: u64, max: Order) -> Order {
    let size = (bytes >> PAGE_SHIFT).max(1).ilog2();
    let aligned = index.trailing_zeros();
    Order(size.min(max.0.into()).min(aligned) as u8)
}

/// Bytes of a write at `pos` that one step may take: up to the end of the largest folio there.
pub(crate) fn step_of_write(pos: u64, left: u64) -> u64 {
    let largest = MAX_FILE_ORDER.pages() << PAGE_SHIFT;
    left.min(largest - pos % largest)
}

/// The folios that fill pages `at..end` of a file, largest first as far as alignment allows
/// (rules/large-folios#placement).
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// The next page.
    pub at: u32,
    /// Behind the last page.
    pub end: u32,
    /// The largest order.
    pub order: Order,
    /// Folios of two pages exist.
    pub order1: bool,
}

impl Iterator for Placement {
    type Item = (u32, Order);

    fn next(&mut self) -> Option<(u32, Order)> {
        let left = self.end.checked_sub(self.at).filter(|&left| left != 0)?;
        let one_is_none = |order| if order == 1 && !self.order1 { 0 } else { order };
        let aligned = self.at.trailing_zeros();
        let order = one_is_none(u32::from(self.order.0).min(aligned));
        let order = one_is_none(order.min(left.ilog2()));
        let at = self.at;
        self.at += 1 << order;
        Some((at, Order(order as u8)))
    }
}

impl<H: Devices> Kernel<H> {
    /// Returns the order of the largest folios of a file.
    #[doc(alias = "mapping_max_folio_order")]
    pub(crate) fn max_folio_order(&self, file: &File<H>, maker: Maker) -> Order {
        let filesystem = file.spec.filesystem;
        let is_xfs = matches!(filesystem.writer, Writer::Iomap);
        let has_large = match self.mem.policy.folio.file {
            FileFolios::None => false,
            FileFolios::XfsReads => is_xfs && maker == Maker::Readahead,
            FileFolios::Xfs => is_xfs,
            FileFolios::All => !filesystem.is_journalled,
        };
        if has_large && !filesystem.is_memory { MAX_FILE_ORDER } else { Order::ZERO }
    }

    /// Stores a folio of several pages in its file's tree; returns the shadow that counts, the last
    /// one. The caller holds `xa_lock`.
    pub(super) fn insert_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        folio: Folio,
        (mut tree, spare): (<H::Lock<Tree> as Lock<Tree>>::Guard<'_>, &mut Objects),
    ) -> Result<Option<Shadow>, AddError> {
        let nr = folio.nr_pages() as u32;
        if tree.is_any_taken(index, nr) {
            return Err(AddError::Exists);
        }
        let (mut shadow, mut nodes) = (None, Vec::new());
        let mut none = Objects::default();
        let fills_nodes = nr >= NODE_PAGES;
        if fills_nodes {
            tree.give_upper(index, spare);
        }
        let spare = if fills_nodes { &mut none } else { spare };
        for (index, frame) in (index..).zip(folio.frames()) {
            let stored = tree.store(index, Entry::Page(frame), spare);
            if let Entry::Shadow(found) = stored.old {
                shadow = Some(found);
            }
            nodes.extend(stored.shadow_only.map(|change| (index, change)));
        }
        file.nr_pages.store(tree.nr_pages(), Relaxed);
        drop(tree);
        cx.charge(Cost::PageCacheAdd, 1);
        for (index, change) in nodes {
            self.note_shadow_only(cx, file, index, change);
        }
        Ok(shadow)
    }

    /// [`Kernel::delete_from_page_cache`] for a folio of several pages.
    #[cold]
    #[inline(never)]
    pub(super) fn delete_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (folio, page): (Folio, &Page),
        shadow: Option<Shadow>,
    ) {
        let index = page.index();
        let entry = shadow.map_or(Entry::Empty, Entry::Shadow);
        for (index, frame) in (index..).zip(folio.frames()) {
            let old = self.replace_entry(cx, file, index, entry);
            debug_assert_eq!(old, Entry::Page(frame), "removed a page that was not there");
            self.mem.map.page(frame).flag_clear::<H>(PageFlags::STORED);
        }
        page.set_mapping(PageMapping::None, index);
        self.mem.account_page(cx.cpu(), (folio, page)).minus(NodeStat::FilePages);
    }

    /// A program stored to all of a folio, as far as the kernel can tell: through a mapping, or on
    /// a filesystem that does not keep track of blocks.
    pub(crate) fn all_stored(&self, folio: Folio) {
        if folio.is_large() {
            folio.frames().for_each(|frame| self.stored(frame));
        }
    }

    /// A write stored to pages of a locked folio; `index`: those pages of the file.
    pub(crate) fn pages_stored(&self, folio: Folio, index: Range<u32>) {
        if !folio.is_large() {
            return;
        }
        if self.mem.policy.folio.file == FileFolios::XfsReads {
            return self.all_stored(folio);
        }
        index.for_each(|index| self.stored(self.mem.map.frame_of(folio, index)));
    }

    fn stored(&self, frame: crate::page::Pfn) {
        let page = self.mem.map.page(frame);
        if !page.is(PageFlags::STORED) {
            page.flag_set::<H>(PageFlags::STORED);
        }
    }

    /// The runs of pages of a locked folio that are written now, as positions in it. Pages that are
    /// stored to later are written the next time. A folio that a mapping made dirty at this moment
    /// may have none yet: all of it is written.
    pub(crate) fn take_stored(&self, folio: Folio) -> Vec<Range<u32>> {
        let nr = folio.nr_pages() as u32;
        let mut runs: Vec<Range<u32>> = Vec::new();
        for (at, frame) in (0..nr).zip(folio.frames()) {
            if !self.mem.map.page(frame).flag_test_clear::<H>(PageFlags::STORED) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        if runs.is_empty() {
            runs.push(0..nr);
        }
        runs
    }

    /// A dirty folio becomes clean without being written.
    pub(super) fn forget_stored(&self, folio: Folio) {
        self.take_stored(folio);
    }

    /// Finds or makes the folio in which a write of `bytes` at page `index` begins
    /// (rules/large-folios#writes). It is locked, with a reference for the caller. A new one comes
    /// with `true` and is not up to date.
    ///
    /// # Errors
    /// If there is no memory, or the file was deleted meanwhile.
    #[doc(alias = "__filemap_get_folio")]
    pub(crate) fn find_or_create_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (index, bytes): (u32, u64),
        gfp: Gfp,
    ) -> Result<(Folio, bool), crate::units::Error> {
        let mut order = write_order(index, bytes, self.max_folio_order(file, Maker::Write));
        while order.0 > 0 {
            if let Some(folio) = self.find_lock_page(cx, file, index) {
                return Ok((folio, false));
            }
            let gfp = gfp | Gfp::COMP | Gfp::NORETRY | Gfp::NOWARN;
            match self.create_folio(cx, file, (index, order), gfp) {
                Ok(folio) => return Ok((folio, true)),
                // Of the pages of such a folio some are cached, or there is no such block.
                Err(AddError::Exists | AddError::NoMemory) => order = Order(order.0 - 1),
                Err(AddError::Deleted) => return Err(crate::units::Error::Invalid),
            }
        }
        self.find_or_create_page(cx, file, index, gfp)
    }
}

/// Making and reading.
impl<H: Devices> Kernel<H> {
    /// A fresh folio of an order from an index on, locked, with a reference for the caller.
    pub(crate) fn create_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (index, order): (u32, Order),
        gfp: Gfp,
    ) -> Result<Folio, AddError> {
        let folio = self.mem.alloc_folio_wished(cx, self, gfp, order, Wish::Task);
        let folio = folio.ok_or(AddError::NoMemory)?;
        match self.add_to_page_cache(cx, file, index, folio, gfp) {
            Ok(()) => Ok(folio),
            Err(error) => {
                self.put_page(cx, folio);
                Err(error)
            }
        }
    }

    /// [`Kernel::read_page`] for the first `nr` pages of a folio; the caller fills the others.
    ///
    /// # Errors
    /// If the device could not read them.
    pub(crate) fn read_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
        nr: u32,
    ) -> Result<(), IoError> {
        let page = self.mem.map.page(folio);
        page.flag_test_clear::<H>(PageFlags::ERROR);
        let bio = Bio {
            device: file.spec.device,
            kind: BioKind::FileRead,
            start: file.device_page(page.index()),
            pages: folio.frames().take(nr as usize).collect(),
            urgency: Urgency::Sync,
            vector: BioVector::Inline,
        };
        if folio.is_large() {
            self.mem.map.begin_pieces(folio, nr);
        }
        self.submit_bio(cx, bio);
        self.wait_on_locked(cx, folio);
        if page.is(PageFlags::UPTODATE) { Ok(()) } else { Err(IoError::Device) }
    }
}

impl<H: Tasks> File<H> {
    /// True if a range of pages of the file holds all of a folio whose pages these are.
    pub(super) fn covers(range: (u32, u32), folio: (u32, u32)) -> bool {
        range.0 <= folio.0 && folio.1 <= range.1
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    fn placed(at: u32, end: u32, order: u8, order1: bool) -> String {
        let mut text = String::new();
        for (index, order) in (Placement { at, end, order: Order(order), order1 }) {
            let _ = write!(text, "{index}:{} ", order.0);
        }
        text
    }

    /// By the index's alignment, and never past the end (rules/large-folios#placement).
    #[test]
    fn folios_are_placed_by_alignment() {
        assert_eq!(placed(4, 68, 5, true), "4:2 8:3 16:4 32:5 64:2 ");
        assert_eq!(
            placed(85, 117, 2, true),
            "85:0 86:1 88:2 92:2 96:2 100:2 104:2 108:2 112:2 116:0 "
        );
        assert_eq!(placed(84, 116, 2, true).matches(":2").count(), 8);
        assert_eq!(placed(0, 7, 2, true), "0:2 4:1 6:0 ");
        assert_eq!(placed(0, 7, 2, false), "0:2 4:0 5:0 6:0 ", "6.1 has no folios of two pages");
        assert_eq!(placed(6, 12, 5, false), "6:0 7:0 8:2 ");
    }

    /// rules/large-folios#writes.
    #[test]
    fn a_write_makes_folios_as_large_as_it_and_its_place() {
        let steps = |pos: u64, len: u64| {
            let (mut at, mut text) = (pos, String::new());
            while at < pos + len {
                let bytes = step_of_write(at, pos + len - at);
                let index = (at >> PAGE_SHIFT) as u32;
                let order = write_order(index, bytes, MAX_FILE_ORDER);
                let _ = write!(text, "{index}:{} ", order.0);
                let end = (u64::from(index) + order.pages()) << PAGE_SHIFT;
                at = (at + bytes).min(end);
            }
            text
        };
        let kib = |n: u64| n << 10;
        assert_eq!(steps(0, kib(64)), "0:4 ");
        assert_eq!(steps(4096, kib(1024)), "1:0 2:1 4:2 8:3 16:4 32:5 64:6 128:7 256:0 ");
        assert_eq!(
            steps(kib(1028), kib(1024)),
            "257:0 258:1 260:2 264:3 272:4 288:5 320:6 384:7 512:0 "
        );
        assert_eq!(steps(0, 100_000), "0:4 16:3 24:0 ");
        assert_eq!(steps(0, kib(20)), "0:2 4:0 ");
        assert_eq!(steps(kib(20), kib(20)), "5:0 6:1 8:1 ");
        assert_eq!(steps(4096, kib(16)), "1:0 2:1 4:0 ");
        assert_eq!(steps(0, kib(4096)), "0:9 512:9 ");
        assert_eq!(steps(8192, 4096), "2:0 ", "a page at a time makes single pages");
    }
}
