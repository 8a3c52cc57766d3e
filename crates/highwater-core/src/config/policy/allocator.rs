//! Switches of the page allocator: per-CPU lists, watermarks, zonelists, the slow path.

use super::table::policy;

policy! {
    /// Per-CPU page lists.
    PcpPolicy {
        /// Orders that the per-CPU lists hold, and the number of lists.
        // rules/per-cpu-lists#shape
        lists: PcpLists = Order0 {
            /// Order 0, one list per migratetype: 3 lists.
            Order0,
            /// Orders 0 to 3 and 9, one list per migratetype: 15 lists (5.14 to 5.19).
            HighOrder15,
            /// Orders 0 to 3, one list per migratetype, and two lists of order 9: 14 lists (late
            /// 6.1).
            HighOrder14,
        },
        /// Effect of freeing a block of order 1 to 3 on per-CPU lists that only grow (study 002).
        high_order_free: HighOrderFree = Cached {
            /// Nothing: high-order blocks stay on the lists up to the ordinary limit.
            Cached,
            /// Once the CPU mostly frees, it drains everything on its lists (`free_high`).
            Limited,
            /// High-order blocks have a separate limit on each CPU. It falls while the CPU only
            /// frees and rises when the CPU allocates freed blocks again (no kernel does this).
            // rules/per-cpu-lists#adaptive
            Adaptive,
            /// A CPU that lately freed a batch or more, and of these orders last, drains up to 32
            /// batches at once (6.12).
            // rules/per-cpu-lists#counted-high
            LimitedBatch,
            /// As `limited-batch`, from a batch and half of `high_min` on (7.2).
            LimitedHalfMin,
        },
        /// How repeated drains grow while a CPU mostly frees.
        free_factor: FreeFactor = None {
            /// No doubling: each drain frees one batch.
            None,
            /// The batch doubles without limit (5.14 to 6.1.0).
            Uncapped,
            /// The batch doubles at most 5 times (late 6.1).
            Capped,
            /// No factor: a drain frees as many pages as the CPU lately freed, at most about 32
            /// batches. Each allocation halves this count (6.7 on).
            // rules/per-cpu-lists#free-count
            FreeCount,
        },
        /// Order in which a bulk drain visits the lists.
        drain_order: DrainOrder = RoundRobin {
            /// Round robin over all lists; each visit takes one more block (up to 5.17).
            RoundRobin,
            /// The list that was freed to comes first and is emptied before the next (5.18 on).
            FreedListFirst,
        },
        /// Pages that a drain of full lists frees under one hold of the zone lock.
        drain_portion: DrainPortion = All {
            /// All that it frees.
            All,
            /// One batch; then the next portion, again from the list that was freed to (7.2).
            // rules/per-cpu-lists#portions
            Batch,
        },
        /// Migratetype whose buddy list a drained block goes to.
        drain_type: DrainType = Cached {
            /// That of its pageblock when the block was freed; Isolate, if it is that by now.
            Cached,
            /// That of its pageblock when it is drained (6.10 on).
            // rules/per-cpu-lists#drain-type
            Pageblock,
        },
        /// What one operation on per-CPU lists adds to `pgalloc` and `pgfree`.
        event_unit: EventUnit = Pages {
            /// The number of pages of the block.
            Pages,
            /// One, whatever the order (5.14 to about 6.0).
            Operations,
        },
        /// How `batch` and `high` of the per-CPU lists are computed.
        // rules/per-cpu-lists#sizes
        sizing: PcpSizing = SixBatches {
            /// `high` is 6 batches; `batch` is computed from at most 512 KiB (4.3).
            SixBatches,
            /// `high` is 6 batches; `batch` is computed from at most 1 MiB (5.4).
            SixBatchesMib,
            /// `high` is computed from the low watermark, divided by the node's CPUs (5.14 on).
            LowWatermark,
            /// Each CPU tunes `high` between the size of `low-watermark` and an eighth of the zone,
            /// divided by the node's CPUs; refills grow while it only allocates (6.7 on). Without
            /// `free-factor = "free-count"`, the size of the next drain stands for the pages freed
            /// lately.
            // rules/per-cpu-lists#auto
            Auto,
        },
        /// An allocation whose refill finds nothing may still take a block from the buddy lists
        /// (late 6.1); false: it fails (5.17).
        refill_falls_back: bool = false,
        /// A request with the HIGHATOMIC flag refills an empty list; false: it takes its block from
        /// the buddy lists, and only blocks from there make a reserve (7.2).
        // rules/per-cpu-lists#highatomic-refills
        highatomic_refills: bool = true,
        /// A running kswapd lowers the limit of the per-CPU lists to four batches
        /// (`RECLAIM_ACTIVE`, 5.14 on).
        reclaim_active_limit: bool = false,
        /// `drain_all` frees at most `batch << 5` pages per zone-lock hold (late 6.1); false: a
        /// whole list.
        chunked_drain_all: bool = false,
        /// CPUs take and own whole pageblocks; a page freed from one returns to the CPU that owns
        /// it (beyond study 002).
        // rules/per-cpu-lists#owned-blocks
        own_blocks: bool = false,
    }
}

policy! {
    /// Watermarks.
    WatermarkPolicy {
        /// Exact watermark test for orders above 0.
        test: WatermarkTest = HalvedMarks {
            /// A usable list must have a free block of the order or larger (4.5 on).
            // rules/watermarks#exact-test
            FreeBlock,
            /// Free pages in large enough blocks must exceed marks that are halved for each order
            /// (4.3).
            // rules/watermarks#halved-marks
            HalvedMarks,
        },
        /// How far below the min watermark a request may go.
        // rules/watermarks#effective-min
        reserves: MinReserveRule = Legacy {
            /// HIGH 1/2, HARDER 1/4 more; OOM victims get no discount (4.3, 4.5).
            Legacy,
            /// As `legacy`, but OOM victims get 1/2 instead of HARDER's 1/4 (5.4 to 6.1.0).
            LegacyOom,
            /// It depends on whether the request may block (late 6.1).
            NonBlocking,
        },
        /// Distance of the low and high watermarks from the min watermark.
        gaps: HighWatermark = Quarters {
            /// A quarter and a half of the min watermark (4.3).
            Quarters,
            /// The larger of a quarter and a share of the zone (`watermark_scale_factor`, 4.6 on).
            ScaleFactor,
        },
        /// Min watermark of the movable zone.
        // rules/watermarks#marks
        movable_min: MovableMin = Share {
            /// Its share of `min_free_kbytes`, as every zone's (up to 6.8).
            Share,
            /// 1/1024 of the zone, from 32 to 128 pages; the other zones share
            /// `min_free_kbytes` without it (6.9 on).
            Clamped,
        },
        /// Upper bound of the computed `min_free_kbytes`, in KiB: 64 MiB (up to 5.4), 256 MiB.
        min_free_kbytes_max: u64 = 65_536 in (128..=1_073_741_824; 128, 65_536, 262_144),
        /// Pages of the reserve for high-atomic requests that count as not free for others.
        // rules/watermarks#exact-test
        highatomic_unusable: HighatomicUnusable = Reserved {
            /// Its pageblocks, with the pages in use (4.5 on).
            Reserved,
            /// The free pages of its pageblocks (6.13 on, and 6.12.117).
            Free,
        },
        /// The reserves against requests for higher zones follow all memory: they are computed again
        /// when the memory of the kernel's start is freed (7.2); false: they follow the memory
        /// managed before.
        // rules/watermarks#lowmem-reserve
        recounts_reserves: bool = false,
        /// A fragmenting fallback raises the zone's watermarks for a while (5.0 on).
        // rules/watermarks#boost
        boost: bool = false,
        /// Which allocation wakes kswapd after a boost.
        // rules/allocation#take
        boost_wake: BoostWake = Any {
            /// The next one from the zone (up to 6.11).
            Any,
            /// The next one with `__GFP_KSWAPD_RECLAIM` (6.12, 7.2).
            Kswapd,
        },
        /// GFP flag of single pages that may ignore the boost at the min watermark.
        // rules/watermarks#fast-test
        boost_exempt: BoostExempt = Atomic {
            /// `__GFP_ATOMIC` (up to 6.2).
            Atomic,
            /// `__GFP_HIGH` (6.3 on).
            High,
        },
    }
}

policy! {
    /// Zonelists and their scan.
    ZonelistPolicy {
        /// Allocations skip zones that were found full within about a second (the zonelist cache of
        /// study 000).
        // rules/zonelist-cache#data
        cache: bool = false,
        /// The zones of a node take turns; a turn is as many pages as lie between a zone's low and
        /// high watermarks (4.3).
        // rules/allocation#fair-zones
        fair: bool = true,
        /// Load of a node that begins a new distance; it decides between nodes at the same
        /// distance.
        // rules/zones#node-order
        node_load: NodeLoad = NodesLeft {
            /// The number of nodes that have no place in the list yet (4.3).
            NodesLeft,
            /// One more than its load before.
            OneMore,
        },
        /// `zone_reclaim` excludes nodes at distance 30 (4.3); false: it includes them.
        reclaim_distance_exclusive: bool = true,
        /// `zone_reclaim` defers a node that yielded nothing, for a tick at first and for up to a
        /// second later (no kernel does this).
        // rules/node-pass#node-deferral
        reclaim_deferral: bool = false,
        /// An allocation prefers nodes whose kswapd sleeps: it tries the others only if these have
        /// no page (7.2).
        // rules/allocation#busy-nodes
        skip_kswapd_nodes: bool = false,
        /// An allocation prefers another zone of the node to mixing migratetypes in a pageblock
        /// (5.0 on).
        nofragment: bool = false,
    }
}

policy! {
    /// The slow path of an allocation.
    // rules/slow-path#restart
    SlowPathPolicy {
        /// End of an allocation's rounds of compaction and reclaim.
        rounds: SlowPathRounds = WhileProgress {
            /// A round without progress, or one that reclaimed as much as was asked for; nothing is
            /// counted (4.3).
            // rules/slow-path#v43
            WhileProgress,
            /// Counters of rounds without progress and of compactions.
            // rules/slow-path#reclaim-retry, rules/slow-path#compact-retry
            Counted,
            /// As `counted`; early compaction is a first round without reclaim, and every request
            /// that may compact goes on from it (7.2).
            // rules/slow-path#v72
            CompactFirst,
        },
        /// Deferred compaction counts as a stall, and the allocation tries the free lists again;
        /// false: it counts as skipped (4.3).
        deferred_is_stall: bool = false,
        /// Direct compactions that count in `compact_stall` and `compact_fail`; after them the
        /// allocation tries the free lists again.
        // rules/slow-path#direct-compaction
        compaction_stalls: CompactionStalls = NotSkipped {
            /// All of them, skipped ones too (5.4 to 5.12; no preset has it).
            All,
            /// All but skipped ones; `deferred-is-stall` decides about deferred ones.
            NotSkipped,
            /// All but skipped and deferred ones (7.2).
            NotDeferred,
        },
        /// GFP flags that a request needs before compaction runs for it.
        compaction_needs: CompactionNeeds = IoAndFs {
            /// `__GFP_IO` and `__GFP_FS` (4.5).
            IoAndFs,
            /// None.
            Nothing,
            /// `__GFP_IO` (late 6.1).
            Io,
        },
        /// A costly `__GFP_THISNODE` request without retries gives up after its first compaction
        /// (late 6.1).
        thisnode_gives_up: bool = false,
        /// When reserved high-atomic pageblocks are released, the last one too.
        unreserve: Unreserve = WhenExhausted {
            /// After too many rounds without progress (up to 6.1.0).
            WhenExhausted,
            /// As soon as no zone would pass even if all reclaimable pages were free (late 6.1).
            WhenHopeless,
        },
        /// The test whether reclaim could suffice passes over zones that the cpuset forbids (6.12,
        /// 7.2).
        // rules/slow-path#reclaim-retry
        retry_in_cpuset: bool = false,
        /// How far below the min watermark a `__GFP_NOFAIL` request may finally go.
        nofail_dip: NofailDip = NonBlock {
            /// As far as a request that cannot wait (up to 6.1.0).
            NonBlock,
            /// As far as a high-priority request (late 6.1).
            MinReserve,
        },
    }
}
