//! Counters, free blocks and pressure of a simulated machine over virtual time (`--sample-every`,
//! timelines, recordings), and a workload's own columns ([`More`]).
//!
//! Sampling does not affect the simulation. The engine calls [`Sampling`] at its times, and it
//! records the figures of `/proc/vmstat`, `/proc/buddyinfo` and `/proc/zoneinfo`. So a run has the
//! same bytes with and without it.
//!
//! | made by | takes a sample | keeps |
//! |---|---|---|
//! | [`Sampling::every`] | at each multiple of a time | the first [`ROWS_MAX`], with a note |
//! | [`Sampling::timeline`] | each millisecond | a bounded number: above it, every other sample is dropped |
//! | [`Sampling::window`] | some thousand times in a part of the run | all |
//!
//! From: [`crate::workload::harness`] · to: [`highwater_results::series`].

mod moments;

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use highwater_core::host::Host;
use highwater_core::page::{MAX_ORDER, Order};
use highwater_core::page_alloc::PageAllocator;
use highwater_core::units::GroupId;
use highwater_core::vmstat::{self, Meaning};
use highwater_core::zone::Mark;
use highwater_results::column::{Kind, Owner, Unit};
use highwater_results::{BlockMaps, Column, Series};
use highwater_sim::engine::Sim;
use highwater_sim::host::SimHost;
use highwater_sim::ledger::Window;
use highwater_sim::pressure::{Reading, Resource, SINCE};

use self::moments::Moments;
use crate::outcome::counters_of;

/// Most rows of one unit: some hundred MB.
const ROWS_MAX: usize = 1 << 18;
const NS_PER_MS: u64 = 1_000_000;
/// Samples of a part of a run, and how near each other they may be.
const ROWS_OF_WINDOW: u64 = 2000;
const WINDOW_EVERY_NS_MIN: u64 = 50_000;

/// Inspects the memory of a machine.
pub(crate) type See<'a> = dyn FnMut(&PageAllocator<SimHost>) + 'a;

/// The pressure of a machine and of its memory cgroups at the time of a sample.
pub struct PressureNow<'a> {
    /// The machine's.
    machine: Reading,
    of_group: &'a dyn Fn(GroupId) -> Option<Reading>,
}

impl PressureNow<'_> {
    /// A group's; none of a group that is not measured.
    pub fn of_group(&self, group: GroupId) -> Option<Reading> {
        (self.of_group)(group)
    }
}

/// Reports the number of each column, in order.
pub type ReadColumns = Rc<dyn Fn(&PressureNow<'_>, &mut dyn FnMut(u64))>;

/// Columns that a workload adds.
#[derive(Clone)]
pub struct More {
    /// Their declarations.
    pub columns: Vec<Column>,
    /// Their numbers.
    pub read: ReadColumns,
}

impl More {
    /// These columns, and others behind them.
    #[must_use]
    pub(crate) fn and(self, other: Option<More>) -> More {
        let Some(other) = other else { return self };
        let (first, second) = (self.read, other.read);
        let read = move |pressure: &PressureNow<'_>, each: &mut dyn FnMut(u64)| {
            first(pressure, each);
            second(pressure, each);
        };
        let columns = self.columns.into_iter().chain(other.columns).collect();
        More { columns, read: Rc::new(read) }
    }
}

/// Takes the samples of one unit of work.
#[derive(Clone, Debug)]
pub struct Sampling {
    every_ns: u64,
    window: Window,
    keep: Keep,
    taken: Arc<Mutex<Taken>>,
}

/// Which samples stay if there are many.
#[derive(Clone, Copy, Debug)]
enum Keep {
    /// The first.
    First(usize),
    /// Every other one, again and again.
    Thinned(usize),
}

#[derive(Debug, Default)]
struct Taken {
    series: Series,
    /// Samples so far, and how many of them make one kept sample; 0: each is kept.
    nr_seen: u64,
    stride_bits: u32,
    nr_left_out: u64,
    /// Memory maps at a few moments; `None`: not wanted.
    moments: Option<Moments>,
}

impl Sampling {
    /// One sample each time this many milliseconds have passed.
    pub fn every(every_ms: u64) -> Sampling {
        let every_ns = every_ms.saturating_mul(NS_PER_MS);
        Sampling::new(every_ns, Window::ALL, Keep::First(ROWS_MAX))
    }

    /// As many samples as fit, evenly over a run of unknown length.
    pub fn timeline(rows: usize) -> Sampling {
        Sampling::new(NS_PER_MS, Window::ALL, Keep::Thinned(rows.max(2)))
    }

    /// Adds memory maps at some of the samples.
    #[must_use]
    pub fn with_moments(self) -> Sampling {
        if let Ok(mut taken) = self.taken.lock() {
            taken.moments = Some(Moments::new(self.every_ns / NS_PER_MS));
        }
        self
    }

    /// Samples of a part of a run.
    pub fn window(window: Window) -> Sampling {
        let (every_ns, keep) = match window.to_ns {
            // Of unknown length.
            u64::MAX => (NS_PER_MS, Keep::Thinned(ROWS_OF_WINDOW as usize)),
            to_ns => {
                let len_ns = to_ns.saturating_sub(window.from_ns);
                ((len_ns / ROWS_OF_WINDOW).max(WINDOW_EVERY_NS_MIN), Keep::First(ROWS_MAX))
            }
        };
        Sampling::new(every_ns, window, keep)
    }

    /// A complete description of the samples, in words.
    pub fn name(&self) -> String {
        let Sampling { every_ns, window: Window { from_ns, to_ns }, .. } = self;
        let keep = match self.keep {
            Keep::First(rows) => format!("first {rows}"),
            Keep::Thinned(rows) => format!("thinned {rows}"),
        };
        let has_moments = self.taken.lock().is_ok_and(|taken| taken.moments.is_some());
        let moments = if has_moments { " with moments" } else { "" };
        format!("every {every_ns} ns from {from_ns} to {to_ns} {keep}{moments}")
    }

    fn new(every_ns: u64, window: Window, keep: Keep) -> Sampling {
        Sampling { every_ns, window, keep, taken: Arc::default() }
    }

    /// Takes the first sample now and the others as time passes. `look` gives access to the memory
    /// while it exists.
    pub(super) fn start(
        &self,
        sim: &Sim,
        more: Option<More>,
        look: impl Fn(&mut See<'_>) + 'static,
    ) {
        let me = self.clone();
        let sample = move |at_ns, pressure: &PressureNow<'_>| {
            // One more sample after the window, with the state at its end.
            if at_ns < me.window.from_ns || at_ns >= me.window.to_ns.saturating_add(me.every_ns) {
                return;
            }
            look(&mut |memory| {
                if let Ok(mut taken) = me.taken.lock() {
                    taken.add(at_ns, memory, pressure, more.as_ref(), me.keep);
                    if let Some(moments) = &mut taken.moments {
                        moments.pass(at_ns, memory);
                    }
                }
            });
        };
        let of_group = |group| sim.group_pressure(group);
        sample(sim.now_ns(), &PressureNow { machine: sim.pressure(), of_group: &of_group });
        sim.sample_every(self.every_ns, move |at_ns, look| {
            let of_group = |group| look.group_pressure(group, at_ns);
            sample(at_ns, &PressureNow { machine: look.pressure(at_ns), of_group: &of_group });
        });
    }

    /// With [`Sampling::with_moments`]: the memory maps, and the ages of pages on LRU lists.
    pub fn moments(&self, part: String) -> Option<(BlockMaps, Series)> {
        let mut taken = self.taken.lock().ok()?;
        taken.moments.take().map(|moments| moments.finish(part))
    }

    /// The samples, and a note if some were dropped.
    pub fn finish(&self, part: String) -> (Series, Option<String>) {
        let Ok(mut taken) = self.taken.lock() else { return Default::default() };
        let Taken { mut series, nr_left_out, .. } = std::mem::take(&mut *taken);
        let note = (nr_left_out > 0).then(|| {
            format!(
                "samples: {part}: the first {ROWS_MAX} are kept, {nr_left_out} after them are not"
            )
        });
        series.part = part;
        (series, note)
    }
}

impl Taken {
    fn add(
        &mut self,
        at_ns: u64,
        memory: &PageAllocator<SimHost>,
        now: &PressureNow<'_>,
        more: Option<&More>,
        keep: Keep,
    ) {
        // Of a kernel that has the files.
        let pressure = (memory.policy.kernel >= SINCE).then_some(now.machine);
        if self.series.is_empty() {
            let mut columns = Vec::new();
            counters_of(memory, |name, _| columns.push(counter(name)));
            for zone in memory.populated_zones() {
                columns.extend(zone_columns(zone.node.0, zone.zone.name()));
            }
            columns.extend(pressure.iter().flat_map(|_| pressure_columns()));
            columns.extend(more.iter().flat_map(|more| more.columns.iter().cloned()));
            self.series = Series::new(columns);
        }
        let seen = self.nr_seen;
        self.nr_seen += 1;
        match keep {
            Keep::First(most) if self.series.len() == most => {
                self.nr_left_out += 1;
                return;
            }
            Keep::First(_) => {}
            Keep::Thinned(most) => {
                if self.series.len() == most {
                    self.series.thin();
                    self.stride_bits += 1;
                }
                if seen & ((1 << self.stride_bits) - 1) != 0 {
                    return;
                }
            }
        }
        let mut row = Vec::with_capacity(self.series.columns.len());
        counters_of(memory, |_, value| row.push(value));
        zones_of(memory, |value| row.push(value));
        if let Some(pressure) = pressure {
            pressure_of(pressure, |value| row.push(value));
        }
        if let Some(more) = more {
            (more.read)(now, &mut |value| row.push(value));
        }
        self.series.push(at_ns, row);
    }
}

/// A counter of `/proc/vmstat`, as the core declares it.
pub(crate) fn counter(name: &str) -> Column {
    // Every counter of the core has a meaning, which a test pins.
    let meaning = vmstat::meaning(name).unwrap_or(Meaning::Total(vmstat::Unit::Events));
    let (kind, unit) = match meaning {
        Meaning::Total(unit) => (Kind::Total, unit),
        Meaning::Level(unit) => (Kind::Level, unit),
    };
    let unit = match unit {
        vmstat::Unit::Pages => Unit::Pages,
        vmstat::Unit::Kibibytes => Unit::Kibibytes,
        vmstat::Unit::Events => Unit::Events,
        vmstat::Unit::Objects => Unit::Objects,
    };
    Column::new(Owner::Machine, name, unit, kind)
}

/// Microseconds since boot, as the lines of `/proc/pressure` have them. CPUs have no "full".
pub(crate) fn pressure_columns() -> Vec<Column> {
    let columns = Resource::ALL.into_iter().flat_map(|resource| {
        let lines = if resource == Resource::Cpu { &["some"][..] } else { &["some", "full"] };
        lines.iter().map(move |line| {
            let of = Owner::Pressure { resource: resource.name().to_owned() };
            Column::new(of, line, Unit::Microseconds, Kind::Total)
        })
    });
    columns.collect()
}

/// The values of [`pressure_columns`].
fn pressure_of(pressure: Reading, mut each: impl FnMut(u64)) {
    for resource in Resource::ALL {
        let lines = pressure.of(resource);
        each(lines.some.total_us);
        if resource != Resource::Cpu {
            each(lines.full.total_us);
        }
    }
}

/// Of a zone with memory its free pages and watermarks, as `/proc/zoneinfo` has them, and its free blocks of each
/// order, as `/proc/buddyinfo`.
pub(crate) fn zone_columns(node: u16, zone: &str) -> Vec<Column> {
    let column = |what: &str, unit, kind| {
        Column::new(Owner::Zone { node, zone: zone.to_owned() }, what, unit, kind)
    };
    let marks = ["min", "low", "high"].map(|mark| column(mark, Unit::Pages, Kind::Limit));
    let blocks = (0..MAX_ORDER as u8)
        .map(|order| column(&format!("order{order}"), Unit::Blocks { order }, Kind::Level));
    [column("free", Unit::Pages, Kind::Level)].into_iter().chain(marks).chain(blocks).collect()
}

/// The values of [`zone_columns`], zone by zone.
fn zones_of<H: Host>(memory: &PageAllocator<H>, mut each: impl FnMut(u64)) {
    for zone in memory.populated_zones() {
        each(zone.nr_free_pages_exact());
        [Mark::Min, Mark::Low, Mark::High].into_iter().for_each(|mark| each(zone.mark(mark)));
        let orders = (0..MAX_ORDER as u8).map(Order);
        orders.for_each(|order| each(zone.nr_free_blocks(order) as u64));
    }
}
