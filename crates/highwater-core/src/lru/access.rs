//! Marking pages used (rules/lru#mark-accessed, rules/unmap#mark-accessed).

use super::generations;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags};

impl<H: Devices> Kernel<H> {
    /// Moves a used page one step on: inactive and unreferenced, inactive and referenced, active
    /// and unreferenced, active and referenced.
    ///
    /// An activation is charged when the batch drains, under `lru_lock`.
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[doc(alias = "mark_page_accessed")]
    #[doc(alias = "folio_mark_accessed")]
    #[inline]
    pub fn mark_accessed(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.is_mglru() {
            return self.mark_read(cx, folio);
        }
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        if !flags.contains(PageFlags::REFERENCED) {
            cx.charge(Cost::MarkReferenced, 1);
            page.flag_set::<H>(PageFlags::REFERENCED);
        } else if !flags.intersects(PageFlags::UNEVICTABLE | PageFlags::ACTIVE) {
            self.activate_used(cx, folio);
        }
    }

    /// MGLRU gives the page a mark, and leaves it where it is (rules/mglru#marks).
    #[doc(alias = "folio_inc_refs")]
    #[inline(never)]
    fn mark_read(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::UNEVICTABLE) {
            return;
        }
        cx.charge(Cost::MarkReferenced, 1);
        let rule = self.mglru_policy().first_use;
        page.flag_update::<H>(|flags| {
            let marked = generations::marked(rule, flags);
            (marked != flags).then_some(marked)
        });
    }

    /// Sets the referenced bit and nothing else (study 003's change).
    ///
    /// # Panics
    /// If the machine has no such frame.
    #[inline]
    pub fn set_referenced(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        cx.charge(Cost::MarkReferenced, 1);
        if !page.is(PageFlags::REFERENCED) {
            page.flag_set::<H>(PageFlags::REFERENCED);
        }
    }

    /// As [`Self::mark_accessed`], but an inactive page that was used before is only flagged.
    /// Reclaim activates it together with its batch when it reaches the page, under the lock that
    /// it holds anyway (rules/unmap#handed-over). This function locks, counts and moves nothing.
    ///
    /// # Panics
    /// If the machine has no such frame.
    pub fn note_used(&self, cx: &Cx<'_, H>, folio: Folio) {
        if self.is_mglru() {
            return self.mark_read(cx, folio);
        }
        let page = self.mem.map.page(folio);
        let flags = page.flags();
        cx.charge(Cost::MarkReferenced, 1);
        if !flags.contains(PageFlags::REFERENCED) {
            page.flag_set::<H>(PageFlags::REFERENCED);
        } else if !flags.intersects(PageFlags::UNEVICTABLE | PageFlags::ACTIVE | PageFlags::NOTED) {
            page.flag_set::<H>(PageFlags::NOTED);
        }
    }

    /// Activates an inactive page that was used for the second time. A page in this CPU's add batch
    /// becomes active at once; if it waits on another CPU or is isolated, only its flag is lost.
    #[doc(alias = "folio_activate")]
    #[doc(alias = "activate_page")]
    #[inline(never)]
    fn activate_used(&self, cx: &Cx<'_, H>, folio: Folio) {
        let page = self.mem.map.page(folio);
        if page.is(PageFlags::LRU) {
            self.lru_batch(cx, super::BatchKind::Activate, folio);
        } else {
            cx.charge(Cost::MarkReferenced, 1);
            self.activate_in_add_batch(cx, folio);
        }
        page.flag_clear::<H>(PageFlags::USED);
        // Before 5.9 the clock counts file pages only.
        self.tick_by_use(folio);
    }

    /// A page became active by being used: the working set's clock goes on.
    pub(crate) fn tick_by_use(&self, folio: Folio) {
        if self.mem.policy.reclaim.anon_workingset || self.mem.map.page(folio).is_file_lru() {
            self.age_nonresident(folio);
        }
    }
}
