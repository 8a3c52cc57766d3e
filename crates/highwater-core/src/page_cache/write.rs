//! Buffered writes (spec 04 §5).

use super::OpenFile;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

impl<H: Devices> Kernel<H> {
    /// Writes `len` bytes at `pos`, extending the file if need be; the bytes written.
    ///
    /// # Errors
    /// If nothing could be written: no memory, no room, a page that had to be read first could not.
    pub fn file_write(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let _ = (cx, open, pos, len);
        todo!()
    }

    /// Writes all dirty pages of a file and waits for them.
    ///
    /// # Errors
    /// If a page could not be written; reported once.
    pub fn fsync(&self, cx: &Cx<'_, H>, open: &OpenFile<H>) -> Result<(), Error> {
        let _ = (cx, open);
        todo!()
    }
}
