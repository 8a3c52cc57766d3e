//! The run queue of one CPU under CFS, as in 6.1 (rules/scheduler#cfs).
//!
//! Tasks run in the order of their virtual runtimes. [`Cfs`] only keeps account: the caller owns
//! the clock, says what happens and runs the task that [`Cfs::pick`] returns.
//!
//! ```text
//!                      place                       pick
//!   new, woken task ----------> waiting, by v ---------------> current
//!                                  ^                             |  |
//!                                  '---- tick, preempted, yield -'  '-- block --> keeps its v
//! ```

use super::entity::{Entities, Members, Standing};
use super::weights::{Weight, factor};
use crate::engine::task::TaskIndex;

/// Tasks from this number on lengthen the period; buddies matter from here on.
#[doc(alias = "sched_nr_latency")]
const NR_LATENCY: usize = 8;

/// The scheduler's sysctls, for the machine's number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CfsParams {
    /// Time in which each of a few tasks runs once.
    #[doc(alias = "sysctl_sched_latency")]
    latency_ns: u64,
    /// Least slice of a period with many tasks.
    #[doc(alias = "sysctl_sched_min_granularity")]
    min_granularity_ns: u64,
    /// Virtual time by which a woken task must be behind the running one to preempt it.
    #[doc(alias = "sysctl_sched_wakeup_granularity")]
    wakeup_granularity_ns: u64,
    /// No slice is shorter than the least granularity (from 5.13).
    has_least_slice: bool,
}

impl CfsParams {
    /// The sysctls of 6.1 on a machine of `nr_cpus` CPUs.
    pub(crate) fn new(nr_cpus: usize) -> CfsParams {
        let factor = factor(nr_cpus);
        CfsParams {
            latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: 1_000_000 * factor,
            has_least_slice: true,
        }
    }

    /// The sysctls before 5.13.
    #[cfg(test)]
    pub(super) fn without_least_slice(self) -> CfsParams {
        CfsParams { has_least_slice: false, ..self }
    }
}

/// A run queue.
#[doc(alias = "cfs_rq")]
pub(crate) struct Cfs {
    params: CfsParams,
    pub(super) members: Members,
    /// Virtual time of the queue: never goes back.
    pub(super) min_v: i64,
    pub(super) needs_resched: bool,
    /// The task that preempted last: it should run next.
    next: Option<TaskIndex>,
    /// The task that was preempted last: it should run again after that.
    last: Option<TaskIndex>,
    /// The task that yielded: another should run.
    skip: Option<TaskIndex>,
}

impl Cfs {
    pub(crate) fn new(params: CfsParams) -> Cfs {
        let members = Members::default();
        let (next, last, skip) = (None, None, None);
        Cfs { params, members, min_v: 0, needs_resched: false, next, last, skip }
    }

    /// Accounts the running task's time.
    ///
    /// Linux: up to 6.5.
    #[doc(alias = "update_curr")]
    pub(crate) fn update(&mut self, entities: &mut Entities, now_ns: u64) {
        if self.members.account(entities, now_ns).is_some() {
            self.follow(entities);
        }
    }

    /// The queue's virtual time follows its members.
    #[doc(alias = "update_min_vruntime")]
    fn follow(&mut self, entities: &Entities) {
        if let Some(least) = self.members.all().map(|task| entities[task].v).min() {
            self.min_v = self.min_v.max(least);
        }
    }

    /// Time that a task of this weight may run before another one's turn comes. A task that is not
    /// a member counts as one more.
    #[doc(alias = "sched_slice")]
    fn slice_ns(&self, entities: &Entities, weight: Weight, is_member: bool) -> u64 {
        let nr = self.members.nr() + usize::from(!is_member);
        let total = self.members.weight(entities) + if is_member { 0 } else { weight.get() };
        let CfsParams { latency_ns, min_granularity_ns, .. } = self.params;
        let period_ns = if nr <= NR_LATENCY { latency_ns } else { nr as u64 * min_granularity_ns };
        let least_ns = if self.params.has_least_slice { min_granularity_ns } else { 0 };
        weight.part(period_ns, total).max(least_ns)
    }

    /// A new task's start: a slice behind the queue, or behind its parent if that is later.
    #[doc(alias = "task_fork_fair")]
    pub(crate) fn place_new(&self, entities: &mut Entities, task: TaskIndex, parent: i64) {
        let weight = entities[task].weight;
        let debit = weight.fair(self.slice_ns(entities, weight, false));
        entities[task].v = parent.max(self.min_v + debit);
    }

    /// A woken task's start: its own virtual runtime, but at most half a latency before the queue.
    ///
    /// Linux: up to 6.5.
    #[doc(alias = "place_entity")]
    pub(crate) fn place_woken(&self, entities: &mut Entities, task: TaskIndex) {
        let credit = (self.params.latency_ns / 2) as i64;
        entities[task].v = entities[task].v.max(self.min_v - credit);
    }

    /// A placed task waits from now on, and may preempt.
    ///
    /// Linux: up to 6.5.
    #[doc(alias = "enqueue_task_fair")]
    #[doc(alias = "check_preempt_wakeup")]
    pub(crate) fn enqueue(&mut self, entities: &mut Entities, task: TaskIndex) {
        self.members.enter(entities, task, Standing::Waiting);
        let Some(current) = self.members.current else { return };
        let granularity = entities[task].weight.fair(self.params.wakeup_granularity_ns);
        if self.needs_resched || entities[current].v - entities[task].v <= granularity {
            return;
        }
        self.needs_resched = true;
        self.next = Some(task);
        if self.members.nr() >= NR_LATENCY {
            self.last = Some(current);
        }
    }

    /// A timer tick: marks a running task whose slice is over.
    #[doc(alias = "task_tick_fair")]
    #[doc(alias = "check_preempt_tick")]
    pub(crate) fn tick(&mut self, entities: &mut Entities, now_ns: u64) {
        self.update(entities, now_ns);
        let (Some(current), Some(first)) = (self.members.current, self.first(entities, None))
        else {
            return;
        };
        let running = entities[current];
        let slice_ns = self.slice_ns(entities, running.weight, true);
        if running.ran_ns > slice_ns {
            self.needs_resched = true;
            self.clear_marks(current);
        } else if running.ran_ns >= self.params.min_granularity_ns
            && running.v - entities[first].v > slice_ns as i64
        {
            self.needs_resched = true;
        }
    }

    /// The task whose turn it is. The current task takes part if it still runs.
    #[doc(alias = "pick_next_entity")]
    pub(crate) fn pick(&mut self, entities: &mut Entities, now_ns: u64) -> Option<TaskIndex> {
        self.update(entities, now_ns);
        let current = self.members.current;
        // The running task goes before the first one that waits only if it is strictly behind it.
        let before = |waiting: Option<TaskIndex>| match (waiting, current) {
            (Some(waiting), Some(current)) if entities[current].v < entities[waiting].v => {
                Some(current)
            }
            (waiting, current) => waiting.or(current),
        };
        let first = self.first(entities, None);
        let left = before(first)?;
        let granularity = entities[left].weight.fair(self.params.wakeup_granularity_ns);
        let is_near = |task: &TaskIndex| entities[*task].v - entities[left].v <= granularity;
        let second = || match current == Some(left) {
            true => first,
            false => before(self.first(entities, Some(left))),
        };
        let skipped = if self.skip == Some(left) { second().filter(is_near) } else { None };
        let buddy = self.next.filter(is_near).or(self.last.filter(is_near));
        Some(buddy.or(skipped).unwrap_or(left))
    }

    /// The picked task has the CPU from now on. Nothing changes for one that had it.
    ///
    /// Linux: up to 6.5.
    #[doc(alias = "set_next_entity")]
    pub(crate) fn start(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        self.needs_resched = false;
        if self.members.current != Some(task) {
            self.clear_marks(task);
            self.members.run(entities, task, now_ns);
        }
    }

    /// The running task sleeps or ends, and leaves the queue.
    #[doc(alias = "dequeue_task_fair")]
    pub(crate) fn block(&mut self, entities: &mut Entities, now_ns: u64) {
        self.update(entities, now_ns);
        if let Some(task) = self.members.current.take() {
            entities[task].standing = Standing::Away;
            self.clear_marks(task);
            self.follow(entities);
        }
    }

    /// A task that waits leaves for another queue.
    pub(crate) fn remove(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        self.update(entities, now_ns);
        self.members.take(task);
        entities[task].standing = Standing::Away;
        self.clear_marks(task);
        self.follow(entities);
    }

    /// The running task lets others go first. Its virtual runtime stays, so it goes on at once if
    /// the others are further ahead than the wake-up granularity.
    ///
    /// Linux: up to 6.5.
    #[doc(alias = "yield_task_fair")]
    pub(crate) fn yield_now(&mut self, entities: &mut Entities, now_ns: u64) {
        if let Some(task) = self.members.current
            && !self.members.waiting.is_empty()
        {
            self.clear_marks(task);
            self.update(entities, now_ns);
            self.skip = Some(task);
            self.needs_resched = true;
        }
    }

    /// The first of the waiting tasks other than `without`.
    fn first(&self, entities: &Entities, without: Option<TaskIndex>) -> Option<TaskIndex> {
        let waiting = self.members.waiting.iter().copied().filter(|&task| Some(task) != without);
        waiting.min_by_key(|&task| (entities[task].v, entities[task].entered))
    }

    /// Takes the marks next, last and skip off a task.
    #[doc(alias = "clear_buddies")]
    fn clear_marks(&mut self, task: TaskIndex) {
        for mark in [&mut self.next, &mut self.last, &mut self.skip] {
            mark.take_if(|marked| *marked == task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{CpuId, Nice};

    /// Slices on 4 CPUs of tasks with these nice values.
    fn slices(nice: &[i8], params: CfsParams) -> Vec<u64> {
        let (mut cfs, mut entities) = (Cfs::new(params), Entities::default());
        let tasks: Vec<TaskIndex> = (0..nice.len() as u32).map(TaskIndex).collect();
        for (&task, &nice) in tasks.iter().zip(nice) {
            entities.begin(task, Nice::new(nice).expect("nice"), CpuId(0));
            cfs.enqueue(&mut entities, task);
        }
        let slice = |&task: &TaskIndex| cfs.slice_ns(&entities, entities[task].weight, true);
        tasks.iter().map(slice).collect()
    }

    #[test]
    fn slices_of_a_period() {
        let new = CfsParams::new(4);
        let old = new.without_least_slice();
        assert_eq!(slices(&[0, 0], new), [8_999_995, 8_999_995]);
        assert_eq!(slices(&[0, 5], new), [13_562_913, 4_437_086]);
        assert_eq!(slices(&[0, 19], new), [17_740_134, 2_250_000]);
        assert_eq!(slices(&[0, 19], old), [17_740_134, 259_865]);
        assert_eq!(slices(&[0, 5, 10], new), [12_547_309, 4_104_832, 2_250_000]);
        assert_eq!(slices(&[0, 5, 10], old), [12_547_309, 4_104_832, 1_347_855]);
        assert_eq!(slices(&[0; 9], new), [2_250_000; 9]);
        assert_eq!(slices(&[0; 9], old), [2_249_996; 9]);
    }

    #[test]
    fn parameters_by_cpus() {
        let of = |nr_cpus| {
            let params = CfsParams::new(nr_cpus);
            let us = |ns: u64| ns / 1000;
            (us(params.latency_ns), us(params.min_granularity_ns), us(params.wakeup_granularity_ns))
        };
        assert_eq!(of(1), (6_000, 750, 1_000));
        assert_eq!(of(2), (12_000, 1_500, 2_000));
        assert_eq!(of(4), (18_000, 2_250, 3_000));
        assert_eq!(of(48), (24_000, 3_000, 4_000));
    }
}
