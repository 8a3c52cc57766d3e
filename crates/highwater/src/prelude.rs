//! The stable names of this library: plans, machines, policies, and workloads of your own.
//!
//! A program that uses only this module, [`plan`](crate::plan) and `highwater_core::embed` keeps
//! compiling until the next minor release. Other modules are public because the command and the
//! examples need them, and may change in any release.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use highwater::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plan = Options::compare("003").quick().iterations(1).plan(&Registry::default())?;
//! let results = plan.run(None, &Quiet, &AtomicBool::new(false))?;
//! let document: &Document = results.documents().next().ok_or("a plan has a point")?;
//! assert_eq!(document.experiment, "003-unmap-accessed");
//! # Ok(())
//! # }
//! ```

pub use highwater_core::config::{Policy, preset};
pub use highwater_files::InputError;
pub use highwater_files::machine_file::MachineFile;
pub use highwater_files::policy_file::{OwnPolicy, load as load_policy};
pub use highwater_plan::experiment::unit::{UnitId, UnitStore};
pub use highwater_plan::experiment::{Experiment, Progress, Quiet};
pub use highwater_plan::plan::{
    Factor, MachineOptions, Options, Plan, PlanError, PlannedUnit, Results,
};
pub use highwater_results::{Better, Document, Metric};
pub use highwater_runs::params;
pub use highwater_runs::workload::{
    Entry, HostKind, Outcome, Params, Registry, RunError, Unit, Workload,
};

#[cfg(feature = "cli")]
pub use crate::cli::Program;
