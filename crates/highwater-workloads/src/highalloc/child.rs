//! Processes of builds and of the system: forked, running another program, with their mapped
//! memory.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};

use crate::process;
use crate::random::Random;

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
/// Pages of a huge page.
pub(super) const HUGE_PAGES: u32 = 512;
/// Pages by which heaps grow, but for the compiler's: 128 KiB, the step of glibc (`M_TOP_PAD`).
pub(super) const STEP_PAGES: u32 = 32;
/// A program's text.
pub(super) const TEXT: VmaFlags = VmaFlags::READ.union(VmaFlags::EXEC);

/// A process that ends when it is dropped.
pub(super) struct Child<'a, H: Devices> {
    kernel: &'a Kernel<H>,
    cx: &'a Cx<'a, H>,
    pub(super) mm: Arc<Mm<H>>,
}

impl<'a, H: Devices> Child<'a, H> {
    /// Forks a process and starts another program in the child, as the running task: the parent has
    /// no task of its own.
    pub(super) fn start(
        kernel: &'a Kernel<H>,
        cx: &'a Cx<'a, H>,
        parent: &Mm<H>,
    ) -> Result<Child<'a, H>, Error> {
        Child::exec(kernel, cx, &kernel.fork(cx, parent)?)
    }

    /// The running task is that of the forked process `mm`, and starts another program in it.
    pub(super) fn exec(
        kernel: &'a Kernel<H>,
        cx: &'a Cx<'a, H>,
        mm: &Arc<Mm<H>>,
    ) -> Result<Child<'a, H>, Error> {
        mm.add_task(cx);
        match kernel.exec(cx, mm) {
            Ok(mm) => Ok(Child { kernel, cx, mm }),
            Err(error) => {
                process::end(kernel, cx, mm);
                Err(error)
            }
        }
    }

    /// Maps memory that the process never touches, so that the next mapping begins `pages` pages
    /// behind a multiple of 2 MiB: addresses are random.
    pub(super) fn reserve(&self, cx: &Cx<'_, H>, pages: u32) -> Result<(), Error> {
        self.kernel.mmap(cx, &self.mm, pages, HUGE_PAGES, VmaFlags::READ, Backing::Anon)?;
        Ok(())
    }

    /// Maps anonymous, writable memory.
    pub(super) fn memory(&self, cx: &Cx<'_, H>, pages: u32) -> Result<Memory<'_, H>, Error> {
        self.map(cx, pages, RW, Backing::Anon)
    }

    /// Maps a heap and touches its first step.
    pub(super) fn heap(&self, cx: &Cx<'_, H>) -> Result<Heap<'_, H>, Error> {
        let memory = self.memory(cx, STEP_PAGES)?;
        memory.touch(cx)?;
        Ok(Heap { memory, pages: STEP_PAGES })
    }

    /// Creates a mapping.
    pub(super) fn map(
        &self,
        cx: &Cx<'_, H>,
        pages: u32,
        flags: VmaFlags,
        backing: Backing<H>,
    ) -> Result<Memory<'_, H>, Error> {
        let access = match flags.contains(VmaFlags::WRITE) {
            true => Access::Write,
            false => Access::Read,
        };
        let start = self.kernel.mmap(cx, &self.mm, pages, 1, flags, backing)?;
        Ok(Memory { child: self, area: start, start, pages, access })
    }
}

impl<H: Devices> Drop for Child<'_, H> {
    fn drop(&mut self) {
        process::end(self.kernel, self.cx, &self.mm);
    }
}

/// A part of a VMA of a process.
pub(super) struct Memory<'a, H: Devices> {
    child: &'a Child<'a, H>,
    /// Start of its VMA.
    area: u32,
    start: u32,
    pages: u32,
    access: Access,
}

impl<H: Devices> Clone for Memory<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Devices> Copy for Memory<'_, H> {}

impl<'a, H: Devices> Memory<'a, H> {
    /// Extends the mapping; returns the part behind the last.
    pub(super) fn grow(&self, cx: &Cx<'_, H>, pages: u32) -> Result<Memory<'a, H>, Error> {
        let Memory { child, area, .. } = *self;
        let start = child.kernel.grow_vma(cx, &child.mm, area, pages)?;
        Ok(Memory { start, pages, ..*self })
    }

    /// Its first pages.
    pub(super) fn first(&self, pages: u32) -> Memory<'a, H> {
        Memory { pages, ..*self }
    }

    /// This part and everything up to the end of another.
    pub(super) fn with(&self, last: &Memory<'a, H>) -> Memory<'a, H> {
        Memory { pages: last.start + last.pages - self.start, ..*self }
    }

    /// Accesses each page: writes if that is allowed, else reads.
    pub(super) fn touch(&self, cx: &Cx<'_, H>) -> Result<(), Error> {
        let Memory { child, start, pages, access, .. } = *self;
        child.kernel.touch_range(cx, &child.mm, start, pages, access)?;
        Ok(())
    }

    /// Accesses one page in `one_in`, as one contiguous part at a random place.
    pub(super) fn touch_some(
        &self,
        cx: &Cx<'_, H>,
        one_in: u32,
        random: &mut Random,
    ) -> Result<(), Error> {
        let pages = self.pages.div_ceil(one_in);
        let first = random.below(u64::from(self.pages - pages) + 1) as u32;
        Memory { start: self.start + first, pages, ..*self }.touch(cx)
    }
}

/// A heap that grows in steps and is used at once.
pub(super) struct Heap<'a, H: Devices> {
    memory: Memory<'a, H>,
    pages: u32,
}

impl<H: Devices> Heap<'_, H> {
    /// Extends it by as many steps as make it hold `pages`, and touches them.
    pub(super) fn reach(&mut self, cx: &Cx<'_, H>, pages: u32) -> Result<(), Error> {
        while self.pages < pages {
            self.memory.grow(cx, STEP_PAGES)?.touch(cx)?;
            self.pages += STEP_PAGES;
        }
        Ok(())
    }
}
