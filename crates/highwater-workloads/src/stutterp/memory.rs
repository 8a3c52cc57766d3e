//! Anonymous memory of a worker.

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

use super::Stop;

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// Every page was written.
    All,
    /// The worker was stopped before the end.
    Stopped,
    /// The OOM killer chose the process.
    Killed,
}

/// A private mapping, readable and writable.
pub(super) struct Memory {
    start: u32,
    pages: u32,
}

impl Memory {
    pub(super) fn map<H: Devices>(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        pages: u32,
    ) -> Result<Self, Error> {
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let start = kernel.mmap(cx, mm, pages, 1, flags, Backing::Anon)?;
        Ok(Memory { start, pages })
    }

    /// Stores a word in each page, from the first to the last.
    pub(super) fn sweep<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        stop: &Stop,
    ) -> Result<Swept, Error> {
        let goes_on = || !stop.is_set();
        match kernel.touch_while(cx, mm, self.start, self.pages, Access::Write, goes_on) {
            Ok(pages) if pages < self.pages => Ok(Swept::Stopped),
            Ok(_) => Ok(Swept::All),
            Err(Error::Killed) => Ok(Swept::Killed),
            Err(error) => Err(error),
        }
    }

    pub(super) fn unmap<H: Devices>(
        self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
    ) -> Result<(), Error> {
        kernel.munmap(cx, mm, self.start, self.pages)
    }
}
