//! The latency worker: sleeps, maps, touches, unmaps; its times are the benchmark's samples.

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Mm;

use super::Stop;
use super::memory::{Memory, Swept};
use crate::process;

/// The latency worker.
///
/// One operation: sleep, map, store a word in every page, unmap, read the clock. Its sample is the
/// time since the *previous* reading less the sleep, so that waking up late counts. For
/// explanations too, the operation begins when the sleep is over, even if other tasks run then. The
/// operation in progress when the worker is stopped is finished and counts. Otherwise the worst
/// stalls, those that last to the end, would be missing.
pub struct Latency<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Size of its mapping.
    pub pages: u32,
    /// Sleep before each operation; subtracted from the time between two readings.
    pub sleep_ns: u64,
    /// Name of its operations, for explanations: `mmap-48`.
    pub name: &'a str,
    /// Ends the worker.
    pub stop: &'a Stop,
}

/// An operation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    /// Its time: the benchmark's sample, nanoseconds.
    pub ns: u64,
    /// Time of its end, by the host's clock.
    pub end_ns: u64,
}

impl<H: Devices> Latency<'_, H> {
    /// Runs until stopped; returns the time of each operation, nanoseconds. A process that the OOM
    /// killer chose ends early.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<Vec<u64>, Error> {
        Ok(self.laps(cx)?.iter().map(|lap| lap.ns).collect())
    }

    /// The same, with the time at which each operation ended.
    ///
    /// # Errors
    /// As [`Latency::run`].
    pub fn laps(&self, cx: &Cx<'_, H>) -> Result<Vec<Lap>, Error> {
        let mm = process::start(self.kernel, cx)?;
        let samples = self.operations(cx, &mm);
        process::end(self.kernel, cx, &mm);
        samples
    }

    fn operations(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> Result<Vec<Lap>, Error> {
        // Never set: an operation always runs to its end.
        let never = Stop::default();
        let mut samples = Vec::new();
        let mut last_ns = cx.host.now_ns();
        while !self.stop.is_set() {
            cx.host.sleep_and_op_begin(self.sleep_ns);
            let memory = Memory::map(self.kernel, cx, mm, self.pages)?;
            if memory.sweep(self.kernel, cx, mm, &never)? == Swept::Killed {
                break;
            }
            memory.unmap(self.kernel, cx, mm)?;
            let now_ns = cx.host.now_ns();
            cx.host.op_end(self.name);
            samples.push(Lap { ns: sample(last_ns, now_ns, self.sleep_ns), end_ns: now_ns });
            last_ns = now_ns;
        }
        Ok(samples)
    }
}

/// Time between two readings less the sleep.
const fn sample(last_ns: u64, now_ns: u64, sleep_ns: u64) -> u64 {
    now_ns.saturating_sub(last_ns).saturating_sub(sleep_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sleep_does_not_count_and_nothing_is_negative() {
        assert_eq!(sample(1_000, 5_001_500, 5_000_000), 500);
        assert_eq!(sample(1_000, 4_000_000, 5_000_000), 0);
    }
}
