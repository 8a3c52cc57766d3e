//! How many pages of each list to scan (rules/scan-budget#targets): pure arithmetic.
//!
//! There is no target number of pages. A priority is a share of the list, a weight a share of that,
//! and a harder pass follows one that got too little. So the same formulas fit machines of any
//! size, and wrong weights cost a pass, not a failure.
//!
//! Key types: [`Mode`] (how the lists share the work), [`ScanPlan`] (the rest of the work while a
//! lruvec is shrunk). Lists are in the order of [`crate::lru::LruKind`]: inactive anon, active
//! anon, inactive file, active file.
//!
//! From: [`super::algorithm`] · to: nothing.

use crate::config::Proportional;
use crate::lru::PageType;
use crate::lru::balance::Weights;
use crate::memcg::protection::scan_of_offline;
use crate::units::SWAP_CLUSTER_MAX;

/// Priority of the first pass (`DEF_PRIORITY`).
pub const DEF_PRIORITY: u8 = 12;
/// Pages in a GiB, as a shift.
const GIB_SHIFT: u32 = 18;

/// Pages of each list.
pub type Lists = [u64; 4];

/// How many active pages there should be for each inactive one (rules/lru#inactive-ratio).
///
/// The square root: with a hundred times the memory, ten times the inactive pages. They need be enough for a
/// page to be used again on its way to the tail, which does not take longer because the machine is larger;
/// the rest had better be protected.
pub const fn inactive_ratio(inactive: u64, active: u64) -> u64 {
    match (inactive + active) >> GIB_SHIFT {
        0 => 1,
        gib => (10 * gib).isqrt(),
    }
}

/// Reports whether the inactive list is too short for its active list.
///
/// Linux: same name.
#[doc(alias = "inactive_list_is_low")]
pub const fn inactive_is_low(inactive: u64, active: u64) -> bool {
    inactive * inactive_ratio(inactive, active) < active
}

/// How the lists share the work (rules/scan-budget#mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every list by its size.
    Equal,
    /// Anonymous lists only.
    Anon,
    /// File lists only.
    File,
    /// By weights.
    Fract(Weights),
}

/// The inputs of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeInput {
    /// Swapping is allowed and there is a free slot.
    pub can_swap: bool,
    /// Of the pass.
    pub priority: u8,
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// Hardly any file pages are left, and anonymous ones are worth it.
    pub file_is_tiny: bool,
    /// Many inactive file pages, none of which come back.
    pub cache_trim_mode: bool,
}

/// Decides how a pass divides its scan among the LRU lists, by `weights` if nothing else does. It
/// first checks what is impossible, then what is desperate, then what is clear. Weights are
/// estimates, and are used only if none of these applies.
///
/// Linux: here the first half of the function, which chooses between EQUAL, FRACT, ANON and FILE.
///
/// At priority 0 weights do not count, because a kill is next. Swappiness 0 counts even then,
/// unless almost no cache is left.
#[doc(alias = "get_scan_count")]
pub const fn mode(input: ModeInput, weights: Weights) -> Mode {
    if !input.can_swap {
        Mode::File
    } else if input.priority == 0 && input.swappiness != 0 {
        Mode::Equal
    } else if input.file_is_tiny {
        Mode::Anon
    } else if input.cache_trim_mode {
        Mode::File
    } else {
        Mode::Fract(weights)
    }
}

/// Computes the pages to scan of each list (rules/scan-budget#targets). `sizes` count the zones
/// that may be reclaimed from.
///
/// Linux: here the second half of the function, which turns the choice into numbers.
///
/// There is no minimum, so a list shorter than 2^priority pages gets nothing at that priority. It need not:
/// the longer ones get theirs, and if all are short the priority falls quickly.
#[doc(alias = "get_scan_count")]
pub fn targets(sizes: Lists, priority: u8, mode: Mode) -> Lists {
    let scans = sizes.map(|size| size >> priority);
    shares(scans, mode, |weighted, over| weighted / over)
}

/// Targets of the lists of a memory cgroup that was removed. Nobody needs its pages, so each list
/// gives up to a batch however gentle the pass, and shares are rounded up. `seen`: sizes as
/// protection leaves them.
pub fn targets_of_offline(sizes: Lists, seen: Lists, priority: u8, mode: Mode) -> Lists {
    let scans = core::array::from_fn(|list| scan_of_offline(sizes[list], seen[list], priority));
    shares(scans, mode, u128::div_ceil)
}

/// The part of each list's scan that a mode leaves; `divide` rounds.
#[inline(always)]
fn shares(scans: Lists, mode: Mode, divide: impl Fn(u128, u128) -> u128) -> Lists {
    let share = |list: usize| {
        let scan = scans[list];
        let is_anon = list < 2;
        match mode {
            Mode::Equal => scan,
            Mode::Anon if is_anon => scan,
            Mode::File if !is_anon => scan,
            Mode::Anon | Mode::File => 0,
            Mode::Fract(Weights { anon, file, over }) => {
                let weight = if is_anon { anon } else { file };
                divide(u128::from(scan) * u128::from(weight), u128::from(over.max(1))) as u64
            }
        }
    };
    core::array::from_fn(share)
}

/// Pages left to scan while a lruvec is shrunk (rules/scan-budget#scan-loop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    targets: Lists,
    left: Lists,
    /// The target does not end the scan.
    full: bool,
    rule: Proportional,
}

impl ScanPlan {
    /// A plan to scan `targets`; `full` = all of them, however much was reclaimed.
    pub const fn new(targets: Lists, full: bool, rule: Proportional) -> Self {
        ScanPlan { targets, left: targets, full, rule }
    }

    /// True while there is something to do: active anonymous pages alone do not count. To take those down
    /// frees nothing, and they are aged after the scan anyway.
    #[inline]
    pub const fn goes_on(&self) -> bool {
        self.left[0] | self.left[2] | self.left[3] != 0
    }

    /// Takes the next bite of a list; 0 if its share is used up.
    #[inline]
    pub fn bite(&mut self, list: usize) -> u64 {
        let bite = self.left[list].min(SWAP_CLUSTER_MAX);
        self.left[list] -= bite;
        bite
    }

    /// After a round of bites: `got` pages were reclaimed so far of `wanted`. Past the target the
    /// side with less left is dropped and the other one cut to the same share; false ends the scan.
    ///
    /// Bites are of one size and targets are not, so the side with the smaller target is nearly through when
    /// the target is reached. To stop there would scan both sides alike, whatever their weights: the cut
    /// lets the larger one catch up (rules/scan-budget#proportional).
    pub fn round_done(&mut self, got: u64, wanted: u64) -> bool {
        if got < wanted || self.full {
            return true;
        }
        let [anon, file] = [self.left[0] + self.left[1], self.left[2] + self.left[3]];
        if anon == 0 || file == 0 {
            return false;
        }
        let (small, left, big) = if file > anon {
            (PageType::Anon as usize * 2, anon, PageType::File as usize * 2)
        } else {
            (PageType::File as usize * 2, file, PageType::Anon as usize * 2)
        };
        let percent = 100 * left / (self.targets[small] + self.targets[small + 1] + 1);
        self.left[small] = 0;
        self.left[small + 1] = 0;
        for list in [big, big + 1] {
            let done = self.targets[list] - self.left[list];
            let share = self.targets[list] * (100 - percent) / 100;
            self.left[list] = share.saturating_sub(done);
        }
        self.full = self.rule == Proportional::ScanOut;
        true
    }

    /// The rest, by list.
    pub const fn left(&self) -> Lists {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists of the examples in rules/scan-budget#fract.
    const S: Lists = [400_000, 1_200_000, 600_000, 1_800_000];

    const INPUT: ModeInput = ModeInput {
        can_swap: true,
        priority: 12,
        swappiness: 60,
        file_is_tiny: false,
        cache_trim_mode: false,
    };

    #[test]
    fn inactive_ratio_by_size() {
        let table = [
            (100_000, 150_000, 1, true),
            (65_536, 196_608, 3, false),
            (60_000, 202_144, 3, true),
            (238_313, 2_383_127, 10, false),
            (238_312, 2_383_128, 10, true),
            (500_000, 25_714_400, 31, true),
        ];
        for (inactive, active, ratio, low) in table {
            assert_eq!(inactive_ratio(inactive, active), ratio, "{inactive} {active}");
            assert_eq!(inactive_is_low(inactive, active), low, "{inactive} {active}");
        }
    }

    /// Swappiness 60, no costs.
    const EVEN: Weights = Weights { anon: 60, file: 140, over: 200 };

    fn fract(anon: u64, file: u64) -> Mode {
        Mode::Fract(Weights { anon, file, over: anon + file })
    }

    /// What weights there are for which costs is `lru::balance`'s.
    #[test]
    fn a_list_gets_its_share() {
        assert_eq!(targets(S, 12, Mode::Equal), [97, 292, 146, 439]);
        assert_eq!(targets(S, 12, Mode::Fract(EVEN)), [29, 87, 102, 307]);
        assert_eq!(targets(S, 12, fract(102, 335)), [22, 68, 111, 336]);
        assert_eq!(targets(S, 10, Mode::Equal), [390, 1171, 585, 1757]);
        assert_eq!(targets(S, 10, fract(163, 221)), [165, 497, 336, 1011]);
    }

    #[test]
    fn swappiness_sets_the_shares() {
        assert_eq!(targets(S, 12, fract(100, 100)), [48, 146, 73, 219]);
        assert_eq!(targets(S, 12, fract(0, 200)), [0, 0, 146, 439]);
        assert_eq!(targets(S, 12, fract(600, 0)), [97, 292, 0, 0]);
    }

    #[test]
    fn small_lists_are_scanned_in_the_end() {
        let small = [3000, 2000, 5000, 4095];
        assert_eq!(targets(small, 12, Mode::Equal), [0, 0, 1, 0]);
        assert_eq!(targets(small, 12, Mode::Fract(EVEN)), [0; 4]);
        assert!(!ScanPlan::new([0; 4], false, Proportional::OneRound).goes_on());
    }

    #[test]
    fn modes_come_before_weights() {
        let mode = |input| mode(input, EVEN);
        let no_swap = mode(ModeInput { can_swap: false, ..INPUT });
        assert_eq!(targets(S, 12, no_swap), [0, 0, 146, 439]);
        assert_eq!(mode(ModeInput { priority: 0, ..INPUT }), Mode::Equal);
        assert_eq!(targets(S, 0, Mode::Equal), S);
        let unswappy = ModeInput { priority: 0, swappiness: 0, ..INPUT };
        assert_eq!(mode(unswappy), Mode::Fract(EVEN));
        let trim = mode(ModeInput { cache_trim_mode: true, ..INPUT });
        assert_eq!(targets(S, 12, trim), [0, 0, 146, 439]);
        let tiny = ModeInput { file_is_tiny: true, cache_trim_mode: true, ..INPUT };
        assert_eq!(mode(tiny), Mode::Anon);
    }

    /// Shrinks with every inactive page freed; pages scanned by list, and pages got.
    fn run(mut plan: ScanPlan, wanted: u64) -> (Lists, u64) {
        let mut scanned = [0; 4];
        let mut got = 0;
        while plan.goes_on() {
            for (list, scanned) in scanned.iter_mut().enumerate() {
                let bite = plan.bite(list);
                *scanned += bite;
                got += if list % 2 == 0 { bite } else { 0 };
            }
            if !plan.round_done(got, wanted) {
                break;
            }
        }
        (scanned, got)
    }

    #[test]
    fn the_scan_loop_keeps_proportions() {
        let n = [96, 288, 448, 1024];
        let mut plan = ScanPlan::new(n, false, Proportional::OneRound);
        for got in [64, 128] {
            (0..4).for_each(|list| assert_eq!(plan.bite(list), 32));
            assert!(plan.round_done(got, 128));
        }
        assert_eq!(plan.left(), [0, 0, 88, 284]);
        let stop = ScanPlan::new(n, false, Proportional::OneRound);
        assert_eq!(run(stop, 128), ([64, 64, 96, 96], 160));
        let once = ScanPlan::new(n, false, Proportional::ScanOut);
        assert_eq!(run(once, 128), ([64, 64, 152, 348], 216));
        let direct = ScanPlan::new(n, true, Proportional::OneRound);
        assert_eq!(run(direct, 128), (n, 544));
    }
}
