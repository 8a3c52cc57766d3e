//! The page array: one 32-byte descriptor per frame.
//!
//! ```text
//! word      31..20 flags | 19..10 node | 9..7 zone | 6..4 migratetype (cached) | 3..0 order
//! refcount  users of the page; 0 while it is free
//! next prev neighbours on the one list the frame is on
//! flags     what the users of the page say of it: super::PageFlags
//! mapcount  page table entries that map it
//! owner     address space or file the page belongs to: super::PageOwner
//! index     page index in the file, or virtual page number in the address space
//! ```
//!
//! Synchronisation: while `BUDDY` is set, word and links belong to the holder of the zone lock;
//! while `PCP` is set, to the holder of that per-CPU lock; otherwise to the page's user. A word is
//! read and written whole, so a neighbour that looks at it while merging sees one of the two.
//! `flags`, `mapcount`, `owner` and `index` have rules of their own: [`super::usage`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use bitflags::bitflags;

use super::{MigrateType, Order, Pfn};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::units::{NodeId, ZoneId, ZoneType};

bitflags! {
    /// Flag bits of a page word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct BlockFlags: u32 {
        /// Head of a free block on a buddy list; `order` is valid.
        const BUDDY = 1 << 20;
        /// Head of a block on a per-CPU list; `order` and migratetype are valid.
        const PCP = 1 << 21;
        /// Head of a compound page; `order` is valid.
        const HEAD = 1 << 22;
        /// Movable although on no LRU list (balloon, zsmalloc).
        const MOVABLE_OPS = 1 << 24;
        /// Came from the emergency reserves.
        const PFMEMALLOC = 1 << 25;
        /// Never handed to the allocator (kernel image, page array, holes).
        const RESERVED = 1 << 26;
        /// Head of a block in use; `order` is valid.
        const USED = 1 << 27;
        /// Another frame of a [`super::Folio`]; `order` is the folio's.
        const TAIL = 1 << 28;
    }
}

const ORDER_MASK: u32 = 0xf;
const TYPE_SHIFT: u32 = 4;
const TYPE_MASK: u32 = 0x7 << TYPE_SHIFT;
const ZONE_SHIFT: u32 = 7;
const NODE_SHIFT: u32 = 10;
/// Bits that never change after boot: which zone of which node.
const PLACE_MASK: u32 = 0x1fff << ZONE_SHIFT;

/// A page word as it was read once: decisions that need several fields read them from one of these,
/// so that they agree with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWord(u32);

impl BlockWord {
    /// True if all of `flags` are set.
    #[inline(always)]
    pub fn has(self, flags: BlockFlags) -> bool {
        self.0 & flags.bits() == flags.bits()
    }

    /// The order field; valid for heads.
    #[inline(always)]
    pub fn order(self) -> Order {
        Order((self.0 & ORDER_MASK) as u8)
    }

    /// The cached migratetype; valid for blocks on per-CPU lists.
    #[inline(always)]
    pub fn migratetype(self) -> MigrateType {
        MigrateType::from_index((self.0 & TYPE_MASK) >> TYPE_SHIFT)
    }

    /// Zone and node bits, for comparing.
    #[inline(always)]
    pub fn place(self) -> u32 {
        self.0 & PLACE_MASK
    }

    /// The frame's zone.
    #[inline(always)]
    pub fn zone_id(self) -> ZoneId {
        ZoneId::from_parts((self.0 >> NODE_SHIFT) & 0x3ff, (self.0 >> ZONE_SHIFT) & 0x7)
    }

    /// The frame's node.
    #[inline(always)]
    pub fn node(self) -> NodeId {
        NodeId(((self.0 >> NODE_SHIFT) & 0x3ff) as u16)
    }

    /// Index of the frame's zone type.
    #[inline(always)]
    pub fn zone_type_index(self) -> usize {
        ((self.0 >> ZONE_SHIFT) & 0x7) as usize
    }
}

/// One frame's descriptor. Aligned to its size: none lies in two cache lines.
#[derive(Debug)]
#[repr(align(32))]
pub struct Page {
    word: AtomicU32,
    pub(super) refcount: AtomicU32,
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
    pub(super) flags: AtomicU32,
    pub(super) mapcount: AtomicU32,
    pub(super) owner: AtomicU32,
    pub(super) index: AtomicU32,
}

const _: () = assert!(size_of::<Page>() == 32);

impl Page {
    fn reserved() -> Page {
        Page {
            word: AtomicU32::new(BlockFlags::RESERVED.bits()),
            refcount: AtomicU32::new(0),
            next: AtomicU32::new(u32::MAX),
            prev: AtomicU32::new(u32::MAX),
            flags: AtomicU32::new(0),
            mapcount: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            index: AtomicU32::new(0),
        }
    }

    /// The whole word.
    #[inline(always)]
    pub fn word(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// The whole word, to take apart.
    #[inline(always)]
    pub fn block(&self) -> BlockWord {
        BlockWord(self.word())
    }

    /// The flag bits.
    #[inline(always)]
    pub fn block_flags(&self) -> BlockFlags {
        BlockFlags::from_bits_truncate(self.word())
    }

    /// True if all of `flags` are set.
    #[inline(always)]
    pub fn has(&self, flags: BlockFlags) -> bool {
        self.block().has(flags)
    }

    /// The order field; valid for heads.
    #[inline(always)]
    pub fn order(&self) -> Order {
        self.block().order()
    }

    /// The cached migratetype; valid for blocks on per-CPU lists.
    #[inline(always)]
    pub fn migratetype(&self) -> MigrateType {
        self.block().migratetype()
    }

    /// Zone and node bits, for comparing.
    #[inline(always)]
    pub fn place(&self) -> u32 {
        self.block().place()
    }

    /// The frame's zone.
    #[inline(always)]
    pub fn zone_id(&self) -> ZoneId {
        self.block().zone_id()
    }

    /// The frame's node.
    #[inline(always)]
    pub fn node(&self) -> NodeId {
        self.block().node()
    }

    /// Replaces flags, order and cached type; zone and node stay.
    #[inline(always)]
    pub(crate) fn set(&self, flags: BlockFlags, order: Order, migratetype: MigrateType) {
        let place = self.word() & PLACE_MASK;
        let word = place | flags.bits() | u32::from(order.0) | (migratetype as u32) << TYPE_SHIFT;
        self.word.store(word, Relaxed);
    }

    /// Replaces the order, keeping the rest.
    #[inline(always)]
    pub(crate) fn set_order(&self, order: Order) {
        self.word.store((self.word() & !ORDER_MASK) | u32::from(order.0), Relaxed);
    }

    /// Replaces the cached migratetype, keeping the rest.
    #[inline(always)]
    pub(crate) fn set_migratetype(&self, migratetype: MigrateType) {
        self.word.store((self.word() & !TYPE_MASK) | (migratetype as u32) << TYPE_SHIFT, Relaxed);
    }

    /// Clears all flags, order and type (an ordinary tail frame).
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.word.store(self.word() & PLACE_MASK, Relaxed);
    }

    /// Sets flags of a page in use. The caller owns the page.
    pub fn insert_block_flags(&self, flags: BlockFlags) {
        self.word.store(self.word() | flags.bits(), Relaxed);
    }

    /// Clears flags of a page in use. The caller owns the page.
    pub fn remove_block_flags(&self, flags: BlockFlags) {
        self.word.store(self.word() & !flags.bits(), Relaxed);
    }

    fn set_place(&self, node: NodeId, zone: ZoneType) {
        let keep = self.word() & !PLACE_MASK;
        let place = (zone as u32) << ZONE_SHIFT | u32::from(node.0) << NODE_SHIFT;
        self.word.store(keep | place, Relaxed);
    }

    /// Number of users.
    #[inline(always)]
    pub fn refcount(&self) -> u32 {
        self.refcount.load(Relaxed)
    }

    /// Number of users; what other users did to the page before they left happened before this.
    ///
    /// Acquire pairs with the release in [`Page::put_ref`].
    #[inline(always)]
    pub(crate) fn refcount_acquire(&self) -> u32 {
        self.refcount.load(crate::sync::atomic::Ordering::Acquire)
    }

    /// Sets the number of users of a page nobody else can see yet.
    #[inline(always)]
    pub(crate) fn set_refcount(&self, count: u32) {
        self.refcount.store(count, Relaxed);
    }

    /// Adds a user. The caller has a reference already; who has none uses [`Page::try_get`].
    pub fn get_ref(&self) {
        self.refcount.fetch_add(1, Relaxed);
    }

    /// Drops a user; true if that was the last one.
    ///
    /// Release pairs with the acquire of whoever drops the last reference, so that all users'
    /// accesses happen before the page is reused.
    pub fn put_ref(&self) -> bool {
        use crate::sync::atomic::Ordering::AcqRel;
        self.refcount.fetch_sub(1, AcqRel) == 1
    }
}

/// The array of all descriptors, index = pfn.
#[derive(Debug)]
pub struct PageMap {
    pages: Box<[Page]>,
}

/// The descriptors as a slice: what [`super::PageList`] works on.
impl core::ops::Deref for PageMap {
    type Target = [Page];

    #[inline(always)]
    fn deref(&self) -> &[Page] {
        &self.pages
    }
}

impl PageMap {
    /// Descriptors for frames `0..nr_frames`, all reserved.
    pub fn new(nr_frames: u32) -> PageMap {
        let mut pages = Vec::with_capacity(nr_frames as usize);
        pages.resize_with(nr_frames as usize, Page::reserved);
        PageMap { pages: pages.into_boxed_slice() }
    }

    /// The descriptor of a frame, or of a folio's head.
    #[inline(always)]
    pub fn page(&self, at: impl Into<Pfn>) -> &Page {
        &self.pages[at.into().idx()]
    }

    /// The descriptor of a frame, if the frame exists.
    #[inline(always)]
    pub fn get(&self, pfn: Pfn) -> Option<&Page> {
        self.pages.get(pfn.idx())
    }

    /// Says which zone a range of frames belongs to.
    pub(crate) fn assign(&self, start: Pfn, nr: u32, node: NodeId, zone: ZoneType) {
        for pfn in start.0..start.0 + nr {
            self.page(Pfn(pfn)).set_place(node, zone);
        }
    }
}
