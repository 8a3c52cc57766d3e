//! Switches of faults, of unmapping, of swap, of writeback and of the block layer.

use super::table::policy;

policy! {
    /// Page faults.
    FaultPolicy {
        /// A fault that is tried again, because its page was being read, counts in `pgfault` each
        /// time (up to 6.4).
        // rules/faults#frame
        count_retries: bool = true,
        /// Which cached pages of a read fault lower the count of misses of its descriptor.
        // rules/readahead#mmap-hits
        mmap_miss: MmapMiss = Page {
            /// Every page that fault-around could map, also when the fault is tried again (up to
            /// 6.9).
            Page,
            /// The same pages, without those that have the workingset flag (6.10 on).
            PageNotWs,
            /// At most the faulting one, and none when the fault is tried again (7.2).
            Fault,
        },
    }
}

policy! {
    /// Unmapping, and the way of freed pages to the allocator.
    UnmapPolicy {
        /// Which of several pages that are freed together is allocated first.
        // rules/unmap#reuse-order
        free_order: FreeOrder = Lowest {
            /// The first of them, which has the lowest index: two lists turn their order twice (up
            /// to 6.8).
            Lowest,
            /// The last of them, which has the highest index (6.9 on).
            Highest,
        },
        /// Unmapping drains the CPU's LRU batches before it clears entries and before it frees
        /// pages; false: pages that wait there stay allocated until the batch drains, and are freed
        /// then without entering a list (7.2).
        // rules/unmap#drains
        drains_lru: bool = true,
    }
}

policy! {
    /// Swap.
    SwapPolicy {
        /// Each CPU keeps up to 64 free slots and collects as many used ones (up to 6.13).
        // rules/swap#slot-cache
        slot_cache: bool = true,
        /// A write that brings a page back frees its slot at once, if nothing else uses the page;
        /// false: the slot stays until swap is half full, and the page is written to it again
        /// (7.2).
        // rules/swap#swap-in
        write_frees_slot: bool = true,
        /// Swapping out of a page that holds only zeros.
        // rules/swap#zero-pages
        zero_pages: ZeroPages = Io {
            /// The page is written, as any other (up to 6.11).
            Io,
            /// The slot is marked, and the page is neither written nor read (6.12 on).
            Flag,
        },
    }
}

policy! {
    /// Limits of dirty pages.
    WritebackPolicy {
        /// Smallest share of the dirty limit for a device that wrote nothing lately.
        // rules/dirty-throttling#share-floor
        wb_thresh_floor: WbThreshFloor = Ratio {
            /// The position ratio assumes an eighth of the room to the limit at least; the share
            /// itself is 0 (up to 6.12).
            Ratio,
            /// The share is an eighth of the room to the limit at least, for the background limit
            /// too (7.2).
            Share,
        },
    }
}

policy! {
    /// The block layer.
    BlockPolicy {
        /// The request whose size decides when a plug is sent: before another request begins, if
        /// this one has 128 KiB.
        // rules/block#plug
        plug_flush: PlugFlush = Newest {
            /// The newest (up to 6.12.0).
            Newest,
            /// The oldest (6.12.117, 7.2). Behind a small read, writes wait for 32 requests.
            Oldest,
        },
    }
}
