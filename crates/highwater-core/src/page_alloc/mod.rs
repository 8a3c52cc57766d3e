//! The page allocator (rules/allocation#entry): zoned buddy lists behind per-CPU lists.
//!
//! Which frames does a request get? Three goals conflict. Allocation must be fast, because every
//! CPU allocates and frees pages all the time. It must preserve large blocks, because single free
//! pages do not help a driver that needs eight contiguous ones. And it must keep a reserve, because
//! tasks that free memory need some to do so, and interrupts cannot wait for them. Each goal has
//! its own layer, and each layer has a cost for the others.
//!
//! ```text
//!   a request                                              a freed block
//!       │                                                        │
//!   hot, fast ── which zone may give? marks, reserves            │
//!       │  └──── none: slow ── relief: kswapd, reclaim, a kill   │
//!       ▼                                                        ▼
//!   pcp ──────── this CPU's own lists of the zone ──────────── free, deferred
//!       │ empty: a batch                           full: a batch │ bulk_free
//!       ▼                                                        ▼
//!   buddy ────── the zone's free blocks by order and type, split and merged
//!       │ none of this type
//!       └─────── fallback: a block of another type, perhaps its pageblock
//! ```
//!
//! | layer | gains | costs |
//! |---|---|---|
//! | per-CPU lists | the zone lock once a batch; warm pages | their pages cannot merge, nor serve other CPUs |
//! | buddy lists by type | pageblocks that come free whole | a type runs out while others have plenty |
//! | watermarks | a reserve for tasks that free memory or cannot wait | the reserve is unused in normal operation |
//!
//! # Where a frame is
//!
//! A frame is in one place at a time, and its word names the place. The place decides which task
//! may change word and links. Other readers of a word (a merge of the buddy, a scanner) read it
//! once, whole, and rely only on [`BlockFlags::BUDDY`] under the zone lock.
//!
//! | the frame is | its word | belongs to |
//! |---|---|---|
//! | head of a free block on a buddy list | BUDDY, order, type of the list | the holder of the zone lock |
//! | head of a block on a CPU's list | PCP, order, type to be freed to | the holder of that per-CPU lock |
//! | head of a block in use | USED, order | its user |
//! | head of a block with a deferred free (native hosts) | the same | the holder of that per-CPU lock |
//! | another frame of a block | no such flag | the same as the head |
//! | never given to the allocator | not MANAGED | no task |
//!
//! The free count of a zone includes buddy lists without isolated blocks. It excludes per-CPU
//! lists: a mark is a promise to all CPUs, and only one CPU can take such a page at once. The count
//! is read without the CPUs' differences (rules/zone-counters#differences), so it lags. The
//! distance between the marks allows for that. Decisions about more than one page (kswapd, the
//! retry of the slow path) read it more precisely.
//!
//! # What a caller may rely on
//!
//! * A block is aligned to its size, is not in a higher zone than requested nor on a node that is
//!   not allowed. It has one reference, and belongs to the caller until that is dropped.
//! * Without DIRECT_RECLAIM a request waits only for locks. With it, the request may reclaim, wait
//!   for devices or kill, so the caller must not hold a lock that these need.
//! * There is no error code: `None` means that the rules allow no page for this request.
//!
//! Key types: [`PageAllocator`] (all zones of a machine), [`Gfp`] and [`AllocFlags`] (what a request
//! may do), [`Buddy`] (one zone's lists, locked), [`Pcp`] (one CPU's lists).
//!
//! Synchronisation: locks nest as in the table, from top to bottom; counters, marks and pageblock types
//! are read without any.
//!
//! | lock | keeps apart | taken by |
//! |---|---|---|
//! | `oom_lock` | two OOM kills: one victim has to be enough | trylock, in the slow path |
//! | `drain_lock` | two drains: the second would find nothing | trylock; waiting, for one zone |
//! | per-CPU | a CPU and drains of its lists of a zone | trylock; if busy, the buddy lists |
//! | zone | all CPUs, for buddy lists and pageblock types | waiting: CPUs contend here |
//!
//! [`BlockFlags::BUDDY`]: crate::page::BlockFlags::BUDDY

mod account;
mod boot;
mod buddy;
mod bulk_free;
mod by_policy;
mod deferred;
mod fallback;
mod fast;
mod folio;
mod free;
mod fresh;
mod gfp;
mod highatomic;
mod hot;
mod leaving;
mod owned;
mod pcp;
mod relief;
mod request;
mod restore;
mod runs;
mod slow;
mod sysctl;
mod taken;
mod zonelist_cache;

pub use crate::units::{CompactPriority, CompactResult, Gfp};
pub use crate::zone::{AllocFlags, Pcp};
pub use account::Account;
pub use boot::boot;
pub use buddy::{Buddy, Capture, Wanted};
pub use bulk_free::PcpLevels;
pub use by_policy::Wish;
pub(crate) use fallback::could_serve;
pub use free::FreeError;
pub use pcp::PcpShape;
pub use relief::{NoRelief, NodeReclaim, Relief};
pub use request::{Request, last_rights};
pub use restore::{Block, RestoreError, ZoneState};
pub use zonelist_cache::ZonelistCache;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::config::{HighatomicKind, LiveTunables, Machine, Policy};
use crate::host::{CpuId, Cx, Host, NoSuchCpu};
use crate::page::{PageMap, Pfn};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::vmstat::{EventSet, GroupStats, NodeStat};
use crate::zone::zonelist::{ZoneRef, Zonelists};
use crate::zone::{FreeArea, Node, NodeId, NodeMask, Zone, ZoneId, ZoneType};

/// All memory of a machine. Built by [`boot()`].
///
/// Data per zone, node or CPU are in slices that never grow. Hotplug is not modelled, so finding a
/// zone needs no lock.
pub struct PageAllocator<H: Host> {
    /// The page array.
    pub map: PageMap,
    /// Before/after switches.
    pub policy: Policy,
    /// Sysctls.
    pub tunables: LiveTunables,
    /// Events since boot.
    pub events: EventSet,
    /// Counters of memory cgroups, and the owners of frames.
    pub groups: GroupStats,
    pub(crate) machine: Machine,
    pub(crate) pcp_shape: PcpShape,
    // By number of the zone, with holes where a node lacks one: a frame's word leads to its zone
    // without a search.
    pub(crate) zones: Box<[Option<Zone<H>>]>,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) zonelists: Box<[Zonelists]>,
    // By node, as the FALLBACK lists they are about.
    pub(crate) caches: Box<[ZonelistCache]>,
    pub(crate) cpu_node: Box<[NodeId]>,
    pub(crate) grouping: bool,
    // Passes skip nodes whose kswapd is awake.
    pub(crate) skips_busy_nodes: bool,
    // In force: computed at boot, raised by huge pages, set by the sysctl.
    pub(crate) min_free_kbytes: AtomicU64,
    pub(crate) drain_lock: H::Lock<()>,
    pub(crate) oom_lock: H::Lock<()>,
}

impl<H: Host> PageAllocator<H> {
    /// The machine this allocator was built for.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Number of CPUs.
    #[inline(always)]
    pub fn nr_cpus(&self) -> usize {
        self.cpu_node.len()
    }

    /// Number of nodes.
    #[inline(always)]
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    ///
    /// # Panics
    /// If the machine has no such node: [`PageAllocator::nr_nodes`] of them exist.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.idx()]
    }

    /// A task of this machine on a CPU, with no special state, allowed on all nodes.
    ///
    /// Only this function checks a CPU's number. Later functions use it unchecked, on paths where
    /// one more comparison would be noticeable.
    ///
    /// # Errors
    /// If the machine has no such CPU.
    pub fn task<'h>(&self, host: &'h H, cpu: CpuId) -> Result<Cx<'h, H>, NoSuchCpu> {
        self.check_cpu(cpu)?;
        Ok(Cx::new(host, cpu))
    }

    /// Whether the machine has a CPU.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check_cpu(&self, cpu: CpuId) -> Result<(), NoSuchCpu> {
        let nr_cpus = self.nr_cpus();
        if cpu.idx() < nr_cpus { Ok(()) } else { Err(NoSuchCpu { cpu, nr_cpus }) }
    }

    /// The node a CPU belongs to.
    ///
    /// # Panics
    /// If the machine has no such CPU: [`PageAllocator::task`] checks a number.
    #[inline(always)]
    pub fn cpu_node(&self, cpu: CpuId) -> NodeId {
        self.cpu_node[cpu.idx()]
    }

    /// Distance between nodes.
    ///
    /// # Panics
    /// If the machine has no such node.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u16 {
        self.machine.distances[from.idx()][to.idx()]
    }

    /// Mobility grouping is on.
    #[inline(always)]
    pub fn grouping(&self) -> bool {
        self.grouping
    }

    /// min_free_kbytes in force.
    pub fn min_free_kbytes(&self) -> u64 {
        self.min_free_kbytes.load(Relaxed)
    }

    /// A zone by node and type; none if it has no memory.
    pub fn zone(&self, node: NodeId, zone: ZoneType) -> Option<&Zone<H>> {
        self.zone_by_id(ZoneId::new(node, zone))
    }

    /// A zone by number; none if it has no memory.
    #[inline(always)]
    pub fn zone_by_id(&self, zone: ZoneId) -> Option<&Zone<H>> {
        self.zones.get(zone.idx())?.as_ref()
    }

    /// The zone a frame belongs to.
    ///
    /// # Panics
    /// If the machine has no such frame: [`PageMap::get`] asks.
    #[inline(always)]
    pub fn zone_of(&self, pfn: Pfn) -> Option<&Zone<H>> {
        self.zone_by_id(self.map.page(pfn).zone_id())
    }

    /// The zone of an existing frame; where zones meet, it may be the neighbouring zone.
    ///
    /// The frame's word has the exact zone. But loading it from memory often takes longer than the
    /// rest of a free, and everything that follows depends on the zone's address. A zone that is
    /// known beforehand only has to be confirmed, and the processor continues speculatively.
    #[inline(always)]
    pub(crate) fn likely_zone(&self, pfn: Pfn) -> Option<&Zone<H>> {
        self.zone_by_id(self.map.likely_zone(pfn))
    }

    /// Zones with memory, by node, then type.
    pub fn populated_zones(&self) -> impl Iterator<Item = &Zone<H>> {
        self.zones.iter().flatten()
    }

    /// Zones with memory of a node.
    pub fn zones_of(&self, node: NodeId) -> impl Iterator<Item = &Zone<H>> {
        ZoneId::of_node(node).filter_map(|zone| self.zone_by_id(zone))
    }

    /// The zone of a zonelist entry. Zonelists hold populated zones only.
    #[inline(always)]
    pub(crate) fn zone_at(&self, entry: ZoneRef) -> &Zone<H> {
        match &self.zones[entry.zone.idx()] {
            Some(zone) => zone,
            None => unreachable!("zonelists hold populated zones only"),
        }
    }

    #[inline(always)]
    pub(crate) fn node_has_zone(&self, node: NodeId, zone: ZoneType) -> bool {
        self.zone(node, zone).is_some()
    }

    /// The zonelists of a node.
    ///
    /// # Panics
    /// If the machine has no such node.
    pub fn zonelists(&self, node: NodeId) -> &Zonelists {
        &self.zonelists[node.idx()]
    }

    /// The zonelist cache a request uses: THISNODE lists have none.
    ///
    /// A cache stores which entry of a list to try next, and all requests for that list share it. A
    /// THISNODE request uses another list, so it must not use the cache.
    pub(crate) fn zonelist_cache(&self, req: &Request<'_>) -> Option<&ZonelistCache> {
        let cached = self.policy.zonelist.cache && !req.gfp.contains(Gfp::THISNODE);
        cached.then(|| &self.caches[req.list_node.idx()])
    }

    /// The zonelist cache of a node's FALLBACK list.
    ///
    /// # Panics
    /// If the machine has no such node.
    pub fn node_zonelist_cache(&self, node: NodeId) -> &ZonelistCache {
        &self.caches[node.idx()]
    }

    /// Blocks for atomic requests are claimed on demand, not set aside at boot.
    ///
    /// The two kinds share a migratetype but not the bookkeeping: only blocks claimed on demand are
    /// counted as reserved and taken off in watermark tests.
    #[inline(always)]
    pub(crate) fn highatomic_on_demand(&self) -> bool {
        self.policy.highatomic == HighatomicKind::HighAtomic
    }

    /// A zone's lists, locked, with everything the operations need.
    #[inline(always)]
    pub(crate) fn buddy<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        zone: &'a Zone<H>,
        area: &'a mut FreeArea,
    ) -> Buddy<'a, Cx<'h, H>> {
        Buddy {
            map: &self.map,
            zone: &zone.info,
            area,
            policy: &self.policy,
            probe: cx,
            capture: cx.is_capturing().then(|| cx.local()),
            has_stolen: false,
        }
    }

    /// Pages that may be dirty, all nodes (rules/dirty-throttling#limits).
    ///
    /// Free memory and page cache: all that a writer could fill. The zones' reserves are subtracted
    /// first, because no writer gets them. Otherwise the limit would include pages that cannot
    /// become dirty, and writers would enter reclaim before they reach the limit.
    pub fn dirtyable_pages(&self) -> u64 {
        let free: u64 = self.populated_zones().map(|z| z.nr_free_pages()).sum();
        let reserve: u64 = self.nodes.iter().map(Node::total_reserve).sum();
        let file: u64 = self
            .nodes
            .iter()
            .map(|n| {
                n.stats.read(NodeStat::InactiveFile as usize)
                    + n.stats.read(NodeStat::ActiveFile as usize)
            })
            .sum();
        free - free.min(reserve) + file
    }

    /// Free pages of all zones, per-CPU differences included; pages on per-CPU lists do not count. Not
    /// for decisions of an allocation: it reads every CPU's differences.
    pub fn nr_free_pages(&self) -> u64 {
        self.populated_zones().map(|z| z.nr_free_pages_exact()).sum()
    }

    /// Nodes with memory, as a set.
    pub(crate) fn nodes_with_memory(&self) -> NodeMask {
        self.populated_zones().fold(NodeMask::EMPTY, |mask, zone| mask.with(zone.node))
    }

    /// CPUs in order.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<H> {
        (0..self.nr_cpus() as u16).map(CpuId).collect::<Vec<_>>().into_iter()
    }
}
