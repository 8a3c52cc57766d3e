//! `highwater diagnose`.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use highwater_report::render::Format;
use highwater_results::import::log::Log;
use highwater_results::store::write_atomically;
use highwater_results::words::{count, refusal};

use super::args::DiagnoseArgs;
use super::out::check_file;
use super::report::write_page;
use super::{CliError, Outcome, print, remark, width};
use crate::diagnose;

/// Most bytes of a text: logs of weeks have some hundred megabytes.
const BYTES_MAX: u64 = 1 << 30;

/// Answers the reports of a kernel's log.
pub(super) fn run(args: &DiagnoseArgs) -> Result<Outcome, CliError> {
    let name = args.file.display();
    args.output.as_deref().map_or(Ok(()), |file| check_file("--output", file))?;
    args.machine_out.as_deref().map_or(Ok(()), |file| check_file("--machine-out", file))?;
    let bytes = read(&args.file)?;
    let log = Log::read(&bytes);
    let answers = diagnose::answers(&log);
    if answers.is_empty() {
        return Err(CliError::new(format!(
            "{name}: no report of failed or killed memory in {}: expected the text of dmesg or the journal with lines \
             such as \"page allocation failure\", \"invoked oom-killer\" or \"Mem-Info:\"",
            count(log.lines, "line")
        )));
    }
    let only = args.report.map(|nr| nr as usize);
    if let Some(nr) = only.filter(|nr| *nr > answers.len()) {
        return Err(CliError::new(format!(
            "--report {nr}: {name} has {}",
            count(answers.len(), "report")
        )));
    }
    if let Some(file) = &args.machine_out {
        let report = answers[only.unwrap_or(1) - 1].report;
        let text = diagnose::machine_file(report)
            .map_err(|why| CliError::new(format!("--machine-out: {name}: {why}")))?;
        write_atomically(file, text.as_bytes())
            .map_err(|error| CliError::new(error.to_string()))?;
        remark(&format!("{}: the machine; run a job on it with --machine {0}", file.display()));
    }
    if let Some(file) = &args.output {
        let page = diagnose::page(&name.to_string(), &log, &answers, only)
            .map_err(|error| CliError::new(error.to_string()))?;
        write_page(file, &page)?;
        return Ok(Outcome::Done);
    }
    let text = match args.format {
        Format::Json => {
            let chosen = only.map_or(&answers[..], |nr| &answers[nr - 1..nr]);
            // Plain values: always valid JSON.
            serde_json::to_string_pretty(&diagnose::json(&log, chosen)).unwrap_or_default() + "\n"
        }
        Format::Markdown => diagnose::markdown(&log, &answers, only),
        _ => diagnose::terminal(&log, &answers, only, width()),
    };
    print(&text)?;
    Ok(Outcome::Done)
}

/// The bytes of a file or of standard input.
fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let failed =
        |error: io::Error| CliError::new(format!("{}: {}", file.display(), refusal(&error)));
    let mut bytes = Vec::new();
    let nr = if file == Path::new("-") {
        io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).map_err(failed)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    if nr.map_err(failed)? as u64 > BYTES_MAX {
        return Err(CliError::new(format!(
            "{}: more than 1 GiB: cut the part with the report out",
            file.display()
        )));
    }
    Ok(bytes)
}
