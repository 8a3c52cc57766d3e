//! `highwater report`: the tables of results that are there, as `compare` printed them; or two of them side by side.

use std::path::Path;

use highwater_report::against::{Named, against, differences};
use highwater_report::render::{Format, json, observations};
use highwater_report::report::{self, Shown};
use highwater_report::{PAGE_WIDTH, Table, worse};
use highwater_results::Document;
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
        return judge(&document, &args.fail);
    };
    let after = read(other)?;
    let names = names(&args.dir, other);
    let before = Named { name: &names[0], document: &document };
    let after = Named { name: &names[1], document: &after };
    let both = against(before, after).map_err(|error| CliError::new(error.to_string()))?;
    print(&side_by_side(before, after, &both, look)?)?;
    judge(&both, &args.fail)
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
///
/// # Errors
/// If nothing is compared: nobody can tell.
pub(super) fn judge(document: &Document, fail: &FailArgs) -> Result<Outcome, CliError> {
    let Some(limit) = fail.fail_if_worse else { return Ok(Outcome::Done) };
    if document.by_machine().iter().all(|(_, runs)| runs.len() < 2) {
        return Err(CliError::new("--fail-if-worse: one run of each machine; nothing is compared"));
    }
    let worse = worse::worse(document, limit);
    for line in &worse {
        remark(&format!("worse by more than {limit}%: {line}"));
    }
    Ok(if worse.is_empty() { Outcome::Done } else { Outcome::Disagrees })
}

/// How a report is printed.
#[derive(Clone, Copy)]
pub(super) struct Look {
    format: Format,
    /// All of the evidence, or what shows a change.
    all: bool,
    /// Columns of a page or a terminal.
    width: usize,
}

impl Look {
    /// In a format, with all of the evidence if that was asked for.
    pub(super) fn new(format: Format, all: bool) -> Look {
        Look { format, all, width: super::width() }
    }

    /// As `report.txt`: what a terminal of a page's width is shown, whatever is printed.
    pub(super) fn kept(self) -> Look {
        Look { format: Format::Terminal, width: PAGE_WIDTH, ..self }
    }

    /// The tables of a document; JSON has all of the evidence.
    fn tables(self, document: &Document) -> Result<Vec<Table>, CliError> {
        let all = self.all || self.format == Format::Json;
        let shown = if all { Shown::All } else { Shown::Changes };
        report::tables(document, shown).map_err(|error| CliError::new(error.to_string()))
    }
}

/// A document's report.
pub(super) fn text(document: &Document, look: Look) -> Result<String, CliError> {
    let tables = look.tables(document)?;
    Ok(match look.format {
        Format::Json => json::document(document, &tables),
        Format::Csv => observations::observations(document),
        format => format.tables(&tables, look.width),
    })
}

/// What else differs between two documents, then how they compare.
fn side_by_side(
    before: Named<'_>,
    after: Named<'_>,
    both: &Document,
    look: Look,
) -> Result<String, CliError> {
    let mut tables = vec![differences(before, after)];
    tables.retain(|table| !table.rows.is_empty() || !table.notes.is_empty());
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
