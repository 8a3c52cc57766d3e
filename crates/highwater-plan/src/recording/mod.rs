//! `highwater trace`: what one run did, moment by moment.
//!
//! ```text
//! plan (one policy, machine, seed, step) -> which part of it: times given, or around its slowest operations
//!     -> Recorder rides on the unit -> the ledger's journal -> rows -> Recording -> highwater-report writes it
//! ```
//!
//! Key types: [`Wanted`] (options), [`When`], [`Recorder`] (accompanies a unit of work and collects
//! its events).
//!
//! A recording changes no result: engine and core emit these events anyway. One around the slowest
//! operations runs the unit twice, first to find them.

pub mod plan;

use highwater_sim::ledger::{KindSet, Window};

pub use highwater_runs::recorder::Recorder;
pub use plan::{Chosen, record};

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
