//! The system beside the benchmark: the programs of a booted distribution
//! (rules/benchmarks#highalloc-system).
//!
//! They run before, during and after the script. Each does little: it holds user and kernel memory,
//! and touches a part of it now and then, so that it is not swapped out for good. The placement of
//! that memory matters. A program allocates it bit by bit while others use the rest, so its pages
//! are scattered. None of them is freed when builds are killed and caches are dropped.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{File, FileSpec};
use highwater_core::vm::Backing;

use super::child::{Child, Memory, STEP_PAGES, TEXT};
use crate::process;
use crate::random::Random;
use crate::stop::Stop;

/// Memory that the programs of an idle server hold together, KiB, on a machine of [`OF_PAGES`]. The
/// figures are AnonPages, Mapped, Shmem and SUnreclaim of a published `/proc/meminfo`. From
/// SUnreclaim, the amount of a captured kernel without programs is subtracted.
const ANON_KIB: u64 = 111_180;
const MAPPED_KIB: u64 = 56_396;
const SHMEM_KIB: u64 = 16_676;
const KERNEL_KIB: u64 = 29_052 - 1_987 * 4;
/// Number of programs. A small process has about 25 page tables; this many fill the system's 1,264
/// pages of page tables.
const DAEMONS: u64 = 50;
/// Pages of the study's machine.
const OF_PAGES: u64 = 1_010_000;
/// A program's memory compared with that of others, in sixteenths of the mean: most are small.
const SHARES: [u64; 10] = [2, 3, 4, 5, 7, 10, 14, 20, 33, 62];
/// Time between two looks at its memory, and the part of it that it touches.
const IDLE_NS: u64 = 10_000_000_000;
const LOOKS_AT: u32 = 8;
/// Pages of the text that every program has mapped: the C library.
const LIBC_PAGES: u32 = 2 << 8;

/// Memory that the system of a machine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemSize {
    /// Programs.
    pub daemons: u32,
    /// Pages of their text and libraries, together.
    pub text_pages: u32,
    anon_pages: u64,
    shmem_pages: u64,
    kernel_pages: u64,
}

impl SystemSize {
    /// `scale` times the memory of a server's system for each 4 GiB of the machine.
    pub fn new(memory_pages: u64, scale: f64) -> SystemSize {
        let part = scale * memory_pages as f64 / OF_PAGES as f64;
        let pages = |kib: u64| (part * (kib * 1024 / PAGE_SIZE as u64) as f64) as u64;
        let daemons = (part * DAEMONS as f64).ceil() as u32;
        SystemSize {
            daemons,
            // A running program has at least one page of text.
            text_pages: (pages(MAPPED_KIB) as u32).max(daemons.min(1)),
            anon_pages: pages(ANON_KIB),
            shmem_pages: pages(SHMEM_KIB),
            kernel_pages: pages(KERNEL_KIB),
        }
    }

    /// A program's share of the total.
    fn share(&self, all: u64, daemon: u32) -> u64 {
        let daemons = 0..self.daemons;
        let weight = |number: u32| SHARES[number as usize % SHARES.len()];
        all * weight(daemon) / daemons.map(weight).sum::<u64>().max(1)
    }
}

/// A program of the system: the body of a task.
pub struct Daemon<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Memory of all programs together.
    pub size: SystemSize,
    /// Number of this program.
    pub number: u32,
    /// The programs' text and libraries, [`SystemSize::text_pages`] of it.
    pub text: &'a Arc<File<H>>,
    /// Time in which it allocates its memory, nanoseconds.
    pub start_ns: u64,
    /// Divisor of idle times.
    pub compression: f64,
    /// Seed of its random choices.
    pub seed: u64,
}

impl<H: Devices> Daemon<'_, H> {
    /// Runs until it is stopped, or the OOM killer chooses it.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>, stop: &Stop) -> Result<(), Error> {
        stop.enlist(cx);
        let mut held = Vec::new();
        let ended = self.live(cx, stop, &mut held);
        for pfn in held {
            let freed = self.kernel.mem.free(cx, pfn, Order::ZERO);
            debug_assert!(freed.is_ok(), "a page of the daemon: {freed:?}");
        }
        match ended {
            Err(_) if cx.is_dying() => Ok(()),
            ended => ended,
        }
    }

    fn live(&self, cx: &Cx<'_, H>, stop: &Stop, held: &mut Vec<Pfn>) -> Result<(), Error> {
        let init = process::start(self.kernel, cx)?;
        let ended = Child::start(self.kernel, cx, &init).and_then(|daemon| {
            let text = self.map_text(cx, &daemon)?;
            let heap = self.start_up(cx, stop, &daemon, held)?;
            let mut random = Random::new(self.seed);
            while !stop.is_set() && !cx.is_dying() {
                cx.host.sleep_ns((IDLE_NS as f64 / self.compression) as u64);
                heap.touch_some(cx, LOOKS_AT, &mut random)?;
                text.touch_some(cx, LOOKS_AT, &mut random)?;
            }
            Ok(())
        });
        process::end(self.kernel, cx, &init);
        ended
    }

    /// Its part of the text, behind the library that all programs have.
    fn map_text<'d>(
        &self,
        cx: &Cx<'_, H>,
        daemon: &'d Child<'_, H>,
    ) -> Result<Memory<'d, H>, Error> {
        let all = self.size.text_pages;
        let map = |first: u32, pages: u32| {
            let open = self.kernel.open(cx, self.text);
            daemon.map(cx, pages.max(1), TEXT, Backing::File { open, page: first })
        };
        map(0, LIBC_PAGES.min(all))?.touch(cx)?;
        let part = (all / self.size.daemons.max(1)).max(1);
        let own = map((part * self.number).min(all - 1), part.min(all))?;
        own.touch(cx)?;
        Ok(own)
    }

    /// Allocates its memory bit by bit: anonymous memory, kernel memory, and its part of tmpfs
    /// (`/run`).
    fn start_up<'d>(
        &self,
        cx: &Cx<'_, H>,
        stop: &Stop,
        daemon: &'d Child<'_, H>,
        held: &mut Vec<Pfn>,
    ) -> Result<Memory<'d, H>, Error> {
        let SystemSize { anon_pages, shmem_pages, kernel_pages, .. } = self.size;
        let share = |all| self.size.share(all, self.number);
        let (anon, shmem, kernel) = (share(anon_pages), share(shmem_pages), share(kernel_pages));
        let steps = anon.div_ceil(u64::from(STEP_PAGES)).max(1);
        let file = FileSpec::in_memory(u32::try_from(shmem).unwrap_or(u32::MAX).max(1));
        let file = self.kernel.open(cx, &self.kernel.create_file(cx, file));
        let mut random = Random::new(self.seed ^ 1);
        let mut heap = daemon.memory(cx, STEP_PAGES)?;
        for step in 0..steps {
            // The next bit comes after a random time; the mean is the same for all programs.
            cx.host.sleep_ns(random.below(2 * self.start_ns / steps + 1));
            if stop.is_set() || cx.is_dying() {
                break;
            }
            let piece = match step {
                0 => heap,
                _ => heap.grow(cx, STEP_PAGES)?,
            };
            piece.touch(cx)?;
            let due = |all: u64| all * (step + 1) / steps - all * step / steps;
            let at = shmem * step / steps * PAGE_SIZE as u64;
            if due(shmem) > 0 {
                self.kernel.file_write(cx, &file, at, due(shmem) * PAGE_SIZE as u64)?;
            }
            for _ in 0..due(kernel) {
                let node = self.kernel.mem.cpu_node(cx.cpu());
                let gfp = Gfp::GFP_KERNEL;
                let page = self.kernel.mem.alloc(cx, self.kernel, gfp, Order::ZERO, node, None);
                held.push(page.ok_or(Error::NoMemory)?);
            }
            heap = heap.with(&piece);
        }
        Ok(heap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/benchmarks#highalloc-system.
    #[test]
    fn a_system_is_as_large_as_its_machine() {
        let size = SystemSize::new(1_010_000, 1.0);
        let SystemSize { daemons, text_pages, anon_pages, shmem_pages, kernel_pages } = size;
        assert_eq!((daemons, text_pages), (50, 14_099));
        assert_eq!((anon_pages, shmem_pages, kernel_pages), (27_795, 4169, 5276));
        let shares: Vec<u64> = (0..daemons).map(|n| size.share(anon_pages, n)).collect();
        let all: u64 = shares.iter().sum();
        assert!(all <= anon_pages && all + u64::from(daemons) > anon_pages, "{all}");
        assert_eq!((shares[0], shares[9]), (69, 2154), "270 KiB to 8 MiB");
        assert_eq!(SystemSize::new(252_500, 1.0).anon_pages, 27_795 / 4);
        let small = [0.0, 0.00001].map(|scale| SystemSize::new(1_010_000, scale));
        assert_eq!(small.map(|size| (size.daemons, size.text_pages)), [(0, 0), (1, 1)]);
    }
}
