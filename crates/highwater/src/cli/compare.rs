//! `highwater compare` and `highwater run`: run the cells of a plan, print tables, keep results.

use highwater_report::worse::WorseError;
use highwater_report::{Format, PAGE_WIDTH, summary};
use highwater_results::contents::REPORT_FILE;
use highwater_results::explain::STALLS_FILE;
use highwater_results::store::Store;
use highwater_results::texts::{TEXT_FILES, file_of};
use highwater_results::{
    AGES_FILE, Contents, Document, PAGEBLOCKS_FILE, SERIES_FILE, Section, TIMELINE_FILE,
};

use super::args::{CompareArgs, CompareCommand, FailArgs, RunArgs};
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, prepare};
use super::plan::{experiment_plan, workload_plan};
use super::progress::Bar;
use super::report::{self, Look};
use super::{CliError, Outcome, remark, vary};
use crate::experiment::{self, Ran, RunPlan};
use crate::explain;
use crate::workload::Registry;

/// Slowest operations that are kept with results, for each policy on each machine.
const STORY_OPERATIONS: usize = 5;

/// Runs an experiment, or several one after the other.
pub(super) fn run(registry: &Registry, args: &CompareCommand) -> Result<Outcome, CliError> {
    let CompareCommand { experiments, plan: args, histograms, all, fail, counters } = args;
    let out = Out::new(args.out.as_deref(), args.force, args.resume);
    let [experiment] = &experiments[..] else {
        if let Some(vary) = args.vary.first() {
            let reason = "a grid is of one experiment";
            return Err(CliError::new(format!("--vary {vary}: {reason}")));
        }
        let wanted = Wanted { histograms: *histograms, fail, all: *all };
        return several(registry, experiments, args, &wanted, out.as_ref());
    };
    if !args.vary.is_empty() {
        if *histograms || fail.fail_if_worse.is_some() {
            let reason = "--histograms and --fail-if-worse are of one comparison";
            return Err(CliError::new(format!("--vary {}: {reason}", args.vary[0])));
        }
        return vary::run(registry, experiment, args, counters, out.as_ref());
    }
    let wanted = Wanted { histograms: *histograms, fail, all: *all };
    let plan = with_story(experiment_plan(registry, experiment, args, None)?, out.as_ref());
    finish(plan, &wanted, args.format, out.as_ref())
}

/// Results that are kept include the story of the first seed, from which charts are drawn.
fn with_story(plan: RunPlan, out: Option<&Out<'_>>) -> RunPlan {
    RunPlan { story: out.map(|_| STORY_OPERATIONS), ..plan }
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
    let mut plans: Vec<RunPlan> = Vec::new();
    for experiment in experiments {
        let plan = with_story(experiment_plan(registry, experiment, args, None)?, out);
        wanted.check(&plan)?;
        let name = &plan.experiment.name;
        if plans.iter().any(|other| other.experiment.name == *name) {
            return Err(CliError::new(format!("{experiment}: {name} is there already")));
        }
        plans.push(plan);
    }
    let place = prepare(out, &plans, Plans::All)?;
    let look = Look::new(args.format, wanted.all);
    let (mut documents, mut worse): (Vec<Document>, Vec<String>) = (Vec::new(), Vec::new());
    let nr_plans = plans.len();
    for (at, plan) in plans.into_iter().enumerate() {
        remark(&format!("experiment {} of {nr_plans}", at + 1));
        let ran = measure(&place.keeps(plan), wanted)?;
        let document = &ran.document;
        if args.format.is_for_reading() {
            let text = match wanted.all {
                true => report::text(document, look)?,
                false => report::verdict(document, look)?,
            };
            super::show(args.format, &text)?;
        }
        place.keep_below(&document.experiment, |store| keep(store, &ran, look))?;
        let of_this = report::judge(document, wanted.fail)?.into_iter();
        worse.extend(of_this.map(|line| format!("{}: {line}", document.experiment)));
        documents.push(ran.document);
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

/// Runs one workload under one policy.
pub(super) fn run_one(registry: &Registry, args: &RunArgs) -> Result<Outcome, CliError> {
    let out = Out::new(args.out.as_deref(), args.force, args.resume);
    let plan = with_story(workload_plan(registry, args)?, out.as_ref());
    let fail = FailArgs::default();
    let wanted = Wanted { histograms: args.histograms, fail: &fail, all: args.all };
    finish(plan, &wanted, args.format, out.as_ref())
}

/// Outputs of a run besides its tables.
struct Wanted<'a> {
    histograms: bool,
    fail: &'a FailArgs,
    /// All of the evidence.
    all: bool,
}

impl Wanted<'_> {
    /// Refuse what cannot be judged before spending hours on it.
    fn check(&self, plan: &RunPlan) -> Result<(), CliError> {
        let entry = plan.experiment.job.entry();
        if self.histograms && !entry.counts_delays {
            let name = entry.name;
            return Err(CliError::new(format!("--histograms: {name} counts no delays")));
        }
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
    plan: RunPlan,
    wanted: &Wanted<'_>,
    format: Format,
    out: Option<&Out<'_>>,
) -> Result<Outcome, CliError> {
    wanted.check(&plan)?;
    let place = prepare(out, std::slice::from_ref(&plan), Plans::All)?;
    let ran = measure(&place.keeps(plan), wanted)?;
    let look = Look::new(format, wanted.all);
    // First to the reader: a disk that is full takes the files, not the table.
    super::show(format, &report::text(&ran.document, look)?)?;
    if let Some(store) = place.begin(Contents::Comparison)? {
        keep(store, &ran, look)?;
    }
    report::judge(&ran.document, wanted.fail).map(report::tell)
}

/// Runs a plan.
fn measure(plan: &RunPlan, wanted: &Wanted<'_>) -> Result<Ran, CliError> {
    let bar = Bar::start(plan);
    let mut ran = experiment::run_all(plan, &bar, &NEVER)?;
    bar.finish();
    let document = &mut ran.document;
    document.command_line = command_line();
    if wanted.histograms {
        // Inserted before the study's main section, which is last.
        let at = document.sections.len().saturating_sub(1);
        document.sections.insert(at, Section::Histograms);
    }
    document.validate().map_err(|error| CliError::new(error.to_string()))?;
    Ok(ran)
}

/// Keeps the results of a plan.
fn keep(store: &Store, ran: &Ran, look: Look) -> Result<(), CliError> {
    let Ran { document, explained, series, maps, ages, texts } = ran;
    store.write_document(document).map_err(failed)?;
    let text = report::text(document, look.kept())?;
    store.write_text(REPORT_FILE, &text).map_err(failed)?;
    // Remove what an earlier run left there.
    let table = || highwater_report::render::series::series(series);
    let (samples, timeline) = match document.sampled {
        Some(_) => (Some(table()), None),
        None => (None, Some(table()).filter(|_| !series.is_empty())),
    };
    let command_line = document.command_line.clone();
    let stalls = match explained.is_empty() {
        true => None,
        false => Some(explain::explanation(document, explained.clone(), command_line)?),
    };
    let stalls = stalls.as_ref().map(highwater_report::explain::json);
    let ages = (!ages.is_empty()).then(|| highwater_report::render::series::series(ages));
    let maps = (!maps.is_empty()).then(|| highwater_report::render::pageblocks::maps(maps));
    let beside = [
        (SERIES_FILE, samples),
        (TIMELINE_FILE, timeline),
        (STALLS_FILE, stalls),
        (PAGEBLOCKS_FILE, maps),
        (AGES_FILE, ages),
    ];
    let texts = TEXT_FILES.map(|file| (file, file_of(texts, file)));
    for (name, text) in beside.into_iter().chain(texts) {
        match text {
            Some(text) => store.write_text(name, &text).map(drop),
            None => store.remove(name),
        }
        .map_err(failed)?;
    }
    Ok(())
}

/// Options with a value that change no results.
const OF_OUTPUT: [&str; 7] =
    ["--jobs", "--out", "--folded", "--format", "--fail-if-worse", "--color", "--progress"];

/// The command line without options that do not change results.
pub(super) fn command_line() -> Vec<String> {
    let mut words = vec!["highwater".to_owned()];
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--force" | "--resume" | "--all" | "--quiet" | "-q" => {}
            option if OF_OUTPUT.contains(&option) => {
                args.next();
            }
            w if w.split_once('=').is_some_and(|(option, _)| OF_OUTPUT.contains(&option)) => {}
            _ => words.push(word),
        }
    }
    words
}
