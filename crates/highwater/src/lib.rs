//! Linux memory management that can be run, replayed and taken apart: one library of all crates of
//! Highwater, and its command.
//!
//! | you want | use |
//! |---|---|
//! | the stable names | [`prelude`] |
//! | what `compare` and `run` do, from a program | [`plan`] |
//! | sweeps that many processes share | [`ledger`] |
//! | results as tables, HTML, traces | [`report`], [`results`] |
//! | a workload or a policy of your own in the command | `cli::Program`, [`params!`], [`policy_file`] |
//! | the allocator alone | [`core`] (stable: `core::embed`), [`native`] |
//! | a captured Linux beside the model | [`capture`], [`replay`], [`check`] |
//! | what operations cost on this computer | [`calibrate`], [`predict`] |
//!
//! Modules outside [`prelude`], [`plan`] and `core::embed` may change in any release.

#[cfg(feature = "cli")]
pub mod cli;
pub mod prelude;
pub mod schema;

pub use highwater_files::{InputError, input, machine_file, policy_file};
pub use highwater_linux::{calibrate, capture, check, diagnose, predict, replay};
pub use highwater_plan::{
    bisect, experiment, explain, fit, metric, plan, recording, session, settings, sysctls,
};
pub use highwater_runs::{params, start, watching, workload};

// The crates below, so that a program needs this one alone.
pub use {
    highwater_core as core, highwater_ledger as ledger, highwater_native as native,
    highwater_report as report, highwater_results as results, highwater_sim as sim,
    highwater_workloads as workloads,
};
