//! First use of anonymous memory (rules/faults#anon).

use super::{Pass, Step};
use crate::config::AnonStart;
use crate::host::{Cost, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::units::Error;
use crate::vm::huge::Attempt;
use crate::vm::mm::Rss;
use crate::vm::{Pte, Ptes, VmaFlags};
use crate::vmstat::NodeStat;

impl<H: Devices> Kernel<H> {
    /// Handles the first access to anonymous memory: maps the zero page, or a fresh page for a
    /// write.
    ///
    /// Linux: tries a huge page already in `__handle_mm_fault`; here this function tries it first.
    #[doc(alias = "do_anonymous_page")]
    pub(super) fn anon_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let cx = pass.cx;
        let (vma, table) = (&pass.vma, pass.table.as_ref());
        let attempt = self.huge_fault(cx, pass.mm, vma, table, pass.vpn, pass.is_write);
        if attempt == Attempt::Mapped {
            return Ok(Step::Done);
        }
        let table = self.pass_table(pass)?;
        if !pass.is_write {
            let mut ptes = table.lock(cx.cpu());
            if ptes.get(pass.vpn).is_none() {
                // No reference, no mapping, not resident: the zero page is not accounted to the
                // mm.
                ptes.set_bare(false);
                ptes.set(pass.vpn, Pte::new(self.zero_page));
                cx.charge(Cost::SetPte, 1);
            }
            return Ok(Step::Done);
        }
        let folio = self.alloc_user_page(pass, Gfp::ZERO)?;
        let mut ptes = table.lock(cx.cpu());
        if !ptes.get(pass.vpn).is_none() {
            drop(ptes);
            self.put_page(cx, folio);
            return Ok(Step::Done);
        }
        self.map_new_anon(pass, &mut ptes, folio);
        cx.charge(Cost::AnonFault, 1);
        Ok(Step::Done)
    }

    /// Makes a fresh page anonymous memory of the fault's address: mapping, list, counts, and the
    /// entry, which takes over the caller's reference. The entry is dirty, the page is not.
    ///
    /// It runs under the table's lock, so that no task unmaps the page before it is on its list.
    #[doc(alias = "folio_add_new_anon_rmap")]
    #[doc(alias = "page_add_new_anon_rmap")]
    pub(super) fn map_new_anon(
        &self,
        pass: &Pass<'_, '_, H>,
        ptes: &mut Ptes<'_, H>,
        folio: Folio,
    ) {
        let (cx, mm, vma) = (pass.cx, pass.mm, &pass.vma);
        let page = self.mem.map.page(folio);
        let mut flags = PageFlags::SWAPBACKED | PageFlags::UPTODATE;
        if self.mem.policy.reclaim.anon_new == AnonStart::Active {
            flags |= PageFlags::ACTIVE;
        }
        page.init_flags(flags);
        page.set_mapping(PageMapping::Anon(mm.id), pass.vpn);
        page.map_add::<H>(1);
        Rss::add::<H>(&mm.rss.anon, 1);
        self.mem.account(cx.cpu(), folio).plus(NodeStat::AnonPages);
        if vma.flags.contains(VmaFlags::LOCKED) {
            self.mlock_new_page(cx, folio);
        } else {
            self.lru_add(cx, folio);
        }
        let is_writable = vma.flags.contains(VmaFlags::WRITE);
        let pte = Pte::new(folio.pfn()).with_writable(is_writable).with_dirty(is_writable);
        ptes.set_bare(false);
        ptes.set(pass.vpn, pte);
        cx.charge(Cost::SetPte, 1);
    }
}
