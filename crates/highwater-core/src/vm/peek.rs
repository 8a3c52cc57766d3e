//! Processes as an observer outside the machine sees them: without locks, costs or effects.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Mm;
use crate::host::{Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;

/// A process, as its files in `/proc` have it. Sizes are pages.
pub struct Process<H: Tasks> {
    /// Its number.
    pub pid: u32,
    /// Its name in reports.
    pub name: Arc<str>,
    /// The memory cgroup of its tasks.
    pub group: GroupId,
    /// All of its VMAs.
    pub size: u64,
    /// Of these, what counts against the commit limit.
    pub committed: u64,
    /// Resident anonymous pages.
    pub anon: u64,
    /// Resident pages of files and of shared memory.
    pub file: u64,
    /// Pages in swap.
    pub swap: u64,
    /// Page tables, the top one excepted.
    pub tables: u64,
    /// -1000..=1000.
    pub oom_score_adj: i32,
    /// Its tasks.
    pub tasks: Vec<H::Task>,
}

impl<H: Devices> Kernel<H> {
    /// Every process, by number; of one that changes right now only the number. `None` if the list
    /// of all changes right now.
    pub fn peek_processes(&self) -> Option<Vec<(u32, Option<Process<H>>)>> {
        self.mms.peek(|mms| mms.values().map(|mm| (mm.pid(), mm.peek())).collect())
    }
}

impl<H: Tasks> Mm<H> {
    fn peek(&self) -> Option<Process<H>> {
        let (size, committed) = self.tables.peek(|tables| {
            let vmas = || tables.all_vmas();
            let size = vmas().map(|vma| u64::from(vma.end - vma.start)).sum();
            (size, vmas().map(|vma| vma.committed()).sum())
        })?;
        Some(Process {
            pid: self.pid(),
            name: self.name.peek(Clone::clone)?.unwrap_or_else(|| Arc::from("task")),
            group: self.group(),
            size,
            committed,
            anon: self.rss.anon.load(Relaxed),
            file: self.rss.file.load(Relaxed),
            swap: self.rss.swap.load(Relaxed),
            tables: self.rss.tables.load(Relaxed),
            oom_score_adj: self.oom_score_adj.load(Relaxed),
            tasks: self.tasks.peek(|tasks| tasks.iter().map(|task| task.task.clone()).collect())?,
        })
    }
}
