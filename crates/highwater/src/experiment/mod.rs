//! Experiments: machines, policies, a workload and seeds, as data; and the runner.
//!
//! ```text
//! experiments/*.toml -> file::Experiment -> plan::Plan (cells) -> runner (jobs) -> results::Document
//!                                                  |
//!                                   netperf on sim_host | native_host
//! ```
//!
//! A cell is one policy on one machine with one seed; cells are independent, so they run on any
//! number of host threads and are put together in the order of the plan.

mod file;
mod native_host;
mod outcome;
mod published;
mod runner;
mod sim_host;

pub use file::{
    Experiment, ExperimentError, HostKind, MachineEntry, NetperfSection, PolicyEntry, WorkloadName,
    embedded,
};
pub use outcome::{Outcome, RunError};
pub use published::published_tables;
pub use runner::{Cell, Progress, RunPlan, run};
