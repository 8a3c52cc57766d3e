//! `highwater bench`.

use super::args::BenchArgs;
use super::{CliError, Outcome};

/// Measures the allocator on this computer.
pub(super) fn run(_: &BenchArgs) -> Result<Outcome, CliError> {
    Err(CliError::new("bench: not in this build"))
}
