//! Which slots to read besides the one asked for (spec 04 §9.5).

use super::Slot;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;
use crate::vm::{Area, Space};

/// A region's swap readahead history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VmaSwapState {
    /// Virtual page of the last fault.
    pub prev: u32,
    /// Its window.
    pub window: u32,
    /// Hits since.
    pub hits: u32,
}

impl<H: Devices> Kernel<H> {
    /// A fault needs a slot that is not cached: reads it and its neighbours as the areas and the
    /// history say; the page, with a reference, perhaps still locked under input. None if there is
    /// no memory.
    pub(crate) fn swapin_readahead(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        area: &Area<H>,
        vpn: u32,
        slot: Slot,
    ) -> Option<Pfn> {
        let _ = (cx, space, area, vpn, slot);
        todo!()
    }
}
