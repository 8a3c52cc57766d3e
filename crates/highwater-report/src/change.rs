//! Changes of the mean of each operation, as the verdict and `worse` judge them.
//!
//! Key types: [`Change`], [`Way`] (better or worse; a change that prints as zero is neither).
//!
//! A mean is compared with the baseline's mean. A difference of two means, or a share, may be close
//! to zero, and then noise looks many times as large. Such a part is compared with its whole, as
//! the metric declares.

use std::cmp::Ordering;

use highwater_results::{Better, Metric, Run, TableKind};

use crate::by_seed::BySeed;
use crate::compare::{SampleSets, operations};
use crate::evidence::interval_of;
use crate::percent::{self, Told};
use crate::rules::{Rules, Statistic};
use crate::stats::Sorted;
use crate::stats::paired::{Paired, Robust};
use crate::style::Style;
use crate::table::Judgement;

/// Percentages have one decimal. A smaller change prints as zero and counts as none.
const NOTHING_PERCENT: f64 = 0.05;
/// A change from or to 0 has no ratio and ranks above all ratios, unless it is less than this share
/// of the metric's largest change. One additional major fault does not matter beside thousands of
/// pages.
const SMALL_SHARE: f64 = 0.01;

/// Direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Worse,
    Better,
    /// More of something that is neither good nor bad.
    More,
    Less,
}

impl Way {
    /// All directions, costs first.
    pub(crate) const ALL: [Way; 4] = [Way::Worse, Way::Better, Way::More, Way::Less];

    /// The judgement of a change in this direction.
    pub(crate) const fn judged(self) -> Judgement {
        match self {
            Way::Worse => Judgement::Worse,
            Way::Better => Judgement::Better,
            Way::More => Judgement::More,
            Way::Less => Judgement::Less,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Way::Worse => "worse",
            Way::Better => "better",
            Way::More => "more",
            Way::Less => "less",
        }
    }
}

/// A change of one operation's mean.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) operation: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// In percent; positive is better.
    pub(crate) interval: Option<(f64, f64)>,
    /// Number of samples on each side.
    pub(crate) nr_samples: [usize; 2],
    better: Better,
    whole: Option<Whole>,
    /// Values below this are small.
    small: Option<f64>,
}

/// The whole that an operation is a part of.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    /// Always above 0.
    size: f64,
    /// The whole's operation; none if values are shares.
    operation: Option<String>,
}

impl Change {
    /// The value that the change is measured against.
    pub(crate) fn scale(&self) -> f64 {
        self.whole.as_ref().map_or(self.before.abs(), |whole| whole.size)
    }

    /// How much a bad figure grew or a good figure shrank. For a figure without a direction: how
    /// much it shrank.
    pub(crate) fn worse_by(&self) -> f64 {
        match self.better {
            Better::Lower => self.after - self.before,
            Better::Higher | Better::Neither => self.before - self.after,
        }
    }

    /// True if the metric declares which direction is better.
    pub(crate) fn is_judged(&self) -> bool {
        self.better != Better::Neither
    }

    /// True if both values are small.
    pub(crate) fn is_small(&self) -> bool {
        self.small.is_some_and(|small| self.before.abs().max(self.after.abs()) < small)
    }

    /// True if a good figure fell to 0.
    pub(crate) fn is_gone(&self) -> bool {
        let is_good = self.better == Better::Higher && self.whole.is_none();
        is_good && self.after == 0.0 && self.before > 0.0
    }

    /// Direction of the change; none if it prints as zero.
    pub(crate) fn way(&self) -> Option<Way> {
        let is_nothing = self.worse_by().abs() * 100.0 < NOTHING_PERCENT * self.scale();
        let way = match (self.is_judged(), percent::is_better(self.better, self.before, self.after))
        {
            (true, true) => Way::Better,
            (true, false) => Way::Worse,
            (false, true) => Way::More,
            (false, false) => Way::Less,
        };
        (self.before != self.after && !is_nothing).then_some(way)
    }

    /// True if the change is not zero and its interval excludes 0.
    pub(crate) fn matters(&self) -> bool {
        self.way().is_some() && self.interval.is_some_and(percent::excludes_zero)
    }

    /// The text shown instead of a percentage.
    pub(crate) fn told(&self) -> Option<Told> {
        let is_part = self.whole.is_some();
        Told::of(self.better, self.before, self.after).filter(|_| !is_part)
    }

    /// Orders changes of one metric by size, ascending; `largest` is the metric's largest
    /// difference.
    pub(crate) fn by_size(&self, other: &Change, largest: f64) -> Ordering {
        let [mine, theirs] = [self, other].map(|change| change.size(largest));
        mine.0.total_cmp(&theirs.0).then(mine.1.total_cmp(&theirs.1))
    }

    /// The absolute difference.
    pub(crate) fn difference(&self) -> f64 {
        (self.after - self.before).abs()
    }

    /// Size in either direction: the ratio, or the difference if there is no ratio.
    fn size(&self, largest: f64) -> (f64, f64) {
        if self.is_small() {
            return (-1.0, self.difference());
        }
        let (before, after) = match &self.whole {
            // The size that the whole would reach.
            Some(whole) => (whole.size, whole.size + (self.after - self.before)),
            None => (self.before, self.after),
        };
        let ratio = after / before;
        if ratio > 0.0 && ratio.is_finite() {
            return (ratio.ln().abs(), 0.0);
        }
        let is_small = self.difference() < SMALL_SHARE * largest;
        (if is_small { 0.0 } else { f64::INFINITY }, self.difference())
    }

    /// The change in words: `better 36.2%`, `worse x8.8`, `worse, from 0`,
    /// `better 33.4% of again-4`, `worse 12.0% of all`; without a direction `more x8.8`.
    pub(crate) fn words(&self) -> String {
        let Some(way) = self.way() else { return "the same".to_owned() };
        let word = way.word();
        let by = 100.0 * self.difference() / self.scale();
        match (&self.whole, self.told()) {
            (Some(Whole { operation: Some(of), .. }), _) => format!("{word} {by:.1}% of {of}"),
            (Some(_), _) => format!("{word} {by:.1}% of all"),
            // The word gives the direction, so the number has no sign.
            (None, Some(Told::Factor(factor))) => format!("{word} {}", Told::Factor(factor.abs())),
            (None, Some(told)) => format!("{word}, {told}"),
            (None, None) => format!("{word} {by:.1}%"),
        }
    }

    /// True if this is a part of an operation that has a change itself.
    pub(crate) fn is_part_of_another(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.operation.is_some())
    }

    /// True if the values are shares, or parts of a whole, as the metric declares.
    pub(crate) fn is_part(&self) -> bool {
        self.whole.is_some()
    }
}

/// Changes of all operations that both runs have.
pub(crate) fn changes(metric: &Metric, baseline: &Run, run: &Run, iterations: u32) -> Vec<Change> {
    let rules = Rules::of(metric, Style::default());
    let runs = [baseline, run];
    let operations = operations(metric, &runs);
    let samples = SampleSets::collect(metric, &runs, &operations);
    let (of_baseline, of_run) = (BySeed::of(baseline), BySeed::of(run));
    let mut changes = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let (Some(a), Some(b)) = (samples.get(index, 0), samples.get(index, 1)) else { continue };
        let mean = |samples: &Sorted| rules.value(Statistic::Mean, samples);
        let Some(before) = mean(a) else { continue };
        // A harmonic mean does not exist once one sample is 0.
        let after = mean(b).unwrap_or(0.0);
        let mean_of = |name: &str| {
            let at = operations.iter().position(|known| known == name)?;
            mean(samples.get(at, 0)?)
        };
        let whole = whole(metric, operation, mean_of);
        let judged = |a: f64, b: f64| match &whole {
            Some(Whole { size, .. }) => {
                let growth = 100.0 * (b - a) / size;
                if rules.better == Better::Lower { -growth } else { growth }
            }
            None => percent::judged(rules.better, a, b),
        };
        let interval = match metric.table {
            _ if iterations < 2 => None,
            TableKind::VariableTime => {
                let seeds = of_baseline.seed_pairs(&of_run, operation, rules.better);
                of_seeds(&seeds, judged)
            }
            _ => interval_of(&rules, a, b, judged).map(|interval| interval.bca),
        };
        let (better, operation) = (rules.better, operation.clone());
        let nr_samples = [a.len(), b.len()];
        let small = metric.small;
        changes.push(Change {
            operation,
            before,
            after,
            interval,
            nr_samples,
            better,
            whole,
            small,
        });
    }
    changes
}

/// The whole that the metric declares for an operation; none if the whole is 0.
fn whole(metric: &Metric, operation: &str, mean_of: impl Fn(&str) -> Option<f64>) -> Option<Whole> {
    let whole = match metric.part_of.get(operation) {
        Some(of) => Whole { size: mean_of(of)?, operation: Some(of.clone()) },
        None => Whole { size: metric.whole?, operation: None },
    };
    (whole.size > 0.0).then_some(whole)
}

/// Operations that the baseline has and a run lacks.
pub(crate) fn missing(metric: &Metric, baseline: &Run, run: &Run) -> Vec<String> {
    let has = |run: &Run, name: &str| run.samples.iter().any(|sample| sample.operation == name);
    let mut names = operations(metric, &[baseline, run]);
    names.retain(|name| has(baseline, name) && !has(run, name));
    names
}

/// Interval of the change of the mean over seeds.
fn of_seeds(
    seeds: &[crate::stats::paired::SeedPair],
    change: impl Fn(f64, f64) -> f64,
) -> Option<(f64, f64)> {
    Paired::default().changes(seeds, &[Robust::Mean], change).pop()??.limits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(better: Better, before: f64, after: f64) -> Change {
        let (operation, interval) = ("op".to_owned(), None);
        let (nr_samples, whole, small) = ([1, 1], None, None);
        Change { operation, before, after, interval, nr_samples, better, whole, small }
    }

    #[test]
    fn changes_in_words() {
        use Better::{Higher, Lower, Neither};
        for (better, before, after, expected) in [
            (Lower, 2000.0, 1280.0, "better 36.0%"),
            (Lower, 100.0, 880.0, "worse x8.8"),
            (Lower, 880.0, 100.0, "better x8.8"),
            (Lower, 728.0, 0.35, "better x2080"),
            (Higher, 100.0, 99.0, "worse 1.0%"),
            (Higher, 0.0, 4.0, "better, from 0"),
            (Lower, 0.0, 4.0, "worse, from 0"),
            (Lower, 4.0, 0.0, "better, to 0"),
            (Lower, 4.0, -0.1, "better, past 0"),
            (Lower, 4.0, 4.0, "the same"),
            (Lower, 4.0, 4.0001, "the same"),
            (Neither, 100.0, 880.0, "more x8.8"),
            (Neither, 100.0, 88.0, "less 12.0%"),
            (Neither, 0.0, 4.0, "more, from 0"),
            (Neither, 4.0, 0.0, "less, to 0"),
        ] {
            assert_eq!(change(better, before, after).words(), expected);
        }
        let of = Some(Whole { size: 34.0, operation: Some("again-4".to_owned()) });
        let part = Change { whole: of, ..change(Better::Lower, -0.09, 1.61) };
        assert_eq!(part.words(), "worse 5.0% of again-4");
        let of = Some(Whole { size: 100.0, operation: None });
        let share = Change { whole: of, ..change(Better::Lower, 61.9, 0.03) };
        assert_eq!(share.words(), "better 61.9% of all");
    }

    #[test]
    fn from_and_to_nothing_are_largest_unless_they_are_small() {
        let of = |before: f64, after: f64| change(Better::Lower, before, after);
        let [scanned, faults, refaults, activated] =
            [of(5e5, 4e5), of(0.0, 1.0), of(0.0, 3e5), of(7e4, 0.0)];
        let mut all = [&refaults, &faults, &activated, &scanned];
        all.sort_by(|a, b| a.by_size(b, 3e5));
        let ops: Vec<f64> = all.iter().map(|change| change.after).collect();
        assert_eq!(ops, [1.0, 4e5, 0.0, 3e5]);
        assert_eq!(faults.by_size(&scanned, 100.0), Ordering::Greater);
    }

    #[test]
    fn a_part_is_as_large_as_what_it_changes_of_the_whole() {
        let of = Some(Whole { size: 4418.0, operation: Some("again-8".to_owned()) });
        let part = Change { whole: of, ..change(Better::Lower, 2735.0, 0.5) };
        let whole = change(Better::Lower, 4418.0, 1600.0);
        assert_eq!(part.by_size(&whole, 1e4), Ordering::Less);
        assert_eq!(part.told(), None);
    }
}
