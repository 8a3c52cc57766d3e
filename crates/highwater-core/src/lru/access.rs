//! Marking pages used (spec 02 §4, spec 04 §3.6).

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Pfn;

impl<H: Devices> Kernel<H> {
    /// `mark_page_accessed`: inactive/unreferenced, inactive/referenced, active/unreferenced,
    /// active/referenced.
    pub fn mark_accessed(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }

    /// Sets the referenced bit and nothing else (study 003's change).
    pub fn set_referenced(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        let _ = (cx, pfn);
        todo!()
    }
}
