//! Switches of the page allocator: per-CPU lists, watermarks, zonelists, the slow path.

use super::table::policy;

policy! {
    /// Per-CPU page lists.
    PcpPolicy {
        /// Which orders per-CPU lists hold, in how many lists.
        // rules/per-cpu-lists#shape
        lists: PcpLists = Order0 {
            /// Order 0, one list per type: 3.
            Order0,
            /// Orders 0 to 3 and 9 per type: 15 (5.14 to 5.19).
            HighOrder15,
            /// Orders 0 to 3 per type and two lists of order 9: 14 (late 6.1).
            HighOrder14,
        },
        /// What a free of a block of order 1 to 3 does to a list that only grows (study 002).
        high_order_free: HighOrderFree = Cached {
            /// Nothing: high orders stay until the ordinary limit.
            Cached,
            /// Once this CPU mostly frees, everything on its lists goes back (`free_high`).
            Limited,
            /// They have a limit of their own, which falls while this CPU only gives back and rises when it wants back what
            /// it gave; no kernel does that.
            // rules/per-cpu-lists#adaptive
            Adaptive,
        },
        /// How `free_factor`, the batch doubling of repeated drains, is bounded.
        free_factor: FreeFactor = None {
            /// No such mechanism: drain one batch.
            None,
            /// Doubles without limit (5.14 to 6.1.0).
            Uncapped,
            /// At most 5 doublings (late 6.1).
            Capped,
        },
        /// The order in which a bulk drain visits lists.
        drain_order: DrainOrder = RoundRobin {
            /// Round robin over all lists, one more block from each visit (up to 5.17).
            RoundRobin,
            /// The list that was freed to first, emptied before the next (5.18 on).
            FreedListFirst,
        },
        /// What one operation on per-CPU lists adds to `pgalloc` and `pgfree`.
        event_unit: EventUnit = Pages {
            /// The pages of the block.
            Pages,
            /// One, whatever the order (5.14 to about 6.0).
            Operations,
        },
        /// How batch and high of per-CPU lists are computed.
        // rules/per-cpu-lists#sizes
        sizing: PcpSizing = SixBatches {
            /// high = 6 batches, batch from at most half a MiB (4.3).
            SixBatches,
            /// high = 6 batches, batch from at most one MiB (5.4).
            SixBatchesMib,
            /// high from the low watermark, divided by the node's CPUs (5.14 on).
            LowWatermark,
        },
        /// A refill that finds nothing may still take a block straight from the buddy lists (late
        /// 6.1); false: its failure is final (5.17).
        refill_falls_back: bool = false,
        /// kswapd running shrinks the limit to four batches (`RECLAIM_ACTIVE`, 5.14 on).
        reclaim_active_limit: bool = false,
        /// `drain_all` empties a list in chunks of `batch << 5` per zone-lock hold (late 6.1);
        /// false: whole.
        chunked_drain_all: bool = false,
        /// CPUs take whole pageblocks and own them: what is freed of one goes back to its owner (beyond
        /// study 002).
        // rules/per-cpu-lists#owned-blocks
        own_blocks: bool = false,
    }
}

policy! {
    /// Watermarks.
    WatermarkPolicy {
        /// The exact watermark test for orders above 0.
        test: WatermarkTest = HalvedMarks {
            /// Some block of the order is on a usable list (6.1).
            // rules/watermarks#exact-test
            FreeBlock,
            /// Free pages in large enough blocks against halved marks (4.3).
            // rules/watermarks#halved-marks
            HalvedMarks,
        },
        /// How far requests may dip below the minimum.
        // rules/watermarks#effective-min
        reserves: MinReserveRule = Legacy {
            /// HIGH 1/2, HARDER 1/4 more; no OOM discount (4.3, 4.5).
            Legacy,
            /// As `legacy`, and OOM victims 1/2 instead of HARDER's 1/4 (5.4 to 6.1.0).
            LegacyOom,
            /// By the ability to block (late 6.1).
            NonBlocking,
        },
        /// What `LOW` and `HIGH` are above `MIN`.
        gaps: HighWatermark = Quarters {
            /// A quarter and half of `MIN` (4.3).
            Quarters,
            /// The larger of a quarter and a share of the zone (`watermark_scale_factor`, 4.6 on).
            ScaleFactor,
        },
        /// Upper bound of the computed `min_free_kbytes`: 64 MiB (up to 5.4), 256 MiB.
        min_free_kbytes_max: u64 = 65_536 in (128..=1_073_741_824; 128, 65_536, 262_144),
        /// A fragmenting fallback raises the watermarks for a while (5.0 on).
        // rules/watermarks#boost
        boost: bool = false,
    }
}

policy! {
    /// Zonelists and their scan.
    ZonelistPolicy {
        /// Zones found full are skipped for a second: the zonelist cache of study 000.
        // rules/zonelist-cache#data
        cache: bool = false,
        /// The zones of a node take turns, each for as many pages as lie between its low and high
        /// watermarks (4.3).
        // rules/allocation#fair-zones
        fair: bool = true,
        /// What a node that begins a new distance gets as its load, by which nodes at the same
        /// distance are told apart.
        // rules/zones#node-order
        node_load: NodeLoad = NodesLeft {
            /// The number of nodes that have no place in the list yet (4.3).
            NodesLeft,
            /// One more than it had.
            OneMore,
        },
        /// `zone_reclaim` stops at distance 30 (4.3); false: that one is included.
        reclaim_distance_exclusive: bool = true,
        /// `zone_reclaim` of a node that brought nothing is put off, for a tick first and up to a second; no kernel
        /// does that.
        // rules/node-pass#node-deferral
        reclaim_deferral: bool = false,
        /// Another zone of the node is preferred over mixing types in a pageblock (5.0 on).
        nofragment: bool = false,
    }
}

policy! {
    /// The slow path of an allocation.
    // rules/slow-path#restart
    SlowPathPolicy {
        /// What ends the rounds of compaction and reclaim that an allocation goes through.
        rounds: SlowPathRounds = WhileProgress {
            /// No more progress, or as much reclaimed as was asked for; nothing is counted (4.3).
            // rules/slow-path#v43
            WhileProgress,
            /// Counters of rounds without progress and of compactions.
            // rules/slow-path#reclaim-retry, rules/slow-path#compact-retry
            Counted,
        },
        /// Compaction that was deferred counts as a stall, and the lists are tried again after it;
        /// false: as one that was skipped (4.3).
        deferred_is_stall: bool = false,
        /// What a request must be allowed to do for compaction to be for it.
        compaction_needs: CompactionNeeds = IoAndFs {
            /// I/O and the use of filesystems (4.5).
            IoAndFs,
            /// Nothing.
            Nothing,
            /// I/O (late 6.1).
            Io,
        },
        /// A costly request for one node only that does not want retries gives up after the first
        /// compaction (late 6.1).
        thisnode_gives_up: bool = false,
        /// When pageblocks set aside for atomic requests are given back, the last one too.
        unreserve: Unreserve = WhenExhausted {
            /// After too many rounds without progress (up to 6.1.0).
            WhenExhausted,
            /// As soon as no zone would do even if all that can be reclaimed were free (late 6.1).
            WhenHopeless,
        },
        /// How far below the minimum a request that must not fail may dip in the end.
        nofail_dip: NofailDip = NonBlock {
            /// As far as one that cannot wait (up to 6.1.0).
            NonBlock,
            /// As far as one of high priority (late 6.1).
            MinReserve,
        },
    }
}
