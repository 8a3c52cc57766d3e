//! Time that a CPU spends in each pressure state, and its weight in the machine's figures.

use super::Standing;

/// The reported states, in the order of [`Times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Told {
    CpuSome,
    CpuFull,
    MemorySome,
    MemoryFull,
    IoSome,
    IoFull,
}

pub(crate) const NR_TOLD: usize = 6;

/// Nanoseconds in each state, and last the non-idle time.
pub(crate) type Times = [u64; NR_TOLD + 1];
const NOT_IDLE: usize = NR_TOLD;

/// Numbers of tasks that have a CPU or wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Runnable tasks, including the running one.
    pub(super) runnable: u32,
    /// Running tasks: one at most, but for the moment in which the CPU switches.
    pub(super) running: u32,
    /// Running tasks that are stalled on memory.
    pub(super) reclaiming: u32,
}

/// The account of one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Numbers of tasks: stalled on memory; stalled on memory and awake; asleep until a device is
    /// done.
    memory: u32,
    memory_awake: u32,
    io: u32,
    /// The same of runnable tasks.
    work: Work,
    /// The states that the CPU is in.
    runs: [bool; NR_TOLD + 1],
    since_ns: u64,
    times: Times,
}

impl Account {
    pub(super) fn new(now_ns: u64) -> Account {
        Account {
            memory: 0,
            memory_awake: 0,
            io: 0,
            work: Work { runnable: 0, running: 0, reclaiming: 0 },
            runs: Default::default(),
            since_ns: now_ns,
            times: Times::default(),
        }
    }

    pub(super) fn leave(&mut self, task: Standing) {
        self.memory -= u32::from(task.memory);
        self.memory_awake -= u32::from(task.memory_awake);
        self.io -= u32::from(task.io);
        self.work.runnable -= u32::from(task.awake);
        self.work.running -= u32::from(task.has_cpu);
        self.work.reclaiming -= u32::from(task.has_cpu && task.memory);
    }

    pub(super) fn join(&mut self, task: Standing) {
        self.memory += u32::from(task.memory);
        self.memory_awake += u32::from(task.memory_awake);
        self.io += u32::from(task.io);
        self.work.runnable += u32::from(task.awake);
        self.work.running += u32::from(task.has_cpu);
        self.work.reclaiming += u32::from(task.has_cpu && task.memory);
    }

    /// The runnable tasks among those that joined.
    pub(super) const fn work(&self) -> Work {
        self.work
    }

    /// Updates the pressure states of the CPU (rules/pressure#states). The account may be ahead of
    /// the task that changes it by the few microseconds that tasks run ahead; its time never goes
    /// back.
    #[doc(alias = "psi_group_change")]
    pub(super) fn change(&mut self, work: Work, now_ns: u64) {
        self.pass(now_ns);
        let Work { runnable, running, reclaiming } = work;
        self.runs = [
            // CpuSome: a task waits for the CPU.
            runnable > running,
            // CpuFull: tasks wait for the CPU, and none of them has it.
            runnable > 0 && running == 0,
            self.memory > 0,
            // No task does anything but reclaim, or could run while the CPU reclaims.
            self.memory > 0 && (runnable == self.memory_awake || reclaiming > 0),
            self.io > 0,
            self.io > 0 && runnable == 0,
            runnable > 0 || self.memory > 0 || self.io > 0,
        ];
    }

    fn pass(&mut self, now_ns: u64) {
        self.times = self.peek(now_ns);
        self.since_ns = self.since_ns.max(now_ns);
    }

    /// Times since the last [`Account::take`].
    pub(super) fn peek(&self, now_ns: u64) -> Times {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let mut times = self.times;
        for (time, _) in times.iter_mut().zip(self.runs).filter(|(_, runs)| *runs) {
            *time += passed_ns;
        }
        times
    }

    /// The same, and resets the times.
    pub(super) fn take(&mut self, now_ns: u64) -> Times {
        self.pass(now_ns);
        std::mem::take(&mut self.times)
    }
}

/// Averages the times of all CPUs, each with the weight of the time in which it was not idle
/// (rules/pressure#machine).
#[doc(alias = "collect_percpu_times")]
pub(super) fn weighed(cpus: impl Iterator<Item = Times>) -> [u64; NR_TOLD] {
    let mut sums = [0_u128; NR_TOLD];
    let mut weights = 0_u128;
    for times in cpus {
        let weight = u128::from(times[NOT_IDLE]);
        weights += weight;
        sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += u128::from(time) * weight);
    }
    sums.map(|sum| (sum / weights.max(1)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One CPU was stalled for half of its non-idle time. The other was never idle and never
    /// stalled.
    #[test]
    fn idle_cpus_have_no_weight() {
        let mut half = Times::default();
        half[Told::MemorySome as usize] = 50;
        half[NOT_IDLE] = 100;
        let mut busy = Times::default();
        busy[NOT_IDLE] = 100;
        let idle = Times::default();
        assert_eq!(weighed([half, idle].into_iter())[Told::MemorySome as usize], 50);
        assert_eq!(weighed([half, busy].into_iter())[Told::MemorySome as usize], 25);
        assert_eq!(weighed([idle].into_iter()), [0; NR_TOLD]);
    }
}
