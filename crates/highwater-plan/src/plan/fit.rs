//! `fit`: the smallest value of a setting with which a job meets its objectives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use highwater_report::table::Cell;
use highwater_report::{Layout, Table};
use highwater_results::setting::Key;

use super::resolve::{Say, only};
use super::{Options, PlanError};
use crate::experiment::unit::UnitStore;
use crate::experiment::{Progress, RunPlan};
use crate::fit::{Answer, Fit, FitError, Found, Objective, Place, Refused};
use crate::settings::{PERCENT_MAX, Said, SaidBy};
use highwater_files::input::size::{parse_size, size_text};
use highwater_runs::workload::job::Job;
use highwater_runs::workload::{Registry, Workload};

const MEMORY: &str = "machine.memory";
const CPUS: &str = "machine.cpus";
/// The resolution of searches over memory.
const MIB: u64 = 1 << 20;
/// Without a range: shares of the memory of the job's machine.
const DEFAULT_RANGE: (u64, u64) = (16, 4);
/// Default precision of the answer, in percent.
const WITHIN: f64 = 0.25;

/// The search of `fit`.
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
///
/// use highwater_plan::experiment::Quiet;
/// use highwater_plan::plan::FitOptions;
/// use highwater_runs::workload::Registry;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = FitOptions::new("job.toml", "reader.get.p99<5ms");
/// let registry = Registry::default();
/// let plan = options.plan(&registry, &mut |_| ())?;
/// let answer = plan.run(None, &mut |_| (), |_| Quiet, &AtomicBool::new(false))?;
/// println!("{:?}", answer.found);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FitOptions {
    /// The job, its machine, its policy, its seeds, further settings.
    pub options: Options,
    /// Objectives, all of which have to hold: `reader.get.p99<5ms`.
    pub objectives: Vec<String>,
    /// The key whose smallest value is searched.
    pub min: String,
    /// Value at which the search begins; default for memory: a sixteenth of the machine's.
    pub from: Option<String>,
    /// Value at which it ends; default for memory: four times the machine's, for a size of a group
    /// the machine's.
    pub to: Option<String>,
    /// Precision of the answer, in percent.
    pub within: f64,
    /// Accept a value with which a task is killed or gives up, as long as the objectives hold.
    pub allow_kills: bool,
}

impl FitOptions {
    /// A search for the least memory with which a job meets an objective.
    pub fn new(job: impl Into<String>, objective: impl Into<String>) -> FitOptions {
        FitOptions {
            options: Options::compare(job),
            objectives: vec![objective.into()],
            min: MEMORY.to_owned(),
            from: None,
            to: None,
            within: WITHIN,
            allow_kills: false,
        }
    }

    /// Checks everything that can be checked before the first run. Remarks go to `say`.
    ///
    /// # Errors
    /// Names the option that is wrong, and what to do.
    pub fn plan<'a>(
        &'a self,
        registry: &'a Registry,
        say: &mut Say<'_>,
    ) -> Result<FitPlan<'a>, PlanError> {
        let wrong = |reason: String| PlanError::refused("--slo", reason);
        let objectives: Vec<Objective> = self
            .objectives
            .iter()
            .map(|text| Objective::parse(text).map_err(wrong))
            .collect::<Result<_, _>>()?;
        let first = self.at(registry, None, say)?;
        let name = &first.experiment.name;
        if first.experiment.job.entry().name != Job::NAME {
            let reason = "fit is for jobs (highwater list workloads)";
            return Err(PlanError::refused(name, reason));
        }
        if first.policies.len() != 1 || first.machines.len() != 1 {
            let reason =
                "a search is of one policy on one machine; --policy and --machine say which";
            return Err(PlanError::refused(name, reason));
        }
        // With a figure that is not there no value would keep anything.
        for Objective { metric, .. } in &objectives {
            let job = &*first.experiment.job;
            metric.check_counted(job, &first.machines, &first.policies).map_err(wrong)?;
        }
        let range = self.range(&first)?;
        let end = self.possible(registry, &range, say)?;
        let fit = Fit {
            objectives,
            range: (range.from, range.to),
            grain: range.grain,
            within: self.within / 100.0,
            allows_kills: self.allow_kills,
        };
        Ok(FitPlan { options: self, registry, fit, range, end })
    }

    /// The plan of `compare`, at a value.
    fn at(
        &self,
        registry: &Registry,
        value: Option<String>,
        say: &mut Say<'_>,
    ) -> Result<RunPlan, PlanError> {
        let mut options = self.options.clone();
        options.settings.extend(value.map(|value| Said::of(SaidBy::Min, &self.min, &value)));
        let plan = only(registry, &options, say)?;
        Ok(RunPlan { tolerates_failures: true, ..plan })
    }

    /// The plan of a value of the range, the upper end's if it can be made. If none can, the key is wrong, or the whole
    /// range.
    fn possible(
        &self,
        registry: &Registry,
        range: &Range,
        say: &mut Say<'_>,
    ) -> Result<RunPlan, PlanError> {
        let mut value = range.to;
        let first = match self.at(registry, Some(range.text(value)), say) {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let mut values = vec![range.from];
        while value / 2 > range.from {
            value = value / 2 / range.grain * range.grain;
            values.push(value);
        }
        let mut plan_of = |value: &u64| self.at(registry, Some(range.text(*value)), say).ok();
        values.iter().find_map(&mut plan_of).ok_or(first)
    }

    fn range(&self, plan: &RunPlan) -> Result<Range, PlanError> {
        let nodes = plan.machines.iter().flat_map(|machine| &machine.machine.nodes);
        let pages: u64 = nodes.flat_map(|node| &node.zones).map(|zone| zone.present).sum();
        // Firmware's holes are smaller than a MiB.
        let memory = pages.div_ceil(256) * MIB;
        let key = Key::parse(&self.min).to_string();
        let is_group = is_size_of_group(&key);
        let is_memory = key == MEMORY || is_group;
        let number = |option: &str, text: &Option<String>, default: u64| {
            let Some(text) = text else {
                let reason = format!("from what to what? {option} is missing");
                let refused = || PlanError::refused(format!("--min {}", self.min), reason);
                return if is_memory { Ok((default, true)) } else { Err(refused()) };
            };
            if let Ok(number) = text.parse::<u64>() {
                return Ok((number, false));
            }
            let refused = |reason| Err(PlanError::refused(format!("{option} {text}"), reason));
            if let Some(percent) = text.strip_suffix('%') {
                return match percent.trim().parse::<f64>() {
                    _ if !is_memory => refused(format!(
                        "a share is of {MEMORY}; of {} say a size or a number",
                        self.min
                    )),
                    Ok(percent) if percent > 0.0 && percent <= PERCENT_MAX => {
                        Ok(((memory as f64 * percent / 100.0) as u64 / MIB * MIB, true))
                    }
                    _ => refused(format!(
                        "must be a share above 0%, at most {PERCENT_MAX}%, or a size"
                    )),
                };
            }
            let size = parse_size(text).map_err(|reason| PlanError::refused(option, reason));
            size.map(|size| (size, true))
        };
        // A group with more than the machine has is a group without a limit.
        let (least, most) = if is_group { (DEFAULT_RANGE.0, 1) } else { DEFAULT_RANGE };
        let (from, is_size) = number("--from", &self.from, memory / least / MIB * MIB)?;
        let (to, is_too) = number("--to", &self.to, memory * most / MIB * MIB)?;
        // No bytes are no blocks, events or percent either.
        let is_size = is_size || (from == 0 && is_too);
        if is_size != is_too {
            let reason = "one is a size, the other a number";
            return Err(PlanError::refused("--from and --to", reason));
        }
        if from >= to {
            return Err(PlanError::refused("--from", "must be below --to"));
        }
        Ok(Range { from, to, grain: if is_size { MIB } else { 1 }, is_size })
    }
}

/// True of a size among a job's settings of groups: `job.group.db.max`.
fn is_size_of_group(key: &str) -> bool {
    let last = key.strip_prefix("job.group.").and_then(|rest| rest.rsplit_once('.'));
    last.is_some_and(|(_, setting)| setting != "oom-group")
}

/// Values between which is searched.
#[derive(Clone, Copy, Debug)]
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

/// A search that can begin.
#[derive(Clone, Debug)]
pub struct FitPlan<'a> {
    options: &'a FitOptions,
    registry: &'a Registry,
    fit: Fit,
    range: Range,
    end: RunPlan,
}

impl FitPlan<'_> {
    /// The first plan that runs, that of the range's upper end if it can be made.
    pub const fn first(&self) -> &RunPlan {
        &self.end
    }

    /// A value as the setting has it: `512M`.
    pub fn text(&self, value: u64) -> String {
        self.range.text(value)
    }

    /// Runs the search. It calls `begin` before each value and reports that value's progress to the
    /// receiver that `begin` returns. Finished units are kept in the store.
    ///
    /// # Errors
    /// If an objective names what is not there, a run fails, or `stop` is set.
    pub fn run<P: Progress>(
        &self,
        store: Option<&Arc<UnitStore>>,
        say: &mut Say<'_>,
        begin: impl FnMut(&Place<'_>) -> P,
        stop: &AtomicBool,
    ) -> Result<Answer, PlanError> {
        let plan_at = |value| {
            let plan = self.options.at(self.registry, Some(self.text(value)), say);
            // With another value of the range it could be made.
            let plan = plan.map_err(|error| Refused::<PlanError>::Value(error.to_string()))?;
            Ok(RunPlan { units: store.map(Arc::clone), ..plan })
        };
        self.fit.run(plan_at, begin, stop).map_err(|error| match error {
            FitError::Objective(reason) => PlanError::refused("--slo", reason),
            FitError::Run(error) => error.into(),
            FitError::Other(error) => error,
        })
    }

    /// The values in order, and the answer. `words` are those of `compare` that run the job as the search does, for
    /// advice.
    pub fn table(&self, answer: &Answer, words: &str) -> Table {
        let (key, objectives) = (&self.options.min, &self.fit.objectives);
        let heads = ["smallest", "largest", "killed", "gave up", "seeds that keep it"];
        let texts: Vec<&str> = objectives.iter().map(|objective| &*objective.text).collect();
        let job = self.options.options.what.name();
        let title = format!("{job}: the least {key} that keeps {}", texts.join(" and "));
        // With one objective the title says whose. Several have a row each, which fits every page.
        let has_several = objectives.len() > 1;
        let labels: &[&str] = if has_several { &[key, "objective"] } else { &[key] };
        let heads = heads.map(str::to_owned).to_vec();
        let mut table = Table::new(title, labels, heads, Layout::Fitted);
        for point in &answer.points {
            for (at, objective) in objectives.iter().enumerate() {
                let figures = || point.figures.get(at).into_iter().flatten().copied();
                let known: Vec<f64> = figures().flatten().collect();
                let of = |fold: fn(f64, f64) -> f64| match known.iter().copied().reduce(fold) {
                    Some(value) => Cell::number(value, 2),
                    None => Cell::Missing,
                };
                let count = |count: u64| match point.refused {
                    None => Cell::number(count as f64, 0),
                    Some(_) => Cell::Missing,
                };
                let nr = match has_several {
                    true => figures().filter(|&value| objective.holds(value)).count(),
                    false => point.keeps.iter().filter(|&&keeps| keeps).count(),
                };
                let keeps = match point.refused {
                    None => Cell::text(format!("{nr} of {}", point.keeps.len())),
                    Some(_) => Cell::text("cannot start"),
                };
                let cells = vec![
                    of(f64::min),
                    of(f64::max),
                    count(point.killed()),
                    count(point.failed()),
                    keeps,
                ];
                let value = self.text(point.value);
                let labels = [&*value, &*objective.text];
                table.push(if has_several { &labels } else { &labels[..1] }, cells);
            }
        }
        table.notes.push(self.sentence(answer));
        table.notes.extend(self.not_monotone(answer, words));
        // Other figures are counts, rates or percent, as their names say.
        if objectives.iter().any(|objective| objective.metric.is_time()) {
            table.notes.push("times are in microseconds".to_owned());
        }
        let ended =
            |answer: &Answer| answer.points.iter().any(|point| point.killed() + point.failed() > 0);
        if self.fit.allows_kills && ended(answer) {
            let reason =
                "--allow-kills: tasks that were killed or gave up do not count against a value";
            table.notes.push(reason.to_owned());
        }
        table
    }

    /// The answer as a row, for tables of data: those have no notes.
    pub fn answer(&self, answer: &Answer, words: &str) -> Table {
        let (good, bad) = match answer.found {
            Found::Between { bad, good } => (Some(good), Some(bad)),
            Found::Least(value) => (Some(value), None),
            Found::Nothing(value) => (None, Some(value)),
        };
        let cell = |value: Option<u64>| match value {
            Some(value) if self.range.is_size => Cell::text(self.text(value)),
            Some(value) => Cell::number(value as f64, 0),
            None => Cell::Missing,
        };
        let heads = ["keeps it", "does not keep it", "in words", "not monotone"];
        let title = self.table(answer, words).title;
        let mut table =
            Table::new(title, &["row"], heads.map(str::to_owned).to_vec(), Layout::Fitted);
        let not_monotone = self.not_monotone(answer, words).map_or(Cell::Missing, Cell::text);
        let sentence = Cell::text(self.sentence(answer));
        table.push(&["answer"], vec![cell(good), cell(bad), sentence, not_monotone]);
        table
    }

    /// The answer in words.
    fn sentence(&self, answer: &Answer) -> String {
        let said = |value| self.text(value);
        let why = |value| self.why(answer, value);
        let key = &self.options.min;
        match answer.found {
            Found::Between { bad, good } => {
                format!("{} keeps it in every seed, {} does not{}", said(good), said(bad), why(bad))
            }
            Found::Least(value)
                if value == 0 || (value == 1 && Key::parse(key).to_string() == CPUS) =>
            {
                format!("{} keeps it already, and there is no less", said(value))
            }
            Found::Least(value) => {
                format!("{} keeps it already: --from could be less", said(value))
            }
            Found::Nothing(value) => {
                match answer.at(value).and_then(|point| point.refused.as_ref()) {
                    Some(reason) => {
                        let what =
                            format!("{key}={} does not keep it at the upper end", said(value));
                        format!("{what}: {reason}; choose a lower --to")
                    }
                    None => {
                        format!("not even {} keeps it in every seed{}", said(value), why(value))
                    }
                }
            }
        }
    }

    /// Why a value does not keep it.
    fn why(&self, answer: &Answer, value: u64) -> String {
        let why = answer.at(value).and_then(|point| point.why_not(&self.fit));
        why.map(|why| format!(": {why}")).unwrap_or_default()
    }

    /// Where more did worse: the value above the answer that does not keep it, and what to make of it.
    fn not_monotone(&self, answer: &Answer, words: &str) -> Option<String> {
        let (Found::Between { good, .. } | Found::Least(good)) = answer.found else { return None };
        let (bad, safe) = (answer.relapse()?.value, answer.from_here_on()?.value);
        let [from, middle, to] = [good, bad, safe].map(|value| self.text(value));
        let min = &self.options.min;
        let check = format!("highwater compare {words} --vary {min}={from},{middle},{to}");
        let seeds = match answer.points.iter().map(|point| point.keeps.len()).max() {
            Some(1) => "; one seed: --iterations 5 shows how much of it is chance",
            _ => "",
        };
        let why = self.why(answer, bad);
        Some(format!(
            "not monotone: {middle} does not keep it{why}; all that were tried from {to} on do; check with {check}{seeds}"
        ))
    }
}
