//! Which slots to read besides the requested one (rules/swap#readahead-size,
//! rules/swap#readahead-by-slot).
//!
//! Without rotational swap areas, the pages around the fault's address are read, as far as their
//! entries name slots; each VMA has its own history (`vm::fault::swap_readahead`). With one, the
//! slots around the fault's are read, and there is one history for all. The distance depends on how
//! many of the pages read ahead were used since.

use core::hint::cold_path;
use core::ops::Range;

use super::Slot;
use super::cache::ReadPage;
use crate::host::{Cost, Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, PageFlags};
use crate::page_alloc::{Gfp, Wish};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::vmstat::VmEvent;

/// Hits that a fresh history starts with.
const HITS_AT_FIRST: u32 = 4;
/// Most hits a region remembers.
pub(crate) const HITS_MAX: u32 = 63;
/// A region's swap readahead history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmaSwapState {
    /// Virtual page of the last fault.
    pub prev: u32,
    /// Its window.
    pub window: u32,
    /// Hits since.
    pub hits: u32,
}

impl Default for VmaSwapState {
    fn default() -> Self {
        VmaSwapState { prev: 0, window: 0, hits: HITS_AT_FIRST }
    }
}

/// History of readahead by slots.
#[derive(Debug)]
pub(crate) struct ClusterHistory {
    prev: AtomicU32,
    window: AtomicU32,
    pub(crate) hits: AtomicU32,
}

impl Default for ClusterHistory {
    fn default() -> Self {
        ClusterHistory {
            prev: AtomicU32::new(0),
            window: AtomicU32::new(0),
            hits: AtomicU32::new(HITS_AT_FIRST),
        }
    }
}

/// Computes the pages to read ahead from the hits since the last fault, the distance to it, and its
/// window.
#[doc(alias = "__swapin_nr_pages")]
pub(crate) fn window_size(prev: u32, at: u32, hits: u32, prev_window: u32, max: u32) -> u32 {
    let wanted = match hits {
        0 => 1 + u32::from(prev.abs_diff(at) == 1),
        _ => (hits + 2).next_power_of_two().max(4),
    };
    wanted.min(max).max(prev_window / 2)
}

/// The window by slots: `size` of them, aligned, without the header.
#[doc(alias = "swapin_nr_pages")]
fn cluster_window(offset: u32, size: u32, pages: u32) -> Range<u32> {
    let start = offset & !(size - 1);
    start.max(1)..(start + size).min(pages)
}

impl<H: Devices> Kernel<H> {
    /// A fault reads a slot into a private page ([`Kernel::swap_skips_cache`]): returns the page,
    /// with a reference, unlocked, in no cache. `None` if there is no memory.
    pub(crate) fn swapin_private(&self, cx: &Cx<'_, H>, slot: Slot, wish: Wish) -> Option<Folio> {
        let folio = self.alloc_swapin(cx, slot, wish)?;
        let page = self.mem.map.page(folio);
        page.init_flags(PageFlags::LOCKED | PageFlags::SWAPBACKED);
        let shadow = self.swap.area(slot).slots.lock(cx.cpu()).shadow(slot.offset);
        if let Some(shadow) = shadow {
            self.workingset_refault(cx, folio, shadow);
        }
        self.uncharge_swapped_in(cx, slot);
        self.lru_add(cx, folio);
        self.swap_readpage(cx, folio, slot, true);
        Some(folio)
    }

    /// A cached page was asked for: counts for the history of readahead by slots.
    pub(super) fn note_readahead_hit(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.flag_test_clear::<H>(PageFlags::SWAP_READAHEAD) {
            self.mem.events.add(cx.cpu(), VmEvent::SwapRaHit, 1);
            self.swap.history.hits.fetch_add(1, Relaxed);
        }
    }

    /// Reads the slots around one (readahead by slots); true if there was more than that one to
    /// read.
    #[doc(alias = "swap_cluster_readahead")]
    pub(crate) fn read_cluster(&self, cx: &Cx<'_, H>, slot: Slot, wish: Wish) -> bool {
        let history = &self.swap.history;
        let max = 1 << self.mem.tunables.page_cluster.get();
        if max == 1 {
            return false;
        }
        let hits = history.hits.swap(0, Relaxed);
        let prev = history.prev.load(Relaxed);
        let size = window_size(prev, slot.offset, hits, history.window.load(Relaxed), max);
        if hits == 0 {
            history.prev.store(slot.offset, Relaxed);
        }
        history.window.store(size, Relaxed);
        if size == 1 {
            return false;
        }
        let pages = self.swap.area(slot).spec.pages;
        self.plug_start(cx);
        for offset in cluster_window(slot.offset, size, pages) {
            self.read_ahead(cx, Slot { offset, ..slot }, offset == slot.offset, wish);
        }
        self.plug_finish(cx);
        self.lru_add_drain(cx);
        true
    }

    /// Starts reading one slot of a window; `wanted`: the fault's own.
    pub(crate) fn read_ahead(&self, cx: &Cx<'_, H>, slot: Slot, wanted: bool, wish: Wish) {
        let Some((folio, is_new)) = self.swapin_one(cx, slot, false, wish) else {
            return;
        };
        if is_new && !wanted {
            self.mem.map.page(folio).flag_set::<H>(PageFlags::SWAP_READAHEAD);
            self.mem.events.add(cx.cpu(), VmEvent::SwapRa, 1);
        }
        self.put_page(cx, folio);
    }

    /// Finds the swap cache page of a slot, or starts reading a new one; `None` if no entry names
    /// the slot, or there is no memory.
    #[doc(alias = "read_swap_cache_async")]
    #[doc(alias = "__read_swap_cache_async")]
    pub(crate) fn swapin_one(
        &self,
        cx: &Cx<'_, H>,
        slot: Slot,
        is_sync: bool,
        wish: Wish,
    ) -> Option<(Folio, bool)> {
        if let Some(folio) = self.swap_cache_get(cx, slot) {
            return Some((folio, false));
        }
        if self.swap_count(cx, slot) == 0 {
            return None;
        }
        let folio = self.alloc_swapin(cx, slot, wish)?;
        match self.add_read_page(cx, folio, slot) {
            ReadPage::Added(shadow) => {
                cx.host.charge(Cost::PageCacheAdd, 1);
                if let Some(shadow) = shadow {
                    self.workingset_refault(cx, folio, shadow);
                }
                self.lru_add(cx, folio);
                self.swap_readpage(cx, folio, slot, is_sync);
                Some((folio, true))
            }
            ReadPage::Cached(other) => {
                self.put_page(cx, folio);
                Some((other, false))
            }
            ReadPage::Unused => {
                self.put_page(cx, folio);
                None
            }
        }
    }

    /// A page for the contents of a slot, charged to the memory cgroup that the slot names.
    fn alloc_swapin(&self, cx: &Cx<'_, H>, slot: Slot, wish: Wish) -> Option<Folio> {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        let folio = self.mem.alloc_folio_wished(cx, self, gfp, Order::ZERO, wish)?;
        if self.mem.groups.is_on() {
            cold_path();
            return self.charge_swapin(cx, slot, folio);
        }
        Some(folio)
    }

    /// Charges a page to the memory cgroup that its slot names; if the limit refuses, the page is
    /// freed.
    #[inline(never)]
    fn charge_swapin(&self, cx: &Cx<'_, H>, slot: Slot, folio: Folio) -> Option<Folio> {
        let group = self.group_of_slot(cx, slot, self.group_of_task(cx));
        if !self.charge_folio(cx, folio, group, Gfp::GFP_KERNEL) {
            self.put_page(cx, folio);
            return None;
        }
        Some(folio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of rules/swap#readahead-size.
    #[test]
    fn a_window_grows_with_hits_and_shrinks_without() {
        let mut window = window_size(0, 5000, HITS_AT_FIRST, 0, 8);
        assert_eq!(window, 8);
        for expected in [4, 2, 1, 1] {
            window = window_size(5000, 9000, 0, window, 8);
            assert_eq!(window, expected);
        }
        assert_eq!((window_size(7, 9, 0, 0, 8), window_size(7, 8, 0, 0, 8)), (1, 2));
        assert_eq!(window_size(9, 8, 0, 0, 8), 2);
        let sizes = [1, 2, 3, 4, 60].map(|hits| window_size(0, 100, hits, 0, 8));
        assert_eq!(sizes, [4, 4, 8, 8, 8]);
    }

    #[test]
    fn slots_are_read_in_aligned_groups_without_the_header() {
        assert_eq!(cluster_window(13, 8, 1000), 8..16);
        assert_eq!(cluster_window(3, 8, 1000), 1..8);
        assert_eq!(cluster_window(13, 8, 14), 8..14);
    }
}
