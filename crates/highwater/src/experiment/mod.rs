//! Experiments: machines, policies, a workload and seeds, as data; and the runner.
//!
//! ```text
//! experiments/*.toml -> file::Experiment -> plan::Plan (cells) -> runner (jobs) -> results::Document
//!                                                  |
//!                                   netperf | stutterp | unmap, on sim or native
//! ```
//!
//! A cell is one policy on one machine with one seed, in one or several units of work (the steps of
//! stutterp). Units are independent, so they run on any number of host threads and are put together
//! in the order of the plan.

mod beside;
mod file;
mod netperf;
mod outcome;
mod published;
mod runner;
mod stutterp;
mod unmap;

pub use beside::{Beside, StallEntry, headline_table, stalls_table};
pub use file::{
    Experiment, ExperimentError, HostKind, MachineEntry, PolicyEntry, Workload, WorkloadName,
    embedded,
};
pub use netperf::NetperfSection;
pub(crate) use outcome::snapshot;
pub use outcome::{Outcome, RunError};
pub use published::{claims_table, published_tables};
pub use runner::{Cell, Progress, RunPlan, run, run_explained};
pub use stutterp::StutterpSection;
pub(crate) use stutterp::{KSWAPD, ROWS as STUTTERP_ROWS, stall_context};
pub use unmap::UnmapSection;
