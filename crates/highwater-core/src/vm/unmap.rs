//! munmap, exit, the OOM reaper: the range to unmap (rules/unmap#pipeline), and the page tables to
//! free with it (rules/faults#table-freeing).
//!
//! | operation | `mmap_lock` | tables freed |
//! |---|---|---|
//! | [`Kernel::munmap`] | write to detach VMAs, then read (before 4.20: write) | those that no other VMA can use |
//! | [`Kernel::unmap_mm`] | read, then write | all but the top one |
//! | [`Kernel::reap_mm`] | read, by trylock | none |
//!
//! The entries are cleared in [`super::zap`], pages wait for the flush in a [`Gather`].

use alloc::sync::Arc;
use core::ops::Range;

use super::mapping::Detached;
use super::mm::TableKind;
use super::tables::{PMD_SHIFT, PUD_SHIFT, TABLE_SHIFT};
use super::{Gather, Mm, Vma, VmaFlags};
use crate::host::{Cost, Cx, Devices, Lock, Phase, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::Error;

/// Virtual pages without a VMA around an unmapped range: floor and ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    floor: u32,
    ceiling: u32,
}

impl Room {
    /// True if the table of a level that covers `vpn` covers nothing else: it goes.
    const fn holds_table(self, vpn: u32, shift: u32) -> bool {
        let first = (vpn >> shift) as u64;
        let (start, end) = (first << shift, (first + 1) << shift);
        self.floor as u64 <= start && end <= self.ceiling as u64
    }
}

impl<H: Devices> Kernel<H> {
    /// Unmaps `pages` pages from `start` on (munmap). Parts that are not mapped stay so.
    ///
    /// # Errors
    /// If the range is empty or not in the address space.
    #[doc(alias = "do_munmap")]
    pub fn munmap(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32, pages: u32) -> Result<(), Error> {
        let _phase = cx.phase(Phase::Munmap);
        cx.charge(Cost::Syscall, 1);
        let end = start.checked_add(pages).filter(|&end| pages > 0 && end <= Mm::<H>::TOP);
        let end = end.ok_or(Error::Invalid)?;
        self.enter_mm(cx, mm);
        let guard = mm.mmap_lock.write(cx);
        let detached = self.detach_vmas(cx, mm, start, end);
        if self.mem.policy.reclaim.zap_exclusive {
            self.unmap_detached(cx, mm, &detached);
            drop(guard);
        } else {
            let guard = guard.downgrade();
            self.unmap_detached(cx, mm, &detached);
            drop(guard);
        }
        Ok(())
    }

    /// Clears the entries and frees the tables of VMAs that were taken out of their address space.
    #[doc(alias = "unmap_region")]
    fn unmap_detached(&self, cx: &Cx<'_, H>, mm: &Mm<H>, detached: &Detached<H>) {
        if detached.vmas.is_empty() {
            return;
        }
        self.drain_to_unmap(cx);
        let mut gather = Gather::new(mm);
        for vma in &detached.vmas {
            self.zap_vma(cx, &mut gather, vma);
        }
        self.free_tables(cx, &mut gather, detached);
        self.gather_finish(cx, gather);
        self.forget_detached(cx, mm, detached);
    }

    /// Drains this CPU's LRU batches, whose references would keep the pages that are unmapped, if
    /// the policy wants that.
    #[inline]
    pub(crate) fn drain_to_unmap(&self, cx: &Cx<'_, H>) {
        if self.mem.policy.unmap.drains_lru {
            self.lru_add_drain(cx);
        }
    }

    /// Clears the page table entries of a whole VMA.
    #[doc(alias = "unmap_single_vma")]
    fn zap_vma(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>, vma: &Vma<H>) {
        self.zap_range(cx, gather, &self.zap_of(vma, vma.start..vma.end));
    }

    /// The first VMA that ends after `vpn`.
    pub(crate) fn next_vma(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vpn: u32) -> Option<Arc<Vma<H>>> {
        mm.tables.lock(cx.cpu()).vmas_in(vpn, Mm::<H>::TOP).next().cloned()
    }

    /// Unmaps everything of an address space in one go and frees its tables but the top one (exit).
    /// Only the OOM reaper may still use it; its VMAs are detached here.
    #[doc(alias = "exit_mmap")]
    pub(crate) fn unmap_mm(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        let mut gather = Gather::new_whole(mm);
        {
            let _guard = mm.mmap_lock.read(cx);
            self.drain_to_unmap(cx);
            let mut next = 0;
            while let Some(vma) = self.next_vma(cx, mm, next) {
                self.zap_vma(cx, &mut gather, &vma);
                next = vma.end;
            }
        }
        let _guard = mm.mmap_lock.write(cx);
        let detached = self.detach_vmas(cx, mm, 0, Mm::<H>::TOP);
        self.free_tables(cx, &mut gather, &detached);
        self.gather_finish(cx, gather);
        // Its memory is free now, so the OOM killer need not wait for it any more. (The kernel sets
        // this before the last pages are freed, and may kill another task for them.)
        mm.is_reaped.store(true, Relaxed);
        self.forget_detached(cx, mm, &detached);
    }

    /// Frees the page tables of unmapped VMAs, unless others can use them: the lowest ones of a
    /// second-level table, then that, and so on.
    #[doc(alias = "free_pgtables")]
    fn free_tables(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>, detached: &Detached<H>) {
        let (Some(first), Some(last)) = (detached.vmas.first(), detached.vmas.last()) else {
            return;
        };
        let room = Room { floor: detached.floor, ceiling: detached.ceiling };
        let (mut at, end) = (first.start, last.end);
        while at < end {
            let stop = next_start(at, PMD_SHIFT).min(end);
            self.free_lowest_tables(cx, gather, room, at..stop);
            // The first address that the walk looks at in a table is the one it flushes for it.
            let first_of =
                |shift| (first.start >> TABLE_SHIFT << TABLE_SHIFT).max(at >> shift << shift);
            if room.holds_table(at, PMD_SHIFT) {
                let pmd = gather.mm().tables.lock(cx.cpu()).take_pmd(at);
                if let Some(pfn) = pmd {
                    self.free_table(cx, gather, first_of(PMD_SHIFT), pfn, TableKind::Second);
                }
            }
            let is_end_of_pud = stop == end || stop == next_start(at, PUD_SHIFT);
            if is_end_of_pud && room.holds_table(at, PUD_SHIFT) {
                let pud = gather.mm().tables.lock(cx.cpu()).take_pud(at);
                if let Some(pfn) = pud {
                    self.free_table(cx, gather, first_of(PUD_SHIFT), pfn, TableKind::Third);
                }
            }
            at = stop;
        }
    }

    fn free_lowest_tables(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        room: Room,
        range: Range<u32>,
    ) {
        let mm = gather.mm();
        let mut at = range.start;
        loop {
            let taken = {
                let mut tables = mm.tables.lock(cx.cpu());
                let Some((first, _)) = tables.next_table(at, range.end) else { return };
                at = next_start(first, TABLE_SHIFT);
                let goes = room.holds_table(first, TABLE_SHIFT);
                goes.then(|| tables.take_table(first)).flatten().map(|table| (first, table.pfn))
            };
            if let Some((first, pfn)) = taken {
                self.free_table(cx, gather, first, pfn, TableKind::Lowest);
            }
        }
    }

    /// A table that covered `vpn` is out of its mm: it waits in the gather like any page.
    fn free_table(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        vpn: u32,
        pfn: Pfn,
        kind: TableKind,
    ) {
        gather.freed_table(vpn);
        self.uncount_table(cx, gather.mm(), pfn, kind);
        if self.gather_page(cx, gather, Folio::page(pfn)) {
            self.gather_flush(cx, gather);
        }
    }

    /// Unmaps a victim's private memory (the OOM reaper); false if its `mmap_lock` is contended: try
    /// again later.
    ///
    /// Linux: the OOM reaper exists from 4.6 on.
    #[doc(alias = "__oom_reap_task_mm")]
    pub(crate) fn reap_mm(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> bool {
        let Some(_guard) = mm.mmap_lock.try_read(cx) else { return false };
        let mut next = 0;
        while !mm.is_reaped.load(Relaxed) {
            let Some(vma) = self.next_vma(cx, mm, next) else { break };
            // Shared file pages would stay in the page cache: nothing is won.
            if !vma.flags.contains(VmaFlags::SHARED) {
                let mut gather = Gather::new(mm);
                self.zap_vma(cx, &mut gather, &vma);
                self.gather_finish(cx, gather);
            }
            next = vma.end;
        }
        mm.is_reaped.store(true, Relaxed);
        true
    }
}

/// First page of the next table of a level; address spaces end before the last one.
const fn next_start(vpn: u32, shift: u32) -> u32 {
    ((vpn >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first 3 MiB of a 1 GiB region go (rules/faults#table-freeing).
    #[test]
    fn a_table_goes_if_nothing_else_can_use_it() {
        let room = Room { floor: 0, ceiling: 768 };
        assert!(room.holds_table(0, TABLE_SHIFT));
        assert!(!room.holds_table(767, TABLE_SHIFT));
        assert!(!room.holds_table(0, PMD_SHIFT));
        let all = Room { floor: 0, ceiling: 1 << PMD_SHIFT };
        assert!(all.holds_table(767, TABLE_SHIFT) && all.holds_table(767, PMD_SHIFT));
        assert!(!all.holds_table(767, PUD_SHIFT));
        let above = Room { floor: 100, ceiling: u32::MAX };
        assert!(!above.holds_table(200, TABLE_SHIFT) && above.holds_table(512, TABLE_SHIFT));
        assert_eq!((next_start(511, TABLE_SHIFT), next_start(512, TABLE_SHIFT)), (512, 1024));
    }
}
