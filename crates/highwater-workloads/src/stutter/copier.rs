//! The copier: a file larger than memory, read and written again.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::File;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

use crate::process;

/// Copies a file block by block through a buffer in its address space, then syncs.
pub struct Copier<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// The source file.
    pub source: &'a Arc<File<H>>,
    /// The target: an empty file.
    pub target: &'a Arc<File<H>>,
    /// Bytes of one read, and of one write.
    pub block: u64,
}

impl<H: Devices> Copier<'_, H> {
    /// Copies; returns the time until all of it was on disk, nanoseconds. `None`: the OOM killer
    /// chose the program.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<Option<u64>, Error> {
        let begin_ns = cx.host.now_ns();
        let mm = process::start(self.kernel, cx)?;
        let copied = self.copy(cx, &mm);
        process::end(self.kernel, cx, &mm);
        match copied {
            Ok(()) => {
                self.kernel.sync_all(cx);
                Ok(Some(cx.host.now_ns() - begin_ns))
            }
            Err(Error::Killed) => Ok(None),
            Err(_) if cx.is_dying() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn copy(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> Result<(), Error> {
        let &Copier { kernel, source, target, block } = self;
        let block = block.max(PAGE_SIZE as u64);
        let pages = u32::try_from(block.div_ceil(PAGE_SIZE as u64)).unwrap_or(u32::MAX);
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let buffer = kernel.mmap(cx, mm, pages, 1, flags, Backing::Anon)?;
        let (from, to) = (kernel.open(cx, source), kernel.open(cx, target));
        let bytes = source.size();
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + block);
            // The buffer may have been swapped out.
            kernel.touch_range(cx, mm, buffer, pages, Access::Write)?;
            transfer(at, end, |at, len| kernel.file_read(cx, &from, at, len))?;
            transfer(at, end, |at, len| kernel.file_write(cx, &to, at, len))?;
            cx.host.user_point();
            at = end;
        }
        Ok(())
    }
}

/// A read or write of `at..end`, which may be served in parts.
fn transfer(
    mut at: u64,
    end: u64,
    call: impl Fn(u64, u64) -> Result<u64, Error>,
) -> Result<(), Error> {
    while at < end {
        at += call(at, end - at)?.max(1);
    }
    Ok(())
}
