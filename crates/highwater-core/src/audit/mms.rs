//! Address spaces: every entry lies in a VMA, names a page that has a record of it, and is counted.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::kernel::{Found, KernelAudit};
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::page::{BlockFlags, FileId, PageFlags, PageMapping, Pfn};
use crate::page_cache::MapRange;
use crate::slab::CacheKind;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vm::{Backing, Mm, PageTable, Pte, STACK_KIB, STACK_ORDER, Vma, VmaFlags};
use crate::vmstat::NodeStat;

/// Resident pages of an mm, as walked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Resident {
    anon: u64,
    file: u64,
    swap: u64,
    tables: u64,
}

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn mms(&mut self) -> Result<(), AuditError> {
        let mms: Vec<Arc<Mm<H>>> = self.k.mms.lock(self.cx.cpu()).values().cloned().collect();
        let mut mapped = BTreeSet::new();
        for mm in &mms {
            self.mm(mm, &mut mapped)?;
        }
        self.zero_leaves()?;
        let objects = self.k.slab(CacheKind::Process).lock(self.cx.cpu()).in_use();
        if objects != self.nr_processes {
            let found = format!("{objects} processes have memory, there are {}", self.nr_processes);
            return self.broken(None, Rule::Counter, found);
        }
        self.families(&mms)?;
        self.mappings(&mapped)
    }

    /// Each mm is listed by the mms from which it was forked, and by no other.
    fn families(&self, mms: &[Arc<Mm<H>>]) -> Result<(), AuditError> {
        let known: BTreeSet<_> = self.k.families.lock(self.cx.cpu()).pairs().collect();
        let pairs = mms.iter().flat_map(|s| s.ancestors.iter().map(|&of| (of, s.id)));
        let expected: BTreeSet<_> = pairs.collect();
        match known.symmetric_difference(&expected).next() {
            None => Ok(()),
            Some((of, mm)) => {
                let found = format!("{mm:?} and {of:?} do not agree on who forked whom");
                self.broken(None, Rule::Family, found)
            }
        }
    }

    fn mm(
        &mut self,
        mm: &Mm<H>,
        mapped: &mut BTreeSet<(FileId, MapRange)>,
    ) -> Result<(), AuditError> {
        self.process(mm)?;
        let mut resident = Resident::default();
        let tables = mm.tables.lock(self.cx.cpu());
        for vma in tables.all_vmas() {
            if let Some((open, range)) = vma.map_range(mm.id) {
                mapped.insert((open.file.id, range));
            }
        }
        for pfn in tables.table_frames() {
            let page = self.in_use(pfn, "an address space")?;
            if !page.is(PageFlags::TABLE) || self.uses[pfn].refs != 0 {
                let found = format!("is a page table of {:?} with {:?}", mm.id, page.flags());
                return self.broken(pfn, Rule::TableFrame, found);
            }
            self.refer(pfn, Found::TABLE);
            self.report.tables += 1;
            resident.tables += 1;
        }
        // The top table counts nowhere, those below it only in the mm.
        resident.tables = resident.tables.saturating_sub(1);
        let upper: Vec<Pfn> = tables.upper_frames().collect();
        for pfn in tables.table_frames().filter(|pfn| !upper.contains(pfn)) {
            self.count(self.page(pfn), NodeStat::PageTablePages, 1);
        }
        let mut from = 0;
        while let Some((first, table)) = tables.next_table(from, Mm::<H>::TOP) {
            let mut vma: Option<&Arc<Vma<H>>> = None;
            for vpn in first..first + crate::vm::PTES as u32 {
                let pte = table.peek(vpn);
                if pte.is_none() {
                    continue;
                }
                if vma.is_none_or(|vma| vpn >= vma.end) {
                    vma = tables.vma(vpn);
                }
                self.entry(mm, vma, vpn, pte, &mut resident)?;
            }
            self.leaf(mm, first, table)?;
            if let Some(at) = table.wrongly_hot() {
                let found = format!("{:?}'s table at {first:#x} is wrong about entry {at}", mm.id);
                return self.broken(table.pfn, Rule::HotEntries, found);
            }
            if !table.hot_are_counted() {
                let found = format!("{:?}'s table at {first:#x} miscounts hot entries", mm.id);
                return self.broken(table.pfn, Rule::HotEntries, found);
            }
            if table.is_wrongly_unused() {
                let found = format!("{:?}'s table at {first:#x} is used unknown to aging", mm.id);
                return self.broken(table.pfn, Rule::HotEntries, found);
            }
            from = first + crate::vm::PTES as u32;
        }
        drop(tables);
        let rss = &mm.rss;
        let counted = Resident {
            anon: rss.anon.load(Relaxed),
            file: rss.file.load(Relaxed),
            swap: rss.swap.load(Relaxed),
            tables: rss.tables.load(Relaxed),
        };
        if counted != resident {
            let found = format!("{:?} counts {counted:?}, it has {resident:?}", mm.id);
            return self.broken(None, Rule::Rss, found);
        }
        Ok(())
    }

    /// A leaf maps a folio of its own size, from the first page on; the deposited page table is
    /// empty.
    fn leaf(&mut self, mm: &Mm<H>, first: u32, table: &PageTable<H>) -> Result<(), AuditError> {
        let leaf = table.peek_leaf();
        if table.is_bare() && (0..crate::vm::PTES as u32).any(|at| !table.peek(at).is_none()) {
            let found = format!("{:?}'s table at {first:#x} is bare and maps something", mm.id);
            return self.broken(table.pfn, Rule::Leaf, found);
        }
        let Some(pfn) = leaf.and_then(Pte::pfn) else { return Ok(()) };
        let folio = self.k.mem.map.folio(pfn);
        if folio.pfn() != pfn || folio.nr_pages() != crate::vm::PTES as u64 {
            let found = format!("{:?} has a leaf of {folio:?} at {first:#x}", mm.id);
            return self.broken(pfn, Rule::Leaf, found);
        }
        match self.k.is_huge_zero(pfn) {
            true => self.zero_leaves += 1,
            false => *self.leaves.entry(pfn).or_default() += 1,
        }
        Ok(())
    }

    /// The huge page of zeros knows how many leaves map it, and is pinned by no one else.
    fn zero_leaves(&self) -> Result<(), AuditError> {
        let zero = self.k.huge.zero.lock(self.cx.cpu());
        let counted = (zero.nr_leaves, zero.folio);
        drop(zero);
        let is_right = match counted.1 {
            None => counted.0 == 0,
            Some(folio) => self.page(folio.pfn()).is(PageFlags::PINNED),
        };
        if counted.0 != self.zero_leaves || !is_right {
            let found = format!("{counted:?} leaves of zeros, {} were found", self.zero_leaves);
            return self.broken(None, Rule::Leaf, found);
        }
        Ok(())
    }

    /// The stack of a process is a separate block; its object is one of those that the slab cache
    /// counts.
    fn process(&mut self, mm: &Mm<H>) -> Result<(), AuditError> {
        let process = mm.process.lock(self.cx.cpu());
        let Some(memory) = &*process else { return Ok(()) };
        let (pfn, page) = (memory.stack, self.page(memory.stack));
        let is_right = page.has(BlockFlags::USED)
            && page.order() == STACK_ORDER
            && page.is(PageFlags::STACK)
            && self.uses[pfn].refs == 0;
        if !is_right {
            let found = format!("is the stack of {:?}, has {:?}", mm.id, page.flags());
            return self.broken(pfn, Rule::KernelMemory, found);
        }
        self.refer(pfn, Found::STACK);
        self.report.stacks += STACK_ORDER.pages();
        self.count(page, NodeStat::KernelStack, STACK_KIB as u64);
        self.nr_processes += 1;
        Ok(())
    }

    fn entry(
        &mut self,
        mm: &Mm<H>,
        vma: Option<&Arc<Vma<H>>>,
        vpn: u32,
        pte: Pte,
        resident: &mut Resident,
    ) -> Result<(), AuditError> {
        let id = mm.id;
        let Some(vma) = vma else {
            let found = format!("{id:?} has {pte:?} at page {vpn:#x}, where nothing is mapped");
            return self.broken(pte.pfn(), Rule::EntryPlace, found);
        };
        if pte.is_writable() && !vma.flags.contains(VmaFlags::WRITE) {
            let found = format!("{id:?} may write page {vpn:#x} of a read-only VMA");
            return self.broken(pte.pfn(), Rule::EntryPlace, found);
        }
        let Some(pfn) = pte.pfn() else {
            let slot = pte.slot().filter(|slot| self.is_slot(*slot));
            let Some(slot) = slot else {
                let found = format!("{id:?} has {pte:?} at page {vpn:#x}: no such slot");
                return self.broken(None, Rule::EntryPlace, found);
            };
            if !pte.is_shared_swap() {
                self.exclusive.push(slot);
            }
            self.named[usize::from(slot.area)][slot.offset as usize] += 1;
            self.report.swap_entries += 1;
            resident.swap += 1;
            return Ok(());
        };
        self.report.entries += 1;
        if self.k.is_zero(pfn) {
            if pte.is_writable() {
                let found = format!("{id:?} may write the zero page at {vpn:#x}");
                return self.broken(pfn, Rule::EntryPlace, found);
            }
            return Ok(());
        }
        let (folio, page) = self.in_folio(pfn, "a page table")?;
        self.belongs(mm, vma, vpn, pfn)?;
        if pte.is_writable() && page.is(PageFlags::FORKED) {
            let found = format!("{id:?} may write at {vpn:#x} what others may map");
            return self.broken(pfn, Rule::EntryPage, found);
        }
        let is_anon = page.is_anon();
        let found = if is_anon { Found::ANON } else { Found::empty() };
        self.refer(folio.pfn(), found).mapped += 1;
        if folio.is_large() && !is_anon {
            *self.frame_maps.entry(pfn).or_default() += 1;
        }
        *(if is_anon { &mut resident.anon } else { &mut resident.file }) += 1;
        Ok(())
    }

    /// Checks that the page has a record of its mapping.
    fn belongs(&self, mm: &Mm<H>, vma: &Vma<H>, vpn: u32, pfn: Pfn) -> Result<(), AuditError> {
        let (folio, page) = self.k.mem.map.lookup(pfn);
        let owner = (page.mapping(), page.index().wrapping_add(pfn.0 - folio.pfn().0));
        let of_file = match &vma.backing {
            Backing::Anon => None,
            Backing::File { open, page } => {
                Some((PageMapping::File(open.file.id), page + (vpn - vma.start)))
            }
        };
        // Shared mappings of files have the file's pages only.
        let may_be_anon = !vma.flags.contains(VmaFlags::SHARED) || of_file.is_none();
        // A page that a fork shared belongs to this mm or to one of its ancestors.
        let is_known = |of| of == mm.id || page.is(PageFlags::FORKED) && mm.ancestors.contains(&of);
        let is_anon = may_be_anon
            && matches!(owner, (PageMapping::Anon(of), at) if is_known(of) && at == vpn);
        if is_anon || of_file == Some(owner) {
            return Ok(());
        }
        let found = format!("{:?} maps it at {vpn:#x}, it belongs to {owner:?}", mm.id);
        self.broken(pfn, Rule::EntryPage, found)
    }

    /// Checks that files list the VMAs that map them.
    fn mappings(&self, mapped: &BTreeSet<(FileId, MapRange)>) -> Result<(), AuditError> {
        let mut listed = BTreeSet::new();
        for file in self.k.all_files(self.cx) {
            let ranges = file.mappings.lock(self.cx.cpu());
            listed.extend(ranges.all().iter().map(|range| (file.id, *range)));
        }
        // A file that is gone may still be mapped, and is listed nowhere then.
        let exists = |id: FileId| self.k.file(self.cx, id).is_some();
        let missing = mapped.difference(&listed).find(|(id, _)| exists(*id));
        match missing.or_else(|| listed.difference(mapped).next()) {
            None => Ok(()),
            Some((id, range)) => {
                let found = format!("{id:?} and {:?} do not agree on {range:?}", range.mm);
                self.broken(None, Rule::FileMapping, found)
            }
        }
    }
}
