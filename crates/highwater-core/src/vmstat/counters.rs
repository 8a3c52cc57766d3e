//! Counter arrays with per-CPU differences (rules/zone-counters#differences).
//!
//! A change goes to the CPU's 8-bit difference, and is folded into the global value only past a
//! threshold. So reads are cheap and slightly wrong, by at most `cpus * threshold`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crossbeam_utils::CachePadded;

use crate::host::CpuId;
use crate::sync::atomic::{AtomicI8, AtomicI64, AtomicU8, Ordering::Relaxed};

struct CpuDiffs<const N: usize> {
    diff: [AtomicI8; N],
}

/// `N` counters.
///
/// Synchronisation: differences are written by their own CPU only (or with that CPU offline);
/// globals by atomic addition.
pub struct StatSet<const N: usize> {
    global: [AtomicI64; N],
    cpus: Box<[CachePadded<CpuDiffs<N>>]>,
    threshold: AtomicU8,
}

impl<const N: usize> StatSet<N> {
    /// Zeroed counters for `nr_cpus` CPUs; threshold 0 (every change reaches the global value).
    pub fn new(nr_cpus: usize) -> Self {
        let mut cpus = Vec::with_capacity(nr_cpus);
        cpus.resize_with(nr_cpus, || {
            CachePadded::new(CpuDiffs { diff: core::array::from_fn(|_| AtomicI8::new(0)) })
        });
        StatSet {
            global: core::array::from_fn(|_| AtomicI64::new(0)),
            cpus: cpus.into_boxed_slice(),
            threshold: AtomicU8::new(0),
        }
    }

    /// Adds `delta` to a counter on behalf of `cpu`, folding when the threshold is passed.
    ///
    /// # Panics
    /// If the set has no such CPU or item.
    #[doc(alias = "__mod_zone_page_state")]
    #[doc(alias = "__mod_node_page_state")]
    #[inline(always)]
    pub fn add(&self, cpu: CpuId, item: usize, delta: i64) {
        let diff = &self.cpus[cpu.idx()].diff[item];
        let sum = i64::from(diff.load(Relaxed)) + delta;
        let threshold = i64::from(self.threshold.load(Relaxed));
        // Beyond it, up or down, in one comparison.
        if (sum + threshold) as u64 > 2 * threshold as u64 {
            self.global[item].fetch_add(sum, Relaxed);
            diff.store(0, Relaxed);
        } else {
            // |sum| <= threshold <= 125 fits.
            diff.store(sum as i8, Relaxed);
        }
    }

    /// Equal to `times` calls of [`Self::add`] with `1 << shift`.
    #[inline]
    pub(crate) fn add_often(&self, cpu: CpuId, item: usize, shift: u8, times: u32) {
        if times == 1 {
            return self.add(cpu, item, 1 << shift);
        }
        let diff = &self.cpus[cpu.idx()].diff[item];
        let threshold = i64::from(self.threshold.load(Relaxed));
        let (mut sum, mut folded, mut left) = (i64::from(diff.load(Relaxed)), 0, i64::from(times));
        loop {
            // Steps until it is past the threshold; one if the threshold has fallen below the
            // present difference.
            let steps = match sum + (1 << shift) < -threshold {
                true => 1,
                false => ((threshold - sum).max(0) >> shift) + 1,
            };
            if left < steps {
                break;
            }
            folded += sum + (steps << shift);
            (sum, left) = (0, left - steps);
        }
        if folded != 0 {
            self.global[item].fetch_add(folded, Relaxed);
        }
        diff.store((sum + (left << shift)) as i8, Relaxed);
    }

    /// Reads a counter's global value, never below 0; per-CPU differences are ignored.
    ///
    /// # Panics
    /// If the set has no such item.
    #[doc(alias = "zone_page_state")]
    #[doc(alias = "node_page_state")]
    #[inline(always)]
    pub fn read(&self, item: usize) -> u64 {
        self.global[item].load(Relaxed).max(0) as u64
    }

    /// As [`Self::read`], below 0 too.
    #[inline(always)]
    pub(crate) fn read_signed(&self, item: usize) -> i64 {
        self.global[item].load(Relaxed)
    }

    /// Reads a counter with the differences of all CPUs added (a snapshot).
    ///
    /// # Panics
    /// If the set has no such item.
    #[doc(alias = "zone_page_state_snapshot")]
    pub fn read_exact(&self, item: usize) -> u64 {
        let diffs: i64 = self.cpus.iter().map(|c| i64::from(c.diff[item].load(Relaxed))).sum();
        (self.global[item].load(Relaxed) + diffs).max(0) as u64
    }

    /// Folds one CPU's differences into the globals; true if there were any.
    ///
    /// # Panics
    /// If the set has no such CPU.
    #[doc(alias = "cpu_vm_stats_fold")]
    pub fn fold(&self, cpu: CpuId) -> bool {
        let mut any = false;
        for (item, diff) in self.cpus[cpu.idx()].diff.iter().enumerate() {
            let d = diff.load(Relaxed);
            if d != 0 {
                diff.store(0, Relaxed);
                self.global[item].fetch_add(i64::from(d), Relaxed);
                any = true;
            }
        }
        any
    }

    /// The threshold in force.
    pub fn threshold(&self) -> u8 {
        self.threshold.load(Relaxed)
    }

    /// Sets the threshold (at most 125).
    pub fn set_threshold(&self, threshold: u8) {
        self.threshold.store(threshold.min(125), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_times_is_one_by_one() {
        for (threshold, shift) in [(0, 0), (7, 0), (7, 3), (125, 0), (125, 3), (32, 9)] {
            let [single, often] = [(); 2].map(|()| StatSet::<1>::new(1));
            let seen = |stats: &StatSet<1>| (stats.read_signed(0), stats.read_exact(0));
            for stats in [&single, &often] {
                stats.set_threshold(threshold);
            }
            for (nth, times) in [1, 2, 63, 0, 5, 1000, 40].into_iter().enumerate() {
                for stats in [&single, &often] {
                    // Start on either side of 0; the last start is beyond a threshold that has
                    // fallen.
                    let start = if nth == 6 { threshold } else { threshold / 2 };
                    stats.fold(CpuId(0));
                    stats.add(CpuId(0), 0, -i64::from(start));
                    if nth >= 5 {
                        stats.set_threshold(threshold / 8);
                    }
                }
                (0..times).for_each(|_| single.add(CpuId(0), 0, 1 << shift));
                often.add_often(CpuId(0), 0, shift, times);
                assert_eq!(seen(&single), seen(&often), "{threshold}, {shift}, {times}");
            }
        }
    }

    #[test]
    fn drift_stays_within_the_threshold() {
        let stats = StatSet::<1>::new(2);
        stats.set_threshold(4);
        for _ in 0..4 {
            stats.add(CpuId(0), 0, 1);
        }
        assert_eq!((stats.read(0), stats.read_exact(0)), (0, 4));
        stats.add(CpuId(0), 0, 1);
        assert_eq!((stats.read(0), stats.read_exact(0)), (5, 5));
        stats.add(CpuId(1), 0, -3);
        assert_eq!((stats.read(0), stats.read_exact(0)), (5, 2));
        assert!(stats.fold(CpuId(1)) && !stats.fold(CpuId(1)));
        assert_eq!(stats.read(0), 2);
        stats.add(CpuId(1), 0, -1024);
        assert_eq!((stats.read(0), stats.read_exact(0)), (0, 0), "reads clamp at 0");
    }
}
