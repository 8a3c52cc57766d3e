//! Directories with the results of more than one comparison: a grid (`compare --vary`), or several experiments.

use std::path::Path;

use highwater_report::grid::{self, Grid, MACHINE, Point};
use highwater_report::{html, summary};
use highwater_results::contents::point_dirs;
use highwater_results::words::refusal;
use highwater_results::{Contents, Document, input, setting};

use super::out::failed;
use super::report::{self, Look, cannot_show};
use super::{CliError, remark};

/// The contents of such a directory.
pub(super) enum Many {
    /// An experiment at each point of a grid: keys, and each point's values and results.
    Grid(Vec<String>, Vec<(Vec<String>, Document)>),
    /// Experiments.
    Several(Vec<Document>),
}

impl Many {
    /// Reads a directory with more than one comparison; `None` if it has one.
    pub(super) fn read(dir: &Path) -> Result<Option<Many>, CliError> {
        match Contents::of(dir) {
            Some(Contents::Grid) => Many::grid(dir).map(Some),
            Some(Contents::Several) => Many::several(dir).map(Some),
            Some(Contents::Comparison | Contents::Fit | Contents::Bisect) | None => Ok(None),
        }
    }

    /// The experiments of a directory, by name: each has a subdirectory of its name. A remark lists
    /// other subdirectories.
    fn several(dir: &Path) -> Result<Many, CliError> {
        let failed = |error: std::io::Error| {
            CliError::new(format!("{}: {}", dir.display(), refusal(&error)))
        };
        let mut dirs = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A name that begins with a dot is a temporary directory of ours, or hidden on purpose.
            if path.is_dir() && !name.starts_with('.') {
                dirs.push((name, path));
            }
        }
        dirs.sort();
        let mut documents = Vec::new();
        for (name, path) in dirs {
            let shown = path.display();
            if !has_results(&path) {
                remark(&format!("{shown}: left out: no results in it"));
                continue;
            }
            let document = report::read(&path)?;
            if document.experiment == name {
                documents.push(document);
            } else {
                let other = &document.experiment;
                remark(&format!(
                    "{shown}: left out: it holds {other}, and is not called so; `highwater report {shown}` shows it"
                ));
            }
        }
        if documents.is_empty() {
            let reason = "no experiment's results lie in its directories";
            return Err(CliError::new(format!("{}: {reason}", dir.display())));
        }
        Ok(Many::Several(documents))
    }

    /// The points that the grid's table has.
    fn grid(dir: &Path) -> Result<Many, CliError> {
        let file = dir.join(Contents::Grid.last_file());
        let wrong = |reason: String| CliError::new(format!("{}: {reason}", file.display()));
        let text = input::read_text(&file, input::DOCUMENT_BYTES_MAX)
            .map_err(|error| wrong(refusal(&error)))?;
        let (keys, mut missing) = grid::points_of(&text).map_err(wrong)?;
        let mut points = Vec::new();
        for (number, path) in point_dirs(dir).map_err(failed)? {
            if !has_results(&path) {
                continue;
            }
            let document = report::read(&path)?;
            let value = |machine: &str, key: &String| {
                let mut set = document.settings.iter().filter_map(|text| setting::split(text));
                let set = set.find(|(other, _)| other == key).map(|(_, value)| value.to_owned());
                // Machines are no setting. Variants have one each.
                let value = if key == MACHINE { Some(machine.to_owned()) } else { set };
                value.ok_or_else(|| wrong(format!("point {number} does not say what {key} is")))
            };
            let mut of_point = Vec::new();
            for machine in &document.machines {
                let values = keys.iter().map(|key| value(&machine.name, key));
                of_point.push(values.collect::<Result<Vec<_>, _>>()?);
            }
            of_point.dedup();
            // One that is not in the table is of another grid.
            of_point.retain(|values| missing.remove(values));
            if let Some(values) = of_point.into_iter().next() {
                points.push((values, document));
            }
        }
        match (points.len(), missing.len()) {
            (0, _) => Err(wrong("no point's results lie beside it".to_owned())),
            (_, 0) => Ok(Many::Grid(keys, points)),
            (nr, missing) => {
                let all = nr + missing;
                Err(wrong(format!("has {all} points, but results of only {nr} lie beside it")))
            }
        }
    }

    /// As `compare` printed it.
    pub(super) fn text(&self, look: Look) -> Result<String, CliError> {
        match self {
            Many::Grid(keys, points) => Ok(report::of_grid(&of(keys, points), look)),
            Many::Several(documents) => {
                let table = summary::summary(documents)
                    .map_err(|error| CliError::new(error.to_string()))?;
                report::several(documents, &table, look)
            }
        }
    }

    /// As a page.
    pub(super) fn page(&self) -> Result<String, CliError> {
        match self {
            Many::Grid(keys, points) => html::grid(&of(keys, points)).map_err(cannot_show),
            Many::Several(documents) => html::several(documents).map_err(cannot_show),
        }
    }
}

fn has_results(dir: &Path) -> bool {
    dir.join(Contents::Comparison.last_file()).exists()
}

fn of<'a>(keys: &'a [String], points: &'a [(Vec<String>, Document)]) -> Grid<'a> {
    let points = points.iter().map(|(values, document)| Point { values, document });
    Grid { keys, points: points.collect(), counters: &[] }
}
