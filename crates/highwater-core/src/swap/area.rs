//! Areas and their slots (spec 04 §9.1).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::block::DeviceId;
use crate::host::{Cx, Devices, Tasks};
use crate::kernel::Kernel;
use crate::lru::Shadow;
use crate::page::Pfn;
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;

/// A page of a swap area: what a page table entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The area.
    pub area: u8,
    /// Page within it, never 0 (the header).
    pub offset: u32,
}

/// A swap area as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSpec {
    /// Where it is; all of the device.
    pub device: DeviceId,
    /// Pages, header included.
    pub pages: u32,
    /// Larger is used first; equal ones in turn.
    pub priority: i16,
}

/// One slot: how many entries name it, whether the cache does, what it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// Page table entries that name it.
    pub count: u8,
    /// The page in the swap cache; none if it is not cached.
    pub cached: Option<Pfn>,
    /// Shadow of an evicted page.
    pub shadow: Option<Shadow>,
}

/// What an area's lock protects. The helper that owns this file completes it.
#[derive(Debug, Default)]
pub struct Slots {
    pub(crate) states: Vec<SlotState>,
}

/// An area in use.
pub struct SwapArea<H: Tasks> {
    /// What it is.
    pub spec: SwapSpec,
    /// Its slots.
    pub(crate) slots: H::Lock<Slots>,
}

/// All areas.
pub struct Swap<H: Tasks> {
    /// By number.
    pub areas: Box<[SwapArea<H>]>,
    /// Slots of all areas, headers excluded.
    pub(crate) total: AtomicU64,
    /// Free ones.
    pub(crate) free: AtomicU64,
    /// By frame: area << 28 | offset of a page in the swap cache. Empty without swap.
    pub(crate) slot_of: Box<[AtomicU32]>,
}

impl<H: Tasks> Swap<H> {
    /// Areas with all slots free.
    pub fn new(host: &H, mem: &PageAllocator<H>, specs: &[SwapSpec]) -> Self {
        let area = |spec: &SwapSpec| SwapArea {
            spec: *spec,
            slots: host.new_lock(LockClass::Swap, Slots::default()),
        };
        let nr_frames = if specs.is_empty() { 0 } else { mem.map.len() };
        let total = specs.iter().map(|s| u64::from(s.pages.saturating_sub(1))).sum();
        Swap {
            areas: specs.iter().map(area).collect::<Vec<_>>().into(),
            total: AtomicU64::new(total),
            free: AtomicU64::new(total),
            slot_of: (0..nr_frames).map(|_| AtomicU32::new(0)).collect::<Vec<_>>().into(),
        }
    }

    /// Free slots.
    #[inline(always)]
    pub fn nr_free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// All slots.
    #[inline(always)]
    pub fn nr_total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// More than half of the slots are in use (`vm_swap_full`): cached copies give up theirs.
    #[inline]
    pub fn is_full(&self) -> bool {
        2 * self.nr_free() < self.nr_total()
    }
}

impl<H: Devices> Kernel<H> {
    /// Takes a free slot; none if there is none. Has-cache is set, the count is 0.
    pub(crate) fn swap_alloc(&self, cx: &Cx<'_, H>) -> Option<Slot> {
        let _ = cx;
        todo!()
    }

    /// One entry more names a slot (reclaim replaced a mapping by it).
    pub(crate) fn swap_dup(&self, cx: &Cx<'_, H>, slot: Slot) {
        let _ = (cx, slot);
        todo!()
    }

    /// One entry less names a slot (zap, swap-in); frees it, or its cached page, as §9.3 says.
    pub(crate) fn swap_put(&self, cx: &Cx<'_, H>, slot: Slot) {
        let _ = (cx, slot);
        todo!()
    }

    /// Entries that name a slot.
    pub fn swap_count(&self, cx: &Cx<'_, H>, slot: Slot) -> u8 {
        let _ = (cx, slot);
        todo!()
    }
}
