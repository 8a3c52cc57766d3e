//! Errors of making, running or collecting a plan.

use highwater_results::store::StoreError;
use thiserror::Error;

use crate::experiment::unit::{UnitId, UnitStoreError};
use highwater_files::input::InputError;
use highwater_runs::workload::RunError;

/// Why a plan cannot be made, run or collected: one line that names the command's option.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A file, a name or a value cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An option, an experiment or a machine does not fit the others.
    #[error("{what}: {reason}")]
    Refused {
        /// The option or the name.
        what: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// Nothing runs under this name.
    #[error("{0}")]
    Unknown(String),
    /// A unit cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A finished unit cannot be kept.
    #[error(transparent)]
    Units(#[from] UnitStoreError),
    /// Results cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Results are not consistent.
    #[error("{0}")]
    Document(String),
    /// The plan has no such unit.
    #[error(
        "no unit {id} in this plan of {nr_units} units: other options, or another release, give other ids"
    )]
    NoSuchUnit {
        /// The id that was asked for.
        id: UnitId,
        /// Units of the plan.
        nr_units: usize,
    },
    /// Units were not run, or not kept where they were looked for.
    #[error("{nr} of {nr_units} units are not in the stores; the first: {first}")]
    Missing {
        /// Units that are missing.
        nr: usize,
        /// Units of the plan.
        nr_units: usize,
        /// The first of them, in words.
        first: String,
    },
}

impl PlanError {
    /// An option, an experiment or a machine that does not fit.
    pub(crate) fn refused(what: impl Into<String>, reason: impl Into<String>) -> PlanError {
        PlanError::Refused { what: what.into(), reason: reason.into() }
    }
}
