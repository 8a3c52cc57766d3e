//! Sweeps on many computers: finished units as immutable Parquet files, one for each.
//!
//! ```text
//!                       process 1 (--shard 1/2)   process 2 (--shard 2/2), anywhere
//!                                 │ put                     │ put
//!                                 ▼                         ▼
//! DIR/sweep.json        DIR/units/<id>.parquet    DIR/units/<id>.parquet      written once, never changed
//! (the plan)                      └───────────┬─────────────┘
//!                                             ▼ Plan::collect_from, once all are there
//!                         grid.csv, report.txt, results, observations.parquet
//! ```
//!
//! A file of a unit (a *shard*) is a function of the unit's id alone: any process on any computer writes the same bytes.
//! So resuming, caching and merging are differences of sets of names, and two processes that run the same unit do no
//! harm. Nothing here takes a lock: a file appears whole, by a rename.
//!
//! | module | holds |
//! |---|---|
//! | `table` | tables of rows as Parquet |
//! | [`place`] | files that appear whole, whoever else writes beside |
//! | [`shard`] | a finished unit as the bytes of a file |
//! | [`ledger`] | [`Ledger`]: a directory of shards |
//! | [`sweep`] | [`Sweep`]: the plan of a directory, `sweep.json`; [`Share`]: a part of its units |
//! | [`verify`] | runs some units again and compares bytes |
//! | [`merge`] | copies shards from other directories |
//! | [`observations`] | all observations of some results as one table |
//! | [`keep`] | the results of a sweep in its directory |
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use highwater_ledger::{Ledger, keep};
//! use highwater_plan::experiment::Quiet;
//! use highwater_plan::plan::Options;
//! use highwater_runs::workload::Registry;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plan = Options::compare("003").quick().vary("vm.swappiness", ["0", "60"]).plan(&Registry::default())?;
//! let ledger = Ledger::create("swappiness")?;
//! let missing = ledger.missing(&plan.recipes()?);
//! plan.run_units(&missing, &ledger, &Quiet, &AtomicBool::new(false))?;
//! let results = plan.collect_from(&[&ledger])?;
//! keep::keep(&results, &ledger)?;
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

// Lowest first: a module uses only those before it (tested by
// `crates/highwater/tests/house/floors.rs`). Blank lines keep rustfmt from sorting them.
mod table;

pub mod place;

pub mod shard;

pub mod ledger;

pub mod sweep;

pub mod verify;

pub mod merge;

pub mod observations;

pub mod keep;

pub use ledger::{Ledger, Look};
pub use shard::{Shard, ShardError};
pub use sweep::{Share, Sweep};
