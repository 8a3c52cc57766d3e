//! The OOM killer and its reaper (rules/shrinkers-and-oom#oom-when).
//!
//! The killer chooses the address space that holds most memory, tells all its tasks to die and lets
//! them use reserves. Until they are gone nobody else is chosen. A victim may wait for something that
//! waits for memory: after two seconds the reaper takes its anonymous memory away, and from then on
//! the space no longer counts as dying.
//!
//! Synchronisation: one killer at a time (the allocator's OOM lock); spaces are looked at through a
//! copy of their table; the reaper's queue is a `Table`.
//!
//! From: `page_alloc::slow` through `Relief`, the host (reaper) · to: `vm::unmap`.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::host::{Cx, Devices, HZ, Lock, TaskFlags, Tasks};
use crate::kernel::Kernel;
use crate::page_alloc::{Gfp, Request};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::order::LockClass;
use crate::vm::Space;
use crate::vmstat::VmEvent;
use crate::wait::WaitQueue;

/// Ticks between the kill and the reaping: most victims exit by themselves before.
const REAP_DELAY: u64 = 2 * HZ;
/// Ticks between the reaper's tries at a space whose lock is held.
const REAP_RETRY: u64 = HZ / 10;
/// How often it tries.
const REAP_TRIES: u32 = 10;
/// `oom_score_adj` of those who are never chosen.
const NEVER: i32 = -1000;

/// Victims, each with the tick at which it is due.
type Victims<H> = VecDeque<(u64, Arc<Space<H>>)>;

/// What the OOM killer remembers.
pub struct OomState<H: Tasks> {
    /// The reaper sleeps here.
    pub(crate) reaper_wait: WaitQueue<H>,
    /// Who is to be reaped; `Table` class.
    victims: H::Lock<Victims<H>>,
}

impl<H: Tasks> OomState<H> {
    /// Nobody killed yet.
    pub fn new(host: &H) -> Self {
        OomState {
            reaper_wait: WaitQueue::new(host),
            victims: host.new_lock(LockClass::Table, VecDeque::new()),
        }
    }
}

/// What a space holds, in pages, and how it is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    rss: u64,
    swap: u64,
    tables: u64,
    adj: i32,
    /// It was told to die and has not been reaped.
    is_dying: bool,
    /// It cannot be chosen: no tasks, or nothing left to take.
    is_exempt: bool,
}

/// The index of the victim, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Kill(usize),
    /// Somebody is dying already.
    Wait,
    Nobody,
}

/// Chooses a victim on a machine of `total` pages, RAM and swap.
fn choose(candidates: impl Iterator<Item = Candidate>, total: u64) -> Choice {
    let mut best = None;
    for (i, c) in candidates.enumerate() {
        if c.is_dying {
            return Choice::Wait;
        }
        if c.is_exempt || c.adj == NEVER {
            continue;
        }
        let points = (c.rss + c.swap + c.tables) as i64 + i64::from(c.adj) * (total / 1000) as i64;
        // Ties go to who came later.
        if best.is_none_or(|(most, _)| points >= most) {
            best = Some((points, i));
        }
    }
    best.map_or(Choice::Nobody, |(_, i)| Choice::Kill(i))
}

impl<H: Devices> Kernel<H> {
    /// Kills the task with the most memory; true if one was killed or is dying.
    pub(crate) fn oom_kill(&self, cx: &Cx<'_, H>, req: &Request<'_>) -> bool {
        let spaces: Vec<Arc<Space<H>>> = self.spaces.lock(cx.cpu()).values().cloned().collect();
        if cx.flags().intersects(TaskFlags::FATAL_SIGNAL | TaskFlags::EXITING) {
            // It will give back its memory by itself; with the reserves it gets there sooner.
            cx.signals().raise(TaskFlags::OOM_VICTIM);
            if let Some(own) = spaces.iter().find(|space| space.has_task(cx)) {
                self.reap_later(cx, own);
            }
            return true;
        }
        if !req.gfp.contains(Gfp::FS) {
            // Reclaim could not do everything: too early to kill.
            return true;
        }
        let ram: u64 = self.mem.populated_zones().map(|zone| zone.managed()).sum();
        let candidates = spaces.iter().map(|space| Candidate {
            rss: space.rss.anon.load(Relaxed) + space.rss.file.load(Relaxed),
            swap: space.rss.swap.load(Relaxed),
            tables: space.rss.tables.load(Relaxed),
            adj: space.oom_score_adj.load(Relaxed),
            is_dying: space.is_victim.load(Relaxed) && !space.is_reaped.load(Relaxed),
            is_exempt: space.is_reaped.load(Relaxed) || space.nr_tasks(cx) == 0,
        });
        match choose(candidates, ram + self.swap.nr_total()) {
            Choice::Wait => true,
            Choice::Nobody => false,
            Choice::Kill(i) => {
                let victim = &spaces[i];
                self.mem.events.add(cx.cpu(), VmEvent::OomKill, 1);
                self.reap_later(cx, victim);
                victim.signal_tasks(cx, TaskFlags::FATAL_SIGNAL | TaskFlags::OOM_VICTIM);
                true
            }
        }
    }

    /// Marks a space as dying and tells the reaper.
    fn reap_later(&self, cx: &Cx<'_, H>, space: &Arc<Space<H>>) {
        if space.is_victim.swap(true, Relaxed) {
            return;
        }
        let due = cx.host.jiffies() + REAP_DELAY;
        self.oom.victims.lock(cx.cpu()).push_back((due, Arc::clone(space)));
        self.oom.reaper_wait.wake_all(cx.host, cx.cpu());
    }

    /// The reaper's body; returns when the kernel shuts down.
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
            if let Some((_, space)) = victim {
                self.reap(cx, &space);
            }
        }
    }

    pub(super) fn reap(&self, cx: &Cx<'_, H>, space: &Space<H>) {
        for _ in 0..REAP_TRIES {
            let is_gone = self.space(cx, space.id).is_none();
            if self.is_stopping() || is_gone || self.reap_space(cx, space) {
                break;
            }
            let why = "the OOM reaper waits for a victim's lock";
            self.oom.reaper_wait.wait_jiffies(cx, why, REAP_RETRY, || self.is_stopping());
        }
        // Reaped, or beyond help: the next victim may be chosen.
        space.is_reaped.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Candidate =
        Candidate { rss: 0, swap: 0, tables: 0, adj: 0, is_dying: false, is_exempt: false };

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
}
