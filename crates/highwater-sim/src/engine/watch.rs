//! Detection of runs that go on for ever: no program makes progress although daemons keep waking,
//! or events happen without time passing.
//!
//! The check is rare ([`Watch::is_due`] is two comparisons per event). A run without any event left
//! is a deadlock and needs no watch. The watch also reports the virtual time that passed for
//! progress displays, and calls the sampler at its times.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_core::units::GroupId;

use super::error::StuckTask;
use super::state::State;
use super::task::{Placement, Role, TaskId, TaskIndex, TaskState, TaskTimes, WaitOn};
use crate::cpu::CpuId;
use crate::ledger::{GroupNames, NodeKey};
use crate::pressure::Reading;

/// Virtual time for which no program may make progress while none of them waits for a time. Several
/// times the limit that the kernel allows one task (`hung_task_timeout_secs`, 120 s).
const HUNG_AFTER_NS: u64 = 600_000_000_000;
/// Events at one time that count as a livelock.
const EVENTS_AT_ONCE_MAX: u64 = 1 << 24;

/// Events between two progress reports: a few milliseconds of real time.
const EVENTS_TO_TELL: u64 = 1 << 15;
/// Virtual time between two progress reports, at most: tasks that only touch mapped memory cause
/// few events.
const NS_TO_TELL: u64 = 1_000_000;

/// The result of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No program got further since this time.
    Hung { since_ns: u64 },
    /// At least this many events happened at the same time.
    Livelock { nr_events: u64 },
    /// The watcher of the progress wants no more.
    Stopped,
}

/// Progress of one simulation or of several, updated once in a few thousand events.
#[derive(Debug, Default)]
pub struct Passed {
    /// Virtual time.
    pub ns: AtomicU64,
    /// Events.
    pub events: AtomicU64,
    /// Set it, and every simulation that adds to these sums ends at its next report, a few
    /// milliseconds later, with [`RunError::Stopped`](super::RunError::Stopped).
    pub stop: AtomicBool,
}

/// The callback of a sampler.
pub(crate) type SamplerCall = Box<dyn FnMut(u64, &Look<'_>)>;

/// The state that a sampler may read: tasks and pressure.
pub struct Look<'a> {
    state: &'a State,
}

/// The state of a task, as `/proc` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It has a CPU or waits for one.
    Running,
    /// It sleeps for a time; or it is a daemon at rest.
    Sleeping,
    /// It waits for memory, a device or a lock.
    Uninterruptible,
}

/// The current activity of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its name for ever.
    pub id: TaskId,
    /// Its state, as `/proc` has it.
    pub state: RunState,
    /// The CPU where it runs or ran last.
    pub last_cpu: CpuId,
    /// CPU time so far, without the part that it runs now.
    pub times: TaskTimes,
    /// Its name.
    pub name: Rc<str>,
    /// A kernel thread or a device: it lives as long as the run.
    pub is_daemon: bool,
    /// It runs in interrupts: Linux has no task for it.
    pub is_interrupt: bool,
    /// Its CPU; `None` if it waits or runs in interrupts.
    pub cpu: Option<CpuId>,
    /// Its operations, outermost first, with the wait at the end; empty if no ledger is open.
    pub doing: Vec<NodeKey>,
    /// The event it waits for, in words.
    pub waits_on: String,
}

impl<'a> Look<'a> {
    pub(super) fn of(state: &'a State) -> Look<'a> {
        Look { state }
    }

    /// Content of `/proc/pressure` at a time.
    pub fn pressure(&self, at_ns: u64) -> Reading {
        self.state.pressure_at(at_ns)
    }

    /// Content of a memory cgroup's pressure files at a time, as [`Sim::group_pressure`].
    ///
    /// [`Sim::group_pressure`]: crate::engine::Sim::group_pressure
    pub fn group_pressure(&self, group: GroupId, at_ns: u64) -> Option<Reading> {
        self.state.pressure.as_ref()?.read_group(group, at_ns)
    }

    /// Names of the groups in [`TaskView::doing`].
    pub fn group_names(&self) -> &GroupNames {
        &self.state.group_names
    }

    /// Every task that has not ended.
    pub fn tasks(&self) -> Vec<TaskView> {
        let state = self.state;
        let live = state.tasks.live();
        let view = |(index, stuck): (TaskIndex, StuckTask)| {
            let task = &state.tasks[index];
            let has_cpu =
                matches!(task.state, TaskState::Running | TaskState::Ready | TaskState::Spinning)
                    && !matches!(task.placement, Placement::Interrupt(_));
            let run_state = match task.state {
                state if state.is_awake() => RunState::Running,
                TaskState::Sleeping => RunState::Sleeping,
                _ if stuck.daemon => RunState::Sleeping,
                _ => RunState::Uninterruptible,
            };
            TaskView {
                id: self.state.tasks.id_of(index),
                state: run_state,
                last_cpu: task.cpu,
                times: task.times,
                name: Rc::clone(&state.tasks.info(index).name),
                is_daemon: stuck.daemon,
                is_interrupt: matches!(task.placement, Placement::Interrupt(_)),
                cpu: has_cpu.then_some(task.cpu),
                doing: state.book.as_ref().map_or_else(Vec::new, |book| book.doing_now(index)),
                waits_on: stuck.waits_on,
            }
        };
        live.zip(state.stuck_tasks()).map(view).collect()
    }
}

/// A callback for each step of virtual time.
pub(crate) struct Sampler {
    every_ns: u64,
    next_ns: u64,
    call: SamplerCall,
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("every_ns", &self.every_ns).finish_non_exhaustive()
    }
}

fn next_sample_ns(samplers: &[Sampler]) -> Option<u64> {
    samplers.iter().map(|sampler| sampler.next_ns).min()
}

/// Times of the next checks and the state seen at the last ones.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The earliest of the next three, and of `tell_at_ns`.
    due_at_ns: u64,
    look_at_ns: u64,
    collect_at_ns: u64,
    /// In the order in which they were added.
    samplers: Vec<Sampler>,
    /// The earlier of the two below.
    due_at_event: u64,
    look_at_event: u64,
    tell_at_event: u64,
    tell_at_ns: u64,
    /// The sums to add to, and the time and events that were added last.
    told: Option<(Arc<Passed>, [u64; 2])>,
    looked_ns: u64,
    /// Time and programs at the last look at programs.
    looked_at_programs_ns: u64,
    programs: Progress,
    pub(crate) finding: Option<Finding>,
}

/// Progress of the programs: changes whenever one of them runs or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Progress {
    ran_ns: u64,
    nr_programs: usize,
    /// At least one program can go on by itself.
    any_goes_on: bool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch {
            due_at_ns: HUNG_AFTER_NS,
            look_at_ns: HUNG_AFTER_NS,
            collect_at_ns: u64::MAX,
            samplers: Vec::new(),
            due_at_event: EVENTS_AT_ONCE_MAX,
            look_at_event: EVENTS_AT_ONCE_MAX,
            tell_at_event: u64::MAX,
            tell_at_ns: u64::MAX,
            told: None,
            looked_ns: 0,
            looked_at_programs_ns: 0,
            programs: Progress::default(),
            finding: None,
        }
    }

    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64, nr_events: u64) -> bool {
        now_ns >= self.due_at_ns || nr_events >= self.due_at_event
    }

    /// Adds time and events to sums from now on.
    pub(super) fn tell(&mut self, sums: Arc<Passed>, now_ns: u64, nr_events: u64) {
        self.told = Some((sums, [now_ns, nr_events]));
        self.tell_at_event = 0;
        self.due_at_event = 0;
        self.tell_at_ns = now_ns;
        self.set_due();
    }

    /// Stops adding to sums.
    pub(super) fn tell_nobody(&mut self) {
        self.told = None;
        self.tell_at_event = u64::MAX;
        self.tell_at_ns = u64::MAX;
        self.due_at_event = self.look_at_event;
        self.set_due();
    }

    /// Calls `call` at each multiple of `every_ns` after now, too; 0 stops all sampling.
    pub(super) fn sample(&mut self, every_ns: u64, now_ns: u64, call: SamplerCall) {
        let next_ns = (now_ns / every_ns.max(1) + 1).saturating_mul(every_ns);
        match every_ns {
            0 => self.samplers.clear(),
            _ => self.samplers.push(Sampler { every_ns, next_ns, call }),
        }
        self.set_due();
    }

    /// Collects pressure from now on, first at `at_ns`.
    pub(crate) fn collect_pressure_at(&mut self, at_ns: u64) {
        self.collect_at_ns = at_ns;
        self.set_due();
    }

    fn set_due(&mut self) {
        let sample_at_ns = next_sample_ns(&self.samplers).unwrap_or(u64::MAX);
        let kernel_at_ns = self.look_at_ns.min(self.collect_at_ns);
        self.due_at_ns = kernel_at_ns.min(sample_at_ns).min(self.tell_at_ns);
    }
}

impl State {
    /// Takes the samples of all times up to that of the next event, which has not happened yet.
    fn take_samples(&mut self, now_ns: u64) {
        let mut samplers = std::mem::take(&mut self.watch.samplers);
        while let Some(at_ns) = next_sample_ns(&samplers).filter(|&at_ns| at_ns <= now_ns) {
            for sampler in samplers.iter_mut().filter(|sampler| sampler.next_ns == at_ns) {
                (sampler.call)(at_ns, &Look { state: self });
                sampler.next_ns = at_ns.saturating_add(sampler.every_ns);
            }
        }
        self.watch.samplers = samplers;
    }

    /// Runs the checks; true if the run must stop.
    #[cold]
    #[inline(never)]
    pub(crate) fn watch(&mut self, now_ns: u64) -> bool {
        self.take_samples(now_ns);
        if now_ns >= self.watch.collect_at_ns {
            self.watch.collect_at_ns = self.collect_pressure(now_ns);
        }
        if self.nr_events >= self.watch.tell_at_event || now_ns >= self.watch.tell_at_ns {
            if let Some((sums, [told_ns, told_events])) = &mut self.watch.told {
                sums.ns.fetch_add(now_ns.saturating_sub(*told_ns), Ordering::Relaxed);
                sums.events.fetch_add(self.nr_events - *told_events, Ordering::Relaxed);
                (*told_ns, *told_events) = (now_ns, self.nr_events);
                if sums.stop.load(Ordering::Relaxed) {
                    self.watch.finding = Some(Finding::Stopped);
                }
            }
            self.watch.tell_at_event = self.nr_events + EVENTS_TO_TELL;
            if self.watch.told.is_some() {
                self.watch.tell_at_ns = now_ns.saturating_add(NS_TO_TELL);
            }
        }
        if self.nr_events >= self.watch.look_at_event {
            if now_ns == self.watch.looked_ns {
                let finding = Finding::Livelock { nr_events: EVENTS_AT_ONCE_MAX };
                self.watch.finding = Some(finding);
            }
            self.watch.look_at_event = self.nr_events + EVENTS_AT_ONCE_MAX;
            self.watch.looked_ns = now_ns;
        }
        self.watch.due_at_event = self.watch.look_at_event.min(self.watch.tell_at_event);
        if now_ns >= self.watch.look_at_ns {
            let programs = self.progress();
            if !programs.any_goes_on && programs == self.watch.programs {
                let since_ns = self.watch.looked_at_programs_ns;
                self.watch.finding = Some(Finding::Hung { since_ns });
            }
            self.watch.programs = programs;
            self.watch.looked_at_programs_ns = now_ns;
            self.watch.look_at_ns = now_ns.saturating_add(HUNG_AFTER_NS);
        }
        self.watch.set_due();
        self.watch.finding.is_some()
    }

    fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for index in self.tasks.live() {
            if self.tasks.info(index).role != Role::Foreground {
                continue;
            }
            let task = &self.tasks[index];
            progress.ran_ns += task.times.user_ns + task.times.system_ns;
            progress.nr_programs += 1;
            progress.any_goes_on |= matches!(
                task.state,
                TaskState::Running | TaskState::Ready | TaskState::Timed | TaskState::Sleeping
            );
        }
        progress
    }

    /// True if a task has a CPU or waits for one.
    pub(crate) fn has_awake_task(&self) -> bool {
        self.tasks.live().any(|index| self.tasks[index].state.is_awake())
    }

    /// Every task that has not ended, and the event it waits for.
    pub(crate) fn stuck_tasks(&self) -> Vec<StuckTask> {
        let name_of = |index| self.tasks.info(index).name.to_string();
        let describe = |index| {
            let info = self.tasks.info(index);
            let waits_on = match (&info.wait_on, self.tasks[index].state) {
                (WaitOn::Reason(why), _) => (*why).to_owned(),
                (WaitOn::Lock(class, holder), _) if self.tasks.is_live(*holder) => {
                    format!("lock {class} held by {}", name_of(*holder))
                }
                (WaitOn::Lock(class, _), _) => format!("lock {class}"),
                (WaitOn::Exit(task), _) => format!("the end of {}", name_of(*task)),
                (WaitOn::Nothing, TaskState::Queued) => "a CPU".to_owned(),
                (WaitOn::Nothing, TaskState::Sleeping) => "a time".to_owned(),
                (WaitOn::Nothing, TaskState::Running | TaskState::Ready) => {
                    "nothing: it runs".to_owned()
                }
                (WaitOn::Nothing, _) => "nothing that was named".to_owned(),
            };
            let daemon = info.role == Role::Daemon;
            StuckTask { name: info.name.to_string(), daemon, waits_on }
        };
        self.tasks.live().map(describe).collect()
    }
}
