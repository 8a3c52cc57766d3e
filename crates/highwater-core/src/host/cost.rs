//! Charge points: the operations whose time a simulated machine models.
//!
//! The keys are those of a machine's cost table. The machine defines the cost of each and its
//! source; the core only reports how often each occurs.

macro_rules! costs {
    ($($(#[doc = $doc:literal])* $name:ident = $key:literal,)*) => {
        /// One kind of work.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Cost { $($(#[doc = $doc])* $name,)* }

        impl Cost {
            /// Every charge point, in table order.
            pub const ALL: &'static [Cost] = &[$(Cost::$name,)*];
            /// Number of charge points.
            pub const COUNT: usize = Self::ALL.len();
            /// The key in a machine's cost table.
            pub const fn key(self) -> &'static str {
                match self { $(Cost::$name => $key,)* }
            }

            /// Its description.
            pub const fn doc(self) -> &'static str {
                match self { $(Cost::$name => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

costs! {
    /// Taking a block from a per-CPU list (watermark test included).
    PcpAlloc = "pcp_alloc",
    /// Putting a block on a per-CPU list.
    PcpFree = "pcp_free",
    /// Taking one block from the buddy lists, zone lock held.
    BuddyRemove = "buddy_remove",
    /// Giving one block back to the buddy lists, zone lock held.
    BuddyFree = "buddy_free",
    /// Entering and leaving a system call.
    Syscall = "syscall",
    /// One call that sends on a stream socket (without system call, locks, copy and segments).
    PacketSend = "packet_send",
    /// One call that receives from a stream socket (without system call, lock, copy and segments).
    PacketReceive = "packet_receive",
    /// Protocol work of one segment on the sending side; on the loopback device also its delivery.
    SegmentSend = "segment_send",
    /// Protocol work of one segment on the receiving side, its acknowledgement included.
    SegmentReceive = "segment_receive",
    /// Waking a task that sleeps (paid by the waker).
    Wakeup = "wakeup",
    /// Exception entry and exit, finding the VMA, walking the upper page tables.
    FaultEntry = "fault_entry",
    /// The rest of an anonymous fault: accounting, rmap, LRU batch (without frame and zeroing).
    AnonFault = "anon_fault",
    /// Mapping one cached file page (fault-around or alone).
    FileMap = "file_map",
    /// The rest of a write fault on a shared file page.
    SharedWriteFault = "shared_write_fault",
    /// The rest of a copy-on-write fault (without frame and copy).
    CopyFault = "copy_fault",
    /// The rest of a swap fault (lookup, slot, map).
    SwapFault = "swap_fault",
    /// One access of the program to a mapped page.
    UserTouch = "user_touch",
    /// Storing a page table entry, lock held.
    SetPte = "set_pte",
    /// Clearing a page table entry, lock held.
    ClearPte = "clear_pte",
    /// Sharing one page with a child at fork: reference, mapping, counters (without the entries).
    ForkPage = "fork_page",
    /// Unmapping a zero page entry.
    ZapZero = "zap_zero",
    /// Unmapping one anonymous page (without freeing it).
    ZapAnon = "zap_anon",
    /// Unmapping one file page, nothing to transfer.
    ZapFile = "zap_file",
    /// Setting the referenced bit of a page.
    MarkReferenced = "mark_referenced",
    /// Activating one page through a batch: lookup, list move, counters (without the lock).
    MarkActivate = "mark_activate",
    /// Flushing one page from a TLB.
    TlbPage = "tlb_page",
    /// Flushing a TLB.
    TlbFull = "tlb_full",
    /// Starting an rmap walk of a page.
    RmapWalk = "rmap_walk",
    /// One mapping of an rmap walk.
    RmapMapping = "rmap_mapping",
    /// Moving one page onto or off an LRU list, lock held.
    LruMove = "lru_move",
    /// Isolating one page from an LRU list, lock held.
    LruIsolate = "lru_isolate",
    /// One reclaim pass over a node: counters, budget, calling the shrinkers (without the pages).
    NodePass = "node_pass",
    /// Checking one page in reclaim.
    ScanPage = "scan_page",
    /// Freeing one clean unmapped page in reclaim, on top.
    ReclaimUnmapped = "reclaim_unmapped",
    /// Unmapping one page in reclaim, on top (without the rmap walks).
    ReclaimMapped = "reclaim_mapped",
    /// Finding a page in a file's tree.
    PageCacheLookup = "page_cache_lookup",
    /// Reading one cached page (without system call and copy).
    ReadHit = "read_hit",
    /// Overwriting one cached page (without system call and copy).
    WriteHit = "write_hit",
    /// Adding a page to the page cache (without the frame).
    PageCacheAdd = "page_cache_add",
    /// Removing one page in truncation or invalidation.
    TruncatePage = "truncate_page",
    /// Building and submitting one bio.
    BioSubmit = "bio_submit",
    /// Ending one page's I/O in the interrupt.
    BioEndPage = "bio_end_page",
    /// Taking or freeing one swap slot.
    SwapSlot = "swap_slot",
    /// Looking at one frame, or one entry of a free list, in compaction.
    CompactScan = "compact_scan",
    /// One object that a shrinker scans.
    ShrinkObject = "shrink_object",
    /// Counting one page in its task's memory account (policy `prioritised`).
    DemandPage = "demand_page",
    /// Settling a task's memory account with the sums of all tasks (policy `prioritised`).
    DemandSettle = "demand_settle",
}
