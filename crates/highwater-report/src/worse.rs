//! Operations that became worse by more than a limit, for programs that need yes or no.

use highwater_results::Document;
use thiserror::Error;

use crate::change::{Change, changes, missing};

/// Reasons why the question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WorseError {
    /// Each machine has only one run.
    #[error("one run of each machine; nothing is compared")]
    Alone,
    /// With only one seed there are no intervals.
    #[error("one seed: a change may be chance; use --iterations 2 at least, better 6")]
    OneSeed,
}

/// The operations of a document that are worse than the baseline by more than `limit_percent`, one
/// line each.
///
/// A mean counts if it is worse by more than the limit and the interval of its change excludes 0.
/// Differences and shares are measured against their wholes, as their metric declares.
///
/// Three cases are worse beyond every limit: a bad figure that rises from 0, a good figure that
/// falls to 0, and an operation that is missing. Counters without a direction never count, and
/// neither do operations that the run's kernel does not count.
///
/// # Errors
/// If there is nothing to compare, or only one seed, where chance would decide the answer.
pub fn worse(document: &Document, limit_percent: f64) -> Result<Vec<String>, WorseError> {
    if document.by_machine().iter().all(|(_, runs)| runs.len() < 2) {
        return Err(WorseError::Alone);
    }
    if document.iterations < 2 {
        return Err(WorseError::OneSeed);
    }
    let mut lines = Vec::new();
    for (machine, runs) in document.by_machine() {
        let Some((baseline, others)) = runs.split_first() else { continue };
        for metric in &document.metrics {
            for run in others {
                let place = match machine {
                    "" => String::new(),
                    machine => format!(" on {machine}"),
                };
                let mut tell = |operation: &str, words: &str| {
                    let (metric, label) = (&metric.name, &run.label);
                    let line = format!("{metric} {operation}{place}: {label}: {words}");
                    lines.push(format!("{line}, against {}", baseline.label));
                };
                for change in changes(metric, baseline, run, document.iterations) {
                    if is_worse(&change, limit_percent) {
                        tell(&change.operation, &change.words());
                    }
                }
                let is_counted = |operation: &String| !run.not_counted.contains(operation);
                for operation in missing(metric, baseline, run).into_iter().filter(is_counted) {
                    tell(&operation, "no samples");
                }
            }
        }
    }
    Ok(lines)
}

fn is_worse(change: &Change, limit_percent: f64) -> bool {
    let is_beyond = change.worse_by() > change.scale() * limit_percent / 100.0;
    change.is_judged() && (change.is_gone() || (change.matters() && is_beyond))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Better, Metric, Run, TableKind};

    fn worse(document: &Document, limit_percent: f64) -> Vec<String> {
        super::worse(document, limit_percent).unwrap()
    }

    fn document(better: Better, iterations: u32, after: f64, noise: f64) -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        document.iterations = iterations;
        document.metrics.push(Metric::new("m", "ms", better, TableKind::Multi));
        for (label, mean) in [("before", 100.0), ("after", after)] {
            let mut run = Run::new("small", label, label);
            for seed in 0..iterations {
                for n in 0..8u32 {
                    let offset = f64::from((n * 7 + seed * 3) % 5) - 2.0;
                    run.push("op", n, seed.into(), mean + noise * offset);
                }
            }
            document.runs.push(run);
        }
        document
    }

    #[test]
    fn only_what_is_worse_than_allowed_is_told() {
        let slower = document(Better::Lower, 3, 108.0, 1.0);
        assert_eq!(worse(&slower, 5.0), ["m op on small: after: worse 8.0%, against before"]);
        assert!(worse(&slower, 9.0).is_empty());
        assert!(worse(&document(Better::Higher, 3, 108.0, 1.0), 5.0).is_empty());
        assert_eq!(worse(&document(Better::Higher, 3, 90.0, 1.0), 5.0).len(), 1);
    }

    #[test]
    fn what_may_be_chance_is_not_worse_and_of_one_seed_nobody_can_tell() {
        assert!(worse(&document(Better::Lower, 3, 108.0, 40.0), 5.0).is_empty());
        let one_seed = document(Better::Lower, 1, 108.0, 1.0);
        assert_eq!(super::worse(&one_seed, 5.0), Err(WorseError::OneSeed));
        let mut alone = document(Better::Lower, 3, 108.0, 1.0);
        alone.runs.pop();
        assert_eq!(super::worse(&alone, 5.0), Err(WorseError::Alone));
    }

    /// The difference goes from -0.09 microseconds to 0; of 34 microseconds that is no change.
    #[test]
    fn parts_are_measured_by_what_they_are_parts_of() {
        let of = |after: f64, part_of: bool| {
            let mut document = document(Better::Lower, 3, 34.0, 0.001);
            document.runs[0].samples.iter_mut().for_each(|sample| sample.value -= 66.0);
            for (run, value) in document.runs.iter_mut().zip([-0.09, after]) {
                for seed in 0..3 {
                    run.push("part", 0, seed, value);
                    run.push("part", 1, seed, value + 0.001);
                }
            }
            if part_of {
                document.metrics[0].part_of.insert("part".to_owned(), "op".to_owned());
            }
            worse(&document, 5.0)
        };
        assert_eq!(of(0.0, false).len(), 1);
        assert!(of(0.0, true).is_empty());
        let told = ["m part on small: after: worse 6.2% of op, against before"];
        assert_eq!(of(2.01, true), told);
        let mut share = document(Better::Lower, 3, 0.3, 0.001);
        share.runs[0].samples.iter_mut().for_each(|sample| sample.value -= 99.9);
        assert_eq!(worse(&share, 5.0).len(), 1);
        share.metrics[0].whole = Some(100.0);
        assert!(worse(&share, 5.0).is_empty());
    }

    /// Two means that differ only below the printed decimals.
    #[test]
    fn what_prints_as_nothing_is_not_worse() {
        assert!(worse(&document(Better::Lower, 3, 100.04, 0.0001), 0.0).is_empty());
        assert_eq!(worse(&document(Better::Lower, 3, 100.06, 0.0001), 0.0).len(), 1);
    }

    #[test]
    fn what_is_gone_is_worse() {
        let gone = |better, iterations| {
            let mut document = document(better, iterations, 100.0, 1.0);
            document.runs[1].samples.iter_mut().for_each(|sample| sample.value = 0.0);
            worse(&document, 1e6)
        };
        let told = ["m op on small: after: worse, to 0, against before"];
        assert_eq!(gone(Better::Higher, 3), told);
        assert!(gone(Better::Lower, 3).is_empty());
        let mut missing = document(Better::Lower, 3, 50.0, 1.0);
        missing.runs[1].samples.clear();
        assert_eq!(worse(&missing, 5.0), ["m op on small: after: no samples, against before"]);
    }

    #[test]
    fn below_nothing_less_is_still_less() {
        let below = |before: f64, after: f64| {
            let mut document = document(Better::Lower, 3, 0.0, 0.01);
            for (run, mean) in document.runs.iter_mut().zip([before - 100.0, after]) {
                run.samples.iter_mut().for_each(|sample| sample.value += mean);
            }
            worse(&document, 5.0)
        };
        assert_eq!(below(-10.0, -2.0), ["m op on small: after: worse 80.0%, against before"]);
        assert!(below(-2.0, -10.0).is_empty());
    }

    #[test]
    fn samples_that_hang_together_are_judged_by_seeds_or_not_at_all() {
        let mut other = document(Better::Lower, 3, 108.0, 1.0);
        other.metrics[0].table = TableKind::VariableTime;
        assert_eq!(worse(&other, 5.0).len(), 1);
        other.runs[1].samples.iter_mut().for_each(|sample| sample.seed += 100);
        assert!(worse(&other, 5.0).is_empty(), "no seed of both");
    }

    #[test]
    fn something_from_nothing_is_beyond_every_limit() {
        let mut from_nothing = document(Better::Lower, 2, 1.0, 0.0);
        from_nothing.runs[0].samples.iter_mut().for_each(|sample| sample.value = 0.0);
        assert_eq!(
            worse(&from_nothing, 1e6),
            ["m op on small: after: worse, from 0, against before"]
        );
    }
}
