//! Kinds of result directories, and the names of the files that Highwater writes to them.
//!
//! Key type: [`Contents`]. Each kind of results has a last file, written after all others, so a
//! directory that has it is complete. Nothing here touches a file whose name is not in [`FILES`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::explain::STALLS_FILE;
use crate::store::{DOCUMENT_FILE, StoreError, io_error};
use crate::{
    AGES_FILE, COLUMNS_FILE, KERNEL_LOG_FILE, PAGEBLOCKS_FILE, PRESSURE_FILE, SERIES_FILE,
    TIMELINE_FILE,
};

/// The report as a terminal shows it.
pub const REPORT_FILE: &str = "report.txt";
/// The published claims of a comparison, and how they came out.
pub const CLAIMS_FILE: &str = "claims.csv";
/// A file that is created and removed at once, to test whether a directory is writable.
pub const PROBE_FILE: &str = ".highwater";
/// The tidy table of a grid.
const GRID_FILE: &str = "grid.csv";
/// The summary of several experiments.
const SUMMARY_FILE: &str = "summary.csv";
/// The points of a search.
const FIT_FILE: &str = "fit.csv";
/// The switches that explain a change.
const BISECT_FILE: &str = "bisect.json";
/// The plan of a sweep.
pub const SWEEP_FILE: &str = "sweep.json";
/// All observations of a sweep.
pub const OBSERVATIONS_FILE: &str = "observations.parquet";
/// Prefix of the directory name of a grid's point; its number follows.
const POINT: &str = "point-";
/// Suffix of a file that is being written.
const TEMPORARY: &str = ".tmp";

/// Every file that a command writes to a result directory.
pub const FILES: [&str; 17] = [
    DOCUMENT_FILE,
    CLAIMS_FILE,
    GRID_FILE,
    SUMMARY_FILE,
    FIT_FILE,
    BISECT_FILE,
    SWEEP_FILE,
    OBSERVATIONS_FILE,
    REPORT_FILE,
    SERIES_FILE,
    TIMELINE_FILE,
    STALLS_FILE,
    PAGEBLOCKS_FILE,
    AGES_FILE,
    COLUMNS_FILE,
    PRESSURE_FILE,
    KERNEL_LOG_FILE,
];

/// A kind of result directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// An experiment at each point of a grid (`compare --vary`).
    Grid,
    /// Several experiments, each in a directory with its name.
    Several,
    /// One comparison, or one run.
    Comparison,
    /// The result of `fit`.
    Fit,
    /// The result of `bisect`.
    Bisect,
}

impl Contents {
    /// All kinds. If a directory has several, the first counts.
    pub const ALL: [Contents; 5] =
        [Contents::Grid, Contents::Several, Contents::Comparison, Contents::Fit, Contents::Bisect];

    /// The file that is written last: if it exists, all others do.
    pub const fn last_file(self) -> &'static str {
        match self {
            Contents::Grid => GRID_FILE,
            Contents::Several => SUMMARY_FILE,
            Contents::Comparison => DOCUMENT_FILE,
            Contents::Fit => FIT_FILE,
            Contents::Bisect => BISECT_FILE,
        }
    }

    /// The kind of a directory, by its last file; none without complete results.
    pub fn of(dir: &Path) -> Option<Contents> {
        Contents::ALL.into_iter().find(|contents| dir.join(contents.last_file()).is_file())
    }

    /// The advice for a command that runs what a file defines and was given a directory of this
    /// kind.
    pub fn instead_of_definition(self, dir: &Path) -> String {
        let shown = dir.display();
        let what = match self {
            Contents::Grid => "a grid of comparisons",
            Contents::Several => "several comparisons",
            Contents::Comparison => "results",
            Contents::Fit => "the answer of fit",
            Contents::Bisect => "the answer of bisect",
        };
        format!("this directory holds {what}: `highwater report {shown}` shows them")
    }

    /// The advice for a command that needs a comparison and was given a directory of this kind;
    /// none if it is a comparison.
    pub fn instead_of_comparison(self, dir: &Path) -> Option<String> {
        let shown = dir.display();
        let one = dir.join(format!("{POINT}0001"));
        Some(match self {
            Contents::Comparison => return None,
            Contents::Grid => {
                format!("holds a grid of comparisons; name one of them, such as {}", one.display())
            }
            Contents::Several => {
                "holds several comparisons; name one of its directories".to_owned()
            }
            Contents::Fit => {
                format!(
                    "holds the answer of fit, no comparison; highwater report {shown} prints it"
                )
            }
            Contents::Bisect => {
                format!(
                    "holds the answer of bisect, no comparison; highwater report {shown} prints it"
                )
            }
        })
    }
}

/// The directory of a grid's point; the first has number 1.
pub fn point_dir(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{POINT}{number:04}"))
}

/// The existing directories of a grid's points, by number.
///
/// # Errors
/// If the directory cannot be read.
pub fn point_dirs(dir: &Path) -> Result<Vec<(usize, PathBuf)>, StoreError> {
    let mut points = Vec::new();
    for path in directories(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(POINT).and_then(|digits| digits.parse().ok());
        if let Some(number) = number.filter(|&number| point_dir(dir, number) == path) {
            points.push((number, path));
        }
    }
    points.sort();
    Ok(points)
}

/// Removes the results in a directory, including those of a grid's points and of several
/// experiments. Files with other names stay, and so does a directory that contains some. Nothing is
/// removed unless the results are complete.
///
/// # Errors
/// If the system refuses.
pub fn remove_results(dir: &Path) -> Result<(), StoreError> {
    let Some(contents) = Contents::of(dir) else { return Ok(()) };
    match contents {
        Contents::Grid => remove_points(dir, 0)?,
        Contents::Several => {
            for below in directories(dir)? {
                if is_of_its_experiment(&below) {
                    remove_dir(&below)?;
                }
            }
        }
        Contents::Comparison | Contents::Fit | Contents::Bisect => {}
    }
    remove_files(dir)
}

/// Removes the directories of a grid's points whose number is above `last`.
///
/// # Errors
/// If the system refuses.
pub fn remove_points(dir: &Path, last: usize) -> Result<(), StoreError> {
    let mut above = point_dirs(dir)?.into_iter().filter(|(number, _)| *number > last);
    above.try_for_each(|(_, path)| remove_dir(&path))
}

/// Removes files that an earlier process left half written: `NAME.PROCESS.tmp`, where `NAME` is one
/// of [`FILES`]. Only the owner of the directory may call this, because another process may be
/// writing such a file.
///
/// # Errors
/// If the system refuses.
pub fn remove_half_written(dir: &Path) -> Result<(), StoreError> {
    for path in entries(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let parts = name.strip_suffix(TEMPORARY).and_then(|name| name.rsplit_once('.'));
        let is_half = parts.is_some_and(|(file, process)| {
            let is_ours = FILES.contains(&file) || file == PROBE_FILE;
            is_ours && process.parse::<u32>().is_ok()
        });
        if is_half && path.is_file() {
            remove(&path)?;
        }
    }
    Ok(())
}

/// True if the directory has the name of the experiment in it, as in a directory of several.
fn is_of_its_experiment(dir: &Path) -> bool {
    let Ok(text) =
        crate::input::read_text(dir.join(DOCUMENT_FILE), crate::input::DOCUMENT_BYTES_MAX)
    else {
        return false;
    };
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let name = document.get("experiment").and_then(serde_json::Value::as_str);
    name.is_some() && name == dir.file_name().and_then(|name| name.to_str())
}

/// Removes our files from a directory, and the directory if nothing else is in it.
fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    remove_half_written(dir)?;
    remove_files(dir)?;
    match fs::remove_dir(dir) {
        Err(source) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(io_error(dir, source))
        }
        _ => Ok(()),
    }
}

/// Last files go first, so a half-removed directory does not look complete.
fn remove_files(dir: &Path) -> Result<(), StoreError> {
    FILES.iter().try_for_each(|file| remove(&dir.join(file)))
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error(path, source)),
        _ => Ok(()),
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |source| io_error(dir, source);
    let entries = fs::read_dir(dir).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// The subdirectories of a directory; symbolic links are not followed.
fn directories(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut below = entries(dir)?;
    below.retain(|path| path.is_dir() && !path.is_symlink());
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    #[test]
    fn only_our_own_half_written_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let half = ["report.txt.4711.tmp", "results.json.1.tmp", ".highwater.12.tmp"].map(at);
        let others = [
            "x.4711.tmp",
            "report.2024.tmp",
            "data.7.tmp",
            "report.txt.tmp",
            "report.txt.x.tmp",
            "sub/report.txt.4711.tmp",
        ];
        let others = others.map(at);
        half.iter().chain(&others).for_each(|path| write(path));
        remove_half_written(dir.path()).unwrap();
        assert!(half.iter().all(|path| !path.exists()));
        others.iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
    }

    #[test]
    fn results_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let ours = ["grid.csv", "report.txt", "point-0001/results.json", "point-0002/report.txt"];
        let others = ["notes.txt", "point-0002/notes.txt", "point-1/report.txt", "x/report.txt"];
        let (ours, others) = (ours.map(at), others.map(at));
        ours[1..].iter().chain(&others).for_each(|path| write(path));
        remove_results(dir.path()).unwrap();
        assert!(ours[1..].iter().all(|path| path.exists()), "not complete");
        write(&ours[0]);
        assert_eq!(Contents::of(dir.path()), Some(Contents::Grid));
        remove_results(dir.path()).unwrap();
        ours.iter().for_each(|path| assert!(!path.exists(), "{}", path.display()));
        others.iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
        assert!(!at("point-0001").exists() && at("point-0002").exists());
        // Of several experiments, only the directories named after the experiment inside them are
        // removed.
        write(&at("summary.csv"));
        for name in ["a", "b"] {
            write(&at(&format!("{name}/report.txt")));
            fs::write(at(&format!("{name}/results.json")), "{\"experiment\": \"a\"}").unwrap();
        }
        remove_results(dir.path()).unwrap();
        assert!(!at("a").exists() && at("b/results.json").exists() && !at("summary.csv").exists());
    }
}
