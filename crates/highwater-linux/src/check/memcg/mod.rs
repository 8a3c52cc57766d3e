//! `memcg` files: what a script of operations in memory cgroups did to the counters of a real
//! machine and of each group.
//!
//! The model builds the captured machine, runs the same script with the same workers, and compares
//! every step:
//!
//! | figure | agrees within |
//! |---|---|
//! | counters of `/proc/vmstat` | max(10 %, distance of the real runs, 256 events) |
//! | `memory.current`, `memory.swap.current`, levels of `memory.stat` | the same, in pages |
//! | events of `memory.stat`, `memory.events{,.local}`, `memory.swap.events` | the same |
//! | OOM events and kills | exact, or between the real runs |
//! | sleeps of `memory.high` | the same, in milliseconds |
//! | `memory.pressure` of a step in which the group slept for `memory.high` | max(10 %, distance of the real runs), in milliseconds |
//!
//! Operations begin when they began on Linux. For kernels that compare late statistics, those of the
//! workers last at least as long as on Linux, too ([`desk::Pace`]); these times are input and are not
//! compared.
//!
//! Figures that are 0 in Linux and in the model are left out. Dirty pages and the split between
//! kswapd and direct reclaim depend on speeds: they are reported and not judged. An operation that
//! is not modelled ends the script; the steps before it are compared. Pressure without sleeps is
//! left out: reclaim takes the time of the emulated CPU.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the main program |
//! | [`worker`], [`desk`] | a worker, and how it gets its operations |
//! | [`files`] | files and directories |
//! | [`items`] | the figures of a group |

mod desk;
mod files;
mod items;
mod run;
mod worker;

use highwater_results::Counters;
use highwater_results::import::linux61::{Memcg as Captured, MemcgStep, Op, Work};
use highwater_runs::workload::job::steps::{self, COUNTERS};

use super::{CheckOptions, Figure, FileResult, Limit, kernels};
use highwater_files::input::InputError;
use items::{GroupNow, Judged, Source};
use run::Reading;

/// Counters of `/proc/vmstat` beside [`COUNTERS`]; a name with a plus is a sum.
const MORE_COUNTERS: &[&str] = &[
    "allocstall_dma+allocstall_dma32+allocstall_normal+allocstall_movable",
    "slabs_scanned",
    "pgscan_proactive",
    "pgsteal_proactive",
];
/// A figure agrees within this share of the real mean ...
const SHARE: f64 = 0.10;
/// ... and always within this many events or pages.
const EVENTS: f64 = super::scenario::EVENTS;

/// A page that took so long is a sleep of `memory.high`: shorter delays are not slept.
const SLEEP_MS: f64 = 10.0;

/// Runs the script on the captured machine and compares.
///
/// # Errors
/// If such a machine or script cannot exist.
pub fn check(
    file: &str,
    captured: &Captured,
    options: CheckOptions,
) -> Result<FileResult, InputError> {
    let more = match captured.has_recursive_protection() {
        true => "memcg.recursive-prot = true\n",
        false => "",
    };
    let Some((policy, policy_note)) = kernels::policy(&captured.kernel, &captured.settings, more)?
    else {
        let why = format!("there is no policy for the kernel {:?}", captured.kernel);
        return Ok(super::not_checked(file, super::MEMCG, &why));
    };
    let mut notes = Vec::from_iter(policy_note);
    let unmodelled = captured.script.iter().position(|line| not_modelled(&line.op).is_some());
    let nr_ops = unmodelled.unwrap_or(captured.script.len());
    let snaps = captured.script[..nr_ops].iter().filter(|line| matches!(line.op, Op::Snap(_)));
    let nr_steps = snaps.count().saturating_sub(1);
    if let Some(at) = unmodelled {
        let line = &captured.script[at];
        let what = not_modelled(&line.op).unwrap_or_default();
        let why = format!("{what} ({}) are not modelled", line.text);
        if nr_steps == 0 {
            return Ok(super::not_checked(file, super::MEMCG, &why));
        }
        notes.push(format!("{why}: only the steps before are compared"));
    }
    let runs = run::runs(file, captured, &policy, nr_ops, options.idle_ns)?;
    let mut figures = Vec::new();
    for index in 0..nr_steps {
        let step = Compared::new(captured, index, &runs);
        figures.extend(step.counters());
        figures.extend(step.groups(&mut notes));
        figures.extend(step.sleeps());
        figures.extend(step.pressure());
        step.outcomes(&mut notes);
    }
    let (file, kind) = (file.to_owned(), super::MEMCG.to_owned());
    Ok(FileResult { file, kind, figures, not_checked: None, notes })
}

/// A word for operations that the model does not have.
fn not_modelled(op: &Op) -> Option<&'static str> {
    match op {
        Op::Work { work: Work::Negative { .. }, .. } => Some("negative dentries"),
        _ => None,
    }
}

/// A step of the real runs, and of the model's.
struct Compared<'a> {
    captured: &'a Captured,
    label: &'a str,
    real: Vec<&'a MemcgStep>,
    /// Readings before and after.
    model: Vec<(&'a Reading, &'a Reading)>,
}

impl<'a> Compared<'a> {
    fn new(captured: &'a Captured, index: usize, runs: &'a [Vec<Reading>]) -> Self {
        let real: Vec<&MemcgStep> = captured.runs.iter().map(|run| &run.steps[index]).collect();
        let model = runs.iter().map(|readings| (&readings[index], &readings[index + 1])).collect();
        Compared { captured, label: &real[0].label, real, model }
    }

    fn figure(&self, name: &str, judged: Judged, real: &[f64], model: &[f64]) -> Option<Figure> {
        if real.iter().chain(model).all(|&value| value == 0.0) {
            return None;
        }
        let field = format!("{} {name}", self.label);
        let (real, model) = (mean_and_spread(real), mean_and_spread(model));
        Some(match judged {
            Judged::Exactly => {
                let agrees = (model.0 - real.0).abs() <= real.1 / 2.0 && model.1 <= real.1;
                let (real, model) = (with_spread(real), with_spread(model));
                let (limit, only_by_events) = (Limit::Exact, false);
                Figure { field, real, model, limit, agrees, only_by_events }
            }
            Judged::Near | Judged::Not => near(field, real, model, EVENTS),
        })
    }

    fn counters(&self) -> Vec<Figure> {
        let change = |(before, after): &(&Reading, &Reading), key: &str| {
            steps::sum(&Counters::difference(&before.counters, &after.counters), key) as f64
        };
        let real = |step: &MemcgStep, key: &str| -> f64 {
            key.split('+').map(|name| step.counters.get(name).copied().unwrap_or(0) as f64).sum()
        };
        let keys = COUNTERS.iter().chain(MORE_COUNTERS);
        let figures = keys.filter_map(|key| {
            let reals: Vec<f64> = self.real.iter().map(|step| real(step, key)).collect();
            let models: Vec<f64> = self.model.iter().map(|pair| change(pair, key)).collect();
            let name = if key.starts_with("allocstall") { "allocstall" } else { key };
            self.figure(name, Judged::Near, &reals, &models)
        });
        figures.collect()
    }

    /// Figures of every group; figures that are not judged go to the notes.
    fn groups(&self, notes: &mut Vec<String>) -> Vec<Figure> {
        let mut figures = Vec::new();
        for path in self.real[0].groups.keys() {
            let mut unjudged = Vec::new();
            for source in items::all(path) {
                let (reals, models) = self.values(path, source);
                let (name, judged) = (format!("{path}: {}", source.name()), source.judged());
                match self.figure(&name, judged, &reals, &models) {
                    Some(figure) if judged == Judged::Not => {
                        let (name, real, model) = (source.name(), figure.real, figure.model);
                        unjudged.push(format!("{name} Linux {real}, model {model}"));
                    }
                    figure => figures.extend(figure),
                }
            }
            if !unjudged.is_empty() {
                notes.push(format!("{} {path}: {}", self.label, unjudged.join("; ")));
            }
            self.dying(path, notes);
        }
        figures
    }

    fn values(&self, path: &str, source: Source) -> (Vec<f64>, Vec<f64>) {
        let real = self.real.iter().map(|step| {
            step.groups.get(path).map_or(0.0, |reading| items::real(reading, source) as f64)
        });
        let model = self.model.iter().map(|(before, after)| {
            let value =
                |reading: &Reading| reading.groups.get(path).map_or(0, |group| group.value(source));
            let begin = if source.is_level() { 0 } else { value(before) };
            (value(after) - begin) as f64
        });
        (real.collect(), model.collect())
    }

    /// A remark if the numbers of removed groups that still hold memory differ.
    fn dying(&self, path: &str, notes: &mut Vec<String>) {
        let real = self.real.iter().map(|step| {
            step.groups.get(path).map_or(0.0, |reading| reading.dying_descendants as f64)
        });
        let model = self
            .model
            .iter()
            .map(|(_, after)| after.groups.get(path).map_or(0.0, |group| group.nr_dying as f64));
        let (real, model): (Vec<f64>, Vec<f64>) = (real.collect(), model.collect());
        let (real, model) = (mean_and_spread(&real), mean_and_spread(&model));
        if real.0 != model.0 {
            let (real, model) = (with_spread(real), with_spread(model));
            notes.push(format!(
                "{} {path}: removed groups that hold memory: Linux {real}, model {model}",
                self.label
            ));
        }
    }

    /// Milliseconds of the sleeps of operations with a time limit. A killed worker reports none.
    fn sleeps(&self) -> Option<Figure> {
        let real = self.real.iter().map(|step| {
            // Without a voluntary switch the CPU was busy, or the emulator was.
            let ops = step.ops.iter().filter(|op| op.nvcsw > 0);
            let sleeps = ops.flat_map(|op| &op.sleeps_ms).filter(|(_, ms)| *ms >= SLEEP_MS);
            sleeps.fold(0.0, |sum, (_, ms)| sum + ms)
        });
        let model = self.model.iter().map(|(_, after)| {
            let living = after.done.iter().filter(|(_, outcome)| !outcome.is_killed);
            living.fold(0.0, |sum, (_, outcome)| sum + outcome.slept_ms)
        });
        let (real, model): (Vec<f64>, Vec<f64>) = (real.collect(), model.collect());
        self.figure("sleeps, ms", Judged::Near, &real, &model)
    }

    /// Totals of `memory.pressure`, in milliseconds, of groups whose stalls are sleeps for
    /// `memory.high`. Other stalls take the time of an emulated CPU, which is no figure.
    fn pressure(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for path in self.real[0].groups.keys().filter(|path| *path != items::ROOT) {
            let added = |of: &dyn Fn(&GroupNow) -> f64| -> Vec<f64> {
                let value = |reading: &Reading| reading.groups.get(path).map_or(0.0, of);
                self.model.iter().map(|(before, after)| value(after) - value(before)).collect()
            };
            if added(&|group| group.slept_ms).iter().all(|&ms| ms == 0.0) {
                continue;
            }
            for (at, line) in ["some", "full"].into_iter().enumerate() {
                let real = |step: &&MemcgStep| {
                    let us = step.groups.get(path).and_then(|group| group.pressure_us.get(line));
                    us.copied().unwrap_or(0) as f64 / 1e3
                };
                let real: Vec<f64> = self.real.iter().map(real).collect();
                let model = added(&|group| group.pressure_ms[at]);
                let field = format!("{} {path}: memory.pressure {line}, ms", self.label);
                figures.push(near(field, mean_and_spread(&real), mean_and_spread(&model), 0.0));
            }
        }
        figures
    }

    /// Remarks about workers that ended in one of both only, and calls that failed.
    fn outcomes(&self, notes: &mut Vec<String>) {
        let Some((_, after)) = self.model.first() else { return };
        for (at, outcome) in &after.done {
            let text = &self.captured.script[*at].text;
            let Some(real) = self.real[0].ops.iter().find(|op| op.op == *text) else { continue };
            let mut note = |what: &str, by_linux: bool, by_model: bool| {
                if by_linux != by_model {
                    let only = if by_linux { "Linux" } else { "the model" };
                    notes.push(format!("{}: {text}: {what} in {only} only", self.label));
                }
            };
            let is_gone = real.killed.is_some() || real.note.is_some();
            note("the worker is gone", is_gone, outcome.is_killed || outcome.is_dead);
            let has_failed = real.errno.is_some_and(|errno| errno != 0)
                || real.result.is_some_and(|done| done < 0);
            note("failed", has_failed, outcome.failed.is_some());
        }
    }
}

fn near(field: String, real: (f64, f64), model: (f64, f64), events: f64) -> Figure {
    // The relative limit, and the absolute one.
    let relative = (real.0.abs() * SHARE).max(real.1);
    let (limit, distance) = (relative.max(events), (model.0 - real.0).abs());
    Figure {
        field,
        real: with_spread(real),
        model: with_spread(model),
        limit: Limit::Distance(limit),
        agrees: distance <= limit,
        only_by_events: distance <= limit && distance > relative,
    }
}

/// Mean, and distance between the extremes.
fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), &v| (l.min(v), h.max(v)));
    (mean, (high - low).max(0.0))
}

fn with_spread((mean, spread): (f64, f64)) -> String {
    if spread > 0.0 { format!("{mean:.0} (±{:.0})", spread / 2.0) } else { format!("{mean:.0}") }
}
