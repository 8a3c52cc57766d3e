//! Packing of fields into words, for digests.

use core::array::IntoIter;
use core::iter::Take;

use super::{TraceField, Tracepoint};

/// Where a field of `bits` begins (word, bit), if what was packed before it ends at `end`: in the
/// same word if it fits, else in the next.
const fn place(end: (usize, u32), bits: u32) -> (usize, u32) {
    let (word, used) = end;
    if used + bits > u64::BITS { (word + 1, 0) } else { (word, used) }
}

/// Words that the longest event of some tracepoints takes.
pub(super) const fn words_max(tracepoints: &[Tracepoint]) -> usize {
    let (mut max, mut at) = (0, 0);
    while at < tracepoints.len() {
        let fields = tracepoints[at].fields;
        // The kind is first.
        let (mut end, mut nr) = ((0, u8::BITS), 0);
        while nr < fields.len() {
            let (word, bit) = place(end, fields[nr].bits);
            end = (word, bit + fields[nr].bits);
            nr += 1;
        }
        if end.0 + 1 > max {
            max = end.0 + 1;
        }
        at += 1;
    }
    max
}

/// Fields packed so far into at most `N` words.
pub(super) struct Words<const N: usize> {
    words: [u64; N],
    /// Word and bit behind the last field.
    end: (usize, u32),
}

impl<const N: usize> Default for Words<N> {
    #[inline(always)]
    fn default() -> Self {
        Words { words: [0; N], end: (0, 0) }
    }
}

impl<const N: usize> Words<N> {
    /// Packs a field.
    #[inline(always)]
    pub(super) fn push<F: TraceField>(&mut self, field: F) {
        let (word, bit) = place(self.end, F::BITS);
        self.words[word] |= field.word() << bit;
        self.end = (word, bit + F::BITS);
    }
}

impl<const N: usize> IntoIterator for Words<N> {
    type Item = u64;
    type IntoIter = Take<IntoIter<u64, N>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.words.into_iter().take(self.end.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn fields_share_a_word_while_they_fit() {
        let mut words = Words::<3>::default();
        words.push(1u8);
        words.push(2u32);
        words.push(3u16);
        words.push(true);
        words.push(u64::MAX);
        let packed: Vec<u64> = words.into_iter().collect();
        assert_eq!(packed, [1 << 56 | 3 << 40 | 2 << 8 | 1, u64::MAX]);
    }
}
