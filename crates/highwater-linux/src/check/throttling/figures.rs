//! How a figure of several runs of the model is judged by one of several real runs.
//!
//! Between the real runs everything agrees: that far they differ among themselves. Beside them a limit says how far.

use super::observed::Observed;
use crate::check::{Figure, Limit};

/// Largest factor between two rates or ratios.
pub(super) const FACTOR: f64 = 2.0;
/// Largest factor between two numbers of waits.
pub(super) const WAITS_FACTOR: f64 = 3.0;
/// Smallest distance that is allowed between two shares, percentage points.
pub(super) const POINTS: f64 = 10.0;
/// Doubled because waits come in bursts; twice the error for chance.
pub(super) const ERRORS: f64 = 2.0 * 2.0;

/// A quotient of sums over runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    pub(super) of: f64,
    pub(super) by: f64,
}

impl Parts {
    /// `None` if the denominator is zero.
    pub(super) fn value(self) -> Option<f64> {
        (self.by > 0.0).then(|| self.of / self.by)
    }
}

/// The same quotient of each real run and of each of the model's.
pub(super) struct Quotients {
    pub(super) real: Vec<Parts>,
    pub(super) model: Vec<Parts>,
}

impl Quotients {
    /// The figure from the `parts` of each run.
    pub(super) fn new(
        real: &[Observed],
        model: &[Observed],
        parts: impl Fn(&Observed) -> Parts,
    ) -> Quotients {
        let of = |runs: &[Observed]| runs.iter().map(&parts).collect();
        Quotients { real: of(real), model: of(model) }
    }

    /// A rate or ratio: within a factor.
    pub(super) fn ratio(&self, field: &str, factor: f64) -> Figure {
        let test =
            |low: f64, high: f64, model: f64| low <= model * factor && model <= high * factor;
        self.figure(field, Limit::Factor(factor), &test, &number)
    }

    /// An event count of a run: within a factor, or within the chance error of such a small count.
    pub(super) fn count(&self, field: &str) -> Figure {
        let test = |low: f64, high: f64, model: f64| {
            let slack = |n: f64| ERRORS * (n + 1.0).sqrt();
            (low <= model * WAITS_FACTOR || low - model <= slack(low))
                && (model <= high * WAITS_FACTOR || model - high <= slack(high))
        };
        self.figure(field, Limit::FactorOrChance(WAITS_FACTOR), &test, &number)
    }

    /// A share: within percentage points.
    pub(super) fn share(&self, field: &str, points: f64) -> Figure {
        let test = |low: f64, high: f64, model: f64| {
            100.0 * (low - model) <= points && 100.0 * (model - high) <= points
        };
        self.figure(field, Limit::Points(points), &test, &|value| format!("{:.1} %", 100.0 * value))
    }

    fn figure(
        &self,
        field: &str,
        limit: Limit,
        test: &dyn Fn(f64, f64, f64) -> bool,
        text: &dyn Fn(f64) -> String,
    ) -> Figure {
        let each = |runs: &[Parts]| -> Vec<f64> { runs.iter().filter_map(|p| p.value()).collect() };
        let (real, model) = (each(&self.real), pooled(&self.model));
        let agrees = match (range(&real), model) {
            (Some((low, high)), Some(model)) => test(low, high, model),
            (real, model) => real.is_none() && model.is_none(),
        };
        Figure {
            field: field.to_owned(),
            real: with_runs(pooled(&self.real), &real, text),
            model: with_runs(model, &each(&self.model), text),
            limit,
            agrees,
            only_by_events: false,
        }
    }
}

/// Of all runs together.
pub(super) fn pooled(runs: &[Parts]) -> Option<f64> {
    let sum = |part: fn(&Parts) -> f64| runs.iter().map(part).sum::<f64>();
    Parts { of: sum(|p| p.of), by: sum(|p| p.by) }.value()
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    Some((low, values.iter().copied().fold(low, f64::max)))
}

/// A value, with the range of the single runs if there are several.
fn with_runs(value: Option<f64>, each: &[f64], text: &dyn Fn(f64) -> String) -> String {
    let Some(value) = value else { return "none".to_owned() };
    match range(each) {
        Some((low, high)) if each.len() > 1 => {
            format!("{} ({} to {})", text(value), text(low), text(high))
        }
        _ => text(value),
    }
}

/// Large numbers whole, others with two digits behind the point.
fn number(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotients(real: &[(f64, f64)], model: &[(f64, f64)]) -> Quotients {
        let parts = |list: &[(f64, f64)]| list.iter().map(|&(of, by)| Parts { of, by }).collect();
        Quotients { real: parts(real), model: parts(model) }
    }

    #[test]
    fn ratios_are_of_all_runs_of_the_model_together() {
        let ratio = |scanned: f64| {
            let model = [(scanned, 50.0), (1000.0, 150.0)];
            let figure = quotients(&[(3000.0, 100.0)], &model).ratio("ratio", FACTOR);
            (figure.model, figure.agrees)
        };
        assert_eq!(ratio(2000.0), ("15.00 (6.67 to 40.00)".to_owned(), true));
        assert!(!ratio(1990.0).1);
        // No events on either side.
        assert!(quotients(&[(0.0, 0.0)], &[(0.0, 0.0)]).ratio("none", FACTOR).agrees);
        assert!(!quotients(&[(0.0, 0.0)], &[(1.0, 1.0)]).ratio("one", FACTOR).agrees);
    }

    #[test]
    fn between_real_runs_everything_agrees() {
        let agrees = |model: f64| {
            quotients(&[(10.0, 1.0), (40.0, 1.0)], &[(model, 1.0)]).ratio("ratio", FACTOR).agrees
        };
        assert!(agrees(25.0) && agrees(5.0) && agrees(80.0));
        assert!(!agrees(4.9) && !agrees(81.0));
    }

    #[test]
    fn few_waits_may_differ_by_chance() {
        let agrees = |real: f64, model: f64| {
            quotients(&[(real, 1.0)], &[(model, 1.0)]).count("waits").agrees
        };
        assert!(agrees(0.0, 4.0) && !agrees(0.0, 4.1), "none of a few does not mean never");
        assert!(agrees(6.0, 18.0) && !agrees(6.0, 18.1));
        assert!(agrees(8.0, 0.0) && !agrees(24.0, 3.9));
        assert!(agrees(9000.0, 3000.0) && !agrees(9000.0, 2999.0));
    }

    #[test]
    fn shares_in_points() {
        let share = quotients(&[(80.0, 100.0)], &[(1.0, 2.0), (85.0, 98.0)]).share("share", 10.0);
        assert_eq!(share.real, "80.0 %");
        assert_eq!(share.model, "86.0 % (50.0 % to 86.7 %)");
        assert!(share.agrees);
    }
}
