//! Rotating disks: one arm, one transfer at a time.
//!
//! ```text
//! position = 0 if the transfer begins where the last one ended, else
//!            seek_min + (seek_max - seek_min) * sqrt(distance / size) + half a revolution
//! done     = start + position + bytes / bandwidth                 (rules/block#hdd)
//! ```

use super::{DiskModel, Jitter, Service, Transfer, scale, transfer_ns};

/// The figures of a rotating disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HddSpec {
    /// One revolution.
    pub revolution_ns: u64,
    /// From a track to the next.
    pub seek_min_ns: u64,
    /// Across all tracks.
    pub seek_max_ns: u64,
    /// Bandwidth under the head.
    pub bytes_per_s: u64,
}

impl HddSpec {
    /// A desktop disk of 7200 revolutions a minute (rules/block#hdd).
    pub const DESKTOP: HddSpec = HddSpec {
        revolution_ns: 8_330_000,
        seek_min_ns: 700_000,
        seek_max_ns: 16_000_000,
        bytes_per_s: 160_000_000,
    };

    /// A disk without seek and rotation times: a transfer takes only the time of its bytes.
    pub const fn streaming(bytes_per_s: u64) -> HddSpec {
        HddSpec { revolution_ns: 0, seek_min_ns: 0, seek_max_ns: 0, bytes_per_s }
    }

    /// Moving the arm over `distance` of `size` pages.
    fn seek_ns(&self, distance: u64, size: u64) -> u64 {
        let part = distance as f64 / size.max(1) as f64;
        let range = self.seek_max_ns.saturating_sub(self.seek_min_ns) as f64;
        self.seek_min_ns + (range * part.min(1.0).sqrt()) as u64
    }
}

/// A rotating disk at work.
#[derive(Clone, Debug)]
pub struct Hdd {
    spec: HddSpec,
    jitter: Jitter,
    nr_pages: u64,
    /// Page under the head.
    head: u64,
    free_at_ns: u64,
}

impl Hdd {
    /// An idle disk of `nr_pages` pages, its head at the start: disk number `index` of a run.
    pub fn new(spec: HddSpec, nr_pages: u64, seed: u64, index: usize) -> Self {
        Hdd { spec, jitter: Jitter::new(seed, index), nr_pages, head: 0, free_at_ns: 0 }
    }
}

impl DiskModel for Hdd {
    fn channels(&self) -> usize {
        1
    }

    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service {
        let factor = self.jitter.next();
        let position_ns = if transfer.start == self.head {
            0
        } else {
            let distance = transfer.start.abs_diff(self.head);
            self.spec.seek_ns(distance, self.nr_pages) + self.spec.revolution_ns / 2
        };
        let moving_ns = transfer_ns(transfer.bytes(), self.spec.bytes_per_s);
        let done_ns = now_ns.max(self.free_at_ns) + scale(position_ns + moving_ns, factor);
        self.head = transfer.end();
        self.free_at_ns = done_ns;
        Service { done_ns, result: Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::IoDirection::Read;

    use super::*;
    use crate::rng::Stream;

    /// One TiB.
    const SIZE: u64 = 1 << 28;

    fn disk() -> Hdd {
        Hdd::new(HddSpec::DESKTOP, SIZE, 1, 0)
    }

    #[test]
    fn the_seek_curve_goes_with_the_root_of_the_distance() {
        let spec = HddSpec::DESKTOP;
        assert_eq!(spec.seek_ns(0, SIZE), 700_000);
        assert_eq!(spec.seek_ns(SIZE / 4, SIZE), 700_000 + 7_650_000);
        assert_eq!(spec.seek_ns(SIZE, SIZE), 16_000_000);
        assert_eq!(spec.seek_ns(SIZE / 100, SIZE), 700_000 + 1_530_000 - 1, "rounded down");
    }

    #[test]
    fn sequential_reads_stream_at_the_heads_bandwidth() {
        let mut disk = disk();
        let nr = 1000u64;
        let mut now_ns = 0;
        for i in 0..nr {
            let transfer = Transfer { direction: Read, start: i * 256, nr_pages: 256 };
            now_ns = disk.serve(now_ns, &transfer).done_ns;
        }
        let bytes_per_s = (u128::from(nr << 20) * 1_000_000_000 / u128::from(now_ns)) as u64;
        assert!(bytes_per_s.abs_diff(160_000_000) < 3_000_000, "{bytes_per_s}");
    }

    #[test]
    fn random_reads_wait_for_arm_and_rotation() {
        let mut disk = disk();
        let mut places = Stream::new(1, "test");
        let mut now_ns = 0;
        let nr = 2000u64;
        for _ in 0..nr {
            let start = places.below(SIZE - 1);
            let transfer = Transfer { direction: Read, start, nr_pages: 1 };
            now_ns = disk.serve(now_ns, &transfer).done_ns;
        }
        // The mean root of the distance of two uniform points is 8/15: 0.7 + 15.3 * 8/15 + 4.165
        // milliseconds, and 26 microseconds under the head.
        let mean_ns = now_ns / nr;
        assert!(mean_ns.abs_diff(13_051_000) < 200_000, "{mean_ns}");
    }

    #[test]
    fn a_second_transfer_waits_for_the_first() {
        let mut disk = disk();
        let first = disk.serve(0, &Transfer { direction: Read, start: 0, nr_pages: 32 }).done_ns;
        let second = disk.serve(0, &Transfer { direction: Read, start: 32, nr_pages: 32 }).done_ns;
        // 128 KiB at 160 MB/s are 819 microseconds.
        assert!(first.abs_diff(819_200) <= 81_920 && (second - first).abs_diff(819_200) <= 81_920);
    }
}
