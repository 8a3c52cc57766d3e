//! A kernel with files and swap to reclaim; the test completes its devices' transfers.

extern crate std;

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::Control;
use crate::Kernel;
use crate::audit::{KernelReport, check_kernel};
use crate::block::DeviceId;
use crate::block::manual::{DISK, Manual, kernel_of};
use crate::config::Policy;
use crate::host::{CpuId, Cx, Lock};
use crate::lru::{LruKind, PageType};
use crate::page::{Folio, PAGE_SIZE, PageFlags};
use crate::page_alloc::Gfp;
use crate::page_cache::{File, FileSpec, Filesystem, OpenFile};
use crate::swap::SwapSpec;
use crate::sync::order::LockClass;
use crate::units::LruVecId;
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::{NodeId, ZoneType};

pub(super) const NODE: NodeId = NodeId(0);
pub(super) const VEC: LruVecId = LruVecId::new(0);
pub(super) const AT: (NodeId, LruVecId) = (NODE, VEC);
pub(super) const PAGE: u64 = PAGE_SIZE as u64;
pub(super) const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

pub(super) struct Stage {
    pub(super) host: Rc<Manual>,
    pub(super) kernel: Rc<Kernel<Manual>>,
}

/// A direct reclaimer, or kswapd.
pub(super) fn control(is_kswapd: bool) -> Control {
    let mut sc = Control::new(32, 0, Gfp::GFP_KERNEL, ZoneType::Movable);
    sc.is_kswapd = is_kswapd;
    sc
}

impl Stage {
    /// 6.1, files on one disk, swap on another.
    pub(super) fn new() -> Self {
        Self::with(4096, |_| {})
    }

    /// 6.1 with changes and this many pages of swap.
    pub(super) fn with(swap_pages: u32, change: impl FnOnce(&mut Policy)) -> Self {
        let host = Rc::new(Manual::default());
        let swap = match swap_pages {
            0 => Vec::new(),
            pages => vec![SwapSpec { device: DeviceId(1), pages, priority: 0 }],
        };
        let kernel = kernel_of(&host, &[DISK, DISK], swap, change);
        Stage { host, kernel }
    }

    pub(super) fn cx(&self) -> Cx<'_, Manual> {
        Cx::new(&*self.host, CpuId(0))
    }

    /// A file of which all pages are cached, each read once.
    pub(super) fn cached_file(&self, pages: u64) -> (Arc<File<Manual>>, Arc<OpenFile<Manual>>) {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 100_000).with_size(pages * PAGE);
        let cx = self.cx();
        let file = self.kernel.create_file(&cx, spec);
        let open = self.kernel.open(&cx, &file);
        assert_eq!(self.kernel.file_read(&cx, &open, 0, pages * PAGE), Ok(pages * PAGE));
        self.complete();
        self.kernel.lru_add_drain_all(&cx);
        (file, open)
    }

    /// A mm with touched anonymous pages; its first page.
    pub(super) fn touched_mm(&self, cx: &Cx<'_, Manual>, pages: u32) -> (Arc<Mm<Manual>>, u32) {
        let mm = self.kernel.create_mm(cx).unwrap();
        let start = self.kernel.mmap(cx, &mm, pages, 512, RW, Backing::Anon).unwrap();
        self.kernel.touch_range(cx, &mm, start, pages, Access::Write).unwrap();
        self.kernel.lru_add_drain_all(cx);
        (mm, start)
    }

    /// Ends all transfers.
    pub(super) fn complete(&self) {
        while self.host.nr_held() != 0 {
            self.host.end(0, Ok(()));
        }
    }

    pub(super) fn pages(&self, file: &File<Manual>, n: u32) -> Vec<Folio> {
        let cx = self.cx();
        let find = |i| {
            let folio = self.kernel.find_get_page(&cx, file, i).expect("a cached page");
            self.kernel.put_page(&cx, folio);
            folio
        };
        (0..n).map(find).collect()
    }

    pub(super) fn all_are(&self, pages: &[Folio], flags: PageFlags) -> bool {
        pages.iter().all(|&folio| self.kernel.mem.map.page(folio).is(flags))
    }

    pub(super) fn none_is(&self, pages: &[Folio], flags: PageFlags) -> bool {
        pages.iter().all(|&folio| !self.kernel.mem.map.page(folio).flags().intersects(flags))
    }

    pub(super) fn size(&self, list: LruKind) -> u64 {
        self.kernel.lru.vec(VEC).size(list)
    }

    pub(super) fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    pub(super) fn stat(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NODE).stats.read_exact(item as usize)
    }

    /// One batch of an inactive list, plugged as the lists' scan is.
    pub(super) fn shrink(&self, sc: &mut Control, page_type: PageType) -> u64 {
        let cx = self.cx();
        self.kernel.plug_start(&cx);
        let got = self.kernel.shrink_inactive(&cx, AT, sc, page_type, 32);
        self.kernel.plug_finish(&cx);
        got
    }

    pub(super) fn lru_locks(&self, run: impl FnOnce()) -> u64 {
        let before = self.host.solo.takings(LockClass::Lru);
        run();
        self.host.solo.takings(LockClass::Lru) - before
    }

    /// A list from tail to head: the next to be looked at first.
    pub(super) fn tail_first(&self, list: LruKind) -> Vec<Folio> {
        let lists = self.kernel.lru.vec(VEC).lists.lock(CpuId(0));
        let mut pages: Vec<Folio> =
            lists.lists[list as usize].iter(&self.kernel.mem.map).map(Folio::page).collect();
        pages.reverse();
        pages
    }

    /// Everything is where it should be, and counted: where.
    pub(super) fn check(&self) -> KernelReport {
        check_kernel(&self.kernel, &self.cx()).unwrap_or_else(|error| panic!("{error}"))
    }
}
