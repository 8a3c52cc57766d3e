//! Contents of pages, as far as the kernel looks at them (rules/swap#zero-pages).
//!
//! The model keeps no bytes. A program declares that it stores only zeros in a VMA
//! ([`VmaFlags::ZEROS`]); pages of all others count as having other contents.

use alloc::sync::Arc;

use super::{Backing, Vma, VmaFlags};
use crate::config::ZeroPages;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, PageMapping};
use crate::swap::Contents;

impl<H: Devices> Kernel<H> {
    /// The contents of a locked page that reclaim writes to swap, as far as the policy looks at
    /// them. A page of an mm that ended, which only its forks still use, counts as other than
    /// zeros.
    #[doc(alias = "is_folio_zero_filled")]
    pub(crate) fn contents_to_swap(&self, cx: &Cx<'_, H>, folio: Folio) -> Contents {
        if self.mem.policy.swap.zero_pages == ZeroPages::Io {
            return Contents::Other;
        }
        let page = self.mem.map.page(folio);
        let PageMapping::Anon(id) = page.mapping() else { return Contents::Other };
        let Some(mm) = self.mm(cx, id) else { return Contents::Other };
        let tables = mm.tables.lock(cx.cpu());
        let vma = tables.vma(page.index());
        let holds_zeros = |vma: &Arc<Vma<H>>| {
            matches!(vma.backing, Backing::Anon) && vma.flags.contains(VmaFlags::ZEROS)
        };
        match vma.is_some_and(holds_zeros) {
            true => Contents::Zeros,
            false => Contents::Other,
        }
    }
}
