//! How long a writer sleeps, and after how many pages (rules/dirty-throttling#pauses): pure sums.

use crate::host::HZ;

/// Longest pause, jiffies (200 ms).
const PAUSE_MAX: u64 = HZ / 5;
/// Shortest pause that is aimed at, jiffies (10 ms, rounded down).
const PAUSE_AIM: u64 = HZ / 100;
/// Fewer pages than these (128 KiB) a pause are not worth a check.
const PAGES_MIN: u64 = 32;

/// Computes the longest pause on a device with so little dirty that a longer one might let it run
/// dry.
#[doc(alias = "wb_max_pause")]
pub(super) fn longest(wb_dirty: u64, bandwidth: u64) -> u64 {
    PAUSE_MAX.min(1 + wb_dirty / (1 + bandwidth / 32))
}

/// Pauses worth making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// Shorter ones are left out and made up for later.
    pub shortest: u64,
    /// Longest.
    pub longest: u64,
    /// Pages to dirty between two.
    pub pages: u64,
}

impl Pauses {
    /// Computes the shortest and longest pause of a throttled writer. The task may dirty
    /// `task_rate` pages a second, `rate` is the one at a position ratio of 1 and the device writes
    /// `bandwidth`.
    #[doc(alias = "wb_min_pause")]
    pub fn new(longest: u64, task_rate: u64, rate: u64, bandwidth: u64) -> Pauses {
        // Many writers, each slow: longer pauses, fewer wake-ups.
        let (high, low) = (ilog2(bandwidth), ilog2(rate));
        let mut time = PAUSE_AIM + high.saturating_sub(low) * (10 * HZ) / 1024;
        time = time.min(1 + longest / 2);
        let mut pages = rate * time / roundup_hz();
        if pages < PAGES_MIN {
            time = longest;
            pages = rate * time / roundup_hz();
            if pages > PAGES_MIN {
                pages = PAGES_MIN;
                time = HZ * PAGES_MIN / rate;
            }
        }
        if HZ * pages / (task_rate + 1) > longest {
            time = longest;
            pages = task_rate * time / roundup_hz();
        }
        let shortest = if pages >= PAGES_MIN { 1 + time / 2 } else { time };
        Pauses { shortest, longest, pages }
    }
}

/// Jiffies per second up to a power of two: a shift instead of a division, as the kernel does.
const fn roundup_hz() -> u64 {
    HZ.next_power_of_two()
}

fn ilog2(x: u64) -> u64 {
    u64::from(x.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_by_rate() {
        let longest = [100, 1000, 10_000, 100_000].map(|dirty| longest(dirty, 25_600));
        assert_eq!(longest, [1, 2, 13, 50]);
        let pauses = [25_600, 6400, 1600, 400, 100].map(|rate| {
            let pauses = Pauses::new(50, rate, rate, 25_600);
            (pauses.shortest, pauses.pages)
        });
        assert_eq!(pauses, [(2, 200), (4, 150), (6, 68), (11, 32), (50, 19)]);
    }
}
