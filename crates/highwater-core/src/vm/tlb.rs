//! TLB flushes (spec 04 §3.4).

use super::Space;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// Virtual pages whose translations must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRange {
    /// First virtual page.
    pub start: u32,
    /// Virtual page after the last.
    pub end: u32,
    /// Page tables are freed too: lazy CPUs need the interrupt as well.
    pub tables_freed: bool,
}

impl<H: Devices> Kernel<H> {
    /// Flushes a range of a space's translations on every CPU that may hold them.
    pub(crate) fn flush_tlb(&self, cx: &Cx<'_, H>, space: &Space<H>, range: FlushRange) {
        let _ = (cx, space, range);
        todo!()
    }
}
