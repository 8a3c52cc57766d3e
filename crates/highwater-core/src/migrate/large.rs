//! Large folios of files on the move (rules/compaction#large-folios).

use super::Moved;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, PageList};
use crate::vm::{HUGE, Trail};
use crate::vmstat::VmEvent;

impl<H: Devices> Kernel<H> {
    /// There are no frames for a folio. A large one is split if possible, and its pages go to
    /// `pieces`.
    #[cold]
    pub(super) fn move_without_frames(
        &self,
        cx: &Cx<'_, H>,
        folio: Folio,
        pieces: &mut PageList,
    ) -> Moved {
        if !folio.is_large() || !self.split_isolated(cx, folio) {
            return Moved::OutOfFrames;
        }
        if folio.order() == HUGE {
            self.mem.events.add(cx.cpu(), VmEvent::ThpMigrationSplit, 1);
        }
        folio.frames().for_each(|frame| pieces.push_tail(&self.mem.map, frame));
        Moved::Split
    }

    /// Splits an isolated folio of a file into single pages, which are isolated too. It is unmapped
    /// before.
    #[doc(alias = "try_split_folio")]
    fn split_isolated(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        if !self.try_lock_page(folio) {
            return false;
        }
        let page = self.mem.map.page(folio);
        let busy = PageFlags::DIRTY | PageFlags::WRITEBACK | PageFlags::MLOCKED;
        let may_split = !page.flags().intersects(busy);
        if may_split && page.is_mapped() {
            self.try_to_unmap(cx, folio, &mut Trail::default());
            self.flush_unmapped(cx, false);
        }
        let is_split = may_split && self.split_isolated_folio(cx, folio);
        self.unlock_page(cx, self.mem.map.folio(folio.pfn()));
        is_split
    }

    /// The pages of a large folio that were stored to are those of its new frames now.
    pub(super) fn move_stored(&self, old: Folio, new: Folio) {
        if !old.is_large() {
            return;
        }
        for (from, to) in old.frames().zip(new.frames()) {
            if self.mem.map.page(from).flag_test_clear::<H>(PageFlags::STORED) {
                self.mem.map.page(to).flag_set::<H>(PageFlags::STORED);
            }
        }
    }
}
