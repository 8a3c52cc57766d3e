//! Small machines, a recording host, and a bare zone for tests.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod relief;

use std::cell::RefCell;

use highwater_core::config::{Machine, NodeSpec, Policy, ZoneSpec, preset};
use highwater_core::host::{Cost, CpuId, Cx, EventSink, Probe, Solo};
use highwater_core::page::{MAX_ORDER, MigrateType, Order, PageMap, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{AllocFlags, Buddy, Gfp, NoRelief, PageAllocator, Relief};
use highwater_core::sync::order::LockClass;
use highwater_core::trace::Event;
use highwater_core::vmstat::ZoneStat;
use highwater_core::zone::{FreeArea, NodeId, Zone, ZoneInfo, ZoneType};

/// Keeps every event.
#[derive(Default)]
pub struct Recorder {
    events: RefCell<Vec<(CpuId, Event)>>,
}

impl EventSink for Recorder {
    fn event(&self, cpu: CpuId, event: &Event) {
        self.events.borrow_mut().push((cpu, *event));
    }
}

pub type Host = Solo<Recorder>;
pub type Alloc = PageAllocator<Host>;

pub fn host() -> Host {
    Solo::new(Recorder::default())
}

/// Takes the events recorded so far.
pub fn events(host: &Host) -> Vec<Event> {
    host.sink().events.borrow_mut().drain(..).map(|(_, e)| e).collect()
}

/// Blocks drained from per-CPU lists in a list of events.
pub fn drained(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::PagePcpuDrain { .. })).count()
}

/// Blocks taken from the buddy lists in a list of events.
pub fn removed(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::PageAllocZoneLocked { .. })).count()
}

pub fn zone_locks(host: &Host) -> u64 {
    host.takings(LockClass::Zone)
}

/// A node: CPUs, zones.
pub fn node(cpus: &[u16], zones: &[ZoneSpec]) -> NodeSpec {
    NodeSpec { cpus: cpus.to_vec(), zones: zones.to_vec() }
}

/// A machine whose nodes are 20 apart.
pub fn machine(nodes: Vec<NodeSpec>) -> Machine {
    let n = nodes.len();
    let distance = |i, j| if i == j { 10 } else { 20 };
    let distances = (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect();
    Machine { name: "test".into(), nodes, distances, ..Machine::default() }
}

/// One node with one full zone of frames `start..end`.
pub fn one_zone(start: u64, end: u64, nr_cpus: u16) -> Machine {
    let zone = match start {
        0..4096 => ZoneType::Dma,
        4096..1_048_576 => ZoneType::Dma32,
        _ => ZoneType::Normal,
    };
    let cpus: Vec<_> = (0..nr_cpus).collect();
    machine(vec![node(&cpus, &[ZoneSpec::full(zone, start, end - start)])])
}

/// A zone with pages that never reach the allocator, at its start.
pub fn managed_zone(zone: ZoneType, start: u64, spanned: u64, boot: u64, now: u64) -> ZoneSpec {
    ZoneSpec {
        zone,
        start_pfn: start,
        spanned,
        present: spanned,
        managed_at_boot: boot,
        managed: now,
    }
}

pub fn policy(name: &str) -> Policy {
    preset(name).unwrap()
}

pub fn boot_on<'h>(host: &'h Host, machine: &Machine, policy: &Policy) -> (Alloc, Cx<'h, Host>) {
    let alloc = boot(host, machine, policy).expect("the machine is possible");
    events(host);
    (alloc, Cx::new(host, CpuId(0)))
}

/// The zone of node 0 if that has only one.
pub fn only_zone(alloc: &Alloc) -> &Zone<Host> {
    let mut zones = alloc.populated_zones();
    let zone = zones.next().expect("a zone");
    assert!(zones.next().is_none());
    zone
}

/// Makes a zone's free counter say `pages`, whatever its lists hold.
pub fn fake_free(zone: &Zone<Host>, pages: u64) {
    zone.stats.fold(CpuId(0));
    let item = ZoneStat::FreePages as usize;
    let threshold = zone.stats.threshold();
    zone.stats.set_threshold(0);
    zone.stats.add(CpuId(0), item, pages as i64 - zone.nr_free_pages_exact() as i64);
    zone.stats.set_threshold(threshold);
    assert_eq!(zone.nr_free_pages(), pages);
}

pub fn alloc0<R: Relief<Host>>(
    alloc: &Alloc,
    cx: &Cx<'_, Host>,
    relief: &R,
    gfp: Gfp,
) -> Option<Pfn> {
    alloc.alloc(cx, relief, gfp, Order::ZERO, NodeId(0), None)
}

pub fn get(alloc: &Alloc, cx: &Cx<'_, Host>, gfp: Gfp, order: u8) -> Pfn {
    let page = alloc.alloc(cx, &NoRelief, gfp, Order(order), NodeId(0), None);
    page.expect("there is memory")
}

/// Which node and zone a frame is in.
pub fn place(alloc: &Alloc, pfn: Pfn) -> (u16, ZoneType) {
    let zone = alloc.zone_of(pfn).expect("a frame of a zone");
    (zone.node.0, zone.zone)
}

/// Records the events of a [`Bench`].
#[derive(Default)]
pub struct Log(RefCell<Vec<Event>>);

impl Probe for Log {
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
    fn charge(&self, _: Cost, _: u32) {}
    fn event(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }
}

/// One zone's buddy lists without an allocator around them.
pub struct Bench {
    pub map: PageMap,
    pub zone: ZoneInfo,
    pub area: FreeArea,
    pub policy: Policy,
    pub log: Log,
}

impl Bench {
    /// The zone `start..end`, freed as at boot.
    pub fn new(start: u32, end: u32) -> Bench {
        let mut bench = Bench::empty(start, end);
        let mut at = start;
        while at < end {
            let order = at.trailing_zeros().min((end - at).ilog2()).min(10);
            bench.buddy().free_block(Pfn(at), Order(order as u8), MigrateType::Movable, true);
            at += 1 << order;
        }
        bench
    }

    /// The zone with everything in use.
    pub fn empty(start: u32, end: u32) -> Bench {
        let map = PageMap::new(end);
        let (pages, kind) = (u64::from(end - start), ZoneType::Dma32);
        map.assign(Pfn(start), end - start, NodeId(0), kind);
        map.give(Pfn(start), end - start);
        let zone = ZoneInfo::new(NodeId(0), kind, Pfn(start), Pfn(end), pages, 1, true);
        zone.add_managed(pages);
        Bench { map, zone, area: FreeArea::default(), policy: policy("6.1"), log: Log::default() }
    }

    pub fn buddy(&mut self) -> Buddy<'_, Log> {
        Buddy {
            map: &self.map,
            zone: &self.zone,
            area: &mut self.area,
            policy: &self.policy,
            probe: &self.log,
            capture: None,
            has_stolen: false,
        }
    }

    pub fn alloc(&mut self, order: u8, migratetype: MigrateType) -> Option<u32> {
        self.alloc_flags(order, migratetype, AllocFlags::empty())
    }

    pub fn alloc_flags(&mut self, order: u8, t: MigrateType, flags: AllocFlags) -> Option<u32> {
        let pfn = self.buddy().remove(Order(order), t, flags, false)?;
        self.zone.stats.add(CpuId(0), ZoneStat::FreePages as usize, -(1 << order));
        Some(pfn.0)
    }

    pub fn free(&mut self, pfn: u32, order: u8) {
        let migratetype = self.zone.pageblock_type(Pfn(pfn));
        self.buddy().free_block(Pfn(pfn), Order(order), migratetype, false);
    }

    /// Blocks by order on a type's lists.
    pub fn lists(&self, t: MigrateType) -> [u32; MAX_ORDER] {
        std::array::from_fn(|o| self.area.lists[o][t.idx()].len())
    }

    /// Frames on one list, head first.
    pub fn list(&self, order: usize, t: MigrateType) -> Vec<u32> {
        self.area.lists[order][t.idx()].iter(&self.map).map(|p| p.0).collect()
    }

    pub fn extfrags(&self) -> Vec<Event> {
        let log = self.log.0.borrow();
        log.iter().filter(|e| matches!(e, Event::PageAllocExtfrag { .. })).copied().collect()
    }
}
