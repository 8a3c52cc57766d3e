//! The memory and the events of a job's memory cgroups: sample columns over time, and figures at
//! the end. All of them are of a group and those below it, as its files have them.
//!
//! | column | is |
//! |---|---|
//! | `group/NAME/current` | `memory.current`, pages |
//! | `group/NAME/swap` | `memory.swap.current`, pages |
//! | `group/NAME/max`, `high`, `low` | the settings, pages; only of a group that the job ever gives one. 0: none at this time |
//! | `group/NAME/refault` | refaults of anonymous and file pages |
//!
//! Samples read exact counts, not `memory.stat`, whose reader may add up statistics: that would
//! change what the kernel's own readers see later.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use highwater_core::kernel::Kernel;
use highwater_core::memcg::GroupEvent;
use highwater_core::units::GroupId;
use highwater_core::vmstat::{GroupStat, NodeStat};
use highwater_results::column::{Kind, Owner, Unit};
use highwater_results::words::count;
use highwater_results::{Better, Column, Metric, TableKind};
use highwater_sim::host::SimHost;
use highwater_workloads::jobs::Groups;

use super::file::JobParams;
use super::group::{SettingName, ever_set, number};
use super::named;
use crate::sampling::More;

/// Figures in MiB: the most memory that was charged, memory that was still charged when all tasks
/// had ended, and memory in swap.
pub(super) const MEMORY: [&str; 3] = ["peak", "end", "swap"];
/// Figures that are events.
pub(super) const EVENTS: [&str; 7] =
    ["low-events", "high-events", "max-events", "oom-events", "oom-kills", "refaults", "scanned"];
/// Figures that `memory.events` has.
const OF_FILE: [GroupEvent; 5] =
    [GroupEvent::Low, GroupEvent::High, GroupEvent::Max, GroupEvent::Oom, GroupEvent::OomKill];
/// Limits in charts, and the settings that they are.
const LIMITS: [(&str, SettingName); 3] =
    [("max", SettingName::Max), ("high", SettingName::High), ("low", SettingName::Low)];
const REFAULTS: [NodeStat; 2] = [NodeStat::WorkingsetRefaultAnon, NodeStat::WorkingsetRefaultFile];
const MIB_PAGES: f64 = 256.0;

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
    let about = "memory.events of a group and those below it, its refaults and scanned pages";
    let mut events = of("group events", "events", &EVENTS, about);
    events.decimals = 0;
    events.skips_zeros = true;
    vec![memory, events]
}

/// Figures of a group when all tasks have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// In pages.
    memory: [u64; MEMORY.len()],
    events: [u64; EVENTS.len()],
    /// Tasks that were killed in the group itself.
    kills: u64,
}

/// Reads the figures of all groups. A removed group keeps its counts, because a job makes no group
/// later that could have its place.
pub(super) fn read(kernel: &Kernel<SimHost>, groups: &Groups) -> Vec<Figures> {
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
        let scanned = [GroupStat::PgscanKswapd, GroupStat::PgscanDirect];
        let scanned = scanned.iter().map(|&item| stats.seen_count(id, item)).sum();
        let [low, high, max, oom, kills] = OF_FILE.map(|event| kernel.memcg.events(id, event)[0]);
        let events = [low, high, max, oom, kills, refaults, scanned];
        let [_, kills] = kernel.memcg.events(id, GroupEvent::OomKill);
        Figures { memory, events, kills }
    };
    ids.into_iter().map(of).collect()
}

/// Samples of these figures.
pub(super) fn samples(params: &JobParams, all: &[Figures]) -> Vec<(String, f64)> {
    let of = |(group, figures): (&super::JobGroup, &Figures)| {
        let memory = figures.memory.map(|pages| pages as f64 / MIB_PAGES);
        let events = figures.events.map(|events| events as f64);
        let names = MEMORY.iter().chain(&EVENTS).map(|figure| named(&group.name, figure));
        names.zip(memory.into_iter().chain(events)).collect::<Vec<_>>()
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
    pub(super) fn columns(self: &Rc<OverTime>, params: &JobParams) -> Option<More> {
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
                .filter_map(|(name, setting)| ever.contains(setting).then_some(*name))
                .collect();
            columns.extend(of_group.iter().map(|name| column(name, Unit::Pages, Kind::Limit)));
            columns.push(column("refault", Unit::Events, Kind::Total));
            limits.push(of_group);
        }
        let nr_columns = columns.len();
        let me = Rc::clone(self);
        let below = below(params);
        let read = move |each: &mut dyn FnMut(u64)| {
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
                        _ => set.low,
                    });
                }
                each(below[at].iter().map(|&at| refaults(&kernel, ids[at])).sum());
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
