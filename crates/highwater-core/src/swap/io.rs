//! Reading and writing swap pages.

use super::Slot;
use crate::block::{Bio, BioKind, BioVector};
use crate::host::{Cx, Devices, Urgency};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::vmstat::VmEvent;

impl<H: Devices> Kernel<H> {
    /// Writes a locked swap cache page whose DIRTY was cleared for I/O; unlocks it. It is under
    /// writeback until the device is done (not if the device is synchronous).
    ///
    /// Linux: same name.
    ///
    /// A page whose slot no entry names any more is not written: it leaves the swap cache, dirty.
    pub(crate) fn swap_writepage(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.free_swap_cache(cx, folio, false) {
            self.unlock_page(cx, folio);
            return;
        }
        let Some(slot) = self.slot_of(folio) else {
            debug_assert!(false, "only pages in the swap cache are written to swap");
            self.unlock_page(cx, folio);
            return;
        };
        if folio.is_large() {
            self.mem.events.add(cx.cpu(), VmEvent::ThpSwpout, 1);
        }
        self.start_page_writeback(cx, folio);
        self.unlock_page(cx, folio);
        self.submit_swap(cx, BioKind::SwapWrite, folio, slot);
    }

    /// Reads a slot into a locked page; the end of the read unlocks it. `is_sync`: returns after
    /// that.
    ///
    /// Linux: same name.
    pub(crate) fn swap_readpage(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot, is_sync: bool) {
        self.submit_swap(cx, BioKind::SwapRead, folio, slot);
        if is_sync {
            self.plug_flush(cx);
            self.wait_on_locked(cx, folio);
        }
    }

    /// A swap area starts at the first page of its device.
    fn submit_swap(&self, cx: &Cx<'_, H>, kind: BioKind, folio: Folio, slot: Slot) {
        let bio = Bio {
            device: self.swap.area(slot).spec.device,
            kind,
            start: slot.offset.into(),
            pages: folio.frames().collect(),
            urgency: if kind == BioKind::SwapRead { Urgency::Sync } else { Urgency::Normal },
            vector: BioVector::Inline,
        };
        self.submit_bio(cx, bio);
    }
}
