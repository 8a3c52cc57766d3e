//! The flusher thread of a device (spec 04 §8.1, §8.2).

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::block::DeviceId;
use crate::host::{Cx, Devices, Tasks};
use crate::kernel::Kernel;
use crate::page_cache::File;
use crate::sync::WaitQueue;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::order::LockClass;

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReason {
    /// Over the background limit.
    Background,
    /// Reclaim met dirty pages.
    Vmscan,
    /// sync().
    Sync,
    /// Old enough.
    Periodic,
    /// fsync, fadvise.
    Foreground,
}

/// A device's dirty files (`struct bdi_writeback`).
pub struct Writeback<H: Tasks> {
    /// The device.
    pub device: DeviceId,
    /// Files by state; `Table` class.
    pub(crate) lists: H::Lock<DirtyFiles<H>>,
    /// The flusher sleeps here.
    pub(crate) wait: WaitQueue<H>,
    /// Somebody wants everything written (one pending at most).
    pub(crate) start_all: AtomicBool,
    /// The background limit was exceeded.
    pub(crate) background: AtomicBool,
    /// Work is being done or about to.
    pub(crate) is_running: AtomicBool,
    /// Pages dirty here (`BDI_RECLAIMABLE`).
    pub(crate) nr_reclaimable: AtomicU64,
    /// Pages under writeback here.
    pub(crate) nr_writeback: AtomicU64,
    /// Pages dirtied since boot.
    pub(crate) nr_dirtied: AtomicU64,
    /// Pages written since boot.
    pub(crate) nr_written: AtomicU64,
}

/// Files that are dirty, and in what stage.
pub struct DirtyFiles<H: Tasks> {
    /// Newest at the front.
    pub dirty: VecDeque<Arc<File<H>>>,
    /// Being worked through, oldest first.
    pub io: VecDeque<Arc<File<H>>>,
    /// Used up their chunk, still dirty.
    pub more_io: VecDeque<Arc<File<H>>>,
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
            nr_reclaimable: AtomicU64::new(0),
            nr_writeback: AtomicU64::new(0),
            nr_dirtied: AtomicU64::new(0),
            nr_written: AtomicU64::new(0),
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// The flusher's body; returns when the kernel shuts down.
    pub fn run_flusher(&self, cx: &Cx<'_, H>, device: DeviceId) {
        let _ = (cx, device);
        todo!()
    }

    /// A file became dirty: onto its device's list, its flusher armed.
    pub(crate) fn queue_dirty_file(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) {
        let _ = (cx, file);
        todo!()
    }

    /// Wakes every flusher that has something to write (spec 04 §8.4).
    pub fn wake_flushers(&self, cx: &Cx<'_, H>, reason: WriteReason) {
        let _ = (cx, reason);
        todo!()
    }

    /// sync(): writes everything dirty and waits for it.
    pub fn sync_all(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }

    /// Called after pages were dirtied by a task: wakes the flusher over the background limit and
    /// holds the task up over the other one.
    pub fn balance_dirty_pages(&self, cx: &Cx<'_, H>, file: &File<H>, pages: u32) {
        let _ = (cx, file, pages);
        todo!()
    }
}
