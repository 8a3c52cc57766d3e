//! [`Kernel`]: all of memory management in one place.
//!
//! It owns the state of every subsystem and implements [`crate::page_alloc::Relief`] for the page
//! allocator. The subsystems add their operations as `impl Kernel`, each in its own module, and use
//! other subsystems' state only through these. Daemons (kswapd, flushers, the OOM reaper,
//! khugepaged) are functions that a host runs in separate tasks: [`Kernel::daemons`].

mod daemon;
mod dirty;
mod relief;

pub use crate::units::Error;
pub use daemon::{Daemon, DaemonCpus};

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::block::{BlockLayer, DeviceId, DeviceSpec};
use crate::compaction::CompactionState;
use crate::config::{Algorithm, Answers, LruTopology};
use crate::host::{CpuId, CpuSet, Cx, Devices, NoSuchCpu};
use crate::lru::Lru;
use crate::memcg::Memcg;
use crate::net::Connections;
use crate::page::Pfn;
use crate::page_alloc::PageAllocator;
use crate::page_cache::{File, FreedNodes, Inodes, PageBuffers, PageWaits, ShadowNodes};
use crate::reclaim::{
    DeferredSplitShrinker, DemandDomain, HugeZeroShrinker, InodeShrinker, OomState, ReclaimState,
    ShadowShrinker, Shrinkers,
};
use crate::slab::{CacheKind, SlabCache};
use crate::swap::{Swap, SwapSpec};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vm::{Families, Huge, Mm};
use crate::vmstat::GroupStats;
use crate::writeback::{DirtyDomain, Writeback};

/// The resources of a kernel besides memory.
#[derive(Clone, Debug, Default)]
pub struct KernelSpec {
    /// Block devices, by number.
    pub devices: Vec<DeviceSpec>,
    /// Swap areas.
    pub swap: Vec<SwapSpec>,
    /// Memory cgroups that there is room for, beside the root. 0: the kernel has none.
    pub groups: u16,
}

/// A kernel's memory management.
pub struct Kernel<H: Devices> {
    /// The page allocator.
    pub mem: PageAllocator<H>,
    /// LRU lists.
    pub lru: Lru<H>,
    /// Memory cgroups.
    pub memcg: Memcg<H>,
    /// Swap.
    pub swap: Swap<H>,
    /// Block devices.
    pub block: BlockLayer<H>,
    /// Dirty files, by device.
    pub writeback: Box<[Writeback<H>]>,
    /// What all devices share of the dirty limits.
    pub(crate) dirty: DirtyDomain,
    /// What compaction keeps.
    pub compaction: CompactionState<H>,
    /// What reclaim keeps.
    pub reclaim: ReclaimState<H>,
    /// Answers in code, if the policy has some.
    pub(crate) own: Option<Box<dyn Answers>>,
    /// Memory allocated and freed by each task.
    pub(crate) demand: DemandDomain,
    /// Caches that can shrink.
    pub shrinkers: Shrinkers<H>,
    /// The OOM killer.
    pub oom: OomState<H>,
    /// Files by number; `Table` class.
    pub(crate) files: H::Lock<BTreeMap<u32, Arc<File<H>>>>,
    pub(crate) next_file: AtomicU32,
    /// Slab caches, by [`CacheKind`]; `Table` class.
    pub(crate) slabs: Vec<H::Lock<SlabCache>>,
    /// Which frames have a buffer head; `Table` class.
    pub(crate) buffers: H::Lock<PageBuffers>,
    /// Inodes and dentries in slab; `Table` class.
    pub(crate) inodes: H::Lock<Inodes>,
    /// Tree nodes that hold shadows only; `Table` class.
    pub(crate) shadow_nodes: H::Lock<ShadowNodes>,
    /// Tree nodes whose memory goes back after a grace period.
    pub(crate) freed_nodes: FreedNodes<H>,
    /// Address spaces by number; `Table` class.
    pub(crate) mms: H::Lock<BTreeMap<u32, Arc<Mm<H>>>>,
    pub(crate) next_mm: AtomicU32,
    /// Which mms came from which by fork; `Table` class.
    pub(crate) families: H::Lock<Families>,
    /// The mm each CPU's TLB holds: number + 1, 0 = none; with a flag if aging looked at it
    /// since the CPU's last operation on it ([`Kernel::is_to_age`]).
    pub(crate) cpu_mm: Box<[AtomicU32]>,
    /// Huge pages.
    pub(crate) huge: Huge<H>,
    pub(crate) page_waits: PageWaits<H>,
    /// Open connections; `Table` class.
    pub(crate) connections: H::Lock<Connections<H>>,
    /// The page of zeros that reads of untouched anonymous memory map.
    pub(crate) zero_page: Pfn,
    pub(crate) is_stopping: AtomicBool,
}

impl<H: Devices> Kernel<H> {
    /// A kernel on booted memory. Daemons do not run yet.
    ///
    /// # Errors
    /// If the machine is too large for a page table entry or does not have the caller's CPU, a swap
    /// area does not fit its device, or not even the zero page can be allocated.
    pub fn new(
        cx: &Cx<'_, H>,
        mut mem: PageAllocator<H>,
        spec: &KernelSpec,
    ) -> Result<Self, Error> {
        let host = cx.host;
        mem.check_cpu(cx.cpu())?;
        Self::check(&mem, spec)?;
        let groups = spec.groups.max(u16::from(mem.policy.compares_late_statistics()));
        if groups != 0 {
            let (frames, capacity) = (mem.map.len(), usize::from(groups) + 1);
            let (nodes, cpus, policy) = (mem.nr_nodes(), mem.nr_cpus(), &mem.policy.memcg);
            mem.groups = GroupStats::new(frames, capacity, nodes, cpus, policy);
        }
        let zero_page = mem
            .alloc(
                cx,
                &crate::page_alloc::NoRelief,
                crate::page_alloc::Gfp::GFP_KERNEL | crate::page_alloc::Gfp::ZERO,
                crate::page::Order::ZERO,
                mem.cpu_node(cx.cpu()),
                None,
            )
            .ok_or_else(|| Self::too_small(&mem))?;
        mem.map.page(zero_page).init_flags(crate::page::PageFlags::PINNED);
        let lru = Lru::new(host, &mem);
        let swap = Swap::new(host, &mem, &spec.swap, &spec.devices);
        let reclaim = ReclaimState::new(host, mem.nr_nodes(), lru.nr_vecs());
        let writeback: Vec<_> = (0..spec.devices.len())
            .map(|device| Writeback::new(host, DeviceId(device as u8)))
            .collect();
        let cpu_mm: Vec<_> = (0..mem.nr_cpus()).map(|_| AtomicU32::new(0)).collect();
        let memcg = Memcg::new(host, &mem);
        let nr_groups = mem.groups.capacity().max(1);
        let mut kernel = Kernel {
            lru,
            memcg,
            swap,
            block: BlockLayer::new(
                host,
                &spec.devices,
                mem.policy.reclaim.throttle.devices,
                mem.tunables.wbt.get(),
            ),
            writeback: writeback.into(),
            dirty: DirtyDomain::new(mem.nr_cpus()),
            compaction: CompactionState::new(host, &mem),
            reclaim,
            own: mem.policy.own.make(),
            demand: DemandDomain::default(),
            shrinkers: Shrinkers::default(),
            oom: OomState::new(host),
            files: host.new_lock(LockClass::Table, BTreeMap::new()),
            next_file: AtomicU32::new(0),
            slabs: CacheKind::ALL
                .iter()
                .map(|kind| {
                    let bytes = kind.object_bytes();
                    let cache = SlabCache::new(bytes, mem.nr_cpus(), mem.nr_nodes());
                    host.new_lock(LockClass::Table, cache)
                })
                .collect(),
            buffers: host.new_lock(LockClass::Table, PageBuffers::default()),
            inodes: host.new_lock(LockClass::Table, Inodes::new(nr_groups, mem.nr_nodes())),
            shadow_nodes: host
                .new_lock(LockClass::Table, ShadowNodes::new(nr_groups, mem.nr_nodes())),
            freed_nodes: FreedNodes::new(host, &mem),
            mms: host.new_lock(LockClass::Table, BTreeMap::new()),
            next_mm: AtomicU32::new(0),
            families: host.new_lock(LockClass::Table, Families::default()),
            cpu_mm: cpu_mm.into(),
            huge: Huge::new(host, &mem),
            page_waits: PageWaits::new(host, mem.policy.locks.page_lock),
            connections: host.new_lock(LockClass::Table, Connections::default()),
            zero_page,
            is_stopping: AtomicBool::new(false),
            mem,
        };
        kernel.register_shrinker(Box::new(ShadowShrinker));
        kernel.register_shrinker(Box::new(HugeZeroShrinker));
        kernel.register_shrinker(Box::new(DeferredSplitShrinker));
        kernel.register_shrinker(Box::new(InodeShrinker));
        Ok(kernel)
    }

    /// Why a fresh machine has no page for its kernel: its memory is below the marks.
    fn too_small(mem: &PageAllocator<H>) -> Error {
        let managed = mem.populated_zones().map(|zone| zone.managed()).sum();
        let needed = mem.populated_zones().map(|zone| zone.marks().min).sum::<u64>() + 1;
        if managed < needed { Error::TooSmall { managed, needed } } else { Error::NoMemory }
    }

    /// A task of this kernel on a CPU ([`PageAllocator::task`]).
    ///
    /// # Errors
    /// If the machine has no such CPU.
    pub fn task<'h>(&self, host: &'h H, cpu: CpuId) -> Result<Cx<'h, H>, NoSuchCpu> {
        self.mem.task(host, cpu)
    }

    fn check(mem: &PageAllocator<H>, spec: &KernelSpec) -> Result<(), Error> {
        let pages = mem.map.len() as u64;
        if pages > u64::from(crate::vm::Pte::MAX_PFN) + 1 {
            return Err(Error::Limit("memory beyond 1.125 TiB"));
        }
        if mem.nr_cpus() > CpuSet::MAX_CPUS {
            return Err(Error::Limit("more than 1024 CPUs"));
        }
        if spec.groups != 0 && mem.policy.reclaim.lru == LruTopology::Zone {
            return Err(Error::Limit("memory cgroups with LRU lists per zone (up to 4.7)"));
        }
        if mem.policy.reclaim.algorithm == Algorithm::Mglru
            && mem.policy.reclaim.lru == LruTopology::Zone
        {
            return Err(Error::Limit("the multi-generational LRU with lists per zone (up to 4.7)"));
        }
        if spec.groups == u16::MAX {
            return Err(Error::Limit("more than 65,534 memory cgroups"));
        }
        if spec.devices.len() > 256 {
            return Err(Error::Limit("more than 256 devices"));
        }
        if spec.swap.len() > crate::swap::Slot::MAX_AREAS {
            return Err(Error::Limit("more than 4 swap areas"));
        }
        for (index, area) in spec.swap.iter().enumerate() {
            // Each takes its device from the start.
            if spec.swap[..index].iter().any(|other| other.device == area.device) {
                return Err(Error::Limit("two swap areas on one device"));
            }
            let Some(device) = spec.devices.get(usize::from(area.device.0)) else {
                return Err(Error::Limit("a swap area on a device that does not exist"));
            };
            if area.pages < 2 || u64::from(area.pages) > device.pages {
                return Err(Error::Limit("a swap area that does not fit its device"));
            }
            if area.pages - 1 > crate::swap::Slot::MAX_OFFSET {
                return Err(Error::Limit("a swap area of more than 256 GiB"));
            }
        }
        Ok(())
    }

    /// True once daemons should return.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Returns the page of zeros, which read faults of anonymous memory map.
    #[doc(alias = "ZERO_PAGE")]
    pub fn zero_page(&self) -> Pfn {
        self.zero_page
    }
}
