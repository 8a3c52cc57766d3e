//! Throttling of tasks that dirty pages (rules/dirty-throttling#balance).
//!
//! A task that dirtied enough pages checks the number of all dirty pages. Below the free run, half
//! way between the two limits, it continues. Above it, the flusher is kept running, and the task
//! sleeps between pages. Its rate is then its share of the device's bandwidth: the device's
//! estimate ([`Rates`]) times the position ratio ([`Position`]).
//!
//! Key types: [`DirtyDomain`] (the state shared by all devices).
//!
//! Synchronisation: a device's estimates are behind a `Table` lock, the rest are single words. Any
//! throttled task updates the shared ones.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::group::GroupLook;
use super::limits::{self, DirtyLimits};
use super::pause::{self, Pauses};
use super::position::Position;
use super::rate::{self, Rates, Sample};
use super::share::{self, RecentCount};
use super::{DirtiedPages, Writeback};
use crate::config::WbThreshFloor;
use crate::host::{CpuId, Cx, Devices, HZ, Lock, Phase, Stall, TaskFlags};
use crate::kernel::Kernel;
use crate::page_cache::File;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::bump;
use crate::vmstat::NodeStat;

/// Most pages between two looks on a device that has too much (32 KiB).
const EXCEEDED_PAGES: u64 = 8;
/// A task that is this far behind its pauses (jiffies) starts counting anew.
const FORGOTTEN: u64 = HZ;

/// The dirty throttling state that all devices share (`global_wb_domain`).
#[doc(alias = "wb_domain")]
#[derive(Debug)]
pub struct DirtyDomain {
    /// The smoothed limit; 0 until a task was throttled.
    limit: AtomicU64,
    /// When it moved last (jiffies).
    moved_at: AtomicU64,
    /// File pages written lately, all devices.
    pub(super) written: RecentCount,
    /// Pages that the tasks of one CPU may dirty together until the next check; 0 = not computed.
    cpu_pages: AtomicU64,
    /// By CPU: pages dirtied since the last check.
    dirtied: Box<[AtomicU64]>,
    /// By CPU: pages of tasks that ended before they looked.
    leaked: Box<[AtomicU64]>,
}

impl DirtyDomain {
    /// Nothing dirtied yet.
    pub fn new(nr_cpus: usize) -> Self {
        let counts = || (0..nr_cpus).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into();
        DirtyDomain {
            limit: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            written: RecentCount::default(),
            cpu_pages: AtomicU64::new(0),
            dirtied: counts(),
            leaked: counts(),
        }
    }

    /// The limit at which writers stop: the one of now, or an older and higher one that is still on
    /// its way down.
    fn limit(&self, thresh: u64) -> u64 {
        self.limit.load(Relaxed).max(thresh)
    }

    fn move_on(&self, now: u64, thresh: u64, dirty: u64) {
        let (old, moved_at) = (self.limit.load(Relaxed), self.moved_at.load(Relaxed));
        if old == 0 || now >= moved_at + rate::INTERVAL {
            self.limit.store(limits::smooth_limit(old, thresh, dirty), Relaxed);
            self.moved_at.store(now, Relaxed);
        }
    }

    /// Pages were dirtied on a CPU.
    pub(crate) fn count_dirtied(&self, cpu: CpuId, pages: u64) {
        bump(&self.dirtied[cpu.idx()], pages);
    }

    /// True if a task on `cpu` should check; `ratelimit`: its own pages after which it does.
    fn is_look_due(&self, cpu: CpuId, task: &DirtiedPages, ratelimit: u64) -> bool {
        let (dirtied, leaked) = (&self.dirtied[cpu.idx()], &self.leaked[cpu.idx()]);
        if task.nr.get() >= ratelimit {
            dirtied.store(0, Relaxed);
            return true;
        }
        if dirtied.load(Relaxed) >= self.cpu_pages.load(Relaxed) {
            dirtied.store(0, Relaxed);
            return true;
        }
        let left = leaked.load(Relaxed);
        if left > 0 {
            let taken = left.min(ratelimit - task.nr.get());
            leaked.store(left - taken, Relaxed);
            task.nr.set(task.nr.get() + taken);
        }
        task.nr.get() >= ratelimit
    }
}

/// The numbers that one look at the dirty pages takes.
struct Look {
    limits: DirtyLimits,
    /// Dirty, writeback not counted.
    nr_dirty: u64,
    position: Position,
}

impl<H: Devices> Kernel<H> {
    /// Returns the dirty limits in force; a realtime task's own.
    #[doc(alias = "global_dirty_limits")]
    pub fn dirty_limits(&self, cx: &Cx<'_, H>) -> DirtyLimits {
        // The kernel adds one page, against dividing by a limit of 0
        // (rules/dirty-throttling#limits).
        let avail = self.mem.dirtyable_pages() + 1;
        let plain = self.plain_dirty_limits();
        if cx.flags().contains(TaskFlags::REALTIME) {
            let smoothed = self.dirty.limit(plain.thresh);
            return DirtyLimits::new(avail, &self.mem.tunables, Some(smoothed));
        }
        plain
    }

    /// The dirty limits in force for tasks that are not realtime.
    pub fn plain_dirty_limits(&self) -> DirtyLimits {
        DirtyLimits::new(self.mem.dirtyable_pages() + 1, &self.mem.tunables, None)
    }

    /// Returns the limit at which writers stop (`hard_dirty_limit`).
    ///
    /// Linux: same name.
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

    /// Returns a device's share of a dirty limit (rules/dirty-throttling#device-share), with `dirty`
    /// pages that count against the limit.
    #[doc(alias = "wb_calc_thresh")]
    pub(super) fn share_of(
        &self,
        cx: &Cx<'_, H>,
        wb: &Writeback<H>,
        limit: u64,
        dirty: u64,
    ) -> u64 {
        let now = cx.host.jiffies();
        let part = share::part(limit, wb.written_lately.get(now), self.dirty.written.get(now));
        match self.mem.policy.writeback.wb_thresh_floor {
            WbThreshFloor::Ratio => part,
            WbThreshFloor::Share => part.max(share::least(limit, dirty)),
        }
    }

    /// Pages of a file became dirty: adds them to the counts of its device, the task and the CPU.
    pub(crate) fn count_dirtied(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u64) {
        let wb = self.writeback_of(file);
        wb.nr_reclaimable.fetch_add(pages, Relaxed);
        wb.nr_dirtied.fetch_add(pages, Relaxed);
        let task = cx.local::<DirtiedPages>();
        task.nr.set(task.nr.get() + pages);
        self.dirty.count_dirtied(cx.cpu(), pages);
    }

    /// A device wrote file pages. From interrupts.
    pub(crate) fn count_written(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u64) {
        let (wb, now) = (self.writeback_of(file), cx.host.jiffies());
        wb.nr_writeback.fetch_sub(pages, Relaxed);
        wb.nr_written.fetch_add(pages, Relaxed);
        wb.written_lately.add(now, pages);
        self.dirty.written.add(now, pages);
    }

    /// A task ends: its unchecked dirty pages count for the next task that checks on its CPU.
    pub fn leave_dirtied(&self, cx: &Cx<'_, H>) {
        bump(&self.dirty.leaked[cx.cpu().idx()], cx.local::<DirtiedPages>().nr.take());
    }

    /// Counts pages that a task dirtied and throttles it when it has dirtied enough since the last
    /// look. The caller holds nothing that writeback needs.
    ///
    /// Linux: its `balance_dirty_pages` is `Kernel::balance` here.
    #[doc(alias = "balance_dirty_pages_ratelimited")]
    pub fn balance_dirty_pages(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32) {
        if file.is_memory() {
            return;
        }
        let (wb, task) = (self.writeback_of(file), cx.local::<DirtiedPages>());
        let mut ratelimit = task.pause.get();
        if wb.is_exceeded.load(Relaxed) {
            ratelimit = ratelimit.min(EXCEEDED_PAGES);
        }
        if pages > 0 && self.dirty.is_look_due(cx.cpu(), task, ratelimit) {
            self.balance(cx, wb);
        }
    }

    /// Throttles a writer while too much is dirty: wakes the flusher and sleeps for the pauses it
    /// is due.
    ///
    /// Linux: `balance_dirty_pages_ratelimited`, which calls it, is `Kernel::balance_dirty_pages`
    /// here.
    #[doc(alias = "balance_dirty_pages")]
    #[cold]
    fn balance(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let _phase = cx.phase(Phase::BalanceDirty);
        let task = cx.local::<DirtiedPages>();
        let negligible = limits::negligible_writeback(self.mem.nr_cpus() as u64);
        if self.dirty.cpu_pages.load(Relaxed) == 0 {
            // As the kernel does once at boot.
            let pages = limits::cpu_pages(self.dirty_limits(cx).thresh, self.mem.nr_cpus() as u64);
            self.dirty.cpu_pages.store(pages, Relaxed);
        }
        loop {
            let mut now = cx.host.jiffies();
            let look = self.look(cx, wb);
            let Position { freerun, thresh, dirty, .. } = look.position;
            let group = self.look_at_group(cx);
            let of_group = group
                .map(|group| group.position(look.position.wb_dirty, look.position.avg_bandwidth));
            let is_group_free = of_group.is_none_or(|group| group.dirty <= group.freerun);
            let is_free = dirty <= freerun && is_group_free;
            let is_over = |group: GroupLook| group.nr_dirty > group.limits.background;
            if look.nr_dirty > look.limits.background || group.is_some_and(is_over) || !is_free {
                self.start_background(cx, wb);
            }
            if is_free {
                wb.is_exceeded.store(false, Relaxed);
                task.paused_when.set(Some(now));
                task.nr.set(0);
                let poll = limits::poll_interval(dirty, thresh);
                let own = of_group.map(|of| limits::poll_interval(of.dirty, of.thresh));
                task.pause.set(poll.min(own.unwrap_or(poll)));
                return;
            }
            let exceeds = |at: &Position| at.wb_dirty > at.wb_thresh && at.dirty > at.thresh;
            let is_exceeded = exceeds(&look.position) || of_group.as_ref().is_some_and(exceeds);
            wb.is_exceeded.store(is_exceeded, Relaxed);
            let rates = self.tick(cx, wb, &look.position);
            // Both domains hold a writer up; the stricter one decides.
            let ratio = match &of_group {
                None => look.position.ratio(),
                Some(group) => {
                    let global = if dirty <= freerun { u64::MAX } else { look.position.ratio() };
                    global.min(group.ratio())
                }
            };
            let of_strict = of_group.filter(|_| dirty <= freerun);
            let wb_dirty = of_strict.map_or(look.position.wb_dirty, |group| group.wb_dirty);
            let task_rate = rates.rate() * ratio / 1024;
            let longest = pause::longest(wb_dirty, rates.bandwidth());
            let pauses = Pauses::new(longest, task_rate, rates.rate(), rates.bandwidth());
            let Some(length) = pause_due(task, &mut now, task_rate, &pauses) else { return };
            self.plug_flush(cx);
            self.block.device(wb.device).note_held_up(cx.host.jiffies());
            {
                let _stall = cx.stall(Stall::Io);
                cx.host.sleep_jiffies(length);
            }
            task.paused_when.set(Some(now + length));
            task.nr.set(0);
            task.pause.set(pauses.pages);
            // Over the limit it looks again, unless this device has next to nothing to wait for.
            if task_rate > 0 || wb_dirty <= negligible || cx.is_dying() || self.is_stopping() {
                return;
            }
        }
    }

    fn look(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) -> Look {
        let limits = self.dirty_limits(cx);
        let nr_dirty = self.nr_dirty_pages();
        let dirty = nr_dirty + self.nr_writeback_pages();
        let position = Position {
            freerun: limits.freerun(),
            thresh: limits.thresh,
            limit: self.dirty.limit(limits.thresh),
            dirty,
            wb_thresh: self.share_of(cx, wb, limits.thresh, dirty),
            wb_dirty: wb.nr_dirty(),
            avg_bandwidth: wb.rates.lock(cx.cpu()).bandwidth(),
            floor: self.mem.policy.writeback.wb_thresh_floor,
        };
        Look { limits, nr_dirty, position }
    }

    /// Updates the estimates if it is time; returns them.
    fn tick(&self, cx: &Cx<'_, H>, wb: &Writeback<H>, position: &Position) -> Rates {
        let sample = wb.sample(cx.host.jiffies());
        let mut rates = wb.rates.lock(cx.cpu());
        if rates.is_due(sample.at) {
            self.dirty.move_on(sample.at, position.thresh, position.dirty);
            rates.end(sample, Some(position));
        }
        *rates
    }
}

impl<H: Devices> Writeback<H> {
    fn sample(&self, at: u64) -> Sample {
        let (dirtied, written) = (self.nr_dirtied.load(Relaxed), self.nr_written.load(Relaxed));
        Sample { at, dirtied, written }
    }

    /// A pass over a file begins.
    pub(super) fn begin_sample(&self, cx: &Cx<'_, H>) {
        if self.nr_writeback.load(Relaxed) == 0 {
            self.rates.lock(cx.cpu()).begin(self.sample(cx.host.jiffies()));
        }
    }

    /// A pass over a file ended: the device's writes meanwhile update its bandwidth.
    pub(super) fn end_sample(&self, cx: &Cx<'_, H>) {
        let sample = self.sample(cx.host.jiffies());
        let mut rates = self.rates.lock(cx.cpu());
        if rates.is_due(sample.at) {
            rates.end(sample, None);
        }
    }
}

/// How long a task sleeps now for the pages dirtied since its last pause; `None` if it is not
/// worthwhile yet (steps 5 to 7). `now` advances by the time cut from the pause.
fn pause_due(task: &DirtiedPages, now: &mut u64, task_rate: u64, pauses: &Pauses) -> Option<u64> {
    let Some(period) = (HZ * task.nr.get()).checked_div(task_rate) else {
        return Some(pauses.longest);
    };
    let thought = task.paused_when.get().map_or(0, |when| now.saturating_sub(when));
    if period < thought + pauses.shortest {
        if thought > period + FORGOTTEN {
            task.paused_when.set(Some(*now));
            task.nr.set(0);
        } else if period > 0 {
            task.paused_when.set(task.paused_when.get().map(|when| when + period));
            task.nr.set(0);
        } else if task.pause.get() <= task.nr.get() {
            task.pause.set(task.pause.get() + task.nr.get());
        }
        return None;
    }
    let pause = period - thought;
    if pause > pauses.longest {
        *now += (pause - pauses.longest).min(pauses.longest);
        return Some(pauses.longest);
    }
    Some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(nr: u64, paused_when: Option<u64>) -> DirtiedPages {
        let task = DirtiedPages::default();
        task.nr.set(nr);
        task.paused_when.set(paused_when);
        task
    }

    #[test]
    fn the_pause_is_what_the_pages_took_less_what_the_task_thought() {
        let pauses = Pauses::new(50, 6400, 6400, 25_600);
        let mut now = 1000;
        // Rate 6400, 150 pages: 5 jiffies (rules/dirty-throttling#balance).
        assert_eq!(pause_due(&task(150, Some(1000)), &mut now, 6400, &pauses), Some(5));
        assert_eq!(pause_due(&task(150, Some(999)), &mut now, 6400, &pauses), Some(4));
        assert_eq!(pause_due(&task(150, None), &mut now, 6400, &pauses), Some(5));
        let early = task(150, Some(997));
        assert_eq!(pause_due(&early, &mut now, 6400, &pauses), None, "2 is too short");
        assert_eq!((early.nr.get(), early.paused_when.get()), (0, Some(1002)), "put off");
        let late = task(150, Some(100));
        assert_eq!(pause_due(&late, &mut now, 6400, &pauses), None);
        assert_eq!((late.nr.get(), late.paused_when.get()), (0, Some(1000)), "forgotten");
        assert_eq!(now, 1000);
        assert_eq!(pause_due(&task(15_000, None), &mut now, 6400, &pauses), Some(50));
        assert_eq!(now, 1050, "as much again is forgiven");
        assert_eq!(pause_due(&task(1, None), &mut now, 0, &pauses), Some(50), "at the limit");
    }

    #[test]
    fn pages_of_ended_tasks_are_charged_to_the_next() {
        let domain = DirtyDomain::new(1);
        domain.cpu_pages.store(100, Relaxed);
        domain.leaked[0].store(40, Relaxed);
        let task = task(1, None);
        assert!(domain.is_look_due(CpuId(0), &task, 32));
        assert_eq!((task.nr.get(), domain.leaked[0].load(Relaxed)), (32, 9));
        task.nr.set(0);
        (0..100).for_each(|_| domain.count_dirtied(CpuId(0), 1));
        assert!(domain.is_look_due(CpuId(0), &task, 32), "the CPU's own limit");
        assert!(!domain.is_look_due(CpuId(0), &task, 32));
    }
}
