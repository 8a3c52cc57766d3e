//! Counters and free blocks of a simulated machine over virtual time (`--sample-every`).
//!
//! Nothing that is simulated takes part: the engine calls [`Sampling`] at its times, which reads what
//! `/proc/vmstat` and `/proc/buddyinfo` would show and notes it. So a run has the same bytes with it and without.
//!
//! From: [`super::harness`] · to: [`highwater_results::series`].

use std::sync::{Arc, Mutex};

use highwater_core::host::Host;
use highwater_core::page::{MAX_ORDER, Order};
use highwater_core::page_alloc::PageAllocator;
use highwater_results::Series;
use highwater_sim::engine::Sim;
use highwater_sim::host::SimHost;

use super::outcome::counters_of;

/// Most rows of one unit: some hundred MB.
const ROWS_MAX: usize = 1 << 18;
const NS_PER_MS: u64 = 1_000_000;

/// What takes the samples of one unit of work.
#[derive(Clone, Debug)]
pub struct Sampling {
    every_ms: u64,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    series: Series,
    nr_left_out: u64,
}

impl Sampling {
    /// One sample each time so many milliseconds have passed.
    pub fn new(every_ms: u64) -> Sampling {
        Sampling { every_ms, taken: Arc::default() }
    }

    /// Takes the first sample now and the others as time passes. `look` shows the memory, if it is there still.
    pub(super) fn start(
        &self,
        sim: &Sim,
        look: impl Fn(&mut dyn FnMut(&PageAllocator<SimHost>)) + 'static,
    ) {
        let taken = Arc::clone(&self.taken);
        let sample = move |at_ns| {
            look(&mut |memory| {
                if let Ok(mut taken) = taken.lock() {
                    taken.add(at_ns, memory);
                }
            });
        };
        sample(sim.now_ns());
        sim.sample_every(self.every_ms.saturating_mul(NS_PER_MS), sample);
    }

    /// What was taken, and a note if some of it was not kept.
    pub fn finish(self, part: String) -> (Series, Option<String>) {
        let Ok(mut taken) = self.taken.lock() else { return Default::default() };
        let Taken { mut series, nr_left_out } = std::mem::take(&mut *taken);
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
    fn add(&mut self, at_ns: u64, memory: &PageAllocator<SimHost>) {
        if self.series.is_empty() {
            let mut columns = Vec::new();
            counters_of(memory, |name, _| columns.push(name.to_owned()));
            blocks_of(memory, |place, _| columns.push(place()));
            self.series = Series::new(columns);
        }
        if self.series.len() == ROWS_MAX {
            self.nr_left_out += 1;
            return;
        }
        let mut row = Vec::with_capacity(self.series.columns.len());
        counters_of(memory, |_, value| row.push(value));
        blocks_of(memory, |_, value| row.push(value));
        self.series.push(at_ns, row);
    }
}

/// Free blocks of each zone with memory and each order, as `/proc/buddyinfo` has them.
fn blocks_of<H: Host>(memory: &PageAllocator<H>, mut each: impl FnMut(&dyn Fn() -> String, u64)) {
    for zone in memory.populated_zones() {
        for order in (0..MAX_ORDER as u8).map(Order) {
            let name = || {
                let (node, zone) = (zone.node.0, zone.zone.name());
                format!("node{node}/{zone}/order{}", order.0)
            };
            each(&name, zone.nr_free_blocks(order) as u64);
        }
    }
}
