//! Workloads, each run as a unit of work: one policy on one machine with one seed.
//!
//! | module | holds |
//! |---|---|
//! | [`outcome`] | the results of a unit |
//! | [`sampling`] | its counters over time |
//! | `names` | names of what tasks do and wait for |
//! | [`recorder`] | what a recorded run did, moment by moment |
//! | [`watching`] | frames of a run while it goes on |
//! | [`kernel_files`] | the machine's files of `/proc` and `/sys/fs/cgroup`, as files |
//! | [`mod@unit`] | a unit of work, and what accompanies it |
//! | [`start`] | free lists that a machine starts with |
//! | [`ledger`] | rows of what a host booked: where the time of operations went |
//! | [`workload`] | the trait, the registry, the harness of a simulated run, the workloads of the studies, jobs |

// The macro `params!` names this crate as a program outside names the crate on top.
extern crate self as highwater;

// Lowest first: a module uses only those before it (tested by `crates/highwater/tests/house/floors.rs`). Blank lines
// keep rustfmt from sorting them.
pub mod outcome;

pub mod sampling;

mod names;

pub mod recorder;

pub mod watching;

pub mod kernel_files;

pub mod start;

pub mod unit;

pub mod ledger;

pub mod workload;
