//! One process that maps, reads and unmaps its file.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Kernel;
use highwater_core::page_cache::File;
use highwater_core::syscall::FileAdvice;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

use super::{Barrier, UnmapError, called};
use crate::process;

/// Times of the unmaps of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTimes {
    /// The pages were inactive and unreferenced before: their referenced bits get set.
    pub first_ns: u64,
    /// They were inactive and referenced before: the policy decides their treatment.
    pub again_ns: u64,
    /// Time that all processes together waited for the LRU lock in both; 0 except for the process
    /// that has [`Mapper::lru_waits`].
    pub lru_wait_ns: u64,
}

/// A process.
pub struct Mapper<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Its file.
    pub file: &'a Arc<File<H>>,
    /// Pages of it.
    pub pages: u32,
    /// Meeting point of the processes before and after the unmap.
    pub barrier: &'a Barrier<H>,
    /// Reads the total wait of all processes for the LRU lock so far; only one process has it.
    pub lru_waits: Option<&'a dyn Fn() -> u64>,
}

impl<H: Devices> Mapper<'_, H> {
    /// Runs `rounds` rounds; each begins with the file out of the cache.
    ///
    /// # Errors
    /// If a call fails. The other processes then do not wait for this one; their times are
    /// meaningless.
    pub fn run(&self, cx: &Cx<'_, H>, rounds: u32) -> Result<Vec<RoundTimes>, UnmapError> {
        let times = self.rounds(cx, rounds);
        if times.is_err() {
            self.barrier.open(cx);
        }
        times
    }

    fn rounds(&self, cx: &Cx<'_, H>, rounds: u32) -> Result<Vec<RoundTimes>, UnmapError> {
        let mm = called("a new process", process::start(self.kernel, cx))?;
        let mut times = Vec::with_capacity(rounds as usize);
        for _ in 0..rounds {
            let open = self.kernel.open(cx, self.file);
            self.kernel.fadvise(cx, &open, 0, 0, FileAdvice::DontNeed);
            // Read into the cache without a use, so that the pages start inactive and unreferenced.
            self.kernel.fadvise(cx, &open, 0, 0, FileAdvice::WillNeed);
            let (first_ns, first_wait_ns) = self.timed(cx, &mm, "first")?;
            let (again_ns, again_wait_ns) = self.timed(cx, &mm, "again")?;
            times.push(RoundTimes {
                first_ns,
                again_ns,
                lru_wait_ns: first_wait_ns + again_wait_ns,
            });
        }
        process::end(self.kernel, cx, &mm);
        Ok(times)
    }

    /// Maps and reads the file, meets the others, unmaps. Returns the time of the unmap, and the
    /// wait of all processes for the LRU lock meanwhile.
    fn timed(&self, cx: &Cx<'_, H>, mm: &Mm<H>, what: &str) -> Result<(u64, u64), UnmapError> {
        let start = self.map_and_read(cx, mm)?;
        let name = format!("{what}-{}", self.barrier.parties());
        let waits = || self.lru_waits.map_or(0, |read| read());
        self.barrier.wait(cx);
        let waits_before = waits();
        let before = cx.host.now_ns();
        cx.host.op_begin();
        self.unmap(cx, mm, start)?;
        cx.host.op_end(&name);
        let took = cx.host.now_ns() - before;
        self.barrier.wait(cx);
        Ok((took, waits() - waits_before))
    }

    fn map_and_read(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> Result<u32, UnmapError> {
        let open = self.kernel.open(cx, self.file);
        let flags = VmaFlags::READ | VmaFlags::SHARED;
        let backing = Backing::File { open, page: 0 };
        // Aligned to a page table's reach: 512 pages are one table, as in the study.
        let start = self.kernel.mmap(cx, mm, self.pages, 512, flags, backing);
        let start = called("mmap", start)?;
        for vpn in start..start + self.pages {
            called("reading mapped memory", self.kernel.touch(cx, mm, vpn, Access::Read))?;
        }
        Ok(start)
    }

    fn unmap(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32) -> Result<(), UnmapError> {
        called("munmap", self.kernel.munmap(cx, mm, start, self.pages))
    }
}
