//! `highwater report`: the tables of results that are there, as `compare` printed them; or two of them side by side.

use std::path::Path;

use highwater_report::against::{Named, against, differences};
use highwater_report::render::{Format, json, observations};
use highwater_report::report::{self, Shown};
use highwater_report::{PAGE_WIDTH, Table, worse};
use highwater_results::Document;
use highwater_results::published::PublishedError;
use highwater_results::store::read_document;

use super::args::{FailArgs, ReportArgs};
use super::{CliError, Outcome, print, remark};

/// Prints the report of a directory of results, or of two.
pub(super) fn run(args: &ReportArgs) -> Result<Outcome, CliError> {
    let read = |dir: &Path| read_document(dir).map_err(|error| CliError::new(error.to_string()));
    let document = read(&args.dir)?;
    let look = Look::new(args.format, args.all);
    let Some(other) = &args.against else {
        print(&text(&document, look)?)?;
        return Ok(judge(&document, &args.fail));
    };
    let after = read(other)?;
    let names = names(&args.dir, other);
    let before = Named { name: &names[0], document: &document };
    let after = Named { name: &names[1], document: &after };
    let both = against(before, after).map_err(|error| CliError::new(error.to_string()))?;
    print(&rendered(&both, vec![differences(before, after)], look)?)?;
    Ok(judge(&both, &args.fail))
}

/// What to call two directories: their names, or if these are the same, their paths.
fn names(before: &Path, after: &Path) -> [String; 2] {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match (last(before), last(after)) {
        (Some(a), Some(b)) if a != b => [a, b],
        _ => [before, after].map(|path| path.display().to_string()),
    }
}

/// Whether a comparison is as good as it has to be; says what is not.
pub(super) fn judge(document: &Document, fail: &FailArgs) -> Outcome {
    let Some(limit) = fail.fail_if_worse else { return Outcome::Done };
    let worse = worse::worse(document, limit);
    for line in &worse {
        remark(&format!("worse by more than {limit}%: {line}"));
    }
    if worse.is_empty() { Outcome::Done } else { Outcome::Disagrees }
}

/// How a report is printed.
#[derive(Clone, Copy)]
pub(super) struct Look {
    format: Format,
    shown: Shown,
    /// Columns of a page or a terminal.
    width: usize,
}

impl Look {
    /// In a format, with all of the evidence or what shows a change; JSON has all of it.
    pub(super) fn new(format: Format, all: bool) -> Look {
        let shown = if all || format == Format::Json { Shown::All } else { Shown::Changes };
        Look { format, shown, width: super::width() }
    }

    /// As `report.txt`: what a terminal is shown, whatever is printed.
    pub(super) fn kept(self) -> Look {
        Look { format: Format::Terminal, width: PAGE_WIDTH, ..self }
    }
}

/// A document's report.
pub(super) fn text(document: &Document, look: Look) -> Result<String, CliError> {
    rendered(document, Vec::new(), look)
}

/// A document's report behind other tables; those without rows are left out.
fn rendered(document: &Document, first: Vec<Table>, look: Look) -> Result<String, CliError> {
    let failed = |error: PublishedError| CliError::new(error.to_string());
    let mut tables = first;
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(report::tables(document, look.shown).map_err(failed)?);
    Ok(match look.format {
        Format::Json => json::document(document, &tables),
        Format::Csv => observations::observations(document),
        format => format.tables(&tables, look.width),
    })
}
