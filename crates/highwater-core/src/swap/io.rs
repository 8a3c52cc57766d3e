//! Reading and writing swap pages.

use super::Slot;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// Writes a locked swap cache page whose DIRTY was cleared for I/O; unlocks it. It is under
    /// writeback until the device is done (not if the device is synchronous).
    pub(crate) fn swap_writepage(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// Reads a slot into a locked page; the end of the read unlocks it.
    pub(crate) fn swap_readpage(&self, cx: &Cx<'_, H>, pfn: Pfn, slot: Slot, is_sync: bool) {
        let _ = (cx, pfn, slot, is_sync);
        todo!()
    }
}
