//! Units of work with ids. Each unit of a run is kept on disk as soon as it is finished.
//!
//! A unit is one policy on one machine with one seed, or one step of that. Its [`Recipe`] lists in
//! a few lines everything that decides the bytes of its result. The [`UnitId`] is the SHA-256 of
//! these lines. Two units with one id have equal results, on any computer and in any sweep. A
//! [`UnitStore`] is a directory with a file for each finished unit, named by its id. An interrupted
//! run continues from it, and a longer run starts from it. [`Units`] is any such place; the crate
//! `highwater-ledger` has another one, to which many processes write at the same time.
//!
//! The recipe, line by line (each ends with a newline; digests are SHA-256 in hexadecimal digits):
//!
//! ```text
//! highwater-unit 1
//! model      digest of the sources that decide results (build.rs), of the executable for code of an embedding program
//! host       sim
//! workload   name, digest of its parameters as TOML
//! machine    digest of its name, a newline, its definition as TOML (with the state in which it starts)
//! policy     digest of its definition as TOML
//! seed       decimal
//! part       which unit of the cell, from 0
//! explain    how many of the slowest operations are kept, or none
//! samples    which samples of counters are kept, in words; or none
//! operation  the only one of which the slowest are kept; only if one was selected
//! failures   "tolerated"; only where tasks of a job may fail (`fit`)
//! ```
//!
//! A recipe changes only together with its first line.

mod recipe;
mod store;

use highwater_results::{BlockMaps, Series};
use serde::{Deserialize, Serialize};

pub use recipe::{NoUnitId, Recipe, UnitId, UnitNames};
pub use store::{Kept, UNITS_DIR, UnitStore, UnitStoreError};

use highwater_runs::workload::Outcome;

/// The results of a unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnitRan {
    /// Its samples, counters and notes.
    pub outcome: Outcome,
    /// Its counters over time, if samples were taken.
    pub over_time: Option<OverTime>,
}

/// Samples of a unit over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OverTime {
    /// Counters.
    pub series: Series,
    /// Memory maps, and ages of pages on LRU lists.
    pub moments: Option<(BlockMaps, Series)>,
}

/// A place of finished units.
pub trait Units: Send + Sync {
    /// Whether the unit is there. Reading it may still fail.
    fn has(&self, recipe: &Recipe) -> bool;

    /// The results of a unit, if they are there, complete, and of exactly this recipe.
    fn get(&self, recipe: &Recipe) -> Option<UnitRan>;

    /// Keeps the results of a unit. They appear whole or not at all.
    ///
    /// # Errors
    /// If they cannot be written.
    fn put(&self, recipe: &Recipe, ran: &UnitRan) -> Result<(), UnitStoreError>;
}
