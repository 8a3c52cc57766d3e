//! How busy this computer is with other things: a measurement beside them is spoiled.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Ticks in a second of `/proc/stat`, on every architecture.
const TICKS_PER_S: f64 = 100.0;

/// CPU time used so far.
pub(crate) struct Used {
    /// Seconds of all CPUs that were not idle; time that the host gave to others counts.
    busy: f64,
    /// Seconds of all CPUs.
    all: f64,
    /// Seconds of this process.
    own: f64,
}

impl Used {
    /// The times now; `None`: the kernel does not say.
    pub(crate) fn now() -> Option<Used> {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
        Used::of(&fs::read_to_string("/proc/stat").ok()?, own)
    }

    fn of(text: &str, own: f64) -> Option<Used> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guests are in user already.
        let times: Vec<f64> = line
            .split_whitespace()
            .take(8)
            .map(|ticks| ticks.parse::<f64>().ok().map(|ticks| ticks / TICKS_PER_S))
            .collect::<Option<_>>()?;
        let [.., idle, iowait, _, _, _] = times[..] else { return None };
        let all: f64 = times.iter().sum();
        Some(Used { busy: all - idle - iowait, all, own })
    }

    /// Share of all CPUs that others used since.
    pub(crate) fn since(&self, before: &Used) -> f64 {
        let others = (self.busy - before.busy) - (self.own - before.own);
        (others / (self.all - before.all).max(1e-9)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_is_busy_without_this_process() {
        let before = Used::of("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1\n", 1.0).unwrap();
        let after = Used::of("cpu  200 0 200 900 100 0 0 100 0 0\n", 2.0).unwrap();
        // 3 s busy, of which 1 s is ours, of 5 s.
        assert!((after.since(&before) - 0.4).abs() < 1e-9);
        assert!(Used::of("cpu0 1 2 3\n", 0.0).is_none());
    }
}
