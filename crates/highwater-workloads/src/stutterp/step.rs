//! How many workers of each kind, and how large what they use is (spec 05 §1.3).

/// Sizes of a whole run, from the size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes that the writers' files have together, as described.
    pub file_bytes: u64,
    /// Bytes that the hogs' mappings have together.
    pub anon_bytes: u64,
}

/// One step of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// All workers, the latency worker among them: the row's number.
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
    /// For so much memory, of which the files are to be `dirty_ratio` percent of 1.2 times.
    pub fn new(memory_bytes: u64, dirty_ratio: u64) -> Self {
        let _ = (memory_bytes, dirty_ratio);
        todo!()
    }
}

impl Step {
    /// The step with `workers` workers and `readers` readers.
    pub fn new(workers: u32, readers: u32, sizes: Sizes) -> Self {
        let _ = (workers, readers, sizes);
        todo!()
    }

    /// Worker totals from `first` to `last`, each about a tenth more than the one before (spec 05 §1.1).
    pub fn ladder(first: u32, last: u32) -> Vec<u32> {
        let _ = (first, last);
        todo!()
    }
}
