//! The script's sizes, computed from the size of memory (rules/benchmarks#stutter-sizes).

/// Sizes as shares of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Memory of the hog.
    pub hog: f64,
    /// The file that is copied.
    pub file: f64,
    /// Bytes written to measure the speed of the disk.
    pub calibrate: f64,
    /// Mapping of the latency worker.
    pub mapping: f64,
}

/// Sizes of a run, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Memory of the hog.
    pub hog: u64,
    /// The file that is copied.
    pub file: u64,
    /// Bytes written to measure the speed of the disk.
    pub calibrate: u64,
    /// Mapping of the latency worker.
    pub mapping: u64,
}

impl Sizes {
    /// Sizes for `memory` bytes of memory, each rounded down to `grain`, but at least one grain.
    pub fn new(memory: u64, shares: &Shares, grain: u64) -> Sizes {
        let grain = grain.max(1);
        let of = |share: f64| (((memory as f64 * share) as u64) / grain * grain).max(grain);
        Sizes {
            hog: of(shares.hog),
            file: of(shares.file),
            calibrate: of(shares.calibrate),
            mapping: of(shares.mapping),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SHARES: Shares = Shares { hog: 0.75, file: 2.0, calibrate: 0.0625, mapping: 1.0 / 128.0 };

    /// rules/benchmarks#stutter-sizes.
    #[test]
    fn sizes_follow_from_memory() {
        let sizes = Sizes::new(16_384 * MIB, &SHARES, MIB);
        let all = [sizes.hog, sizes.file, sizes.calibrate, sizes.mapping].map(|size| size / MIB);
        assert_eq!(all, [12_288, 32_768, 1024, 128]);
        // 1000.5 MiB: three quarters are 750 and a fraction.
        let sizes = Sizes::new(1000 * MIB + MIB / 2, &SHARES, MIB);
        assert_eq!([sizes.hog / MIB, sizes.file / MIB, sizes.mapping / MIB], [750, 2001, 7]);
    }

    #[test]
    fn nothing_is_empty() {
        let sizes = Sizes::new(4096, &SHARES, MIB);
        assert_eq!([sizes.hog, sizes.file, sizes.calibrate, sizes.mapping], [MIB; 4]);
        assert_eq!(Sizes::new(0, &SHARES, 0).mapping, 1);
    }
}
