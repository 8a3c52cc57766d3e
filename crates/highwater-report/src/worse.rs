//! What got worse by more than somebody allows: for programs that have to say yes or no.

use highwater_results::{Better, Document};

use crate::verdict::{Change, changes, missing, words};

/// What of a document is worse than its baseline by more than `limit_percent`, one line each.
///
/// A mean counts that is worse by more than the limit, and not by chance: the interval of its change does not hold 0. With
/// one seed there are no intervals, and the mean alone decides. From nothing to something bad, to nothing of something
/// good, and what is not there any more is worse beyond every limit.
pub fn worse(document: &Document, limit_percent: f64) -> Vec<String> {
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
                    if is_worse(metric.better, &change, limit_percent, document.iterations) {
                        let words = words(metric.better, change.before, change.after);
                        tell(&change.operation, &words);
                    }
                }
                for operation in missing(metric, baseline, run) {
                    tell(&operation, "no samples");
                }
            }
        }
    }
    lines
}

fn is_worse(better: Better, change: &Change, limit_percent: f64, iterations: u32) -> bool {
    if better == Better::Higher && change.after == 0.0 && change.before > 0.0 {
        return true;
    }
    let is_certain = change.matters() || (change.interval.is_none() && iterations < 2);
    // How much of a bad thing there is more, of a good thing less.
    let (before, after) = (change.before, change.after);
    let worse_by = match better {
        Better::Lower => after - before,
        Better::Higher => before - after,
    };
    is_certain && worse_by > before.abs() * limit_percent / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Metric, Run, TableKind};

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
    fn what_may_be_chance_is_not_worse_unless_there_is_nothing_else_to_go_by() {
        assert!(worse(&document(Better::Lower, 3, 108.0, 40.0), 5.0).is_empty());
        assert_eq!(worse(&document(Better::Lower, 1, 108.0, 40.0), 5.0).len(), 1);
    }

    #[test]
    fn what_is_gone_is_worse() {
        let gone = |better, iterations| {
            let mut document = document(better, iterations, 100.0, 1.0);
            document.runs[1].samples.iter_mut().for_each(|sample| sample.value = 0.0);
            worse(&document, 1e6)
        };
        for iterations in [1, 3] {
            let told = ["m op on small: after: worse, to 0, against before"];
            assert_eq!(gone(Better::Higher, iterations), told);
            assert!(gone(Better::Lower, iterations).is_empty());
        }
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
        let mut from_nothing = document(Better::Lower, 1, 1.0, 0.0);
        from_nothing.runs[0].samples.iter_mut().for_each(|sample| sample.value = 0.0);
        assert_eq!(
            worse(&from_nothing, 1e6),
            ["m op on small: after: worse, from 0, against before"]
        );
    }
}
