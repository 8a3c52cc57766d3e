//! The texts of a machine as somebody posted them: `/proc/zoneinfo`, with what lies beside it.

use super::FileResult;
use crate::capture::{self, Source, Wanted};
use crate::input::InputError;

/// Compares what its kernel computed with what follows from the zones.
///
/// # Errors
/// If the texts cannot be read.
pub(super) fn check(file: &str, source: &Source) -> Result<FileResult, InputError> {
    let wanted = Wanted { no_processes: true, ..Wanted::default() };
    let captured = capture::capture(source, &wanted)?;
    let verdict = captured.verdict(file)?;
    let mut notes = captured.notes.clone();
    notes.extend(verdict.nearest.note(&captured.system.kernel));
    notes.extend(verdict.notes);
    Ok(FileResult {
        file: file.to_owned(),
        kind: "zoneinfo".to_owned(),
        figures: verdict.figures,
        not_checked: None,
        notes,
    })
}
