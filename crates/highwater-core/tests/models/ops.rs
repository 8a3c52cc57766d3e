//! Operations, drawn or shrunk, and what has to hold after each.

use std::cell::{Cell, RefCell};

use highwater_core::audit;
use highwater_core::config::{EventUnit, SlowPathRounds};
use highwater_core::host::{CpuId, Cx, EventSink, NS_PER_JIFFY, Solo, TaskFlags};
use highwater_core::page::{BlockFlags, Order, PageFlags, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{
    AllocFlags, CompactPriority, CompactResult, Gfp, NodeReclaim, PageAllocator, Relief, Request,
};
use highwater_core::trace::Event;
use highwater_core::vmstat::{NumaStat, VmEvent};
use highwater_core::zone::{NodeId, NodeMask, Zone, ZoneFlags, ZoneId, ZoneType};

use crate::models::machine::{Rng, Setup};
use crate::models::model::{Block, Model};

/// Operations between two audits, per thousand frames of the page array.
const OPS_PER_AUDIT: u64 = 50;
/// No request asks for reclaim so often, unless it loops for ever.
const CALLS_MAX: u32 = 100_000;
/// Number of operation kinds.
pub(crate) const KINDS: u8 = 12;

/// An operation with two numbers that it reads as it likes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) kind: u8,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

/// How often which operation comes: some mixes never free, some always drain.
pub(crate) struct Mix {
    weights: [u64; KINDS as usize],
}

impl Mix {
    pub(crate) fn draw(rng: &mut Rng) -> Mix {
        let mut weights = [0; KINDS as usize];
        weights[0] = 20 + rng.below(100);
        weights[1] = 20 + rng.below(100);
        for weight in &mut weights[2..] {
            *weight = if rng.one_in(2) { 0 } else { 1 + rng.below(6) };
        }
        Mix { weights }
    }

    pub(crate) fn op(&self, rng: &mut Rng) -> Op {
        let mut at = rng.below(self.weights.iter().sum());
        let mut kind = 0;
        while at >= self.weights[kind] {
            at -= self.weights[kind];
            kind += 1;
        }
        let bits = rng.next();
        Op { kind: kind as u8, a: bits as u32, b: (bits >> 32) as u32 }
    }
}

/// Rolls all events into one number.
#[derive(Default)]
pub(crate) struct Digest(Cell<u64>);

impl EventSink for Digest {
    fn event(&self, cpu: CpuId, event: &Event) {
        let mut sum = self.0.get() ^ u64::from(cpu.0);
        for word in event.words() {
            sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        self.0.set(sum);
    }
}

type Host = Solo<Digest>;

/// A machine at work and the model beside it.
pub(crate) struct Run {
    host: &'static Host,
    alloc: PageAllocator<Host>,
    model: RefCell<Model>,
    nr_allocated: Cell<u64>,
    nr_steps: u64,
    ops_per_audit: u64,
}

impl Run {
    pub(crate) fn new(setup: &Setup) -> Run {
        let host: &'static Host = Box::leak(Box::new(Solo::new(Digest::default())));
        let alloc = boot(host, &setup.machine, &setup.policy)
            .unwrap_or_else(|e| panic!("{e}: {:?}", setup.machine));
        let nr_frames = alloc.map.len();
        let run = Run {
            host,
            alloc,
            model: RefCell::new(Model::new(nr_frames)),
            nr_allocated: Cell::new(0),
            nr_steps: 0,
            ops_per_audit: OPS_PER_AUDIT * (nr_frames as u64 / 1000).max(1),
        };
        run.audit();
        run
    }

    pub(crate) fn step(&mut self, op: &Op) {
        let Op { kind, a, b } = *op;
        match kind % KINDS {
            0 => self.allocate(a, b),
            1 => self.free(a, b),
            2 => self.free_list(a, b),
            3 => self.share(a, b),
            4 => self.alloc.drain_all(&self.cx(b), None),
            5 => {
                let zone = self.zone(a);
                if b & 1 == 0 {
                    self.alloc.drain_all(&self.cx(b), Some(zone));
                } else {
                    self.alloc.drain_cpu(&self.cx(b >> 8), zone, self.cx(b).cpu());
                }
            }
            6 => {
                self.host.set_now_ns(u64::from(a) * NS_PER_JIFFY);
                self.alloc.refresh_cpu_stats(&self.cx(b));
            }
            7 => {
                let zone = self.zone(a);
                match b & 3 {
                    0 => zone.set_flag(ZoneFlags::RECLAIM_ACTIVE),
                    1 => _ = zone.clear_flag(ZoneFlags::RECLAIM_ACTIVE),
                    2 => zone.reduce_boost(u64::from(b >> 2) % 1024),
                    _ => zone.stats.set_threshold((b >> 2) as u8 % 126),
                }
            }
            8 => match b & 1 {
                0 => self.alloc.set_min_free_kbytes(128 + u64::from(a) % 8000),
                _ => {
                    let (batch, high) = (1 + (b >> 1) % 63, (b >> 8) % 600);
                    // The bounds of limits that tune themselves may cross.
                    match a & 0x100 {
                        0 => self.zone(a).set_pcp_sizes(batch, high),
                        _ => self.zone(a).set_pcp_range(batch, high, (a >> 9) % 1200),
                    }
                }
            },
            9 => self.mark_lru(a),
            10 => self.bad_free(a, b),
            _ => self.alloc.refresh_thresholds(),
        }
        self.nr_steps += 1;
        if self.nr_steps.is_multiple_of(32) {
            self.arithmetic();
        }
        if self.nr_steps.is_multiple_of(self.ops_per_audit) {
            self.audit();
        }
    }

    /// Frees everything; every frame is back where it was.
    pub(crate) fn finish(self) -> u64 {
        self.audit();
        let cx = self.cx(0);
        while !self.model.borrow().blocks().is_empty() {
            let block = self.model.borrow_mut().gives(0);
            self.alloc.free(&cx, Pfn(block.pfn), Order(block.order)).unwrap();
        }
        self.alloc.drain_all(&cx, None);
        let report = self.audit();
        assert_eq!((report.used, report.pcp), (0, 0));
        let managed: u64 = self.alloc.populated_zones().map(|z| z.managed()).sum();
        assert_eq!(self.alloc.nr_free_pages(), managed);
        self.host.sink().0.get()
    }

    /// The audit, and the same number of used frames as in the model.
    pub(crate) fn audit(&self) -> audit::AuditReport {
        let report = audit::check(&self.alloc, &self.cx(0)).unwrap_or_else(|e| panic!("{e}"));
        let model = self.model.borrow();
        assert_eq!(report.used, model.nr_used);
        assert_eq!(report.used_blocks, model.blocks().len() as u64);
        report
    }

    fn cx(&self, a: u32) -> Cx<'static, Host> {
        Cx::new(self.host, CpuId((a as usize % self.alloc.nr_cpus()) as u16))
    }

    fn zone(&self, a: u32) -> &Zone<Host> {
        let zones: Vec<_> = self.alloc.populated_zones().collect();
        zones[a as usize % zones.len()]
    }

    fn allocate(&self, a: u32, b: u32) {
        let kinds = [
            Gfp::GFP_KERNEL,
            Gfp::GFP_HIGHUSER_MOVABLE,
            Gfp::GFP_HIGHUSER_MOVABLE,
            Gfp::GFP_HIGHUSER_MOVABLE | Gfp::WRITE,
            Gfp::GFP_KERNEL | Gfp::RECLAIMABLE,
            Gfp::GFP_ATOMIC,
            Gfp::GFP_ATOMIC | Gfp::COMP,
            Gfp::GFP_NOWAIT,
            Gfp::GFP_NOWAIT | Gfp::HIGH,
            Gfp::GFP_KERNEL | Gfp::COMP,
            Gfp::GFP_KERNEL | Gfp::NORETRY,
            Gfp::GFP_KERNEL | Gfp::NORETRY | Gfp::THISNODE,
            Gfp::GFP_NOWAIT | Gfp::THISNODE,
            Gfp::GFP_TRANSHUGE,
            Gfp::GFP_TRANSHUGE_LIGHT | Gfp::KSWAPD_RECLAIM,
            Gfp::GFP_KERNEL | Gfp::DMA,
            Gfp::GFP_USER | Gfp::DMA32,
            Gfp::GFP_NOFS | Gfp::RECLAIMABLE,
            Gfp::GFP_KERNEL | Gfp::RETRY_MAYFAIL,
            Gfp::GFP_KERNEL | Gfp::NOFAIL,
        ];
        let mut gfp = kinds[a as usize % kinds.len()];
        // Small orders are asked for most often.
        let mut order = match (a >> 8) % 16 {
            0..8 => 0,
            8..13 => 1 + (a >> 12) as u8 % 3,
            13 => 9,
            _ => 4 + (a >> 12) as u8 % 7,
        };
        if gfp.contains(Gfp::NOFAIL) {
            order = order.min(1);
        }
        // 4.3 repeats such requests for as long as nobody else frees memory: forever, here.
        let v43 = self.alloc.policy.slow_path.rounds == SlowPathRounds::WhileProgress;
        if v43 && gfp.contains(Gfp::RETRY_MAYFAIL) {
            gfp = Gfp::GFP_KERNEL;
        } else if v43 && gfp.contains(Gfp::GFP_NOFS) {
            gfp |= Gfp::FS;
        }
        let cx = self.cx(b);
        let node = NodeId((b >> 4) as u16 % self.alloc.nr_nodes() as u16);
        let free_choice = !gfp.intersects(Gfp::NOFAIL);
        let nodes = (free_choice && (b >> 8).is_multiple_of(8))
            .then(|| NodeMask::of(NodeId((b >> 12) as u16 % self.alloc.nr_nodes() as u16)));
        cx.set_flags(match (b >> 16) % 16 {
            0 => TaskFlags::MEMALLOC,
            1 => TaskFlags::OOM_VICTIM,
            2 if !v43 => TaskFlags::NOIO,
            3 => TaskFlags::PIN,
            4 if !v43 => TaskFlags::REALTIME | TaskFlags::NOFS,
            5 => TaskFlags::IN_SOFTIRQ,
            6 => TaskFlags::IN_INTERRUPT,
            _ => TaskFlags::empty(),
        });
        if cx.flags().intersects(TaskFlags::IN_INTERRUPT | TaskFlags::IN_SOFTIRQ) {
            gfp -= Gfp::DIRECT_RECLAIM;
        }
        if free_choice && (b >> 20).is_multiple_of(8) {
            cx.set_mems_allowed(NodeMask::of(node));
        }
        let numbers = Cell::new(u64::from(a) << 32 | u64::from(b));
        let relief = Reliever { run: self, numbers, calls: Cell::new(0) };
        let order = Order(order);
        let page = self.alloc.alloc(&cx, &relief, gfp, order, node, nodes);
        match page {
            Some(pfn) => self.granted(&cx, gfp, order, node, nodes, pfn),
            None => self.refused(&cx, gfp, order, node, nodes),
        }
    }

    fn granted(
        &self,
        cx: &Cx<'_, Host>,
        gfp: Gfp,
        order: Order,
        node: NodeId,
        nodes: Option<NodeMask>,
        pfn: Pfn,
    ) {
        let zone = self.alloc.zone_of(pfn).expect("a frame of a zone");
        assert!(zone.spans(pfn) && u64::from(pfn.0) + order.pages() <= u64::from(zone.end.0));
        let pinned = cx.flags().contains(TaskFlags::PIN);
        let gfp = if pinned { gfp - Gfp::MOVABLE } else { gfp };
        assert!(Some(zone.zone) <= gfp.highest_zone(), "{gfp} served from {}", zone.zone);
        if gfp.contains(Gfp::THISNODE) {
            assert_eq!(zone.node, node);
        }
        // Privileged requests and those of the slow path may leave the mask
        // (rules/slow-path#retry), others not.
        let plain = cx.flags().is_empty() && !gfp.contains(Gfp::HIGH) && !gfp.contains(Gfp::NOFAIL);
        if let Some(mask) = nodes
            && plain
        {
            assert!(mask.contains(zone.node), "{gfp} left its node mask");
        }
        let page = self.alloc.map.page(pfn);
        assert_eq!((page.refcount(), page.order()), (1, order));
        let compound = gfp.contains(Gfp::COMP) && order > Order::ZERO;
        assert_eq!(page.has(BlockFlags::HEAD), compound);
        self.nr_allocated.set(self.nr_allocated.get() + 1);
        self.model.borrow_mut().took(Block { pfn: pfn.0, order: order.0, compound });
    }

    fn refused(
        &self,
        cx: &Cx<'_, Host>,
        gfp: Gfp,
        order: Order,
        node: NodeId,
        nodes: Option<NodeMask>,
    ) {
        assert!(!gfp.contains(Gfp::NOFAIL | Gfp::DIRECT_RECLAIM), "NOFAIL failed");
        // Who ignores watermarks and masks gets a page as long as there is one outside of the
        // high-atomic reserve.
        let memalloc = cx.flags() == TaskFlags::MEMALLOC && !gfp.contains(Gfp::NOMEMALLOC);
        let hardwall = self.alloc.tunables.cpusets.get()
            && gfp.contains(Gfp::HARDWALL)
            && cx.mems_allowed() != NodeMask::ALL;
        // 4.3 gives up at once on a node it may not wait for.
        let v43 = self.alloc.policy.slow_path.rounds == SlowPathRounds::WhileProgress;
        let at_once = v43 && gfp.contains(Gfp::THISNODE) && !gfp.contains(Gfp::DIRECT_RECLAIM);
        if !memalloc || order > Order::ZERO || nodes.is_some() || hardwall || at_once {
            return;
        }
        let highest = gfp.highest_zone();
        for zone in self.alloc.populated_zones() {
            let eligible =
                Some(zone.zone) <= highest && (!gfp.contains(Gfp::THISNODE) || zone.node == node);
            if eligible {
                let free = zone.nr_free_pages_exact();
                let highatomic = self.highatomic_pages(zone);
                assert_eq!(free - highatomic, 0, "{gfp} failed beside free pages");
            }
        }
    }

    fn highatomic_pages(&self, zone: &Zone<Host>) -> u64 {
        use highwater_core::host::Lock;
        use highwater_core::page::MigrateType;
        let area = zone.free.lock(CpuId(0));
        let lists = area.lists.iter().enumerate();
        lists.map(|(o, l)| u64::from(l[MigrateType::HighAtomic.idx()].len()) << o).sum()
    }

    fn free(&self, a: u32, b: u32) {
        let nr = self.model.borrow().blocks().len();
        if nr > 0 {
            let block = self.model.borrow_mut().gives(a as usize % nr);
            self.alloc.free(&self.cx(b), Pfn(block.pfn), Order(block.order)).unwrap();
        }
    }

    fn free_list(&self, a: u32, b: u32) {
        let mut pages = Vec::new();
        let mut model = self.model.borrow_mut();
        let mut index = a as usize;
        for _ in 0..b % 100 {
            let nr = model.blocks().len();
            if nr == 0 {
                break;
            }
            index = index.wrapping_mul(31).wrapping_add(7) % nr;
            if model.blocks()[index].order == 0 {
                pages.push(Pfn(model.gives(index).pfn));
            }
        }
        drop(model);
        self.alloc.free_list(&self.cx(b >> 8), &pages).unwrap();
    }

    /// A second user keeps the head of a block: only its tail is freed.
    fn share(&self, a: u32, b: u32) {
        let nr = self.model.borrow().blocks().len();
        if nr == 0 {
            return;
        }
        let index = a as usize % nr;
        let block = self.model.borrow().blocks()[index];
        self.alloc.map.page(Pfn(block.pfn)).get_ref();
        if !block.compound {
            self.model.borrow_mut().gives_tail(index);
        }
        self.alloc.free(&self.cx(b), Pfn(block.pfn), Order(block.order)).unwrap();
        assert_eq!(self.alloc.map.page(Pfn(block.pfn)).refcount(), 1);
    }

    /// Pages on the LRU count as movable when a pageblock is claimed.
    fn mark_lru(&self, a: u32) {
        let model = self.model.borrow();
        for block in model.blocks().iter().skip(a as usize % 7).step_by(7).take(64) {
            if block.order == 0 {
                self.alloc.map.page(Pfn(block.pfn)).flag_set::<Solo>(PageFlags::LRU);
            }
        }
    }

    fn bad_free(&self, a: u32, b: u32) {
        let pfn = Pfn(((u64::from(a) * (self.alloc.map.len() as u64 + 8)) >> 32) as u32);
        let order = Order((b % 11) as u8);
        if !self.model.borrow().may_free(pfn, order) {
            let refused = self.alloc.free(&self.cx(b), pfn, order);
            assert!(refused.is_err(), "{pfn:?} {order:?} was freed");
            if order == Order::ZERO {
                assert!(self.alloc.free_list(&self.cx(b), &[pfn]).is_err());
            }
        }
    }

    /// Sums that hold whatever happened.
    fn arithmetic(&self) {
        let mut pages = self.model.borrow().nr_used;
        let numa = |item| self.alloc.populated_zones().map(|z| z.numa_stat(item)).sum::<u64>();
        for zone in self.alloc.populated_zones() {
            pages += zone.nr_free_pages_exact();
            for cpu in self.alloc.cpus() {
                let count = self.alloc.pcp_count(zone, cpu, cpu);
                pages += u64::from(count);
            }
        }
        let managed: u64 = self.alloc.populated_zones().map(|z| z.managed()).sum();
        assert_eq!(pages, managed, "pages appear or vanish");
        let allocated = self.nr_allocated.get();
        assert_eq!(numa(NumaStat::NumaHit) + numa(NumaStat::NumaMiss), allocated);
        assert_eq!(numa(NumaStat::NumaLocal) + numa(NumaStat::NumaOther), allocated);
        assert_eq!(numa(NumaStat::NumaMiss), numa(NumaStat::NumaForeign));
        if self.alloc.policy.pcp.event_unit == EventUnit::Pages {
            let event = |e| self.alloc.events.read(e);
            let taken: u64 =
                ZoneType::ALL.map(|z| event(VmEvent::of_zone(VmEvent::PgallocDma, z))).iter().sum();
            assert_eq!(taken - event(VmEvent::Pgfree), self.model.borrow().nr_used);
        }
    }
}

/// Relief that frees blocks of the model's, or says that it did nothing.
struct Reliever<'a> {
    run: &'a Run,
    numbers: Cell<u64>,
    calls: Cell<u32>,
}

impl Reliever<'_> {
    fn draw(&self) -> u64 {
        let mut rng = Rng::new(self.numbers.get());
        let number = rng.next();
        self.numbers.set(number);
        number
    }

    fn free_some(&self, cx: &Cx<'_, Host>, most: u64) -> u64 {
        let mut pages = 0;
        while pages < most {
            let nr = self.run.model.borrow().blocks().len() as u64;
            if nr == 0 {
                break;
            }
            let block = self.run.model.borrow_mut().gives((self.draw() % nr) as usize);
            self.run.alloc.free(cx, Pfn(block.pfn), Order(block.order)).unwrap();
            pages += 1 << block.order;
        }
        pages
    }
}

impl Relief<Host> for Reliever<'_> {
    fn wake_kswapd(
        &self,
        alloc: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        node: NodeId,
        _: Gfp,
        _: Order,
        _: ZoneType,
    ) {
        if self.draw().is_multiple_of(4) {
            alloc.zones_of(node).for_each(|z| z.set_flag(ZoneFlags::RECLAIM_ACTIVE));
        }
    }

    fn reclaim(&self, _: &PageAllocator<Host>, cx: &Cx<'_, Host>, req: &Request<'_>) -> u64 {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < CALLS_MAX, "a request loops for ever: {req:?}");
        if self.draw().is_multiple_of(2) { self.free_some(cx, 32) } else { 0 }
    }

    fn compact(
        &self,
        _: &PageAllocator<Host>,
        _: &Cx<'_, Host>,
        _: &Request<'_>,
        _: AllocFlags,
        _: CompactPriority,
    ) -> (CompactResult, Option<Pfn>) {
        let results = [
            CompactResult::Skipped,
            CompactResult::Deferred,
            CompactResult::Contended,
            CompactResult::Partial,
            CompactResult::Complete,
            CompactResult::Success,
        ];
        (results[(self.draw() % 6) as usize], None)
    }

    fn compaction_succeeded(&self, _: &PageAllocator<Host>, _: &Cx<'_, Host>, _: ZoneId, _: Order) {
    }

    fn node_reclaim(
        &self,
        _: &PageAllocator<Host>,
        cx: &Cx<'_, Host>,
        _: NodeId,
        _: &Request<'_>,
    ) -> NodeReclaim {
        match self.draw() % 3 {
            0 => NodeReclaim::NoScan,
            1 => NodeReclaim::Full,
            _ if self.free_some(cx, 4) > 0 => NodeReclaim::Success,
            _ => NodeReclaim::Some,
        }
    }

    fn can_swap(&self) -> bool {
        true
    }

    fn out_of_memory(&self, _: &PageAllocator<Host>, cx: &Cx<'_, Host>, _: &Request<'_>) -> bool {
        self.free_some(cx, 64) > 0
    }
}
