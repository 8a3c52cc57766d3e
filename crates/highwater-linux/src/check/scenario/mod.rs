//! `scenario` files: a small program's effect on the counters of a real Linux 6.1.
//!
//! The model builds the captured machine, fills its memory as captured, runs the same program, and
//! compares the key counters of every step. A counter agrees if the mean of the model's runs is
//! near the real mean. The limit is the largest of 10 % of the real mean, the distance between the
//! real runs, and 256 events. The split between kswapd and direct reclaim depends on speeds, so it
//! is reported and not judged. Counters of each node, if recorded, are judged by the same rule. If
//! each real run had its own machine (KASLR moves the kernel at boot), the model runs on each of
//! them, and means are compared with means.
//!
//! No code here knows a particular file: program, sizes, machine and policy come from its fields.
//! The program is the job of that name (`workloads/`), and the file sets its variables.

mod simulate;

use highwater_core::config::Policy;
use highwater_results::Counters;
use highwater_results::import::linux61::{Scenario as Captured, Step as RealStep};

use super::{Figure, FileResult, Limit, kernels};
use highwater_files::input::InputError;
use highwater_files::policy_file;
use highwater_plan::experiment::job_with;
use highwater_runs::workload::job::steps::{self, COUNTERS};

/// The same per node, if the file has them: `numastat`, and the [`COUNTERS`] of its `vmstat`.
const NODE_KEYS: &[&str] = &[
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "interleave_hit",
    "local_node",
    "other_node",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_activate_anon",
    "workingset_activate_file",
    "workingset_restore_anon",
    "workingset_restore_file",
    "nr_dirtied",
    "nr_written",
];
/// Reported beside, not judged.
const SPLIT: &[&str] = &["pgscan_kswapd", "pgscan_direct", "pgsteal_kswapd", "pgsteal_direct"];
/// A counter agrees within this share of the real mean ...
const SHARE: f64 = 0.10;
/// ... and always within this many events.
pub(super) const EVENTS: f64 = 256.0;

/// Counter changes of one step.
pub(super) struct Step {
    label: String,
    counters: Counters,
    /// Of each node, by number.
    nodes: Vec<Counters>,
}

/// Runs the program on the captured machine and compares.
///
/// # Errors
/// If such a machine or program cannot exist.
pub fn check(file: &str, captured: &Captured) -> Result<FileResult, InputError> {
    let field = |field: &str, reason: String| InputError {
        file: file.to_owned(),
        line: None,
        field: Some(field.to_owned()),
        reason,
    };
    let program = match job_with(&captured.scenario, &captured.params) {
        Ok(Some(program)) => program,
        Ok(None) => {
            let reason = format!("no job \"{}\" that captured files name", captured.scenario);
            return Ok(super::not_checked(file, super::SCENARIO, &reason));
        }
        Err(reason) => return Err(field("params", reason)),
    };
    let Some((policy, policy_note)) = policy(file, captured)? else {
        let why = format!("there is no policy for the kernel {:?}", captured.kernel);
        return Ok(super::not_checked(file, super::SCENARIO, &why));
    };
    let runs = simulate::runs(file, captured, &program, &policy)?;
    let mut figures = Vec::new();
    let mut notes = Vec::from_iter(policy_note);
    for (index, real) in captured.runs[0].steps.iter().enumerate() {
        let step: Vec<&Step> = runs.iter().filter_map(|steps| steps.get(index)).collect();
        let Some(first) = step.first() else {
            return Err(field(
                "runs",
                format!("step {}: the program has no such step", real.label),
            ));
        };
        if first.label != real.label {
            let reason =
                format!("step {index} is \"{}\", the program's is \"{}\"", real.label, first.label);
            return Err(field("runs", reason));
        }
        figures.extend(
            COUNTERS.iter().map(|key| compare(captured, index, &step, Place::Machine, key)),
        );
        for node in &real.nodes {
            let place = Place::Node(node.id);
            figures.extend(NODE_KEYS.iter().map(|key| compare(captured, index, &step, place, key)));
        }
        notes.extend(split(captured, index, &step));
    }
    let (file, kind) = (file.to_owned(), super::SCENARIO.to_owned());
    Ok(FileResult { file, kind, figures, not_checked: None, notes })
}

/// The captured kernel's, with the rules that the file says it had.
fn policy(file: &str, captured: &Captured) -> Result<Option<(Policy, Option<String>)>, InputError> {
    let mut text = String::new();
    for (rule, choice) in &captured.policy {
        let key = rule.replace('_', "-");
        let Some(path) = policy_file::path_of(&key) else {
            return Err(InputError {
                file: file.to_owned(),
                line: None,
                field: Some(format!("policy.{rule}")),
                reason: "no such rule".to_owned(),
            });
        };
        text += &format!("{path} = {choice:?}\n");
    }
    kernels::policy(&captured.kernel, &captured.settings, &text).map_err(|error| InputError {
        file: file.to_owned(),
        line: None,
        field: Some("policy".to_owned()),
        reason: error.reason,
    })
}

/// The scope of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Machine,
    Node(u32),
}

/// The sum of a key's counters in the real runs' steps.
fn real_values(captured: &Captured, step: usize, place: Place, key: &str) -> Vec<f64> {
    let of_step = |step: &RealStep| -> i64 {
        let counters = match place {
            Place::Machine => Some(&step.counters),
            Place::Node(id) => step.nodes.iter().find(|node| node.id == id).map(|n| &n.counters),
        };
        let of = |name: &str| counters.and_then(|c| c.get(name)).copied().unwrap_or(0);
        key.split('+').map(of).sum()
    };
    let runs = captured.runs.iter().filter_map(|run| run.steps.get(step));
    runs.map(|step| of_step(step) as f64).collect()
}

/// The sum of a key's counters in the same step of the model's runs.
fn model_values(steps: &[&Step], place: Place, key: &str) -> Vec<f64> {
    let of_step = |step: &Step| -> i64 {
        let counters = match place {
            Place::Machine => Some(&step.counters),
            Place::Node(id) => step.nodes.get(id as usize),
        };
        counters.map_or(0, |counters| steps::sum(counters, key))
    };
    steps.iter().map(|step| of_step(step) as f64).collect()
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

fn compare(captured: &Captured, index: usize, steps: &[&Step], place: Place, key: &str) -> Figure {
    let (mean, spread) = mean_and_spread(&real_values(captured, index, place, key));
    let model = mean_and_spread(&model_values(steps, place, key));
    // The relative limit, and the absolute one.
    let relative = (mean.abs() * SHARE).max(spread);
    let (limit, distance) = (relative.max(EVENTS), (model.0 - mean).abs());
    Figure {
        field: match place {
            Place::Machine => format!("{} {key}", steps[0].label),
            Place::Node(id) => format!("{} node {id} {key}", steps[0].label),
        },
        real: with_spread((mean, spread)),
        model: with_spread(model),
        limit: Limit::Distance(limit),
        agrees: distance <= limit,
        only_by_events: distance <= limit && distance > relative,
    }
}

/// Prints whether kswapd or tasks reclaimed: one line per step with reclaim.
fn split(captured: &Captured, index: usize, steps: &[&Step]) -> Option<String> {
    let mut words = Vec::new();
    for key in SPLIT {
        let (real, _) = mean_and_spread(&real_values(captured, index, Place::Machine, key));
        let (model, _) = mean_and_spread(&model_values(steps, Place::Machine, key));
        if real > 0.0 || model > 0.0 {
            words.push(format!("{key} Linux {real:.0}, model {model:.0}"));
        }
    }
    (!words.is_empty()).then(|| format!("{}: {}", steps[0].label, words.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_agrees_within_the_largest_of_three_distances() {
        let text =
            r#"{"label": "s", "elapsed_s": 1.0, "counters": {"pgpgin": 10000}, "gauges": {}}"#;
        let step: highwater_results::import::linux61::Step =
            serde_json::from_str(text).expect("a step");
        let run = highwater_results::import::linux61::Run {
            start_gauges: Default::default(),
            zones: Vec::new(),
            start_nodes: Vec::new(),
            steps: vec![step.clone()],
        };
        let mut other = run.clone();
        other.steps[0].counters.insert("pgpgin".to_owned(), 14_000);
        let figure = |runs: Vec<highwater_results::import::linux61::Run>, key: &str, model: i64| {
            let captured = Captured {
                runs,
                ..serde_json::from_str(include_str!(
                    "../../../../../reference/linux-6.1/scenarios/cyclic-0.8.json"
                ))
                .expect("a scenario")
            };
            let mut counters = Counters::default();
            counters.set(key, model);
            {
                let step = Step { label: "s".to_owned(), counters, nodes: Vec::new() };
                compare(&captured, 0, &[&step], Place::Machine, key)
            }
        };
        let verdict = |runs, key: &str, model| figure(runs, key, model).agrees;
        // 10 % of one run.
        assert!(verdict(vec![run.clone()], "pgpgin", 11_000));
        assert!(!verdict(vec![run.clone()], "pgpgin", 11_001));
        // 4,000 between two runs around 12,000.
        assert!(verdict(vec![run.clone(), other.clone()], "pgpgin", 8_000));
        assert!(!verdict(vec![run.clone(), other], "pgpgin", 7_999));
        // 256 events are allowed where Linux had none.
        assert!(verdict(vec![run.clone()], "pswpin", 256));
        assert!(!verdict(vec![run.clone()], "pswpin", 257));
        // This is marked separately from figures within the relative limit.
        let by_events = |key: &str, model| figure(vec![run.clone()], key, model).only_by_events;
        assert!(by_events("pswpin", 256) && !by_events("pswpin", 0));
        assert!(!by_events("pswpin", 257) && !by_events("pgpgin", 11_000));
    }
}
