//! Leaves that go, and leaves that are split (rules/huge-pages#leaf-split).
//!
//! Whoever is about to change a single entry of a range that a leaf maps calls [`Kernel::split_leaf`] first,
//! as only the kernel knows what a leaf counts for.

use super::NR;
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::PageFlags;
use crate::vm::{FlushRange, Pte, Ptes, Space};
use crate::vmstat::{NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Puts 512 entries in the place of the leaf around `vpn`, if there is one. Those of the huge page of
    /// zeros name the single one. References and mappings stay as they are.
    pub(in crate::vm) fn split_leaf(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        ptes: &mut Ptes<'_, H>,
        vpn: u32,
    ) {
        let Some(leaf) = ptes.leaf() else { return };
        let start = vpn & !(NR - 1);
        self.mem.events.add(cx.cpu(), VmEvent::ThpSplitPmd, 1);
        // A program that writes through the old translation would set the leaf's bits.
        self.flush_tlb(cx, space, FlushRange { start, end: start + NR, tables_freed: false });
        if self.is_zero_leaf(leaf) {
            ptes.take_leaf();
            let zero = Pte::new(self.zero_page).with_young(leaf.is_young());
            (start..start + NR).for_each(|vpn| ptes.set(vpn, zero));
            self.put_huge_zero(cx);
        } else {
            ptes.split_leaf();
            self.count_leaf_gone(cx, leaf);
            // Pages that have entries of their own are not locked into memory together.
            if let Some(folio) = self.mapped_folio(leaf)
                && self.mem.map.page(folio).is(PageFlags::MLOCKED)
            {
                self.munlock_page(cx, folio);
            }
        }
        cx.charge(Cost::SetPte, NR);
    }

    /// Splits the leaf that lies across a page, if there is one: what begins there is about to differ from
    /// what ends there.
    pub(in crate::vm) fn split_leaf_across(&self, cx: &Cx<'_, H>, space: &Space<H>, vpn: u32) {
        if !vpn.is_multiple_of(NR)
            && let Some(table) = space.table_of(cx.cpu(), vpn)
        {
            self.split_leaf(cx, space, &mut table.lock(cx.cpu()), vpn);
        }
    }

    /// A leaf was taken out of its table, which stays for the next one.
    pub(in crate::vm) fn leaf_taken(&self, cx: &Cx<'_, H>, ptes: &mut Ptes<'_, H>, leaf: Pte) {
        ptes.set_bare(true);
        if self.is_zero_leaf(leaf) {
            self.put_huge_zero(cx);
        } else {
            self.count_leaf_gone(cx, leaf);
        }
    }

    fn is_zero_leaf(&self, leaf: Pte) -> bool {
        leaf.pfn().is_some_and(|pfn| self.is_huge_zero(pfn))
    }

    /// nr_anon_transparent_hugepages counts what leaves map.
    fn count_leaf_gone(&self, cx: &Cx<'_, H>, leaf: Pte) {
        if let Some(folio) = self.mapped_folio(leaf) {
            self.mem.account(cx.cpu(), folio).minus(NodeStat::AnonTransparentHugepages);
        }
    }
}
