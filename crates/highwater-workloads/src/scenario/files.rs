//! Creation of files, as the captured programs did it.

use std::cell::Cell;
use std::sync::Arc;

use highwater_core::block::DeviceId;
use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{Buffers, File, FileSpec, Filesystem};
use highwater_core::syscall::FileAdvice;

use super::ScenarioError;

/// Bytes of one write() while a file is made.
const WRITE_BYTES: u64 = 1 << 20;

/// A machine, and a disk for files.
pub struct FileMaker<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// The disk that files live on.
    pub data: DeviceId,
    /// First page of the disk that no file has yet.
    pub next_page: Cell<u64>,
}

impl<H: Devices> FileMaker<'_, H> {
    /// Makes a file of `pages` pages, as `dd` would: whole, synced, and out of the cache. A file of
    /// 0 pages is only created.
    ///
    /// A file that is not written to afterwards has no buffer heads. Making the file leaves slabs
    /// and pages on per-CPU lists for them. The captured system already had these in use when the
    /// work began ([`super::Baseline`]), so they would be counted twice.
    ///
    /// # Errors
    /// If a call fails, or the disk is too small.
    pub fn make(
        &self,
        cx: &Cx<'_, H>,
        pages: u64,
        is_written: bool,
    ) -> Result<Arc<File<H>>, ScenarioError> {
        let filesystem = match is_written {
            true => Filesystem::EXT4,
            false => Filesystem { buffers: Buffers::None, ..Filesystem::EXT4 },
        };
        let file = self.allocate_file(cx, pages, filesystem)?;
        if pages == 0 {
            return Ok(file);
        }
        let open = self.kernel.open(cx, &file);
        let bytes = pages * PAGE_SIZE as u64;
        let mut at = 0;
        while at < bytes {
            let len = WRITE_BYTES.min(bytes - at);
            at += called("writing a file", self.kernel.file_write(cx, &open, at, len))?;
        }
        called("fsync", self.kernel.fsync(cx, &open))?;
        self.kernel.fadvise(cx, &open, 0, 0, FileAdvice::DontNeed);
        drop(open);
        // sync; echo 3 > /proc/sys/vm/drop_caches
        self.kernel.sync_all(cx);
        self.kernel.drop_caches(cx, 3);
        Ok(file)
    }

    fn allocate_file(
        &self,
        cx: &Cx<'_, H>,
        pages: u64,
        filesystem: Filesystem,
    ) -> Result<Arc<File<H>>, ScenarioError> {
        let start = self.next_page.get();
        let room = self.kernel.block.device(self.data).spec.pages;
        let max_pages = u32::try_from(pages).map_err(|_| ScenarioError::DiskFull(pages))?;
        if start + pages > room {
            return Err(ScenarioError::DiskFull(pages));
        }
        self.next_page.set(start + pages);
        let spec = FileSpec::new(filesystem, self.data, start, max_pages).with_size(0);
        Ok(self.kernel.create_file(cx, spec))
    }
}

/// Adds the purpose of a call to its error.
pub(super) fn called<T>(doing: &'static str, result: Result<T, Error>) -> Result<T, ScenarioError> {
    result.map_err(|error| ScenarioError::Call { doing, error })
}
