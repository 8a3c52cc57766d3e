//! fork: copies an address space (rules/faults#fork).
//!
//! Only entries are copied. Writable pages become read-only for parent and child. The first of them
//! to write a page gets a copy ([`super::fault`]); a later writer that is then the only user keeps
//! the old page.
//!
//! | the parent's entry | the child's | counted |
//! |---|---|---|
//! | anonymous page | the same page, read-only, old; the parent's read-only too | reference, mapping, resident |
//! | file page of a private VMA | the same page, read-only, old | reference, mapping, resident |
//! | page of zeros | the same | nothing |
//! | swap slot | the same slot, both marked as shared | one more entry of the slot, swap |
//! | all of a table's range (a leaf) | the same leaf, read-only, old; the parent's read-only too | 512 of each |
//! | huge zero page | the same leaf | one more leaf |
//! | page under migration | waits for it | |
//!
//! VMAs without anonymous pages (unwritten file mappings, shared ones) are not copied: the child
//! maps their pages by faults. Mlocked VMAs are not mlocked in the child.
//!
//! Synchronisation: the parent's lock is held for writing, so no fault changes the copied entries.
//! Each table's lock is held while its entries are copied, against reclaim. No task runs in the
//! child. A reverse-map walk finds a child's entry only after its references are counted.
//!
//! From: `syscall::process` · to: [`super::family`], `swap`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::{FlushRange, Mm, PageTable, Pte, Ptes, Rss, Vma, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::PageFlags;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::order::LockClass;
use crate::units::Error;

/// Counts of one table's copied entries.
pub(super) struct Copied<'a> {
    /// Resident pages of the child. A page counts before its entry is filled: reclaim may unmap it
    /// as soon as it is there.
    pub(super) rss: &'a Rss,
    /// Entries of the parent that became read-only.
    pub(super) protected: u32,
    pub(super) entries: u32,
    /// Entries whose page got another reference and mapping: its descriptor was written.
    pub(super) pages: u32,
}

impl<H: Devices> Kernel<H> {
    /// Copies an address space for fork: VMAs, page table entries, locked against writes on both
    /// sides.
    ///
    /// # Errors
    /// If there is no memory for its tables or its process, or no more may be promised
    /// (`vm.overcommit_memory`). The parent is as it was then, but that its next writes fault.
    #[doc(alias = "dup_mmap")]
    pub(crate) fn fork_mm(&self, cx: &Cx<'_, H>, parent: &Mm<H>) -> Result<Arc<Mm<H>>, Error> {
        self.enter_mm(cx, parent);
        let mut ancestors = parent.ancestors.clone();
        ancestors.push(parent.id);
        let child = self.create_descendant(cx, ancestors)?;
        child.oom_score_adj.store(parent.oom_score_adj.load(Relaxed), Relaxed);
        if let Err(error) = self.add_process_memory(cx, &child) {
            self.destroy_mm(cx, &child);
            return Err(error);
        }
        let copied = {
            let _guard = parent.mmap_lock.write(cx);
            let vmas: Vec<_> = parent.tables.lock(cx.cpu()).all_vmas().cloned().collect();
            let mut is_protected = false;
            let copied = vmas.iter().try_for_each(|vma| {
                self.may_commit(cx, parent, vma.committed())?;
                self.copy_vma(cx, &child, vma);
                match self.has_own_pages(cx, parent, vma) {
                    true => self.copy_vma_entries(cx, parent, &child, vma, &mut is_protected),
                    false => Ok(()),
                }
            });
            if is_protected {
                // A CPU that still has a writable translation would write to the child's memory.
                self.flush_tlb(cx, parent, FlushRange::ALL);
            }
            copied
        };
        match copied {
            Ok(()) => Ok(child),
            Err(error) => {
                self.destroy_mm(cx, &child);
                Err(error)
            }
        }
    }

    fn copy_vma(&self, cx: &Cx<'_, H>, child: &Mm<H>, vma: &Vma<H>) {
        let history = *vma.swap.lock(cx.cpu());
        let swap = Arc::new(cx.host.new_lock(LockClass::Table, history));
        let flags = vma.flags - VmaFlags::LOCKED;
        let vma = Arc::new(Vma { flags, swap, ..vma.clone() });
        {
            let mut tables = child.tables.lock(cx.cpu());
            tables.insert_vma(Arc::clone(&vma));
        }
        self.list_mapping(cx, child, &vma);
    }

    /// Reports whether a VMA has pages that no file can give again: only then are its entries
    /// copied.
    #[doc(alias = "vma_needs_copy")]
    fn has_own_pages(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vma: &Vma<H>) -> bool {
        if vma.flags.contains(VmaFlags::SHARED) {
            return false;
        }
        let is_own = |pte: Pte| {
            pte.slot().is_some()
                || pte.moving_from().is_some()
                || self.mapped_folio(pte).is_some_and(|folio| self.mem.map.page(folio).is_anon())
        };
        let mut next = vma.start;
        while let Some((table, part)) = mm.next_table(cx.cpu(), next, vma.end) {
            if part.clone().any(|vpn| is_own(table.peek(vpn))) {
                return true;
            }
            next = part.end;
        }
        false
    }

    /// Copies the page table entries of one VMA to the child.
    #[doc(alias = "copy_page_range")]
    fn copy_vma_entries(
        &self,
        cx: &Cx<'_, H>,
        parent: &Mm<H>,
        child: &Mm<H>,
        vma: &Vma<H>,
        is_protected: &mut bool,
    ) -> Result<(), Error> {
        let mut next = vma.start;
        while let Some((table, part)) = parent.next_table(cx.cpu(), next, vma.end) {
            next = part.end;
            if part.clone().all(|vpn| table.peek(vpn).is_none()) {
                continue;
            }
            let to = match table.peek_leaf() {
                Some(_) => self.make_leaf_table(cx, child, part.start),
                None => self.make_table(cx, child, part.start),
            };
            let to = to.ok_or(Error::NoMemory)?;
            let mut copied = Copied { rss: &child.rss, protected: 0, entries: 0, pages: 0 };
            let mut at = part.start;
            while at < part.end {
                at = {
                    let mut from = table.lock(cx.cpu());
                    // A leaf lies in one VMA, so all of the table is copied.
                    match self.copy_leaf(cx, &mut from, &to, &mut copied) {
                        true => part.end,
                        false => self.copy_table(cx, &mut from, &to, at..part.end, &mut copied),
                    }
                };
                // Its page is on its way to another frame, which cannot be waited for under the
                // table's lock.
                let pte = table.peek(at);
                if let Some(from) = pte.moving_from().filter(|_| at < part.end) {
                    self.wait_for_move(cx, from, || table.peek(at) != pte);
                }
            }
            *is_protected |= copied.protected > 0;
            cx.charge(Cost::SetPte, copied.entries);
            cx.charge(Cost::ClearPte, copied.protected);
            cx.charge(Cost::ForkPage, copied.pages);
            cx.host.yield_now();
        }
        Ok(())
    }

    /// Copies one table's entries up to one whose page is being migrated; returns where that is, or
    /// the end.
    #[doc(alias = "copy_pte_range")]
    fn copy_table(
        &self,
        cx: &Cx<'_, H>,
        from: &mut Ptes<'_, H>,
        to: &PageTable<H>,
        part: Range<u32>,
        copied: &mut Copied<'_>,
    ) -> u32 {
        let end = part.end;
        for vpn in part {
            let pte = from.get(vpn);
            if pte.is_none() {
                continue;
            }
            if pte.moving_from().is_some() {
                return vpn;
            }
            copied.entries += 1;
            if let Some(slot) = pte.slot() {
                self.swap_dup(cx, slot);
                let shared = pte.with_shared_swap(true);
                from.set(vpn, shared);
                Rss::add::<H>(&copied.rss.swap, 1);
                to.fill(vpn, shared);
                continue;
            }
            let Some(folio) = self.mapped_folio(pte) else {
                to.fill(vpn, pte.with_young(false));
                continue;
            };
            let page = self.mem.map.page(folio);
            let mut pte = pte;
            if pte.is_writable() {
                pte = from.take(vpn).with_writable(false);
                from.set(vpn, pte);
                copied.protected += 1;
            }
            if page.is_anon() {
                page.flag_set::<H>(PageFlags::FORKED);
                Rss::add::<H>(&copied.rss.anon, 1);
            } else {
                Rss::add::<H>(&copied.rss.file, 1);
            }
            page.get::<H>(1);
            match page.is_anon() {
                true => drop(page.map_add::<H>(1)),
                // The parent's entry maps the frame already.
                false => drop(self.mem.map.map_frame::<H>(folio, pte.pfn().unwrap_or(folio.pfn()))),
            }
            copied.pages += 1;
            to.fill(vpn, pte.with_young(false));
        }
        end
    }
}
