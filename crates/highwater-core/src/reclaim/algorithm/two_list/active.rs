//! Deactivation of pages from active lists (rules/page-decisions#active-shrink).
//!
//! [`Kernel::shrink_active`] moves a batch from the tail of an active list to the inactive one,
//! whether the pages were used or not; the inactive list finds that out. Only executable file pages
//! that were used stay: a program whose text is evicted stalls at every step, and text is small.
//!
//! Why check uses at all, then? A young bit means "used since it was cleared". A page of an active
//! list may have had its bit set for hours. The walk clears it, so a bit found at the inactive tail
//! means a use *since then*. The test of a page is the time that it takes through the inactive
//! list.
//!
//! Nothing is freed here. Deactivation sets the length of the inactive list, and so of that test.
//! If it is too short, pages in use fail it. If it is too long, the active list protects nothing.
//!
//! From: [`super`] · to: [`crate::reclaim::batch`], `vm::rmap`.

use super::super::At;
use crate::config::LruTopology;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::lru::{LruKind, PageType};
use crate::memcg::walk::Walk;
use crate::page::{Folio, Page};
use crate::reclaim::Control;
use crate::reclaim::batch::Look;
use crate::reclaim::budget::inactive_is_low;
use crate::units::{GroupId, LruVecId, SWAP_CLUSTER_MAX};
use crate::vm::{Referenced, Trail, VmaFlags};
use crate::zone::NodeId;

impl<H: Devices> Kernel<H> {
    /// Deactivates a batch of `want` pages at most from the tail of the active list of a type,
    /// sparing executable file pages in use. The walk needs no `lru_lock`: the pages are isolated.
    ///
    /// Linux: here the two-list LRU's rules; `refill_batch` does the work.
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

    /// Whether a page was used since the last check, and through which VMAs; clears the records. A
    /// locked file page counts as used (rules/page-decisions#reference-walk): its mappings can only
    /// be walked under the page lock, and the lock's holder is using it.
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

    /// True if there are too few inactive pages of a type compared with active ones
    /// (rules/lru#inactive-ratio). A page would then pass the inactive list before a program could
    /// use it again. With more memory a smaller share is enough, because the time of the passage
    /// depends on the number of pages, not on the share.
    pub(super) fn inactive_list_is_low(&self, vec: LruVecId, page_type: PageType) -> bool {
        let inactive = self.pages_of_lists(vec, LruKind::new(page_type, false));
        let active = self.pages_of_lists(vec, LruKind::new(page_type, true));
        match (self.mem.policy.reclaim.lru, page_type) {
            // Up to 4.7 file lists are kept equal.
            (LruTopology::Zone, PageType::File) => active > inactive,
            (LruTopology::Zone, PageType::Anon) | (LruTopology::Node, _) => {
                inactive_is_low(inactive, active)
            }
        }
    }

    /// Ages anonymous pages of a lruvec if their inactive list is low and there is swap at all
    /// (rules/lru#anon-aging). So later swapping finds pages that were checked. It also runs while
    /// no slot is free, because one may be free soon. It takes one batch at a time, because every
    /// pass calls it.
    #[doc(alias = "age_active_anon")]
    pub(super) fn age_anon(&self, cx: &Cx<'_, H>, at: At, sc: &Control) {
        if self.swap.nr_total() != 0 && self.inactive_list_is_low(at.1, PageType::Anon) {
            self.shrink_active(cx, at, sc, PageType::Anon, SWAP_CLUSTER_MAX);
        }
    }

    /// Ages the anonymous pages of every group if those of the machine together need it
    /// (rules/lru#anon-aging).
    pub(super) fn age_groups(&self, cx: &Cx<'_, H>, node: NodeId, sc: &Control) {
        let root = self.lru.id_of_target(GroupId::ROOT, node);
        if self.swap.nr_total() == 0 || !self.inactive_list_is_low(root, PageType::Anon) {
            return;
        }
        for group in Walk::full(&self.memcg.tree, GroupId::ROOT) {
            let at = (node, self.lru.id_of_group(group, node));
            self.shrink_active(cx, at, sc, PageType::Anon, SWAP_CLUSTER_MAX);
        }
    }
}
