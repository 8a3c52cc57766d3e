//! What the end of a transfer means to each page (spec 04 §8.5, §9.2).

use alloc::sync::Arc;

use super::{Bio, BioKind};
use crate::host::{Cost, Cx, Devices, IoDirection, IoError, Probe};
use crate::kernel::Kernel;
use crate::page::{PageFlags, PageOwner};
use crate::page_cache::File;
use crate::sync::atomic::Ordering::Relaxed;

impl<H: Devices> Kernel<H> {
    /// Ends one bio: unlocks what was read, ends writeback of what was written.
    pub(super) fn end_bio(&self, cx: &Cx<'_, H>, bio: &Bio, result: Result<(), IoError>) {
        cx.charge(Cost::BioEndPage, bio.pages.len() as u32);
        self.put_bio_vector(cx, bio.vector);
        match bio.kind.direction() {
            IoDirection::Read => self.end_read(cx, bio, result.is_ok()),
            IoDirection::Write => self.end_write(cx, bio, result.is_ok()),
        }
    }

    fn end_read(&self, cx: &Cx<'_, H>, bio: &Bio, is_ok: bool) {
        let outcome = if is_ok { PageFlags::UPTODATE } else { PageFlags::ERROR };
        // What is in memory was copied by this CPU.
        let is_dma = !self.block.device(bio.device).spec.synchronous;
        for &pfn in &bio.pages {
            if is_dma {
                cx.host.frame_dma(pfn);
            }
            self.mem.map.page(pfn).flag_set::<H>(outcome);
            self.unlock_page(cx, pfn);
        }
    }

    /// A page under writeback stays where it is until that ends, so owners may be read here.
    fn end_write(&self, cx: &Cx<'_, H>, bio: &Bio, is_ok: bool) {
        let file = if bio.kind == BioKind::FileWrite { self.file_of_bio(cx, bio) } else { None };
        if !is_ok {
            if let Some(file) = &file {
                file.write_error.store(true, Relaxed);
            }
            for &pfn in &bio.pages {
                let page = self.mem.map.page(pfn);
                page.flag_set::<H>(PageFlags::ERROR);
                if bio.kind == BioKind::SwapWrite {
                    // The page is the only copy: it stays dirty, and is not hurried to the tail.
                    page.flag_set::<H>(PageFlags::DIRTY);
                    page.flag_clear::<H>(PageFlags::RECLAIM);
                }
            }
        }
        self.end_writeback_of(cx, file.as_deref(), &bio.pages);
    }

    /// The file whose pages a bio writes: all of them are one file's.
    fn file_of_bio(&self, cx: &Cx<'_, H>, bio: &Bio) -> Option<Arc<File<H>>> {
        match self.mem.map.page(*bio.pages.first()?).owner() {
            PageOwner::File(id) => self.file(cx, id),
            _ => None,
        }
    }
}
