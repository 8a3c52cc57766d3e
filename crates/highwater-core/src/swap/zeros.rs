//! Slots that stand for pages of zeros (rules/swap#zero-pages).
//!
//! From 6.12 on such a page is neither written nor read: a bit says that its slot holds zeros. The
//! bit of a slot counts from one write of the slot to the next, so freeing a slot leaves it alone.
//!
//! From: [`super::io`].

use alloc::vec::Vec;

/// A bit for each slot of an area, up to the last one that was ever set.
#[derive(Debug, Default)]
pub(crate) struct ZeroMap {
    words: Vec<u64>,
}

impl ZeroMap {
    /// A slot was written, with zeros or not.
    pub(super) fn set(&mut self, offset: u32, is_zero: bool) {
        let (word, bit) = place(offset);
        if is_zero && self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        match (self.words.get_mut(word), is_zero) {
            (Some(bits), true) => *bits |= bit,
            (Some(bits), false) => *bits &= !bit,
            (None, _) => {}
        }
    }

    /// True if a slot was last written with zeros.
    pub(super) fn get(&self, offset: u32) -> bool {
        let (word, bit) = place(offset);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

/// The word and the bit of a slot.
const fn place(offset: u32) -> (usize, u64) {
    ((offset / u64::BITS) as usize, 1 << (offset % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_lasts_until_the_next_write() {
        let mut zeros = ZeroMap::default();
        zeros.set(700, false);
        assert!(!zeros.get(700) && zeros.words.is_empty(), "most areas hold none");
        [1, 63, 64, 700].iter().for_each(|&offset| zeros.set(offset, true));
        zeros.set(64, false);
        let held: Vec<u32> = (0..1000).filter(|&offset| zeros.get(offset)).collect();
        assert_eq!(held, [1, 63, 700]);
    }
}
