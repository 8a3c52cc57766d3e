//! Where results go: looked at before anything runs, so that no run is lost to a path that cannot be written.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use highwater_results::Contents;
use highwater_results::contents::{PROBE_FILE, remove_half_written, remove_results};
use highwater_results::store::{Store, StoreError};
use highwater_results::words::{count, is, refusal};

use super::args::KeepArgs;
use super::interrupt::{AtEnd, Interrupts, exit_on_interrupt};
use super::{CliError, remark};
use crate::experiment::unit::{UnitStore, UnitStoreError};
use crate::experiment::{HostKind, RunPlan};
use crate::plan::below;

/// A directory for results, as the user named it.
#[derive(Clone, Copy)]
pub(super) struct Out<'a> {
    pub(super) dir: &'a Path,
    /// Whatever is there is replaced.
    force: bool,
    /// `--resume`: use the units of an interrupted run.
    resume: bool,
}

/// The plans of a command, for `--resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plans {
    /// All that it will do.
    All,
    /// The first units of a search, which finds the others as it goes.
    First,
}

/// A directory for results that is ready.
pub(super) struct Place {
    /// `None`: nothing is kept.
    store: Option<Store>,
    /// Where each finished unit is kept at once.
    pub(super) units: Option<Arc<UnitStore>>,
    interrupts: Arc<Interrupts>,
}

impl Place {
    /// The directory for results of this kind, if the user wants one. From now on a signal waits.
    /// Results of another kind in it are removed, because this command replaces them.
    pub(super) fn begin(&self, contents: Contents) -> Result<Option<&Store>, CliError> {
        let Some(store) = &self.store else { return Ok(None) };
        self.interrupts.begin_keeping();
        if Contents::of(store.dir()).is_some_and(|known| known != contents) {
            remove_results(store.dir()).map_err(failed)?;
        }
        Ok(Some(store))
    }

    /// Writes the results of one experiment of several into a subdirectory. A signal waits until
    /// they are written.
    pub(super) fn keep_below(
        &self,
        name: &str,
        keep: impl FnOnce(&Store) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Some(store) = &self.store else { return Ok(()) };
        self.interrupts.begin_keeping();
        keep(&below(store, Path::new(name))?)?;
        self.interrupts.end_keeping();
        Ok(())
    }
}

/// Opens the place of results, if there is one, for a command that runs these plans; from now on a signal ends the process.
pub(super) fn prepare(
    out: Option<&Out<'_>>,
    plans: &[&RunPlan],
    which: Plans,
) -> Result<Place, CliError> {
    let made = out.filter(|out| !out.dir.exists()).map(|out| out.dir.to_owned());
    let (store, units) = out.map(|out| out.open(plans, which)).transpose()?.unzip();
    let interrupts = exit_on_interrupt(AtEnd { made, units: units.clone(), ledger: None })?;
    Ok(Place { store, units, interrupts })
}

impl<'a> Out<'a> {
    pub(super) fn new(args: &'a KeepArgs) -> Option<Out<'a>> {
        let KeepArgs { ref out, force, resume } = *args;
        out.as_deref().map(|dir| Out { dir, force, resume })
    }

    /// The directory and its units, if it has no results that this command is not to replace.
    fn open(&self, plans: &[&RunPlan], which: Plans) -> Result<(Store, Arc<UnitStore>), CliError> {
        let dir = self.dir.display();
        let refused = |reason: String| CliError::new(format!("--out {dir}: {reason}"));
        if self.resume && plans.iter().any(|plan| plan.host == HostKind::Native) {
            let reason = "measures this computer; only simulated runs can be continued";
            return Err(CliError::new(format!("--resume: --host native {reason}")));
        }
        let has_results = Contents::of(self.dir).is_some();
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
        // Nobody else has the directory now.
        remove_half_written(self.dir).map_err(failed)?;
        let nr_kept = units.len();
        if self.resume {
            self.resume(plans, which, &units)?;
        } else if !self.force && nr_kept > 0 {
            let reason = "finished runs of an interrupted command are in it";
            let next = "--resume continues it, --force begins again";
            return Err(refused(format!("{nr_kept} {reason}; {next}")));
        }
        if self.force {
            remove_results(self.dir).map_err(failed)?;
        }
        if self.force && !self.resume {
            units.clear().map_err(|error| CliError::new(error.to_string()))?;
        }
        Ok((store, Arc::new(units)))
    }

    /// Prints what `--resume` continues. Refuses results of another command, which include a run
    /// that this command lacks.
    fn resume(&self, plans: &[&RunPlan], which: Plans, units: &UnitStore) -> Result<(), CliError> {
        let dir = self.dir.display();
        let (mut total, mut nr_found, mut found) = (0, 0, BTreeSet::new());
        for plan in plans {
            let recipes = plan.recipes()?;
            total += recipes.len();
            let there = recipes.iter().filter(|recipe| units.has(recipe));
            let there: Vec<_> = there.map(|recipe| recipe.id()).collect();
            nr_found += there.len();
            found.extend(there);
        }
        let nr_kept = units.len();
        let nr_others = nr_kept - found.len().min(nr_kept);
        let is_another = match which {
            Plans::All => found.is_empty() || nr_others > 0,
            Plans::First => found.is_empty(),
        };
        if Contents::of(self.dir).is_some() && is_another && !self.force {
            let reason = "the results in it are of another run; --force replaces them";
            return Err(CliError::new(format!("--out {dir}: {reason}")));
        }
        match (which, nr_kept, nr_others) {
            (_, 0, _) => {}
            (Plans::First, ..) => {
                let runs = count(nr_kept, "finished run");
                remark(&format!("{dir}: {runs} {} kept there", is(nr_kept)));
            }
            (Plans::All, _, others) => {
                let others = match others {
                    0 => String::new(),
                    nr => format!("; {nr} more {} kept there", is(nr)),
                };
                let runs = count(total, "run");
                let are = is(nr_found);
                remark(&format!("{dir}: {nr_found} of {runs} {are} there already{others}"));
            }
        }
        Ok(())
    }
}

/// Refuses a file that could not be written later: its directory is missing or not writable, or it
/// is a directory itself.
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
    // A missing directory will be created in its nearest existing ancestor.
    let there = dir.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.exists());
    let there = there.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match there.is_dir() {
        true => writable(there).map_err(refused),
        false => Err(refused(format!("{} is not a directory", there.display()))),
    }
}

/// Says why no file can be made in a directory.
pub(super) fn writable(dir: &Path) -> Result<(), String> {
    let probe = dir.join(format!("{PROBE_FILE}.{}.tmp", std::process::id()));
    let made = File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
    made.map_err(|error| format!("cannot write to {}: {}", dir.display(), refusal(&error)))
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(error: StoreError) -> CliError {
    CliError::new(error.to_string())
}
