//! `highwater bisect`: which switches of the policies explain a change.

use highwater_report::{Format, PAGE_WIDTH};
use highwater_results::Contents;
use highwater_results::contents::REPORT_FILE;
use highwater_results::words::count;

use super::args::BisectArgs;
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, prepare};
use super::plan::run_plan;
use super::progress::Bar;
use super::{CliError, Outcome, own_words, remark};
use crate::bisect::{Bisect, BisectError, Report};
use crate::experiment::RunPlan;
use crate::metric::MetricName;
use crate::sysctls;
use crate::workload::job::Job;
use crate::workload::{Registry, Workload};

/// Runs the search.
pub(super) fn run(registry: &Registry, args: &BisectArgs) -> Result<Outcome, CliError> {
    let metric = MetricName::new(&args.metric);
    if args.from == args.to {
        let reason = "A and B are the same policy: there is nothing to explain";
        return Err(CliError::new(format!("{}: {reason}", args.from)));
    }
    let mut plan = run_plan(registry, &args.options())?;
    plan.experiment.iterations = args.seeds_of(plan.experiment.iterations);
    let name = &plan.experiment.name;
    if plan.machines.len() != 1 {
        let machines: Vec<&str> = plan.machines.iter().map(|m| m.name.as_str()).collect();
        let reason = "bisect is of one machine; --machine says which";
        return Err(CliError::new(format!("{name}: {reason} ({})", machines.join(", "))));
    }
    if let [from, to] = &plan.policies[..]
        && let Some(reason) = sysctls::of_one_end(&plan.machines, from, to)
    {
        return Err(CliError::new(reason));
    }
    // Check before anything runs. For other workloads only the results list the operations.
    if plan.experiment.job.entry().name == Job::NAME {
        let metrics = plan.experiment.job.metrics(&plan.machines);
        let wrong = |reason| CliError::new(format!("--metric: {reason}"));
        metric.check(&metrics).map_err(wrong)?;
        let job = &*plan.experiment.job;
        metric.check_counted(job, &plan.machines, &plan.policies).map_err(wrong)?;
    }
    let out = Out::new(args.out.as_deref(), args.force, args.resume);
    let place = prepare(out.as_ref(), &[&plan], Plans::First)?;
    let begin = |batch: &RunPlan| {
        remark(&format!(
            "bisect: {} between {} and {}",
            count(batch.policies.len(), "policy"),
            args.from,
            args.to
        ));
        Bar::start(batch)
    };
    let report = Bisect { metric }.run(&place.keeps(plan), begin, &NEVER);
    let report = report.map_err(|error| match error {
        BisectError::Metric(reason) => CliError::new(format!("--metric: {reason}")),
        error => CliError::new(error.to_string()),
    })?;
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
