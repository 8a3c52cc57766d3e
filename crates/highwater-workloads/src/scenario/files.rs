//! Where a program runs, and how it makes its files.

use std::cell::Cell;
use std::sync::Arc;

use highwater_core::block::DeviceId;
use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{Buffers, File, FileSpec, Filesystem, OpenFile};
use highwater_core::syscall::FileAdvice;

use super::{GRAIN, ScenarioError};

/// Bytes of one write() while a file is made.
const WRITE_BYTES: u64 = 1 << 20;
/// Bytes of one read() of a pass.
const READ_BYTES: u64 = 64 << 10;

/// A machine, a disk and what sizes refer to.
pub struct Ground<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Pages that fractions refer to.
    pub phys_pages: u64,
    /// The disk that files live on.
    pub data: DeviceId,
    /// First page of the disk that no file has yet.
    pub next_page: Cell<u64>,
    /// Where random sequences start; not 0.
    pub seed: u64,
}

impl<H: Devices> Ground<'_, H> {
    /// Pages of a fraction of memory: a multiple of [`GRAIN`].
    pub(super) fn pages(&self, fraction: f64) -> u64 {
        (fraction * self.phys_pages as f64) as u64 / GRAIN * GRAIN
    }

    /// Makes a file of `pages` pages that is read only afterwards.
    ///
    /// Without buffer heads: what making it leaves of them, slabs that are kept and pages on per-CPU lists, is in what the
    /// captured system had in use when the work began ([`super::Baseline`]), and would be taken away twice.
    pub(super) fn make_file(
        &self,
        cx: &Cx<'_, H>,
        pages: u64,
    ) -> Result<Arc<OpenFile<H>>, ScenarioError> {
        self.make(cx, pages, Filesystem { buffers: Buffers::None, ..Filesystem::EXT4 })
    }

    /// Makes a file of `pages` pages that is written to afterwards.
    pub(super) fn make_file_to_write(
        &self,
        cx: &Cx<'_, H>,
        pages: u64,
    ) -> Result<Arc<OpenFile<H>>, ScenarioError> {
        self.make(cx, pages, Filesystem::EXT4)
    }

    /// As `dd` would: whole, synced, and out of the cache.
    fn make(
        &self,
        cx: &Cx<'_, H>,
        pages: u64,
        filesystem: Filesystem,
    ) -> Result<Arc<OpenFile<H>>, ScenarioError> {
        let file = self.allocate_file(cx, pages, filesystem)?;
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
        self.quiet(cx);
        // A descriptor of its own for what follows: readahead starts from nothing.
        Ok(self.kernel.open(cx, &file))
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

    /// `sync; echo 3 > /proc/sys/vm/drop_caches`.
    pub(super) fn quiet(&self, cx: &Cx<'_, H>) {
        self.kernel.sync_all(cx);
        self.kernel.drop_caches(cx, 3);
    }

    /// Reads a file from its start to its end.
    pub(super) fn read_all(&self, cx: &Cx<'_, H>, open: &OpenFile<H>) -> Result<(), ScenarioError> {
        let mut at = 0;
        loop {
            let n = called("reading a file", self.kernel.file_read(cx, open, at, READ_BYTES))?;
            if n == 0 {
                return Ok(());
            }
            at += n;
        }
    }
}

/// Says what a call was for if it failed.
pub(super) fn called<T>(doing: &'static str, result: Result<T, Error>) -> Result<T, ScenarioError> {
    result.map_err(|error| ScenarioError::Call { doing, error })
}
