//! From a machine description to an allocator with free lists (rules/zones#boot-order).
//!
//! All sizes of a machine follow from its managed memory: marks, reserves, batches, thresholds. But
//! the *time* matters. First memory is freed to the buddy lists. Per-CPU lists and thresholds are
//! set up while watermarks are still 0. Then the sizes are computed from the pages managed *at that
//! time*. Init memory that is freed later increases `managed` and recomputes nothing. So marks
//! computed from `managed` of a running system are off by a few pages.
//!
//! | step | uses | leaves |
//! |---|---|---|
//! | zones, zonelists, grouping | the description | empty lists, all pageblocks movable |
//! | release of the memory managed at boot | | free lists, sorted by address |
//! | other CPUs come up, if any | marks of 0 | thresholds, a small drift mark on every zone |
//! | min_free_kbytes | managed pages above the high marks (0 so far) | |
//! | marks | min_free_kbytes, managed | MIN, LOW, HIGH; batch and high of the lists |
//! | thresholds, lowmem reserves | marks, managed | total reserves |
//! | huge pages start | marks in force | perhaps a larger min_free_kbytes, new marks |
//! | a user's sysctl | | the last word |
//! | release of init memory | | more managed pages, nothing else |
//!
//! Each of the later rebuilds repeats a part of this and leaves the rest unchanged, as in the
//! modelled kernels. The functions below have the dependencies.
//!
//! Synchronisation: set-up, and sysctls one at a time. Marks, reserves and sizes are independent
//! atomics. An allocation may read an old and a new one together; that is as correct as reading
//! both earlier.
//!
//! To: `super::buddy` (the lists filled here).

use alloc::vec;
use alloc::vec::Vec;

use super::deferred::Frees;
use super::pcp::counts_frees;
use super::{PageAllocator, PcpShape, ZonelistCache};
use crate::config::{
    HighatomicKind, HighatomicUnusable, LiveTunables, Machine, MachineError, MovableMin, PcpSizing,
    Policy, Thp, WatermarkTest, ZoneSpec,
};
use crate::host::{CpuId, Cx, Host, Lock};
use crate::page::{MigrateType, Order, PAGEBLOCK_PAGES, Pfn};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vmstat::{EventSet, GroupStats, NodeStat, StatSet};
use crate::zone::zonelist::{self, NodeSummary};
use crate::zone::{Mark, Node, NodeId, Zone, ZoneId, ZoneInfo, ZoneType, watermark};

/// Blocks of the 4.3 RESERVE type per zone, at most (rules/buddy#reserve-blocks).
const RESERVE_BLOCKS_MAX: u64 = 2;

/// Boots a machine: zones, zonelists, free lists, sizes.
///
/// # Errors
/// If the machine cannot exist ([`Machine::validate`]).
pub fn boot<H: Host>(
    host: &H,
    machine: &Machine,
    policy: &Policy,
) -> Result<PageAllocator<H>, MachineError> {
    machine.validate()?;
    let alloc = assemble(host, machine, policy);
    let cx = Cx::new(host, CpuId(0));
    let is_listed = !machine.usable.is_empty();
    for (node, spec) in zone_specs(machine) {
        if is_listed {
            for frames in machine.usable_of(spec) {
                alloc.release(&cx, node, spec.zone, frames.start, frames.end);
            }
            continue;
        }
        // Managed frames are the last ones of the span: the kernel sits at the start.
        let end = spec.start_pfn + spec.spanned;
        alloc.release(&cx, node, spec.zone, end - spec.managed_at_boot, end);
    }
    alloc.init_sizes(&cx);
    for (node, spec) in zone_specs(machine).filter(|_| !is_listed) {
        let end = spec.start_pfn + spec.spanned;
        alloc.release(&cx, node, spec.zone, end - spec.managed, end - spec.managed_at_boot);
    }
    if policy.watermark.recounts_reserves {
        alloc.rebuild_lowmem_reserve();
    }
    // A fresh machine's counts are exact: the release above leaves nothing in this CPU's
    // differences.
    for cpu in alloc.cpus() {
        for zone in alloc.populated_zones() {
            zone.stats.fold(cpu);
        }
    }
    Ok(alloc)
}

fn zone_specs(machine: &Machine) -> impl Iterator<Item = (NodeId, &ZoneSpec)> {
    let nodes = machine.nodes.iter().enumerate();
    nodes.flat_map(|(n, node)| node.zones.iter().map(move |z| (NodeId(n as u16), z)))
}

fn assemble<H: Host>(host: &H, machine: &Machine, policy: &Policy) -> PageAllocator<H> {
    let nr_cpus = machine.nr_cpus();
    let managed: u64 = zone_specs(machine).map(|(_, z)| z.managed_at_boot).sum();
    let tunables = machine.tunables.of_kernel(policy.kernel);
    // With fewer pageblocks than types nothing can be kept apart (rules/zones#grouping).
    let grouping = managed >= PAGEBLOCK_PAGES * MigrateType::COUNT as u64;
    let nr_frames = machine.end_pfn() as u32;
    let map = Frees::<H>::page_map(nr_frames);
    // Both ways are asked: which node a CPU is on by each allocation, the CPUs of a node by sizes.
    let mut cpu_node = vec![NodeId(0); nr_cpus];
    for (n, node) in machine.nodes.iter().enumerate() {
        for &cpu in &node.cpus {
            cpu_node[cpu as usize] = NodeId(n as u16);
        }
    }
    let mut zones: Vec<Option<Zone<H>>> = Vec::new();
    zones.resize_with(ZoneId::count(machine.nodes.len()), || None);
    for (node, spec) in zone_specs(machine).filter(|(_, z)| z.present > 0) {
        let (start, nr) = (Pfn(spec.start_pfn as u32), spec.spanned as u32);
        map.assign(start, nr, node, spec.zone);
        let info =
            ZoneInfo::new(node, spec.zone, start, start.add(nr), spec.present, nr_cpus, grouping);
        info.set_boost_factor(tunables.watermark_boost_factor);
        let tunes = policy.pcp.sizing == PcpSizing::Auto;
        if policy.watermark_rule().0 == WatermarkTest::FreeBlock {
            // Tuned lists ask each request whether the zone is above its high mark
            // (rules/per-cpu-lists#below-high). Above that one, it is above the low one too.
            info.keep_above_low(if tunes { Mark::High } else { Mark::Low });
        }
        // Up to 4.3 these lists hold the reserve that is set aside below. It serves every request in
        // the end.
        if policy.watermark.highatomic_unusable == HighatomicUnusable::Free
            && policy.highatomic != HighatomicKind::Reserve
        {
            info.take_off_free_highatomic();
        }
        if counts_frees(&policy.pcp) {
            info.count_frees(tunes);
        }
        zones[ZoneId::new(node, spec.zone).idx()] = Some(Zone::new(host, info, &cpu_node));
    }
    let nodes: Vec<_> = machine
        .nodes
        .iter()
        .enumerate()
        .map(|(n, spec)| {
            let mut cpus: Vec<_> = spec.cpus.iter().map(|&c| CpuId(c)).collect();
            cpus.sort();
            Node {
                id: NodeId(n as u16),
                cpus,
                stats: StatSet::<{ NodeStat::COUNT }>::new(nr_cpus),
                total_reserve: AtomicU64::new(0),
                kswapd_failures: AtomicU32::new(0),
            }
        })
        .collect();
    let summaries: Vec<_> = machine
        .nodes
        .iter()
        .map(|n| {
            let mut zones: Vec<_> =
                n.zones.iter().filter(|z| z.present > 0).map(|z| z.zone).collect();
            zones.sort();
            NodeSummary { has_cpus: !n.cpus.is_empty(), zones }
        })
        .collect();
    // Populated zones only, and once: the walk of a request need not ask whether a zone has memory.
    let lists = zonelist::build(&summaries, &machine.distances, policy.zonelist.node_load);
    let mut caches = Vec::new();
    caches.resize_with(lists.len(), ZonelistCache::default);
    PageAllocator {
        map,
        policy: policy.clone(),
        // The machine's sysctls, as far as the policy's kernel has them.
        tunables: LiveTunables::new(&tunables),
        events: EventSet::new(nr_cpus),
        groups: GroupStats::off(),
        machine: machine.clone(),
        pcp_shape: PcpShape::new(&policy.pcp),
        zones: zones.into_boxed_slice(),
        nodes: nodes.into_boxed_slice(),
        zonelists: lists.into_boxed_slice(),
        caches: caches.into_boxed_slice(),
        cpu_node: cpu_node.into_boxed_slice(),
        grouping,
        skips_busy_nodes: policy.zonelist.skip_kswapd_nodes && machine.nodes.len() > 1,
        min_free_kbytes: AtomicU64::new(0),
        drain_lock: host.new_lock(LockClass::Drain, ()),
        oom_lock: host.new_lock(LockClass::Oom, ()),
    }
}

impl<H: Host> PageAllocator<H> {
    /// Hands frames `start..end` of a zone to the buddy lists, as the largest aligned blocks, in
    /// ascending order to the list tails (rules/zones#initial-lists). `managed` grows; nothing is
    /// recomputed.
    ///
    /// Freeing page by page would give the same blocks, because all mergeable blocks merge. But
    /// aligned blocks of the largest fitting size need few merges. Added at the tail in ascending
    /// order, they leave the lists sorted, so a fresh machine hands out ascending frames. Only the
    /// first of the largest blocks is touched ([`crate::zone::FreshRun`]), so unused memory costs
    /// neither boot time nor host memory.
    #[doc(alias = "__free_pages_memory")]
    pub fn release(&self, cx: &Cx<'_, H>, node: NodeId, zone: ZoneType, start: u64, end: u64) {
        let Some(zone) = self.zone(node, zone) else {
            return;
        };
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        let mut at = start;
        while at < end {
            let aligned = if at == 0 { 63 } else { at.trailing_zeros() };
            let fits = (end - at).ilog2();
            let order = Order(aligned.min(fits).min(u32::from(Order::MAX.0)) as u8);
            let pfn = Pfn(at as u32);
            if order == Order::MAX {
                let nr = buddy.release_fresh(pfn, Pfn(end as u32));
                at += u64::from(nr);
                if nr > 0 {
                    continue;
                }
            }
            // A frame that is never released goes on to say that it is reserved: no merge reaches
            // across it.
            self.map.give(pfn, order.pages() as u32);
            let migratetype = zone.pageblock_type(pfn);
            buddy.free_block(pfn, order, migratetype, true);
            at += order.pages();
        }
        zone.add_managed(end - start);
    }

    /// Computes thresholds, min_free_kbytes, watermarks and list sizes at boot (steps 3 to 6 of
    /// rules/zones#boot-order).
    #[doc(alias = "init_per_zone_wmark_min")]
    fn init_sizes(&self, cx: &Cx<'_, H>) {
        // CPU bring-up refreshes thresholds while all marks are 0: each zone gets a small drift
        // mark that later refreshes keep. With one CPU there is no bring-up.
        if self.nr_cpus() > 1 {
            self.refresh_thresholds();
        }
        let computed = watermark::min_free_kbytes(
            self.buffer_pages(),
            self.policy.watermark.min_free_kbytes_max,
        );
        self.min_free_kbytes.store(computed, Relaxed);
        // Marks before thresholds: whether a zone needs a drift mark is judged by their distance.
        // Lowmem reserves last: huge pages do not redo them, nor thresholds.
        self.rebuild_watermarks();
        self.refresh_thresholds();
        self.rebuild_lowmem_reserve();
        self.start_thp();
        if let Some(kbytes) = self.tunables.min_free_kbytes.get() {
            // A user's sysctl comes last, whatever THP wanted.
            self.set_min_free_kbytes(kbytes);
        }
        // By the minimum in force, so after all that may raise it.
        if self.policy.highatomic == HighatomicKind::Reserve {
            self.set_reserve_blocks_aside(cx);
        }
        for zone in self.populated_zones() {
            let m = zone.marks();
            zone.alloc_batch.store((m.high - m.low) as i64, Relaxed);
        }
    }

    /// Counts pages above the high marks of all zones up to NORMAL (rules/watermarks#min-free).
    #[doc(alias = "nr_free_buffer_pages")]
    fn buffer_pages(&self) -> u64 {
        self.populated_zones()
            .filter(|z| z.zone <= ZoneType::Normal)
            .map(|z| z.managed().saturating_sub(z.mark(Mark::High)))
            .sum()
    }

    /// The huge page setting; `never` if memory is too small for huge pages.
    pub(crate) fn thp(&self) -> Thp {
        self.tunables.thp.get().with(self.populated_zones().map(|z| z.managed()).sum())
    }

    /// Raises min_free_kbytes when khugepaged starts (rules/watermarks#thp-min-free).
    ///
    /// A huge page is a pageblock. To find one, movable pageblocks must stay free of unmovable
    /// pages, so there should be a free one for each pair of types that could mix. Marks are
    /// rebuilt even if the number does not change: that clears the boosts.
    #[doc(alias = "set_recommended_min_free_kbytes")]
    fn start_thp(&self) {
        if self.thp() == Thp::Never {
            return;
        }
        let nr_zones = self.populated_zones().filter(|z| z.zone <= ZoneType::Normal).count();
        let wanted = watermark::thp_min_free_kbytes(nr_zones as u64, self.buffer_pages());
        if wanted > self.min_free_kbytes() {
            self.min_free_kbytes.store(wanted, Relaxed);
        }
        self.rebuild_watermarks();
    }

    /// Sets `vm.min_free_kbytes` and rebuilds marks and per-CPU sizes
    /// (rules/watermarks#min-free-sysctl).
    ///
    /// The value is used unchanged: neither the square root rule nor huge pages affect it.
    #[doc(alias = "min_free_kbytes_sysctl_handler")]
    pub fn set_min_free_kbytes(&self, kbytes: u64) {
        self.min_free_kbytes.store(kbytes, Relaxed);
        self.rebuild_watermarks();
    }

    /// Recomputes every zone's marks, then total reserves and per-CPU sizes
    /// (rules/watermarks#marks). Boosts are cleared.
    ///
    /// A zone's share of min_free_kbytes is in proportion to its managed pages; from 6.9 on the
    /// movable zone has none. Reserves and list
    /// sizes follow from the marks, so they are recomputed here; thresholds and lowmem reserves are
    /// not.
    #[doc(alias = "setup_per_zone_wmarks")]
    pub fn rebuild_watermarks(&self) {
        let shares = |zone: &Zone<H>| match self.policy.watermark.movable_min {
            MovableMin::Share => true,
            MovableMin::Clamped => zone.zone != ZoneType::Movable,
        };
        let total: u64 = self.populated_zones().filter(|z| shares(z)).map(|z| z.managed()).sum();
        for zone in self.populated_zones() {
            let mut marks = watermark::marks(
                self.min_free_kbytes(),
                zone.managed(),
                total,
                self.tunables.watermark_scale_factor.get(),
                self.policy.watermark.gaps,
            );
            if !shares(zone) {
                // Its pages can be moved or reclaimed, and no kernel allocation depends on them.
                marks = marks.with_min(watermark::movable_min(zone.managed()));
            }
            zone.set_marks(&marks);
        }
        self.refresh_reserves();
        self.rebuild_pcp_sizes();
    }

    /// Recomputes the reserve that ordinary use of each node must leave
    /// (rules/watermarks#total-reserve).
    ///
    /// It is the high mark plus the zone's largest lowmem reserve: the part that ordinary use
    /// cannot allocate. Dirty limits are shares of the rest.
    #[doc(alias = "calculate_totalreserve_pages")]
    pub fn refresh_reserves(&self) {
        for node in self.nodes() {
            let sum = self.zones_of(node.id).map(|z| {
                let reserves = z.lowmem_reserves();
                watermark::total_reserve(z.managed(), &reserves, z.zone.idx(), z.mark(Mark::High))
            });
            node.total_reserve.store(sum.sum(), Relaxed);
        }
    }

    /// Sets batch and limit of every zone's per-CPU lists, the same for all CPUs
    /// (rules/per-cpu-lists#sizes).
    ///
    /// The low mark bounds the pages that a zone's CPUs keep together (5.14 on). So lists are large
    /// if few CPUs share a zone, and small if many do. All CPUs use a node without CPUs.
    #[doc(alias = "setup_per_cpu_pageset")]
    fn rebuild_pcp_sizes(&self) {
        self.populated_zones().for_each(|zone| self.resize_pcp(zone));
    }

    /// Sets batch and limits of one zone's per-CPU lists, after its marks were set by hand.
    #[doc(alias = "zone_set_pageset_high_and_batch")]
    #[doc(alias = "zone_pcp_update")]
    pub fn resize_pcp(&self, zone: &Zone<H>) {
        let local = self.node(zone.node).cpus.len();
        let cpus = if local == 0 { self.nr_cpus() } else { local };
        // A kernel has one of the two.
        let fraction = self
            .tunables
            .percpu_pagelist_high_fraction
            .get()
            .max(self.tunables.percpu_pagelist_fraction.get());
        let (low, sizing) = (zone.mark(Mark::Low), self.policy.pcp.sizing);
        let sizes =
            |fraction| watermark::pcp_sizes(zone.managed(), low, cpus as u64, fraction, sizing);
        let (batch, high) = sizes(fraction);
        // A fraction that somebody set is the limit.
        match (sizing, fraction) {
            (PcpSizing::Auto, 0) => {
                zone.set_pcp_range(batch, high, sizes(watermark::PCP_FRACTION_MIN).1);
            }
            _ => zone.set_pcp_sizes(batch, high),
        }
    }

    /// Computes the pages that each zone keeps from requests that could use higher ones
    /// (rules/watermarks#lowmem-reserve). Some devices reach only low memory, and pages of other
    /// requests may stay there for long. More memory above means more requests that fall back when
    /// it is full, so the reserve is larger.
    #[doc(alias = "setup_per_zone_lowmem_reserve")]
    pub(super) fn rebuild_lowmem_reserve(&self) {
        for node in self.nodes() {
            let managed = ZoneType::ALL.map(|t| self.zone(node.id, t).map_or(0, |z| z.managed()));
            let reserve =
                watermark::lowmem_reserve(managed, self.tunables.lowmem_reserve_ratio.get());
            for zone in self.zones_of(node.id) {
                zone.set_lowmem_reserves(&reserve[zone.zone.idx()]);
            }
        }
        self.refresh_reserves();
    }

    /// Computes the normal counter thresholds and drift marks of every zone
    /// (rules/zone-counters#thresholds).
    ///
    /// A node's counters get the largest threshold of its zones.
    #[doc(alias = "refresh_zone_stat_thresholds")]
    pub fn refresh_thresholds(&self) {
        let cpus = self.nr_cpus() as u64;
        for node in self.nodes() {
            let mut largest = 0;
            for zone in self.zones_of(node.id) {
                zone.refresh_thresholds(cpus);
                largest = largest.max(zone.stats.threshold());
            }
            node.stats.set_threshold(largest);
        }
    }

    /// Restores the normal counter thresholds of a node's zones when its kswapd goes to sleep.
    ///
    /// Linux: called with `calculate_normal_threshold`; the other direction is
    /// `use_pressure_thresholds`.
    #[doc(alias = "set_pgdat_percpu_threshold")]
    pub fn use_normal_thresholds(&self, node: NodeId) {
        for zone in self.zones_of(node).filter(|z| z.drift_mark() != 0) {
            let threshold = watermark::stat_threshold(self.nr_cpus() as u64, zone.managed());
            zone.stats.set_threshold(threshold);
        }
    }

    /// Makes a node's zones count more exactly while its kswapd works, where drift could matter
    /// (rules/zone-counters#thresholds).
    ///
    /// Linux: called with `calculate_pressure_threshold`; the other direction is
    /// `use_normal_thresholds`.
    ///
    /// Asleep, kswapd does not look at counters, and a cheap count is good enough. Awake it compares
    /// them with marks, and differences of all CPUs together may be more than lies between two marks.
    /// Exact counts cost every allocation on the node, so only for as long. Zones without a drift mark
    /// cannot be that wrong.
    #[doc(alias = "set_pgdat_percpu_threshold")]
    pub fn use_pressure_thresholds(&self, node: NodeId) {
        for zone in self.zones_of(node).filter(|z| z.drift_mark() != 0) {
            let cpus = self.nr_cpus() as u64;
            let threshold = watermark::stat_threshold_pressure(&zone.marks(), cpus);
            zone.stats.set_threshold(threshold);
        }
    }

    /// Gives a pageblock another type and moves its free blocks there (set-up and replay). The
    /// high-atomic reserve counts the pageblocks of its type.
    ///
    /// Without the count, watermark tests would allow the reserved pages to every request.
    pub fn convert_pageblock(&self, cx: &Cx<'_, H>, zone: &Zone<H>, pfn: Pfn, to: MigrateType) {
        let mut area = zone.free.lock(cx.cpu());
        let from = zone.pageblock_type(pfn);
        if self.highatomic_on_demand() && from != to {
            let reserved = zone.nr_reserved_highatomic();
            if to == MigrateType::HighAtomic {
                zone.set_reserved_highatomic(reserved + PAGEBLOCK_PAGES);
            } else if from == MigrateType::HighAtomic {
                zone.set_reserved_highatomic(reserved.saturating_sub(PAGEBLOCK_PAGES));
            }
        }
        zone.set_pageblock_type(pfn, to);
        self.buddy(cx, zone, &mut area).move_pageblock(pfn, to, false);
    }

    /// Sets the first movable pageblocks of each zone aside as RESERVE
    /// (rules/buddy#reserve-blocks).
    ///
    /// Linux up to 4.3: from 4.4 on pageblocks are set aside on demand.
    ///
    /// As many as hold the minimum, and few: no type claims them, so they are idle until all else
    /// fails. From 4.5 on pageblocks are set aside on demand instead: [`super::highatomic`].
    #[doc(alias = "setup_zone_migrate_reserve")]
    fn set_reserve_blocks_aside(&self, cx: &Cx<'_, H>) {
        for zone in self.populated_zones() {
            let wanted = zone.marks().min.div_ceil(PAGEBLOCK_PAGES).min(RESERVE_BLOCKS_MAX);
            let mut left = wanted;
            for pfn in zone.pageblock_samples() {
                if left == 0 {
                    break;
                }
                if self.map.block(pfn).is_reserved()
                    || zone.pageblock_type(pfn) != MigrateType::Movable
                {
                    continue;
                }
                self.convert_pageblock(cx, zone, pfn, MigrateType::HighAtomic);
                left -= 1;
            }
        }
    }
}
