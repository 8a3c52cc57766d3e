//! A disk with a limit on bytes per second, such as a virtual machine's disk that its host
//! throttles.
//!
//! ```text
//! level (bytes) leaks at bytes_per_s; a transfer begins once level <= burst, then level += its bytes
//! ```
//!
//! This is the leaky bucket of QEMU's `throttling.bps-total`. By default, the bucket holds the
//! bytes of a tenth of a second. A disk that was idle takes that much at full speed. A busy disk
//! runs at the limit.

use super::{DiskModel, Service, Transfer};

const NS_PER_S: u128 = 1_000_000_000;

/// Limit on a disk's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes a second, both directions together; not 0.
    pub bytes_per_s: u64,
    /// Bytes that may go at once after a pause.
    pub burst_bytes: u64,
}

impl RateLimit {
    /// A limit with a tenth of a second's bytes as burst.
    pub const fn new(bytes_per_s: u64) -> Self {
        RateLimit { bytes_per_s, burst_bytes: bytes_per_s / 10 }
    }

    /// Time in which a level leaks away.
    fn leak_ns(self, level: u128) -> u64 {
        let ns = level.div_ceil(u128::from(self.bytes_per_s.max(1)));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// A model with a limit.
#[derive(Clone, Debug)]
pub struct Limited<D> {
    disk: D,
    limit: RateLimit,
    /// Bytes in the bucket, times the nanoseconds of a second, so that nothing is rounded away.
    level: u128,
    leaked_ns: u64,
}

impl<D> Limited<D> {
    /// `disk`, not faster than `limit`.
    pub const fn new(disk: D, limit: RateLimit) -> Self {
        Limited { disk, limit, level: 0, leaked_ns: 0 }
    }

    fn leak(&mut self, now_ns: u64) {
        let passed = u128::from(now_ns.saturating_sub(self.leaked_ns));
        self.level = self.level.saturating_sub(passed * u128::from(self.limit.bytes_per_s));
        self.leaked_ns = self.leaked_ns.max(now_ns);
    }
}

impl<D: DiskModel> DiskModel for Limited<D> {
    fn channels(&self) -> usize {
        self.disk.channels()
    }

    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service {
        // A transfer that waits for its turn delays those behind it.
        let mut start_ns = now_ns.max(self.leaked_ns);
        self.leak(start_ns);
        let above = self.level.saturating_sub(u128::from(self.limit.burst_bytes) * NS_PER_S);
        start_ns = start_ns.saturating_add(self.limit.leak_ns(above));
        self.leak(start_ns);
        self.level += u128::from(transfer.bytes()) * NS_PER_S;
        self.disk.serve(start_ns, transfer)
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::IoDirection::{Read, Write};

    use super::*;
    use crate::disk::Ram;

    /// 4 MiB/s, with a burst of 256 KiB.
    const LIMIT: RateLimit = RateLimit { bytes_per_s: 4 << 20, burst_bytes: 256 << 10 };

    fn disk() -> Limited<Ram> {
        Limited::new(Ram, LIMIT)
    }

    fn pages(nr_pages: u32) -> Transfer {
        Transfer { direction: Write, start: 0, nr_pages }
    }

    #[test]
    fn a_busy_disk_goes_at_the_limit() {
        let mut disk = disk();
        let mut now_ns = 0;
        for _ in 0..1024 {
            now_ns = disk.serve(now_ns, &pages(8)).done_ns;
        }
        // 32 MiB, of which a burst and the last transfer are ahead of the limit.
        let bytes = (32 << 20) - (256 << 10) - (32 << 10);
        let expected_ns = bytes * 1_000_000_000 / (4 << 20);
        assert!(now_ns.abs_diff(expected_ns) < 10_000_000, "{now_ns} {expected_ns}");
    }

    #[test]
    fn an_idle_disk_takes_a_burst_at_its_own_speed() {
        let mut disk = disk();
        for _ in 0..2 {
            assert_eq!(disk.serve(0, &pages(32)).done_ns, 0, "level 0, then 128 KiB");
        }
        assert_eq!(disk.serve(0, &pages(1)).done_ns, 0, "256 KiB: not above the burst");
        let read = Transfer { direction: Read, start: 0, nr_pages: 1 };
        assert_eq!(disk.serve(0, &read).done_ns, 976_563, "4 KiB have to leak first");
        assert_eq!(disk.serve(0, &pages(1)).done_ns, 1_953_125, "in order of arrival");
        let later_ns = 10_000_000_000;
        assert_eq!(disk.serve(later_ns, &pages(64)).done_ns, later_ns, "all has leaked");
    }
}
