//! Event counters: one array per CPU, summed when read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crossbeam_utils::CachePadded;

use super::VmEvent;
use crate::host::CpuId;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::bump;
use crate::units::ZoneType;

struct CpuEvents([AtomicU64; VmEvent::COUNT]);

/// All vm events. Each CPU writes its own array only; reads sum them.
pub struct EventSet {
    cpus: Box<[CachePadded<CpuEvents>]>,
}

impl EventSet {
    /// Zeroed counts for `nr_cpus` CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        let mut cpus = Vec::with_capacity(nr_cpus);
        cpus.resize_with(nr_cpus, || {
            CachePadded::new(CpuEvents(core::array::from_fn(|_| AtomicU64::new(0))))
        });
        EventSet { cpus: cpus.into_boxed_slice() }
    }

    /// Counts an event `by` times on `cpu`.
    ///
    /// # Panics
    /// If the set has no such CPU.
    #[doc(alias = "count_vm_events")]
    #[inline(always)]
    pub fn add(&self, cpu: CpuId, event: VmEvent, by: u64) {
        bump(&self.cpus[cpu.idx()].0[event as usize], by);
    }

    /// As [`Self::add`], for the event of a per-zone group whose `_dma` event is `base`.
    ///
    /// # Panics
    /// If the set has no such CPU.
    #[inline(always)]
    pub fn add_zoned(&self, cpu: CpuId, base: VmEvent, zone: ZoneType, by: u64) {
        bump(&self.cpus[cpu.idx()].0[base as usize + zone as usize], by);
    }

    /// Sums an event over CPUs.
    #[doc(alias = "all_vm_events")]
    pub fn read(&self, event: VmEvent) -> u64 {
        self.cpus.iter().map(|c| c.0[event as usize].load(Relaxed)).sum()
    }
}
