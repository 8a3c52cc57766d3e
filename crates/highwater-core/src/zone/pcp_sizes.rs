//! Sizes of a zone's per-CPU lists, the same for all CPUs (rules/per-cpu-lists#sizes).
//!
//! Every free compares its CPU's pages with a limit. Where all CPUs have one limit, it is a number
//! here and the comparison is all that a free needs. Where each CPU tunes its own, or counts its
//! frees (rules/per-cpu-lists#auto), each free has work to do. Then the shared limit is 0, so every
//! free goes on to that work, and frees under the other rules pay nothing for it.
//!
//! Synchronisation: written by set-up and sysctls; readers may be late by one change.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The numbers, in pages.
pub(super) struct PcpSizes {
    /// At least 1.
    pub(super) batch: AtomicU32,
    /// The limit of every CPU; 0 if each CPU computes its own at each free.
    pub(super) shared_high: AtomicU32,
    /// The least pages at which some limit may apply.
    pub(super) least_limit: AtomicU32,
    /// The least limit of a CPU; the only one, unless CPUs tune it.
    pub(super) high_min: AtomicU32,
    /// The largest one.
    pub(super) high_max: AtomicU32,
    /// Each CPU computes its limit at each free.
    counts_frees: AtomicBool,
    /// It tunes it.
    tunes: AtomicBool,
}

impl PcpSizes {
    /// As before the first computation: pages pass through the lists.
    pub(super) fn new() -> PcpSizes {
        PcpSizes {
            batch: AtomicU32::new(1),
            shared_high: AtomicU32::new(0),
            least_limit: AtomicU32::new(0),
            high_min: AtomicU32::new(0),
            high_max: AtomicU32::new(0),
            counts_frees: AtomicBool::new(false),
            tunes: AtomicBool::new(false),
        }
    }

    /// From now on each CPU computes its limit at each free; `tunes`: it may change it.
    pub(super) fn count_frees(&self, tunes: bool) {
        self.counts_frees.store(true, Relaxed);
        self.tunes.store(tunes, Relaxed);
    }

    pub(super) fn set(&self, batch: u32, high_min: u32, high_max: u32) {
        let shared = if self.counts_frees.load(Relaxed) { 0 } else { high_min };
        self.batch.store(batch, Relaxed);
        self.shared_high.store(shared, Relaxed);
        self.least_limit.store(shared.min(batch * 4), Relaxed);
        self.high_min.store(high_min, Relaxed);
        let most = if self.tunes.load(Relaxed) { high_max } else { high_min };
        self.high_max.store(most, Relaxed);
    }
}
