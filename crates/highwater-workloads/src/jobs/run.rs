//! Execution of a task.

use std::cell::{Cell, RefCell};
use std::mem::{replace, take};
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Devices, TaskFlags};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::lru::Refaults;
use highwater_core::vm::Mm;

use super::act::{Area, pattern};
use super::files::{Descriptors, Files, Places};
use super::flow::{Flow, Next};
use super::groups::{GONE, Groups, begin};
use super::held::Held;
use super::pick::Picker;
use super::record::Recorded;
use super::request::{Pickers, Steps};
use super::sockets::{Ends, Sockets};
use super::{Action, Often, Pattern, Phase, Task, When};
use crate::process;
use crate::random::Random;

/// Position and reason of a task's early end.
pub struct Failed {
    /// The number of the phase.
    pub phase: usize,
    /// The number of its step, if it is a request.
    pub step: Option<usize>,
    /// The reason.
    pub why: Why,
    /// Its remaining work.
    pub left: Vec<CutShort>,
}

/// Operations of a phase that a task did not reach, because it died.
pub struct CutShort {
    record: usize,
    often: Often,
    flow: Flow,
}

impl CutShort {
    /// The job has ended, or was planned to end: adds the arrivals up to then that stayed
    /// unanswered.
    pub fn tell(mut self, until_ns: u64, records: &mut [Recorded]) {
        let (nr, end_ns) = self.flow.left(self.often, until_ns);
        records[self.record].cut_short(nr, self.flow.begin_ns(), end_ns);
    }
}

/// The reason why a task ended early.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A call failed.
    Call(Error),
    /// The VMA that the phase uses is not mapped.
    NotMapped,
    /// A round of phases took no time, and the number of rounds is not bounded: the job would never
    /// end.
    NoTime,
    /// The machine has its maximum number of tasks: `fork` returns EAGAIN.
    NoTask,
    /// The group in which the task starts was removed before.
    NoGroup,
}

/// The error of `fork` when the limit of tasks is reached (EAGAIN).
pub(super) const NO_TASK: Error = Error::Limit("as many tasks at once");

impl Why {
    /// The same as the error of a call.
    pub const fn error(&self) -> Error {
        match self {
            Why::Call(error) => *error,
            Why::NotMapped => Error::Fault,
            Why::NoTime => Error::Invalid,
            Why::NoTask => NO_TASK,
            Why::NoGroup => GONE,
        }
    }
}

impl From<Error> for Why {
    fn from(error: Error) -> Why {
        Why::Call(error)
    }
}

/// The memory of a forked task, and the group of its parent, in which it is counted already.
pub type Inherited<H> = (Arc<Mm<H>>, Vec<Option<Area>>, Option<usize>);

/// A task beside another one, for one phase that allows several operations at once.
pub struct Helper<H: Devices> {
    phase: usize,
    round: u64,
    /// Of its task; it is counted there already.
    group: Option<usize>,
    mm: Arc<Mm<H>>,
    areas: Vec<Option<Area>>,
    open: Rc<Descriptors<H>>,
    places: Rc<RefCell<Places>>,
    held: Rc<Held>,
    pickers: Steps,
    flow: Rc<RefCell<Flow>>,
}

/// Waits for a helper; returns its records and its result.
pub type Joined = Box<dyn FnOnce() -> (Vec<Recorded>, Result<(), Error>)>;

/// State that the tasks of a job share, and the functions that only a host can provide.
pub struct Ground<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Files, by number.
    pub files: &'a Files<H>,
    /// Memory cgroups, by number.
    pub groups: &'a Groups,
    /// Connections that no task has accepted.
    pub sockets: &'a Sockets<H>,
    /// True if the job has ended.
    pub is_over: &'a dyn Fn() -> bool,
    /// Uses the CPU for a number of nanoseconds.
    pub compute: &'a dyn Fn(&Cx<'_, H>, u64),
    /// Waits until all copies of a task have ended.
    pub wait: &'a dyn Fn(&Cx<'_, H>, usize),
    /// True if one more task is allowed.
    pub may_fork: &'a dyn Fn() -> bool,
    /// Starts a task with this memory.
    pub fork: &'a dyn Fn(usize, Inherited<H>),
    /// Starts a helper of the task.
    pub help: &'a dyn Fn(Helper<H>) -> Joined,
    /// A step is over, or the first one begins.
    pub mark: &'a dyn Fn(&Cx<'_, H>, Option<String>),
    /// Reports that a phase of the task, by number, did something (true) or had no page or block to
    /// work on (false).
    pub did: &'a dyn Fn(usize, bool),
    /// Reports that the task has this address space from now on.
    pub entered: &'a dyn Fn(&Arc<Mm<H>>),
}

/// Runs a copy of a task to its end, in the calling one. The results of its operations are added to
/// `records`.
///
/// # Errors
/// The phase whose call failed; with [`Error::Killed`] if the OOM killer chose the task.
pub fn run<H: Devices>(
    task: &Task,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    inherited: Option<Inherited<H>>,
    seed: u64,
    records: &mut [Recorded],
) -> Result<(), Failed> {
    let failed = |why| Failed { phase: 0, step: None, why, left: Vec::new() };
    let begun = begin(task, ground, cx, inherited);
    let (mm, areas, group) = begun.map_err(|(why, group)| {
        ground.groups.leave(group);
        failed(why)
    })?;
    (ground.entered)(&mm);
    let open = ground.files.opened(ground.kernel, cx);
    let nr_files = open.borrow().len();
    let places =
        Places::new(nr_files, |file| task.phases.iter().any(|phase| looks_behind(phase, file)));
    let flags = cx.flags();
    if task.is_softirq {
        cx.set_flags(flags | TaskFlags::IN_SOFTIRQ);
    }
    let mut running = Running {
        ground,
        cx,
        group,
        mm,
        areas,
        open,
        places: Rc::new(RefCell::new(places)),
        held: Rc::default(),
        ends: Ends::default(),
        pickers: Pickers::new(0, 0),
        records,
        round: 0,
        at: 0,
        left: Vec::new(),
        step: None,
        is_explained: !task.is_softirq,
    };
    let mut random = Random::new(seed);
    let ended = running.rounds(task, &mut random);
    if ended.is_err() {
        running.leave_later_phases(task, &mut random);
    }
    running.held.free_all(ground.kernel, cx);
    running.ends.close_all(ground.kernel, cx);
    cx.set_flags(flags);
    running.leave();
    process::end(ground.kernel, cx, &running.mm);
    ground.groups.leave(running.group);
    ground.files.sweep(ground.kernel, cx);
    ended.map_err(|why| {
        let (phase, step) = (running.at, running.step);
        let why = match why {
            Why::Call(Error::Fault) => running.fault(task),
            Why::Call(NO_TASK) => Why::NoTask,
            why => why,
        };
        Failed { phase, step, why, left: running.left }
    })
}

/// True if a phase gives advice on the part of a file that its task has read or written.
fn looks_behind(phase: &Phase, number: usize) -> bool {
    match &phase.action {
        Action::AdviseFile { file, is_behind, .. } => *is_behind && *file == number,
        Action::Request(steps) => steps.iter().any(|step| looks_behind(step, number)),
        _ => false,
    }
}

/// Runs a helper of a task to its end, in the calling one. The results of its operations are added
/// to `records`.
///
/// # Errors
/// The error of a call.
pub fn help<H: Devices>(
    task: &Task,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    helper: Helper<H>,
    records: &mut [Recorded],
) -> Result<(), Error> {
    let Helper { phase: at, round, group, mm, areas, open, places, held, pickers, flow } = helper;
    mm.add_task(cx);
    // A group with tasks is not removed: this cannot fail.
    let joined = ground.groups.join(ground.kernel, cx, (None, group));
    let mut running = Running {
        ground,
        cx,
        group,
        mm,
        areas,
        open,
        places,
        held,
        // Only the task itself sends and receives.
        ends: Ends::default(),
        pickers,
        records,
        round,
        at,
        left: Vec::new(),
        step: None,
        is_explained: true,
    };
    let ended = joined.and_then(|()| running.share(&task.phases[at], &flow));
    ground.kernel.exit_task(cx);
    running.mm.remove_task(cx);
    ground.groups.leave(running.group);
    ended
}

pub(super) struct Running<'a, 'h, H: Devices> {
    pub(super) ground: &'a Ground<'a, H>,
    pub(super) cx: &'a Cx<'h, H>,
    /// Its memory cgroup; `None`: the root.
    pub(super) group: Option<usize>,
    pub(super) mm: Arc<Mm<H>>,
    pub(super) areas: Vec<Option<Area>>,
    pub(super) open: Rc<Descriptors<H>>,
    pub(super) places: Rc<RefCell<Places>>,
    pub(super) held: Rc<Held>,
    pub(super) ends: Ends<H>,
    /// Pickers of the request that it serves.
    pub(super) pickers: Steps,
    pub(super) records: &'a mut [Recorded],
    /// Current round, from 1.
    pub(super) round: u64,
    /// Current phase.
    pub(super) at: usize,
    /// The remaining work of a task that dies.
    left: Vec<CutShort>,
    /// The current step, if the phase is a request.
    pub(super) step: Option<usize>,
    /// The host is notified of operations. Interrupts have no time of their own to explain.
    is_explained: bool,
}

impl<H: Devices> Running<'_, '_, H> {
    fn rounds(&mut self, task: &Task, random: &mut Random) -> Result<(), Why> {
        while task.rounds.is_none_or(|rounds| self.round < rounds) {
            self.round += 1;
            let begin_ns = self.cx.host.now_ns();
            for (at, phase) in task.phases.iter().enumerate() {
                self.at = at;
                if (self.ground.is_over)() {
                    return Ok(());
                }
                let is_due = self.is_due(task, phase);
                if is_due && phase.action == Action::Exit {
                    return Ok(());
                }
                if is_due {
                    self.phase(phase, random)?;
                }
            }
            // Without a bound on the rounds, rounds that take no time would never end the job.
            if task.rounds.is_none() && self.cx.host.now_ns() == begin_ns {
                return Err(Why::NoTime);
            }
        }
        Ok(())
    }

    /// True if a phase runs in this round.
    fn is_due(&self, task: &Task, phase: &Phase) -> bool {
        match phase.when {
            When::Always => true,
            When::First => self.round == 1,
            When::Last => task.rounds == Some(self.round),
        }
    }

    /// The task died: open loops of this round's later phases had arrivals too. Each phase begins
    /// at the planned end of the one before; a phase without a planned end takes no time.
    fn leave_later_phases(&mut self, task: &Task, random: &mut Random) {
        let mut begin_ns = self.cx.host.now_ns();
        let of_this = &task.phases[self.at];
        match of_this.often {
            Often::Forever => return,
            Often::Nanoseconds(ns) => {
                let began_ns = self.left.last().map_or(begin_ns, |left| left.flow.begin_ns());
                begin_ns = begin_ns.max(began_ns.saturating_add(ns));
            }
            _ => {}
        }
        for phase in &task.phases[self.at + 1..] {
            if !self.is_due(task, phase) {
                continue;
            }
            if phase.action == Action::Exit {
                return;
            }
            let units = self.units(&phase.action);
            if let (Some((record, _)), Some(_)) = (&phase.operation, phase.arrivals)
                && (units.is_some() || !matches!(phase.often, Often::Pass | Often::Passes(_)))
            {
                let pattern = pattern(&phase.action);
                let (nr_units, pass) = units.map_or((1, 1), |n| (n, Picker::round(pattern, n)));
                let picker = Picker::new(pattern, nr_units.max(1), 0);
                let flow =
                    Flow::new(phase, (picker, pass), begin_ns, Random::new(random.below(u64::MAX)));
                self.left.push(CutShort { record: *record, often: phase.often, flow });
            }
            match phase.often {
                Often::Forever => return,
                Often::Nanoseconds(ns) => begin_ns = begin_ns.saturating_add(ns),
                _ => {}
            }
        }
    }

    fn phase(&mut self, phase: &Phase, random: &mut Random) -> Result<(), Error> {
        let pattern = pattern(&phase.action);
        let (nr_units, pass) = match self.units(&phase.action) {
            // A VMA or file without pages has nothing to touch, at any number of repetitions.
            Some(0) if pattern != Pattern::Follow => {
                (self.ground.did)(self.at, false);
                return Ok(());
            }
            // Only a read shows that nothing is new.
            Some(n) => (n.max(1), Picker::round(pattern, n.max(1))),
            None => (1, 1),
        };
        let picker = Picker::new(pattern, nr_units, random.below(u64::MAX));
        if let Action::Request(steps) = &phase.action {
            self.pickers = Pickers::new(steps.len(), random.below(u64::MAX));
        }
        let begin_ns = self.cx.host.now_ns();
        // The flow uses the task's own random numbers while the phase lasts.
        let own = replace(random, Random::new(0));
        let flow = Rc::new(RefCell::new(Flow::new(phase, (picker, pass), begin_ns, own)));
        let mut helpers: Vec<Joined> = Vec::new();
        for _ in 1..phase.depth {
            self.ground.groups.enter(self.group)?;
            helpers.push((self.ground.help)(self.helper(&flow)));
        }
        let mut ended = self.share(phase, &flow);
        for join in helpers {
            let (left, helped) = join();
            self.records.iter_mut().zip(&left).for_each(|(sum, record)| sum.merge(record));
            ended = ended.and(helped);
        }
        *random = flow.borrow_mut().give_back();
        // Helpers have ended: no other task holds the flow.
        if let (Err(_), Some((record, _)), Some(flow)) =
            (&ended, &phase.operation, Rc::into_inner(flow))
        {
            let mut flow = flow.into_inner();
            flow.take_random(Random::new(random.below(u64::MAX)));
            self.left.push(CutShort { record: *record, often: phase.often, flow });
        }
        ended
    }

    fn helper(&self, flow: &Rc<RefCell<Flow>>) -> Helper<H> {
        Helper {
            phase: self.at,
            round: self.round,
            group: self.group,
            mm: Arc::clone(&self.mm),
            areas: self.areas.clone(),
            open: Rc::clone(&self.open),
            places: Rc::clone(&self.places),
            held: Rc::clone(&self.held),
            pickers: Rc::clone(&self.pickers),
            flow: Rc::clone(flow),
        }
    }

    /// The reason for the fault of the current phase.
    fn fault(&self, task: &Task) -> Why {
        let action = match (&task.phases[self.at].action, self.step) {
            (Action::Request(steps), Some(step)) => &steps[step].action,
            (action, _) => action,
        };
        match *action {
            Action::Touch { area, .. }
            | Action::Advise { area, .. }
            | Action::Lock { area }
            | Action::Unlock { area }
                if self.areas[area].is_none() =>
            {
                Why::NotMapped
            }
            _ => Why::Call(Error::Fault),
        }
    }

    /// Closes the task's descriptors.
    fn leave(&mut self) {
        self.open.borrow_mut().fill_with(|| None);
    }

    /// Sleeps, and frees memory whose time comes meanwhile.
    pub(super) fn rest(&self, ns: u64) {
        let host = self.cx.host;
        host.sleep_ns(self.rest_until_last(host.now_ns().saturating_add(ns)).unwrap_or(ns));
    }

    /// Sleeps and frees as long as there is memory to be freed before `end_ns`. If it did so,
    /// returns the time until then.
    fn rest_until_last(&self, end_ns: u64) -> Option<u64> {
        let host = self.cx.host;
        let mut rested = None;
        while let Some(next_ns) = self.held.next_ns().filter(|next_ns| *next_ns < end_ns) {
            host.sleep_ns(next_ns.saturating_sub(host.now_ns()).max(1));
            self.held.free_due(self.ground.kernel, self.cx);
            rested = Some(end_ns.saturating_sub(host.now_ns()));
        }
        rested
    }

    /// As [`Self::operations`]; on a failure, the tasks that share the flow end too.
    fn share(&mut self, phase: &Phase, flow: &RefCell<Flow>) -> Result<(), Error> {
        let ended = self.operations(phase, flow);
        if ended.is_err() {
            flow.borrow_mut().stop();
        }
        ended
    }

    /// Takes operations of a phase until there are no more.
    fn operations(&mut self, phase: &Phase, flow: &RefCell<Flow>) -> Result<(), Error> {
        let host = self.cx.host;
        let mut is_first = true;
        loop {
            let is_done = flow.borrow().is_done(phase.often, || host.now_ns());
            if is_done || (self.ground.is_over)() {
                return Ok(());
            }
            if phase.depth > 1 {
                let due_ns = flow.borrow_mut().due_ns(phase.often).unwrap_or(0);
                let wait_ns = due_ns.saturating_sub(host.now_ns());
                if wait_ns > 0 {
                    self.rest(wait_ns);
                    if self.cx.is_dying() {
                        return Err(Error::Killed);
                    }
                    continue;
                }
            }
            let measured = phase.operation.is_some() && self.is_explained;
            let Some(Next { at, due_ns }) = flow.borrow_mut().next(phase.often) else {
                return Ok(());
            };
            let from_ns = match due_ns {
                None => {
                    if measured {
                        host.op_begin();
                    }
                    host.now_ns()
                }
                Some(due_ns) => {
                    let wait_ns = due_ns.saturating_sub(host.now_ns());
                    let wait_ns = self.rest_until_last(due_ns).unwrap_or(wait_ns);
                    match (wait_ns, measured) {
                        (0, true) => host.op_begin(),
                        (0, false) => {}
                        (_, true) => host.sleep_and_op_begin(wait_ns),
                        (_, false) => host.sleep_ns(wait_ns),
                    }
                    due_ns
                }
            };
            let cx = self.cx;
            let refaulted = || cx.local::<Refaults>().0.each_ref().map(Cell::get);
            let before = refaulted();
            self.held.free_due(self.ground.kernel, cx);
            let counted = self.act(&phase.action, at)?;
            // For requests, the steps report it.
            if take(&mut is_first) && !matches!(phase.action, Action::Request(_)) {
                (self.ground.did)(self.at, true);
            }
            if let Some((record, name)) = &phase.operation {
                let after = refaulted();
                let to_ns = host.now_ns();
                if measured {
                    host.op_end(name);
                }
                flow.borrow_mut().ended();
                let record = &mut self.records[*record];
                record.add(from_ns, to_ns);
                record.tally(&counted, [before, after]);
            }
            if self.cx.is_dying() {
                return Err(Error::Killed);
            }
            host.user_point();
        }
    }
}

/// The name of a step with the number of its round: `{n}`, or a multiple, `{2n}`.
pub fn numbered(label: &str, round: u64) -> String {
    let number = label.find('{').and_then(|open| {
        let close = open + label[open..].find("n}")?;
        let factor = &label[open + 1..close];
        let factor: u64 = if factor.is_empty() { 1 } else { factor.parse().ok()? };
        Some((open, close + 2, factor.saturating_mul(round)))
    });
    match number {
        Some((from, to, number)) => format!("{}{number}{}", &label[..from], &label[to..]),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_number_of_their_round() {
        assert_eq!(numbered("pass{n}", 3), "pass3");
        assert_eq!(numbered("t{2n} s", 3), "t6 s");
        for label in ["pass", "{}", "{x}", "{xn}"] {
            assert_eq!(numbered(label, 3), label);
        }
    }
}
