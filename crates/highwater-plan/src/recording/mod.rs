//! `highwater trace`: what one run did, moment by moment.
//!
//! ```text
//! plan (one policy, machine, seed, step) -> which part of it: times given, or around its slowest operations
//!     -> Recorder rides on the unit -> the ledger's journal -> rows -> Recording -> highwater-report writes it
//! ```
//!
//! Key types: [`Wanted`] (what to record), [`When`], [`Recorder`] (goes with a unit of work and takes what it leaves).
//!
//! A recording changes nothing: engine and core tell what they do anyway. One around the slowest operations runs the
//! unit twice, first to find them.

pub mod plan;

use highwater_sim::ledger::{KindSet, Window};

pub use highwater_runs::recorder::Recorder;
pub use plan::{Chosen, record};

/// What to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Which part of the run.
    pub when: When,
    /// Which tracepoints.
    pub kinds: KindSet,
    /// Which step of the run, by name; none: the one with the slowest operation.
    pub part: Option<String>,
    /// Of which operation the slowest are looked for; none: of all.
    pub op: Option<String>,
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All of it, or what lies between these times.
    Window(Window),
    /// Around the operation that is so many-th by latency, the slowest first, and so much before and after it.
    Worst {
        /// From 1.
        nth: usize,
        /// Nanoseconds on either side.
        margin_ns: u64,
    },
}
