//! Tests of unmapping, reverse mapping, aging and madvise on the [`Solo`] host.
//!
//! Pages are mapped directly, without the fault path, so that a test defines the exact state of a
//! page before it is unmapped.

mod aging;
mod fork;
mod huge;
mod look_around;
mod madvise;
mod rmap;
mod unmap;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Backing, Mm, Pte, Rss, Vma, VmaFlags};
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{Machine, Policy, preset};
use crate::host::{CpuId, Cx, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::page::{Folio, Order, Page, PageFlags, PageMapping, Pfn};
use crate::page_alloc::Gfp;
use crate::page_alloc::boot;
use crate::page_cache::{File, FileSpec, Filesystem, OpenFile};
use crate::swap::SwapSpec;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const FILE_PAGES: u32 = 4096;

/// A kernel with one address space, used by the only task, a file, and a swap area.
struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
    open: Arc<OpenFile<Solo>>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo) -> Self {
        Stage::with(host, 256, preset("6.1").unwrap())
    }

    fn with(host: &'h Solo, mib: u64, policy: Policy) -> Self {
        let machine = Machine::from_sizes("stage", &[(mib << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &policy).unwrap();
        let disk = DeviceSpec::nvme(1 << 20);
        let swap = SwapSpec { device: DeviceId(1), pages: 1 << 16, priority: 0 };
        let spec = KernelSpec { devices: vec![disk.clone(), disk], swap: vec![swap], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let file = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, FILE_PAGES);
        let open = kernel.open(&cx, &kernel.create_file(&cx, file));
        Stage { cx, kernel, mm, open }
    }

    fn page(&self, folio: Folio) -> &Page {
        self.kernel.mem.map.page(folio)
    }

    fn file(&self) -> &Arc<File<Solo>> {
        &self.open.file
    }

    /// A region of anonymous memory, aligned to a table.
    fn anon_region(&self, pages: u32, more: VmaFlags) -> u32 {
        let flags = VmaFlags::READ | VmaFlags::WRITE | more;
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, Backing::Anon).unwrap()
    }

    /// A shared mapping of the file from its start, aligned to a table.
    fn file_region(&self, pages: u32, more: VmaFlags) -> u32 {
        let flags = VmaFlags::READ | VmaFlags::SHARED | more;
        let backing = Backing::File { open: Arc::clone(&self.open), page: 0 };
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, flags, backing).unwrap()
    }

    fn frame(&self) -> Folio {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        self.kernel.mem.alloc_folio(&self.cx, &self.kernel, gfp, Order::ZERO, NodeId(0)).unwrap()
    }

    fn set_pte(&self, vpn: u32, pte: Pte) {
        let table = self.kernel.make_table(&self.cx, &self.mm, vpn).unwrap();
        table.lock(CPU).set(vpn, pte);
    }

    fn pte(&self, vpn: u32) -> Pte {
        self.mm.table_of(CPU, vpn).map_or(Pte::NONE, |table| table.peek(vpn))
    }

    /// Maps a fresh anonymous page, young and dirty, as a write fault does.
    fn map_anon(&self, vpn: u32) -> Folio {
        let folio = self.frame();
        let page = self.page(folio);
        page.init_flags(PageFlags::SWAPBACKED | PageFlags::UPTODATE);
        page.set_mapping(PageMapping::Anon(self.mm.id), vpn);
        page.map_add::<Solo>(1);
        self.kernel.mem.node(NodeId(0)).stats.add(CPU, NodeStat::AnonPages as usize, 1);
        Rss::add::<Solo>(&self.mm.rss.anon, 1);
        self.set_pte(vpn, Pte::new(folio.pfn()).with_writable(true).with_dirty(true));
        self.kernel.lru_add(&self.cx, folio);
        folio
    }

    /// A clean page of the file, in the page cache and on its list.
    fn cache(&self, index: u32) -> Folio {
        let folio = self.frame();
        let gfp = Gfp::GFP_KERNEL;
        assert!(self.kernel.add_to_page_cache(&self.cx, self.file(), index, folio, gfp).is_ok());
        self.page(folio).flag_set::<Solo>(PageFlags::UPTODATE);
        self.kernel.unlock_page(&self.cx, folio);
        self.kernel.put_page(&self.cx, folio);
        folio
    }

    /// Maps a cached page, young and clean, as a read fault does.
    fn map_file(&self, vpn: u32, folio: Folio) {
        let page = self.page(folio);
        page.get::<Solo>(1);
        if page.map_add::<Solo>(1) {
            self.kernel.mem.node(NodeId(0)).stats.add(CPU, NodeStat::Mapped as usize, 1);
        }
        Rss::add::<Solo>(&self.mm.rss.file, 1);
        self.set_pte(vpn, Pte::new(folio.pfn()));
    }

    /// Caches and maps the first pages of the file in a new VMA; returns its start and the pages.
    fn mapped_file(&self, pages: u32, more: VmaFlags) -> (u32, Vec<Folio>) {
        let start = self.file_region(pages, more);
        let folios: Vec<_> = (0..pages).map(|index| self.cache(index)).collect();
        self.kernel.lru_add_drain(&self.cx);
        (start..).zip(&folios).for_each(|(vpn, &folio)| self.map_file(vpn, folio));
        (start, folios)
    }

    fn munmap(&self, start: u32, pages: u32) {
        self.kernel.munmap(&self.cx, &self.mm, start, pages).unwrap();
    }

    fn node_stat(&self, stat: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(stat as usize)
    }

    fn events(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    /// (anonymous, file, swap, tables).
    fn rss(&self) -> (u64, u64, u64, u64) {
        let rss = &self.mm.rss;
        let [anon, file, swap, tables] =
            [&rss.anon, &rss.file, &rss.swap, &rss.tables].map(|count| count.load(Relaxed));
        (anon, file, swap, tables)
    }

    /// Unused pages, on free lists and per-CPU lists.
    fn nr_free(&self) -> u64 {
        self.kernel.mem.drain_all(&self.cx, None);
        let zones = self.kernel.mem.populated_zones();
        zones.map(|zone| zone.info.nr_free_pages_exact()).sum()
    }
}

/// A VMA's flags are private; tests read them in the mm's tables.
fn flags_at(stage: &Stage<'_>, vpn: u32) -> Option<VmaFlags> {
    stage.mm.vma_of(CPU, vpn).map(|vma: Arc<Vma<Solo>>| vma.flags)
}
