//! Faults on files: fault-around, misses, private copies, shared writes (rules/faults#file-read,
//! rules/faults#file-write).

use alloc::sync::Arc;
use core::hint::cold_path;
use core::ops::Range;

use super::{Pass, Step};
use crate::config::{FaultMaps, MmapMiss};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::page_cache::{
    DirtyAccount, File, HeldPage, MemoryFiles, MemoryPage, OpenFile, ReadMode,
};
use crate::units::Error;
use crate::vm::mm::Rss;
use crate::vm::{Backing, PTES, PageTable, Pte, Ptes, Vma, VmaFlags};
use crate::vmstat::{GroupStat, NodeStat, VmEvent};

/// Pages that one fault maps at most (`fault_around_bytes`, 64 KiB).
const FAULT_AROUND: u32 = 16;

/// First and last virtual page that a fault at `vpn` in `start..end` may map.
///
/// The window starts at a multiple of its size. If the VMA starts inside it, the window starts
/// there and keeps its length. It ends with the VMA and with the page table.
const fn fault_around(vpn: u32, start: u32, end: u32) -> (u32, u32) {
    const fn min(a: u32, b: u32) -> u32 {
        if a < b { a } else { b }
    }
    let aligned = vpn & !(FAULT_AROUND - 1);
    let first = if aligned < start { start } else { aligned };
    let table_end = vpn | (PTES as u32 - 1);
    (first, min(min(first + FAULT_AROUND - 1, end - 1), table_end))
}

/// How a VMA's advice lets its file be read.
fn read_mode(flags: VmaFlags) -> ReadMode {
    if flags.contains(VmaFlags::RAND_READ) {
        ReadMode::Random
    } else if flags.contains(VmaFlags::SEQ_READ) {
        ReadMode::Sequential
    } else {
        ReadMode::Normal
    }
}

/// True if a page that is read may be written later without another fault. On disks the first write
/// has to be seen, for the page to be written back; in memory it does not, if the VMA is shared.
fn may_write_unseen<H: Devices>(vma: &Vma<H>) -> bool {
    match &vma.backing {
        Backing::File { open, .. } => {
            open.file.is_memory() && vma.flags.contains(VmaFlags::SHARED | VmaFlags::WRITE)
        }
        Backing::Anon => false,
    }
}

/// The file of a VMA and its page at a virtual page.
fn file_of<H: Devices>(vma: &Vma<H>, vpn: u32) -> Result<(&Arc<OpenFile<H>>, u32), Error> {
    match &vma.backing {
        Backing::File { open, page } => Ok((open, page + (vpn - vma.start))),
        Backing::Anon => Err(Error::Fault),
    }
}

impl<H: Devices> Kernel<H> {
    /// Handles a read fault of a file mapping where nothing is mapped yet.
    #[doc(alias = "do_read_fault")]
    pub(super) fn file_read_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let cx = pass.cx;
        let table = self.pass_table(pass)?;
        if self.map_around(pass, &table)? {
            return Ok(Step::Done);
        }
        let Some(page) = self.fault_page(pass)? else { return Ok(Step::Retry) };
        let frame = self.frame_at(pass, page.folio())?;
        let pte = Pte::new(frame).with_writable(may_write_unseen(&pass.vma));
        let is_used = self.map_missing(pass, &table, page.folio(), pte);
        cx.charge(Cost::FileMap, 1);
        page.unlock_used(is_used);
        Ok(Step::Done)
    }

    /// Handles a write fault of a private file mapping where nothing is mapped yet: maps a copy.
    #[doc(alias = "do_cow_fault")]
    pub(super) fn private_write_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let cx = pass.cx;
        let new = self.alloc_user_page(pass, Gfp::empty())?;
        let source = match self.fault_page(pass) {
            Ok(Some(source)) => source,
            other => {
                self.put_page(cx, new);
                return other.map(|_| Step::Retry);
            }
        };
        match self.frame_at(pass, source.folio()) {
            Ok(frame) => self.copy_frame(cx, frame, new),
            Err(error) => {
                self.put_page(cx, new);
                return Err(error);
            }
        }
        let is_used = self.pass_table(pass).map(|table| {
            let mut ptes = table.lock(cx.cpu());
            let is_none = ptes.get(pass.vpn).is_none();
            if is_none {
                self.map_new_anon(pass, &mut ptes, new);
                cx.charge(Cost::CopyFault, 1);
            }
            is_none
        });
        drop(source);
        if is_used != Ok(true) {
            self.put_page(cx, new);
        }
        is_used.map(|_| Step::Done)
    }

    /// Handles a write fault of a shared file mapping where nothing is mapped yet.
    #[doc(alias = "do_shared_fault")]
    pub(super) fn shared_write_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let Some(page) = self.fault_page(pass)? else { return Ok(Step::Retry) };
        let folio = page.folio();
        self.before_write(pass, folio)?;
        let frame = self.frame_at(pass, folio)?;
        let pte = Pte::new(frame).with_writable(true).with_dirty(true);
        let table = self.pass_table(pass)?;
        let is_used = self.map_missing(pass, &table, folio, pte);
        pass.cx.charge(Cost::SharedWriteFault, 1);
        if is_used {
            self.set_page_dirty(pass.cx, folio);
        }
        page.unlock_used(is_used);
        if is_used {
            self.hold_up_faulting_writer(pass);
        }
        Ok(Step::Done)
    }

    /// Handles a write to a page of a shared file mapping that is mapped read-only. Takes over the
    /// caller's reference.
    #[doc(alias = "wp_page_shared")]
    pub(super) fn shared_upgrade_fault(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        folio: Folio,
    ) -> Result<Step, Error> {
        let cx = pass.cx;
        let page = HeldPage::lock(self, cx, folio);
        let (open, _) = file_of(&pass.vma, pass.vpn)?;
        let mut is_used = false;
        if self.is_page_of(&open.file, folio) {
            self.before_write(pass, folio)?;
            is_used = self.make_writable(pass, table, folio);
        }
        cx.charge(Cost::SharedWriteFault, 1);
        if is_used {
            self.set_page_dirty(cx, folio);
        }
        drop(page);
        if is_used {
            self.hold_up_faulting_writer(pass);
        }
        Ok(Step::Done)
    }

    /// Prepares a locked page for its first write through a mapping. The page gets buffers if its
    /// filesystem works with them; and where the device needs stable pages, writeback has to end
    /// first.
    #[doc(alias = "do_page_mkwrite")]
    fn before_write(&self, pass: &Pass<'_, '_, H>, folio: Folio) -> Result<(), Error> {
        let (open, _) = file_of(&pass.vma, pass.vpn)?;
        if open.file.is_memory() {
            return Ok(());
        }
        self.attach_buffers(pass.cx, &open.file, folio)?;
        if self.block.device(open.file.spec.device).spec.stable_writes {
            self.wait_on_writeback(pass.cx, folio);
        }
        Ok(())
    }

    /// Holds up a writer that dirtied a page of a shared mapping, if there is too much dirty
    /// memory.
    #[doc(alias = "fault_dirty_shared_page")]
    fn hold_up_faulting_writer(&self, pass: &mut Pass<'_, '_, H>) {
        if let Ok((open, _)) = file_of(&pass.vma, pass.vpn) {
            if !pass.is_retry {
                pass.lock = None;
            }
            self.hold_up_writer(pass.cx, &open.file, 1);
        }
    }

    /// Maps a locked page where nothing is mapped; the entry has the caller's reference then. False
    /// if something is mapped by now.
    #[doc(alias = "finish_fault")]
    fn map_missing(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        folio: Folio,
        pte: Pte,
    ) -> bool {
        let mut ptes = table.lock(pass.cx.cpu());
        let is_none = ptes.get(pass.vpn).is_none();
        if is_none {
            self.map_page(pass, &mut ptes, folio, pte);
            if folio.is_large() && self.mem.policy.folio.fault_maps == FaultMaps::Folio {
                self.map_folio(pass, &mut ptes, folio, pte);
            }
        }
        is_none
    }

    /// The frame of a file's folio that belongs at the fault's address.
    fn frame_at(&self, pass: &Pass<'_, '_, H>, folio: Folio) -> Result<Pfn, Error> {
        let (_, index) = file_of(&pass.vma, pass.vpn)?;
        Ok(self.mem.map.frame_of(folio, index))
    }

    /// The virtual pages where all of a file's folio would be mapped; none if not all of it lies in
    /// the file, in the VMA and in the page table of `vpn` (rules/large-folios#faults).
    fn place_of_folio(&self, vma: &Vma<H>, vpn: u32, folio: Folio) -> Option<Range<u32>> {
        let (open, index) = file_of(vma, vpn).ok()?;
        let (first, end) = self.mem.map.indices_of(folio);
        let start = vpn.checked_sub(index.checked_sub(first)?)?;
        let place = start..start.checked_add(end - first)?;
        let is_within = vma.start <= place.start
            && place.end <= vma.end
            && u64::from(end) <= open.file.size_pages()
            && place.start / PTES as u32 == (place.end - 1) / PTES as u32;
        is_within.then_some(place)
    }

    /// Maps the pages of a folio that are not mapped, where all of it can be; `like`: an entry of
    /// one of them. Each new entry has a reference. Returns their number.
    #[doc(alias = "set_pte_range")]
    fn map_folio(
        &self,
        pass: &Pass<'_, '_, H>,
        ptes: &mut Ptes<'_, H>,
        folio: Folio,
        like: Pte,
    ) -> u32 {
        let Some(place) = self.place_of_folio(&pass.vma, pass.vpn, folio) else { return 0 };
        let nr = self.map_frames(pass.cx, ptes, (folio, place), like);
        self.mem.map.page(folio).get::<H>(nr);
        Rss::add::<H>(&pass.mm.rss.file, nr.into());
        nr
    }

    /// Does that at a place, without references and the mm's count.
    fn map_frames(
        &self,
        cx: &Cx<'_, H>,
        ptes: &mut Ptes<'_, H>,
        (folio, place): (Folio, Range<u32>),
        like: Pte,
    ) -> u32 {
        let mut nr = 0;
        for (vpn, frame) in place.zip(folio.frames()) {
            if ptes.get(vpn).is_none() {
                self.map_file_frame(cx, folio, frame);
                let (writable, dirty) = (like.is_writable(), like.is_dirty());
                ptes.set(vpn, Pte::new(frame).with_writable(writable).with_dirty(dirty));
                nr += 1;
            }
        }
        nr
    }

    /// Fault-around meets a large folio at `vpn`, where page `index` of the file is not mapped:
    /// maps that page, or all of the folio. Returns the new entries.
    #[inline(never)]
    fn map_in_window(
        &self,
        pass: &Pass<'_, '_, H>,
        ptes: &mut Ptes<'_, H>,
        (vpn, index): (u32, u32),
        folio: Folio,
    ) -> u32 {
        let (cx, vma) = (pass.cx, &pass.vma);
        let frame = self.mem.map.frame_of(folio, index);
        let entry = Pte::new(frame).with_writable(may_write_unseen(vma));
        let place = match self.mem.policy.folio.fault_maps {
            FaultMaps::Folio => self.place_of_folio(vma, vpn, folio),
            FaultMaps::Window => None,
        };
        match place {
            Some(place) => self.map_frames(cx, ptes, (folio, place), entry),
            None => {
                self.map_file_frame(cx, folio, frame);
                ptes.set(vpn, entry);
                1
            }
        }
    }

    /// Maps the cached and ready pages around a read fault; true if the faulting one is mapped now.
    /// Nothing waits, no list changes. Pages count as hits by rules/readahead#mmap-hits.
    #[doc(alias = "do_fault_around")]
    fn map_around(&self, pass: &Pass<'_, '_, H>, table: &PageTable<H>) -> Result<bool, Error> {
        let is_new = |folio| !self.mem.map.page(folio).is(PageFlags::WORKINGSET);
        match self.mem.policy.fault.mmap_miss {
            MmapMiss::Page => self.map_counting(pass, table, |_, _| true),
            MmapMiss::PageNotWs => self.map_counting(pass, table, |_, folio| is_new(folio)),
            MmapMiss::Fault => {
                let expected = VmaFlags::SEQ_READ | VmaFlags::EXEC;
                let may_count = !pass.is_retry && !pass.vma.flags.intersects(expected);
                self.map_counting(pass, table, |vpn, folio| {
                    may_count && vpn == pass.vpn && is_new(folio)
                })
            }
        }
    }

    /// Does that; `is_hit` says which pages, each with the virtual page where it is or could be
    /// mapped, are hits of the descriptor.
    fn map_counting(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        is_hit: impl Fn(u32, Folio) -> bool,
    ) -> Result<bool, Error> {
        let (cx, vma) = (pass.cx, &pass.vma);
        let (first, last) = fault_around(pass.vpn, vma.start, vma.end);
        let (open, index) = file_of(vma, first)?;
        let (mut mapped, mut nr, mut hits) = ([Folio::default(); FAULT_AROUND as usize], 0, 0);
        let mut nr_large = 0;
        let is_writable = may_write_unseen(vma);
        let mut ptes = table.lock(cx.cpu());
        self.map_pages(cx, &open.file, index, index + (last - first) + 1, |at, folio| {
            let vpn = first + (at - index);
            hits += u32::from(is_hit(vpn, folio));
            if !ptes.get(vpn).is_none() {
                return 0;
            }
            if folio.is_large() {
                cold_path();
                let new = self.map_in_window(pass, &mut ptes, (vpn, at), folio);
                nr_large += new;
                return new;
            }
            if self.mem.map.page(folio).map_add::<H>(1) {
                self.mem.account(cx.cpu(), folio).plus(NodeStat::Mapped);
            }
            ptes.set(vpn, Pte::new(folio.pfn()).with_writable(is_writable));
            mapped[nr] = folio;
            nr += 1;
            1
        });
        Rss::add::<H>(&pass.mm.rss.file, nr as i64 + i64::from(nr_large));
        if vma.flags.contains(VmaFlags::LOCKED) {
            mapped[..nr].iter().for_each(|&folio| self.mlock_page(cx, folio));
        }
        let is_mapped = !ptes.get(pass.vpn).is_none();
        drop(ptes);
        cx.charge(Cost::FileMap, nr as u32 + nr_large);
        if hits > 0 {
            self.note_mmap_hits(cx, open, hits);
        }
        Ok(is_mapped)
    }
}

/// Getting the page.
impl<H: Devices> Kernel<H> {
    /// Finds or reads the file page of a fault: locked, up to date, with a reference for the
    /// caller. None if the fault waited without the mm's lock and has to start over.
    ///
    /// # Errors
    /// If it lies beyond the end of the file, cannot be read, or there is no memory.
    #[doc(alias = "filemap_fault")]
    #[doc(alias = "__do_fault")]
    fn fault_page<'k, 'a, 'h>(
        &'k self,
        pass: &mut Pass<'a, 'h, H>,
    ) -> Result<Option<HeldPage<'k, 'a, 'h, H>>, Error> {
        let (cx, vma) = (pass.cx, Arc::clone(&pass.vma));
        let (open, index) = file_of(&vma, pass.vpn)?;
        let file = &open.file;
        let is_within = || u64::from(index) < file.size_pages();
        if !is_within() {
            return Err(Error::Fault);
        }
        if file.is_memory() {
            return self.memory_fault_page(pass, file, index);
        }
        let mut cached = self.find_cached(pass, open, index);
        loop {
            let page = match cached {
                Some(folio) => {
                    if !self.lock_cached(pass, folio)? {
                        return Ok(None);
                    }
                    let page = HeldPage::new(self, cx, folio);
                    if !self.is_page_of(file, folio) {
                        drop(page);
                        cached = self.find_get_page(cx, file, index);
                        continue;
                    }
                    page
                }
                None => {
                    let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
                    let made = self.find_or_create_page(cx, file, index, gfp);
                    let made = made.map_err(|e| if e == Error::Invalid { Error::Fault } else { e });
                    HeldPage::new(self, cx, made?.0)
                }
            };
            if self.mem.map.page(page.folio()).is(PageFlags::UPTODATE) {
                return match (pass.has_let_go(), is_within()) {
                    (false, true) => Ok(Some(page)),
                    (false, false) => Err(Error::Fault),
                    (true, _) => Ok(None),
                };
            }
            // Neither there nor being read: this fault reads the one page. If that fails without
            // the mm's lock, the second run tries again and reports it.
            let let_go = pass.let_go();
            let folio = page.leave_locked();
            let read = self.read_page(cx, file, folio);
            self.put_page(cx, folio);
            if let_go {
                return Ok(None);
            }
            read?;
            cached = self.find_get_page(cx, file, index);
        }
    }

    /// Finds or makes the page of a fault in a file that lives in memory; the fault waits with
    /// `mmap_lock` held.
    #[doc(alias = "shmem_fault")]
    fn memory_fault_page<'k, 'a, 'h>(
        &'k self,
        pass: &mut Pass<'a, 'h, H>,
        file: &File<H>,
        index: u32,
    ) -> Result<Option<HeldPage<'k, 'a, 'h, H>>, Error> {
        let cx = pass.cx;
        let found = self.memory_page(cx, file, index);
        let MemoryPage { folio, was_swapped } =
            found.map_err(|e| if e == Error::Invalid { Error::Fault } else { e })?;
        pass.is_major |= was_swapped;
        let page = HeldPage::new(self, cx, folio);
        if u64::from(index) < file.size_pages() { Ok(Some(page)) } else { Err(Error::Fault) }
    }

    /// Looks the faulting page up, and lets readahead know how that went. Readahead may wait, so
    /// the mm's lock goes first.
    fn find_cached(
        &self,
        pass: &mut Pass<'_, '_, H>,
        open: &OpenFile<H>,
        index: u32,
    ) -> Option<Folio> {
        let cx = pass.cx;
        let mode = read_mode(pass.vma.flags);
        let Some(folio) = self.find_get_page(cx, &open.file, index) else {
            self.mem.events.add(cx.cpu(), VmEvent::Pgmajfault, 1);
            self.count_of_task(cx, GroupStat::Pgmajfault);
            pass.is_major = true;
            pass.let_go();
            self.readahead_mmap_miss(cx, open, index, mode);
            return self.find_get_page(cx, &open.file, index);
        };
        if !pass.is_retry {
            let is_marked = self.mem.map.page(folio).is(PageFlags::READAHEAD);
            if is_marked && mode != ReadMode::Random {
                pass.let_go();
            }
            self.readahead_mmap_hit(cx, open, folio, index, mode);
        }
        Some(folio)
    }

    /// Locks the cached page of a fault, or drops `mmap_lock` before it waits. The first run of a
    /// fault waits without that lock for the page to be unlocked, and has to start over: false
    /// (rules/sleeping-locks#page-fault). Then, and on error, the reference is gone.
    #[doc(alias = "lock_folio_maybe_drop_mmap")]
    fn lock_cached(&self, pass: &mut Pass<'_, '_, H>, folio: Folio) -> Result<bool, Error> {
        let cx = pass.cx;
        if self.try_lock_page(folio) {
            return Ok(true);
        }
        let keeps_mmap_lock = !pass.let_go();
        let is_alive = match keeps_mmap_lock {
            true => self.lock_page_killable(cx, folio),
            false => self.wait_on_locked_killable(cx, folio),
        };
        if is_alive && keeps_mmap_lock {
            return Ok(true);
        }
        self.put_page(cx, folio);
        if is_alive { Ok(false) } else { Err(Error::Killed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to 16 pages, within the VMA and the table (rules/faults#fault-around).
    #[test]
    fn fault_around_keeps_to_area_and_table() {
        assert_eq!(fault_around(0x1005, 0x1000, 0x2000), (0x1000, 0x100f));
        assert_eq!(fault_around(0x1005, 0x1003, 0x2000), (0x1003, 0x1012));
        assert_eq!(fault_around(0x11fe, 0x11f9, 0x2000), (0x11f9, 0x11ff));
        assert_eq!(fault_around(0x1ff8, 0x1000, 0x1ffa), (0x1ff0, 0x1ff9));
    }
}
