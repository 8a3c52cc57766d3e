//! The captured machine, with the contents of its memory.

use std::collections::BTreeMap;

use highwater_core::block::DeviceId;
use highwater_core::config::{KernelVersion, PcpSizing, Policy, Thp};
use highwater_core::host::{Cx, Devices, Lock};
use highwater_core::kernel::Kernel;
use highwater_core::page::PAGE_SIZE;
use highwater_core::swap::SwapSpec;
use highwater_core::zone::{NodeId, ZoneType, watermark::Marks};
use highwater_results::import::linux61::{Node, NodeLevels, Zone};
use highwater_sim::disk::{DiskKind, DiskSpec, HddSpec, RateLimit, Scheduler};
use highwater_sim::machine::MachineConfig;
use highwater_workloads::scenario::{Baseline, IdleLists, ZoneFree};

use crate::capture::booted::adopt_settings;
use crate::capture::captured::captured_machine;
use highwater_files::input::InputError;
use highwater_files::machine_file::{MachineFile, check_size};

/// The machine file with the operation costs of the emulator, for one or two CPUs.
pub(super) const EMULATOR: &str = "captured-vm";
/// The same for the emulator with four CPUs on two cores of the host, which ran the throttling
/// captures.
pub(super) const EMULATOR_OF_FOUR: &str = "captured-vm-4";
/// Device numbers.
pub(super) const DATA: DeviceId = DeviceId(0);
const SWAP: DeviceId = DeviceId(1);
/// Sizes of the captured machines' disks, 3 GiB for files and 2 GiB for swap, in pages.
pub(super) const DATA_PAGES: u64 = 3 << 18;
const SWAP_PAGES: u32 = 2 << 18;
/// Both disks are flagged rotational, and neither rotates. They transfer about 0.2 to 1 GB/s, and a
/// request costs the emulator's overhead wherever it goes. The captured times give this overhead:
/// writing back what `randwrite-0.5` left dirty took 38 to 46 us a page, about 50 us a request.
const DISK: HddSpec =
    HddSpec { seek_min_ns: 50_000, seek_max_ns: 50_000, ..HddSpec::streaming(500_000_000) };
/// Segments in a request of QEMU's virtio-blk: entries of its queue (256) without the header and the
/// status. The captures do not have the figure, but `queue/max_segments` of other such disks is 254.
const DISK_SEGMENTS: u32 = 254;

/// A file's description of its machine.
pub(super) struct System<'a> {
    /// The file.
    pub(super) file: &'a str,
    /// Name of the machine.
    pub(super) name: &'a str,
    /// CPUs.
    pub(super) cpus: u32,
    /// Nodes; empty: one with all CPUs.
    pub(super) nodes: &'a [Node],
    /// Zones with memory.
    pub(super) zones: &'a [Zone],
    /// Levels before the work; missing ones come from the zones.
    pub(super) gauges: BTreeMap<String, i64>,
    /// The same for each node; empty if not recorded.
    pub(super) start_nodes: &'a [NodeLevels],
    /// Bytes a second that each disk is limited to.
    pub(super) disk_limit: Option<u64>,
    /// Name of the machine file with the operation costs.
    pub(super) costs_of: &'a str,
    /// Pages of swap; `None`: the usual swap of the captured machines.
    pub(super) swap_pages: Option<u32>,
    /// The kernel's settings, by Linux's names.
    pub(super) settings: BTreeMap<String, String>,
}

/// Settings of the disks' queues; `None`: the usual ones of such disks.
struct Queue {
    depth: Option<u32>,
    scheduler: Option<Scheduler>,
    wbt: bool,
    request_pages: Option<u32>,
    read_ahead_kb: Option<u32>,
}

/// The first kernel with requests of 4 MiB. A rotational disk that asks for no size reads twice as
/// much ahead (rules/readahead#windows-of-disks).
const LARGE_REQUESTS: KernelVersion = KernelVersion::of("6.15");
const LARGE_REQUEST_KB: u32 = 4096;
/// Longest window that a captured queue may have: 1 GiB.
const READ_AHEAD_KB_MAX: u32 = 1 << 20;

/// The queue of the data disk, from its directory in sysfs. Both disks are of one model, so the
/// swap disk has the same queue. Writeback throttling is set per disk; the capture has it for this
/// one.
fn queue(system: &System<'_>, kernel: KernelVersion) -> Result<Queue, InputError> {
    let setting = |key: &str| system.settings.get(&format!("vda.queue.{key}")).map(String::as_str);
    let wrong = |key: &str, value: &str| InputError {
        file: system.file.to_owned(),
        line: None,
        field: Some(format!("settings.vda.queue.{key}")),
        reason: format!("cannot be {value:?}"),
    };
    let is_later = kernel >= LARGE_REQUESTS;
    let mut queue = Queue {
        depth: None,
        scheduler: None,
        wbt: setting("wbt_lat_usec") != Some("0"),
        request_pages: is_later.then_some(LARGE_REQUEST_KB * 1024 / PAGE_SIZE as u32),
        read_ahead_kb: (is_later && setting("rotational") == Some("1"))
            .then_some(2 * LARGE_REQUEST_KB),
    };
    // A disk with a hardware queue for each CPU has no scheduler, and counts requests per queue.
    let nr_queues;
    (queue.scheduler, nr_queues) = match setting("scheduler") {
        None => (None, 1),
        Some("none") => (Some(Scheduler::None), system.cpus.max(1)),
        Some("mq-deadline") => (Some(Scheduler::Deadline), 1),
        Some(other) => return Err(wrong("scheduler", other)),
    };
    if let Some(text) = setting("nr_requests") {
        let depth: Option<u32> = text.parse().ok().filter(|depth| (4..=65_536).contains(depth));
        let depth = depth.ok_or_else(|| wrong("nr_requests", text))?;
        queue.depth = Some(depth.saturating_mul(nr_queues));
    }
    if let Some(text) = setting("read_ahead_kb") {
        let kb = text.parse().ok().filter(|kb| *kb <= READ_AHEAD_KB_MAX);
        queue.read_ahead_kb = Some(kb.ok_or_else(|| wrong("read_ahead_kb", text))?);
    }
    Ok(queue)
}

/// The machine to boot.
pub(super) fn config(system: &System<'_>, policy: &Policy) -> Result<MachineConfig, InputError> {
    let costs = MachineFile::load(system.costs_of)?
        .costs()
        .map_err(|reason| InputError::whole(system.costs_of, reason))?;
    let mut shape = captured_machine(system.name, system.cpus, system.nodes, system.zones);
    // As the captured kernels were set: huge pages for everybody (`always`), and khugepaged
    // collapses what it finds.
    shape.tunables.thp = Thp::Always;
    shape.tunables.khugepaged_defrag = false;
    adopt_settings(system.file, &system.settings, &mut shape.tunables)?;
    shape.validate().map_err(|error| InputError {
        file: system.file.to_owned(),
        line: None,
        field: Some(error.field),
        reason: error.reason,
    })?;
    check_size(&shape).map_err(|reason| InputError {
        file: system.file.to_owned(),
        line: None,
        field: Some("zones".to_owned()),
        reason,
    })?;
    let queue = queue(system, policy.kernel)?;
    let mut config = MachineConfig::new(shape, costs, policy.clone());
    config.advised = true;
    let disk = |name: &str, pages: u64| {
        let mut disk = DiskSpec::new(name, DiskKind::Hdd(DISK), pages);
        disk.limit = system.disk_limit.map(RateLimit::new);
        disk.max_segments = DISK_SEGMENTS;
        disk.depth = queue.depth.unwrap_or(disk.depth);
        disk.scheduler = queue.scheduler.unwrap_or(disk.scheduler);
        disk.request_pages_max = queue.request_pages.unwrap_or(disk.request_pages_max);
        disk.read_ahead_kb = queue.read_ahead_kb.unwrap_or(disk.read_ahead_kb);
        disk
    };
    let swap_pages = system.swap_pages.unwrap_or(SWAP_PAGES);
    let data = DiskSpec { throttles_writes: queue.wbt, ..disk("data", DATA_PAGES) };
    config.disks = vec![data, disk("swap", u64::from(swap_pages))];
    config.swap = vec![SwapSpec { device: SWAP, pages: swap_pages, priority: -2 }];
    Ok(config)
}

/// Adopts watermarks, reserves and list sizes as captured. Linux computed them from the managed
/// pages at boot, which these files do not have.
pub(super) fn adopt_sizes<H: Devices>(kernel: &Kernel<H>, zones: &[Zone]) {
    for real in zones {
        let kind = ZoneType::ALL[real.zone.index()];
        let Some(zone) = kernel.mem.zone(NodeId(real.node as u16), kind) else { continue };
        zone.set_marks(&Marks {
            min: real.min.saturating_sub(real.boost),
            low: real.low.saturating_sub(real.boost),
            high: real.high.saturating_sub(real.boost),
            ..zone.marks()
        });
        let mut reserves = zone.lowmem_reserves();
        for (slot, &pages) in reserves.iter_mut().zip(&real.protection) {
            *slot = pages;
        }
        zone.set_lowmem_reserves(&reserves);
        let is_tuned = kernel.mem.policy.pcp.sizing == PcpSizing::Auto;
        match real.pagesets.first().filter(|_| !is_tuned) {
            Some(set) => zone.set_pcp_sizes(set.batch as u32, set.high as u32),
            // Not recorded, but it follows from the mark (rules/per-cpu-lists#sizes).
            None => kernel.mem.resize_pcp(zone),
        }
    }
    kernel.mem.refresh_reserves();
}

/// Adopts the limits that CPUs had tuned for their lists, where the kernel does so (6.7 on).
pub(super) fn adopt_tuned_limits<H: Devices>(kernel: &Kernel<H>, cx: &Cx<'_, H>, zones: &[Zone]) {
    if kernel.mem.policy.pcp.sizing != PcpSizing::Auto {
        return;
    }
    for real in zones {
        let kind = ZoneType::ALL[real.zone.index()];
        let Some(zone) = kernel.mem.zone(NodeId(real.node as u16), kind) else { continue };
        for set in &real.pagesets {
            if let Some(cpu) = zone.cpus.get(set.cpu as usize) {
                cpu.pcp.lock(cx.cpu()).set_high(set.high as u32);
            }
        }
    }
}

/// The contents of memory before the work.
pub(super) fn baseline(system: &System<'_>) -> Baseline {
    let of_zones = |name: &str| -> i64 {
        system.zones.iter().filter_map(|zone| zone.baseline.get(name)).sum()
    };
    let level = |name: &str| -> u64 {
        system.gauges.get(name).copied().unwrap_or_else(|| of_zones(name)).max(0) as u64
    };
    let free = |zone: &Zone| ZoneFree {
        node: NodeId(zone.node as u16),
        zone: ZoneType::ALL[zone.zone.index()],
        free: zone.free,
    };
    // Pages that a program filled before the first snapshot belong to the program. Swappable pages
    // from before it began are the files of the initial RAM disk.
    let shmem = of_zones("nr_shmem").max(0) as u64 + of_zones("nr_anon_pages").max(0) as u64;
    let swappable = level("nr_inactive_anon") + level("nr_active_anon");
    let all = if shmem == 0 { swappable } else { shmem };
    let lists = |node, all: u64, active: u64| {
        let active_anon = active.min(all);
        IdleLists { node, inactive_anon: all - active_anon, active_anon }
    };
    let of_node = |node: &NodeLevels| {
        let level = |name: &str| node.gauges.get(name).copied().unwrap_or(0).max(0) as u64;
        let all = level("nr_shmem") + level("nr_anon_pages");
        lists(Some(NodeId(node.id as u16)), all, level("nr_active_anon"))
    };
    let idle = match system.start_nodes {
        [] => vec![lists(None, all, level("nr_active_anon"))],
        nodes => nodes.iter().map(of_node).collect(),
    };
    Baseline { zones: system.zones.iter().map(free).collect(), idle }
}
