//! The tree of memory cgroups: `/sys/fs/cgroup` (version 2), or `/sys/fs/cgroup/memory` (version
//! 1). The files are those of the policy's kernel (rules/memory-cgroups#files,
//! rules/memory-cgroups#v1-files).

use std::collections::BTreeMap;

use highwater_core::Kernel;
use highwater_core::config::KernelVersion;
use highwater_core::host::HZ;
use highwater_core::memcg::{GroupEvent, StatLine, limit_in_bytes};
use highwater_core::page::PAGE_SIZE;
use highwater_core::units::GroupId;
use highwater_sim::engine::Look;
use highwater_sim::host::SimHost;

use super::machine::{Seen, pressure};
use super::{Texts, line};

const ROOT: &str = "sys/fs/cgroup";
const ROOT_V1: &str = "sys/fs/cgroup/memory";
const PAGE: u64 = PAGE_SIZE as u64;
/// First kernels with a file or a line.
const PEAK_SINCE: KernelVersion = KernelVersion::new(5, 19);
const SWAP_PEAK_SINCE: KernelVersion = KernelVersion::new(6, 5);
const SWAP_HIGH_SINCE: KernelVersion = KernelVersion::new(5, 8);
const OOM_GROUP_KILL_SINCE: KernelVersion = KernelVersion::new(5, 17);

/// Adds the files of all groups that were made and not removed. Without groups, those of the root
/// that need no memory controller.
pub(super) fn files(
    texts: &mut Texts,
    kernel: &Kernel<SimHost>,
    pids: &BTreeMap<GroupId, Vec<u32>>,
    seen: &Seen,
    (at_ns, look): (u64, &Look<'_>),
) {
    let jiffies = at_ns / (1_000_000_000 / HZ);
    if !kernel.mem.groups.is_on() {
        let procs = procs(pids.get(&GroupId::ROOT).map_or(&[][..], Vec::as_slice));
        texts.insert(format!("{ROOT}/cgroup.procs"), procs);
        texts.insert(format!("{ROOT}/cgroup.controllers"), String::new());
        return;
    }
    let is_v1 = kernel.mem.groups.is_v1();
    for group in kernel.memcg.all().filter(|&group| kernel.memcg.has_directory(group)) {
        if is_v1 {
            let dir = format!("{ROOT_V1}{}", seen.path(group).trim_end_matches('/'));
            of_group_v1(kernel, group, pids, jiffies, &mut |name, text| {
                texts.insert(format!("{dir}/{name}"), text);
            });
            continue;
        }
        let dir = format!("{ROOT}{}", seen.path(group).trim_end_matches('/'));
        of_group(kernel, group, pids, jiffies, &mut |name, text| {
            texts.insert(format!("{dir}/{name}"), text);
        });
        if !group.is_root() {
            let reading = || look.group_pressure(group, at_ns);
            for (resource, text) in pressure(kernel.mem.policy.kernel, reading) {
                texts.insert(format!("{dir}/{}.pressure", resource.name()), text);
            }
        }
    }
}

fn of_group(
    kernel: &Kernel<SimHost>,
    group: GroupId,
    pids: &BTreeMap<GroupId, Vec<u32>>,
    jiffies: u64,
    add: &mut dyn FnMut(&str, String),
) {
    let memcg = &kernel.memcg;
    let own = pids.get(&group).map_or(&[][..], Vec::as_slice);
    let nr_below = memcg.nr_descendants(group);
    add("cgroup.procs", procs(own));
    add("cgroup.controllers", "memory\n".to_owned());
    let below = if nr_below > 0 { "memory\n" } else { "" };
    add("cgroup.subtree_control", below.to_owned());
    let dying = memcg.nr_dying(group);
    add("cgroup.stat", format!("nr_descendants {nr_below}\nnr_dying_descendants {dying}\n"));
    let mut stat = String::new();
    for StatLine { name, value, .. } in kernel.group_stat_peek(jiffies, group) {
        line!(stat, "{name} {value}");
    }
    add("memory.stat", stat);
    if group.is_root() {
        return;
    }
    let is_below = |other: &&GroupId| memcg.ancestors(**other).any(|above| above == group);
    let is_populated = pids.keys().filter(is_below).any(|other| !pids[other].is_empty());
    add("cgroup.type", "domain\n".to_owned());
    add("cgroup.events", format!("populated {}\nfrozen 0\n", u8::from(is_populated)));
    let bytes = |pages: u64| format!("{}\n", pages * PAGE);
    let limit = |pages: Option<u64>| pages.map_or_else(|| "max\n".to_owned(), bytes);
    let version = kernel.mem.policy.kernel;
    let set = kernel.group_limits(group);
    add("memory.current", bytes(kernel.group_usage(group)));
    if version >= PEAK_SINCE {
        add("memory.peak", bytes(kernel.group_peak(group)));
    }
    add("memory.min", limit(set.min));
    add("memory.low", limit(set.low));
    add("memory.high", limit(set.high));
    add("memory.max", limit(set.max));
    add("memory.oom.group", format!("{}\n", u8::from(memcg.oom_group(group))));
    add("memory.events", events(kernel, group, "memory.events", 0));
    add("memory.events.local", events(kernel, group, "memory.events", 1));
    add("memory.swap.current", bytes(kernel.group_swap_usage(group)));
    if version >= SWAP_PEAK_SINCE {
        add("memory.swap.peak", bytes(kernel.group_swap_peak(group)));
    }
    if version >= SWAP_HIGH_SINCE {
        add("memory.swap.high", limit(set.swap_high));
    }
    add("memory.swap.max", limit(set.swap_max));
    add("memory.swap.events", events(kernel, group, "memory.swap.events", 0));
}

/// The files of a version 1 group; the root has them too.
fn of_group_v1(
    kernel: &Kernel<SimHost>,
    group: GroupId,
    pids: &BTreeMap<GroupId, Vec<u32>>,
    jiffies: u64,
    add: &mut dyn FnMut(&str, String),
) {
    add("cgroup.procs", procs(pids.get(&group).map_or(&[][..], Vec::as_slice)));
    let bytes = |pages: u64| format!("{}\n", pages * PAGE);
    let limit = |pages: u64| format!("{}\n", limit_in_bytes(pages));
    let [memory, memsw] = kernel.group_counters_v1(jiffies, group);
    for (prefix, counter) in [("memory", memory), ("memory.memsw", memsw)] {
        add(&format!("{prefix}.usage_in_bytes"), bytes(counter.usage));
        add(&format!("{prefix}.max_usage_in_bytes"), bytes(counter.max_usage));
        add(&format!("{prefix}.limit_in_bytes"), limit(counter.limit));
        add(&format!("{prefix}.failcnt"), format!("{}\n", counter.failcnt));
    }
    add("memory.soft_limit_in_bytes", limit(kernel.group_soft_limit(group)));
    add("memory.swappiness", format!("{}\n", kernel.group_swappiness(group)));
    add("memory.use_hierarchy", "1\n".to_owned());
    add("memory.move_charge_at_immigrate", "0\n".to_owned());
    if !group.is_root() {
        let control = kernel.oom_control(group);
        let [_, kills] = kernel.memcg.events(group, GroupEvent::OomKill);
        let (disable, under) = (u8::from(control.oom_kill_disable), u8::from(control.under_oom));
        let text = format!("oom_kill_disable {disable}\nunder_oom {under}\noom_kill {kills}\n");
        add("memory.oom_control", text);
    }
    let mut stat = String::new();
    for (name, value) in kernel.group_stat_v1(jiffies, group) {
        line!(stat, "{name} {value}");
    }
    add("memory.stat", stat);
}

fn procs(pids: &[u32]) -> String {
    pids.iter().map(|pid| format!("{pid}\n")).collect()
}

/// A file of events: of the group and those below (`of` 0), or of the group alone (1).
fn events(kernel: &Kernel<SimHost>, group: GroupId, file: &str, of: usize) -> String {
    let version = kernel.mem.policy.kernel;
    let mut text = String::new();
    for event in GroupEvent::ALL {
        let (its_file, name) = event.file_and_name();
        let is_there = match event {
            GroupEvent::OomGroupKill => version >= OOM_GROUP_KILL_SINCE,
            GroupEvent::SockThrottled => kernel.mem.policy.memcg.sock_throttled,
            GroupEvent::SwapHigh => version >= SWAP_HIGH_SINCE,
            _ => true,
        };
        if its_file == file && is_there {
            line!(text, "{name} {}", kernel.memcg.events(group, event)[of]);
        }
    }
    text
}
