//! `highwater diagnose`.

use std::fs;
use std::path::Path;

use highwater_report::render::Format;
use highwater_results::store::write_atomically;
use highwater_results::words::{count, refusal};

use super::args::DiagnoseArgs;
use super::out::{check_dir, check_file};
use super::report::write_page;
use super::{CliError, Outcome, print, remark, width};
use crate::diagnose::over_time::{Options, unit_bytes};
use crate::diagnose::window::Window;
use crate::diagnose::{self, Diagnosis, StateOut};
use crate::machine_file::state_texts::FILES;

const STATE_OUT: &str = "--state-out";

/// Answers the question that a text of Linux answers.
pub(super) fn run(args: &DiagnoseArgs) -> Result<Outcome, CliError> {
    args.output.as_deref().map_or(Ok(()), |file| check_file("--output", file))?;
    args.machine_out.as_deref().map_or(Ok(()), |file| check_file("--machine-out", file))?;
    args.state_out.as_deref().map_or(Ok(()), |dir| check_state_dir(dir, args.force))?;
    let options = Options {
        interval_s: args.interval,
        cpus: args.cpus,
        unit_bytes: args.unit.as_deref().and_then(unit_bytes).unwrap_or(1024),
        window: Window { from: args.from, to: args.to },
    };
    let found = Diagnosis::read(&args.files, &options)?;
    let only = args.report.map(|nr| nr as usize);
    check(args, &found, only)?;
    let found = match args.order {
        Some(order) => found.for_order(order),
        None => found,
    };
    if let (Some(file), Diagnosis::Log(log, name)) = (&args.machine_out, &found) {
        let text = diagnose::machine_file(&log.reports[only.unwrap_or(1) - 1])
            .map_err(|why| CliError::new(format!("--machine-out: {name}: {why}")))?;
        write_atomically(file, text.as_bytes())
            .map_err(|error| CliError::new(error.to_string()))?;
        let of = match log.reports.len() {
            1 => "the machine".to_owned(),
            nr => format!("the machine of report {} of {nr} (--report)", only.unwrap_or(1)),
        };
        remark(&format!("{}: {of}; run a job on it with --machine {0}", file.display()));
    }
    if let Some(dir) = &args.state_out {
        write_state(dir, &found, only)?;
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

/// Refuses a directory that cannot be written, or that has a state which `--force` does not replace.
fn check_state_dir(dir: &Path, force: bool) -> Result<(), CliError> {
    check_dir(STATE_OUT, dir)?;
    match FILES.iter().find(|name| dir.join(name).exists()) {
        Some(name) if !force => {
            let reason = format!("there is a {name} in it; --force replaces it");
            Err(CliError::new(format!("{STATE_OUT} {}: {reason}", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Writes the state of a report, or of texts of `/proc`; says what was guessed.
fn write_state(dir: &Path, found: &Diagnosis, only: Option<usize>) -> Result<(), CliError> {
    let number = only.unwrap_or(1);
    let (state, of) = match found {
        Diagnosis::Log(log, name) => {
            let state = diagnose::state_of_report(&log.reports[number - 1]);
            let of = match log.reports.len() {
                1 => format!("the free lists of {name}"),
                nr => format!("the free lists of report {number} of {nr} in {name} (--report)"),
            };
            (state.map_err(|why| format!("{name}: {why}")), of)
        }
        Diagnosis::Rest(found) => (diagnose::state_of_texts(found), "these texts".to_owned()),
        _ => return Ok(()),
    };
    let StateOut { files, remarks } =
        state.map_err(|why| CliError::new(format!("{STATE_OUT}: {why}")))?;
    let failed = |error: std::io::Error| {
        CliError::new(format!("{STATE_OUT} {}: {}", dir.display(), refusal(&error)))
    };
    fs::create_dir_all(dir).map_err(failed)?;
    for name in FILES {
        let path = dir.join(name);
        match files.iter().find(|(file, _)| *file == name) {
            Some((_, text)) => write_atomically(&path, text.as_bytes())
                .map_err(|error| CliError::new(error.to_string()))?,
            // That of another state.
            None if path.exists() => fs::remove_file(&path).map_err(failed)?,
            None => {}
        }
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    remark(&format!(
        "{}: {of}: {}; a job starts there with --state {0}",
        dir.display(),
        names.join(", ")
    ));
    remarks.iter().for_each(|line| remark(&format!("{}: {line}", dir.display())));
    Ok(())
}

/// Options of logs are for logs, that of an order for texts of `/proc`, and those of a time for texts
/// over time.
fn check(args: &DiagnoseArgs, found: &Diagnosis, only: Option<usize>) -> Result<(), CliError> {
    if args.order.is_some() && !matches!(found, Diagnosis::Rest(_)) {
        let reason = "only for zoneinfo, buddyinfo and pagetypeinfo of /proc";
        return Err(CliError::new(format!("--order: {reason}")));
    }
    let is_over_time = matches!(found, Diagnosis::OverTime(_) | Diagnosis::Waits(..));
    if !is_over_time && (args.from.is_some() || args.to.is_some()) {
        let option = if args.from.is_some() { "--from" } else { "--to" };
        let reason = "only for texts over time: traces, vmstat, pressure";
        return Err(CliError::new(format!("{option}: {reason}")));
    }
    if let Diagnosis::Log(log, name) = found {
        return match only.filter(|nr| *nr > log.reports.len()) {
            Some(nr) => {
                let reports = count(log.reports.len(), "report");
                Err(CliError::new(format!("--report {nr}: {name} has {reports}")))
            }
            None => Ok(()),
        };
    }
    let option = match (only, &args.machine_out, &args.state_out) {
        (Some(_), _, _) => "--report",
        (_, Some(_), _) => "--machine-out",
        (_, _, Some(_)) if !matches!(found, Diagnosis::Rest(_)) => {
            let reason = "only for a kernel's log, or for zoneinfo, buddyinfo and pagetypeinfo";
            return Err(CliError::new(format!("{STATE_OUT}: {reason}")));
        }
        _ => return Ok(()),
    };
    Err(CliError::new(format!("{option}: only for a kernel's log, which this text is not")))
}
