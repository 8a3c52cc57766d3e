//! Experiments: machines, policies, a workload and seeds, as data; and the runner.
//!
//! ```text
//! experiments/*.toml -> file::Experiment -> RunPlan (cells) -> runner (jobs) -> results::Document
//!                                                     |
//!                                       highwater_runs::workload, on sim or native
//! ```
//!
//! A cell is one policy on one machine with one seed, in one or several units of work (the steps of
//! stutterp). Units are independent. They run on any number of host threads, and their results are
//! put together in the order of the plan.

mod ablate;
mod change;
mod file;
pub(crate) mod files;
mod jobs;
mod raw;
mod runner;
mod set;
mod set_params;
pub mod unit;
mod units;
mod vars;
mod work;

pub use ablate::ablation;
pub(crate) use ablate::{between, label};
pub use file::{Experiment, embedded, embedded_text};
pub use files::FilesPlan;
pub use jobs::job_with;
pub use jobs::{job_text, jobs};
pub use raw::Raw as RawExperiment;
pub use raw::{Beyond, BeyondPolicy, NativeShape, PolicyEntry};
pub use runner::{Progress, Quiet, Ran, RunPlan, run, run_all};
pub use units::UnitOf;
pub(crate) use units::on_threads;
pub use work::Work;

pub use highwater_runs::workload::HostKind;
