//! A device's share of the limits (rules/dirty-throttling#device-share): the share of its recent
//! writes in those of all devices.
//!
//! Counts are halved every three seconds. No task runs for that: a count stores its period, and
//! each read or addition brings it up to date.

use crate::host::HZ;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Length of a period, jiffies.
const PERIOD: u64 = 3 * HZ;
/// A count's low bits; the period is in the others.
const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// A count of pages in which earlier periods are halved once for each period since.
#[doc(alias = "fprop_local_percpu")]
#[derive(Debug, Default)]
pub struct RecentCount(AtomicU64);

impl RecentCount {
    /// Counts pages. From interrupts.
    pub fn add(&self, now: u64, pages: u64) {
        let add = |word| Some(pack(now, (aged(word, now) + pages).min(COUNT_MASK)));
        let _ = self.0.fetch_update(Relaxed, Relaxed, add);
    }

    /// The count by now.
    pub fn get(&self, now: u64) -> u64 {
        aged(self.0.load(Relaxed), now)
    }
}

const fn pack(now: u64, count: u64) -> u64 {
    (now / PERIOD) << COUNT_BITS | count
}

fn aged(word: u64, now: u64) -> u64 {
    let periods = (now / PERIOD).saturating_sub(word >> COUNT_BITS);
    let count = word & COUNT_MASK;
    if periods < u64::from(COUNT_BITS) { count >> periods } else { 0 }
}

/// Part of the room below a limit that a device has at least (rules/dirty-throttling#share-floor).
const ROOM_SHARE: u64 = 8;

/// Computes the least share of a device of a limit with `dirty` pages below it.
pub(super) const fn least(limit: u64, dirty: u64) -> u64 {
    limit.saturating_sub(dirty) / ROOM_SHARE
}

/// Computes a device's part of `limit`: `own` of `all` pages written. While nothing was written it
/// is 0.
#[doc(alias = "__wb_calc_thresh")]
pub(super) fn part(limit: u64, own: u64, all: u64) -> u64 {
    let all = all.max(1);
    (u128::from(limit) * u128::from(own.min(all)) / u128::from(all)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_halve_every_three_seconds() {
        let count = RecentCount::default();
        count.add(10, 1000);
        count.add(20, 24);
        assert_eq!((count.get(749), count.get(750), count.get(5 * 750)), (1024, 512, 32));
        count.add(2 * 750, 4);
        assert_eq!((count.get(2 * 750), count.get(3 * 750)), (260, 130));
        assert_eq!(count.get(1000 * 750), 0);
    }

    #[test]
    fn the_least_share_is_an_eighth_of_the_room() {
        assert_eq!((least(1000, 200), least(1000, 993), least(200, 1000)), (100, 0, 0));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!((part(209_664, 300, 400), part(209_664, 100, 400)), (157_248, 52_416));
        assert_eq!((part(209_664, 0, 0), part(209_664, 1, 0)), (0, 209_664));
    }
}
