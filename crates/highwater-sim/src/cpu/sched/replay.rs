//! Replays task programs on one run queue, to the nanosecond, where nothing costs time
//! (rules/scheduler#vectors). Tests only.

use super::entity::{Entities, Standing};
use super::run_queue::RunQueue;
use crate::cpu::{CpuId, Nice};
use crate::engine::clock::NS_PER_JIFFY;
use crate::engine::task::TaskIndex;

/// A step of a program.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Computes, in ns.
    Run(u64),
    /// Sleeps, in ns.
    Sleep(u64),
    /// Sleeps until a time.
    Until(u64),
    /// Lets others go first.
    Yield,
    /// Starts the program of that number.
    Fork(usize),
    /// Goes back to the step of that number.
    Loop(usize),
}

/// Computes for ever.
pub(super) const HOG: Step = Step::Run(u64::MAX / 2);

/// Milliseconds.
pub(super) fn ms(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// A task's program.
#[derive(Clone)]
pub(super) struct Program {
    /// Its name.
    pub(super) name: char,
    /// Its nice value.
    pub(super) nice: i8,
    /// Time at which it becomes runnable; `None`: a task forks it.
    pub(super) from_ns: Option<u64>,
    /// Its steps; it ends after the last one.
    pub(super) steps: Vec<Step>,
}

/// A program that begins at a time.
pub(super) fn program(name: char, nice: i8, from_ms: f64, steps: &[Step]) -> Program {
    Program { name, nice, from_ns: Some(ms(from_ms)), steps: steps.to_vec() }
}

struct Task {
    program: Program,
    at: usize,
    /// Time that is left of its step.
    left_ns: u64,
    wakes_at_ns: Option<u64>,
    woken_at_ns: Option<u64>,
    has_begun: bool,
}

/// One CPU with its tasks.
pub(super) struct Replay {
    pub(super) queue: RunQueue,
    pub(super) entities: Entities,
    tasks: Vec<Task>,
    now_ns: u64,
    /// Name and end of each piece of run time.
    pieces: Vec<(char, u64)>,
    /// Of each wake-up, and of each begin: the time until the task ran.
    pub(super) late_ns: Vec<(char, u64)>,
}

impl Replay {
    pub(super) fn new(queue: RunQueue, programs: &[Program]) -> Replay {
        let mut entities = Entities::default();
        let mut tasks = Vec::new();
        for (at, program) in programs.iter().enumerate() {
            let nice = Nice::new(program.nice).expect("nice");
            entities.begin(TaskIndex(at as u32), nice, CpuId(0));
            tasks.push(Task {
                program: program.clone(),
                at: 0,
                left_ns: 0,
                wakes_at_ns: program.from_ns,
                woken_at_ns: None,
                has_begun: false,
            });
        }
        let (pieces, late_ns) = (Vec::new(), Vec::new());
        Replay { queue, entities, tasks, now_ns: 0, pieces, late_ns }
    }

    /// Runs up to a time and returns the pieces as text: "A 12 B 24" for A until 12 ms, B until 24.
    pub(super) fn run(&mut self, end_ns: u64) -> String {
        self.wake_due();
        self.reschedule();
        while self.now_ns < end_ns {
            let next_ns = self.next_event_ns().min(end_ns);
            let ran_ns = next_ns - self.now_ns;
            self.now_ns = next_ns;
            if let Some(task) = self.queue.current() {
                self.tasks[task.idx()].left_ns -= ran_ns;
                if self.now_ns.is_multiple_of(NS_PER_JIFFY) {
                    self.queue.tick(&mut self.entities, self.now_ns);
                }
            }
            self.wake_due();
            self.reschedule();
        }
        self.piece_ends();
        let piece = |(name, end_ns): &(char, u64)| format!("{name} {}", *end_ns as f64 / 1e6);
        self.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    fn next_event_ns(&self) -> u64 {
        let wakes = self.tasks.iter().filter_map(|task| task.wakes_at_ns);
        let of_current = self.queue.current().map(|task| {
            let tick_ns = (self.now_ns / NS_PER_JIFFY + 1) * NS_PER_JIFFY;
            tick_ns.min(self.now_ns + self.tasks[task.idx()].left_ns)
        });
        wakes.chain(of_current).min().unwrap_or(u64::MAX)
    }

    fn wake_due(&mut self) {
        for at in 0..self.tasks.len() {
            if self.tasks[at].wakes_at_ns.take_if(|time| *time <= self.now_ns).is_some() {
                self.wake(at);
            }
        }
    }

    fn wake(&mut self, at: usize) {
        let (task, now_ns) = (TaskIndex(at as u32), self.now_ns);
        self.tasks[at].woken_at_ns = Some(now_ns);
        if std::mem::replace(&mut self.tasks[at].has_begun, true) {
            return self.queue.wake(&mut self.entities, task, now_ns);
        }
        let is_fork = self.tasks[at].program.from_ns.is_none();
        self.queue.update(&mut self.entities, now_ns);
        match &mut self.queue {
            // Programs of the vectors begin without a debit.
            RunQueue::Cfs(queue) if !is_fork => {
                self.entities[task].v = queue.min_v;
                queue.enqueue(&mut self.entities, task);
            }
            queue => {
                let parent_v = queue.current().map(|parent| self.entities[parent].v);
                queue.begin(&mut self.entities, task, parent_v.filter(|_| is_fork), now_ns);
            }
        }
    }

    /// Switches if the running task must leave, and ends its step if that is over. A task that must
    /// leave at the end of its step does so first, and takes the next step at its next turn.
    fn reschedule(&mut self) {
        let mut running = self.queue.current();
        loop {
            if let Some(task) = self.queue.current()
                && !self.queue.needs_resched()
            {
                running = Some(task);
                self.begin_steps(task);
                if self.queue.current().is_some() && !self.queue.needs_resched() {
                    return;
                }
            }
            let next = self.queue.pick(&mut self.entities, self.now_ns);
            if next != running {
                self.piece_of(running);
            }
            let Some(next) = next else { return };
            self.queue.start(&mut self.entities, next, self.now_ns);
            if let Some(woken_at_ns) = self.tasks[next.idx()].woken_at_ns.take() {
                self.late_ns.push((self.tasks[next.idx()].program.name, self.now_ns - woken_at_ns));
            }
        }
    }

    /// Takes steps of the running task until one takes time.
    fn begin_steps(&mut self, index: TaskIndex) {
        while self.tasks[index.idx()].left_ns == 0 {
            let now_ns = self.now_ns;
            let task = &mut self.tasks[index.idx()];
            let Some(&step) = task.program.steps.get(task.at) else {
                return self.queue.end(&mut self.entities, now_ns);
            };
            task.at += 1;
            match step {
                Step::Run(ns) => task.left_ns = ns,
                Step::Loop(to) => task.at = to,
                Step::Fork(child) => self.wake(child),
                Step::Yield => return self.queue.yield_now(&mut self.entities, now_ns),
                Step::Sleep(ns) => {
                    task.wakes_at_ns = Some(now_ns + ns);
                    return self.queue.block(&mut self.entities, now_ns);
                }
                Step::Until(at_ns) => {
                    task.wakes_at_ns = Some(at_ns);
                    return self.queue.block(&mut self.entities, now_ns);
                }
            }
        }
    }

    fn piece_of(&mut self, running: Option<TaskIndex>) {
        let Some(task) = running else { return };
        let begun_ns = self.pieces.last().map_or(0, |&(_, end_ns)| end_ns);
        if self.now_ns > begun_ns {
            self.pieces.push((self.tasks[task.idx()].program.name, self.now_ns));
        }
    }

    fn piece_ends(&mut self) {
        self.queue.update(&mut self.entities, self.now_ns);
        self.piece_of(self.queue.current());
    }

    /// Virtual runtime of a program's task.
    pub(super) fn v(&self, name: char) -> i64 {
        self.entities[self.index(name)].v
    }

    /// Run time of each program in ms, in pieces so far.
    pub(super) fn run_ms(&self, name: char) -> f64 {
        let begun = std::iter::once(0).chain(self.pieces.iter().map(|&(_, end_ns)| end_ns));
        let of_name = self.pieces.iter().zip(begun).filter(|((of, _), _)| *of == name);
        of_name.map(|(&(_, end_ns), begun_ns)| (end_ns - begun_ns) as f64 / 1e6).sum()
    }

    /// True if the program's task sleeps but is still a member of the queue.
    pub(super) fn is_delayed(&self, name: char) -> bool {
        self.entities[self.index(name)].standing == Standing::Delayed
    }

    /// The lag with which a program's task left.
    pub(super) fn lag(&self, name: char) -> i64 {
        self.entities[self.index(name)].lag
    }

    fn index(&self, name: char) -> TaskIndex {
        let at = self.tasks.iter().position(|task| task.program.name == name);
        TaskIndex(at.expect("a program of this name") as u32)
    }
}
