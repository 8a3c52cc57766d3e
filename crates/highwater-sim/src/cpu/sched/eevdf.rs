//! The run queue of one CPU under EEVDF, as in 6.12 (rules/scheduler#eevdf).
//!
//! A task is eligible while it has not got more than its share. Of the eligible tasks the one with
//! the earliest deadline runs, until it has used up its request (the base slice). [`Eevdf`] only
//! keeps account, as [`Cfs`](super::cfs::Cfs) does.
//!
//! ```text
//!               place at V - lag              pick
//!   woken task ------------------> waiting ---------> current -- block, eligible --> away, keeps lag
//!       ^                             ^                 | |
//!       |                             '-- tick, yield --' '-- block, not eligible
//!       '----------- delayed: competes, until it is picked, or woken <----'
//! ```

use super::entity::{Entities, Members, Standing};
use super::weights::factor;
use crate::engine::clock::NS_PER_JIFFY;
use crate::engine::task::TaskIndex;

/// A run queue.
pub(crate) struct Eevdf {
    /// The request of every task.
    #[doc(alias = "sysctl_sched_base_slice")]
    slice_ns: u64,
    pub(super) members: Members,
    /// Virtual time of the queue while it is empty.
    pub(super) min_v: i64,
    pub(super) needs_resched: bool,
    /// Members whose tasks sleep.
    nr_delayed: usize,
}

/// The sums that the average of virtual runtimes is made of.
#[derive(Clone, Copy)]
struct Average {
    weight: i128,
    weighted_v: i128,
}

impl Average {
    /// The virtual time at which no task has lag, rounded down; `None` without tasks.
    #[doc(alias = "avg_vruntime")]
    fn v(self) -> Option<i64> {
        (self.weight != 0).then(|| self.weighted_v.div_euclid(self.weight) as i64)
    }

    /// True if a task with this virtual runtime has not got more than its share.
    #[doc(alias = "entity_eligible")]
    fn allows(self, v: i64) -> bool {
        self.weighted_v - self.weight * i128::from(v) >= 0
    }
}

impl Eevdf {
    /// A queue of a machine with `nr_cpus` CPUs.
    pub(crate) fn new(nr_cpus: usize) -> Eevdf {
        Eevdf {
            slice_ns: 700_000 * factor(nr_cpus),
            members: Members::default(),
            min_v: 0,
            needs_resched: false,
            nr_delayed: 0,
        }
    }

    /// Members whose tasks are asleep.
    pub(crate) fn nr_delayed(&self) -> usize {
        self.nr_delayed
    }

    /// Accounts the running task's time. It must leave the CPU if its request is used up, or if it
    /// is neither protected nor eligible.
    ///
    /// Linux: 6.6 and later.
    #[doc(alias = "update_curr")]
    #[doc(alias = "update_deadline")]
    pub(crate) fn update(&mut self, entities: &mut Entities, now_ns: u64) {
        let Some(task) = self.members.account(entities, now_ns) else { return };
        let entity = &mut entities[task];
        let is_used_up = entity.v >= entity.deadline;
        if is_used_up {
            entity.deadline = entity.v + entity.weight.fair(self.slice_ns);
        }
        self.follow(entities);
        let gives_way = || !self.is_protected(entities, task) && !self.is_eligible(entities, task);
        if self.members.nr() > 1 && (is_used_up || gives_way()) {
            self.needs_resched = true;
        }
    }

    fn follow(&mut self, entities: &Entities) {
        if let Some(least) = self.members.all().map(|task| entities[task].v).min() {
            self.min_v = self.min_v.max(least);
        }
    }

    fn average(&self, entities: &Entities) -> Average {
        let mut average = Average { weight: 0, weighted_v: 0 };
        for task in self.members.all() {
            let weight = i128::from(entities[task].weight.get());
            average.weight += weight;
            average.weighted_v += weight * i128::from(entities[task].v);
        }
        average
    }

    fn is_eligible(&self, entities: &Entities, task: TaskIndex) -> bool {
        self.average(entities).allows(entities[task].v)
    }

    /// True while the running task still has the request with which it was picked.
    fn is_protected(&self, entities: &Entities, task: TaskIndex) -> bool {
        entities[task].protected == entities[task].deadline
    }

    /// The lag of a member, within its limit.
    #[doc(alias = "update_entity_lag")]
    fn lag(&self, entities: &Entities, task: TaskIndex) -> i64 {
        let entity = &entities[task];
        let limit = entity.weight.fair((2 * self.slice_ns).max(NS_PER_JIFFY));
        let v = self.average(entities).v().unwrap_or(self.min_v);
        (v - entity.v).clamp(-limit, limit)
    }

    /// Gives a task that is no member its virtual runtime, so that it has the lag that it left with.
    /// `request` is the virtual time to its deadline.
    ///
    /// Linux: 6.6 and later.
    #[doc(alias = "place_entity")]
    fn place(&self, entities: &mut Entities, task: TaskIndex, request: i64) {
        let average = self.average(entities);
        let entity = &mut entities[task];
        entity.v = match average.v() {
            None => self.min_v,
            Some(v) => {
                // Joining moves the average towards the task, so the lag is stretched first.
                let weight = i128::from(entity.weight.get());
                let lag = i128::from(entity.lag) * (average.weight + weight) / average.weight;
                v - lag as i64
            }
        };
        entity.deadline = entity.v + request;
    }

    /// A new task's start: no lag, and a first request of half a slice.
    pub(crate) fn place_new(&self, entities: &mut Entities, task: TaskIndex) {
        entities[task].lag = 0;
        let request = entities[task].weight.fair(self.slice_ns) / 2;
        self.place(entities, task, request);
    }

    /// A woken task's start: the lag that it slept with.
    pub(crate) fn place_woken(&self, entities: &mut Entities, task: TaskIndex) {
        let request = entities[task].weight.fair(self.slice_ns);
        self.place(entities, task, request);
    }

    /// The start of a task that waited in another queue: its lag and its request go with it.
    pub(crate) fn place_moved(&self, entities: &mut Entities, task: TaskIndex) {
        let request = entities[task].deadline - entities[task].v;
        self.place(entities, task, request);
    }

    /// A placed task waits from now on, and may preempt.
    ///
    /// Linux: 6.6 and later.
    #[doc(alias = "enqueue_task_fair")]
    pub(crate) fn enqueue(&mut self, entities: &mut Entities, task: TaskIndex) {
        self.members.enter(entities, task, Standing::Waiting);
        self.may_preempt(entities, task);
    }

    /// Marks the running task if a pick would choose this one.
    #[doc(alias = "check_preempt_wakeup_fair")]
    fn may_preempt(&mut self, entities: &Entities, task: TaskIndex) {
        if self.members.current.is_some() && self.choose(entities) == Some(task) {
            self.needs_resched = true;
        }
    }

    /// The task of a delayed member wakes. The member stays; lag that it gained meanwhile is
    /// dropped.
    #[doc(alias = "requeue_delayed_entity")]
    pub(crate) fn wake_delayed(&mut self, entities: &mut Entities, task: TaskIndex) {
        self.nr_delayed -= 1;
        entities[task].standing = Standing::Waiting;
        if self.lag(entities, task) > 0 {
            self.members.take(task);
            entities[task].lag = 0;
            self.place_woken(entities, task);
            self.members.enter(entities, task, Standing::Waiting);
        }
        self.may_preempt(entities, task);
    }

    /// A timer tick: accounts the running task's time.
    #[doc(alias = "entity_tick")]
    pub(crate) fn tick(&mut self, entities: &mut Entities, now_ns: u64) {
        self.update(entities, now_ns);
    }

    /// The task whose turn it is. The current task takes part if it still runs. Delayed members
    /// whose turn it would be leave.
    #[doc(alias = "pick_task_fair")]
    pub(crate) fn pick(&mut self, entities: &mut Entities, now_ns: u64) -> Option<TaskIndex> {
        self.update(entities, now_ns);
        loop {
            let task = self.choose(entities)?;
            if entities[task].standing != Standing::Delayed {
                return Some(task);
            }
            entities[task].lag = self.lag(entities, task).min(0);
            self.leave(entities, task);
            self.nr_delayed -= 1;
        }
    }

    /// The eligible member with the earliest deadline, or the protected running one.
    #[doc(alias = "pick_eevdf")]
    fn choose(&self, entities: &Entities) -> Option<TaskIndex> {
        if self.members.nr() == 1 {
            return self.members.all().next();
        }
        let average = self.average(entities);
        let is_eligible = |task: &TaskIndex| average.allows(entities[*task].v);
        let current = self.members.current.filter(is_eligible);
        if let Some(current) = current
            && self.is_protected(entities, current)
        {
            return Some(current);
        }
        let waiting = self.members.waiting.iter().copied().filter(is_eligible);
        let first = waiting.min_by_key(|&task| (entities[task].deadline, entities[task].entered));
        match (first, current) {
            (Some(first), Some(current))
                if entities[current].deadline < entities[first].deadline =>
            {
                Some(current)
            }
            (first, current) => first.or(current),
        }
    }

    /// The picked task has the CPU from now on, protected until its request is used up. Nothing
    /// changes for one that had it.
    ///
    /// Linux: 6.6 and later.
    #[doc(alias = "set_next_entity")]
    pub(crate) fn start(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        self.needs_resched = false;
        if self.members.current != Some(task) {
            entities[task].protected = entities[task].deadline;
            self.members.run(entities, task, now_ns);
        }
    }

    /// The running task sleeps. One that has run more than its share stays and competes.
    #[doc(alias = "dequeue_entity")]
    pub(crate) fn block(&mut self, entities: &mut Entities, now_ns: u64) {
        self.update(entities, now_ns);
        let Some(task) = self.members.current else { return };
        if self.is_eligible(entities, task) {
            self.go(entities, task);
        } else {
            self.members.current = None;
            self.members.enter(entities, task, Standing::Delayed);
            self.nr_delayed += 1;
        }
    }

    /// The running task ends.
    pub(crate) fn end(&mut self, entities: &mut Entities, now_ns: u64) {
        self.update(entities, now_ns);
        if let Some(task) = self.members.current {
            self.go(entities, task);
        }
    }

    /// A task that waits leaves for another queue.
    pub(crate) fn remove(&mut self, entities: &mut Entities, task: TaskIndex, now_ns: u64) {
        self.update(entities, now_ns);
        self.go(entities, task);
    }

    fn go(&mut self, entities: &mut Entities, task: TaskIndex) {
        entities[task].lag = self.lag(entities, task);
        self.leave(entities, task);
    }

    fn leave(&mut self, entities: &mut Entities, task: TaskIndex) {
        self.members.current.take_if(|current| *current == task);
        self.members.take(task);
        entities[task].standing = Standing::Away;
        self.follow(entities);
    }

    /// The running task gives up the rest of its request.
    ///
    /// Linux: 6.6 and later; up to early 6.12 its deadline moves and its virtual runtime does not.
    #[doc(alias = "yield_task_fair")]
    pub(crate) fn yield_now(&mut self, entities: &mut Entities, now_ns: u64) {
        let Some(task) = self.members.current else { return };
        if self.members.nr() == 1 {
            return;
        }
        self.update(entities, now_ns);
        if self.is_eligible(entities, task) {
            let entity = &mut entities[task];
            entity.v = entity.deadline;
            entity.deadline += entity.weight.fair(self.slice_ns);
            self.follow(entities);
        }
        self.needs_resched = true;
    }
}
