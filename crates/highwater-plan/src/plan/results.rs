//! Results of a plan: documents, the grid, and the files of `--out DIR`.

use std::path::Path;

use highwater_report::grid::{self, Grid};
use highwater_report::html;
use highwater_report::render::{json, observations, pageblocks, series};
use highwater_report::report::{self, Shown};
use highwater_report::{Format, PAGE_WIDTH, Table, claims};
use highwater_results::contents::{
    CLAIMS_FILE, REPORT_FILE, point_dir, remove_half_written, remove_points,
};
use highwater_results::explain::{Explanation, STALLS_FILE};
use highwater_results::store::Store;
use highwater_results::texts::{TEXT_FILES, file_of};
use highwater_results::{
    AGES_FILE, COLUMNS_FILE, Columns, Contents, Document, PAGEBLOCKS_FILE, SERIES_FILE,
    TIMELINE_FILE,
};

use serde::{Deserialize, Serialize};

use super::{Plan, PlanError};
use crate::bisect;
use crate::experiment::Ran;
use crate::explain;

/// Results of one point of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointResults {
    /// The values of the keys that vary.
    pub values: Vec<String>,
    /// Its document, and the other results that the options ask for.
    pub ran: Ran,
}

impl PointResults {
    /// Writes the files that `--out DIR` has for a comparison: `results.json`, `report.txt`, the
    /// published claims, counters over time, and the files of the first seed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, store: &Store, shown: Shown) -> Result<(), PlanError> {
        let Ran { document, series, maps, ages, texts, .. } = &self.ran;
        self.keep_report(store, shown)?;
        // Remove what an earlier run left there.
        let table = || series::series(series);
        let (samples, timeline) = match document.sampled {
            Some(_) => (Some(table()), None),
            None => (None, Some(table()).filter(|_| !series.is_empty())),
        };
        let stalls = self.explanation()?.as_ref().map(highwater_report::explain::json);
        let columns = series.iter().chain(ages).flat_map(|run| &run.series.columns);
        let columns = Columns::of(columns);
        let columns = (!columns.columns.is_empty()).then(|| columns.to_text());
        let ages = (!ages.is_empty()).then(|| series::series(ages));
        let maps = (!maps.is_empty()).then(|| pageblocks::maps(maps));
        let claims = claims_of(document)?;
        let claims = (!claims.is_empty()).then(|| claims::csv(&claims));
        let beside = [
            (CLAIMS_FILE, claims),
            (SERIES_FILE, samples),
            (TIMELINE_FILE, timeline),
            (STALLS_FILE, stalls),
            (PAGEBLOCKS_FILE, maps),
            (AGES_FILE, ages),
            (COLUMNS_FILE, columns),
        ];
        let texts = TEXT_FILES.map(|file| (file, file_of(texts, file)));
        for (name, text) in beside.into_iter().chain(texts) {
            match text {
                Some(text) => store.write_text(name, &text).map(drop),
                None => store.remove(name),
            }?;
        }
        Ok(())
    }

    /// Its page: one HTML file that needs no other one, with charts over time if the options kept
    /// the story of the first seed.
    ///
    /// # Errors
    /// If the page cannot be made.
    pub fn page(&self) -> Result<String, PlanError> {
        let Ran { document, series, maps, ages, .. } = &self.ran;
        let explanation = self.explanation()?;
        let story = html::Story { series, explanation: explanation.as_ref(), maps, ages };
        html::page(document, story).map_err(|error| PlanError::Document(error.to_string()))
    }

    /// Where the time of the slowest operations went; none if the options kept no story.
    fn explanation(&self) -> Result<Option<Explanation>, PlanError> {
        let Ran { document, explained, .. } = &self.ran;
        if explained.is_empty() {
            return Ok(None);
        }
        let command_line = document.command_line.clone();
        Ok(Some(explain::explanation(document, explained.clone(), command_line)?))
    }

    /// Writes the document and its report.
    fn keep_report(&self, store: &Store, shown: Shown) -> Result<(), PlanError> {
        let document = &self.ran.document;
        store.write_document(document)?;
        let text = report_text(document, Format::Terminal, shown, PAGE_WIDTH)?;
        store.write_text(REPORT_FILE, &text)?;
        Ok(())
    }
}

/// Results of a plan, point by point. As a value of serde they can go to another process, and mean
/// the same there if it is the same release.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The keys that vary; empty for a single comparison.
    pub keys: Vec<String>,
    /// The points, in the order of the plan.
    pub points: Vec<PointResults>,
    /// Counters of `/proc/vmstat` that tables of a grid have beside its metrics.
    pub counters: Vec<String>,
}

impl Results {
    pub(super) fn new(plan: &Plan, points: Vec<PointResults>) -> Results {
        Results { keys: plan.keys.clone(), points, counters: Vec::new() }
    }

    /// The same of points that ran one by one ([`Plan::run_point`]).
    pub fn of(plan: &Plan, points: Vec<PointResults>) -> Results {
        Results::new(plan, points)
    }

    /// The documents, a point each.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.points.iter().map(|point| &point.ran.document)
    }

    /// The points as a grid: a table for reading, or tidy CSV.
    pub fn grid(&self) -> Grid<'_> {
        let points = self
            .points
            .iter()
            .map(|PointResults { values, ran }| grid::Point { values, document: &ran.document });
        let points = points.collect();
        Grid { keys: &self.keys, counters: &self.counters, points }
    }

    /// The results as one HTML page: that of a comparison, or of a grid.
    ///
    /// # Errors
    /// If the page cannot be made.
    pub fn page(&self) -> Result<String, PlanError> {
        match (&self.points[..], &self.keys[..]) {
            ([point], []) => point.page(),
            _ => html::grid(&self.grid()).map_err(|error| PlanError::Document(error.to_string())),
        }
    }

    /// Writes the files of `--out DIR` to a directory. A comparison has `results.json`, `report.txt`
    /// and the files beside them. A grid has those of each point in `point-0001` and so on, and
    /// `grid.csv`. Existing results are replaced.
    ///
    /// # Errors
    /// If the directory cannot be made, or a file cannot be written.
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<(), PlanError> {
        self.keep(&Store::create(dir.as_ref())?, Shown::Changes)
    }

    /// The same to a directory that is there.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, store: &Store, shown: Shown) -> Result<(), PlanError> {
        if let ([point], []) = (&self.points[..], &self.keys[..]) {
            return point.keep(store, shown);
        }
        if Contents::of(store.dir()) == Some(Contents::Grid) {
            remove_points(store.dir(), self.points.len())?;
        }
        for (number, point) in (1..).zip(&self.points) {
            point.keep_report(&below(store, &point_dir(Path::new(""), number))?, shown)?;
        }
        let grid = self.grid();
        store.write_text(REPORT_FILE, &Format::Terminal.tables(&grid.tables(), PAGE_WIDTH))?;
        // Written last: if this file exists, all others do.
        store.write_text(Contents::Grid.last_file(), &grid.csv())?;
        Ok(())
    }
}

/// A subdirectory for results. Half-written files of an earlier process are removed.
pub fn below(store: &Store, name: &Path) -> Result<Store, PlanError> {
    let store = Store::create(store.dir().join(name))?;
    remove_half_written(store.dir())?;
    Ok(store)
}

/// A document's report, as `compare` prints it, with lines of the given width. For an ablation, the
/// switch that explains the change comes first.
///
/// # Errors
/// If the document's tables cannot be made.
pub fn report_text(
    document: &Document,
    format: Format,
    shown: Shown,
    width: usize,
) -> Result<String, PlanError> {
    let tables =
        report::tables(document, shown).map_err(|error| PlanError::Document(error.to_string()))?;
    Ok(match format {
        Format::Json => json::document(document, &tables, &claims_of(document)?),
        Format::Csv => observations::observations(document),
        format => ablated(document, format, width) + &format.tables(&tables, width),
    })
}

/// The published claims of a document.
fn claims_of(document: &Document) -> Result<Vec<claims::Claim>, PlanError> {
    claims::of(document).map_err(|error| PlanError::Document(error.to_string()))
}

/// For an ablation, which switch explains the change; empty for other results.
fn ablated(document: &Document, format: Format, width: usize) -> String {
    let of_machine = |(sentence, table): (String, Option<Table>)| {
        let table = table.map(|table| format!("\n{}", format.tables(&[table], width)));
        format!("{sentence}\n{}\n", table.unwrap_or_default())
    };
    bisect::ablated(document).into_iter().map(of_machine).collect()
}
