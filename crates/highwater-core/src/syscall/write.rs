//! Buffered writes (rules/page-cache#write) and fsync (rules/page-cache#fsync).
//!
//! It handles one page at a time: find or create it, locked; read the part that the write does not
//! cover; copy; mark it dirty; unlock; let `balance_dirty_pages` decide whether to continue. Files
//! with large folios are written a folio at a time (rules/large-folios#writes). Writers of a file
//! exclude each other, so its size changes under `rwsem`.

use alloc::sync::Arc;
use core::ops::Range;

use crate::host::{Cost, Cx, Devices, IoError, Phase, Probe};
use crate::kernel::Kernel;
use crate::memcg::Charge;
use crate::page::{Folio, PAGE_SHIFT, PAGE_SIZE, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::page_cache::{File, Maker, MemoryFiles, OpenFile, step_of_write};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;
use crate::writeback::WriteReason;

/// What programs write: only the length matters to the model.
static CONTENTS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// The part of one page that a write touches, or of the pages of a folio.
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

    /// The same of a write to a file with large folios: up to where the largest of them would end.
    fn first_of_folio(pos: u64, left: u64) -> Option<Part> {
        let index = u32::try_from(pos >> PAGE_SHIFT).ok()?;
        let len = step_of_write(pos, left) as usize;
        Some(Part { index, offset: pos as usize % PAGE_SIZE, len })
    }

    /// The part of it before page `end` of the file.
    fn before(self, end: u32) -> Part {
        let pages = (end - self.index) as usize;
        Part { len: self.len.min(pages * PAGE_SIZE - self.offset), ..self }
    }

    /// The part of it in its first page.
    fn in_first_page(self) -> Part {
        Part { len: self.len.min(PAGE_SIZE - self.offset), ..self }
    }

    /// The pages of the file that it touches.
    fn pages(self) -> Range<u32> {
        self.index..self.index + (self.offset + self.len).div_ceil(PAGE_SIZE) as u32
    }

    /// True if a page that is not cached must be read first, because the write does not overwrite
    /// all bytes that the file has in it.
    fn needs_read(self, size: u64) -> bool {
        let start = u64::from(self.index) << PAGE_SHIFT;
        // Of a folio all of it counts.
        let reach = (self.offset + self.len).next_multiple_of(PAGE_SIZE) as u64;
        let has = size.saturating_sub(start).min(reach) as usize;
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
        let has_folios = self.max_folio_order(file, Maker::Write).0 > 0;
        let mut written = 0;
        while written < len {
            let at = pos + written;
            let first = match has_folios {
                false => Part::first(at, len - written),
                true => Part::first_of_folio(at, len - written),
            };
            let outcome = match first {
                Some(part) if part.index < file.spec.max_pages => {
                    self.write_part(cx, file, part.before(file.spec.max_pages))
                }
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
        let (folio, part) = self.page_to_write(cx, file, part)?;
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

    /// The page of a part, locked, with a reference, ready to be written to; and the part of the
    /// write that lies in its folio.
    fn page_to_write(
        &self,
        cx: &Cx<'_, H>,
        file: &Arc<File<H>>,
        part: Part,
    ) -> Result<(Folio, Part), Error> {
        if file.is_memory() {
            return self.memory_page(cx, file, part.index).map(|page| (page.folio, part));
        }
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE | Gfp::WRITE;
        let wanted = part;
        loop {
            let (folio, is_new) = match wanted.offset + wanted.len > PAGE_SIZE {
                false => self.find_or_create_page(cx, file, wanted.index, gfp)?,
                true => {
                    let from = (wanted.index, wanted.len as u64);
                    self.find_or_create_folio(cx, file, from, gfp)?
                }
            };
            let part = wanted.before(self.mem.map.indices_of(folio).1);
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
            // A fresh folio of several pages is no larger than the write, so only its first page
            // may have to be read.
            let is_fresh = is_new && folio.is_large();
            let head = if is_fresh { part.in_first_page() } else { part };
            if page.is(PageFlags::UPTODATE) || !head.needs_read(size) {
                return Ok((folio, part));
            }
            // The end of the read unlocks the page; it may be gone when it is locked again.
            let nr = if is_fresh { 1 } else { folio.nr_pages() as u32 };
            if let Err(error) = self.read_pages(cx, file, folio, nr) {
                self.put_page(cx, folio);
                return Err(error.into());
            }
            self.lock_page(cx, folio);
            let (begins, ends) = self.mem.map.indices_of(folio);
            if page.mapping() == PageMapping::File(file.id) && (begins..ends).contains(&part.index)
            {
                return Ok((folio, part));
            }
            self.unlock_page(cx, folio);
            self.put_page(cx, folio);
        }
    }

    fn store(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, folio: Folio, part: Part) {
        let pages = part.pages();
        cx.charge(Cost::WriteHit, pages.len() as u32);
        let (mut offset, mut left) = (part.offset, part.len);
        for index in pages.clone() {
            let len = left.min(PAGE_SIZE - offset);
            cx.host.frame_write(self.mem.map.frame_of(folio, index), offset, &CONTENTS[..len]);
            (offset, left) = (0, left - len);
        }
        self.mem.map.page(folio).flag_set::<H>(PageFlags::UPTODATE);
        self.pages_stored(folio, pages);
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
