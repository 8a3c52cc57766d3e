//! A round of eviction (rules/mglru#evict).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::two_list::decide;
use super::super::{Busy, Decision, Marks, References, Rules, Uses};
use super::At;
use crate::config::{FirstUse, FlusherWake, TypeChoice};
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::lru::generations::{
    ALL_MARKS, End, NR_TIERS, SortMode, Sorted, entry, set_refs, slot_of, slot_of_page,
};
use crate::lru::{BATCH, BatchKind, PAGEVEC, PageType, Walk};
use crate::page::{Folio, Page, PageFlags};
use crate::page_alloc::Gfp;
use crate::reclaim::Control;
use crate::units::LruVecId;
use crate::vm::{Around, PagesToAge, VmaFlags};
use crate::writeback::WriteReason;

/// Swappiness that stands for anonymous memory only.
const ANON_ONLY: u64 = 201;

/// The result of a round, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Looked at; 0: there is nothing to evict.
    pub scanned: u64,
    pub reclaimed: u64,
    /// Anonymous pages were isolated.
    pub took_anon: bool,
}

/// How isolated pages are judged (rules/mglru#judge). Up to 7.1 uses mean what they mean under two
/// lists; in 6.1 the look around its own entry has marked a used page, so one use makes it active.
fn rules(first_use: FirstUse) -> Rules {
    match first_use {
        FirstUse::Promotes => {
            Rules { uses: Some(decide), busy: Busy::Activate, marks: Marks::KeepMapped }
        }
        FirstUse::Marks => {
            Rules { uses: Some(decide_7_2), busy: Busy::Activate, marks: Marks::Stay }
        }
    }
}

/// The first use leaves a mark, the second makes the page active.
fn decide_7_2(uses: &Uses) -> Decision {
    match uses.users {
        _ if uses.flags.contains(VmaFlags::LOCKED) => (References::Activate, false),
        None => (References::Keep, false),
        Some(0) => (References::Reclaim, false),
        Some(_) if !uses.was_referenced && !uses.was_workingset => (References::Keep, true),
        Some(_) => (References::Activate, true),
    }
}

impl<H: Devices> Kernel<H> {
    /// Isolates pages of the oldest generation, has them judged and puts back those that stay.
    #[doc(alias = "evict_folios")]
    #[doc(alias = "evict_pages")]
    pub(super) fn evict(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        swappiness: u64,
        most: u64,
    ) -> Round {
        let mut pages = Vec::new();
        let with_anon = swappiness != 0;
        let (page_type, sorted, scanned) = {
            let mut lru = self.lock_lru(cx, at.1);
            let Some(gens) = self.generations(at.1) else { return Round::default() };
            let (page_type, sorted, found) =
                self.isolate_a_type(at, sc, swappiness, most, |page_type, mode| {
                    lru.isolate_oldest(page_type, mode, &mut pages)
                });
            let moved = lru.advance_oldest(with_anon);
            let mut scanned = found + u64::from(moved);
            // Of the type that is behind.
            let types = &PageType::ALL[usize::from(!with_anon)..];
            let left = types.iter().map(|&page_type| gens.window(page_type).len()).max();
            if left <= Some(2) {
                scanned = 0;
            }
            (page_type, sorted, scanned)
        };
        self.count_scanned(cx, at.1, sc, page_type, sorted.isolated);
        self.count_refill(cx, at.1, sc, sorted.sorted);
        let mut round = Round { scanned, reclaimed: 0, took_anon: false };
        if !pages.is_empty() {
            round.took_anon = page_type == PageType::Anon;
            round.reclaimed = self.judge_isolated(cx, at, sc, page_type, pages);
            self.count_stolen(cx, at.1, sc, page_type, round.reclaimed);
        }
        round
    }

    /// Chooses a type and scans its oldest generation; if that has nothing, the other's. The last
    /// figure is what counts as scanned.
    #[doc(alias = "isolate_folios")]
    fn isolate_a_type(
        &self,
        at: At,
        sc: &Control,
        swappiness: u64,
        most: u64,
        mut scan: impl FnMut(PageType, &SortMode) -> Sorted,
    ) -> (PageType, Sorted, u64) {
        let Some(gens) = self.generations(at.1) else {
            return (PageType::File, Sorted::default(), 0);
        };
        let policy = self.mglru_policy();
        let [anon, file] = PageType::ALL.map(|page_type| gens.window(page_type).min);
        let rule = policy.type_choice;
        let (first, by_types) = match (rule, swappiness) {
            (_, 0) => (PageType::File, false),
            (TypeChoice::OlderFirst, _) if anon < file => (PageType::Anon, false),
            (_, 1) => (PageType::File, false),
            (_, 200..) => (PageType::Anon, false),
            _ => (gens.feedback.choose(rule, swappiness), rule == TypeChoice::OlderFirst),
        };
        let needs_io = sc.may_writepage || !policy.kswapd_ages;
        let mut mode = SortMode {
            highest: sc.reclaim_idx,
            may_unmap: sc.may_unmap,
            may_write: needs_io && sc.gfp.contains(Gfp::IO),
            limit: 0,
            most,
        };
        let limit = |page_type, by_types| match (policy.tiers, by_types) {
            (false, _) => NR_TIERS - 1,
            (_, true) => gens.feedback.limit_by_types(page_type, swappiness),
            (_, false) => gens.feedback.limit_by_tiers(rule, page_type),
        };
        mode.limit = limit(first, by_types);
        let mut sorted = scan(first, &mode);
        let may_change = swappiness != 0 && swappiness != ANON_ONLY;
        // [7.2] The same type once more, if it had pages at all; else the other.
        let is_again = rule == TypeChoice::Refaults && sorted.looks != 0;
        let is_done = match rule {
            TypeChoice::OlderFirst => sorted.result() != 0,
            TypeChoice::Refaults => sorted.isolated != 0,
        };
        if is_done || !(is_again || may_change) {
            return (first, sorted, sorted.result());
        }
        let other = if first == PageType::Anon { PageType::File } else { PageType::Anon };
        let chosen = if is_again { first } else { other };
        mode.limit = limit(chosen, false);
        let second = scan(chosen, &mode);
        sorted.add(&second);
        (chosen, sorted, second.result())
    }

    /// Judges isolated pages and puts back the others; pages that became clean meanwhile get a
    /// second round. Returns the pages freed.
    fn judge_isolated(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &mut Control,
        page_type: PageType,
        mut pages: Vec<Folio>,
    ) -> u64 {
        let (policy, mut freed) = (self.mglru_policy(), 0);
        let isolated: u64 = pages.iter().map(|folio| folio.nr_pages()).sum();
        for is_second in [false, true] {
            let (mut back, mut again) = (Vec::new(), Vec::new());
            let mut unqueued = 0;
            for chunk in pages.chunks_mut(BATCH) {
                let rules = rules(policy.first_use);
                let mut walk = Walk::default();
                let shrunk = self.shrink_pages(cx, at.1, sc, chunk, &mut walk, rules);
                freed += shrunk.reclaimed;
                unqueued += shrunk.stats.unqueued_dirty;
                for &folio in chunk[..shrunk.kept].iter().chain(&shrunk.tails) {
                    match is_second || self.stays(folio) {
                        true => back.push(folio),
                        false => again.push(folio),
                    }
                }
            }
            if !is_second && page_type == PageType::File {
                self.note_unqueued(cx, sc, isolated, unqueued);
            }
            back.iter().for_each(|&folio| self.prepare_to_go_back(at, folio));
            self.move_pages_to_lru(cx, at.1, [&back, &[]], [0; 2]);
            if again.is_empty() {
                break;
            }
            pages = again;
        }
        freed
    }

    /// A page that was not freed goes back to a list: it is in use, or in the way of a write. If
    /// not, its write ended while it was isolated.
    fn stays(&self, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let busy = PageFlags::ACTIVE
            | PageFlags::REFERENCED
            | PageFlags::LOCKED
            | PageFlags::DIRTY
            | PageFlags::WRITEBACK;
        !page.is_evictable() || page.is_mapped() || page.flags().intersects(busy)
    }

    /// True if a page would enter the oldest generation.
    fn would_be_oldest(&self, vec: LruVecId, folio: Folio) -> bool {
        self.generations(vec).is_some_and(|gens| {
            let page = self.mem.map.page(folio);
            let window = gens.window(PageType::of(page));
            entry(self.mglru_policy().read_entry, window, page.flags(), End::Head) == window.min
        })
    }

    /// Sets the flags by which a page finds its generation.
    fn prepare_to_go_back(&self, at: At, folio: Folio) {
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        if !page.is_evictable() {
            return;
        }
        let is_written = flags.contains(PageFlags::RECLAIM)
            && flags.intersects(PageFlags::DIRTY | PageFlags::WRITEBACK);
        if is_written {
            if flags.contains(PageFlags::WORKINGSET) {
                page.flag_set::<H>(PageFlags::REFERENCED);
            }
            return;
        }
        match self.mglru_policy().first_use {
            FirstUse::Promotes => page.flag_replace::<H>(ALL_MARKS, PageFlags::ACTIVE),
            FirstUse::Marks if self.would_be_oldest(at.1, folio) => {
                page.flag_set::<H>(PageFlags::ACTIVE);
            }
            FirstUse::Marks => {}
        }
    }

    /// The flushers are behind if all pages of files are dirty and wait for nobody (6.12 on).
    fn note_unqueued(&self, cx: &Cx<'_, H>, sc: &mut Control, isolated: u64, unqueued: u64) {
        match self.mglru_policy().flusher_wake {
            FlusherWake::Never => {}
            FlusherWake::PerPass => {
                sc.mglru.files += isolated;
                sc.mglru.unqueued += unqueued;
            }
            FlusherWake::PerBatch if unqueued == isolated => {
                self.wake_flushers(cx, WriteReason::Vmscan);
            }
            FlusherWake::PerBatch => {}
        }
    }

    /// How pages are judged under this algorithm; none under another.
    pub(in crate::reclaim) fn mglru_rules(&self) -> Option<Rules> {
        self.is_mglru().then(|| rules(self.mglru_policy().first_use))
    }

    /// Promotes pages that a look around a young entry found used. Without room to batch changes,
    /// a few of them go by the activate batch.
    pub(in crate::reclaim) fn promote_around(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        sc: &Control,
        around: &mut Around,
    ) {
        let is_6_1 = self.mglru_policy().kswapd_ages;
        let has_room = match is_6_1 {
            true => sc.is_kswapd || sc.mglru.has_aged || around.found.len() >= PAGEVEC,
            false => sc.is_kswapd || sc.mglru.has_aged,
        };
        for folio in around.found.drain(..) {
            let page = self.mem.map.page(folio);
            let Some(gens) = self.generations(self.lruvec_of(page)) else { continue };
            let youngest = slot_of(gens.max());
            let is_older = slot_of_page(page.flags()).is_some_and(|slot| slot != youngest);
            if is_older && !has_room && self.mglru_policy().first_use == FirstUse::Promotes {
                self.lru_batch(cx, BatchKind::Activate, folio);
            } else if is_older || slot_of_page(page.flags()).is_none() {
                self.promote(cx, folio);
            }
        }
        if let Some(gens) = self.generations(vec)
            && !around.dense.is_empty()
        {
            let mut walk = gens.walk.lock(cx.cpu());
            around.dense.drain(..).for_each(|table| walk.note(gens.max(), table));
        }
    }

    /// A used page is one of the working set if it has marks, else it gets one more.
    #[doc(alias = "lru_gen_set_refs")]
    pub(in crate::reclaim) fn mark_active(&self, page: &Page) {
        page.flag_update::<H>(|flags| Some(set_refs(flags)));
    }

    /// The look around young entries in the check of a page's uses (rules/mglru#look-around).
    pub(in crate::reclaim) fn around(&self, vec: LruVecId) -> Option<Box<Around>> {
        self.is_mglru().then(|| {
            let policy = self.mglru_policy();
            let of = PagesToAge {
                node: self.lru.node_of(vec),
                with_anon: self.can_evict_anon(vec),
                group: self.mem.groups.is_on().then(|| self.lru.group_of(vec)),
            };
            Box::new(Around::new(policy.look_around, of, !policy.kswapd_ages))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference check (rules/mglru#judge, vector 18).
    #[test]
    fn one_use() {
        let uses = Uses {
            users: Some(1),
            flags: VmaFlags::empty(),
            was_referenced: false,
            was_noted: false,
            was_workingset: false,
            is_file: true,
        };
        let marked = Uses { was_referenced: true, ..uses };
        let contended = Uses { users: None, ..uses };
        assert_eq!(decide(&marked), (References::Activate, true), "6.1: marked by itself");
        assert_eq!(decide(&contended), (References::Keep, false));
        assert_eq!(decide(&uses), (References::Keep, true), "6.12");
        assert_eq!(decide_7_2(&uses), (References::Keep, true));
        assert_eq!(decide_7_2(&marked), (References::Activate, true));
        let unused = Uses { users: Some(0), ..uses };
        assert_eq!(decide_7_2(&unused), (References::Reclaim, false));
    }
}
