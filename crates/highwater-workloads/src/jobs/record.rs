//! Results of operations: latencies, faults, refaults.

use hdrhistogram::Histogram;

use super::act::Counted;

/// An hour: longer latencies count as this.
const LONGEST_NS: u64 = 3600 * 1_000_000_000;
/// Digits of precision of a latency.
const DIGITS: u8 = 3;

/// All operations of one name.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Latency of each operation, nanoseconds, to three digits.
    pub latencies: Histogram<u64>,
    /// The longest operation: its latency and the time of its end.
    pub longest: Option<(u64, u64)>,
    /// From the beginning of the first operation to the end of the last; for a task that died, to
    /// the planned end.
    pub span_ns: Option<(u64, u64)>,
    /// Arrivals of an open loop that stayed unanswered, because the task had died.
    pub unanswered: u64,
    /// Faults without I/O.
    pub minor: u64,
    /// Faults that waited for a device.
    pub major: u64,
    /// Pages that these operations refaulted: anonymous, file.
    pub refaults: [u64; 2],
    /// Pages that they requested: read from a file, or touched.
    pub asked: u64,
    /// The part of them that was in memory.
    pub found: u64,
    /// Blocks of memory that could not be allocated.
    pub failed: u64,
}

impl Default for Recorded {
    fn default() -> Recorded {
        // The crate accepts these bounds.
        let latencies = Histogram::new_with_max(LONGEST_NS, DIGITS)
            .unwrap_or_else(|_| unreachable!("bounds that hold"));
        let (longest, span_ns, unanswered, refaults) = (None, None, 0, [0; 2]);
        let (minor, major, asked, found, failed) = (0, 0, 0, 0, 0);
        Recorded {
            latencies,
            longest,
            span_ns,
            unanswered,
            minor,
            major,
            refaults,
            asked,
            found,
            failed,
        }
    }
}

impl Recorded {
    /// Adds an operation that ended at `to_ns`; its latency counts from its arrival at `from_ns`.
    pub(super) fn add(&mut self, from_ns: u64, to_ns: u64) {
        let ns = to_ns.saturating_sub(from_ns);
        self.latencies.saturating_record(ns.max(1));
        if self.longest.is_none_or(|(known, _)| ns > known) {
            self.longest = Some((ns, to_ns));
        }
        self.span(from_ns, to_ns);
    }

    fn span(&mut self, from_ns: u64, to_ns: u64) {
        self.span_ns = match self.span_ns {
            None => Some((from_ns, to_ns)),
            Some((first, last)) => Some((first.min(from_ns), last.max(to_ns))),
        };
    }

    /// The task died in a phase with this beginning and planned end: adds the unanswered arrivals.
    pub(super) fn cut_short(&mut self, unanswered: u64, begin_ns: u64, end_ns: Option<u64>) {
        self.unanswered += unanswered;
        if let Some(end_ns) = end_ns {
            self.span(begin_ns, end_ns.max(begin_ns));
        }
    }

    /// Adds an operation's counts and refaults.
    pub(super) fn tally(&mut self, counted: &Counted, [before, after]: [[u64; 2]; 2]) {
        self.minor += counted.minor;
        self.major += counted.major;
        self.failed += counted.failed;
        self.asked += counted.asked;
        self.found += counted.found;
        for kind in 0..after.len() {
            self.refaults[kind] += after[kind] - before[kind];
        }
    }

    /// Adds the results of another task.
    pub fn merge(&mut self, other: &Recorded) {
        // The bounds are the same, so this cannot fail.
        let _ = self.latencies.add(&other.latencies);
        self.longest = self.longest.into_iter().chain(other.longest).max_by_key(|(ns, _)| *ns);
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.unanswered += other.unanswered;
        self.minor += other.minor;
        self.major += other.major;
        self.refaults.iter_mut().zip(other.refaults).for_each(|(sum, more)| *sum += more);
        self.failed += other.failed;
        self.asked += other.asked;
        self.found += other.found;
    }

    /// The share of the requested pages that were in memory; `None` if there were no requests.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.found as f64 / self.asked as f64)
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.latencies.len()
    }

    /// The latency within which a share of the arrivals was answered, nanoseconds; `None` if too
    /// many stayed unanswered.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let (longest_ns, _) = self.longest?;
        let answered = self.count() as f64;
        let quantile = match self.unanswered {
            0 => quantile,
            unanswered => quantile * (answered + unanswered as f64) / answered,
        };
        // The histogram has three digits; the longest is known exactly.
        let value = || self.latencies.value_at_quantile(quantile).min(longest_ns);
        (quantile <= 1.0).then(value)
    }

    /// Operations a second, over [`Self::span_ns`].
    pub fn rate(&self) -> f64 {
        match self.span_ns {
            Some((from, to)) if to > from => self.count() as f64 * 1e9 / (to - from) as f64,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tasks_left_adds_up() {
        let mut one = Recorded::default();
        one.add(1_000, 2_000);
        one.add(5_000, 500_000_000);
        let mut other = Recorded::default();
        other.add(2_000, 1_000_001_000);
        other.minor = 3;
        other.refaults = [0, 4];
        assert_eq!(one.hit_ratio(), None);
        (other.asked, other.found) = (8, 6);
        one.merge(&other);
        assert_eq!((one.count(), one.minor, one.refaults), (3, 3, [0, 4]));
        assert_eq!(one.hit_ratio(), Some(0.75));
        assert_eq!(one.longest, Some((999_999_000, 1_000_001_000)));
        assert_eq!(one.span_ns, Some((1_000, 1_000_001_000)));
        assert!((one.rate() - 3.0).abs() < 1e-6);
        assert_eq!(one.latencies.value_at_quantile(0.3), 1_000);
    }

    #[test]
    fn what_nobody_answers_counts() {
        let mut record = Recorded::default();
        (0..98).for_each(|at| record.add(at * 1_000, at * 1_000 + 50));
        assert_eq!([0.5, 0.99].map(|q| record.quantile_ns(q)), [Some(50); 2]);
        record.cut_short(2, 0, Some(1_000_000_000));
        assert_eq!(
            [0.5, 0.98, 0.99, 1.0].map(|q| record.quantile_ns(q)),
            [Some(50), Some(50), None, None]
        );
        assert!((record.rate() - 98.0).abs() < 1e-6, "over the planned second: {}", record.rate());
    }
}
