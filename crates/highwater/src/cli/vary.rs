//! `compare --vary KEY=A,B,..`: the same experiment at every combination of values.

use highwater_report::Format;
use highwater_report::report::Shown;
use highwater_results::Contents;

use super::args::CompareArgs;
use super::interrupt::NEVER;
use super::out::{Out, Plans, prepare};
use super::plan::plan;
use super::progress::Bar;
use super::report::{self, Look};
use super::{CliError, Outcome};
use crate::input::names::nearest;
use crate::plan::{Options, Results};
use crate::workload::Registry;
use crate::workload::outcome::counter_names;

/// Runs the grid.
pub(super) fn run(
    registry: &Registry,
    experiment: &str,
    args: &CompareArgs,
    counters: &[String],
    out: Option<&Out<'_>>,
) -> Result<Outcome, CliError> {
    check_counters(counters)?;
    check_format(args.format)?;
    let vary = args.plan.factors()?;
    let plan = plan(registry, &Options { vary, ..args.options(experiment) })?;

    let place = prepare(out, &plan.runs(), Plans::All)?;
    let bar = Bar::start_all(&plan.runs());
    let nr_points = plan.points.len();
    let mut points = Vec::new();
    for at in 0..nr_points {
        bar.remark(&format!("point {} of {nr_points}: {}", at + 1, plan.said(at)));
        points.push(plan.run_point(at, place.units.as_ref(), &bar, &NEVER)?);
        bar.next_plan();
    }
    bar.finish();
    let results = Results { counters: counters.to_vec(), ..Results::of(&plan, points) };
    super::show(args.format, &report::of_grid(&results.grid(), Look::new(args.format, false)))?;
    if let Some(store) = place.begin(Contents::Grid)? {
        results.keep(store, Shown::Changes)?;
    }
    Ok(Outcome::Done)
}

/// Refuses a format that a grid has not.
pub(super) fn check_format(format: Format) -> Result<(), CliError> {
    if format != Format::Json {
        return Ok(());
    }
    let reason = "a grid is a table (csv); --out DIR keeps the results of each point as JSON";
    Err(CliError::new(format!("--format json: {reason}")))
}

/// Refuses names that no counter has.
fn check_counters(counters: &[String]) -> Result<(), CliError> {
    let known: Vec<&str> = counter_names().collect();
    let Some(wrong) = counters.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let near = match nearest(wrong, known).as_slice() {
        [] => "names are those of /proc/vmstat".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(CliError::new(format!("--counter {wrong}: no such counter; {near}")))
}
