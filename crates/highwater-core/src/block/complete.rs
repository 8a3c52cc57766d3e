//! The end of a transfer in the block layer: it identifies the pages, and their mappings handle the
//! rest.

use super::{Bio, BioKind};
use crate::host::{Cost, Cx, Devices, IoDirection, IoError, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};

/// The effect of a transfer's end on the mappings of its pages.
///
/// Declared here, where transfers end, and implemented above, in the modules with mappings
/// (`page_cache::complete`). Called from interrupt context: an implementation must not sleep, and
/// must not take a lock that a task holds with interrupts enabled.
pub trait Completion<H: Devices> {
    /// A folio was read, or could not be: UPTODATE or ERROR says which. It is still locked, by the
    /// read.
    fn read_ended(&self, cx: &Cx<'_, H>, folio: Folio);

    /// The frames of one bio were written, or could not be. All have the same mapping and are still
    /// under writeback.
    fn write_ended(&self, cx: &Cx<'_, H>, kind: BioKind, frames: &[Pfn], is_ok: bool);
}

impl<H: Devices> Kernel<H> {
    /// Ends one bio: its pages' file or swap area learns of it.
    #[doc(alias = "bio_endio")]
    pub(super) fn end_bio(&self, cx: &Cx<'_, H>, bio: &Bio, result: Result<(), IoError>) {
        cx.charge(Cost::BioEndPage, bio.pages.len() as u32);
        self.put_bio_vector(cx, bio.vector);
        match bio.kind.direction() {
            IoDirection::Read => self.end_read(cx, bio, result.is_ok()),
            IoDirection::Write => self.write_ended(cx, bio.kind, &bio.pages, result.is_ok()),
        }
    }

    fn end_read(&self, cx: &Cx<'_, H>, bio: &Bio, is_ok: bool) {
        let outcome = if is_ok { PageFlags::UPTODATE } else { PageFlags::ERROR };
        // This CPU copied data that is in memory.
        let is_dma = !self.block.device(bio.device).spec.synchronous;
        if is_dma {
            bio.pages.iter().for_each(|&pfn| cx.host.frame_dma(pfn));
        }
        for (folio, page, nr) in self.mem.map.folio_parts(&bio.pages) {
            if folio.is_large() {
                if !is_ok {
                    page.flag_set::<H>(PageFlags::ERROR);
                }
                // It is read when all of its pages are.
                if !self.mem.map.end_piece::<H>(folio, nr) {
                    continue;
                }
                if page.is(PageFlags::ERROR) {
                    self.read_ended(cx, folio);
                    continue;
                }
            }
            page.flag_set::<H>(outcome);
            self.read_ended(cx, folio);
        }
    }
}
