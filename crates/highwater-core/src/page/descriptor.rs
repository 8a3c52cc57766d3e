//! A frame's descriptor, 32 bytes.
//!
//! ```text
//! word      31..20 flags | 19..10 node | 9..7 zone | 6..4 migratetype (cached) | 3..0 order
//! refcount  users of the page; 0 while it is free
//! next prev neighbours on the one list the frame is on; of a free block that waits to be linked, that and where it waits
//! flags     what the users of the page say of it: super::PageFlags
//! mapcount  page table entries that map it
//! mapping   address space or file the page belongs to: super::PageMapping
//! index     page index in the file, or virtual page number in the address space
//! ```
//!
//! A descriptor of zeros belongs to a frame that the allocator never had: fresh memory is an array
//! of those ([`super::map`]). A bit that is never cleared marks the allocator's frames.
//!
//! Synchronisation: while `BUDDY` is set, word and links belong to the holder of the zone lock;
//! while `PCP` is set, to the holder of that per-CPU lock; otherwise to the page's user. A word is
//! read and written whole, so a neighbour that reads it while merging sees the old or the new one.
//! For `flags`, `mapcount`, `mapping` and `index` see [`super::usage`].

use bitflags::bitflags;

use super::{MigrateType, Order};
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
/// Which zone of which node.
const ZONE_MASK: u32 = 0x1fff << ZONE_SHIFT;
/// The allocator got the frame. Without it: kernel image, page array, holes.
const MANAGED: u32 = 1 << 26;
/// Bits that never change after boot.
const PLACE_MASK: u32 = ZONE_MASK | MANAGED;

/// A page word that was read once. Decisions that need several fields take them from one value, so
/// that the fields are consistent.
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

    /// What never changes, for comparing: zone, node, and that the allocator has the frame.
    #[inline(always)]
    pub fn place(self) -> u32 {
        self.0 & PLACE_MASK
    }

    /// True of the head of a block of `order` in use, in a place as [`Self::place`] says it. One comparison: nearly every
    /// free asks.
    #[inline(always)]
    pub(crate) fn is_in_use(self, place: u32, order: Order) -> bool {
        self.is_head_of(BlockFlags::USED, place, order)
    }

    /// Reports whether the word is that of the head of a free block of `order` on a buddy list, in
    /// a place as [`Self::place`] says it.
    #[doc(alias = "page_is_buddy")]
    #[inline(always)]
    pub(crate) fn is_free(self, place: u32, order: Order) -> bool {
        self.is_head_of(BlockFlags::BUDDY, place, order)
    }

    #[inline(always)]
    fn is_head_of(self, flag: BlockFlags, place: u32, order: Order) -> bool {
        let asked = flag.bits() | ORDER_MASK | PLACE_MASK;
        self.0 & asked == flag.bits() | place | u32::from(order.0)
    }

    /// The word of a frame of a place of which nothing is said.
    #[inline(always)]
    pub(crate) fn at(place: u32) -> BlockWord {
        BlockWord(place)
    }

    /// True if the allocator never got the frame (kernel image, page array, holes).
    #[inline(always)]
    pub fn is_reserved(self) -> bool {
        self.0 & MANAGED == 0
    }

    /// What [`Self::place`] says of frames of a zone that are the allocator's.
    pub(crate) fn managed_place(node: NodeId, zone: ZoneType) -> u32 {
        BlockWord::reserved(node, zone).0 | MANAGED
    }

    /// The word that a frame of a zone has that the allocator did not get.
    pub(super) fn reserved(node: NodeId, zone: ZoneType) -> BlockWord {
        BlockWord((zone as u32) << ZONE_SHIFT | u32::from(node.0) << NODE_SHIFT)
    }

    /// The word of a frame in the same place that is the head of a free block.
    pub(super) fn free(self, order: Order, migratetype: MigrateType) -> BlockWord {
        BlockWord(self.0 | MANAGED).with(BlockFlags::BUDDY, order, migratetype)
    }

    /// The word of a frame in the same place of which nothing is said: in a block, or the head of none.
    #[inline(always)]
    pub(crate) fn tail(self) -> BlockWord {
        BlockWord(self.place())
    }

    /// The word of a frame in the same place with these flags, order and cached type.
    #[inline(always)]
    pub(crate) fn with(
        self,
        flags: BlockFlags,
        order: Order,
        migratetype: MigrateType,
    ) -> BlockWord {
        let word = self.place() | flags.bits() | u32::from(order.0);
        BlockWord(word | (migratetype as u32) << TYPE_SHIFT)
    }

    /// From a word that was stored.
    pub(super) const fn from_word(word: u32) -> BlockWord {
        BlockWord(word)
    }

    /// To store it.
    pub(super) const fn to_word(self) -> u32 {
        self.0
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

/// One frame's descriptor (`struct page`). The page array is aligned to cache lines, so no
/// descriptor crosses one.
#[doc(alias = "page")]
#[derive(Debug)]
pub struct Page {
    word: AtomicU32,
    pub(super) refcount: AtomicU32,
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
    pub(super) flags: AtomicU32,
    pub(super) mapcount: AtomicU32,
    pub(super) mapping: AtomicU32,
    pub(super) index: AtomicU32,
}

const _: () = assert!(size_of::<Page>() == 32);

impl Page {
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

    /// What never changes, for comparing ([`BlockWord::place`]).
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
        self.set_block(self.block().with(flags, order, migratetype));
    }

    /// Replaces the whole word by one of the same place.
    #[inline(always)]
    pub(crate) fn set_block(&self, word: BlockWord) {
        debug_assert_eq!(word.place(), self.place(), "a frame's place never changes");
        self.word.store(word.0, Relaxed);
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
        self.set_block(self.block().tail());
    }

    /// Sets flags of a page in use. The caller owns the page.
    pub fn insert_block_flags(&self, flags: BlockFlags) {
        self.word.store(self.word() | flags.bits(), Relaxed);
    }

    /// Clears flags of a page in use. The caller owns the page.
    pub fn remove_block_flags(&self, flags: BlockFlags) {
        self.word.store(self.word() & !flags.bits(), Relaxed);
    }

    /// Gives the frame its word and no list neighbours. No other code may access the frame yet.
    pub(super) fn init(&self, word: BlockWord) {
        self.next.store(u32::MAX, Relaxed);
        self.prev.store(u32::MAX, Relaxed);
        self.word.store(word.0, Relaxed);
    }

    /// Says which zone the frame belongs to.
    pub(super) fn set_place(&self, place: BlockWord) {
        self.word.store(self.word() & !ZONE_MASK | place.0 & ZONE_MASK, Relaxed);
    }

    /// Says whether the allocator has the frame.
    pub(super) fn set_managed(&self, is_managed: bool) {
        let bit = if is_managed { MANAGED } else { 0 };
        self.word.store(self.word() & !MANAGED | bit, Relaxed);
    }

    /// Number of users.
    #[inline(always)]
    pub fn refcount(&self) -> u32 {
        self.refcount.load(Relaxed)
    }

    /// Number of users. All accesses of users that left happened before this read.
    ///
    /// Acquire pairs with the release in [`Page::put_ref`].
    #[inline(always)]
    pub(crate) fn refcount_acquire(&self) -> u32 {
        self.refcount.load(crate::sync::atomic::Ordering::Acquire)
    }

    /// Sets the number of users of a page that no other task can see yet.
    #[inline(always)]
    pub(crate) fn set_refcount(&self, count: u32) {
        self.refcount.store(count, Relaxed);
    }

    /// Adds a user. The caller must have a reference already; without one, use [`Page::try_get`].
    pub fn get_ref(&self) {
        self.refcount.fetch_add(1, Relaxed);
    }

    /// Drops a user; true if that was the last one.
    ///
    /// Release pairs with the acquire when the last reference is dropped, so all users' accesses
    /// happen before the page is reused.
    pub fn put_ref(&self) -> bool {
        use crate::sync::atomic::Ordering::AcqRel;
        self.refcount.fetch_sub(1, AcqRel) == 1
    }
}
