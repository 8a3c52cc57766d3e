//! `highwater report`: the tables of results that are there, as `compare` printed them; or two of them side by side.

use std::path::Path;

use highwater_report::against::{Named, against, differences};
use highwater_report::render::{Format, json};
use highwater_report::{report, worse};
use highwater_results::Document;
use highwater_results::store::read_document;

use super::args::{FailArgs, ReportArgs};
use super::{CliError, Outcome, print, remark};

/// Prints the report of a directory of results, or of two.
pub(super) fn run(args: &ReportArgs) -> Result<Outcome, CliError> {
    let read = |dir: &Path| read_document(dir).map_err(|error| CliError::new(error.to_string()));
    let document = read(&args.dir)?;
    let Some(other) = &args.against else {
        print(&text(&document, args.format)?)?;
        return Ok(judge(&document, &args.fail));
    };
    let after = read(other)?;
    let names = names(&args.dir, other);
    let before = Named { name: &names[0], document: &document };
    let after = Named { name: &names[1], document: &after };
    let both = against(before, after).map_err(|error| CliError::new(error.to_string()))?;
    let mut tables = vec![differences(before, after)];
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(report::tables(&both).map_err(|error| CliError::new(error.to_string()))?);
    print(&match args.format {
        Format::Json => json::document(&both, &tables),
        format => format.renderer().tables(&tables),
    })?;
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

/// A document's report in a format.
pub(super) fn text(document: &Document, format: Format) -> Result<String, CliError> {
    let tables = report::tables(document).map_err(|error| CliError::new(error.to_string()))?;
    Ok(match format {
        Format::Json => json::document(document, &tables),
        _ => format.renderer().tables(&tables),
    })
}
