//! Pages of mlocked VMAs: onto the unevictable list and back (rules/unmap#mlock).
//!
//! MLOCKED is set at once; the page changes lists when the CPU's mlock batch drains. On the
//! unevictable list a page counts its mlocked mappings (several mms may map a file page). If a
//! page was on no list when it was mlocked, its count is 1 when it arrives there.

use super::batch::BATCH_MAX;
use super::{BatchKind, LockedLru};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags};
use crate::vmstat::{VmEvent, ZoneStat};

/// The operation of the mlock batch on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MlockOp {
    /// One locked mapping more.
    #[default]
    Lock,
    /// The same, of a page that was on no list before.
    LockNew,
    /// One locked mapping less.
    Unlock,
}

impl<H: Devices> Kernel<H> {
    /// Marks a page that a locked VMA maps as MLOCKED and moves it to the unevictable list with the
    /// mlock batch. Called once for each such mapping.
    ///
    /// Linux 5.18 on.
    #[doc(alias = "mlock_folio")]
    pub(crate) fn mlock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.mlock_with(cx, folio, MlockOp::Lock);
    }

    /// As [`Self::mlock_page`] for a fresh page that was never given to [`Self::lru_add`]: the
    /// batch puts it on the list in its stead.
    ///
    /// Linux 5.18 on: same name.
    pub(crate) fn mlock_new_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.mlock_with(cx, folio, MlockOp::LockNew);
    }

    /// Uncounts one locked mapping of a page; the last one clears MLOCKED and gives the page back
    /// to its list.
    ///
    /// Linux 5.18 on: same name.
    pub(crate) fn munlock_page(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.mem.map.page(folio).get::<H>(1);
        self.batch_push(cx, BatchKind::Mlock, folio, MlockOp::Unlock);
    }

    /// As [`Self::mlock_page`] for an isolated page: putback sees the flag.
    pub(crate) fn mlock_isolated(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if !page.flag_test_set::<H>(PageFlags::MLOCKED) {
            self.mem.account(cx.cpu(), folio).zone_plus(ZoneStat::Mlock);
            let nr = folio.nr_pages();
            self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsMlocked, nr);
        }
    }

    /// As [`Self::munlock_page`], at once, for a page that is isolated: it is on no list from which it would have
    /// to be taken.
    pub(crate) fn munlock_isolated(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.clear_mlocked(cx, folio, VmEvent::UnevictablePgsMunlocked);
    }

    fn mlock_with(&self, cx: &Cx<'_, H>, folio: Folio, op: MlockOp) {
        self.mlock_isolated(cx, folio);
        self.mem.map.page(folio).get::<H>(1);
        self.batch_push(cx, BatchKind::Mlock, folio, op);
    }

    /// Drains this CPU's mlock batch.
    ///
    /// Linux 5.18 on.
    #[doc(alias = "mlock_pagevec")]
    pub(super) fn apply_mlock(&self, cx: &Cx<'_, H>, pages: &[Folio], ops: &[MlockOp; BATCH_MAX]) {
        let mut held = None;
        for (&folio, &op) in pages.iter().zip(ops) {
            let page = self.mem.map.page(folio);
            let was_listed = op != MlockOp::LockNew && page.flag_test_clear::<H>(PageFlags::LRU);
            if was_listed || op == MlockOp::LockNew {
                self.relock_lru(cx, &mut held, page);
                if let Some(lru) = &mut held {
                    match op {
                        MlockOp::Lock => self.lock_listed(cx, lru, page, folio),
                        MlockOp::LockNew => self.lock_new(cx, lru, page, folio),
                        MlockOp::Unlock => self.unlock_listed(cx, lru, page, folio),
                    }
                    lru.add_work(1);
                }
                page.flag_set::<H>(PageFlags::LRU);
            } else if op == MlockOp::Unlock {
                // Isolated, or on its way to a list: adding it to a list checks MLOCKED.
                self.clear_mlocked(cx, folio, VmEvent::UnevictablePgsMunlocked);
            }
        }
    }

    /// Counts a locked mapping of a page on a list, and moves the page to the unevictable list.
    ///
    /// Linux 5.18 on.
    #[doc(alias = "__mlock_page")]
    fn lock_listed(&self, cx: &Cx<'_, H>, lru: &mut LockedLru<H>, page: &Page, folio: Folio) {
        match (page.is_evictable(), page.is(PageFlags::UNEVICTABLE)) {
            // Unlocked again since it was queued.
            (true, true) => self.rescue(cx, lru, page, folio),
            (true, false) => {}
            (false, true) => page.add_locked_mapping(),
            (false, false) => {
                lru.unlink(folio);
                self.cull(cx, lru, page, folio);
            }
        }
    }

    /// Puts a fresh mlocked page onto the unevictable list.
    ///
    /// Linux 5.18 on.
    #[doc(alias = "__mlock_new_page")]
    fn lock_new(&self, cx: &Cx<'_, H>, lru: &mut LockedLru<H>, page: &Page, folio: Folio) {
        if page.is_evictable() {
            lru.link_head(folio);
        } else {
            self.cull(cx, lru, page, folio);
        }
    }

    /// Uncounts a locked mapping of a page; the last one moves the page back to an evictable list.
    ///
    /// Linux 5.18 on.
    #[doc(alias = "__munlock_page")]
    fn unlock_listed(&self, cx: &Cx<'_, H>, lru: &mut LockedLru<H>, page: &Page, folio: Folio) {
        let is_culled = page.is(PageFlags::UNEVICTABLE);
        if is_culled && page.remove_locked_mapping() > 0 {
            return;
        }
        self.clear_mlocked(cx, folio, VmEvent::UnevictablePgsMunlocked);
        if is_culled && page.is_evictable() {
            self.rescue(cx, lru, page, folio);
        }
    }

    fn clear_mlocked(&self, cx: &Cx<'_, H>, folio: Folio, event: VmEvent) {
        if self.mem.map.page(folio).flag_test_clear::<H>(PageFlags::MLOCKED) {
            self.mem.account(cx.cpu(), folio).zone_minus(ZoneStat::Mlock);
            self.mem.events.add(cx.cpu(), event, folio.nr_pages());
        }
    }

    /// An unlinked page goes onto the unevictable list.
    fn cull(&self, cx: &Cx<'_, H>, lru: &mut LockedLru<H>, page: &Page, folio: Folio) {
        page.flag_clear::<H>(PageFlags::ACTIVE);
        page.flag_set::<H>(PageFlags::UNEVICTABLE);
        lru.link_head(folio);
        self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsCulled, folio.nr_pages());
    }

    /// A page of the unevictable list goes back to its own.
    fn rescue(&self, cx: &Cx<'_, H>, lru: &mut LockedLru<H>, page: &Page, folio: Folio) {
        lru.unlink(folio);
        page.flag_clear::<H>(PageFlags::UNEVICTABLE);
        lru.link_head(folio);
        self.mem.events.add(cx.cpu(), VmEvent::UnevictablePgsRescued, folio.nr_pages());
    }
}
