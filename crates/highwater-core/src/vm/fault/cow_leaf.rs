//! Writes to a huge page whose leaf is read-only since a fork (rules/huge-pages#write).
//!
//! | mapped by | effect of the write |
//! |---|---|
//! | the writer alone | the leaf becomes writable |
//! | others too, kernel from 5.8 on | the leaf is split; the fault continues with one entry ([`super::cow`]) |
//! | others too, kernel up to 5.7 | all 512 pages are copied to a new huge page; without one, as from 5.8 on |
//!
//! The huge zero page is always shared: the second row applies, or the third with a cleared page
//! instead of a copy.
//!
//! From: [`super::cow`] · to: `vm::huge`.

use super::{Pass, Step};
use crate::config::HugeWrite;
use crate::host::{Cost, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::Folio;
use crate::page_alloc::Gfp;
use crate::vm::huge::NR;
use crate::vm::mm::Rss;
use crate::vm::{FlushRange, PageTable, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};

impl<H: Devices> Kernel<H> {
    /// Handles a write to a huge page that is mapped write-protected by one entry (a leaf). Returns
    /// none if there is no leaf, or if only one entry of it is concerned from here on.
    #[doc(alias = "do_huge_pmd_wp_page")]
    pub(super) fn protected_leaf(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
    ) -> Option<Step> {
        // Most tables have none, and are not locked for it.
        table.peek_leaf()?;
        let cx = pass.cx;
        let start = pass.vpn & !(NR - 1);
        let source = {
            let mut ptes = table.lock(cx.cpu());
            let leaf = ptes.leaf()?;
            if leaf.is_writable() {
                return Some(Step::Done);
            }
            let source = self.mapped_folio(leaf);
            if let Some(folio) = source {
                self.mem.map.page(folio).get::<H>(1);
                // Under the lock: no task can add a mapping through this one.
                if self.is_alone(pass, folio, start, NR)
                    && let Some(leaf) = ptes.take_leaf()
                {
                    ptes.set_leaf(leaf.with_young(true).with_writable(true).with_dirty(true));
                    drop(ptes);
                    cx.charge(Cost::SetPte, 1);
                    self.put_page(cx, folio);
                    return Some(Step::Done);
                }
            }
            source
        };
        let is_copied = self.mem.policy.thp.write == HugeWrite::Copy
            && self.copy_huge_page(pass, table, source, start);
        if let Some(folio) = source {
            self.put_page(cx, folio);
        }
        is_copied.then_some(Step::Done)
    }

    /// Puts a new huge page in the place of `source` (none: zeros), to which the caller has a reference; false
    /// if there is none to be had.
    fn copy_huge_page(
        &self,
        pass: &Pass<'_, '_, H>,
        table: &PageTable<H>,
        source: Option<Folio>,
        start: u32,
    ) -> bool {
        let (cx, mm, vma) = (pass.cx, pass.mm, &*pass.vma);
        let content = if source.is_some() { Gfp::empty() } else { Gfp::ZERO };
        let gfp = self.huge.fault_gfp(self.mem.tunables.thp_defrag.get(), vma) | content;
        let may_have = self.huge.range(vma, start).is_some();
        let new = may_have.then(|| self.alloc_huge(cx, gfp, vma.wish(start))).flatten();
        let Some(new) = new else {
            self.mem.events.add(cx.cpu(), VmEvent::ThpFaultFallback, 1);
            return false;
        };
        if let Some(source) = source {
            for (from, to) in source.frames().zip(new.frames()) {
                self.copy_frame(cx, from, Folio::page(to));
            }
        }
        let mut ptes = table.lock(cx.cpu());
        let leaf = ptes.leaf().filter(|leaf| !leaf.is_writable());
        if leaf.is_none_or(|leaf| self.mapped_folio(leaf) != source) {
            // Reclaim split it meanwhile.
            drop(ptes);
            self.put_page(cx, new);
            return true;
        }
        if let Some(leaf) = ptes.take_leaf() {
            self.leaf_taken(cx, &mut ptes, leaf);
        }
        self.flush_tlb(cx, mm, FlushRange { start, end: start + NR, tables_freed: false });
        self.map_new_huge(cx, mm, vma, &mut ptes, new, start);
        self.mem.events.add(cx.cpu(), VmEvent::ThpFaultAlloc, 1);
        let Some(source) = source else {
            cx.charge(Cost::AnonFault, 1);
            return true;
        };
        let page = self.mem.map.page(source);
        Rss::add::<H>(&mm.rss.anon, -i64::from(NR));
        if page.map_remove::<H>(NR) {
            self.mem.account(cx.cpu(), source).minus(NodeStat::AnonPages);
        } else {
            let first = source.pfn().0;
            self.queue_if_partly_mapped(cx, source, first..first + NR);
        }
        if vma.flags.contains(VmaFlags::LOCKED) {
            self.munlock_page(cx, source);
        }
        let was_last = page.put::<H>(NR);
        debug_assert!(!was_last, "the caller has a reference");
        drop(ptes);
        cx.charge(Cost::CopyFault, 1);
        true
    }
}
