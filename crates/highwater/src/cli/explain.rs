//! `highwater explain`: run an experiment with its time booked by cause, print where the time of the
//! slowest operations went.

use std::path::Path;

use highwater_report::explain as report;
use highwater_report::render::Format;
use highwater_results::explain::{EXPLAIN_FILE, Explanation};
use highwater_results::store::{Store, StoreError, write_atomically};

use super::args::ExplainArgs;
use super::interrupt::{AtEnd, NEVER, exit_on_interrupt};
use super::out::{check_dir, check_file};
use super::progress::Bar;
use super::{CliError, Outcome, print, remark_once};
use crate::plan::ExplainPlan;
use crate::workload::Registry;

/// Where `--folded` prints to stdout.
const STDOUT: &str = "-";

/// Explains an experiment, or the results in a directory.
pub(super) fn run(registry: &Registry, args: &ExplainArgs) -> Result<Outcome, CliError> {
    // Before anything runs.
    args.out.as_deref().map_or(Ok(()), |dir| check_dir("--out", dir))?;
    if let Some(file) = args.folded.as_deref().filter(|file| *file != Path::new(STDOUT)) {
        check_file("--folded", file)?;
    }
    let options = args.options();
    let explanation = match options.plan(registry, &mut |line| remark_once(&line))? {
        ExplainPlan::Run(plan) => {
            exit_on_interrupt(AtEnd::default())?;
            let bar = Bar::start(&plan);
            let explanation = options.run(&plan, &bar, &NEVER)?;
            bar.finish();
            explanation
        }
        ExplainPlan::Known(known) => *known,
    };
    if let Some(dir) = &args.out {
        write(dir, &explanation)?;
    }
    match args.folded.as_deref() {
        Some(file) if file == Path::new(STDOUT) => print(&report::folded(&explanation))?,
        Some(file) => {
            write_atomically(file, report::folded(&explanation).as_bytes()).map_err(failed)?;
            print(&report::render_in(&explanation, args.format, super::terminal()))?;
        }
        None => print(&report::render_in(&explanation, args.format, super::terminal()))?,
    }
    Ok(Outcome::Done)
}

/// All that can be kept.
fn write(dir: &Path, explanation: &Explanation) -> Result<(), CliError> {
    let store = Store::create(dir).map_err(failed)?;
    for (name, text) in [
        (EXPLAIN_FILE, report::json(explanation)),
        ("explain.txt", report::render(explanation, Format::Terminal)),
        ("folded.txt", report::folded(explanation)),
    ] {
        store.write_text(name, &text).map_err(failed)?;
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: StoreError) -> CliError {
    CliError::new(error.to_string())
}
