//! A page whose references somebody took all at once.

use super::Page;
use crate::host::Host;

/// The references of a page, taken: nobody finds it meanwhile. They are given back when this is dropped, so that no way out
/// leaves a page that nobody can use or free.
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

    /// The page stays without references: whoever did this frees it, or sets them later.
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
    /// Takes all references of a page if there are exactly `n`, the caller's among them: nobody can
    /// find the page any more.
    #[doc(alias = "folio_ref_freeze")]
    #[inline(always)]
    pub fn freeze<H: Host>(&self, n: u32) -> Option<Frozen<'_>> {
        self.take_references::<H>(n).then(|| Frozen { page: self, taken: n })
    }
}
