//! Packing of fields into words, for digests.

use core::array::IntoIter;
use core::iter::Take;

use super::{TraceField, Tracepoint};

/// Bits of a [`tag`].
const TAG_BITS: u32 = 24;

/// What stands for a tracepoint in words: a hash of its name (FNV-1a, folded). By name and not by
/// index, so that a new tracepoint leaves the digests of runs that do not pass it as they were.
const fn tag(name: &str) -> u32 {
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    while at < name.len() {
        hash = (hash ^ name.as_bytes()[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash >> TAG_BITS) ^ (hash & ((1 << TAG_BITS) - 1))
}

/// True if no two tracepoints have the same tag.
pub(super) const fn tags_differ(tracepoints: &[Tracepoint]) -> bool {
    let mut at = 0;
    while at < tracepoints.len() {
        let mut before = 0;
        while before < at {
            if tag(tracepoints[before].name) == tag(tracepoints[at].name) {
                return false;
            }
            before += 1;
        }
        at += 1;
    }
    true
}

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
        let (mut end, mut nr) = ((0, TAG_BITS), 0);
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

/// An event's tag and the fields packed so far, in at most `N` words.
pub(super) struct Words<const N: usize> {
    words: [u64; N],
    /// Word and bit behind the last field.
    end: (usize, u32),
}

impl<const N: usize> Words<N> {
    /// Those of an event of the tracepoint `name`.
    #[inline(always)]
    pub(super) const fn of(name: &str) -> Self {
        let mut words = [0; N];
        words[0] = tag(name) as u64;
        Words { words, end: (0, TAG_BITS) }
    }

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
        let mut words = Words::<4>::of("mm_page_free");
        words.push(2u32);
        words.push(3u8);
        words.push(true);
        words.push(u64::MAX);
        let packed: Vec<u64> = words.into_iter().collect();
        assert_eq!(packed, [3 << 56 | 2 << 24 | u64::from(tag("mm_page_free")), 1, u64::MAX]);
    }

    #[test]
    fn tags_are_of_names() {
        // Pins the function: recorded digests must stay valid across versions.
        assert_eq!([tag("mm_page_free"), tag("")], [0xcfa09c, 0x1c9d44]);
        assert!(tag("mm_vmscan_throttled") < 1 << TAG_BITS);
    }
}
