//! Solid-state disks: channels that work in parallel, and one bus to the host.
//!
//! ```text
//! start = max(now, earliest free channel)
//! done  = max(start + latency, bus free) + bytes / bandwidth      (rules/block#ssd)
//! ```
//!
//! A channel is busy until its transfer is done; the bus is busy for the length of the transfer.

use super::{DiskModel, Jitter, PerDirection, Service, Transfer, scale, transfer_ns};

/// The figures of a solid-state disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdSpec {
    /// Transfers that it serves in parallel.
    pub channels: u32,
    /// Time from the start to the first byte.
    pub latency_ns: PerDirection<u64>,
    /// Bandwidth of the bus.
    pub bytes_per_s: PerDirection<u64>,
}

impl SsdSpec {
    /// An NVMe drive (rules/block#ssd).
    pub const NVME: SsdSpec = SsdSpec {
        channels: 32,
        latency_ns: PerDirection { read: 80_000, write: 20_000 },
        bytes_per_s: PerDirection { read: 3_000_000_000, write: 1_500_000_000 },
    };
    /// A SATA drive (rules/block#ssd).
    pub const SATA: SsdSpec = SsdSpec {
        channels: 31,
        latency_ns: PerDirection { read: 90_000, write: 60_000 },
        bytes_per_s: PerDirection { read: 520_000_000, write: 450_000_000 },
    };
}

/// A solid-state disk at work.
#[derive(Clone, Debug)]
pub struct Ssd {
    spec: SsdSpec,
    jitter: Jitter,
    /// Time from which each channel is free.
    channel_free_ns: Vec<u64>,
    bus_free_ns: u64,
}

impl Ssd {
    /// An idle disk: disk number `index` of a run with this seed.
    pub fn new(spec: SsdSpec, seed: u64, index: usize) -> Self {
        Ssd {
            spec,
            jitter: Jitter::new(seed, index),
            channel_free_ns: vec![0; spec.channels.max(1) as usize],
            bus_free_ns: 0,
        }
    }
}

impl DiskModel for Ssd {
    fn channels(&self) -> usize {
        self.channel_free_ns.len()
    }

    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service {
        let factor = self.jitter.next();
        let latency_ns = scale(self.spec.latency_ns.of(transfer.direction), factor);
        let bandwidth = self.spec.bytes_per_s.of(transfer.direction);
        let moving_ns = scale(transfer_ns(transfer.bytes(), bandwidth), factor);
        let earliest = self.channel_free_ns.iter_mut().min();
        let mut start_ns = now_ns;
        let mut done_ns = now_ns;
        if let Some(channel) = earliest {
            start_ns = start_ns.max(*channel);
            done_ns = (start_ns + latency_ns).max(self.bus_free_ns) + moving_ns;
            *channel = done_ns;
        }
        self.bus_free_ns = done_ns;
        Service { done_ns, result: Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::IoDirection::{self, Read, Write};

    use super::*;

    /// Number of random 4 KiB transfers done in a virtual second, `depth` at a time.
    fn iops(spec: SsdSpec, direction: IoDirection, depth: usize) -> usize {
        let mut disk = Ssd::new(spec, 1, 0);
        let mut pending = vec![0u64; depth];
        let mut nr_done = 0;
        loop {
            let slot = pending.iter_mut().min().expect("depth");
            if *slot > 1_000_000_000 {
                return nr_done;
            }
            let transfer = Transfer { direction, start: nr_done as u64 * 977, nr_pages: 1 };
            *slot = disk.serve(*slot, &transfer).done_ns;
            nr_done += 1;
        }
    }

    fn sequential_bytes_per_s(spec: SsdSpec, direction: IoDirection) -> u64 {
        let mut disk = Ssd::new(spec, 1, 0);
        let nr = 10_000u64;
        let mut last_ns = 0;
        for i in 0..nr {
            // All at once: the channels are full, the bus is the limit.
            let transfer = Transfer { direction, start: i * 256, nr_pages: 256 };
            last_ns = disk.serve(0, &transfer).done_ns;
        }
        (u128::from(nr << 20) * 1_000_000_000 / u128::from(last_ns)) as u64
    }

    fn close(measured: u64, expected: u64) {
        assert!(measured.abs_diff(expected) * 50 < expected, "{measured} is not about {expected}");
    }

    #[test]
    fn one_transfer_takes_latency_plus_bytes_over_bandwidth() {
        // 4096 bytes at 3 GB/s are 1365 ns.
        for seed in 0..50 {
            let transfer = Transfer { direction: Read, start: 5, nr_pages: 1 };
            let done_ns = Ssd::new(SsdSpec::NVME, seed, 0).serve(1000, &transfer).done_ns - 1000;
            assert!((81_365 * 9 / 10 - 2..=81_365 * 11 / 10).contains(&done_ns), "{done_ns}");
        }
    }

    #[test]
    fn the_bus_limits_sequential_transfers() {
        close(sequential_bytes_per_s(SsdSpec::NVME, Read), 3_000_000_000);
        close(sequential_bytes_per_s(SsdSpec::NVME, Write), 1_500_000_000);
        close(sequential_bytes_per_s(SsdSpec::SATA, Read), 520_000_000);
        close(sequential_bytes_per_s(SsdSpec::SATA, Write), 450_000_000);
    }

    #[test]
    fn latency_and_channels_limit_random_ones() {
        let nvme = |depth| iops(SsdSpec::NVME, Read, depth) as u64;
        close(nvme(1), 1_000_000_000 / 81_365);
        // Channels wait only for themselves until the bus is full: 732,000 a second.
        close(nvme(8), 8 * 1_000_000_000 / 81_365);
        assert!(nvme(32) > 300_000 && nvme(32) < 400_000, "{}", nvme(32));
        close(nvme(64), nvme(32));
        // 4096 bytes at 450 MB/s are 9102 ns.
        close(iops(SsdSpec::SATA, Write, 31) as u64, 1_000_000_000 / 9_102);
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_disk_others() {
        let times = |seed, index| -> Vec<u64> {
            let mut disk = Ssd::new(SsdSpec::SATA, seed, index);
            let transfer = Transfer { direction: Read, start: 0, nr_pages: 4 };
            (0..20).map(|i| disk.serve(i * 1_000_000, &transfer).done_ns).collect()
        };
        assert_eq!(times(7, 0), times(7, 0));
        assert_ne!(times(7, 0), times(8, 0));
        assert_ne!(times(7, 0), times(7, 1));
    }
}
