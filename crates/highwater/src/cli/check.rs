//! `highwater check`.

use highwater_report::render::Format;

use highwater_results::words::count;

use super::args::CheckArgs;
use super::progress::Bar;
use super::{CliError, Outcome, complain, print};
use crate::check;

/// Judges the model against captured files.
pub(super) fn run(args: &CheckArgs) -> Result<Outcome, CliError> {
    let options = check::CheckOptions { idle_ns: (args.idle * 1e9) as u64 };
    let bar = Bar::counting("check", 0, "files");
    let (report, mut refused) =
        check::check_telling(&args.paths, options, &mut |done, total| bar.set(done, total))?;
    bar.finish();
    if report.files.is_empty() && refused.len() == 1 {
        return Err(refused.remove(0).into());
    }
    match args.format {
        // Plain rows and names: always valid JSON.
        Format::Json => print(&(serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"))?,
        _ => print(&report.text())?,
    }
    // A bad file does not hide the results of the others, but it decides the exit status.
    let last = refused.pop();
    for error in &refused {
        complain(&error.to_string());
    }
    if let Some(error) = last {
        return Err(error.into());
    }
    match report.agreement() {
        Some(percent) if percent >= args.min_agreement => Ok(Outcome::Done),
        Some(_) => Ok(Outcome::Disagrees),
        None => {
            complain(&format!(
                "nothing was checked: no figure in {}",
                count(report.files.len(), "file")
            ));
            Ok(Outcome::Disagrees)
        }
    }
}
