//! What a seed decides before the first operation: machine, policy, sysctls.

use highwater_core::config::{Machine, NodeSpec, PRESETS, Policy, Thp, Tunables, ZoneSpec, preset};
use highwater_core::zone::ZoneType;

/// A small generator of numbers (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A machine and a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) machine: Machine,
    pub(crate) policy: Policy,
}

impl Setup {
    pub(crate) fn draw(rng: &mut Rng) -> Setup {
        let (name, _) = PRESETS[rng.below(PRESETS.len() as u64) as usize];
        let mut setup = Setup { machine: machine(rng), policy: preset(name).expect(name) };
        if rng.one_in(2) {
            draw_pcp(rng, &mut setup.policy);
        }
        setup
    }
}

/// Sets about half of the switches of per-CPU lists to some value, whatever the others are.
fn draw_pcp(rng: &mut Rng, policy: &mut Policy) {
    for field in Policy::describe().iter().filter(|field| field.path.starts_with("pcp.")) {
        if rng.one_in(2) {
            let value = field.values.drawn(rng.below(field.values.nr_drawn() as u64) as usize);
            policy.set(&field.path, value).expect("a value of this switch");
        }
    }
}

fn machine(rng: &mut Rng) -> Machine {
    let nr_nodes = 1 + rng.below(4) as usize;
    let mut next_pfn = 4096;
    let mut next_cpu = 0;
    let mut nodes = Vec::new();
    for n in 0..nr_nodes {
        let mut zones = Vec::new();
        if n == 0 && !rng.one_in(4) {
            let pages = 1000 + rng.below(3000);
            zones.push(zone(rng, ZoneType::Dma, 1, pages));
        }
        // Now and then zones that neither start nor end on a block.
        next_pfn += if rng.one_in(3) { rng.below(700) } else { 0 };
        let pages = 1500 + rng.below(9000);
        zones.push(zone(rng, ZoneType::Dma32, next_pfn, pages));
        next_pfn += pages;
        if rng.one_in(3) {
            let pages = 600 + rng.below(4000);
            zones.push(zone(rng, ZoneType::Movable, next_pfn, pages));
            next_pfn += pages;
        }
        if rng.one_in(6) && n + 1 == nr_nodes {
            let pages = 600 + rng.below(9000);
            zones.push(zone(rng, ZoneType::Normal, 1 << 20, pages));
        }
        let nr_cpus = if n == 0 { 1 + rng.below(3) } else { rng.below(3) } as u16;
        nodes.push(NodeSpec { cpus: (next_cpu..next_cpu + nr_cpus).collect(), zones });
        next_cpu += nr_cpus;
        if rng.one_in(8) && n + 1 < nr_nodes {
            nodes.last_mut().unwrap().zones.retain(|z| z.zone == ZoneType::Dma || n == 0);
        }
    }
    let n = nodes.len();
    let distance = |i: usize, j: usize| if i == j { 10 } else { 20 + 15 * ((i + j) as u16 % 2) };
    let distances = (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect();
    let defaults = Tunables::default();
    let tunables = Tunables {
        thp: Thp::Never,
        min_free_kbytes: rng.one_in(3).then(|| 128 + rng.below(4000)),
        watermark_boost_factor: if rng.one_in(3) { 0 } else { 15_000 },
        percpu_pagelist_high_fraction: if rng.one_in(4) { 8 } else { 0 },
        zone_reclaim_mode: u8::from(rng.one_in(4)),
        cpusets: rng.one_in(4),
        ..defaults
    };
    Machine { name: "drawn".into(), nodes, distances, tunables, ..Machine::default() }
}

fn zone(rng: &mut Rng, zone: ZoneType, start_pfn: u64, pages: u64) -> ZoneSpec {
    let mut spec = ZoneSpec::full(zone, start_pfn, pages);
    if rng.one_in(2) {
        spec.managed = pages - rng.below(pages / 4);
        spec.managed_at_boot = spec.managed - rng.below(spec.managed / 4);
        spec.present = spec.managed + rng.below(pages - spec.managed + 1);
    }
    spec
}
