//! Pages that locked regions map: onto the unevictable list and back (spec 04 §2.7).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// A locked region maps a page that may be on a list. Sets MLOCKED, counts it, and moves the
    /// page to the unevictable list with this CPU's mlock batch. Once for each such mapping.
    pub(crate) fn mlock_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// As [`Self::mlock_page`] for a fresh page that was never given to [`Self::lru_add`]: the
    /// batch puts it on the list in its stead.
    pub(crate) fn mlock_new_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// A mapping by a locked region goes, or its lock does: the last one clears MLOCKED and gives
    /// the page back to its list.
    pub(crate) fn munlock_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
