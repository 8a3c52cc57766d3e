//! What got worse by more than somebody allows: for programs that have to say yes or no.

use highwater_results::{Better, Document};

use crate::verdict::{Change, changes, words};

/// What of a document is worse than its baseline by more than `limit_percent`, one line each.
///
/// A mean counts that is worse by more than the limit, and for certain: where there is an interval of its change, that
/// does not hold 0. From nothing to something bad is worse beyond every limit.
pub fn worse(document: &Document, limit_percent: f64) -> Vec<String> {
    let mut lines = Vec::new();
    for (machine, runs) in document.by_machine() {
        let Some((baseline, others)) = runs.split_first() else { continue };
        for metric in &document.metrics {
            for run in others {
                let all = changes(metric, baseline, run, document.iterations);
                for change in all.iter().filter(|c| is_worse(metric.better, c, limit_percent)) {
                    let place = match machine {
                        "" => String::new(),
                        machine => format!(" on {machine}"),
                    };
                    lines.push(format!(
                        "{} {}{place}: {}: {}, against {}",
                        metric.name,
                        change.operation,
                        run.label,
                        words(metric.better, change.before, change.after),
                        baseline.label
                    ));
                }
            }
        }
    }
    lines
}

fn is_worse(better: Better, change: &Change, limit_percent: f64) -> bool {
    let is_certain = change.interval.is_none() || change.matters();
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
    fn something_from_nothing_is_beyond_every_limit() {
        let mut from_nothing = document(Better::Lower, 1, 1.0, 0.0);
        from_nothing.runs[0].samples.iter_mut().for_each(|sample| sample.value = 0.0);
        assert_eq!(
            worse(&from_nothing, 1e6),
            ["m op on small: after: worse, from 0, against before"]
        );
    }
}
