//! Plans: an experiment, its machines, policies and seeds; what of it the user set; and how it is run.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | `--set KEY=VALUE` |
//! | [`sysctls`] | which sysctls the kernel of a policy has |
//! | [`experiment`] | files of experiments and jobs, units of work by id, the runner |
//! | [`plan`] | options of a user, and the units of work that follow from them |
//! | [`metric`] | figures of results, by name |
//! | [`explain`] | where the time of a plan's operations went |
//! | [`recording`] | which part of a run to record |
//! | [`fit`] | the least value of a setting that keeps bounds |
//! | [`bisect`] | the switches that explain a change |

pub mod bisect;
pub mod experiment;
pub mod explain;
pub mod fit;
pub mod metric;
pub mod plan;
pub mod recording;
pub mod settings;
pub mod sysctls;
