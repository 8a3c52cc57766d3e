//! How a huge page gets slots on swap: in one piece, or a page at a time after a split
//! (rules/page-decisions#huge).
//!
//! From: [`super::folios`] · to: `swap`, `vm::huge`.

use alloc::vec::Vec;

use crate::config::ThpSwap;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::vmstat::VmEvent;

impl<H: Devices> Kernel<H> {
    /// Steps 9 and 10: a huge page goes to swap whole if a leaf maps it and there is a contiguous
    /// free slot range. Otherwise it is split: `whole` becomes its first page, which goes to swap,
    /// and the others are added to `tails`. False if neither works.
    #[cold]
    pub(super) fn add_huge_to_swap(
        &self,
        cx: &Cx<'_, H>,
        whole: &mut Folio,
        tails: &mut Vec<Folio>,
    ) -> bool {
        let folio = *whole;
        if !self.may_split(folio) {
            return false;
        }
        let goes_whole = self.mem.policy.thp.swap == ThpSwap::Whole;
        if goes_whole && self.nr_leaves(folio) > 0 {
            if self.add_to_swap(cx, folio) {
                return true;
            }
            self.mem.events.add(cx.cpu(), VmEvent::ThpSwpoutFallback, 1);
        }
        if !self.split_folio(cx, folio, tails) {
            return false;
        }
        *whole = Folio::page(folio.pfn());
        self.add_to_swap(cx, *whole)
    }
}
