//! Directories with the results of more than one comparison: a grid (`compare --vary`), or several experiments.

use std::path::Path;

use highwater_report::grid::{Grid, Point};
use highwater_report::{html, summary};
use highwater_results::{Document, input};

use super::CliError;
use super::out::{GRID_FILE, SUMMARY_FILE};
use super::report::{self, Look, cannot_show};

/// What such a directory holds.
pub(super) enum Many {
    /// An experiment at each point of a grid: keys, and each point's values and results.
    Grid(Vec<String>, Vec<(Vec<String>, Document)>),
    /// Experiments.
    Several(Vec<Document>),
}

/// The results in the directories of a directory, by name.
fn documents(dir: &Path) -> Result<Vec<Document>, CliError> {
    let failed = |error: std::io::Error| CliError::new(format!("{}: {error}", dir.display()));
    let mut dirs = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join(highwater_results::store::DOCUMENT_FILE).exists() {
            dirs.push(path);
        }
    }
    dirs.sort();
    dirs.iter().map(|dir| report::read(dir)).collect()
}

/// Reads a directory of several comparisons; none if it is not one.
pub(super) fn read(dir: &Path) -> Result<Option<Many>, CliError> {
    let grid = dir.join(GRID_FILE);
    if grid.is_file() {
        let wrong = |reason: String| CliError::new(format!("{}: {reason}", grid.display()));
        let text = input::read_text(&grid, input::DOCUMENT_BYTES_MAX)
            .map_err(|error| wrong(error.to_string()))?;
        let header = text.lines().next().unwrap_or_default().split(',');
        let keys: Vec<String> =
            header.take_while(|name| *name != "machine").map(str::to_owned).collect();
        let mut points = Vec::new();
        for document in documents(dir)? {
            let value = |key: &String| {
                let set =
                    document.settings.iter().find_map(|set| set.strip_prefix(&format!("{key}=")));
                let at = points.len() + 1;
                set.map(str::to_owned)
                    .ok_or_else(|| wrong(format!("point {at} does not say what {key} is")))
            };
            let values = keys.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            points.push((values, document));
        }
        return match points.is_empty() {
            true => Err(wrong("no point's results lie beside it".to_owned())),
            false => Ok(Some(Many::Grid(keys, points))),
        };
    }
    if dir.join(SUMMARY_FILE).is_file() {
        return Ok(Some(Many::Several(documents(dir)?)));
    }
    Ok(None)
}

impl Many {
    /// As `compare` printed it.
    pub(super) fn text(&self, look: Look) -> Result<String, CliError> {
        match self {
            Many::Grid(keys, points) => Ok(report::of_grid(&grid(keys, points), look)),
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
            Many::Grid(keys, points) => html::grid(&grid(keys, points)).map_err(cannot_show),
            Many::Several(documents) => html::several(documents).map_err(cannot_show),
        }
    }
}

fn grid<'a>(keys: &'a [String], points: &'a [(Vec<String>, Document)]) -> Grid<'a> {
    let points = points.iter().map(|(values, document)| Point { values, document });
    Grid { keys, points: points.collect(), counters: &[] }
}
