//! Plans: the work of `compare` and `run` as values that a program builds, inspects and runs.
//!
//! ```text
//! Options ──plan──▶ Plan: points ──▶ units (machine, policy, seed, part, seconds, id)
//! (what the command    │                │
//!  line says, typed)   │ run            │ run_units, in any process, into a UnitStore
//!                      ▼                ▼
//!                   Results ◀──────── collect (from the stores of all processes)
//!                      │
//!                      ▼ write: results.json, report.txt, grid.csv, as `--out DIR` writes them
//! ```
//!
//! [`Options`] has a field for each option of `highwater compare` and `highwater run`. [`Options::plan`] resolves every
//! name before anything runs. A [`Plan`] has one point, or with `vary` one for each combination of values; a point is a
//! [`RunPlan`] of cells, and each cell has one or several units. The command is a thin layer over this
//! module: arguments to options, results to text.
//!
//! | file | holds |
//! |---|---|
//! | `options` | [`Options`], and the command line that says the same |
//! | `machine` | [`MachineOptions`]: the machine with its disk and swap |
//! | `file`, `written` | plan files: options as TOML |
//! | `resolve` | names to experiments, machines and policies |
//! | `vary` | [`Factor`], the points of a grid |
//! | `units` | [`Plan`]: its units, runs of all or of some |
//! | `results` | [`Results`]: documents, the grid, files of a directory |
//! | `fit`, `bisect` | [`FitOptions`], [`BisectOptions`]: searches; earlier results decide the next units |
//! | `explain` | [`ExplainOptions`]: a run with the time of its operations booked by cause |
//! | `one` | [`OneRunOptions`]: one run of an experiment or of results |
//! | `error` | [`PlanError`] |
//!
//! The example `grid` runs a grid in four processes:
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use highwater_plan::experiment::Quiet;
//! use highwater_plan::plan::Options;
//! use highwater_runs::workload::Registry;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::compare("003").quick().vary("vm.swappiness", ["0", "60"]);
//! let plan = options.plan(&Registry::default())?;
//! for unit in plan.units()? {
//!     println!("{} {} {} seed {}", unit.id, unit.machine, unit.label, unit.seed);
//! }
//! let results = plan.run(None, &Quiet, &AtomicBool::new(false))?;
//! results.write("swappiness")?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RunPlan`]: crate::experiment::RunPlan

mod bisect;
mod error;
mod explain;
mod file;
mod fit;
mod machine;
mod one;
mod options;
mod resolve;
mod results;
mod units;
mod vary;
mod written;

pub use bisect::{BisectOptions, BisectPlan};
pub use error::PlanError;
pub use explain::{ExplainOptions, ExplainPlan};
pub use file::RawPlan;
pub use fit::{FitOptions, FitPlan};
pub use machine::MachineOptions;
pub use one::OneRunOptions;
pub use options::{Options, Size, What, processors};
pub use results::{PointResults, Results, report_text};
pub use units::{Plan, PlannedUnit, Point, UnitIndex};
pub use vary::{Factor, MACHINE, POINTS_MAX};

pub use resolve::Say;
pub use resolve::{OPTION, only, refuse_namesake};
pub use results::below;
