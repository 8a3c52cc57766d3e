//! Switches of page reclaim and of its inputs.

use super::algorithm::Algorithm;
use super::mglru::MglruPolicy;
use super::table::policy;
use super::throttle::ThrottlePolicy;

policy! {
    /// Page reclaim and what feeds it.
    ReclaimPolicy {
        /// Where the LRU lists are.
        // rules/lru#topology
        lru: LruTopology = Zone {
            /// One set per zone (up to 4.7).
            Zone,
            /// One set per node.
            Node,
        },
        /// Use of a set young bit when a file page is unmapped (study 003).
        unmap_young_file: UnmapYoung = MarkAccessed {
            /// It calls `mark_page_accessed`, which may activate the page.
            MarkAccessed,
            /// It only sets the page's referenced bit.
            SetReferenced,
            /// It sets the referenced bit; a second use is noted, and reclaim activates the page
            /// when it comes to it (no kernel does this).
            HandedOver,
        },
        /// VMAs without recency: unmapping does not transfer their young bits, and the reference
        /// check does not count them.
        // rules/rmap#recency
        recency_guard: RecencyGuard = Seq {
            /// With SEQ_READ advice; the reference check clears their young bits (up to 6.2).
            Seq,
            /// With SEQ_READ or RAND_READ advice, or of a descriptor with NOREUSE advice; the
            /// reference check passes them over, and their young bits stay (6.3 on).
            SeqRandNoreuse,
        },
        /// Rule for the share of scanning between anonymous and file lists.
        // rules/scan-budget#rotated, rules/scan-budget#fract
        balance: BalanceRule = Rotated {
            /// The share of rotated pages (up to 5.7).
            Rotated,
            /// The cost of getting pages back (5.8 on).
            Cost,
            /// That cost, an I/O 32 times, and the pages that were scanned in vain (6.2 on).
            CostRotations,
        },
        /// List on which new anonymous pages start.
        // rules/lru#entry
        anon_new: AnonStart = Active {
            /// The active list (up to 5.8).
            Active,
            /// The inactive list.
            Inactive,
        },
        /// Handling of dirty file pages at the LRU tail.
        // rules/page-decisions#under-writeback, rules/page-decisions#dirty-page
        dirty_at_tail: DirtyAtTail = Keep {
            /// It puts them back on the inactive list (up to 4.10).
            Keep,
            /// It moves them to the active list.
            Activate,
        },
        /// How a lruvec pass ends once it reached its target, dropped the smaller side and cut the
        /// larger one to the same share.
        // rules/scan-budget#proportional
        proportional: Proportional = ScanOut {
            /// It scans the larger side to the end (5.15, 5.17).
            ScanOut,
            /// It scans one more round (6.1).
            OneRound,
        },
        /// Pages that a CPU collects before it takes the LRU lock (14 before 4.15, 31 from 6.9 on).
        lru_batch: u8 = 14 in (1..=31; 1, 2, 14, 15, 31),
        /// A buffered write marks its pages accessed (up to 4.6).
        write_marks_accessed: bool = true,
        /// munmap holds `mmap_lock` for writing while it unmaps (before 4.20).
        zap_exclusive: bool = true,
        /// Anonymous pages leave shadow entries and can refault (5.9 on).
        anon_workingset: bool = false,
        /// Files of which reclaim writes single pages.
        // rules/writeback#single-page
        file_pageout: FilePageout = Any {
            /// Any file (XFS allowed it until 5.19).
            Any,
            /// Files of filesystems with `writepage` (`Filesystem::has_writepage`: ext4; 6.0 on).
            Offered,
            /// None: a dirty page that would be written is activated, and nothing counts it (6.12).
            Never,
            /// None: each dirty page that is met counts as `nr_vmscan_immediate_reclaim` (7.2).
            NeverCounted,
        },
        /// A zone without pages on its lists counts its free pages as reclaimable; false: it has
        /// none, and the gate of the reserves passes over it (7.2).
        // rules/node-pass#reclaimable, rules/node-pass#gate
        free_page_fallback: bool = true,
        /// The gate of the reserves reads free pages exactly, with the CPUs' differences (6.12, 7.2).
        // rules/node-pass#gate
        gate_exact: bool = false,
        /// How reclaim picks the pages to evict.
        algorithm: Algorithm = (Algorithm::TwoList),
        /// The multi-generational LRU (`algorithm = "mglru"`).
        mglru: MglruPolicy,
        /// kswapd.
        kswapd: KswapdPolicy,
        /// How reclaimers are slowed down.
        throttle: ThrottlePolicy,
    }
}

policy! {
    /// kswapd. Its changes between 4.6 and 5.4 are not modelled one by one: 5.4 already behaves as
    /// 6.1.
    KswapdPolicy {
        /// Goal of kswapd, and when it stops.
        // rules/kswapd#balanced, rules/kswapd#inline45, rules/kswapd#kcompactd46
        goal: KswapdGoal = Block {
            /// A block of the order in a quarter of the node, zone by zone; single pages once
            /// compaction has room (up to 4.5).
            Block,
            /// Single pages, with a block's worth to spare, zone by zone (4.6 to about 4.11).
            Room,
            /// A block of the order in one zone; single pages once twice the block is freed.
            AnyZone,
        },
        /// kswapd compacts the node itself when it freed more than its zones' targets (up to 4.5;
        /// no effect with `any-zone`).
        // rules/kswapd#inline45
        compacts: bool = true,
        /// When kswapd wakes kcompactd for a request.
        // rules/compaction#hand-over
        hand_over: HandOver = Never {
            /// Never (up to 4.5).
            Never,
            /// After an undisturbed nap, before the long sleep (4.6 to about 4.11).
            AfterNap,
            /// Before the nap.
            BeforeNap,
        },
        /// A run that frees nothing because it takes idle page cache only is repeated once, for
        /// anonymous pages too (6.10 on).
        // rules/kswapd#run-again
        retries_trimming: bool = false,
        /// A step that reclaims enough keeps its priority, even if it scanned less: freed slab is
        /// not scanned (6.12 on).
        // rules/kswapd#run
        slab_is_progress: bool = false,
        /// Event that resets a node's count of failed kswapd runs.
        // rules/kswapd#hopeless
        failures_end: FailuresEnd = Progress {
            /// A reclaimer frees a page.
            Progress,
            /// A reclaimer frees a page, and the node is balanced then; or with `pcp.sizing = "auto"`
            /// frees lift a zone of a hopeless node above its high mark, if there is other memory.
            /// Runs for a boost are never failures (7.2).
            Balanced,
        },
    }
}
