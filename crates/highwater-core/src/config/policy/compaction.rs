//! Switches of compaction (study 004): each is one difference between the kernels of
//! rules/compaction#kernels.
//!
//! A version in a description is the first or last one according to the sources of the rules or the
//! kernel's history; "about" marks versions that were not looked up.

use super::table::policy;

policy! {
    /// Compaction.
    CompactionPolicy {
        /// Which watermark says that a zone has a block already; and above which it has room for
        /// compaction to work in.
        // rules/compaction#suitability
        suitable_mark: SuitableMark = Low {
            /// The low one for both (4.5); a request's privileges count for the second too.
            Low,
            /// The minimum; room above the low one for costly orders.
            ByCost,
        },
        /// For which orders the fragmentation index must say that memory is not merely short.
        // rules/compaction#fragmentation-index
        index_orders: IndexOrders = Every {
            /// For every order (4.5).
            Every,
            /// For costly orders.
            Costly,
        },
        /// How pages to move and frames to move them to are found.
        // rules/compaction#run, rules/compaction#plain
        scanners: Scanners = Plain {
            /// Not at all: nothing is moved.
            Absent,
            /// Two scanners that look at every frame between them (up to 5.0).
            Plain,
            /// Two scanners, which look at the free lists first (as 5.1 and later).
            Searching,
        },
        /// What says that a run may end, and whether it brought something.
        // rules/compaction#finish
        finish: FinishTest = LowMark {
            /// A block, and the watermark test for the order at the low mark (4.5).
            LowMark,
            /// A block.
            Block,
        },
        /// What a zone must keep free when a frame is taken to move a page to; and what happens if it
        /// would not.
        // rules/compaction#targets
        spare: SpareMark = LowGoesOn {
            /// The low mark and the block; the next frame is looked at (4.5).
            LowGoesOn,
            /// The minimum, without its boost, and the block; the pageblock ends there.
            MinEnds,
        },
        /// What a run that waits for nothing does about a lock that others hold.
        // rules/compaction#contended
        contended: AsyncContended = Aborts {
            /// It ends (up to 5.0).
            Aborts,
            /// It takes it, and ends with the pageblock.
            EndsWithBlock,
        },
        /// What a run that waits for nothing does once others should have the CPU.
        // rules/compaction#contended
        resched: AsyncResched = Aborts {
            /// It ends (up to 5.0).
            Aborts,
            /// It lets them run.
            GivesWay,
        },
        /// From which pageblocks a run that waits for nothing moves pages.
        // rules/compaction#sources
        async_sources: AsyncSources = Movable {
            /// From movable ones (4.5).
            Movable,
            /// A request's run: from those of its type; others: from all (as 4.12 and later).
            Requested,
        },
        /// A request's run that waits for nothing gives an aligned block of the order up with the first
        /// page in it that stays.
        // rules/compaction#sources
        gives_up_blocks: bool = false,
        /// Come back to a pageblock in which it found pages, a run takes the rest of it at once; false: 32
        /// pages as ever (as 5.1 and later).
        // rules/compaction#run
        finishes_blocks: bool = false,
        /// Which pageblocks' skip bits a flush clears.
        // rules/compaction#flush
        flush: FlushRule = All {
            /// All; the scanners begin at the zone's ends (up to 5.0).
            All,
            /// Those of which a sample shows something; the scanners begin there.
            Sampled,
        },
        /// Whose run flushes a zone whose requests were put off for as long as they ever are (study 004).
        // rules/compaction#flush
        restart_flush: RestartFlush = UnlessKswapd {
            /// Anybody's but kswapd's (4.5 before).
            UnlessKswapd,
            /// Anybody's.
            Anyone,
        },
        /// Whose run asks kswapd to flush a zone before it sleeps, if it scanned all of it (study 004).
        // rules/compaction#flush
        flush_request: FlushRequest = UnlessKswapd {
            /// Anybody's but kswapd's (4.5 before).
            UnlessKswapd,
            /// A request's.
            Request,
        },
        /// A run whose scanners met, but did not begin at the zone's ends, is told apart from a complete one
        /// (as 4.7 and later).
        // rules/compaction#results
        tells_partial: bool = false,
        /// A request's run keeps the block that its task frees (as 5.1 and later).
        // rules/buddy#capture
        capture: bool = false,
        /// Whose runs move pages of files and of the swap cache.
        // rules/compaction#sources
        cache_pages: CachePages = Always {
            /// All runs (4.5: requests that may not use filesystems do not compact).
            Always,
            /// Those that may use filesystems.
            WithFs,
        },
        /// The node's compaction daemon, and the zones it works on (study 004).
        // rules/compaction#kcompactd
        kcompactd: Kcompactd = Absent {
            /// There is none (4.5 before).
            Absent,
            /// Zones below the one that is asked for (4.6, by mistake).
            Exclusive,
            /// That one too (repaired some months later).
            Inclusive,
        },
        /// What the daemon does about skip bits.
        // rules/compaction#kcompactd
        kcompactd_skip: KcompactdSkip = Ignored {
            /// It neither looks at them nor sets them, and leaves the positions alone (4.6).
            Ignored,
            /// What others do.
            Honoured,
        },
        /// What the daemon may do to move a page (matters where `cache-pages` asks).
        // rules/compaction#kcompactd
        kcompactd_gfp: KcompactdGfp = Nothing {
            /// No filesystem, no I/O (4.6).
            Nothing,
            /// What the kernel may.
            Kernel,
        },
        /// When direct reclaim leaves the rest to compaction.
        // rules/compaction#ready
        ready: ReadyTest = HighMarkOrDeferred {
            /// Above the high mark with a gap, if compaction was put off or is not skipped; the question
            /// counts as a request that was put off (4.5).
            HighMarkOrDeferred,
            /// There is a block, or room above the high mark.
            HighMark,
        },
        /// How long a pass for a high order goes round again.
        // rules/compaction#continue
        rounds: ReclaimRounds = UntilGap {
            /// Until twice the block is reclaimed, then until compaction can run (4.5).
            UntilGap,
            /// Until compaction can run.
            UntilSuitable,
        },
        /// kcompactd works before anybody asks for it, where free memory is in pieces (as 5.9 and later).
        // rules/compaction#proactive
        proactive: bool = false,
        /// It looks when a zone's last free pageblock is split, not twice a second; no kernel does that. Needs `proactive`.
        // rules/compaction#prompted
        prompted: bool = false,
    }
}
