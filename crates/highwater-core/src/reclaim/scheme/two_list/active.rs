//! Active lists: taking pages down (rules/page-decisions#active-shrink).
//!
//! [`Kernel::shrink_active`] moves a batch from the tail of an active list to the inactive one,
//! whether the pages were used or not: that is found out there. Only executable file pages that
//! were used stay: a program whose text is thrown out stalls at every step, and there is never much
//! of it.
//!
//! Why look at all, then? Because a young bit only ever says "since it was cleared". A page that comes from
//! an active list may have had its bit set for hours. The walk clears it, so what the inactive tail finds
//! later is a use *since then*: the time a page takes through the inactive list is the test that it has to
//! pass.
//!
//! Nothing is freed by this. It decides how long the inactive list is, and so how long that test lasts: too
//! short, and pages in use fail it; too long, and the active list protects nobody.
//!
//! From: [`super`] · to: [`crate::reclaim::batch`], `vm::rmap`.

use super::super::At;
use crate::config::LruTopology;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::page::{Folio, Page};
use crate::reclaim::Control;
use crate::reclaim::batch::Look;
use crate::reclaim::budget::inactive_is_low;
use crate::units::LruVecId;
use crate::units::SWAP_CLUSTER_MAX;
use crate::vm::{Referenced, Trail, VmaFlags};

impl<H: Devices> Kernel<H> {
    /// Deactivates a batch of `want` pages at most from the tail of the active list of a type,
    /// sparing executable file pages in use. The walk needs no `lru_lock`: the pages are isolated.
    ///
    /// Linux: the two-list LRU's rules; `refill_batch` does the work.
    #[doc(alias = "shrink_active_list")]
    #[inline(never)]
    pub(in crate::reclaim) fn shrink_active(
        &self,
        cx: &Cx<'_, H>,
        at: At,
        sc: &Control,
        page_type: PageType,
        want: u64,
    ) {
        let mut trail = Trail::default();
        self.refill_batch(cx, at, sc, page_type, want, |folio, page| {
            let (was_used, flags) = self.was_used(cx, (folio, page), &mut trail);
            let is_text = || flags.contains(VmaFlags::EXEC) && page.is_file_lru();
            Look { was_used, stays: was_used && is_text() }
        });
    }

    /// Was a page used since last looked at, and through which VMAs? Clears the traces of it. A
    /// file page that somebody holds locked counts as used (rules/page-decisions#reference-walk): its
    /// mappings can only be walked under the page's lock, and who holds that is using it for something.
    #[inline(always)]
    fn was_used(
        &self,
        cx: &Cx<'_, H>,
        (folio, page): (Folio, &Page),
        trail: &mut Trail<H>,
    ) -> (bool, VmaFlags) {
        if !page.is_mapped() {
            return (false, VmaFlags::empty());
        }
        let needs_lock = !page.is_anon();
        if needs_lock && !page.try_lock::<H>() {
            return (true, VmaFlags::empty());
        }
        let found = self.page_referenced(cx, folio, trail);
        if needs_lock {
            self.unlock(cx, folio, page);
        }
        match found {
            Referenced::By(users, flags) => (users != 0, flags),
            Referenced::Contended => (true, VmaFlags::empty()),
        }
    }

    /// True if there are too few inactive pages of a type for the active ones
    /// (rules/lru#inactive-ratio): a page would pass the inactive list before anybody could use it
    /// again. The larger the memory, the smaller the share that is enough: what counts is the time of the
    /// passage, and that goes with pages, not with shares.
    pub(super) fn inactive_list_is_low(&self, vec: LruVecId, page_type: PageType) -> bool {
        let lists = self.lru.vec(vec);
        let inactive = lists.size(LruKind::new(page_type, false));
        let active = lists.size(LruKind::new(page_type, true));
        match (self.mem.policy.reclaim.lru, page_type) {
            // Up to 4.7 file lists are kept equal.
            (LruTopology::Zone, PageType::File) => active > inactive,
            (LruTopology::Zone, PageType::Anon) | (LruTopology::Node, _) => {
                inactive_is_low(inactive, active)
            }
        }
    }

    /// Ages anonymous pages of a lruvec if their inactive list is low and there is swap at all
    /// (rules/lru#anon-aging). Later swapping then finds pages that were looked at. Also while no
    /// slot is free: one may be soon. One batch at a time, as this comes with every pass.
    #[doc(alias = "age_active_anon")]
    pub(super) fn age_anon(&self, cx: &Cx<'_, H>, at: At, sc: &Control) {
        if self.swap.nr_total() != 0 && self.inactive_list_is_low(at.1, PageType::Anon) {
            self.shrink_active(cx, at, sc, PageType::Anon, SWAP_CLUSTER_MAX);
        }
    }
}
