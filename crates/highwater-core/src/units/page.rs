//! Page frame numbers, orders, migratetypes.

use core::fmt;

/// log2 of the page size.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes per page.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// Pages that are isolated or freed at a time, and the target of a direct reclaimer. Enough to make
/// a hold of `lru_lock` worthwhile, and few enough that one task does not empty a list.
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// Number of orders, exclusive bound (rules/zones#orders; `MAX_ORDER` of 6.1).
pub const MAX_ORDER: usize = 11;
/// Order of a pageblock.
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Pages per pageblock.
pub const PAGEBLOCK_PAGES: u64 = 1 << PAGEBLOCK_ORDER;

/// Page frame number: physical address divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u32);

impl Pfn {
    /// The number as `u64`.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0 as u64
    }

    /// The number as an index into the page array.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }

    /// The frame `n` frames further on.
    #[inline(always)]
    pub const fn add(self, n: u32) -> Pfn {
        Pfn(self.0 + n)
    }

    /// Returns the buddy of the block of `order` that starts here.
    #[doc(alias = "__find_buddy_pfn")]
    #[inline(always)]
    pub const fn buddy(self, order: Order) -> Pfn {
        Pfn(self.0 ^ (1 << order.0))
    }

    /// True if a block of `order` may start here.
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & ((1 << order.0) - 1) == 0
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:x}", self.0)
    }
}

/// log2 of a block's size in pages, `0..=10`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(pub u8);

impl Order {
    /// A single page.
    pub const ZERO: Order = Order(0);
    /// The largest block of the buddy allocator.
    pub const MAX: Order = Order(MAX_ORDER as u8 - 1);
    /// Orders above this are costly (`PAGE_ALLOC_COSTLY_ORDER`): the allocator may give up.
    pub const COSTLY: Order = Order(3);

    /// An order if it exists.
    pub const fn new(order: u8) -> Option<Order> {
        if (order as usize) < MAX_ORDER { Some(Order(order)) } else { None }
    }

    /// Pages in a block.
    #[inline(always)]
    pub const fn pages(self) -> u64 {
        1 << self.0
    }

    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }

    /// True above [`Order::COSTLY`].
    pub const fn is_costly(self) -> bool {
        self.0 > Self::COSTLY.0
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

/// The migratetype of a pageblock or block, by which pages that cannot move are kept together
/// (rules/zones#migratetypes).
///
/// Index 3 is the high-atomic reserve; under a 4.3 policy the same slot holds the RESERVE type.
#[doc(alias = "migratetype")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel data that stays where it is.
    Unmovable = 0,
    /// User memory and page cache.
    Movable = 1,
    /// Caches that can be dropped (slab with shrinkers).
    Reclaimable = 2,
    /// Blocks reserved for atomic high-order requests.
    HighAtomic = 3,
    /// Taken out of use (offlining, contiguous allocation).
    Isolate = 4,
}

impl MigrateType {
    /// Number of types.
    pub const COUNT: usize = 5;
    /// Number of types with per-CPU lists.
    pub const PCP_TYPES: usize = 3;
    /// All, by index.
    pub const ALL: [MigrateType; Self::COUNT] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Isolate,
    ];

    /// The type with an index.
    #[inline(always)]
    pub const fn from_index(index: u32) -> MigrateType {
        match index {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            2 => MigrateType::Reclaimable,
            3 => MigrateType::HighAtomic,
            _ => MigrateType::Isolate,
        }
    }

    /// As an index.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self as usize
    }

    /// The types whose pageblocks may change type, and which per-CPU lists hold.
    pub const MERGEABLE: [MigrateType; 3] =
        [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

    /// True for the types whose blocks may merge with each other.
    #[inline(always)]
    pub const fn is_mergeable(self) -> bool {
        (self as u8) < 3
    }

    /// The name `/proc/pagetypeinfo` prints.
    pub const fn name(self) -> &'static str {
        match self {
            MigrateType::Unmovable => "Unmovable",
            MigrateType::Movable => "Movable",
            MigrateType::Reclaimable => "Reclaimable",
            MigrateType::HighAtomic => "HighAtomic",
            MigrateType::Isolate => "Isolate",
        }
    }
}
