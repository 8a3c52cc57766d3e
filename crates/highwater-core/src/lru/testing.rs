//! A kernel on the [`Solo`] host whose lists a test fills directly.

extern crate std;

use std::vec::Vec;

use super::LruKind;
use crate::block::DeviceSpec;
use crate::config::{Machine, NodeSpec, Policy, Tunables, ZoneSpec, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::page::{Folio, MmId, Order, Page, PageFlags, PageMapping};
use crate::page_alloc::boot;
use crate::page_alloc::{Gfp, NoRelief};
use crate::swap::SwapSpec;
use crate::sync::order::LockClass;
use crate::units::LruVecId;
use crate::vmstat::VmEvent;
use crate::zone::{NodeId, ZoneType};

/// Flags of an anonymous page.
pub(crate) const ANON: PageFlags = PageFlags::SWAPBACKED;
/// Flags of a page of a file.
pub(crate) const FILE: PageFlags = PageFlags::empty();
/// The lists of a machine with one node.
pub(crate) const VEC: LruVecId = LruVecId::new(0);

pub(crate) struct Stage<'h> {
    pub(crate) kernel: Kernel<Solo>,
    pub(crate) cx: Cx<'h, Solo>,
    pub(crate) host: &'h Solo,
}

/// 32 MiB of DMA32 memory, two CPUs.
fn small_zones() -> Vec<ZoneSpec> {
    [ZoneSpec::full(ZoneType::Dma32, 4096, 8192)].into()
}

impl<'h> Stage<'h> {
    /// 6.1 on one zone.
    pub(crate) fn new(host: &'h Solo) -> Self {
        Self::with(host, small_zones(), |_| {})
    }

    /// 6.1 with changes.
    pub(crate) fn policy(host: &'h Solo, change: impl FnOnce(&mut Policy)) -> Self {
        Self::with(host, small_zones(), change)
    }

    /// One node, two CPUs, a swap area of 2000 pages.
    pub(crate) fn with(
        host: &'h Solo,
        zones: Vec<ZoneSpec>,
        change: impl FnOnce(&mut Policy),
    ) -> Self {
        let node = NodeSpec { cpus: [0, 1].into(), zones };
        let machine = Machine {
            name: "test".into(),
            nodes: [node].into(),
            distances: [[10].into()].into(),
            tunables: Tunables::default(),
            ..Machine::default()
        };
        let mut policy = preset("6.1").unwrap();
        change(&mut policy);
        let disk = DeviceSpec::nvme(2000);
        let swap = SwapSpec { device: crate::block::DeviceId(0), pages: 2000, priority: 0 };
        let cx = Cx::new(host, CpuId(0));
        let mem = boot(host, &machine, &policy).unwrap();
        let spec = KernelSpec { devices: [disk].into(), swap: [swap].into(), groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        Stage { kernel, cx, host }
    }

    /// A page in use, on no list, with one reference.
    pub(crate) fn page(&self, flags: PageFlags) -> Folio {
        self.page_for(flags, Gfp::GFP_HIGHUSER_MOVABLE)
    }

    /// The same from memory that `gfp` allows.
    pub(crate) fn page_for(&self, flags: PageFlags, gfp: Gfp) -> Folio {
        let mem = &self.kernel.mem;
        let folio = mem.alloc_folio(&self.cx, &NoRelief, gfp, Order::ZERO, NodeId(0)).unwrap();
        self.at(folio).init_flags(flags);
        if flags.contains(ANON) {
            self.at(folio).set_mapping(PageMapping::Anon(MmId(0)), folio.pfn().0);
        }
        folio
    }

    /// A page at the head of the list its flags name.
    pub(crate) fn listed(&self, flags: PageFlags) -> Folio {
        let folio = self.page(flags);
        self.list(folio);
        folio
    }

    pub(crate) fn listed_many(&self, flags: PageFlags, n: usize) -> Vec<Folio> {
        (0..n).map(|_| self.listed(flags)).collect()
    }

    pub(crate) fn list(&self, folio: Folio) {
        self.at(folio).flag_set::<Solo>(PageFlags::LRU);
        self.kernel.lock_lru(&self.cx, self.kernel.lruvec_of(self.at(folio))).link_head(folio);
    }

    pub(crate) fn at(&self, folio: Folio) -> &Page {
        self.kernel.mem.map.page(folio)
    }

    pub(crate) fn flags(&self, folio: Folio) -> PageFlags {
        self.at(folio).flags()
    }

    /// A list from head to tail.
    pub(crate) fn order(&self, list: LruKind) -> Vec<Folio> {
        let lists = self.kernel.lru.vec(VEC).lists.lock(CpuId(0));
        lists.lists[list as usize].iter(&self.kernel.mem.map).map(Folio::page).collect()
    }

    pub(crate) fn events(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    /// How often `run` takes lru_lock.
    pub(crate) fn lru_locks(&self, run: impl FnOnce()) -> u64 {
        let before = self.host.takings(LockClass::Lru);
        run();
        self.host.takings(LockClass::Lru) - before
    }

    /// Lists, sizes and counters agree.
    pub(crate) fn check(&self) {
        let (kernel, mem) = (&self.kernel, &self.kernel.mem);
        for list in LruKind::ALL {
            let size = kernel.lru.vec(VEC).size(list);
            let node = mem.node(NodeId(0)).stats.read_exact(list.node_stat() as usize);
            let zones: u64 = mem
                .populated_zones()
                .map(|zone| zone.stats.read_exact(list.zone_stat() as usize))
                .sum();
            assert_eq!((size, size), (node, zones), "{list:?}");
            if list != LruKind::Unevictable {
                let listed = self.order(list);
                assert_eq!(listed.len() as u64, size, "{list:?}");
                for folio in listed {
                    assert_eq!(LruKind::of(self.flags(folio)), list);
                    assert!(self.at(folio).is(PageFlags::LRU) && self.at(folio).refcount() > 0);
                }
            }
        }
    }
}
