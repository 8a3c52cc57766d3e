//! From when to when was a series above its limit?

use highwater_results::import::vmstat_log::Scale;
use serde::Serialize;

use super::series::{Kind, Sample, Series};

/// Samples below the limit that an interval may span: a shortage that pauses for a second or two
/// is one shortage.
const GAP_MAX: usize = 2;

/// A moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Position among all moments of a text; in seconds if the text has times.
    #[serde(skip)]
    pub order: f64,
    /// Seconds on the scale of the text's stamps, or since its first row; `None` without times.
    pub seconds: Option<f64>,
    /// The time as the text prints times; `None` without time stamps.
    pub stamp: Option<String>,
}

/// A shortage.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// The resource that was short.
    pub kind: Kind,
    /// Begin.
    pub from: Moment,
    /// End.
    pub to: Moment,
    /// Samples from begin to end.
    pub nr_samples: usize,
    /// Length in seconds; `None` without times.
    pub length_s: Option<f64>,
    /// The worst value, in [`Kind::unit`].
    pub peak: f64,
    /// The end of the sample that has it.
    pub peak_at: Moment,
    /// The mean over the interval.
    pub mean: f64,
}

impl Moment {
    /// The begin of a sample.
    pub(super) fn begin(sample: &Sample<'_>, has_time: bool, scale: Option<Scale>) -> Moment {
        Moment::at(sample.from, has_time, scale)
    }

    /// The end of a sample.
    pub(super) fn end(sample: &Sample<'_>, has_time: bool, scale: Option<Scale>) -> Moment {
        let printed = sample.stamp.map(|stamp| stamp.text.clone());
        let moment = Moment::at(sample.to, has_time, scale);
        Moment { stamp: printed.or(moment.stamp), ..moment }
    }

    fn at(order: f64, has_time: bool, scale: Option<Scale>) -> Moment {
        let stamp = scale.filter(|_| has_time).map(|scale| scale.text(order));
        Moment { order, seconds: has_time.then_some(order), stamp }
    }
}

impl Interval {
    /// How bad: its mean times its length.
    pub(super) fn weight(&self) -> f64 {
        self.mean * self.length_s.unwrap_or(self.nr_samples as f64)
    }
}

/// The intervals of a series.
pub(super) fn of(series: &Series<'_>, scale: Option<Scale>) -> Vec<Interval> {
    let mut intervals = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (at, _) in series.samples.iter().enumerate().filter(|(_, sample)| sample.is_short) {
        open = match open {
            Some((first, last)) if at - last <= GAP_MAX + 1 => Some((first, at)),
            Some((first, last)) => {
                intervals.push(interval(series, first, last, scale));
                Some((at, at))
            }
            None => Some((at, at)),
        };
    }
    intervals.extend(open.map(|(first, last)| interval(series, first, last, scale)));
    intervals
}

fn interval(series: &Series<'_>, first: usize, last: usize, scale: Option<Scale>) -> Interval {
    let samples = &series.samples[first..=last];
    let length = |sample: &Sample<'_>| sample.to - sample.from;
    let all: f64 = samples.iter().map(length).sum();
    let sum: f64 = samples.iter().map(|sample| sample.value * length(sample)).sum();
    let short = samples.iter().filter(|sample| sample.is_short);
    let by_value = |a: &&Sample<'_>, b: &&Sample<'_>| a.value.total_cmp(&b.value);
    // Free memory is the worse, the less there is. Of equal values the first one counts.
    let worst = match series.kind {
        Kind::FreeFloor => short.min_by(by_value),
        _ => short.rev().max_by(by_value),
    };
    let worst = worst.unwrap_or(&samples[0]);
    let from = Moment::begin(&samples[0], series.has_time, scale);
    let to = Moment::end(&samples[samples.len() - 1], series.has_time, scale);
    Interval {
        kind: series.kind,
        nr_samples: samples.len(),
        length_s: series.has_time.then_some(to.order - from.order),
        from,
        to,
        peak: worst.value,
        peak_at: Moment::end(worst, series.has_time, scale),
        mean: if all > 0.0 { sum / all } else { worst.value },
    }
}
