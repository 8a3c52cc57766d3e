//! Experiments = machine + policy + workload + seeds; the highwater command.

pub mod check;
pub mod cli;
pub mod error;
pub mod experiment;
pub mod explain;
pub mod machine_file;
pub mod policy_file;
pub mod replay;
pub mod size;

pub use error::InputError;
