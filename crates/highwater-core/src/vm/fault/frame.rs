//! What all faults share (rules/faults#frame), and how a page is entered into a table.

use alloc::sync::Arc;

use super::{Access, Fault, Pass, Step};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::memcg::Charge;
use crate::page::{Folio, Order, Pfn};
use crate::page_alloc::Gfp;
use crate::units::Error;
use crate::vm::mm::Rss;
use crate::vm::{Backing, Mm, PageTable, Pte, Ptes, VmaFlags};
use crate::vmstat::{GroupStat, NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Handles a page fault: charges the exception, then runs the handler until the access can be
    /// tried again.
    ///
    /// Linux: the common part of each architecture's handler.
    #[doc(alias = "do_user_addr_fault")]
    #[inline(never)]
    pub(super) fn fault(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        access: Access,
    ) -> Result<Fault, Error> {
        let _phase = cx.phase(Phase::Fault);
        cx.charge(Cost::FaultEntry, 1);
        let went = self.fault_in(cx, mm, vpn, access);
        self.return_to_user(cx);
        went
    }

    /// Faults a page in on behalf of the kernel: no exception is taken.
    #[doc(alias = "fixup_user_fault")]
    pub(in crate::vm) fn fault_in(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        access: Access,
    ) -> Result<Fault, Error> {
        let mut is_retry = false;
        self.forget_refusal(cx);
        loop {
            let lock = mm.mmap_lock.read(cx);
            let (vma, table) = {
                let tables = mm.tables.lock(cx.cpu());
                (tables.vma(vpn).cloned(), tables.table(vpn).cloned())
            };
            let is_write = access == Access::Write;
            let vma = vma.filter(|vma| vma.allows(is_write)).ok_or(Error::Fault)?;
            let (is_major, lock) = (false, Some(lock));
            let mut pass = Pass { cx, mm, vma, table, vpn, is_write, is_retry, is_major, lock };
            if !is_retry || self.mem.policy.fault.count_retries {
                self.mem.events.add(cx.cpu(), VmEvent::Pgfault, 1);
                self.count_of_task(cx, GroupStat::Pgfault);
            }
            let step = match self.handle_used_fault(&mut pass) {
                Ok(step) => step,
                Err(Error::NoMemory) if self.waits_in_group_oom(&mut pass) => {
                    is_retry = true;
                    continue;
                }
                Err(error) => return Err(Self::fate(cx, error)),
            };
            // A task that had to wait counts a major fault, even if another task did the reading.
            let went = match pass.is_major || is_retry {
                true => Fault::Major,
                false => Fault::Minor,
            };
            match step {
                Step::Done => return Ok(went),
                Step::Retry if cx.is_dying() => return Err(Error::Killed),
                Step::Retry => is_retry = true,
            }
        }
    }

    /// Handles a fault; under MGLRU the pages that it brings count as used, unless the VMA has no
    /// recency.
    #[doc(alias = "lru_gen_enter_fault")]
    #[inline]
    fn handle_used_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let flags = pass.vma.flags;
        let is_read_in_order = flags.intersects(VmaFlags::SEQ_READ | VmaFlags::RAND_READ);
        if !self.is_mglru() || is_read_in_order || !self.has_recency(flags) {
            return self.handle_fault(pass);
        }
        pass.cx.with_flag(TaskFlags::LRU_FAULT, || self.handle_fault(pass))
    }

    /// No memory was to be had for a fault: true if the task waited until its group has some.
    #[cold]
    fn waits_in_group_oom(&self, pass: &mut Pass<'_, '_, H>) -> bool {
        drop((pass.table.take(), pass.lock.take()));
        self.waits_for_group_memory(pass.cx)
    }

    /// The allocator fails a task only if no victim is left, or if the task is the victim.
    fn fate(cx: &Cx<'_, H>, error: Error) -> Error {
        let dying = TaskFlags::OOM_VICTIM | TaskFlags::FATAL_SIGNAL;
        match error {
            Error::NoMemory if cx.flags().intersects(dying) => Error::Killed,
            other => other,
        }
    }

    /// Chooses the handler of a fault by the page table entry.
    ///
    /// Linux: `handle_mm_fault` also counts `pgfault`, which is counted before here.
    #[doc(alias = "handle_mm_fault")]
    #[doc(alias = "__handle_mm_fault")]
    #[doc(alias = "handle_pte_fault")]
    fn handle_fault(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let Some(table) = pass.table.take() else {
            if !self.make_upper_tables(pass.cx, pass.mm, pass.vpn) {
                return Err(Error::NoMemory);
            }
            return self.missing_page(pass);
        };
        let pte = table.peek(pass.vpn);
        if pte.is_none() {
            pass.table = Some(table);
            return self.missing_page(pass);
        }
        if let Some(from) = pte.moving_from() {
            self.wait_for_move(pass.cx, from, || table.peek(pass.vpn) != pte);
            return Ok(Step::Done);
        }
        if let Some(slot) = pte.slot() {
            return self.swap_fault(pass, &table, pte, slot);
        }
        if pass.is_write && !pte.is_writable() {
            return self.protected_page(pass, &table, pte);
        }
        // Somebody else's fault was faster.
        Ok(Step::Done)
    }

    /// Handles a fault where no page is: anonymous, or by the kind of the file mapping and of the
    /// access.
    ///
    /// Linux: `handle_pte_fault` calls the handler of anonymous memory, which is called here.
    #[doc(alias = "do_fault")]
    fn missing_page(&self, pass: &mut Pass<'_, '_, H>) -> Result<Step, Error> {
        let is_shared = pass.vma.flags.contains(VmaFlags::SHARED);
        match &pass.vma.backing {
            Backing::Anon => self.anon_fault(pass),
            Backing::File { .. } if !pass.is_write => self.file_read_fault(pass),
            Backing::File { .. } if is_shared => self.shared_write_fault(pass),
            Backing::File { .. } => self.private_write_fault(pass),
        }
    }

    /// The lowest table of the fault's page, made if need be.
    pub(super) fn pass_table(
        &self,
        pass: &mut Pass<'_, '_, H>,
    ) -> Result<Arc<PageTable<H>>, Error> {
        match pass.table.take() {
            Some(table) => Ok(table),
            None => self.make_table(pass.cx, pass.mm, pass.vpn).ok_or(Error::NoMemory),
        }
    }

    /// Allocates a page for the fault's address: on the memory policy's node, or else on the local
    /// one. `also`: [`Gfp::ZERO`] or nothing.
    #[inline]
    pub(super) fn alloc_user_page(
        &self,
        pass: &Pass<'_, '_, H>,
        also: Gfp,
    ) -> Result<Folio, Error> {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE | also;
        let wish = pass.vma.wish(pass.vpn);
        let folio = self.mem.alloc_folio_wished(pass.cx, self, gfp, Order::ZERO, wish);
        let folio = folio.ok_or(Error::NoMemory)?;
        if pass.mm.group().is_root() || self.charge_user_page(pass, folio) {
            return Ok(folio);
        }
        Err(Error::NoMemory)
    }

    /// Charges a new page to the group of its address space; if the limit refuses, the page is
    /// freed.
    #[inline(never)]
    fn charge_user_page(&self, pass: &Pass<'_, '_, H>, folio: Folio) -> bool {
        let is_charged = self.charge_folio(pass.cx, folio, pass.mm.group(), Gfp::GFP_KERNEL);
        if !is_charged {
            self.put_page(pass.cx, folio);
        }
        is_charged
    }

    /// Stores an entry for a page that is in memory already; the caller's reference becomes the
    /// entry's. Counts the mapping: an entry maps one page, whatever its folio.
    pub(super) fn map_page(
        &self,
        pass: &Pass<'_, '_, H>,
        ptes: &mut Ptes<'_, H>,
        folio: Folio,
        pte: Pte,
    ) {
        let page = self.mem.map.page(folio);
        match page.is_anon() {
            true => {
                Rss::add::<H>(&pass.mm.rss.anon, 1);
                if page.map_add::<H>(1) {
                    self.mem.account(pass.cx.cpu(), folio).plus(NodeStat::AnonPages);
                }
            }
            false => {
                Rss::add::<H>(&pass.mm.rss.file, 1);
                self.map_file_frame(pass.cx, folio, pte.pfn().unwrap_or(folio.pfn()));
            }
        }
        if pass.vma.flags.contains(VmaFlags::LOCKED) && !folio.is_large() {
            self.mlock_page(pass.cx, folio);
        }
        ptes.set(pass.vpn, pte);
    }

    /// An entry more maps a frame of a file's folio.
    pub(in crate::vm) fn map_file_frame(&self, cx: &Cx<'_, H>, folio: Folio, frame: Pfn) {
        if self.mem.map.map_frame::<H>(folio, frame) {
            self.mem.account(cx.cpu(), folio).of_pages(1).plus(NodeStat::Mapped);
        }
    }
}
