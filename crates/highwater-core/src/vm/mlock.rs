//! mlock and munlock (rules/unmap#mlock).
//!
//! mlock sets the flag of the VMAs, marks mapped pages and faults the others in; later faults mark
//! their pages. `lru` implements the effect of the mark on a page and its list.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Access, Mm, Vma, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::page::PageFlags;
use crate::units::Error;

impl<H: Devices> Kernel<H> {
    /// Locks a range of an address space: its pages are faulted in and never reclaimed.
    ///
    /// # Errors
    /// As [`Kernel::touch`]; what was locked before the error stays locked.
    #[doc(alias = "do_mlock")]
    pub fn mlock(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32, pages: u32) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Mlock);
        let end = start.checked_add(pages).ok_or(Error::Invalid)?;
        self.change_locked(cx, mm, (start, end), true)?;
        self.populate(cx, mm, start, end)
    }

    /// Unlocks a range.
    ///
    /// # Errors
    /// If part of the range is not mapped.
    pub fn munlock(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32, pages: u32) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Mlock);
        let end = start.checked_add(pages).ok_or(Error::Invalid)?;
        self.change_locked(cx, mm, (start, end), false)
    }

    /// Sets or clears the lock of every VMA of a range, and splits those that the range cuts.
    #[doc(alias = "mlock_fixup")]
    #[doc(alias = "apply_vma_lock_flags")]
    fn change_locked(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        range: (u32, u32),
        locked: bool,
    ) -> Result<(), Error> {
        cx.charge(Cost::Syscall, 1);
        self.enter_mm(cx, mm);
        let _guard = mm.mmap_lock.write(cx);
        let (add, remove) = match locked {
            true => (VmaFlags::LOCKED, VmaFlags::empty()),
            false => (VmaFlags::empty(), VmaFlags::LOCKED),
        };
        let (changed, result) = self.change_vma_flags(cx, mm, range, add, remove);
        self.mark_mapped(cx, mm, &changed, locked);
        result
    }

    /// Marks or unmarks the pages that locked VMAs map. Batches of fresh pages are drained before,
    /// so that the pages can be moved; the mlock batch is drained after.
    #[doc(alias = "mlock_vma_pages_range")]
    fn mark_mapped(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vmas: &[Arc<Vma<H>>], locked: bool) {
        self.lru_add_drain(cx);
        for vma in vmas {
            let mut at = vma.start;
            while let Some((table, part)) = mm.next_table(cx.cpu(), at, vma.end) {
                at = part.end;
                let mut last = None;
                let ptes = table.lock(cx.cpu());
                for vpn in part {
                    let pte = ptes.get(vpn);
                    let Some(folio) = self.mapped_folio(pte) else { continue };
                    let page = self.mem.map.page(folio);
                    if folio.is_large() && !page.is_anon() {
                        // A file's folio too, where all of it lies in the VMA; munlock unlocks it
                        // in any case.
                        let frame = pte.pfn().unwrap_or(folio.pfn());
                        let is_due = match locked {
                            true => self.is_locked_whole((folio, frame), vpn, vma.start..vma.end),
                            false => {
                                page.is(PageFlags::MLOCKED) && last.replace(folio) != Some(folio)
                            }
                        };
                        if !is_due {
                            continue;
                        }
                    } else if folio.is_large()
                        // A larger folio is locked as a whole, once, while a leaf maps it.
                        && (ptes.leaf().is_none() || last.replace(folio) == Some(folio))
                    {
                        continue;
                    }
                    match locked {
                        true => self.mlock_page(cx, folio),
                        false => self.munlock_page(cx, folio),
                    }
                }
            }
        }
        self.lru_add_drain(cx);
    }

    /// Faults a range in, as the program's accesses would (`mm_populate`): for writing where the
    /// memory is private and writable. Every page is marked accessed.
    ///
    /// # Errors
    /// As [`Kernel::touch`].
    #[doc(alias = "__mm_populate")]
    #[doc(alias = "mm_populate")]
    #[doc(alias = "populate_vma_page_range")]
    pub(super) fn populate(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        end: u32,
    ) -> Result<(), Error> {
        let vmas: Vec<_> = mm.tables.lock(cx.cpu()).vmas_in(start, end).cloned().collect();
        for vma in vmas {
            let is_private = !vma.flags.contains(VmaFlags::SHARED);
            let access = match is_private && vma.flags.contains(VmaFlags::WRITE) {
                true => Access::Write,
                false => Access::Read,
            };
            for vpn in vma.start.max(start)..vma.end.min(end) {
                self.populate_page(cx, mm, vpn, access)?;
            }
        }
        Ok(())
    }

    fn populate_page(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        access: Access,
    ) -> Result<(), Error> {
        let is_write = access == Access::Write;
        loop {
            let mapped = mm.table_of(cx.cpu(), vpn).and_then(|table| {
                let ptes = table.lock(cx.cpu());
                let pte = ptes.get(vpn);
                let pfn = pte.pfn().filter(|_| !is_write || pte.is_writable())?;
                let folio = self.mem.map.folio(pfn);
                // The entry's reference keeps the page while the table is locked.
                self.mem.map.page(folio).get::<H>(1);
                Some(folio)
            });
            let Some(folio) = mapped else {
                self.fault_in(cx, mm, vpn, access)?;
                continue;
            };
            if !self.is_zero(folio.pfn()) {
                self.mark_accessed(cx, folio);
            }
            self.put_page(cx, folio);
            return Ok(());
        }
    }
}
