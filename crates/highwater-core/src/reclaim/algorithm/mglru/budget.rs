//! How much to scan, and when to age (rules/mglru#aging, rules/mglru#budget).

use super::At;
use crate::config::AgingRule;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::PageType;
use crate::memcg::GroupLife;
use crate::reclaim::Control;
use crate::reclaim::budget::DEF_PRIORITY;

/// Pages by generation, of the types that can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The oldest generation that counts, and the youngest.
    pub min: u64,
    pub max: u64,
    /// Pages of the youngest, of the third youngest, and of all.
    pub young: u64,
    pub old: u64,
    pub total: u64,
}

impl Spread {
    /// Two generations are left: nothing can be evicted.
    pub(super) fn is_short(&self) -> bool {
        self.min + 2 > self.max
    }

    /// True if a new generation is needed.
    #[doc(alias = "should_run_aging")]
    pub(super) fn needs_aging(&self, rule: AgingRule) -> bool {
        if self.min + 2 != self.max {
            return self.is_short();
        }
        // Three are left: the youngest is more than half of all, or the oldest less than a quarter.
        rule == AgingRule::Count || 2 * self.young > self.total || 4 * self.old < self.total
    }
}

impl<H: Devices> Kernel<H> {
    pub(super) fn spread(&self, at: At, with_anon: bool) -> Option<Spread> {
        let gens = self.generations(at.1)?;
        let max = gens.max();
        let types: &[PageType] =
            if with_anon { &[PageType::Anon, PageType::File] } else { &[PageType::File] };
        let mut spread = Spread {
            // Anonymous memory is never ahead of page cache (up to 6.12).
            min: types.iter().map(|&t| gens.window(t).min).min()?,
            max,
            young: 0,
            old: 0,
            total: 0,
        };
        for &page_type in types {
            for seq in gens.window(page_type).min..=max {
                let pages = gens.size(seq, page_type);
                spread.total += pages;
                if seq == max {
                    spread.young += pages;
                } else if seq + 2 == max {
                    spread.old += pages;
                }
            }
        }
        Some(spread)
    }

    /// The share of all pages that a priority asks for; of a removed group, all.
    fn share(&self, at: At, sc: &mut Control, total: u64) -> u64 {
        if !self.mem.groups.is_on() {
            return total >> sc.priority;
        }
        let group = self.lru.group_of(at.1);
        if self.memcg.life(group) == GroupLife::Offline {
            return total;
        }
        match self.mglru_policy().shares_protection {
            true => self.unprotected_pages(group, sc, total) >> sc.priority,
            false => total >> sc.priority,
        }
    }

    /// The pages that a round may scan, and whether a generation is needed (6.1). Direct reclaim
    /// makes it if so.
    #[doc(alias = "get_nr_to_scan")]
    pub(super) fn budget_with_aging(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        swappiness: u64,
    ) -> (u64, bool) {
        let Some(spread) = self.spread(at, swappiness != 0) else { return (0, false) };
        let needs_aging = spread.needs_aging(AgingRule::Spread);
        let share = self.share(at, sc, spread.total);
        let if_left = if spread.is_short() { 0 } else { share };
        let priority = sc.priority;
        let pages = match priority {
            _ if !needs_aging => share,
            DEF_PRIORITY => if_left,
            // It ages between its passes.
            _ if sc.is_kswapd => 0,
            _ if self.try_age(cx, at, sc, spread.max, swappiness != 0) => share,
            _ => if_left,
        };
        (pages, needs_aging)
    }

    /// The same; none if a generation was made, which ends the pass (6.12).
    pub(super) fn budget_or_age(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        swappiness: u64,
    ) -> Option<u64> {
        let spread = self.spread(at, swappiness != 0)?;
        let total = if spread.is_short() { 0 } else { spread.total };
        if !spread.needs_aging(AgingRule::Spread) || sc.priority == DEF_PRIORITY {
            return Some(self.share(at, sc, total));
        }
        let has_aged = self.try_age(cx, at, sc, spread.max, swappiness != 0);
        if has_aged { None } else { Some(0) }
    }

    /// The need for a generation, and the pages of a pass (7.2).
    pub(super) fn budget_of_7_2(&self, at: At, sc: &mut Control, swappiness: u64) -> (bool, u64) {
        let Some(spread) = self.spread(at, swappiness != 0) else { return (false, 0) };
        let is_needed = spread.is_short()
            || sc.priority != DEF_PRIORITY && spread.needs_aging(AgingRule::Count);
        (is_needed, self.share(at, sc, spread.total))
    }

    /// Makes the generation that a pass of 7.2 needs.
    pub(super) fn age_in_loop(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        swappiness: u64,
    ) -> bool {
        let Some(gens) = self.generations(at.1) else { return false };
        self.try_age(cx, at, sc, gens.max(), swappiness != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(min: u64, max: u64, [old, mid, young]: [u64; 3]) -> Spread {
        Spread { min, max, young, old, total: old + mid + young }
    }

    /// When to age (rules/mglru#aging, vector 4).
    #[test]
    fn a_generation_is_made_when_the_old_run_out() {
        let need = |min, max, pages| spread(min, max, pages).needs_aging(AgingRule::Spread);
        assert!(need(2, 3, [0, 0, 0]));
        assert!(!need(1, 4, [0, 0, 0]));
        assert!(!need(1, 3, [4000, 0, 4000]));
        assert!(need(1, 3, [3999, 0, 4001]), "the young");
        assert!(need(1, 3, [1999, 5000, 1001]), "the old");
        assert!(!need(1, 3, [2000, 5000, 1000]));
        assert!(!need(1, 3, [0, 0, 0]));
        assert!(spread(1, 3, [4000, 0, 4000]).needs_aging(AgingRule::Count));
        assert!(!spread(1, 4, [0; 3]).needs_aging(AgingRule::Count));
    }
}
