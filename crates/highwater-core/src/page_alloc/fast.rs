//! The fast path: one pass over the zonelist (rules/allocation#scan).
//!
//! The list is sorted by preference, so the first zone that may give a page is the best one.
//! [`PageAllocator::get_page`] checks each entry in this order:
//!
//! | check | if it fails |
//! |---|---|
//! | zonelist cache (4.3) | the zone failed lately: skip it without further checks |
//! | cpuset | the task may not use this node, whatever is free |
//! | fair share (4.3) | try the other zones of the node first |
//! | dirty limit of the node | the node has enough dirty pages for its reclaim |
//! | another node, and NOFRAGMENT | mixing types on the local node is better than a remote page: scan again |
//! | kswapd of the node awake (7.2) | the node is short: try the other nodes first |
//! | watermark | the rest is reserved (with node reclaim on: reclaim the node first) |
//!
//! Preferences (cache, fair share, sleeping kswapd, NOFRAGMENT) are dropped at the end of a pass and the
//! zonelist is rescanned. Marks are never dropped: below them is the reserve. [`super::slow`] decides which
//! requests may use it, and makes the same passes with other flags.
//!
//! [`super::hot`] serves most requests before this.
//!
//! From: `syscall`, `vm` · to: [`super::pcp`], [`super::buddy`], failing [`super::slow`].

use super::pcp::{PcpBusy, PcpTaken, pcp_event_unit};
use super::zonelist_cache::Scan;
use super::{AllocFlags, Gfp, NodeReclaim, PageAllocator, Relief, Request, request};
use crate::config::{BoostExempt, MinReserveRule, PcpSizing};
use crate::host::{Cx, Host, Lock, TaskFlags};
use crate::page::{MigrateType, Order, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::zonelist::ZoneRef;
use crate::zone::{Mark, NodeId, NodeMask, Zone, ZoneFlags, ZoneType};

/// Flags that change which zones are tried: not for [`super::hot`].
pub(super) const REQUEST_GFP_GENERAL: Gfp = Gfp::THISNODE.union(Gfp::WRITE);
/// Distance up to which a node is reclaimed before leaving it (rules/allocation#node-reclaim).
const RECLAIM_DISTANCE: u16 = 30;

impl<H: Host> PageAllocator<H> {
    /// Allocates a block of `2^order` pages near `node`, or none.
    ///
    /// `nodes` restricts the nodes (a memory policy's mask). The block has refcount 1; free it with
    /// [`PageAllocator::free`].
    #[doc(alias = "__alloc_pages")]
    #[doc(alias = "__alloc_pages_nodemask")]
    #[inline]
    pub fn alloc<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        node: NodeId,
        nodes: Option<NodeMask>,
    ) -> Option<Pfn> {
        match self.alloc_hot(cx, relief, gfp, order, node, nodes) {
            Ok(pfn) => Some(pfn),
            Err(tried) => self.alloc_cold(cx, relief, gfp, order, (node, nodes), tried),
        }
    }

    /// Everything that [`Self::alloc_hot`] does not handle. `tried` is the result from the per-CPU
    /// lists of the preferred zone, if it got that far.
    #[cold]
    #[inline(never)]
    fn alloc_cold<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        gfp: Gfp,
        order: Order,
        (node, nodes): (NodeId, Option<NodeMask>),
        tried: Option<PcpTaken>,
    ) -> Option<Pfn> {
        self.free_mine_deferred(cx);
        let mut req = self.prepare(cx, gfp, order, node, nodes)?;
        let flags = self.fast_flags(cx, &mut req, nodes);
        let migratetype = req.migratetype;
        let page = match self.get_page_after(cx, relief, &req, flags, tried) {
            Some(pfn) => Some(pfn),
            None => {
                // Restore the caller's flags. The narrower mask was for a first pass; and exceeding
                // the dirty limit of a node is better than no page.
                req.gfp = request::apply_scopes(gfp, cx.flags());
                req.nodes = nodes;
                req.spread_dirty = false;
                self.alloc_slow(cx, relief, req)
            }
        };
        let gfp = request::apply_scopes(gfp, cx.flags());
        cx.host.trace(cx.cpu(), &Event::PageAlloc { pfn: page, order, gfp, migratetype });
        page
    }

    /// Decodes a request: zones, migratetype, zonelist; none if the gfp bits contradict each other.
    #[doc(alias = "prepare_alloc_pages")]
    #[inline(always)]
    fn prepare(
        &self,
        cx: &Cx<'_, H>,
        gfp: Gfp,
        order: Order,
        node: NodeId,
        nodes: Option<NodeMask>,
    ) -> Option<Request<'_>> {
        if order > Order::MAX {
            return None;
        }
        let gfp = request::apply_scopes(gfp, cx.flags());
        let highest = gfp.highest_zone()?;
        let migratetype = match gfp.migratetype()? {
            _ if !self.grouping() => MigrateType::Unmovable,
            t => t,
        };
        let lists = self.zonelists.get(node.idx())?;
        let this_node = gfp.contains(Gfp::THISNODE);
        let zonelist = if this_node { &lists.nofallback } else { &lists.fallback };
        Some(Request {
            gfp,
            order,
            highest,
            migratetype,
            nodes,
            zonelist,
            list_node: node,
            preferred: None,
            spread_dirty: gfp.contains(Gfp::WRITE),
        })
    }

    /// Works out the flags of the fast path (rules/requests#fast-flags); also applies the task's
    /// cpuset and finds the preferred zone (rules/allocation#entry).
    ///
    /// Linux 5.0 on.
    #[doc(alias = "alloc_flags_nofragment")]
    #[inline(always)]
    fn fast_flags(
        &self,
        cx: &Cx<'_, H>,
        req: &mut Request<'_>,
        nodes: Option<NodeMask>,
    ) -> AllocFlags {
        let mut flags = AllocFlags::empty();
        if self.tunables.cpusets.get() {
            req.gfp |= Gfp::HARDWALL;
            let in_task = !cx.flags().in_interrupt();
            // Skipping a mask is cheaper than checking each entry. An interrupt has no allowed
            // nodes, and those of the interrupted task do not matter.
            if in_task && nodes.is_none() {
                req.nodes = Some(cx.mems_allowed());
            } else {
                flags |= AllocFlags::CPUSET;
            }
        }
        if self.policy.zonelist.fair {
            flags |= AllocFlags::FAIR;
        }
        req.find_preferred();
        flags | self.plain_flags(req.gfp, req.preferred_entry())
    }

    /// The fast-path flags that follow from request and preferred zone alone.
    #[inline(always)]
    pub(super) fn plain_flags(&self, gfp: Gfp, preferred: Option<ZoneRef>) -> AllocFlags {
        let mut flags = AllocFlags::MARK_LOW;
        if gfp.contains(Gfp::MOVABLE) {
            flags |= AllocFlags::CMA;
        }
        if gfp.contains(Gfp::KSWAPD_RECLAIM) {
            flags |= AllocFlags::KSWAPD;
        }
        if self.policy.zonelist.nofragment
            && let Some(first) = preferred
            // Only if another zone is cheap: a lower zone of the same node can serve what Normal
            // cannot without mixing, or there is no other node to go to.
            && first.kind == ZoneType::Normal
            && (self.nr_nodes() == 1 || self.node_has_zone(first.node, ZoneType::Dma32))
        {
            flags |= AllocFlags::NOFRAGMENT;
        }
        flags
    }

    /// Goes over the zonelist once and takes a block from the first zone that passes its watermark;
    /// rescans where a rule says so (rules/allocation#rescan).
    #[doc(alias = "get_page_from_freelist")]
    pub(super) fn get_page<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        self.get_page_after(cx, relief, req, flags, None)
    }

    /// As [`Self::get_page`]; `tried` is the result that the per-CPU lists of the preferred zone
    /// gave already.
    #[inline(never)]
    fn get_page_after<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
        mut tried: Option<PcpTaken>,
    ) -> Option<Pfn> {
        let mut flags = flags;
        let mut zlc = Scan::new(self.zonelist_cache(req));
        let mut busy = if self.skips_busy_nodes { Busy::Skip } else { Busy::Try };
        loop {
            let mut fair_skipped = false;
            let skips = (&mut fair_skipped, &mut busy);
            match self.scan(cx, relief, req, flags, &mut zlc, skips, &mut tried) {
                Pass::Page(pfn) => return Some(pfn),
                Pass::Remote => {
                    flags -= AllocFlags::NOFRAGMENT;
                    continue;
                }
                Pass::None => {}
            }
            if busy == Busy::Skipped {
                // Before types are mixed: a short node may still have a block of the right type.
                busy = Busy::Try;
                continue;
            }
            // Drop all failed preferences at once: one pass for each would cost a scan each, and
            // this request has already scanned in vain.
            let mut again = zlc.rescan();
            if flags.contains(AllocFlags::FAIR) {
                flags -= AllocFlags::FAIR;
                if fair_skipped {
                    self.reset_fair_batches(req);
                }
                again |= fair_skipped || self.nr_nodes() > 1;
            }
            if flags.contains(AllocFlags::NOFRAGMENT) {
                flags -= AllocFlags::NOFRAGMENT;
                again = true;
            }
            if !again {
                return None;
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "state of one attempt that outlives a pass")]
    fn scan<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
        zlc: &mut Scan<'_>,
        (fair_skipped, busy): (&mut bool, &mut Busy),
        tried: &mut Option<PcpTaken>,
    ) -> Pass {
        let Some(preferred) = req.preferred_entry() else {
            return Pass::None;
        };
        let mut dirty_node: Option<(NodeId, bool)> = None;
        for (index, entry) in req.candidates() {
            // The preferred zone passed all tests already if its lists were tried.
            if let Some(taken) = tried.take() {
                let zone = self.zone_at(entry);
                let page = self.rmqueue_after(cx, relief, zone, preferred, req, flags, taken);
                match page {
                    Some(Taken { pfn, .. }) => {
                        self.prepare_page(cx, pfn, req.order, req.gfp, req.migratetype, flags);
                        return Pass::Page(pfn);
                    }
                    None => continue,
                }
            }
            if zlc.skips(index, entry) {
                continue;
            }
            if flags.contains(AllocFlags::CPUSET)
                && self.tunables.cpusets.get()
                && !self.cpuset_allows(cx, entry.node, req.gfp)
            {
                continue;
            }
            let zone = self.zone_at(entry);
            if flags.contains(AllocFlags::FAIR) {
                if entry.node != preferred.node {
                    // Zones of a node take turns, not nodes.
                    break;
                }
                if zone.has(ZoneFlags::FAIR_DEPLETED) {
                    *fair_skipped = true;
                    continue;
                }
            }
            if req.spread_dirty {
                // Entries of a node stand together: one sum for each run of them.
                let known = dirty_node.filter(|(node, _)| *node == entry.node);
                let (_, ok) = *dirty_node.insert(
                    known.unwrap_or_else(|| (entry.node, self.node_dirty_ok(cx, entry.node))),
                );
                if !ok {
                    continue;
                }
            }
            if flags.contains(AllocFlags::NOFRAGMENT)
                && self.nr_nodes() > 1
                && entry.node != preferred.node
            {
                return Pass::Remote;
            }
            if *busy != Busy::Try && relief.kswapd_is_awake(entry.node) {
                *busy = Busy::Skipped;
                continue;
            }
            if !self.watermark_fast(zone, req.order, req.gfp, req.highest, flags)
                && !flags.contains(AllocFlags::NO_WATERMARKS)
                && !self.rescue_zone(cx, relief, req, flags, (index, entry), zlc)
            {
                continue;
            }
            if let Some(taken) = self.rmqueue(cx, relief, zone, preferred, req, flags) {
                let pfn = taken.pfn;
                self.prepare_page(cx, pfn, req.order, req.gfp, req.migratetype, flags);
                // Only now it is known which pageblock such requests are served from.
                if flags.contains(AllocFlags::HIGHATOMIC) && self.highatomic_on_demand() {
                    let reserves = self.policy.pcp.highatomic_refills || taken.is_from_buddy;
                    if reserves {
                        self.reserve_highatomic(cx, zone, pfn, req.order);
                    }
                }
                return Pass::Page(pfn);
            }
            // Above its mark, and no block to be had: for the cache that is full as well.
            zlc.mark(index);
        }
        Pass::None
    }

    /// Tests a zone's watermark by the quick count of free pages first
    /// (rules/watermarks#fast-test).
    ///
    /// Above the low mark a single page is a comparison with a sum that is kept: no request has to leave more, so its
    /// yes is right, and for nearly all it is the only one made.
    #[doc(alias = "zone_watermark_fast")]
    #[inline(always)]
    pub(super) fn watermark_fast(
        &self,
        zone: &Zone<H>,
        order: Order,
        gfp: Gfp,
        highest: ZoneType,
        flags: AllocFlags,
    ) -> bool {
        if order == Order::ZERO && flags.mark() == Mark::Low && zone.is_above_low(highest) {
            return true;
        }
        if self.policy.pcp.sizing == PcpSizing::Auto {
            self.note_below_high(zone, order, gfp, highest, flags);
        }
        self.is_above_mark(zone, flags.mark(), order, gfp, highest, flags)
    }

    /// The rest of [`Self::watermark_fast`], with a mark that need not be the request's.
    #[inline(always)]
    pub(super) fn is_above_mark(
        &self,
        zone: &Zone<H>,
        mark: Mark,
        order: Order,
        gfp: Gfp,
        highest: ZoneType,
        flags: AllocFlags,
    ) -> bool {
        let free = zone.nr_free_pages();
        let rule = self.policy.watermark_rule();
        if zone.watermark_ok(rule, order, zone.mark(mark), highest, flags, free) {
            return true;
        }
        // The boost only keeps types apart, so an atomic request must not fail because of it.
        let boosted = order == Order::ZERO
            && zone.boost() != 0
            && flags.mark() == Mark::Min
            && gfp.contains(match self.policy.watermark.boost_exempt {
                BoostExempt::Atomic => Gfp::ATOMIC,
                BoostExempt::High => Gfp::HIGH,
            });
        boosted && zone.watermark_ok(rule, order, zone.marks().min, highest, flags, free)
    }

    /// The watermark failed: may the zone be used after all, by reclaiming its node first
    /// (rules/allocation#node-reclaim)? Not if the cache has it marked: it was reclaimed lately
    /// (rules/zonelist-cache#node-reclaim).
    #[cold]
    #[inline(never)]
    fn rescue_zone<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        req: &Request<'_>,
        flags: AllocFlags,
        (index, entry): (usize, ZoneRef),
        zlc: &mut Scan<'_>,
    ) -> bool {
        if zlc.wants_set_up(self.nr_nodes()) {
            let by_cpuset = flags.contains(AllocFlags::CPUSET) && !cx.flags().in_interrupt();
            let allowed = if by_cpuset { cx.mems_allowed() } else { self.nodes_with_memory() };
            zlc.set_up(cx.host.jiffies(), allowed);
        }
        let zone = self.zone_at(entry);
        if self.tunables.zone_reclaim_mode.get() == 0 || !self.near_enough(req, entry.node) {
            zlc.mark(index);
            return false;
        }
        if zlc.skips(index, entry) {
            return false;
        }
        let result = relief.node_reclaim(self, cx, entry.node, req);
        if result == NodeReclaim::Some {
            self.events.add(cx.cpu(), VmEvent::ZoneReclaimFailed, 1);
        }
        if matches!(result, NodeReclaim::NoScan | NodeReclaim::Full) {
            return false;
        }
        // Reclaimed pages may be gone again, or have the wrong sizes: the mark test decides, not
        // the count.
        let rule = self.policy.watermark_rule();
        let mark = zone.mark(flags.mark());
        let free = zone.nr_free_pages();
        let has_block = zone.watermark_ok(rule, req.order, mark, req.highest, flags, free);
        relief.node_reclaim_ended(self, cx, entry.node, req, has_block);
        if has_block {
            return true;
        }
        if flags.mark() == Mark::Min || result == NodeReclaim::Some {
            zlc.mark(index);
        }
        false
    }

    /// Reports whether a node is near enough to the preferred one for node reclaim.
    #[doc(alias = "zone_allows_reclaim")]
    fn near_enough(&self, req: &Request<'_>, node: NodeId) -> bool {
        let Some(preferred) = req.preferred_entry() else {
            return false;
        };
        let distance = self.distance(preferred.node, node);
        match self.policy.zonelist.reclaim_distance_exclusive {
            true => distance < RECLAIM_DISTANCE,
            false => distance <= RECLAIM_DISTANCE,
        }
    }

    /// Takes a block from a zone: from the per-CPU lists, else from the buddy lists
    /// (rules/allocation#take).
    ///
    /// Linux: same name.
    #[doc(alias = "buffered_rmqueue")]
    fn rmqueue<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        zone: &Zone<H>,
        preferred: ZoneRef,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> Option<Taken> {
        let taken = match self.pcp_shape.serves(req.order) {
            true => {
                let mine = &zone.cpus[cx.cpu().idx()];
                self.pcp_alloc(cx, zone, mine, req.order, req.migratetype, || flags)
            }
            false => Err(PcpBusy),
        };
        self.rmqueue_after(cx, relief, zone, preferred, req, flags, taken)
    }

    /// The rest of [`Self::rmqueue`] after the per-CPU lists were asked.
    #[allow(clippy::too_many_arguments, reason = "as rmqueue, and what it has so far")]
    fn rmqueue_after<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        zone: &Zone<H>,
        preferred: ZoneRef,
        req: &Request<'_>,
        flags: AllocFlags,
        taken: PcpTaken,
    ) -> Option<Taken> {
        let order = req.order;
        let is_from_buddy = !matches!(taken, Ok(Some(_)));
        let (pfn, events) = match taken {
            Ok(Some(pfn)) => (pfn, pcp_event_unit(self.policy.pcp.event_unit, order)),
            Ok(None) if !self.falls_back(flags) => return None,
            Ok(None) | Err(PcpBusy) => (self.rmqueue_buddy(cx, zone, req, flags)?, order.pages()),
        };
        let cpu = cx.cpu();
        self.events.add_zoned(cpu, VmEvent::PgallocDma, zone.zone, events);
        self.count_numa(cpu, zone, preferred);
        if self.policy.zonelist.fair {
            let left = zone.alloc_batch.fetch_sub(order.pages() as i64, Relaxed);
            if left - order.pages() as i64 <= 0 {
                zone.set_flag(ZoneFlags::FAIR_DEPLETED);
            }
        }
        self.report_boost(cx, relief, zone, || flags);
        Some(Taken { pfn, is_from_buddy })
    }

    /// Reports whether a request without a page from the per-CPU lists asks the buddy lists: if
    /// their refill found none, or if the request may not refill them.
    fn falls_back(&self, flags: AllocFlags) -> bool {
        let policy = &self.policy.pcp;
        policy.refill_falls_back
            || flags.contains(AllocFlags::HIGHATOMIC) && !policy.highatomic_refills
    }

    /// Takes a block straight from the buddy lists under the zone lock (step 2 of
    /// rules/allocation#take).
    ///
    /// Linux: same name.
    fn rmqueue_buddy(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        req: &Request<'_>,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        let order = req.order;
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        // A request with access to the reserve takes from it first. If it took a block from
        // elsewhere, that block would be reserved in turn, and the reserve would grow with each
        // request. Requests that would fail otherwise come last: a single page for an atomic
        // request is worth more than a whole reserved block.
        let reserve = self.highatomic_on_demand();
        let mut page = None;
        if reserve && flags.contains(AllocFlags::HIGHATOMIC) {
            page = buddy.take(order, MigrateType::HighAtomic);
            if let Some(pfn) = page {
                buddy.announce(pfn, order, MigrateType::HighAtomic);
            }
        }
        if page.is_none() {
            let refill = self.pcp_shape.traced_as_refill(order) && req.migratetype.is_mergeable();
            page = buddy.remove(order, req.migratetype, flags, refill);
        }
        let may = AllocFlags::OOM | AllocFlags::NON_BLOCK;
        if page.is_none()
            && reserve
            && self.policy.watermark.reserves == MinReserveRule::NonBlocking
            && flags.intersects(may)
        {
            page = buddy.take(order, MigrateType::HighAtomic);
            if let Some(pfn) = page {
                buddy.announce(pfn, order, MigrateType::HighAtomic);
            }
        }
        if page.is_some() {
            zone.add_free(cx.cpu(), -(order.pages() as i64));
        }
        page
    }

    /// Reports whether a node may take more dirty pages (rules/allocation#dirty-limit).
    ///
    /// Linux: same name.
    ///
    /// Reclaim of a node waits for its dirty pages. If one node took all of them, its share of clean
    /// cache would be gone long before the machine as a whole is at its limit.
    fn node_dirty_ok(&self, cx: &Cx<'_, H>, node: NodeId) -> bool {
        let stats = &self.node(node).stats;
        let stat = |item: NodeStat| stats.read(item as usize);
        let free: u64 = self.zones_of(node).map(|z| z.nr_free_pages()).sum();
        let file = stat(NodeStat::InactiveFile) + stat(NodeStat::ActiveFile);
        let dirtyable = free - free.min(self.node(node).total_reserve()) + file;
        let limit = match self.tunables.dirty_bytes.get() {
            0 => dirtyable * self.tunables.dirty_ratio.get() / 100,
            bytes => bytes.div_ceil(4096) * dirtyable / self.dirtyable_pages().max(1),
        };
        let realtime = cx.flags().contains(TaskFlags::REALTIME);
        let limit = if realtime { limit + limit / 4 } else { limit };
        stat(NodeStat::Dirty) + stat(NodeStat::Writeback) <= limit
    }

    /// Begins a new round of fair shares for the zones of the preferred zone's node
    /// (rules/allocation#fair-zones).
    ///
    /// Linux up to 4.7.
    #[doc(alias = "reset_alloc_batches")]
    fn reset_fair_batches(&self, req: &Request<'_>) {
        let Some(preferred) = req.preferred_entry() else {
            return;
        };
        for zone in self.zones_of(preferred.node).filter(|z| z.zone <= preferred.kind) {
            let m = zone.marks();
            zone.alloc_batch.store((m.high - m.low) as i64, Relaxed);
            zone.clear_flag(ZoneFlags::FAIR_DEPLETED);
        }
    }
}

/// A block that a zone gave.
struct Taken {
    pfn: Pfn,
    /// It came from the buddy lists, not from this CPU's.
    is_from_buddy: bool,
}

/// The treatment of zones of nodes whose kswapd is awake (rules/allocation#busy-nodes).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// It tries them as any other.
    Try,
    /// It skips them; there was none yet.
    Skip,
    /// It skips them, and there was one.
    Skipped,
}

/// How a pass over the zonelist ended.
enum Pass {
    Page(Pfn),
    /// Met another node while avoiding fragmentation: locality goes first.
    Remote,
    None,
}

impl<P: crate::host::Probe> super::Buddy<'_, P> {
    /// Emits the zone-locked event for a block taken outside of [`Self::remove`].
    pub(super) fn announce(&self, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let percpu_refill = false;
        self.probe.event(Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill });
    }
}
