//! The flusher of a device (rules/writeback#flusher, rules/writeback#order).
//!
//! A file that becomes dirty goes to the head of its device's `dirty` list. A run of the flusher
//! moves the files that it may write to `io`, oldest first, and writes a chunk of each at a time:
//!
//! ```text
//! dirty --(old enough)--> io --> written: clean  -> on no list
//!   ^                     ^      chunk used up   -> more_io
//!   |                     +------------------------- more_io (first when io is refilled)
//!   +------------------------ still dirty otherwise (dirtied again, or under writeback)
//! ```
//!
//! Synchronisation: the lists are behind a `Table` lock. A file that is being written is on no
//! list, but counts as queued: if it is dirtied meanwhile, the flusher requeues it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::group::Scope;
use super::{Rates, RecentCount, limits};
use crate::block::DeviceId;
use crate::host::{Cx, Devices, HZ, Lock, Phase, Tasks, Urgency};
use crate::kernel::Kernel;
use crate::page_cache::{File, Mark};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::order::LockClass;
use crate::wait::WaitQueue;

/// No deadline.
const NEVER: u64 = u64::MAX;
/// A run looks at its limits again after this long (jiffies).
const RECHECK: u64 = HZ / 10;

/// The reason for which pages are written.
#[doc(alias = "wb_reason")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReason {
    /// Over the background limit.
    Background,
    /// Reclaim met dirty pages.
    Vmscan,
    /// sync(), fsync(): a task waits.
    Sync,
    /// Old enough.
    Periodic,
    /// fadvise.
    Foreground,
}

impl WriteReason {
    /// The urgency of such writes for the device: background for the flushers' own writes, higher
    /// for requested ones (rules/writeback#in-flight).
    pub(super) const fn urgency(self) -> Urgency {
        match self {
            WriteReason::Background | WriteReason::Periodic => Urgency::Background,
            WriteReason::Vmscan | WriteReason::Foreground => Urgency::Normal,
            WriteReason::Sync => Urgency::Sync,
        }
    }
}

/// A device's dirty files (`struct bdi_writeback`).
#[doc(alias = "bdi_writeback")]
pub struct Writeback<H: Tasks> {
    /// The device.
    pub device: DeviceId,
    /// Files by state; `Table` class.
    pub(crate) lists: H::Lock<DirtyFiles<H>>,
    /// The flusher sleeps here.
    pub(crate) wait: WaitQueue<H>,
    /// Somebody wants everything written (one pending at most).
    pub(crate) start_all: AtomicBool,
    /// The flusher is to look at the background limit.
    pub(crate) background: AtomicBool,
    /// Work is being done.
    pub(crate) is_running: AtomicBool,
    /// A task runs the flusher.
    has_flusher: AtomicBool,
    /// When the flusher looks for old files next (jiffies).
    wake_at: AtomicU64,
    /// When it did last.
    last_periodic: AtomicU64,
    /// It has more than its share, and all devices more than the limit.
    pub(super) is_exceeded: AtomicBool,
    /// Estimates of its bandwidth and of its writers' rate; `Table` class.
    pub(super) rates: H::Lock<Rates>,
    /// Pages written lately, for its share of the limits.
    pub(super) written_lately: RecentCount,
    /// Pages dirty here (`BDI_RECLAIMABLE`).
    pub(crate) nr_reclaimable: AtomicU64,
    /// Pages under writeback here.
    pub(crate) nr_writeback: AtomicU64,
    /// Pages dirtied since boot.
    pub(crate) nr_dirtied: AtomicU64,
    /// Pages written since boot.
    pub(crate) nr_written: AtomicU64,
}

/// Dirty files, by stage.
pub struct DirtyFiles<H: Tasks> {
    /// Newest at the front.
    pub dirty: VecDeque<Arc<File<H>>>,
    /// Being worked through, oldest at the front.
    pub io: VecDeque<Arc<File<H>>>,
    /// Used up their chunk, still dirty; first to come at the front.
    pub more_io: VecDeque<Arc<File<H>>>,
}

impl<H: Tasks> DirtyFiles<H> {
    /// No file is waiting to be written.
    pub fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.io.is_empty() && self.more_io.is_empty()
    }

    /// Refills `io`, if it is empty: files that had their turn first, then those dirtied no later
    /// than `until`, oldest first.
    #[doc(alias = "queue_io")]
    pub(super) fn refill(&mut self, until: u64) {
        if !self.io.is_empty() {
            return;
        }
        self.io.append(&mut self.more_io);
        while self.dirty.back().is_some_and(|file| file.dirtied_when.load(Relaxed) <= until) {
            self.io.extend(self.dirty.pop_back());
        }
    }

    /// Puts a file that is still dirty back among the newest dirty files. It keeps its age unless
    /// that breaks the order of the list.
    #[doc(alias = "redirty_tail")]
    fn redirty(&mut self, file: Arc<File<H>>, now: u64) {
        let age = |file: &Arc<File<H>>| file.dirtied_when.load(Relaxed);
        if self.dirty.front().is_some_and(|newest| age(&file) < age(newest)) {
            file.dirtied_when.store(now, Relaxed);
        }
        self.dirty.push_front(file);
    }
}

impl<H: Devices> Writeback<H> {
    /// Nothing dirty.
    pub fn new(host: &H, device: DeviceId) -> Self {
        let lists =
            DirtyFiles { dirty: VecDeque::new(), io: VecDeque::new(), more_io: VecDeque::new() };
        Writeback {
            device,
            lists: host.new_lock(LockClass::Table, lists),
            wait: WaitQueue::new(host),
            start_all: AtomicBool::new(false),
            background: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            has_flusher: AtomicBool::new(false),
            wake_at: AtomicU64::new(NEVER),
            last_periodic: AtomicU64::new(0),
            is_exceeded: AtomicBool::new(false),
            rates: host.new_lock(LockClass::Table, Rates::default()),
            written_lately: RecentCount::default(),
            nr_reclaimable: AtomicU64::new(0),
            nr_writeback: AtomicU64::new(0),
            nr_dirtied: AtomicU64::new(0),
            nr_written: AtomicU64::new(0),
        }
    }

    /// Pages dirty or under writeback here.
    pub fn nr_dirty(&self) -> u64 {
        self.nr_reclaimable() + self.nr_writeback.load(Relaxed)
    }

    /// Dirty pages of this device. A page's flag is set before the page is counted, so a page that
    /// is cleaned in between may be subtracted first: a negative count is 0.
    fn nr_reclaimable(&self) -> u64 {
        self.nr_reclaimable.load(Relaxed).cast_signed().max(0).cast_unsigned()
    }

    /// Has the flusher look at the background limit.
    fn kick(&self, cx: &Cx<'_, H>) {
        if !self.background.swap(true, SeqCst) {
            self.wait.wake_all(cx.host, cx.cpu());
        }
    }

    fn has_dirty_files(&self, cx: &Cx<'_, H>) -> bool {
        !self.lists.lock(cx.cpu()).is_empty()
    }
}

/// The work of a run.
#[derive(Clone, Copy)]
struct Work {
    reason: WriteReason,
    /// Pages at most.
    left: u64,
    /// Files dirtied no later than this.
    until: Option<u64>,
}

impl<H: Devices> Writeback<H> {
    /// Pages that were cleaned for I/O are dirty after all.
    pub(crate) fn redirtied(&self, pages: u64) {
        self.nr_reclaimable.fetch_add(pages, Relaxed);
    }

    /// Pages are no longer dirty.
    pub(crate) fn cleaned(&self, pages: u64) {
        self.nr_reclaimable.fetch_sub(pages, Relaxed);
    }

    /// Pages are under writeback.
    pub(crate) fn write_started(&self, pages: u64) {
        self.nr_writeback.fetch_add(pages, Relaxed);
    }
}

impl<H: Devices> Kernel<H> {
    /// The dirty files of the device that a file is on.
    pub(crate) fn writeback_of(&self, file: &File<H>) -> &Writeback<H> {
        &self.writeback[usize::from(file.spec.device.0)]
    }

    /// Runs a device's flusher; returns when the kernel shuts down.
    #[doc(alias = "wb_workfn")]
    pub(crate) fn run_flusher(&self, cx: &Cx<'_, H>, device: DeviceId) {
        let wb = &self.writeback[usize::from(device.0)];
        wb.has_flusher.store(true, Relaxed);
        while !self.is_stopping() {
            self.wait_for_work(cx, wb);
            if !self.is_stopping() {
                self.flush_device(cx, wb);
            }
        }
        wb.has_flusher.store(false, Relaxed);
    }

    fn wait_for_work(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let has_work =
            || self.is_stopping() || wb.start_all.load(SeqCst) || wb.background.load(SeqCst);
        let why = "dirty pages to write";
        match wb.wake_at.load(SeqCst) {
            NEVER => {
                let is_armed = || wb.wake_at.load(SeqCst) != NEVER;
                wb.wait.wait(cx, why, || has_work() || is_armed());
            }
            deadline => {
                let timeout = deadline.saturating_sub(cx.host.jiffies());
                wb.wait.wait_jiffies(cx, why, timeout, has_work);
            }
        }
    }

    /// Makes one flusher run: work that was asked for, old pages, then the background limit
    /// (rules/writeback#flusher). Does nothing if none of them applies.
    #[doc(alias = "wb_do_writeback")]
    pub(super) fn flush_device(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let is_due = wb.wake_at.load(SeqCst) <= cx.host.jiffies();
        let is_kicked = wb.background.swap(false, SeqCst);
        if !is_due && !is_kicked && !wb.start_all.load(SeqCst) {
            return;
        }
        wb.is_running.store(true, SeqCst);
        if wb.start_all.load(SeqCst) {
            let left = self.all_dirty(cx);
            self.write_device(cx, wb, Work { reason: WriteReason::Vmscan, left, until: None });
            wb.start_all.store(false, SeqCst);
        }
        self.write_old(cx, wb);
        let reason = WriteReason::Background;
        self.write_device(cx, wb, Work { reason, left: u64::MAX, until: None });
        wb.is_running.store(false, SeqCst);
        // Disarmed first: a file that becomes dirty from here on either arms it or is seen.
        wb.wake_at.store(NEVER, SeqCst);
        let interval = self.periodic_interval();
        if interval != 0 && wb.has_dirty_files(cx) {
            wb.wake_at.store(cx.host.jiffies() + interval, SeqCst);
        }
    }

    /// Writes pages periodically: every five seconds, what is thirty seconds old.
    #[doc(alias = "wb_check_old_data_flush")]
    fn write_old(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        let (now, interval) = (cx.host.jiffies(), self.periodic_interval());
        if interval == 0 || now < wb.last_periodic.load(Relaxed) + interval {
            return;
        }
        wb.last_periodic.store(now, Relaxed);
        let expire = limits::centisecs_to_jiffies(self.mem.tunables.dirty_expire_centisecs.get());
        if let Some(until) = now.checked_sub(expire) {
            let (reason, left) = (WriteReason::Periodic, self.all_dirty(cx));
            self.write_device(cx, wb, Work { reason, left, until: Some(until) });
        }
    }

    /// The amount for "everything dirty": the pages counted now, plus one for each file, for its
    /// inode and for pages that the cheap count does not include yet.
    fn all_dirty(&self, cx: &Cx<'_, H>) -> u64 {
        self.nr_dirty_pages() + self.files.lock(cx.cpu()).len() as u64
    }

    fn periodic_interval(&self) -> u64 {
        limits::centisecs_to_jiffies(self.mem.tunables.dirty_writeback_centisecs.get())
    }

    /// Writes files of a device until a piece of work is done.
    #[doc(alias = "wb_writeback")]
    fn write_device(&self, cx: &Cx<'_, H>, wb: &Writeback<H>, mut work: Work) {
        let is_background = work.reason == WriteReason::Background;
        while work.left > 0 && !self.is_stopping() {
            let scope = match is_background {
                true => self.background_scope(cx, wb),
                false => Some(Scope::All),
            };
            let Some(scope) = scope else { break };
            let until = work.until.unwrap_or_else(|| cx.host.jiffies());
            wb.lists.lock(cx.cpu()).refill(until);
            // No page written and no file clean: the rest is under writeback.
            if !self.write_files(cx, wb, &mut work, scope) {
                break;
            }
        }
    }

    /// Gives each file of `io` its turn; true if anything was written or became clean. Returns
    /// early to have the limits looked at.
    #[doc(alias = "writeback_sb_inodes")]
    fn write_files(
        &self,
        cx: &Cx<'_, H>,
        wb: &Writeback<H>,
        work: &mut Work,
        scope: Scope,
    ) -> bool {
        let start = cx.host.jiffies();
        let mut is_progress = false;
        // Files of other groups keep their places, the oldest at the back.
        let mut spared = Vec::new();
        loop {
            let Some(file) = wb.lists.lock(cx.cpu()).io.pop_front() else { break };
            if !self.is_in_scope(cx, &file, scope) {
                spared.push(file);
                continue;
            }
            let dirty_limit = self.hard_dirty_limit(cx);
            let bandwidth = wb.rates.lock(cx.cpu()).bandwidth();
            let chunk = limits::chunk(bandwidth, dirty_limit, work.left);
            let range = (file.writeback_index.load(Relaxed), u32::MAX);
            let written = self.write_pass(cx, &file, range, chunk, work.reason);
            file.writeback_index.store(written.next, Relaxed);
            work.left = work.left.saturating_sub(written.pages);
            let is_clean = self.requeue(cx, wb, file, written.pages >= chunk);
            is_progress |= is_clean || written.pages > 0;
            let is_late = cx.host.jiffies() > start + RECHECK;
            if is_progress && (is_late || work.left == 0) {
                break;
            }
        }
        if !spared.is_empty() {
            wb.lists.lock(cx.cpu()).dirty.extend(spared.into_iter().rev());
        }
        is_progress
    }

    /// Decides where a file goes after its turn; true if it is clean.
    #[doc(alias = "requeue_inode")]
    fn requeue(
        &self,
        cx: &Cx<'_, H>,
        wb: &Writeback<H>,
        file: Arc<File<H>>,
        is_used_up: bool,
    ) -> bool {
        if has_dirty_pages(cx, &file) {
            let mut lists = wb.lists.lock(cx.cpu());
            if is_used_up {
                lists.more_io.push_back(file);
            } else {
                lists.redirty(file, cx.host.jiffies());
            }
            return false;
        }
        // Dirtying marks the page first and checks the flag after that, so one of the two sees the
        // other.
        file.is_queued.store(false, SeqCst);
        if has_dirty_pages(cx, &file) {
            self.queue_dirty_file(cx, &file);
        }
        true
    }

    /// Puts a file that became dirty onto its device's list and arms the flusher; false if it is on
    /// one.
    #[doc(alias = "__mark_inode_dirty")]
    pub(crate) fn queue_dirty_file(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) -> bool {
        if file.is_queued.load(SeqCst) || file.is_queued.swap(true, SeqCst) {
            return false;
        }
        let wb = self.writeback_of(file);
        let now = cx.host.jiffies();
        file.dirtied_when.store(now, Relaxed);
        wb.lists.lock(cx.cpu()).dirty.push_front(Arc::clone(file));
        let interval = self.periodic_interval();
        let arm = |at: u64| wb.wake_at.compare_exchange(NEVER, at, SeqCst, SeqCst).is_ok();
        if interval != 0 && arm(now + interval) {
            wb.wait.wake_all(cx.host, cx.cpu());
        }
        true
    }

    /// Takes a deleted file off its device's lists.
    #[doc(alias = "inode_io_list_del")]
    pub(crate) fn forget_dirty_file(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) {
        if !file.is_queued.load(SeqCst) {
            return;
        }
        let mut lists = self.writeback_of(file).lists.lock(cx.cpu());
        let DirtyFiles { dirty, io, more_io } = &mut *lists;
        for list in [dirty, io, more_io] {
            if let Some(at) = list.iter().position(|other| Arc::ptr_eq(other, file)) {
                list.remove(at);
                file.is_queued.store(false, SeqCst);
            }
        }
    }

    /// Wakes every flusher that has something to write (rules/writeback#wake-flushers).
    #[doc(alias = "wakeup_flusher_threads")]
    pub fn wake_flushers(&self, cx: &Cx<'_, H>, reason: WriteReason) {
        // The kernel uses it only in a tracepoint.
        let _ = reason;
        // Otherwise it would wait for pages in the caller's own plug.
        self.plug_flush(cx);
        for wb in &self.writeback {
            if wb.has_dirty_files(cx) && !wb.start_all.swap(true, SeqCst) {
                wb.wait.wake_all(cx.host, cx.cpu());
            }
        }
    }

    /// Writes everything dirty and waits for it (`sync`). (In Linux the flushers write; here the
    /// caller does, which waits for it anyway.)
    #[doc(alias = "ksys_sync")]
    pub fn sync_all(&self, cx: &Cx<'_, H>) {
        let _phase = cx.phase(Phase::Sync);
        self.wake_flushers(cx, WriteReason::Sync);
        let files: Vec<_> = self.files.lock(cx.cpu()).values().cloned().collect();
        for file in &files {
            self.write_file_pages(cx, file, (0, u32::MAX), u64::MAX, WriteReason::Sync);
        }
        for file in &files {
            self.wait_file_writeback(cx, file, (0, u32::MAX));
        }
    }

    /// Decides which files to write in the background. All, if more is dirty than the background
    /// limit, or more on this device than its share of it; else those of groups over their limits.
    #[doc(alias = "wb_over_bg_thresh")]
    fn background_scope(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) -> Option<Scope> {
        let background = self.dirty_limits(cx).background;
        let dirty = self.nr_dirty_pages();
        let is_over =
            dirty > background || wb.nr_reclaimable() > self.share_of(cx, wb, background, dirty);
        match is_over {
            true => Some(Scope::All),
            false => self.is_group_over_background(cx).then_some(Scope::GroupsOver),
        }
    }

    /// Wakes a device's flusher to look at the background limit, unless it works already. Where no
    /// task runs the flusher (replay, tests), the caller does its work.
    #[doc(alias = "wb_start_background_writeback")]
    pub(super) fn start_background(&self, cx: &Cx<'_, H>, wb: &Writeback<H>) {
        if wb.is_running.load(SeqCst) {
            return;
        }
        wb.kick(cx);
        if !wb.has_flusher.load(Relaxed) {
            self.flush_device(cx, wb);
        }
    }
}

fn has_dirty_pages<H: Devices>(cx: &Cx<'_, H>, file: &File<H>) -> bool {
    file.tree.lock(cx.cpu()).any_marked(Mark::Dirty)
}
