//! Swap areas: choosing the area of a slot (rules/swap#choosing-slots), and users of slots
//! (rules/swap#slot-freeing).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;

use crossbeam_utils::CachePadded;

use super::readahead::ClusterHistory;
use super::slots::{CLUSTER, Found, Left, Search, Slots};
use super::{SlotCache, SlotState};
use crate::block::{DeviceId, DeviceSpec};
use crate::host::{Cost, CpuId, Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::page::zeroed::ZeroedSlice;
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::GroupId;

/// A swap entry: one page of a swap area, as a page table entry names it.
#[doc(alias = "swp_entry_t")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The swap area.
    pub area: u8,
    /// Page within it, never 0 (the header).
    pub offset: u32,
}

impl Slot {
    /// Number of swap areas that a page table entry can distinguish.
    pub const MAX_AREAS: usize = 1 << Self::AREA_BITS;
    /// Number of pages of a swap area that a page table entry can distinguish.
    pub const MAX_OFFSET: u32 = (1 << Self::OFFSET_BITS) - 1;
    /// Bits of an entry for the swap area.
    pub(crate) const AREA_BITS: u32 = 2;
    /// Bits of an entry for the page.
    pub(crate) const OFFSET_BITS: u32 = 26;
    const AREA_SHIFT: u32 = 28;

    /// As [`Swap::slot_of`] stores it; never 0.
    pub(crate) fn pack(self) -> u32 {
        u32::from(self.area) << Self::AREA_SHIFT | self.offset
    }

    /// Of a stored word; none if that is 0.
    pub(crate) fn unpack(word: u32) -> Option<Slot> {
        let offset = word & ((1 << Self::AREA_SHIFT) - 1);
        (word != 0).then_some(Slot { area: (word >> Self::AREA_SHIFT) as u8, offset })
    }
}

/// The specification of a swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSpec {
    /// Where it is; all of the device.
    pub device: DeviceId,
    /// Pages, header included.
    pub pages: u32,
    /// Larger is used first; equal ones in turn.
    pub priority: i16,
}

/// A swap area in use: its device, slots and priority.
#[doc(alias = "swap_info_struct")]
pub struct SwapArea<H: Tasks> {
    /// Its specification.
    pub spec: SwapSpec,
    /// Its device seeks.
    pub rotational: bool,
    /// Its device is done before submission returns.
    pub synchronous: bool,
    /// Held while slots are looked for or given back, and on a disk by every change of a slot.
    lock: H::Lock<()>,
    /// Its slots; `Table` class: see the module's notes.
    pub(crate) slots: H::Lock<Slots>,
}

impl<H: Tasks> SwapArea<H> {
    fn new(host: &H, spec: &SwapSpec, device: &DeviceSpec, nr_cpus: usize) -> Self {
        let slots = Slots::new(spec.pages, device.rotational, nr_cpus);
        SwapArea {
            spec: *spec,
            rotational: device.rotational,
            synchronous: device.synchronous,
            lock: host.new_lock(LockClass::Swap, ()),
            slots: host.new_lock(LockClass::Table, slots),
        }
    }

    /// Changes the users of slots. On flash the lock for that is the cluster's, which is rarely
    /// contended; on a disk it is the swap area's.
    pub(crate) fn change<R>(&self, cpu: CpuId, change: impl FnOnce(&mut Slots) -> R) -> R {
        let _area = self.rotational.then(|| self.lock.lock(cpu));
        change(&mut self.slots.lock(cpu))
    }

    /// As the kernel gives slots back.
    #[cfg(test)]
    pub(crate) fn give_back_for_tests(&self, cx: &Cx<'_, H>, slots: &[Slot]) {
        self.give_back(cx, slots);
    }

    /// Frees unused slots.
    pub(super) fn give_back(&self, cx: &Cx<'_, H>, slots: &[Slot]) {
        let _area = self.lock.lock(cx.cpu());
        let mut states = self.slots.lock(cx.cpu());
        for slot in slots {
            states.give_back(slot.offset);
        }
        drop(states);
        cx.host.charge(Cost::SwapSlot, slots.len() as u32);
    }
}

/// All swap areas.
pub struct Swap<H: Tasks> {
    /// By number.
    pub areas: Box<[SwapArea<H>]>,
    /// Slots of all swap areas, headers excluded.
    pub(crate) total: AtomicU64,
    /// Free ones; those in CPUs' caches count as used.
    pub(crate) free: AtomicU64,
    /// By frame: the slot of a page in the swap cache. Empty without swap.
    pub(crate) slot_of: ZeroedSlice<AtomicU32>,
    /// Areas in the order in which they are asked; `Table` class.
    order: H::Lock<Vec<u8>>,
    /// Slots each CPU keeps.
    pub(super) caches: Box<[CachePadded<H::CpuLock<SlotCache>>]>,
    /// Those are in use.
    pub(super) caches_active: AtomicBool,
    /// Some swap area is on a rotational disk: readahead goes by slots, not by addresses.
    pub(crate) any_rotational: bool,
    /// Of readahead by slots.
    pub(crate) history: ClusterHistory,
}

impl<H: Tasks> Swap<H> {
    /// Areas with all slots free, on devices that exist.
    pub fn new(
        host: &H,
        mem: &PageAllocator<H>,
        specs: &[SwapSpec],
        devices: &[DeviceSpec],
    ) -> Self {
        let nr_cpus = mem.nr_cpus();
        let device = |spec: &SwapSpec| &devices[usize::from(spec.device.0)];
        let areas = specs.iter().map(|spec| SwapArea::new(host, spec, device(spec), nr_cpus));
        let areas: Box<[_]> = areas.collect();
        let mut order: Vec<u8> = (0..specs.len() as u8).collect();
        order.sort_by_key(|&area| core::cmp::Reverse(specs[usize::from(area)].priority));
        let nr_frames = if specs.is_empty() { 0 } else { mem.map.len() };
        let total = specs.iter().map(|s| u64::from(s.pages.saturating_sub(1))).sum();
        let cache = |cpu: u16| {
            let cache = SlotCache::default();
            CachePadded::new(host.new_cpu_lock(LockClass::Table, CpuId(cpu), cache))
        };
        Swap {
            any_rotational: areas.iter().any(|area| area.rotational),
            areas,
            total: AtomicU64::new(total),
            free: AtomicU64::new(total),
            slot_of: ZeroedSlice::new(nr_frames),
            order: host.new_lock(LockClass::Table, order),
            caches: (0..nr_cpus as u16).map(cache).collect(),
            caches_active: AtomicBool::new(false),
            history: ClusterHistory::default(),
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

    /// Reports whether more than half of the slots are in use (`vm_swap_full`): cached copies then
    /// give up theirs.
    #[doc(alias = "vm_swap_full")]
    #[inline]
    pub fn is_full(&self) -> bool {
        2 * self.nr_free() < self.nr_total()
    }

    #[inline]
    pub(crate) fn area(&self, slot: Slot) -> &SwapArea<H> {
        &self.areas[usize::from(slot.area)]
    }

    /// A slot as it is now.
    pub fn state(&self, cpu: CpuId, slot: Slot) -> SlotState {
        self.area(slot).slots.lock(cpu).state(slot.offset)
    }

    /// The slots a CPU keeps (for the audit).
    pub(crate) fn slot_cache_of(&self, cpu: CpuId) -> &H::CpuLock<SlotCache> {
        &self.caches[cpu.idx()]
    }

    /// Takes up to `want` from the number of free slots.
    fn reserve(&self, want: u64) -> u64 {
        let taken = |free: u64| (free > 0).then(|| free - free.min(want));
        self.free.fetch_update(Relaxed, Relaxed, taken).map_or(0, |free| free.min(want))
    }

    /// Slots are about to be taken from a swap area: moves it behind the others of its priority.
    fn next_area(&self, cpu: CpuId, area: u8) {
        let mut order = self.order.lock(cpu);
        let priority = self.areas[usize::from(area)].spec.priority;
        if let Some(at) = order.iter().position(|&a| a == area) {
            let same = |a: &u8| self.areas[usize::from(*a)].spec.priority == priority;
            let end = order.iter().rposition(same).unwrap_or(at);
            order[at..=end].rotate_left(1);
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Allocates the swap slots of a folio and charges them to its memory cgroup; none if there are
    /// none, or the group may have no more. Has-cache is set, the count is 0.
    #[doc(alias = "folio_alloc_swap")]
    #[doc(alias = "get_swap_page")]
    pub(crate) fn swap_alloc(&self, cx: &Cx<'_, H>, folio: Folio) -> Option<Slot> {
        let found = match folio.is_large() {
            false => self.swap_alloc_one(cx),
            true => self.swap_alloc_cluster(cx),
        };
        if !self.mem.groups.is_on() {
            return found;
        }
        cold_path();
        let Some(slot) = found else {
            self.note_swap_failed(folio);
            return None;
        };
        let offsets = slot.offset..slot.offset + folio.nr_pages() as u32;
        let Some(id) = self.charge_swap(folio) else {
            offsets.for_each(|offset| self.free_slot(cx, Slot { offset, ..slot }));
            return None;
        };
        let mut slots = self.swap.area(slot).slots.lock(cx.cpu());
        offsets.for_each(|offset| slots.set_owner(offset, id));
        drop(slots);
        Some(slot)
    }

    pub(crate) fn swap_alloc_one(&self, cx: &Cx<'_, H>) -> Option<Slot> {
        self.slot_from_cache(cx).or_else(|| {
            let mut one = None;
            self.take_slots(cx, 1, &mut |slot| one = Some(slot));
            one
        })
    }

    /// Takes the slots of a whole free cluster for a huge page and returns the first one; `None` if
    /// no swap area has one.
    pub(crate) fn swap_alloc_cluster(&self, cx: &Cx<'_, H>) -> Option<Slot> {
        let take = |free: u64| free.checked_sub(CLUSTER.into());
        if self.swap.free.fetch_update(Relaxed, Relaxed, take).is_err() {
            return None;
        }
        let order = self.swap.order.lock(cx.cpu()).clone();
        for number in order {
            let area = &self.swap.areas[usize::from(number)];
            let _area = area.lock.lock(cx.cpu());
            let found = area.slots.lock(cx.cpu()).take_cluster();
            if let Some(offset) = found {
                cx.host.charge(Cost::SwapSlot, 1);
                return Some(Slot { area: number, offset });
            }
        }
        self.swap.free.fetch_add(CLUSTER.into(), Relaxed);
        None
    }

    /// The group that a page coming back from a slot is charged to; `wanted_by`: the group of the
    /// address space that wants it.
    pub(crate) fn group_of_slot(&self, cx: &Cx<'_, H>, slot: Slot, wanted_by: GroupId) -> GroupId {
        if !self.mem.groups.is_on() {
            return GroupId::ROOT;
        }
        let id = self.swap.area(slot).slots.lock(cx.cpu()).owner(slot.offset);
        self.group_of_swapped(id, wanted_by)
    }

    /// Counts one more page table entry that names a slot (reclaim replaced a mapping by it).
    #[doc(alias = "swap_duplicate")]
    pub(crate) fn swap_dup(&self, cx: &Cx<'_, H>, slot: Slot) {
        self.swap.area(slot).change(cx.cpu(), |slots| slots.add_entry(slot.offset));
    }

    /// Uncounts a page table entry that named a slot (zap, swap-in); frees the slot, or its cached
    /// page, by rules/swap#slot-freeing.
    ///
    /// A swap-in holds the page's lock, so it leaves the cache alone.
    #[doc(alias = "swap_free")]
    pub(crate) fn swap_put(&self, cx: &Cx<'_, H>, slot: Slot) {
        let left = self.swap.area(slot).change(cx.cpu(), |slots| {
            let left = slots.remove_entry(slot.offset);
            if let Left::Cache(pfn) = left {
                self.mem.map.lookup(pfn).1.get::<H>(1);
            }
            left
        });
        match left {
            Left::Entries => {}
            Left::Nobody => self.free_slot(cx, slot),
            Left::Cache(pfn) => {
                self.drop_cached(cx, self.mem.map.folio(pfn), false);
            }
        }
    }

    /// Returns the number of page table entries that name a slot.
    #[doc(alias = "swp_swapcount")]
    pub fn swap_count(&self, cx: &Cx<'_, H>, slot: Slot) -> u32 {
        self.swap.area(slot).slots.lock(cx.cpu()).count(slot.offset)
    }

    /// True if a fault should read the slot into a private page, bypassing the swap cache: its
    /// device finishes at once, and no other task can need the page.
    pub(crate) fn swap_skips_cache(&self, cx: &Cx<'_, H>, slot: Slot) -> bool {
        self.swap.area(slot).synchronous && self.swap_count(cx, slot) == 1
    }

    /// Allocates free slots from the areas, `want` at most, all from one area.
    #[doc(alias = "get_swap_pages")]
    pub(super) fn take_slots(&self, cx: &Cx<'_, H>, want: u32, each: &mut dyn FnMut(Slot)) {
        let want = self.swap.reserve(want.into());
        let mut got = 0;
        if want > 0 {
            let mut order = [0; Slot::MAX_AREAS];
            let nr = {
                let areas = self.swap.order.lock(cx.cpu());
                order[..areas.len()].copy_from_slice(&areas);
                areas.len()
            };
            for &area in &order[..nr] {
                self.swap.next_area(cx.cpu(), area);
                got = self.take_from_area(cx, area, want, each);
                if got > 0 {
                    break;
                }
            }
        }
        self.swap.free.fetch_add(want - got, Relaxed);
    }

    /// Takes free slots from one area, under its lock.
    #[doc(alias = "scan_swap_map_slots")]
    fn take_from_area(
        &self,
        cx: &Cx<'_, H>,
        number: u8,
        want: u64,
        each: &mut dyn FnMut(Slot),
    ) -> u64 {
        let area = &self.swap.areas[usize::from(number)];
        let mut search: Option<Search> = None;
        let mut got = 0;
        loop {
            let cached = {
                let _area = area.lock.lock(cx.cpu());
                let mut slots = area.slots.lock(cx.cpu());
                let search =
                    search.get_or_insert_with(|| slots.search(cx.cpu(), self.swap.is_full()));
                let before = got;
                let cached = loop {
                    if got == want {
                        break None;
                    }
                    match slots.take(search) {
                        Found::Slot(offset) => each(Slot { area: number, offset }),
                        Found::CacheOnly(offset, pfn) => {
                            self.mem.map.lookup(pfn).1.get::<H>(1);
                            break Some((offset, pfn));
                        }
                        Found::End => break None,
                    }
                    got += 1;
                };
                // While the lock is held: that is how long others wait for it.
                cx.host.charge(Cost::SwapSlot, (got - before) as u32);
                cached
            };
            let Some((offset, pfn)) = cached else { return got };
            // Swap is full, and only the cache uses this slot.
            if self.drop_cached(cx, self.mem.map.folio(pfn), true)
                && let Some(search) = &mut search
            {
                search.look_again(offset);
            }
        }
    }
}
