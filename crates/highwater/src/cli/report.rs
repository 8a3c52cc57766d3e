//! `highwater report`: the tables of results that are there, as `compare` printed them.

use highwater_report::render::{Format, json, observations};
use highwater_report::report;
use highwater_results::Document;
use highwater_results::store::read_document;

use super::args::ReportArgs;
use super::{CliError, Outcome, print};

/// Prints the report of a directory of results.
pub(super) fn run(args: &ReportArgs) -> Result<Outcome, CliError> {
    let document = read_document(&args.dir).map_err(|error| CliError::new(error.to_string()))?;
    print(&text(&document, args.format)?)?;
    Ok(Outcome::Done)
}

/// A document's report in a format.
pub(super) fn text(document: &Document, format: Format) -> Result<String, CliError> {
    let tables = report::tables(document).map_err(|error| CliError::new(error.to_string()))?;
    Ok(match format {
        Format::Json => json::document(document, &tables),
        Format::Csv => observations::observations(document),
        _ => format.renderer().tables(&tables),
    })
}
