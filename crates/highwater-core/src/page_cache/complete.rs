//! The effect of a transfer's end on each page (rules/writeback#completion, rules/swap#swap-out).

use crate::block::{BioKind, Completion};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};
use crate::sync::atomic::Ordering::Relaxed;

/// Pages of files and of the swap cache.
impl<H: Devices> Completion<H> for Kernel<H> {
    fn read_ended(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.unlock_page(cx, folio);
    }

    /// A page under writeback stays where it is until that ends, so mappings may be read here.
    fn write_ended(&self, cx: &Cx<'_, H>, kind: BioKind, frames: &[Pfn], is_ok: bool) {
        let file = match (kind, frames.first()) {
            (BioKind::FileWrite, Some(&pfn)) => self.file_of_page(cx, self.mem.map.folio(pfn)),
            _ => None,
        };
        if !is_ok {
            if let Some(file) = &file {
                file.write_error.store(true, Relaxed);
            }
            for (_, page) in self.mem.map.folios(frames) {
                page.flag_set::<H>(PageFlags::ERROR);
                if kind == BioKind::SwapWrite {
                    // The page is the only copy: it stays dirty, and is not hurried to the tail.
                    page.flag_set::<H>(PageFlags::DIRTY);
                    page.flag_clear::<H>(PageFlags::RECLAIM);
                }
            }
        }
        self.end_writeback_of(cx, file.as_deref(), frames);
    }
}
