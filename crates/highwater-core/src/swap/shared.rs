//! Files in memory and swap: tmpfs, shared memory (rules/shared-memory#pages).
//!
//! Such a file has no disk. A page that was never written is a hole and takes no memory. A written
//! page is page cache, but backed by swap: it is on the lists of anonymous memory, and reclaim
//! writes it to a slot. The file's tree then holds the slot in place of the page, until the page is
//! needed again.
//!
//! ```text
//!           first use               reclaim: slot, swap cache, write
//!   hole ─────────────▶ page in tree ─────────────▶ slot in tree, page in swap cache ──▶ slot in tree
//!                           ▲                              │                                  │
//!                           └──────────────────────────────┴────────── needed ────────────────┘
//! ```
//!
//! A slot in a tree counts as one entry of it ([`super::Slots`]).
//!
//! Synchronisation: the page's lock, and `xa_lock` around the change of the tree, as for every page
//! of a file.
//!
//! From: `page_cache` through [`MemoryFiles`], `vm::fault`, `reclaim::folios` · to: the swap cache.

use super::Slot;
use crate::host::{Cx, Devices, IoError, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, Order, PageFlags, PageMapping};
use crate::page_alloc::{Gfp, Wish};
use crate::page_cache::{AddError, Entry, File, MemoryFiles, MemoryPage, Objects};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;
use crate::vmstat::{GroupStat, NodeStat, VmEvent};

impl<H: Devices> MemoryFiles<H> for Kernel<H> {
    /// Finds, swaps in or makes a page of a file that lives in memory.
    #[doc(alias = "shmem_get_folio")]
    #[doc(alias = "shmem_getpage")]
    fn memory_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Result<MemoryPage, Error> {
        loop {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            let entry = file.tree.lock(cx.cpu()).get(index);
            let found = match entry {
                Entry::Page(_) => {
                    let folio = self.find_lock_page(cx, file, index);
                    folio.map(|folio| MemoryPage { folio, was_swapped: false })
                }
                Entry::Swapped(word) => self.swap_in_memory(cx, file, index, word)?,
                Entry::Empty | Entry::Shadow(_) => self.fill_hole(cx, file, index)?,
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    fn drop_swapped(&self, cx: &Cx<'_, H>, file: &File<H>, first: u32) {
        loop {
            let next = file.tree.lock(cx.cpu()).next_swapped(first);
            let Some((index, _)) = next else { return };
            let dropped = {
                let _xa = file.xa_lock.lock(cx.cpu());
                let entry = file.tree.lock(cx.cpu()).get(index);
                match entry {
                    Entry::Swapped(word) => {
                        self.replace_entry(cx, file, index, Entry::Empty);
                        Slot::unpack(word)
                    }
                    _ => None,
                }
            };
            if let Some(slot) = dropped {
                self.swap_put(cx, slot);
            }
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Fills a hole with a page of zeros; `None` if another task was faster.
    fn fill_hole(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
    ) -> Result<Option<MemoryPage>, Error> {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE | Gfp::ZERO;
        let folio = self.mem.alloc_folio_wished(cx, self, gfp, Order::ZERO, Wish::Task);
        let folio = folio.ok_or(Error::NoMemory)?;
        match self.add_to_page_cache(cx, file, index, folio, gfp) {
            Ok(()) => {
                self.mem.map.page(folio).flag_set::<H>(PageFlags::UPTODATE);
                Ok(Some(MemoryPage { folio, was_swapped: false }))
            }
            Err(error) => {
                self.put_page(cx, folio);
                match error {
                    AddError::Exists => Ok(None),
                    AddError::NoMemory => Err(Error::NoMemory),
                    AddError::Deleted => Err(Error::Invalid),
                }
            }
        }
    }

    /// Brings the page of a slot back into the tree of its file; none if the tree changed
    /// meanwhile.
    #[doc(alias = "shmem_swapin_folio")]
    fn swap_in_memory(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        word: u32,
    ) -> Result<Option<MemoryPage>, Error> {
        let Some(slot) = Slot::unpack(word) else { return Err(Error::Invalid) };
        let is_same = || file.tree.lock(cx.cpu()).get(index) == Entry::Swapped(word);
        let (folio, was_swapped) = match self.swap_cache_get(cx, slot) {
            Some(folio) => {
                self.note_readahead_hit(cx, folio);
                (folio, false)
            }
            None => {
                self.mem.events.add(cx.cpu(), VmEvent::Pgmajfault, 1);
                self.count_of_task(cx, GroupStat::Pgmajfault);
                let is_ahead = self.read_cluster(cx, slot, Wish::Task);
                match self.swapin_one(cx, slot, !is_ahead, Wish::Task) {
                    Some((folio, _)) => (folio, true),
                    None if is_same() => return Err(Error::NoMemory),
                    None => return Ok(None),
                }
            }
        };
        if !self.lock_page_killable(cx, folio) {
            self.put_page(cx, folio);
            return Err(Error::Killed);
        }
        self.wait_on_writeback(cx, folio);
        let page = self.mem.map.page(folio);
        let is_ours = self.slot_of(folio) == Some(slot);
        let taken = match (is_ours, page.is(PageFlags::UPTODATE)) {
            (true, true) => Ok(self.take_from_swap(cx, file, (index, word), folio, slot)),
            (true, false) => Err(Error::Io(IoError::Device)),
            (false, _) => Ok(false),
        };
        match taken {
            Ok(true) => Ok(Some(MemoryPage { folio, was_swapped })),
            other => {
                self.unlock_page(cx, folio);
                self.put_page(cx, folio);
                other.map(|_| None)
            }
        }
    }

    /// Moves a locked page from the swap cache to its file; false if the file no longer has the
    /// slot.
    fn take_from_swap(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (index, word): (u32, u32),
        folio: Folio,
        slot: Slot,
    ) -> bool {
        let page = self.mem.map.page(folio);
        {
            let _xa = file.xa_lock.lock(cx.cpu());
            let mut tree = file.tree.lock(cx.cpu());
            if tree.get(index) != Entry::Swapped(word) {
                return false;
            }
            page.get::<H>(1);
            page.set_mapping(PageMapping::File(file.id), index);
            // The node exists, because it held the slot.
            tree.store(index, Entry::Page(folio.pfn()), &mut Objects::default());
            file.nr_pages.store(tree.nr_pages(), Relaxed);
        }
        self.uncache_for_file(cx, folio, slot);
        self.mem.account(cx.cpu(), folio).plus(NodeStat::FilePages).plus(NodeStat::Shmem);
        // The slot goes, so this is the only copy.
        page.flag_set::<H>(PageFlags::DIRTY);
        self.swap_put(cx, slot);
        true
    }

    /// Moves a locked, unmapped page of a file in memory to a swap slot and starts writing it;
    /// false if there is no slot. It is unlocked then, and in the swap cache.
    #[doc(alias = "shmem_writepage")]
    pub(crate) fn swap_out_memory(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        debug_assert!(page.is(PageFlags::LOCKED | PageFlags::SWAPBACKED) && !page.is_mapped());
        let Some(slot) = self.swap_alloc(cx, folio) else { return false };
        let index = page.index();
        page.flag_clear::<H>(PageFlags::DIRTY);
        {
            let _xa = file.xa_lock.lock(cx.cpu());
            self.cache_for_file(cx, folio, slot);
            let old = self.replace_entry(cx, file, index, Entry::Swapped(slot.pack()));
            debug_assert_eq!(old, Entry::Page(folio.pfn()), "a page that is not the file's");
            page.set_mapping(PageMapping::None, index);
        }
        self.mem.account(cx.cpu(), folio).minus(NodeStat::FilePages).minus(NodeStat::Shmem);
        let was_last = page.put::<H>(1);
        debug_assert!(!was_last, "the swap cache and the reclaimer have it");
        page.flag_set::<H>(PageFlags::RECLAIM);
        self.swap_writepage(cx, folio);
        true
    }
}
