//! mlock and munlock (spec 04 §2.7).

use super::Space;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

impl<H: Devices> Kernel<H> {
    /// Locks a range: its pages are faulted in and never reclaimed.
    ///
    /// # Errors
    /// As [`Kernel::touch`]; what was locked before the error stays locked.
    pub fn mlock(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        pages: u32,
    ) -> Result<(), Error> {
        let _ = (cx, space, start, pages);
        todo!()
    }

    /// Unlocks a range.
    ///
    /// # Errors
    /// If part of the range is not mapped.
    pub fn munlock(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        pages: u32,
    ) -> Result<(), Error> {
        let _ = (cx, space, start, pages);
        todo!()
    }
}
