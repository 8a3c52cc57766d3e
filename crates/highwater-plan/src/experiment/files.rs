//! Where the runs of a plan write the files of their machines (`--cgroupfs`).

use std::io;
use std::path::PathBuf;

use highwater_runs::kernel_files::{self, Keep, KernelFiles, Place};
use highwater_runs::workload::{HostKind, RunError, Unit};

use super::runner::{RunPlan, cells, units};

/// The directory, and what is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesPlan {
    /// A directory that [`kernel_files::prepare`] has seen.
    pub dir: PathBuf,
    /// Virtual time from one state to the next.
    pub every_ns: u64,
    /// Which states stay.
    pub keep: Keep,
}

impl FilesPlan {
    /// The writer of a unit, in the directory itself or in one of this name there.
    pub(crate) fn writer(&self, unit: Option<&str>) -> Result<KernelFiles, RunError> {
        let place = Place::new(&self.dir, unit, self.keep, self.every_ns);
        let place = place.map_err(|error| self.refused(&error))?;
        Ok(KernelFiles::new(place, self.every_ns))
    }

    fn refused(&self, error: &io::Error) -> RunError {
        let reason = highwater_results::words::refusal(error);
        RunError::Files(format!("{}: {reason}", self.dir.display()))
    }
}

impl RunPlan {
    /// The directories below [`FilesPlan::dir`] that units write to, in plan order; none if there is
    /// one unit, which has the directory itself. They are named by what differs between units.
    pub fn files_dirs(&self) -> Vec<String> {
        let cells = cells(self);
        let units = units(self, &cells);
        if units.len() < 2 {
            return Vec::new();
        }
        units
            .into_iter()
            .map(|(cell, part)| self.files_dir(&Unit { part, ..cells[cell] }))
            .collect()
    }

    fn files_dir(&self, unit: &Unit<'_>) -> String {
        let job = self.experiment.job_on(&unit.machine.name);
        let seed = format!("seed-{}", unit.seed);
        let parts = [
            (self.machines.len() > 1, unit.machine.name.as_str()),
            (self.policies.len() > 1, unit.policy.name.as_str()),
            (self.experiment.iterations > 1, &seed),
            (job.units(unit.machine) > 1, &job.part_name(unit.machine, unit.part)),
        ];
        let parts = parts.into_iter().filter_map(|(differs, part)| differs.then_some(part));
        let name = parts.collect::<Vec<_>>().join("-");
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        name.chars().map(plain).collect()
    }

    /// The writer of a unit's files, if the plan wants them.
    pub(crate) fn files_of(&self, unit: &Unit<'_>) -> Result<Option<KernelFiles>, RunError> {
        let Some(files) = &self.files else { return Ok(None) };
        let name = Some(self.files_dir(unit)).filter(|name| !name.is_empty());
        files.writer(name.as_deref()).map(Some)
    }

    /// Prepares the directory: refuses one with other contents, and notes the units' directories.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn prepare_files(&self) -> Result<(), RunError> {
        let Some(files) = &self.files else { return Ok(()) };
        let dir = files.dir.display();
        if self.host != HostKind::Sim {
            let reason = "only a simulated machine has such files; leave out --host native";
            return Err(RunError::Files(format!("{dir}: {reason}")));
        }
        kernel_files::prepare(&files.dir)
            .map_err(|reason| RunError::Files(format!("{dir}: {reason}")))?;
        // A watched run has the directory itself.
        let units = if files.keep == Keep::Each { self.files_dirs() } else { Vec::new() };
        let noted = kernel_files::note_units(&files.dir, &units);
        noted.map_err(|error| files.refused(&error))
    }
}

/// The error of a writer, as the run's.
pub(crate) fn failure(files: Option<&KernelFiles>) -> Result<(), RunError> {
    match files.and_then(KernelFiles::failure) {
        Some(reason) => Err(RunError::Files(reason)),
        None => Ok(()),
    }
}
