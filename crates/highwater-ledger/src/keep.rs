//! The results of a sweep in its directory: what `compare --out DIR` writes, and the table of all observations.
//!
//! Several processes may finish a sweep at the same time. Each writes the whole results to a directory of its own beside
//! the others and then moves file by file. All write the same bytes, so the order does not matter.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use highwater_plan::experiment::unit::UnitStoreError;
use highwater_plan::plan::{PlanError, Results};
use highwater_report::report::Shown;
use highwater_results::Contents;
use highwater_results::contents::OBSERVATIONS_FILE;
use highwater_results::store::Store;

use crate::ledger::{Ledger, io_error};
use crate::observations;
use crate::place::{entries, temporary_name};

/// Writes the results of a plan into the directory of its ledger.
///
/// # Errors
/// If a file cannot be written.
pub fn keep(results: &Results, ledger: &Ledger) -> Result<(), PlanError> {
    let own = ledger.dir().join(temporary_name("results"));
    let kept = write(results, &own).and_then(|()| {
        let contents = match results.keys.is_empty() {
            true => Contents::Comparison,
            false => Contents::Grid,
        };
        // If the last file is there, all others are.
        move_files(&own, ledger.dir(), contents.last_file())?;
        Ok(())
    });
    // A rest of it is removed when the directory is opened the next time.
    let _ = fs::remove_dir_all(&own);
    kept
}

fn write(results: &Results, own: &Path) -> Result<(), PlanError> {
    results.keep(&Store::create(own)?, Shown::Changes)?;
    let path = own.join(OBSERVATIONS_FILE);
    let file = File::create(&path).map_err(|source| io_error(&path, source))?;
    observations::write(results, BufWriter::new(&file))?;
    file.sync_all().map_err(|source| io_error(&path, source))?;
    Ok(())
}

/// Moves all files of a directory and of those below it; the one with this name last.
fn move_files(from: &Path, into: &Path, last: &str) -> Result<(), UnitStoreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| io_error(&path, source)
    };
    let mut paths = entries(from).map_err(failed(from))?;
    paths.sort_by_key(|path| (path.ends_with(last), path.clone()));
    for path in paths {
        let Some(name) = path.file_name() else { continue };
        let target = into.join(name);
        if path.is_dir() {
            fs::create_dir_all(&target).map_err(failed(&target))?;
            move_files(&path, &target, last)?;
        } else {
            fs::rename(&path, &target).map_err(failed(&target))?;
        }
    }
    Ok(())
}
