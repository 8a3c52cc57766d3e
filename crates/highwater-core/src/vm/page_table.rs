//! Page tables of the lowest level.
//!
//! [`PageTable`] is 512 entries ([`Pte`]). The kernel changes them under the table's lock, through
//! [`Ptes`]. The program's accesses ([`PageTable::access`]) take no lock, like a processor's page
//! walk. They only set young and dirty, atomically, in an otherwise unchanged entry. So a task that
//! clears an entry gets those bits, or the access misses.
//!
//! # Leaves above the lowest level
//!
//! The entry above a table may map all of the table's range at once: a *leaf*, over a folio of the
//! table's size. It is kept with the table, whose own entries are then all empty. (Linux too
//! deposits a table under a huge mapping, for a later split.) So code that finds a table, locks it
//! and reads an entry need not handle leaves:
//!
//! | function | result under a leaf |
//! |---|---|
//! | [`Ptes::get`], [`PageTable::peek`] | the entry that a split would leave there |
//! | [`PageTable::access`] | the leaf's bits set |
//! | [`Ptes::take`], [`Ptes::set`] | a split first |
//! | [`Ptes::clear_young`] | the leaf's bit, once for all |
//! | [`Ptes::leaf`], [`Ptes::take_leaf`] | the leaf itself |
//!
//! A leaf holds one reference and one mapping of its folio per page, so a split changes no count.
//!
//! A table whose whole leaf was removed is *bare*. Linux then frees the deposited table. Here it
//! stays, because a fault may have found it already; faults treat the range as unmapped.
//!
//! # The accessed bit of the entry above
//!
//! A processor also sets the accessed bit of the entry that points to a table. MGLRU's walk skips a
//! table whose bit is clear ([`PageTable::is_used`], rules/mglru#walk). Here the bit is clear only
//! if no entry of the table is young, so an access that finds its entry young need not set it:
//!
//! | step | the bit |
//! |---|---|
//! | the table is made | set, as x86 makes it |
//! | [`PageTable::access`] makes an entry young | set |
//! | [`Ptes::set`] stores a young entry | set |
//! | a walk clears young bits and leaves none ([`Ptes::take_use`]) | cleared |
//!
//! Linux: the bit of a table that misses the filter is cleared too, and only an access that walks
//! the tables sets it again. Here such a table keeps it, and the next walk asks the filter again.
//! A walk for one node also leaves the bit while pages of other nodes are young. The cost is a
//! look at some tables that Linux would skip.

use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::hot_entries::HotEntries;
use super::pte::{DIRTY, Pte, WRITABLE, YOUNG, is_present};
use crate::host::{CpuId, Lock, Tasks};
use crate::page::{Folio, Pfn};
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::order::LockClass;
use crate::sync::prefetch::prefetch_read;

/// Entries a table holds.
pub const PTES: usize = 512;

/// A table of the lowest level: 2 MiB of an address space.
///
/// The data that a sweep reads of each table are in its first cache line.
#[repr(C)]
pub struct PageTable<H: Tasks> {
    /// An entry that maps the whole range instead; then `entries` are all empty. 0 = none.
    leaf: AtomicU32,
    /// The frame that holds it.
    pub pfn: Pfn,
    /// Entries that no access would change; kept on hosts whose tasks take turns
    /// ([`PageTable::access_run`]).
    hot: HotEntries,
    /// No entry and no leaf: a fault treats the range as if there were no table.
    is_bare: AtomicBool,
    /// The accessed bit of the entry above: false only if no entry is young.
    is_used: AtomicBool,
    lock: H::Lock<()>,
    entries: [AtomicU32; PTES],
}

/// A locked table. Entries are indexed by the low nine bits of the virtual page number; higher bits
/// are ignored.
pub struct Ptes<'a, H: Tasks + 'a> {
    table: &'a PageTable<H>,
    _guard: <H::Lock<()> as Lock<()>>::Guard<'a>,
}

const INDEX_MASK: u32 = PTES as u32 - 1;
/// The bits of an entry that no access changes any more.
const HOT: u32 = WRITABLE | YOUNG | DIRTY;

#[inline(always)]
const fn is_hot(entry: u32) -> bool {
    entry & HOT == HOT && is_present(entry)
}

impl<H: Tasks> PageTable<H> {
    /// An empty table in frame `pfn`.
    pub fn new(host: &H, pfn: Pfn) -> Self {
        let entries = core::array::from_fn(|_| AtomicU32::new(0));
        let lock = host.new_lock(LockClass::PageTable, ());
        let (leaf, hot) = (AtomicU32::new(0), HotEntries::none());
        let (is_bare, is_used) = (AtomicBool::new(false), AtomicBool::new(true));
        PageTable { pfn, entries, leaf, is_bare, is_used, hot, lock }
    }

    /// As [`PageTable::new`], set aside for a leaf.
    pub(super) fn new_bare(host: &H, pfn: Pfn) -> Self {
        PageTable { is_bare: AtomicBool::new(true), ..PageTable::new(host, pfn) }
    }

    /// It is only kept for a leaf, and there is none: a huge page may be mapped here. Certain under
    /// the lock only.
    pub(crate) fn is_bare(&self) -> bool {
        self.is_bare.load(Relaxed)
    }

    /// An access went through the table since a walk last cleared this, or an entry is still young
    /// (module docs).
    #[doc(alias = "pmd_young")]
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// An entry became young. On hosts with real accesses the store follows the entry's bit, so a
    /// walk that clears this first and then reads the entries misses neither; of several accesses
    /// at once it may, and finds the entry with the next access.
    #[inline(always)]
    fn note_use(&self) {
        self.is_used.store(true, Release);
    }

    /// True if an entry is young although the table counts as unused; for audits.
    pub(crate) fn is_wrongly_unused(&self) -> bool {
        !H::THREADED && !self.is_used() && self.has_young()
    }

    /// True if an entry of a single page is young.
    fn has_young(&self) -> bool {
        self.entries.iter().any(|entry| Pte(entry.load(Relaxed)).is_young())
    }

    /// The leaf as it is now, if there is one: for audits.
    pub(crate) fn peek_leaf(&self) -> Option<Pte> {
        let leaf = Pte(self.leaf.load(Acquire));
        leaf.is_present().then_some(leaf)
    }

    /// The first entry whose record (hot or not) is wrong; for audits.
    pub(crate) fn wrongly_hot(&self) -> Option<u32> {
        let is_wrong = |(at, entry): (usize, &AtomicU32)| {
            let is_wrong = !H::THREADED && is_hot(entry.load(Relaxed)) != self.hot.has(at);
            is_wrong.then_some(at as u32)
        };
        self.entries.iter().enumerate().find_map(is_wrong)
    }

    /// As many entries are counted as hot as are noted: for audits.
    pub(crate) fn hot_are_counted(&self) -> bool {
        self.hot.is_counted()
    }

    /// Replaces the entry of `vpn`, on hosts whose tasks take turns.
    #[inline(always)]
    fn replace(&self, vpn: u32, old: u32, new: u32) {
        self.entry(vpn).store(new, Relaxed);
        if is_hot(old) != is_hot(new) {
            self.hot.flip((vpn & INDEX_MASK) as usize);
        }
    }

    /// Locks the table (PTL).
    #[inline]
    pub fn lock(&self, cpu: CpuId) -> Ptes<'_, H> {
        Ptes { table: self, _guard: self.lock.lock(cpu) }
    }

    /// Locks the table if that needs no waiting.
    #[inline]
    pub fn try_lock(&self, cpu: CpuId) -> Option<Ptes<'_, H>> {
        self.lock.try_lock(cpu).map(|guard| Ptes { table: self, _guard: guard })
    }

    #[inline(always)]
    fn entry(&self, vpn: u32) -> &AtomicU32 {
        &self.entries[(vpn & INDEX_MASK) as usize]
    }

    /// An entry as it is now; without the lock it may change at once.
    #[inline(always)]
    pub fn peek(&self, vpn: u32) -> Pte {
        match self.entry(vpn).load(Acquire) {
            0 => self.part_of_leaf(vpn),
            entry => Pte(entry),
        }
    }

    /// The entry that a split of the leaf would make for a page; none if there is no leaf.
    #[inline]
    fn part_of_leaf(&self, vpn: u32) -> Pte {
        match self.leaf.load(Acquire) {
            0 => Pte::NONE,
            leaf => Pte(leaf).part(vpn),
        }
    }

    /// Acts as the processor does for an access: sets young, and dirty for a write. False if it has
    /// to fault instead.
    #[inline(always)]
    pub fn access(&self, vpn: u32, is_write: bool) -> bool {
        // A hot entry is one that no access changes. Its bit lies in a line that stays in the cache
        // of the computer; the entry itself, of a random page of much memory, does not.
        if !H::THREADED && self.hot.has((vpn & INDEX_MASK) as usize) {
            return true;
        }
        let (needs, sets) = match is_write {
            false => (0, YOUNG),
            true => (WRITABLE, YOUNG | DIRTY),
        };
        let entry = self.entry(vpn);
        let mut old = entry.load(Relaxed);
        loop {
            if old & needs != needs || !is_present(old) {
                return old == 0 && self.access_leaf(needs, sets);
            }
            if old & sets == sets {
                return true;
            }
            if !H::THREADED {
                self.replace(vpn, old, old | sets);
                self.note_use();
                return true;
            }
            match entry.compare_exchange_weak(old, old | sets, AcqRel, Relaxed) {
                Ok(_) => {
                    self.note_use();
                    return true;
                }
                Err(now) => old = now,
            }
        }
    }

    /// Accesses pages of this table in order until one would fault; returns their number. It skips
    /// entries that an access would not change; on hosts with real accesses there is no record of
    /// these.
    #[inline(always)]
    pub(crate) fn access_run(&self, vpns: Range<u32>, is_write: bool) -> u32 {
        if H::THREADED {
            return vpns.take_while(|&vpn| self.access(vpn, is_write)).count() as u32;
        }
        if self.is_all_hot() {
            return vpns.end - vpns.start;
        }
        self.access_some(vpns, is_write)
    }

    /// No access to any page of the table changes anything. Not known where accesses are real.
    #[inline(always)]
    pub(crate) fn is_all_hot(&self) -> bool {
        self.hot.is_full() || is_hot(self.leaf.load(Relaxed))
    }

    /// [`PageTable::access_run`] of a table some entries of which may not be hot.
    #[inline(never)]
    fn access_some(&self, vpns: Range<u32>, is_write: bool) -> u32 {
        let start = (vpns.start & INDEX_MASK) as usize;
        let end = start + vpns.len();
        let mut at = self.hot.next_cold(start..end);
        while at < end && self.access(at as u32, is_write) {
            at = self.hot.next_cold(at + 1..end);
        }
        (at - start) as u32
    }
}

impl<H: Tasks> PageTable<H> {
    /// [`PageTable::access_run`] will be asked of this table soon.
    #[inline(always)]
    pub(crate) fn access_soon(&self) {
        prefetch_read(&self.leaf);
    }

    /// An access where only a leaf can map the page.
    #[cold]
    fn access_leaf(&self, needs: u32, sets: u32) -> bool {
        let may = |leaf: u32| leaf & needs == needs && is_present(leaf);
        let take = |leaf: u32| may(leaf).then_some(leaf | sets);
        self.leaf.fetch_update(AcqRel, Relaxed, take).is_ok()
    }
}

/// Tables that a fork fills.
impl<H: Tasks> PageTable<H> {
    /// Stores the first entry of a page in the table of an mm in which no task runs yet. It needs
    /// no lock: a reverse-map walk that finds the table ignores an empty entry, and any entry that
    /// it finds is complete.
    pub(super) fn fill(&self, vpn: u32, pte: Pte) {
        let entry = self.entry(vpn);
        debug_assert!(entry.load(Relaxed) == 0 && self.leaf.load(Relaxed) == 0);
        if self.is_bare() {
            // It was made for a leaf, which the parent's reclaim split meanwhile.
            self.is_bare.store(false, Relaxed);
        }
        if H::THREADED {
            entry.store(pte.0, Release);
        } else {
            self.replace(vpn, 0, pte.0);
        }
        if pte.is_young() {
            self.note_use();
        }
    }

    /// As [`PageTable::fill`], a leaf.
    pub(super) fn fill_leaf(&self, leaf: Pte) {
        debug_assert!(self.entries.iter().all(|entry| entry.load(Relaxed) == 0));
        self.is_bare.store(false, Relaxed);
        self.leaf.store(leaf.0, Release);
    }
}

/// Leaves.
impl<H: Tasks> Ptes<'_, H> {
    /// The leaf, if there is one: an entry with the first frame of the range.
    #[inline(always)]
    pub fn leaf(&self) -> Option<Pte> {
        self.table.peek_leaf()
    }

    /// Maps the whole range by one entry, with the first frame of the range. Nothing may be mapped
    /// there.
    pub fn set_leaf(&mut self, leaf: Pte) {
        debug_assert!(self.table.entries.iter().all(|entry| entry.load(Relaxed) == 0));
        self.table.is_bare.store(false, Relaxed);
        self.table.leaf.store(leaf.0, Release);
    }

    /// Marks the table as bare, so that it waits for the next leaf; or (false) as used for entries
    /// from now on.
    pub(super) fn set_bare(&mut self, is_bare: bool) {
        debug_assert!(!is_bare || self.leaf().is_none());
        if self.table.is_bare() != is_bare {
            self.table.is_bare.store(is_bare, Relaxed);
        }
    }

    /// Is the table only kept for a leaf?
    pub(super) fn is_bare(&self) -> bool {
        self.table.is_bare()
    }

    /// Clears the leaf and returns it; none if there is none.
    pub fn take_leaf(&mut self) -> Option<Pte> {
        // Under the lock, so no other task sets one.
        if self.table.leaf.load(Relaxed) == 0 {
            return None;
        }
        let leaf = Pte(self.table.leaf.swap(0, AcqRel));
        leaf.is_present().then_some(leaf)
    }

    /// Entries of single pages take the place of the leaf, if there is one, with the same bits.
    #[cold]
    pub fn split_leaf(&mut self) {
        if let Some(leaf) = self.take_leaf() {
            for vpn in 0..PTES as u32 {
                self.set(vpn, leaf.part(vpn));
            }
        }
    }

    /// Before an entry is changed that says nothing: a leaf may speak for it.
    #[inline(always)]
    fn split_for(&mut self, entry: u32) {
        if entry == 0 && self.table.leaf.load(Relaxed) != 0 {
            self.split_leaf();
        }
    }
}

/// Entries.
impl<H: Tasks> Ptes<'_, H> {
    /// An entry. A present one may become young or dirty meanwhile.
    #[inline(always)]
    pub fn get(&self, vpn: u32) -> Pte {
        self.table.peek(vpn)
    }

    /// True if an entry maps a frame of a folio.
    #[inline(always)]
    pub fn maps(&self, vpn: u32, folio: Folio) -> bool {
        self.get(vpn).pfn().is_some_and(|pfn| folio.contains(pfn))
    }

    /// Stores an entry. Over a present one this may lose a young or dirty bit: [`Ptes::take`] it
    /// first.
    #[inline(always)]
    pub fn set(&mut self, vpn: u32, pte: Pte) {
        self.split_for(self.table.entry(vpn).load(Relaxed));
        let entry = self.table.entry(vpn);
        if H::THREADED {
            entry.store(pte.0, Release);
        } else {
            self.table.replace(vpn, entry.load(Relaxed), pte.0);
        }
        if pte.is_young() {
            self.table.note_use();
        }
    }

    /// Clears an entry and returns it, with the last young and dirty bits.
    #[inline(always)]
    pub fn take(&mut self, vpn: u32) -> Pte {
        self.split_for(self.table.entry(vpn).load(Relaxed));
        let entry = self.table.entry(vpn);
        if H::THREADED {
            return Pte(entry.swap(0, AcqRel));
        }
        let old = entry.load(Relaxed);
        self.table.replace(vpn, old, 0);
        Pte(old)
    }

    /// Clears the young bit; true if it was set.
    #[inline(always)]
    pub fn clear_young(&mut self, vpn: u32) -> bool {
        if !self.get(vpn).is_young() {
            return false;
        }
        let entry = self.table.entry(vpn);
        if entry.load(Relaxed) == 0 {
            self.table.leaf.fetch_and(!YOUNG, AcqRel);
            return true;
        }
        if H::THREADED {
            entry.fetch_and(!YOUNG, AcqRel);
        } else {
            let old = entry.load(Relaxed);
            self.table.replace(vpn, old, old & !YOUNG);
        }
        true
    }
}

/// The accessed bit of the entry above (module docs).
impl<H: Tasks> Ptes<'_, H> {
    /// Clears the bit, before a walk that clears young bits.
    #[doc(alias = "pmdp_clear_young_notify")]
    pub(super) fn take_use(&mut self) {
        self.table.is_used.swap(false, AcqRel);
    }

    /// Ends such a walk: the bit is set again if an entry is still young. `all_old`: the walk saw
    /// all entries of the table and left none young.
    pub(super) fn settle_use(&mut self, all_old: bool) {
        if !all_old && self.table.has_young() {
            self.table.note_use();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;

    #[test]
    fn an_access_sets_what_the_processor_sets_or_faults() {
        let host = Solo::default();
        let table: PageTable<Solo> = PageTable::new(&host, Pfn(1));
        assert!(!table.access(7, false), "nothing there");
        let clean = Pte::new(Pfn(9)).with_young(false);
        table.lock(CpuId(0)).set(7, clean);
        assert!(!table.access(7, true), "read-only");
        assert_eq!(table.peek(7), clean, "a fault leaves the entry alone");
        assert!(table.access(7 + 512, false), "only the low bits count");
        assert!(table.peek(7).is_young() && !table.peek(7).is_dirty());
        let mut ptes = table.lock(CpuId(0));
        assert!(ptes.clear_young(7) && !ptes.clear_young(7));
        ptes.set(7, clean.with_writable(true));
        assert!(table.access(7, true));
        let gone = ptes.take(7);
        assert!(gone.is_young() && gone.is_dirty() && ptes.get(7).is_none());
        assert!(!table.access(7, false));
    }

    #[test]
    fn a_table_is_used_while_an_entry_is_young() {
        let host = Solo::default();
        let table: PageTable<Solo> = PageTable::new(&host, Pfn(1));
        assert!(table.is_used(), "as it is made");
        let old = Pte::new(Pfn(9)).with_writable(true).with_young(false);
        let walk = |vpn, all_old| {
            let mut ptes = table.lock(CpuId(0));
            ptes.take_use();
            ptes.clear_young(vpn);
            ptes.settle_use(all_old);
            assert!(!table.is_wrongly_unused());
            table.is_used()
        };
        table.lock(CpuId(0)).set(7, old);
        table.lock(CpuId(0)).set(8, old);
        assert!(!walk(7, false) && table.access(7, false) && table.is_used());
        assert!(!walk(7, true) && table.access_run(7..9, true) == 2 && table.is_used());
        assert!(walk(7, false), "the other one is young");
        assert!(!walk(8, false));
        table.lock(CpuId(0)).set(9, old.with_young(true));
        assert!(table.is_used(), "a fault's access");
        assert!(!walk(9, false));
        table.entry(9).store(old.with_young(true).0, Relaxed);
        assert!(table.is_wrongly_unused());
    }

    /// A run gives the same result as single accesses, and leaves the same entries.
    #[test]
    fn a_run_of_accesses_does_what_each_alone_does() {
        let host = Solo::default();
        let table: PageTable<Solo> = PageTable::new(&host, Pfn(1));
        assert_eq!(table.access_run(0..512, false), 0, "nothing there");
        for vpn in 0..500 {
            let pte = Pte::new(Pfn(vpn)).with_young(vpn % 7 != 0);
            table.lock(CpuId(0)).set(vpn, pte.with_writable(vpn != 300));
        }
        assert_eq!(table.access_run(512 + 10..512 + 200, true), 190);
        assert!((0..500).all(|vpn| table.peek(vpn).is_dirty() == (10..200).contains(&vpn)));
        assert_eq!(table.access_run(0..512, true), 300, "one that is read-only");
        assert!(!table.peek(301).is_dirty() && table.peek(299).is_dirty());
        assert_eq!(table.access_run(0..512, false), 500, "and to where there is none");
        assert!((0..500).all(|vpn| table.peek(vpn).is_young()));
        table.lock(CpuId(0)).clear_young(3);
        table.lock(CpuId(0)).take(70);
        assert_eq!((table.access_run(0..70, false), table.access_run(0..512, true)), (70, 70));
        assert!(table.peek(3).is_young());
        assert_eq!(table.access_run(70..71, false), 0);
        assert_eq!(table.wrongly_hot(), None);
        table.entry(9).store(0, Relaxed);
        assert_eq!(table.wrongly_hot(), Some(9));
    }

    #[test]
    fn a_leaf_speaks_for_every_page_until_it_is_split() {
        let host = Solo::default();
        let table = PageTable::new(&host, Pfn(1));
        let leaf = Pte::new(Pfn(512)).with_young(false).with_writable(true);
        table.lock(CpuId(0)).set_leaf(leaf);
        assert_eq!(table.peek(3 + 512).pfn(), Some(Pfn(515)));
        assert!(table.access(700, true), "any page");
        assert_eq!(table.access_run(512..1024, true), 512);
        let mut ptes = table.lock(CpuId(0));
        assert!(ptes.get(5).is_young() && ptes.get(5).is_dirty(), "all of them at once");
        assert!(ptes.clear_young(9) && !ptes.clear_young(10));
        assert!(ptes.maps(100, Folio::new(Pfn(512), crate::page::Order(9))));
        // To change one is to split.
        let taken = ptes.take(511);
        assert_eq!((taken.pfn(), taken.is_dirty()), (Some(Pfn(1023)), true));
        assert!(ptes.leaf().is_none() && ptes.get(511).is_none());
        assert_eq!(ptes.get(0), leaf.with_dirty(true));
        drop(ptes);
        assert!(table.access(0, false) && !table.access(511, false));
        assert_eq!(table.wrongly_hot(), None);
    }

    #[test]
    fn a_leaf_goes_as_it_came() {
        let host = Solo::default();
        let table = PageTable::new(&host, Pfn(1));
        let mut ptes = table.lock(CpuId(0));
        let leaf = Pte::new(Pfn(1024));
        ptes.set_leaf(leaf);
        assert_eq!((ptes.take_leaf(), ptes.take_leaf()), (Some(leaf), None));
        assert!(ptes.get(7).is_none());
        drop(ptes);
        assert!(!table.access(7, false));
        table.lock(CpuId(0)).set_leaf(leaf);
        assert!(!table.access(7, true), "read-only");
        table.lock(CpuId(0)).set(7, Pte::NONE);
        assert_eq!(table.peek(8).pfn(), Some(Pfn(1032)));
    }
}
