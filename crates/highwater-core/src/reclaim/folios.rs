//! What becomes of each page at the tail (rules/page-decisions#steps).
//!
//! A batch of isolated pages is judged page by page, oldest first, in the order of the table there:
//!
//! ```text
//! lock → evictable? → under writeback? → referenced? → swap slot → unmap → dirty? → remove, free
//! ```
//!
//! What is not freed stays in the batch, in its order; freed pages go back to the allocator in one
//! call at the end. Pages are single (huge ones are not modelled here: the rows of the table that
//! split them do not apply).
//!
//! What the uses of a page mean is the scheme's to say ([`Rules`]); everything else about a page is the
//! same for all of them. The order is by price: what a look at the flags settles comes first, the walk of
//! a page's mappings after it, a swap slot and unmapping after that, and writing last.
//!
//! Key types: [`Rules`] (how a batch is judged), [`BatchStats`] (what the pass sums are made of),
//! `Verdict` (the end of one page).
//!
//! From: [`super::batch`], MADV_PAGEOUT · to: `vm::rmap`, `swap`, `page_cache::lookup`,
//! `writeback::io`.

use super::Control;
use super::budget::CLUSTER;
use crate::block::Pool;
use crate::config::DirtyAtTail;
use crate::host::{Cost, Cx, Devices, Phase, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::lru::PageType;
use crate::page::{Folio, Page, PageFlags, PageOwner};
use crate::page_alloc::Gfp;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::units::LruVecId;
use crate::vm::{AreaFlags, Referenced, Trail};
use crate::vmstat::{NodeStat, VmEvent};
use crate::writeback::PageWrite;
use crate::zone::{NodeId, ZoneType};

/// Pages of a batch.
pub(super) const BATCH: usize = CLUSTER as usize;

/// What a batch added up to, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchStats {
    /// Dirty or under writeback.
    pub dirty: u64,
    /// Dirty, not under writeback.
    pub unqueued_dirty: u64,
    /// Under writeback and already marked for reclaim.
    pub congested: u64,
    /// Under writeback, marked now.
    pub writeback: u64,
    /// Under writeback, met again by kswapd.
    pub immediate: u64,
    /// Written by reclaim itself.
    pub pageout: u64,
    /// Activated, by [`PageType`].
    pub activate: [u64; 2],
    /// Kept because they were used.
    pub ref_keep: u64,
    /// Could not be unmapped.
    pub unmap_fail: u64,
}

/// What shrinking a batch did.
pub(super) struct Shrunk {
    /// Pages freed.
    pub reclaimed: u64,
    /// Pages left: the first so many of the batch.
    pub kept: usize,
    /// Sums.
    pub stats: BatchStats,
}

/// The end of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nobody can find it any more.
    Free,
    /// Back to where it came from.
    Keep,
    /// The same; it is not locked by us.
    KeepUnlocked,
    /// To the active list.
    Activate,
}

/// What a page's uses mean for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// It is in use: to the active list, if there is one.
    Activate,
    /// It stays where it is.
    Keep,
    /// It goes.
    Reclaim,
    /// It goes, but is not worth a write.
    ReclaimClean,
}

/// What a walk of a page's mappings found, and its flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uses {
    /// Areas in which its mapping was young; none: a lock was contended.
    pub users: Option<u32>,
    /// Flags of those areas.
    pub flags: AreaFlags,
    /// Its referenced flag, cleared by now.
    pub was_referenced: bool,
    /// Page cache, or lazily freed memory.
    pub is_file: bool,
}

/// What the uses of a page mean. True as second value: set its referenced flag again.
pub(super) type Decision = (References, bool);

/// Where pages go that cannot be reclaimed now: dirty ones, those under writeback or held by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// To the active list, out of the way of the next batches.
    Activate,
    /// Back to the head of where they were: the scheme has no active list.
    Keep,
}

/// How a scheme has its batches judged. `F` decides about each page, so it is a type: judging is made for
/// each scheme anew, with its rule inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<F = fn(&Uses) -> Decision> {
    /// What uses mean; none: nobody looks.
    pub uses: Option<F>,
    /// Where pages go that are in use or cannot go.
    pub busy: Busy,
}

/// MADV_PAGEOUT: whoever asks for it knows better than any young bit.
const PAGEOUT: Rules = Rules { uses: None, busy: Busy::Activate };

/// One batch under way.
struct Batch<'a, H: Devices> {
    sc: &'a mut Control,
    node: NodeId,
    /// The lists they come from.
    vec: LruVecId,
    busy: Busy,
    stats: BatchStats,
    trail: Trail<H>,
}

impl<H: Devices> Kernel<H> {
    /// Judges a batch of isolated pages of one node (a reference each, LRU cleared), at most
    /// [`BATCH`]; those that stay are left at the front of `pages`, in order.
    pub(super) fn shrink_pages<F: Fn(&Uses) -> Decision>(
        &self,
        cx: &Cx<'_, H>,
        (node, vec): (NodeId, LruVecId),
        sc: &mut Control,
        pages: &mut [Folio],
        rules: Rules<F>,
    ) -> Shrunk {
        debug_assert!(pages.len() <= BATCH);
        let stats = BatchStats::default();
        let busy = rules.busy;
        let mut batch = Batch { sc, node, vec, busy, stats, trail: Trail::default() };
        let mut freed = [Folio::default(); BATCH];
        let (mut nr_freed, mut kept, mut reclaimed) = (0, 0, 0);
        for at in 0..pages.len() {
            let folio = pages[at];
            let verdict = self.judge(cx, &mut batch, folio, rules.uses.as_ref());
            if verdict == Verdict::Free {
                freed[nr_freed] = folio;
                nr_freed += 1;
                reclaimed += folio.nr_pages();
                continue;
            }
            if verdict == Verdict::Activate {
                self.activate(cx, &mut batch, folio);
            }
            if verdict != Verdict::KeepUnlocked {
                self.unlock_page(cx, folio);
            }
            pages[kept] = folio;
            kept += 1;
        }
        self.flush_unmapped(cx, false);
        self.free_unreferenced(cx, &freed[..nr_freed]);
        let activated: u64 = batch.stats.activate.iter().sum();
        if activated != 0 {
            self.mem.events.add(cx.cpu(), VmEvent::Pgactivate, activated);
        }
        Shrunk { reclaimed, kept, stats: batch.stats }
    }

    /// Isolated pages (a reference each, LRU cleared) are reclaimed now if they can be, whoever used
    /// them; the others are put back (MADV_PAGEOUT). The pages freed.
    pub(crate) fn reclaim_pages(&self, cx: &Cx<'_, H>, pages: &[Folio]) -> u64 {
        let before = cx.set_flags(cx.flags() | TaskFlags::MEMALLOC);
        let node_of = |folio: Folio| self.mem.map.page(folio).node();
        let mut sc = Control::new(0, 0, Gfp::GFP_KERNEL, ZoneType::Device);
        let mut reclaimed = 0;
        for run in pages.chunk_by(|&a, &b| node_of(a) == node_of(b)) {
            for chunk in run.chunks(BATCH) {
                let mut batch = [Folio::default(); BATCH];
                let batch = &mut batch[..chunk.len()];
                batch.copy_from_slice(chunk);
                let page = self.mem.map.page(chunk[0]);
                let at = (node_of(chunk[0]), self.lru.id_of(page));
                let shrunk = self.shrink_pages(cx, at, &mut sc, batch, PAGEOUT);
                reclaimed += shrunk.reclaimed;
                for &folio in &batch[..shrunk.kept] {
                    self.putback_page(cx, folio);
                }
            }
        }
        if !before.contains(TaskFlags::MEMALLOC) {
            cx.set_flags(cx.flags() - TaskFlags::MEMALLOC);
        }
        reclaimed
    }

    /// The table of rules/page-decisions#steps, top to bottom.
    fn judge<F: Fn(&Uses) -> Decision>(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        folio: Folio,
        rule: Option<&F>,
    ) -> Verdict {
        let page = self.mem.map.page(folio);
        if !page.try_lock::<H>() {
            return Verdict::KeepUnlocked;
        }
        batch.sc.nr_scanned += folio.nr_pages();
        cx.charge(Cost::ScanPage, 1);
        if !page.is_evictable() {
            return Verdict::Activate;
        }
        if !batch.sc.may_unmap && page.is_mapped() {
            return Verdict::Keep;
        }
        self.count_dirty_state(cx, batch, folio);
        if page.is(PageFlags::WRITEBACK) {
            return self.under_writeback(batch, folio);
        }
        let references = match rule {
            None => References::Reclaim,
            Some(rule) => self.check_references(cx, batch, folio, rule),
        };
        match references {
            References::Activate => return Verdict::Activate,
            References::Keep => {
                batch.stats.ref_keep += folio.nr_pages();
                return Verdict::Keep;
            }
            References::Reclaim | References::ReclaimClean => {}
        }
        let flags = page.flags();
        let is_anon = page.is_anon();
        if is_anon && flags.contains(PageFlags::SWAPBACKED) && !flags.contains(PageFlags::SWAPCACHE)
        {
            if !batch.sc.gfp.contains(Gfp::IO) || flags.contains(PageFlags::PINNED) {
                return Verdict::Keep;
            }
            if !self.add_to_swap(cx, folio) {
                return Verdict::Activate;
            }
        }
        if page.is_mapped() {
            cx.charge(Cost::ReclaimMapped, 1);
            if !self.try_to_unmap(cx, folio, &mut batch.trail) {
                batch.stats.unmap_fail += folio.nr_pages();
                return Verdict::Activate;
            }
        }
        if page.is(PageFlags::PINNED) {
            return Verdict::Activate;
        }
        if page.is(PageFlags::DIRTY)
            && let Some(verdict) = self.dirty_page(cx, batch, folio, references)
        {
            return verdict;
        }
        if page.is(PageFlags::PRIVATE) {
            // What a filesystem keeps with a page is not modelled: nothing can be released.
            return Verdict::Activate;
        }
        self.remove(cx, batch, folio)
    }

    /// Step 5. What a lazily freed page holds does not matter.
    fn count_dirty_state(&self, cx: &Cx<'_, H>, batch: &mut Batch<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        if flags.contains(PageFlags::SWAPBACKED) || page.is_anon() {
            return;
        }
        let is_dirty = flags.contains(PageFlags::DIRTY);
        let is_writeback = flags.contains(PageFlags::WRITEBACK);
        if !is_dirty && !is_writeback {
            return;
        }
        // Devices that say so themselves (up to 4.20).
        let is_congested =
            self.block.congestion.any(Pool::Async) && self.is_on_congested_device(cx, batch, page);
        let stats = &mut batch.stats;
        let pages_if = |is: bool| u64::from(is) * folio.nr_pages();
        stats.dirty += pages_if(is_dirty || is_writeback);
        stats.unqueued_dirty += pages_if(is_dirty && !is_writeback);
        let is_met_again = is_writeback && flags.contains(PageFlags::RECLAIM);
        stats.congested += pages_if(is_congested || is_met_again);
    }

    #[cold]
    fn is_on_congested_device(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        page: &Page,
    ) -> bool {
        let PageOwner::File(id) = page.owner() else { return false };
        let file = batch.trail.file(self, cx, id);
        file.is_some_and(|f| self.block.device(f.spec.device).is_congested(Pool::Async))
    }

    /// Step 6. Reclaim never waits for a page here; it flags it, so that the end of its writeback
    /// brings it to the tail, and slows down as a whole if that is all it meets.
    fn under_writeback(&self, batch: &mut Batch<'_, H>, folio: Folio) -> Verdict {
        let page = self.mem.map.page(folio);
        let is_full = self.reclaim.vec(batch.vec).full_of_writeback.load(Relaxed);
        if batch.sc.is_kswapd && page.is(PageFlags::RECLAIM) && is_full {
            batch.stats.immediate += folio.nr_pages();
        } else {
            page.flag_set::<H>(PageFlags::RECLAIM);
            batch.stats.writeback += folio.nr_pages();
        }
        self.out_of_the_way()
    }

    /// Where dirty pages at the tail go: the active list, or back (up to 4.10).
    fn out_of_the_way(&self) -> Verdict {
        match self.mem.policy.reclaim.dirty_at_tail {
            DirtyAtTail::Activate => Verdict::Activate,
            DirtyAtTail::Keep => Verdict::Keep,
        }
    }

    /// Step 7. Whatever the rule makes of the uses, looking has cleared them: the next look finds what
    /// was used since.
    fn check_references(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        folio: Folio,
        rule: impl Fn(&Uses) -> Decision,
    ) -> References {
        let page = self.mem.map.page(folio);
        let (users, flags) = match self.page_referenced(cx, folio, &mut batch.trail) {
            Referenced::By(users, flags) => (Some(users), flags),
            Referenced::Contended => (None, AreaFlags::empty()),
        };
        let was_referenced = page.flag_test_clear::<H>(PageFlags::REFERENCED);
        let is_file = page.is_file_lru();
        let (verdict, set_again) = rule(&Uses { users, flags, was_referenced, is_file });
        if set_again {
            page.flag_set::<H>(PageFlags::REFERENCED);
        }
        verdict
    }

    /// Step 13: a verdict, or none if the page is clean now and still locked.
    #[inline]
    fn dirty_page(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        folio: Folio,
        references: References,
    ) -> Option<Verdict> {
        let page = self.mem.map.page(folio);
        let sc = &batch.sc;
        if page.is_file_lru() {
            // Only kswapd writes file pages, and only those it met before on a node full of them:
            // flushers do it in better order.
            let is_kept_dirty = self.reclaim.vec(batch.vec).full_of_dirty.load(Relaxed);
            if !(sc.is_kswapd && page.is(PageFlags::RECLAIM) && is_kept_dirty) {
                let stats = &self.mem.node(batch.node).stats;
                let nr = folio.nr_pages() as i64;
                stats.add(cx.cpu(), NodeStat::VmscanImmediateReclaim as usize, nr);
                page.flag_set::<H>(PageFlags::RECLAIM);
                return Some(self.out_of_the_way());
            }
        }
        let may_write = references != References::ReclaimClean
            && sc.may_enter_fs(page.is(PageFlags::SWAPCACHE))
            && sc.may_writepage;
        if !may_write {
            return Some(Verdict::Keep);
        }
        self.flush_unmapped(cx, true);
        self.pageout(cx, batch, folio)
    }

    /// Step 13c: writes one page.
    fn pageout(&self, cx: &Cx<'_, H>, batch: &mut Batch<'_, H>, folio: Folio) -> Option<Verdict> {
        let _phase = cx.phase(Phase::Pageout);
        let page = self.mem.map.page(folio);
        let users = 2 + u32::from(page.is(PageFlags::PRIVATE));
        if page.refcount() != users {
            return Some(Verdict::Keep);
        }
        let page_type = PageType::of(page);
        if page.is(PageFlags::SWAPCACHE) {
            if !self.clear_page_dirty_for_io(cx, folio) {
                return None;
            }
            page.flag_set::<H>(PageFlags::RECLAIM);
            self.swap_writepage(cx, folio);
        } else {
            let PageOwner::File(id) = page.owner() else { return Some(Verdict::Keep) };
            let Some(file) = batch.trail.file(self, cx, id) else {
                return Some(Verdict::Keep);
            };
            if !(file.spec.has_writepage || self.mem.policy.reclaim.file_pageout) {
                return Some(Verdict::Activate);
            }
            if !self.clean_file_page(cx, file, folio) {
                return None;
            }
            page.flag_set::<H>(PageFlags::RECLAIM);
            if self.write_file_page(cx, file, folio) == PageWrite::Refused {
                page.flag_clear::<H>(PageFlags::RECLAIM);
                return Some(Verdict::Activate);
            }
        }
        if !page.is(PageFlags::WRITEBACK) {
            // Done already, or failed.
            page.flag_clear::<H>(PageFlags::RECLAIM);
        }
        cx.event(Event::WriteFolio { pfn: folio.pfn(), page_type });
        let stats = &self.mem.node(batch.node).stats;
        stats.add(cx.cpu(), NodeStat::VmscanWrite as usize, folio.nr_pages() as i64);
        batch.stats.pageout += folio.nr_pages();
        let is_busy = || page.flags().intersects(PageFlags::WRITEBACK | PageFlags::DIRTY);
        if is_busy() || !page.try_lock::<H>() {
            return Some(Verdict::KeepUnlocked);
        }
        is_busy().then_some(Verdict::Keep)
    }

    /// Steps 15 and 16: makes the page nobody's.
    #[inline]
    fn remove(&self, cx: &Cx<'_, H>, batch: &mut Batch<'_, H>, folio: Folio) -> Verdict {
        let page = self.mem.map.page(folio);
        let is_gone = match page.owner() {
            PageOwner::Anon(_) if !page.is(PageFlags::SWAPBACKED) => {
                let is_ours = page.freeze::<H>(1);
                if is_ours {
                    self.mem.events.add(cx.cpu(), VmEvent::Pglazyfreed, folio.nr_pages());
                }
                is_ours
            }
            // What was read ahead from swap belongs to nobody until it is mapped.
            PageOwner::Anon(_) | PageOwner::None => {
                page.is(PageFlags::SWAPCACHE) && self.remove_mapping_swap(cx, folio)
            }
            PageOwner::File(id) => {
                let file = batch.trail.file(self, cx, id);
                file.is_some_and(|file| self.remove_mapping_file(cx, file, folio))
            }
        };
        if !is_gone {
            return Verdict::Keep;
        }
        cx.charge(Cost::ReclaimUnmapped, 1);
        // Who waited for the lock had a reference, so nobody did.
        page.flag_clear::<H>(PageFlags::LOCKED);
        Verdict::Free
    }

    /// To the active list if the scheme has one, unless mlock claims the page; a swap cache page may give
    /// up its slot.
    fn activate(&self, cx: &Cx<'_, H>, batch: &mut Batch<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        if flags.contains(PageFlags::SWAPCACHE)
            && (flags.contains(PageFlags::MLOCKED) || self.swap.is_full())
        {
            self.free_swap_cache(cx, folio, false);
        }
        if batch.busy == Busy::Activate && !page.is(PageFlags::MLOCKED) {
            page.flag_set::<H>(PageFlags::ACTIVE);
            batch.stats.activate[PageType::of(page) as usize] += folio.nr_pages();
        }
    }
}
