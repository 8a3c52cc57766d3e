//! Objectives: a metric and a bound.

use highwater_results::{Document, Run};

use crate::metric::MetricName;
use highwater_runs::workload::job::FIGURES;

/// A condition on a job's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Which figure.
    pub metric: MetricName,
    /// It has to be below the bound; else above.
    pub is_below: bool,
    /// The bound, in the figure's unit: microseconds, operations a second, faults.
    pub bound: f64,
    /// The text as written.
    pub text: String,
}

impl Objective {
    /// Parses `reader.get.p99<5ms`.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn parse(text: &str) -> Result<Objective, String> {
        let is_below = text.contains('<');
        let form = || format!("\"{text}\" is no objective, as \"reader.get.p99<5ms\" is");
        let (left, right) = text.split_once(['<', '>']).ok_or_else(form)?;
        let (left, right) = (left.trim(), right.trim());
        if left.is_empty() || FIGURES.contains(&left.trim_start_matches('.')) {
            return Err(form());
        }
        let metric = MetricName::new(left);
        if !metric.may_be_of_job() {
            let known = FIGURES.join(", ");
            let or = "or a counter of /proc/vmstat";
            return Err(match metric.nearest().as_slice() {
                [] => format!("\"{left}\": which figure of an operation? There are {known}; {or}"),
                near => {
                    let near = near.join(" or ");
                    let is_none = format!("\"{left}\" is no figure; did you mean {near}?");
                    format!("{is_none} Of an operation there are {known}; {or}")
                }
            });
        }
        let bound = match metric.is_time() {
            true => microseconds(right),
            false => right.parse().ok(),
        };
        let wanted = if metric.is_time() { "a time, as 5ms" } else { "a number" };
        let bound = bound.filter(|bound: &f64| bound.is_finite() && *bound >= 0.0);
        let bound = bound.ok_or_else(|| format!("\"{right}\" is not {wanted}"))?;
        Ok(Objective { metric, is_below, bound, text: text.to_owned() })
    }

    /// The metric in each seed of a run; `None` in a seed without a value.
    ///
    /// # Errors
    /// If no operation has that name, or several match.
    pub fn values(&self, document: &Document, run: &Run) -> Result<Vec<Option<f64>>, String> {
        self.metric.values(document, run)
    }

    /// Whether the objective holds with this value. Without a value (no operation ended) it does
    /// not.
    pub fn holds(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| match self.is_below {
            true => value < self.bound,
            false => value > self.bound,
        })
    }
}

/// Microseconds of a time with a unit.
fn microseconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    number.trim().parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let parsed = Objective::parse("reader.get.p99.9 < 5ms").unwrap();
        assert_eq!(parsed.metric.of_operation(), Some(("reader.get", "p99.9")));
        assert_eq!((parsed.is_below, parsed.bound), (true, 5000.0));
        let rate = Objective::parse("reader.rate>1000").unwrap();
        assert_eq!((rate.metric.of_operation(), rate.is_below), (Some(("reader", "rate")), false));
        assert!(rate.holds(Some(1001.0)) && !rate.holds(Some(1000.0)) && !rate.holds(None));
        assert_eq!(Objective::parse("pgmajfault.rate<10").unwrap().bound, 10.0);
        let wrong = |text: &str| Objective::parse(text).unwrap_err();
        assert!(wrong("reader.get.p99").contains("is no objective"));
        assert!(wrong("p99<5ms").contains("is no objective"));
        assert!(wrong("reader.get.p42<5ms").contains("which figure"));
        let counter = wrong("pgfaul<5");
        assert!(
            counter.starts_with("\"pgfaul\" is no figure; did you mean pgfault or "),
            "{counter}"
        );
        let rate = wrong("pgfault+pgmajfaul.rate<5");
        assert!(rate.contains("did you mean pgfault+pgmajfault.rate"), "{rate}");
        let figure = wrong("reader.get.p9.99<5ms");
        assert!(figure.contains("did you mean reader.get.p99.9"), "{figure}");
        assert!(!wrong("reader.get.zzz<5").contains("did you mean"));
        assert_eq!(wrong("reader.get.p99<5"), "\"5\" is not a time, as 5ms");
        assert_eq!(wrong("reader.rate>fast"), "\"fast\" is not a number");
    }
}
