//! One set of lists, locked, and its counters.
//!
//! Pages that join or leave a list are counted in runs: consecutive pages of one zone and list make
//! one change of the size and of the zone's and node's counters. The rest is counted before the
//! lock is released.

use core::hint::cold_path;

use super::generations::End;
use super::{LruKind, LruLists};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::{Chain, Folio, Page, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::LruVecId;
use crate::vmstat::GroupStat;
use crate::zone::{NodeId, ZoneId, ZoneType};

type Guard<'a, H> = <<H as crate::host::Host>::Lock<LruLists> as Lock<LruLists>>::Guard<'a>;

/// Lists under their lock. Dropping it counts the rest, charges the moves and unlocks.
pub(crate) struct LockedLru<'a, 'h, H: Devices> {
    pub(super) kernel: &'a Kernel<H>,
    pub(super) cx: &'a Cx<'h, H>,
    pub(super) id: LruVecId,
    joined: Tally,
    left: Tally,
    /// Moves not charged yet, and the cost of one.
    work: u32,
    cost: Cost,
    pub lists: Guard<'a, H>,
}

/// Pages on their way to the heads of lists ([`LockedLru::link_next`]). Nothing else joins a list
/// meanwhile, and [`LockedLru::end_run`] comes last.
#[derive(Default)]
#[must_use]
pub(super) struct HeadRun<'a> {
    /// Pages for the same list as the last one.
    chain: Chain<'a>,
    /// Frames of the chain.
    chain_frames: u64,
    /// Of runs that ended.
    pub(super) linked: Linked,
}

/// Pages that are on their lists.
#[derive(Clone, Copy, Default)]
pub(super) struct Linked {
    pub(super) folios: u32,
    pub(super) frames: u64,
    /// Those of active lists.
    pub(super) active_frames: u64,
}

impl Linked {
    fn add(&mut self, folio: Folio, is_active: bool) {
        self.folios += 1;
        self.frames += folio.nr_pages();
        self.active_frames += if is_active { folio.nr_pages() } else { 0 };
    }
}

/// Pages of one zone that join (or leave) one list.
#[derive(Clone, Copy)]
struct Tally {
    /// The key of pages of this zone and list: one comparison, with nothing to compute.
    key: u64,
    zone: ZoneId,
    list: LruKind,
    pages: i64,
}

impl Tally {
    const NONE: Tally = Tally {
        key: u64::MAX,
        zone: ZoneId::new(NodeId(0), ZoneType::Dma),
        list: LruKind::InactiveAnon,
        pages: 0,
    };

    #[inline(always)]
    fn key(page: &Page, flags: PageFlags) -> u64 {
        let list = match flags.contains(PageFlags::UNEVICTABLE) {
            // The same list, whatever else they are.
            true => PageFlags::UNEVICTABLE,
            false => flags & LruKind::FLAGS,
        };
        u64::from(page.place()) | u64::from(list.bits()) << 32
    }

    fn of(page: &Page, flags: PageFlags) -> Tally {
        let key = Tally::key(page, flags);
        Tally { key, zone: page.zone_id(), list: LruKind::of(flags), pages: 0 }
    }
}

impl<H: Devices> Kernel<H> {
    /// Locks a set of LRU lists (`lru_lock`).
    #[doc(alias = "folio_lruvec_lock")]
    #[inline]
    pub(crate) fn lock_lru<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        id: LruVecId,
    ) -> LockedLru<'a, 'h, H> {
        let lists = self.lru.vec(id).lists.lock(cx.cpu());
        self.locked(cx, id, lists)
    }

    #[inline]
    fn locked<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        id: LruVecId,
        lists: Guard<'a, H>,
    ) -> LockedLru<'a, 'h, H> {
        let (joined, left) = (Tally::NONE, Tally::NONE);
        LockedLru { kernel: self, cx, id, joined, left, work: 0, cost: Cost::LruMove, lists }
    }

    /// Locks the lists of a page unless `held` is the lock of just these; true if the lock was
    /// taken now.
    #[doc(alias = "folio_lruvec_relock_irq")]
    #[inline(always)]
    pub(crate) fn relock_lru<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        held: &mut Option<LockedLru<'a, 'h, H>>,
        page: &Page,
    ) -> bool {
        let id = self.lruvec_of(page);
        if held.as_ref().is_some_and(|lru| lru.id == id) {
            return false;
        }
        // The old lock first: two of a class are never held together.
        *held = None;
        *held = Some(self.lock_lru(cx, id));
        if self.mem.policy.memcg.reparent_lru && self.lruvec_of(page) != id {
            cold_path();
            self.relock_moved(cx, held, page);
        }
        true
    }

    /// A removed group's page went to the parent while its lists were waited for (7.2).
    #[inline(never)]
    fn relock_moved<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        held: &mut Option<LockedLru<'a, 'h, H>>,
        page: &Page,
    ) {
        while held.as_ref().is_none_or(|lru| lru.id != self.lruvec_of(page)) {
            *held = None;
            *held = Some(self.lock_lru(cx, self.lruvec_of(page)));
        }
    }

    /// The same if that needs no waiting; none, and nothing held, if it does.
    pub(crate) fn try_relock_lru<'a, 'h>(
        &'a self,
        cx: &'a Cx<'h, H>,
        held: &mut Option<LockedLru<'a, 'h, H>>,
        page: &Page,
    ) -> Option<bool> {
        let id = self.lruvec_of(page);
        if held.as_ref().is_some_and(|lru| lru.id == id) {
            return Some(false);
        }
        *held = None;
        let vec = self.lru.vec(id);
        let lists = vec.lists.try_lock(cx.cpu())?;
        *held = Some(self.locked(cx, id, lists));
        Some(true)
    }

    /// Adds `delta` pages of a zone to a list's size and counters.
    #[doc(alias = "update_lru_size")]
    pub(crate) fn lru_count(
        &self,
        cx: &Cx<'_, H>,
        id: LruVecId,
        zone: ZoneId,
        list: LruKind,
        delta: i64,
    ) {
        let vec = self.lru.vec(id);
        let size = &vec.sizes[zone.zone_type().idx()][list as usize];
        if H::THREADED && vec.generations.is_some() {
            // Uses of pages that are found count without the lock.
            size.fetch_add(delta as u64, Relaxed);
        } else {
            // Under the lock, so there is no other writer.
            let sum = size.load(Relaxed) as i64 + delta;
            debug_assert!(sum >= 0, "{list:?} of zone {zone:?} shrinks below nothing");
            size.store(sum as u64, Relaxed);
        }
        let cpu = cx.cpu();
        let node = self.mem.node(zone.node());
        if let Some(zone) = self.mem.zone_by_id(zone) {
            zone.stats.add(cpu, list.zone_stat() as usize, delta);
        }
        node.stats.add(cpu, list.node_stat() as usize, delta);
        if self.mem.groups.is_on() {
            cold_path();
            let at = (self.lru.group_of(id), zone.node());
            self.mem.groups.add(cpu, at, list.node_stat(), delta);
        }
    }
}

impl<'a, 'h, H: Devices> LockedLru<'a, 'h, H> {
    /// What each move costs from now on: [`Cost::LruMove`] unless the operation has a cost that
    /// includes it.
    #[inline(always)]
    pub(super) fn set_cost(&mut self, cost: Cost) {
        self.cost = cost;
    }

    /// Counts an event of the memory cgroup that the lists belong to.
    #[inline]
    pub(super) fn count_for_group(&self, item: GroupStat, pages: u64) {
        let groups = &self.kernel.mem.groups;
        if groups.is_on() {
            cold_path();
            let lru = &self.kernel.lru;
            let at = (lru.group_of(self.id), lru.node_of(self.id));
            groups.count(self.cx.cpu(), at, item, pages as i64);
        }
    }

    /// Charges `moves` when the lock goes.
    #[inline(always)]
    pub(crate) fn add_work(&mut self, moves: u32) {
        self.work += moves;
    }

    /// Puts a page at the head of the list its flags name.
    #[doc(alias = "lruvec_add_folio")]
    #[doc(alias = "add_page_to_lru_list")]
    #[inline]
    pub(crate) fn link_head(&mut self, folio: Folio) {
        let page = self.kernel.mem.map.page(folio);
        if self.join_generation(folio, page.flags(), End::Head) {
            return;
        }
        match self.join(folio, page, page.flags()) {
            LruKind::Unevictable => page.set_locked_mappings(),
            list => {
                let LruLists { lists, milestones, .. } = &mut *self.lists;
                lists[list as usize].push_head(&self.kernel.mem.map, folio);
                milestones[list as usize].joined(folio.pfn(), lists[list as usize].len());
            }
        }
    }

    /// As [`LockedLru::link_head`] of one page after the other, of which most go to the same list:
    /// they are linked to each other, and to the list once it is another's turn
    /// ([`LockedLru::end_run`]).
    #[inline(always)]
    pub(super) fn link_next(
        &mut self,
        mut run: HeadRun<'a>,
        (folio, page): (Folio, &'a Page),
        flags: PageFlags,
    ) -> HeadRun<'a> {
        debug_assert_eq!(self.id, self.kernel.lruvec_of(page));
        if self.join_generation(folio, flags, End::Head) {
            run.linked.add(folio, flags.contains(PageFlags::ACTIVE));
            return run;
        }
        if self.joined.key != Tally::key(page, flags) {
            run = self.end_run(run);
            self.begin_joining(page, flags);
        }
        run.chain.push_head(folio.pfn(), page);
        run.chain_frames += folio.nr_pages();
        run
    }

    /// Puts the pages that were linked to each other at the head of their list.
    #[inline(never)]
    pub(super) fn end_run(&mut self, run: HeadRun<'a>) -> HeadRun<'a> {
        let HeadRun { chain, chain_frames, mut linked } = run;
        let chain = chain.into_list();
        let list = self.joined.list;
        let map = &self.kernel.mem.map;
        let walk = chain.walk_back(map);
        if list == LruKind::Unevictable {
            walk.for_each(|(_, page)| page.set_locked_mappings());
        } else {
            let LruLists { lists, milestones, .. } = &mut *self.lists;
            let (list, milestones) = (&mut lists[list as usize], &mut milestones[list as usize]);
            list.splice_head(map, chain);
            milestones.all_joined(walk.map(|(pfn, _)| pfn), list.len());
        }
        self.joined.pages += chain_frames as i64;
        linked.folios += chain.len();
        linked.frames += chain_frames;
        if list.is_active() {
            linked.active_frames += chain_frames;
        }
        HeadRun { linked, ..HeadRun::default() }
    }

    /// Puts a page at the tail of the list its flags name.
    #[doc(alias = "lruvec_add_folio_tail")]
    #[doc(alias = "add_page_to_lru_list_tail")]
    #[inline]
    pub(crate) fn link_tail(&mut self, folio: Folio) {
        let page = self.kernel.mem.map.page(folio);
        if self.join_generation(folio, page.flags(), End::Tail) {
            return;
        }
        match self.join(folio, page, page.flags()) {
            LruKind::Unevictable => page.set_locked_mappings(),
            list => self.lists.lists[list as usize].push_tail(&self.kernel.mem.map, folio),
        }
    }

    /// Takes a page off the list its flags name; the caller clears LRU.
    #[doc(alias = "lruvec_del_folio")]
    #[doc(alias = "del_page_from_lru_list")]
    #[inline]
    pub(crate) fn unlink(&mut self, folio: Folio) {
        let page = self.kernel.mem.map.page(folio);
        let flags = page.flags();
        if self.leave_generation(folio, flags) {
            return;
        }
        if self.left.key != Tally::key(page, flags) {
            self.count_left();
            self.left = Tally::of(page, flags);
        }
        let list = self.left.list;
        if list != LruKind::Unevictable {
            self.lists.lists[list as usize].remove(&self.kernel.mem.map, folio);
        }
        self.left.pages += folio.nr_pages() as i64;
    }

    /// Counts a page that comes onto a list; which one that is.
    #[inline(always)]
    fn join(&mut self, folio: Folio, page: &Page, flags: PageFlags) -> LruKind {
        debug_assert_eq!(self.id, self.kernel.lruvec_of(page));
        if self.joined.key != Tally::key(page, flags) {
            self.begin_joining(page, flags);
        }
        self.joined.pages += folio.nr_pages() as i64;
        self.joined.list
    }

    #[inline(never)]
    fn begin_joining(&mut self, page: &Page, flags: PageFlags) {
        self.count_joined();
        self.joined = Tally::of(page, flags);
    }

    fn count_joined(&mut self) {
        let Tally { zone, list, pages, .. } = self.joined;
        if pages != 0 {
            self.joined.pages = 0;
            self.kernel.lru_count(self.cx, self.id, zone, list, pages);
        }
    }

    /// Runs after counting those that joined: a page may have done both, and no size may fall below
    /// 0.
    fn count_left(&mut self) {
        let Tally { zone, list, pages, .. } = self.left;
        if pages != 0 {
            self.count_joined();
            self.left.pages = 0;
            self.kernel.lru_count(self.cx, self.id, zone, list, -pages);
        }
    }
}

impl<H: Devices> Drop for LockedLru<'_, '_, H> {
    #[inline]
    fn drop(&mut self) {
        self.count_joined();
        self.count_left();
        if self.work != 0 {
            self.cx.charge(self.cost, self.work);
        }
    }
}

/// Locked mappings of a page on the unevictable list: kept where its neighbours would be, since
/// that list is not linked. Under the lock of the page's lists.
impl Page {
    /// A page comes onto the unevictable list: one mapping, if it is locked at all.
    fn set_locked_mappings(&self) {
        self.next.store(u32::from(self.is(PageFlags::MLOCKED)), Relaxed);
    }

    /// One more.
    pub(super) fn add_locked_mapping(&self) {
        self.next.store(self.next.load(Relaxed) + 1, Relaxed);
    }

    /// One less; how many are left.
    pub(super) fn remove_locked_mapping(&self) -> u32 {
        let left = self.next.load(Relaxed).saturating_sub(1);
        self.next.store(left, Relaxed);
        left
    }
}
