//! Writes to pages that are mapped read-only (rules/faults#write-protected).
//!
//! If one address space alone has the anonymous page, the write makes its entry writable. If
//! address spaces share the page since a fork, a write copies it, unless the others have gone
//! meanwhile. The zero page and pages of private file mappings are copied too.

use super::{Pass, Step};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PAGE_SIZE, PageFlags, PageMapping, Pfn};
use crate::page_alloc::Gfp;
use crate::units::Error;
use crate::vm::mm::Rss;
use crate::vm::{FlushRange, PageTable, Pte, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Handles a write to a present, write-protected entry, `old`: reuses the page or copies it.
    #[doc(alias = "do_wp_page")]
    pub(super) fn protected_page(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
    ) -> Result<Step, Error> {
        let cx = pass.cx;
        if let Some(step) = self.protected_leaf(pass, table) {
            return Ok(step);
        }
        let Some((folio, old)) = self.get_protected(pass, table, old) else {
            return Ok(Step::Done);
        };
        if self.is_zero(folio.pfn()) {
            return self.copy_fault(pass, table, old, None);
        }
        let is_anon = self.mem.map.page(folio).is_anon();
        if !is_anon && pass.vma.flags.contains(VmaFlags::SHARED) {
            return self.shared_upgrade_fault(pass, table, folio);
        }
        // The entry may map any page of a huge page, whose index is that of the first one.
        let at = old.pfn().map_or(0, |pfn| pfn.0 - folio.pfn().0);
        let index = pass.vpn.wrapping_sub(at);
        let step = match is_anon && self.is_alone(pass, folio, index, 1) {
            true => {
                self.make_writable(pass, table, folio);
                Ok(Step::Done)
            }
            false => self.copy_fault(pass, table, old, Some(folio)),
        };
        self.put_page(cx, folio);
        step
    }

    /// The page of an entry that is still `old` and read-only, with a reference (not for the zero
    /// page, which needs none); and the entry, which a split of a leaf may have changed: a write is
    /// about one page where [`Kernel::protected_leaf`] did not see to all of them
    /// (rules/huge-pages#write).
    fn get_protected(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
    ) -> Option<(Folio, Pte)> {
        let mut ptes = table.lock(pass.cx.cpu());
        let now = ptes.get(pass.vpn);
        now.pfn().filter(|_| now.pfn() == old.pfn() && !now.is_writable())?;
        self.split_leaf(pass.cx, pass.mm, &mut ptes, pass.vpn, pass.vma.flags);
        let now = ptes.get(pass.vpn);
        let pfn = now.pfn()?;
        let folio = self.mem.map.folio(pfn);
        if !self.is_zero(pfn) {
            self.mem.map.page(folio).get::<H>(1);
        }
        Some((folio, now))
    }

    /// True if no other user has an anonymous folio that the caller's entry maps; the folio then
    /// belongs to the writer (rules/faults#copy-or-reuse). The entry has `held` references (one per
    /// page), and the caller has one more. `index`: the virtual page of the folio's first page.
    pub(super) fn is_alone(
        &self,
        pass: &Pass<'_, '_, H>,
        folio: Folio,
        index: u32,
        held: u32,
    ) -> bool {
        let (cx, page) = (pass.cx, self.mem.map.page(folio));
        if !page.is(PageFlags::FORKED) {
            return true;
        }
        // References besides the caller's: the entry (counts as one), the swap cache, a per-CPU
        // batch. The swap cache has 512 references to a huge page, so that page is shared.
        let others = || page.refcount().saturating_sub(held);
        if others() > 3 {
            return false;
        }
        if !page.is(PageFlags::LRU) {
            self.lru_add_drain(cx);
        }
        if others() > 1 + u32::from(page.is(PageFlags::SWAPCACHE)) || !self.try_lock_page(folio) {
            return false;
        }
        if page.is(PageFlags::SWAPCACHE) {
            self.free_swap_cache(cx, folio, false);
        }
        let is_alone = others() == 1;
        if is_alone {
            page.set_mapping(PageMapping::Anon(pass.mm.id), index);
            page.flag_clear::<H>(PageFlags::FORKED);
        }
        self.unlock_page(cx, folio);
        is_alone
    }

    /// Makes the entry that maps `folio` writable and dirty; false if it is not there any more.
    #[doc(alias = "wp_page_reuse")]
    pub(super) fn make_writable(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        folio: Folio,
    ) -> bool {
        let cx = pass.cx;
        let mut ptes = table.lock(cx.cpu());
        let pte = ptes.get(pass.vpn);
        let is_there = ptes.maps(pass.vpn, folio);
        if is_there {
            ptes.set(pass.vpn, pte.with_young(true).with_writable(true).with_dirty(true));
            cx.charge(Cost::SetPte, 1);
            self.mem.events.add(cx.cpu(), VmEvent::Pgreuse, 1);
        }
        is_there
    }

    /// Copies `source` (none: the zero page) to a new anonymous page and maps that instead.
    #[doc(alias = "wp_page_copy")]
    fn copy_fault(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
        source: Option<Folio>,
    ) -> Result<Step, Error> {
        let cx = pass.cx;
        let new = match source {
            None => self.alloc_user_page(pass, Gfp::ZERO)?,
            Some(source) => {
                let new = self.alloc_user_page(pass, Gfp::empty())?;
                self.copy_frame(cx, old.pfn().unwrap_or(source.pfn()), new);
                new
            }
        };
        let mut ptes = table.lock(cx.cpu());
        if ptes.get(pass.vpn).pfn() != old.pfn() {
            drop(ptes);
            self.put_page(cx, new);
            return Ok(Step::Done);
        }
        ptes.take(pass.vpn);
        self.flush_tlb(cx, pass.mm, FlushRange::page(pass.vpn));
        self.map_new_anon(pass, &mut ptes, new);
        if let Some(source) = source {
            let page = self.mem.map.page(source);
            let frame = old.pfn().unwrap_or(source.pfn());
            if !page.is_anon() {
                Rss::add::<H>(&pass.mm.rss.file, -1);
                if self.mem.map.unmap_frame::<H>(source, frame) {
                    self.mem.account(cx.cpu(), source).of_pages(1).minus(NodeStat::Mapped);
                }
            } else {
                Rss::add::<H>(&pass.mm.rss.anon, -1);
                if page.map_remove::<H>(1) {
                    self.mem.account(cx.cpu(), source).minus(NodeStat::AnonPages);
                } else if source.is_large() {
                    // This part may be unmapped everywhere now.
                    self.queue_if_partly_mapped(cx, source, frame.0..frame.0 + 1);
                }
            }
            if pass.vma.flags.contains(VmaFlags::LOCKED) {
                self.munlock_page(cx, source);
            }
        }
        drop(ptes);
        match source {
            None => cx.charge(Cost::AnonFault, 1),
            Some(source) => {
                cx.charge(Cost::CopyFault, 1);
                self.try_free_swap_cache(cx, source);
                // The entry's reference; the caller's keeps the page.
                self.put_page(cx, source);
            }
        }
        Ok(Step::Done)
    }

    /// Copies what a frame holds to another one.
    #[doc(alias = "copy_user_highpage")]
    pub(crate) fn copy_frame(&self, cx: &Cx<'_, H>, from: Pfn, to: Folio) {
        let mut bytes = [0; PAGE_SIZE];
        if H::HAS_DATA {
            cx.host.frame_read(from, 0, &mut bytes);
        }
        cx.host.frame_write(to.pfn(), 0, &bytes);
    }
}
