//! A file of zeros: measures the speed of the disk, and is the source of the copy.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::File;

use crate::process;

/// Writes a file of zeros and waits until it is on disk (`dd` with `conv=fdatasync`).
pub struct Zeros<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// The file, empty.
    pub file: &'a Arc<File<H>>,
    /// Its size.
    pub bytes: u64,
    /// Bytes of one write.
    pub block: u64,
}

impl<H: Devices> Zeros<'_, H> {
    /// Writes it; returns the time it took, nanoseconds.
    ///
    /// # Errors
    /// If a write fails.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        let begin_ns = cx.host.now_ns();
        let mm = process::start(self.kernel, cx)?;
        let written = self.write(cx);
        process::end(self.kernel, cx, &mm);
        written.map(|()| cx.host.now_ns() - begin_ns)
    }

    fn write(&self, cx: &Cx<'_, H>) -> Result<(), Error> {
        let open = self.kernel.open(cx, self.file);
        let mut at = 0;
        while at < self.bytes {
            let len = self.block.max(1).min(self.bytes - at);
            at += self.kernel.file_write(cx, &open, at, len)?.max(1);
            cx.host.user_point();
        }
        self.kernel.fsync(cx, &open)
    }
}
