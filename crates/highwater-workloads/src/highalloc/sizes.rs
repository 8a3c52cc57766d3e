//! The script's sizes, computed from the size of memory (rules/benchmarks#highalloc-sizes).

use highwater_core::page::Order;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Order of the blocks: a huge page.
pub const HUGE_ORDER: Order = Order(9);
/// Bytes of a block.
const HUGE_BYTES: u64 = PAGE << HUGE_ORDER.0;
/// Percent of memory that a pass requests.
const TARGET_PERCENT: u64 = 95;
/// MiB of memory per build.
pub const BUILD_MIB: u64 = 400;
/// Rate of a pass's requests, MiB a second.
pub const RATE_MIB: u64 = 16;
/// A tree of Linux 3.0 with the files that a build adds, MiB.
const TREE_MIB: u64 = 420;

/// Sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Memory, in whole MiB.
    pub memory_mib: u64,
    /// Attempts of a pass.
    pub attempts: u64,
    /// Copies of the tree, each built besides the original.
    pub copies: u32,
    /// Bytes of a tree.
    pub tree_bytes: u64,
    /// Milliseconds from the beginning of one attempt to that of the next.
    pub pace_ms: u64,
}

impl Sizes {
    /// Sizes for `memory_pages` pages that programs and kernel share (MemTotal), requested at
    /// `rate_mib` MiB a second.
    pub fn new(memory_pages: u64, rate_mib: u64) -> Sizes {
        let memory_bytes = memory_pages * PAGE;
        let memory_mib = memory_bytes / MIB;
        let copies = u32::try_from(memory_mib / BUILD_MIB).unwrap_or(u32::MAX).max(1);
        let tree_bytes = (TREE_MIB * MIB).min(memory_bytes / (u64::from(copies) + 1));
        Sizes {
            memory_mib,
            attempts: memory_bytes / HUGE_BYTES * TARGET_PERCENT / 100,
            copies,
            tree_bytes,
            pace_ms: HUGE_BYTES / (rate_mib.max(1) * MIB / 1000).max(1),
        }
    }

    /// The printed form of `successes`: whole percent of the attempts.
    pub fn percent(&self, successes: u64) -> u64 {
        (100 * successes).checked_div(self.attempts).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/benchmarks#highalloc-sizes.
    #[test]
    fn sizes_of_the_rules() {
        for (pages, mib, attempts, copies, seconds) in [
            (1_010_000, 3945, 1873, 9, 234.1),
            (131_072, 512, 243, 1, 30.4),
            (4_094_304, 15_993, 7596, 39, 949.5),
        ] {
            let sizes = Sizes::new(pages, RATE_MIB);
            assert_eq!((sizes.memory_mib, sizes.attempts, sizes.copies), (mib, attempts, copies));
            assert_eq!(sizes.pace_ms, 125);
            let pass_s = (sizes.attempts * sizes.pace_ms) as f64 / 1000.0;
            assert!((pass_s - seconds).abs() < 0.05, "{pass_s}");
            // All trees together are slightly more than memory, unless memory is small.
            let trees = (u64::from(copies) + 1) * sizes.tree_bytes;
            assert!(trees <= pages * PAGE && trees + (1 << 20) > pages * PAGE, "{trees}");
        }
        assert_eq!(Sizes::new(1_010_000, 32).pace_ms, 62);
    }

    #[test]
    fn a_large_machine_has_whole_trees_and_a_small_one_a_build() {
        // 1200 MiB: three copies of 300 MiB.
        assert_eq!(Sizes::new(1200 << 8, RATE_MIB).tree_bytes, 300 << 20);
        let large = Sizes::new(16 << 18, RATE_MIB);
        assert_eq!(large.tree_bytes, (16 << 30) / 41);
        assert_eq!(Sizes::new(64 << 8, RATE_MIB).copies, 1);
        assert_eq!(Sizes::new(0, RATE_MIB).percent(1), 0);
    }

    /// rules/benchmarks#highalloc-sizes.
    #[test]
    fn percent_are_whole() {
        let sizes = Sizes::new(1_010_000, RATE_MIB);
        assert_eq!([0, 1, 18, 19, 1872, 1873].map(|n| sizes.percent(n)), [0, 0, 0, 1, 99, 100]);
    }
}
