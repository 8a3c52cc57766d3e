//! Lists, their sizes, their lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;

use crossbeam_utils::CachePadded;

use super::CpuBatches;
use super::ahead::Milestones;
use super::balance::Balance;
use crate::config::{BalanceRule, LruTopology};
use crate::host::{CpuId, Tasks};
use crate::page::{Page, PageFlags, PageList};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::{LruKind, LruVecId, PageType};
use crate::vmstat::{NodeStat, ZoneStat};
use crate::zone::{NodeId, ZoneId, ZoneType};

impl PageType {
    /// Of a page.
    #[inline(always)]
    pub fn of(page: &Page) -> PageType {
        if page.is_file_lru() { PageType::File } else { PageType::Anon }
    }
}

impl LruKind {
    /// The flags of a page that name its list.
    pub(super) const FLAGS: PageFlags =
        PageFlags::UNEVICTABLE.union(PageFlags::SWAPBACKED).union(PageFlags::ACTIVE);

    /// Returns the list on which a page with these flags belongs.
    #[doc(alias = "folio_lru_list")]
    #[doc(alias = "page_lru")]
    #[inline(always)]
    pub fn of(flags: PageFlags) -> LruKind {
        if flags.contains(PageFlags::UNEVICTABLE) {
            return LruKind::Unevictable;
        }
        let file = if flags.contains(PageFlags::SWAPBACKED) { 0 } else { 2 };
        Self::ALL[file + usize::from(flags.contains(PageFlags::ACTIVE))]
    }

    /// Of pages that are in use.
    pub const fn is_active(self) -> bool {
        matches!(self, LruKind::ActiveAnon | LruKind::ActiveFile)
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
#[derive(Debug)]
pub struct LruLists {
    /// Lists 0 to 3; head = newest.
    pub lists: [PageList; 4],
    /// Prefetch records for their tails.
    pub(super) milestones: [Milestones; 4],
    /// Records for the balance of the types.
    pub balance: Balance,
}

/// One set of LRU lists with its lock: of a node (of a zone up to 4.7).
#[doc(alias = "lruvec")]
pub struct LruVec<H: Tasks> {
    /// The lists.
    pub lists: H::Lock<LruLists>,
    /// Exact sizes, `[zone type][list]`; written under the lock.
    pub(crate) sizes: [[AtomicU64; LruKind::COUNT]; ZoneType::COUNT],
    /// Evictions and activations so far: the clock of refault distances.
    pub(crate) nonresident_age: AtomicU64,
    /// `workingset_activate_*` at the end of the last reclaim, by [`PageType`].
    pub(crate) refaults: [AtomicU64; 2],
}

impl<H: Tasks> LruVec<H> {
    fn new(host: &H, balance: BalanceRule) -> Self {
        let balance = Balance::new(balance);
        let (lists, milestones) = Default::default();
        let lists = LruLists { lists, milestones, balance };
        LruVec {
            lists: host.new_lock(LockClass::Lru, lists),
            sizes: Default::default(),
            nonresident_age: AtomicU64::new(0),
            refaults: Default::default(),
        }
    }

    /// Pages on a list, all zones.
    #[inline]
    pub fn size(&self, list: LruKind) -> u64 {
        self.sizes.iter().map(|zone| zone[list as usize].load(Relaxed)).sum()
    }

    /// Returns the pages on a list in zones up to `highest`.
    #[doc(alias = "lruvec_lru_size")]
    #[inline]
    pub fn size_upto(&self, list: LruKind, highest: ZoneType) -> u64 {
        self.sizes[..=highest.idx()].iter().map(|zone| zone[list as usize].load(Relaxed)).sum()
    }
}

/// All lists and batches of a machine.
pub struct Lru<H: Tasks> {
    /// One a node, or one a zone (node * 5 + zone type).
    vecs: Box<[LruVec<H>]>,
    /// By CPU.
    pub batches: Box<[CachePadded<CpuBatches<H>>]>,
    topology: LruTopology,
    /// By node: large folios that wait to be split; `Table` class.
    pub(crate) deferred: Box<[H::Lock<PageList>]>,
}

impl<H: Tasks> Lru<H> {
    /// Empty lists for a machine.
    pub fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let topology = mem.policy.reclaim.lru;
        let balance = mem.policy.reclaim.balance;
        let nr_vecs = match topology {
            LruTopology::Node => mem.nr_nodes(),
            LruTopology::Zone => ZoneId::count(mem.nr_nodes()),
        };
        let batches = (0..mem.nr_cpus() as u16)
            .map(|cpu| CachePadded::new(CpuBatches::new(host, CpuId(cpu), mem)));
        Lru {
            vecs: (0..nr_vecs).map(|_| LruVec::new(host, balance)).collect::<Vec<_>>().into(),
            batches: batches.collect::<Vec<_>>().into(),
            topology,
            deferred: (0..mem.nr_nodes())
                .map(|_| host.new_lock(LockClass::Table, PageList::default()))
                .collect(),
        }
    }

    /// The lists a page belongs to, by number.
    #[inline(always)]
    pub fn id_of(&self, page: &Page) -> LruVecId {
        match self.topology {
            LruTopology::Node => LruVecId::new(page.node().idx()),
            LruTopology::Zone => {
                // Only old kernels: the hint keeps the compiler from computing both.
                cold_path();
                LruVecId::new(page.zone_id().idx())
            }
        }
    }

    /// A zone's lists, by number.
    pub fn id_of_zone(&self, zone: ZoneId) -> LruVecId {
        match self.topology {
            LruTopology::Node => LruVecId::new(zone.node().idx()),
            LruTopology::Zone => LruVecId::new(zone.idx()),
        }
    }

    /// The zone that lists belong to; none if they are a node's.
    pub(crate) fn zone_of(&self, vec: LruVecId) -> Option<ZoneId> {
        let kind = ZoneType::ALL[vec.idx() % ZoneType::COUNT];
        (self.topology == LruTopology::Zone).then(|| ZoneId::new(self.node_of(vec), kind))
    }

    /// The lists of a node that hold pages of zones up to `highest`, by number.
    pub(crate) fn ids_of_node(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = LruVecId> + use<H> {
        let (first, nr) = match self.topology {
            LruTopology::Node => (node.idx(), 1),
            LruTopology::Zone => (ZoneId::new(node, ZoneType::Dma).idx(), highest.idx() + 1),
        };
        (first..first + nr).map(LruVecId::new)
    }

    /// True if pages of a zone of the node are on these lists.
    pub(crate) fn holds_zone(&self, vec: LruVecId, zone: ZoneId) -> bool {
        self.id_of_zone(zone) == vec
    }

    /// Lists by number.
    ///
    /// # Panics
    /// If there is no such lruvec: numbers come from [`Self::id_of`] and [`Self::iter`].
    #[inline(always)]
    pub fn vec(&self, vec: LruVecId) -> &LruVec<H> {
        &self.vecs[vec.idx()]
    }

    /// The same, none if there is no such number.
    pub(crate) fn find(&self, vec: LruVecId) -> Option<&LruVec<H>> {
        self.vecs.get(vec.idx())
    }

    /// Number of sets of lists.
    pub fn nr_vecs(&self) -> usize {
        self.vecs.len()
    }

    /// All lists with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LruVecId, &LruVec<H>)> {
        self.vecs.iter().enumerate().map(|(index, vec)| (LruVecId::new(index), vec))
    }

    /// Returns the set of LRU lists to which a page belongs.
    #[doc(alias = "folio_lruvec")]
    #[inline(always)]
    pub fn vec_of(&self, page: &Page) -> &LruVec<H> {
        self.vec(self.id_of(page))
    }

    /// The node that lists belong to.
    ///
    /// # Panics
    /// If there is no such lruvec.
    #[inline]
    pub fn node_of(&self, vec: LruVecId) -> NodeId {
        let node = match self.topology {
            LruTopology::Node => vec.idx(),
            LruTopology::Zone => vec.idx() / ZoneType::COUNT,
        };
        NodeId(node as u16)
    }

    /// The lists of a node (per-node topology).
    ///
    /// # Panics
    /// If the machine has no such node.
    #[inline(always)]
    pub fn node(&self, node: NodeId) -> &LruVec<H> {
        self.vec(self.id_of_zone(ZoneId::new(node, ZoneType::Dma)))
    }
}
