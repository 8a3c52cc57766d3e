//! Buffered writes (rules/page-cache#write) and fsync (rules/page-cache#fsync).
//!
//! It handles one page at a time: find or create it, locked; read the part that the write does not
//! cover; copy; mark it dirty; unlock; let `balance_dirty_pages` decide whether to continue.
//! Writers of a file exclude each other, so its size changes under `rwsem`.

use alloc::sync::Arc;

use crate::host::{Cost, Cx, Devices, IoError, Phase, Probe};
use crate::kernel::Kernel;
use crate::memcg::Charge;
use crate::page::{Folio, PAGE_SHIFT, PAGE_SIZE, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::page_cache::{File, MemoryFiles, OpenFile};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;
use crate::writeback::WriteReason;

/// What programs write: only the length matters to the model.
static CONTENTS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// The part of one page that a write touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Page of the file.
    index: u32,
    /// First byte within the page.
    offset: usize,
    /// Bytes.
    len: usize,
}

impl Part {
    /// The first part of a write of `left` bytes at `pos`; none beyond the largest file.
    fn first(pos: u64, left: u64) -> Option<Part> {
        let index = u32::try_from(pos >> PAGE_SHIFT).ok()?;
        let offset = pos as usize % PAGE_SIZE;
        let len = left.min((PAGE_SIZE - offset) as u64) as usize;
        Some(Part { index, offset, len })
    }

    /// True if a page that is not cached must be read first, because the write does not overwrite
    /// all bytes that the file has in it.
    fn needs_read(self, size: u64) -> bool {
        let start = u64::from(self.index) << PAGE_SHIFT;
        let has = size.saturating_sub(start).min(PAGE_SIZE as u64) as usize;
        has > 0 && (self.offset > 0 || self.offset + self.len < has)
    }
}

impl<H: Devices> Kernel<H> {
    /// Writes `len` bytes at `pos` through the page cache, extending the file if need be; returns
    /// the bytes written.
    ///
    /// # Errors
    /// If nothing could be written: no memory, no room, a page that had to be read first could not,
    /// the task is to die.
    #[doc(alias = "generic_perform_write")]
    pub fn file_write(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let written = self.write_bytes(cx, open, pos, len);
        self.return_to_user(cx);
        written
    }

    fn write_bytes(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let _phase = cx.phase(Phase::Write);
        cx.charge(Cost::Syscall, 1);
        let file = &open.file;
        let _writer = file.rwsem.write(cx);
        let mut written = 0;
        while written < len {
            let at = pos + written;
            let outcome = match Part::first(at, len - written) {
                Some(part) if part.index < file.spec.max_pages => self.write_part(cx, file, part),
                _ => Err(Error::Io(IoError::NoSpace)),
            };
            match outcome {
                Ok(bytes) => written += bytes,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
            file.size.fetch_max(pos + written, Relaxed);
        }
        Ok(written)
    }

    fn write_part(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, part: Part) -> Result<u64, Error> {
        let throttles_first = file.spec.filesystem.throttles_first();
        if throttles_first {
            self.balance_dirty_pages(cx, file, 1);
        }
        if cx.is_dying() {
            return Err(Error::Killed);
        }
        let folio = self.page_to_write(cx, file, part)?;
        if let Err(error) = self.attach_buffers(cx, file, folio) {
            self.unlock_page(cx, folio);
            self.put_page(cx, folio);
            return Err(error);
        }
        self.store(cx, file, folio, part);
        self.unlock_page(cx, folio);
        self.put_page(cx, folio);
        if !throttles_first {
            self.balance_dirty_pages(cx, file, 1);
        }
        Ok(part.len as u64)
    }

    /// The page of a part, locked, with a reference, ready to be written to.
    fn page_to_write(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        part: Part,
    ) -> Result<Folio, Error> {
        if file.is_memory() {
            return self.memory_page(cx, file, part.index).map(|page| page.folio);
        }
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE | Gfp::WRITE;
        loop {
            let (folio, is_new) = self.find_or_create_page(cx, file, part.index, gfp)?;
            let page = self.mem.map.page(folio);
            if self.mem.policy.reclaim.write_marks_accessed {
                if is_new {
                    page.flag_set::<H>(PageFlags::REFERENCED);
                } else {
                    self.mark_accessed(cx, folio);
                }
            }
            if self.block.device(file.spec.device).spec.stable_writes {
                self.wait_on_writeback(cx, folio);
            }
            let size = file.size.load(Relaxed);
            if page.is(PageFlags::UPTODATE) || !part.needs_read(size) {
                return Ok(folio);
            }
            // The end of the read unlocks the page; it may be gone when it is locked again.
            if let Err(error) = self.read_page(cx, file, folio) {
                self.put_page(cx, folio);
                return Err(error.into());
            }
            self.lock_page(cx, folio);
            if page.mapping() == PageMapping::File(file.id) && page.index() == part.index {
                return Ok(folio);
            }
            self.unlock_page(cx, folio);
            self.put_page(cx, folio);
        }
    }

    fn store(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio, part: Part) {
        cx.charge(Cost::WriteHit, 1);
        cx.host.frame_write(folio.pfn(), part.offset, &CONTENTS[..part.len]);
        self.mem.map.page(folio).flag_set::<H>(PageFlags::UPTODATE);
        self.dirty_file_page(cx, file, folio);
    }

    /// Writes all dirty pages of a file and waits for them.
    ///
    /// # Errors
    /// If a page could not be written since the last call that said so.
    #[doc(alias = "vfs_fsync")]
    pub fn fsync(&self, cx: &Cx<'_, H>, open: &OpenFile<H>) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Fsync);
        cx.charge(Cost::Syscall, 1);
        let (file, all) = (&open.file, (0, u32::MAX));
        if file.is_memory() {
            return Ok(());
        }
        self.write_file_pages(cx, file, all, u64::MAX, WriteReason::Sync);
        self.wait_file_writeback(cx, file, all);
        if file.write_error.swap(false, Relaxed) {
            return Err(Error::Io(IoError::Device));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_cut_at_page_ends() {
        let part = |pos, left| Part::first(pos, left).unwrap();
        assert_eq!(part(0, 4096), Part { index: 0, offset: 0, len: 4096 });
        assert_eq!(part(4095, 10), Part { index: 0, offset: 4095, len: 1 });
        assert_eq!(part(8192, 10), Part { index: 2, offset: 0, len: 10 });
        assert_eq!(Part::first(1 << 44, 1), None);
    }

    #[test]
    fn only_what_the_file_has_is_read() {
        let needs = |offset, len, size| Part { index: 1, offset, len }.needs_read(size);
        assert!(!needs(0, 4096, 1 << 20), "all of it is written");
        assert!(needs(0, 100, 1 << 20) && needs(100, 3996, 1 << 20));
        assert!(!needs(100, 10, 4096), "beyond the end");
        assert!(!needs(0, 100, 4096 + 100), "up to the end");
        assert!(needs(0, 99, 4096 + 100) && needs(50, 100, 4096 + 100));
    }
}
