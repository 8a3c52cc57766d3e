//! From when to when was a series above its limit?

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
    /// The stamp as printed, if the text has one there.
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
    /// The mean over the interval.
    pub mean: f64,
}

impl Moment {
    /// The begin of a sample.
    pub(super) fn begin(sample: &Sample, has_time: bool) -> Moment {
        Moment { order: sample.from, seconds: has_time.then_some(sample.from), stamp: None }
    }

    /// The end of a sample.
    pub(super) fn end(sample: &Sample, has_time: bool) -> Moment {
        let seconds = has_time.then_some(sample.to);
        Moment { order: sample.to, seconds, stamp: sample.stamp.clone() }
    }
}

impl Interval {
    /// How bad: its mean times its length.
    pub(super) fn weight(&self) -> f64 {
        self.mean * self.length_s.unwrap_or(self.nr_samples as f64)
    }
}

/// The intervals of a series.
pub(super) fn of(series: &Series) -> Vec<Interval> {
    let mut intervals = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (at, _) in series.samples.iter().enumerate().filter(|(_, sample)| sample.is_short) {
        open = match open {
            Some((first, last)) if at - last <= GAP_MAX + 1 => Some((first, at)),
            Some((first, last)) => {
                intervals.push(interval(series, first, last));
                Some((at, at))
            }
            None => Some((at, at)),
        };
    }
    intervals.extend(open.map(|(first, last)| interval(series, first, last)));
    intervals
}

fn interval(series: &Series, first: usize, last: usize) -> Interval {
    let samples = &series.samples[first..=last];
    let length = |sample: &Sample| sample.to - sample.from;
    let all: f64 = samples.iter().map(length).sum();
    let sum: f64 = samples.iter().map(|sample| sample.value * length(sample)).sum();
    let values = samples.iter().map(|sample| sample.value);
    // Free memory is the worse, the less there is.
    let peak = match series.kind {
        Kind::FreeFloor => values.fold(f64::INFINITY, f64::min),
        _ => values.fold(0.0, f64::max),
    };
    let mut from = Moment::begin(&samples[0], series.has_time);
    // A sample begins where the one before it ends.
    let before = first.checked_sub(1).and_then(|at| series.samples.get(at));
    from.stamp = before.and_then(|sample| sample.stamp.clone());
    let to = Moment::end(&samples[samples.len() - 1], series.has_time);
    Interval {
        kind: series.kind,
        nr_samples: samples.len(),
        length_s: series.has_time.then_some(to.order - from.order),
        from,
        to,
        peak,
        mean: if all > 0.0 { sum / all } else { peak },
    }
}
