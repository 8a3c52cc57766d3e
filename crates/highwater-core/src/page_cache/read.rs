//! Buffered reads (rules/page-cache#read).
//!
//! A call goes through the file in batches of cached pages. Readahead reads missing pages. A page
//! that could not be read ahead (no memory, a failed device) is read alone, and only a failure of
//! that is returned to the caller. A later read tries again.

use super::lookup::{AddError, FILE_GFP, PageBatch};
use super::{Entry, File, MemoryFiles, MemoryPage, OpenFile};
use crate::config::FileFolios;
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::memcg::Charge;
use crate::page::{Folio, PAGE_SHIFT, PAGE_SIZE, PageFlags};
use crate::units::Error;

/// What came of waiting for a page.
enum Ready {
    /// It can be read.
    Yes,
    /// It was released or left the file: look again.
    Again,
}

impl<H: Devices> Kernel<H> {
    /// Reads `len` bytes from `pos`; the bytes read (less at the end of the file).
    ///
    /// # Errors
    /// If a page could not be read or memory ran out, and nothing was read before; if the task is
    /// to die.
    #[doc(alias = "filemap_read")]
    #[doc(alias = "generic_file_buffered_read")]
    pub fn file_read(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
    ) -> Result<u64, Error> {
        self.read(cx, open, pos, len, None)
    }

    /// The same; and how many of the pages that were asked for were in the cache and up to date at
    /// that moment. Holes of a file that lives in memory count: reading them needs no page.
    ///
    /// # Errors
    /// As [`Self::file_read`].
    pub fn file_read_found(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
        found: &mut u64,
    ) -> Result<u64, Error> {
        self.read(cx, open, pos, len, Some(found))
    }

    fn read(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
        found: Option<&mut u64>,
    ) -> Result<u64, Error> {
        let read = self.read_bytes(cx, open, pos, len, found);
        self.return_to_user(cx);
        read
    }

    fn read_bytes(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        len: u64,
        mut found: Option<&mut u64>,
    ) -> Result<u64, Error> {
        let _phase = cx.phase(Phase::Read);
        cx.charge(Cost::Syscall, 1);
        let wanted = pos.saturating_add(len);
        if open.file.is_memory() {
            return self.read_memory(cx, open, pos, wanted, found);
        }
        let mut batch = PageBatch::default();
        let mut at = pos;
        while at < wanted.min(open.file.size()) {
            match self.read_batch(cx, open, at, wanted, &mut batch, found.take()) {
                Ok(()) => {}
                Err(_) if at > pos => break,
                Err(error) => return Err(error),
            }
            // The file may have become shorter.
            let end = wanted.min(open.file.size());
            let end = end.min(self.end_of_batch(at, &batch));
            if at < end {
                self.copy_pages(cx, open, (at, end), &batch);
            }
            for &folio in batch.iter() {
                self.put_page(cx, folio);
            }
            if at >= end {
                break;
            }
            at = end;
            cx.host.yield_now();
        }
        Ok(at - pos)
    }

    /// Reads a file that lives in memory, a page at a time. Holes are read as zeros and stay holes.
    #[doc(alias = "shmem_file_read_iter")]
    fn read_memory(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        pos: u64,
        wanted: u64,
        mut found: Option<&mut u64>,
    ) -> Result<u64, Error> {
        let file = &open.file;
        let mut at = pos;
        while at < wanted.min(file.size()) {
            let Ok(index) = u32::try_from(at >> PAGE_SHIFT) else { break };
            let end = wanted.min(file.size()).min((u64::from(index) + 1) << PAGE_SHIFT);
            let entry = file.tree.lock(cx.cpu()).get(index);
            if let (Some(found), false) = (&mut found, matches!(entry, Entry::Swapped(_))) {
                **found += 1;
            }
            if let Entry::Page(_) | Entry::Swapped(_) = entry {
                match self.memory_page(cx, file, index) {
                    Ok(MemoryPage { folio, .. }) => {
                        self.unlock_page(cx, folio);
                        let offset = at as usize & (PAGE_SIZE - 1);
                        self.mark_accessed(cx, folio);
                        cx.host.frame_copy_out(folio.pfn(), offset, (end - at) as usize);
                        self.put_page(cx, folio);
                    }
                    Err(Error::Invalid) => break,
                    Err(_) if at > pos => break,
                    Err(error) => return Err(error),
                }
            }
            cx.charge(Cost::ReadHit, 1);
            at = end;
            cx.host.yield_now();
        }
        Ok(at.saturating_sub(pos))
    }

    /// Copies bytes `at..end` out of pages that hold them. Each page counts as used, but one that
    /// the last read ended in only once.
    fn copy_pages(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        (mut at, end): (u64, u64),
        pages: &[Folio],
    ) {
        let prev = open.readahead.lock(cx.cpu()).prev_pos;
        let was_read = prev.is_some_and(|prev| self.are_of_one_folio(pages[0], prev, at));
        let mut nr_read = 0;
        for (i, &folio) in pages.iter().enumerate() {
            if at >= end {
                break;
            }
            if i > 0 || !was_read {
                self.mark_accessed(cx, folio);
            }
            if folio.is_large() {
                let pages;
                (at, pages) = self.copy_folio(cx, folio, at, end);
                nr_read += pages;
                continue;
            }
            let offset = at as usize & (PAGE_SIZE - 1);
            let part = (PAGE_SIZE - offset).min((end - at) as usize);
            cx.host.frame_copy_out(folio.pfn(), offset, part);
            at += part as u64;
            nr_read += 1;
        }
        cx.charge(Cost::ReadHit, nr_read);
        open.readahead.lock(cx.cpu()).prev_pos = Some(at - 1);
    }

    /// Copies bytes from `at` on out of a folio of several pages, up to `end`; returns the byte
    /// behind them, and the number of pages.
    #[inline(never)]
    fn copy_folio(&self, cx: &Cx<'_, H>, folio: Folio, mut at: u64, end: u64) -> (u64, u32) {
        let end = end.min(u64::from(self.mem.map.indices_of(folio).1) << PAGE_SHIFT);
        let mut nr = 0;
        while at < end {
            let offset = at as usize & (PAGE_SIZE - 1);
            let part = (PAGE_SIZE - offset).min((end - at) as usize);
            let frame = self.mem.map.frame_of(folio, (at >> PAGE_SHIFT) as u32);
            cx.host.frame_copy_out(frame, offset, part);
            at += part as u64;
            nr += 1;
        }
        (at, nr)
    }

    /// The byte behind the pages of a batch, of which the first one has byte `at`.
    fn end_of_batch(&self, at: u64, batch: &[Folio]) -> u64 {
        match batch.last() {
            Some(&last) if self.mem.policy.folio.file != FileFolios::None => {
                u64::from(self.mem.map.indices_of(last).1) << PAGE_SHIFT
            }
            _ => (at >> PAGE_SHIFT << PAGE_SHIFT) + (batch.len() * PAGE_SIZE) as u64,
        }
    }

    /// True if a folio that has byte `at` has byte `prev` too.
    fn are_of_one_folio(&self, folio: Folio, prev: u64, at: u64) -> bool {
        if !folio.is_large() {
            return prev >> PAGE_SHIFT == at >> PAGE_SHIFT;
        }
        let (first, end) = self.mem.map.indices_of(folio);
        (first.into()..end.into()).contains(&(prev >> PAGE_SHIFT))
    }

    /// Fills `batch` with up-to-date pages from the one of byte `at` on, at least one, for a call
    /// that reads up to byte `wanted`. No pages: the file ends before. `found` as of
    /// [`Self::find_read_batch`].
    #[doc(alias = "filemap_get_pages")]
    fn read_batch(
        &self,
        cx: &Cx<'_, H>,
        open: &OpenFile<H>,
        at: u64,
        wanted: u64,
        batch: &mut PageBatch,
        mut found: Option<&mut u64>,
    ) -> Result<(), Error> {
        let file = &open.file;
        batch.clear();
        let Ok(index) = u32::try_from(at >> PAGE_SHIFT) else { return Ok(()) };
        let left = wanted.div_ceil(PAGE_SIZE as u64) - u64::from(index);
        let req = u32::try_from(left).unwrap_or(u32::MAX);
        loop {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            self.find_read_batch(cx, file, index, req, batch, found.take());
            if batch.is_empty() {
                self.readahead_sync(cx, open, index, req);
                self.find_read_batch(cx, file, index, req, batch, None);
            }
            if batch.is_empty() {
                match self.create_page(cx, file, index, FILE_GFP) {
                    Ok(folio) => {
                        batch.push(folio);
                        let result = self.read_page(cx, file, folio);
                        return result.map_err(|error| {
                            self.put_page(cx, folio);
                            error.into()
                        });
                    }
                    Err(AddError::Exists) => continue,
                    Err(AddError::NoMemory) => return Err(Error::NoMemory),
                    Err(AddError::Deleted) => return Ok(()),
                }
            }
            let Some(&last) = batch.last() else { continue };
            let flags = self.mem.map.page(last).flags();
            if flags.contains(PageFlags::READAHEAD) {
                // The request begins with the first page of the folio, which may lie before the
                // call's.
                let first = match self.mem.policy.folio.file {
                    FileFolios::None => index + (batch.len() as u32 - 1),
                    _ => self.mem.map.page(last).index(),
                };
                let wanted = index.saturating_add(req).saturating_sub(first);
                self.readahead_async(cx, open, last, first, wanted);
            }
            if self.mem.map.page(last).is(PageFlags::UPTODATE) {
                return Ok(());
            }
            match self.make_uptodate(cx, file, last) {
                Ok(Ready::Yes) => return Ok(()),
                outcome => {
                    self.put_page(cx, last);
                    batch.pop();
                    match outcome {
                        // The pages before it are good.
                        _ if !batch.is_empty() => return Ok(()),
                        Err(error) => return Err(error),
                        Ok(_) => {}
                    }
                }
            }
        }
    }

    /// Waits until a page's read ends, or reads a page whose read failed.
    #[doc(alias = "filemap_update_page")]
    fn make_uptodate(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) -> Result<Ready, Error> {
        if !self.try_lock_page(folio) {
            return match self.wait_on_locked_killable(cx, folio) {
                true => Ok(Ready::Again),
                false => Err(Error::Killed),
            };
        }
        let is_ours = self.is_page_of(file, folio);
        if !is_ours || self.mem.map.page(folio).is(PageFlags::UPTODATE) {
            self.unlock_page(cx, folio);
            return Ok(if is_ours { Ready::Yes } else { Ready::Again });
        }
        self.read_page(cx, file, folio)?;
        Ok(Ready::Yes)
    }
}
