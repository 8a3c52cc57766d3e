//! Switches of compaction (study 004): each is one difference between the kernels of
//! rules/compaction#kernels.
//!
//! A version in a description is the first or last one according to the sources of the rules or the
//! kernel's history; "about" marks versions that were not looked up.

use super::table::policy;

policy! {
    /// Compaction.
    CompactionPolicy {
        /// Watermarks at which a zone already has a block, and at which it has room for compaction.
        // rules/compaction#suitability
        suitable_mark: SuitableMark = Low {
            /// The low watermark for both (4.5); a request's privileges also lower the second.
            Low,
            /// The min watermark; for costly orders, room above the low watermark.
            ByCost,
            /// The same; a caller that names a higher watermark needs its room above that one (7.2).
            Named,
        },
        /// Most pages that compaction needs besides the watermark: twice the block, but no more
        /// than this (2048: twice the largest block; 7.2: 32).
        // rules/compaction#gap
        gap_max: u16 = 2048 in (2..=2048; 2, 32, 2048),
        /// Orders for which the fragmentation index can stop compaction because memory is merely
        /// short.
        // rules/compaction#fragmentation-index
        index_orders: IndexOrders = Every {
            /// Every order (4.5).
            Every,
            /// Costly orders.
            Costly,
        },
        /// How compaction finds pages to move and free frames for them.
        // rules/compaction#run, rules/compaction#plain
        scanners: Scanners = Plain {
            /// It does not: nothing is moved.
            Absent,
            /// Two scanners look at every frame between them (up to 5.0).
            Plain,
            /// Two scanners look at the free lists first (as 5.1 and later).
            Searching,
        },
        /// Frames that the scanners count as scanned.
        // rules/compaction#sources, rules/compaction#targets
        scan_count: ScanCount = Looks {
            /// One for each look: a block that is jumped over counts as one frame (up to 6.3).
            Looks,
            /// All that they pass, those inside free and compound blocks too (6.4 on).
            Frames,
        },
        /// Test that ends a run and decides whether the run succeeded.
        // rules/compaction#finish
        finish: FinishTest = LowMark {
            /// A free block, and the watermark test for the order at the low watermark (4.5).
            LowMark,
            /// A free block.
            Block,
        },
        /// Free pages that a zone must keep when compaction isolates a target frame, and what
        /// happens if it would not.
        // rules/compaction#targets
        spare: SpareMark = LowGoesOn {
            /// The low watermark and the block; the scanner tries the next frame (4.5).
            LowGoesOn,
            /// The min watermark without boost, and the block; the scanner leaves the pageblock.
            MinEnds,
        },
        /// Action of an asynchronous run that finds a lock contended.
        // rules/compaction#contended
        contended: AsyncContended = Aborts {
            /// It ends (up to 5.0).
            Aborts,
            /// It takes the lock, and ends after the pageblock.
            EndsWithBlock,
        },
        /// Action of an asynchronous run when another task should have the CPU.
        // rules/compaction#contended
        resched: AsyncResched = Aborts {
            /// It ends (up to 5.0).
            Aborts,
            /// It yields the CPU and goes on.
            GivesWay,
        },
        /// Pageblocks from which an asynchronous run moves pages.
        // rules/compaction#sources
        async_sources: AsyncSources = Movable {
            /// Movable pageblocks (4.5).
            Movable,
            /// A request's run: pageblocks of its migratetype; other runs: all (as 4.12 and later).
            Requested,
        },
        /// An asynchronous run for a request gives up an aligned block of the order at the first
        /// page that cannot be moved.
        // rules/compaction#sources
        gives_up_blocks: bool = false,
        /// A run that returns to a pageblock where it found pages takes the rest of it at once (as
        /// 5.1 and later); false: 32 pages as before.
        // rules/compaction#run
        finishes_blocks: bool = false,
        /// Pageblocks whose skip bits a flush clears.
        // rules/compaction#flush
        flush: FlushRule = All {
            /// All; the scanners restart at the zone's ends (up to 5.0).
            All,
            /// Pageblocks in which a sample finds pages to move or free frames; the scanners restart
            /// there.
            Sampled,
        },
        /// Runs that flush a zone's skip bits after requests were deferred for the longest time
        /// (study 004).
        // rules/compaction#flush
        restart_flush: RestartFlush = UnlessKswapd {
            /// All runs except kswapd's (4.5).
            UnlessKswapd,
            /// All runs.
            Anyone,
        },
        /// Runs that ask kswapd to flush a zone's skip bits before it sleeps, after they scanned
        /// the whole zone (study 004).
        // rules/compaction#flush
        flush_request: FlushRequest = UnlessKswapd {
            /// All runs except kswapd's (4.5).
            UnlessKswapd,
            /// Runs for a request.
            Request,
        },
        /// A run whose scanners met without starting at the zone's ends ends as partial, not as
        /// complete (as 4.7 and later).
        // rules/compaction#results
        tells_partial: bool = false,
        /// A request's run keeps the block that its task frees (as 5.1 and later).
        // rules/buddy#capture
        capture: bool = false,
        /// A request for movable memory may keep a block below a pageblock out of movable memory
        /// (6.12 on). Needs `capture`.
        // rules/buddy#capture
        capture_movable: bool = false,
        /// Runs that move pages of files and of the swap cache.
        // rules/compaction#sources
        cache_pages: CachePages = Always {
            /// All runs (4.5: requests without `__GFP_FS` do not compact).
            Always,
            /// Runs with `__GFP_FS`.
            WithFs,
        },
        /// Whether each node has kcompactd, and the zones that it compacts (study 004).
        // rules/compaction#kcompactd
        kcompactd: Kcompactd = Absent {
            /// There is no kcompactd (4.5).
            Absent,
            /// Zones below the requested one (4.6, by mistake).
            Exclusive,
            /// Zones up to the requested one (fixed some months later).
            Inclusive,
        },
        /// How kcompactd treats skip bits.
        // rules/compaction#kcompactd
        kcompactd_skip: KcompactdSkip = Ignored {
            /// It neither reads nor sets them, and leaves the scanner positions alone (4.6).
            Ignored,
            /// As other runs do.
            Honoured,
        },
        /// GFP flags with which kcompactd moves pages (matters where `cache-pages` checks them).
        // rules/compaction#kcompactd
        kcompactd_gfp: KcompactdGfp = Nothing {
            /// None: no filesystem, no I/O (4.6).
            Nothing,
            /// `GFP_KERNEL`.
            Kernel,
        },
        /// When direct reclaim leaves a zone to compaction.
        // rules/compaction#ready
        ready: ReadyTest = HighMarkOrDeferred {
            /// The zone is above its high watermark with a gap, and compaction is deferred or not
            /// skipped; the check counts as a deferred request (4.5).
            HighMarkOrDeferred,
            /// The zone has a block, or room above its high watermark.
            HighMark,
            /// The same; for costly orders the room is above the high watermark by as much as the
            /// low one is above min (7.2).
            HighMarkByCost,
        },
        /// Isolated pages at which a run waits, or ends if it waits for nothing.
        // rules/compaction#too-many-isolated
        isolated_limit: IsolatedLimit = Half {
            /// More than half of the pages on the node's lists.
            Half,
            /// The same of an eighth of the lists for runs with `__GFP_FS`, so a sixteenth. Others
            /// may isolate more: runs that hold locks of filesystems do not wait for these (6.4 on).
            EighthWithFs,
        },
        /// How long a node pass for a high order repeats.
        // rules/compaction#continue
        rounds: ReclaimRounds = UntilGap {
            /// Until twice the block is reclaimed, then until compaction can run (4.5).
            UntilGap,
            /// Until compaction can run.
            UntilSuitable,
        },
        /// kcompactd compacts a fragmented node before any request asks for it (as 5.9 and later).
        // rules/compaction#proactive
        proactive: bool = false,
        /// kcompactd checks a node when a zone's last free pageblock is split, not twice a second
        /// (no kernel does this). Needs `proactive`.
        // rules/compaction#prompted
        prompted: bool = false,
    }
}
