//! `highwater report`: prints the tables of stored results as `compare` printed them, or two
//! results side by side.

use std::io::ErrorKind;
use std::path::Path;

use highwater_report::against::{Named, against, differences};
use highwater_report::grid::Grid;
use highwater_report::html::{self, PageError};
use highwater_report::over_time::sparklines;
use highwater_report::render::{Format, json, observations, pageblocks, series};
use highwater_report::report::{self, Shown};
use highwater_report::worse::{self, WorseError};
use highwater_report::{PAGE_WIDTH, Table, claims};
use highwater_results::explain::STALLS_FILE;
use highwater_results::store::{
    DOCUMENT_FILE, StoreError, parse_document, read_document, write_atomically,
};
use highwater_results::words::refusal;
use highwater_results::{
    AGES_FILE, COLUMNS_FILE, Columns, Contents, Document, PAGEBLOCKS_FILE, RunSeries, SERIES_FILE,
    TIMELINE_FILE, input,
};

use super::answer::Answer;
use super::args::{FailArgs, ReportArgs};
use super::many::Many;
use super::out::check_file;
use super::{CliError, Outcome, print, remark};
use crate::explain::source;
use crate::input::misplaced;
use crate::plan::report_text;
use crate::settings::in_full;
use crate::workload::before;

/// Prints the report of a directory of results, or of two.
pub(super) fn run(args: &ReportArgs) -> Result<Outcome, CliError> {
    let look = Look::new(args.format, args.all);
    args.output.as_deref().map_or(Ok(()), |file| check_file("--output", file))?;
    if args.against.is_none()
        && let Some(answer) = Answer::of(&args.dir)
    {
        return answer.print(args);
    }
    if args.against.is_none()
        && let Some(many) = Many::read(&args.dir)?
    {
        refuse_judging(args)?;
        match &args.output {
            Some(file) => write_page(file, &many.page()?)?,
            None => super::show(args.format, &many.text(look)?)?,
        }
        return Ok(Outcome::Done);
    }
    let document = read(&args.dir)?;
    let Some(other) = &args.against else {
        let worse = judge(&document, &args.fail)?;
        match &args.output {
            Some(file) => write_page(file, &page_of(&args.dir, &document)?)?,
            None => {
                super::show(args.format, &text(&document, look)?)?;
                if args.over_time {
                    let small = over_time(&args.dir)?;
                    print(&format!("\n{}", super::tables(args.format, &small)))?;
                }
            }
        }
        return Ok(tell(worse));
    };
    let after = read(other)?;
    let names = names(&args.dir, other);
    let before = Named { name: &names[0], document: &document };
    let after = Named { name: &names[1], document: &after };
    let both = against(before, after).map_err(|error| CliError::new(error.to_string()))?;
    let worse = judge(&both, &args.fail)?;
    match &args.output {
        Some(file) => {
            let differences = what_differs(before, after, look.shown());
            let page = html::side_by_side(&both, &differences).map_err(cannot_show)?;
            write_page(file, &page)?;
        }
        None => super::show(args.format, &side_by_side(before, after, &both, look)?)?,
    }
    Ok(tell(worse))
}

/// A grid or a set of experiments has no verdict as a whole.
fn refuse_judging(args: &ReportArgs) -> Result<(), CliError> {
    match args.fail.fail_if_worse {
        None => Ok(()),
        Some(_) => {
            let reason = "is of one comparison; this directory has several";
            Err(CliError::new(format!("--fail-if-worse: {reason}")))
        }
    }
}

/// Counters over time, small.
fn over_time(dir: &Path) -> Result<Vec<Table>, CliError> {
    let small = sparklines(&series_beside(dir)?);
    match small.is_empty() {
        false => Ok(small),
        true => {
            let (dir, reason) = (dir.display(), "a run in virtual time with --out keeps them");
            Err(CliError::new(format!("--over-time: {dir}: no counters over time: {reason}")))
        }
    }
}

/// A file beside results, with its title; `None` if it does not exist.
fn beside(dir: &Path, name: &str) -> Result<Option<(String, String)>, CliError> {
    let path = dir.join(name);
    let said = path.display().to_string();
    match input::read_text(&path, input::DOCUMENT_BYTES_MAX) {
        Ok(text) => Ok(Some((said, text))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(CliError::new(format!("{said}: {}", refusal(&error)))),
    }
}

/// Counters over time that lie beside results.
fn series_beside(dir: &Path) -> Result<Vec<RunSeries>, CliError> {
    // Samples that the user asked for are more detailed, so they win.
    let table = match beside(dir, TIMELINE_FILE)? {
        None => beside(dir, SERIES_FILE)?,
        timeline => timeline,
    };
    table.map_or_else(|| Ok(Vec::new()), |(file, text)| rows(dir, &file, &text))
}

/// The rows of a table over time, with the columns that the directory declares.
fn rows(dir: &Path, file: &str, text: &str) -> Result<Vec<RunSeries>, CliError> {
    let declared = match beside(dir, COLUMNS_FILE)? {
        None => None,
        Some((file, text)) => {
            let columns = Columns::parse(&text);
            Some(columns.map_err(|reason| CliError::new(format!("{file}: {reason}")))?)
        }
    };
    let find = |name: &str| match &declared {
        Some(columns) => columns.get(name).cloned(),
        // Of an earlier version.
        None => before::column(name),
    };
    series::read(text, &find).map_err(|error| CliError::new(format!("{file}: {error}")))
}

/// The HTML page of results, with the files beside them.
fn page_of(dir: &Path, document: &Document) -> Result<String, CliError> {
    let beside = |name: &str| beside(dir, name);
    let series = series_beside(dir)?;
    let explanation = match beside(STALLS_FILE)? {
        None => None,
        Some((file, text)) => Some(source::parse(&file, &text)?),
    };
    let wrong = |file: String| move |error| CliError::new(format!("{file}: {error}"));
    let ages = match beside(AGES_FILE)? {
        None => Vec::new(),
        Some((file, text)) => rows(dir, &file, &text)?,
    };
    let maps = match beside(PAGEBLOCKS_FILE)? {
        None => Vec::new(),
        Some((file, text)) => pageblocks::read(&text).map_err(wrong(file))?,
    };
    let story = html::Story {
        series: &series,
        explanation: explanation.as_ref(),
        maps: &maps,
        ages: &ages,
    };
    html::page(document, story).map_err(cannot_show)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn cannot_show(error: PageError) -> CliError {
    CliError::new(error.to_string())
}

/// Writes the complete page or none, and prints its path.
pub(super) fn write_page(file: &Path, page: &str) -> Result<(), CliError> {
    write_atomically(file, page.as_bytes()).map_err(|error| CliError::new(error.to_string()))?;
    let kib = page.len().div_ceil(1024);
    print(&format!("{}: {kib} KiB; open it in a browser\n", file.display()))
}

/// Inputs that `report` reads.
const EXPECTED: &str = "results that `highwater compare --out DIR` wrote: DIR, or its results.json";

/// The results of a directory, or of a file.
pub(super) fn read(place: &Path) -> Result<Document, CliError> {
    if place.is_dir() && !place.join(DOCUMENT_FILE).exists() {
        if let Some(instead) = Contents::of(place).and_then(|c| c.instead_of_comparison(place)) {
            return Err(CliError::new(format!("{}: {instead}", place.display())));
        }
        let (dir, reason) =
            (place.display(), "a run that --out DIR was given to writes it when it ends");
        return Err(CliError::new(format!(
            "{dir}: no results in it: there is no {DOCUMENT_FILE}; {reason}"
        )));
    }
    let said = |error: StoreError| CliError::new(error.to_string());
    let document = if place.is_dir() {
        read_document(place).map_err(said)?
    } else {
        // It may be something else, and a pipe is read once.
        let file = place.display();
        let text = input::read_text(place, input::DOCUMENT_BYTES_MAX)
            .map_err(|error| CliError::new(format!("{file}: {}", refusal(&error))))?;
        parse_document(place, &text).map_err(|error| {
            match misplaced(&text, "report", EXPECTED) {
                Some(reason) if matches!(error, StoreError::Json { .. }) => {
                    CliError::new(format!("{file}: {reason}"))
                }
                _ => said(error),
            }
        })?
    };
    match document.runs.is_empty() {
        true => Err(CliError::new(format!("{}: results without runs", place.display()))),
        false => Ok(document),
    }
}

/// Names for two directories: their last components, or their paths if these are equal.
fn names(before: &Path, after: &Path) -> [String; 2] {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match (last(before), last(after)) {
        (Some(a), Some(b)) if a != b => [a, b],
        _ => [before, after].map(|path| path.display().to_string()),
    }
}

/// Regressions of a comparison beyond the allowed limits, one line each.
///
/// # Errors
/// If there is no comparison, or it has only one seed, which cannot separate an effect from chance.
pub(super) fn judge(document: &Document, fail: &FailArgs) -> Result<Vec<String>, CliError> {
    let Some(limit) = fail.fail_if_worse else { return Ok(Vec::new()) };
    let worse = worse::worse(document, limit).map_err(cannot_judge)?;
    Ok(worse.iter().map(|line| format!("worse by more than {limit}%: {line}")).collect())
}

/// An error about `--fail-if-worse`.
pub(super) fn cannot_judge(error: WorseError) -> CliError {
    CliError::new(format!("--fail-if-worse: {error}"))
}

/// Prints the regressions.
pub(super) fn tell(worse: Vec<String>) -> Outcome {
    worse.iter().for_each(|line| remark(line));
    if worse.is_empty() { Outcome::Done } else { Outcome::Disagrees }
}

/// How a report is printed.
#[derive(Clone, Copy)]
pub(super) struct Look {
    format: Format,
    /// All of the evidence, or only what shows a change.
    all: bool,
    /// Columns of a page or a terminal.
    width: usize,
}

impl Look {
    /// A format; `all`: show all of the evidence.
    pub(super) fn new(format: Format, all: bool) -> Look {
        Look { format, all, width: super::width() }
    }

    /// The look of `report.txt`: that of a terminal of a page's width, in any output format.
    pub(super) fn kept(self) -> Look {
        Look { format: Format::Terminal, width: PAGE_WIDTH, ..self }
    }

    pub(super) const fn shown(self) -> Shown {
        let all = self.all || matches!(self.format, Format::Json);
        if all { Shown::All } else { Shown::Changes }
    }

    /// The tables of a document; JSON has all of the evidence.
    fn tables(self, document: &Document) -> Result<Vec<Table>, CliError> {
        report::tables(document, self.shown()).map_err(|error| CliError::new(error.to_string()))
    }
}

/// A document's report.
pub(super) fn text(document: &Document, look: Look) -> Result<String, CliError> {
    Ok(report_text(document, look.format, look.shown(), look.width)?)
}

/// A document's verdicts alone, below the tasks that ended early.
pub(super) fn verdict(document: &Document, look: Look) -> Result<String, CliError> {
    let mut tables: Vec<_> = report::ended_early(document).into_iter().collect();
    let verdicts = report::verdicts(document);
    tables.extend(verdicts.map_err(|error| CliError::new(error.to_string()))?);
    Ok(look.format.tables(&tables, look.width) + "\n")
}

/// Several documents as data. For text only the summary, because each document was printed as it
/// finished.
pub(super) fn several(
    documents: &[Document],
    summary: &Table,
    look: Look,
) -> Result<String, CliError> {
    Ok(match look.format {
        Format::Json => {
            let claims = documents.iter().map(claims::of).collect::<Result<Vec<_>, _>>();
            let claims = claims.map_err(|error| CliError::new(error.to_string()))?;
            json::several(documents, summary, &claims.concat())
        }
        Format::Csv => observations::of_each(documents),
        format => format.tables(std::slice::from_ref(summary), look.width),
    })
}

/// A grid as `compare --vary` prints it.
pub(super) fn of_grid(grid: &Grid<'_>, look: Look) -> String {
    match look.format {
        Format::Csv => grid.csv(),
        format => format.tables(&grid.tables(), look.width),
    }
}

/// Other differences of two documents, then their comparison.
fn side_by_side(
    before: Named<'_>,
    after: Named<'_>,
    both: &Document,
    look: Look,
) -> Result<String, CliError> {
    let mut tables = what_differs(before, after, look.shown());
    tables.extend(look.tables(both)?);
    Ok(match look.format {
        Format::Json => json::against(before.document, after.document, &tables),
        Format::Csv => {
            let documents = [before, after].map(|named| (named.name, named.document));
            observations::of_several(&documents)
        }
        format => format.tables(&tables, look.width),
    })
}

/// Differences between two documents besides their results.
fn what_differs(before: Named<'_>, after: Named<'_>, shown: Shown) -> Vec<Table> {
    let in_full = [before, after].map(|named| {
        let mut document = named.document.clone();
        document.machines.iter_mut().for_each(in_full);
        document
    });
    let [first, second] = &in_full;
    let first = Named { document: first, ..before };
    let after = Named { document: second, ..after };
    let mut tables = vec![differences(first, after, shown)];
    tables.retain(|table| !table.rows.is_empty() || !table.notes.is_empty());
    tables
}
