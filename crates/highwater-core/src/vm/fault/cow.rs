//! Writes to pages that are mapped read-only (rules/faults#write-protected).
//!
//! There is no fork: an anonymous page has one owner, so a write makes its entry writable. Copies
//! are made of the zero page and of pages of private file mappings.

use super::{Pass, Step};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PAGE_SIZE};
use crate::page_alloc::Gfp;
use crate::units::Error;
use crate::vm::space::Rss;
use crate::vm::{AreaFlags, FlushRange, PageTable, Pte};
use crate::vmstat::{NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// A write met a present entry, `old`, that does not allow it.
    pub(super) fn protected_page(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
    ) -> Result<Step, Error> {
        let cx = pass.cx;
        let Some((folio, old)) = self.get_protected(pass, table, old) else {
            return Ok(Step::Done);
        };
        if self.is_zero(folio.pfn()) {
            return self.copy_fault(pass, table, old, None);
        }
        let is_anon = self.mem.map.page(folio).is_anon();
        if !is_anon && pass.area.flags.contains(AreaFlags::SHARED) {
            return self.shared_upgrade_fault(pass, table, folio);
        }
        let step = match is_anon {
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
    /// page, which needs none); and the entry, which a split of a leaf may have changed: a write is about
    /// one page (rules/huge-pages#leaf-split).
    fn get_protected(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
    ) -> Option<(Folio, Pte)> {
        let mut ptes = table.lock(pass.cx.cpu());
        let now = ptes.get(pass.vpn);
        now.pfn().filter(|_| now.pfn() == old.pfn() && !now.is_writable())?;
        self.split_leaf(pass.cx, pass.space, &mut ptes, pass.vpn);
        let now = ptes.get(pass.vpn);
        let pfn = now.pfn()?;
        let folio = self.mem.map.folio(pfn);
        if !self.is_zero(pfn) {
            self.mem.map.page(folio).get::<H>(1);
        }
        Some((folio, now))
    }

    /// Makes the entry that maps `folio` writable and dirty; false if it is not there any more.
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

    /// Puts a new anonymous page in the place of `source` (none: the zero page), to which the caller
    /// has a reference.
    fn copy_fault(
        &self,
        pass: &mut Pass<'_, '_, H>,
        table: &PageTable<H>,
        old: Pte,
        source: Option<Folio>,
    ) -> Result<Step, Error> {
        let cx = pass.cx;
        let new = match source {
            None => self.alloc_user_page(cx, Gfp::ZERO)?,
            Some(source) => {
                let new = self.alloc_user_page(cx, Gfp::empty())?;
                self.copy_frame(cx, source, new);
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
        self.flush_tlb(cx, pass.space, FlushRange::page(pass.vpn));
        self.map_new_anon(pass, &mut ptes, new);
        if let Some(source) = source {
            Rss::add::<H>(&pass.space.rss.file, -1);
            if self.mem.map.page(source).map_remove::<H>(1) {
                self.mem.account(cx.cpu(), source).minus(NodeStat::Mapped);
            }
            if pass.area.flags.contains(AreaFlags::LOCKED) {
                self.munlock_page(cx, source);
            }
        }
        drop(ptes);
        match source {
            None => cx.charge(Cost::AnonFault, 1),
            Some(source) => {
                cx.charge(Cost::CopyFault, 1);
                // The entry's reference; the caller's keeps the page.
                self.put_page(cx, source);
            }
        }
        Ok(Step::Done)
    }

    /// Copies what a frame holds to another one.
    pub(in crate::vm) fn copy_frame(&self, cx: &Cx<'_, H>, from: Folio, to: Folio) {
        let mut bytes = [0; PAGE_SIZE];
        if H::HAS_DATA {
            cx.host.frame_read(from.pfn(), 0, &mut bytes);
        }
        cx.host.frame_write(to.pfn(), 0, &bytes);
    }
}
