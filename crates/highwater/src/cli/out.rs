//! Where results go: looked at before anything runs, so that no run is lost to a path that cannot be written.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_results::store::{DOCUMENT_FILE, Store, StoreError};

use super::interrupt::{AtEnd, exit_on_interrupt};
use super::{CliError, remark};
use crate::experiment::unit::{UnitStore, UnitStoreError};
use crate::experiment::{HostKind, RunPlan};

/// What several experiments add up to, in the directory of their results.
pub(super) const SUMMARY_FILE: &str = "summary.csv";
/// The tidy table of a grid.
pub(super) const GRID_FILE: &str = "grid.csv";
/// The points of a search.
pub(super) const FIT_FILE: &str = "fit.csv";
/// What switches explain a change.
pub(super) const BISECT_FILE: &str = "bisect.json";
/// Any of them says that results are complete.
const LAST_FILES: [&str; 5] = [DOCUMENT_FILE, GRID_FILE, SUMMARY_FILE, FIT_FILE, BISECT_FILE];

/// A directory for results, as the user named it.
#[derive(Clone, Copy)]
pub(super) struct Out<'a> {
    pub(super) dir: &'a Path,
    /// Whatever is there is replaced.
    force: bool,
    /// What an interrupted run left there is used.
    resume: bool,
}

/// A directory for results that is ready.
pub(super) struct Place {
    /// None: nothing is kept.
    pub(super) store: Option<Store>,
    /// Where each finished unit is kept at once.
    pub(super) units: Option<Arc<UnitStore>>,
    is_keeping: Arc<AtomicBool>,
}

impl Place {
    /// Results are being written: an interrupt waits.
    pub(super) fn begin_keeping(&self) {
        self.is_keeping.store(true, Ordering::Relaxed);
    }

    /// They are.
    pub(super) fn end_keeping(&self) {
        self.is_keeping.store(false, Ordering::Relaxed);
    }

    /// The plan, its units kept here.
    pub(super) fn keeps(&self, plan: RunPlan) -> RunPlan {
        RunPlan { units: self.units.clone(), ..plan }
    }
}

/// Opens the place of results, if there is one, for a command that runs these plans; from now on a signal ends the process.
pub(super) fn prepare(out: Option<&Out<'_>>, plans: &[RunPlan]) -> Result<Place, CliError> {
    let made = out.filter(|out| !out.dir.exists()).map(|out| out.dir.to_owned());
    let (store, units) = out.map(|out| out.open(plans)).transpose()?.unzip();
    let is_keeping = exit_on_interrupt(AtEnd { made, units: units.clone() })?;
    Ok(Place { store, units, is_keeping })
}

impl<'a> Out<'a> {
    pub(super) fn new(dir: Option<&'a Path>, force: bool, resume: bool) -> Option<Out<'a>> {
        dir.map(|dir| Out { dir, force, resume })
    }

    /// The directory and its units, if it has no results that this command is not to replace.
    fn open(&self, plans: &[RunPlan]) -> Result<(Store, Arc<UnitStore>), CliError> {
        let dir = self.dir.display();
        let refused = |reason: String| CliError::new(format!("--out {dir}: {reason}"));
        if self.resume && plans.iter().any(|plan| plan.host == HostKind::Native) {
            let reason = "measures this computer; only simulated runs can be continued";
            return Err(CliError::new(format!("--resume: --host native {reason}")));
        }
        let has_results = LAST_FILES.iter().any(|file| self.dir.join(file).exists());
        if has_results && !self.force && !self.resume {
            return Err(refused("there are results in it; --force replaces them".to_owned()));
        }
        let store = Store::create(self.dir).map_err(|error| refused(error.to_string()))?;
        writable(self.dir).map_err(&refused)?;
        let units = UnitStore::open(self.dir).map_err(|error| match error {
            UnitStoreError::Busy { .. } => {
                refused("another run is writing results to it".to_owned())
            }
            error => CliError::new(error.to_string()),
        })?;
        let nr_kept = units.len();
        if self.resume {
            let (mut found, mut total) = (0, 0);
            for plan in plans {
                let recipes = plan.recipes()?;
                total += recipes.len();
                found += recipes.iter().filter(|recipe| units.has(recipe)).count();
            }
            if has_results && found == 0 && !self.force {
                let reason = "the results in it are of another run; --force replaces them";
                return Err(refused(reason.to_owned()));
            }
            if nr_kept > 0 {
                let others = match nr_kept - found.min(nr_kept) {
                    0 => String::new(),
                    nr => format!("; {nr} more are kept there"),
                };
                remark(&format!("{dir}: {found} of {total} runs are there already{others}"));
            }
        } else if self.force {
            units.clear().map_err(|error| CliError::new(error.to_string()))?;
        } else if nr_kept > 0 {
            let reason = "finished runs of an interrupted command are in it";
            let next = "--resume continues it, --force begins again";
            return Err(refused(format!("{nr_kept} {reason}; {next}")));
        }
        Ok((store, Arc::new(units)))
    }
}

/// Refuses a file that could not be written later: its directory is missing or not writable, or it is a directory itself.
pub(super) fn check_file(option: &str, file: &Path) -> Result<(), CliError> {
    let refused = |reason: String| CliError::new(format!("{option} {}: {reason}", file.display()));
    if file.is_dir() {
        return Err(refused("is a directory".to_owned()));
    }
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return Err(refused(format!("there is no directory {}", parent.display())));
    }
    writable(parent).map_err(refused)
}

/// Refuses a directory that could not be made or written to later.
pub(super) fn check_dir(option: &str, dir: &Path) -> Result<(), CliError> {
    let refused = |reason: String| CliError::new(format!("{option} {}: {reason}", dir.display()));
    // What is not there yet is made in the nearest one that is.
    let there = dir.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.exists());
    let there = there.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match there.is_dir() {
        true => writable(there).map_err(refused),
        false => Err(refused(format!("{} is not a directory", there.display()))),
    }
}

/// Says why no file can be made in a directory.
fn writable(dir: &Path) -> Result<(), String> {
    let probe = dir.join(format!(".highwater.{}.tmp", std::process::id()));
    let made = File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
    made.map_err(|error| format!("cannot write to {}: {error}", dir.display()))
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(error: StoreError) -> CliError {
    CliError::new(error.to_string())
}
