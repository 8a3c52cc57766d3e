//! `highwater fit`: the least of a setting that keeps an objective.

use highwater_report::{Format, PAGE_WIDTH};
use highwater_results::Contents;
use highwater_results::contents::REPORT_FILE;

use super::args::FitArgs;
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, prepare};
use super::progress::Bar;
use super::{CliError, Outcome, own_words, remark, remark_once};
use crate::fit::{Found, Place};
use crate::workload::Registry;

/// Options of this command that `compare` has not, or that only say where results go.
const OF_FIT: [&str; 7] = ["--slo", "--min", "--from", "--to", "--within", "--out", "--format"];

/// Runs the search.
pub(super) fn run(registry: &Registry, args: &FitArgs) -> Result<Outcome, CliError> {
    let options = args.options();
    let say = &mut |line: String| remark_once(&line);
    let plan = options.plan(registry, say)?;
    let out = Out::new(&args.keep);
    let place = prepare(out.as_ref(), &[plan.first()], Plans::First)?;
    let begin = |at: &Place<'_>| {
        remark(&format!("{}={}", args.min, plan.text(at.value)));
        Bar::start(at.plan)
    };
    let answer = plan.run(place.units.as_ref(), say, begin, &NEVER)?;
    let words = own_words(&OF_FIT, &["--allow-kills", "--force", "--resume"]).join(" ");
    let tables = [plan.table(&answer, &words)];
    // CSV has no notes, which say the answer to readers.
    let data = || [plan.table(&answer, &words), plan.answer(&answer, &words)];
    let text = match args.format {
        Format::Csv => super::tables(args.format, &data()),
        format => super::tables(format, &tables),
    };
    super::show(args.format, &text)?;
    if let Some(store) = place.begin(Contents::Fit)? {
        let text = Format::Terminal.tables(&tables, PAGE_WIDTH);
        store.write_text(REPORT_FILE, &text).map_err(failed)?;
        // Written last: if this file exists, all others do.
        store
            .write_text(Contents::Fit.last_file(), &Format::Csv.tables(&data(), PAGE_WIDTH))
            .map_err(failed)?;
    }
    Ok(match answer.found {
        Found::Nothing(_) => Outcome::Disagrees,
        Found::Between { .. } | Found::Least(_) => Outcome::Done,
    })
}
