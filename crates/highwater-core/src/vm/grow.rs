//! Grows anonymous memory at its end, as a heap does (rules/faults#heap).
//!
//! In Linux a program that maps its memory piece by piece, each after the last, has one VMA,
//! because equal neighbours are merged. Here the program must request that. It matters for huge
//! pages: a heap that grows in small steps never has an untouched range of 2 MiB, so its faults map
//! single pages, which khugepaged may collapse later.
//!
//! From: programs · to: [`super::mapping`].

use alloc::sync::Arc;

use super::{Backing, Mm, Vma};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::units::Error;

impl<H: Devices> Kernel<H> {
    /// Extends the anonymous VMA that begins at virtual page `start` by `pages` pages (brk);
    /// returns the first new page. No page is allocated.
    ///
    /// # Errors
    /// If no anonymous VMA begins there, `pages` is 0, what lies behind it is in use, or no more may be promised
    /// (`vm.overcommit_memory`).
    #[doc(alias = "do_brk_flags")]
    pub fn grow_vma(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        pages: u32,
    ) -> Result<u32, Error> {
        let _phase = cx.phase(Phase::Mmap);
        cx.charge(Cost::Syscall, 1);
        self.enter_mm(cx, mm);
        let _guard = mm.mmap_lock.write(cx);
        let (old, new) = {
            let tables = mm.tables.lock(cx.cpu());
            let old = tables.vma(start).filter(|vma| vma.start == start).cloned();
            let old = old.filter(|vma| matches!(vma.backing, Backing::Anon) && pages > 0);
            let old = old.ok_or(Error::Invalid)?;
            let end = old.end.checked_add(pages).filter(|&end| end <= Mm::<H>::TOP);
            let end = end.ok_or(Error::NoMemory)?;
            if tables.vmas_in(old.end, end).next().is_some() {
                return Err(Error::NoMemory);
            }
            let new = Vma { end, ..Vma::clone(&old) };
            (old, new)
        };
        // Adds up all mms' VMAs: without the tables' lock. `mmap_lock` keeps the VMAs as they are.
        self.may_commit(cx, mm, new.committed() - old.committed())?;
        mm.tables.lock(cx.cpu()).insert_vma(Arc::new(new));
        Ok(old.end)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::audit::check_kernel;
    use crate::config::{Machine, Thp, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page_alloc::boot;
    use crate::vm::{Access, VmaFlags};
    use crate::vmstat::VmEvent;

    const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

    struct Stage<'h> {
        cx: Cx<'h, Solo>,
        kernel: Kernel<Solo>,
        mm: Arc<Mm<Solo>>,
    }

    impl<'h> Stage<'h> {
        fn new(host: &'h Solo) -> Self {
            let machine = Machine::from_sizes("stage", &[(1 << 30, vec![0])]).unwrap();
            let mut machine = machine;
            machine.tunables.thp = Thp::Always;
            let cx = Cx::new(host, CpuId(0));
            let mem = boot(host, &machine, &preset("4.3").unwrap()).unwrap();
            let kernel = Kernel::new(&cx, mem, &KernelSpec::default()).unwrap();
            let mm = kernel.create_mm(&cx).unwrap();
            Stage { cx, kernel, mm }
        }

        fn map(&self, pages: u32) -> u32 {
            self.kernel.mmap(&self.cx, &self.mm, pages, 1, RW, Backing::Anon).unwrap()
        }

        fn grow(&self, start: u32, pages: u32) -> Result<u32, Error> {
            self.kernel.grow_vma(&self.cx, &self.mm, start, pages)
        }

        fn touch(&self, at: u32, pages: u32) {
            self.kernel.touch_range(&self.cx, &self.mm, at, pages, Access::Write).unwrap();
        }

        fn thp(&self) -> [u64; 2] {
            [VmEvent::ThpFaultAlloc, VmEvent::ThpFaultFallback]
                .map(|event| self.kernel.mem.events.read(event))
        }
    }

    #[test]
    fn an_area_grows_into_what_is_free_behind_it() {
        let host = Solo::default();
        let s = Stage::new(&host);
        let heap = s.map(10);
        assert_eq!(s.grow(heap, 5), Ok(heap + 10));
        s.touch(heap, 15);
        let other = s.map(1);
        assert_eq!(other, heap + 15, "what it grew by is taken");
        assert_eq!(s.grow(heap, 1), Err(Error::NoMemory));
        assert_eq!(s.grow(heap + 1, 1), Err(Error::Invalid));
        assert_eq!(s.grow(other, 0), Err(Error::Invalid));
        assert_eq!(s.grow(other, u32::MAX), Err(Error::NoMemory));
        check_kernel(&s.kernel, &s.cx).unwrap();
    }

    /// rules/faults#overcommit: memory that is never written is not counted.
    #[test]
    fn what_an_area_grows_by_counts_if_it_may_be_written() {
        let host = Solo::default();
        let mut machine = Machine::from_sizes("stage", &[(256 << 20, vec![0])]).unwrap();
        machine.tunables.overcommit_memory = 2;
        let cx = Cx::new(&host, CpuId(0));
        let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let kernel = Kernel::new(&cx, mem, &KernelSpec::default()).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let map = |flags| kernel.mmap(&cx, &mm, 1, 1, flags, Backing::Anon).unwrap();
        let too_much = kernel.commit_limit() as u32;
        let written = map(RW);
        let grow = |start| kernel.grow_vma(&cx, &mm, start, too_much);
        assert_eq!(grow(written), Err(Error::NoMemory));
        let read_only = map(VmaFlags::READ);
        assert_eq!(grow(read_only), Ok(read_only + 1));
        assert_eq!(grow(read_only + 1), Err(Error::Invalid), "no area begins there");
        assert_eq!(kernel.committed(&cx), 1);
        check_kernel(&kernel, &cx).unwrap();
    }

    /// rules/faults#heap.
    #[test]
    fn a_heap_that_grows_by_two_mib_asks_for_no_huge_page_unless_it_is_aligned() {
        for (offset, expected) in [(100, 0), (0, 8)] {
            let host = Solo::default();
            let s = Stage::new(&host);
            let base = s.map(512 + offset);
            let heap = s.map(512);
            assert_eq!((heap - base) % 512, offset);
            s.touch(heap, 512);
            for _ in 1..8 {
                let new = s.grow(heap, 512).unwrap();
                s.touch(new, 512);
            }
            assert_eq!(s.thp(), [expected, 0], "{offset}");
            check_kernel(&s.kernel, &s.cx).unwrap();
        }
    }
}
