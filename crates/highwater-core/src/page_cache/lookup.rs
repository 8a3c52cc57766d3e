//! Finding, adding and removing pages of a file (rules/page-cache#insert, rules/workingset#shadow).
//!
//! A task that finds a page under the tree's lock and takes a reference there keeps it. A page
//! leaves the tree only after its references were frozen (reclaim, invalidation) or while it is
//! locked (truncation). A frozen page counts as gone; a lookup that meets one starts again.
//!
//! After waiting for a page lock, a task checks that the page still belongs to the file.

use core::hint::cold_path;

use super::filesystem::Buffers;
use super::node_memory::Objects;
use super::{Entry, File, Mark, Tree};
use crate::config::FileFolios;
use crate::host::{Cost, Cx, Devices, IoError, Lock, Probe};
use crate::kernel::Kernel;
use crate::lru::{BATCH_MAX, PAGEVEC, Shadow};
use crate::page::{Folio, Order, Page, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;
use crate::units::GroupId;
use crate::vmstat::NodeStat;

/// How pages for files are asked for (`mapping_gfp_mask`).
pub const FILE_GFP: Gfp = Gfp::GFP_HIGHUSER_MOVABLE.union(Gfp::COMP);

/// Pages with a reference each.
#[derive(Debug, Default)]
pub(super) struct PageBatch {
    pages: [Folio; BATCH_MAX],
    len: usize,
}

impl PageBatch {
    pub(super) fn push(&mut self, folio: Folio) {
        self.pages[self.len] = folio;
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Folio> {
        self.len = self.len.checked_sub(1)?;
        Some(self.pages[self.len])
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl core::ops::Deref for PageBatch {
    type Target = [Folio];

    fn deref(&self) -> &[Folio] {
        &self.pages[..self.len]
    }
}

/// Why a page was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Somebody else added one.
    Exists,
    /// No memory for the tree's nodes.
    NoMemory,
    /// The file is being deleted.
    Deleted,
}

/// Finding.
impl<H: Devices> Kernel<H> {
    /// Finds the page at an index of a file, with a reference for the caller.
    ///
    /// Linux: same name.
    #[doc(alias = "filemap_get_folio")]
    pub fn find_get_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Option<Folio> {
        cx.charge(Cost::PageCacheLookup, 1);
        loop {
            let tree = file.tree.lock(cx.cpu());
            let (folio, page) = self.mem.map.lookup(tree.page(index)?);
            if page.try_get::<H>() {
                return Some(folio);
            }
            drop(tree);
            cx.host.yield_now();
        }
    }

    /// Collects the pages from `index` on up to the first that is missing, not up to date or marked
    /// for readahead. A marked page is the last one; at most `max` are collected. `found`, if
    /// given, is set to the number of all `max` pages that are up to date now.
    #[doc(alias = "filemap_get_read_batch")]
    pub(super) fn find_read_batch(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        max: u32,
        batch: &mut PageBatch,
        mut found: Option<&mut u64>,
    ) {
        cx.charge(Cost::PageCacheLookup, 1);
        batch.clear();
        let end = index.saturating_add(max);
        let nr_folios = self.lookup_batch();
        // A folio of several pages is one entry of the batch.
        let has_large = self.mem.policy.folio.file != FileFolios::None;
        let max = if has_large { max } else { max.min(nr_folios as u32) };
        loop {
            let mut is_first_frozen = false;
            let tree = file.tree.lock(cx.cpu());
            if let Some(found) = found.take() {
                tree.walk(index, end, |_, pfn| {
                    *found += u64::from(self.mem.map.lookup(pfn).1.is(PageFlags::UPTODATE));
                    true
                });
            }
            tree.run(index, max, |at, pfn| {
                let (folio, page) = self.mem.map.lookup(pfn);
                if has_large {
                    cold_path();
                    if folio.is_large() && batch.last() == Some(&folio) {
                        return true;
                    }
                    if batch.len() == nr_folios {
                        return false;
                    }
                }
                if !page.try_get::<H>() {
                    is_first_frozen = at == index;
                    return false;
                }
                batch.push(folio);
                let flags = page.flags();
                flags.contains(PageFlags::UPTODATE) && !flags.contains(PageFlags::READAHEAD)
            });
            drop(tree);
            if !is_first_frozen {
                return;
            }
            cx.host.yield_now();
        }
    }

    /// Finds and locks the page at an index, with a reference for the caller; none if it is not
    /// cached. A page that left the file while its lock was waited for is not taken for it.
    ///
    /// Linux: same name.
    pub fn find_lock_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32) -> Option<Folio> {
        loop {
            let folio = self.find_get_page(cx, file, index)?;
            self.lock_page(cx, folio);
            if self.is_page_of(file, folio) {
                return Some(folio);
            }
            self.unlock_page(cx, folio);
            self.put_page(cx, folio);
        }
    }

    /// True if a page belongs to a file (reliable only for a locked page).
    #[inline]
    pub(crate) fn is_page_of(&self, file: &File<H>, folio: Folio) -> bool {
        self.mem.map.page(folio).mapping() == PageMapping::File(file.id)
    }

    /// Finds or makes the page at an index, locked, with a reference for the caller; a new one
    /// comes with `true` and is not up to date.
    ///
    /// Linux: same name.
    ///
    /// # Errors
    /// If there is no memory, or the file was deleted meanwhile ([`Error::Invalid`]).
    pub fn find_or_create_page(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        gfp: Gfp,
    ) -> Result<(Folio, bool), Error> {
        loop {
            if let Some(folio) = self.find_lock_page(cx, file, index) {
                return Ok((folio, false));
            }
            match self.create_page(cx, file, index, gfp) {
                Ok(folio) => return Ok((folio, true)),
                Err(AddError::Exists) => {}
                Err(AddError::NoMemory) => return Err(Error::NoMemory),
                Err(AddError::Deleted) => return Err(Error::Invalid),
            }
        }
    }

    /// A fresh page at an index, locked, with a reference for the caller.
    pub(super) fn create_page(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        gfp: Gfp,
    ) -> Result<Folio, AddError> {
        self.create_folio(cx, file, (index, Order::ZERO), gfp)
    }

    /// Calls `f` for each page of `start..end` that a fault may map without waiting: cached, up to
    /// date, neither locked nor marked for readahead. Ascending. `f` gets the page's folio, and
    /// returns how many entries for pages of this folio it made; each owns a reference now. `f`
    /// takes no lock (the caller holds the page table's).
    ///
    /// If tasks share a thread, nothing runs between the check of the page and `f`. On other hosts
    /// the page is locked meanwhile, so truncation either finds the mapping or comes first.
    #[doc(alias = "filemap_map_pages")]
    pub(crate) fn map_pages(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        start: u32,
        end: u32,
        mut f: impl FnMut(u32, Folio) -> u32,
    ) {
        let end = u64::from(end).min(file.size_pages()) as u32;
        if !H::THREADED {
            file.tree.lock(cx.cpu()).walk(start, end, |index, pfn| {
                let (folio, page) = self.mem.map.lookup(pfn);
                if is_mappable(page.flags()) && page.refcount() != 0 {
                    let new = f(index, folio);
                    if new != 0 {
                        page.get::<H>(new);
                    }
                }
                true
            });
            return;
        }
        let mut from = start;
        while from < end {
            let mut found = [(0, Folio::default()); PAGEVEC];
            let mut nr = 0;
            let mut next = end;
            file.tree.lock(cx.cpu()).walk(from, end, |index, pfn| {
                if nr == PAGEVEC {
                    next = index;
                    return false;
                }
                let (folio, page) = self.mem.map.lookup(pfn);
                if is_mappable(page.flags()) && page.try_get::<H>() {
                    found[nr] = (index, folio);
                    nr += 1;
                }
                true
            });
            for &(index, folio) in &found[..nr] {
                if self.try_lock_page(folio) {
                    let page = self.mem.map.page(folio);
                    let flags = page.flags() - PageFlags::LOCKED;
                    if self.is_page_of(file, folio) && is_mappable(flags) {
                        page.get::<H>(f(index, folio));
                    }
                    self.unlock_page(cx, folio);
                }
                self.put_page(cx, folio);
            }
            from = next;
        }
    }
}

/// Reports whether a fault may map a page with these flags without waiting.
#[doc(alias = "next_uptodate_page")]
fn is_mappable(flags: PageFlags) -> bool {
    let wanted = PageFlags::UPTODATE;
    flags & (wanted | PageFlags::LOCKED | PageFlags::READAHEAD) == wanted
}

/// Adding and removing.
impl<H: Devices> Kernel<H> {
    /// Adds a fresh page to a file and puts it on an LRU list. The page is locked here, and the
    /// tree has one reference more; a shadow found is a refault unless `gfp` has WRITE. Memory for
    /// the tree is had as `gfp` allows.
    ///
    /// A larger folio takes as many slots as it has pages, from `index` on, and the tree has a
    /// reference for each. If there are shadows in them, the last one counts, for all of its pages.
    ///
    /// # Errors
    /// See [`AddError`]; the page is as it was.
    #[doc(alias = "filemap_add_folio")]
    #[doc(alias = "add_to_page_cache_lru")]
    pub fn add_to_page_cache(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        folio: Folio,
        gfp: Gfp,
    ) -> Result<(), AddError> {
        debug_assert!(
            index.is_multiple_of(folio.nr_pages() as u32),
            "a folio is aligned in its file"
        );
        // The group that touches a page first pays for it; others use it for free.
        if !self.charge_folio(cx, folio, self.group_of_task(cx), gfp) {
            return Err(AddError::NoMemory);
        }
        let page = self.mem.map.page(folio);
        let backed = if file.is_memory() { PageFlags::SWAPBACKED } else { PageFlags::empty() };
        page.init_flags(PageFlags::LOCKED | backed);
        page.set_mapping(PageMapping::File(file.id), index);
        page.get::<H>(folio.nr_pages() as u32);
        if folio.is_large() {
            self.mem.map.reset_frames(folio);
        }
        let is_inserted = match file.spec.filesystem.buffers {
            Buffers::All => self.attach_buffers(cx, file, folio).map_err(|_| AddError::NoMemory),
            Buffers::None | Buffers::Written => Ok(()),
        };
        match is_inserted.and_then(|()| self.insert_page(cx, file, index, folio, gfp)) {
            Ok(shadow) => {
                if let Some(shadow) = shadow.filter(|_| !gfp.contains(Gfp::WRITE)) {
                    self.workingset_refault(cx, folio, shadow);
                }
                self.lru_add(cx, folio);
                Ok(())
            }
            Err(error) => {
                self.release_buffers(cx, (folio, page));
                page.init_flags(PageFlags::empty());
                page.set_mapping(PageMapping::None, 0);
                page.put::<H>(folio.nr_pages() as u32);
                Err(error)
            }
        }
    }

    /// Stores a page in its file's tree and returns the shadow that was in its place.
    #[doc(alias = "__filemap_add_folio")]
    #[doc(alias = "__add_to_page_cache_locked")]
    fn insert_page(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        folio: Folio,
        gfp: Gfp,
    ) -> Result<Option<Shadow>, AddError> {
        let mut spare = Objects::default();
        let outcome = loop {
            let xa = file.xa_lock.lock(cx.cpu());
            if file.is_deleted.load(Relaxed) {
                break Err(AddError::Deleted);
            }
            let mut tree = file.tree.lock(cx.cpu());
            let nr = folio.nr_pages() as u32;
            let missing = match folio.is_large() {
                false => tree.nodes_missing(index),
                true => tree.nodes_missing_for(index, nr),
            };
            if missing > spare.len() {
                drop(tree);
                drop(xa);
                match self.tree_objects(cx, missing - spare.len(), gfp) {
                    Some(mut more) => spare.extend(core::iter::from_fn(|| more.pop())),
                    None => break Err(AddError::NoMemory),
                }
                continue;
            }
            if folio.is_large() {
                break self.insert_folio(cx, file, index, folio, (tree, &mut spare));
            }
            if let Entry::Page(_) | Entry::Swapped(_) = tree.get(index) {
                break Err(AddError::Exists);
            }
            let stored = tree.store(index, Entry::Page(folio.pfn()), &mut spare);
            file.nr_pages.store(tree.nr_pages(), Relaxed);
            drop(tree);
            // While the lock is held: that is how long others wait for it.
            cx.charge(Cost::PageCacheAdd, 1);
            if let Some(change) = stored.shadow_only {
                self.note_shadow_only(cx, file, index, change);
            }
            break match stored.old {
                Entry::Shadow(shadow) => Ok(Some(shadow)),
                _ => Ok(None),
            };
        };
        if outcome.is_ok() {
            let account = self.mem.account(cx.cpu(), folio).plus(NodeStat::FilePages);
            if file.is_memory() {
                account.plus(NodeStat::Shmem);
            }
        }
        if !spare.is_empty() {
            self.return_tree_objects(cx, spare);
        }
        outcome
    }

    /// Takes a locked, frozen or otherwise unreachable page out of its file, leaving `shadow`. The
    /// caller holds `xa_lock`. The tree's reference is the caller's to drop.
    ///
    /// Linux: same name.
    #[doc(alias = "filemap_remove_folio")]
    #[doc(alias = "__delete_from_page_cache")]
    #[inline(always)]
    pub(crate) fn delete_from_page_cache(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (folio, page): (Folio, &Page),
        shadow: Option<Shadow>,
    ) {
        self.release_buffers(cx, (folio, page));
        if folio.is_large() {
            return self.delete_folio(cx, file, (folio, page), shadow);
        }
        let index = page.index();
        let mut tree = file.tree.lock(cx.cpu());
        // Not a closure: reclaim has this inlined for every page.
        let evicted = match shadow {
            Some(shadow) => tree.evict(index, folio.pfn(), shadow),
            None => None,
        };
        if let Some(shadow_only) = evicted {
            file.nr_pages.store(tree.nr_pages(), Relaxed);
            drop(tree);
            if let Some(object) = shadow_only {
                self.note_shadow_only(cx, file, index, (object, true));
            }
        } else {
            let entry = shadow.map_or(Entry::Empty, Entry::Shadow);
            let old = self.replace_locked(cx, file, tree, index, entry);
            debug_assert_eq!(old, Entry::Page(folio.pfn()), "removed a page that was not there");
        }
        page.set_mapping(PageMapping::None, index);
        let account = self.mem.account_page(cx.cpu(), (folio, page)).minus(NodeStat::FilePages);
        if file.is_memory() {
            account.minus(NodeStat::Shmem);
        }
    }

    /// Replaces a slot's entry by one that is not a page; returns the old entry. The caller holds
    /// `xa_lock`.
    pub(crate) fn replace_entry(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        entry: Entry,
    ) -> Entry {
        let tree = file.tree.lock(cx.cpu());
        self.replace_locked(cx, file, tree, index, entry)
    }

    #[inline(never)]
    fn replace_locked(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        mut tree: <H::Lock<Tree> as Lock<Tree>>::Guard<'_>,
        index: u32,
        entry: Entry,
    ) -> Entry {
        let stored = tree.store(index, entry, &mut Objects::default());
        file.nr_pages.store(tree.nr_pages(), Relaxed);
        drop(tree);
        if let Some(change) = stored.shadow_only {
            self.note_shadow_only(cx, file, index, change);
        }
        if !stored.freed.is_empty() {
            self.free_tree_nodes(cx, stored.freed);
        }
        stored.old
    }

    /// Removes a page from its file for reclaim (rules/page-decisions#remove): freezes the
    /// references at two, the caller's and the tree's (which has one for each page of a folio), and
    /// leaves a shadow. True if the page belongs to the caller now (no references, off the tree).
    /// The page is locked. `target`: whose limit reclaims, the root if it is the machine.
    ///
    /// Linux: the branch of file pages; swap cache pages go by `remove_mapping_swap`.
    #[doc(alias = "__remove_mapping")]
    #[inline(always)]
    pub(crate) fn remove_mapping_file(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (folio, page): (Folio, &Page),
        target: GroupId,
    ) -> bool {
        self.remove_clean::<true>(cx, file, (folio, page), target)
    }

    /// Removes a locked page that only the tree and the caller refer to, if it is clean. It leaves
    /// no shadow.
    pub(super) fn remove_unused(&self, cx: &Cx<'_, H>, file: &File<H>, at: (Folio, &Page)) -> bool {
        self.remove_clean::<false>(cx, file, at, GroupId::ROOT)
    }

    /// Takes the references to a locked page, if there are two, the caller's and the tree's, and it
    /// is clean; and removes it. With `SHADOW` it leaves one, of the reclaim for `target`.
    #[inline(always)]
    fn remove_clean<const SHADOW: bool>(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        (folio, page): (Folio, &Page),
        target: GroupId,
    ) -> bool {
        let _xa = file.xa_lock.lock(cx.cpu());
        let Some(frozen) = page.freeze::<H>(1 + folio.nr_pages() as u32) else {
            cold_path();
            return false;
        };
        if page.is(PageFlags::DIRTY) {
            cold_path();
            return false;
        }
        // Shadows are for pages that a disk has.
        let shadow = match SHADOW && !file.is_deleted.load(Relaxed) && !file.is_memory() {
            true => Some(self.workingset_eviction((folio, page), target)),
            false => {
                cold_path();
                None
            }
        };
        self.delete_from_page_cache(cx, file, (folio, page), shadow);
        frozen.keep();
        true
    }

    /// Replaces a file's page by another frame, `new`, which only the caller refers to, if only the
    /// tree and the caller refer to the locked `old`. Afterwards the caller has both, and the tree
    /// has `new`.
    ///
    /// It runs under the tree's lock, so no lookup finds the page without references or in two
    /// places.
    pub(crate) fn replace_in_file(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        old: Folio,
        new: Folio,
        take_over: impl FnOnce(),
    ) -> bool {
        let page = self.mem.map.page(old);
        let index = page.index();
        let _xa = file.xa_lock.lock(cx.cpu());
        let mut tree = file.tree.lock(cx.cpu());
        if tree.page(index) != Some(old.pfn()) {
            return false;
        }
        let nr = old.nr_pages() as u32;
        let Some(frozen) = page.freeze::<H>(1 + nr) else { return false };
        take_over();
        for (index, (from, to)) in (index..).zip(old.frames().zip(new.frames())) {
            tree.replace(index, from, to);
        }
        self.mem.map.page(new).get::<H>(nr);
        frozen.thaw(1);
        true
    }

    /// Sets or clears a mark on a page of a file, under `xa_lock`.
    pub(crate) fn mark_page(&self, cx: &Cx<'_, H>, file: &File<H>, index: u32, m: Mark, on: bool) {
        let _xa = file.xa_lock.lock(cx.cpu());
        file.tree.lock(cx.cpu()).mark(index, m, on);
    }

    /// Starts reading one locked page and waits for it.
    ///
    /// # Errors
    /// If the device could not read it.
    #[doc(alias = "filemap_read_folio")]
    pub fn read_page(&self, cx: &Cx<'_, H>, file: &File<H>, folio: Folio) -> Result<(), IoError> {
        self.read_pages(cx, file, folio, folio.nr_pages() as u32)
    }
}
