//! A page with all its references taken.

use super::Page;
use crate::host::Host;

/// All references of a page, taken, so that no lookup finds it meanwhile. Dropping this gives them
/// back, so no path leaves a page that cannot be used or freed.
#[must_use = "dropped at once, it gives the references back"]
#[derive(Debug)]
pub struct Frozen<'a> {
    page: &'a Page,
    taken: u32,
}

impl Frozen<'_> {
    /// Gives `n` references back instead of those that were taken.
    #[doc(alias = "folio_ref_unfreeze")]
    #[inline(always)]
    pub fn thaw(self, n: u32) {
        let page = self.page;
        self.keep();
        page.unfreeze(n);
    }

    /// Leaves the page without references: the caller frees it, or sets them later.
    #[inline(always)]
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Frozen<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.page.unfreeze(self.taken);
    }
}

impl Page {
    /// Takes all references of a page if there are exactly `n`, including the caller's. No other
    /// task can find the page any more.
    #[doc(alias = "folio_ref_freeze")]
    #[inline(always)]
    pub fn freeze<H: Host>(&self, n: u32) -> Option<Frozen<'_>> {
        self.take_references::<H>(n).then(|| Frozen { page: self, taken: n })
    }
}
