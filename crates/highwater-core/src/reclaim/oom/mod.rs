//! The OOM killer and its reaper (rules/shrinkers-and-oom#oom-when).
//!
//! The kernel promises programs more memory than it has, because most never touch all of it. If too
//! many use what was promised, one of them must die, because a page fault cannot return an error.
//! By then the allocator has reclaimed in vain for several rounds, and has tried once more at the
//! high mark.
//!
//! The killer chooses the address space with the most memory, sends all its tasks SIGKILL and lets
//! them use reserves. Until they are gone, no other victim is chosen. A victim may wait for a task
//! that waits for memory. So after two seconds the reaper unmaps its anonymous memory, and from
//! then on the mm no longer counts as dying.
//!
//! ```text
//!  chosen ──signal──▶ dying ──────exits──────▶ memory is back
//!                       │                           ▲
//!                       └── 2 s ──▶ reaper: unmaps ─┤   lock held: 10 tries, 1/10 s apart
//!                                                   │
//!                     reaped, or beyond help ◀──────┘   the next victim may be chosen
//! ```
//!
//! *Which task?* The one that frees the most. Each kill loses work, so one kill is better than
//! many; finer criteria (age, priority, CPU time) could spare the hog. The administrator can adjust
//! the choice with `oom_score_adj`.
//!
//! *One at a time.* Dying takes memory and time: the victim must be scheduled, run, and leave its
//! waits. Tasks without memory meanwhile count this as progress and try again. If each chose a new
//! victim, the second one would be killed for memory that the first is about to free.
//!
//! *Why a reaper?* The victim may sleep uninterruptibly on a lock whose holder waits in the
//! allocator, for the victim to die. Its private memory can be freed without its help, because it
//! will not be used again. Shared files would stay in the page cache, so they are left alone.
//!
//! Synchronisation: one kill at a time (the allocator's OOM lock). Mms are checked through a
//! copy of their table, so a candidate may have exited when it is chosen, which counts as killed.
//! The reaper's queue is a `Table`. The reaper only *tries* an mm's lock, because the holder may
//! itself wait for memory.
//!
//! From: `page_alloc::slow` through `Relief`, the host (reaper) · to: `vm::unmap`.

mod report;
#[cfg(test)]
mod setting_tests;

pub use report::OomReport;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use report::Log;
pub(super) use report::{Kill, Why};

use crate::host::{Cx, Devices, HZ, Lock, Signals, TaskFlags, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::{Gfp, Request};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vm::Mm;
use crate::vmstat::VmEvent;
use crate::wait::WaitQueue;
use crate::zone::NodeMask;

/// Ticks between the kill and the reaping: most victims exit by themselves before
/// (rules/shrinkers-and-oom#reaper).
const REAP_DELAY: u64 = 2 * HZ;
/// Ticks between the reaper's tries at an mm whose lock is held.
const REAP_RETRY: u64 = HZ / 10;
/// How often it tries. Not for ever: a lock that is held for a second more may be part of the deadlock, and
/// then only another victim helps.
const REAP_TRIES: u32 = 10;
/// `oom_score_adj` of tasks that are never chosen. All larger values are weights: -999 is chosen if
/// there is no other task.
const NEVER: i32 = -1000;

/// Victims, each with the tick at which it is due.
type Victims<H> = VecDeque<(u64, Arc<Mm<H>>)>;

/// State of the OOM killer.
pub struct OomState<H: Tasks> {
    /// The reaper sleeps here.
    pub(crate) reaper_wait: WaitQueue<H>,
    /// Mms that wait for the reaper; `Table` class.
    victims: H::Lock<Victims<H>>,
    /// Reports of kills; `Table` class.
    log: H::Lock<Log>,
    /// The kernel has stopped (`vm.panic_on_oom`).
    has_panicked: AtomicBool,
}

impl<H: Tasks> OomState<H> {
    /// Nobody killed yet.
    pub fn new(host: &H) -> Self {
        OomState {
            reaper_wait: WaitQueue::new(host),
            victims: host.new_lock(LockClass::Table, VecDeque::new()),
            log: host.new_lock(LockClass::Table, Log::default()),
            has_panicked: AtomicBool::new(false),
        }
    }
}

/// Pages of an mm, and the data for judging it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    rss: u64,
    /// Its anonymous pages.
    anon: u64,
    swap: u64,
    tables: u64,
    adj: i32,
    /// It was killed and has not been reaped.
    is_dying: bool,
    /// It cannot be chosen: no tasks, or nothing left to take.
    is_exempt: bool,
}

/// An address space as a candidate; `has_tasks`: tasks that may be killed use it.
pub(super) fn candidate<H: Devices>(mm: &Mm<H>, has_tasks: bool) -> Candidate {
    Candidate {
        anon: mm.rss.anon.load(Relaxed),
        rss: mm.rss.anon.load(Relaxed) + mm.rss.file.load(Relaxed),
        swap: mm.rss.swap.load(Relaxed),
        tables: mm.rss.tables.load(Relaxed),
        adj: mm.oom_score_adj.load(Relaxed),
        is_dying: mm.is_victim.load(Relaxed) && !mm.is_reaped.load(Relaxed),
        is_exempt: mm.is_reaped.load(Relaxed) || !has_tasks,
    }
}

/// The index of the victim, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Kill(usize),
    /// Somebody is dying already.
    Wait,
    Nobody,
}

/// Chooses a victim on a machine of `total` pages, RAM and swap (rules/shrinkers-and-oom#oom-choice).
///
/// Points are pages that a death would give back: resident ones, swapped ones, and the tables that map them.
/// The adjustment counts in thousandths of all memory, so it means the same on machines of any size.
#[doc(alias = "select_bad_process")]
#[doc(alias = "oom_badness")]
pub(super) fn choose(candidates: impl Iterator<Item = Candidate>, total: u64) -> Choice {
    let mut best = None;
    for (i, c) in candidates.enumerate() {
        // Also if it is small: memory is on its way, and whether that is enough will be seen.
        if c.is_dying {
            return Choice::Wait;
        }
        if c.is_exempt || c.adj == NEVER {
            continue;
        }
        let points = (c.rss + c.swap + c.tables) as i64 + i64::from(c.adj) * (total / 1000) as i64;
        // Of equals the later one is chosen.
        if best.is_none_or(|(most, _)| points >= most) {
            best = Some((points, i));
        }
    }
    best.map_or(Choice::Nobody, |(_, i)| Choice::Kill(i))
}

/// The nodes that a request could use: killing a task without memory there would not help it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    nodes: NodeMask,
    /// It is a memory policy that keeps it from the others; else, if anything does, the cpuset.
    by_policy: bool,
}

impl Limits {
    /// Whether a task may have memory there. A policy that only prefers nodes excludes none.
    fn concern(self, task: &Signals) -> bool {
        let may_have = if self.by_policy { task.bound() } else { task.mems_allowed() };
        !may_have.and(self.nodes).is_empty()
    }
}

impl<H: Devices> Kernel<H> {
    /// Determines whether a cpuset or a memory policy limits the failed request
    /// (rules/shrinkers-and-oom#oom-limits).
    #[doc(alias = "constrained_alloc")]
    fn oom_limits(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> Limits {
        let all = self.mem.nodes_with_memory();
        let cpuset =
            if self.mem.tunables.cpusets.get() { cx.mems_allowed() } else { NodeMask::ALL };
        match req.nodes.map(|nodes| nodes.and(all)).filter(|&nodes| nodes != all) {
            // The cpuset's own nodes serve as a mask too.
            Some(nodes) if !self.mem.tunables.cpusets.get() || nodes != cpuset.and(all) => {
                Limits { nodes, by_policy: true }
            }
            _ => Limits { nodes: cpuset.and(all), by_policy: false },
        }
    }

    /// Kills the task with the most memory; true if one was killed or is dying. The caller holds
    /// the OOM lock and returns to its rounds on true; nothing notifies it when memory is freed.
    #[doc(alias = "out_of_memory")]
    #[doc(alias = "oom_kill_process")]
    pub(crate) fn oom_kill(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        let mms: Vec<Arc<Mm<H>>> = self.mms.lock(cx.cpu()).values().cloned().collect();
        if cx.flags().intersects(TaskFlags::FATAL_SIGNAL | TaskFlags::EXITING) {
            // It will give back its memory by itself; with the reserves it gets there sooner. That is no kill
            // and is not counted as one. But the reaper watches it like a victim, as it may get stuck too.
            cx.signals().raise(TaskFlags::OOM_VICTIM);
            if let Some(own) = mms.iter().find(|mm| mm.has_task(cx)) {
                self.reap_later(cx, own);
            }
            return true;
        }
        if !req.gfp.contains(Gfp::FS) {
            // Reclaim could not do everything, so it is too early to kill. Reported as progress, so
            // that the request tries again; others, which may do more, reclaim meanwhile.
            return true;
        }
        let limits = self.oom_limits(cx, req);
        let zones = self.mem.populated_zones().filter(|zone| limits.nodes.contains(zone.node));
        let ram: u64 = zones.map(|zone| zone.managed()).sum();
        let concerned = |mm: &Mm<H>| mm.any_task(cx, |signals| limits.concern(signals));
        let candidates: Vec<Candidate> =
            mms.iter().map(|mm| candidate(mm, concerned(mm))).collect();
        let is_limited = limits.nodes != NodeMask::ALL.and(self.mem.nodes_with_memory());
        let tunables = &self.mem.tunables;
        let kill = |victim: usize, why: Why| Kill {
            asked: (req.gfp, req.order),
            mms: &mms,
            candidates: &candidates,
            victim: Some(victim),
            nodes: is_limited.then_some(limits.nodes),
            by_policy: limits.by_policy,
            why,
        };
        // Nothing else is asked first: where it is wanted, the machine stops rather than lose a program.
        if tunables.panic_on_oom.get() == 2 || (tunables.panic_on_oom.get() == 1 && !is_limited) {
            let why = if tunables.panic_on_oom.get() == 2 { Why::PanicAlways } else { Why::Panic };
            self.panic(cx, &Kill { victim: None, ..kill(0, why) });
            return true;
        }
        let choice = match self.allocating_task(cx, &mms, &candidates) {
            Some(own) => (Choice::Kill(own), Why::Allocating),
            None => (choose(candidates.iter().copied(), ram + self.swap.nr_total()), Why::Most),
        };
        match choice {
            (Choice::Wait, _) => true,
            // All are exempt. The request fails.
            (Choice::Nobody, _) => false,
            (Choice::Kill(i), why) => {
                let victim = &mms[i];
                self.mem.events.add(cx.cpu(), VmEvent::OomKill, 1);
                self.report_kill(cx, &kill(i, why));
                self.reap_later(cx, victim);
                victim.signal_tasks(cx, TaskFlags::FATAL_SIGNAL | TaskFlags::OOM_VICTIM);
                true
            }
        }
    }

    /// With `vm.oom_kill_allocating_task` the allocating task dies, whatever memory others have and
    /// whether or not another task is dying. Tasks that are never chosen are exempt
    /// (rules/shrinkers-and-oom#oom-settings).
    fn allocating_task(
        &self,
        cx: &Cx<'_, H>,
        mms: &[Arc<Mm<H>>],
        candidates: &[Candidate],
    ) -> Option<usize> {
        if self.mem.tunables.oom_kill_allocating_task.get() == 0 {
            return None;
        }
        let own = mms.iter().position(|mm| mm.has_task(cx))?;
        let is_exempt = candidates[own].is_exempt || candidates[own].adj == NEVER;
        (!is_exempt).then_some(own)
    }

    /// Stops the machine if `vm.panic_on_oom` says so (rules/shrinkers-and-oom#oom-settings): every
    /// program is told to die at once.
    #[doc(alias = "check_panic_on_oom")]
    fn panic(&self, cx: &Cx<'_, H>, kill: &Kill<'_, H>) {
        if self.oom.has_panicked.swap(true, Relaxed) {
            return;
        }
        self.report_kill(cx, kill);
        for mm in kill.mms {
            self.reap_later(cx, mm);
            mm.signal_tasks(cx, TaskFlags::FATAL_SIGNAL | TaskFlags::OOM_VICTIM);
        }
    }

    /// True if the kernel has stopped for want of memory (`vm.panic_on_oom`).
    pub fn has_panicked(&self) -> bool {
        self.oom.has_panicked.load(Relaxed)
    }

    /// Marks a victim's address space as dying and queues it for the OOM reaper. Done once for each
    /// mm, although several of its tasks may come here.
    ///
    /// Linux: the OOM reaper exists from 4.6 on.
    #[doc(alias = "queue_oom_reaper")]
    #[doc(alias = "mark_oom_victim")]
    pub(super) fn reap_later(&self, cx: &Cx<'_, H>, mm: &Arc<Mm<H>>) {
        if mm.is_victim.swap(true, Relaxed) {
            return;
        }
        let due = cx.host.jiffies() + REAP_DELAY;
        self.oom.victims.lock(cx.cpu()).push_back((due, Arc::clone(mm)));
        self.oom.reaper_wait.wake_all(cx.host, cx.cpu());
    }

    /// Runs the OOM reaper; returns when the kernel shuts down. The reaper is a separate task,
    /// because the killing task has to continue its request. Victims are due in the order in which
    /// they were chosen, so it waits only for the first one's time.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "oom_reaper")]
    pub(crate) fn run_oom_reaper(&self, cx: &Cx<'_, H>) {
        let queue = &self.oom.reaper_wait;
        let next = || self.oom.victims.lock(cx.cpu()).front().map(|(due, _)| *due);
        loop {
            queue.wait(cx, "the OOM reaper has nothing to do", || {
                self.is_stopping() || next().is_some()
            });
            let Some(due) = next() else { break };
            let wait = due.saturating_sub(cx.host.jiffies());
            let why = "the OOM reaper gives a victim time";
            queue.wait_jiffies(cx, why, wait, || self.is_stopping());
            if self.is_stopping() {
                break;
            }
            let victim = self.oom.victims.lock(cx.cpu()).pop_front();
            if let Some((_, mm)) = victim {
                self.reap(cx, &mm);
            }
        }
    }

    /// Reaps a victim's memory, trying again while `mmap_lock` is contended, or gives up on it.
    ///
    /// Linux 4.6 on.
    #[doc(alias = "oom_reap_task")]
    pub(super) fn reap(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        for _ in 0..REAP_TRIES {
            let is_gone = self.mm(cx, mm.id).is_none();
            if self.is_stopping() || is_gone || self.reap_mm(cx, mm) {
                break;
            }
            let why = "the OOM reaper waits for a victim's lock";
            self.oom.reaper_wait.wait_jiffies(cx, why, REAP_RETRY, || self.is_stopping());
        }
        // Reaped, or hopeless: the next victim may be chosen. Without this, all tasks would wait
        // for ever for a victim that cannot die.
        mm.is_reaped.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Candidate = Candidate {
        rss: 0,
        anon: 0,
        swap: 0,
        tables: 0,
        adj: 0,
        is_dying: false,
        is_exempt: false,
    };

    fn chosen(candidates: &[Candidate]) -> Choice {
        choose(candidates.iter().copied(), 100_000)
    }

    #[test]
    fn most_memory_dies_first() {
        let small = Candidate { rss: 1000, ..PLAIN };
        let large = Candidate { rss: 500, swap: 600, tables: 10, ..PLAIN };
        assert_eq!(chosen(&[small, large]), Choice::Kill(1));
        assert_eq!(chosen(&[large, small]), Choice::Kill(0));
        assert_eq!(chosen(&[small, small]), Choice::Kill(1), "ties: the later one");
    }

    #[test]
    fn adjustment_counts_thousandths_of_everything() {
        let small = Candidate { rss: 1000, ..PLAIN };
        let disliked = Candidate { rss: 10, adj: 10, ..PLAIN };
        assert_eq!(chosen(&[disliked, small]), Choice::Kill(0), "10 + 10 * 100 pages");
        let never = Candidate { rss: 90_000, adj: -1000, ..PLAIN };
        assert_eq!(chosen(&[never, small]), Choice::Kill(1));
        let spared = Candidate { rss: 1000, adj: -999, ..PLAIN };
        assert_eq!(chosen(&[spared]), Choice::Kill(0), "better than nobody");
    }

    #[test]
    fn one_at_a_time() {
        let small = Candidate { rss: 1000, ..PLAIN };
        let dying = Candidate { rss: 1, is_dying: true, ..PLAIN };
        assert_eq!(chosen(&[small, dying]), Choice::Wait);
        let reaped = Candidate { rss: 9000, is_exempt: true, ..PLAIN };
        assert_eq!(chosen(&[reaped, small]), Choice::Kill(1));
        assert_eq!(chosen(&[reaped]), Choice::Nobody);
    }

    /// The table of rules/shrinkers-and-oom#oom-limits.
    #[test]
    fn only_who_has_memory_there_can_help() {
        use crate::host::{CpuId, Solo};
        use crate::units::{MemoryPolicy, NodeId};

        let (zero, one) = (NodeMask::of(NodeId(0)), NodeMask::of(NodeId(1)));
        let host = Solo::default();
        let task = || Cx::new(&host, CpuId(0));
        let (bound, confined, free) = (task(), task(), task());
        bound.set_memory_policy(MemoryPolicy::Bind(one));
        confined.set_mems_allowed(one);
        free.set_memory_policy(MemoryPolicy::Preferred(NodeId(1)));
        let concerned =
            |limits: Limits| [&bound, &confined, &free].map(|task| limits.concern(task.signals()));
        let nodes = zero;
        assert_eq!(concerned(Limits { nodes, by_policy: true }), [false, true, true]);
        assert_eq!(concerned(Limits { nodes, by_policy: false }), [true, false, true]);
    }
}
