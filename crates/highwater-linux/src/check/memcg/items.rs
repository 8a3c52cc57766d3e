//! The figures of a group that are compared, and where each comes from: Linux's reading and the
//! model's.

use std::collections::BTreeMap;

use highwater_core::host::Cx;
use highwater_core::kernel::Kernel;
use highwater_core::memcg::GroupEvent;
use highwater_core::page::PAGE_SIZE;
use highwater_core::units::GroupId;
use highwater_results::import::linux61::GroupReading;
use highwater_sim::host::SimHost;
use highwater_sim::pressure::{Lines, Resource};

/// The source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `memory.current`.
    Current,
    /// `memory.swap.current`.
    SwapCurrent,
    /// A level of `memory.stat`.
    Level(&'static str),
    /// Events of `memory.stat`.
    Count(&'static str),
    /// `memory.events`.
    Event(GroupEvent),
    /// `memory.events.local`.
    Local(GroupEvent),
}

/// The way a figure is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Within a share, the distance of the real runs, or a few events.
    Near,
    /// As Linux.
    Exactly,
    /// It depends on speeds: reported beside.
    Not,
}

impl Source {
    /// Levels are compared at the end of a step; everything else is what the step added.
    pub(super) const fn is_level(self) -> bool {
        matches!(self, Source::Current | Source::SwapCurrent | Source::Level(_))
    }

    pub(super) const fn judged(self) -> Judged {
        match self {
            Source::Level(name) if is_any(name, &["file_dirty", "file_writeback"]) => Judged::Not,
            Source::Count(name) if is_any(name, SPLIT) => Judged::Not,
            Source::Event(event) | Source::Local(event) => match event {
                GroupEvent::Oom | GroupEvent::OomKill | GroupEvent::OomGroupKill => Judged::Exactly,
                _ => Judged::Near,
            },
            _ => Judged::Near,
        }
    }

    /// Its name in lines.
    pub(super) fn name(self) -> String {
        match self {
            Source::Current => "memory.current".to_owned(),
            Source::SwapCurrent => "memory.swap.current".to_owned(),
            Source::Level(name) | Source::Count(name) => name.to_owned(),
            Source::Event(event) => {
                let (file, name) = event.file_and_name();
                format!("{file} {name}")
            }
            Source::Local(event) => {
                let (file, name) = event.file_and_name();
                format!("{file}.local {name}")
            }
        }
    }
}

/// Equality of texts in constants.
const fn is_any(name: &str, list: &[&str]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if is_same(name.as_bytes(), list[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

const LEVELS: &[&str] = &[
    "anon",
    "file",
    "kernel",
    "sock",
    "slab",
    "swapcached",
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "file_dirty",
    "file_writeback",
];
/// Levels of the root: the model's stand-in for the files of the initial RAM disk is anonymous
/// memory, and the kernel's own memory is not in it, in Linux or in the model.
const ROOT_LEVELS: &[&str] = &["inactive_anon", "active_anon", "inactive_file", "active_file"];
const SPLIT: &[&str] = &["pgscan_kswapd", "pgscan_direct", "pgsteal_kswapd", "pgsteal_direct"];
const COUNTS: &[&str] = &[
    "pgscan",
    "pgsteal",
    "pgfault",
    "pgmajfault",
    "pgrefill",
    "pgactivate",
    "pgdeactivate",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_activate_anon",
    "workingset_activate_file",
    "workingset_restore_anon",
    "workingset_restore_file",
];

/// All figures of a group.
pub(super) fn all(group: &str) -> Vec<Source> {
    let counts = COUNTS.iter().chain(SPLIT).map(|name| Source::Count(name));
    if group == ROOT {
        let levels = ROOT_LEVELS.iter().map(|name| Source::Level(name));
        return levels.chain(counts).collect();
    }
    let levels = LEVELS.iter().map(|name| Source::Level(name));
    // `memory.swap.events` has no file of the group alone.
    let local = GroupEvent::ALL.iter().filter(|event| event.file_and_name().0 == "memory.events");
    [Source::Current, Source::SwapCurrent]
        .into_iter()
        .chain(levels)
        .chain(counts)
        .chain(GroupEvent::ALL.iter().map(|&event| Source::Event(event)))
        .chain(local.map(|&event| Source::Local(event)))
        .collect()
}

/// Path of the root.
pub(super) const ROOT: &str = "/";

/// Linux's figure: pages or events.
pub(super) fn real(reading: &GroupReading, source: Source) -> i64 {
    let pages = |bytes: u64| (bytes / PAGE_SIZE as u64) as i64;
    let of = |counters: &highwater_results::import::linux61::Counters, name: &str| {
        counters.get(name).copied().unwrap_or(0)
    };
    match source {
        Source::Current => pages(reading.current.unwrap_or(0)),
        Source::SwapCurrent => pages(reading.swap_current.unwrap_or(0)),
        Source::Level(name) => of(&reading.gauges, name) / PAGE_SIZE as i64,
        Source::Count(name) => of(&reading.counters, name),
        Source::Event(event) => match event.file_and_name() {
            ("memory.swap.events", name) => of(&reading.swap_events, name),
            (_, name) => of(&reading.events, name),
        },
        Source::Local(event) => of(&reading.events_local, event.file_and_name().1),
    }
}

/// The model's readings of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupNow {
    current: u64,
    swap_current: u64,
    stat: BTreeMap<&'static str, (u64, bool)>,
    events: Vec<[u64; 2]>,
    pub(super) nr_dying: usize,
    /// Milliseconds that its tasks slept for `memory.high`, and totals of `memory.pressure`: some,
    /// full.
    pub(super) slept_ms: f64,
    pub(super) pressure_ms: [f64; 2],
}

impl GroupNow {
    pub(super) fn read(kernel: &Kernel<SimHost>, cx: &Cx<'_, SimHost>, group: GroupId) -> GroupNow {
        let lines = kernel.group_stat(cx, group);
        let pressure_ms = cx.host.sim().group_pressure(group).map_or([0.0; 2], |reading| {
            let Lines { some, full } = reading.of(Resource::Memory);
            [some, full].map(|line| line.total_us as f64 / 1e3)
        });
        GroupNow {
            current: kernel.group_usage(group),
            swap_current: kernel.group_swap_usage(group),
            stat: lines.iter().map(|line| (line.name, (line.value, line.is_level))).collect(),
            events: GroupEvent::ALL.map(|event| kernel.memcg.events(group, event)).to_vec(),
            nr_dying: kernel.memcg.nr_dying(group),
            slept_ms: kernel.memcg.throttled(group).ns as f64 / 1e6,
            pressure_ms,
        }
    }

    /// A figure: pages, or events since the group was made.
    pub(super) fn value(&self, source: Source) -> i64 {
        let count = match source {
            Source::Current => self.current,
            Source::SwapCurrent => self.swap_current,
            Source::Level(name) => self.stat.get(name).map_or(0, |stat| stat.0) / PAGE_SIZE as u64,
            Source::Count(name) => self.stat.get(name).map_or(0, |stat| stat.0),
            Source::Event(event) => self.events.get(event as usize).map_or(0, |both| both[0]),
            Source::Local(event) => self.events.get(event as usize).map_or(0, |both| both[1]),
        };
        count as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_reading() {
        let mut reading = GroupReading { current: Some(8192), ..GroupReading::default() };
        reading.gauges.insert("anon".to_owned(), 12_288);
        reading.counters.insert("pgscan".to_owned(), 7);
        reading.events.insert("max".to_owned(), 3);
        reading.swap_events.insert("max".to_owned(), 5);
        let of = |source| real(&reading, source);
        assert_eq!((of(Source::Current), of(Source::Level("anon"))), (2, 3));
        assert_eq!((of(Source::Count("pgscan")), of(Source::Count("pgsteal"))), (7, 0));
        let events = [GroupEvent::Max, GroupEvent::SwapMax].map(|event| of(Source::Event(event)));
        assert_eq!(events, [3, 5]);
        assert_eq!(of(Source::Local(GroupEvent::Max)), 0);
    }

    #[test]
    fn the_root_has_no_limits() {
        let root = all(ROOT);
        assert!(!root.contains(&Source::Current) && !root.contains(&Source::Level("anon")));
        assert!(root.contains(&Source::Count("pgscan")));
        assert!(all("a").contains(&Source::Local(GroupEvent::Max)));
        assert!(!all("a").contains(&Source::Local(GroupEvent::SwapMax)));
    }

    #[test]
    fn kills_are_exact_and_splits_are_not_judged() {
        assert_eq!(Source::Event(GroupEvent::OomKill).judged(), Judged::Exactly);
        assert_eq!(Source::Event(GroupEvent::Max).judged(), Judged::Near);
        assert_eq!(Source::Count("pgscan_kswapd").judged(), Judged::Not);
        assert_eq!(Source::Count("pgscan").judged(), Judged::Near);
        assert_eq!(Source::Level("file_dirty").judged(), Judged::Not);
    }
}
