//! `highwater bisect`: which switches of the policies explain a change.

use highwater_report::{Format, PAGE_WIDTH};
use highwater_results::Contents;
use highwater_results::contents::REPORT_FILE;
use highwater_results::words::count;

use super::args::BisectArgs;
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, prepare};
use super::progress::Bar;
use super::{CliError, Outcome, own_words, remark, remark_once};
use crate::bisect::Report;
use crate::experiment::RunPlan;
use crate::workload::Registry;

/// Runs the search.
pub(super) fn run(registry: &Registry, args: &BisectArgs) -> Result<Outcome, CliError> {
    let plan = args.options().plan(registry, &mut |line| remark_once(&line))?;
    let out = Out::new(&args.keep);
    let place = prepare(out.as_ref(), &[&plan.run], Plans::First)?;
    let begin = |batch: &RunPlan| {
        remark(&format!(
            "bisect: {} between {} and {}",
            count(batch.policies.len(), "policy"),
            args.from,
            args.to
        ));
        Bar::start(batch)
    };
    let report = plan.run(place.units.as_ref(), begin, &NEVER)?;
    super::show(args.format, &text(&report, args, args.format, super::width()))?;
    if let Some(store) = place.begin(Contents::Bisect)? {
        let text = text(&report, args, Format::Terminal, PAGE_WIDTH);
        store.write_text(REPORT_FILE, &text).map_err(failed)?;
        // Written last: if this file exists, all others do.
        store.write_text(Contents::Bisect.last_file(), &report.json()).map_err(failed)?;
    }
    Ok(if report.is_significant { Outcome::Done } else { Outcome::Disagrees })
}

/// Options of this command that `explain` has not, or that only say where results go.
const OF_BISECT: [&str; 5] = ["--metric", "--seeds", "--iterations", "--out", "--format"];

/// The sentence, the trials and the next steps; as data, everything.
fn text(report: &Report, args: &BisectArgs, format: Format, width: usize) -> String {
    let tables = format.tables(&[report.table()], width);
    match format {
        Format::Json => report.json(),
        Format::Csv => tables,
        _ => {
            let mut own = own_words(&OF_BISECT, &["--force", "--resume"]);
            for policy in [&args.from, &args.to] {
                let at = own.iter().position(|word| word == policy);
                at.map(|at| own.remove(at));
            }
            let next: String =
                report.next(&own.join(" ")).iter().map(|line| format!("{line}\n")).collect();
            format!("{}\n\n{tables}\n{next}", report.sentence)
        }
    }
}
