//! Marks: how often a page was read, in a few bits (rules/mglru#marks).
//!
//! Reads by descriptor leave no young bit, so each sets a mark. Marks decide the tier of a page;
//! uses through page tables move it to another generation instead.

use super::NR_TIERS;
use crate::config::FirstUse;
use crate::page::PageFlags;

const MARK: u32 = PageFlags::MARKS.bits() & PageFlags::MARKS.bits().wrapping_neg();
const MARKS_MAX: u32 = PageFlags::MARKS.bits() / MARK;

/// The marks of a page that count for nothing else.
pub(crate) const ALL_MARKS: PageFlags =
    PageFlags::MARKS.union(PageFlags::REFERENCED).union(PageFlags::WORKINGSET);

/// The number in the field.
const fn field(flags: PageFlags) -> u32 {
    (flags.bits() & PageFlags::MARKS.bits()) / MARK
}

/// The field with a number.
pub(super) const fn with_field(marks: u32) -> PageFlags {
    PageFlags::from_bits_retain(marks * MARK)
}

/// The flags of a page after one more mark.
pub(crate) fn marked(rule: FirstUse, flags: PageFlags) -> PageFlags {
    let one_more = |flags: PageFlags| PageFlags::from_bits_retain(flags.bits() + MARK);
    let is_full = field(flags) == MARKS_MAX;
    if !flags.contains(PageFlags::REFERENCED) {
        // [7.2] A refault restores steps without the first mark, which clears them again.
        let old = if rule == FirstUse::Marks { PageFlags::MARKS } else { PageFlags::empty() };
        return (flags - old) | PageFlags::REFERENCED;
    }
    match rule {
        FirstUse::Promotes if !flags.contains(PageFlags::WORKINGSET) => {
            flags | PageFlags::WORKINGSET
        }
        FirstUse::Marks if is_full => flags | PageFlags::WORKINGSET,
        _ if is_full => flags,
        _ => one_more(flags),
    }
}

/// The flags of a page that was found in use when it was judged (7.2).
pub(crate) fn set_refs(flags: PageFlags) -> PageFlags {
    match reads(FirstUse::Marks, flags) {
        0 | 1 => marked(FirstUse::Marks, flags),
        _ => (flags - ALL_MARKS) | PageFlags::WORKINGSET,
    }
}

/// The number of reads by a page's marks: 0 to 4.
#[doc(alias = "folio_lru_refs")]
pub(super) fn reads(rule: FirstUse, flags: PageFlags) -> u32 {
    match rule {
        FirstUse::Promotes => field(flags) + u32::from(flags.contains(PageFlags::WORKINGSET)),
        FirstUse::Marks if flags.contains(PageFlags::REFERENCED) => field(flags) + 1,
        FirstUse::Marks => 0,
    }
}

/// All marks are set: the page goes on to the next generation whatever refaults say.
pub(super) fn is_saturated(flags: PageFlags) -> bool {
    field(flags) == MARKS_MAX && flags.contains(PageFlags::WORKINGSET)
}

/// The tier of a page with these marks.
#[doc(alias = "lru_tier_from_refs")]
pub(super) fn tier(rule: FirstUse, flags: PageFlags) -> usize {
    match rule {
        FirstUse::Marks if flags.contains(PageFlags::WORKINGSET) => NR_TIERS - 1,
        FirstUse::Marks => log2_up(reads(rule, flags)),
        FirstUse::Promotes => log2_up(reads(rule, flags) + 1),
    }
}

/// The tier of a refault by the reads in its shadow.
pub(super) fn tier_of_reads(rule: FirstUse, reads: u32, was_workingset: bool) -> usize {
    match rule {
        FirstUse::Marks if was_workingset => NR_TIERS - 1,
        FirstUse::Marks => log2_up(reads),
        FirstUse::Promotes => log2_up(reads + 1),
    }
}

/// The logarithm to base 2, rounded up; 0 of 0 and 1.
fn log2_up(n: u32) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiers by the number of marks (rules/mglru#tiers, vector 1).
    #[test]
    fn tiers_by_marks() {
        for rule in [FirstUse::Promotes, FirstUse::Marks] {
            let mut flags = PageFlags::UPTODATE;
            let mut tiers = [0; 10];
            for tier_of in &mut tiers {
                *tier_of = tier(rule, flags);
                flags = marked(rule, flags);
            }
            let numbers = [0, 1, 2, 3, 4, 5, 9].map(|marks| tiers[marks]);
            assert_eq!(numbers, [0, 0, 1, 2, 2, 3, 3], "{rule:?}");
        }
        let of_reads = [0, 1, 2, 3, 4].map(|n| tier_of_reads(FirstUse::Promotes, n, false));
        assert_eq!(of_reads, [0, 1, 2, 2, 3]);
    }

    #[test]
    fn marks_fill_from_one_flag_to_the_next() {
        let mut flags = PageFlags::empty();
        let mut seen = [(false, false, 0); 7];
        for state in &mut seen {
            let has = |flag| flags.contains(flag);
            *state = (has(PageFlags::REFERENCED), has(PageFlags::WORKINGSET), field(flags));
            flags = marked(FirstUse::Promotes, flags);
        }
        let (no, yes) = (false, true);
        let first = [(no, no, 0), (yes, no, 0), (yes, yes, 0), (yes, yes, 1), (yes, yes, 2)];
        assert_eq!(seen[..5], first);
        assert_eq!(seen[5..], [(yes, yes, 3); 2]);
        assert!(is_saturated(flags) && reads(FirstUse::Promotes, flags) == 4);
    }
}
