//! Untraced frees, which are done for many pages at once, compared with the same frees traced.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::config::{
    Choice, DrainPortion, DrainType, FreeFactor, HighOrderFree, Machine, NodeSpec, PRESETS,
    PcpSizing, Policy, Value, ZoneSpec, preset,
};
use crate::host::{CpuId, EventSink, Solo};
use crate::page_alloc::{Gfp, NoRelief, boot};
use crate::sync::order::LockClass;
use crate::zone::{NodeId, ZoneFlags, ZoneType};

const NR_CPUS: u16 = 3;
/// Where pages come from: another type each, and another zone.
const KINDS: [Gfp; 4] = [
    Gfp::GFP_KERNEL,
    Gfp::GFP_HIGHUSER_MOVABLE,
    Gfp::GFP_NOWAIT.union(Gfp::RECLAIMABLE),
    Gfp::GFP_HIGHUSER_MOVABLE.union(Gfp::DMA),
];

/// One step, on a CPU.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Allocates pages of a kind, keeping only pages at this distance from each other.
    Take(u16, usize, u32, u32),
    /// Frees held pages from a position on, forwards or backwards.
    Free(u16, usize, usize, bool),
    /// Frees every other one of them.
    FreeSome(u16, usize, usize),
    /// A larger block comes and goes, which the rule for high orders is about.
    Block(u16, u8),
    /// The pageblock of a held page becomes another type's.
    SetType(usize, usize),
    /// kswapd begins to balance a zone, or ends.
    Balance(usize, bool),
    /// Other sizes of a zone's lists.
    SetSizes(usize, u32, u32, u32),
    Drain(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = || 0..NR_CPUS;
    let zone = || 0usize..3;
    prop_oneof![
        5 => (cpu(), 0..KINDS.len(), 1u32..120, 1u32..3)
            .prop_map(|(cpu, kind, nr, step)| Step::Take(cpu, kind, nr, step)),
        6 => (cpu(), any::<usize>(), 1usize..150, any::<bool>())
            .prop_map(|(cpu, at, nr, back)| Step::Free(cpu, at, nr, back)),
        2 => (cpu(), any::<usize>(), 1usize..80)
            .prop_map(|(cpu, at, nr)| Step::FreeSome(cpu, at, nr)),
        1 => (cpu(), 0u8..5).prop_map(|(cpu, order)| Step::Block(cpu, order)),
        2 => (any::<usize>(), 0..MigrateType::COUNT).prop_map(|(at, t)| Step::SetType(at, t)),
        2 => (zone(), any::<bool>()).prop_map(|(zone, on)| Step::Balance(zone, on)),
        2 => (zone(), 1u32..20, prop_oneof![3 => 0u32..200, 1 => Just(1500)], 0u32..600)
            .prop_map(|(zone, batch, high, more)| Step::SetSizes(zone, batch, high, high + more)),
        1 => cpu().prop_map(Step::Drain),
    ]
}

/// One CPU's state for a zone: pages of each list; their total, the free factor, what the CPU
/// tuned; blocks of owned pageblocks.
type Kept = (Vec<Vec<Pfn>>, [u32; 4], Vec<Vec<Pfn>>);

/// A machine, and the pages that were taken.
struct Side<'h, S: EventSink> {
    host: &'h Solo<S>,
    memory: PageAllocator<Solo<S>>,
    held: Vec<Pfn>,
}

impl<'h, S: EventSink> Side<'h, S> {
    fn new(host: &'h Solo<S>, policy: &Policy) -> Self {
        let sizes = [(40 << 20, Vec::from([0, 1])), (24 << 20, Vec::from([2]))];
        let machine = Machine::from_sizes("m", &sizes).unwrap();
        let memory = boot(host, &machine, policy).unwrap();
        Side { host, memory, held: Vec::new() }
    }

    fn cx(&self, cpu: u16) -> Cx<'h, Solo<S>> {
        Cx::new(self.host, CpuId(cpu))
    }

    fn zone(&self, n: usize) -> &Zone<Solo<S>> {
        self.memory.populated_zones().nth(n).unwrap()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Take(cpu, kind, nr, apart) => {
                let (cx, node) = (self.cx(cpu), self.memory.cpu_node(CpuId(cpu)));
                let take =
                    |_| self.memory.alloc(&cx, &NoRelief, KINDS[kind], Order::ZERO, node, None);
                let (mut kept, mut given) = (Vec::new(), Vec::new());
                for (n, pfn) in (0..nr).map_while(take).enumerate() {
                    let list = if n % apart as usize == 0 { &mut kept } else { &mut given };
                    list.push(pfn);
                }
                self.memory.free_list(&cx, &given).unwrap();
                self.held.extend(kept);
            }
            Step::Free(cpu, at, nr, backwards) => {
                let mut pages = self.some(at, nr);
                if backwards {
                    pages.reverse();
                }
                self.memory.free_list(&self.cx(cpu), &pages).unwrap();
            }
            Step::FreeSome(cpu, at, nr) => {
                let pages = self.some(at, nr);
                let (keep, free): (Vec<_>, Vec<_>) = pages.iter().partition(|pfn| pfn.0 % 2 == 0);
                self.held.extend(keep);
                self.memory.free_list(&self.cx(cpu), &free).unwrap();
            }
            Step::Block(cpu, order) => {
                let (cx, node, order) =
                    (self.cx(cpu), self.memory.cpu_node(CpuId(cpu)), Order(order));
                let block = self.memory.alloc(&cx, &NoRelief, KINDS[0], order, node, None);
                if let Some(pfn) = block {
                    self.memory.free(&cx, pfn, order).unwrap();
                }
            }
            Step::SetType(at, migratetype) => {
                if let Some(&pfn) = self.held.get(at % self.held.len().max(1)) {
                    let zone = self.memory.zone_of(pfn).unwrap();
                    zone.set_pageblock_type(pfn, MigrateType::from_index(migratetype as u32));
                }
            }
            Step::Balance(zone, true) => self.zone(zone).set_flag(ZoneFlags::RECLAIM_ACTIVE),
            Step::Balance(zone, false) => {
                self.zone(zone).clear_flag(ZoneFlags::RECLAIM_ACTIVE);
            }
            Step::SetSizes(zone, batch, high, most) => {
                self.zone(zone).set_pcp_range(batch, high, most);
            }
            Step::Drain(cpu) => self.memory.drain_all(&self.cx(cpu), None),
        }
    }

    fn some(&mut self, at: usize, nr: usize) -> Vec<Pfn> {
        let at = at % (self.held.len() + 1);
        let end = self.held.len().min(at + nr);
        self.held.drain(at..end).collect()
    }

    fn kept(&self) -> Vec<Kept> {
        let cpus = (0..NR_CPUS)
            .flat_map(|cpu| self.memory.populated_zones().map(move |zone| (zone, CpuId(cpu))));
        cpus.map(|(zone, cpu)| {
            let pcp = zone.cpus[cpu.idx()].pcp.lock(cpu);
            let lists = pcp.lists().iter().map(|list| list.iter().collect()).collect();
            let owned = pcp.owned().lists();
            let owned = owned.map(|(.., list)| list.iter(&self.memory.map).collect()).collect();
            let counts = [pcp.count, pcp.free_factor, pcp.high, u32::from(pcp.alloc_factor)];
            (lists, counts, owned)
        })
        .collect()
    }

    /// Events, free pages as each zone counts them, charges.
    fn counts(&self) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
        (
            VmEvent::ALL.iter().map(|&event| self.memory.events.read(event)).collect(),
            self.memory.populated_zones().map(|zone| zone.nr_free_pages_exact()).collect(),
            crate::host::Cost::ALL.iter().map(|&cost| self.host.charged(cost)).collect(),
        )
    }

    fn words(&self) -> Vec<(u32, u32)> {
        self.memory.map.iter().map(|page| (page.word(), page.refcount())).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn frees_together_are_frees_one_by_one(
        steps in prop::collection::vec(step(), 1..120),
        policy in prop_oneof![
            1 => Just("pcp-blocks"),
            4 => (0..PRESETS.len()).prop_map(|at| PRESETS[at].0),
        ],
        // Values of switches that no preset has, each with any of the other values.
        late in (0..PcpSizing::CHOICES.len(), 0..FreeFactor::CHOICES.len(),
                 0..HighOrderFree::CHOICES.len(), any::<bool>()),
        is_late in any::<bool>(),
    ) {
        let name = policy;
        let mut policy = preset(name).unwrap();
        if is_late {
            let (sizing, factor, high_order, by_batch) = late;
            let mut set = |path, choices: &[Choice], at: usize| {
                policy.set(path, Value::Choice(choices[at].name)).unwrap();
            };
            set("pcp.sizing", PcpSizing::CHOICES, sizing);
            set("pcp.free-factor", FreeFactor::CHOICES, factor);
            set("pcp.high-order-free", HighOrderFree::CHOICES, high_order);
            set("pcp.drain-portion", DrainPortion::CHOICES, by_batch.into());
            set("pcp.drain-type", DrainType::CHOICES, by_batch.into());
        }
        let (untraced, traced) = (Solo::new(()), Solo::new(|_: CpuId, _: &Event| ()));
        let (mut together, mut single) =
            (Side::new(&untraced, &policy), Side::new(&traced, &policy));
        for step in steps {
            together.step(step);
            single.step(step);
            prop_assert!(together.held == single.held, "{name}, {step:?}: other pages");
            prop_assert!(together.kept() == single.kept(), "{name}, {step:?}: other lists");
            prop_assert_eq!(together.counts(), single.counts(), "{}, {:?}", name, step);
        }
        prop_assert!(together.words() == single.words(), "{name}: other words");
        for class in LockClass::ALL {
            prop_assert_eq!(untraced.takings(class), traced.takings(class), "{:?}", class);
        }
    }
}

/// Two zones meet in the middle of a chunk, whose word names only one of them.
#[test]
fn where_zones_meet_pages_go_home() {
    let border = 5632;
    let zones = vec![
        ZoneSpec::full(ZoneType::Dma32, 4096, border - 4096),
        ZoneSpec::full(ZoneType::Normal, border, 8192 - border),
    ];
    let machine = Machine::of_nodes("m", vec![NodeSpec { cpus: vec![0], zones }]).unwrap();
    let host = Solo::default();
    let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
    let cx = Cx::new(&host, CpuId(0));
    let gfp = Gfp::GFP_KERNEL.union(Gfp::DMA32);
    let take = || memory.alloc(&cx, &NoRelief, gfp, Order::ZERO, NodeId(0), None);
    let pages: Vec<Pfn> = core::iter::from_fn(take).collect();
    let misleading = |pfn: &Pfn| memory.map.likely_zone(*pfn) != memory.map.page(*pfn).zone_id();
    assert!(pages.iter().filter(|pfn| misleading(pfn)).count() > 300);
    for pfn in pages {
        memory.free(&cx, pfn, Order::ZERO).unwrap();
    }
    memory.drain_all(&cx, None);
    crate::audit::check(&memory, &cx).unwrap();
    assert_eq!(memory.nr_free_pages(), 4096);
}
