//! Holding up those who dirty pages (spec 04 §7.2, §7.7, §7.8).
//!
//! A simple form for now: below the free run (half way between the limits) nobody is held up,
//! above it the flusher is kept at work, and above the hard limit writers sleep until the device
//! brought the dirty pages below it. What lies between, pauses after a task's share of the
//! device's bandwidth (§7.3 to §7.6), takes the place of [`Kernel::wait_below_limit`].
//!
//! Key types: [`DirtyDomain`] (the limit that all devices share).

use super::Writeback;
use super::limits::{self, DirtyLimits};
use crate::host::{Cx, Devices, HZ, TaskFlags};
use crate::kernel::Kernel;
use crate::page_cache::File;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::vmstat::NodeStat;

/// What somebody over the hard limit sleeps at a time, jiffies.
const STEP: u64 = 2;
/// The smoothed limit moves this often at most, jiffies.
const SMOOTHING: u64 = HZ / 5;

/// The limit that all devices share (`global_wb_domain`). Anybody who is held up moves it on; it
/// does not matter who.
#[derive(Debug, Default)]
pub struct DirtyDomain {
    /// The smoothed limit; 0 until somebody was held up.
    limit: AtomicU64,
    /// When it moved last (jiffies).
    moved_at: AtomicU64,
}

impl DirtyDomain {
    /// The limit at which writers stop: the one of now, or an older and higher one that is still on
    /// its way down.
    fn limit(&self, thresh: u64) -> u64 {
        self.limit.load(Relaxed).max(thresh)
    }

    fn move_on(&self, now: u64, thresh: u64, dirty: u64) {
        let (old, moved_at) = (self.limit.load(Relaxed), self.moved_at.load(Relaxed));
        if old == 0 || now >= moved_at + SMOOTHING {
            self.limit.store(limits::smooth_limit(old, thresh, dirty), Relaxed);
            self.moved_at.store(now, Relaxed);
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// The limits in force; a realtime task's own.
    pub fn dirty_limits(&self, cx: &Cx<'_, H>) -> DirtyLimits {
        // The kernel adds one page, against dividing by a limit of 0 (§7.2).
        let avail = self.mem.dirtyable_pages() + 1;
        let plain = DirtyLimits::new(avail, &self.mem.tunables, None);
        if cx.flags().contains(TaskFlags::REALTIME) {
            let smoothed = self.dirty.limit(plain.thresh);
            return DirtyLimits::new(avail, &self.mem.tunables, Some(smoothed));
        }
        plain
    }

    /// The limit at which writers stop (`hard_dirty_limit`).
    pub(super) fn hard_dirty_limit(&self, cx: &Cx<'_, H>) -> u64 {
        self.dirty.limit(self.dirty_limits(cx).thresh)
    }

    /// Dirty pages of all devices, writeback not counted.
    pub fn nr_dirty_pages(&self) -> u64 {
        self.sum_nodes(NodeStat::Dirty)
    }

    /// Pages under writeback, swap's included.
    pub fn nr_writeback_pages(&self) -> u64 {
        self.sum_nodes(NodeStat::Writeback)
    }

    fn sum_nodes(&self, item: NodeStat) -> u64 {
        self.mem.nodes().iter().map(|node| node.stats.read(item as usize)).sum()
    }

    /// Called after a task touched `pages` pages of a file that it may have dirtied: wakes the
    /// flusher over the background limit and holds the task up over the other one. The caller holds
    /// nothing that writeback needs.
    pub fn balance_dirty_pages(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32) {
        if pages > 0 && cx.dirtied.nr.get() >= cx.dirtied.pause.get() {
            self.balance(cx, self.writeback_of(file));
        }
    }

    #[cold]
    fn balance(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let limits = self.dirty_limits(cx);
        let nr_dirty = self.nr_dirty_pages();
        let dirty = nr_dirty + self.nr_writeback_pages();
        if nr_dirty > limits.background || dirty > limits.freerun() {
            self.start_background(cx, wb);
        }
        if dirty > limits.freerun() {
            self.wait_below_limit(cx, wb);
        }
        let dirty = self.nr_dirty_pages() + self.nr_writeback_pages();
        cx.dirtied.nr.set(0);
        cx.dirtied.pause.set(limits::poll_interval(dirty, self.dirty_limits(cx).thresh));
    }

    /// Sleeps while there are more dirty pages than the limit, unless the task is to die, or the
    /// device has next to none of them.
    fn wait_below_limit(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let negligible = limits::negligible_writeback(self.mem.nr_cpus() as u64);
        loop {
            let thresh = self.dirty_limits(cx).thresh;
            let dirty = self.nr_dirty_pages() + self.nr_writeback_pages();
            self.dirty.move_on(cx.host.jiffies(), thresh, dirty);
            let is_below = dirty < self.dirty.limit(thresh);
            if is_below || wb.nr_dirty() <= negligible || cx.is_dying() || self.is_stopping() {
                return;
            }
            self.start_background(cx, wb);
            self.plug_flush(cx);
            cx.host.sleep_jiffies(STEP);
        }
    }
}
