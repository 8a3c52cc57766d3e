//! Frames in use: each has exactly the users that refer to it, and its descriptor agrees.

use alloc::format;

use super::kernel::{Found, KernelAudit};
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::page::map::CHUNK;
use crate::page::{BlockFlags, Folio, PageFlags, PageMapping, Pfn};
use crate::slab::CacheKind;
use crate::vm::PTES;
use crate::vmstat::{NodeStat, ZoneStat};

/// Kinds of kernel memory.
const KERNEL: PageFlags =
    PageFlags::TABLE.union(PageFlags::SLAB).union(PageFlags::STACK).union(PageFlags::PINNED);

/// What only user pages are.
const USER: PageFlags = PageFlags::LOCKED
    .union(PageFlags::DIRTY)
    .union(PageFlags::WRITEBACK)
    .union(PageFlags::LRU)
    .union(PageFlags::SWAPCACHE)
    .union(PageFlags::MLOCKED);

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn slabs(&mut self) -> Result<(), AuditError> {
        for &kind in CacheKind::ALL {
            self.slabs_of(kind)?;
        }
        Ok(())
    }

    fn slabs_of(&mut self, kind: CacheKind) -> Result<(), AuditError> {
        let slabs: alloc::vec::Vec<_> = self.k.slab(kind).lock(self.cx.cpu()).slabs().collect();
        for (pfn, order, _) in slabs {
            let page = self.page(pfn);
            let is_right = page.has(BlockFlags::USED)
                && page.order() == order
                && page.is(PageFlags::SLAB)
                && self.uses[pfn].refs == 0;
            if !is_right {
                let found = format!("is a slab of {order:?}, has {:?}", page.flags());
                return self.broken(pfn, Rule::KernelMemory, found);
            }
            self.refer(pfn, Found::SLAB);
            self.report.slab += order.pages();
            self.count(page, kind.item(), order.pages());
        }
        Ok(())
    }

    /// Goes over all frames in use.
    pub(super) fn users(&mut self, is_foreign: &dyn Fn(Pfn) -> bool) -> Result<(), AuditError> {
        let is_io_under_way = self.in_flight() > 0;
        let mut pfn = Pfn(0);
        while pfn.idx() < self.k.mem.map.len() {
            if self.k.mem.map.is_untouched(pfn) {
                pfn = pfn.add(CHUNK);
                continue;
            }
            let page = self.page(pfn);
            if !page.has(BlockFlags::USED) {
                pfn = pfn.add(1);
                continue;
            }
            let pages = page.order().pages();
            let flags = page.flags();
            if is_foreign(pfn) {
                self.report.foreign += pages;
            } else if flags.intersects(KERNEL) {
                self.kernel_block(pfn, pages)?;
            } else {
                self.user_page(pfn)?;
                self.io_flags(pfn, is_io_under_way)?;
            }
            pfn = pfn.add(pages as u32);
        }
        Ok(())
    }

    fn kernel_block(&mut self, pfn: Pfn, pages: u64) -> Result<(), AuditError> {
        let page = self.page(pfn);
        let flags = page.flags();
        let entry = self.uses[pfn];
        let (expected, refs) = if flags.contains(PageFlags::TABLE) {
            (Found::TABLE, entry.refs)
        } else if flags.contains(PageFlags::SLAB) {
            (Found::SLAB, entry.refs)
        } else if flags.contains(PageFlags::STACK) {
            (Found::STACK, entry.refs)
        } else {
            // A pinned page is referenced only by the code that pinned it.
            self.report.pinned += pages;
            (Found::empty(), 1 + entry.refs)
        };
        if entry.is != expected || refs != 1 || page.refcount() != 1 || flags.intersects(USER) {
            let found = format!(
                "has {flags:?} and {} users, found as {:?} {} times",
                page.refcount(),
                entry.is,
                entry.refs
            );
            return self.broken(pfn, Rule::KernelMemory, found);
        }
        Ok(())
    }

    fn user_page(&mut self, pfn: Pfn) -> Result<(), AuditError> {
        let page = self.page(pfn);
        let entry = self.uses[pfn];
        if entry.refs == 0 {
            let found = format!(
                "has {:?}, {:?}, {} users; nothing refers to it",
                page.flags(),
                page.mapping(),
                page.refcount()
            );
            return self.broken(pfn, Rule::Unexplained, found);
        }
        self.on_a_list(pfn)?;
        self.swap_cached(pfn)?;
        if page.mapcount() != entry.mapped {
            let found = format!("counts {} mappings, {} were found", page.mapcount(), entry.mapped);
            return self.broken(pfn, Rule::Mapcount, found);
        }
        let is_of_file = matches!(page.mapping(), PageMapping::File(_));
        if page.order().pages() == PTES as u64 && !is_of_file {
            let (found, counted) =
                (self.leaves.remove(&pfn).unwrap_or(0), self.page(pfn.add(1)).mapcount());
            if found != counted {
                let found = format!("counts {counted} leaves, {found} were found");
                return self.broken(pfn, Rule::Leaf, found);
            }
            if found > 0 {
                self.count(page, NodeStat::AnonTransparentHugepages, page.order().pages());
            }
        }
        if is_of_file != entry.is.contains(Found::FILE) {
            let found = format!("says {:?}, is in a file: {}", page.mapping(), !is_of_file);
            return self.broken(pfn, Rule::FilePage, found);
        }
        if page.refcount() != entry.refs {
            let found = format!(
                "has {} users, {} were found: {:?}, {} entries, {:?}",
                page.refcount(),
                entry.refs,
                entry.is,
                entry.mapped,
                page.flags()
            );
            return self.broken(pfn, Rule::References, found);
        }
        let folio = self.k.mem.map.folio(pfn);
        if is_of_file && folio.is_large() {
            self.frames_of_file(folio)?;
        } else if entry.mapped > 0 {
            let is_anon = entry.is.contains(Found::ANON);
            let item = if is_anon { NodeStat::AnonPages } else { NodeStat::Mapped };
            self.count(page, item, page.order().pages());
        }
        if page.is(PageFlags::MLOCKED) {
            self.count_zone(page, ZoneStat::Mlock, page.order().pages());
        }
        Ok(())
    }

    /// Each frame of a large folio of a file counts the entries that map it; only frames of dirty
    /// ones are stored to.
    fn frames_of_file(&mut self, folio: Folio) -> Result<(), AuditError> {
        let page = self.page(folio.pfn());
        let mut nr_stored = 0;
        for frame in folio.frames() {
            let counted = self.k.mem.map.frame_mapcount(folio, frame);
            let found = self.frame_maps.remove(&frame).unwrap_or(0);
            if counted != found {
                let found =
                    format!("{frame:?} of it counts {counted} mappings, {found} were found");
                return self.broken(folio.pfn(), Rule::Mapcount, found);
            }
            self.count(page, NodeStat::Mapped, u64::from(found > 0));
            nr_stored += u32::from(self.page(frame).is(PageFlags::STORED));
        }
        let is_dirty = page.is(PageFlags::DIRTY);
        if is_dirty != (nr_stored > 0) {
            let found = format!("is dirty: {is_dirty}, {nr_stored} pages of it were stored to");
            return self.broken(folio.pfn(), Rule::FileMarks, found);
        }
        Ok(())
    }

    /// Locked pages are read into, others written: only while a device works.
    fn io_flags(&mut self, pfn: Pfn, is_io_under_way: bool) -> Result<(), AuditError> {
        let page = self.page(pfn);
        let is_busy = page.flags().intersects(PageFlags::LOCKED | PageFlags::WRITEBACK);
        if is_busy && !is_io_under_way {
            let found = format!("has {:?} and no device works", page.flags());
            return self.broken(pfn, Rule::Idle, found);
        }
        if page.is(PageFlags::WRITEBACK) {
            let pages = page.order().pages();
            self.count(page, NodeStat::Writeback, pages);
            self.count_zone(page, ZoneStat::ZoneWritePending, pages);
        }
        Ok(())
    }
}
