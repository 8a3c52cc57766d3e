//! Files: every page in a tree names its file and index, its marks are its flags.

use alloc::format;
use alloc::vec::Vec;

use super::kernel::{Found, KernelAudit};
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::page::{Page, PageFlags, PageMapping, Pfn};
use crate::page_cache::{Buffers, File, Mark};
use crate::slab::{CacheKind, ObjectId};
use crate::swap::Slot;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::{NodeStat, ZoneStat};

/// Pages of a file, by the records that other structures keep of them.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    dirty: u64,
    writeback: u64,
    buffers: u64,
}

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn files(&mut self) -> Result<(), AuditError> {
        let mut dirty = Vec::new();
        dirty.resize(self.k.writeback.len(), (0, 0));
        let (mut nr_objects, mut nr_buffers) = (0, 0);
        for file in self.k.all_files(self.cx) {
            nr_objects += file.tree.lock(self.cx.cpu()).nr_objects();
            let kept = self.file(&file)?;
            nr_buffers += kept.buffers;
            if file.is_memory() {
                continue;
            }
            let device = &mut dirty[usize::from(file.spec.device.0)];
            device.0 += kept.dirty;
            device.1 += kept.writeback;
            self.dirty_queue(&file, kept.dirty)?;
        }
        let in_use = self.k.slab(CacheKind::TreeNode).lock(self.cx.cpu()).in_use();
        let nr_objects = nr_objects + self.k.freed_nodes.nr_waiting(self.cx.cpu()) as u64;
        if in_use != nr_objects {
            let found = format!("{in_use} tree nodes have memory, there are {nr_objects}");
            return self.broken(None, Rule::Counter, found);
        }
        self.buffers(nr_buffers)?;
        self.inodes()?;
        for (device, (nr_dirty, nr_writeback)) in self.k.writeback.iter().zip(dirty) {
            let counted = (device.nr_reclaimable.load(Relaxed), device.nr_writeback.load(Relaxed));
            if counted != (nr_dirty, nr_writeback) {
                let found = format!(
                    "device {} counts {counted:?} pages dirty and under writeback, there are \
                     {nr_dirty} and {nr_writeback}",
                    device.device.0
                );
                return self.broken(None, Rule::Counter, found);
            }
        }
        Ok(())
    }

    /// Buffer heads are the objects of their cache, one for each page that says so.
    fn buffers(&self, nr_pages: u64) -> Result<(), AuditError> {
        let in_use = self.k.slab(CacheKind::BufferHead).lock(self.cx.cpu()).in_use();
        let listed = self.k.buffers.lock(self.cx.cpu()).len();
        if (in_use, listed) != (nr_pages, nr_pages) {
            let found = format!(
                "{nr_pages} pages have buffers, {in_use} have memory, {listed} belong to frames"
            );
            return self.broken(None, Rule::Counter, found);
        }
        Ok(())
    }

    /// Inodes and dentries are the objects of their caches, each on one list.
    fn inodes(&self) -> Result<(), AuditError> {
        let in_use = |kind| self.k.slab(kind).lock(self.cx.cpu()).in_use();
        let objects = (in_use(CacheKind::Inode), in_use(CacheKind::Dentry));
        let inodes = self.k.inodes.lock(self.cx.cpu());
        if inodes.counts() != objects {
            let found =
                format!("{objects:?} inodes and dentries have memory, not {:?}", inodes.counts());
            return self.broken(None, Rule::Counter, found);
        }
        match inodes.misplaced() {
            None => Ok(()),
            Some(id) => self.broken(None, Rule::Inode, format!("{id:?} is not where it belongs")),
        }
    }

    fn file(&mut self, file: &File<H>) -> Result<Kept, AuditError> {
        let (mut pages, mut shadow_only) = (Vec::new(), Vec::new());
        let counted = {
            let tree = file.tree.lock(self.cx.cpu());
            tree.walk(0, u32::MAX, |index, pfn| {
                let marks = [Mark::Dirty, Mark::Writeback].map(|m| tree.is_marked(index, m));
                pages.push((index, pfn, marks));
                true
            });
            shadow_only.extend(
                tree.nodes()
                    .filter(|n| n.nr_pages == 0 && n.nr_swapped == 0)
                    .map(|n| n.object)
                    .filter(|&object| object != ObjectId::NONE),
            );
            tree.nr_pages()
        };
        for object in shadow_only {
            let pfn = self.k.slab(CacheKind::TreeNode).lock(self.cx.cpu()).pfn_of(object);
            self.count(self.page(pfn), NodeStat::WorkingsetNodes, 1);
        }
        self.swapped(file)?;
        let found = pages.len() as u64;
        if counted != found || file.nr_pages() != found {
            let found = format!(
                "{:?} counts {counted} and {} pages, its tree holds {found}",
                file.id,
                file.nr_pages()
            );
            return self.broken(None, Rule::FileSize, found);
        }
        let mut kept = Kept::default();
        for (index, pfn, marks) in pages {
            let (folio, page) = self.in_folio(pfn, "a file")?;
            let at = pfn.0 - folio.pfn().0;
            let owner = (page.mapping(), page.index().wrapping_add(at));
            if owner != (PageMapping::File(file.id), index) {
                let found = format!("is page {index} of {:?}, says {owner:?}", file.id);
                return self.broken(pfn, Rule::FilePage, found);
            }
            if file.is_memory() && !page.is(PageFlags::SWAPBACKED) {
                let found = format!("of {:?}, has {:?}", file.id, page.flags());
                return self.broken(pfn, Rule::FilePage, found);
            }
            match at {
                0 => self.marks(pfn, marks)?,
                // The marks of a folio are on its first page.
                _ if marks == [false; 2] => {}
                _ => {
                    let found = format!("page {index} of {:?} has marks {marks:?}", file.id);
                    return self.broken(pfn, Rule::FileMarks, found);
                }
            }
            self.refer(folio.pfn(), Found::FILE);
            self.report.cached += 1;
            self.count(page, NodeStat::FilePages, 1);
            self.buffer((pfn, page), file)?;
            if file.is_memory() {
                self.count(page, NodeStat::Shmem, 1);
            } else if page.is(PageFlags::DIRTY) {
                kept.dirty += 1;
                self.count(page, NodeStat::Dirty, 1);
                self.count_zone(page, ZoneStat::ZoneWritePending, 1);
            }
            kept.writeback += u64::from(page.is(PageFlags::WRITEBACK));
            kept.buffers += u64::from(page.is(PageFlags::BUFFERS));
        }
        Ok(kept)
    }

    /// A page says that it has buffers if its frame has; every page of a filesystem that reads by
    /// blocks has.
    fn buffer(&self, (pfn, page): (Pfn, &Page), file: &File<H>) -> Result<(), AuditError> {
        let says = page.is(PageFlags::BUFFERS);
        let has = self.k.buffers.lock(self.cx.cpu()).of(pfn).is_some();
        let is_right = match file.spec.filesystem.buffers {
            Buffers::None => !has,
            Buffers::Written => true,
            Buffers::All => has,
        };
        if says != has || !is_right {
            let found = format!("of {:?}, says that it has buffers: {says}, has: {has}", file.id);
            return self.broken(pfn, Rule::FilePage, found);
        }
        Ok(())
    }

    /// Each slot in a tree is an entry more that names it.
    fn swapped(&mut self, file: &File<H>) -> Result<(), AuditError> {
        let mut next = 0;
        loop {
            let found = file.tree.lock(self.cx.cpu()).next_swapped(next);
            let Some((index, word)) = found else { return Ok(()) };
            let slot = Slot::unpack(word).filter(|&slot| self.is_slot(slot) && file.is_memory());
            let Some(slot) = slot else {
                let found = format!("page {index} of {:?} names no slot: {word:#x}", file.id);
                return self.broken(None, Rule::FilePage, found);
            };
            self.named[usize::from(slot.area)][slot.offset as usize] += 1;
            let Some(after) = index.checked_add(1) else { return Ok(()) };
            next = after;
        }
    }

    /// The mark of a dirty page may stay until its writeback starts; a dirty page has it.
    fn marks(&self, pfn: Pfn, [dirty, writeback]: [bool; 2]) -> Result<(), AuditError> {
        let page = self.page(pfn);
        let has_marks = !page.is(PageFlags::SWAPBACKED);
        if page.is(PageFlags::DIRTY) && dirty != has_marks
            || page.is(PageFlags::WRITEBACK) != writeback
        {
            let found =
                format!("has {:?}, marks dirty {dirty}, writeback {writeback}", page.flags());
            return self.broken(pfn, Rule::FileMarks, found);
        }
        Ok(())
    }

    /// A dirty file waits for its flusher, unless that works on it now.
    fn dirty_queue(&self, file: &File<H>, nr_dirty: u64) -> Result<(), AuditError> {
        let device = &self.k.writeback[usize::from(file.spec.device.0)];
        let is_listed = {
            let lists = device.lists.lock(self.cx.cpu());
            let mut all = lists.dirty.iter().chain(&lists.io).chain(&lists.more_io);
            all.any(|listed| listed.id == file.id)
        };
        let is_queued = file.is_queued.load(Relaxed);
        let is_running = device.is_running.load(Relaxed);
        if nr_dirty > 0 && !is_queued || is_listed != is_queued && !is_running {
            let found = format!(
                "{:?} has {nr_dirty} dirty pages, is queued: {is_queued}, listed: {is_listed}",
                file.id
            );
            return self.broken(None, Rule::DirtyFile, found);
        }
        Ok(())
    }
}
