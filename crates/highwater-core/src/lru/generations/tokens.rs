//! Evictions and refaults (rules/mglru#refault).
//!
//! The shadow of an evicted page has the oldest generation at that time and the page's reads. A
//! refault counts for the tier of the page, if the eviction was recent. It does not make the page
//! active; but a page that many reads or a fault bring back has all marks, and so is protected
//! once.

use super::marks;
use crate::config::{ReadEntry, RecentRule};
use crate::host::{Cx, Devices, TaskFlags};
use crate::kernel::Kernel;
use crate::lru::{PageType, Shadow};
use crate::page::{Folio, Page, PageFlags};
use crate::units::GroupId;
use crate::vmstat::NodeStat;

/// Bits of the reads in a token.
const READS_BITS: u32 = 2;
const READS: u64 = (1 << READS_BITS) - 1;
/// Generations are compared modulo this plus one.
const SEQ_MASK: u64 = Shadow::CLOCK_MASK >> READS_BITS;
/// Marks that protect a page once.
const FULL: u32 = 3;

/// The generation and the reads in a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub seq: u64,
    /// One less than the reads; 0 for none.
    pub reads: u32,
}

impl Token {
    pub(super) fn new(seq: u64, reads: u32) -> Token {
        Token { seq: seq & SEQ_MASK, reads: reads.saturating_sub(1) }
    }

    /// The clock value of the shadow.
    pub(super) fn pack(self) -> u64 {
        self.seq << READS_BITS | u64::from(self.reads)
    }

    pub(super) fn unpack(clock: u64) -> Token {
        Token { seq: clock >> READS_BITS & SEQ_MASK, reads: (clock & READS) as u32 }
    }
}

impl<H: Devices> Kernel<H> {
    /// Counts the eviction of a page and returns its shadow.
    #[doc(alias = "lru_gen_eviction")]
    #[cold]
    #[inline(never)]
    pub(in crate::lru) fn generation_eviction(&self, (folio, page): (Folio, &Page)) -> Shadow {
        let vec = self.lruvec_of(page);
        let Some(gens) = self.generations(vec) else { return Shadow::new(0, vec, false) };
        let (rule, flags, page_type) =
            (self.mglru_policy().first_use, page.flags(), PageType::of(page));
        let reads = marks::reads(rule, flags);
        gens.feedback.evicted(page_type, marks::tier(rule, flags), folio.nr_pages());
        let token = Token::new(gens.window(page_type).min, reads);
        let named = match self.mem.groups.is_on() {
            true => {
                let id = GroupId(self.memcg.id(self.lru.group_of(vec)));
                self.lru.id_of_group(id, page.node())
            }
            false => vec,
        };
        let is_workingset = match self.mglru_policy().recent {
            RecentRule::FourGenerations => flags.contains(PageFlags::WORKINGSET),
            _ => reads != 0,
        };
        Shadow::new(token.pack(), named, is_workingset)
    }

    /// A page came back over its shadow.
    #[doc(alias = "lru_gen_refault")]
    #[cold]
    #[inline(never)]
    pub(in crate::lru) fn generation_refault(&self, cx: &Cx<'_, H>, folio: Folio, shadow: Shadow) {
        let page = self.mem.map.page(folio);
        let vec = self.lruvec_of(page);
        // Another reader's group, or a dead one's, learns nothing.
        if self.lists_of_shadow(shadow) != Some(vec) {
            return;
        }
        let Some(gens) = self.generations(vec) else { return };
        let (policy, page_type) = (self.mglru_policy(), PageType::of(page));
        let token = Token::unpack(shadow.clock());
        let window = gens.window(page_type);
        let is_recent = is_recent(policy.recent, token.seq, window.min, window.max);
        let pages = folio.nr_pages();
        let count = |item| self.count_workingset(cx, vec, (folio, page), item);
        if is_recent || policy.recent == RecentRule::OldestAndCount {
            count(NodeStat::WorkingsetRefaultAnon);
            self.note_refault(cx, page_type, pages);
        }
        if !is_recent {
            return;
        }
        let was_workingset = shadow.is_workingset();
        let in_fault = cx.flags() & (TaskFlags::LRU_FAULT | TaskFlags::MEMALLOC);
        let in_fault = in_fault == TaskFlags::LRU_FAULT;
        if policy.recent == RecentRule::FourGenerations {
            let reads = if token.reads != 0 { token.reads + 1 } else { 0 };
            let tier = marks::tier_of_reads(policy.first_use, reads, was_workingset);
            gens.feedback.refaulted(page_type, tier, pages);
            if was_workingset {
                page.flag_set::<H>(PageFlags::WORKINGSET);
                count(NodeStat::WorkingsetRestoreAnon);
                if in_fault {
                    count(NodeStat::WorkingsetActivateAnon);
                }
            } else {
                page.flag_replace::<H>(PageFlags::MARKS, marks::with_field(token.reads));
            }
            return;
        }
        let reads = token.reads + u32::from(was_workingset);
        let tier = marks::tier_of_reads(policy.first_use, reads, was_workingset);
        gens.feedback.refaulted(page_type, tier, pages);
        if policy.recent == RecentRule::OldestAndCount {
            count(NodeStat::WorkingsetActivateAnon);
        }
        // A page that programs wait for, or read again and again.
        let is_first_release = policy.read_entry == ReadEntry::Oldest;
        let least = if is_first_release { FULL + 1 } else { FULL };
        if in_fault || reads >= least {
            let more = if is_first_release { 0 } else { FULL };
            page.flag_replace::<H>(
                PageFlags::empty(),
                PageFlags::WORKINGSET | marks::with_field(more),
            );
            count(NodeStat::WorkingsetRestoreAnon);
        }
    }
}

/// An eviction when `seq` was the oldest generation is recent.
#[doc(alias = "lru_gen_test_recent")]
pub(super) fn is_recent(rule: RecentRule, seq: u64, min: u64, max: u64) -> bool {
    match rule {
        RecentRule::OldestGeneration | RecentRule::OldestAndCount => seq == min & SEQ_MASK,
        RecentRule::FourGenerations => (max & SEQ_MASK).abs_diff(seq) < super::GENERATIONS as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens (rules/mglru#refault, vector 10).
    #[test]
    fn tokens_tell_generation_and_reads() {
        let token = Token::new(5, 3);
        assert_eq!(token.pack(), 22);
        assert_eq!(Token::unpack(22), token);
        assert_eq!(Token::new(5, 0).pack(), 20);
        assert_eq!(Token::new(5, 4).pack(), 23);
        assert!(is_recent(RecentRule::OldestGeneration, 5, 5, 7));
        assert!(!is_recent(RecentRule::OldestGeneration, 5, 6, 7));
        assert!(is_recent(RecentRule::FourGenerations, 5, 8, 8));
        assert!(!is_recent(RecentRule::FourGenerations, 5, 8, 9));
    }
}
