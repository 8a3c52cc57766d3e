//! Faults that map a huge page (rules/huge-pages#fault).

use alloc::sync::Arc;

use super::{HUGE, NR};
use crate::config::{AnonStart, HugeNodes};
use crate::host::{Cost, Cx, Devices, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, PageFlags, PageMapping};
use crate::page_alloc::{Gfp, Wish};
use crate::vm::mm::Rss;
use crate::vm::{Mm, PageTable, Pte, Ptes, Vma, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::MemoryPolicy;

/// How an attempt at a huge page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Attempt {
    /// The address is mapped now, by this fault or another task's.
    Mapped,
    /// A single page has to do.
    Fallback,
}

impl<H: Devices> Kernel<H> {
    /// Handles the first use of anonymous memory with a huge page, if the range may have one and
    /// there is one. `table`: the lowest table of the page, if there is one.
    #[doc(alias = "do_huge_pmd_anonymous_page")]
    pub(in crate::vm) fn huge_fault(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vma: &Vma<H>,
        table: Option<&Arc<PageTable<H>>>,
        vpn: u32,
        is_write: bool,
    ) -> Attempt {
        // Entries exist or existed: the range has single pages.
        if table.is_some_and(|table| !table.is_bare()) {
            return Attempt::Fallback;
        }
        let Some(start) = self.huge.range(vma, vpn) else { return Attempt::Fallback };
        self.khugepaged_enter(cx, mm);
        let mapped = match is_write || !self.mem.tunables.thp_zero_page.get() {
            true => self.map_huge_page(cx, mm, vma, start),
            false => self.map_huge_zero(cx, mm, start),
        };
        mapped.unwrap_or_else(|| {
            self.mem.events.add(cx.cpu(), VmEvent::ThpFaultFallback, 1);
            Attempt::Fallback
        })
    }

    /// None: there is no memory for it.
    fn map_huge_page(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vma: &Vma<H>,
        start: u32,
    ) -> Option<Attempt> {
        let gfp = self.huge.fault_gfp(self.mem.tunables.thp_defrag.get(), vma) | Gfp::ZERO;
        let folio = self.alloc_huge(cx, gfp, vma.wish(start))?;
        if !self.charge_folio(cx, folio, mm.group(), gfp) {
            self.put_page(cx, folio);
            self.mem.events.add(cx.cpu(), VmEvent::ThpFaultFallbackCharge, 1);
            return None;
        }
        let Some(table) = self.make_leaf_table(cx, mm, start) else {
            self.put_page(cx, folio);
            return None;
        };
        let mut ptes = table.lock(cx.cpu());
        if !ptes.is_bare() {
            drop(ptes);
            self.put_page(cx, folio);
            return Some(Attempt::Mapped);
        }
        self.map_new_huge(cx, mm, vma, &mut ptes, folio, start);
        self.mem.events.add(cx.cpu(), VmEvent::ThpFaultAlloc, 1);
        cx.charge(Cost::AnonFault, 1);
        Some(Attempt::Mapped)
    }

    /// Maps the huge zero page for a read fault.
    #[doc(alias = "set_huge_zero_page")]
    fn map_huge_zero(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32) -> Option<Attempt> {
        let zero = self.get_huge_zero(cx)?;
        let Some(table) = self.make_leaf_table(cx, mm, start) else {
            self.put_huge_zero(cx);
            return None;
        };
        let mut ptes = table.lock(cx.cpu());
        if !ptes.is_bare() {
            drop(ptes);
            self.put_huge_zero(cx);
            return Some(Attempt::Mapped);
        }
        ptes.set_leaf(Pte::new(zero.pfn()));
        cx.charge(Cost::SetPte, 1);
        Some(Attempt::Mapped)
    }

    /// A huge page on the nodes of the task's or VMA's policy (rules/huge-pages#nodes). The kernel
    /// version decides the order of the attempts on several nodes.
    pub(in crate::vm) fn alloc_huge(&self, cx: &Cx<'_, H>, gfp: Gfp, wish: Wish) -> Option<Folio> {
        let node = match self.mem.policy_of(cx, wish) {
            MemoryPolicy::Interleave(_) | MemoryPolicy::PreferredMany(_) => None,
            MemoryPolicy::Preferred(node) => Some(node),
            MemoryPolicy::Default => Some(self.mem.cpu_node(cx.cpu())),
            MemoryPolicy::Bind(nodes) => {
                let here = self.mem.cpu_node(cx.cpu());
                let bound = self.mem.binding(cx, gfp, nodes);
                bound.is_none_or(|nodes| nodes.contains(here)).then_some(here)
            }
        };
        match (node, self.mem.policy.thp.nodes) {
            (Some(node), HugeNodes::Here) => {
                return self.mem.alloc_folio(cx, self, gfp | Gfp::THISNODE, HUGE, node);
            }
            (Some(node), HugeNodes::HereFirst) => {
                let here = gfp | Gfp::THISNODE | Gfp::NORETRY;
                let folio = self.mem.alloc_folio(cx, self, here, HUGE, node);
                if folio.is_some() || !gfp.contains(Gfp::DIRECT_RECLAIM) {
                    return folio;
                }
            }
            (None, _) | (_, HugeNodes::Everywhere) => {}
        }
        self.mem.alloc_folio_wished(cx, self, gfp, HUGE, wish)
    }

    /// Maps a fresh huge page as anonymous memory of an aligned range: mapping, list, counts, and the
    /// leaf, which takes the caller's reference. Under the table's lock; nothing is mapped there.
    #[doc(alias = "__do_huge_pmd_anonymous_page")]
    pub(in crate::vm) fn map_new_huge(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vma: &Vma<H>,
        ptes: &mut Ptes<'_, H>,
        folio: Folio,
        start: u32,
    ) {
        let page = self.mem.map.page(folio);
        let mut flags = PageFlags::SWAPBACKED | PageFlags::UPTODATE;
        if self.mem.policy.reclaim.anon_new == AnonStart::Active {
            flags |= PageFlags::ACTIVE;
        }
        page.init_flags(flags);
        page.set_mapping(PageMapping::Anon(mm.id), start);
        // As many as a split would leave entries.
        page.map_add::<H>(NR);
        page.get::<H>(NR - 1);
        Rss::add::<H>(&mm.rss.anon, NR.into());
        self.mem.account(cx.cpu(), folio).plus(NodeStat::AnonPages);
        self.count_leaf(cx, folio);
        if vma.flags.contains(VmaFlags::LOCKED) {
            self.mlock_new_page(cx, folio);
        } else {
            self.lru_add(cx, folio);
        }
        let is_writable = vma.flags.contains(VmaFlags::WRITE);
        ptes.set_leaf(Pte::new(folio.pfn()).with_writable(is_writable).with_dirty(is_writable));
        cx.charge(Cost::SetPte, 1);
    }
}
