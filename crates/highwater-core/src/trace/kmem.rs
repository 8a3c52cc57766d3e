//! The allocator's tracepoints (rules/zone-counters#trace-events).

macro_rules! kmem {
    ([$next:ident $($later:ident)*] $($before:tt)*) => { $next! { [$($later)*] $($before)* kmem {
        /// End of an allocation, successful or not.
        PageAlloc = "mm_page_alloc" {
            /// First frame, none if the request failed.
            pfn: Option<Pfn>,
            /// Order asked for.
            order: Order,
            /// Request flags.
            gfp: Gfp,
            /// Migratetype asked for.
            migratetype: MigrateType,
        } digest 1 [order | migratetype << 8, pfn, 0, gfp]
          => "pfn={pfn} order={order} migratetype={migratetype} gfp_flags={gfp}";

        /// A block is freed, before it reaches any list.
        PageFree = "mm_page_free" {
            /// First frame.
            pfn: Pfn,
            /// Order.
            order: Order,
        } digest 2 [order, pfn] => "pfn={pfn} order={order}";

        /// A page of a list free (additionally).
        PageFreeBatched = "mm_page_free_batched" {
            /// The frame.
            pfn: Pfn,
        } digest 3 [0, pfn] => "pfn={pfn} order=0";

        /// A block leaves the buddy lists, zone lock held.
        PageAllocZoneLocked = "mm_page_alloc_zone_locked" {
            /// First frame.
            pfn: Pfn,
            /// Order.
            order: Order,
            /// List type.
            migratetype: MigrateType,
            /// The block goes to a per-CPU list.
            percpu_refill: bool,
        } digest 4 [order | migratetype << 8 | percpu_refill << 16, pfn]
          => "pfn={pfn} order={order} migratetype={migratetype} percpu_refill={percpu_refill}";

        /// A block leaves a per-CPU list for the buddy lists.
        PagePcpuDrain = "mm_page_pcpu_drain" {
            /// First frame.
            pfn: Pfn,
            /// Order.
            order: Order,
            /// Type it is freed to.
            migratetype: MigrateType,
        } digest 5 [order | migratetype << 8, pfn]
          => "pfn={pfn} order={order} migratetype={migratetype}";

        /// A request was served from another type's blocks.
        PageAllocExtfrag = "mm_page_alloc_extfrag" {
            /// First frame of the block taken.
            pfn: Pfn,
            /// Order asked for.
            alloc_order: Order,
            /// Order of the block taken.
            fallback_order: Order,
            /// Type asked for.
            alloc_migratetype: MigrateType,
            /// Type the block came from.
            fallback_migratetype: MigrateType,
            /// The pageblock has the requested type now.
            change_ownership: bool,
        } digest 6 [
            alloc_order | fallback_order << 8
                | alloc_migratetype << 16 | fallback_migratetype << 24,
            pfn,
            0,
            change_ownership,
        ] => "pfn={pfn} alloc_order={alloc_order} fallback_order={fallback_order} \
              pageblock_order={pageblock_order} alloc_migratetype={alloc_migratetype} \
              fallback_migratetype={fallback_migratetype} fragmenting={fragmenting} \
              change_ownership={change_ownership}"
          where pageblock_order = PAGEBLOCK_ORDER,
                fragmenting = fallback_order.0 < PAGEBLOCK_ORDER;
    } } };
}
pub(super) use kmem;
