//! A locked page with a reference.

use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::Folio;

/// The lock of a page and a reference to it. Dropping this gives both up, so no path out of a
/// function keeps them.
#[must_use = "dropped at once, it unlocks the page"]
pub(crate) struct HeldPage<'k, 'c, 'h, H: Devices> {
    kernel: &'k Kernel<H>,
    cx: &'c Cx<'h, H>,
    folio: Folio,
}

impl<'k, 'c, 'h, H: Devices> HeldPage<'k, 'c, 'h, H> {
    /// Of a page that the caller has locked, and to which it has a reference.
    pub(crate) fn new(kernel: &'k Kernel<H>, cx: &'c Cx<'h, H>, folio: Folio) -> Self {
        HeldPage { kernel, cx, folio }
    }

    /// Locks a page to which the caller has a reference.
    pub(crate) fn lock(kernel: &'k Kernel<H>, cx: &'c Cx<'h, H>, folio: Folio) -> Self {
        kernel.lock_page(cx, folio);
        HeldPage { kernel, cx, folio }
    }

    pub(crate) fn folio(&self) -> Folio {
        self.folio
    }

    /// Unlocks it. If `is_used`, the reference now belongs to another user (a page table entry).
    pub(crate) fn unlock_used(self, is_used: bool) {
        let HeldPage { kernel, cx, folio } = self;
        core::mem::forget(self);
        kernel.unlock_page(cx, folio);
        if !is_used {
            kernel.put_page(cx, folio);
        }
    }

    /// Leaves the page locked: the lock now belongs to another user (a read, whose end unlocks it),
    /// the reference to the caller.
    pub(crate) fn leave_locked(self) -> Folio {
        let folio = self.folio;
        core::mem::forget(self);
        folio
    }
}

impl<H: Devices> Drop for HeldPage<'_, '_, '_, H> {
    fn drop(&mut self) {
        self.kernel.unlock_page(self.cx, self.folio);
        self.kernel.put_page(self.cx, self.folio);
    }
}
