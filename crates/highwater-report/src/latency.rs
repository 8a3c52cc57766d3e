//! Distribution of operation latencies, from histograms.
//!
//! Key type: [`Distribution`]. A run has one [`Histogram`] per operation, called [`LATENCY`]. Its
//! keys are the longest time of each bucket, in nanoseconds. Operations are assumed to be spread
//! evenly within a bucket.

use highwater_results::{Histogram, LATENCY, Largest, Run};

use crate::explain::human;
use crate::table::{Cell, Layout, Table};

/// Column limits of the terminal's table in nanoseconds, with their headings.
const EDGES: [(u64, &str); 8] = [
    (1_000, "<1us"),
    (10_000, "<10us"),
    (100_000, "<100us"),
    (1_000_000, "<1ms"),
    (10_000_000, "<10ms"),
    (100_000_000, "<100ms"),
    (1_000_000_000, "<1s"),
    (10_000_000_000, "<10s"),
];
/// Suffix of the operation that holds the longest time in microseconds: `reader.get max`.
const LONGEST: &str = " max";
/// Characters of the small histogram, lowest first.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One operation's latencies in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// The operation.
    pub(crate) operation: String,
    /// Shortest and longest time of a bucket in nanoseconds, and its number of operations;
    /// ascending.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
}

impl Distribution {
    fn of(histogram: &Histogram) -> Option<Distribution> {
        let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
        for (key, &count) in &histogram.buckets {
            let to_ns: u64 = key.parse().ok()?;
            buckets.push((shortest(to_ns), to_ns, count));
        }
        buckets.sort_unstable();
        let operation = histogram.event.clone();
        (!buckets.is_empty()).then_some(Distribution { operation, buckets })
    }

    /// The distributions of all operations of a run, in the order of its histograms.
    pub(crate) fn all(run: &Run) -> Vec<Distribution> {
        let known = run.histograms.iter().filter(|histogram| histogram.name == LATENCY);
        let mut all: Vec<Distribution> = known.filter_map(Distribution::of).collect();
        // No operation in the last bucket took longer than the longest operation of all, so the
        // bucket ends there.
        for found in &mut all {
            let is_its = |max: &&Largest| {
                max.operation.strip_suffix(LONGEST) == Some(found.operation.as_str())
            };
            let longest = run.largest.iter().find(is_its).map(|max| max.value * 1e3);
            if let (Some(ns), Some(last)) = (longest, found.buckets.last_mut()) {
                last.1 = last.1.min((ns.ceil() as u64).max(last.0));
            }
        }
        all
    }

    /// Number of operations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, _, count)| count).sum()
    }

    /// Share of operations that took less than this time.
    pub(crate) fn below(&self, ns: u64) -> f64 {
        let part = |&(from, to, count): &(u64, u64, u64)| {
            let width = (to - from + 1) as f64;
            count as f64 * (ns.saturating_sub(from) as f64 / width).min(1.0)
        };
        self.buckets.iter().map(part).sum::<f64>() / self.count().max(1) as f64
    }

    /// First and last doubling that the distribution covers, as powers of two of nanoseconds.
    fn doublings(&self) -> (u32, u32) {
        let first = self.buckets.first().map_or(0, |bucket| bucket.0.max(1).ilog2());
        let last = self.buckets.last().map_or(0, |bucket| bucket.1.max(1).ilog2());
        (first, last)
    }

    /// Number of operations between this power of two of nanoseconds and the next.
    pub(crate) fn in_doubling(&self, power: u32) -> u64 {
        // No bucket crosses a power of two.
        let of = |bucket: &&(u64, u64, u64)| bucket.1.max(1).ilog2() == power;
        self.buckets.iter().filter(of).map(|bucket| bucket.2).sum()
    }

    fn small(&self, from: u32, to: u32, most: u64) -> String {
        let sign = |power: u32| match self.in_doubling(power) {
            0 => ' ',
            count => {
                let top = (most.max(2) as f64).ln();
                let height = (count as f64).ln() / top * (HEIGHTS.len() - 1) as f64;
                HEIGHTS[(height.round() as usize).min(HEIGHTS.len() - 1)]
            }
        };
        (from..=to).map(sign).collect()
    }
}

/// The shortest time of the bucket with this longest time; there are eight buckets to a doubling.
fn shortest(to_ns: u64) -> u64 {
    let shift = (to_ns.max(1).ilog2() + 1).saturating_sub(BITS);
    to_ns >> shift << shift
}

/// Leading bits of a time that select its bucket.
const BITS: u32 = 4;

/// The longest time of the bucket that a time belongs to, nanoseconds.
pub fn bucket(ns: u64) -> u64 {
    let shift = (ns.max(1).ilog2() + 1).saturating_sub(BITS);
    (((ns >> shift) + 1) << shift) - 1
}

/// Operations of all runs, in the order in which the runs have them.
pub(crate) fn operations(all: &[Vec<Distribution>]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for distribution in all.iter().flatten() {
        if !names.contains(&distribution.operation.as_str()) {
            names.push(&distribution.operation);
        }
    }
    names
}

/// A row for each operation and run: the share of operations below each time, and a small
/// histogram.
pub fn latencies(runs: &[&Run]) -> Table {
    let all: Vec<Vec<Distribution>> = runs.iter().map(|run| Distribution::all(run)).collect();
    let flat = || all.iter().flatten();
    // A column that is 0 or 100 % in every row says nothing, so it is left out.
    let is_telling = |ns: u64| flat().any(|d| (0.00005..0.99995).contains(&d.below(ns)));
    let edges: Vec<(u64, &str)> = EDGES.into_iter().filter(|&(ns, _)| is_telling(ns)).collect();
    let from = flat().map(|d| d.doublings().0).min().unwrap_or(0);
    let to = flat().map(|d| d.doublings().1).max().unwrap_or(0);
    let most = flat().flat_map(|d| (from..=to).map(|power| d.in_doubling(power))).max();
    let mut columns = vec!["n".to_owned()];
    columns.extend(edges.iter().map(|(_, name)| (*name).to_owned()));
    columns.push("histogram".to_owned());
    let machine = runs.first().map(|run| run.machine.as_str()).filter(|name| !name.is_empty());
    let place = machine.map(|machine| format!(" on {machine}")).unwrap_or_default();
    let title = format!("latencies{place} (percent of the operations that took less)");
    let mut table = Table::new(title, &["operation", "run"], columns, Layout::Fitted);
    for name in operations(&all) {
        for (run, distributions) in runs.iter().zip(&all) {
            let Some(found) = distributions.iter().find(|d| d.operation == *name) else { continue };
            let mut cells = vec![Cell::text(found.count().to_string())];
            cells.extend(edges.iter().map(|&(ns, _)| Cell::number(100.0 * found.below(ns), 2)));
            cells.push(Cell::text(found.small(from, to, most.unwrap_or(1))));
            table.push(&[name, &run.label], cells);
        }
    }
    table.notes.push(format!(
        "histogram: a sign for each doubling of the time, from {} to {}; its height is the logarithm of the count",
        human(1 << from),
        human(2_u64 << to)
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(u64, u64)]) -> Run {
        let mut run = Run::new("m", "p", "p");
        let mut histogram = Histogram::new(LATENCY, "reader.get", "");
        for &(ns, count) in values {
            histogram.record(&bucket(ns).to_string(), count);
        }
        run.histograms.push(histogram);
        run
    }

    #[test]
    fn buckets_hold_their_times_and_no_power_of_two_is_inside_one() {
        for ns in (1..5000).chain([1 << 40, (1 << 40) - 1]) {
            let to = bucket(ns);
            assert!(shortest(to) <= ns && ns <= to, "{ns}: {} to {to}", shortest(to));
            assert_eq!(shortest(to).ilog2(), to.ilog2(), "{ns}");
            assert!((to - shortest(to)) * 8 <= ns, "{ns}");
        }
    }

    #[test]
    fn shares_are_those_of_the_operations() {
        let run = run(&[(500, 900), (90_000, 90), (5_000_000, 10)]);
        let table = latencies(&[&run]);
        let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        assert_eq!(columns, ["n", "<1us", "<10us", "<100us", "<1ms", "histogram"]);
        let texts: Vec<String> = table.rows[0].cells.iter().map(Cell::value_text).collect();
        assert_eq!(texts[..5], ["1000", "90.00", "90.00", "99.00", "99.00"]);
        // The histogram covers 256 ns to 8.4 ms.
        assert_eq!(texts[5].chars().count(), 15);
        assert!(texts[5].starts_with('█') && texts[5].ends_with('▃'), "{}", texts[5]);
        let few = Distribution { operation: String::new(), buckets: vec![(960, 1023, 64)] };
        assert_eq!(few.below(1000), 40.0 / 64.0);
    }

    #[test]
    fn the_last_bucket_ends_with_the_longest() {
        let mut run = run(&[(500, 1), (94_300_000, 1)]);
        let of_last = |run: &Run| Distribution::all(run)[0].below(100_000_000);
        assert!(of_last(&run) < 1.0);
        let operation = format!("{}{LONGEST}", Distribution::all(&run)[0].operation);
        run.largest.push(Largest { operation, seed: 1, value: 94_300.0, at_ns: 0 });
        assert_eq!(of_last(&run), 1.0);
    }

    #[test]
    fn without_histograms_there_is_nothing() {
        assert!(latencies(&[&Run::new("m", "p", "p")]).rows.is_empty());
    }
}
