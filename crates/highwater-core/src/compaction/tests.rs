//! Runs over a toy zone whose layout the test gives frame by frame.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use core::ops::Range;
use std::vec::Vec;

use super::run::Goal;
use crate::audit::check_kernel;
use crate::block::DeviceSpec;
use crate::config::{Machine, NodeSpec, Policy, Tunables, ZoneSpec, preset};
use crate::host::{CpuId, Cx, Host, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::lru::testing::Stage;
use crate::migrate::Mode;
use crate::page::{Folio, Order, PageFlags, PageMapping, Pfn};
use crate::page_alloc::{Gfp, NoRelief, boot};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::CompactResult;
use crate::vm::{Backing, Mm, Pte, Rss, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::watermark::Marks;
use crate::zone::{NodeId, Zone, ZoneType};

const CPU: CpuId = CpuId(0);
pub(super) const START: u32 = 4096;
pub(super) const PAGES: u32 = 2048;
pub(super) const MOVABLE: Gfp = Gfp::GFP_USER.union(Gfp::DMA32).union(Gfp::MOVABLE);

/// A kernel with a zone of four pageblocks beside the one that it lives in.
pub(super) struct Toy<'h> {
    pub(super) cx: Cx<'h, Solo>,
    pub(super) kernel: Kernel<Solo>,
    mm: Arc<Mm<Solo>>,
    region: u32,
    /// Where each mapped frame of the toy zone is mapped.
    pub(super) places: BTreeMap<u32, u32>,
}

impl<'h> Toy<'h> {
    /// Every frame of the zone is in use but those of `free`, and each of these by a page that can be moved.
    pub(super) fn new(host: &'h Solo, free: &[Range<u32>]) -> Self {
        Self::with(host, free, &preset("6.1").unwrap())
    }

    pub(super) fn with(host: &'h Solo, free: &[Range<u32>], policy: &Policy) -> Self {
        let zones = vec![
            ZoneSpec::full(ZoneType::Dma32, START.into(), PAGES.into()),
            ZoneSpec::full(ZoneType::Normal, 1 << 20, 8192),
        ];
        let machine = Machine {
            name: "toy".into(),
            nodes: vec![NodeSpec { cpus: vec![0, 1], zones }],
            distances: vec![vec![10]],
            tunables: Tunables::default(),
            ..Machine::default()
        };
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, policy).unwrap();
        let spec = KernelSpec { devices: vec![DeviceSpec::nvme(1 << 12)], swap: vec![], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let region = kernel.mmap(&cx, &mm, PAGES, 512, flags, Backing::Anon).unwrap();
        let mut toy = Toy { cx, kernel, mm, region, places: BTreeMap::new() };
        toy.zone().set_marks(&Marks::default());
        let frames: Vec<Pfn> = (0..PAGES).map(|_| toy.frame()).collect();
        for pfn in frames {
            match free.iter().any(|range| range.contains(&pfn.0)) {
                true => toy.kernel.mem.free(&toy.cx, pfn, Order::ZERO).unwrap(),
                false => toy.map(pfn),
            }
        }
        toy.kernel.lru_add_drain_all(&toy.cx);
        toy.kernel.mem.drain_all(&toy.cx, None);
        toy
    }

    pub(super) fn zone(&self) -> &Zone<Solo> {
        self.kernel.mem.zone(NodeId(0), ZoneType::Dma32).unwrap()
    }

    fn frame(&self) -> Pfn {
        let (cx, mem) = (&self.cx, &self.kernel.mem);
        let pfn = mem.alloc(cx, &NoRelief, MOVABLE, Order::ZERO, NodeId(0), None).unwrap();
        assert!(self.zone().spans(pfn));
        pfn
    }

    /// Maps a frame as anonymous memory, as far into the region as it is into the zone.
    fn map(&mut self, pfn: Pfn) {
        let vpn = self.region + (pfn.0 - START);
        let (folio, page) = (Folio::page(pfn), self.kernel.mem.map.page(pfn));
        page.init_flags(PageFlags::SWAPBACKED | PageFlags::UPTODATE);
        page.set_mapping(PageMapping::Anon(self.mm.id), vpn);
        page.map_add::<Solo>(1);
        self.kernel.mem.node(NodeId(0)).stats.add(CPU, NodeStat::AnonPages as usize, 1);
        Rss::add::<Solo>(&self.mm.rss.anon, 1);
        let table = self.kernel.make_table(&self.cx, &self.mm, vpn).unwrap();
        table.lock(CPU).set(vpn, Pte::new(pfn).with_writable(true).with_dirty(true));
        self.kernel.lru_add(&self.cx, folio);
        self.places.insert(pfn.0, vpn);
    }

    /// Where the page is now that was in a frame.
    pub(super) fn moved_to(&self, from: u32) -> u32 {
        let vpn = self.places[&from];
        let pte = self.mm.table_of(CPU, vpn).unwrap().peek(vpn);
        assert!(pte.is_writable() && pte.is_young());
        pte.pfn().unwrap().0
    }

    pub(super) fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    pub(super) fn run(&self, goal: &mut Goal) -> CompactResult {
        let result = self.kernel.compact_zone(&self.cx, self.zone(), goal).result;
        self.kernel.lru_add_drain_all(&self.cx);
        check_kernel(&self.kernel, &self.cx).unwrap_or_else(|error| panic!("{error}"));
        result
    }
}

/// The zone of rules/compaction#toy.
pub(super) fn layout() -> Vec<Range<u32>> {
    vec![4136..4608, 5120..5632, 5732..6144]
}

pub(super) fn manual() -> Goal {
    Goal { ignore_skip: true, whole_zone: true, ..Goal::new(None, Mode::Sync, ZoneType::Device) }
}

/// Fills a zone and frees every second page: blocks of one page are free, and memory is not short.
pub(super) fn leave_single_pages(s: &Stage<'_>, zone: &Zone<Solo>) {
    let mem = &s.kernel.mem;
    let mut pages = Vec::new();
    while zone.nr_free_pages_exact() != 0 {
        let page = mem.alloc_folio(&s.cx, &NoRelief, Gfp::DMA32, Order::ZERO, NodeId(0));
        pages.push(page.expect("a page"));
    }
    let odd = pages.iter().filter(|folio| folio.pfn().0 % 2 == 1);
    odd.for_each(|folio| mem.free(&s.cx, folio.pfn(), Order::ZERO).expect("freed"));
    mem.drain_all(&s.cx, None);
}

#[test]
fn a_manual_run_moves_what_fits() {
    let host = Solo::default();
    let toy = Toy::new(&host, &layout());
    assert_eq!(toy.run(&mut manual()), CompactResult::Complete);
    // The first to be isolated last: a cluster is moved from its end.
    assert_eq!(toy.moved_to(4127), 5887);
    assert_eq!(toy.moved_to(4126), 5886);
    let counts = [
        VmEvent::CompactMigrateScanned,
        VmEvent::CompactFreeScanned,
        VmEvent::CompactIsolated,
        VmEvent::PgmigrateSuccess,
        VmEvent::PgmigrateFail,
    ]
    .map(|event| toy.event(event));
    assert_eq!(counts, [557, 512, 964, 412, 1]);
    let still = (START..START + PAGES).filter(|pfn| toy.places.contains_key(pfn));
    assert_eq!(still.filter(|&pfn| pfn < 5120 && toy.moved_to(pfn) < 5120).count(), 140);
    let blocks = toy.zone().nr_free_blocks(Order(9)) + 2 * toy.zone().nr_free_blocks(Order(10));
    assert!(blocks >= 2, "one was free before");
}

/// A run with an order ends at the first block of it.
#[test]
fn a_run_for_an_order_ends_with_a_block() {
    let host = Solo::default();
    // No block of order 9, but enough free for one.
    let toy = Toy::new(&host, &[4136..4608, 4700..5100, 5640..5900]);
    assert_eq!(toy.zone().nr_free_blocks(Order(9)), 0);
    let mut goal = Goal::new(Some(Order(9)), Mode::SyncLight, ZoneType::Dma32);
    goal.migratetype = crate::page::MigrateType::Movable;
    assert_eq!(toy.run(&mut goal), CompactResult::Success);
    assert!(toy.zone().nr_free_blocks(Order(9)) >= 1);
    assert!(toy.event(VmEvent::PgmigrateSuccess) >= 40);
    // Nothing is left to do.
    let before = toy.event(VmEvent::CompactMigrateScanned);
    assert_eq!(toy.run(&mut goal), CompactResult::Success);
    assert_eq!(toy.event(VmEvent::CompactMigrateScanned), before);
}

#[test]
fn a_request_gets_the_block_that_it_compacts() {
    let host = Solo::default();
    let toy = Toy::new(&host, &[4136..4608, 4700..5100, 5640..5900]);
    let gfp = MOVABLE | Gfp::COMP | Gfp::NORETRY;
    let pfn = toy
        .kernel
        .mem
        .alloc(&toy.cx, &toy.kernel, gfp, Order(9), NodeId(0), None)
        .expect("made by compaction");
    assert!(toy.zone().spans(pfn));
    let stalls = [VmEvent::CompactStall, VmEvent::CompactSuccess, VmEvent::CompactFail];
    assert_eq!(stalls.map(|event| toy.event(event)), [1, 1, 0]);
    toy.kernel.mem.free(&toy.cx, pfn, Order(9)).unwrap();
    toy.kernel.lru_add_drain_all(&toy.cx);
    check_kernel(&toy.kernel, &toy.cx).unwrap_or_else(|error| panic!("{error}"));
}

/// A page with an extra reference stays where it is, and its mm still maps it.
#[test]
fn a_page_in_use_elsewhere_stays() {
    let host = Solo::default();
    let toy = Toy::new(&host, &layout());
    let held = toy.kernel.mem.map.page(Pfn(4100));
    held.get::<Solo>(1);
    toy.kernel.compact_zone(&toy.cx, toy.zone(), &mut manual());
    assert_eq!(toy.moved_to(4100), 4100);
    toy.kernel.put_page(&toy.cx, Folio::page(Pfn(4100)));
    toy.kernel.lru_add_drain_all(&toy.cx);
    check_kernel(&toy.kernel, &toy.cx).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn positions_go_on_where_the_last_run_was() {
    use super::positions::have_met;
    use super::run::Run;

    assert!(!have_met(0x8bff, 0x8c00) && have_met(0x8c00, 0x8c00) && have_met(0x8dff, 0x8c00));
    let host = Solo::default();
    let toy = Toy::new(&host, &layout());
    let zone = toy.zone();
    let rules = &toy.kernel.mem.policy.compaction;
    let state = toy.kernel.compaction.zone(zone.id());
    let goal = Goal::new(Some(Order(9)), Mode::Async, ZoneType::Dma32);
    let mut run: Run<'_, Solo> = Run::new(zone, state, goal, rules);
    run.begin();
    assert_eq!((run.migrate_pfn, run.free_pfn), (4096, 5632), "never used: the ends");
    assert!(!run.goal.whole_zone, "a quirk: the zone does not begin at 0");
    // One pageblock further than the one behind it.
    run.update_cached_migrate(0x1200);
    let cached = || [0, 1].map(|slot: usize| state.cached_migrate[slot].load(Relaxed));
    assert_eq!(cached(), [0x1400, 4096]);
    let mut sync = Run::new(zone, state, Goal { mode: Mode::SyncLight, ..goal }, rules);
    sync.begin();
    assert_eq!(sync.migrate_pfn, 4096);
    sync.update_cached_migrate(0x1200);
    assert_eq!(cached(), [0x1400, 0x1400]);
}

/// rules/compaction#prompted.
#[test]
fn splitting_the_last_huge_block_prompts_the_daemon() {
    let block = START..START + 512;
    let prompted = |policy: &str, free: &Range<u32>, deaf_until: u64| {
        let host = Solo::default();
        let toy = Toy::with(&host, std::slice::from_ref(free), &preset(policy).unwrap());
        let state = toy.kernel.compaction.node(NodeId(0));
        state.is_prompted.store(false, Relaxed);
        state.deaf_until.store(deaf_until, Relaxed);
        toy.kernel.mem.alloc(&toy.cx, &toy.kernel, MOVABLE, Order(3), NodeId(0), None).unwrap();
        state.is_prompted.load(Relaxed)
    };
    assert!(prompted("kcompactd-prompted", &block, 0));
    assert!(prompted("kcompactd-prompted", &block, 10), "it waits for its time");
    assert!(!prompted("kcompactd-polls", &block, 0));
    assert!(!prompted("kcompactd", &block, 0));
    // Another thread remains; and a huge page is not split twice.
    assert!(!prompted("kcompactd-prompted", &(START..START + 1024), 0));
    assert!(!prompted("kcompactd-prompted", &(START + 8..START + 512), 0));
}

/// A check postpones the prompt that follows; a request in between brings it near again.
#[test]
fn a_prompt_waits_and_a_request_shortens_that() {
    let host = Solo::default();
    let free = START..START + 512;
    let toy = Toy::with(&host, std::slice::from_ref(&free), &preset("kcompactd-prompted").unwrap());
    let (node, kernel) = (NodeId(0), &toy.kernel);
    assert_eq!(kernel.deaf_for(&toy.cx, node), 0);
    kernel.compaction.node(node).deaf_until.store(toy.cx.host.jiffies() + 8000, Relaxed);
    assert_eq!(kernel.deaf_for(&toy.cx, node), 8000);
    kernel.listen_soon(&toy.cx, node);
    assert_eq!(kernel.deaf_for(&toy.cx, node), 125);
    kernel.set_compaction_proactiveness(&toy.cx, 50);
    assert_eq!(kernel.deaf_for(&toy.cx, node), 0, "told to look at once");
}

/// A flush also finds the highest free block in memory that was never used, whose descriptors are
/// still zero.
#[test]
fn a_flush_sees_blocks_that_are_fresh() {
    let flushed = |is_linked: bool| {
        let host = Solo::default();
        let toy = Toy::new(&host, &[]);
        let mem = &toy.kernel.mem;
        let zone = mem.zone(NodeId(0), ZoneType::Normal).unwrap();
        if is_linked {
            mem.buddy(&toy.cx, zone, &mut zone.free.lock(CPU)).link_run();
        }
        let blocks = || (zone.start.0..zone.end.0).step_by(512).map(Pfn);
        blocks().for_each(|block| zone.set_pageblock_skip(block, true));
        let state = toy.kernel.compaction.zone(zone.id());
        state.flush_pending.store(true, Relaxed);
        toy.kernel.flush_skip_bits(&toy.cx, zone);
        let positions = [&state.init_free, &state.cached_free, &state.init_migrate];
        let skips: Vec<bool> = blocks().map(|block| zone.pageblock_skip(block)).collect();
        (positions.map(|at| at.load(Relaxed)), skips, mem.map.is_fresh(Pfn(zone.end.0 - 512)))
    };
    let (fresh, linked) = (flushed(false), flushed(true));
    assert!(fresh.2 && !linked.2, "the last block is one that nobody used");
    assert_eq!((fresh.0, &fresh.1), (linked.0, &linked.1));
    assert!(!fresh.1[14], "where the last free block begins");
}
