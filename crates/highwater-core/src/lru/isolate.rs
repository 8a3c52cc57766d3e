//! Isolation of pages from their list, and putback (rules/page-decisions#isolate).
//!
//! A page cannot be isolated if its LRU flag is clear, because it is in a batch that drains now.
//! Nor if it has no references, because it is about to be freed. Such a page stays, at the head.
//!
//! Synchronisation: one hold of `lru_lock` each. The isolating task holds a reference and the LRU
//! flag, so no other task moves the page.

use alloc::vec::Vec;
use core::hint::cold_path;

use super::locked::HeadRun;
use super::{BatchKind, LruKind, LruLists, Walk};
use crate::host::{Cost, Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, PageList};
use crate::units::LruVecId;
use crate::vmstat::VmEvent;
use crate::zone::{ZoneId, ZoneType};

/// Which pages an isolation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsolateMode {
    /// Pages of higher zones are set aside (`reclaim_idx`).
    pub highest: ZoneType,
    /// False: mapped pages stay.
    pub may_unmap: bool,
}

/// What an isolation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// Number of isolated folios: the first entries of the caller's buffer, oldest first.
    pub taken: usize,
    /// Their pages.
    pub nr_taken: u64,
    /// Pages looked at, those set aside included (nr_scanned of the trace; pgscan, pgrefill).
    pub scanned: u64,
    /// Pages set aside because of their zone; pgskip counted them.
    pub skipped: u64,
}

impl<H: Devices> Kernel<H> {
    /// Isolates up to `out.len()` pages from the tail of an LRU list under one hold of `lru_lock`:
    /// a reference each, LRU cleared. Looks at `out.len()` pages that are not set aside. Counts
    /// pgskip and the list's size; nr_isolated, pgscan and pgrefill are the caller's.
    ///
    /// Linux: same name.
    #[doc(alias = "isolate_lru_folios")]
    pub fn isolate_lru_pages(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        list: LruKind,
        mode: IsolateMode,
        out: &mut [Folio],
    ) -> Isolated {
        self.isolate_and_walk(cx, vec, list, mode, out).0
    }

    /// The same; also returns a walk that prefetches for later batches while the caller works on
    /// this one.
    pub(crate) fn isolate_and_walk(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        list: LruKind,
        mode: IsolateMode,
        out: &mut [Folio],
    ) -> (Isolated, Walk) {
        let _phase = cx.phase(Phase::Isolate);
        let map: &[Page] = &self.mem.map;
        let highest = mode.highest.idx();
        let mut aside = PageList::default();
        let mut skipped = [0; ZoneType::COUNT];
        let mut taken = [0; ZoneType::COUNT];
        let node = self.lru.node_of(vec);
        let mut nr_out = 0;
        let (mut refused, mut nr_not_taken) = (0, 0);

        let mut lru = self.lock_lru(cx, vec);
        let LruLists { lists, milestones, .. } = &mut *lru.lists;
        let (from, milestones) = (&mut lists[list as usize], &mut milestones[list as usize]);
        let mut left = out.len() as i64;
        let mut tail = from.walk_back(map);
        loop {
            // Most pages are isolated: a separate loop that keeps little state at hand.
            let mut not_taken = None;
            while left > 0
                && let Some((pfn, page)) = tail.next()
            {
                let state = page.block();
                let folio = Folio::new(pfn, state.order());
                let nr = folio.nr_pages() as i64;
                let zone = state.zone_type_index();
                if zone > highest || !take::<H>(page, mode.may_unmap) {
                    not_taken = Some((folio, zone));
                    break;
                }
                left -= nr;
                taken[zone] += nr;
                out[nr_out] = folio;
                nr_out += 1;
            }
            let Some((folio, zone)) = not_taken else { break };
            let (pfn, nr) = (folio.pfn(), folio.nr_pages());
            nr_not_taken += 1;
            cx.host.descriptors_use([pfn]);
            if zone > highest {
                skipped[zone] += nr;
                aside.push_head(map, folio);
                continue;
            }
            left -= nr as i64;
            refused += nr;
            // A later isolation may reach it again.
            from.cut_back(tail);
            from.push_head(map, folio);
            milestones.joined(pfn, from.len());
            tail = from.walk_back(map);
        }
        from.cut_back(tail);
        from.splice_head(map, aside);
        let (out, looked_at) = (&out[..nr_out], nr_out + nr_not_taken);
        milestones.taken(looked_at, out);
        let walk = milestones.ask(looked_at, &self.mem.map);
        cx.host.descriptors_use(out.iter().map(|folio| folio.pfn()));
        let mut result = Isolated { taken: nr_out, ..Isolated::default() };
        for zone in ZoneType::ALL {
            let n = taken[zone.idx()];
            if n != 0 {
                result.nr_taken += n as u64;
                self.lru_count(cx, vec, ZoneId::new(node, zone), list, -n);
            }
            let n = skipped[zone.idx()];
            if n != 0 {
                result.skipped += n;
                self.mem.events.add_zoned(cx.cpu(), VmEvent::PgskipDma, zone, n);
            }
        }
        result.scanned = result.nr_taken + result.skipped + refused;
        if let Some(page_type) = list.page_type() {
            lru.lists.balance.isolated(page_type, result.nr_taken);
        }
        cx.charge(Cost::LruIsolate, looked_at as u32);
        (result, walk)
    }

    /// Puts isolated pages of `self.lru.vec(vec)` back, under one hold of its lock. First
    /// `pages[0]`, then `pages[1]`, each oldest first, go onto the heads of the lists that their
    /// ACTIVE flags name. Drops the isolation's references, and frees pages for which it was the
    /// last. Returns how many pages of each slice went onto a list.
    ///
    /// Linux: same name.
    ///
    /// Pages that were mlocked meanwhile are added again after the lock is released; the kernel
    /// releases it for each.
    ///
    /// `rotated` (by [`crate::lru::PageType`]): pages that were in use, for the [`super::balance`].
    #[doc(alias = "move_folios_to_lru")]
    #[doc(alias = "putback_inactive_pages")]
    #[inline(never)]
    pub fn move_pages_to_lru(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        pages: [&[Folio]; 2],
        rotated: [u64; 2],
    ) -> [u64; 2] {
        let _phase = cx.phase(Phase::PutBack);
        let map: &[Page] = &self.mem.map;
        let (mut free, mut unevictable) = (PageList::default(), PageList::default());
        let mut moved = [0; 2];
        let (mut nr_active, mut nr_moved) = (0, 0);

        if self.mem.policy.memcg.reparent_lru && self.has_strays(vec, pages) {
            cold_path();
            return self.move_without_strays(cx, vec, pages, rotated);
        }
        let mut lru = self.lock_lru(cx, vec);
        for (pages, moved) in pages.iter().zip(&mut moved) {
            let mut run = HeadRun::default();
            for &folio in *pages {
                let page = &map[folio.pfn().idx()];
                if !page.is_evictable() {
                    unevictable.push_tail(map, folio);
                    continue;
                }
                // Drop the reference only now: the task that drops the last one must see the flag.
                let marks = page.flag_set::<H>(PageFlags::LRU);
                if page.put::<H>(1) {
                    page.flag_clear::<H>(PageFlags::LRU);
                    free.push_head(map, folio);
                    continue;
                }
                run = lru.link_next(run, (folio, page), marks);
            }
            let linked = lru.end_run(run).linked;
            *moved = linked.frames;
            nr_active += linked.active_frames;
            nr_moved += linked.folios;
        }
        // Kernels that keep no shadows of anonymous pages do not age the clock here either.
        if nr_active != 0 && self.mem.policy.reclaim.anon_workingset {
            self.age_lists(vec, nr_active);
        }
        lru.lists.balance.rotated(rotated);
        lru.add_work(nr_moved);
        drop(lru);

        while let Some(pfn) = unevictable.pop_head(map) {
            self.putback_page(cx, self.mem.map.folio(pfn));
        }
        self.retire_and_free_list(cx, free);
        moved
    }

    /// A removed group's pages went to its parent while they were isolated (7.2).
    fn has_strays(&self, vec: LruVecId, pages: [&[Folio]; 2]) -> bool {
        pages.into_iter().flatten().any(|&folio| self.lruvec_of(self.mem.map.page(folio)) != vec)
    }

    /// Puts pages back of which some belong to other lists by now: these go by the add batch.
    #[inline(never)]
    fn move_without_strays(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        pages: [&[Folio]; 2],
        rotated: [u64; 2],
    ) -> [u64; 2] {
        let stays = |folio: &&Folio| self.lruvec_of(self.mem.map.page(**folio)) == vec;
        let kept = pages.map(|pages| pages.iter().filter(stays).copied().collect::<Vec<_>>());
        let strays = pages.into_iter().flatten().filter(|folio| !stays(folio));
        strays.for_each(|&folio| self.putback_page(cx, folio));
        self.move_pages_to_lru(cx, vec, [&kept[0], &kept[1]], rotated)
    }

    /// Takes one page off its list (migration, MADV_PAGEOUT): another reference is taken, LRU
    /// cleared. False if it is on no list.
    #[doc(alias = "folio_isolate_lru")]
    #[doc(alias = "isolate_lru_page")]
    pub(crate) fn isolate_page(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        if !page.flag_test_clear::<H>(PageFlags::LRU) {
            return false;
        }
        page.get::<H>(1);
        let mut lru = self.lock_lru(cx, self.lruvec_of(page));
        lru.unlink(folio);
        drop(lru);
        cx.charge(Cost::LruIsolate, 1);
        true
    }

    /// Puts an isolated page back on the list its flags name, with this CPU's add batch, and drops
    /// the isolation's reference.
    #[doc(alias = "folio_putback_lru")]
    #[doc(alias = "putback_lru_page")]
    pub(crate) fn putback_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        // Not `lru_add`: this is not a new page of a task.
        self.lru_batch(cx, BatchKind::Add, folio);
        self.put_page(cx, folio);
    }
}

/// Takes a page for isolation, the lock of its list held.
#[inline(always)]
pub(super) fn take<H: Devices>(page: &Page, may_unmap: bool) -> bool {
    let flags = page.flags();
    if !flags.contains(PageFlags::LRU) || (!may_unmap && page.is_mapped()) || !page.try_get::<H>() {
        return false;
    }
    if page.flag_clear_seen::<H>(flags, PageFlags::LRU) {
        return true;
    }
    // Somebody else took the flag between the two looks. He has a reference of his own and waits
    // for this lock.
    let was_last = page.put::<H>(1);
    debug_assert!(!was_last, "whoever clears LRU has a reference");
    false
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::config::{BalanceRule, ZoneSpec};
    use crate::host::{Lock, Solo};
    use crate::lru::balance::{Balance, ByRotation};
    use crate::lru::testing::{ANON, FILE, Stage, VEC};
    use crate::page_alloc::Gfp;
    use crate::sync::atomic::Ordering::Relaxed;

    const ALL: IsolateMode = IsolateMode { highest: ZoneType::Movable, may_unmap: true };

    fn isolate(
        stage: &Stage<'_>,
        list: LruKind,
        want: usize,
        mode: IsolateMode,
    ) -> (Isolated, Vec<Folio>) {
        let mut out = [Folio::default(); 64];
        let n = stage.kernel.isolate_lru_pages(&stage.cx, VEC, list, mode, &mut out[..want]);
        (n, out[..n.taken].to_vec())
    }

    /// Pages of zones above the one that is needed do not count (rules/page-decisions#isolate).
    #[test]
    fn pages_of_higher_zones_are_set_aside() {
        let host = Solo::default();
        let zones = [
            ZoneSpec::full(ZoneType::Dma32, 4096, 4096),
            ZoneSpec::full(ZoneType::Normal, 1 << 20, 4096),
        ];
        let stage = Stage::with(&host, zones.into(), |_| {});
        let listed = |gfp| {
            let folio = stage.page_for(FILE, gfp);
            stage.list(folio);
            folio
        };
        let normal: Vec<_> = (0..10).map(|_| listed(Gfp::GFP_HIGHUSER_MOVABLE)).collect();
        let dma32: Vec<_> = (0..40).map(|_| listed(Gfp::GFP_KERNEL | Gfp::DMA32)).collect();
        let mode = IsolateMode { highest: ZoneType::Dma32, may_unmap: true };
        let mut taken = Vec::new();
        let locks = stage.lru_locks(|| {
            let (n, pages) = isolate(&stage, LruKind::InactiveFile, 32, mode);
            assert_eq!(n, Isolated { taken: 32, nr_taken: 32, scanned: 42, skipped: 10 });
            taken = pages;
        });
        assert_eq!(locks, 1);
        assert_eq!(taken, dma32[..32], "oldest first");
        assert_eq!(stage.events(VmEvent::PgskipNormal), 10);
        assert_eq!(stage.events(VmEvent::PgskipDma32), 0);
        let order = stage.order(LruKind::InactiveFile);
        assert!(order[..10].iter().rev().eq(&normal), "at the head, in their order");
        assert!(order[10..].iter().rev().eq(&dma32[32..]));
        stage.check();
    }

    #[test]
    fn pages_that_cannot_be_taken_go_to_the_head() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let pages = stage.listed_many(ANON, 5);
        let page = |i: usize| stage.at(pages[i]);
        page(0).map_add::<Solo>(1);
        page(1).flag_clear::<Solo>(PageFlags::LRU);
        page(2).freeze::<Solo>(1).expect("one user").keep();
        let mode = IsolateMode { may_unmap: false, ..ALL };
        let (n, taken) = isolate(&stage, LruKind::InactiveAnon, 4, mode);
        assert_eq!((n.scanned, n.skipped), (4, 0), "scans what it looks at");
        assert_eq!(taken, [pages[3]]);
        assert_eq!((page(3).refcount(), stage.flags(pages[3])), (2, ANON));
        assert_eq!(stage.order(LruKind::InactiveAnon), [pages[2], pages[1], pages[0], pages[4]]);
        page(1).flag_set::<Solo>(PageFlags::LRU);
        page(2).unfreeze(1);
        stage.check();
        // An empty list ends the scan.
        let (n, taken) = isolate(&stage, LruKind::InactiveAnon, 32, ALL);
        assert_eq!((n.scanned, taken.len()), (4, 4));
        assert_eq!(isolate(&stage, LruKind::ActiveAnon, 32, ALL).0, Isolated::default());
        stage.check();
    }

    #[test]
    fn pages_go_back_in_order() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let pages = stage.listed_many(FILE, 32);
        let (_, taken) = isolate(&stage, LruKind::InactiveFile, 32, ALL);
        stage.at(taken[30]).flag_set::<Solo>(PageFlags::ACTIVE);
        stage.at(taken[31]).flag_set::<Solo>(PageFlags::ACTIVE);
        let (active, inactive) = (&taken[30..], &taken[..30]);
        let mut moved = [0; 2];
        let locks = stage.lru_locks(|| {
            let back = [active, inactive];
            moved = stage.kernel.move_pages_to_lru(&stage.cx, VEC, back, [0; 2]);
        });
        assert_eq!((locks, moved), (1, [2, 30]));
        assert!(stage.order(LruKind::InactiveFile).iter().rev().eq(&pages[..30]));
        assert_eq!(stage.order(LruKind::ActiveFile), [pages[31], pages[30]]);
        assert!(pages.iter().all(|&folio| stage.at(folio).refcount() == 1));
        let vec = stage.kernel.lru.vec(VEC);
        assert_eq!(vec.nonresident_age.load(Relaxed), 2);
        stage.check();
    }

    /// Pages that take turns: each goes where one by one would have put it.
    #[test]
    fn pages_of_several_lists_go_back_each_to_its_own() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        stage.listed_many(FILE, 40);
        let older = stage.listed(FILE | PageFlags::ACTIVE);
        let (_, taken) = isolate(&stage, LruKind::InactiveFile, 32, ALL);
        let is_active = |at: usize| at % 7 < 3;
        let mut expected = [Vec::new(), [older].into()];
        for (at, &folio) in taken.iter().enumerate() {
            match at {
                // Freed meanwhile, and found to be unevictable without being locked into memory.
                10 => stage.kernel.put_page(&stage.cx, folio),
                11 | 12 => _ = stage.at(folio).flag_set::<Solo>(PageFlags::UNEVICTABLE),
                _ if is_active(at) => {
                    stage.at(folio).flag_set::<Solo>(PageFlags::ACTIVE);
                    expected[1].push(folio);
                }
                _ => expected[0].push(folio),
            }
        }
        // The second part goes on where the first ends.
        let (first, second) = taken.split_at(20);
        let moved = stage.kernel.move_pages_to_lru(&stage.cx, VEC, [first, second], [0; 2]);
        assert_eq!(moved, [19, 12]);
        let [inactive, active] = expected;
        assert!(stage.order(LruKind::ActiveFile).iter().rev().eq(&active));
        assert!(stage.order(LruKind::InactiveFile).iter().rev().skip(8).eq(&inactive));
        let vec = stage.kernel.lru.vec(VEC);
        assert_eq!(vec.size(LruKind::Unevictable), 2);
        assert_eq!(vec.nonresident_age.load(Relaxed), active.len() as u64 - 1);
        stage.check();
    }

    #[test]
    fn pages_freed_or_locked_meanwhile_do_not_go_back() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let pages = stage.listed_many(ANON, 4);
        let (_, taken) = isolate(&stage, LruKind::InactiveAnon, 4, ALL);
        stage.kernel.put_page(&stage.cx, pages[0]);
        stage.kernel.put_page(&stage.cx, pages[1]);
        stage.kernel.mlock_page(&stage.cx, pages[2]);
        let moved = stage.kernel.move_pages_to_lru(&stage.cx, VEC, [&taken, &[]], [0; 2]);
        assert_eq!(moved, [1, 0]);
        assert_eq!(stage.order(LruKind::InactiveAnon), [pages[3]]);
        assert_eq!(stage.events(VmEvent::Pgfree), 2);
        stage.kernel.lru_add_drain(&stage.cx);
        assert_eq!(stage.kernel.lru.vec(VEC).size(LruKind::Unevictable), 1);
        assert_eq!(stage.at(pages[2]).refcount(), 1);
        let next: Vec<_> = (0..2).map(|_| stage.page(ANON)).collect();
        assert_eq!(next, pages[..2], "freed last first");
        stage.check();
    }

    #[test]
    fn rotation_counts_where_it_weighs() {
        let host = Solo::default();
        let stage = Stage::policy(&host, |p| {
            p.reclaim.balance = BalanceRule::Rotated;
            p.reclaim.anon_workingset = false;
        });
        stage.listed_many(FILE | PageFlags::ACTIVE, 20);
        let (_, taken) = isolate(&stage, LruKind::ActiveFile, 32, ALL);
        stage.kernel.move_pages_to_lru(&stage.cx, VEC, [&taken, &[]], [0, 7]);
        let vec = stage.kernel.lru.vec(VEC);
        let lists = vec.lists.lock(stage.cx.cpu());
        let notes = ByRotation { scanned: [0, 20], rotated: [0, 7] };
        assert_eq!(lists.balance, Balance::Rotated(notes));
        assert_eq!(vec.nonresident_age.load(Relaxed), 0);
    }

    #[test]
    fn single_pages_come_off_and_go_back() {
        let host = Solo::default();
        let stage = Stage::new(&host);
        let pages = stage.listed_many(FILE, 3);
        assert!(stage.kernel.isolate_page(&stage.cx, pages[1]));
        assert!(!stage.kernel.isolate_page(&stage.cx, pages[1]));
        assert_eq!(stage.order(LruKind::InactiveFile), [pages[2], pages[0]]);
        stage.check();
        stage.kernel.putback_page(&stage.cx, pages[1]);
        stage.kernel.lru_add_drain(&stage.cx);
        assert_eq!(stage.order(LruKind::InactiveFile), [pages[1], pages[2], pages[0]]);
        assert_eq!(stage.at(pages[1]).refcount(), 1);
        stage.check();
    }
}
