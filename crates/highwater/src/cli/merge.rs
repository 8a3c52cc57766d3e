//! `highwater merge`: puts directories of a sweep together.

use std::fs;
use std::path::Path;

use highwater_results::words::count;

use super::args::MergeArgs;
use super::interrupt::{AtEnd, exit_on_interrupt};
use super::plan::plan;
use super::sweep::{Shown, finish};
use super::{CliError, Outcome, print, remark};
use crate::ledger::{Ledger, Sweep, merge};
use crate::plan::{Options, Plan};
use crate::workload::Registry;

/// Copies the units of all directories into one, and writes the results if they are complete.
pub(super) fn run(registry: &Registry, args: &MergeArgs) -> Result<Outcome, CliError> {
    let out = &args.out;
    let mut from = Vec::new();
    for dir in &args.dirs {
        if is_same_place(dir, out) {
            let reason = "is one of the directories to merge; name another one";
            return Err(CliError::new(format!("--out {}: {reason}", out.display())));
        }
        from.push(Ledger::open(dir).map_err(|error| CliError::new(error.to_string()))?);
    }
    let sweep = common(from.iter().map(Ledger::dir).chain([out.as_path()]))?;
    // Before anything is copied.
    let planned = sweep.as_ref().map(|sweep| plan_of(registry, sweep));
    let made = (!out.exists()).then(|| out.clone());
    let into = Ledger::create(out)
        .map_err(|error| CliError::new(format!("--out {}: {error}", out.display())))?;
    let into = std::sync::Arc::new(into);
    let ledger = Some(std::sync::Arc::clone(&into));
    let interrupts = exit_on_interrupt(AtEnd { made, units: None, ledger })?;
    let mut copied = 0;
    for ledger in &from {
        let merged =
            merge::merge(ledger, &into).map_err(|error| CliError::new(error.to_string()))?;
        for (path, error) in &merged.bad {
            remark(&format!("{} {error}: left out", path.display()));
        }
        let (dir, nr) = (ledger.dir().display(), count(merged.copied, "run"));
        remark(&format!("{dir}: {nr} copied, {} there already", merged.there));
        copied += merged.copied;
    }
    let (Some(sweep), Some(planned)) = (sweep, planned) else {
        let runs = count(copied, "run");
        let reason = "no directory has the plan of a sweep (sweep.json), so no results are written";
        print(&format!("{}: {runs} copied; {reason}\n", out.display()))?;
        return Ok(Outcome::Done);
    };
    sweep.keep(&into, false).map_err(|error| CliError::new(error.to_string()))?;
    let mut plan = planned.map_err(|error| {
        let reason = format!("the runs are copied, but results cannot be written: {error}");
        CliError::new(format!("{}: {reason}", out.display()))
    })?;
    plan.command_line.clone_from(&sweep.command_line);
    let next = format!("{} --out {}", command(&sweep), out.display());
    let shown = Shown { format: args.format, next };
    finish(&plan, &into, &sweep.ids(), &interrupts, &shown)?;
    Ok(Outcome::Done)
}

fn is_same_place(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The plan that the directories have in common; none if no directory has one.
fn common<'d>(dirs: impl Iterator<Item = &'d Path>) -> Result<Option<Sweep>, CliError> {
    let mut first: Option<(&Path, Sweep)> = None;
    for dir in dirs {
        let sweep = Sweep::read(dir).map_err(|error| CliError::new(error.to_string()))?;
        match (sweep, &first) {
            (Some(sweep), None) => first = Some((dir, sweep)),
            (Some(sweep), Some((other, known))) if !sweep.is_same(known) => {
                let [one, other] = [dir, other].map(|dir| Sweep::path(dir).display().to_string());
                let [a, b] = [&sweep, known].map(|sweep| sweep.command_line.join(" "));
                let reason = format!("is of another sweep ({a}) than {other} ({b})");
                return Err(CliError::new(format!("{one}: {reason}")));
            }
            _ => {}
        }
    }
    Ok(first.map(|(_, sweep)| sweep))
}

/// The plan of a sweep again, from its options.
fn plan_of(registry: &Registry, sweep: &Sweep) -> Result<Plan, CliError> {
    let options = Options::from_toml("sweep.json", &sweep.plan)?;
    let plan = plan(registry, &options)?;
    match Sweep::of(&options, &plan)?.is_same(sweep) {
        true => Ok(plan),
        false => {
            let reason = "this program makes other units of the plan: a file that it names has changed, or another \
                          version of Highwater ran it";
            Err(CliError::new(reason))
        }
    }
}

/// The command that runs a sweep.
fn command(sweep: &Sweep) -> String {
    let mut words = sweep.command_line.clone();
    if let Some(command) = words.get_mut(1) {
        "sweep".clone_into(command);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+%@[]".contains(c);
    let word = |word: &String| match word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{word}'"),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}
