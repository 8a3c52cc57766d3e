//! Holding up those who dirty pages (spec 04 §7.7, §7.8).
//!
//! A simple form for now: below the free run (half way between the limits) nobody is held up,
//! above it the flusher is kept at work, and above the hard limit writers sleep until the device
//! brought the dirty pages below it. What lies between, pauses after a task's share of the
//! device's bandwidth (§7.3 to §7.6), takes the place of [`Kernel::wait_below_limit`].

use super::{Writeback, limits};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page_cache::File;

/// What somebody over the hard limit sleeps at a time, jiffies.
const STEP: u64 = 2;

impl<H: Devices> Kernel<H> {
    /// Called after a task touched `pages` pages of a file that it may have dirtied: wakes the
    /// flusher over the background limit and holds the task up over the other one. Holds nothing
    /// that writeback needs.
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
        if dirty > limits.thresh {
            self.wait_below_limit(cx, wb);
        }
        let dirty = self.nr_dirty_pages() + self.nr_writeback_pages();
        cx.dirtied.nr.set(0);
        cx.dirtied.pause.set(limits::poll_interval(dirty, self.dirty_limits(cx).thresh));
    }

    /// Sleeps while there are more dirty pages than the limit, unless the task is to die, or the
    /// device has next to none of them.
    fn wait_below_limit(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        self.plug_flush(cx);
        let negligible = limits::negligible_writeback(self.mem.nr_cpus() as u64);
        while !cx.is_dying() && !self.is_stopping() && wb.nr_dirty() > negligible {
            let dirty = self.nr_dirty_pages() + self.nr_writeback_pages();
            if dirty <= self.dirty_limits(cx).thresh {
                break;
            }
            self.start_background(cx, wb);
            cx.host.sleep_jiffies(STEP);
        }
    }
}
