//! Address spaces: creating, entering, ending; the frames of their page tables.
//!
//! Key types: [`Mm`] (an mm), [`Rss`] (its resident pages). Its VMAs are in [`super::mapping`];
//! the radix tree of its tables is in [`super::tables`].
//!
//! Synchronisation: see [`super`]. The sets of CPUs change when a CPU switches to another mm, on
//! that CPU.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::mm_list::LOOKED_AT;
use super::process::ProcessMemory;
use super::tables::Level;
use super::{MmTables, MmTask, PageTable, Pte, Vma};
use crate::host::{AtomicCpuSet, CpuId, Cx, Devices, Host, Lock, Tasks};
use crate::kernel::Kernel;
use crate::memcg::Uncharge;
use crate::page::{Folio, MmId, Order, PageFlags, Pfn};
use crate::page_alloc::{Gfp, Wish};
use crate::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use crate::sync::changes::Changes;
use crate::sync::order::LockClass;
use crate::units::{Error, GroupId};
use crate::vmstat::NodeStat;
use crate::wait::{RwSem, RwSemRules};

/// Resident pages of an address space, by kind.
#[doc(alias = "mm_rss_stat")]
#[derive(Debug, Default)]
pub struct Rss {
    /// Anonymous pages.
    pub anon: AtomicU64,
    /// File pages.
    pub file: AtomicU64,
    /// Swap entries.
    pub swap: AtomicU64,
    /// Pages of page tables, the top one excepted.
    pub tables: AtomicU64,
}

impl Rss {
    /// Changes one of the counts.
    #[inline(always)]
    pub(crate) fn add<H: Host>(count: &AtomicU64, delta: i64) {
        if H::THREADED {
            count.fetch_add(delta as u64, Relaxed);
        } else {
            count.store(count.load(Relaxed).wrapping_add(delta as u64), Relaxed);
        }
    }

    /// Pages in memory, page tables excepted.
    pub fn resident(&self) -> u64 {
        self.anon.load(Relaxed) + self.file.load(Relaxed)
    }
}

/// An address space (an mm): VMAs, page tables, RSS, and the CPUs that use it.
#[doc(alias = "mm_struct")]
pub struct Mm<H: Tasks> {
    /// Number.
    pub id: MmId,
    /// `mmap_lock`.
    pub(crate) mmap_lock: RwSem<H>,
    /// VMAs and tables; `Table` class, held for single steps. Changes to VMAs need `mmap_lock` for
    /// writing.
    pub(crate) tables: H::Lock<MmTables<H>>,
    /// How often these changed ([`MmTables::changes`]).
    pub(super) table_changes: Changes,
    /// Resident pages.
    pub rss: Rss,
    /// CPUs whose TLBs may hold entries of it.
    pub(crate) cpus: AtomicCpuSet,
    /// khugepaged looks at it.
    pub(crate) has_khugepaged: AtomicBool,
    /// Reclaim cleared entries and left their flush for later.
    pub(crate) flush_pending: AtomicBool,
    /// Its tasks, for the OOM killer; `Table` class.
    pub(crate) tasks: H::Lock<Vec<MmTask<H>>>,
    /// -1000..=1000.
    pub(crate) oom_score_adj: core::sync::atomic::AtomicI32,
    /// Chosen by the OOM killer.
    pub(crate) is_victim: AtomicBool,
    /// The memory of its process, if a fork created it; `Table` class.
    pub(crate) process: H::Lock<Option<ProcessMemory>>,
    /// The mms from which it was forked, oldest first: it may map their pages. Empty for most
    /// mms.
    pub(crate) ancestors: Vec<MmId>,
    /// Its anonymous memory was taken by the reaper.
    pub(crate) is_reaped: AtomicBool,
    /// What reports call it; `Table` class.
    pub(crate) name: H::Lock<Option<Arc<str>>>,
    /// The memory cgroup of its tasks.
    group: AtomicU16,
    /// A bit a node: a task ran in it since the node's aging last looked
    /// ([`Kernel::is_to_age`]).
    pub(super) ran: AtomicU64,
}

/// Which level a table belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// PGD: one an mm.
    Top,
    /// PUD, 512 GiB.
    Third,
    /// PMD, 1 GiB.
    Second,
    /// PTE, 2 MiB.
    Lowest,
}

impl TableKind {
    /// True if `nr_page_table_pages` counts it (rules/faults#page-tables).
    const fn is_counted(self) -> bool {
        matches!(self, TableKind::Second | TableKind::Lowest)
    }
}

impl<H: Tasks> Mm<H> {
    /// Virtual pages are below this: 31 times 512 GiB, the largest multiple that page numbers of 32
    /// bits allow.
    pub const TOP: u32 = 31 << 27;
    /// Where mappings start by default: 1 GiB, which leaves room for a program's image.
    pub const BASE: u32 = 1 << 18;

    fn new(host: &H, rules: RwSemRules, id: MmId, pgd: Pfn, ancestors: Vec<MmId>) -> Self {
        let tables = MmTables::new(pgd, Self::BASE);
        Mm {
            id,
            process: host.new_lock(LockClass::Table, None),
            ancestors,
            mmap_lock: RwSem::new(host, rules, "an address space (mmap_lock)"),
            table_changes: tables.changes().clone(),
            tables: host.new_lock(LockClass::Table, tables),
            rss: Rss::default(),
            cpus: AtomicCpuSet::default(),
            has_khugepaged: AtomicBool::new(false),
            flush_pending: AtomicBool::new(false),
            tasks: host.new_lock(LockClass::Table, Vec::new()),
            oom_score_adj: core::sync::atomic::AtomicI32::new(0),
            is_victim: AtomicBool::new(false),
            is_reaped: AtomicBool::new(false),
            name: host.new_lock(LockClass::Table, None),
            group: AtomicU16::new(0),
            ran: AtomicU64::new(0),
        }
    }

    /// The number of its process: that of the mm, from 1.
    pub fn pid(&self) -> u32 {
        self.id.0 + 1
    }

    /// The memory cgroup that its anonymous memory is charged to: that of its tasks.
    #[doc(alias = "get_mem_cgroup_from_mm")]
    #[inline(always)]
    pub fn group(&self) -> GroupId {
        GroupId(self.group.load(Relaxed))
    }

    /// Moves the tasks to a group. Pages that they already have stay charged to the old one.
    pub(crate) fn set_group(&self, group: GroupId) {
        self.group.store(group.0, Relaxed);
    }

    /// The OOM killer may choose it.
    pub(crate) fn is_killable(&self) -> bool {
        self.oom_score_adj.load(Relaxed) > -1000
    }

    /// The lowest table of a virtual page, if there is one.
    #[inline]
    pub fn table_of(&self, cpu: CpuId, vpn: u32) -> Option<Arc<PageTable<H>>> {
        self.tables.lock(cpu).table(vpn).cloned()
    }

    /// Pages of all VMAs.
    pub fn total_pages(&self, cpu: CpuId) -> u64 {
        self.tables.lock(cpu).all_vmas().map(|vma| u64::from(vma.end - vma.start)).sum()
    }

    /// Finds the VMA around a virtual page.
    #[doc(alias = "find_vma")]
    #[doc(alias = "vma_lookup")]
    #[inline]
    pub fn vma_of(&self, cpu: CpuId, vpn: u32) -> Option<Arc<Vma<H>>> {
        self.tables.lock(cpu).vma(vpn).cloned()
    }
}

impl<H: Devices> Kernel<H> {
    /// Makes an empty address space with its top table.
    ///
    /// # Errors
    /// If there is no memory.
    #[doc(alias = "mm_alloc")]
    pub fn create_mm(&self, cx: &Cx<'_, H>) -> Result<Arc<Mm<H>>, Error> {
        self.create_descendant(cx, Vec::new())
    }

    /// The same, for an mm that will map pages of others.
    pub(super) fn create_descendant(
        &self,
        cx: &Cx<'_, H>,
        ancestors: Vec<MmId>,
    ) -> Result<Arc<Mm<H>>, Error> {
        let pgd = self.alloc_table_frame(cx).ok_or(Error::NoMemory)?;
        let id = MmId(self.next_mm.fetch_add(1, Relaxed));
        let mm = Arc::new(Mm::new(cx.host, self.mem.policy.locks.rwsem(), id, pgd, ancestors));
        mm.set_group(self.group_of_task(cx));
        // Before it maps anything, because reverse mapping must find it.
        self.join_family(cx, &mm);
        self.mms.lock(cx.cpu()).insert(id.0, Arc::clone(&mm));
        Ok(mm)
    }

    /// An address space by number; none once it is gone.
    pub fn mm(&self, cx: &Cx<'_, H>, id: MmId) -> Option<Arc<Mm<H>>> {
        self.mms.lock(cx.cpu()).get(&id.0).cloned()
    }

    /// Switches the CPU to the running task's address space (`switch_mm`): the CPU joins its mask
    /// and leaves that of the mm it had. Called by every operation of a task on its mm.
    #[doc(alias = "switch_mm")]
    #[inline(always)]
    pub(crate) fn enter_mm(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        if !self.is_entered(cx, mm) {
            self.switch_mm(cx, mm);
        }
    }

    /// True if the CPU has this mm, and had it after the last look of aging at it
    /// ([`Kernel::is_to_age`]).
    #[inline(always)]
    pub(crate) fn is_entered(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> bool {
        self.cpu_mm[cx.cpu().idx()].load(Relaxed) == mm.id.0 + 1
    }

    #[cold]
    #[inline(never)]
    fn switch_mm(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        let cpu = cx.cpu();
        mm.cpus.insert(cpu);
        mm.note_run();
        let before = self.cpu_mm[cpu.idx()].swap(mm.id.0 + 1, Relaxed) & !LOOKED_AT;
        let before = before.checked_sub(1).filter(|&id| id != mm.id.0);
        if let Some(before) = before.and_then(|id| self.mm(cx, MmId(id))) {
            before.cpus.remove(cpu);
        }
    }

    /// Ends an address space without users: unmaps everything in one go, frees its tables and
    /// retires its number.
    #[doc(alias = "mmput")]
    #[doc(alias = "__mmput")]
    pub(crate) fn destroy_mm(&self, cx: &Cx<'_, H>, mm: &Arc<Mm<H>>) {
        self.enter_mm(cx, mm);
        self.khugepaged_exit(cx, mm);
        self.unmap_mm(cx, mm);
        let cpu = cx.cpu();
        self.mms.lock(cpu).remove(&mm.id.0);
        self.leave_family(cx, mm);
        // The CPU continues without an address space, like a kernel thread.
        mm.cpus.remove(cpu);
        self.cpu_mm[cpu.idx()].store(0, Relaxed);
        let pgd = mm.tables.lock(cpu).pgd.take();
        if let Some(pgd) = pgd {
            self.free_table_frame(cx, mm, pgd, TableKind::Top);
        }
        self.drop_process_memory(cx, mm);
    }
}

/// What entries map.
impl<H: Devices> Kernel<H> {
    /// Returns the folio that an entry maps; none if it maps nothing or the zero page, which has no
    /// folio.
    #[doc(alias = "vm_normal_page")]
    #[inline(always)]
    pub(crate) fn mapped_folio(&self, pte: Pte) -> Option<Folio> {
        let pfn = pte.pfn().filter(|&pfn| !self.is_zero(pfn))?;
        Some(self.mem.map.folio(pfn))
    }
}

/// Frames of page tables.
impl<H: Devices> Kernel<H> {
    fn alloc_table_frame(&self, cx: &Cx<'_, H>) -> Option<Pfn> {
        let gfp = Gfp::GFP_KERNEL | Gfp::ZERO;
        let pfn = self.mem.alloc_wished(cx, self, gfp, Order::ZERO, Wish::Task)?;
        if !self.charge_kernel(cx, pfn, 1, gfp) {
            let freed = self.mem.free(cx, pfn, Order::ZERO);
            debug_assert!(freed.is_ok(), "nobody knew the table: {freed:?}");
            return None;
        }
        self.mem.map.page(pfn).init_flags(PageFlags::TABLE);
        Some(pfn)
    }

    fn count_table(&self, cx: &Cx<'_, H>, mm: &Mm<H>, pfn: Pfn, kind: TableKind, delta: i64) {
        if kind.is_counted() {
            let account = self.mem.account(cx.cpu(), Folio::page(pfn));
            match delta {
                0.. => account.plus(NodeStat::PageTablePages),
                _ => account.minus(NodeStat::PageTablePages),
            };
        }
        if kind != TableKind::Top {
            Rss::add::<H>(&mm.rss.tables, delta);
        }
    }

    /// A removed table is about to be freed: subtracts it from the count.
    pub(crate) fn uncount_table(&self, cx: &Cx<'_, H>, mm: &Mm<H>, pfn: Pfn, kind: TableKind) {
        self.count_table(cx, mm, pfn, kind, -1);
        self.uncharge_kernel(cx, pfn, 1, Uncharge::AtOnce);
    }

    /// Uncounts and frees a table's frame at once.
    pub(crate) fn free_table_frame(&self, cx: &Cx<'_, H>, mm: &Mm<H>, pfn: Pfn, kind: TableKind) {
        self.uncount_table(cx, mm, pfn, kind);
        let freed = self.mem.free(cx, pfn, Order::ZERO);
        debug_assert!(freed.is_ok(), "a page table was shared: {freed:?}");
    }

    /// Makes the upper tables that a virtual page needs; false if there is no memory.
    #[must_use]
    pub(super) fn make_upper_tables(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vpn: u32) -> bool {
        loop {
            let missing = mm.tables.lock(cx.cpu()).missing_level(vpn);
            let Some(level) = missing else { return true };
            let kind = match level {
                Level::Pud => TableKind::Third,
                Level::Pmd => TableKind::Second,
            };
            let Some(pfn) = self.alloc_table_frame(cx) else { return false };
            self.count_table(cx, mm, pfn, kind, 1);
            let is_used = mm.tables.lock(cx.cpu()).insert_upper(level, vpn, pfn);
            if !is_used {
                self.free_table_frame(cx, mm, pfn, kind);
            }
        }
    }

    /// Returns the lowest page table of a virtual page, made if need be; none if there is no
    /// memory.
    #[doc(alias = "__pte_alloc")]
    pub(crate) fn make_table(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
    ) -> Option<Arc<PageTable<H>>> {
        self.make_lowest_table(cx, mm, vpn, PageTable::new)
    }

    /// As [`Self::make_table`], for a leaf: a new table is bare.
    pub(super) fn make_leaf_table(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
    ) -> Option<Arc<PageTable<H>>> {
        self.make_lowest_table(cx, mm, vpn, PageTable::new_bare)
    }

    fn make_lowest_table(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        table: fn(&H, Pfn) -> PageTable<H>,
    ) -> Option<Arc<PageTable<H>>> {
        if let Some(table) = mm.table_of(cx.cpu(), vpn) {
            return Some(table);
        }
        if !self.make_upper_tables(cx, mm, vpn) {
            return None;
        }
        let pfn = self.alloc_table_frame(cx)?;
        self.count_table(cx, mm, pfn, TableKind::Lowest, 1);
        let new = || Arc::new(table(cx.host, pfn));
        let there = mm.tables.lock(cx.cpu()).insert_table(vpn, new);
        // The upper tables stay while any task holds the lock of the mm.
        let (table, is_new) = there?;
        if !is_new {
            self.free_table_frame(cx, mm, pfn, TableKind::Lowest);
        }
        Some(table)
    }
}
