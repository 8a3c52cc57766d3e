//! `highwater fit`: the least of a setting that keeps an objective.

use highwater_report::table::Cell;
use highwater_report::{Format, Layout, PAGE_WIDTH, Table};

use super::args::FitArgs;
use super::interrupt::NEVER;
use super::out::{FIT_FILE, Out, failed, prepare};
use super::plan::experiment_plan;
use super::progress::Bar;
use super::{CliError, Outcome, remark};
use crate::experiment::{self, RunPlan};
use crate::fit::{Found, Objective, search};
use crate::input::size::{parse_size, size_text};
use crate::workload::job::Job;
use crate::workload::{Registry, Workload};

const MEMORY: &str = "machine.memory";
/// Of memory nothing finer is told apart.
const MIB: u64 = 1 << 20;
/// Without a range: shares of the memory of the job's machine.
const DEFAULT_RANGE: (u64, u64) = (16, 4);

/// A point that was tried.
struct Point {
    value: u64,
    figures: Vec<Option<f64>>,
    is_good: bool,
}

/// Runs the search.
pub(super) fn run(registry: &Registry, args: &FitArgs) -> Result<Outcome, CliError> {
    let wrong = |option: &str, reason: String| CliError::new(format!("{option}: {reason}"));
    let objective = Objective::parse(&args.slo).map_err(|reason| wrong("--slo", reason))?;
    let key = &args.min;
    // Everything is looked at before the first run.
    let first = plan(registry, args, None)?;
    if first.experiment.job.entry().name != Job::NAME {
        let name = &first.experiment.name;
        return Err(CliError::new(format!("{name}: fit is for jobs (highwater list workloads)")));
    }
    if first.policies.len() != 1 || first.machines.len() != 1 {
        let reason = "a search is of one policy on one machine; --policy and --machine say which";
        return Err(CliError::new(format!("{}: {reason}", first.experiment.name)));
    }
    let range = range(args, &first)?;
    let ends = [range.from, range.to].map(|value| plan(registry, args, Some(range.text(value))));
    let ends: Vec<RunPlan> = ends.into_iter().collect::<Result<_, _>>()?;
    let out = Out::new(args.out.as_deref(), args.force, args.resume);
    let place = prepare(out.as_ref(), &ends)?;
    let mut points: Vec<Point> = Vec::new();
    let found = search((range.from, range.to), range.grain, args.within / 100.0, |value| {
        let text = range.text(value);
        remark(&format!("{key}={text}"));
        let plan = place.keeps(plan(registry, args, Some(text))?);
        let bar = Bar::start(&plan);
        let document = experiment::run_all(&plan, &bar, &NEVER)?.document;
        bar.finish();
        let figures = objective.values(&document).map_err(|reason| wrong("--slo", reason))?;
        let is_good = figures.iter().all(|&figure| objective.holds(figure));
        points.push(Point { value, figures, is_good });
        Ok::<_, CliError>(is_good)
    })?;
    let tables = [table(args, &objective, &range, points, found)];
    super::show(args.format, &super::tables(args.format, &tables))?;
    if let Some(store) = &place.store {
        place.begin_keeping();
        let text = Format::Terminal.tables(&tables, PAGE_WIDTH);
        store.write_text("report.txt", &text).map_err(failed)?;
        // Last: where it is, everything is.
        store.write_text(FIT_FILE, &Format::Csv.tables(&tables, PAGE_WIDTH)).map_err(failed)?;
    }
    Ok(match found {
        Found::Nothing(_) => Outcome::Disagrees,
        Found::Between { .. } | Found::Least(_) => Outcome::Done,
    })
}

/// What runs with a value of the key.
fn plan(registry: &Registry, args: &FitArgs, value: Option<String>) -> Result<RunPlan, CliError> {
    let setting = value.map(|value| format!("{}={value}", args.min));
    experiment_plan(registry, &args.job, &args.compare(setting), None)
}

/// Values between which is searched.
struct Range {
    from: u64,
    to: u64,
    grain: u64,
    is_size: bool,
}

impl Range {
    /// As a setting has it.
    fn text(&self, value: u64) -> String {
        match self.is_size {
            true => size_text(value),
            false => value.to_string(),
        }
    }
}

fn range(args: &FitArgs, plan: &RunPlan) -> Result<Range, CliError> {
    let memory = plan.machines.first().map_or(0, |machine| machine.machine.end_pfn() << 12);
    let is_memory = args.min == MEMORY;
    let number = |option: &str, text: &Option<String>, default: u64| {
        let Some(text) = text else {
            let reason = format!("--min {}: from what to what? {option} is missing", args.min);
            return if is_memory { Ok((default, true)) } else { Err(CliError::new(reason)) };
        };
        if let Ok(number) = text.parse::<u64>() {
            return Ok((number, false));
        }
        let size = parse_size(text).map_err(|reason| CliError::new(format!("{option}: {reason}")));
        size.map(|size| (size, true))
    };
    let (least, most) = DEFAULT_RANGE;
    let (from, is_size) = number("--from", &args.from, memory / least / MIB * MIB)?;
    let (to, is_too) = number("--to", &args.to, memory * most / MIB * MIB)?;
    if is_size != is_too {
        return Err(CliError::new("--from and --to: one is a size, the other a number"));
    }
    if from >= to {
        return Err(CliError::new("--from: must be below --to"));
    }
    Ok(Range { from, to, grain: if is_size { MIB } else { 1 }, is_size })
}

/// The points in order, and the answer.
fn table(
    args: &FitArgs,
    objective: &Objective,
    range: &Range,
    mut points: Vec<Point>,
    found: Found,
) -> Table {
    let (key, text) = (&args.min, &objective.text);
    let heads = ["smallest", "largest", "seeds that keep it"].map(str::to_owned).to_vec();
    let title = format!("{}: the least {key} that keeps {text}", args.job);
    let mut table = Table::new(title, &[key], heads, Layout::Fitted);
    points.sort_by_key(|point| point.value);
    for point in &points {
        let known: Vec<f64> = point.figures.iter().copied().flatten().collect();
        let of = |fold: fn(f64, f64) -> f64| match known.iter().copied().reduce(fold) {
            Some(value) => Cell::number(value, 2),
            None => Cell::Missing,
        };
        let kept = point.figures.iter().filter(|figure| objective.holds(**figure)).count();
        let kept = Cell::text(format!("{kept} of {}", point.figures.len()));
        table.push(&[&range.text(point.value)], vec![of(f64::min), of(f64::max), kept]);
    }
    let said = |value| range.text(value);
    table.notes.push(match found {
        Found::Between { bad, good } => {
            format!("{} keeps it in every seed, {} does not", said(good), said(bad))
        }
        Found::Least(value) => format!("{} keeps it already: --from could be less", said(value)),
        Found::Nothing(value) => format!("not even {} keeps it in every seed", said(value)),
    });
    let good = points.iter().position(|point| point.is_good);
    if good.is_some_and(|first| points[first..].iter().any(|point| !point.is_good)) {
        let reason = "more did not always do better: the answer is one of several";
        table.notes.push(reason.to_owned());
    }
    table
}
