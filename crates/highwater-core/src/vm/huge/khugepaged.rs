//! khugepaged: searches for ranges of single pages that could be huge pages
//! (rules/huge-pages#khugepaged).
//!
//! Faults give huge pages only where nothing is mapped yet. A range may have got single pages
//! because no block was free, or because its VMA was too small then. It keeps them until this
//! daemon scans it. The daemon scans all mms that may have huge pages, a little at a time, and
//! collapses a range ([`super::collapse`]) if that is worthwhile.
//!
//! ```text
//! round: scan, scan, .. until pages_to_scan units or all mms ---> sleep scan_sleep ---> round
//!                |
//!                +-- no memory for a huge page: sleep alloc_sleep; twice: the round is over
//! ```
//!
//! Key types: [`Khugepaged`] (its list), [`Scan`] (its position), [`Check`] (the check of a range).
//!
//! Synchronisation: mms are listed behind a `Table` lock. A range is checked under its table's
//! lock and the mm's lock for reading, which is only tried.
//!
//! From: the host's task · to: [`super::collapse`].

use alloc::collections::VecDeque;

use super::collapse::Collapsed;
use super::{Huge, NR};
use crate::config::Thp;
use crate::host::{Cost, Cx, Devices, HZ, Lock, Probe, Tasks};
use crate::kernel::Kernel;
use crate::page::{MmId, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vm::{Mm, Ptes, VmaFlags};
use crate::vmstat::VmEvent;
use crate::wait::WaitQueue;
use crate::zone::NodeId;

/// With pages on swap at least half of a range must have been used: it is read in for that.
const USED_OF_SWAPPED: u32 = NR / 2;

/// What khugepaged keeps.
pub(crate) struct Khugepaged<H: Tasks> {
    /// Mms to look at, in turn; `Table` class.
    pub(super) mms: H::Lock<VecDeque<MmId>>,
    pub(crate) wait: WaitQueue<H>,
}

/// Where a sweep is.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// The mm, and its first page to scan; `None`: the sweep begins.
    at: Option<(MmId, u32)>,
}

/// The result of checking a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Worth a huge page, on the node that has most of its pages.
    Collapse(NodeId),
    /// Not, or not now.
    Leave,
}

impl<H: Tasks> Huge<H> {
    /// Someone may have huge pages.
    pub(crate) fn is_on(&self) -> bool {
        self.enabled != Thp::Never
    }

    /// Every mm may have huge pages unless it refuses them.
    pub(crate) fn is_for_all(&self) -> bool {
        self.enabled == Thp::Always
    }
}

impl<H: Devices> Kernel<H> {
    /// Adds an address space with a VMA that may have huge pages to those that khugepaged scans.
    ///
    /// Linux: same name.
    #[doc(alias = "khugepaged_enter_vma")]
    pub(crate) fn khugepaged_enter(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        if !self.huge.is_on()
            || mm.has_khugepaged.load(Relaxed)
            || mm.has_khugepaged.swap(true, Relaxed)
        {
            return;
        }
        let daemon = &self.huge.khugepaged;
        let is_first = {
            let mut mms = daemon.mms.lock(cx.cpu());
            mms.push_back(mm.id);
            mms.len() == 1
        };
        if is_first {
            daemon.wait.wake_all(cx.host, cx.cpu());
        }
    }

    /// Removes an address space that ends from those that khugepaged scans.
    ///
    /// Linux: same name.
    #[doc(alias = "__khugepaged_exit")]
    pub(in crate::vm) fn khugepaged_exit(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        if mm.has_khugepaged.load(Relaxed) {
            self.huge.khugepaged.mms.lock(cx.cpu()).retain(|&id| id != mm.id);
        }
    }

    /// Runs khugepaged until the kernel shuts down.
    #[doc(alias = "khugepaged")]
    pub(crate) fn run_khugepaged(&self, cx: &Cx<'_, H>) {
        let daemon = &self.huge.khugepaged;
        let mut scan = Scan::default();
        while !self.is_stopping() {
            if !self.has_mms(cx) {
                let ready = || self.is_stopping() || self.has_mms(cx);
                daemon.wait.wait(cx, "memory to make huge pages of", ready);
                continue;
            }
            self.khugepaged_round(cx, &mut scan);
            self.khugepaged_sleep(cx, self.mem.tunables.khugepaged_scan_sleep_millisecs.get());
        }
    }

    fn has_mms(&self, cx: &Cx<'_, H>) -> bool {
        !self.huge.khugepaged.mms.lock(cx.cpu()).is_empty()
    }

    fn khugepaged_sleep(&self, cx: &Cx<'_, H>, millisecs: u64) {
        // Not for no time at all: a round takes none where there is nothing to do.
        let jiffies = (millisecs * HZ).div_ceil(1000).max(1);
        let daemon = &self.huge.khugepaged;
        daemon.wait.wait_jiffies(cx, "the next round", jiffies, || self.is_stopping());
    }

    /// Scans one round of khugepaged; returns the units scanned: an address space is one, a range
    /// 512.
    #[doc(alias = "khugepaged_do_scan")]
    fn khugepaged_round(&self, cx: &Cx<'_, H>, scan: &mut Scan) -> u64 {
        let most = self.mem.tunables.khugepaged_pages_to_scan.get();
        let (mut scanned, mut nr_failed, mut nr_begun) = (0, 0, 0);
        while scanned < most && !self.is_stopping() {
            if scan.at.is_none() {
                nr_begun += 1;
                // All of them were looked at since the round began.
                if nr_begun == 2 {
                    break;
                }
                let first = self.huge.khugepaged.mms.lock(cx.cpu()).front().copied();
                let Some(first) = first else { break };
                scan.at = Some((first, 0));
            }
            if self.scan_mm(cx, scan, &mut scanned, most) == Some(Collapsed::NoMemory) {
                nr_failed += 1;
                if nr_failed == 2 {
                    break;
                }
                self.khugepaged_sleep(cx, self.mem.tunables.khugepaged_alloc_sleep_millisecs.get());
            }
            cx.host.yield_now();
        }
        scanned
    }

    /// Scans the current address space until it ends, the page budget is used, or one collapse was
    /// tried; returns that collapse's result.
    #[doc(alias = "khugepaged_scan_mm_slot")]
    fn scan_mm(
        &self,
        cx: &Cx<'_, H>,
        scan: &mut Scan,
        scanned: &mut u64,
        most: u64,
    ) -> Option<Collapsed> {
        let (id, mut next) = scan.at?;
        *scanned += 1;
        let mm = self.mm(cx, id);
        let guard = mm.as_ref().and_then(|mm| mm.mmap_lock.try_read(cx));
        let (Some(mm), Some(guard)) = (&mm, guard) else {
            // It is gone, or busy: another time.
            scan.at = self.mm_after(cx, id);
            return None;
        };
        while let Some(start) = self.next_range(cx, mm, next) {
            next = start + NR;
            *scanned += u64::from(NR);
            scan.at = Some((id, next));
            if let Check::Collapse(node) = self.check_range(cx, mm, start) {
                drop(guard);
                return Some(self.collapse(cx, mm, start, node));
            }
            if *scanned >= most {
                return None;
            }
        }
        scan.at = self.mm_after(cx, id);
        None
    }

    /// The mm whose turn is next; `None` after the last one.
    fn mm_after(&self, cx: &Cx<'_, H>, id: MmId) -> Option<(MmId, u32)> {
        let mms = self.huge.khugepaged.mms.lock(cx.cpu());
        let at = mms.iter().position(|&other| other == id);
        let next = match at {
            Some(at) => mms.get(at + 1).copied(),
            // It ended meanwhile. Numbers grow, and so does the list.
            None => mms.iter().copied().find(|other| *other > id),
        };
        next.map(|id| (id, 0))
    }

    /// The first range from `vpn` on that could have a huge page, as far as VMAs go. The mm's lock is
    /// held.
    fn next_range(&self, cx: &Cx<'_, H>, mm: &Mm<H>, vpn: u32) -> Option<u32> {
        let mut next = vpn;
        loop {
            let vma = self.next_vma(cx, mm, next)?;
            let start = vma.start.max(next).checked_next_multiple_of(NR)?;
            if start < vma.end && self.huge.range(&vma, start) == Some(start) {
                return Some(start);
            }
            next = vma.end;
        }
    }

    /// Checks a range of single pages.
    fn check_range(&self, cx: &Cx<'_, H>, mm: &Mm<H>, start: u32) -> Check {
        cx.charge(Cost::RmapWalk, 1);
        let Some(table) = mm.table_of(cx.cpu(), start) else { return Check::Leave };
        // Locked memory is not collapsed here; Linux does.
        let vma = mm.vma_of(cx.cpu(), start);
        if vma.is_none_or(|vma| vma.flags.contains(VmaFlags::LOCKED)) {
            return Check::Leave;
        }
        let ptes = table.lock(cx.cpu());
        if ptes.leaf().is_some() || ptes.is_bare() {
            return Check::Leave;
        }
        self.check_entries(cx, &ptes, start)
    }

    /// Scans the entries of a range up to the one that decides against a huge page.
    #[doc(alias = "khugepaged_scan_pmd")]
    #[doc(alias = "hpage_collapse_scan_pmd")]
    fn check_entries(&self, cx: &Cx<'_, H>, ptes: &Ptes<'_, H>, start: u32) -> Check {
        let t = &self.mem.tunables;
        let over = |event: VmEvent| {
            self.mem.events.add(cx.cpu(), event, 1);
            Check::Leave
        };
        let (mut nr_none, mut nr_swapped, mut nr_shared, mut nr_used) = (0, 0, 0, 0);
        let mut is_writable = false;
        // Number of pages by node; among equal maxima the first one wins.
        let mut on_node = alloc::vec![0_u32; self.mem.nr_nodes()];
        for vpn in start..start + NR {
            let pte = ptes.get(vpn);
            if pte.slot().is_some() {
                nr_swapped += 1;
                if nr_swapped > t.khugepaged_max_ptes_swap.get() {
                    return over(VmEvent::ThpScanExceedSwapPte);
                }
                continue;
            }
            if pte.moving_from().is_some() {
                return Check::Leave;
            }
            let Some(folio) = self.mapped_folio(pte) else {
                nr_none += 1;
                if nr_none > t.khugepaged_max_ptes_none.get() {
                    return over(VmEvent::ThpScanExceedNonePte);
                }
                continue;
            };
            let page = self.mem.map.page(folio);
            is_writable |= pte.is_writable();
            // Parts of huge pages stay unchanged here; Linux would collapse them too.
            if folio.is_large() || !page.is_anon() {
                return Check::Leave;
            }
            if page.mapcount() > 1 {
                nr_shared += 1;
                if nr_shared > t.khugepaged_max_ptes_shared.get() {
                    return over(VmEvent::ThpScanExceedSharePte);
                }
            }
            let users = page.mapcount() + u32::from(page.is(PageFlags::SWAPCACHE));
            let is_ready = page.is(PageFlags::LRU)
                && !page.flags().intersects(PageFlags::LOCKED | PageFlags::PINNED)
                && page.refcount() == users;
            if !is_ready {
                return Check::Leave;
            }
            on_node[page.node().idx()] += 1;
            nr_used += u32::from(pte.is_young() || page.is(PageFlags::REFERENCED));
        }
        let least = if nr_swapped > 0 { USED_OF_SWAPPED } else { 1 };
        if !is_writable || nr_used < least {
            return Check::Leave;
        }
        let most = on_node.iter().copied().max().unwrap_or(0);
        let node = on_node.iter().position(|&nr| nr == most).unwrap_or(0);
        Check::Collapse(NodeId(node as u16))
    }

    /// As [`Self::check_range`], of a table at hand.
    #[cfg(test)]
    pub(super) fn check_for_tests(
        &self,
        cx: &Cx<'_, H>,
        table: &crate::vm::PageTable<H>,
        start: u32,
    ) -> Check {
        self.check_entries(cx, &table.lock(cx.cpu()), start)
    }

    /// One round from where `at` says; the units scanned, and where the next begins.
    #[cfg(test)]
    pub(super) fn round_for_tests(
        &self,
        cx: &Cx<'_, H>,
        at: Option<(MmId, u32)>,
    ) -> (u64, Option<(MmId, u32)>) {
        let mut scan = Scan { at };
        (self.khugepaged_round(cx, &mut scan), scan.at)
    }
}
