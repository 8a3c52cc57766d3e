//! Tree nodes that left their file, and whose memory goes back after a grace period
//! (rules/slab#tree-nodes).
//!
//! A reader walks a file's tree without a lock. So a node that is removed may still be looked at, and
//! its memory is free only when every CPU has been elsewhere since: after a *grace period*. Until then
//! the node waits on a list of the CPU that removed it. Then all nodes of the list are freed, one after
//! the other.
//!
//! That they are freed *together* shows in the per-CPU page lists. A file that is dropped frees pages
//! by the thousand. With each node freed beside its pages, a slab goes back now and then, between
//! single pages. Together, slab follows slab, and a CPU that frees blocks of orders 1 to 3 in a row
//! drains its lists (rules/per-cpu-lists#counted-high).
//!
//! Synchronisation: a list is behind a `Table` lock, which is not held while nodes are freed.
//!
//! From: [`super::lookup`], `reclaim` (shrinker) · to: `slab`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::node_memory::Objects;
use crate::config::TreeNodes;
use crate::host::{Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::PageAllocator;
use crate::slab::{CacheKind, ObjectId};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::CpuId;
use crate::wait::WaitQueue;

/// Ticks of a grace period: one until the CPUs are asked, and one in which they pass through a state
/// without readers. Linux's are longer if a CPU stays in the kernel.
const GRACE_JIFFIES: u64 = 2;

/// Nodes of each CPU that wait for the end of a grace period.
pub(crate) struct FreedNodes<H: Tasks> {
    /// By CPU; empty if nodes are freed at once.
    waiting: Box<[Waiting<H>]>,
}

struct Waiting<H: Tasks> {
    objects: H::Lock<Vec<ObjectId>>,
    /// The CPU's daemon runs: a host without it frees nodes at once.
    has_daemon: AtomicBool,
    /// The CPU's daemon sleeps here.
    daemon: WaitQueue<H>,
}

impl<H: Tasks> FreedNodes<H> {
    /// None.
    pub(crate) fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let nr_cpus = match mem.policy.tree_nodes {
            TreeNodes::AtOnce => 0,
            TreeNodes::AfterGracePeriod => mem.nr_cpus(),
        };
        let waiting = || Waiting {
            objects: host.new_lock(LockClass::Table, Vec::new()),
            has_daemon: AtomicBool::new(false),
            daemon: WaitQueue::new(host),
        };
        FreedNodes { waiting: (0..nr_cpus).map(|_| waiting()).collect() }
    }

    /// CPUs that have a daemon for it.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> + use<H> {
        (0..self.waiting.len() as u16).map(CpuId)
    }

    /// Nodes that wait, of all CPUs; `on` is the caller's.
    pub(crate) fn nr_waiting(&self, on: CpuId) -> usize {
        self.waiting.iter().map(|waiting| waiting.objects.lock(on).len()).sum()
    }

    /// Wakes the daemons: the kernel shuts down.
    pub(crate) fn wake_all(&self, cx: &Cx<'_, H>) {
        for waiting in &self.waiting {
            waiting.daemon.wake_all(cx.host, cx.cpu());
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Frees the memory of nodes that left their file; the pages that went back to the allocator by
    /// now.
    #[doc(alias = "radix_tree_node_rcu_free")]
    pub(super) fn free_tree_nodes(&self, cx: &Cx<'_, H>, mut nodes: Objects) -> u64 {
        let waiting = self.freed_nodes.waiting.get(cx.cpu().idx());
        let Some(waiting) = waiting.filter(|waiting| waiting.has_daemon.load(Relaxed)) else {
            return self.return_tree_objects(cx, nodes);
        };
        let was_empty = {
            let mut objects = waiting.objects.lock(cx.cpu());
            let was_empty = objects.is_empty();
            objects.extend(core::iter::from_fn(|| nodes.pop()));
            was_empty
        };
        if was_empty {
            waiting.daemon.wake_all(cx.host, cx.cpu());
        }
        0
    }

    /// Frees a CPU's nodes after each grace period, until the kernel shuts down.
    #[doc(alias = "rcu_do_batch")]
    pub(crate) fn run_rcu(&self, cx: &Cx<'_, H>, cpu: CpuId) {
        let waiting = &self.freed_nodes.waiting[cpu.idx()];
        waiting.has_daemon.store(true, Relaxed);
        let is_empty = || waiting.objects.lock(cx.cpu()).is_empty();
        loop {
            let ready = || self.is_stopping() || !is_empty();
            waiting.daemon.wait(cx, "tree nodes to free", ready);
            if !self.is_stopping() {
                let why = "the end of a grace period";
                waiting.daemon.wait_jiffies(cx, why, GRACE_JIFFIES, || self.is_stopping());
            }
            let nodes = mem::take(&mut *waiting.objects.lock(cx.cpu()));
            for &node in &nodes {
                self.slab_give(cx, CacheKind::TreeNode, node);
            }
            if nodes.is_empty() && self.is_stopping() {
                return waiting.has_daemon.store(false, Relaxed);
            }
        }
    }
}
