//! Estimates of a device's write bandwidth (rules/dirty-throttling#bandwidth) and of its writers'
//! rate (rules/dirty-throttling#base-rate): pure arithmetic.
//!
//! Key types: [`Rates`] (a device's estimates).

use super::limits::INITIAL_BANDWIDTH;
use super::position::Position;
use crate::host::HZ;

/// Estimates are brought up to date this often at most, jiffies.
pub(super) const INTERVAL: u64 = HZ / 5;
/// The window of the bandwidth estimate, jiffies; a power of two near four seconds.
const WINDOW: u64 = 1 << WINDOW_SHIFT;
const WINDOW_SHIFT: u32 = 10;

/// Counts since boot at the start or end of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When (jiffies).
    pub at: u64,
    /// Pages dirtied.
    pub dirtied: u64,
    /// Pages written.
    pub written: u64,
}

/// Estimates of a device, pages a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Where the running sample began.
    pub(super) since: Sample,
    /// Write bandwidth.
    write_bandwidth: u64,
    /// The same, smoother.
    avg_bandwidth: u64,
    /// Pages that one writer may dirty at a position ratio of 1 (`dirty_ratelimit`).
    rate: u64,
    /// What that should be, by the last sample alone.
    balanced: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Rates {
            since: Sample::default(),
            write_bandwidth: INITIAL_BANDWIDTH,
            avg_bandwidth: INITIAL_BANDWIDTH,
            rate: INITIAL_BANDWIDTH,
            balanced: INITIAL_BANDWIDTH,
        }
    }
}

impl Rates {
    /// Write bandwidth of the device.
    pub const fn bandwidth(&self) -> u64 {
        self.avg_bandwidth
    }

    /// Pages that one writer may dirty at a position ratio of 1.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// True if the running sample is long enough.
    pub const fn is_due(&self, now: u64) -> bool {
        now >= self.since.at + INTERVAL
    }

    /// Work begins on a device that has none under way: a sample that idled says nothing.
    pub fn begin(&mut self, now: Sample) {
        if now.at > self.since.at + HZ {
            self.since = now;
        }
    }

    /// Ends a sample. A throttled writer (`position`) also updates the writers' rate.
    pub fn end(&mut self, now: Sample, position: Option<&Position>) {
        let elapsed = (now.at - self.since.at).max(1);
        if let Some(position) = position {
            self.step_rate(now.dirtied - self.since.dirtied, elapsed, position);
        }
        self.step_bandwidth(now.written - self.since.written, elapsed);
        self.since = now;
    }

    /// Updates the estimate of the device's write bandwidth from one sample.
    #[doc(alias = "wb_update_write_bandwidth")]
    fn step_bandwidth(&mut self, written: u64, elapsed: u64) {
        let now = written * HZ;
        if elapsed > WINDOW {
            self.write_bandwidth = now / elapsed;
            self.avg_bandwidth = self.write_bandwidth.max(1);
            return;
        }
        let old = self.write_bandwidth;
        let new = (now + old * (WINDOW - elapsed)) >> WINDOW_SHIFT;
        // The average follows only where both the last and the new estimate lie on one side.
        let avg = self.avg_bandwidth;
        if avg > old && old >= new {
            self.avg_bandwidth -= (avg - old) / 8;
        } else if avg < old && old <= new {
            self.avg_bandwidth += (old - avg) / 8;
        }
        self.avg_bandwidth = self.avg_bandwidth.max(1);
        self.write_bandwidth = new;
    }

    /// Updates the base dirty rate of the device's writers from one sample.
    #[doc(alias = "wb_update_dirty_ratelimit")]
    fn step_rate(&mut self, dirtied: u64, elapsed: u64, position: &Position) {
        let dirty_rate = dirtied * HZ / elapsed;
        self.follow(dirty_rate, position.ratio(), position.dirty < position.setpoint());
    }

    /// One step towards the rate at which dirtying and writing balance, if position and the last
    /// two samples agree about the direction.
    fn follow(&mut self, dirty_rate: u64, ratio: u64, is_below: bool) {
        let task_rate = self.rate * ratio / 1024 + 1;
        let balanced = (task_rate * self.avg_bandwidth / (dirty_rate | 1)).min(self.avg_bandwidth);
        let bounds = [self.balanced, balanced, task_rate];
        let step = if is_below {
            bounds.into_iter().fold(u64::MAX, u64::min).saturating_sub(self.rate)
        } else {
            self.rate.saturating_sub(bounds.into_iter().fold(0, u64::max))
        };
        // Smaller steps the nearer it is.
        let shift = self.rate / (2 * step + 1);
        let step = if shift < u64::from(u64::BITS) { (step >> shift).div_ceil(8) } else { 0 };
        if self.rate < balanced {
            self.rate += step;
        } else {
            self.rate = self.rate.saturating_sub(step);
        }
        self.rate = self.rate.max(1);
        self.balanced = balanced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_smoothed() {
        let mut rates = Rates::default();
        let tick = |rates: &mut Rates, written| {
            rates.step_bandwidth(written, 50);
            (rates.write_bandwidth, rates.avg_bandwidth)
        };
        let ticks: [_; 100] = core::array::from_fn(|_| tick(&mut rates, 10_240));
        let first = [
            (26_850, 25_600),
            (28_038, 25_756),
            (29_168, 26_041),
            (30_243, 26_431),
            (31_266, 26_907),
        ];
        assert_eq!(ticks[..5], first);
        assert_eq!((ticks[24], ticks[99]), ((43_869, 39_755), (51_019, 50_906)));

        let mut rates = Rates::default();
        let ticks: [_; 3] = core::array::from_fn(|_| tick(&mut rates, 2560));
        assert_eq!(ticks, [(24_975, 25_600), (24_380, 25_522), (23_814, 25_380)]);
    }

    #[test]
    fn the_base_rate_follows() {
        let follow = |(rate, balanced, ratio, dirty_rate, dirty): (u64, u64, u64, u64, u64)| {
            let mut rates = Rates { rate, balanced, ..Rates::default() };
            rates.follow(dirty_rate, ratio, dirty < 183_424);
            (rates.rate, rates.balanced)
        };
        assert_eq!(follow((25_600, 6400, 896, 89_600, 196_544)), (25_575, 6400));
        assert_eq!(follow((25_600, 25_600, 1024, 102_400, 183_424)), (25_600, 6400));
        assert_eq!(follow((25_600, 6400, 200, 20_000, 205_000)), (23_200, 6400));
        assert_eq!(follow((3200, 6400, 1500, 20_000, 160_000)), (3293, 6000));
    }

    #[test]
    fn an_idle_sample_is_dropped() {
        let mut rates = Rates::default();
        let sample = |at, written| Sample { at, dirtied: 0, written };
        rates.begin(sample(HZ, 100));
        assert_eq!(rates.since.at, 0, "not idle for long");
        rates.begin(sample(HZ + 1, 100));
        assert!(!rates.is_due(HZ + INTERVAL) && rates.is_due(HZ + 1 + INTERVAL));
        rates.end(sample(HZ + 1 + 2000, 100 + 8000), None);
        assert_eq!((rates.write_bandwidth, rates.avg_bandwidth), (1000, 1000), "a long sample");
    }
}
