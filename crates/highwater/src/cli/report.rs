//! `highwater report`: the tables of results that are there, as `compare` printed them.

use highwater_report::PAGE_WIDTH;
use highwater_report::render::{Format, json, observations};
use highwater_report::report::{self, Shown};
use highwater_results::Document;
use highwater_results::published::PublishedError;
use highwater_results::store::read_document;

use super::args::ReportArgs;
use super::{CliError, Outcome, print};

/// Prints the report of a directory of results.
pub(super) fn run(args: &ReportArgs) -> Result<Outcome, CliError> {
    let document = read_document(&args.dir).map_err(|error| CliError::new(error.to_string()))?;
    print(&text(&document, Look::new(args.format, args.all))?)?;
    Ok(Outcome::Done)
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
    let failed = |error: PublishedError| CliError::new(error.to_string());
    let tables = report::tables(document, look.shown).map_err(failed)?;
    Ok(match look.format {
        Format::Json => json::document(document, &tables),
        Format::Csv => observations::observations(document),
        format => format.tables(&tables, look.width),
    })
}
