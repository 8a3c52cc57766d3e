//! The policy: every before/after switch of the kernels we model, as one run-time value.
//!
//! Mechanism asks, policy answers. Each field is one difference between kernel versions
//! (spec 01 §15) or between the two sides of a study; nothing else in the core knows a version.

use alloc::string::String;

use super::{Scheme, ThrottlePolicy};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
    };
}
pub(super) use choice;

choice! {
    /// Which orders per-CPU lists hold, in how many lists (spec 01 §10.1).
    PcpLists {
        /// Order 0, one list per type: 3.
        Order0,
        /// Orders 0..=3 and 9 per type: 15 (5.14 to 5.19).
        HighOrder15,
        /// Orders 0..=3 per type and two lists of order 9: 14 (late 6.1).
        HighOrder14,
    }
}

choice! {
    /// What a free of an order 1..=3 block does to a list that only grows (study 002).
    HighOrderFree {
        /// Nothing: high orders stay until the ordinary limit.
        Cached,
        /// Once this CPU mostly frees, everything on its lists goes back (`free_high`).
        Limited,
    }
}

choice! {
    /// How `free_factor`, the batch doubling of repeated drains, is bounded.
    FreeFactor {
        /// No such mechanism: drain one batch.
        None,
        /// Doubles without limit (5.14 to 6.1.0).
        Uncapped,
        /// At most 5 doublings (late 6.1).
        Capped,
    }
}

choice! {
    /// The order in which a bulk drain visits lists.
    DrainOrder {
        /// Round robin over all lists, one more block from each visit (up to 5.17).
        RoundRobin,
        /// The list that was freed to first, emptied before the next (5.18 on).
        FreedListFirst,
    }
}

choice! {
    /// What one operation on per-CPU lists adds to `pgalloc` and `pgfree`.
    EventUnit {
        /// The pages of the block.
        Pages,
        /// One, whatever the order (5.14 to about 6.0).
        Operations,
    }
}

choice! {
    /// How batch and high of per-CPU lists are computed (spec 01 §2.7).
    PcpSizing {
        /// high = 6 batches, batch from at most half a MiB (4.3).
        SixBatches,
        /// high = 6 batches, batch from at most one MiB (5.4).
        SixBatchesMib,
        /// high from the low watermark, divided by the node's CPUs (5.14 on).
        LowWatermark,
    }
}

/// Per-CPU page lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct PcpPolicy {
    /// Orders cached.
    pub lists: PcpLists,
    /// Limit on high orders when mostly freeing.
    pub high_order_free: HighOrderFree,
    /// Growth of drains.
    pub free_factor: FreeFactor,
    /// Visiting order of drains.
    pub drain_order: DrainOrder,
    /// Unit of pgalloc and pgfree on this path.
    pub event_unit: EventUnit,
    /// Batch and high.
    pub sizing: PcpSizing,
    /// A refill that finds nothing may still take a block straight from the buddy lists
    /// (late 6.1); false: its failure is final (5.17).
    pub refill_falls_back: bool,
    /// kswapd running shrinks the limit to four batches (`RECLAIM_ACTIVE`, 5.14 on).
    pub reclaim_active_limit: bool,
    /// `drain_all` empties a list in chunks of `batch << 5` per zone-lock hold (late 6.1) instead
    /// of whole.
    pub chunked_drain_all: bool,
}

choice! {
    /// The exact watermark test for orders above 0.
    WatermarkTest {
        /// Some block of the order is on a usable list (6.1; spec 01 §6.1).
        FreeBlock,
        /// Free pages in large enough blocks against halved marks (4.3; §6.4).
        HalvedMarks,
    }
}

choice! {
    /// How far requests may dip below the minimum (spec 01 §6.1, §6.5).
    MinReserveRule {
        /// HIGH 1/2, HARDER 1/4 more; no OOM discount (4.3, 4.5).
        Legacy,
        /// As `legacy`, and OOM victims 1/2 instead of HARDER's 1/4 (5.4 to 6.1.0).
        LegacyOom,
        /// By the ability to block (late 6.1).
        NonBlocking,
    }
}

choice! {
    /// What `LOW` and `HIGH` are above `MIN`.
    HighWatermark {
        /// A quarter and half of `MIN` (4.3).
        Quarters,
        /// The larger of a quarter and a share of the zone (`watermark_scale_factor`, 4.6 on).
        ScaleFactor,
    }
}

/// Watermarks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct WatermarkPolicy {
    /// High-order test.
    pub test: WatermarkTest,
    /// Discounts on the minimum.
    pub reserves: MinReserveRule,
    /// Distance of the marks.
    pub gaps: HighWatermark,
    /// Upper bound of the computed min_free_kbytes.
    pub min_free_kbytes_max: u64,
    /// Boost on fragmentation (5.0 on; spec 01 §9.6).
    pub boost: bool,
}

choice! {
    /// Choosing and claiming another type's block (spec 01 §9.3, §9.4).
    FallbackRule {
        /// Largest block; claim iff half is free; stolen pages to list heads (4.3).
        Largest,
        /// Smallest suitable for movable requests; compatible pages count (6.1).
        Compatible,
    }
}

choice! {
    /// What protects high-order atomic requests.
    HighatomicKind {
        /// Pageblocks of a RESERVE type set aside at boot, the last fallback (4.3).
        Reserve,
        /// Pageblocks claimed on demand.
        HighAtomic,
    }
}

choice! {
    /// Merging across pageblock types at order 9 and above (spec 01 §8).
    MergeRule {
        /// Only isolated blocks stop a merge (5.17).
        NotIsolated,
        /// Types without per-CPU lists stop a merge (5.18 on).
        Mergeable,
    }
}

choice! {
    /// The slow path (spec 01 §11).
    SlowPathPolicy {
        /// §11.7.
        V43,
        /// 5.17: no THISNODE short cut, no I/O test for compaction, unreserve only after 16 loops.
        V517,
        /// Late 6.1.
        V61,
    }
}

/// Zonelists and their scan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct ZonelistPolicy {
    /// The zonelist cache of study 000 (spec 01 §12).
    pub cache: bool,
    /// Fair allocation between zones (4.3; §11.7).
    pub fair: bool,
    /// Node load of 4.3: the number of nodes minus the position, instead of +1 per distance step.
    pub node_load_4_3: bool,
    /// `zone_reclaim` stops at distance 30 (4.3) instead of including it.
    pub reclaim_distance_exclusive: bool,
    /// Prefer another zone of the node over mixing types in a pageblock (NOFRAGMENT, 5.0 on).
    pub nofragment: bool,
}

choice! {
    /// When kswapd is content and what it does besides reclaiming (spec 02 §14, §15; study 004).
    KswapdModel {
        /// Compacts by itself, node balanced if enough of it is (4.5).
        Inline45,
        /// Wakes kcompactd, tests order 0 (4.6).
        Kcompactd46,
        /// One balanced zone suffices, order dropped after `compact_gap` (6.1).
        Node61,
    }
}

choice! {
    /// Where LRU lists live (spec 02 §1).
    LruTopology {
        /// One set a zone (up to 4.7).
        Zone,
        /// One set a node.
        Node,
    }
}

choice! {
    /// What unmapping a young file page does with its young bit (study 003).
    UnmapYoung {
        /// The whole of mark_page_accessed: it may activate the page.
        MarkAccessed,
        /// Only the referenced bit.
        SetReferenced,
    }
}

choice! {
    /// What weighs anonymous against file lists (spec 02 §8).
    BalanceRule {
        /// Share of rotated pages (up to 5.7).
        Rotated,
        /// Cost of getting pages back (5.8 on).
        Cost,
    }
}

choice! {
    /// Where new anonymous pages start (spec 02 §4).
    AnonStart {
        /// Active list (up to 5.8).
        Active,
        /// Inactive list.
        Inactive,
    }
}

choice! {
    /// What becomes of dirty file pages at the tail (spec 02 §11 note a).
    DirtyAtTail {
        /// Back to the inactive list (up to 4.10).
        Keep,
        /// To the active list.
        Activate,
    }
}

choice! {
    /// What happens when a lruvec's target is reached (spec 02 §9).
    Proportional {
        /// The larger side is scanned out (5.15).
        Once515,
        /// One more round (6.1).
        Stop61,
    }
}

/// Page reclaim and what feeds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct ReclaimPolicy {
    /// kswapd.
    pub kswapd: KswapdModel,
    /// Which pages of a set of lists go.
    pub scheme: Scheme,
    /// LRU lists per zone or per node.
    pub lru: LruTopology,
    /// Throttling.
    pub throttle: ThrottlePolicy,
    /// Unmapping young file pages.
    pub unmap_young_file: UnmapYoung,
    /// Anonymous against file.
    pub balance: BalanceRule,
    /// New anonymous pages.
    pub anon_new: AnonStart,
    /// Dirty file pages at the tail.
    pub dirty_at_tail: DirtyAtTail,
    /// End of a lruvec's scan.
    pub proportional: Proportional,
    /// Pages a CPU collects before it takes the LRU lock (14 before 4.15).
    pub lru_batch: u8,
    /// Buffered writes mark pages accessed (up to 4.6).
    pub write_marks_accessed: bool,
    /// munmap holds the address space exclusively while it unmaps (before 4.20).
    pub zap_exclusive: bool,
    /// Anonymous pages have shadows and refault (5.9 on).
    pub anon_workingset: bool,
    /// Reclaim may write single pages of any file (XFS offered it until 5.19). Without this only of
    /// files that say so ([`crate::page_cache::FileSpec::has_writepage`]: ext4).
    pub file_pageout: bool,
}

/// Everything that distinguishes one kernel's memory management from another's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct Policy {
    /// Name shown in reports.
    pub name: String,
    /// Per-CPU lists.
    pub pcp: PcpPolicy,
    /// Watermarks.
    pub watermark: WatermarkPolicy,
    /// Falling back to other migratetypes.
    pub fallback: FallbackRule,
    /// Reserve for atomic requests.
    pub highatomic: HighatomicKind,
    /// Merging.
    pub merge: MergeRule,
    /// Slow path.
    pub slow_path: SlowPathPolicy,
    /// Zonelists.
    pub zonelist: ZonelistPolicy,
    /// Page reclaim.
    pub reclaim: ReclaimPolicy,
}
