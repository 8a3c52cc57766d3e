//! One compile: the processes that `make` starts for a source (rules/benchmarks#highalloc-builds).
//!
//! ```text
//! make ──▶ sh ──▶ gcc ──▶ cc1: sources, heap, tables; dependencies
//!           │      │        │ a pipe: 4 KiB of assembly at a time
//!           │      └────▶ as: memory, object
//!           ├────▶ fixdep: dependencies, once more
//!           ├────▶ rm
//!           └────▶ mv
//! make ──▶ sh ──▶ ld: the objects of a directory in one file; later those of directories
//! ```
//!
//! Each is a task: it is forked, executes another program, and wakes its parent when it ends.

use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Error;
use highwater_core::page::{PAGE_SHIFT, PAGE_SIZE};
use highwater_core::page_cache::OpenFile;
use highwater_core::vm::{Backing, Mm};

use super::Entry;
use super::child::{Child, HUGE_PAGES, TEXT};
use super::pipe::Pipe;
use super::shop::{Programs, Shop};
use crate::random::Random;

/// Pages by which `cc1`'s heap grows: gcc's collector allocates 2 MiB at a time (`GGC_QUIRE_SIZE`,
/// since 4.7).
const HEAP_STEP: u32 = 512;
/// Pages that `cc1` uses, from its smallest heap to its largest: 20 to 60 MiB.
const HEAP_PAGES: [u64; 2] = [20 << 8, 60 << 8];
/// Pages of the table of source positions, which is doubled when it is full: 2 MiB, or 4 MiB for one
/// source in six. Only the latter hold a whole range of 2 MiB, and so ask for a huge page. The
/// study's runs asked 1,372 times in 106.9 million faults (kernel before the change, attempts
/// without direct reclaim): once in 6.3 of these compiles.
const TABLE_PAGES: [u32; 2] = [512, 1024];
const ONE_LARGE_TABLE_IN: u64 = 6;
/// Pages of the other processes: their minor faults, measured with gcc 12 and dash on Linux 6.18
/// (rules/benchmarks#highalloc-processes).
const GCC_PAGES: u32 = 200;
const AS_PAGES: u32 = 800;
const SH_PAGES: u32 = 85;
const FIXDEP_PAGES: u32 = 85;
const RM_PAGES: u32 = 98;
const MV_PAGES: u32 = 129;
/// Headers that a source includes, directly or indirectly.
const HEADERS: usize = 300;
/// Headers that sources of a tree choose from: `include/linux`, `include/asm` and what they include.
const ALL_HEADERS: usize = 900;
/// Bytes of an object file: 30 to 100 KiB.
const OBJECT_BYTES: [u64; 2] = [30 << 10, 100 << 10];
/// Bytes of assembly for each byte of the object, in hundredths; and the percentage of its work
/// that `cc1` has done when it writes the first (measured as the processes).
const ASSEMBLY_PERCENT: u64 = 235;
const PARSING_PERCENT: u32 = 40;
/// Bytes of the dependencies: the list of headers that the compiler writes and the makefiles keep
/// (`.o.d`, `.o.cmd`): 300 names of some 80 bytes, from half to one and a half times that.
const DEPENDENCY_BYTES: [u64; 2] = [12 << 10, 36 << 10];

/// A source and the sizes of its compile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Numbers of files in the tree: the source, the first of its headers.
    source: usize,
    header: usize,
    heap_pages: u32,
    table_pages: u32,
    /// Pages of the heap when the table is allocated.
    table_at: u32,
    /// Pages behind a multiple of 2 MiB at which the table, the heap and the assembler's memory
    /// begin: not at one, so that a heap which grows asks for no huge page.
    offsets: [u32; 3],
    dependency_bytes: u64,
    object_bytes: u64,
}

impl Source {
    /// A source of a tree of `files` files, headers included.
    pub(super) fn choose(random: &mut Random, files: usize) -> Source {
        // A configuration builds one file in six, here and there; the order is the makefiles'.
        let sources = files.saturating_sub(ALL_HEADERS).max(1);
        let heap_pages = between(random, HEAP_PAGES) as u32;
        Source {
            source: ALL_HEADERS + random.below(sources as u64) as usize,
            header: random.below(ALL_HEADERS as u64) as usize,
            heap_pages,
            table_pages: TABLE_PAGES[usize::from(random.below(ONE_LARGE_TABLE_IN) == 0)],
            table_at: random.below(u64::from(heap_pages)) as u32,
            offsets: [0; 3].map(|_| random.below(u64::from(HUGE_PAGES) - 1) as u32 + 1),
            dependency_bytes: between(random, DEPENDENCY_BYTES),
            object_bytes: between(random, OBJECT_BYTES),
        }
    }

    /// Pages of assembly.
    fn assembly(&self) -> u32 {
        let bytes = self.object_bytes * ASSEMBLY_PERCENT / 100;
        bytes.div_ceil(PAGE_SIZE as u64) as u32
    }

    /// Pages of assembly that are written when the heap has this many pages.
    fn written_at(&self, pages: u32) -> u32 {
        let parsed = self.heap_pages * PARSING_PERCENT / 100;
        let rest = (self.heap_pages - parsed).max(1);
        self.assembly() * pages.saturating_sub(parsed) / rest
    }
}

impl<H: Devices + 'static, P: Programs<H>> Shop<H, P> {
    /// Compiles a source for `make`. Returns the object, and the file that names what it depends
    /// on.
    ///
    /// # Errors
    /// If a process cannot be started or fails.
    pub(super) fn compile(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        make: &Mm<H>,
        source: Source,
    ) -> Result<[Entry<H>; 2], Error> {
        self.call(cx, make, "sh", move |shop, cx, sh| {
            shop.small(cx, sh, SH_PAGES)?;
            let [object, named] =
                shop.call(cx, &sh.mm, "gcc", move |shop, cx, gcc| shop.drive(cx, gcc, source))?;
            match shop.keep_dependencies(cx, sh, named) {
                Ok(kept) => Ok([object, kept]),
                Err(error) => Err(shop.discard(cx, &object, error)),
            }
        })
    }

    /// The makefiles keep the dependencies with the options in front.
    fn keep_dependencies(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        sh: &Child<'_, H>,
        named: Entry<H>,
    ) -> Result<Entry<H>, Error> {
        let read = named.clone();
        let kept = self.call(cx, &sh.mm, "fixdep", move |shop, cx, fixdep| {
            shop.small(cx, fixdep, FIXDEP_PAGES)?;
            shop.disk.read(&shop.kernel, cx, &read)?;
            shop.disk.write_new(&shop.kernel, cx, read.bytes())
        });
        let removed = self.call(cx, &sh.mm, "rm", move |shop, cx, rm| {
            shop.small(cx, rm, RM_PAGES)?;
            shop.disk.delete(&shop.kernel, cx, &named)
        });
        let kept = kept?;
        let moved = kept.clone();
        let renamed = removed.and_then(|()| {
            self.call(cx, &sh.mm, "mv", move |shop, cx, mv| {
                shop.small(cx, mv, MV_PAGES)?;
                shop.disk.rename(&shop.kernel, cx, &moved)
            })
        });
        match renamed {
            Ok(()) => Ok(kept),
            Err(error) => Err(self.discard(cx, &kept, error)),
        }
    }

    /// Deletes a file that a failed compile has made, as far as that goes. Returns its error.
    fn discard(&self, cx: &Cx<'_, H>, made: &Entry<H>, error: Error) -> Error {
        // The first error is the one to report.
        let _ = self.disk.delete(&self.kernel, cx, made);
        error
    }

    /// Links files for `make`: reads them and writes a file of their total size.
    ///
    /// # Errors
    /// As [`Shop::compile`].
    pub(super) fn link(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        make: &Mm<H>,
        files: Vec<Entry<H>>,
    ) -> Result<Entry<H>, Error> {
        self.call(cx, make, "sh", move |shop, cx, sh| {
            shop.small(cx, sh, SH_PAGES)?;
            shop.call(cx, &sh.mm, "ld", move |shop, cx, ld| {
                let mut bytes = 0;
                for object in &files {
                    shop.disk.read(&shop.kernel, cx, object)?;
                    bytes += object.bytes();
                }
                let pages = (bytes >> PAGE_SHIFT) as u32 + 1;
                ld.reserve(cx, 1)?;
                ld.heap(cx)?.reach(cx, pages)?;
                shop.work(cx, pages)?;
                shop.disk.write_new(&shop.kernel, cx, bytes)
            })
        })
    }

    /// A process with little memory touches it and does its work.
    fn small(&self, cx: &Cx<'_, H>, child: &Child<'_, H>, pages: u32) -> Result<(), Error> {
        child.memory(cx, pages)?.touch(cx)?;
        self.work(cx, pages)
    }

    /// `gcc`: starts the compiler and the assembler with a pipe between them (`-pipe`, which the
    /// kernel's makefiles use on x86). Returns the object and the dependencies.
    fn drive(
        self: &Rc<Self>,
        cx: &Cx<'_, H>,
        gcc: &Child<'_, H>,
        source: Source,
    ) -> Result<[Entry<H>; 2], Error> {
        self.small(cx, gcc, GCC_PAGES)?;
        let pipe = Rc::new(Pipe::new(cx.host));
        let [write_end, read_end] = [(); 2].map(|()| Rc::clone(&pipe));
        let [written, unread] = [(); 2].map(|()| Rc::clone(&pipe));
        let cc1 = self.start(
            cx,
            &gcc.mm,
            "cc1",
            move |shop, cx, cc1| {
                shop.translate(cx, cc1, &source, &write_end)?;
                write_end.close_writer(cx);
                shop.disk.write_new(&shop.kernel, cx, source.dependency_bytes)
            },
            move |_, cx| written.close_writer(cx),
        )?;
        let assembler = self.start(
            cx,
            &gcc.mm,
            "as",
            move |shop, cx, assembler| shop.assemble(cx, assembler, &source, &read_end),
            move |shop, cx| unread.close_reader(&shop.kernel, cx),
        );
        let ended = match assembler {
            Ok(assembler) => {
                let named = self.wait(cc1);
                (self.wait(assembler), named)
            }
            Err(error) => {
                pipe.close_reader(&self.kernel, cx);
                (Err(error), self.wait(cc1))
            }
        };
        match ended {
            (Ok(object), Ok(named)) => Ok([object, named]),
            // gcc deletes what it made if one of them fails.
            (Err(error), Ok(made)) | (Ok(made), Err(error)) => Err(self.discard(cx, &made, error)),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// `cc1`: reads, uses more memory while it computes, and writes assembly.
    fn translate(
        &self,
        cx: &Cx<'_, H>,
        cc1: &Child<'_, H>,
        source: &Source,
        pipe: &Pipe<H>,
    ) -> Result<(), Error> {
        self.map_tools(cx, cc1)?;
        self.tree.read(&self.kernel, cx, &self.disk, source.source)?;
        for number in 0..HEADERS {
            let header = (source.header + number) % ALL_HEADERS;
            self.tree.read(&self.kernel, cx, &self.disk, header)?;
        }
        // Room for the table, and for the heap behind it.
        cc1.reserve(cx, source.offsets[0])?;
        let table = cc1.memory(cx, source.table_pages)?;
        cc1.reserve(cx, source.offsets[1])?;
        let heap = cc1.memory(cx, HEAP_STEP)?;
        let mut at = 0;
        while at < source.heap_pages {
            let step = HEAP_STEP.min(source.heap_pages - at);
            let piece = match at {
                0 => heap.first(step),
                _ => heap.grow(cx, step)?,
            };
            piece.touch(cx)?;
            if (at..at + step).contains(&source.table_at) {
                table.touch(cx)?;
                self.work(cx, source.table_pages)?;
            }
            let writes = source.written_at(at + step) - source.written_at(at);
            for write in 0..writes {
                self.work(cx, step * (write + 1) / (writes + 1) - step * write / (writes + 1))?;
                pipe.write(&self.kernel, cx)?;
            }
            self.work(cx, step - step * writes / (writes + 1))?;
            at += step;
        }
        Ok(())
    }

    /// `as`: reads assembly as it comes, and writes the object when it has all.
    fn assemble(
        &self,
        cx: &Cx<'_, H>,
        assembler: &Child<'_, H>,
        source: &Source,
        pipe: &Pipe<H>,
    ) -> Result<Entry<H>, Error> {
        assembler.reserve(cx, source.offsets[2])?;
        let mut heap = assembler.heap(cx)?;
        let (mut read, mut worked) = (0, 0);
        loop {
            match pipe.read(&self.kernel, cx)? {
                0 => break,
                pages => read += pages,
            }
            let due = AS_PAGES * read / source.assembly();
            heap.reach(cx, due)?;
            self.work(cx, due - worked)?;
            worked = due;
        }
        self.disk.write_new(&self.kernel, cx, source.object_bytes)
    }

    /// The compiler's text, which all compiles share.
    fn map_tools(&self, cx: &Cx<'_, H>, cc1: &Child<'_, H>) -> Result<(), Error> {
        let open: Arc<OpenFile<H>> = self.kernel.open(cx, &self.tools);
        let pages = self.tools.spec.max_pages;
        cc1.map(cx, pages, TEXT, Backing::File { open, page: 0 })?.touch(cx)
    }
}

/// A number of a range, both ends included.
fn between(random: &mut Random, [low, high]: [u64; 2]) -> u64 {
    low + random.below(high - low + 1)
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

    /// rules/benchmarks#highalloc-pipe.
    #[test]
    fn assembly_comes_when_the_source_is_read() {
        let mut random = Random::new(1);
        for _ in 0..100 {
            let source = Source::choose(&mut random, 35_000);
            assert_eq!(source.written_at(source.heap_pages * 4 / 10), 0);
            assert_eq!(source.written_at(source.heap_pages), source.assembly());
            assert!((18..=59).contains(&source.assembly()), "{}", source.assembly());
            assert!((ALL_HEADERS..35_000).contains(&source.source));
        }
    }
}
