//! The swap cache: pages that have a slot (spec 04 §9.2 to §9.4).

use super::Slot;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// Gives a locked anonymous page a slot and puts it in the swap cache, dirty; false if there is
    /// no slot.
    pub(crate) fn add_to_swap(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// The slot of a page in the swap cache.
    pub(crate) fn slot_of(&self, pfn: Pfn) -> Option<Slot> {
        let _ = pfn;
        todo!()
    }

    /// The cached page of a slot, with a reference for the caller.
    pub(crate) fn swap_cache_get(&self, cx: &Cx<'_, H>, slot: Slot) -> Option<Pfn> {
        let _ = (cx, slot);
        todo!()
    }

    /// Takes a locked page out of the swap cache if no entry names its slot, or (`force`) anyhow;
    /// frees the slot if unnamed. True if it is out.
    pub(crate) fn free_swap_cache(&self, cx: &Cx<'_, H>, pfn: Pfn, force: bool) -> bool {
        let _ = (cx, pfn, force);
        todo!()
    }

    /// Reclaim's removal of a locked swap cache page: freezes its references at 2, leaves a shadow
    /// in the slot. True if the page belongs to the caller now.
    pub(crate) fn remove_mapping_swap(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }
}
