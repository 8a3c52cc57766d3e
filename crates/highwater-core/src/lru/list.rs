//! Lists, their sizes, their lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;

use crossbeam_utils::CachePadded;

use super::CpuBatches;
use super::ahead::Milestones;
use super::balance::Balance;
use super::generations::{Generations, Queues};
use crate::config::{BalanceRule, LruTopology};
use crate::host::{CpuId, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::{Page, PageFlags, PageList};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::{GroupId, LruKind, LruVecId, PageType};
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
    /// The lists of generations in place of those, under MGLRU.
    pub(crate) queues: Option<Box<Queues>>,
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
    /// Generations, under MGLRU.
    pub(crate) generations: Option<Box<Generations<H>>>,
}

impl<H: Tasks> LruVec<H> {
    fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let balance = Balance::new(mem.policy.reclaim.balance);
        let (lists, milestones) = Default::default();
        let generations = Generations::new(host, mem);
        let queues = generations.as_ref().map(|_| Box::default());
        let lists = LruLists { lists, milestones, balance, queues };
        LruVec {
            generations,
            lists: host.new_lock(LockClass::Lru, lists),
            sizes: Default::default(),
            nonresident_age: AtomicU64::new(0),
            refaults: Default::default(),
        }
    }

    /// A new memory cgroup has the lists of one that is gone: they are empty, and what they
    /// remember is forgotten.
    pub(crate) fn start_again(&self, cpu: CpuId, balance: BalanceRule) {
        debug_assert!(LruKind::ALL.iter().all(|&list| self.size(list) == 0));
        self.nonresident_age.store(0, Relaxed);
        self.refaults.iter().for_each(|count| count.store(0, Relaxed));
        self.lists.lock(cpu).balance = Balance::new(balance);
        if let Some(generations) = &self.generations {
            generations.start_again(cpu);
        }
    }

    /// Pages on a list, all zones.
    #[inline]
    pub fn size(&self, list: LruKind) -> u64 {
        self.sizes.iter().map(|zone| at_least_none(&zone[list as usize])).sum()
    }

    /// Returns the pages on a list in zones up to `highest`.
    #[doc(alias = "lruvec_lru_size")]
    #[inline]
    pub fn size_upto(&self, list: LruKind, highest: ZoneType) -> u64 {
        self.sizes[..=highest.idx()].iter().map(|zone| at_least_none(&zone[list as usize])).sum()
    }
}

/// A size. Under MGLRU, on a host with threads, it may be one short for a moment: pages that are
/// found used change their generation without the lock.
#[inline(always)]
fn at_least_none(size: &AtomicU64) -> u64 {
    (size.load(Relaxed) as i64).max(0) as u64
}

/// The meaning of a [`LruVecId`]. No other module knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A node.
    Node,
    /// A zone of a node (up to 4.7).
    Zone,
    /// A node of a memory cgroup: group * nodes + node.
    Group,
}

/// All lists and batches of a machine.
pub struct Lru<H: Tasks> {
    /// One a node, or one a zone (node * 5 + zone type), or one a node of each group.
    vecs: Box<[LruVec<H>]>,
    /// By CPU.
    pub batches: Box<[CachePadded<CpuBatches<H>>]>,
    layout: Layout,
    nr_nodes: usize,
    /// By node: large folios that wait to be split; `Table` class.
    pub(crate) deferred: Box<[H::Lock<PageList>]>,
}

impl<H: Tasks> Lru<H> {
    /// Empty lists for a machine.
    pub fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let layout = match mem.policy.reclaim.lru {
            LruTopology::Node if mem.groups.is_on() => Layout::Group,
            LruTopology::Node => Layout::Node,
            LruTopology::Zone => Layout::Zone,
        };
        let nr_vecs = match layout {
            Layout::Group => mem.nr_nodes() * mem.groups.capacity(),
            Layout::Node => mem.nr_nodes(),
            Layout::Zone => ZoneId::count(mem.nr_nodes()),
        };
        let batches = (0..mem.nr_cpus() as u16)
            .map(|cpu| CachePadded::new(CpuBatches::new(host, CpuId(cpu), mem)));
        Lru {
            vecs: (0..nr_vecs).map(|_| LruVec::new(host, mem)).collect::<Vec<_>>().into(),
            batches: batches.collect::<Vec<_>>().into(),
            layout,
            nr_nodes: mem.nr_nodes(),
            deferred: (0..mem.nr_nodes())
                .map(|_| host.new_lock(LockClass::Table, PageList::default()))
                .collect(),
        }
    }

    /// The lists a page belongs to, by number.
    #[inline(always)]
    fn id_of(&self, mem: &PageAllocator<H>, page: &Page) -> LruVecId {
        match self.layout {
            Layout::Node => LruVecId::new(page.node().idx()),
            // The hints keep the compiler from computing all.
            Layout::Group => {
                cold_path();
                self.id_of_owner(mem, page)
            }
            Layout::Zone => {
                cold_path();
                LruVecId::new(page.zone_id().idx())
            }
        }
    }

    /// The lists of the memory cgroup that pays for a page.
    #[inline(never)]
    fn id_of_owner(&self, mem: &PageAllocator<H>, page: &Page) -> LruVecId {
        self.id_of_group(mem.groups.owner(mem.map.pfn_of(page)), page.node())
    }

    /// The lists of a memory cgroup on a node, by number. The root's are those of the node if
    /// there are no groups.
    #[doc(alias = "mem_cgroup_lruvec")]
    #[inline]
    pub fn id_of_group(&self, group: GroupId, node: NodeId) -> LruVecId {
        LruVecId::new(group.idx() * self.nr_nodes + node.idx())
    }

    /// The memory cgroup that lists belong to.
    #[doc(alias = "lruvec_memcg")]
    #[inline]
    pub fn group_of(&self, vec: LruVecId) -> GroupId {
        match self.layout {
            Layout::Group => GroupId((vec.idx() / self.nr_nodes) as u16),
            Layout::Node | Layout::Zone => GroupId::ROOT,
        }
    }

    /// The lists on which a pass over a node prepares: those of the memory cgroup whose memory is
    /// wanted; without groups, those of the node.
    #[inline]
    pub(crate) fn id_of_target(&self, target: GroupId, node: NodeId) -> LruVecId {
        match self.layout {
            Layout::Group => self.id_of_group(target, node),
            Layout::Node | Layout::Zone => self.id_of_zone(ZoneId::new(node, ZoneType::Dma)),
        }
    }

    /// The lists whose state of the tail stands for these: kswapd looks after the root's for all
    /// memory cgroups of a node.
    #[inline]
    pub(crate) fn id_of_tail(&self, vec: LruVecId) -> LruVecId {
        match self.layout {
            Layout::Node | Layout::Zone => vec,
            Layout::Group => self.id_of_group(GroupId::ROOT, self.node_of(vec)),
        }
    }

    /// A zone's lists, by number; of the root, if there are memory cgroups.
    pub fn id_of_zone(&self, zone: ZoneId) -> LruVecId {
        match self.layout {
            Layout::Node | Layout::Group => LruVecId::new(zone.node().idx()),
            Layout::Zone => LruVecId::new(zone.idx()),
        }
    }

    /// The zone that lists belong to; none if they are a node's.
    pub(crate) fn zone_of(&self, vec: LruVecId) -> Option<ZoneId> {
        let kind = ZoneType::ALL[vec.idx() % ZoneType::COUNT];
        (self.layout == Layout::Zone).then(|| ZoneId::new(self.node_of(vec), kind))
    }

    /// The lists of a node that hold pages of zones up to `highest`, by number; those of the root,
    /// if there are memory cgroups.
    pub(crate) fn ids_of_node(
        &self,
        node: NodeId,
        highest: ZoneType,
    ) -> impl Iterator<Item = LruVecId> + use<H> {
        let (first, nr) = match self.layout {
            Layout::Node | Layout::Group => (node.idx(), 1),
            Layout::Zone => (ZoneId::new(node, ZoneType::Dma).idx(), highest.idx() + 1),
        };
        (first..first + nr).map(LruVecId::new)
    }

    /// True if pages of a zone of the node are on these lists.
    pub(crate) fn holds_zone(&self, vec: LruVecId, zone: ZoneId) -> bool {
        match self.layout {
            Layout::Group => self.node_of(vec) == zone.node(),
            Layout::Node | Layout::Zone => self.id_of_zone(zone) == vec,
        }
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

    /// The node that lists belong to.
    ///
    /// # Panics
    /// If there is no such lruvec.
    #[inline]
    pub fn node_of(&self, vec: LruVecId) -> NodeId {
        let node = match self.layout {
            Layout::Node => vec.idx(),
            Layout::Group => vec.idx() % self.nr_nodes,
            Layout::Zone => vec.idx() / ZoneType::COUNT,
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

impl<H: Devices> Kernel<H> {
    /// The set of LRU lists to which a page belongs.
    #[doc(alias = "folio_lruvec")]
    #[inline(always)]
    pub fn lruvec_of(&self, page: &Page) -> LruVecId {
        self.lru.id_of(&self.mem, page)
    }

    /// Pages on a list, as heuristics count them. With memory cgroups: those of the whole subtree,
    /// as of the last flush of statistics (rules/memory-cgroups#heuristics).
    #[doc(alias = "lruvec_page_state")]
    #[inline]
    pub(crate) fn pages_of_lists(&self, vec: LruVecId, list: LruKind) -> u64 {
        if self.mem.groups.is_on() {
            cold_path();
            let (group, node) = (self.lru.group_of(vec), self.lru.node_of(vec));
            return self.mem.groups.seen(group, node, list.node_stat());
        }
        self.lru.vec(vec).size(list)
    }
}
