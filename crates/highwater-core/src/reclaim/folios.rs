//! Decides and carries out what happens to each page at the tail (rules/page-decisions#steps).
//!
//! A batch of isolated pages is judged page by page, oldest first, in the order of the table there:
//!
//! ```text
//! lock → evictable? → under writeback? → referenced? → swap slot → unmap → dirty? → remove, free
//! ```
//!
//! Pages that are not freed stay in the batch, in order. Freed pages go to the allocator at the
//! end, in one call, or in several if split huge pages make them more than a batch. A huge page is
//! judged as one, unless it has to be split on the way; then its first page takes its place in the
//! batch, and the others are judged after it.
//!
//! The reclaim algorithm decides what the uses of a page mean ([`Rules`]); everything else about a
//! page is the same for all algorithms. The steps are ordered by cost: first checks of the flags,
//! then the walk of the page's mappings, then a swap slot and unmapping, and writing last.
//!
//! Two steps have another reason for their place. The slot comes before unmapping, because the
//! replaced entry must name it (rules/rmap#unmap). A page is unmapped before it is written, because
//! a page that programs can still write may be dirty again at the end.
//!
//! # Reclaim does not wait for a page
//!
//! It does not wait for its lock, which may be held for the length of a read, or by a task that
//! waits for memory. It does not wait for its writeback: there are 31 other pages in the batch, and
//! thousands behind them. A page that cannot go because of a write is marked RECLAIM and (from
//! 4.11) moved out of the way of the next batches. The end of the write moves it to the tail
//! (rules/page-decisions#end-of-writeback). So an anonymous page needs at least two scans: one
//! writes it, one frees it (rules/swap#swap-out). If *all* scanned pages are of this kind, the pass
//! as a whole slows down ([`super::throttle`]); it learns this from [`BatchStats`].
//!
//! One reclaim does wait: that of a version 1 memory cgroup, for a page that it meets under
//! writeback a second time. Nothing else holds up the writers of such a group
//! (rules/memory-cgroups#v1-writeback).
//!
//! # When may a page be freed?
//!
//! After all checks, another task can still find the page in its cache and use it at any time. The
//! reference count decides. It is *frozen* at the expected number (the reclaimer's and the cache's
//! references) under the cache's lock; if there is one more, the page stays. No task gets a
//! reference to a frozen page, so from then on it belongs to the reclaimer alone.
//!
//! Key types: [`Rules`] (how a batch is judged), [`BatchStats`] (the figures that the pass sums
//! up), `Verdict` (the end of one page).
//!
//! [`dirty`] has the steps for pages that are dirty or under writeback.
//!
//! Synchronisation: from step to step only the page lock is held, and it is only ever taken by
//! trylock.
//!
//! From: [`super::batch`], MADV_PAGEOUT · to: `vm::rmap`, `swap`, `page_cache::lookup`,
//! `writeback::io`.

mod dirty;

use alloc::vec::Vec;
use core::hint::cold_path;

use super::Control;
use super::state::TailState;
pub(super) use crate::config::References;
use crate::config::{Answers, DirtyAtTail, PageUses};
use crate::host::{Cost, Cx, Devices, Probe, TaskFlags};
use crate::kernel::Kernel;
use crate::lru::{BATCH, PageType, Walk};
use crate::page::{Folio, Page, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::units::LruVecId;
use crate::vm::{Referenced, Trail, VmaFlags};
use crate::vmstat::{NodeStat, StatSet, VmEvent};
use crate::zone::ZoneType;

/// Sums of one batch of `shrink_pages`, in pages (`struct reclaim_stat`).
#[doc(alias = "reclaim_stat")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchStats {
    /// File pages that are dirty or under writeback.
    pub dirty: u64,
    /// File pages that are dirty, not under writeback.
    pub unqueued_dirty: u64,
    /// File pages under writeback that were already marked, or on a congested device (up to 4.20).
    pub congested: u64,
    /// Under writeback and not `immediate`; marked now if not before.
    pub writeback: u64,
    /// Under writeback and already marked, met by kswapd while the lists are full of writeback.
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
pub(super) struct ShrunkBatch {
    /// Pages freed.
    pub reclaimed: u64,
    /// Number of pages that stay: the first ones of the batch.
    pub kept: usize,
    /// Further pages left, of huge pages that were split.
    pub tails: Vec<Folio>,
    /// Sums.
    pub stats: BatchStats,
}

/// The end of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// No task can find it any more.
    Free,
    /// Back to the head of its list.
    Keep,
    /// The same; it is not locked by us.
    KeepUnlocked,
    /// To the active list.
    Activate,
    /// To be judged again when its writeback has ended: reclaim of a version 1 group.
    AfterWriteback,
}

/// The result of walking a page's mappings, and its flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uses {
    /// Number of VMAs that used the page (young bit set); `None`: a lock was contended.
    pub users: Option<u32>,
    /// Flags of those VMAs.
    pub flags: VmaFlags,
    /// Its REFERENCED flag, cleared by now.
    pub was_referenced: bool,
    /// Its WORKINGSET flag.
    pub was_workingset: bool,
    /// Its NOTED flag (used again since REFERENCED was set, policy `handed-over`), cleared by now.
    pub was_noted: bool,
    /// Page cache, or lazily freed memory.
    pub is_file: bool,
}

/// A rule's decision, and whether to set the referenced flag again.
pub(super) type Decision = (References, bool);

/// Effect of the verdict `Activate`: the active list, or the head of the same list if the algorithm
/// has no active list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// To the active list, out of the way of the next batches.
    Activate,
    /// To the head of the same list: the algorithm has no active list.
    Keep,
}

/// An algorithm's rules for judging a batch. `F` runs once per page, so it is a type parameter: the
/// compiler inlines each algorithm's rule into its own copy of the judging code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<F = fn(&Uses) -> Decision> {
    /// The meaning of uses; `None`: they are not checked.
    pub uses: Option<F>,
    /// Effect of the verdict `Activate`.
    pub busy: Busy,
    /// Effect of the marks that earlier uses left on a page.
    pub marks: Marks,
}

/// Effect of the marks that earlier uses left on a page ([`PageFlags::USED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// A check of uses takes them off.
    TakenOff,
    /// The same, but a mapped page that was marked since its isolation is kept without a check
    /// (MGLRU, up to 7.1).
    KeepMapped,
    /// They stay, and a page that is found in use gets one more (MGLRU, 7.2).
    Stay,
}

/// MADV_PAGEOUT: the caller's request overrides young bits.
const PAGEOUT: Rules = Rules { uses: None, busy: Busy::Activate, marks: Marks::TakenOff };

/// The decision of a program's custom rule. It is not called for a page of an mlocked VMA.
#[cold]
#[inline(never)]
fn own_verdict(
    own: &dyn Answers,
    page: &Page,
    (users, was_referenced, is_file): (Option<u32>, bool, bool),
    usual: References,
) -> References {
    let flags = page.flags();
    let uses = PageUses {
        users,
        was_referenced,
        is_file,
        is_dirty: flags.contains(PageFlags::DIRTY),
        is_workingset: flags.contains(PageFlags::WORKINGSET),
        pages: page.order().pages(),
    };
    own.page(&uses, usual)
}

/// One batch under way.
struct Batch<'a, H: Devices> {
    sc: &'a mut Control,
    /// The lists that the batch comes from.
    vec: LruVecId,
    /// Reclaim's flags of the lruvec that the batch comes from.
    tail: &'a TailState,
    /// Counters of its node.
    counters: &'a StatSet<{ NodeStat::COUNT }>,
    /// The verdict for dirty pages at the tail: activate, or keep (up to 4.10). Pages that are kept
    /// go to the head, so they are back at the tail once per cycle of the inactive list. Activated
    /// pages are out of the way. The end of the write brings them back to the tail; until then they
    /// age like pages in use.
    out_of_the_way: Verdict,
    busy: Busy,
    stats: BatchStats,
    trail: Trail<H>,
    /// Further pages of huge pages that were split, not judged yet.
    tails: Vec<Folio>,
}

/// Pages that are to be freed: one call for a batch, or several if split huge pages make them more
/// than a batch.
#[derive(Default)]
struct Freed {
    folios: [Folio; BATCH],
    nr: usize,
    /// Pages of earlier calls.
    pages: u64,
}

impl<H: Devices> Kernel<H> {
    /// Judges and reclaims a batch of isolated pages of one node, at most [`BATCH`]; those that
    /// stay are left at the front of `pages`, in order.
    #[doc(alias = "shrink_folio_list")]
    #[doc(alias = "shrink_page_list")]
    pub(super) fn shrink_pages<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &mut Control,
        pages: &mut [Folio],
        walk: &mut Walk,
        rules: Rules<F>,
    ) -> ShrunkBatch {
        debug_assert!(pages.len() <= BATCH);
        let out_of_the_way = match self.mem.policy.reclaim.dirty_at_tail {
            DirtyAtTail::Activate => Verdict::Activate,
            DirtyAtTail::Keep => Verdict::Keep,
        };
        let mut batch = Batch {
            sc,
            vec,
            tail: self.reclaim.vec(self.lru.id_of_tail(vec)),
            counters: &self.mem.node(self.lru.node_of(vec)).stats,
            out_of_the_way,
            busy: rules.busy,
            stats: BatchStats::default(),
            trail: Trail::default(),
            tails: Vec::new(),
        };
        batch.trail.set_group(batch.sc.target);
        batch.trail.around = self.around(vec);
        let (mut freed, mut kept) = (Freed::default(), 0);
        for at in 0..pages.len() {
            walk.step(cx.host, &self.mem.map);
            if let Some(folio) = self.shrink_page(cx, &mut batch, &mut freed, pages[at], rules) {
                pages[kept] = folio;
                kept += 1;
            }
        }
        let mut tails = core::mem::take(&mut batch.tails);
        if !tails.is_empty() {
            self.shrink_tails(cx, &mut batch, &mut freed, &mut tails, rules);
        }
        self.free_batch(cx, &mut freed);
        let activated: u64 = batch.stats.activate.iter().sum();
        if activated != 0 {
            self.count_activated(cx, vec, activated);
        }
        ShrunkBatch { reclaimed: freed.pages, kept, tails, stats: batch.stats }
    }

    /// Judges pages from a split; those that stay are left, in order.
    #[cold]
    #[inline(never)]
    fn shrink_tails<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        freed: &mut Freed,
        tails: &mut Vec<Folio>,
        rules: Rules<F>,
    ) {
        tails.retain(|&tail| {
            if freed.nr == BATCH {
                self.free_batch(cx, freed);
            }
            self.shrink_page(cx, batch, freed, tail, rules).is_some()
        });
    }

    /// Judges a page and carries out the verdict; returns what is left of it.
    #[inline(always)]
    fn shrink_page<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        freed: &mut Freed,
        mut folio: Folio,
        rules: Rules<F>,
    ) -> Option<Folio> {
        let verdict = self.judge(cx, batch, &mut folio, rules);
        if verdict == Verdict::Free {
            freed.folios[freed.nr] = folio;
            freed.nr += 1;
            return None;
        }
        let page = self.mem.map.page(folio);
        if verdict == Verdict::AfterWriteback {
            self.unlock(cx, folio, page);
            self.wait_on_writeback(cx, folio);
            return self.shrink_again(cx, batch, freed, folio, rules);
        }
        if verdict == Verdict::Activate {
            self.activate(cx, batch, (folio, page));
        }
        if verdict != Verdict::KeepUnlocked {
            self.unlock(cx, folio, page);
        }
        Some(folio)
    }

    /// Judges a page after its writeback, for which this task waited.
    #[cold]
    #[inline(never)]
    fn shrink_again<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        freed: &mut Freed,
        folio: Folio,
        rules: Rules<F>,
    ) -> Option<Folio> {
        self.shrink_page(cx, batch, freed, folio, rules)
    }

    /// Flushes the TLB, then frees the batch. In the other order a CPU could still write through a
    /// removed translation to a page that has a new user (rules/rmap#deferred-flush). One flush
    /// serves up to 32 pages.
    fn free_batch(&self, cx: &Cx<'_, H>, freed: &mut Freed) {
        self.flush_unmapped(cx, false);
        freed.pages += self.retire_and_free(cx, &freed.folios[..freed.nr]);
        freed.nr = 0;
    }

    /// Reclaims isolated pages at once where it can, even if they were used, and puts the others
    /// back (MADV_PAGEOUT). Returns the pages freed. Works as direct reclaim, so dirty file pages
    /// are only marked and left to the flushers.
    ///
    /// Linux: same name.
    pub(crate) fn reclaim_pages(&self, cx: &Cx<'_, H>, pages: &[Folio]) -> u64 {
        let node_of = |folio: Folio| self.mem.map.page(folio).node();
        let mut sc = Control::new(0, 0, Gfp::GFP_KERNEL, ZoneType::Device);
        let mut reclaimed = 0;
        cx.with_flag(TaskFlags::MEMALLOC, || {
            for run in pages.chunk_by(|&a, &b| node_of(a) == node_of(b)) {
                for chunk in run.chunks(BATCH) {
                    let mut batch = [Folio::default(); BATCH];
                    let batch = &mut batch[..chunk.len()];
                    batch.copy_from_slice(chunk);
                    let page = self.mem.map.page(chunk[0]);
                    let vec = self.lruvec_of(page);
                    let walk = &mut Walk::default();
                    // Under MGLRU uses count here too (rules/mglru#neighbours).
                    let rules = self.mglru_rules().unwrap_or(PAGEOUT);
                    let shrunk = self.shrink_pages(cx, vec, &mut sc, batch, walk, rules);
                    reclaimed += shrunk.reclaimed;
                    for &folio in batch[..shrunk.kept].iter().chain(&shrunk.tails) {
                        self.putback_page(cx, folio);
                    }
                }
            }
        });
        reclaimed
    }

    /// The table of rules/page-decisions#steps, top to bottom. Pages that stay are still locked
    /// afterwards, unless the verdict says otherwise. For a split huge page the verdict is about
    /// its first page, which `whole` is then.
    #[inline(always)]
    fn judge<F: Fn(&Uses) -> Decision + Copy>(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        whole: &mut Folio,
        rules: Rules<F>,
    ) -> Verdict {
        let folio = *whole;
        let page = self.mem.map.page(folio);
        // The holder may be reading the page in, or be stuck in the allocator. The page does not
        // count in `nr_scanned`: kswapd compares that count with its target to choose the next
        // priority, so only judged pages count.
        if !page.try_lock::<H>() {
            cold_path();
            return Verdict::KeepUnlocked;
        }
        batch.sc.nr_scanned += folio.nr_pages();
        cx.charge(Cost::ScanPage, 1);
        let flags = page.flags();
        // Put-back takes it to the unevictable list.
        if flags.contains(PageFlags::MLOCKED) {
            cold_path();
            return Verdict::Activate;
        }
        if !batch.sc.may_unmap && page.is_mapped() {
            return Verdict::Keep;
        }
        if rules.marks == Marks::KeepMapped
            && flags.contains(PageFlags::REFERENCED)
            && page.is_mapped()
        {
            cold_path();
            return Verdict::Keep;
        }
        if flags.intersects(PageFlags::DIRTY | PageFlags::WRITEBACK) {
            // Before any decision: the sums describe all pages at the tail, used or not.
            self.count_dirty_state(cx, batch, (folio, page), flags);
            // Read again: a look at the page's device may have waited.
            if page.is(PageFlags::WRITEBACK) {
                if self.waits_for_page(batch, page) {
                    return Verdict::AfterWriteback;
                }
                return self.under_writeback(batch, (folio, page));
            }
        }
        let references = match rules.uses {
            None => References::Reclaim,
            Some(rule) => self.check_references(cx, batch, (folio, page), rule, rules.marks),
        };
        match references {
            References::Activate => return Verdict::Activate,
            References::Keep => {
                batch.stats.ref_keep += folio.nr_pages();
                return Verdict::Keep;
            }
            References::Reclaim | References::ReclaimClean => {}
        }
        if page.is_anon()
            && let flags = page.flags()
            && flags & (PageFlags::SWAPBACKED | PageFlags::SWAPCACHE) == PageFlags::SWAPBACKED
        {
            // Without IO the page cannot be written, so it needs no slot. A pinned page may change
            // under DMA, so it has no stable contents to write.
            if !batch.sc.gfp.contains(Gfp::IO) || flags.contains(PageFlags::PINNED) {
                return Verdict::Keep;
            }
            // No slot to be had: out of the way of the next batches, which would get none either.
            let has_slot = match folio.is_large() {
                false => self.add_to_swap(cx, folio),
                true => self.add_huge_to_swap(cx, whole, &mut batch.tails),
            };
            // The huge page was counted whole. After a split only its first page counts here; each
            // tail counts when it is judged.
            batch.sc.nr_scanned -= folio.nr_pages() - whole.nr_pages();
            if !has_slot {
                return Verdict::Activate;
            }
        }
        if page.is_mapped() {
            let folio = *whole;
            cx.charge(Cost::ReclaimMapped, 1);
            if !self.try_to_unmap(cx, folio, &mut batch.trail) {
                batch.stats.unmap_fail += folio.nr_pages();
                return Verdict::Activate;
            }
        }
        // Only now is the result final: pins are taken through mappings, and none is left. Dirty
        // bits of the entries were transferred to the page.
        if page.flags().intersects(PageFlags::PINNED | PageFlags::DIRTY | PageFlags::PRIVATE)
            && let Some(verdict) = self.not_clean(cx, batch, (*whole, page), references)
        {
            return verdict;
        }
        self.remove(cx, batch, (*whole, page))
    }

    /// Walks a page's mappings and decides by their young bits whether it is kept, activated or
    /// reclaimed (step 7). Whatever the rule decides, the check has cleared the bits: the next
    /// check finds uses since then.
    #[doc(alias = "folio_check_references")]
    #[doc(alias = "page_check_references")]
    #[inline(always)]
    fn check_references(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
        rule: impl Fn(&Uses) -> Decision,
        marks: Marks,
    ) -> References {
        if !page.is_mapped() {
            // Most pages are unmapped. The constant 0 lets the compiler simplify the inlined rule
            // for them.
            return self.judge_uses((folio, page), Some(0), VmaFlags::empty(), rule, marks);
        }
        let (users, flags) = match self.page_referenced(cx, folio, &mut batch.trail) {
            Referenced::By(users, flags) => (Some(users), flags),
            Referenced::Contended => (None, VmaFlags::empty()),
        };
        if let Some(around) = &mut batch.trail.around {
            cold_path();
            self.promote_around(cx, batch.vec, batch.sc, around);
        }
        self.judge_uses((folio, page), users, flags, rule, marks)
    }

    #[inline(always)]
    fn judge_uses(
        &self,
        (folio, page): (Folio, &Page),
        users: Option<u32>,
        flags: VmaFlags,
        rule: impl Fn(&Uses) -> Decision,
        marks: Marks,
    ) -> References {
        let mut found = page.flags();
        if found.intersects(PageFlags::USED) && marks != Marks::Stay {
            found = page.flag_clear::<H>(PageFlags::USED);
        }
        let was_referenced = found.contains(PageFlags::REFERENCED);
        let was_noted = found.contains(PageFlags::NOTED);
        let was_workingset = found.contains(PageFlags::WORKINGSET);
        let is_file = !found.contains(PageFlags::SWAPBACKED);
        let (mut verdict, set_again) =
            rule(&Uses { users, flags, was_referenced, was_workingset, was_noted, is_file });
        // Plain values, copied only for a custom rule, so that the usual path keeps nothing in
        // memory for it.
        if let Some(own) = &self.own
            && !flags.contains(VmaFlags::LOCKED)
        {
            verdict = own_verdict(&**own, page, (users, was_referenced, is_file), verdict);
        }
        if set_again {
            page.flag_set::<H>(PageFlags::REFERENCED);
        }
        if matches!(verdict, References::Activate) && marks == Marks::Stay {
            cold_path();
            self.mark_active(page);
        }
        if was_noted && matches!(verdict, References::Activate) {
            self.tick_by_use(folio);
        }
        verdict
    }

    /// Removes a page from its file or the swap cache so that it can be freed (steps 15 and 16).
    #[doc(alias = "remove_mapping")]
    #[inline(always)]
    fn remove(
        &self,
        cx: &Cx<'_, H>,
        batch: &mut Batch<'_, H>,
        (folio, page): (Folio, &Page),
    ) -> Verdict {
        let is_gone = match page.mapping() {
            // Lazily freed: no cache has it, so the reclaimer's reference must be the only one.
            PageMapping::Anon(_) if !page.is(PageFlags::SWAPBACKED) => {
                let frozen = page.freeze::<H>(1);
                let is_ours = frozen.is_some();
                if let Some(frozen) = frozen {
                    frozen.keep();
                    self.mem.events.add(cx.cpu(), VmEvent::Pglazyfreed, folio.nr_pages());
                }
                is_ours
            }
            // Pages read ahead from swap have no mapping until they are mapped.
            PageMapping::Anon(_) | PageMapping::None => {
                page.is(PageFlags::SWAPCACHE)
                    && self.remove_mapping_swap(cx, folio, batch.sc.target)
            }
            PageMapping::File(id) => {
                let target = batch.sc.target;
                // Not a closure: it would be called, and all of the batch's state saved for it.
                match batch.trail.file(self, cx, id) {
                    Some(file) => self.remove_mapping_file(cx, file, (folio, page), target),
                    None => false,
                }
            }
        };
        if !is_gone {
            return Verdict::Keep;
        }
        cx.charge(Cost::ReclaimUnmapped, 1);
        // A waiter for the lock would have a reference, so there is none.
        page.flag_clear::<H>(PageFlags::LOCKED);
        Verdict::Free
    }

    /// Marks the page active if the algorithm has an active list and the page is not mlocked.
    /// Frees its swap slot if it is mlocked or more than half of swap is taken (rules/swap#full):
    /// the slot only saves a later write, and other pages need it more.
    #[inline(always)]
    fn activate(&self, cx: &Cx<'_, H>, batch: &mut Batch<'_, H>, (folio, page): (Folio, &Page)) {
        let flags = page.flags();
        if flags.contains(PageFlags::SWAPCACHE)
            && (flags.contains(PageFlags::MLOCKED) || self.is_swap_full(folio))
        {
            self.free_swap_cache(cx, folio, false);
        }
        if batch.busy == Busy::Activate && !page.is(PageFlags::MLOCKED) {
            page.flag_set::<H>(PageFlags::ACTIVE);
            batch.stats.activate[PageType::of(page) as usize] += folio.nr_pages();
        }
    }
}
