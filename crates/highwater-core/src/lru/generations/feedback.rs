//! Feedback of refaults on types and tiers (rules/mglru#type, rules/mglru#tiers).
//!
//! Pages of each tier are evicted and some of them come back. A type or a tier whose pages come
//! back more often than another's is left alone. Counts are of the present oldest generation; when
//! that changes, half of them goes into an average.

use super::{NR_TIERS, SCAN_BATCH};
use crate::config::TypeChoice;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::units::PageType;

/// Counters by type and tier.
type Counts = [[AtomicU64; NR_TIERS]; 2];

/// The counts of one set of lists.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    avg_refaulted: Counts,
    avg_total: Counts,
    /// Pages of the oldest generation that were evicted.
    evicted: Counts,
    /// Pages of it that came back since.
    refaulted: Counts,
    /// Pages of it that moved on to the next generation instead.
    protected: Counts,
}

/// One side of a comparison (a position of the controller).
#[doc(alias = "ctrl_pos")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub refaulted: u64,
    pub total: u64,
    pub gain: u64,
}

/// True if the pages of `pv` come back so seldom that they are evicted rather than those of `sp`. A
/// tier with fewer refaults than a batch has pages is never protected.
#[doc(alias = "positive_ctrl_err")]
pub(super) fn prefer(pv: Position, sp: Position) -> bool {
    let left = u128::from(pv.refaulted) * u128::from(sp.total + SCAN_BATCH);
    let right = u128::from(sp.refaulted + 1) * u128::from(pv.total);
    pv.refaulted < SCAN_BATCH || left * u128::from(sp.gain) <= right * u128::from(pv.gain)
}

fn add(counts: &Counts, page_type: PageType, tier: usize, pages: u64) {
    counts[page_type as usize][tier].fetch_add(pages, Relaxed);
}

impl Feedback {
    pub(super) fn evicted(&self, page_type: PageType, tier: usize, pages: u64) {
        add(&self.evicted, page_type, tier, pages);
    }

    pub(super) fn refaulted(&self, page_type: PageType, tier: usize, pages: u64) {
        add(&self.refaulted, page_type, tier, pages);
    }

    pub(super) fn protected(&self, page_type: PageType, tier: usize, pages: u64) {
        add(&self.protected, page_type, tier, pages);
    }

    /// The state of a tier.
    #[doc(alias = "read_ctrl_pos")]
    fn position(&self, page_type: PageType, tier: usize, gain: u64) -> Position {
        let of = |counts: &Counts| counts[page_type as usize][tier].load(Relaxed);
        Position {
            refaulted: of(&self.avg_refaulted) + of(&self.refaulted),
            total: of(&self.avg_total) + of(&self.evicted) + of(&self.protected),
            gain,
        }
    }

    /// The state of all tiers of a type.
    fn sum(&self, page_type: PageType, gain: u64) -> Position {
        (0..NR_TIERS).fold(Position { refaulted: 0, total: 0, gain }, |sum, tier| {
            let more = self.position(page_type, tier, gain);
            Position {
                refaulted: sum.refaulted + more.refaulted,
                total: sum.total + more.total,
                gain,
            }
        })
    }

    /// The type whose pages are evicted when neither has an older generation.
    #[doc(alias = "get_type_to_scan")]
    pub(crate) fn choose(&self, rule: TypeChoice, swappiness: u64) -> PageType {
        let gains = [swappiness, 200_u64.saturating_sub(swappiness)];
        let [anon, file] = match rule {
            TypeChoice::OlderFirst => PageType::ALL.map(|t| self.position(t, 0, gains[t as usize])),
            TypeChoice::Refaults => PageType::ALL.map(|t| self.sum(t, gains[t as usize])),
        };
        if prefer(file, anon) { PageType::File } else { PageType::Anon }
    }

    /// The highest tier that may be evicted: those above come back more often than `than`.
    #[doc(alias = "get_tier_idx")]
    pub(super) fn limit(&self, page_type: PageType, than: Position, gain: u64) -> usize {
        let is_spared = |&tier: &usize| !prefer(self.position(page_type, tier, gain), than);
        (1..NR_TIERS).find(is_spared).unwrap_or(NR_TIERS) - 1
    }

    /// The same, compared with the pages of the other type that have no marks, by swappiness (when
    /// refaults chose the type, up to 6.12).
    pub(crate) fn limit_by_types(&self, page_type: PageType, swappiness: u64) -> usize {
        let (other, gains) = match page_type {
            PageType::File => (PageType::Anon, [swappiness, 200 - swappiness.min(200)]),
            PageType::Anon => (PageType::File, [200 - swappiness.min(200), swappiness]),
        };
        self.limit(page_type, self.position(other, 0, gains[0]), gains[1])
    }

    /// The same, compared with the pages of the type that have no marks.
    pub(crate) fn limit_by_tiers(&self, rule: TypeChoice, page_type: PageType) -> usize {
        let (base, tiers) = match rule {
            TypeChoice::OlderFirst => (1, 2),
            TypeChoice::Refaults => (2, 3),
        };
        self.limit(page_type, self.position(page_type, 0, base), tiers)
    }

    /// The oldest generation of a type has changed: half of the old average and of the counts is
    /// the new average.
    #[doc(alias = "reset_ctrl_pos")]
    pub(super) fn smooth(&self, page_type: PageType) {
        let of = |counts: &'_ Counts, tier: usize| counts[page_type as usize][tier].load(Relaxed);
        let set = |counts: &Counts, tier: usize, value| {
            counts[page_type as usize][tier].store(value, Relaxed);
        };
        for tier in 0..NR_TIERS {
            let refaulted = of(&self.avg_refaulted, tier) + of(&self.refaulted, tier);
            let total = of(&self.evicted, tier) + of(&self.protected, tier);
            set(&self.avg_refaulted, tier, refaulted / 2);
            set(&self.avg_total, tier, (of(&self.avg_total, tier) + total) / 2);
            for counts in [&self.evicted, &self.refaulted, &self.protected] {
                set(counts, tier, 0);
            }
        }
    }

    /// Nothing is known any more.
    pub(super) fn reset(&self) {
        let all =
            [&self.avg_refaulted, &self.avg_total, &self.evicted, &self.refaulted, &self.protected];
        all.into_iter().flatten().flatten().for_each(|count| count.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at((refaulted, total, gain): (u64, u64, u64)) -> Position {
        Position { refaulted, total, gain }
    }

    /// Comparisons (rules/mglru#type, vector 7).
    #[test]
    fn pages_that_come_back_less_are_preferred() {
        let anon = at((0, 0, 60));
        assert!(prefer(at((63, 1000, 140)), anon));
        assert!(!prefer(at((64, 1000, 140)), anon));
        assert!(prefer(at((64, 2000, 140)), anon));
        let pv = at((500, 5000, 140));
        assert!(!prefer(pv, at((10, 1000, 60))));
        assert!(prefer(pv, at((100, 1000, 60))));
    }

    /// Limits of tiers (rules/mglru#tiers, vector 8).
    #[test]
    fn tiers_that_come_back_more_are_protected() {
        let file = PageType::File;
        let with = |base: (u64, u64), tier1: (u64, u64)| {
            let feedback = Feedback::default();
            for (tier, (refaulted, evicted)) in [base, tier1].into_iter().enumerate() {
                feedback.refaulted(file, tier, refaulted);
                feedback.evicted(file, tier, evicted);
            }
            feedback
        };
        let limit = |base, tier1, rule| with(base, tier1).limit_by_tiers(rule, file);
        let (older, sums) = (TypeChoice::OlderFirst, TypeChoice::Refaults);
        assert_eq!(limit((100, 10_000), (200, 5000), older), 0);
        assert_eq!(limit((100, 10_000), (200, 10_000), older), 3);
        assert_eq!(limit((100, 10_000), (200, 10_000), sums), 0);
        assert_eq!(limit((0, 4000), (64, 300), older), 0);
        assert_eq!(limit((0, 4000), (63, 300), older), 3);
    }

    /// A change of the oldest generation (rules/mglru#tiers, vector 9).
    #[test]
    fn half_of_the_past_is_kept() {
        let feedback = Feedback::default();
        let file = PageType::File;
        feedback.avg_refaulted[1][1].store(100, Relaxed);
        feedback.avg_total[1][1].store(1000, Relaxed);
        feedback.refaulted(file, 1, 60);
        feedback.evicted(file, 1, 500);
        feedback.protected(file, 1, 41);
        feedback.smooth(file);
        let Position { refaulted, total, .. } = feedback.position(file, 1, 1);
        assert_eq!((refaulted, total), (80, 770));
        assert_eq!(feedback.evicted[1][1].load(Relaxed), 0);
    }
}
