//! One cell on threads and memory of this computer.

use super::super::outcome::{Outcome, RunError};
use super::super::runner::Cell;
use super::UnmapSection;

/// Boots a kernel on native memory and runs both parts.
pub(super) fn run(_: &Cell<'_>, _: &UnmapSection) -> Result<Outcome, RunError> {
    Err(RunError::Native("unmap is not there yet".to_owned()))
}
