//! Address spaces.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::{Area, AreaFlags, Backing, PageTable, SpaceTask};
use crate::host::{AtomicCpuSet, Cx, Devices, Lock, Tasks};
use crate::kernel::{Error, Kernel};
use crate::page::{Pfn, SpaceId};
use crate::sync::RwSem;
use crate::sync::atomic::{AtomicBool, AtomicU64};

/// Resident pages of an address space, by kind.
#[derive(Debug, Default)]
pub struct Rss {
    /// Anonymous pages.
    pub anon: AtomicU64,
    /// File pages.
    pub file: AtomicU64,
    /// Swap entries.
    pub swap: AtomicU64,
    /// Pages of page tables.
    pub tables: AtomicU64,
}

/// The tables of an address space.
pub struct SpaceTables<H: Tasks> {
    /// Areas by start.
    pub areas: BTreeMap<u32, Area<H>>,
    /// Lowest-level tables by `vpn >> 9`.
    pub tables: BTreeMap<u32, Arc<PageTable<H>>>,
    /// Tables of the second level by `vpn >> 18`: frames.
    pub pmds: BTreeMap<u32, Pfn>,
    /// Tables of the third level by `vpn >> 27`: frames.
    pub puds: BTreeMap<u32, Pfn>,
    /// The top table.
    pub pgd: Option<Pfn>,
    /// Where the next mapping without an address goes.
    pub next_free: u32,
}

/// An address space (an mm).
pub struct Space<H: Tasks> {
    /// Number.
    pub id: SpaceId,
    /// `mmap_lock`.
    pub(crate) mmap_lock: RwSem<H>,
    /// Areas and tables; `Table` class, held for single steps. Changes to areas need `mmap_lock` for
    /// writing.
    pub(crate) tables: H::Lock<SpaceTables<H>>,
    /// Resident pages.
    pub rss: Rss,
    /// CPUs whose TLBs may hold entries of it.
    pub(crate) cpus: AtomicCpuSet,
    /// Reclaim cleared entries and left their flush for later.
    pub(crate) flush_pending: AtomicBool,
    /// Its tasks, for the OOM killer; `Table` class.
    pub(crate) tasks: H::Lock<alloc::vec::Vec<SpaceTask<H>>>,
    /// -1000..=1000.
    pub(crate) oom_score_adj: core::sync::atomic::AtomicI32,
    /// Chosen by the OOM killer.
    pub(crate) is_victim: AtomicBool,
    /// Its anonymous memory was taken by the reaper.
    pub(crate) is_reaped: AtomicBool,
}

impl<H: Devices> Kernel<H> {
    /// A new, empty address space (its top table is allocated).
    ///
    /// # Errors
    /// If there is no memory.
    pub fn create_space(&self, cx: &Cx<'_, H>) -> Result<Arc<Space<H>>, Error> {
        let _ = cx;
        todo!()
    }

    /// An address space by number; none once it is gone.
    pub fn space(&self, cx: &Cx<'_, H>, id: SpaceId) -> Option<Arc<Space<H>>> {
        self.spaces.lock(cx.cpu()).get(&id.0).cloned()
    }

    /// Maps `pages` pages at a free address aligned to `align` pages; the first virtual page.
    ///
    /// # Errors
    /// If the space has no room, or the request is larger than memory and swap together.
    pub fn mmap(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        pages: u32,
        align: u32,
        flags: AreaFlags,
        backing: Backing<H>,
    ) -> Result<u32, Error> {
        let _ = (cx, space, pages, align, flags, backing);
        todo!()
    }

    /// The area around a virtual page.
    pub(crate) fn find_area(&self, cx: &Cx<'_, H>, space: &Space<H>, vpn: u32) -> Option<Area<H>> {
        let _ = (cx, space, vpn);
        todo!()
    }

    /// Says that the running task uses `space` on its CPU (`switch_mm`): the CPU joins the mask and
    /// leaves that of the space it had. Called by every operation of a task on its space.
    pub(crate) fn enter_space(&self, cx: &Cx<'_, H>, space: &Space<H>) {
        let _ = (cx, space);
        todo!()
    }

    /// Ends an address space: everything is unmapped in one go, tables freed, the number retired.
    pub fn exit_space(&self, cx: &Cx<'_, H>, space: &Arc<Space<H>>) {
        let _ = (cx, space);
        todo!()
    }
}
