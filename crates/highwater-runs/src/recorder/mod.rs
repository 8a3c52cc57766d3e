//! A recorder accompanies a unit of work and collects its events (`highwater trace`).
//!
//! ```text
//! Recorder goes with a Unit -> the ledger's journal -> rows -> Recording
//! ```
//!
//! A recording changes no result: engine and core emit these events anyway.

mod journal;

use std::sync::Mutex;

use highwater_results::recording::Recording;
use highwater_sim::engine::Sim;
use highwater_sim::ledger::{KindSet, Ledger, Window};

use crate::sampling::Sampling;

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
