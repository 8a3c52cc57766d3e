//! Switches of page reclaim and of its inputs.

use super::scheme::Scheme;
use super::table::policy;
use super::throttle::ThrottlePolicy;

policy! {
    /// Page reclaim and what feeds it.
    ReclaimPolicy {
        /// Where LRU lists live.
        // rules/lru#topology
        lru: LruTopology = Zone {
            /// One set a zone (up to 4.7).
            Zone,
            /// One set a node.
            Node,
        },
        /// What unmapping a young file page does with its young bit (study 003).
        unmap_young_file: UnmapYoung = MarkAccessed {
            /// The whole of `mark_page_accessed`: it may activate the page.
            MarkAccessed,
            /// Only the referenced bit.
            SetReferenced,
            /// The referenced bit, then a note by which reclaim activates the page when it comes to it; no kernel does that.
            HandedOver,
        },
        /// What weighs anonymous against file lists.
        // rules/scan-budget#rotated, rules/scan-budget#fract
        balance: BalanceRule = Rotated {
            /// Share of rotated pages (up to 5.7).
            Rotated,
            /// Cost of getting pages back (5.8 on).
            Cost,
        },
        /// Where new anonymous pages start.
        // rules/lru#entry
        anon_new: AnonStart = Active {
            /// Active list (up to 5.8).
            Active,
            /// Inactive list.
            Inactive,
        },
        /// What becomes of dirty file pages at the tail.
        // rules/page-decisions#under-writeback, rules/page-decisions#dirty-page
        dirty_at_tail: DirtyAtTail = Keep {
            /// Back to the inactive list (up to 4.10).
            Keep,
            /// To the active list.
            Activate,
        },
        /// How the rest of a lruvec is scanned once the target is reached and the smaller of its
        /// two sides dropped, the larger one cut to the same share.
        // rules/scan-budget#proportional
        proportional: Proportional = ScanOut {
            /// The larger side to the end (5.15, 5.17).
            ScanOut,
            /// One more round (6.1).
            OneRound,
        },
        /// Pages a CPU collects before it takes the LRU lock (14 before 4.15).
        lru_batch: u8 = 14 in (1..=15; 1, 2, 14, 15),
        /// Buffered writes mark pages accessed (up to 4.6).
        write_marks_accessed: bool = true,
        /// munmap holds the address space exclusively while it unmaps (before 4.20).
        zap_exclusive: bool = true,
        /// Anonymous pages have shadows and refault (5.9 on).
        anon_workingset: bool = false,
        /// Reclaim may write single pages of any file (XFS offered it until 5.19); false: only of
        /// files that say so (`Filesystem::has_writepage`: ext4).
        file_pageout: bool = true,
        /// What decides which pages go.
        scheme: Scheme = (Scheme::TwoList) is exploratory,
        /// kswapd.
        kswapd: KswapdPolicy,
        /// How reclaimers are slowed down.
        throttle: ThrottlePolicy,
    }
}

policy! {
    /// kswapd. What it did between 4.6 and 5.4 is not known here step by step: 5.4 runs 6.1's answers.
    KswapdPolicy {
        /// What it works for, and when it is content.
        // rules/kswapd#balanced, rules/kswapd#inline45, rules/kswapd#kcompactd46
        goal: KswapdGoal = Block {
            /// A block of the order in a quarter of the node, zone by zone; single pages from where
            /// compaction has room on (up to 4.5).
            Block,
            /// Single pages, with a block's worth to spare, zone by zone (4.6 to about 4.11).
            Room,
            /// A block of the order in one zone; single pages once twice the block is freed.
            AnyZone,
        },
        /// It compacts the node itself where it freed more than it asked its zones for (up to 4.5;
        /// for `any-zone` without effect).
        // rules/kswapd#inline45
        compacts: bool = true,
        /// When it hands requests over to kcompactd.
        // rules/compaction#hand-over
        hand_over: HandOver = Never {
            /// Never (up to 4.5).
            Never,
            /// When its nap was not disturbed, before the long sleep (4.6 to about 4.11).
            AfterNap,
            /// Before the nap.
            BeforeNap,
        },
    }
}
