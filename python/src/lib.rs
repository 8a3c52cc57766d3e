//! The extension module `highwater._highwater`: plans, results and searches of the library for the
//! Python package, which adds types, documentation and defaults.
//!
//! | module | holds |
//! |---|---|
//! | `error` | the exceptions `HighwaterError` and `Stopped` |
//! | `work` | work on a thread, while Python's thread looks for Ctrl-C and reports progress |
//! | `spec` | options as JSON, to the library's options |
//! | `plan`, `results` | plans and their results |
//! | `frames` | observations as a stream of Arrow batches |
//! | `searches` | `fit`, `bisect`, `explain` |
//! | `session` | a run in steps, with sysctls written on the way |
//! | `linux` | `replay`, `check`, `capture`, `diagnose` |
//! | `names` | names that come with the program, and TOML texts |
//!
//! Everything here is private to the package: `_highwater.pyi` has the types.

mod error;
mod frames;
mod linux;
mod names;
mod plan;
mod results;
mod searches;
mod session;
mod spec;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _highwater {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    #[pymodule_export]
    use super::error::{HighwaterError, Stopped};
    #[pymodule_export]
    use super::frames::Observations;
    #[pymodule_export]
    use super::linux::{capture, check, diagnose, replay};
    #[pymodule_export]
    use super::names::{experiments, machines, objective, policies, toml_of, workloads};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::searches::{bisect, explain, fit};
    #[pymodule_export]
    use super::session::Session;

    /// Version of the library.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "a name of Python's")]
    const version: &str = env!("CARGO_PKG_VERSION");

    /// Runs the command with these words, the program's name first; the exit status.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
        py.detach(|| highwater::cli::Program::default().status(words))
    }
}
