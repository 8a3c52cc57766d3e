//! Counters by name: how much each line of `/proc/vmstat`, or of our own counters, grew during a
//! run.
//!
//! Key type: [`Counters`]. Names are the kernel's (`pgscan_kswapd`), so that old files stay
//! readable when counters come and go; an absent counter counts as 0. Values are differences and
//! may be negative (gauges such as `nr_free_pages`).
//!
//! Neighbours: filled by the workloads and importers, read by `highwater-report`'s vmstat block.
//! Ordered by name, so iteration and JSON are deterministic. No synchronisation.

use std::collections::{BTreeMap, btree_map};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Named counter differences, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, i64>);

impl Counters {
    /// No counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counter, or 0 if it does not exist.
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// True if the counter was recorded, even as 0.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets one counter.
    pub fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.to_owned(), value);
    }

    /// Adds to one counter, creating it if needed. Saturates.
    pub fn add(&mut self, name: &str, value: i64) {
        match self.0.get_mut(name) {
            Some(old) => *old = old.saturating_add(value),
            None => self.set(name, value),
        }
    }

    /// Adds every counter of `other`, to pool two runs.
    pub fn merge(&mut self, other: &Counters) {
        for (name, value) in other.iter() {
            self.add(name, value);
        }
    }

    /// Growth between two readings: `after - before` for every name in either.
    pub fn difference(before: &Counters, after: &Counters) -> Counters {
        let mut delta = after.clone();
        for (name, value) in before.iter() {
            delta.add(name, value.saturating_neg());
        }
        delta
    }

    /// Counters in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, &value)| (name.as_str(), value))
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no counters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>> FromIterator<(N, i64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (N, i64)>>(rows: I) -> Self {
        Counters(rows.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<N: Into<String>> Extend<(N, i64)> for Counters {
    fn extend<I: IntoIterator<Item = (N, i64)>>(&mut self, rows: I) {
        self.0.extend(rows.into_iter().map(|(name, value)| (name.into(), value)));
    }
}

impl IntoIterator for Counters {
    type Item = (String, i64);
    type IntoIter = btree_map::IntoIter<String, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_covers_names_of_both_sides() {
        let before: Counters = [("gone", 3), ("pgfault", 10)].into_iter().collect();
        let after: Counters = [("pgfault", 15), ("new", 2)].into_iter().collect();
        let delta = Counters::difference(&before, &after);
        let rows: Vec<_> = delta.iter().collect();
        assert_eq!(rows, [("gone", -3), ("new", 2), ("pgfault", 5)]);
    }

    #[test]
    fn merge_adds_and_absent_is_zero() {
        let mut sum: Counters = [("a", 1)].into_iter().collect();
        sum.merge(&[("a", 2), ("b", 5)].into_iter().collect());
        assert_eq!((sum.get("a"), sum.get("b"), sum.get("c")), (3, 5, 0));
        assert!(!sum.contains("c"));
    }
}
