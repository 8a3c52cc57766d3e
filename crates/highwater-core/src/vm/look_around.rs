//! Look-around: a reference check that finds a young entry also looks at the entries beside it
//! (rules/mglru#look-around).
//!
//! Neighbours in an address space are mostly used together, but they are scattered over the lists.
//! One walk from a page to its entry costs two searches and several cache misses. The neighbours'
//! entries lie in the next 8 cache lines, so up to 64 pages share that cost.
//!
//! Key type: [`Around`]. A caller of [`Kernel::page_referenced`] puts it into its
//! [`Trail`](super::Trail). The check collects used neighbours and dense tables there, and the
//! caller promotes them when it holds no table's lock. Without it a check clears one entry's young
//! bit, as the two-list LRU does.
//!
//! Synchronisation: under the lock of the table, which the reference check holds. Young bits are
//! cleared without a flush.
//!
//! Not modelled: Linux does nothing here while another CPU waits for the table's lock; hosts do
//! not report waiters.
//!
//! From: [`super::rmap`], [`super::rmap_folio`] · to: `reclaim`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::aging::{self, PagesToAge};
use super::rmap::Place;
use super::{Ptes, VmaFlags};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Folio;

/// The look of reference checks at entries beside a young one, and its results since the caller last
/// took them.
#[derive(Debug)]
pub(crate) struct Around {
    /// Entries of the window, the page's own among them: 64. With 1 nothing is looked at around the
    /// own entry, and no table is reported.
    pub(crate) pages: u8,
    /// The neighbours that count: pages of these lists.
    pub(crate) of: PagesToAge,
    /// The own entry is cleared first, and the page is not among `found` (6.12).
    pub(crate) clears_own_first: bool,
    /// Folios of young entries, by address; a folio of several pages may come several times. Their
    /// young bits are cleared.
    pub(crate) found: Vec<Folio>,
    /// Keys ([`super::AgingVisitor`]) of dense tables: at least one in 8 entries looked at was
    /// young.
    pub(crate) dense: Vec<u64>,
}

impl Around {
    /// Nothing found yet.
    pub(crate) fn new(pages: u8, of: PagesToAge, clears_own_first: bool) -> Around {
        Around { pages, of, clears_own_first, found: Vec::new(), dense: Vec::new() }
    }
}

/// The window of `pages` entries around `at`, inside `start..end`: centred, or at an end that is
/// less than half a window away.
fn window(at: u32, start: u32, end: u32, pages: u32) -> Range<u32> {
    debug_assert!(start <= at && at < end && pages > 0);
    let half = pages / 2;
    if end - start <= pages {
        start..end
    } else if at - start < half {
        start..start + pages
    } else if end - at < pages - half {
        end - pages..end
    } else {
        at - half..at - half + pages
    }
}

impl<H: Devices> Kernel<H> {
    /// Clears the young bit of an entry for a reference check; true if it was set. With
    /// look-around also those of its neighbours, unless the VMA is read sequentially or at random.
    #[inline(always)]
    pub(super) fn clear_young_around(
        &self,
        cx: &Cx<'_, H>,
        place: &Place<'_, H>,
        ptes: &mut Ptes<'_, H>,
        vpn: u32,
        around: &mut Option<Box<Around>>,
    ) -> bool {
        match around {
            None => ptes.clear_young(vpn),
            Some(around) => self.look_from(cx, place, ptes, vpn, around),
        }
    }

    #[cold]
    #[inline(never)]
    fn look_from(
        &self,
        cx: &Cx<'_, H>,
        place: &Place<'_, H>,
        ptes: &mut Ptes<'_, H>,
        vpn: u32,
        around: &mut Around,
    ) -> bool {
        let (start, end) = place.pages;
        let has_locality = !place.flags.intersects(VmaFlags::SEQ_READ | VmaFlags::RAND_READ);
        let is_small = ptes.leaf().is_none();
        if has_locality && is_small && (start..end).contains(&vpn) && ptes.get(vpn).is_young() {
            self.look_around(cx, place, ptes, vpn, around);
            return true;
        }
        ptes.clear_young(vpn)
    }

    /// Clears the young bits in the window around a young entry, and notes their folios.
    #[doc(alias = "lru_gen_look_around")]
    fn look_around(
        &self,
        cx: &Cx<'_, H>,
        place: &Place<'_, H>,
        ptes: &mut Ptes<'_, H>,
        vpn: u32,
        around: &mut Around,
    ) {
        let (start, end) = place.pages;
        let window = window(vpn, start, end, u32::from(around.pages.max(1)));
        let nr_seen = window.len() as u32;
        let (mut nr_young, mut nr_found) = (0, 0);
        if around.clears_own_first {
            ptes.clear_young(vpn);
            nr_young = 1;
        }
        for vpn in window {
            let pte = ptes.get(vpn);
            let Some(folio) = self.folio_to_age(pte, &around.of) else { continue };
            ptes.clear_young(vpn);
            self.dirty_to_folio(cx, folio, pte);
            around.found.push(folio);
            nr_young += 1;
            nr_found += 1;
        }
        // It counts as used even if it is none of the pages to age.
        ptes.clear_young(vpn);
        aging::charge_look(cx, nr_seen, nr_found);
        let key = aging::table_key(place.mm.id, vpn);
        if around.pages > 1
            && aging::is_dense(nr_young, nr_seen)
            && around.dense.last() != Some(&key)
        {
            around.dense.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Vectors of the rules: a full table of 512 entries, 64 of them looked at.
    #[test]
    fn a_window_is_centred_or_at_an_end() {
        let full = |at| window(at, 0, 512, 64);
        assert_eq!([0, 31, 32].map(full), [0..64, 0..64, 0..64]);
        assert_eq!(full(100), 68..132);
        assert_eq!([480, 481, 511].map(full), [448..512, 448..512, 448..512]);
        assert_eq!(window(33, 0, 512, 64), 1..65);
        assert_eq!(window(110, 100, 140, 64), 100..140, "all of a region of 40 pages");
        assert_eq!(window(700, 612, 676 + 512, 64), 668..732);
        assert_eq!(window(7, 0, 512, 1), 7..8);
        assert_eq!(window(511, 511, 512, 1), 511..512);
    }

    proptest! {
        #[test]
        fn a_window_is_as_large_as_it_may_be_and_holds_its_entry(
            (start, len, at) in (0..512_u32, 1..=512_u32)
                .prop_flat_map(|(start, len)| (Just(start), Just(len), start..start + len)),
            pages in 1..=255_u32,
        ) {
            let window = window(at, start, start + len, pages);
            prop_assert!(window.contains(&at) && window.len() as u32 == pages.min(len));
            prop_assert!(start <= window.start && window.end <= start + len);
        }
    }
}
