//! The two-sample t-test (rules/statistics#t-test).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::summary::{amean, stddev_sample};

/// Level below which style 2021 marks a change.
pub const LEVEL_2021: f64 = 0.10;

/// Mean, deviation and size of a sample set: all a t-test needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean of whatever kind the table shows.
    pub mean: f64,
    /// Standard deviation; 0 where it is undefined.
    pub stddev: f64,
    /// Number of samples.
    pub n: usize,
}

impl Moments {
    /// Arithmetic mean and sample deviation; `None` without samples.
    pub fn of(values: &[f64]) -> Option<Moments> {
        Some(Moments {
            mean: amean(values)?,
            stddev: stddev_sample(values).unwrap_or(0.0),
            n: values.len(),
        })
    }

    fn squared_error(&self) -> f64 {
        self.stddev * self.stddev / self.n as f64
    }
}

/// Outcome of a t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The statistic, without sign; infinite if only the means differ.
    pub t: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Two-sided probability of so large a `t` if nothing changed.
    pub p: f64,
}

/// The test of mmtests: unequal variances, yet n_a + n_b − 2 degrees of freedom. Without any
/// deviation the means decide.
pub fn mmtests(a: Moments, b: Moments) -> TTest {
    let degrees = (a.n + b.n) as f64 - 2.0;
    let distance = (a.mean - b.mean).abs();
    let error = (a.squared_error() + b.squared_error()).sqrt();
    if error > 0.0 {
        let t = distance / error;
        return TTest { t, degrees, p: two_sided(t, degrees) };
    }
    let (t, p) = if distance > 0.0 { (f64::INFINITY, 0.0) } else { (0.0, 1.0) };
    TTest { t, degrees, p }
}

fn two_sided(t: f64, degrees: f64) -> f64 {
    // No such distribution (degrees not positive): nothing can be said, so nothing is significant.
    StudentsT::new(0.0, 1.0, degrees).map_or(1.0, |student| (2.0 * student.sf(t)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f64]) -> Moments {
        Moments::of(values).unwrap()
    }

    #[test]
    fn means_of_three() {
        let first = mmtests(moments(&[10.0, 11.0, 12.0]), moments(&[12.0, 13.0, 14.0]));
        assert!((first.t - 2.449).abs() < 5e-4 && first.degrees == 4.0);
        assert!((first.p - 0.0705).abs() < 5e-5, "{}", first.p);
        let second = mmtests(moments(&[10.0, 12.0, 14.0]), moments(&[13.0, 15.0, 17.0]));
        assert!((second.p - 0.140).abs() < 5e-4, "{}", second.p);
    }

    #[test]
    fn student_with_one_degree_is_cauchy() {
        // P(|T| > 1) = 1/2 for one degree of freedom.
        assert!((two_sided(1.0, 1.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn without_deviation_the_means_decide() {
        assert_eq!(mmtests(moments(&[1.0]), moments(&[2.0])).p, 0.0);
        assert_eq!(mmtests(moments(&[2.0, 2.0]), moments(&[2.0])).p, 1.0);
    }
}
