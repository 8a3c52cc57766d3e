//! `highwater check`.

use highwater_report::render::Format;

use super::args::CheckArgs;
use super::{CliError, Outcome, print};
use crate::check;

/// Judges the model against captured files.
pub(super) fn run(args: &CheckArgs) -> Result<Outcome, CliError> {
    let report = check::check(&args.paths)?;
    match args.format {
        // Plain rows and names: nothing that JSON could not hold.
        Format::Json => print(&(serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"))?,
        _ => print(&report.text())?,
    }
    Ok(if report.agrees() { Outcome::Done } else { Outcome::Disagrees })
}
