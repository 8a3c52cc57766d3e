//! TLB flushes (rules/unmap#tlb-flush): the cost of a range, and the CPUs to interrupt.
//!
//! Key types: [`FlushRange`] (the range), [`FlushWork`] (page by page, or everything).
//!
//! The CPUs that may hold translations of an mm are its CPU mask (`Mm::cpus`). A CPU joins
//! when a task of the mm runs there, and leaves when it switches to another mm. Idle CPUs of
//! the mask hold the mm *lazily*; only a flush that frees page tables interrupts them.
//!
//! From: `gather`, `rmap` · to: the host's interrupts.

use super::Mm;
use crate::host::{Cost, CpuId, CpuSet, Cx, Devices, Host, IpiScope, Probe};
use crate::kernel::Kernel;

/// Longest span, in pages, that is flushed page by page (`tlb_single_page_flush_ceiling`).
pub(super) const SINGLE_PAGE_CEILING: u32 = 33;

/// Virtual pages whose translations must be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRange {
    /// First virtual page.
    pub start: u32,
    /// Virtual page after the last.
    pub end: u32,
    /// Page tables are freed too: lazy CPUs need the interrupt as well.
    pub tables_freed: bool,
}

impl FlushRange {
    /// Nothing.
    pub const EMPTY: FlushRange = FlushRange { start: u32::MAX, end: 0, tables_freed: false };
    /// A whole address space.
    pub const ALL: FlushRange = FlushRange { start: 0, end: u32::MAX, tables_freed: false };

    /// One page.
    pub const fn page(vpn: u32) -> FlushRange {
        FlushRange { start: vpn, end: vpn.saturating_add(1), tables_freed: false }
    }

    /// True if nothing has to go.
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Extends the span to cover `start..end`.
    pub fn cover(&mut self, start: u32, end: u32) {
        self.start = self.start.min(start);
        self.end = self.end.max(end);
    }

    /// What every CPU concerned has to do.
    pub const fn work(&self) -> FlushWork {
        match self.end.saturating_sub(self.start) {
            0 => FlushWork::Nothing,
            span if span <= SINGLE_PAGE_CEILING => FlushWork::Pages(span),
            _ => FlushWork::Everything,
        }
    }
}

/// The work of a CPU for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushWork {
    /// Nothing.
    Nothing,
    /// Invalidates that many pages, one by one: all of the span, mapped or not.
    Pages(u32),
    /// Drops all translations of the mm.
    Everything,
}

impl FlushWork {
    /// Its cost, and how often it is charged.
    const fn cost(self) -> Option<(Cost, u32)> {
        match self {
            FlushWork::Nothing => None,
            FlushWork::Pages(n) => Some((Cost::TlbPage, n)),
            FlushWork::Everything => Some((Cost::TlbFull, 1)),
        }
    }
}

/// Which of the CPUs asked get the interrupt.
const fn scope(tables_freed: bool) -> IpiScope {
    if tables_freed { IpiScope::All } else { IpiScope::BusyOnly }
}

/// Flushes the TLB of every CPU of `cpus`, this one without an interrupt.
#[doc(alias = "flush_tlb_multi")]
fn flush_cpus<H: Host>(cx: &Cx<'_, H>, cpus: &CpuSet, work: FlushWork, tables_freed: bool) {
    let Some((cost, count)) = work.cost() else { return };
    let me: CpuId = cx.cpu();
    let others = cpus.without(me);
    if !others.is_empty() {
        cx.host.interrupt(&others, scope(tables_freed), cost, count);
    }
    if cpus.contains(me) {
        cx.charge(cost, count);
    }
}

impl<H: Devices> Kernel<H> {
    /// Flushes a range of an mm's translations on every CPU that may hold them.
    #[doc(alias = "flush_tlb_mm_range")]
    pub(crate) fn flush_tlb(&self, cx: &Cx<'_, H>, mm: &Mm<H>, range: FlushRange) {
        flush_cpus(cx, &mm.cpus.load(), range.work(), range.tables_freed);
    }

    /// Flushes all translations on `cpus`, whatever address space they belong to (end of a
    /// reclaimer's batch).
    #[doc(alias = "arch_tlbbatch_flush")]
    pub(crate) fn flush_tlb_cpus(&self, cx: &Cx<'_, H>, cpus: &CpuSet) {
        flush_cpus(cx, cpus, FlushWork::Everything, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, end: u32) -> FlushRange {
        FlushRange { start, end, tables_freed: false }
    }

    /// From there on page after page would cost more than everything (rules/unmap#tlb-flush).
    #[test]
    fn more_than_33_pages_of_span_are_a_full_flush() {
        assert_eq!(range(100, 133).work(), FlushWork::Pages(33));
        assert_eq!(range(100, 134).work(), FlushWork::Everything);
        let mut two_far_apart = FlushRange::EMPTY;
        two_far_apart.cover(100, 101);
        assert_eq!(two_far_apart.work(), FlushWork::Pages(1));
        two_far_apart.cover(140, 141);
        assert_eq!(two_far_apart.work(), FlushWork::Everything);
        assert_eq!(FlushRange::EMPTY.work(), FlushWork::Nothing);
        assert_eq!(FlushRange::ALL.work(), FlushWork::Everything);
        assert_eq!(FlushRange::page(7).work(), FlushWork::Pages(1));
    }

    #[test]
    fn only_freed_tables_interrupt_lazy_cpus() {
        assert_eq!(scope(false), IpiScope::BusyOnly);
        assert_eq!(scope(true), IpiScope::All);
    }
}
