//! A machine's proc files as somebody posted them: `/proc/zoneinfo`, with the files beside it.

use super::FileResult;
use crate::capture::{self, Source, Wanted};
use highwater_files::input::InputError;

/// Compares the sizes that its kernel computed with the model's sizes for the same zones.
///
/// # Errors
/// If a file cannot be read.
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
