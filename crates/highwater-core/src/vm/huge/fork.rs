//! Fork of a huge page (rules/faults#fork): the leaf is copied as one entry.
//!
//! ```text
//! parent  leaf, writable ──▶ leaf, read-only ─┐
//!                                             ├─ one folio: 512 references and mappings for each leaf
//! child   nothing ────────▶ leaf, read-only ──┘
//! ```
//!
//! A page table for the child is deposited with its leaf, as for the parent, so a split needs no
//! memory.
//!
//! Synchronisation: the parent's table is locked; no task runs in the child.
//!
//! From: `vm::fork` · to: [`super::leaf`].

use super::NR;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::PageFlags;
use crate::vm::fork::Copied;
use crate::vm::mm::Rss;
use crate::vm::{PageTable, Ptes};

impl<H: Devices> Kernel<H> {
    /// Copies the leaf of a table to a table of the child, if there is one; false if there is none.
    #[doc(alias = "copy_huge_pmd")]
    pub(in crate::vm) fn copy_leaf(
        &self,
        cx: &Cx<'_, H>,
        from: &mut Ptes<'_, H>,
        to: &PageTable<H>,
        copied: &mut Copied<'_>,
    ) -> bool {
        let Some(mut leaf) = from.leaf() else { return false };
        copied.entries += 1;
        let Some(folio) = self.mapped_folio(leaf) else {
            self.dup_huge_zero(cx);
            to.fill_leaf(leaf.with_young(false));
            return true;
        };
        if leaf.is_writable()
            && let Some(was) = from.take_leaf()
        {
            leaf = was.with_writable(false);
            from.set_leaf(leaf);
            copied.protected += 1;
        }
        let page = self.mem.map.page(folio);
        page.flag_set::<H>(PageFlags::FORKED);
        page.get::<H>(NR);
        page.map_add::<H>(NR);
        self.count_leaf(cx, folio);
        copied.pages += 1;
        Rss::add::<H>(&copied.rss.anon, NR.into());
        to.fill_leaf(leaf.with_young(false));
        true
    }
}
