//! One node of a file's tree: 64 slots.
//!
//! ```text
//! slots    64 x u32   0 = empty | pfn + 1 | u32::MAX = a shadow, u32::MAX - 1 = a swap
//!          slot, both kept in `shadows`
//! pages    bit i: slot i holds a page
//! marks    bit i of word m: the page in slot i has mark m
//! shadows  64 x u64, allocated with the first shadow or swap slot, gone with the last
//! ```
//!
//! A full node costs 304 bytes, 4.75 a page.

use alloc::boxed::Box;

use super::tree::{Entry, Mark};
use crate::lru::Shadow;
use crate::page::Pfn;
use crate::slab::ObjectId;

/// Slots of a node, log2.
pub(super) const SLOT_BITS: u32 = 6;
/// Slots of a node.
pub(super) const SLOTS: usize = 1 << SLOT_BITS;

const EMPTY: u32 = 0;
const SHADOW: u32 = u32::MAX;
const SWAPPED: u32 = u32::MAX - 1;

/// A node of the page cache tree: 64 slots and their marks.
#[doc(alias = "xa_node")]
#[doc(alias = "radix_tree_node")]
#[derive(Debug)]
pub(super) struct Node {
    slots: [u32; SLOTS],
    pages: u64,
    marks: [u64; Mark::COUNT],
    shadows: Option<Box<[u64; SLOTS]>>,
    nr_shadows: u8,
    nr_swapped: u8,
    /// Its memory.
    pub(super) object: ObjectId,
}

const _: () = assert!(size_of::<Node>() <= 304);

impl Node {
    pub(super) fn new(object: ObjectId) -> Self {
        Node {
            slots: [EMPTY; SLOTS],
            pages: 0,
            marks: [0; Mark::COUNT],
            shadows: None,
            nr_shadows: 0,
            nr_swapped: 0,
            object,
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, slot: usize) -> Entry {
        match self.slots[slot] {
            EMPTY => Entry::Empty,
            SHADOW => Entry::Shadow(self.shadow(slot)),
            SWAPPED => Entry::Swapped(self.shadow(slot).0 as u32),
            page => Entry::Page(Pfn(page - 1)),
        }
    }

    fn shadow(&self, slot: usize) -> Shadow {
        Shadow(self.shadows.as_ref().map_or(0, |shadows| shadows[slot]))
    }

    /// Stores an entry and returns the old one; the slot's marks are cleared.
    pub(super) fn set(&mut self, slot: usize, entry: Entry) -> Entry {
        let old = self.get(slot);
        let bit = 1 << slot;
        self.pages &= !bit;
        self.marks.iter_mut().for_each(|mark| *mark &= !bit);
        match old {
            Entry::Shadow(_) => self.nr_shadows -= 1,
            Entry::Swapped(_) => self.nr_swapped -= 1,
            Entry::Empty | Entry::Page(_) => {}
        }
        self.slots[slot] = match entry {
            Entry::Empty => EMPTY,
            Entry::Page(pfn) => {
                self.pages |= bit;
                pfn.0 + 1
            }
            Entry::Shadow(Shadow(shadow)) => {
                self.nr_shadows += 1;
                self.shadows.get_or_insert_with(|| Box::new([0; SLOTS]))[slot] = shadow;
                SHADOW
            }
            Entry::Swapped(word) => {
                self.nr_swapped += 1;
                self.shadows.get_or_insert_with(|| Box::new([0; SLOTS]))[slot] = word.into();
                SWAPPED
            }
        };
        if self.nr_shadows == 0 && self.nr_swapped == 0 {
            self.shadows = None;
        }
        old
    }

    /// Puts a shadow in the place of a page without marks; false, and nothing has happened, if
    /// there is something else.
    #[inline(always)]
    pub(super) fn evict(&mut self, slot: usize, pfn: Pfn, shadow: Shadow) -> bool {
        let bit = 1 << slot;
        let marked = self.marks.iter().fold(0, |all, mark| all | mark) & bit;
        if self.slots[slot] != pfn.0 + 1 || marked != 0 {
            return false;
        }
        self.slots[slot] = SHADOW;
        self.pages &= !bit;
        self.nr_shadows += 1;
        match &mut self.shadows {
            Some(shadows) => shadows[slot] = shadow.0,
            None => self.first_shadow(slot, shadow),
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn first_shadow(&mut self, slot: usize, shadow: Shadow) {
        self.shadows.insert(Box::new([0; SLOTS]))[slot] = shadow.0;
    }

    /// Puts a page in the place of another one, with its marks; false if that one is not there.
    pub(super) fn replace(&mut self, slot: usize, old: Pfn, new: Pfn) -> bool {
        let is_there = self.get(slot) == Entry::Page(old);
        if is_there {
            self.slots[slot] = new.0 + 1;
        }
        is_there
    }

    /// Bit i: slot i holds a page.
    #[inline(always)]
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Bit i: the page in slot i has the mark.
    #[inline(always)]
    pub(super) fn marked(&self, mark: Mark) -> u64 {
        self.marks[mark as usize]
    }

    /// Sets or clears a mark; true if that changed it. Only pages have marks.
    pub(super) fn mark(&mut self, slot: usize, mark: Mark, on: bool) -> bool {
        let bit = 1 << slot;
        let word = &mut self.marks[mark as usize];
        let before = *word;
        *word = if on { before | (bit & self.pages) } else { before & !bit };
        *word != before
    }

    pub(super) fn nr_shadows(&self) -> u32 {
        u32::from(self.nr_shadows)
    }

    pub(super) fn nr_swapped(&self) -> u32 {
        u32::from(self.nr_swapped)
    }

    /// Nothing is left in it.
    pub(super) fn is_empty(&self) -> bool {
        self.pages == 0 && self.nr_shadows == 0 && self.nr_swapped == 0
    }

    /// It holds shadows and nothing else. One without memory of its own does not count: its shadows
    /// are in the node above.
    pub(super) fn is_shadow_only(&self) -> bool {
        self.object != ObjectId::NONE
            && self.pages == 0
            && self.nr_shadows != 0
            && self.nr_swapped == 0
    }
}
