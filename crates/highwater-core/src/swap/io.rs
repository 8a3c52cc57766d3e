//! Reading and writing swap pages.

use super::Slot;
use super::cache::slots_of;
use crate::block::{Bio, BioKind, BioVector};
use crate::config::ZeroPages;
use crate::host::{Cx, Devices, Lock, Urgency};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, PageFlags};
use crate::vmstat::{GroupStat, VmEvent};

/// Contents of a page, as far as swap tells them apart (rules/swap#zero-pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing but zeros.
    Zeros,
    /// Anything else, or not known.
    Other,
}

impl<H: Devices> Kernel<H> {
    /// Writes a locked swap cache page whose DIRTY was cleared for I/O; unlocks it. It is under
    /// writeback until the device is done (not if the device is synchronous).
    ///
    /// Linux: same name.
    ///
    /// A page whose slot no entry names any more is not written: it leaves the swap cache, dirty.
    pub(crate) fn swap_writepage(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.swap_write(cx, folio, Contents::Other);
    }

    /// Does that for a page with these contents. One of zeros is not written either: its slots are
    /// marked, and it is clean at once.
    pub(crate) fn swap_write(&self, cx: &Cx<'_, H>, folio: Folio, contents: Contents) {
        if self.free_swap_cache(cx, folio, false) {
            self.unlock_page(cx, folio);
            return;
        }
        let Some(slot) = self.slot_of(folio) else {
            debug_assert!(false, "only pages in the swap cache are written to swap");
            self.unlock_page(cx, folio);
            return;
        };
        if self.mem.policy.swap.zero_pages == ZeroPages::Flag {
            self.mark_zeros(cx, folio, slot, contents);
            if contents == Contents::Zeros {
                self.mem.events.add(cx.cpu(), VmEvent::SwpoutZero, folio.nr_pages());
                self.mem.account(cx.cpu(), folio).group_event(GroupStat::SwpoutZero);
                self.unlock_page(cx, folio);
                return;
            }
        }
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
        if self.mem.policy.swap.zero_pages == ZeroPages::Flag && self.read_zeros(cx, folio, slot) {
            return;
        }
        self.submit_swap(cx, BioKind::SwapRead, folio, slot);
        if is_sync {
            self.plug_flush(cx);
            self.wait_on_locked(cx, folio);
        }
    }

    /// Notes what the slots of a folio hold.
    #[doc(alias = "swap_zeromap_folio_set")]
    #[doc(alias = "swap_zeromap_folio_clear")]
    fn mark_zeros(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot, contents: Contents) {
        let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
        for offset in slots_of(folio, slot) {
            slots.zeros.set(offset, contents == Contents::Zeros);
        }
    }

    /// Fills a locked page with zeros and unlocks it, if its slot stands for a page of zeros.
    #[doc(alias = "swap_read_folio_zeromap")]
    fn read_zeros(&self, cx: &Cx<'_, H>, folio: Folio, slot: Slot) -> bool {
        let is_zero = self.swap.area(slot).slots.lock(cx.cpu()).zeros.get(slot.offset);
        if is_zero {
            cx.host.frame_zero(folio.pfn(), Order::ZERO);
            self.mem.events.add(cx.cpu(), VmEvent::SwpinZero, 1);
            self.mem.account(cx.cpu(), folio).group_event(GroupStat::SwpinZero);
            self.mem.map.page(folio).flag_set::<H>(PageFlags::UPTODATE);
            self.unlock_page(cx, folio);
        }
        is_zero
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
