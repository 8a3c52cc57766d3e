//! Counts by key: how often each delay, page frame or order occurred.
//!
//! Key type: [`Histogram`]. A key is text, exactly as it is printed: an event line
//! (`usec_timeout=100000 usect_delayed=0 reason=VMSCAN_THROTTLE_WRITEBACK`), a page frame
//! (`0x111a30`), an order (`9`).
//!
//! Neighbours: filled by the workloads, printed by `highwater-report`. Ordered by key, no
//! synchronisation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of histograms of latencies. The event is the operation; a key is the longest time of its
/// bucket in nanoseconds.
pub const LATENCY: &str = "latency";

/// Counts by key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// Its subject: `direct reclaim: throttled on writeback`.
    pub name: String,
    /// The event that was counted: `mm_vmscan_throttled`. Histograms of different runs are paired
    /// by it.
    pub event: String,
    /// The tasks that caused the events: `kswapd`, `direct reclaim`, `all`.
    pub context: String,
    /// All events, including those whose key was not kept.
    pub total: u64,
    /// Count by key.
    pub buckets: BTreeMap<String, u64>,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(name: &str, event: &str, context: &str) -> Self {
        Histogram {
            name: name.to_owned(),
            event: event.to_owned(),
            context: context.to_owned(),
            total: 0,
            buckets: BTreeMap::new(),
        }
    }

    /// Counts `count` events under `key`.
    pub fn record(&mut self, key: &str, count: u64) {
        self.total += count;
        match self.buckets.get_mut(key) {
            Some(old) => *old += count,
            None => {
                self.buckets.insert(key.to_owned(), count);
            }
        }
    }

    /// Adds the events of another histogram of the same event.
    pub fn merge(&mut self, other: &Histogram) {
        let kept: u64 = other.buckets.values().sum();
        for (key, &count) in &other.buckets {
            self.record(key, count);
        }
        self.total += other.total.saturating_sub(kept);
    }

    /// Buckets in the order of the seeds: count ascending, ties by text
    /// (rules/mmtests-tables#delay-histogram).
    pub fn by_count(&self) -> Vec<(&str, u64)> {
        let mut rows: Vec<_> =
            self.buckets.iter().map(|(key, &count)| (key.as_str(), count)).collect();
        rows.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(b.0)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_count_orders_ascending_and_breaks_ties_by_text() {
        let mut histogram = Histogram::new("pfn", "mm_page_alloc", "all");
        for (key, count) in [("0x20", 3), ("0x10", 3), ("0x08", 1), ("0x30", 9)] {
            histogram.record(key, count);
        }
        assert_eq!(histogram.by_count(), [("0x08", 1), ("0x10", 3), ("0x20", 3), ("0x30", 9)]);
        assert_eq!(histogram.total, 16);
    }

    #[test]
    fn merge_keeps_the_total_of_dropped_keys() {
        let mut a = Histogram::new("pfn", "mm_page_alloc", "all");
        a.record("0x08", 5);
        let mut b = a.clone();
        // An event whose key was not kept.
        b.total += 1;
        a.merge(&b);
        assert_eq!(a.total, 11);
        assert_eq!(a.by_count(), [("0x08", 10)]);
    }
}
