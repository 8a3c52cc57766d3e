//! Which slots a fault reads besides its own, if addresses decide it
//! (rules/swap#readahead-by-address).
//!
//! Without rotational swap areas, the pages around the fault's address are read, as far as their
//! entries name slots; each VMA keeps its history. With one, [`crate::swap`] reads the slots around
//! the fault's.

use core::ops::Range;

use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags};
use crate::swap::{HITS_MAX, Slot, VmaSwapState, window_size};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vm::{Mm, PTES, Pte, Vma};
use crate::vmstat::VmEvent;

/// A window by addresses has at most 2^this pages.
const VMA_ORDER_MAX: u64 = 5;
const TABLE_PAGES: u32 = PTES as u32;

/// Computes the readahead window by addresses, within `bounds` (the VMA and the page table).
#[doc(alias = "swap_ra_info")]
fn vma_window(prev: u32, at: u32, size: u32, bounds: Range<u32>) -> Range<u32> {
    let (at, size) = (i64::from(at), i64::from(size));
    let start = match i64::from(prev) - at {
        -1 => at,
        1 => at - size + 1,
        _ => at - (size - 1) / 2,
    };
    let clip = |page: i64| page.clamp(bounds.start.into(), bounds.end.into()) as u32;
    clip(start)..clip(start + size)
}

impl<H: Devices> Kernel<H> {
    /// The cached page of a slot that a fault at `vpn` wants, with a reference; counts for the
    /// history of readahead.
    pub(crate) fn swap_cache_lookup(
        &self,
        cx: &Cx<'_, H>,
        vma: &Vma<H>,
        vpn: u32,
        slot: Slot,
    ) -> Option<Folio> {
        let folio = self.swap_cache_get(cx, slot)?;
        let page = self.mem.map.page(folio);
        let was_ahead = page.flag_test_clear::<H>(PageFlags::SWAP_READAHEAD);
        if was_ahead {
            self.mem.events.add(cx.cpu(), VmEvent::SwapRaHit, 1);
        }
        if !self.swap.any_rotational {
            let mut state = vma.swap.lock(cx.cpu());
            state.prev = vpn;
            state.hits = (state.hits + u32::from(was_ahead)).min(HITS_MAX);
        } else if was_ahead {
            self.swap.history.hits.fetch_add(1, Relaxed);
        }
        Some(folio)
    }

    /// Reads an uncached slot and its neighbours, by addresses or by slots. Returns the slot's page,
    /// which may still be locked while it is read; `None` if there is no memory, or if no entry
    /// names the slot any more.
    ///
    /// Linux: same name.
    pub(crate) fn swapin_readahead(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vma: &Vma<H>,
        vpn: u32,
        slot: Slot,
    ) -> Option<Folio> {
        // What lies around it on the disk is read for this fault, wherever it belongs.
        let wish = vma.wish(vpn);
        let ahead = if self.swap.any_rotational {
            self.read_cluster(cx, slot, wish)
        } else {
            self.read_around(cx, mm, vma, vpn)
        };
        self.swapin_one(cx, slot, !ahead, wish).map(|(folio, _)| folio)
    }

    /// Reads the slots that the entries around one name; true if there was more than that one to
    /// read.
    #[doc(alias = "swap_vma_readahead")]
    fn read_around(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vma: &Vma<H>, vpn: u32) -> bool {
        let max = 1 << self.mem.tunables.page_cluster.get().min(VMA_ORDER_MAX);
        if max == 1 {
            return false;
        }
        let (prev, size) = {
            let mut state = vma.swap.lock(cx.cpu());
            let size = window_size(state.prev, vpn, state.hits, state.window, max);
            let prev = state.prev;
            *state = VmaSwapState { prev: vpn, window: size, hits: 0 };
            (prev, size)
        };
        if size == 1 {
            return false;
        }
        let table = vpn & !(TABLE_PAGES - 1);
        let bounds = vma.start.max(table)..vma.end.min(table + TABLE_PAGES);
        let window = vma_window(prev, vpn, size, bounds);
        let table = mm.table_of(cx.cpu(), vpn);
        self.plug_start(cx);
        for at in window {
            // Without the table's lock: a useless read does no harm.
            let entry = table.as_ref().map_or(Pte::NONE, |table| table.peek(at));
            if let Some(slot) = entry.slot() {
                self.read_ahead(cx, slot, at == vpn, vma.wish(vpn));
            }
        }
        self.plug_finish(cx);
        self.lru_add_drain(cx);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, after or around the fault, as the last ones went (rules/swap#readahead-by-address).
    #[test]
    fn a_window_lies_where_the_faults_go() {
        let bounds = |at: u32| at / 512 * 512..at / 512 * 512 + 512;
        let window = |prev, at| vma_window(prev, at, 8, bounds(at));
        assert_eq!(window(999, 1000), 1000..1008);
        assert_eq!(window(1001, 1000), 993..1001);
        assert_eq!(window(1, 1000), 997..1005);
        assert_eq!(window(1022, 1023), 1023..1024);
        assert_eq!(window(1, 1024), 1024..1029);
        assert_eq!(vma_window(9, 1, 8, 0..3), 0..3, "below page 0");
    }
}
