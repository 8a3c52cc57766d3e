//! One swap area's slots: the users of each, its cached page (rules/swap#slot), and the next slot
//! to allocate (rules/swap#choosing-slots).
//!
//! ```text
//! map    one byte a slot    6 has-cache | 5..0 page table entries that name it (63 = header)
//! words  8 bytes a slot     0 nothing | pfn + 1: cached page | 63: 1, 62..0 shadow
//! ```
//!
//! Words are in chunks of a cluster's size, which exist while a slot of the cluster is in use: an
//! empty swap area costs one byte per slot.
//!
//! On flash every CPU fills its own free clusters, so CPUs do not contend; if no cluster is free it
//! searches for single slots. On a disk all CPUs share one cursor. After a cluster's worth of slots
//! it searches for a run of free ones, so that pages written together are contiguous.
//!
//! Nothing here locks: [`super::area`] does.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::zeros::ZeroMap;
use crate::host::CpuId;
use crate::lru::Shadow;
use crate::page::Pfn;

/// Slots of a cluster: a whole huge page's (rules/huge-pages#swap).
pub(crate) const CLUSTER: u32 = 512;

const HAS_CACHE: u8 = 0x40;
const COUNT: u8 = 0x3f;
/// Slot 0, which holds the swap area's header.
const HEADER: u8 = 0x3f;
/// Most entries that the byte counts; those beyond are counted apart (`Slots::more`).
const COUNT_MAX: u8 = 0x3e;
/// No cluster.
const NONE: u32 = u32::MAX;
/// The page or shadow of a slot.
type Word = u64;

/// Marks a word as a shadow; the rest of the word has the size of a shadow.
const IS_SHADOW: u64 = 1 << Shadow::BITS;
const _: () = assert!(Shadow::BITS == 63);

/// One slot: its number of entries, whether the cache holds it, its shadow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// Page table entries, and places in files, that name it.
    pub count: u32,
    /// Taken by the swap cache, or by a CPU's cache of slots.
    pub has_cache: bool,
    /// The page in the swap cache; none if it is not cached.
    pub cached: Option<Pfn>,
    /// Shadow of an evicted page.
    pub shadow: Option<Shadow>,
}

/// The remaining users of a slot after one has dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Entries do.
    Entries,
    /// Only the swap cache.
    Cache(Pfn),
    /// Nobody: the slot is the caller's to give back ([`Slots::give_back`]).
    Nobody,
}

/// The result of a step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A free slot, which is taken now: has-cache, no entry.
    Slot(u32),
    /// A slot that only the swap cache uses, and the cached page.
    CacheOnly(u32, Pfn),
    /// No more.
    End,
}

/// A search for several slots: the state of its linear part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    cpu: CpuId,
    /// Slots that only the cache uses count as found.
    steal: bool,
    base: u32,
    at: u32,
    is_wrapped: bool,
    is_first: bool,
}

impl Search {
    /// Goes back to a slot that may be free now.
    pub(crate) fn look_again(&mut self, offset: u32) {
        self.at = offset;
    }
}

#[derive(Clone, Copy, Debug)]
struct Cluster {
    used: u16,
    /// A CPU fills it.
    is_private: bool,
    /// Next on the list of free clusters.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct CpuCursor {
    cluster: u32,
    /// Next slot to look at in it.
    next: u32,
    /// Where the linear search begins when no cluster is free.
    linear: u32,
}

/// The slots of a swap area.
#[derive(Debug)]
pub struct Slots {
    map: Vec<u8>,
    /// Of slots that more entries name than a byte counts (pages of many forked mms): how many more.
    more: BTreeMap<u32, u32>,
    words: Vec<Option<Box<[Word; CLUSTER as usize]>>>,
    /// Ids of the memory cgroups that pay for the slots; none for clusters without any.
    owners: Vec<Option<Box<[u16; CLUSTER as usize]>>>,
    /// Slots that were last written with zeros, from 6.12 on.
    pub(super) zeros: ZeroMap,
    clusters: Vec<Cluster>,
    nr_free: u32,
    /// No free slot lies before it, or after `highest`.
    lowest: u32,
    highest: u32,
    /// Flash: free clusters, first to be used first; one cursor a CPU.
    free_head: u32,
    free_tail: u32,
    cpus: Vec<CpuCursor>,
    /// Disk: the cursor, and slots left until it looks for a free run.
    cursor: u32,
    left: u32,
}

impl Slots {
    /// Free slots `1..pages`; one cursor a CPU, or (`rotational`) one for all.
    pub(crate) fn new(pages: u32, rotational: bool, nr_cpus: usize) -> Slots {
        let mut map = vec![0; pages as usize];
        map[0] = HEADER;
        let nr_clusters = pages.div_ceil(CLUSTER);
        let highest = pages - 1;
        let cpus = if rotational { 0 } else { nr_cpus as u32 };
        // Linux starts each CPU's linear search at a random slot; here they are spread evenly.
        let linear =
            |cpu: u32| 1 + (u64::from(highest - 1) * u64::from(cpu) / u64::from(cpus)) as u32;
        let mut slots = Slots {
            map,
            more: BTreeMap::new(),
            words: (0..nr_clusters).map(|_| None).collect(),
            owners: (0..nr_clusters).map(|_| None).collect(),
            zeros: ZeroMap::default(),
            clusters: vec![
                Cluster { used: 0, is_private: false, next: NONE };
                nr_clusters as usize
            ],
            nr_free: highest,
            lowest: 1,
            highest,
            free_head: NONE,
            free_tail: NONE,
            cpus: (0..cpus)
                .map(|cpu| CpuCursor { cluster: NONE, next: 0, linear: linear(cpu) })
                .collect(),
            cursor: 1,
            left: 0,
        };
        // The header's cluster and a partial last one are never wholly free.
        slots.clusters[0].used = 1;
        for cluster in 1..pages / CLUSTER {
            slots.push_free(cluster);
        }
        if !pages.is_multiple_of(CLUSTER) {
            slots.clusters[nr_clusters as usize - 1].used += (CLUSTER - pages % CLUSTER) as u16;
        }
        slots
    }

    /// Free slots, those in CPUs' caches not among them.
    pub(crate) fn nr_free(&self) -> u32 {
        self.nr_free
    }

    /// Slots, header included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        self.map.len() as u32
    }

    /// A slot.
    pub(crate) fn state(&self, offset: u32) -> SlotState {
        let byte = self.map[offset as usize];
        let word = self.word(offset);
        SlotState {
            count: self.count(offset),
            has_cache: byte & HAS_CACHE != 0,
            cached: page_of(word),
            shadow: shadow_of(word),
        }
    }

    /// Entries that name a slot.
    #[inline]
    pub(crate) fn count(&self, offset: u32) -> u32 {
        let counted = self.map[offset as usize] & COUNT;
        let more = if counted == COUNT_MAX { self.more.get(&offset) } else { None };
        u32::from(counted) + more.copied().unwrap_or(0)
    }

    /// The cached page of a slot.
    #[inline]
    pub(crate) fn cached(&self, offset: u32) -> Option<Pfn> {
        page_of(self.word(offset))
    }

    /// The shadow of the page that was evicted to a slot.
    #[inline]
    pub(crate) fn shadow(&self, offset: u32) -> Option<Shadow> {
        shadow_of(self.word(offset))
    }

    #[inline]
    fn word(&self, offset: u32) -> u64 {
        let chunk = self.words[(offset / CLUSTER) as usize].as_deref();
        chunk.map_or(0, |chunk| chunk[(offset % CLUSTER) as usize])
    }

    /// The id of the memory cgroup that pays for a slot; 0 = none.
    #[doc(alias = "lookup_swap_cgroup_id")]
    pub(crate) fn owner(&self, offset: u32) -> u16 {
        let chunk = self.owners[(offset / CLUSTER) as usize].as_deref();
        chunk.map_or(0, |chunk| chunk[(offset % CLUSTER) as usize])
    }

    /// Records who pays for a slot.
    #[doc(alias = "swap_cgroup_record")]
    pub(crate) fn set_owner(&mut self, offset: u32, id: u16) {
        let chunk = &mut self.owners[(offset / CLUSTER) as usize];
        if id != 0 || chunk.is_some() {
            let chunk = chunk.get_or_insert_with(|| Box::new([0; CLUSTER as usize]));
            chunk[(offset % CLUSTER) as usize] = id;
        }
    }

    #[inline]
    fn set_word(&mut self, offset: u32, word: u64) {
        let chunk = &mut self.words[(offset / CLUSTER) as usize];
        if word != 0 || chunk.is_some() {
            let chunk = chunk.get_or_insert_with(|| Box::new([0; CLUSTER as usize]));
            chunk[(offset % CLUSTER) as usize] = word;
        }
    }
}

/// Users of a slot.
impl Slots {
    /// One entry more names a slot that is in use.
    pub(crate) fn add_entry(&mut self, offset: u32) {
        let byte = &mut self.map[offset as usize];
        debug_assert!(*byte != 0 && *byte & COUNT <= COUNT_MAX, "slot {offset} says {byte:#x}");
        if *byte & COUNT == COUNT_MAX {
            *self.more.entry(offset).or_default() += 1;
        } else {
            *byte += 1;
        }
    }

    /// One entry less names a slot.
    pub(crate) fn remove_entry(&mut self, offset: u32) -> Left {
        let byte = &mut self.map[offset as usize];
        debug_assert!(*byte & COUNT != 0, "slot {offset} is named by nobody");
        if *byte & COUNT == COUNT_MAX
            && let Some(more) = self.more.get_mut(&offset)
        {
            *more -= 1;
            if *more == 0 {
                self.more.remove(&offset);
            }
            return Left::Entries;
        }
        *byte -= 1;
        self.left(offset)
    }

    /// A page enters the swap cache; the shadow that was there, if any.
    pub(crate) fn cache(&mut self, offset: u32, pfn: Pfn) -> Option<Shadow> {
        let before = self.word(offset);
        debug_assert!(page_of(before).is_none(), "slot {offset} is cached already");
        self.map[offset as usize] |= HAS_CACHE;
        self.set_word(offset, u64::from(pfn.0) + 1);
        shadow_of(before)
    }

    /// A cached page lies in another frame from now on.
    pub(crate) fn recache(&mut self, offset: u32, pfn: Pfn) {
        debug_assert!(self.cached(offset).is_some(), "slot {offset} is not cached");
        self.set_word(offset, u64::from(pfn.0) + 1);
    }

    /// A page leaves the swap cache, leaving a shadow if entries still name the slot.
    pub(crate) fn uncache(&mut self, offset: u32, shadow: Option<Shadow>) -> Left {
        debug_assert!(self.cached(offset).is_some(), "slot {offset} is not cached");
        let shadow = shadow.filter(|_| self.count(offset) != 0);
        self.set_word(
            offset,
            shadow.map_or(0, |shadow| {
                debug_assert!(shadow.0 < IS_SHADOW, "{shadow:?} is too long");
                IS_SHADOW | shadow.0
            }),
        );
        self.map[offset as usize] &= !HAS_CACHE;
        self.left(offset)
    }

    /// An unused slot stays taken (has-cache) until it is freed; its shadow is removed.
    fn left(&mut self, offset: u32) -> Left {
        let byte = &mut self.map[offset as usize];
        if *byte & COUNT != 0 {
            return Left::Entries;
        }
        if *byte & HAS_CACHE != 0
            && let Some(pfn) = self.cached(offset)
        {
            return Left::Cache(pfn);
        }
        self.map[offset as usize] = HAS_CACHE;
        self.set_word(offset, 0);
        Left::Nobody
    }

    /// Leaves a shadow where none belongs.
    #[cfg(test)]
    pub(crate) fn plant_shadow(&mut self, offset: u32, shadow: Shadow) {
        self.set_word(offset, IS_SHADOW | shadow.0);
    }

    /// Frees a slot that is taken, named by no entry and not cached.
    pub(crate) fn give_back(&mut self, offset: u32) {
        debug_assert_eq!(self.map[offset as usize], HAS_CACHE, "slot {offset} is in use");
        debug_assert_eq!(self.word(offset), 0, "slot {offset} is cached");
        self.map[offset as usize] = 0;
        self.nr_free += 1;
        self.lowest = self.lowest.min(offset);
        self.highest = self.highest.max(offset);
        let index = offset / CLUSTER;
        let cluster = &mut self.clusters[index as usize];
        cluster.used -= 1;
        if cluster.used == 0 {
            self.words[index as usize] = None;
            self.owners[index as usize] = None;
            if !self.clusters[index as usize].is_private {
                self.push_free(index);
            }
        }
    }
}

/// Search.
impl Slots {
    /// Begins a search on behalf of a CPU; `steal`: slots that only the cache uses count as found.
    pub(crate) fn search(&mut self, cpu: CpuId, steal: bool) -> Search {
        let mut base = match self.cpus.get(cpu.idx()) {
            Some(cursor) => cursor.linear,
            None => {
                self.advance_disk_cursor();
                self.cursor
            }
        };
        if base > self.highest {
            base = self.lowest;
        }
        Search { cpu, steal, base, at: base, is_wrapped: false, is_first: true }
    }

    /// Takes the next free slot of a search.
    pub(crate) fn take(&mut self, search: &mut Search) -> Found {
        if self.nr_free == 0 {
            return Found::End;
        }
        if let Some(offset) = self.take_private(search.cpu) {
            return Found::Slot(offset);
        }
        let expected = search.at;
        let found = self.scan(search);
        if let Found::Slot(offset) = found {
            match self.cpus.get_mut(search.cpu.idx()) {
                Some(cursor) => cursor.linear = offset + 1,
                None => {
                    self.cursor = offset + 1;
                    if !search.is_first && offset == expected {
                        self.left = self.left.saturating_sub(1);
                    }
                }
            }
            search.is_first = false;
            self.take_slot(offset);
        }
        found
    }

    /// Takes all slots of the next free cluster; its first one. None on a disk, which has no clusters to
    /// itself.
    pub(crate) fn take_cluster(&mut self) -> Option<u32> {
        let index = self.pop_free()?;
        let start = index * CLUSTER;
        let map = &mut self.map[start as usize..(start + CLUSTER) as usize];
        debug_assert!(map.iter().all(|&byte| byte == 0), "a free cluster has free slots only");
        map.fill(HAS_CACHE);
        self.clusters[index as usize].used = CLUSTER as u16;
        self.nr_free -= CLUSTER;
        if self.nr_free == 0 {
            (self.lowest, self.highest) = (NONE, 0);
        }
        Some(start)
    }

    fn take_slot(&mut self, offset: u32) {
        self.map[offset as usize] = HAS_CACHE;
        self.clusters[(offset / CLUSTER) as usize].used += 1;
        self.nr_free -= 1;
        if self.nr_free == 0 {
            (self.lowest, self.highest) = (NONE, 0);
            return;
        }
        self.lowest += u32::from(offset == self.lowest);
        self.highest -= u32::from(offset == self.highest);
    }

    /// Linear part: up from where the search is to the highest free slot, then from the lowest to
    /// where it began. There is a free slot.
    fn scan(&self, search: &mut Search) -> Found {
        loop {
            let end = if search.is_wrapped { search.base } else { self.highest + 1 };
            let range = search.at..end.max(search.at);
            if let Some(offset) = self.first_usable(range, search.steal) {
                search.at = offset + 1;
                return match self.cached(offset).filter(|_| self.map[offset as usize] != 0) {
                    None => Found::Slot(offset),
                    Some(pfn) => Found::CacheOnly(offset, pfn),
                };
            }
            if search.is_wrapped {
                return Found::End;
            }
            search.is_wrapped = true;
            search.at = self.lowest;
        }
    }

    fn first_usable(&self, range: Range<u32>, steal: bool) -> Option<u32> {
        let start = range.start;
        let bytes = &self.map[range.start as usize..range.end as usize];
        let at = if steal {
            bytes.iter().enumerate().position(|(i, &byte)| {
                byte == 0 || byte == HAS_CACHE && self.cached(start + i as u32).is_some()
            })
        } else {
            bytes.iter().position(|&byte| byte == 0)
        };
        at.map(|i| start + i as u32)
    }

    /// Disk: after a cluster's worth of slots the cursor moves to the first run of as many free
    /// ones, if there is one.
    fn advance_disk_cursor(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = CLUSTER - 1;
        if self.nr_free >= CLUSTER
            && let Some(start) = self.free_run()
        {
            self.cursor = start;
        }
    }

    /// The lowest run of a cluster's worth of free slots, aligned to nothing.
    fn free_run(&self) -> Option<u32> {
        let mut start = self.lowest;
        while start + CLUSTER - 1 <= self.highest {
            let run = &self.map[start as usize..(start + CLUSTER) as usize];
            match run.iter().rposition(|&byte| byte != 0) {
                None => return Some(start),
                Some(used) => start += used as u32 + 1,
            }
        }
        None
    }

    /// Flash: the next free slot of the CPU's own cluster, or of the next free cluster.
    fn take_private(&mut self, cpu: CpuId) -> Option<u32> {
        loop {
            let cursor = *self.cpus.get(cpu.idx())?;
            let index = if cursor.cluster == NONE { self.pop_free()? } else { cursor.cluster };
            let start = if cursor.cluster == NONE { index * CLUSTER } else { cursor.next };
            let end = (index + 1) * CLUSTER;
            let found = self.first_usable(start..end, false);
            self.cpus[cpu.idx()] = match found {
                Some(offset) => CpuCursor { cluster: index, next: offset + 1, ..cursor },
                None => CpuCursor { cluster: NONE, ..cursor },
            };
            self.clusters[index as usize].is_private = found.is_some();
            if let Some(offset) = found {
                self.take_slot(offset);
                return found;
            }
            if self.clusters[index as usize].used == 0 {
                self.push_free(index);
            }
        }
    }

    fn push_free(&mut self, cluster: u32) {
        if self.cpus.is_empty() {
            return;
        }
        self.clusters[cluster as usize].next = NONE;
        match self.free_tail {
            NONE => self.free_head = cluster,
            tail => self.clusters[tail as usize].next = cluster,
        }
        self.free_tail = cluster;
    }

    /// Single slots are taken only while the list of free clusters is empty, because clusters on it
    /// are free.
    fn pop_free(&mut self) -> Option<u32> {
        let cluster = self.free_head;
        if cluster == NONE {
            return None;
        }
        self.free_head = self.clusters[cluster as usize].next;
        if self.free_head == NONE {
            self.free_tail = NONE;
        }
        Some(cluster)
    }
}

#[inline]
fn page_of(word: u64) -> Option<Pfn> {
    (word != 0 && word & IS_SHADOW == 0).then(|| Pfn((word - 1) as u32))
}

#[inline]
fn shadow_of(word: u64) -> Option<Shadow> {
    (word & IS_SHADOW != 0).then_some(Shadow(word & !IS_SHADOW))
}
