//! What rides on a unit of work that is recorded (`highwater trace`), and takes what the run leaves.
//!
//! ```text
//! Recorder goes with a Unit -> the ledger's journal -> rows -> Recording
//! ```
//!
//! Key types: [`Wanted`] (options), [`When`], [`Recorder`] (accompanies a unit of work and collects
//! its events).
//!
//! A recording changes no result: engine and core emit these events anyway. One around the slowest
//! operations runs the unit twice, first to find them.

mod journal;

use std::sync::Mutex;

use highwater_results::recording::Recording;
use highwater_sim::engine::Sim;
use highwater_sim::ledger::{KindSet, Ledger, Window};

use crate::workload::Sampling;

/// Options of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Which part of the run.
    pub when: When,
    /// Which tracepoints.
    pub kinds: KindSet,
    /// The step of the run to record; `None`: the step with the slowest operation.
    pub part: Option<String>,
    /// Only operations with this name count as slow; `None`: all operations.
    pub op: Option<String>,
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The time between these two, or everything.
    Window(Window),
    /// Around the operation with this rank by latency, the slowest first, with a margin before and
    /// after it.
    Worst {
        /// From 1.
        nth: usize,
        /// Nanoseconds on either side.
        margin_ns: u64,
    },
}

/// Accompanies a unit of work and collects its events.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    kinds: KindSet,
    sampling: Sampling,
    got: Mutex<Option<Recording>>,
}

impl Recorder {
    /// Records a part of the unit's time, and these tracepoints.
    pub fn new(window: Window, kinds: KindSet) -> Recorder {
        let sampling = Sampling::window(window);
        Recorder { window, kinds, sampling, got: Mutex::new(None) }
    }

    /// The part of time.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The tracepoints.
    pub const fn kinds(&self) -> KindSet {
        self.kinds
    }

    /// Takes the counters.
    pub(crate) const fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Takes the events from a ledger that has just been closed.
    pub(crate) fn take(&self, sim: &Sim, ledger: &mut Ledger) {
        let Some(journal) = ledger.journal.take() else { return };
        let (from_ns, now_ns) = (self.window.from_ns, sim.now_ns());
        let mut recording = journal::recording(ledger, journal, self.window);
        recording.from_ns = from_ns.min(now_ns);
        recording.to_ns = self.window.to_ns.min(now_ns);
        recording.nr_cpus = sim.nr_cpus() as u16;
        if let Ok(mut got) = self.got.lock() {
            *got = Some(recording);
        }
    }

    /// The recording of the unit, if it has run.
    pub fn finish(self, part: &str) -> Option<Recording> {
        let mut recording = self.got.into_inner().ok().flatten()?;
        let (counters, note) = self.sampling.finish(part.to_owned());
        recording.counters = counters;
        recording.notes.extend(note);
        part.clone_into(&mut recording.part);
        Some(recording)
    }
}
