//! Number of workers of each kind, and sizes of their files and mappings (rules/benchmarks#ladder,
//! rules/benchmarks#stutterp-sizes, rules/benchmarks#stutterp-workers).

const MIB: u64 = 1 << 20;

/// Sizes of a whole run, from the size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the writers' files together, in bytes, as described.
    pub file_bytes: u64,
    /// Size of the hogs' mappings together, in bytes.
    pub anon_bytes: u64,
    /// Sizes are rounded down to multiples of this.
    pub grain: u64,
}

/// One step of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// All workers, including the latency worker: the row's number.
    pub workers: u32,
    /// Readers: 0 or 1.
    pub readers: u32,
    /// Writers.
    pub writers: u32,
    /// Hogs.
    pub hogs: u32,
    /// Bytes of each of a writer's files.
    pub file_bytes: u64,
    /// Bytes of each hog's mapping.
    pub hog_bytes: u64,
}

impl Sizes {
    /// Sizes for `memory_bytes` of memory: files and mappings together are larger than it by
    /// `dirty_ratio` percent, of which the files have `dirty_ratio` percent. Sizes are rounded down
    /// to MiB, as in mmtests.
    pub fn new(memory_bytes: u64, dirty_ratio: u64) -> Self {
        Self::with_grain(memory_bytes, dirty_ratio, MIB)
    }

    /// The same, rounded to another grain: on a small machine a MiB is much.
    pub fn with_grain(memory_bytes: u64, dirty_ratio: u64, grain: u64) -> Self {
        let grain = grain.max(1);
        let down = |bytes: u64| bytes / grain * grain;
        let share = |bytes: u64, percent: u64| {
            u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
        };
        let total = share(memory_bytes, 100 + dirty_ratio);
        let files = share(total, dirty_ratio);
        Sizes { file_bytes: down(files), anon_bytes: down(total.saturating_sub(files)), grain }
    }
}

impl Step {
    /// The step with `workers` workers and `readers` readers.
    pub fn new(workers: u32, readers: u32, sizes: Sizes) -> Self {
        let others = readers + 1;
        let writers = (workers.saturating_sub(others) / 2).max(1);
        let hogs = workers.saturating_sub(writers + others).max(1);
        let part = |bytes: u64, of: u32| bytes / u64::from(of) / sizes.grain * sizes.grain;
        Step {
            workers: readers + writers + hogs + 1,
            readers,
            writers,
            hogs,
            file_bytes: part(sizes.file_bytes, writers),
            hog_bytes: part(sizes.anon_bytes, hogs),
        }
    }

    /// Files of each writer. mmtests has as many as there are writers: it sets both `nrfiles` and
    /// `numjobs`, and `filesize` of an fio job is the size of each of its `nrfiles` files. With
    /// `as_described`, one, as the study describes it.
    pub const fn files_per_writer(&self, as_described: bool) -> u32 {
        if as_described { 1 } else { self.writers }
    }

    /// Worker totals from `first` to `last`: single steps at first, then larger and larger ones.
    pub fn ladder(first: u32, last: u32) -> Vec<u32> {
        const SMALL: u32 = 8;
        let (stride, middle): (usize, &[u32]) = match last {
            33.. => (3, &[12, 21, 30]),
            9.. => (2, &[12, 18, 24, 30]),
            _ => (2, &[]),
        };
        let mut totals: Vec<u32> = (first..=last.min(SMALL)).step_by(stride).collect();
        totals.extend(middle.iter().filter(|&&total| total <= last));
        if last > 32 {
            totals.extend((48..=last).step_by(31));
        }
        if totals.last() != Some(&last) {
            totals.push(last);
        }
        totals.retain(|&total| total >= first);
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_by_cpus() {
        let of_cpus = |cpus: u32| Step::ladder(4, 4 * cpus);
        assert_eq!(of_cpus(12), [4, 7, 12, 21, 30, 48]);
        assert_eq!(of_cpus(2), [4, 6, 8]);
        assert_eq!(of_cpus(4), [4, 6, 8, 12, 16]);
        assert_eq!(of_cpus(8), [4, 6, 8, 12, 18, 24, 30, 32]);
        assert_eq!(of_cpus(10), [4, 7, 12, 21, 30, 40]);
        assert_eq!(of_cpus(16), [4, 7, 12, 21, 30, 48, 64]);
        assert_eq!(Step::ladder(1, 8), [1, 3, 5, 7, 8]);
        assert_eq!(Step::ladder(1, 64), [1, 4, 7, 12, 21, 30, 48, 64]);
        assert_eq!(Step::ladder(4, 120), [4, 7, 12, 21, 30, 48, 79, 110, 120]);
        assert_eq!(Step::ladder(4, 4), [4]);
        assert_eq!(Step::ladder(20, 48), [21, 30, 48], "what lies below is dropped");
        assert_eq!(Step::ladder(9, 8), [0; 0]);
    }

    #[test]
    fn sizes_of_eight_gib() {
        let sizes = Sizes::new(8 << 30, 20);
        assert_eq!((sizes.file_bytes / MIB, sizes.anon_bytes / MIB), (1966, 7864));
        let rows = [
            (4, 1, 2, 1966, 3932),
            (7, 3, 3, 655, 2621),
            (12, 5, 6, 393, 1310),
            (21, 10, 10, 196, 786),
            (30, 14, 15, 140, 524),
            (48, 23, 24, 85, 327),
        ];
        for (workers, writers, hogs, file_mib, hog_mib) in rows {
            let step = Step::new(workers, 0, sizes);
            assert_eq!((step.workers, step.readers), (workers, 0));
            assert_eq!((step.writers, step.hogs), (writers, hogs));
            assert_eq!((step.file_bytes / MIB, step.hog_bytes / MIB), (file_mib, hog_mib));
            assert_eq!(step.files_per_writer(false), writers);
            assert_eq!(step.files_per_writer(true), 1);
        }
    }

    #[test]
    fn a_reader_takes_the_place_of_a_worker() {
        let sizes = Sizes::new(8 << 30, 20);
        let rows = [(4, 1, 1), (7, 2, 3), (12, 5, 5), (21, 9, 10), (30, 14, 14), (48, 23, 23)];
        for (workers, writers, hogs) in rows {
            let step = Step::new(workers, 1, sizes);
            assert_eq!((step.writers, step.hogs, step.readers), (writers, hogs, 1));
            assert_eq!(step.workers, workers);
        }
        assert_eq!(Step::new(1, 1, sizes).workers, 4, "one of each at least");
    }

    #[test]
    fn small_machines_keep_the_proportions() {
        let (large, small) = (Sizes::new(8 << 30, 20), Sizes::with_grain(128 << 20, 20, 16 << 10));
        let (large, small) = (Step::new(48, 0, large), Step::new(48, 0, small));
        let near = |a: u64, b: u64| (a as f64 / (b * 64) as f64 - 1.0).abs() < 0.02;
        assert!(near(large.file_bytes, small.file_bytes), "{large:?} {small:?}");
        assert!(near(large.hog_bytes, small.hog_bytes), "{large:?} {small:?}");
    }
}
