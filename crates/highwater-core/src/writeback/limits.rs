//! Dirty limits (rules/dirty-throttling#limits) and the sizes of writeback (rules/writeback#chunk):
//! pure sums.
//!
//! Pages, rates in pages a second, times in jiffies; division truncates.

use core::cell::Cell;

use crate::config::{LiveTunables, Tunables};
use crate::host::{HZ, TaskLocal};
use crate::memcg::dirty::GroupPages;
use crate::page::PAGE_SIZE;
use crate::zone::watermark::mult_frac;

/// Assumed write bandwidth of a device before it is measured, in pages a second (100 MB/s).
pub const INITIAL_BANDWIDTH: u64 = 25_600;
/// The unit in which a file's turn is measured out (4 MiB).
const CHUNK_UNIT: u64 = 1024;
/// Ratios are percentages scaled by this.
const RATIO_UNIT: u64 = PAGE_SIZE as u64;
/// Pages that a task dirties before it looks at the limits for the first time (128 KiB).
const PAUSE_FIRST: u64 = 32;
/// Centiseconds, as the sysctls count time.
const CENTISECONDS: u64 = 100;

/// Global limits, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    /// Writers are throttled above this.
    pub thresh: u64,
    /// The flusher works above this.
    pub background: u64,
}

/// The sysctls that the limits follow from.
#[derive(Clone, Copy, Debug)]
pub struct DirtySettings {
    bytes: u64,
    ratio: u64,
    background_bytes: u64,
    background_ratio: u64,
}

impl From<&Tunables> for DirtySettings {
    fn from(tunables: &Tunables) -> DirtySettings {
        DirtySettings {
            bytes: tunables.dirty_bytes,
            ratio: tunables.dirty_ratio,
            background_bytes: tunables.dirty_background_bytes,
            background_ratio: tunables.dirty_background_ratio,
        }
    }
}

impl From<&LiveTunables> for DirtySettings {
    fn from(tunables: &LiveTunables) -> DirtySettings {
        DirtySettings {
            bytes: tunables.dirty_bytes.get(),
            ratio: tunables.dirty_ratio.get(),
            background_bytes: tunables.dirty_background_bytes.get(),
            background_ratio: tunables.dirty_background_ratio.get(),
        }
    }
}

impl DirtyLimits {
    /// Computes the dirty limits for `avail` dirtyable pages; `boost` is the smoothed limit if the
    /// task is one that may exceed them (realtime).
    #[doc(alias = "domain_dirty_limits")]
    pub fn new(avail: u64, settings: impl Into<DirtySettings>, boost: Option<u64>) -> DirtyLimits {
        let DirtySettings { bytes, ratio, background_bytes, background_ratio } = settings.into();
        let limit = |bytes: u64, ratio: u64| match bytes {
            0 => ratio * RATIO_UNIT / 100 * avail / RATIO_UNIT,
            bytes => bytes.div_ceil(PAGE_SIZE as u64),
        };
        let mut thresh = limit(bytes, ratio);
        let mut background = limit(background_bytes, background_ratio);
        if let Some(dirty_limit) = boost {
            thresh += thresh / 4 + dirty_limit / 32;
            background += background / 4 + dirty_limit / 32;
        }
        if background >= thresh {
            background = thresh / 2;
        }
        DirtyLimits { thresh, background }
    }

    /// Computes the dirty limits of a memory cgroup, by the ratios of the machine. Limits in bytes
    /// count as the share that they are of the machine's dirtyable memory.
    pub(crate) fn of_group(pages: &GroupPages, settings: impl Into<DirtySettings>) -> DirtyLimits {
        let DirtySettings { bytes, ratio, background_bytes, background_ratio } = settings.into();
        let limit = |bytes: u64, ratio: u64| {
            let share = match bytes {
                0 => ratio * RATIO_UNIT / 100,
                bytes => bytes.div_ceil(pages.global_avail.max(1)).min(RATIO_UNIT),
            };
            share * pages.avail() / RATIO_UNIT
        };
        let (thresh, background) = (limit(bytes, ratio), limit(background_bytes, background_ratio));
        DirtyLimits {
            thresh,
            background: if background >= thresh { thresh / 2 } else { background },
        }
    }

    /// Returns the number of dirty pages below which no writer is throttled.
    #[doc(alias = "dirty_freerun_ceiling")]
    pub const fn freerun(self) -> u64 {
        (self.thresh + self.background) / 2
    }
}

/// Moves the smoothed limit one step on (rules/dirty-throttling#smoothed-limit): it rises with
/// `thresh` at once and follows it down slowly, never below what is dirty. 0 = never computed.
#[doc(alias = "update_dirty_limit")]
pub fn smooth_limit(dirty_limit: u64, thresh: u64, dirty: u64) -> u64 {
    if dirty_limit < thresh {
        return thresh;
    }
    let target = thresh.max(dirty);
    dirty_limit - dirty_limit.saturating_sub(target) / 32
}

/// Returns the pages a task may dirty before it looks at the limits again, if it is not throttled
/// (rules/dirty-throttling#poll-interval).
#[doc(alias = "dirty_poll_interval")]
pub const fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    if thresh > dirty { 1 << ((thresh - dirty).ilog2() / 2) } else { 1 }
}

/// Returns the pages one file may write before it is another's turn (rules/writeback#chunk).
#[doc(alias = "writeback_chunk_size")]
pub fn chunk(bandwidth: u64, dirty_limit: u64, work_left: u64) -> u64 {
    let pages = (bandwidth / 2).min(dirty_limit / 8).min(work_left);
    pages.saturating_add(CHUNK_UNIT) / CHUNK_UNIT * CHUNK_UNIT
}

/// Returns the pages that may be dirtied on one CPU before the limits are looked at
/// (rules/dirty-throttling#when-checked).
#[doc(alias = "writeback_set_ratelimit")]
pub fn cpu_pages(thresh: u64, nr_cpus: u64) -> u64 {
    (thresh / (32 * nr_cpus.max(1))).max(16)
}

/// A sysctl's centiseconds in jiffies.
pub const fn centisecs_to_jiffies(centisecs: u64) -> u64 {
    mult_frac(centisecs, HZ, CENTISECONDS)
}

/// Writeback that a device has so little of that waiting for it makes no sense
/// (rules/dirty-throttling#balance).
pub const fn negligible_writeback(nr_cpus: u64) -> u64 {
    nr_cpus * 8 * (1 + nr_cpus.ilog2() as u64)
}

/// A task's pages dirtied since it was last throttled (rules/dirty-throttling#when-checked).
#[derive(Debug)]
pub struct DirtiedPages {
    /// Pages.
    pub nr: Cell<u64>,
    /// The task looks at the limits after this many.
    pub pause: Cell<u64>,
    /// When its last pause ended, or would have (jiffies); none before the first.
    pub paused_when: Cell<Option<u64>>,
}

impl TaskLocal for DirtiedPages {}

impl Default for DirtiedPages {
    fn default() -> Self {
        let pause = Cell::new(PAUSE_FIRST);
        DirtiedPages { nr: Cell::new(0), pause, paused_when: Cell::new(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(avail: u64, tunables: &Tunables, boost: Option<u64>) -> (u64, u64, u64) {
        let limits = DirtyLimits::new(avail, tunables, boost);
        (limits.thresh, limits.background, limits.freerun())
    }

    #[test]
    fn limits_follow_dirtyable_memory() {
        let default = Tunables::default();
        assert_eq!(limits(262_144, &default, None), (52_416, 26_176, 39_296));
        assert_eq!(limits(1_048_576, &default, None), (209_664, 104_704, 157_184));
        assert_eq!(limits(4_194_304, &default, None), (838_656, 418_816, 628_736));
        assert_eq!(limits(1_048_576, &default, Some(209_664)), (268_632, 137_432, 203_032));
        let ratios = |dirty_ratio, dirty_background_ratio| Tunables {
            dirty_ratio,
            dirty_background_ratio,
            ..Tunables::default()
        };
        assert_eq!(limits(1_048_576, &ratios(10, 10), None), (104_704, 52_352, 78_528));
        assert_eq!(limits(1_048_576, &ratios(5, 50), None), (52_224, 26_112, 39_168));
    }

    #[test]
    fn bytes_override_ratios() {
        let tunables = Tunables {
            dirty_bytes: 8 << 20,
            dirty_background_bytes: (1 << 20) + 1,
            ..Tunables::default()
        };
        assert_eq!(limits(1_048_576, &tunables, None), (2048, 257, 1152));
    }

    #[test]
    fn a_captured_machine_has_these_limits() {
        // A freshly booted 512 MiB Linux 6.1: free 106276, reserve 1435, file pages 22.
        let avail = 106_276 - 1435 + 22 + 1;
        let (thresh, background, _) = limits(avail, &Tunables::default(), None);
        assert_eq!((thresh, background), (20_967, 10_471));
    }

    /// The vectors of the spec's chapter about memory cgroups.
    #[test]
    fn a_group_has_the_ratios_of_its_own_memory() {
        let empty = GroupPages {
            file: 0,
            dirty: 0,
            headroom: 16_384,
            global_avail: 100_000,
            global_dirty: 0,
        };
        let of = |pages: &GroupPages, tunables: &Tunables| {
            let limits = DirtyLimits::of_group(pages, tunables);
            (limits.thresh, limits.background, limits.freerun())
        };
        let default = Tunables::default();
        assert_eq!(of(&empty, &default), (3276, 1636, 2456));
        let some = GroupPages { file: 8000, dirty: 2000, headroom: 8000, ..empty };
        assert_eq!(of(&some, &default), (3199, 1597, 2398));
        let others =
            GroupPages { file: 4000, dirty: 4000, headroom: 12_000, global_dirty: 95_000, ..empty };
        assert_eq!(of(&others, &default).0, 1799);
        let bytes = Tunables { dirty_bytes: 20_000 << 12, ..Tunables::default() };
        assert_eq!(of(&empty, &bytes).0, 820 * 16_384 / 4096);
        let all = Tunables { dirty_bytes: 1 << 40, ..Tunables::default() };
        assert_eq!(of(&empty, &all).0, 16_384);
    }

    #[test]
    fn poll_interval_by_room_left() {
        let intervals = [0, 600_000, 838_000, 838_656].map(|dirty| poll_interval(dirty, 838_656));
        assert_eq!(intervals, [512, 256, 16, 1]);
        assert_eq!([1, 12, 48].map(|cpus| cpu_pages(209_664, cpus)), [6552, 546, 136]);
    }

    #[test]
    fn chunks_of_writeback() {
        let chunks = [512, 25_600, 128_000].map(|bw| chunk(bw, 209_664, u64::MAX));
        assert_eq!(chunks, [1024, 13_312, 26_624]);
        assert_eq!(chunk(25_600, 209_664, 1), 1024, "work left bounds it, rounded up");
    }

    #[test]
    fn the_limit_moves_smoothly() {
        let mut limit = 209_660;
        let steps = [(); 3].map(|()| {
            limit = smooth_limit(limit, 100_000, 104_000);
            limit
        });
        assert_eq!(steps, [206_359, 203_161, 200_063]);
        assert_eq!(smooth_limit(0, 500, 900), 500, "the first time");
        assert_eq!(smooth_limit(600, 500, 900), 600, "no lower than what is dirty");
    }

    #[test]
    fn sysctl_times() {
        assert_eq!((centisecs_to_jiffies(500), centisecs_to_jiffies(3000)), (1250, 7500));
    }
}
