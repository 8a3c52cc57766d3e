//! VMAs of an address space: mmap creates them, munmap removes them, mprotect changes their flags.
//!
//! Addresses are allocated from the bottom up, first fit. VMAs are immutable values: a change of
//! flags or an unmapped part replaces the old VMA by new ones.
//!
//! A file lists the VMAs that map it (`File::mappings`), for reverse mapping. New ranges are added
//! before old ones are removed, so a walk in between meets a page's entry twice rather than never.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Backing, Mm, MmTables, Vma, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe, Tasks};
use crate::kernel::Kernel;
use crate::swap::VmaSwapState;
use crate::sync::order::LockClass;
use crate::units::{Error, MemoryPolicy};

/// VMAs taken out of an mm, and the range that tables may cover which go with them.
pub(crate) struct Detached<H: Tasks> {
    /// Ascending; they do not overlap.
    pub vmas: Vec<Arc<Vma<H>>>,
    /// End of the VMA before them.
    pub floor: u32,
    /// Start of the VMA after them.
    pub ceiling: u32,
}

/// `vpn` or the next multiple of `align` (a power of two).
const fn align_up(vpn: u32, align: u32) -> Option<u32> {
    match vpn.checked_add(align - 1) {
        Some(sum) => Some(sum & !(align - 1)),
        None => None,
    }
}

impl<H: Tasks> MmTables<H> {
    /// Finds the lowest free range of `pages` pages that starts at a multiple of `align`.
    #[doc(alias = "vm_unmapped_area")]
    fn find_room(&mut self, pages: u32, align: u32, top: u32) -> Option<u32> {
        let fits = |hole: u32, end: u32| {
            align_up(hole, align).filter(|at| at.checked_add(pages).is_some_and(|e| e <= end))
        };
        let mut hole = self.vma(self.next_free).map_or(self.next_free, |vma| vma.end);
        let mut first_hole = None;
        let mut found = None;
        for vma in self.vmas_from(hole) {
            found = fits(hole, vma.start);
            if found.is_some() {
                break;
            }
            if hole < vma.start {
                first_hole.get_or_insert(hole);
            }
            hole = vma.end;
        }
        let at = found.or_else(|| fits(hole, top))?;
        self.next_free = match first_hole {
            Some(hole) => hole,
            None if at == hole => at + pages,
            None => hole,
        };
        Some(at)
    }
}

impl<H: Devices> Kernel<H> {
    /// Maps `pages` pages at a free address aligned to `align` pages (a power of two); returns the
    /// first virtual page. No page is allocated, unless the VMA is LOCKED: then all are, as far as
    /// memory goes.
    ///
    /// # Errors
    /// If the request makes no sense, if the mm has no room, or if it asks for more private
    /// writable memory than may be promised (`vm.overcommit_memory`).
    #[doc(alias = "do_mmap")]
    #[doc(alias = "mmap_region")]
    pub fn mmap(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        pages: u32,
        align: u32,
        flags: VmaFlags,
        backing: Backing<H>,
    ) -> Result<u32, Error> {
        let _phase = cx.phase(Phase::Mmap);
        cx.charge(Cost::Syscall, 1);
        self.enter_mm(cx, mm);
        Self::check_mapping(pages, align, flags, &backing)?;
        let guard = mm.mmap_lock.write(cx);
        let swap = Arc::new(cx.host.new_lock(LockClass::Table, VmaSwapState::default()));
        let vma = {
            let (start, end, policy) = (0, pages, MemoryPolicy::Default);
            let mut vma = Vma { start, end, flags, backing, policy, swap };
            self.may_commit(cx, mm, vma.committed())?;
            let mut tables = mm.tables.lock(cx.cpu());
            let room = tables.find_room(pages, align, Mm::<H>::TOP);
            vma.start = room.ok_or(Error::NoMemory)?;
            vma.end = vma.start + pages;
            let vma = Arc::new(vma);
            tables.insert_vma(Arc::clone(&vma));
            vma
        };
        self.list_mapping(cx, mm, &vma);
        drop(guard);
        if flags.contains(VmaFlags::LOCKED) {
            // As with MAP_LOCKED: a page that cannot be populated is not an error.
            let _ = self.populate(cx, mm, vma.start, vma.end);
        }
        Ok(vma.start)
    }

    fn check_mapping(
        pages: u32,
        align: u32,
        flags: VmaFlags,
        backing: &Backing<H>,
    ) -> Result<(), Error> {
        if pages == 0 || !align.is_power_of_two() {
            return Err(Error::Invalid);
        }
        match backing {
            Backing::Anon if flags.contains(VmaFlags::SHARED) => {
                return Err(Error::Limit("shared anonymous memory"));
            }
            Backing::File { page, .. } if page.checked_add(pages).is_none() => {
                return Err(Error::Invalid);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the VMAs of `start..end` out of an address space, splitting those that reach beyond
    /// it. Holes are fine. The caller holds `mmap_lock` for writing, unmaps their pages, and then
    /// removes them from their files ([`Self::forget_detached`]), because a truncation meanwhile
    /// must find pages that are still mapped.
    #[doc(alias = "detach_vmas_to_be_unmapped")]
    pub(crate) fn detach_vmas(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        end: u32,
    ) -> Detached<H> {
        let (vmas, _) = self.replace_vmas(cx, mm, start, end, |_, _| None);
        let mut tables = mm.tables.lock(cx.cpu());
        tables.next_free = tables.next_free.min(start.max(Mm::<H>::BASE));
        let (floor, ceiling) = tables.room_around(start, end, Mm::<H>::TOP);
        Detached { vmas, floor, ceiling }
    }

    /// Removes detached and unmapped VMAs from their files.
    pub(crate) fn forget_detached(&self, cx: &Cx<'_, H>, mm: &Mm<H>, detached: &Detached<H>) {
        detached.vmas.iter().for_each(|vma| self.unlist_mapping(cx, mm, vma));
    }

    /// Changes the flags of `start..end`: `add` set, `remove` cleared. The caller holds `mmap_lock`
    /// for writing. The parts that changed, as they were; and an error if part of the range is not
    /// mapped (the rest is changed nonetheless, as Linux does).
    pub(crate) fn change_vma_flags(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        (start, end): (u32, u32),
        add: VmaFlags,
        remove: VmaFlags,
    ) -> (Vec<Arc<Vma<H>>>, Result<(), Error>) {
        let terms = |old: VmaFlags, policy| Some(((old - remove) | add, policy));
        let (changed, covered) = self.replace_vmas(cx, mm, start, end, terms);
        let all = covered == end.saturating_sub(start);
        (changed, if all { Ok(()) } else { Err(Error::Fault) })
    }

    /// Gives `start..end` a memory policy, as [`Self::change_vma_flags`] gives flags.
    pub(crate) fn change_vma_policy(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        (start, end): (u32, u32),
        policy: impl Fn(MemoryPolicy) -> MemoryPolicy,
    ) -> Result<(), Error> {
        let terms = |flags: VmaFlags, old| Some((flags, policy(old)));
        let (_, covered) = self.replace_vmas(cx, mm, start, end, terms);
        if covered == end.saturating_sub(start) { Ok(()) } else { Err(Error::Fault) }
    }

    /// Replaces the VMAs in `start..end` by parts with other flags or another policy (none: by
    /// nothing), splitting at both ends. Files still know the parts for which nothing came.
    ///
    /// Linux: `vma_merge` merges equal neighbours; here they are not merged.
    #[doc(alias = "__split_vma")]
    #[doc(alias = "split_vma")]
    fn replace_vmas(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        end: u32,
        terms: impl Fn(VmaFlags, MemoryPolicy) -> Option<(VmaFlags, MemoryPolicy)>,
    ) -> (Vec<Arc<Vma<H>>>, u32) {
        let mut gone = Vec::new();
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let mut covered = 0;
        {
            let mut tables = mm.tables.lock(cx.cpu());
            let old: Vec<_> = tables.vmas_in(start, end).cloned().collect();
            for vma in old {
                let (from, to) = (vma.start.max(start), vma.end.min(end));
                covered += to - from;
                let old = Some((vma.flags, vma.policy));
                let new = terms(vma.flags, vma.policy);
                if new == old {
                    continue;
                }
                tables.remove_vma(vma.start);
                let kept = [(vma.start, from, old), (from, to, new), (to, vma.end, old)];
                for (from, to, terms) in kept {
                    if let Some((flags, policy)) = terms
                        && from < to
                    {
                        let part = Arc::new(Vma { policy, ..vma.part(from, to, flags) });
                        tables.insert_vma(Arc::clone(&part));
                        added.push(part);
                    }
                }
                let part = match (from, to) == (vma.start, vma.end) {
                    true => Arc::clone(&vma),
                    false => Arc::new(vma.part(from, to, vma.flags)),
                };
                if new.is_none() {
                    added.push(Arc::clone(&part));
                }
                gone.push(part);
                removed.push(vma);
            }
        }
        for vma in &removed {
            for cut in [start, end].into_iter().filter(|&cut| vma.start < cut && cut < vma.end) {
                self.split_leaf_across(cx, mm, cut, vma.flags);
            }
        }
        // A VMA that lies in the range as a whole has a part with its own bounds: the file knows it.
        for vma in &removed {
            if vma.start < start || end < vma.end {
                added.iter().for_each(|vma| self.list_mapping(cx, mm, vma));
                self.unlist_mapping(cx, mm, vma);
            }
        }
        (gone, covered)
    }

    /// Adds a VMA to the mappings of its file.
    #[doc(alias = "__vma_link_file")]
    pub(super) fn list_mapping(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vma: &Vma<H>) {
        if let Some((open, range)) = vma.map_range(mm.id) {
            open.file.mappings.lock(cx.cpu()).insert(range);
        }
    }

    /// Removes a VMA from the mappings of its file.
    #[doc(alias = "unlink_file_vma")]
    fn unlist_mapping(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vma: &Vma<H>) {
        if let Some((open, range)) = vma.map_range(mm.id) {
            open.file.mappings.lock(cx.cpu()).remove(&range);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::block::{DeviceId, DeviceSpec};
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page_alloc::boot;
    use crate::page_cache::{FileSpec, Filesystem, MapRange, OpenFile};
    use crate::swap::SwapSpec;

    const CPU: CpuId = CpuId(0);
    const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
    const SWAP_PAGES: u32 = 5000;

    struct Stage<'h> {
        cx: Cx<'h, Solo>,
        kernel: Kernel<Solo>,
        mm: Arc<Mm<Solo>>,
    }

    impl<'h> Stage<'h> {
        fn new(host: &'h Solo) -> Self {
            let machine = Machine::from_sizes("stage", &[(64 << 20, vec![0])]).unwrap();
            let cx = Cx::new(host, CPU);
            let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
            let disk = DeviceSpec::nvme(1 << 20);
            let swap = SwapSpec { device: DeviceId(0), pages: SWAP_PAGES + 1, priority: 0 };
            let spec = KernelSpec { devices: vec![disk], swap: vec![swap], groups: 0 };
            let kernel = Kernel::new(&cx, mem, &spec).unwrap();
            let mm = kernel.create_mm(&cx).unwrap();
            Stage { cx, kernel, mm }
        }

        fn map(&self, pages: u32, align: u32, flags: VmaFlags) -> Result<u32, Error> {
            self.kernel.mmap(&self.cx, &self.mm, pages, align, flags, Backing::Anon)
        }

        fn open(&self) -> Arc<OpenFile<Solo>> {
            let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 100);
            self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec))
        }

        fn unmap(&self, start: u32, pages: u32) {
            self.kernel.munmap(&self.cx, &self.mm, start, pages).unwrap();
        }

        fn vmas(&self) -> Vec<(u32, u32, VmaFlags)> {
            let tables = self.mm.tables.lock(CPU);
            tables.all_vmas().map(|vma| (vma.start, vma.end, vma.flags)).collect()
        }
    }

    #[test]
    fn addresses_are_given_out_from_below_and_again() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let base = Mm::<Solo>::BASE;
        let read = VmaFlags::READ;
        let map = |pages, align| stage.map(pages, align, read).unwrap() - base;
        assert_eq!((map(10, 1), map(10, 1)), (0, 10));
        assert_eq!(map(512, 512), 512);
        assert_eq!(map(100, 1), 20, "the gap that the alignment left");
        assert_eq!(map(600, 1), 1024);
        assert_eq!(map(392, 1), 120);
        assert_eq!(map(1, 1), 1624, "all gaps are full");
        stage.unmap(base + 10, 10);
        stage.unmap(base + 600, 100);
        assert_eq!(map(11, 1), 600, "the first gap is too small");
        assert_eq!((map(10, 1), map(89, 1), map(1, 1)), (10, 611, 1625));
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        assert_eq!(stage.map(0, 1, RW), Err(Error::Invalid));
        assert_eq!(stage.map(1, 3, RW), Err(Error::Invalid));
        assert_eq!(stage.map(1, 0, RW), Err(Error::Invalid));
        assert!(matches!(stage.map(1, 1, RW | VmaFlags::SHARED), Err(Error::Limit(_))));
        let memory: u64 = stage.kernel.mem.populated_zones().map(|z| z.info.managed()).sum();
        let all = memory as u32 + SWAP_PAGES;
        assert_eq!(stage.map(all + 1, 1, RW), Err(Error::NoMemory));
        assert!(stage.map(all, 1, RW).is_ok() && stage.map(all, 1, RW).is_ok(), "each by itself");
        assert!(stage.map(all + 1, 1, VmaFlags::READ).is_ok(), "never needs memory of its own");
        let top = Mm::<Solo>::TOP;
        assert_eq!(stage.map(top, 1, VmaFlags::READ), Err(Error::NoMemory), "no room");
    }

    #[test]
    fn changed_parts_become_areas_of_their_own() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &*stage.mm);
        let at = stage.map(100, 1, RW).unwrap();
        let seq = VmaFlags::SEQ_READ;
        let none = VmaFlags::empty();
        let change = |from, to, add, remove| {
            let _guard = mm.mmap_lock.write(cx);
            let (parts, result) =
                kernel.change_vma_flags(cx, mm, (at + from, at + to), add, remove);
            let parts: Vec<_> = parts.iter().map(|a| (a.start - at, a.end - at, a.flags)).collect();
            (parts, result)
        };
        assert_eq!(change(20, 30, seq, none), (vec![(20, 30, RW)], Ok(())));
        let split = [(0, 20, RW), (20, 30, RW | seq), (30, 100, RW)];
        assert_eq!(stage.vmas(), split.map(|(from, to, flags)| (at + from, at + to, flags)));
        assert_eq!(change(10, 40, seq, none), (vec![(10, 20, RW), (30, 40, RW)], Ok(())));
        assert_eq!(change(0, 100, none, VmaFlags::LOCKED), (vec![], Ok(())), "nothing to do");
        let nr_vmas = stage.vmas().len();
        assert_eq!(change(50, 50, none, VmaFlags::WRITE), (vec![], Ok(())), "an empty range");
        assert_eq!(stage.vmas().len(), nr_vmas);
        let (parts, result) = change(90, 110, none, VmaFlags::READ);
        assert_eq!((parts.len(), result), (1, Err(Error::Fault)), "the mapped part is changed");
    }

    #[test]
    fn a_file_knows_what_is_mapped_of_it() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let (kernel, cx, mm) = (&stage.kernel, &stage.cx, &*stage.mm);
        let open = stage.open();
        let backing = Backing::File { open: Arc::clone(&open), page: 7 };
        let at = kernel.mmap(cx, mm, 50, 1, VmaFlags::READ, backing).unwrap();
        let known = || -> Vec<(u32, u32, u32)> {
            let mappings = open.file.mappings.lock(CPU);
            let known = |range: &MapRange| (range.start - at, range.end - at, range.file_page);
            mappings.all().iter().map(known).collect()
        };
        assert_eq!(known(), [(0, 50, 7)]);
        kernel.mlock(cx, mm, at, 50).unwrap();
        assert_eq!(known(), [(0, 50, 7)], "a change of all of it keeps the range");
        kernel.munlock(cx, mm, at + 10, 10).unwrap();
        assert_eq!(known(), [(0, 10, 7), (10, 20, 17), (20, 50, 27)]);
        stage.unmap(at + 15, 10);
        assert_eq!(known(), [(0, 10, 7), (10, 15, 17), (25, 50, 32)]);
        let vma = mm.vma_of(CPU, at + 30).unwrap();
        assert_eq!((vma.file_page(at + 30), vma.pages()), (Some(37), 25));
        kernel.exit_mm(cx, &stage.mm);
        assert_eq!(known(), []);
    }
}
