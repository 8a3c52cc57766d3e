//! The page allocator (rules/allocation#entry): zoned buddy lists behind per-CPU lists.
//!
//! A request goes [`hot`] (else [`fast`]) → watermark → [`pcp`] → [`buddy`], with [`fallback`] to other
//! migratetypes; if that fails, [`slow`] asks for [`Relief`]. Frees go [`free`] → [`pcp`] →
//! [`bulk_free`] → [`buddy`].
//!
//! Key types: [`PageAllocator`] (all zones of a machine), [`Gfp`] and [`AllocFlags`] (what a
//! request may do), [`Buddy`] (one zone's lists, locked), [`Pcp`] (one CPU's lists).
//!
//! Synchronisation: per-CPU lists behind their own lock, taken by *trylock* from the fast path;
//! free lists behind the zone lock; per-CPU lock before zone lock; counters and marks lock-free.

mod account;
mod boot;
mod buddy;
mod bulk_free;
mod fallback;
mod fast;
mod folio;
mod free;
mod gfp;
mod highatomic;
mod hot;
mod pcp;
mod relief;
mod request;
mod restore;
mod slow;
mod zonelist_cache;

pub use crate::units::{CompactPriority, CompactResult, Gfp};
pub use crate::zone::{AllocFlags, Pcp};
pub use account::Account;
pub use boot::boot;
pub use buddy::{Buddy, Capture};
pub use free::FreeError;
pub use pcp::PcpShape;
pub use relief::{NoRelief, NodeReclaim, Relief};
pub use request::Request;
pub use restore::{Block, RestoreError, ZoneState};
pub use zonelist_cache::ZonelistCache;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::config::{HighatomicKind, Machine, Policy, Tunables};
use crate::host::{CpuId, Cx, Host};
use crate::page::{PageMap, Pfn};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::vmstat::{EventSet, NodeStat};
use crate::zone::zonelist::{ZoneRef, Zonelists};
use crate::zone::{FreeArea, Node, NodeId, NodeMask, Zone, ZoneId, ZoneType};

/// Pages one direct reclaim aims at (`SWAP_CLUSTER_MAX`).
pub const DIRECT_RECLAIM_TARGET: u64 = 32;

/// All memory of a machine. Built by [`boot()`].
pub struct PageAllocator<H: Host> {
    /// The page array.
    pub map: PageMap,
    /// Before/after switches.
    pub policy: Policy,
    /// Sysctls.
    pub tunables: Tunables,
    /// Events since boot.
    pub events: EventSet,
    pub(crate) machine: Machine,
    pub(crate) pcp_shape: PcpShape,
    pub(crate) zones: Box<[Option<Zone<H>>]>,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) zonelists: Box<[Zonelists]>,
    pub(crate) caches: Box<[ZonelistCache]>,
    pub(crate) cpu_node: Box<[NodeId]>,
    pub(crate) grouping: bool,
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
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.idx()]
    }

    /// The node a CPU belongs to.
    #[inline(always)]
    pub fn cpu_node(&self, cpu: CpuId) -> NodeId {
        self.cpu_node[cpu.idx()]
    }

    /// Distance between nodes.
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
    #[inline(always)]
    pub fn zone_of(&self, pfn: Pfn) -> Option<&Zone<H>> {
        self.zone_by_id(self.map.page(pfn).zone_id())
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
    pub fn zonelists(&self, node: NodeId) -> &Zonelists {
        &self.zonelists[node.idx()]
    }

    /// The zonelist cache a request uses: THISNODE lists have none.
    pub(crate) fn zonelist_cache(&self, req: &Request<'_>) -> Option<&ZonelistCache> {
        let cached = self.policy.zonelist.cache && !req.gfp.contains(Gfp::THISNODE);
        cached.then(|| &self.caches[req.list_node.idx()])
    }

    /// The zonelist cache of a node's FALLBACK list.
    pub fn node_zonelist_cache(&self, node: NodeId) -> &ZonelistCache {
        &self.caches[node.idx()]
    }

    /// Blocks for atomic requests are claimed on demand, not set aside at boot.
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
            capture: None,
        }
    }

    /// Pages that may be dirty, all nodes (rules/dirty-throttling#limits).
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

    /// Free pages of all zones, per-CPU differences included; pages on per-CPU lists do not count.
    pub fn nr_free_pages(&self) -> u64 {
        self.populated_zones().map(|z| z.nr_free_pages_exact()).sum()
    }

    /// Nodes with memory, as a set.
    pub(super) fn nodes_with_memory(&self) -> NodeMask {
        self.populated_zones().fold(NodeMask::EMPTY, |mask, zone| mask.with(zone.node))
    }

    /// CPUs in order.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<H> {
        (0..self.nr_cpus() as u16).map(CpuId).collect::<Vec<_>>().into_iter()
    }
}
