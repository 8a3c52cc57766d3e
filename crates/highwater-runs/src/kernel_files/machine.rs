//! The files of `/proc` that are not of a process.

use std::collections::BTreeMap;

use highwater_core::Kernel;
use highwater_core::config::KernelVersion;
use highwater_core::host::CpuId;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_alloc::PcpLevels;
use highwater_core::proc::{
    DirtyThresholds, Promised, SwapSpace, buddyinfo, meminfo, vmstat, zoneinfo_with,
};
use highwater_core::units::{GroupId, NodeId, ZoneType};
use highwater_core::vm::Process;
use highwater_sim::engine::Look;
use highwater_sim::host::SimHost;
use highwater_sim::pressure::{Reading, Resource, SINCE};

use super::{Texts, line};

const KIB_PER_PAGE: u64 = PAGE_SIZE as u64 / 1024;
/// The first kernel whose `/proc/pressure/cpu` has a line `full`.
const CPU_FULL_SINCE: KernelVersion = KernelVersion::new(5, 13);

/// Last values of lists that are locked at the time of a sample.
#[derive(Default)]
pub(super) struct Seen {
    pcp_levels: BTreeMap<(NodeId, ZoneType, CpuId), PcpLevels>,
    /// By number.
    pub(super) processes: BTreeMap<u32, Process<SimHost>>,
    paths: BTreeMap<GroupId, String>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

impl Seen {
    /// Reads the processes, and the paths of groups.
    pub(super) fn see(&mut self, kernel: &Kernel<SimHost>) {
        for group in kernel.memcg.all() {
            if let Some(path) = kernel.memcg.peek_path(group) {
                self.paths.insert(group, path);
            }
        }
        let Some(now) = kernel.peek_processes() else { return };
        let mut before = std::mem::take(&mut self.processes);
        let processes = now.into_iter().filter_map(|(pid, process)| {
            let process = process.or_else(|| before.remove(&pid))?;
            Some((pid, process))
        });
        self.processes = processes.collect();
    }

    /// The path of a group; the root's if there are no groups.
    pub(super) fn path(&self, group: GroupId) -> &str {
        self.paths.get(&group).map_or("/", String::as_str)
    }
}

/// Adds the files.
pub(super) fn files(
    texts: &mut Texts,
    kernel: &Kernel<SimHost>,
    look: &Look<'_>,
    seen: &mut Seen,
    at_ns: u64,
) {
    let mem = &kernel.mem;
    let mut add = |name: &str, write: &mut dyn FnMut(&mut String) -> std::fmt::Result| {
        let mut text = String::new();
        // A string takes all that is written to it.
        let _ = write(&mut text);
        texts.insert(format!("proc/{name}"), text);
    };
    let swap = SwapSpace { free: kernel.swap.nr_free(), total: kernel.swap.nr_total() };
    let promised = Promised {
        swap,
        commit_limit: kernel.commit_limit(),
        committed: seen.processes.values().map(|process| process.committed).sum(),
    };
    add("meminfo", &mut |text| meminfo(text, mem, promised));
    let limits = kernel.plain_dirty_limits();
    let dirty = DirtyThresholds { threshold: limits.thresh, background: limits.background };
    add("vmstat", &mut |text| vmstat(text, mem, dirty));
    let hopeless = |node| kernel.mem.node(node).is_hopeless();
    let levels = &mut seen.pcp_levels;
    add("zoneinfo", &mut |text| {
        zoneinfo_with(text, mem, hopeless, |zone, cpu| {
            let last = levels.entry((zone.node, zone.zone, cpu)).or_default();
            *last = mem.peek_pcp_levels(zone, cpu).unwrap_or(*last);
            *last
        })
    });
    add("buddyinfo", &mut |text| buddyinfo(text, mem));
    texts.insert("proc/swaps".to_owned(), swaps(kernel, swap));
    for (resource, text) in pressure(mem.policy.kernel, || Some(look.pressure(at_ns))) {
        texts.insert(format!("proc/pressure/{}", resource.name()), text);
    }
}

/// The files of pressure of a machine or a group by a reading; none if the kernel has no such files.
pub(super) fn pressure(
    version: KernelVersion,
    reading: impl FnOnce() -> Option<Reading>,
) -> Vec<(Resource, String)> {
    let Some(reading) = (version >= SINCE).then(reading).flatten() else { return Vec::new() };
    let text = |resource: Resource| {
        let lines = reading.of(resource);
        match resource != Resource::Cpu || version >= CPU_FULL_SINCE {
            true => lines.to_string(),
            false => format!("some {}\n", lines.some),
        }
    };
    Resource::ALL.into_iter().map(|resource| (resource, text(resource))).collect()
}

/// `/proc/swaps`. The model knows how much of all areas is used; of several, one after the other
/// takes its part of the sum.
fn swaps(kernel: &Kernel<SimHost>, swap: SwapSpace) -> String {
    let mut text = String::new();
    line!(text, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority");
    let mut used = swap.total - swap.free;
    for area in &kernel.swap.areas {
        let (device, size) = (area.spec.device.0, u64::from(area.spec.pages.saturating_sub(1)));
        let of_area = used.min(size);
        used -= of_area;
        let name = format!("/dev/disk{device}");
        let (size, of_area) = (size * KIB_PER_PAGE, of_area * KIB_PER_PAGE);
        line!(text, "{name:<40}partition\t{size}\t\t{of_area}\t\t{}", area.spec.priority);
    }
    text
}
