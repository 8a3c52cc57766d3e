//! A measured row: a name, a median with its spread, and how it was measured.

use serde::{Deserialize, Serialize};

/// The unit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds of one operation.
    #[serde(rename = "ns")]
    Ns,
    /// Nanoseconds for each 4 KiB.
    #[serde(rename = "ns per 4 KiB")]
    NsPerPage,
    /// Bytes each second.
    #[serde(rename = "bytes per s")]
    BytesPerS,
    /// Operations each second.
    #[serde(rename = "per s")]
    PerS,
}

impl Unit {
    /// As tables write it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::NsPerPage => "ns per 4 KiB",
            Unit::BytesPerS => "bytes per s",
            Unit::PerS => "per s",
        }
    }
}

/// The median of samples, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the samples are below.
    pub median: f64,
    /// A quarter of the samples is below.
    pub q1: f64,
    /// A quarter of the samples is above.
    pub q3: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Spread {
    /// Of these samples; `None` if there are none or one is no number.
    pub fn of(mut samples: Vec<f64>) -> Option<Spread> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (samples.len() - 1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            samples[low] + (samples[high] - samples[low]) * (place - low as f64)
        };
        Some(Spread { median: at(0.5), q1: at(0.25), q3: at(0.75), samples: samples.len() })
    }
}

/// A measured row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name, as `copy-to.l2.random`: the primitive, then what varies.
    pub name: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// The figures.
    #[serde(flatten)]
    pub spread: Spread,
    /// How it was measured.
    pub how: String,
}

/// A row that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name that the row would have.
    pub name: String,
    /// The reason.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_around_the_median() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.q1, spread.median, spread.q3, spread.samples), (2.0, 3.0, 4.0, 5));
        let two = Spread::of(vec![2.0, 1.0]).unwrap();
        assert_eq!((two.q1, two.median, two.q3), (1.25, 1.5, 1.75));
        assert_eq!(Spread::of(Vec::new()), None);
        assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
    }
}
