//! Plans: an experiment with its machines, policies and seeds, the user's settings, and the runner.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | `--set KEY=VALUE` |
//! | [`sysctls`] | which sysctls the kernel of a policy has |
//! | [`experiment`] | files of experiments and jobs, units of work by id, the runner |
//! | [`metric`] | metrics of a run, by name |
//! | [`explain`] | where the time of a plan's operations went |
//! | [`recording`] | which part of a run to record |
//! | [`fit`] | the least value of a setting that meets objectives |
//! | [`bisect`] | the switches that explain a change |
//! | [`plan`] | options of a user, and the units of work that follow from them |
//! | [`session`] | one run that an observer takes step by step |

// Lowest first: a module uses only those before it (tested by
// `crates/highwater/tests/house/floors.rs`). Blank lines keep rustfmt from sorting them.
pub mod settings;

pub mod sysctls;

pub mod experiment;

pub mod metric;

pub mod explain;

pub mod recording;

pub mod fit;

pub mod bisect;

pub mod plan;

pub mod session;
