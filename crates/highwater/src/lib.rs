//! Experiments = machine + policy + workload + seeds; the highwater command.

// Macros of this crate use the crate's name, as an embedding program would.
extern crate self as highwater;

pub mod bisect;
pub mod capture;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
pub mod experiment;
pub mod explain;
pub mod fit;
pub mod input;
pub mod machine_file;
pub mod metric;
pub mod plan;
pub mod policy_file;
pub mod recording;
pub mod replay;
pub mod schema;
pub mod settings;
pub mod sysctls;
pub mod watching;
pub mod workload;

pub use input::InputError;

// The crates below, so that a program needs this one alone.
pub use {
    highwater_core as core, highwater_native as native, highwater_report as report,
    highwater_results as results, highwater_sim as sim, highwater_workloads as workloads,
};
