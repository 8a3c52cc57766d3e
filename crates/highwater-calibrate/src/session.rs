//! The time of a calibration, divided among its rows, and the rows so far.

use std::time::{Duration, Instant};

use crate::cpus::Pair;
use crate::disk::Place;
use crate::row::{LeftOut, Row, Spread, Unit};
use crate::{CacheSizes, Options, SECONDS_MAX, SECONDS_MIN};

/// Samples that each row has at least, however short the time.
const SAMPLES_MIN: usize = 5;
/// More samples than this do not make a median better.
const SAMPLES_MAX: usize = 301;
/// Measurements besides those of pairs: their number divides the time.
const MEASUREMENTS: u32 = 74;
/// Measurements of a pair of CPUs.
const MEASUREMENTS_OF_PAIR: u32 = 4;

/// A calibration that goes on.
pub(crate) struct Session<'a> {
    pub(crate) dir: &'a std::path::Path,
    pub(crate) caches: Option<CacheSizes>,
    pub(crate) cpus: &'a [usize],
    pub(crate) pairs: &'a [Pair],
    pub(crate) place: &'a Place,
    begun: Instant,
    budget: Duration,
    share: Duration,
    rows: Vec<Row>,
    left_out: Vec<LeftOut>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        options: &'a Options,
        cpus: &'a [usize],
        pairs: &'a [Pair],
        place: &'a Place,
    ) -> Session<'a> {
        let measurements = MEASUREMENTS + MEASUREMENTS_OF_PAIR * pairs.len() as u32;
        Session { pairs, ..Session::for_parts(options, measurements, cpus, place) }
    }

    /// For so many measurements.
    pub(crate) fn for_parts(
        options: &'a Options,
        measurements: u32,
        cpus: &'a [usize],
        place: &'a Place,
    ) -> Session<'a> {
        let seconds = options.seconds.clamp(SECONDS_MIN, SECONDS_MAX);
        let budget = Duration::from_secs_f64(seconds);
        Session {
            dir: &options.dir,
            caches: options.caches,
            cpus,
            pairs: &[],
            place,
            begun: Instant::now(),
            budget,
            // The rest is for what is prepared between measurements.
            share: budget * 7 / (8 * measurements.max(1)),
            rows: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Time of one measurement: a quarter of it once the whole time is used up.
    pub(crate) fn share(&self) -> Duration {
        let left = self.budget.saturating_sub(self.begun.elapsed());
        left.clamp(self.share / 4, self.share)
    }

    /// Calls `one` for the time of a measurement. It returns the samples of `K` rows, or `None` for
    /// a round that did not go as it should (a thread was not asleep yet). The first round warms up
    /// and is dropped.
    pub(crate) fn rounds<const K: usize>(
        &self,
        mut one: impl FnMut() -> Result<Option<[f64; K]>, String>,
    ) -> Result<[Spread; K], String> {
        one()?;
        let (begun, share) = (Instant::now(), self.share());
        let mut samples: [Vec<f64>; K] = std::array::from_fn(|_| Vec::new());
        let mut failed = 0;
        loop {
            match one()? {
                Some(round) => {
                    round.iter().zip(&mut samples).for_each(|(value, of)| of.push(*value))
                }
                None => failed += 1,
            }
            let (nr, is_over) = (samples[0].len(), begun.elapsed() >= share);
            if nr >= SAMPLES_MAX || is_over && nr >= SAMPLES_MIN {
                break;
            }
            // On a busy computer a round that fails may take milliseconds.
            let is_late = begun.elapsed() > 8 * share + Duration::from_secs(1);
            if is_over && failed > 0 && (is_late || failed > 10 * SAMPLES_MAX) {
                return Err("the threads did not come to rest often enough".to_owned());
            }
        }
        let spreads = samples.map(Spread::of);
        match spreads.iter().all(Option::is_some) {
            true => Ok(spreads.map(|spread| spread.unwrap_or(NONE))),
            false => Err("a sample is no number".to_owned()),
        }
    }

    /// The same with one row and rounds that always go as they should.
    pub(crate) fn samples(
        &self,
        mut one: impl FnMut() -> Result<f64, String>,
    ) -> Result<Spread, String> {
        let [spread] = self.rounds(|| Ok(Some([one()?])))?;
        Ok(spread)
    }

    /// Keeps a row, or the reason why there is none.
    pub(crate) fn put(
        &mut self,
        name: impl Into<String>,
        unit: Unit,
        how: impl Into<String>,
        spread: Result<Spread, String>,
    ) {
        let name = name.into();
        match spread {
            Ok(spread) => self.rows.push(Row { name, unit, spread, how: how.into() }),
            Err(why) => self.leave_out(name, why),
        }
    }

    /// Measures a row with one figure, in nanoseconds.
    pub(crate) fn measure(
        &mut self,
        name: impl Into<String>,
        how: impl Into<String>,
        one: impl FnMut() -> Result<f64, String>,
    ) {
        let spread = self.samples(one);
        self.put(name, Unit::Ns, how, spread);
    }

    /// A row that cannot be measured here.
    pub(crate) fn leave_out(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { name: name.into(), why: why.into() });
    }

    /// The rows, what was left out, and the time it took.
    pub(crate) fn finish(self) -> (Vec<Row>, Vec<LeftOut>, Duration) {
        (self.rows, self.left_out, self.begun.elapsed())
    }
}

const NONE: Spread = Spread { median: 0.0, q1: 0.0, q3: 0.0, samples: 0 };

/// Nanoseconds of `n` operations, each.
pub(crate) fn each(elapsed: Duration, n: usize) -> f64 {
    elapsed.as_nanos() as f64 / n.max(1) as f64
}

/// Nanoseconds that a call takes.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session<'a>(options: &'a Options, place: &'a Place) -> Session<'a> {
        Session::new(options, &[], &[], place)
    }

    #[test]
    fn the_first_round_is_dropped_and_others_are_counted() {
        let options = Options { seconds: 1.0, dir: ".".into(), caches: None };
        let place = crate::disk::place(&options.dir);
        let mut session = session(&options, &place);
        let mut nr = 0;
        let spread = session.samples(|| {
            nr += 1;
            Ok(if nr == 1 { 1e9 } else { 7.0 })
        });
        let spread = spread.unwrap();
        assert_eq!((spread.median, spread.q3), (7.0, 7.0));
        assert!((SAMPLES_MIN..=SAMPLES_MAX).contains(&spread.samples));
        let never = session.rounds::<1>(|| Ok(None));
        assert_eq!(never, Err("the threads did not come to rest often enough".to_owned()));
        session.measure("a", "how", || Err("no".to_owned()));
        session.measure("b", "how", || Ok(3.0));
        let (rows, left_out, _) = session.finish();
        assert_eq!((rows[0].name.as_str(), rows.len()), ("b", 1));
        assert_eq!((left_out[0].name.as_str(), left_out[0].why.as_str()), ("a", "no"));
    }
}
