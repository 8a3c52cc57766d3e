//! `highwater sweep`: runs the missing units of a plan into a directory that other processes share, and writes the results
//! once all units are there.

use std::path::Path;
use std::sync::Arc;

use highwater_results::Contents;
use highwater_results::contents::remove_results;
use highwater_results::words::{count, is};

use super::args::SweepArgs;
use super::interrupt::{AtEnd, Interrupts, NEVER, exit_on_interrupt};
use super::out::{failed, writable};
use super::plan::plan;
use super::progress::{Bar, announce_plan};
use super::report::{self, Look};
use super::{CliError, Outcome, own_words, print, remark, vary};
use crate::experiment::HostKind;
use crate::experiment::unit::UnitId;
use crate::ledger::ledger::Look as Unit;
use crate::ledger::sweep::SweepError;
use crate::ledger::{Ledger, Share, Sweep, keep, verify};
use crate::plan::{Options, Plan};
use crate::workload::Registry;

/// Runs a sweep, or a part of it.
pub(super) fn run(registry: &Registry, args: &SweepArgs) -> Result<Outcome, CliError> {
    let options = options(args)?;
    if !options.vary.is_empty() {
        vary::check_format(args.format)?;
    }
    let mut plan = plan(registry, &options)?;
    let sweep = Sweep::of(&options, &plan)?;
    let made = (!args.out.exists()).then(|| args.out.clone());
    let (ledger, sweep) = open(args, &sweep)?;
    let ledger = Arc::new(ledger);
    // Of processes that say the same in other words, the first one names the command.
    plan.command_line.clone_from(&sweep.command_line);
    let at_end = AtEnd { made, units: None, ledger: Some(Arc::clone(&ledger)) };
    let interrupts = exit_on_interrupt(at_end)?;

    let ids = sweep.ids();
    let part = args.shard.unwrap_or(Share::ALL).part_of(&ids);
    announce_plan(&plan);
    let (there, missing) = look(&ledger, &part);
    let (dir, nr, all) = (args.out.display(), there.len(), count(part.len(), "run"));
    let of = args.shard.map_or_else(String::new, |share| format!(" of part {share}"));
    remark(&format!("{dir}: {nr} of {all}{of} {} there already", is(nr)));
    if let Some(fraction) = args.verify
        && !agrees(&plan, &ledger, &verify::chosen(&there, fraction))?
    {
        return Ok(Outcome::Disagrees);
    }
    if !missing.is_empty() {
        let bar = Bar::start_some(&plan.runs(), part.len(), there.len());
        plan.run_units(&missing, &*ledger, &bar, &NEVER)?;
        bar.finish();
    }
    let next = next(args);
    finish(&plan, &ledger, &ids, &interrupts, &Shown { format: args.format, next })?;
    Ok(Outcome::Done)
}

/// The options of a plan file, or of the command line.
fn options(args: &SweepArgs) -> Result<Options, CliError> {
    let SweepArgs { what, plan, .. } = args;
    let Some(of_file) = Options::of_plan_file(what)? else {
        return Ok(Options { vary: plan.factors()?, ..plan.options(what) });
    };
    if let Some(option) = plan.first_given() {
        let reason = format!("{what} says what runs; write it there");
        return Err(CliError::new(format!("{option}: {reason}")));
    }
    if of_file.host == HostKind::Native {
        let reason = "measures this computer; a sweep keeps simulated runs only";
        return Err(CliError::new(format!("{what}: host: \"native\" {reason}")));
    }
    Ok(Options { jobs: plan.jobs.said().or(of_file.jobs), ..of_file })
}

/// The directory, with the plan of this sweep in it.
fn open(args: &SweepArgs, sweep: &Sweep) -> Result<(Ledger, Sweep), CliError> {
    let dir = args.out.display();
    let refused = |reason: String| CliError::new(format!("--out {dir}: {reason}"));
    let ledger = Ledger::create(&args.out).map_err(|error| refused(error.to_string()))?;
    writable(&args.out).map_err(refused)?;
    let known = match Sweep::read(&args.out) {
        Ok(known) => known,
        Err(_) if args.force => None,
        Err(error) => return Err(CliError::new(error.to_string())),
    };
    let is_same = known.as_ref().is_some_and(|known| known.is_same(sweep));
    if known.is_none() && !args.force && Contents::of(&args.out).is_some() {
        let reason = "there are results of another command in it; --force replaces them";
        return Err(refused(reason.to_owned()));
    }
    if args.force && !is_same {
        remove_results(&args.out).map_err(failed)?;
    }
    let kept = sweep.keep(&ledger, args.force).map_err(|error| match error {
        SweepError::Another { command_line, .. } => refused(format!(
            "there is another sweep in it ({command_line}); name another directory, or --force replaces its plan and \
             results and keeps its units"
        )),
        error => CliError::new(error.to_string()),
    })?;
    Ok((ledger, kept))
}

/// The units that are there, and those that have to run. A remark says why a file cannot be used.
fn look(ledger: &Ledger, ids: &[UnitId]) -> (Vec<UnitId>, Vec<UnitId>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        match ledger.check(*id) {
            Unit::Whole(()) => there.push(*id),
            Unit::Missing => missing.push(*id),
            Unit::Bad(error) => {
                let path = ledger.path(*id);
                remark(&format!("{} {error}: the unit runs again", path.display()));
                missing.push(*id);
            }
        }
    }
    (there, missing)
}

/// Runs units again: whether their files have the same bytes. Prints those that do not.
fn agrees(plan: &Plan, ledger: &Ledger, ids: &[UnitId]) -> Result<bool, CliError> {
    let title = &plan.points[0].run.experiment.name;
    let all = count(ids.len(), "unit");
    remark(&format!("{title}: verifying {all}"));
    let bar = Bar::counting(title, ids.len(), "units verified");
    let different = verify::verify(plan, ledger, ids, &bar, &NEVER)?;
    bar.finish();
    if different.is_empty() {
        remark(&format!("{title}: {all} verified: the same bytes"));
        return Ok(true);
    }
    let nr = different.len();
    let mut text = format!(
        "{nr} of {all} that ran again {} not what the file holds:\n",
        if nr == 1 { "is" } else { "are" }
    );
    for (_, path) in &different {
        text += &format!("  {}\n", path.display());
    }
    text += "Each unit has one result: the file is damaged, or another build of this version wrote it. Remove the \
             files, and run\nthe sweep again.\n";
    print(&text)?;
    Ok(false)
}

/// How results are shown, and what to do if there are none yet.
pub(super) struct Shown {
    pub(super) format: highwater_report::Format,
    /// The command that runs all that is missing.
    pub(super) next: String,
}

/// If all units are there, prints the results and writes them into the directory; else prints what is
/// missing.
pub(super) fn finish(
    plan: &Plan,
    ledger: &Ledger,
    ids: &std::collections::BTreeSet<UnitId>,
    interrupts: &Interrupts,
    shown: &Shown,
) -> Result<(), CliError> {
    let nr_missing = ids.iter().filter(|id| !matches!(ledger.check(**id), Unit::Whole(()))).count();
    if nr_missing > 0 {
        return print(&missing(ledger.dir(), ids.len(), nr_missing, &shown.next));
    }
    let results = plan.collect_from(&[ledger])?;
    let look = Look::new(shown.format, false);
    let text = match (&results.keys[..], &results.points[..]) {
        ([], [point]) => report::text(&point.ran.document, look)?,
        _ => report::of_grid(&results.grid(), look),
    };
    // First to the reader: a disk that is full takes the files, not the table.
    super::show(shown.format, &text)?;
    interrupts.begin_keeping();
    keep::keep(&results, ledger)?;
    interrupts.end_keeping();
    Ok(())
}

/// The message about missing units.
fn missing(dir: &Path, nr_units: usize, nr_missing: usize, next: &str) -> String {
    let (dir, there) = (dir.display(), nr_units - nr_missing);
    format!(
        "{dir}: {there} of {} {} there, {nr_missing} {} missing. Results are written once all are there.\n\
         To run what is missing: {next}\n",
        count(nr_units, "run"),
        is(there),
        is(nr_missing),
    )
}

/// The command that runs what other parts have not run.
fn next(args: &SweepArgs) -> String {
    let words = own_words(&["--shard", "--verify", "--format"], &["--force"]).join(" ");
    let next = format!("highwater sweep {words}");
    match args.shard {
        Some(share) if share != Share::ALL => {
            format!("the other parts ({share} is done), or {next}")
        }
        _ => next,
    }
}
