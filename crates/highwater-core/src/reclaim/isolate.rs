//! Taking pages off their list, putting them back (spec 02 §10).
//!
//! A page on a list cannot be taken if somebody is about to move it (its LRU flag is clear: it is in
//! a batch that drains now) or to free it (it has no references): it stays, at the head.
//!
//! Synchronisation: one hold of `lru_lock` each. Who isolated a page holds a reference and its LRU
//! flag, so nobody else moves it.

use crate::config::BalanceRule;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::lru::{LruKind, age_clock};
use crate::page::{Page, PageFlags, PageList, Pfn};
use crate::vmstat::VmEvent;
use crate::zone::ZoneType;

/// Which pages an isolation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsolateMode {
    /// Pages of higher zones are set aside (`reclaim_idx`).
    pub highest: ZoneType,
    /// False: mapped pages stay.
    pub may_unmap: bool,
}

/// What an isolation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Isolated {
    /// Pages taken: the first so many of the caller's buffer, oldest first.
    pub taken: usize,
    /// Pages looked at, those set aside included (nr_scanned of the trace; pgscan, pgrefill).
    pub scanned: u64,
    /// Pages set aside because of their zone; pgskip counted them.
    pub skipped: u64,
}

impl<H: Devices> Kernel<H> {
    /// Takes up to `out.len()` pages from the tail of list `list` of `self.lru.vecs[vec]`, under one
    /// hold of its lock: a reference each, LRU cleared. Looks at `out.len()` pages that are not set
    /// aside. Counts pgskip and the list's size; nr_isolated, pgscan and pgrefill are the caller's.
    pub(crate) fn isolate_lru_pages(
        &self,
        cx: &Cx<'_, H>,
        vec: usize,
        list: LruKind,
        mode: IsolateMode,
        out: &mut [Pfn],
    ) -> Isolated {
        let map: &[Page] = &self.mem.map;
        let highest = mode.highest.idx();
        let mut aside = PageList::default();
        let mut skipped = [0; ZoneType::COUNT];
        let mut taken = [0; ZoneType::COUNT];
        let mut zone_of_node = 0;
        let mut result = Isolated::default();

        let mut lru = self.lock_lru(cx, vec);
        let from = &mut lru.lists.lists[list as usize];
        let mut left = out.len();
        while left > 0
            && let Some(pfn) = from.pop_tail(map)
        {
            let page = &map[pfn.idx()];
            let state = page.state();
            let zone = state.zone_type_index();
            result.scanned += 1;
            if zone > highest {
                skipped[zone] += 1;
                aside.push_head(map, pfn);
                continue;
            }
            left -= 1;
            if take::<H>(page, mode.may_unmap) {
                taken[zone] += 1;
                zone_of_node = state.zone_index() - zone;
                out[result.taken] = pfn;
                result.taken += 1;
            } else {
                from.push_head(map, pfn);
            }
        }
        from.splice_head(map, aside);
        for zone in ZoneType::ALL {
            let n = taken[zone.idx()];
            if n != 0 {
                self.lru_count(cx, lru.vec(), zone_of_node + zone.idx(), list, -n);
            }
            let n = skipped[zone.idx()];
            if n != 0 {
                result.skipped += n;
                self.mem.events.add_zoned(cx.cpu(), VmEvent::PgskipDma, zone, n);
            }
        }
        if self.mem.policy.reclaim.balance == BalanceRule::Rotated {
            let page_type = list as usize / 2;
            lru.lists.scanned[page_type] += result.taken as u64;
        }
        cx.charge(Cost::LruIsolate, result.scanned as u32);
        result
    }

    /// Puts isolated pages of `self.lru.vecs[vec]` back, under one hold of its lock: first
    /// `pages[0]`, then `pages[1]`, each oldest first, onto the heads of the lists that their ACTIVE
    /// flags name. Drops the isolation's references and frees pages whose last that was. Returns
    /// how many of each slice went onto a list.
    ///
    /// Pages that were locked into memory meanwhile are added anew once the lock is gone; the
    /// kernel lets go of it for each.
    ///
    /// `rotated` (by [`crate::lru::PageType`]): pages that count as rotated for the balance of
    /// kernels up to 5.7; without effect on others.
    pub(crate) fn move_pages_to_lru(
        &self,
        cx: &Cx<'_, H>,
        vec: usize,
        pages: [&[Pfn]; 2],
        rotated: [u64; 2],
    ) -> [u64; 2] {
        let map: &[Page] = &self.mem.map;
        let (mut free, mut unevictable) = (PageList::default(), PageList::default());
        let mut moved = [0; 2];
        let mut nr_active = 0;

        let mut lru = self.lock_lru(cx, vec);
        for (pages, moved) in pages.iter().zip(&mut moved) {
            for &pfn in *pages {
                let page = &map[pfn.idx()];
                if !page.is_evictable() {
                    unevictable.push_tail(map, pfn);
                    continue;
                }
                // Only now can the reference go: whoever drops the last one must see the flag.
                let marks = page.flag_set::<H>(PageFlags::LRU);
                if page.put::<H>(1) {
                    page.flag_clear::<H>(PageFlags::LRU);
                    free.push_head(map, pfn);
                    continue;
                }
                lru.link_head(pfn);
                nr_active += u64::from(marks.contains(PageFlags::ACTIVE));
                *moved += 1;
            }
        }
        // Kernels that keep no shadows of anonymous pages do not age the clock here either.
        let policy = &self.mem.policy.reclaim;
        if nr_active != 0 && policy.anon_workingset {
            age_clock::<H>(lru.vec(), nr_active);
        }
        if policy.balance == BalanceRule::Rotated {
            lru.lists.rotated[0] += rotated[0];
            lru.lists.rotated[1] += rotated[1];
        }
        lru.add_work((moved[0] + moved[1]) as u32);
        drop(lru);

        while let Some(pfn) = unevictable.pop_head(map) {
            self.putback_page(cx, pfn);
        }
        if !free.is_empty() {
            for pfn in free.iter(map) {
                self.retire(cx, &map[pfn.idx()]);
            }
            self.free_retired(cx, free);
        }
        moved
    }

    /// Takes one page, to which the caller has a reference, off its list (migration,
    /// MADV_PAGEOUT): another reference is taken, LRU cleared. False if it is on no list.
    pub(crate) fn isolate_page(&self, cx: &Cx<'_, H>, pfn: Pfn) -> bool {
        let page = self.mem.map.page(pfn);
        if !page.flag_test_clear::<H>(PageFlags::LRU) {
            return false;
        }
        page.get::<H>(1);
        let mut lru = self.lock_lru(cx, self.lru.index_of(page));
        lru.unlink(pfn);
        drop(lru);
        cx.charge(Cost::LruIsolate, 1);
        true
    }

    /// Puts an isolated page back on the list its flags name, with this CPU's add batch, and drops
    /// the isolation's reference.
    pub(crate) fn putback_page(&self, cx: &Cx<'_, H>, pfn: Pfn) {
        self.lru_add(cx, pfn);
        self.put_page(cx, pfn);
    }
}

/// Takes a page for isolation, the lock of its list held.
#[inline(always)]
fn take<H: Devices>(page: &Page, may_unmap: bool) -> bool {
    if !page.is(PageFlags::LRU) || (!may_unmap && page.is_mapped()) || !page.try_get::<H>() {
        return false;
    }
    if page.flag_test_clear::<H>(PageFlags::LRU) {
        return true;
    }
    // Somebody else took the flag between the two looks. He has a reference of his own and waits
    // for this lock.
    let was_last = page.put::<H>(1);
    debug_assert!(!was_last, "whoever clears LRU has a reference");
    false
}
