//! Clears the entries of a range (rules/unmap#zap) and transfers their young bits
//! (rules/unmap#young; study 003).
//!
//! It works on one table at a time, under its lock. Each entry is cleared, its young and dirty bits
//! are transferred to the page, and the page loses a mapping and waits in the gather. Dirty file
//! pages must not be written back while a TLB entry still allows writes. So a table that had any is
//! flushed before its lock is released, and its pages are freed right after.
//!
//! Key types: [`Zap`] (what to clear), [`Tally`] (counters of one table, added up before they go to
//! the shared ones).
//!
//! From: `unmap`, `madvise`, `rmap` (truncation) · to: `gather`, `lru` (mark-accessed), `swap`.

use alloc::sync::Arc;
use core::hint::cold_path;
use core::ops::Range;

use super::{FlushRange, Gather, Mm, PTES, PageTable, Pte, Rss, Vma, VmaFlags};
use crate::config::UnmapYoung;
use crate::host::{Cost, CpuId, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;
use crate::vmstat::NodeStat;
use crate::zone::NodeId;

/// Entries to clear: those of one VMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zap {
    /// First virtual page.
    pub start: u32,
    /// Virtual page after the last.
    pub end: u32,
    /// Flags of the VMA.
    pub flags: VmaFlags,
    /// Young entries of file pages count as uses (rules/rmap#recency).
    pub has_recency: bool,
    /// Only entries that map this folio (truncation of one).
    pub only: Option<Folio>,
}

/// Changes of counters that one table's entries add up to.
#[derive(Default)]
pub(super) struct Tally {
    /// Of the counts so far: the node, and the memory cgroup.
    node: NodeId,
    group: GroupId,
    anon_pages: i64,
    mapped: i64,
    rss_anon: u64,
    rss_file: u64,
    rss_swap: u64,
    /// A file's folio that one of the entries unlocked.
    unlocked: Option<Folio>,
    /// The frame that would continue a run of a large folio's entries, and whether the run marked
    /// the folio as used.
    run: Option<(Pfn, bool)>,
}

impl Tally {
    /// An entry that mapped `nr` pages of a folio is gone: subtracts the mappings, and updates the
    /// counters when the last one goes. The caller drops the entry's reference.
    #[inline(always)]
    pub(super) fn unmapped<H: Devices>(
        &mut self,
        kernel: &Kernel<H>,
        cpu: CpuId,
        folio: Folio,
        nr: u64,
        is_anon: bool,
    ) {
        let page = kernel.mem.map.page(folio);
        let is_last = page.map_remove::<H>(nr as u32);
        if is_anon {
            self.rss_anon += nr;
        } else {
            self.rss_file += nr;
        }
        if is_last {
            self.count_unmapped(kernel, cpu, (folio, page), folio.nr_pages(), is_anon);
        }
    }

    /// The same for an entry that mapped one frame of a large folio of a file: each of its pages
    /// counts on its own.
    #[inline(never)]
    pub(super) fn unmapped_frame<H: Devices>(
        &mut self,
        kernel: &Kernel<H>,
        cpu: CpuId,
        (folio, frame): (Folio, Pfn),
    ) {
        self.rss_file += 1;
        if kernel.mem.map.unmap_frame::<H>(folio, frame) {
            self.count_unmapped(kernel, cpu, (folio, kernel.mem.map.page(folio)), 1, false);
        }
    }

    /// True if an entry of a large folio marks it as used, because no entry of its run did so before.
    fn is_new_use(&mut self, by_run: bool, (folio, frame): (Folio, Pfn), is_used: bool) -> bool {
        if !by_run {
            return is_used;
        }
        let was_marked = match self.run {
            Some((next, was_marked)) if next == frame && frame != folio.pfn() => was_marked,
            _ => false,
        };
        self.run = Some((frame.add(1), was_marked || is_used));
        is_used && !was_marked
    }

    /// Nothing maps `gone` pages of a folio any more.
    #[inline(always)]
    fn count_unmapped<H: Devices>(
        &mut self,
        kernel: &Kernel<H>,
        cpu: CpuId,
        (folio, page): (Folio, &Page),
        gone: u64,
        is_anon: bool,
    ) {
        let node = page.node();
        if node != self.node {
            self.flush_node(kernel, cpu);
            self.node = node;
        }
        if kernel.mem.groups.is_on() {
            cold_path();
            self.set_group(kernel, cpu, folio);
        }
        if is_anon {
            self.anon_pages += gone as i64;
        } else {
            self.mapped += gone as i64;
        }
    }

    /// The counts from here on are of a folio's memory cgroup.
    #[inline(never)]
    fn set_group<H: Devices>(&mut self, kernel: &Kernel<H>, cpu: CpuId, folio: Folio) {
        let group = kernel.mem.groups.owner(folio);
        if group != self.group {
            self.flush_node(kernel, cpu);
            self.group = group;
        }
    }

    fn flush_node<H: Devices>(&mut self, kernel: &Kernel<H>, cpu: CpuId) {
        let stats = &kernel.mem.node(self.node).stats;
        for (stat, pages) in
            [(NodeStat::AnonPages, &mut self.anon_pages), (NodeStat::Mapped, &mut self.mapped)]
        {
            if *pages != 0 {
                let delta = -core::mem::take(pages);
                stats.add(cpu, stat as usize, delta);
                if kernel.mem.groups.is_on() {
                    kernel.mem.groups.add(cpu, (self.group, self.node), stat, delta);
                }
            }
        }
    }

    /// Adds everything to the shared counters.
    pub(super) fn flush<H: Devices>(mut self, kernel: &Kernel<H>, cpu: CpuId, mm: &Mm<H>) {
        self.flush_node(kernel, cpu);
        let rss = &mm.rss;
        for (counter, pages) in
            [(&rss.anon, self.rss_anon), (&rss.file, self.rss_file), (&rss.swap, self.rss_swap)]
        {
            if pages != 0 {
                debug_assert!(counter.load(Relaxed) >= pages, "more pages unmapped than resident");
                Rss::add::<H>(counter, -(pages as i64));
            }
        }
    }
}

/// What clearing one present entry came to.
#[derive(Clone, Copy, Default)]
struct Zapped {
    /// It was dirty and mapped a file page: a TLB may still allow writes to a page that counts as
    /// clean.
    was_dirty: bool,
    /// The gather is full.
    is_full: bool,
}

impl Zapped {
    /// The TLB has to be flushed before the table's lock is dropped.
    const fn force(self) -> bool {
        self.was_dirty || self.is_full
    }
}

/// Where one hold of a table's lock ended, and the next action.
struct Stop {
    at: u32,
    force: bool,
}

impl<H: Devices> Mm<H> {
    /// The first table that covers part of `start..end`, and that part.
    pub(crate) fn next_table(
        &self,
        cpu: CpuId,
        start: u32,
        end: u32,
    ) -> Option<(Arc<PageTable<H>>, Range<u32>)> {
        if start >= end {
            return None;
        }
        let tables = self.tables.lock(cpu);
        let (first, table) = tables.next_table(start, end)?;
        let after = first.saturating_add(PTES as u32);
        Some((Arc::clone(table), first.max(start)..after.min(end)))
    }
}

impl<H: Devices> Kernel<H> {
    /// Effects of clearing the entries of a VMA in `part`.
    pub(crate) fn zap_of(&self, vma: &Vma<H>, part: Range<u32>) -> Zap {
        let has_recency = self.has_recency(self.flags_of_walk(vma));
        Zap { start: part.start, end: part.end, flags: vma.flags, has_recency, only: None }
    }

    /// Clears the entries of `zap`, a table at a time; pages go to the gather. Others may run after
    /// each table.
    #[doc(alias = "unmap_page_range")]
    pub(crate) fn zap_range(&self, cx: &Cx<'_, H>, gather: &mut Gather<'_, H>, zap: &Zap) {
        let mm = gather.mm();
        let mut next = zap.start;
        while let Some((table, mut part)) = mm.next_table(cx.cpu(), next, zap.end) {
            while !part.is_empty() {
                let stop = self.zap_table(cx, gather, zap, &table, part.clone());
                if stop.force {
                    self.gather_flush(cx, gather);
                }
                part.start = stop.at;
                cx.host.yield_now();
            }
            next = part.end;
        }
    }

    /// Clears entries of one page table under one hold of its lock.
    #[doc(alias = "zap_pte_range")]
    fn zap_table(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        zap: &Zap,
        table: &PageTable<H>,
        part: Range<u32>,
    ) -> Stop {
        let mm = gather.mm();
        let mut tally = Tally::default();
        let mut stop = Stop { at: part.end, force: false };
        let mut ptes = table.lock(cx.cpu());
        self.flush_pending(cx, mm);
        if part.len() == PTES
            && zap.only.is_none()
            && let Some(leaf) = ptes.take_leaf()
        {
            // All of a huge mapping goes at once.
            self.leaf_taken(cx, &mut ptes, leaf);
            gather.cleared_range(part.start, part.end);
            stop.force = self.zap_mapped(cx, gather, zap, &mut tally, leaf, PTES as u64).force();
            tally.flush(self, cx.cpu(), mm);
            if stop.force {
                self.gather_flush_tlb(cx, gather);
            }
            return stop;
        }
        if zap.only.is_none() {
            // Only a part of the leaf is unmapped.
            self.split_leaf(cx, mm, &mut ptes, part.start, zap.flags);
        }
        for vpn in part {
            let pte = ptes.get(vpn);
            if pte.is_none()
                || zap.only.is_some_and(|only| !pte.pfn().is_some_and(|pfn| only.contains(pfn)))
            {
                continue;
            }
            let pte = ptes.take(vpn);
            if let Some(slot) = pte.slot() {
                tally.rss_swap += 1;
                self.swap_put(cx, slot);
                continue;
            }
            if let Some(from) = pte.moving_from() {
                // The migration unmapped its page and will find no entry here; only the mm's
                // count is left.
                match self.mem.map.lookup(from).1.is_anon() {
                    true => tally.rss_anon += 1,
                    false => tally.rss_file += 1,
                }
                continue;
            }
            gather.cleared(vpn);
            let zapped = self.zap_mapped(cx, gather, zap, &mut tally, pte, 1);
            stop.force |= zapped.force();
            if zapped.is_full {
                stop.at = vpn + 1;
                break;
            }
        }
        tally.flush(self, cx.cpu(), mm);
        if stop.force {
            self.gather_flush_tlb(cx, gather);
        }
        stop
    }

    /// A present entry that mapped `nr` pages is cleared: its bits go to the folio, which loses its
    /// mappings and waits in the gather.
    #[inline(always)]
    fn zap_mapped(
        &self,
        cx: &Cx<'_, H>,
        gather: &mut Gather<'_, H>,
        zap: &Zap,
        tally: &mut Tally,
        pte: Pte,
        nr: u64,
    ) -> Zapped {
        let mut zapped = Zapped::default();
        let Some(folio) = self.mapped_folio(pte) else {
            cx.charge(Cost::ZapZero, 1);
            return zapped;
        };
        let page = self.mem.map.page(folio);
        let is_anon = page.is_anon();
        if is_anon {
            cx.charge(Cost::ZapAnon, 1);
        } else {
            cx.charge(Cost::ZapFile, 1);
            if pte.is_dirty() {
                zapped.was_dirty = true;
                self.set_page_dirty(cx, folio);
            }
            let is_used = pte.is_young() && zap.has_recency;
            if folio.is_large() {
                cold_path();
                let frame = pte.pfn().unwrap_or(folio.pfn());
                if tally.is_new_use(self.mem.policy.folio.marks_runs, (folio, frame), is_used) {
                    self.transfer_young(cx, folio);
                }
            } else if is_used {
                self.transfer_young(cx, folio);
            }
        }
        if folio.is_large() && !is_anon {
            let frame = pte.pfn().unwrap_or(folio.pfn());
            tally.unmapped_frame(self, cx.cpu(), (folio, frame));
        } else {
            tally.unmapped(self, cx.cpu(), folio, nr, is_anon);
        }
        let is_part = nr != folio.nr_pages();
        if zap.flags.contains(VmaFlags::LOCKED) {
            // The first entry of a file's folio that goes unlocks all of it, once.
            let is_due = !is_part
                || !is_anon
                    && page.is(PageFlags::MLOCKED)
                    && tally.unlocked.replace(folio) != Some(folio);
            if is_due {
                self.munlock_page(cx, folio);
            }
        }
        if is_anon && folio.is_large() {
            let first = pte.pfn().map_or(0, |pfn| pfn.0);
            self.queue_if_partly_mapped(cx, folio, first..first + nr as u32);
        }
        if nr > 1 {
            let was_last = page.put::<H>(nr as u32 - 1);
            debug_assert!(!was_last, "the gather drops the last reference");
        }
        zapped.is_full = self.gather_page(cx, gather, folio);
        zapped
    }

    /// What study 003 is about: a file page was used through an entry that goes away.
    #[inline(always)]
    fn transfer_young(&self, cx: &Cx<'_, H>, folio: Folio) {
        match self.mem.policy.reclaim.unmap_young_file {
            UnmapYoung::MarkAccessed => self.mark_accessed(cx, folio),
            UnmapYoung::SetReferenced => self.set_referenced(cx, folio),
            UnmapYoung::HandedOver => self.note_used(cx, folio),
        }
    }

    /// Flushes an address space's translations if reclaim cleared entries of it and has not flushed
    /// them everywhere.
    #[doc(alias = "flush_tlb_batched_pending")]
    #[inline]
    pub(crate) fn flush_pending(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        if mm.flush_pending.load(Relaxed) && mm.flush_pending.swap(false, Relaxed) {
            self.flush_tlb(cx, mm, FlushRange::ALL);
        }
    }
}
