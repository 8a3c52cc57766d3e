//! One compile: the processes that `make` starts for a source (rules/benchmarks#highalloc-builds).
//!
//! ```text
//! make ──fork, exec─▶ gcc ──fork, exec─▶ cc1: sources, heap, tables; dependencies ──exit
//!   │                  └────fork, exec─▶ as: heap, object ──exit
//!   ├──fork, exec─▶ fixdep: dependencies, once more
//!   └──fork, exec─▶ ld, once for a directory: its objects in one; and those of several directories in one
//! ```
//!
//! One task does all of it, because a process that starts another one waits for its end.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SHIFT;
use highwater_core::page_cache::{File, OpenFile};
use highwater_core::vm::{Backing, Mm};

use super::child::{Child, TEXT};
use super::{Compute, Disk, Entry, Tree};
use crate::random::Random;

/// Pages by which a heap grows: gcc's collector allocates 2 MiB at a time (`GGC_QUIRE_SIZE`, since
/// 4.7).
const HEAP_STEP: u32 = 512;
/// Pages that `cc1` uses, from its smallest heap to its largest: 20 to 60 MiB.
const HEAP_PAGES: [u32; 2] = [20 << 8, 60 << 8];
/// Pages of the table of source positions: doubled when it is full, it has between 2 and 4 MiB for the 30,000 to
/// 60,000 lines that a kernel source has with its headers.
const TABLE_PAGES: [u32; 2] = [512, 1024];
/// Pages of the assembler's memory, and of the small processes': 2 MiB, 256 KiB.
const AS_PAGES: u32 = 512;
const SMALL_PAGES: u32 = 64;
/// Headers that a source includes, directly or indirectly.
const HEADERS: usize = 300;
/// Headers that sources of a tree choose from: `include/linux`, `include/asm` and what they include.
const ALL_HEADERS: u64 = 900;
/// CPU time of a compile, nanoseconds: 1 to 2 s.
const CPU_NS: [u64; 2] = [1_000_000_000, 2_000_000_000];
/// Bytes of an object file: 30 to 100 KiB.
const OBJECT_BYTES: [u64; 2] = [30 << 10, 100 << 10];
/// Bytes of the dependencies: the list of headers that the compiler writes and the makefiles keep.
/// 300 names of 80 bytes, give or take a half (`.o.d`, `.o.cmd`).
const DEPENDENCY_BYTES: [u64; 2] = [12 << 10, 36 << 10];
/// Most pages that a mapping begins behind a multiple of 2 MiB (addresses are random).
const OFFSET_PAGES: u64 = 512;

/// Common parameters of compiles.
pub(super) struct Shop<'a, H: Devices> {
    pub(super) kernel: &'a Kernel<H>,
    pub(super) tree: &'a Tree<H>,
    /// The program text of `cc1`.
    pub(super) tools: &'a Arc<File<H>>,
    pub(super) disk: &'a Disk<H>,
    pub(super) compute: &'a Compute<H>,
    /// Divisor of CPU times.
    pub(super) compression: f64,
}

impl<H: Devices> Shop<'_, H> {
    /// Compiles a source of the tree, as a child of `make`. The object is the first of the files it
    /// makes.
    pub(super) fn compile(
        &self,
        cx: &Cx<'_, H>,
        make: &Mm<H>,
        random: &mut Random,
        made: &mut Vec<Entry<H>>,
    ) -> Result<(), Error> {
        let &Shop { kernel, disk, .. } = self;
        let gcc = Child::start(kernel, cx, make)?;
        gcc.memory(cx, SMALL_PAGES)?.touch(cx)?;
        let bytes = between(random, DEPENDENCY_BYTES);
        let named = {
            let cc1 = Child::start(kernel, cx, &gcc.mm)?;
            self.translate(cx, &cc1, random)?;
            disk.write_new(kernel, cx, bytes)?
        };
        {
            let assembler = Child::start(kernel, cx, &gcc.mm)?;
            assembler.reserve(cx, offset(random))?;
            assembler.memory(cx, AS_PAGES)?.touch(cx)?;
            made.push(disk.write_new(kernel, cx, between(random, OBJECT_BYTES))?);
        }
        // The dependencies with the options in front, which the makefiles keep.
        let fixdep = Child::start(kernel, cx, make)?;
        fixdep.memory(cx, SMALL_PAGES)?.touch(cx)?;
        disk.read(kernel, cx, &named)?;
        made.push(disk.write_new(kernel, cx, bytes)?);
        disk.delete(kernel, cx, &named)
    }

    /// Links the objects of a directory: reads them and writes a file of their total size. Returns
    /// the file's index among the made files.
    pub(super) fn link(
        &self,
        cx: &Cx<'_, H>,
        make: &Mm<H>,
        objects: &[usize],
        made: &mut Vec<Entry<H>>,
    ) -> Result<usize, Error> {
        let linker = Child::start(self.kernel, cx, make)?;
        let mut bytes = 0;
        for &object in objects {
            self.disk.read(self.kernel, cx, &made[object])?;
            bytes += made[object].bytes();
        }
        linker.reserve(cx, 1)?;
        linker.memory(cx, (bytes >> PAGE_SHIFT) as u32 + 1)?.touch(cx)?;
        made.push(self.disk.write_new(self.kernel, cx, bytes)?);
        Ok(made.len() - 1)
    }

    /// The work of `cc1`: reads, and uses more memory while it computes.
    fn translate(
        &self,
        cx: &Cx<'_, H>,
        cc1: &Child<'_, H>,
        random: &mut Random,
    ) -> Result<(), Error> {
        self.map_tools(cx, cc1)?;
        // A configuration builds one file in six, here and there; the order is the makefiles'.
        let first_source = ALL_HEADERS as usize;
        let sources = (self.tree.len().saturating_sub(first_source) as u64).max(1);
        let source = first_source + random.below(sources) as usize;
        self.tree.read(self.kernel, cx, self.disk, source)?;
        let header = random.below(ALL_HEADERS) as usize;
        for number in 0..HEADERS {
            self.tree.read(self.kernel, cx, self.disk, (header + number) % first_source)?;
        }
        let pages = HEAP_PAGES.map(u64::from);
        let pages = between(random, pages) as u32;
        let cpu_ns = (between(random, CPU_NS) as f64 / self.compression) as u64;
        let table_at = random.below(u64::from(pages)) as u32;
        let table_pages = between(random, TABLE_PAGES.map(u64::from)) as u32;

        // Room for the table, and for the heap behind it.
        cc1.reserve(cx, offset(random))?;
        let table = cc1.memory(cx, table_pages)?;
        cc1.reserve(cx, offset(random))?;
        let heap = cc1.memory(cx, HEAP_STEP)?;
        let mut at = 0;
        while at < pages {
            let step = HEAP_STEP.min(pages - at);
            let piece = match at {
                0 => heap.first(step),
                _ => heap.grow(cx, step)?,
            };
            piece.touch(cx)?;
            if (at..at + step).contains(&table_at) {
                table.touch(cx)?;
            }
            let share = u64::from(step) * cpu_ns / u64::from(pages);
            (self.compute)(cx, share);
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            at += step;
        }
        Ok(())
    }

    /// The compiler's text, which all compiles share.
    fn map_tools(&self, cx: &Cx<'_, H>, cc1: &Child<'_, H>) -> Result<(), Error> {
        let open: Arc<OpenFile<H>> = self.kernel.open(cx, self.tools);
        let pages = self.tools.spec.max_pages;
        cc1.map(cx, pages, TEXT, Backing::File { open, page: 0 })?.touch(cx)
    }
}

/// A number of a range, both ends included.
fn between(random: &mut Random, [low, high]: [u64; 2]) -> u64 {
    low + random.below(high - low + 1)
}

/// Pages in front of a mapping: addresses are random.
fn offset(random: &mut Random) -> u32 {
    random.below(OFFSET_PAGES) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..100).map(|_| between(&mut random, [3, 5])).collect();
        assert!(drawn.iter().all(|n| (3..=5).contains(n)));
        assert!([3, 4, 5].iter().all(|n| drawn.contains(n)));
    }
}
