//! Result directories of a search (`fit --out`, `bisect --out`): what `report` prints of them.

use std::path::Path;

use highwater_report::Format;
use highwater_results::contents::REPORT_FILE;
use highwater_results::words::refusal;
use highwater_results::{Contents, input};

use super::args::ReportArgs;
use super::{CliError, Outcome, print};

/// The result of a search, in its directory.
pub(super) struct Answer<'a> {
    dir: &'a Path,
    /// The command that searched.
    command: &'static str,
    /// The file with the result as data.
    file: &'static str,
    /// Their format, as `--format` has it.
    format: (Format, &'static str),
}

impl<'a> Answer<'a> {
    /// The search result in a directory, if it has one.
    pub(super) fn of(dir: &'a Path) -> Option<Answer<'a>> {
        let contents = Contents::of(dir)?;
        let (command, format) = match contents {
            Contents::Fit => ("fit", (Format::Csv, "csv")),
            Contents::Bisect => ("bisect", (Format::Json, "json")),
            Contents::Grid | Contents::Several | Contents::Comparison => return None,
        };
        Some(Answer { dir, command, file: contents.last_file(), format })
    }

    /// Prints it as the command did, or as data.
    pub(super) fn print(&self, args: &ReportArgs) -> Result<Outcome, CliError> {
        self.refuse_options(args)?;
        let (format, name) = self.format;
        let file = match args.format {
            Format::Terminal => REPORT_FILE,
            wanted if wanted == format => self.file,
            _ => {
                let reason = format!("is kept as {REPORT_FILE} and {}; --format {name}", self.file);
                return Err(self.refused("--format", &reason));
            }
        };
        let path = self.dir.join(file);
        let text = input::read_text(&path, input::DOCUMENT_BYTES_MAX)
            .map_err(|error| CliError::new(format!("{}: {}", path.display(), refusal(&error))))?;
        match args.format {
            Format::Terminal => super::show(args.format, &text)?,
            _ => print(&text)?,
        }
        Ok(Outcome::Done)
    }

    /// Refuses options that only a comparison has.
    fn refuse_options(&self, args: &ReportArgs) -> Result<(), CliError> {
        let given = [
            ("--output", args.output.is_some()),
            ("--fail-if-worse", args.fail.fail_if_worse.is_some()),
            ("--over-time", args.over_time),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(self.refused(option, "is no comparison")),
        }
    }

    fn refused(&self, option: &str, reason: &str) -> CliError {
        let (dir, command) = (self.dir.display(), self.command);
        CliError::new(format!("{option}: {dir} holds the answer of {command}, which {reason}"))
    }
}
