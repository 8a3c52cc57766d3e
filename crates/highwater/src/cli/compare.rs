//! `highwater compare` and `highwater run`: run the cells of a plan, print tables, keep results.

use highwater_report::worse::WorseError;
use highwater_report::{Format, PAGE_WIDTH, summary};
use highwater_results::contents::REPORT_FILE;
use highwater_results::{Contents, Document};

use super::args::{CompareArgs, CompareCommand, FailArgs, RunArgs};
use super::interrupt::NEVER;
use super::out::{Out, Place, Plans, failed, prepare};
use super::plan::plan;
use super::progress::Bar;
use super::report::{self, Look};
use super::{CliError, Outcome, kernel_files, remark, vary};
use crate::experiment::RunPlan;
use crate::plan::{Options, Plan, PointResults};
use crate::workload::Registry;

/// Runs an experiment, or several one after the other.
pub(super) fn run(registry: &Registry, args: &CompareCommand) -> Result<Outcome, CliError> {
    let CompareCommand { experiments, plan: args, histograms, all, fail, counters } = args;
    let out = Out::new(&args.keep);
    let [experiment] = &experiments[..] else {
        if let Some(vary) = args.plan.vary.first() {
            let reason = "a grid is of one experiment";
            return Err(CliError::new(format!("--vary {vary}: {reason}")));
        }
        let wanted = Wanted { histograms: *histograms, fail, all: *all };
        return several(registry, experiments, args, &wanted, out.as_ref());
    };
    if !args.plan.vary.is_empty() {
        if args.sample.sample_every.is_some() {
            let reason = "--sample-every is of one comparison";
            return Err(CliError::new(format!("--vary {}: {reason}", args.plan.vary[0])));
        }
        if *histograms || fail.fail_if_worse.is_some() {
            let reason = "--histograms and --fail-if-worse are of one comparison";
            return Err(CliError::new(format!("--vary {}: {reason}", args.plan.vary[0])));
        }
        return vary::run(registry, experiment, args, counters, out.as_ref());
    }
    let wanted = Wanted { histograms: *histograms, fail, all: *all };
    let plan = plan(registry, &wanted.of(args.options(experiment)))?;
    finish(&plan, &wanted, args.format, out.as_ref())
}

/// Runs several experiments: prints the verdict of each, then a summary of all.
fn several(
    registry: &Registry,
    experiments: &[String],
    args: &CompareArgs,
    wanted: &Wanted<'_>,
    out: Option<&Out<'_>>,
) -> Result<Outcome, CliError> {
    // Before the first one runs.
    let mut plans: Vec<Plan> = Vec::new();
    for experiment in experiments {
        let plan = plan(registry, &wanted.of(args.options(experiment)))?;
        wanted.check(&plan)?;
        let name = name_of(&plan);
        if plans.iter().any(|other| name_of(other) == name) {
            return Err(CliError::new(format!("{experiment}: {name} is there already")));
        }
        plans.push(plan);
    }
    let runs: Vec<&RunPlan> = plans.iter().flat_map(Plan::runs).collect();
    let place = prepare(out, &runs, Plans::All)?;
    let look = Look::new(args.format, wanted.all);
    let (mut documents, mut worse): (Vec<Document>, Vec<String>) = (Vec::new(), Vec::new());
    let nr_plans = plans.len();
    for (at, plan) in plans.iter().enumerate() {
        remark(&format!("experiment {} of {nr_plans}", at + 1));
        let ran = measure(plan, &place)?;
        let document = &ran.ran.document;
        if args.format.is_for_reading() {
            let text = match wanted.all {
                true => report::text(document, look)?,
                false => report::verdict(document, look)?,
            };
            super::show(args.format, &text)?;
        }
        place
            .keep_below(&document.experiment, |store| Ok(ran.keep(store, look.kept().shown())?))?;
        let of_this = report::judge(document, wanted.fail)?.into_iter();
        worse.extend(of_this.map(|line| format!("{}: {line}", document.experiment)));
        documents.push(ran.ran.document);
    }
    let table = summary::summary(&documents).map_err(|error| CliError::new(error.to_string()))?;
    super::show(args.format, &report::several(&documents, &table, look)?)?;
    if let Some(store) = place.begin(Contents::Several)? {
        let mut text = String::new();
        for document in &documents {
            text += &report::verdict(document, look.kept())?;
        }
        let all = [table];
        text += &Format::Terminal.tables(&all, PAGE_WIDTH);
        store.write_text(REPORT_FILE, &text).map_err(failed)?;
        // Written last: if this file exists, all others do.
        let csv = Format::Csv.tables(&all, PAGE_WIDTH);
        store.write_text(Contents::Several.last_file(), &csv).map_err(failed)?;
    }
    Ok(report::tell(worse))
}

/// The experiment that a plan runs.
fn name_of(plan: &Plan) -> &str {
    &plan.points[0].run.experiment.name
}

/// Runs one workload under one policy.
pub(super) fn run_one(registry: &Registry, args: &RunArgs) -> Result<Outcome, CliError> {
    let out = Out::new(&args.keep);
    let mut plan = plan(registry, &args.options())?;
    // A command that runs one workload has one point.
    kernel_files::of_all_times(&args.cgroupfs, &mut plan.points[0].run)?;
    let fail = FailArgs::default();
    let wanted = Wanted { histograms: args.histograms, fail: &fail, all: args.all };
    finish(&plan, &wanted, args.format, out.as_ref())
}

/// Outputs of a run besides its tables.
struct Wanted<'a> {
    histograms: bool,
    fail: &'a FailArgs,
    /// All of the evidence.
    all: bool,
}

impl Wanted<'_> {
    /// The options with what is wanted besides.
    fn of(&self, options: Options) -> Options {
        Options { histograms: self.histograms, ..options }
    }

    /// Refuse what cannot be judged before spending hours on it.
    fn check(&self, plan: &Plan) -> Result<(), CliError> {
        let plan = &plan.points[0].run;
        if self.fail.fail_if_worse.is_none() {
            return Ok(());
        }
        match (plan.policies.len(), plan.experiment.iterations) {
            (..2, _) => Err(report::cannot_judge(WorseError::Alone)),
            (_, ..2) => Err(report::cannot_judge(WorseError::OneSeed)),
            _ => Ok(()),
        }
    }
}

/// Runs a plan and prints its report; with `out`, keeps the results.
fn finish(
    plan: &Plan,
    wanted: &Wanted<'_>,
    format: Format,
    out: Option<&Out<'_>>,
) -> Result<Outcome, CliError> {
    wanted.check(plan)?;
    let place = prepare(out, &plan.runs(), Plans::All)?;
    let ran = measure(plan, &place)?;
    let look = Look::new(format, wanted.all);
    // First to the reader: a disk that is full takes the files, not the table.
    super::show(format, &report::text(&ran.ran.document, look)?)?;
    if let Some(store) = place.begin(Contents::Comparison)? {
        ran.keep(store, look.kept().shown())?;
    }
    report::judge(&ran.ran.document, wanted.fail).map(report::tell)
}

/// Runs a plan of one point.
fn measure(plan: &Plan, place: &Place) -> Result<PointResults, CliError> {
    let bar = Bar::start(&plan.points[0].run);
    let ran = plan.run_point(0, place.units.as_ref(), &bar, &NEVER)?;
    bar.finish();
    Ok(ran)
}
