//! Experiments = machine + policy + workload + seeds; the highwater command.

#[cfg(feature = "cli")]
pub mod cli;
pub mod schema;

pub use highwater_files::{InputError, input, machine_file, policy_file};
pub use highwater_linux::{capture, check, replay};
pub use highwater_plan::{
    bisect, experiment, explain, fit, metric, plan, recording, settings, sysctls,
};
pub use highwater_runs::{params, watching, workload};

// The crates below, so that a program needs this one alone.
pub use {
    highwater_core as core, highwater_native as native, highwater_report as report,
    highwater_results as results, highwater_sim as sim, highwater_workloads as workloads,
};
