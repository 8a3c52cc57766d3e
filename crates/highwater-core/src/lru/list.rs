//! Lists, their sizes, their lock.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crossbeam_utils::CachePadded;

use super::CpuBatches;
use crate::config::LruTopology;
use crate::host::{CpuId, Tasks};
use crate::page::{Page, PageFlags, PageList};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::{LruKind, PageType};
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::{NodeId, ZoneType};

impl PageType {
    /// Of a page.
    #[inline(always)]
    pub fn of(page: &Page) -> PageType {
        if page.is_file_lru() { PageType::File } else { PageType::Anon }
    }
}

impl LruKind {
    /// The list a page with these flags belongs on.
    #[inline(always)]
    pub fn of(flags: PageFlags) -> LruKind {
        if flags.contains(PageFlags::UNEVICTABLE) {
            return LruKind::Unevictable;
        }
        let file = if flags.contains(PageFlags::SWAPBACKED) { 0 } else { 2 };
        Self::ALL[file + usize::from(flags.contains(PageFlags::ACTIVE))]
    }

    /// The node counter.
    pub const fn node_stat(self) -> NodeStat {
        NodeStat::ALL[NodeStat::InactiveAnon as usize + self as usize]
    }

    /// The zone counter.
    pub const fn zone_stat(self) -> ZoneStat {
        ZoneStat::ALL[ZoneStat::ZoneInactiveAnon as usize + self as usize]
    }
}

/// What `lru_lock` protects.
#[derive(Debug, Default)]
pub struct LruLists {
    /// Lists 0 to 3; head = newest.
    pub lists: [PageList; 4],
    /// Cost of reclaiming anonymous pages, decaying (spec 02 §8.5).
    pub anon_cost: u64,
    /// Cost of reclaiming file pages, decaying (spec 02 §8.5).
    pub file_cost: u64,
    /// Up to 5.7, by [`PageType`]: pages isolated lately. Isolation adds, the budget halves.
    pub scanned: [u64; 2],
    /// Up to 5.7, by [`PageType`]: pages put back although at the tail. Put-back adds.
    pub rotated: [u64; 2],
}

/// One set of lists: of a node (of a zone up to 4.7).
pub struct LruVec<H: Tasks> {
    /// The lists.
    pub lists: H::Lock<LruLists>,
    /// Exact sizes, `[zone type][list]`; written under the lock.
    pub(crate) sizes: [[AtomicU64; LruKind::COUNT]; ZoneType::COUNT],
    /// Evictions and activations so far: the clock of refault distances.
    pub(crate) nonresident_age: AtomicU64,
    /// `workingset_activate_*` at the end of the last reclaim, by [`PageType`].
    pub(crate) refaults: [AtomicU64; 2],
    /// Every dirty page met was under writeback and already marked for reclaim.
    pub(crate) congested: AtomicBool,
    /// Many dirty pages at the tail: kswapd may write.
    pub(crate) full_of_dirty: AtomicBool,
    /// Only pages under writeback at the tail.
    pub(crate) full_of_writeback: AtomicBool,
}

impl<H: Tasks> LruVec<H> {
    fn new(host: &H) -> Self {
        LruVec {
            lists: host.new_lock(LockClass::Lru, LruLists::default()),
            sizes: Default::default(),
            nonresident_age: AtomicU64::new(0),
            refaults: Default::default(),
            congested: AtomicBool::new(false),
            full_of_dirty: AtomicBool::new(false),
            full_of_writeback: AtomicBool::new(false),
        }
    }

    /// Pages on a list, all zones.
    #[inline]
    pub fn size(&self, list: LruKind) -> u64 {
        self.sizes.iter().map(|zone| zone[list as usize].load(Relaxed)).sum()
    }

    /// Pages on a list in zones up to `highest`.
    #[inline]
    pub fn size_upto(&self, list: LruKind, highest: ZoneType) -> u64 {
        self.sizes[..=highest.idx()].iter().map(|zone| zone[list as usize].load(Relaxed)).sum()
    }
}

/// All lists and batches of a machine.
pub struct Lru<H: Tasks> {
    /// One a node, or one a zone (node * 5 + zone type).
    pub vecs: Box<[LruVec<H>]>,
    /// By CPU.
    pub batches: Box<[CachePadded<CpuBatches<H>>]>,
    topology: LruTopology,
}

impl<H: Tasks> Lru<H> {
    /// Empty lists for a machine.
    pub fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let topology = mem.policy.reclaim.lru;
        let nr_vecs = match topology {
            LruTopology::Node => mem.nr_nodes(),
            LruTopology::Zone => mem.nr_nodes() * ZoneType::COUNT,
        };
        let batches = (0..mem.nr_cpus() as u16)
            .map(|cpu| CachePadded::new(CpuBatches::new(host, CpuId(cpu), mem)));
        Lru {
            vecs: (0..nr_vecs).map(|_| LruVec::new(host)).collect::<Vec<_>>().into(),
            batches: batches.collect::<Vec<_>>().into(),
            topology,
        }
    }

    /// Index of the lists a page belongs to.
    #[inline(always)]
    pub fn index_of(&self, page: &Page) -> usize {
        match self.topology {
            LruTopology::Node => page.zone_index() / ZoneType::COUNT,
            LruTopology::Zone => page.zone_index(),
        }
    }

    /// Index of a zone's lists.
    pub fn index_of_zone(&self, node: NodeId, zone: ZoneType) -> usize {
        match self.topology {
            LruTopology::Node => node.idx(),
            LruTopology::Zone => node.idx() * ZoneType::COUNT + zone.idx(),
        }
    }

    /// The lists a page belongs to.
    #[inline(always)]
    pub fn vec_of(&self, page: &Page) -> &LruVec<H> {
        &self.vecs[self.index_of(page)]
    }

    /// The node that lists belong to.
    #[inline]
    pub fn node_of(&self, index: usize) -> NodeId {
        let node = match self.topology {
            LruTopology::Node => index,
            LruTopology::Zone => index / ZoneType::COUNT,
        };
        NodeId(node as u16)
    }

    /// The lists of a node (per-node topology).
    #[inline(always)]
    pub fn node(&self, node: NodeId) -> &LruVec<H> {
        match self.topology {
            LruTopology::Node => &self.vecs[node.idx()],
            LruTopology::Zone => &self.vecs[node.idx() * ZoneType::COUNT],
        }
    }
}
