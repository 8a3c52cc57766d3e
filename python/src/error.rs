//! Errors as Python sees them: one line, in the words of the command.

use highwater::input::InputError;
use highwater::plan::PlanError;
use highwater::workload::RunError;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    highwater,
    HighwaterError,
    PyValueError,
    "An input, an option or a run is wrong: one line, as the command prints it."
);
create_exception!(
    highwater,
    Stopped,
    HighwaterError,
    "The caller's `stop` was set. Finished units are kept."
);

/// Why something did not end well.
#[derive(Debug)]
pub(crate) enum Failed {
    /// An input is wrong, or a run failed: the line that says so.
    Said(String),
    /// The caller wanted no more.
    Stopped,
}

impl Failed {
    /// An error with this text.
    pub(crate) fn said(text: impl Into<String>) -> Failed {
        Failed::Said(text.into())
    }
}

impl From<PlanError> for Failed {
    fn from(error: PlanError) -> Failed {
        match error {
            PlanError::Run(RunError::Interrupted) => Failed::Stopped,
            error => Failed::Said(error.to_string()),
        }
    }
}

impl From<InputError> for Failed {
    fn from(error: InputError) -> Failed {
        Failed::Said(error.to_string())
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> PyErr {
        match failed {
            Failed::Said(text) => HighwaterError::new_err(text),
            Failed::Stopped => Stopped::new_err("stopped; finished units are kept"),
        }
    }
}
