//! Page table entries.
//!
//! From: [`super::page_table`], which keeps them, and code that maps and unmaps.

use super::PTES;
use crate::page::Pfn;
use crate::swap::Slot;

/// A page table entry in 4 bytes: a number, by its size.
///
/// ```text
/// none                  0
/// present   from        8   31..3 pfn + 1 | 2 writable | 1 dirty | 0 young
/// swap      from 9000_0000  27..26 area, 25..0 offset (256 GiB)
/// shared    from a000_0000  a swap entry whose slot forked mms may name
/// moving    from b000_0000  (2 if writable, 1 if young) * 1200_0000 + pfn
/// ```
///
/// So there is room for the frames of 1.125 TiB: a terabyte, and the hole of a PC below 4 GiB.
#[doc(alias = "pte_t")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pte(pub(super) u32);

pub(super) const YOUNG: u32 = 1;
pub(super) const DIRTY: u32 = 1 << 1;
pub(super) const WRITABLE: u32 = 1 << 2;
const PFN_SHIFT: u32 = 3;
/// Frames that an entry can name, and one.
const FRAMES: u32 = 0x1200_0000;
/// Larger numbers are of entries that are not present.
const PRESENT_END: u32 = FRAMES << PFN_SHIFT;
const SWAP: u32 = PRESENT_END;
/// Swap entries whose slot forked mms may name too.
const SWAP_SHARED: u32 = SWAP + (1 << SLOT_BITS);
const SLOT_BITS: u32 = Slot::AREA_BITS + Slot::OFFSET_BITS;
/// The page is being moved.
const MOVING: u32 = SWAP_SHARED + (1 << SLOT_BITS);
const MOVING_YOUNG: u32 = 1;
const MOVING_WRITABLE: u32 = 2;
const _: () = assert!(MOVING.checked_add(4 * FRAMES - 1).is_some() && SLOT_BITS == 28);

/// A frame is mapped.
#[inline(always)]
pub(super) const fn is_present(entry: u32) -> bool {
    entry.wrapping_sub(1) < PRESENT_END - 1
}

impl Pte {
    /// No page.
    pub const NONE: Pte = Pte(0);
    /// The last frame that an entry can name.
    pub const MAX_PFN: u32 = FRAMES - 2;

    /// A present entry: young, clean, read-only.
    #[inline(always)]
    pub const fn new(pfn: Pfn) -> Pte {
        debug_assert!(pfn.0 <= Self::MAX_PFN);
        Pte((pfn.0 + 1) << PFN_SHIFT | YOUNG)
    }

    /// An entry that names a swap slot.
    pub const fn swap(slot: Slot) -> Pte {
        Pte(SWAP + ((slot.area as u32) << Slot::OFFSET_BITS | slot.offset))
    }

    /// Makes a migration entry of the page in frame `pfn`; it keeps what is to be restored, and
    /// dirty is the page's to keep.
    #[doc(alias = "make_readable_migration_entry")]
    #[doc(alias = "make_writable_migration_entry")]
    pub const fn moving(pfn: Pfn, writable: bool, young: bool) -> Pte {
        let mut kind = 0;
        if writable {
            kind |= MOVING_WRITABLE;
        }
        if young {
            kind |= MOVING_YOUNG;
        }
        Pte(MOVING + kind * FRAMES + pfn.0)
    }

    /// The frame that the page of a [`Pte::moving`] entry is moved from.
    #[inline(always)]
    pub const fn moving_from(self) -> Option<Pfn> {
        if self.0 >= MOVING { Some(Pfn((self.0 - MOVING) % FRAMES)) } else { None }
    }

    /// The entry that replaces a [`Pte::moving`] entry once its page is in frame `pfn`.
    pub const fn moved_to(self, pfn: Pfn) -> Pte {
        let kind = self.0.saturating_sub(MOVING) / FRAMES;
        let (writable, young) = (kind & MOVING_WRITABLE != 0, kind & MOVING_YOUNG != 0);
        Pte::new(pfn).with_writable(writable).with_young(young)
    }

    /// True if there is no page.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if a frame is mapped.
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        is_present(self.0)
    }

    /// For a leaf: the entry for one page of it.
    #[inline(always)]
    pub(super) const fn part(self, vpn: u32) -> Pte {
        Pte(self.0 + ((vpn % PTES as u32) << PFN_SHIFT))
    }

    /// The frame of a present entry.
    #[inline(always)]
    pub const fn pfn(self) -> Option<Pfn> {
        if self.is_present() { Some(Pfn((self.0 >> PFN_SHIFT) - 1)) } else { None }
    }

    /// The slot of a swap entry.
    #[inline(always)]
    pub const fn slot(self) -> Option<Slot> {
        if self.0 < SWAP || self.0 >= MOVING {
            return None;
        }
        let bits = (self.0 - SWAP) & ((1 << SLOT_BITS) - 1);
        Some(Slot { area: (bits >> Slot::OFFSET_BITS) as u8, offset: bits & Slot::MAX_OFFSET })
    }

    /// Of a swap entry: other mms may have named the slot since a fork (the opposite of *exclusive*).
    #[inline(always)]
    pub const fn is_shared_swap(self) -> bool {
        self.0 >= SWAP_SHARED && self.0 < MOVING
    }

    /// A swap entry with its mark of a fork as given.
    #[must_use]
    #[inline(always)]
    pub const fn with_shared_swap(self, on: bool) -> Pte {
        match on == self.is_shared_swap() {
            true => self,
            false if on => Pte(self.0 + (SWAP_SHARED - SWAP)),
            false => Pte(self.0 - (SWAP_SHARED - SWAP)),
        }
    }

    /// Used since the bit was last cleared.
    #[inline(always)]
    pub const fn is_young(self) -> bool {
        self.is_present() && self.0 & YOUNG != 0
    }

    /// Written since the bit was last cleared.
    #[inline(always)]
    pub const fn is_dirty(self) -> bool {
        self.is_present() && self.0 & DIRTY != 0
    }

    /// Writes need no fault.
    #[inline(always)]
    pub const fn is_writable(self) -> bool {
        self.is_present() && self.0 & WRITABLE != 0
    }

    /// With the young bit as given.
    #[must_use]
    #[inline(always)]
    pub const fn with_young(self, on: bool) -> Pte {
        Pte(if on { self.0 | YOUNG } else { self.0 & !YOUNG })
    }

    /// With the dirty bit as given.
    #[must_use]
    #[inline(always)]
    pub const fn with_dirty(self, on: bool) -> Pte {
        Pte(if on { self.0 | DIRTY } else { self.0 & !DIRTY })
    }

    /// With the writable bit as given.
    #[must_use]
    #[inline(always)]
    pub const fn with_writable(self, on: bool) -> Pte {
        Pte(if on { self.0 | WRITABLE } else { self.0 & !WRITABLE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_apart_at_their_limits() {
        let frames = [0, 1, 2, 0x0fff_ffff, 0x1000_0000, Pte::MAX_PFN].map(Pfn);
        for (pfn, bits) in frames.into_iter().flat_map(|pfn| (0..8).map(move |bits| (pfn, bits))) {
            let (young, dirty, writable) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let pte = Pte::new(pfn).with_young(young).with_dirty(dirty).with_writable(writable);
            assert_eq!(pte.pfn(), Some(pfn));
            assert_eq!(
                (pte.is_young(), pte.is_dirty(), pte.is_writable()),
                (young, dirty, writable)
            );
            assert_eq!((pte.slot(), pte.moving_from(), pte.is_none()), (None, None, false));
            let moving = Pte::moving(pfn, writable, young);
            assert_eq!(
                (moving.moving_from(), moving.pfn(), moving.slot()),
                (Some(pfn), None, None)
            );
            assert_eq!(moving.moved_to(pfn), pte.with_dirty(false));
            assert!(!moving.is_none() && !moving.is_shared_swap());
        }
        for area in 0..Slot::MAX_AREAS as u8 {
            for offset in [1, Slot::MAX_OFFSET] {
                let pte = Pte::swap(Slot { area, offset });
                let shared = pte.with_shared_swap(true);
                assert!(shared.is_shared_swap() && !pte.is_shared_swap() && shared != pte);
                assert_eq!(
                    (shared.slot(), shared.pfn(), shared.moving_from()),
                    (pte.slot(), None, None)
                );
                assert_eq!(shared.with_shared_swap(true).with_shared_swap(false), pte);
                assert_eq!(pte.with_shared_swap(false), pte);
            }
        }
    }

    #[test]
    fn an_entry_is_one_of_three_things() {
        let present = Pte::new(Pfn(Pte::MAX_PFN)).with_writable(true).with_dirty(true);
        assert_eq!(present.pfn(), Some(Pfn(Pte::MAX_PFN)));
        assert!(present.is_young() && present.is_dirty() && present.is_writable());
        assert_eq!(present.slot(), None);
        let slot = Slot { area: 3, offset: Slot::MAX_OFFSET };
        let swap = Pte::swap(slot);
        assert_eq!((swap.slot(), swap.pfn(), swap.is_none()), (Some(slot), None, false));
        assert!(!swap.is_young() && !swap.is_dirty() && !swap.is_writable());
        assert!(Pte::NONE.is_none() && Pte::NONE.slot().is_none());
    }

    #[test]
    fn a_moving_entry_keeps_what_is_restored() {
        for (writable, young) in [(false, false), (true, false), (false, true), (true, true)] {
            let moving = Pte::moving(Pfn(Pte::MAX_PFN), writable, young);
            assert_eq!(moving.moving_from(), Some(Pfn(Pte::MAX_PFN)));
            assert_eq!((moving.slot(), moving.pfn(), moving.is_none()), (None, None, false));
            assert!(!moving.is_writable() && !moving.is_young() && !moving.is_dirty());
            let there = moving.moved_to(Pfn(7));
            assert_eq!(there.pfn(), Some(Pfn(7)));
            assert_eq!((there.is_writable(), there.is_young()), (writable, young));
            assert!(!there.is_dirty());
        }
        let slot = Slot { area: 3, offset: Slot::MAX_OFFSET };
        assert_eq!(Pte::swap(slot).moving_from(), None);
        assert_eq!(Pte::new(Pfn(3)).with_writable(true).moving_from(), None);
        assert_eq!(Pte::NONE.moving_from(), None);
    }
}
