//! Operations of a swarm's programs on memory, files and the allocator.

use std::sync::Arc;

use highwater_core::config::SlowPathRounds;
use highwater_core::host::CpuId;
use highwater_core::kernel::Error;
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, InodeMemory, OpenFile};
use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::zone::NodeId;

use super::draw::Draw;
use super::shared::{Region, count};
use super::worker::Worker;
use crate::host::SimHost;
use crate::rng::Zipf;

const PAGE: u64 = PAGE_SIZE as u64;
/// Most regions of an address space, and most open files and blocks of a task.
const REGIONS_MAX: usize = 12;
const OPEN_MAX: usize = 6;
const BLOCKS_MAX: usize = 64;
/// Small files of a machine.
const SMALL_FILES_MAX: u64 = 3000;
/// Pages touched, or calls made, before a program checks whether the work is done.
const CALL_PAGES: u32 = 64;
/// Single touches in one operation.
const TOUCHES_MAX: u64 = 16_000;
/// Largest region: 512 GiB.
const SPARSE_PAGES: u64 = 1 << 27;

/// Memory.
impl Worker<'_, '_> {
    pub(super) fn map_anon(&mut self) -> Result<(), Error> {
        let mut flags = VmaFlags::READ;
        if !self.stream.one_in(8) {
            flags |= VmaFlags::WRITE;
        }
        flags.set(VmaFlags::ZEROS, self.stream.one_in(4));
        let reach = self.shared.options.reach;
        let pages = match self.stream.below(12) {
            0 => self.stream.magnitude(reach, SPARSE_PAGES),
            1..4 => self.stream.magnitude(1, reach),
            _ => self.stream.range(reach / 2, reach * 2),
        };
        self.map(pages, flags, Backing::Anon)
    }

    pub(super) fn map_file(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let mut flags = VmaFlags::READ;
        for (flag, rarity) in [(VmaFlags::WRITE, 2), (VmaFlags::SHARED, 2), (VmaFlags::EXEC, 6)] {
            if self.stream.one_in(rarity) {
                flags |= flag;
            }
        }
        let max = u64::from(open.file.spec.max_pages);
        let page = if self.stream.one_in(2) { 0 } else { self.stream.below(max) };
        // Sometimes beyond the end.
        let pages = self.stream.magnitude(1, (max - page) + (max - page) / 8);
        self.map(pages, flags, Backing::File { open, page: page as u32 })
    }

    fn map(
        &mut self,
        pages: u64,
        mut flags: VmaFlags,
        backing: Backing<SimHost>,
    ) -> Result<(), Error> {
        if self.group.regions.borrow().len() >= REGIONS_MAX {
            return self.unmap_all();
        }
        if self.stream.one_in(40) {
            flags |= VmaFlags::LOCKED;
        }
        let pages = pages as u32;
        let align = self.stream.pick(&[1, 1, 8, 512]);
        let is_anon = matches!(backing, Backing::Anon);
        let nr_unmaps = self.group.nr_unmaps.get();
        let start = self.kernel.mmap(self.cx, &self.group.mm, pages, align, flags, backing)?;
        assert!(start.is_multiple_of(align));
        let id = self.group.next_region.replace(self.group.next_region.get() + 1);
        let is_writable = flags.contains(VmaFlags::WRITE);
        // Another task that unmaps an earlier mapping at this address may have hit the new one by
        // now.
        let is_whole = nr_unmaps == self.group.nr_unmaps.get();
        let region = Region { id, start, pages, is_anon, is_writable, is_whole };
        self.group.regions.borrow_mut().push(region);
        Ok(())
    }

    /// A part of a region: first page and pages, which count as work.
    fn part(&mut self, region: &Region) -> (u32, u32) {
        let pages = self.amount(u64::from(region.pages));
        let room = u64::from(region.pages) - pages;
        let at = if self.stream.one_in(3) { 0 } else { self.stream.below(room + 1) };
        (region.start + at as u32, pages as u32)
    }

    fn access(&mut self) -> Access {
        if self.stream.one_in(2) { Access::Read } else { Access::Write }
    }

    pub(super) fn touch_run(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        let ((start, pages), access) = (self.part(&region), self.access());
        let end = start + pages;
        for from in (start..end).step_by(CALL_PAGES as usize) {
            let pages = CALL_PAGES.min(end - from);
            let result = self.kernel.touch_range(self.cx, &self.group.mm, from, pages, access);
            self.check_access(&region, access, result.map(|_| ()))?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn touch_random(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        let pages = self.amount(u64::from(region.pages).min(TOUCHES_MAX));
        let access = self.access();
        for nr in 0..pages {
            let vpn = region.start + self.stream.below(u64::from(region.pages)) as u32;
            self.touch(&region, vpn, access)?;
            if nr % u64::from(CALL_PAGES) == 0 && self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn touch_hot(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        let law = Zipf::new(u64::from(region.pages), 1.1);
        let touches = self.amount(TOUCHES_MAX / 8);
        for _ in 0..touches {
            let vpn = region.start + law.sample(&mut self.stream) as u32;
            let access = if self.stream.one_in(4) { Access::Write } else { Access::Read };
            self.touch(&region, vpn, access)?;
        }
        Ok(())
    }

    /// A touch of a page that may be unmapped.
    fn touch(&mut self, region: &Region, vpn: u32, access: Access) -> Result<(), Error> {
        let result = self.kernel.touch(self.cx, &self.group.mm, vpn, access).map(|_| ());
        match self.check_access(region, access, result) {
            Err(Error::Fault) => Ok(()),
            other => other,
        }
    }

    fn check_access(
        &self,
        region: &Region,
        access: Access,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        if result == Err(Error::Fault) {
            let is_write = access == Access::Write;
            assert!(!self.group.must_be_there(region, is_write), "nothing at {region:?}");
        }
        result
    }

    pub(super) fn unmap_part(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        let (start, pages) = self.part(&region);
        self.unmap(start, pages)
    }

    pub(super) fn unmap_all(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        self.group.regions.borrow_mut().retain(|known| known.id != region.id);
        self.unmap(region.start, region.pages)
    }

    /// Unmaps a range. The mapping may have changed since the choice: other tasks of the address
    /// space may have unmapped it and mapped another one there.
    fn unmap(&self, start: u32, pages: u32) -> Result<(), Error> {
        let group = &self.group;
        group.pierce(start, start + pages);
        count(&group.nr_unmapping);
        count(&group.nr_unmaps);
        let result = self.kernel.munmap(self.cx, &group.mm, start, pages);
        group.nr_unmapping.set(group.nr_unmapping.get() - 1);
        group.pierce(start, start + pages);
        result
    }

    pub(super) fn advise(&mut self) -> Result<(), Error> {
        let advice = self.stream.pick(&[
            MemoryAdvice::Normal,
            MemoryAdvice::Sequential,
            MemoryAdvice::Random,
            MemoryAdvice::DontNeed,
            MemoryAdvice::Free,
            MemoryAdvice::Cold,
            MemoryAdvice::PageOut,
            MemoryAdvice::HugePage,
            MemoryAdvice::NoHugePage,
        ]);
        let region = self.region()?;
        let (start, pages) = self.part(&region);
        self.kernel.madvise(self.cx, &self.group.mm, start, pages, advice)
    }

    pub(super) fn lock(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        let (start, pages) = self.part(&region);
        self.kernel.mlock(self.cx, &self.group.mm, start, pages)
    }

    pub(super) fn unlock(&mut self) -> Result<(), Error> {
        let region = self.region()?;
        // Usually unlocks all of it: locked memory must not fill the machine.
        let (start, pages) = match self.stream.one_in(3) {
            true => self.part(&region),
            false => (region.start, region.pages),
        };
        self.kernel.munlock(self.cx, &self.group.mm, start, pages)
    }

    /// Sets a memory policy or a cpuset.
    pub(super) fn place(&mut self) -> Result<(), Error> {
        let policy = self.shared.options.draw_memory_policy(&mut self.stream);
        match self.stream.below(4) {
            0 if self.shared.options.has_mems_allowed => {
                let nodes = self.shared.options.draw_mems_allowed(&mut self.stream);
                self.kernel.set_mems_allowed(self.cx, Some(&self.group.mm), nodes)
            }
            0 | 1 => self.kernel.set_memory_policy(self.cx, policy),
            _ => {
                let region = self.region()?;
                let (start, pages) = self.part(&region);
                self.kernel.mbind(self.cx, &self.group.mm, start, pages, policy)
            }
        }
    }
}

/// Files.
impl Worker<'_, '_> {
    /// An open file.
    fn descriptor(&mut self) -> Arc<OpenFile<SimHost>> {
        if self.open.is_empty() || self.stream.one_in(4) {
            if self.open.len() >= OPEN_MAX {
                let at = self.stream.below(OPEN_MAX as u64) as usize;
                self.open.swap_remove(at);
            }
            let file = self.stream.pick(&self.shared.files.borrow());
            self.open.push(self.kernel.open(self.cx, &file));
        }
        self.stream.pick(&self.open)
    }

    /// A range of bytes, mostly not page-aligned.
    fn bytes(&mut self, open: &OpenFile<SimHost>, room: u64) -> (u64, u64) {
        let pages = self.amount(room.div_ceil(PAGE));
        let mut len = (pages * PAGE).min(room);
        let mut pos = if self.stream.one_in(3) { 0 } else { self.stream.below(room - len + 1) };
        if self.stream.one_in(2) {
            pos &= !(PAGE - 1);
        } else {
            len = self.stream.range(len.saturating_sub(PAGE), len + 1);
        }
        debug_assert!(pos <= u64::from(open.file.spec.max_pages) * PAGE);
        (pos, len)
    }

    pub(super) fn read_run(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let (mut pos, len) = self.bytes(&open, open.file.size() + 1);
        let end = pos + len;
        let call = self.stream.magnitude(100, 1 << 20);
        while pos < end {
            let wanted = call.min(end - pos);
            let read = self.kernel.file_read(self.cx, &open, pos, wanted)?;
            assert!(read <= wanted, "{read} bytes of {wanted}");
            if read == 0 {
                return Ok(());
            }
            pos += read;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn read_random(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let reads = self.amount(500);
        for _ in 0..reads {
            let pos = self.stream.below(open.file.size() + 1);
            let len = self.stream.magnitude(1, 4 * PAGE);
            self.kernel.file_read(self.cx, &open, pos, len)?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn write_run(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let room = u64::from(open.file.spec.max_pages) * PAGE;
        let (mut pos, len) = self.bytes(&open, room);
        if self.stream.one_in(3) {
            // Appends, possibly more than fits.
            pos = open.file.size();
        }
        let end = pos + len;
        let call = self.stream.magnitude(1000, 1 << 20);
        while pos < end {
            let wanted = call.min(end - pos);
            let written = self.kernel.file_write(self.cx, &open, pos, wanted)?;
            assert!((1..=wanted).contains(&written), "{written} bytes of {wanted}");
            pos += written;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn write_random(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let room = u64::from(open.file.spec.max_pages) * PAGE;
        let writes = self.amount(200);
        for _ in 0..writes {
            let pos = self.stream.below(room);
            let len = self.stream.magnitude(1, 3 * PAGE).min(room - pos);
            self.kernel.file_write(self.cx, &open, pos, len)?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn fsync(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        self.shared.spend(10);
        self.kernel.fsync(self.cx, &open)
    }

    pub(super) fn file_advise(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        let advice = self.stream.pick(&[
            FileAdvice::Normal,
            FileAdvice::Sequential,
            FileAdvice::Random,
            FileAdvice::WillNeed,
            FileAdvice::DontNeed,
            FileAdvice::DontNeed,
            FileAdvice::NoReuse,
        ]);
        let (pos, mut len) = self.bytes(&open, open.file.size() + 1);
        if advice == FileAdvice::DontNeed && self.stream.one_in(3) {
            len = 0;
        }
        self.kernel.fadvise(self.cx, &open, pos, len, advice);
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Result<(), Error> {
        let open = self.descriptor();
        self.shared.spend(20);
        let pages = self.stream.below(open.file.size_pages() + 1);
        self.kernel.truncate(self.cx, &open.file, pages as u32);
        Ok(())
    }

    /// Deletes a file. Tasks that have it open or mapped continue to use the deleted file.
    pub(super) fn delete(&mut self) -> Result<(), Error> {
        self.shared.spend(50);
        let at = self.stream.below(self.shared.files.borrow().len() as u64) as usize;
        let new = self.kernel.create_file(self.cx, self.shared.options.files[at]);
        let old = std::mem::replace(&mut self.shared.files.borrow_mut()[at], new);
        self.kernel.delete_file(self.cx, &old);
        Ok(())
    }
}

/// Small files, as a build reads and writes them.
impl Worker<'_, '_> {
    pub(super) fn small_files(&mut self) -> Result<(), Error> {
        self.shared.spend(20);
        for _ in 0..self.stream.range(1, 20) {
            let number = self.stream.below(SMALL_FILES_MAX) as usize;
            if number >= self.shared.small.borrow().len() {
                let spec = self.shared.options.files[0];
                let pages = self.stream.range(1, 5) as u32;
                let spec = FileSpec { max_pages: spec.max_pages.min(pages), ..spec };
                let spec =
                    spec.with_size(u64::from(spec.max_pages) << 12).with_inode(InodeMemory::Slab);
                let file = self.kernel.create_file(self.cx, spec);
                self.shared.small.borrow_mut().push(file);
            }
            let file = {
                let small = self.shared.small.borrow();
                Arc::clone(&small[number.min(small.len() - 1)])
            };
            let open = self.kernel.open_path(self.cx, &file)?;
            let bytes = file.size();
            if self.stream.one_in(4) {
                self.kernel.file_write(self.cx, &open, 0, bytes)?;
            } else {
                self.kernel.file_read(self.cx, &open, 0, bytes)?;
            }
            if self.stream.one_in(50) {
                self.open.push(open);
            }
        }
        Ok(())
    }

    pub(super) fn delete_small(&mut self) {
        let file = {
            let mut small = self.shared.small.borrow_mut();
            if small.is_empty() {
                return;
            }
            let at = self.stream.below(small.len() as u64) as usize;
            small.swap_remove(at)
        };
        self.kernel.delete_file(self.cx, &file);
    }
}

/// The allocator, as the rest of a kernel uses it.
impl Worker<'_, '_> {
    pub(super) fn take_block(&mut self) {
        if self.blocks.len() >= BLOCKS_MAX {
            return;
        }
        const KERNEL: Gfp = Gfp::GFP_KERNEL;
        let mut gfp = self.stream.pick(&[
            KERNEL,
            KERNEL.union(Gfp::ZERO),
            KERNEL.union(Gfp::NORETRY),
            KERNEL.union(Gfp::RETRY_MAYFAIL),
            KERNEL.union(Gfp::RECLAIMABLE),
            KERNEL.union(Gfp::THISNODE),
            KERNEL.union(Gfp::DMA32),
            KERNEL.union(Gfp::DMA),
            Gfp::GFP_ATOMIC,
            Gfp::GFP_ATOMIC,
            Gfp::GFP_NOWAIT,
            Gfp::GFP_NOFS.union(Gfp::NORETRY),
            Gfp::GFP_NOIO.union(Gfp::NORETRY),
            Gfp::GFP_HIGHUSER_MOVABLE,
            Gfp::GFP_TRANSHUGE,
            Gfp::GFP_TRANSHUGE_LIGHT,
        ]);
        if self.shared.options.policy.slow_path.rounds == SlowPathRounds::WhileProgress {
            // That kernel retries until enough was reclaimed, if need be for ever
            // (rules/slow-path#v43).
            gfp -= Gfp::RETRY_MAYFAIL;
        }
        let order = Order(match self.stream.below(4) {
            0 => 0,
            1 | 2 => self.stream.below(4),
            _ => self.stream.below(11),
        } as u8);
        self.shared.spend(1 << (order.0 / 2));
        let cpu: CpuId = self.cx.cpu();
        let node = match self.stream.one_in(3) {
            true => NodeId(self.stream.below(self.kernel.mem.nr_nodes() as u64) as u16),
            false => self.kernel.mem.cpu_node(cpu),
        };
        let taken = self.kernel.mem.alloc(self.cx, self.kernel, gfp, order, node, None);
        if let Some(pfn) = taken {
            self.shared.blocks.borrow_mut().insert(pfn);
            self.blocks.push((pfn, order));
        }
    }

    pub(super) fn give(&mut self, pfn: Pfn, order: Order) {
        self.shared.give_back(self.cx, (pfn, order));
    }
}
