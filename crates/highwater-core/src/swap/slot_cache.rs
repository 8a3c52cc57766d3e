//! Slots kept per CPU, so that a CPU seldom takes a swap area's lock (rules/swap#slot-cache).

use alloc::vec::Vec;

use super::Slot;
use crate::host::{CpuId, Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;

/// Slots taken at a time, and collected before they are given back.
const SLOTS: usize = 64;
/// The caches are switched on above this many free slots a CPU, off below the other.
const ON_ABOVE: u64 = 5 * SLOTS as u64;
const OFF_BELOW: u64 = 2 * SLOTS as u64;

/// One CPU's cache of swap slots.
#[doc(alias = "swap_slots_cache")]
#[derive(Debug, Default)]
pub struct SlotCache {
    /// Taken from a swap area and not used yet, last to be used first.
    pub(crate) taken: Vec<Slot>,
    /// Used no more and not given back yet.
    pub(crate) freed: Vec<Slot>,
}

/// Decides whether the slot caches are used, by the number of free slots.
#[doc(alias = "check_cache_active")]
fn caches_active(active: bool, nr_free: u64, nr_cpus: u64) -> bool {
    if active { nr_free >= OFF_BELOW * nr_cpus } else { nr_free > ON_ABOVE * nr_cpus }
}

impl<H: Devices> Kernel<H> {
    /// Takes a slot from this CPU's cache, which is filled if it is empty; none if the caches are
    /// off or no slot is free.
    #[doc(alias = "refill_swap_slots_cache")]
    pub(super) fn slot_from_cache(&self, cx: &Cx<'_, H>) -> Option<Slot> {
        let active = self.swap.caches_active.load(Relaxed);
        let now = self.mem.policy.swap.slot_cache
            && caches_active(active, self.swap.nr_free(), self.mem.nr_cpus() as u64);
        if now != active {
            self.swap.caches_active.store(now, Relaxed);
            if active {
                self.drain_slot_caches(cx);
            }
        }
        if !now {
            return None;
        }
        if let Some(slot) = self.slot_cache(cx.cpu(), |cache| cache.taken.pop()) {
            return Some(slot);
        }
        let mut taken = [Slot { area: 0, offset: 0 }; SLOTS];
        let mut nr = 0;
        self.take_slots(cx, SLOTS as u32, &mut |slot| {
            taken[nr] = slot;
            nr += 1;
        });
        let slot = self.slot_cache(cx.cpu(), |cache| {
            // Somebody else may have filled it meanwhile; his slots are used after these.
            cache.taken.extend(taken[..nr].iter().rev());
            cache.taken.pop()
        });
        self.drain_if_off(cx);
        slot
    }

    /// Frees a slot without users through this CPU's cache. It is still taken (has-cache).
    #[doc(alias = "free_swap_slot")]
    pub(super) fn free_slot(&self, cx: &Cx<'_, H>, slot: Slot) {
        if !self.swap.caches_active.load(Relaxed) {
            self.give_back_slots(cx, &[slot]);
            return;
        }
        let mut full = [slot; SLOTS];
        let is_full = self.slot_cache(cx.cpu(), |cache| {
            let is_full = cache.freed.len() >= SLOTS;
            if is_full {
                full.copy_from_slice(&cache.freed[..SLOTS]);
                cache.freed.clear();
            }
            cache.freed.push(slot);
            is_full
        });
        if is_full {
            self.give_back_slots(cx, &full);
        }
        self.drain_if_off(cx);
    }

    /// The caches may have been switched off and emptied between the check and an addition to this
    /// CPU's cache. The added slots would stay there, neither free nor used.
    fn drain_if_off(&self, cx: &Cx<'_, H>) {
        if !self.swap.caches_active.load(Relaxed) {
            self.drain_slot_cache(cx, cx.cpu());
        }
    }

    /// Frees the slots that all CPUs keep.
    fn drain_slot_caches(&self, cx: &Cx<'_, H>) {
        for cpu in self.mem.cpus() {
            self.drain_slot_cache(cx, cpu);
        }
    }

    fn drain_slot_cache(&self, cx: &Cx<'_, H>, cpu: CpuId) {
        let mut slots = self.slot_cache(cpu, |cache| core::mem::take(&mut cache.taken));
        slots.append(&mut self.slot_cache(cpu, |cache| core::mem::take(&mut cache.freed)));
        self.give_back_slots(cx, &slots);
    }

    fn slot_cache<R>(&self, cpu: CpuId, with: impl FnOnce(&mut SlotCache) -> R) -> R {
        with(&mut self.swap.caches[cpu.idx()].lock(cpu))
    }

    /// Their memory cgroups stop paying for slots. Until now they paid, also for those that waited
    /// in a CPU's cache (rules/memory-cgroups#swap).
    fn uncharge_slots(&self, cx: &Cx<'_, H>, slots: &[Slot]) {
        for slot in slots {
            let id = {
                let mut slots = self.swap.area(*slot).slots.lock(cx.cpu());
                let id = slots.owner(slot.offset);
                slots.set_owner(slot.offset, 0);
                id
            };
            self.uncharge_swap(cx, id);
        }
    }

    /// Gives slots back to their areas, area by area.
    #[doc(alias = "swapcache_free_entries")]
    fn give_back_slots(&self, cx: &Cx<'_, H>, slots: &[Slot]) {
        let mut rest = slots;
        while let Some(first) = rest.first() {
            let nr = rest.iter().take_while(|slot| slot.area == first.area).count();
            if self.mem.groups.is_on() {
                self.uncharge_slots(cx, &rest[..nr]);
            }
            self.swap.area(*first).give_back(cx, &rest[..nr]);
            self.swap.free.fetch_add(nr as u64, Relaxed);
            rest = &rest[nr..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_go_on_and_off_with_a_gap() {
        assert!(!caches_active(false, 640, 2) && caches_active(false, 641, 2));
        assert!(caches_active(true, 256, 2) && !caches_active(true, 255, 2));
    }
}
