//! Taking pages off their list, putting them back (spec 02 §10).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// Takes one page off its list (migration, MADV_PAGEOUT): a reference is taken, LRU cleared.
    /// False if it is on no list.
    pub(crate) fn isolate_page(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let _ = (cx, pfn);
        todo!()
    }

    /// Puts an isolated page back on the list its flags name and drops the isolation's reference.
    pub(crate) fn putback_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
