//! Workloads, each run as a unit of work: one policy on one machine with one seed.
//!
//! | module | holds |
//! |---|---|
//! | [`workload`] | the trait, the registry, the harness of a simulated run, the workloads of the studies, jobs |
//! | [`ledger`] | rows of what a host booked: where the time of operations went |
//! | [`recorder`] | what a recorded run did, moment by moment |
//! | [`watching`] | frames of a run while it goes on |

// The macro `params!` names this crate as a program outside names the crate on top.
extern crate self as highwater;

pub mod ledger;
pub mod recorder;
pub mod watching;
pub mod workload;
