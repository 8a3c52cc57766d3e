//! Buffered reads (spec 04 §5).

use super::OpenFile;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

impl<H: Devices> Kernel<H> {
    /// Reads `len` bytes from `pos`; the bytes read (less at the end of the file).
    ///
    /// # Errors
    /// If a page could not be read or memory ran out, and nothing was read before.
    pub fn file_read(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let _ = (cx, open, pos, len);
        todo!()
    }
}
