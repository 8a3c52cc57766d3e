//! State of a page in use: flags, mapcount, mapping and index; and references.
//!
//! | field | changed by | under |
//! |---|---|---|
//! | LRU, ACTIVE, UNEVICTABLE | lists and their batches | lru_lock while LRU is set, else the task that cleared LRU |
//! | LOCKED | anyone | atomically; the setter owns `mapping` and `index` of a cached page |
//! | DIRTY, WRITEBACK, UPTODATE, SWAPCACHE | holder of LOCKED (writeback's end: the interrupt) | atomically |
//! | WAITERS | `page_cache::page_waits` | the lock of the page's wait queue, to clear it |
//! | REFERENCED, NOTED, WORKINGSET, RECLAIM, MLOCKED, SWAPBACKED, MARKS | anyone | atomically |
//! | GENERATION | lists; uses that an aging finds, while it is not 0 | lru_lock; atomically |
//! | mapcount | code that changes a page table entry | the table's lock |
//!
//! On a host whose tasks share one thread ([`Host::THREADED`] is false) an atomic change is a load
//! and a store: nothing runs in between.

use core::fmt;

use bitflags::bitflags;

use super::Page;
use crate::host::Host;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

bitflags! {
    /// Flags of a page in use (rules/lru#flags).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct PageFlags: u32 {
        /// Owned by one task (or by the device that reads into it).
        const LOCKED = 1 << 0;
        /// Newer than its copy on the device.
        const DIRTY = 1 << 1;
        /// Being written to the device.
        const WRITEBACK = 1 << 2;
        /// Its contents are valid.
        const UPTODATE = 1 << 3;
        /// Reading or writing it failed.
        const ERROR = 1 << 4;
        /// Used since last looked at.
        const REFERENCED = 1 << 5;
        /// Belongs on an active list.
        const ACTIVE = 1 << 6;
        /// On an LRU list.
        const LRU = 1 << 7;
        /// Belongs on the unevictable list.
        const UNEVICTABLE = 1 << 8;
        /// Mapped by a locked region.
        const MLOCKED = 1 << 9;
        /// Backed by swap, if by anything: anonymous unless freed lazily.
        const SWAPBACKED = 1 << 10;
        /// In the swap cache; its slot: `swap::Swap::slot_of`.
        const SWAPCACHE = 1 << 11;
        /// Was deactivated once: part of a working set.
        const WORKINGSET = 1 << 12;
        /// The filesystem has private data for it.
        const PRIVATE = 1 << 13;
        /// To the tail when writeback ends; on a clean page: reading it starts readahead
        /// ([`PageFlags::READAHEAD`], the same bit).
        const RECLAIM = 1 << 14;
        /// Brought in by swap readahead and not used yet.
        const SWAP_READAHEAD = 1 << 15;
        /// Kernel memory: a page table.
        const TABLE = 1 << 16;
        /// Kernel memory: slab.
        const SLAB = 1 << 17;
        /// Held by something outside the model.
        const PINNED = 1 << 18;
        /// A large folio that waits to be split.
        const DEFERRED = 1 << 19;
        /// Anonymous, and mms forked from its own may also map it or name its slot. A writer
        /// must check whether it is the only user. (This is the opposite of the kernel's
        /// *exclusive*, so pages of mms that never fork need no mark.)
        const FORKED = 1 << 20;
        /// Kernel memory: a task's stack.
        const STACK = 1 << 21;
        /// Its filesystem keeps a buffer head with it, which goes where it goes.
        const BUFFERS = 1 << 22;
        /// Used again since REFERENCED was set, and left to reclaim to be made active (policy
        /// `handed-over`).
        const NOTED = 1 << 23;
        /// A task may wait for LOCKED or WRITEBACK to be cleared: set and cleared by
        /// `page_cache::page_waits`.
        const WAITERS = 1 << 24;
        /// Of each frame of a large folio of a file: this page of it was stored to, and is written
        /// when the folio is.
        const STORED = 1 << 25;
        /// Under MGLRU: the generation's place among four, plus 1; 0: in no generation.
        const GENERATION = 7 << 26;
        /// Under MGLRU: marks beyond those of REFERENCED and WORKINGSET.
        const MARKS = 3 << 29;
    }
}

impl PageFlags {
    /// Records of a page's uses, until reclaim checks them.
    pub const USED: PageFlags = PageFlags::REFERENCED.union(PageFlags::NOTED);
    /// Reading the page starts readahead; shares its bit with [`PageFlags::RECLAIM`].
    pub const READAHEAD: PageFlags = PageFlags::RECLAIM;
}

/// Number of an address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MmId(pub u32);

/// Number of a file (an inode).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl fmt::Debug for MmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{}", self.0)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{}", self.0)
    }
}

/// The mapping of a page: the address space or file it belongs to (`page->mapping`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageMapping {
    /// None: kernel memory, or removed from its file.
    None,
    /// An address space; the index is the virtual page number.
    Anon(MmId),
    /// A file; the index is the page's number in it.
    File(FileId),
}

/// The mapping is an address space.
#[doc(alias = "PAGE_MAPPING_ANON")]
const MAPPING_ANON: u32 = 1 << 31;

impl PageMapping {
    /// Numbers of address spaces and files are below this.
    pub const MAX: u32 = MAPPING_ANON - 1;

    const fn pack(self) -> u32 {
        match self {
            PageMapping::None => 0,
            PageMapping::Anon(mm) => MAPPING_ANON | mm.0,
            PageMapping::File(file) => file.0 + 1,
        }
    }

    const fn unpack(bits: u32) -> PageMapping {
        match bits {
            0 => PageMapping::None,
            b if b & MAPPING_ANON != 0 => PageMapping::Anon(MmId(b & !MAPPING_ANON)),
            b => PageMapping::File(FileId(b - 1)),
        }
    }
}

/// Flags.
impl Page {
    /// All flags of a page in use.
    #[inline(always)]
    pub fn flags(&self) -> PageFlags {
        PageFlags::from_bits_retain(self.flags.load(Relaxed))
    }

    /// True if all of `flags` are set.
    #[inline(always)]
    pub fn is(&self, flags: PageFlags) -> bool {
        self.flags.load(Relaxed) & flags.bits() == flags.bits()
    }

    /// Sets flags; returns the old flags.
    #[inline(always)]
    pub fn flag_set<H: Host>(&self, flags: PageFlags) -> PageFlags {
        let before = if H::THREADED {
            self.flags.fetch_or(flags.bits(), AcqRel)
        } else {
            let before = self.flags.load(Relaxed);
            self.flags.store(before | flags.bits(), Relaxed);
            before
        };
        PageFlags::from_bits_retain(before)
    }

    /// Clears flags; returns the old flags.
    #[inline(always)]
    pub fn flag_clear<H: Host>(&self, flags: PageFlags) -> PageFlags {
        let before = if H::THREADED {
            self.flags.fetch_and(!flags.bits(), AcqRel)
        } else {
            let before = self.flags.load(Relaxed);
            self.flags.store(before & !flags.bits(), Relaxed);
            before
        };
        PageFlags::from_bits_retain(before)
    }

    /// Clears a flag for a caller that has `seen` it set among the others and has not changed them
    /// since. Returns true if it was still set, which holds unless another task cleared it in
    /// between.
    #[inline(always)]
    pub(crate) fn flag_clear_seen<H: Host>(&self, seen: PageFlags, flag: PageFlags) -> bool {
        debug_assert!(seen.contains(flag));
        if H::THREADED {
            return self.flag_clear::<H>(flag).contains(flag);
        }
        self.flags.store((seen - flag).bits(), Relaxed);
        true
    }

    /// Clears some flags and sets others; others may see the page in between.
    #[inline(always)]
    pub fn flag_replace<H: Host>(&self, clear: PageFlags, set: PageFlags) {
        if H::THREADED {
            self.flag_clear::<H>(clear);
            self.flag_set::<H>(set);
        } else {
            let before = self.flags.load(Relaxed);
            self.flags.store(before & !clear.bits() | set.bits(), Relaxed);
        }
    }

    /// Changes flags in one step, as `change` says (none: not at all); returns the old flags.
    #[inline]
    pub(crate) fn flag_update<H: Host>(
        &self,
        change: impl Fn(PageFlags) -> Option<PageFlags>,
    ) -> PageFlags {
        if !H::THREADED {
            let before = self.flags();
            if let Some(flags) = change(before) {
                self.flags.store(flags.bits(), Relaxed);
            }
            return before;
        }
        let change = |bits| change(PageFlags::from_bits_retain(bits)).map(|flags| flags.bits());
        match self.flags.fetch_update(AcqRel, Acquire, change) {
            Ok(before) | Err(before) => PageFlags::from_bits_retain(before),
        }
    }

    /// Sets a flag; true if it was set before.
    #[inline(always)]
    pub fn flag_test_set<H: Host>(&self, flag: PageFlags) -> bool {
        self.flag_set::<H>(flag).intersects(flag)
    }

    /// Clears a flag; true if it was set before. Looks first: most pages do not have it.
    #[inline(always)]
    pub fn flag_test_clear<H: Host>(&self, flag: PageFlags) -> bool {
        self.flags().intersects(flag) && self.flag_clear::<H>(flag).intersects(flag)
    }

    /// Takes the page lock if it is free.
    #[inline(always)]
    pub fn try_lock<H: Host>(&self) -> bool {
        if H::THREADED {
            return !self.is(PageFlags::LOCKED) && !self.flag_test_set::<H>(PageFlags::LOCKED);
        }
        let before = self.flags.load(Relaxed);
        self.flags.store(before | PageFlags::LOCKED.bits(), Relaxed);
        before & PageFlags::LOCKED.bits() == 0
    }

    /// A page fresh from the allocator: no flags, not mapped, no mapping.
    #[inline(always)]
    pub(crate) fn reset_usage(&self) {
        self.flags.store(0, Relaxed);
        self.mapcount.store(0, Relaxed);
        self.mapping.store(0, Relaxed);
    }

    /// Sets all flags of a page that no other task can see yet.
    #[inline(always)]
    pub(crate) fn init_flags(&self, flags: PageFlags) {
        self.flags.store(flags.bits(), Relaxed);
    }

    /// Sets the mapcount of a page that no other task can see.
    #[inline(always)]
    pub(crate) fn init_mapcount(&self, n: u32) {
        self.mapcount.store(n, Relaxed);
    }

    /// On the file lists: page cache, or anonymous memory freed lazily.
    #[inline(always)]
    pub fn is_file_lru(&self) -> bool {
        !self.is(PageFlags::SWAPBACKED)
    }

    /// No locked region maps it: it may be on the lists that reclaim scans.
    #[inline(always)]
    pub fn is_evictable(&self) -> bool {
        !self.is(PageFlags::MLOCKED)
    }

    /// Reports whether the page is anonymous. A page of the swap cache is, even before a fault gave
    /// it a mapping.
    #[doc(alias = "folio_test_anon")]
    #[doc(alias = "PageAnon")]
    #[inline(always)]
    pub fn is_anon(&self) -> bool {
        self.mapping.load(Relaxed) & MAPPING_ANON != 0 || self.is(PageFlags::SWAPCACHE)
    }
}

/// Mapping and mapcount.
impl Page {
    /// Returns the address space or file that the page belongs to.
    #[doc(alias = "folio_mapping")]
    #[doc(alias = "page_mapping")]
    #[inline(always)]
    pub fn mapping(&self) -> PageMapping {
        PageMapping::unpack(self.mapping.load(Relaxed))
    }

    /// Returns the page's number within its mapping.
    #[doc(alias = "folio_index")]
    #[doc(alias = "page_index")]
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index.load(Relaxed)
    }

    /// Sets the mapping and the page's number in it.
    #[inline(always)]
    pub(crate) fn set_mapping(&self, mapping: PageMapping, index: u32) {
        self.index.store(index, Relaxed);
        self.mapping.store(mapping.pack(), Relaxed);
    }

    /// Returns the number of page table entries that map the page.
    #[doc(alias = "page_mapcount")]
    #[inline(always)]
    pub fn mapcount(&self) -> u32 {
        self.mapcount.load(Relaxed)
    }

    /// Mapped at all.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        self.mapcount() != 0
    }

    /// `n` mappings more; true if they are the first.
    #[inline(always)]
    pub(crate) fn map_add<H: Host>(&self, n: u32) -> bool {
        if H::THREADED {
            return self.mapcount.fetch_add(n, AcqRel) == 0;
        }
        let before = self.mapcount.load(Relaxed);
        self.mapcount.store(before + n, Relaxed);
        before == 0
    }

    /// `n` mappings less; true if they were the last.
    #[inline(always)]
    pub(crate) fn map_remove<H: Host>(&self, n: u32) -> bool {
        count_down::<H>(&self.mapcount, n)
    }
}

/// Counts of a large folio that lie in the descriptor of its second frame, which has no mapping of
/// its own.
impl Page {
    /// Mappings of the folio's first page alone.
    #[inline]
    pub(super) fn first_mapped(&self) -> &AtomicU32 {
        &self.index
    }

    /// The mapcount itself: of a frame of a large folio that is not the first, the entries that map
    /// this page.
    #[inline]
    pub(super) fn mapcount_cell(&self) -> &AtomicU32 {
        &self.mapcount
    }

    /// Pages of the folio that a device still has.
    #[inline]
    pub(super) fn pieces(&self) -> &AtomicU32 {
        &self.mapping
    }
}

/// Subtracts from a count of a page; true if nothing is left.
#[inline(always)]
pub(super) fn count_down<H: Host>(count: &AtomicU32, n: u32) -> bool {
    let before = if H::THREADED {
        count.fetch_sub(n, AcqRel)
    } else {
        let before = count.load(Relaxed);
        count.store(before.wrapping_sub(n), Relaxed);
        before
    };
    debug_assert!(before >= n, "less was counted than goes");
    before == n
}

/// Adds one to a count of a page; true if it was 0.
#[inline(always)]
pub(super) fn count_up<H: Host>(count: &AtomicU32) -> bool {
    if H::THREADED {
        return count.fetch_add(1, AcqRel) == 0;
    }
    let before = count.load(Relaxed);
    count.store(before + 1, Relaxed);
    before == 0
}

/// References.
impl Page {
    /// Adds `n` references; the caller has one.
    #[doc(alias = "folio_get")]
    #[doc(alias = "get_page")]
    #[inline(always)]
    pub fn get<H: Host>(&self, n: u32) {
        if H::THREADED {
            self.refcount.fetch_add(n, Relaxed);
        } else {
            self.refcount.store(self.refcount.load(Relaxed) + n, Relaxed);
        }
    }

    /// Adds a reference unless the page has none (it is being freed).
    #[doc(alias = "folio_try_get")]
    #[doc(alias = "get_page_unless_zero")]
    #[inline(always)]
    pub fn try_get<H: Host>(&self) -> bool {
        if H::THREADED {
            return self
                .refcount
                .fetch_update(Acquire, Relaxed, |n| (n != 0).then_some(n + 1))
                .is_ok();
        }
        let n = self.refcount.load(Relaxed);
        if n != 0 {
            self.refcount.store(n + 1, Relaxed);
        }
        n != 0
    }

    /// Drops `n` references; true if those were the last. The page then belongs to the caller,
    /// which takes it off its list and frees it (`Kernel::put_page` does all of that).
    #[doc(alias = "folio_put_testzero")]
    #[doc(alias = "put_page_testzero")]
    #[inline(always)]
    pub fn put<H: Host>(&self, n: u32) -> bool {
        let before = if H::THREADED {
            self.refcount.fetch_sub(n, AcqRel)
        } else {
            let before = self.refcount.load(Relaxed);
            self.refcount.store(before.wrapping_sub(n), Relaxed);
            before
        };
        debug_assert!(before >= n, "more references dropped than taken");
        before == n
    }

    /// See [`Page::freeze`].
    #[inline(always)]
    pub(super) fn take_references<H: Host>(&self, n: u32) -> bool {
        if H::THREADED {
            return self.refcount.compare_exchange(n, 0, AcqRel, Relaxed).is_ok();
        }
        let same = self.refcount.load(Relaxed) == n;
        if same {
            self.refcount.store(0, Relaxed);
        }
        same
    }

    /// Gives `n` references back after [`Page::freeze`] and [`super::Frozen::keep`].
    #[inline(always)]
    pub fn unfreeze(&self, n: u32) {
        self.refcount.store(n, Release);
    }
}
