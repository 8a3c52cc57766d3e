//! Switches of the multi-generational LRU.
//!
//! They have no effect under another reclaim algorithm. The defaults are those of late 6.1; the
//! last four take parts away that no kernel lacks, to measure what they are worth.

use super::table::policy;

policy! {
    /// The multi-generational LRU.
    MglruPolicy {
        /// The generation in which page cache starts that was read, and not mapped.
        // rules/mglru#entry
        read_entry: ReadEntry = SecondOldest {
            /// The oldest (6.1.0).
            Oldest,
            /// The second oldest of four; the oldest of three (late 6.1 to 6.12).
            SecondOldest,
            /// By its marks: the second youngest inactive one if it has any, else the oldest (7.2).
            ByMarks,
        },
        /// The effect of the first use that an aging finds in page tables.
        // rules/mglru#promotion
        first_use: FirstUse = Promotes {
            /// The page moves to the youngest generation; so does a page that a fault maps.
            Promotes,
            /// The page gets a mark; the next use moves it. A page that a fault maps starts one
            /// generation lower (7.2).
            Marks,
        },
        /// A page keeps its marks when it enters the youngest generation (until 6.12).
        // rules/mglru#entry
        active_keeps_marks: bool = true,
        /// The condition for a new generation.
        // rules/mglru#aging
        aging: AgingRule = Spread {
            /// Two generations are left; or three, and the youngest is large or the oldest small.
            Spread,
            /// Fewer than four are left (7.2).
            Count,
        },
        /// kswapd ages between its passes. If not, each pass ages for itself, and the loop is that of
        /// 6.12 in other ways too: its end, its first priority, boosts, waits and look-around.
        // rules/mglru#aging
        kswapd_ages: bool = true,
        /// The type of pages that is evicted.
        // rules/mglru#type
        type_choice: TypeChoice = OlderFirst {
            /// The type with the older generation; of equal ones, by refaults of pages without
            /// marks.
            OlderFirst,
            /// By refaults of all pages (7.2).
            Refaults,
        },
        /// How far the oldest generations of both types may be apart.
        // rules/mglru#oldest
        oldest: OldestRule = Together {
            /// Page cache may be ahead; anonymous memory waits for it.
            Together,
            /// Either may be one ahead (7.2).
            OneApart,
        },
        /// Dirty pages of files and pages under writeback at the end of the oldest generation.
        // rules/mglru#sort
        dirty_tail: DirtyTail = NextGeneration {
            /// They move to the next generation, without being judged.
            NextGeneration,
            /// They are judged as other pages are (6.12 on).
            Judged,
        },
        /// When reclaim wakes the flushers.
        // rules/mglru#flushers
        flusher_wake: FlusherWake = Never {
            /// Never.
            Never,
            /// After a pass in which all pages of files were dirty and not queued (6.12).
            PerPass,
            /// After a batch of such pages (7.2).
            PerBatch,
        },
        /// Evictions that a refault can still tell from old ones.
        // rules/mglru#refault
        recent: RecentRule = OldestGeneration {
            /// Evictions from the generation that is the oldest now; others count as none.
            OldestGeneration,
            /// The same; the others count as refaults (6.12).
            OldestAndCount,
            /// Evictions of the last four generations; others count as none (7.2).
            FourGenerations,
        },
        /// Reclaim for the machine takes memory cgroups in turn, in two generations of groups with
        /// eight lists each, at random (6.4 on).
        // rules/mglru#groups
        group_turns: bool = false,
        /// A group under `memory.min` or `memory.low` loses a share of its pages above it in each
        /// pass, as under the two lists; if not, it is left alone or scanned in full (7.2).
        // rules/mglru#groups
        shares_protection: bool = false,
        /// Page tables are walked (bit 2 of `lru_gen/enabled`).
        // rules/mglru#walk
        walks: bool = true is exploratory,
        /// Walks pass over page tables that no access has used (bit 4 of `lru_gen/enabled`).
        // rules/mglru#walk
        skips_unused_tables: bool = true is exploratory,
        /// Entries of a page table that reclaim looks at around one that it finds used. Linux: 64.
        // rules/mglru#look-around
        look_around: u8 = 64 in (1..=64; 1, 64) is exploratory,
        /// Pages with many marks are protected as refaults say.
        // rules/mglru#tiers
        tiers: bool = true is exploratory,
    }
}
