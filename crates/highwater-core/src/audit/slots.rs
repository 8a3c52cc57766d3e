//! Swap: a slot is used by exactly the entries, pages and caches that name it.

use alloc::format;

use super::kernel::{Found, KernelAudit};
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::page::{Folio, PageFlags, Pfn};
use crate::swap::{Slot, SlotState};
use crate::vmstat::NodeStat;

impl<H: Devices> KernelAudit<'_, '_, H> {
    /// Is there such a slot?
    pub(super) fn is_slot(&self, slot: Slot) -> bool {
        let area = self.k.swap.areas.get(usize::from(slot.area));
        area.is_some_and(|area| (1..area.spec.pages).contains(&slot.offset))
    }

    pub(super) fn swap(&mut self) -> Result<(), AuditError> {
        let mut kept = alloc::collections::BTreeSet::new();
        for cpu in self.k.mem.cpus() {
            let cache = self.k.swap.slot_cache_of(cpu).lock(self.cx.cpu());
            for &slot in cache.taken.iter().chain(&cache.freed) {
                if !self.is_slot(slot) || !kept.insert(slot) {
                    let found = format!("CPU {} keeps {slot:?}, which has another user", cpu.0);
                    return self.broken(None, Rule::SlotKept, found);
                }
            }
        }
        for slot in core::mem::take(&mut self.exclusive) {
            let entries = self.named[usize::from(slot.area)][slot.offset as usize];
            if entries != 1 {
                let found = format!("{slot:?} is said to be one entry's alone, {entries} name it");
                return self.broken(None, Rule::SlotCount, found);
            }
        }
        let mut nr_free = 0;
        for (number, area) in self.k.swap.areas.iter().enumerate() {
            let mut area_free = 0;
            let counted = area.slots.lock(self.cx.cpu()).nr_free();
            for offset in 1..area.spec.pages {
                let slot = Slot { area: number as u8, offset };
                let state = self.k.swap.state(self.cx.cpu(), slot);
                self.slot(slot, state, kept.contains(&slot))?;
                area_free += u32::from(state == SlotState::default());
            }
            if counted != area_free {
                let found =
                    format!("swap area {number} counts {counted} free slots, has {area_free}");
                return self.broken(None, Rule::SlotsFree, found);
            }
            nr_free += u64::from(area_free);
        }
        if self.k.swap.nr_free() != nr_free {
            let found = format!("{} slots are counted free, {nr_free} are", self.k.swap.nr_free());
            return self.broken(None, Rule::SlotsFree, found);
        }
        Ok(())
    }

    fn slot(&mut self, slot: Slot, state: SlotState, is_kept: bool) -> Result<(), AuditError> {
        let entries = self.named[usize::from(slot.area)][slot.offset as usize];
        if state.count != entries {
            let found = format!("{slot:?} counts {} entries, {entries} name it", state.count);
            return self.broken(state.cached, Rule::SlotCount, found);
        }
        if let Some(pfn) = state.cached {
            let (folio, page) = self.in_folio(pfn, "the swap cache")?;
            let names = self.k.slot_of(Folio::page(pfn));
            if !page.is(PageFlags::SWAPCACHE | PageFlags::SWAPBACKED) || names != Some(slot) {
                let found = format!("is cached in {slot:?}, names {names:?}: {:?}", page.flags());
                return self.broken(pfn, Rule::SwapCached, found);
            }
            // A folio has a slot for each of its pages, and a reference for each slot.
            self.refer(folio.pfn(), Found::SWAP);
            self.report.swap_cached += 1;
            self.count(page, NodeStat::FilePages, 1);
            self.count(page, NodeStat::Swapcached, 1);
        }
        // Taken without a page: a CPU keeps it. A shadow waits for entries to come back to.
        let is_held = state.has_cache && state.cached.is_none();
        let is_wrong = state.cached.is_some() && !state.has_cache;
        if is_held != is_kept || is_wrong || is_held && entries != 0 {
            let found = format!("{slot:?} is {state:?}, kept by a CPU: {is_kept}");
            return self.broken(state.cached, Rule::SlotKept, found);
        }
        if state.shadow.is_some() && entries == 0 {
            let found = format!("{slot:?} has a shadow, but no entry names it: {state:?}");
            return self.broken(None, Rule::SlotShadow, found);
        }
        Ok(())
    }

    /// A page with the swap-cache flag is in the swap cache.
    pub(super) fn swap_cached(&self, pfn: Pfn) -> Result<(), AuditError> {
        let says = self.page(pfn).is(PageFlags::SWAPCACHE);
        let is = self.uses[pfn].is.contains(Found::SWAP);
        for frame in self.k.mem.map.folio(pfn).frames() {
            let names = self.k.slot_of(Folio::page(frame));
            if says != is || names.is_some() != is {
                let found = format!("in the swap cache: {is}, says {says}, names {names:?}");
                return self.broken(frame, Rule::SwapCached, found);
            }
        }
        Ok(())
    }
}
