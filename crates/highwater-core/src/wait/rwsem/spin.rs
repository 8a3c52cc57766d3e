//! Spinning on an owner that runs: it will be gone before a sleep would be worth it (rules/sleeping-locks#rwsem-spin).

use super::{HANDOFF, NONSPINNABLE, READER, READERS, RwSem, WORD_SHIFT, WRITER};
use crate::host::{Cx, Lock, Phase, Tasks};
use crate::sync::atomic::Ordering::*;

/// How long a look at the owner takes.
const LOOK_NS: u64 = 500;

/// The goal of spinning: the lock as a reader or as a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spins {
    /// To read.
    Reader,
    /// To write.
    Writer,
}

impl<H: Tasks> RwSem<H> {
    /// Spins as long as that is worth it; true if the caller has the lock.
    #[doc(alias = "rwsem_optimistic_spin")]
    pub(super) fn spin(&self, cx: &Cx<'_, H>, spins: Spins) -> bool {
        if !H::KNOWS_WHO_RUNS || !self.is_worth_it(cx) {
            return false;
        }
        let _phase = cx.phase(Phase::SpinOnOwner);
        let ticket = {
            let mut waiters = self.waiters.lock(cx.cpu());
            let ticket = waiters.next_ticket();
            waiters.spinners.push_back((ticket, cx.host.current_word()));
            self.count_spinners(waiters.spinners.len(), waiters.spinners.front());
            ticket
        };
        let is_taken = self.spin_in_turn(cx, spins, ticket);
        let mut waiters = self.waiters.lock(cx.cpu());
        waiters.spinners.retain(|&(spinner, _)| spinner != ticket);
        self.count_spinners(waiters.spinners.len(), waiters.spinners.front());
        is_taken
    }

    fn count_spinners(&self, nr: usize, first: Option<&(u64, u64)>) {
        let (ticket, word) = first.copied().unwrap_or_default();
        self.nr_spinners.store(nr as u32, Relaxed);
        self.first_spinner.store(ticket, Relaxed);
        self.first_word.store(word, Relaxed);
    }

    /// One looks at the owner, the others wait behind it. If it loses its CPU before it can stop, they do not wait for it.
    fn spin_in_turn(&self, cx: &Cx<'_, H>, spins: Spins, ticket: u64) -> bool {
        let host = cx.host;
        let nr_preempted = host.preemptions();
        let mut until_ns = None;
        loop {
            let has_to_go = host.needs_resched() || host.preemptions() != nr_preempted;
            let is_my_turn = self.first_spinner.load(Relaxed) == ticket
                || !host.is_on_cpu(self.first_word.load(Relaxed));
            if is_my_turn {
                let owner = self.owner.load(Relaxed);
                if owner & NONSPINNABLE != 0 || self.is_owner_off_cpu(cx, owner) {
                    return false;
                }
                if self.try_unqueued(cx, spins) {
                    return true;
                }
                if owner & READER != 0 {
                    let readers = u64::from(self.state.load(Relaxed) & READERS);
                    let now_ns = host.now_ns();
                    let until_ns = *until_ns.get_or_insert(now_ns + reader_spin_ns(readers));
                    if now_ns >= until_ns {
                        self.owner.fetch_or(NONSPINNABLE, Relaxed);
                        return false;
                    }
                }
            }
            if has_to_go {
                return false;
            }
            host.relax(LOOK_NS);
        }
    }

    /// The first that sleeps, to whom the lock will be handed, looks for an owner that runs to leave; true if it did.
    pub(super) fn spin_until_free(&self, cx: &Cx<'_, H>) -> bool {
        if !H::KNOWS_WHO_RUNS {
            return false;
        }
        let _phase = cx.phase(Phase::SpinOnOwner);
        let host = cx.host;
        let (owner, nr_preempted) = (self.owner.load(Relaxed), host.preemptions());
        while owner != 0 && owner & READER == 0 && !self.is_owner_off_cpu(cx, owner) {
            if host.needs_resched() || host.preemptions() != nr_preempted {
                return false;
            }
            host.relax(LOOK_NS);
            if self.owner.load(Relaxed) != owner {
                return self.state.load(Acquire) & (WRITER | READERS) == 0;
            }
        }
        false
    }

    fn is_worth_it(&self, cx: &Cx<'_, H>) -> bool {
        let owner = self.owner.load(Relaxed);
        let is_spinnable = owner & NONSPINNABLE == 0 && !self.is_owner_off_cpu(cx, owner);
        is_spinnable && !cx.host.needs_resched()
    }

    fn is_owner_off_cpu(&self, cx: &Cx<'_, H>, owner: u64) -> bool {
        owner & READER == 0 && owner != 0 && !cx.host.is_on_cpu(owner >> WORD_SHIFT)
    }

    /// Takes the lock ahead of the sleeping tasks, if no holder excludes the caller.
    #[doc(alias = "rwsem_try_write_lock_unqueued")]
    fn try_unqueued(&self, cx: &Cx<'_, H>, spins: Spins) -> bool {
        let is_taken = |excluded: u32, taken: u32| {
            let take = |state: u32| (state & excluded == 0).then(|| state + taken);
            self.state.fetch_update(Acquire, Relaxed, take).is_ok()
        };
        match spins {
            Spins::Writer => {
                let is_taken = is_taken(WRITER | READERS | HANDOFF, WRITER);
                if is_taken {
                    self.own_as_writer(cx);
                }
                is_taken
            }
            Spins::Reader => {
                let is_taken = is_taken(WRITER | HANDOFF, 1);
                if is_taken {
                    self.own_as_reader();
                }
                is_taken
            }
        }
    }
}

/// How long `n` readers are worth to spin for: 10 to 25 microseconds.
const fn reader_spin_ns(n: u64) -> u64 {
    let counted = if n < 30 { n } else { 30 };
    (20 + counted) * 1000 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors R1, R6 (rules/sleeping-locks#rwsem-spin).
    #[test]
    fn many_readers_are_waited_for_longer() {
        assert_eq!([1, 2, 30, 40].map(reader_spin_ns), [10_500, 11_000, 25_000, 25_000]);
    }
}
