//! `highwater fit`: the least of a setting that keeps an objective.

use highwater_report::table::Cell;
use highwater_report::{Format, Layout, PAGE_WIDTH, Table};
use highwater_results::Contents;
use highwater_results::contents::REPORT_FILE;

use super::args::FitArgs;
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, prepare};
use super::plan::run_plan;
use super::progress::Bar;
use super::{CliError, Outcome, own_words, remark};
use crate::experiment::RunPlan;
use crate::fit::{Answer, Fit, FitError, Found, Objective, Place, Refused};
use crate::input::size::{parse_size, size_text};
use crate::settings::{PERCENT_MAX, full_key};
use crate::workload::job::Job;
use crate::workload::{Registry, Workload};

const MEMORY: &str = "machine.memory";
/// Smallest step of a memory size.
const MIB: u64 = 1 << 20;
/// Options of this command that `compare` has not, or that only say where results go.
const OF_FIT: [&str; 7] = ["--slo", "--min", "--from", "--to", "--within", "--out", "--format"];
/// Without a range: shares of the memory of the job's machine.
const DEFAULT_RANGE: (u64, u64) = (16, 4);

/// Runs the search.
pub(super) fn run(registry: &Registry, args: &FitArgs) -> Result<Outcome, CliError> {
    let wrong = |reason: String| CliError::new(format!("--slo: {reason}"));
    let objectives: Vec<Objective> = args
        .slo
        .iter()
        .map(|text| Objective::parse(text).map_err(wrong))
        .collect::<Result<_, _>>()?;
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
    // With a figure that is not there no value would keep anything.
    for Objective { metric, .. } in &objectives {
        let job = &*first.experiment.job;
        metric.check_counted(job, &first.machines, &first.policies).map_err(wrong)?;
    }
    let range = range(args, &first)?;
    let end = possible(registry, args, &range)?;
    let out = Out::new(args.out.as_deref(), args.force, args.resume);
    let place = prepare(out.as_ref(), &[&end], Plans::First)?;
    let fit = Fit {
        objectives,
        range: (range.from, range.to),
        grain: range.grain,
        within: args.within / 100.0,
        allows_kills: args.allow_kills,
    };
    let plan_at = |value| match plan(registry, args, Some(range.text(value))) {
        Ok(plan) => Ok(place.keeps(plan)),
        // With another value of the range it could be made.
        Err(error) => Err(Refused::<CliError>::Value(error.to_string())),
    };
    let begin = |at: &Place<'_>| {
        remark(&format!("{}={}", args.min, range.text(at.value)));
        Bar::start(at.plan)
    };
    let answer = fit.run(plan_at, begin, &NEVER).map_err(|error| match error {
        FitError::Objective(reason) => wrong(reason),
        FitError::Run(error) => error.into(),
        FitError::Other(error) => error,
    })?;
    let tables = [table(args, &fit, &range, &answer)];
    super::show(args.format, &super::tables(args.format, &tables))?;
    if let Some(store) = place.begin(Contents::Fit)? {
        let text = Format::Terminal.tables(&tables, PAGE_WIDTH);
        store.write_text(REPORT_FILE, &text).map_err(failed)?;
        // Written last: if this file exists, all others do.
        store
            .write_text(Contents::Fit.last_file(), &Format::Csv.tables(&tables, PAGE_WIDTH))
            .map_err(failed)?;
    }
    Ok(match answer.found {
        Found::Nothing(_) => Outcome::Disagrees,
        Found::Between { .. } | Found::Least(_) => Outcome::Done,
    })
}

/// The plan of `compare`, with one more setting.
fn plan(registry: &Registry, args: &FitArgs, setting: Option<String>) -> Result<RunPlan, CliError> {
    let setting = setting.map(|value| format!("{}={value}", args.min));
    let plan = run_plan(registry, &args.options(setting))?;
    Ok(RunPlan { tolerates_failures: true, ..plan })
}

/// The plan at a value of the range: the upper end if it is valid. If no value is valid, the key or
/// the whole range is wrong.
fn possible(registry: &Registry, args: &FitArgs, range: &Range) -> Result<RunPlan, CliError> {
    let mut value = range.to;
    let first = match plan(registry, args, Some(range.text(value))) {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let mut values = vec![range.from];
    while value / 2 > range.from {
        value = value / 2 / range.grain * range.grain;
        values.push(value);
    }
    let plan_of = |value: &u64| plan(registry, args, Some(range.text(*value))).ok();
    values.iter().find_map(plan_of).ok_or(first)
}

/// The range of values to search.
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
    let nodes = plan.machines.iter().flat_map(|machine| &machine.machine.nodes);
    let pages: u64 = nodes.flat_map(|node| &node.zones).map(|zone| zone.present).sum();
    // Holes of the firmware are smaller than a MiB.
    let memory = pages.div_ceil(256) * MIB;
    let is_memory = full_key(&args.min) == MEMORY;
    let number = |option: &str, text: &Option<String>, default: u64| {
        let Some(text) = text else {
            let reason = format!("--min {}: from what to what? {option} is missing", args.min);
            return if is_memory { Ok((default, true)) } else { Err(CliError::new(reason)) };
        };
        if let Ok(number) = text.parse::<u64>() {
            return Ok((number, false));
        }
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.trim().parse::<f64>() {
                _ if !is_memory => {
                    let reason =
                        format!("a share is of {MEMORY}; of {} say a size or a number", args.min);
                    Err(CliError::new(format!("{option} {text}: {reason}")))
                }
                Ok(percent) if percent > 0.0 && percent <= PERCENT_MAX => {
                    Ok(((memory as f64 * percent / 100.0) as u64 / MIB * MIB, true))
                }
                _ => {
                    let reason =
                        format!("must be a share above 0%, at most {PERCENT_MAX}%, or a size");
                    Err(CliError::new(format!("{option} {text}: {reason}")))
                }
            };
        }
        let size = parse_size(text).map_err(|reason| CliError::new(format!("{option}: {reason}")));
        size.map(|size| (size, true))
    };
    let (least, most) = DEFAULT_RANGE;
    let (from, is_size) = number("--from", &args.from, memory / least / MIB * MIB)?;
    let (to, is_too) = number("--to", &args.to, memory * most / MIB * MIB)?;
    // A bare 0 may be bytes, blocks, events or percent.
    let is_size = is_size || (from == 0 && is_too);
    if is_size != is_too {
        return Err(CliError::new("--from and --to: one is a size, the other a number"));
    }
    if from >= to {
        return Err(CliError::new("--from: must be below --to"));
    }
    Ok(Range { from, to, grain: if is_size { MIB } else { 1 }, is_size })
}

/// For a result that is not monotone: the value above the answer that fails, and a sentence about
/// it.
fn not_monotone(args: &FitArgs, range: &Range, answer: &Answer) -> Option<(u64, String)> {
    let (Found::Between { good, .. } | Found::Least(good)) = answer.found else { return None };
    let (bad, safe) = (answer.relapse()?.value, answer.from_here_on()?.value);
    let [from, middle, to] = [good, bad, safe].map(|value| range.text(value));
    let own = own_words(&OF_FIT, &["--allow-kills", "--force", "--resume"]).join(" ");
    let check = format!("highwater compare {own} --vary {}={from},{middle},{to}", args.min);
    let seeds = match answer.points.iter().map(|point| point.keeps.len()).max() {
        Some(1) => "; one seed: --iterations 5 shows how much of it is chance",
        _ => "",
    };
    Some((bad, format!("all that were tried from {to} on do; check with {check}{seeds}")))
}

/// The points in order, and the answer.
fn table(args: &FitArgs, fit: &Fit, range: &Range, answer: &Answer) -> Table {
    let (key, objectives) = (&args.min, &fit.objectives);
    let mut heads: Vec<String> = Vec::new();
    for objective in objectives {
        // With one objective the title names it.
        let of = match objectives.len() {
            1 => String::new(),
            _ => format!("{} ", objective.metric.text),
        };
        heads.extend(["smallest", "largest"].map(|head| format!("{of}{head}")));
    }
    heads.extend(["killed", "gave up", "seeds that keep it"].map(str::to_owned));
    let texts: Vec<&str> = objectives.iter().map(|objective| &*objective.text).collect();
    let title = format!("{}: the least {key} that keeps {}", args.job, texts.join(" and "));
    let mut table = Table::new(title, &[key], heads, Layout::Fitted);
    for point in &answer.points {
        let mut cells = Vec::new();
        for at in 0..objectives.len() {
            let figures = point.figures.get(at).into_iter().flatten();
            let known: Vec<f64> = figures.copied().flatten().collect();
            let of = |fold: fn(f64, f64) -> f64| match known.iter().copied().reduce(fold) {
                Some(value) => Cell::number(value, 2),
                None => Cell::Missing,
            };
            cells.extend([of(f64::min), of(f64::max)]);
        }
        match &point.refused {
            None => {
                let nr = point.keeps.iter().filter(|&&keeps| keeps).count();
                let keeps = Cell::text(format!("{nr} of {}", point.keeps.len()));
                let counts = [point.killed(), point.failed()];
                cells.extend(counts.map(|count| Cell::number(count as f64, 0)));
                cells.push(keeps);
            }
            Some(_) => {
                cells.extend([Cell::Missing, Cell::Missing, Cell::text("cannot start")]);
            }
        }
        table.push(&[&range.text(point.value)], cells);
    }
    let said = |value| range.text(value);
    let why = |value| {
        let why = answer.at(value).and_then(|point| point.why_not(fit));
        why.map(|why| format!(": {why}")).unwrap_or_default()
    };
    table.notes.push(match answer.found {
        Found::Between { bad, good } => {
            format!("{} keeps it in every seed, {} does not{}", said(good), said(bad), why(bad))
        }
        Found::Least(value) if value == 0 || (value == 1 && full_key(key) == "machine.cpus") => {
            format!("{} keeps it already, and there is no less", said(value))
        }
        Found::Least(value) => format!("{} keeps it already: --from could be less", said(value)),
        Found::Nothing(value) => match answer.at(value).and_then(|point| point.refused.as_ref()) {
            Some(reason) => {
                let what = format!("{key}={} does not keep it at the upper end", said(value));
                format!("{what}: {reason}; choose a lower --to")
            }
            None => format!("not even {} keeps it in every seed{}", said(value), why(value)),
        },
    });
    table.notes.extend(not_monotone(args, range, answer).map(|(above, rest)| {
        format!("not monotone: {} does not keep it{}; {rest}", said(above), why(above))
    }));
    if fit.allows_kills && answer.points.iter().any(|point| point.killed() + point.failed() > 0) {
        let reason =
            "--allow-kills: tasks that were killed or gave up do not count against a value";
        table.notes.push(reason.to_owned());
    }
    table
}
