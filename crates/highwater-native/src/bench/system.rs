//! The computer's own memory manager, for the operations of [`super::pages`].

#![allow(unsafe_code, reason = "mapping memory, and touching it where it is mapped")]

use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{pread, write};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::pages::Side;
use highwater_core::page::PAGE_SIZE;

/// First byte of every page of the file, and the byte that is written to memory.
const MARK: u8 = 0x5a;

/// A file in the system's page cache.
pub(super) struct MemoryFile {
    file: OwnedFd,
    len: usize,
}

impl MemoryFile {
    /// A file of `len` bytes, all of them [`MARK`].
    pub(super) fn new(len: usize) -> Result<MemoryFile, String> {
        let file = memfd_create("highwater-bench", MemfdFlags::CLOEXEC).map_err(text)?;
        let piece = vec![MARK; PAGE_SIZE];
        for _ in 0..len / PAGE_SIZE {
            if write(&file, &piece).map_err(text)? != PAGE_SIZE {
                return Err("a file in memory takes less than a page".to_owned());
            }
        }
        Ok(MemoryFile { file, len })
    }
}

/// A mapping of this process.
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: 1. the range is exactly our mapping; 2. no reference into it was ever made.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping");
    }
}

impl Mapping {
    /// First bytes of the pages.
    fn pages(&self) -> impl Iterator<Item = NonNull<u8>> + '_ {
        // SAFETY: each offset is below the mapping's length.
        (0..self.len).step_by(PAGE_SIZE).map(|offset| unsafe { self.at.add(offset) })
    }
}

/// A process on the system's kernel: this one.
pub(super) struct Program {
    file: MemoryFile,
    mapped: Option<Mapping>,
    buffer: Vec<u8>,
}

impl Program {
    pub(super) fn new(file: MemoryFile) -> Program {
        Program { file, mapped: None, buffer: vec![0; 1 << 20] }
    }

    fn mapped(&self) -> Result<&Mapping, String> {
        self.mapped.as_ref().ok_or_else(|| "nothing is mapped".to_owned())
    }
}

impl Side for Program {
    fn read_file(&mut self, piece: usize) -> Result<(), String> {
        let mut at = 0;
        while at < self.file.len {
            match pread(&self.file.file, &mut self.buffer[..piece], at as u64).map_err(text)? {
                0 => return Err(format!("the file of {} bytes ends at {at}", self.file.len)),
                read => at += read,
            }
            if self.buffer[0] != MARK {
                return Err("the file has other bytes".to_owned());
            }
        }
        Ok(())
    }

    fn map_anon(&mut self) -> Result<(), String> {
        let len = self.file.len;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let at = unsafe { mmap_anonymous(core::ptr::null_mut(), len, prot, flags) };
        let at = NonNull::new(at.map_err(text)?.cast()).ok_or("mapped at address 0")?;
        let mapping = Mapping { at, len };
        // A kernel without huge pages rejects the advice, which is harmless. SAFETY: the range is
        // our mapping; the advice does not change its contents.
        let _ = unsafe { madvise(at.as_ptr().cast(), len, Advice::LinuxNoHugepage) };
        self.mapped = Some(mapping);
        Ok(())
    }

    fn map_file(&mut self) -> Result<(), String> {
        let len = self.file.len;
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: 1. as above; 2. no other process has the file, so it cannot shrink under us.
        let at = unsafe { mmap(core::ptr::null_mut(), len, prot, flags, &self.file.file, 0) };
        let at = NonNull::new(at.map_err(text)?.cast()).ok_or("mapped at address 0")?;
        self.mapped = Some(Mapping { at, len });
        Ok(())
    }

    fn write_pages(&mut self) -> Result<(), String> {
        for page in self.mapped()?.pages() {
            // SAFETY: 1. a mapped, writable byte; 2. no reference to it exists.
            unsafe { page.write_volatile(MARK) };
        }
        Ok(())
    }

    fn read_pages(&mut self) -> Result<(), String> {
        let read = self.mapped()?.pages().fold(0u64, |sum, page| {
            // SAFETY: a mapped, readable byte that no thread writes.
            sum + u64::from(unsafe { page.read_volatile() })
        });
        match read == self.file.len as u64 / PAGE_SIZE as u64 * u64::from(MARK) {
            true => Ok(()),
            false => Err("the mapping has other bytes".to_owned()),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        match self.mapped {
            Some(_) => self.read_pages(),
            None => Ok(()),
        }
    }

    fn unmap(&mut self) -> Result<(), String> {
        match self.mapped.take() {
            Some(_unmapped_by_drop) => Ok(()),
            None => Err("nothing is mapped".to_owned()),
        }
    }
}

fn text(errno: rustix::io::Errno) -> String {
    errno.to_string()
}
