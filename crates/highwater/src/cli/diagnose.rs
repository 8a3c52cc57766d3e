//! `highwater diagnose`.

use highwater_report::render::Format;
use highwater_results::store::write_atomically;
use highwater_results::words::count;

use super::args::DiagnoseArgs;
use super::out::check_file;
use super::report::write_page;
use super::{CliError, Outcome, print, remark, width};
use crate::diagnose::over_time::Options;
use crate::diagnose::{self, Diagnosis};

/// Answers the question that a text of Linux answers.
pub(super) fn run(args: &DiagnoseArgs) -> Result<Outcome, CliError> {
    args.output.as_deref().map_or(Ok(()), |file| check_file("--output", file))?;
    args.machine_out.as_deref().map_or(Ok(()), |file| check_file("--machine-out", file))?;
    let options = Options { interval_s: args.interval, cpus: args.cpus, ..Options::default() };
    let found = Diagnosis::read(&args.files, &options)?;
    let only = args.report.map(|nr| nr as usize);
    check(args, &found, only)?;
    if let (Some(file), Diagnosis::Log(log, name)) = (&args.machine_out, &found) {
        let text = diagnose::machine_file(&log.reports[only.unwrap_or(1) - 1])
            .map_err(|why| CliError::new(format!("--machine-out: {name}: {why}")))?;
        write_atomically(file, text.as_bytes())
            .map_err(|error| CliError::new(error.to_string()))?;
        remark(&format!("{}: the machine; run a job on it with --machine {0}", file.display()));
    }
    if let Some(file) = &args.output {
        let page = found.page(only).map_err(|error| CliError::new(error.to_string()))?;
        write_page(file, &page)?;
        return Ok(Outcome::Done);
    }
    print(&match args.format {
        // Plain values: always valid JSON.
        Format::Json => serde_json::to_string_pretty(&found.json(only)).unwrap_or_default() + "\n",
        Format::Markdown => found.markdown(only),
        _ => found.terminal(only, width()),
    })?;
    Ok(Outcome::Done)
}

/// Options of logs are for logs.
fn check(args: &DiagnoseArgs, found: &Diagnosis, only: Option<usize>) -> Result<(), CliError> {
    if let Diagnosis::Log(log, name) = found {
        return match only.filter(|nr| *nr > log.reports.len()) {
            Some(nr) => {
                let reports = count(log.reports.len(), "report");
                Err(CliError::new(format!("--report {nr}: {name} has {reports}")))
            }
            None => Ok(()),
        };
    }
    let option = match (only, &args.machine_out) {
        (Some(_), _) => "--report",
        (_, Some(_)) => "--machine-out",
        _ => return Ok(()),
    };
    Err(CliError::new(format!("{option}: only for a kernel's log, which this text is not")))
}
