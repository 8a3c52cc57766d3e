//! Packing of fields into words, for digests.

use core::array::IntoIter;
use core::iter::Take;

use super::{Field, TraceField, Tracepoint};

/// Bits of a [`tag`].
const TAG_BITS: u32 = 24;
/// Set in the tags of names, and above every number: the lowest byte of the first word
/// distinguishes the two kinds, whatever fields follow.
const NAMED: u32 = 0x80;

/// The number of a tracepoint in words: that of its `digest` clause, or else a hash of its name
/// (FNV-1a, folded). It uses the name and not the index, so a new tracepoint does not change the
/// digests of runs without it.
pub(super) const fn tag(name: &str, digest: &[u8]) -> u32 {
    if let [number] = *digest {
        assert!((number as u32) < NAMED, "the number of a digest clause is too large");
        return number as u32;
    }
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    while at < name.len() {
        hash = (hash ^ name.as_bytes()[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash >> TAG_BITS) ^ (hash & ((1 << TAG_BITS) - 1)) | NAMED
}

/// True if no two tracepoints have the same tag.
pub(super) const fn tags_differ(tracepoints: &[Tracepoint]) -> bool {
    let mut at = 0;
    while at < tracepoints.len() {
        let mut before = 0;
        while before < at {
            if tracepoints[before].tag == tracepoints[at].tag {
                return false;
            }
            before += 1;
        }
        at += 1;
    }
    true
}

/// Where a field of `bits` begins (word, bit), if the previous field ends at `end`: in the same
/// word if it fits, otherwise in the next.
const fn place(end: (usize, u32), bits: u32) -> (usize, u32) {
    let (word, used) = end;
    if used + bits > u64::BITS { (word + 1, 0) } else { (word, used) }
}

/// Words of an event whose fields are packed.
const fn packed(fields: &[Field]) -> usize {
    let (mut end, mut nr) = ((0, TAG_BITS), 0);
    while nr < fields.len() {
        let (word, bit) = place(end, fields[nr].bits);
        end = (word, bit + fields[nr].bits);
        nr += 1;
    }
    end.0 + 1
}

/// Words of an event that a `digest` clause describes.
const FOLDED: usize = 3;

/// Words that the longest event of some tracepoints takes.
pub(super) const fn words_max(tracepoints: &[Tracepoint]) -> usize {
    let (mut max, mut at) = (0, 0);
    while at < tracepoints.len() {
        let Tracepoint { tag, fields, .. } = tracepoints[at];
        let words = if tag < NAMED { FOLDED } else { packed(fields) };
        if words > max {
            max = words;
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
    /// Those of an event of the tracepoint with this tag, without fields.
    #[inline(always)]
    pub(super) const fn of(tag: u32) -> Self {
        let mut words = [0; N];
        words[0] = tag as u64;
        Words { words, end: (0, TAG_BITS) }
    }

    /// The words of an event whose `digest` clause gives the values: three words in the format of
    /// the first printed digests, which must never change.
    ///
    /// A change of a single field always changes the words, except for the highest 8 bits of
    /// `nr_reclaimed` in `mm_vmscan_direct_reclaim_end` and `mm_vmscan_node_reclaim_end`. The last
    /// values of `mm_vmscan_lru_shrink_inactive` and `mm_shrink_slab_start` overlay earlier ones,
    /// so changes of several may cancel out.
    #[inline(always)]
    pub(super) fn folded<const M: usize>(tag: u32, values: [u64; M]) -> Self {
        const { assert!(M <= 7, "a digest clause has at most seven values") };
        let mut all = [0; 7];
        all[..M].copy_from_slice(&values);
        let [a, b, c, d, e, f, g] = all;
        let mut words = Self::of(tag);
        words.words[0] |= a << 8;
        words.words[1] = b ^ c << 32;
        words.words[2] = d ^ e << 32 ^ f.rotate_left(16) ^ g.rotate_left(48);
        words.end = (FOLDED - 1, u64::BITS);
        words
    }

    /// Packs a field.
    #[allow(dead_code, reason = "every tracepoint may have a digest clause")]
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

    use proptest::prelude::*;

    use super::*;
    use crate::page::Pfn;
    use crate::units::{Gfp, LruKind};

    #[test]
    fn fields_share_a_word_while_they_fit() {
        let mut words = Words::<4>::of(0xcfa09c);
        words.push(2u32);
        words.push(3u8);
        words.push(true);
        words.push(u64::MAX);
        let packed: Vec<u64> = words.into_iter().collect();
        assert_eq!(packed, [3 << 56 | 2 << 24 | 0xcfa09c, 1, u64::MAX]);
    }

    #[test]
    fn tags_are_of_names_or_numbers() {
        // Pins the function: recorded digests must stay valid across versions.
        assert_eq!([tag("mm_page_free", &[]), tag("", &[])], [0xcfa09c, 0x1c9dc4]);
        assert!(tag("mm_vmscan_throttled", &[]) < 1 << TAG_BITS);
        assert_eq!(tag("mm_vmscan_throttled", &[27]), 27);
    }

    #[test]
    fn tags_of_both_kinds_have_to_differ() {
        let tracepoint = |tag| Tracepoint { tag, ..crate::trace::TRACEPOINTS[0] };
        let [free, page, number] = [tag("free", &[]), tag("page", &[]), tag("free", &[7])];
        assert!(tags_differ(&[free, page, number].map(tracepoint)));
        assert!(!tags_differ(&[free, number, free].map(tracepoint)));
        assert!(!tags_differ(&[free, number, tag("page", &[7])].map(tracepoint)));
    }

    proptest! {
        /// Equal fields have equal words, others have not, whatever types share a word.
        #[test]
        fn packed_fields_are_told_apart(
            draws in prop::array::uniform2(any::<[u64; 7]>()),
            same: u8,
        ) {
            fn field<F: TraceField>(words: &mut Words<7>, draw: u64) -> u64 {
                let field = F::example(draw);
                words.push(field);
                field.word()
            }
            let [a, b] = [0, 1].map(|which| {
                let draw = |at: usize| draws[if same >> at & 1 != 0 { 0 } else { which }][at];
                let mut words = Words::of(NAMED);
                let fields = [
                    field::<u16>(&mut words, draw(0)),
                    field::<bool>(&mut words, draw(1)),
                    field::<Option<Pfn>>(&mut words, draw(2)),
                    field::<Gfp>(&mut words, draw(3)),
                    field::<LruKind>(&mut words, draw(4)),
                    field::<Pfn>(&mut words, draw(5)),
                    field::<u64>(&mut words, draw(6)),
                ];
                (fields, words.into_iter().collect::<Vec<_>>())
            });
            prop_assert_eq!(a.0 == b.0, a.1 == b.1);
        }
    }
}
