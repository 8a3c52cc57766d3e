//! The memory, the events and the stalls of a job's memory cgroups: sample columns over time, and
//! figures at the end. All of them are of a group and those below it, as its files have them.
//!
//! | column | is |
//! |---|---|
//! | `group/NAME/current` | `memory.current`, pages |
//! | `group/NAME/swap` | `memory.swap.current`, pages |
//! | `group/NAME/max`, `high`, `low` | the settings, pages (`max`: also version 1's `limit`); only of a group that the job ever gives one. 0: none at this time |
//! | `group/NAME/refault` | refaults of anonymous and file pages |
//! | `group/NAME/memory-some`, `memory-full` | totals of `memory.pressure`, microseconds; of kernels that have it |
//! | `group/NAME/throttled` | time that its tasks slept for `memory.high`, microseconds |
//!
//! Samples read exact counts, not `memory.stat`, whose reader may add up statistics: that would
//! change what the kernel's own readers see later.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use highwater_core::config::KernelVersion;
use highwater_core::host::CpuId;
use highwater_core::kernel::Kernel;
use highwater_core::memcg::GroupEvent;
use highwater_core::units::GroupId;
use highwater_core::vmstat::{GroupStat, NodeStat};
use highwater_results::column::{Kind, Owner, Unit};
use highwater_results::words::count;
use highwater_results::{Better, Column, Metric, TableKind};
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimKernel;
use highwater_sim::pressure::{self, Lines, Reading, Resource};
use highwater_workloads::jobs::Groups;

use super::file::JobParams;
use super::group::{ever_set, number};
use super::group_settings::SettingName;
use super::named;
use crate::sampling::{More, PressureNow};

/// Figures in MiB: the most memory that was charged, memory that was still charged when all tasks
/// had ended, and memory in swap.
pub(super) const MEMORY: [&str; 3] = ["peak", "end", "swap"];
/// Figures that are events.
pub(super) const EVENTS: [&str; 8] = [
    "low-events",
    "high-events",
    "max-events",
    "oom-events",
    "oom-kills",
    "refaults",
    "scanned",
    "high-sleeps",
];
/// `memory.pressure`: the share of the run in which some tasks, and all tasks, waited for memory.
pub(super) const PRESSURE: [&str; 2] = ["memory-some", "memory-full"];
/// The same as times, and the time that tasks slept for `memory.high`, in microseconds.
pub(super) const STALLS: [&str; 3] = ["memory-some-us", "memory-full-us", "throttled-us"];
/// Figures that `memory.events` has.
const OF_FILE: [GroupEvent; 5] =
    [GroupEvent::Low, GroupEvent::High, GroupEvent::Max, GroupEvent::Oom, GroupEvent::OomKill];
/// Limits in charts, and the settings that they are.
const LIMITS: [(&str, &[SettingName]); 3] = [
    ("max", &[SettingName::Max, SettingName::Limit]),
    ("high", &[SettingName::High]),
    ("low", &[SettingName::Low]),
];
const REFAULTS: [NodeStat; 2] = [NodeStat::WorkingsetRefaultAnon, NodeStat::WorkingsetRefaultFile];
const MIB_PAGES: f64 = 256.0;
const NS_PER_US: u64 = 1000;

/// The tables of a job's groups.
pub(super) fn metrics(params: &JobParams) -> Vec<Metric> {
    let of = |name: &str, unit: &str, figures: &[&str], about: &str| {
        let mut metric = Metric::new(name, unit, Better::Neither, TableKind::Single);
        let of_group = |group: &super::JobGroup| {
            let name = group.name.clone();
            figures.iter().map(move |figure| named(&name, figure))
        };
        metric.operations = params.group.iter().flat_map(of_group).collect();
        about.clone_into(&mut metric.about);
        metric
    };
    let about = "memory of a group and those below it: peak is the most that was charged, end and \
                 swap are what was left when all tasks had ended";
    let memory = of("groups", "MiB", &MEMORY, about);
    let about = "memory.events of a group and those below it, its refaults and scanned pages, and \
                 how often its tasks slept for memory.high";
    let mut events = of("group events", "events", &EVENTS, about);
    events.decimals = 0;
    events.skips_zeros = true;
    let about = "memory.pressure of a group and those below it: the share of the run in which some \
                 of its tasks, and all of them, waited for memory";
    let mut pressure = of("group pressure", "percent of the time", &PRESSURE, about);
    pressure.better = Better::Lower;
    pressure.whole = Some(100.0);
    let about = "the same as times, and throttled: the time that its tasks slept for memory.high, \
                 added up over tasks";
    let mut stalls = of("group stalls", "microseconds", &STALLS, about);
    (stalls.better, stalls.decimals, stalls.skips_zeros) = (Better::Lower, 0, true);
    vec![memory, events, pressure, stalls]
}

/// Figures of groups that only kernels with `/proc/pressure` have.
pub(super) fn of_pressure(params: &JobParams) -> Vec<String> {
    let figures = PRESSURE.iter().chain(&STALLS[..PRESSURE.len()]);
    let of_group = |group: &super::JobGroup| {
        let name = group.name.clone();
        figures.clone().map(move |figure| named(&name, figure))
    };
    params.group.iter().flat_map(of_group).collect()
}

/// The groups have their names of the job in the kernel's log and in reports.
pub(super) fn name_groups(machine: &SimKernel, params: &JobParams, groups: &Groups) {
    for (group, id) in params.group.iter().zip(groups.ids()) {
        machine.kernel.memcg.set_name(CpuId(0), id, &group.name);
        machine.sim().name_group(id, &group.name);
    }
}

/// Figures of a group when all tasks have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// In pages.
    memory: [u64; MEMORY.len()],
    events: [u64; EVENTS.len()],
    /// Microseconds: pressure, and then time asleep.
    stalls_us: [u64; STALLS.len()],
    /// Time of the run.
    elapsed_ns: u64,
    /// Tasks that were killed in the group itself.
    kills: u64,
}

/// Reads the figures of all groups. A removed group keeps its counts, because a job makes no group
/// later that could have its place.
pub(super) fn read(machine: &SimKernel, groups: &Groups) -> Vec<Figures> {
    let (kernel, elapsed_ns) = (&machine.kernel, machine.sim().now_ns());
    let ids = groups.ids();
    if ids.is_empty() {
        return Vec::new();
    }
    let stats = &kernel.mem.groups;
    // Exact sums: no task is left that could see what this adds up.
    stats.flush();
    let of = |id: GroupId| {
        let memory = [kernel.group_peak(id), kernel.group_usage(id), kernel.group_swap_usage(id)];
        let refaults = REFAULTS.iter().map(|&item| stats.seen_all(id, item)).sum();
        let scanned = GroupStat::SCANNED.iter().map(|&item| stats.seen_count(id, item)).sum();
        let [low, high, max, oom, kills] = OF_FILE.map(|event| kernel.memcg.events(id, event)[0]);
        let slept = kernel.memcg.throttled(id);
        let events = [low, high, max, oom, kills, refaults, scanned, slept.nr_sleeps];
        let [_, kills] = kernel.memcg.events(id, GroupEvent::OomKill);
        let [some_us, full_us] = pressure_us(machine.sim().group_pressure(id));
        let stalls_us = [some_us, full_us, slept.ns / NS_PER_US];
        Figures { memory, events, stalls_us, elapsed_ns, kills }
    };
    ids.into_iter().map(of).collect()
}

/// Totals of `memory.pressure`.
fn pressure_us(reading: Option<Reading>) -> [u64; PRESSURE.len()] {
    reading.map_or([0; 2], |reading| {
        let Lines { some, full } = reading.of(Resource::Memory);
        [some.total_us, full.total_us]
    })
}

/// Samples of these figures.
pub(super) fn samples(params: &JobParams, all: &[Figures]) -> Vec<(String, f64)> {
    let of = |(group, figures): (&super::JobGroup, &Figures)| {
        let memory = figures.memory.map(|pages| pages as f64 / MIB_PAGES);
        let events = figures.events.map(|events| events as f64);
        let elapsed_us = figures.elapsed_ns.max(1) as f64 / NS_PER_US as f64;
        let stalls = figures.stalls_us.map(|us| us as f64);
        let shares = stalls[..PRESSURE.len()].iter().map(|us| 100.0 * us / elapsed_us);
        let all = MEMORY.iter().chain(&EVENTS).chain(&PRESSURE).chain(&STALLS);
        let values = memory.into_iter().chain(events).chain(shares).chain(stalls);
        all.map(|figure| named(&group.name, figure)).zip(values).collect::<Vec<_>>()
    };
    params.group.iter().zip(all).flat_map(of).collect()
}

/// Remarks about OOM kills: how many, and in which group.
pub(super) fn kills(params: &JobParams, all: &[Figures]) -> Vec<String> {
    let of = |(group, figures): (&super::JobGroup, &Figures)| {
        let kills = count(figures.kills, "OOM kill");
        (figures.kills > 0).then(|| format!("group {}: {kills} of its tasks", group.name))
    };
    params.group.iter().zip(all).filter_map(of).collect()
}

/// The groups of a running job, for samples.
#[derive(Default)]
pub(super) struct OverTime {
    kernel: RefCell<Weak<Kernel<SimHost>>>,
    ids: RefCell<Vec<GroupId>>,
}

impl OverTime {
    /// The groups exist from now on.
    pub(super) fn begin(&self, kernel: &Rc<Kernel<SimHost>>, groups: &Groups) {
        *self.kernel.borrow_mut() = Rc::downgrade(kernel);
        *self.ids.borrow_mut() = groups.ids();
    }

    /// The columns of a job's groups; none if it has no groups.
    pub(super) fn columns(
        self: &Rc<OverTime>,
        params: &JobParams,
        kernel: KernelVersion,
    ) -> Option<More> {
        if params.group.is_empty() {
            return None;
        }
        let mut columns = Vec::new();
        let mut limits = Vec::new();
        for (at, group) in params.group.iter().enumerate() {
            let column = |what: &str, unit, kind| {
                Column::new(Owner::Group { group: group.name.clone() }, what, unit, kind)
            };
            columns.push(column("current", Unit::Pages, Kind::Level));
            columns.push(column("swap", Unit::Pages, Kind::Level));
            let ever = ever_set(params, at);
            let of_group: Vec<&str> = LIMITS
                .iter()
                .filter(|(_, settings)| settings.iter().any(|setting| ever.contains(setting)))
                .map(|(name, _)| *name)
                .collect();
            columns.extend(of_group.iter().map(|name| column(name, Unit::Pages, Kind::Limit)));
            columns.push(column("refault", Unit::Events, Kind::Total));
            let of_pressure = PRESSURE.iter().filter(|_| kernel >= pressure::SINCE);
            columns.extend(of_pressure.map(|name| column(name, Unit::Microseconds, Kind::Total)));
            columns.push(column("throttled", Unit::Microseconds, Kind::Total));
            limits.push(of_group);
        }
        let nr_columns = columns.len();
        let me = Rc::clone(self);
        let below = below(params);
        let has_pressure = kernel >= pressure::SINCE;
        let read = move |now: &PressureNow<'_>, each: &mut dyn FnMut(u64)| {
            let (kernel, ids) = (me.kernel.borrow().upgrade(), me.ids.borrow());
            let Some(kernel) = kernel.filter(|_| !ids.is_empty()) else {
                // The first sample is of the boot, before the groups are made.
                (0..nr_columns).for_each(|_| each(0));
                return;
            };
            for (at, &id) in ids.iter().enumerate() {
                each(kernel.group_usage(id));
                each(kernel.group_swap_usage(id));
                let set = kernel.group_limits(id);
                for &limit in &limits[at] {
                    each(match limit {
                        "max" => set.max.unwrap_or(0),
                        "high" => set.high.unwrap_or(0),
                        // All that it has is protected.
                        _ => set.low.unwrap_or_else(|| kernel.group_usage(id)),
                    });
                }
                each(below[at].iter().map(|&at| refaults(&kernel, ids[at])).sum());
                if has_pressure {
                    pressure_us(now.of_group(id)).into_iter().for_each(&mut *each);
                }
                each(kernel.memcg.throttled(id).ns / NS_PER_US);
            }
        };
        Some(More { columns, read: Rc::new(read) })
    }
}

/// Of each group itself and all below it.
fn below(params: &JobParams) -> Vec<Vec<usize>> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); params.group.len()];
    for at in 0..params.group.len() {
        let mut next = Some(at);
        while let Some(above) = next {
            below[above].push(at);
            next = params.group[above].parent.as_deref().and_then(|name| number(params, name));
        }
    }
    below
}

/// Refaults of a group alone.
fn refaults(kernel: &Kernel<SimHost>, group: GroupId) -> u64 {
    let of_node = |node| REFAULTS.iter().map(move |&item| kernel.mem.groups.own(group, node, item));
    kernel.mem.nodes().iter().flat_map(|node| of_node(node.id)).sum::<i64>().max(0) as u64
}
