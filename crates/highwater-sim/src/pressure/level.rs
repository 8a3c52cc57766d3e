//! The pressure of one set of tasks, the machine's or a memory cgroup's: an account for each CPU,
//! and the totals and averages that are made of them.

use super::account::{Account, Work, weighed};
use super::reading::{Averages, Reading};
use super::{PERIOD_NS, Standing};
use crate::cpu::CpuId;

/// Accounts and averages.
#[derive(Debug)]
pub(super) struct Level {
    cpus: Vec<Account>,
    averages: Averages,
}

impl Level {
    /// Measures from `now_ns` on. The first period ends at `due_at_ns`.
    pub(super) fn new(nr_cpus: usize, now_ns: u64, due_at_ns: u64) -> Level {
        Level {
            cpus: vec![Account::new(now_ns); nr_cpus],
            averages: Averages::new(now_ns, due_at_ns),
        }
    }

    pub(super) const fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// A task of the set is no longer in this state.
    pub(super) fn leave(&mut self, task: Standing) {
        self.cpus[task.cpu.idx()].leave(task);
    }

    /// A task of the set is in this state.
    pub(super) fn join(&mut self, task: Standing) {
        self.cpus[task.cpu.idx()].join(task);
    }

    /// Updates the states of a CPU with the tasks of the set that have it or wait for it.
    pub(super) fn change(&mut self, cpu: CpuId, work: Work, now_ns: u64) {
        self.cpus[cpu.idx()].change(work, now_ns);
    }

    /// Updates the states of a CPU with the tasks that joined.
    pub(super) fn change_by_tasks(&mut self, cpu: CpuId, now_ns: u64) {
        let account = &mut self.cpus[cpu.idx()];
        account.change(account.work(), now_ns);
    }

    /// End of the period.
    pub(super) const fn due_at_ns(&self) -> u64 {
        self.averages.due_at_ns()
    }

    /// Ends the period.
    pub(super) fn collect(&mut self) {
        let at_ns = self.averages.due_at_ns();
        let passed = weighed(self.cpus.iter_mut().map(|cpu| cpu.take(at_ns)));
        self.averages.pass(passed, at_ns + PERIOD_NS);
    }

    /// Totals and averages at a time, which is in the period.
    pub(super) fn read(&self, now_ns: u64) -> Reading {
        self.averages.read(weighed(self.cpus.iter().map(|cpu| cpu.peek(now_ns))))
    }
}
