//! The kernel's daemons: name, CPUs, flags and body of each.
//!
//! Declared once, here, for every host. A host makes a task for each of [`Kernel::daemons`], on a
//! CPU that [`Daemon::runs_on`] allows. The task calls [`Kernel::run_daemon`], which returns when
//! the kernel shuts down.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Kernel;
use crate::host::{Cx, Devices, TaskFlags};
use crate::sync::atomic::Ordering::SeqCst;
use crate::units::{CpuId, DeviceId, NodeId};

/// A daemon that the host runs in a separate task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// A node's kswapd.
    Kswapd(NodeId),
    /// A node's kcompactd.
    Kcompactd(NodeId),
    /// A device's flusher.
    Flusher(DeviceId),
    /// Takes the memory of tasks that the OOM killer chose and that do not die by themselves.
    OomReaper,
    /// Adds up statistics of memory cgroups: work of a kworker in Linux.
    StatsFlusher,
    /// Takes removed memory cgroups offline: work of a kworker in Linux.
    GroupRemover,
    /// Frees a CPU's tree nodes after grace periods: work of a softirq in Linux.
    Rcu(CpuId),
    /// Makes huge pages of single ones.
    Khugepaged,
}

/// CPUs that a daemon runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonCpus {
    /// Any.
    Any,
    /// Those of a node.
    Node(NodeId),
    /// One.
    Cpu(CpuId),
}

impl Daemon {
    /// Its name, as `ps` shows it.
    pub fn name(self) -> String {
        match self {
            Daemon::Kswapd(node) => format!("kswapd{}", node.0),
            Daemon::Kcompactd(node) => format!("kcompactd{}", node.0),
            Daemon::Flusher(device) => format!("flusher/{}", device.0),
            Daemon::OomReaper => "oom_reaper".into(),
            Daemon::StatsFlusher => "stats_flusher".into(),
            Daemon::GroupRemover => "group_remover".into(),
            Daemon::Rcu(cpu) => format!("rcuc/{}", cpu.0),
            Daemon::Khugepaged => "khugepaged".into(),
        }
    }

    /// Its nice value. khugepaged gives way to everybody.
    pub fn nice(self) -> i8 {
        match self {
            Daemon::Khugepaged => 19,
            Daemon::Kswapd(_)
            | Daemon::Kcompactd(_)
            | Daemon::Flusher(_)
            | Daemon::OomReaper
            | Daemon::StatsFlusher
            | Daemon::GroupRemover
            | Daemon::Rcu(_) => 0,
        }
    }

    /// Where it runs.
    pub const fn runs_on(self) -> DaemonCpus {
        match self {
            Daemon::Kswapd(node) | Daemon::Kcompactd(node) => DaemonCpus::Node(node),
            Daemon::Rcu(cpu) => DaemonCpus::Cpu(cpu),
            Daemon::Flusher(_)
            | Daemon::OomReaper
            | Daemon::StatsFlusher
            | Daemon::GroupRemover
            | Daemon::Khugepaged => DaemonCpus::Any,
        }
    }

    /// Flags of its task. kswapd may use the reserves, because it refills them.
    pub const fn flags(self) -> TaskFlags {
        match self {
            Daemon::Kswapd(_) => {
                TaskFlags::KTHREAD.union(TaskFlags::MEMALLOC).union(TaskFlags::KSWAPD)
            }
            Daemon::Flusher(_) | Daemon::StatsFlusher | Daemon::GroupRemover => {
                TaskFlags::KTHREAD.union(TaskFlags::WORKER)
            }
            Daemon::Kcompactd(_) | Daemon::OomReaper | Daemon::Rcu(_) | Daemon::Khugepaged => {
                TaskFlags::KTHREAD
            }
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// The daemons that a host has to run; where only programs that ask get huge pages,
    /// [`Kernel::khugepaged_for_advice`] is one more as soon as one may ask.
    pub fn daemons(&self) -> Vec<Daemon> {
        let nodes = self.mem.nodes().iter().map(|node| node.id);
        let nodes = || nodes.clone().filter(|&node| self.mem.zones_of(node).count() > 0);
        let mut all: Vec<_> = nodes().map(Daemon::Kswapd).collect();
        if self.has_kcompactd() {
            all.extend(nodes().map(Daemon::Kcompactd));
        }
        all.extend(self.writeback.iter().map(|w| Daemon::Flusher(w.device)));
        all.push(Daemon::OomReaper);
        if self.has_stats_flusher() {
            all.push(Daemon::StatsFlusher);
        }
        if self.mem.groups.is_on() {
            all.push(Daemon::GroupRemover);
        }
        all.extend(self.freed_nodes.cpus().map(Daemon::Rcu));
        if self.huge.is_for_all() {
            all.push(Daemon::Khugepaged);
        }
        all
    }

    /// khugepaged, if only programs that request huge pages get them (`madvise`). It has nothing to
    /// do until a program requests some, so a host without such programs need not run it.
    pub fn khugepaged_for_advice(&self) -> Option<Daemon> {
        let is_needed = self.huge.is_on() && !self.huge.is_for_all();
        is_needed.then_some(Daemon::Khugepaged)
    }

    /// A daemon's body, until the kernel shuts down. The calling task is that daemon meanwhile.
    pub fn run_daemon(&self, cx: &Cx<'_, H>, daemon: Daemon) {
        let before = cx.set_flags(daemon.flags());
        match daemon {
            Daemon::Kswapd(node) => self.run_kswapd(cx, node),
            Daemon::Kcompactd(node) => self.run_kcompactd(cx, node),
            Daemon::Flusher(device) => self.run_flusher(cx, device),
            Daemon::OomReaper => self.run_oom_reaper(cx),
            Daemon::StatsFlusher => self.run_stats_flusher(cx),
            Daemon::GroupRemover => self.run_group_remover(cx),
            Daemon::Rcu(cpu) => self.run_rcu(cx, cpu),
            Daemon::Khugepaged => self.run_khugepaged(cx),
        }
        cx.set_flags(before);
    }

    /// Tells the daemons to return.
    pub fn shut_down(&self, cx: &Cx<'_, H>) {
        // Set before the queues are checked, so that a task about to sleep sees it.
        self.is_stopping.store(true, SeqCst);
        for node in self.reclaim.nodes() {
            node.kswapd_wait.wake_all(cx.host, cx.cpu());
        }
        self.compaction.wake_all(cx);
        for device in &self.writeback {
            device.wait.wake_all(cx.host, cx.cpu());
        }
        self.oom.reaper_wait.wake_all(cx.host, cx.cpu());
        self.freed_nodes.wake_all(cx);
        self.memcg.flusher_wait.wake_all(cx.host, cx.cpu());
        self.memcg.removed.wake_all(cx);
        self.huge.khugepaged.wait.wake_all(cx.host, cx.cpu());
    }
}
