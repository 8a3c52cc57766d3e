//! The choices of one seed: machine, kernel, disks, files, tasks.

use std::fmt;

use highwater_core::block::{DeviceId, Writer};
use highwater_core::config::{
    FileFolios, LruTopology, Machine, Policy, Thp, ThpDefrag, Tunables, ZoneSpec, preset,
};
use highwater_core::page_cache::{Buffers, FileSpec, Filesystem};
use highwater_core::swap::SwapSpec;
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask, ZoneType};

use super::draw::Draw;
use super::mix::{Mix, Op};
use super::policy;
use crate::cost::CostTable;
use crate::cpu::SchedPolicy;
use crate::disk::{DiskSpec, FaultySpec, PerDirection, Scheduler};
use crate::rng::Stream;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE_BITS: u32 = 12;
/// A smaller node could not hold the minimum of a zone.
const NODE_MIN: u64 = MIB;
/// The first node contains the whole DMA zone.
const FIRST_NODE_MIN: u64 = 32 * MIB;
const NR_CPUS_MAX: u64 = 16;
const NR_TASKS_MAX: u64 = 40;

/// All choices of a seed before the run. Further streams of the same seed choose the operations of
/// tasks during the run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// Nodes, CPUs, memory, sysctls.
    pub machine: Machine,
    /// Name and table of the costs of operations.
    pub costs: (&'static str, CostTable),
    /// The scheduler.
    pub sched: SchedPolicy,
    /// The kernel.
    pub policy: Policy,
    /// Disks, by device number.
    pub disks: Vec<DiskSpec>,
    /// Swap areas.
    pub swap: Vec<SwapSpec>,
    /// Files that all tasks share.
    pub files: Vec<FileSpec>,
    /// Pages taken from the allocator before anything else happens, so that memory soon runs short.
    pub ballast: u64,
    /// Operations of tasks.
    pub mix: Mix,
    /// Tasks at first.
    pub nr_tasks: u64,
    /// Most tasks in all, including those that tasks start.
    pub nr_tasks_max: u64,
    /// Work of the kernel before programs end: faults, pages moved, scanned and freed, and a small
    /// amount for each operation.
    pub work: u64,
    /// Most pages of a region, a read or a run of touches.
    pub reach: u64,
    /// Tasks may only use some nodes.
    pub has_mems_allowed: bool,
    /// Tasks are bound to CPUs and nodes.
    pub is_pinned: bool,
    /// Memory cgroups that tasks may make, at most; 0: the kernel has none.
    pub nr_groups: u16,
    /// Tasks use sockets.
    pub has_sockets: bool,
    /// Number of times that all programs stop for an audit before the end.
    pub nr_audits: u64,
}

impl Options {
    /// The options of a seed.
    pub fn draw(seed: u64) -> Options {
        let (mut machine, costs) = draw_machine(&mut Stream::new(seed, "swarm/machine"));
        let bytes = memory_of(&machine);
        machine.tunables = draw_tunables(&mut Stream::new(seed, "swarm/tunables"), bytes);
        draw_huge_pages(&mut Stream::new(seed, "swarm/huge"), &mut machine.tunables);
        let mut policy = policy::draw(&mut Stream::new(seed, "swarm/policy"));
        policy::draw_later(&mut Stream::new(seed, "swarm/later"), &mut policy);
        policy::draw_folios(&mut Stream::new(seed, "swarm/folios"), &mut policy);
        policy::draw_mglru(&mut Stream::new(seed, "swarm/mglru"), &mut policy);
        if policy.folio.file != FileFolios::None {
            leave_room_for_folios(&mut machine.tunables);
        }
        let mut s = Stream::new(seed, "swarm/tasks");
        let nr_tasks = s.magnitude(1, NR_TASKS_MAX);
        let pages = bytes >> PAGE_BITS;
        // Large machines are only ever short of memory with ballast.
        let usable = pages - pages / 16;
        let ballast = match s.below(8) {
            0 => 0,
            1 => s.below(usable),
            _ => usable.saturating_sub(s.magnitude(500, 40_000)),
        };
        let room = (pages - ballast).min(60_000);
        let storage = &mut Stream::new(seed, "swarm/disks");
        let (disks, swap, files) = draw_storage(storage, room);
        let work = match s.below(5) {
            0 => s.magnitude(1000, room),
            _ => s.range(2 * room, 15 * room),
        };
        // Usually all tasks together want more than the memory of the machine.
        let reach = match s.below(4) {
            0 => s.magnitude(64, room),
            _ => (room * s.range(1, 9) / nr_tasks).clamp(64, room),
        };
        let nr_groups = draw_groups(&mut Stream::new(seed, "swarm/groups"), &policy);
        Options {
            seed,
            costs,
            sched: Stream::new(seed, "swarm/sched").pick(&SchedPolicy::ALL),
            policy,
            disks,
            swap,
            files,
            ballast,
            mix: Mix::draw(&mut s),
            nr_tasks,
            nr_tasks_max: nr_tasks + s.below(NR_TASKS_MAX),
            work,
            reach,
            has_mems_allowed: machine.nodes.len() > 1 && s.one_in(4),
            is_pinned: s.one_in(3),
            nr_audits: s.pick(&[0, 0, 1, 1, 3]),
            nr_groups,
            has_sockets: nr_groups > 0 && Stream::new(seed, "swarm/sockets").one_in(3),
            machine,
        }
    }

    /// True if some disk fails some of its transfers.
    pub fn has_errors(&self) -> bool {
        let fails = |faults: &FaultySpec| faults.errors.read > 0.0 || faults.errors.write > 0.0;
        self.disks.iter().any(|disk| disk.faults.as_ref().is_some_and(fails))
    }

    /// Nodes with memory.
    pub fn nodes_with_memory(&self) -> Vec<NodeId> {
        let nodes = (0u16..).zip(&self.machine.nodes);
        nodes.filter(|(_, node)| !node.zones.is_empty()).map(|(id, _)| NodeId(id)).collect()
    }

    /// A memory policy, possibly with nodes that do not exist.
    pub(super) fn draw_memory_policy(&self, stream: &mut Stream) -> MemoryPolicy {
        let nr_nodes = self.machine.nodes.len() as u64;
        let nodes = NodeMask::from_bits(stream.below(1 << nr_nodes));
        match stream.below(6) {
            0 => MemoryPolicy::Bind(nodes),
            1 => MemoryPolicy::Preferred(NodeId(stream.below(nr_nodes) as u16)),
            2 => MemoryPolicy::PreferredMany(nodes),
            3 => MemoryPolicy::Interleave(nodes),
            _ => MemoryPolicy::Default,
        }
    }

    /// A set of nodes that a task may be bound to.
    pub(super) fn draw_mems_allowed(&self, stream: &mut Stream) -> NodeMask {
        let nodes = self.nodes_with_memory();
        let sure = stream.pick(&nodes);
        let more = nodes.iter().filter(|_| stream.one_in(3));
        more.fold(NodeMask::of(sure), |mask, &node| mask.with(node))
    }
}

/// Room for memory cgroups: in one of three runs, if the kernel's lists are those of nodes.
fn draw_groups(s: &mut Stream, policy: &Policy) -> u16 {
    match s.one_in(3) && policy.reclaim.lru == LruTopology::Node {
        true => s.magnitude(2, 40) as u16,
        false => 0,
    }
}

/// Bytes of memory, as the zones count them.
fn memory_of(machine: &Machine) -> u64 {
    machine.nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.managed << PAGE_BITS).sum()
}

fn draw_machine(s: &mut Stream) -> (Machine, (&'static str, CostTable)) {
    // Descriptors and the audit's notes cost about 100 bytes of the host's memory for each frame.
    let bytes = match s.weighted(&[60, 25, 12, 2, 1]) {
        0 => s.range(64 * MIB, 200 * MIB),
        1 => s.range(200 * MIB, GIB),
        2 => s.range(GIB, 6 * GIB),
        3 => s.range(6 * GIB, 16 * GIB),
        _ => s.range(16 * GIB, 64 * GIB + 1),
    };
    let nr_nodes = [1, 2, 3, 4, 6, 8][s.weighted(&[50, 25, 8, 9, 4, 4])];
    let nodes = draw_nodes(s, bytes, nr_nodes);
    let mut machine = Machine::from_sizes("swarm", &nodes).expect("nodes of sensible sizes");
    for from in 0..nr_nodes {
        for to in 0..from {
            let distance = s.pick(&[11, 15, 20, 21, 30, 31, 40, 255]);
            machine.distances[from][to] = distance;
            machine.distances[to][from] = distance;
        }
    }
    if s.one_in(6) {
        draw_holes(s, &mut machine);
    }
    if s.one_in(6) {
        draw_movable(s, &mut machine);
    }
    (machine, draw_costs(s))
}

/// One of the project's tables, with caches of any size.
fn draw_costs(s: &mut Stream) -> (&'static str, CostTable) {
    let (name, text) = s.pick(COSTS);
    let mut text = if s.one_in(2) { distort(s, text) } else { text.to_owned() };
    text.push_str("\n[cache]\n");
    for (key, unit, low, high) in [
        ("l1", "bytes", 8 << 10, 128 << 10),
        ("l2", "bytes", 64 << 10, 4 << 20),
        ("llc", "bytes", 1 << 20, 64 << 20),
        ("sockets", "count", 1, 4),
    ] {
        let value = s.magnitude(low, high);
        text.push_str(&format!("{key} = {{ {unit} = {value}, source = \"drawn\" }}\n"));
    }
    (name, CostTable::parse(name, &text).expect("the project's own table"))
}

/// The table with figures changed by up to 30 times either way, so that events coincide that never
/// do on a real machine.
fn distort(s: &mut Stream, text: &str) -> String {
    let figure = |s: &mut Stream, line: &str| {
        let (before, rest) = line.split_once("{ ns = ")?;
        let (ns, after) = rest.split_once(',')?;
        let ns = ns.parse::<u64>().ok()? * s.magnitude(1, 30) / s.magnitude(1, 30);
        Some(format!("{before}{{ ns = {ns},{after}"))
    };
    let lines = text.lines().map(|line| figure(s, line).unwrap_or_else(|| line.to_owned()) + "\n");
    lines.collect()
}

/// Cost tables.
const COSTS: &[(&str, &str)] = &[
    ("server-3ghz", include_str!("../../costs/server-3ghz.toml")),
    ("little-core", include_str!("../../costs/little-core.toml")),
    ("qemu-tcg", include_str!("../../costs/qemu-tcg.toml")),
];

/// Bytes and CPUs by node; some have no memory, some no CPUs.
fn draw_nodes(s: &mut Stream, bytes: u64, nr_nodes: usize) -> Vec<(u64, Vec<u16>)> {
    let mut sizes = vec![0; nr_nodes];
    let mut left = bytes;
    for (node, size) in sizes.iter_mut().enumerate().skip(1) {
        let share = left / (nr_nodes - node + 1) as u64;
        let drawn = match s.below(8) {
            0 => 0,
            1 => s.magnitude(NODE_MIN, share),
            _ => s.range(share / 2, share * 3 / 2),
        };
        *size = drawn.min(left - FIRST_NODE_MIN) & !0xfff;
        *size = if *size < NODE_MIN { 0 } else { *size };
        left -= *size;
    }
    sizes[0] = left & !0xfff;
    // A few of the first nodes may have no memory.
    let nr_bare = sizes[1..].iter().take_while(|&&size| size == 0).count() as u64;
    if nr_bare > 0 && s.one_in(2) {
        sizes.swap(0, s.range(1, nr_bare + 1) as usize);
    }
    let nr_cpus = s.magnitude(1, NR_CPUS_MAX) as u16;
    let mut nodes: Vec<(u64, Vec<u16>)> =
        sizes.into_iter().map(|size| (size, Vec::new())).collect();
    for cpu in 0..nr_cpus {
        nodes[s.below(nr_nodes as u64) as usize].1.push(cpu);
    }
    nodes
}

/// Frames that do not exist, and frames that the allocator never gets.
fn draw_holes(s: &mut Stream, machine: &mut Machine) {
    for zone in machine.nodes.iter_mut().flat_map(|node| &mut node.zones) {
        if s.one_in(2) {
            zone.present -= s.below(zone.present / 4 + 1);
            zone.managed = zone.managed.min(zone.present);
            zone.managed -= s.below(zone.managed / 4 + 1);
            zone.managed_at_boot = zone.managed - s.below(zone.managed / 8 + 1);
        }
    }
}

/// The upper part of some node's last zone becomes a movable zone.
fn draw_movable(s: &mut Stream, machine: &mut Machine) {
    let which = s.below(machine.nodes.len() as u64) as usize;
    let zones = &mut machine.nodes[which].zones;
    let Some(last) = zones.last_mut() else { return };
    let taken = s.below(last.managed) & !511;
    let is_whole = last.present == last.spanned && last.zone != ZoneType::Dma;
    if taken == 0 || !is_whole {
        return;
    }
    last.spanned -= taken;
    last.present -= taken;
    last.managed -= taken;
    last.managed_at_boot = last.managed_at_boot.min(last.managed);
    let start = last.start_pfn + last.spanned;
    zones.push(ZoneSpec::full(ZoneType::Movable, start, taken));
}

/// Limits of dirty pages that are larger than folios. Under a smaller limit a task that stores
/// through a mapping may never get on, in Linux as here: its folio alone exceeds the limit, so the
/// task waits, and the flusher protects the page again meanwhile (rules/large-folios#dirty).
fn leave_room_for_folios(t: &mut Tunables) {
    const LEAST: u64 = 16 << 20;
    if t.dirty_bytes != 0 {
        t.dirty_bytes = t.dirty_bytes.max(LEAST);
    }
    t.dirty_ratio = t.dirty_ratio.max(20);
}

fn draw_tunables(s: &mut Stream, bytes: u64) -> Tunables {
    let mut t = Tunables::default();
    let rarity = s.pick(&[2, 5, 20]);
    let is_set = |s: &mut Stream| s.one_in(rarity);
    if is_set(s) {
        t.thp = s.pick(&[Thp::Always, Thp::Always, Thp::Madvise, Thp::Never]);
    }
    if is_set(s) {
        t.min_free_kbytes = Some(s.magnitude(64, bytes >> 13));
    }
    if is_set(s) {
        t.watermark_scale_factor = s.magnitude(1, 1000);
    }
    if is_set(s) {
        t.watermark_boost_factor = s.pick(&[0, 1, 15_000, 100_000]);
    }
    if is_set(s) {
        t.percpu_pagelist_high_fraction = s.pick(&[0, 8, 100, 10_000]);
    }
    if is_set(s) {
        t.lowmem_reserve_ratio = [s.magnitude(1, 1000), s.magnitude(1, 1000), 32, 0];
    }
    if is_set(s) {
        t.zone_reclaim_mode = s.below(8) as u8;
    }
    if is_set(s) {
        t.dirty_ratio = s.below(101);
        t.dirty_background_ratio = s.below(101);
    }
    if is_set(s) {
        t.dirty_bytes = s.magnitude(8192, bytes);
        t.dirty_background_bytes = s.magnitude(4096, bytes);
    }
    if is_set(s) {
        t.dirty_expire_centisecs = s.magnitude(1, 30_000);
        t.dirty_writeback_centisecs = s.pick(&[0, 1, 10, 500, 3000]);
    }
    if is_set(s) {
        t.swappiness = s.pick(&[0, 1, 60, 100, 199, 200]);
    }
    if is_set(s) {
        t.page_cluster = s.below(7);
    }
    if is_set(s) {
        t.min_unmapped_ratio = s.below(101);
        t.min_slab_ratio = s.below(101);
    }
    t.cpusets = is_set(s);
    t
}

/// Huge pages, where memory is large enough: mostly enabled, and mostly for all programs.
/// khugepaged runs often.
fn draw_huge_pages(s: &mut Stream, t: &mut Tunables) {
    t.thp_defrag = s.pick(&[
        ThpDefrag::Kernel,
        ThpDefrag::Kernel,
        ThpDefrag::Always,
        ThpDefrag::Defer,
        ThpDefrag::DeferMadvise,
        ThpDefrag::Madvise,
        ThpDefrag::Never,
    ]);
    t.thp_zero_page = !s.one_in(5);
    t.khugepaged_defrag = s.one_in(2);
    t.khugepaged_scan_sleep_millisecs = s.pick(&[0, 1, 20, 10_000]);
    t.khugepaged_alloc_sleep_millisecs = s.pick(&[0, 10, 60_000]);
    t.khugepaged_pages_to_scan = s.pick(&[1, 513, 4096]);
    t.khugepaged_max_ptes_none = s.pick(&[0, 64, 511, 511]);
    t.khugepaged_max_ptes_swap = s.pick(&[0, 64, 511]);
}

type Storage = (Vec<DiskSpec>, Vec<SwapSpec>, Vec<FileSpec>);

/// Disks, swap areas at their start, and files behind the swap areas, for `memory` pages.
fn draw_storage(s: &mut Stream, memory: u64) -> Storage {
    let nr_disks = s.range(1, 4);
    let mut swap: Vec<SwapSpec> = Vec::new();
    for device in 0..nr_disks.min([0, 1, 2][s.weighted(&[3, 6, 3])]) {
        let pages = match s.below(4) {
            0 => s.range(2, 200),
            1 => s.magnitude(200, memory / 4),
            _ => s.range(memory / 4, memory * 2),
        };
        let priority = s.pick(&[-2, -2, 0, 5]);
        swap.push(SwapSpec { device: DeviceId(device as u8), pages: pages as u32, priority });
    }
    let mut ends: Vec<u64> = (0..nr_disks as usize)
        .map(|disk| swap.get(disk).map_or(0, |area| u64::from(area.pages)))
        .collect();
    let nr_files = s.magnitude(1, 12);
    let files = (0..nr_files).map(|_| draw_file(s, &mut ends, memory)).collect();
    let rarity = s.pick(&[None, None, Some(2), Some(1)]);
    let disks = ends
        .iter()
        .enumerate()
        .map(|(device, &end)| {
            let name = format!("disk{device}");
            let mut disk = match s.weighted(&[4, 2, 2, 2]) {
                0 => DiskSpec::nvme(name, end + 1),
                1 => DiskSpec::sata_ssd(name, end + 1),
                2 => DiskSpec::hdd(name, end + 1),
                _ => DiskSpec::ram(name, end + 1),
            };
            draw_queue(s, &mut disk);
            if rarity.is_some_and(|rarity| s.one_in(rarity)) {
                disk.faults = Some(draw_faults(s, end + 1));
            }
            disk
        })
        .collect();
    (disks, swap, files)
}

fn draw_file(s: &mut Stream, ends: &mut [u64], memory: u64) -> FileSpec {
    let device = s.below(ends.len() as u64) as usize;
    let max_pages = match s.below(8) {
        0 => s.magnitude(memory, u64::from(u32::MAX)),
        1 | 2 => s.range(1, 64),
        3 | 4 => s.range(memory / 4, memory * 2),
        _ => s.magnitude(64, memory),
    };
    let size = match s.below(5) {
        0 => 0,
        1 => s.below(max_pages << PAGE_BITS),
        _ => max_pages << PAGE_BITS,
    };
    let device_start = ends[device];
    ends[device] += max_pages;
    let filesystem = Filesystem {
        has_writepage: s.one_in(2),
        writer: if s.one_in(2) { Writer::Iomap } else { Writer::BufferHeads },
        is_memory: s.one_in(5),
        is_journalled: false,
        buffers: Buffers::None,
    };
    // Buffers as in the two existing file systems.
    let buffers = match filesystem.writer {
        Writer::BufferHeads if !filesystem.is_memory => Buffers::Written,
        _ => Buffers::None,
    };
    let filesystem = Filesystem { buffers, ..filesystem };
    FileSpec::new(filesystem, DeviceId(device as u8), device_start, max_pages as u32)
        .with_size(size)
}

fn draw_queue(s: &mut Stream, disk: &mut DiskSpec) {
    if s.one_in(4) {
        disk.depth = s.magnitude(1, 64) as u32;
        disk.request_pages_max = s.magnitude(1, 512) as u32;
        // Fewer than pages, so that both limits are met; none for the smallest.
        disk.max_segments = disk.request_pages_max / 3;
        disk.scheduler = s.pick(&[Scheduler::None, Scheduler::Deadline]);
        disk.rotational = s.one_in(2);
    }
    disk.stable_writes = s.one_in(4);
}

fn draw_faults(s: &mut Stream, pages: u64) -> FaultySpec {
    let mut rate = || s.pick(&[0.0, 0.0, 0.001, 0.02, 0.2, 1.0]);
    let errors = PerDirection { read: rate(), write: rate() };
    let slow = s.pick(&[0.0, 0.01, 0.2]);
    let from = s.below(pages);
    let some = from..s.range(from, pages) + 1;
    FaultySpec {
        errors,
        pages: s.one_in(3).then_some(some),
        nr_good_first: s.pick(&[0, 100, 1000]),
        slow,
        slow_factor: s.magnitude(2, 1000),
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (id, node) in self.machine.nodes.iter().enumerate() {
            write!(f, "node {id}: CPUs {:?};", node.cpus)?;
            for z in &node.zones {
                let (zone, start, end) = (z.zone, z.start_pfn, z.start_pfn + z.spanned);
                write!(f, " {zone} {start}..{end} present {} managed {};", z.present, z.managed)?;
            }
            writeln!(f, " distances {:?}", self.machine.distances[id])?;
        }
        let usual = Tunables::default();
        if self.machine.tunables != usual {
            writeln!(f, "{:?}", self.machine.tunables)?;
        }
        writeln!(f, "costs {}; scheduler {}", self.costs.0, self.sched.name())?;
        write!(f, "policy {}", self.policy.name)?;
        let base = preset(self.policy.name.trim_end_matches(policy::TURNED));
        let turned = base.map(|base| base.differences(&self.policy)).unwrap_or_default();
        for (i, switch) in turned.iter().enumerate() {
            let before = if i == 0 { ": " } else { ", " };
            write!(f, "{before}{} = {}", switch.path, switch.to)?;
        }
        writeln!(f)?;
        for disk in &self.disks {
            writeln!(f, "{disk:?}")?;
        }
        for area in &self.swap {
            writeln!(f, "{area:?}")?;
        }
        for file in &self.files {
            writeln!(f, "{file:?}")?;
        }
        writeln!(
            f,
            "ballast {} pages; {} to {} tasks; work {} pages; reach {} pages; cpusets {}; pinned {}; \
             groups {}; sockets {}; {} audits before the end",
            self.ballast,
            self.nr_tasks,
            self.nr_tasks_max,
            self.work,
            self.reach,
            self.has_mems_allowed,
            self.is_pinned,
            self.nr_groups,
            self.has_sockets,
            self.nr_audits
        )?;
        writeln!(f, "mix {}", self.mix)?;
        let never: Vec<Op> = Op::ALL.iter().copied().filter(|&op| !self.mix.has(op)).collect();
        write!(f, "never {never:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_choose_machines_that_can_exist() {
        let (mut nr_large, mut nr_small) = (0, 0);
        for seed in 0..3000 {
            let options = Options::draw(seed);
            options.machine.validate().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let frames = options.machine.nodes.iter().flat_map(|node| &node.zones);
            let bytes = frames.map(|zone| zone.spanned << PAGE_BITS).sum::<u64>();
            assert!((63 * MIB..=64 * GIB).contains(&bytes), "seed {seed}: {bytes}");
            nr_large += u32::from(bytes > 16 * GIB);
            nr_small += u32::from(bytes <= 200 * MIB);
            for area in &options.swap {
                assert!(u64::from(area.pages) <= options.disks[area.device.0 as usize].nr_pages);
            }
            assert!((1..=40).contains(&options.nr_tasks));
        }
        assert!((10..60).contains(&nr_large), "{nr_large}");
        assert!(nr_small > 1500, "{nr_small}");
    }

    #[test]
    fn a_seed_chooses_once_and_for_all() {
        for seed in [0, 1, 77] {
            assert_eq!(Options::draw(seed).to_string(), Options::draw(seed).to_string());
        }
        assert_ne!(Options::draw(1).to_string(), Options::draw(2).to_string());
    }
}
