//! Page table entries and the tables of the lowest level.

use alloc::boxed::Box;
use alloc::vec;

use crate::host::Tasks;
use crate::page::Pfn;
use crate::swap::Slot;
use crate::sync::order::LockClass;

/// Entries a table holds.
pub const PTES: usize = 512;

/// An entry, 4 bytes.
///
/// ```text
/// present   31..4 pfn (28 bits: 1 TiB) | 3 writable | 2 dirty | 1 young | 0 = 1
/// swap      31..4 area (2 bits), offset (26 bits: 256 GiB) | 3..1 = 001 | 0 = 0
/// none      0
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pte(u32);

const PRESENT: u32 = 1;
const YOUNG: u32 = 1 << 1;
const DIRTY: u32 = 1 << 2;
const WRITABLE: u32 = 1 << 3;
const SWAP: u32 = 1 << 1;
const PFN_SHIFT: u32 = 4;
const OFFSET_BITS: u32 = 26;

impl Pte {
    /// No page.
    pub const NONE: Pte = Pte(0);
    /// Frames that an entry can name.
    pub const MAX_PFN: u32 = (1 << 28) - 1;
    /// Slots of an area that an entry can name.
    pub const MAX_OFFSET: u32 = (1 << OFFSET_BITS) - 1;
    /// Areas that an entry can name.
    pub const MAX_AREAS: usize = 4;

    /// A present entry: young, clean, read-only.
    pub const fn new(pfn: Pfn) -> Pte {
        Pte(pfn.0 << PFN_SHIFT | PRESENT | YOUNG)
    }

    /// An entry that names a swap slot.
    pub const fn swap(slot: Slot) -> Pte {
        Pte(((slot.area as u32) << OFFSET_BITS | slot.offset) << PFN_SHIFT | SWAP)
    }

    /// True if there is no page.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if a frame is mapped.
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// The frame of a present entry.
    #[inline(always)]
    pub const fn pfn(self) -> Option<Pfn> {
        if self.is_present() { Some(Pfn(self.0 >> PFN_SHIFT)) } else { None }
    }

    /// The slot of a swap entry.
    #[inline(always)]
    pub const fn slot(self) -> Option<Slot> {
        if self.0 & PRESENT != 0 || self.0 & SWAP == 0 {
            return None;
        }
        let bits = self.0 >> PFN_SHIFT;
        Some(Slot { area: (bits >> OFFSET_BITS) as u8, offset: bits & Self::MAX_OFFSET })
    }

    /// Used since the bit was last cleared.
    #[inline(always)]
    pub const fn is_young(self) -> bool {
        self.0 & (PRESENT | YOUNG) == PRESENT | YOUNG
    }

    /// Written since the bit was last cleared.
    #[inline(always)]
    pub const fn is_dirty(self) -> bool {
        self.0 & (PRESENT | DIRTY) == PRESENT | DIRTY
    }

    /// Writes need no fault.
    #[inline(always)]
    pub const fn is_writable(self) -> bool {
        self.0 & (PRESENT | WRITABLE) == PRESENT | WRITABLE
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

/// A table of the lowest level: 2 MiB of an address space.
pub struct PageTable<H: Tasks> {
    /// The frame that holds it.
    pub pfn: Pfn,
    /// Its entries.
    pub ptes: H::Lock<Box<[Pte]>>,
}

impl<H: Tasks> PageTable<H> {
    /// An empty table in frame `pfn`.
    pub fn new(host: &H, pfn: Pfn) -> Self {
        let ptes = vec![Pte::NONE; PTES].into_boxed_slice();
        PageTable { pfn, ptes: host.new_lock(LockClass::PageTable, ptes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_of_three_things() {
        let present = Pte::new(Pfn(Pte::MAX_PFN)).with_writable(true).with_dirty(true);
        assert_eq!(present.pfn(), Some(Pfn(Pte::MAX_PFN)));
        assert!(present.is_young() && present.is_dirty() && present.is_writable());
        assert_eq!(present.slot(), None);
        let slot = Slot { area: 3, offset: Pte::MAX_OFFSET };
        let swap = Pte::swap(slot);
        assert_eq!((swap.slot(), swap.pfn(), swap.is_none()), (Some(slot), None, false));
        assert!(!swap.is_young() && !swap.is_dirty() && !swap.is_writable());
        assert!(Pte::NONE.is_none() && Pte::NONE.slot().is_none());
    }
}
