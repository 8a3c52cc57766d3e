//! The least of something that keeps an objective: how much memory does this job need?
//!
//! An [`Objective`] is an operation's figure and a bound (`reader.get.p99<5ms`); [`search`] halves a range until it is
//! narrow. Every point runs the same seeds, and counts as good only if every seed is.

use highwater_results::Document;

use crate::workload::job::FIGURES;

/// What has to hold of a job's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Task and operation; of a task with one operation the task alone.
    pub operation: String,
    /// Which of its figures: `p99`, `rate`.
    pub figure: &'static str,
    /// It has to be below the bound; else above.
    pub is_below: bool,
    /// The bound, in the figure's unit: microseconds, operations a second, faults.
    pub bound: f64,
    /// As it was written.
    pub text: String,
}

impl Objective {
    /// Reads `reader.get.p99<5ms`.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn parse(text: &str) -> Result<Objective, String> {
        let is_below = text.contains('<');
        let form = || format!("\"{text}\" is no objective, as \"reader.get.p99<5ms\" is");
        let (left, right) = text.split_once(['<', '>']).ok_or_else(form)?;
        let (left, right) = (left.trim(), right.trim());
        // The longest that fits: p99.9 ends with a figure, too.
        let fits = |figure: &&&str| left.strip_suffix(**figure).is_some_and(|l| l.ends_with('.'));
        let figure = FIGURES.iter().filter(fits).max_by_key(|figure| figure.len());
        let Some(&figure) = figure else {
            let known = FIGURES.join(", ");
            return Err(format!("\"{left}\": which figure of an operation? There are {known}"));
        };
        let operation = left[..left.len() - figure.len() - 1].to_owned();
        if operation.is_empty() {
            return Err(form());
        }
        let is_time = figure.starts_with('p') || figure == "max";
        let bound = match is_time {
            true => microseconds(right),
            false => right.parse().ok(),
        };
        let wanted = if is_time { "a time, as 5ms" } else { "a number" };
        let bound = bound.filter(|bound: &f64| bound.is_finite() && *bound >= 0.0);
        let bound = bound.ok_or_else(|| format!("\"{right}\" is not {wanted}"))?;
        Ok(Objective { operation, figure, is_below, bound, text: text.to_owned() })
    }

    /// The figure in each seed of the first run; none where there is none.
    ///
    /// # Errors
    /// If no operation is called that, or several might be.
    pub fn values(&self, document: &Document) -> Result<Vec<Option<f64>>, String> {
        let Some(run) = document.runs.first() else { return Ok(Vec::new()) };
        let all = document.metrics.iter().flat_map(|metric| &metric.operations);
        let mut names: Vec<&str> =
            all.filter_map(|name| name.strip_suffix(self.figure)?.strip_suffix(' ')).collect();
        names.sort_unstable();
        names.dedup();
        let of_task = |name: &&&str| name.split('.').next() == Some(&*self.operation);
        let mut fitting = names.iter().filter(of_task);
        let name = match names.iter().find(|name| **name == self.operation) {
            Some(name) => *name,
            None => match (fitting.next(), fitting.next()) {
                (Some(only), None) => *only,
                (Some(_), Some(_)) => {
                    let (task, all) = (&self.operation, names.join(", "));
                    return Err(format!("{task} has several operations; say which: {all}"));
                }
                (None, _) => {
                    return Err(crate::input::names::unknown("operation", &self.operation, &names));
                }
            },
        };
        let operation = format!("{name} {}", self.figure);
        let value = |seed: &u64| {
            let mut samples = run.samples.iter();
            samples.find(|s| s.operation == operation && s.seed == *seed).map(|s| s.value)
        };
        Ok(run.seeds.iter().map(value).collect())
    }

    /// Does it hold with this value? An operation that never ended keeps nothing.
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

/// What a search ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The least that was good, and the most below it that was not.
    Between {
        /// It is not enough.
        bad: u64,
        /// It is.
        good: u64,
    },
    /// Even the least is enough.
    Least(u64),
    /// Not even the most is.
    Nothing(u64),
}

/// Halves a range until it is no wider than `within` of its upper end, in steps of `grain`; `is_good` is asked at each
/// point once.
///
/// # Errors
/// As `is_good`.
pub fn search<E>(
    (from, to): (u64, u64),
    grain: u64,
    within: f64,
    mut is_good: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Found, E> {
    if !is_good(to)? {
        return Ok(Found::Nothing(to));
    }
    if is_good(from)? {
        return Ok(Found::Least(from));
    }
    let (mut bad, mut good) = (from, to);
    loop {
        let middle = (bad + (good - bad) / 2) / grain * grain;
        let is_narrow = (good - bad) as f64 <= within * good as f64;
        if is_narrow || middle <= bad || middle >= good {
            return Ok(Found::Between { bad, good });
        }
        match is_good(middle)? {
            true => good = middle,
            false => bad = middle,
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_results::{Better, Metric, Run, TableKind};

    use super::*;

    #[test]
    fn objectives_are_read() {
        let parsed = Objective::parse("reader.get.p99.9 < 5ms").unwrap();
        assert_eq!((&*parsed.operation, parsed.figure), ("reader.get", "p99.9"));
        assert_eq!((parsed.is_below, parsed.bound), (true, 5000.0));
        let rate = Objective::parse("reader.rate>1000").unwrap();
        assert_eq!((&*rate.operation, rate.figure, rate.is_below), ("reader", "rate", false));
        assert!(rate.holds(Some(1001.0)) && !rate.holds(Some(1000.0)) && !rate.holds(None));
        let wrong = |text: &str| Objective::parse(text).unwrap_err();
        assert!(wrong("reader.get.p99").contains("is no objective"));
        assert!(
            wrong("reader.get.p42<5ms").contains("which figure"),
            "{}",
            wrong("reader.get.p42<5ms")
        );
        assert_eq!(wrong("reader.get.p99<5"), "\"5\" is not a time, as 5ms");
        assert_eq!(wrong("reader.rate>fast"), "\"fast\" is not a number");
    }

    #[test]
    fn a_task_with_one_operation_needs_no_name_for_it() {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let mut metric = Metric::new("latency", "us", Better::Lower, TableKind::Single);
        metric.operations =
            ["reader.get p99", "writer.put p99", "writer.sync p99"].map(str::to_owned).to_vec();
        document.metrics = vec![metric];
        let mut run = Run::new("m", "p", "p");
        run.seeds = vec![1, 2];
        run.push("reader.get p99", 0, 1, 7.0);
        document.runs = vec![run];
        let values = |text: &str| Objective::parse(text).unwrap().values(&document);
        assert_eq!(values("reader.p99<5ms"), Ok(vec![Some(7.0), None]));
        assert_eq!(values("reader.get.p99<5ms"), Ok(vec![Some(7.0), None]));
        assert!(values("writer.p99<5ms").unwrap_err().contains("say which"));
        assert!(values("wroter.put.p99<5ms").unwrap_err().contains("did you mean writer.put?"));
    }

    #[test]
    fn a_range_is_halved() {
        let mut asked = Vec::new();
        let mut run = |range, grain, within| {
            asked.clear();
            let found = search(range, grain, within, |at| {
                asked.push(at);
                Ok::<_, ()>(at >= 300)
            });
            (found.unwrap(), asked.len())
        };
        let (found, count) = run((0, 1024), 1, 0.01);
        assert!(matches!(found, Found::Between { bad: 297..300, good: 300..303 }), "{found:?}");
        assert!(count < 12, "{count}");
        assert_eq!(run((0, 1024), 64, 0.0).0, Found::Between { bad: 256, good: 320 });
        assert_eq!(run((400, 1024), 1, 0.01), (Found::Least(400), 2));
        assert_eq!(run((0, 200), 1, 0.01), (Found::Nothing(200), 1));
    }
}
