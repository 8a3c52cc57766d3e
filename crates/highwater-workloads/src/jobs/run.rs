//! A task at work.

use std::cell::{Cell, RefCell};
use std::mem::replace;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::lru::Refaults;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, OpenFile};
use highwater_core::vm::{Access, AreaFlags, Backing, Fault, Space};

use super::flow::{Flow, Next};
use super::pick::Picker;
use super::record::Recorded;
use super::{Action, MapHow, Mapped, Often, Pattern, Phase, Task, Touch, When};
use crate::process;
use crate::random::Random;

/// An area that a task mapped.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    start: u32,
    pages: u32,
}

/// Where a task ended before its time, and why.
pub struct Failed {
    /// The number of the phase.
    pub phase: usize,
    /// What its call said.
    pub error: Error,
    /// What it had still to do.
    pub left: Vec<CutShort>,
}

/// Operations of a phase that a task has not got to, because it died.
pub struct CutShort {
    record: usize,
    often: Often,
    flow: Flow,
}

impl CutShort {
    /// The job has ended, or was planned to: adds the arrivals up to then that nobody answered.
    pub fn tell(mut self, until_ns: u64, records: &mut [Recorded]) {
        let (nr, end_ns) = self.flow.left(self.often, until_ns);
        records[self.record].cut_short(nr, self.flow.begin_ns(), end_ns);
    }
}

/// What a task that was forked begins with.
pub type Inherited<H> = (Arc<Space<H>>, Vec<Option<Area>>);

/// A task beside another one, for one phase of which several operations may be under way.
pub struct Helper<H: Devices> {
    phase: usize,
    round: u64,
    space: Arc<Space<H>>,
    open: Vec<Arc<OpenFile<H>>>,
    appended: Rc<RefCell<Vec<u64>>>,
    flow: Rc<RefCell<Flow>>,
}

/// Waits for a helper: what it leaves, and how it ended.
pub type Joined = Box<dyn FnOnce() -> (Vec<Recorded>, Result<(), Error>)>;

/// What the tasks of a job share, and what only a host can do.
pub struct Ground<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Files, by number.
    pub files: &'a [Arc<File<H>>],
    /// Has the job ended?
    pub is_over: &'a dyn Fn() -> bool,
    /// Uses the CPU for so many nanoseconds.
    pub compute: &'a dyn Fn(&Cx<'_, H>, u64),
    /// Waits until all copies of a task have ended.
    pub wait: &'a dyn Fn(&Cx<'_, H>, usize),
    /// Starts a task with such memory.
    pub fork: &'a dyn Fn(usize, Inherited<H>),
    /// Starts a helper of the task.
    pub help: &'a dyn Fn(Helper<H>) -> Joined,
    /// A step is over, or the first one begins.
    pub mark: &'a dyn Fn(&Cx<'_, H>, Option<String>),
    /// The task has this address space from now on.
    pub entered: &'a dyn Fn(&Arc<Space<H>>),
}

/// Runs a copy of a task to its end, in the calling one. What its operations leave is added to `records`.
///
/// # Errors
/// The phase whose call failed; with [`Error::Killed`] if it was chosen to give its memory up.
pub fn run<H: Devices>(
    task: &Task,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    inherited: Option<Inherited<H>>,
    seed: u64,
    records: &mut [Recorded],
) -> Result<(), Failed> {
    let (space, areas) = match inherited {
        Some((space, mut areas)) => {
            space.add_task(cx);
            areas.resize(task.nr_areas, None);
            (space, areas)
        }
        None => {
            let space = process::start(ground.kernel, cx);
            (
                space.map_err(|error| Failed { phase: 0, error, left: Vec::new() })?,
                vec![None; task.nr_areas],
            )
        }
    };
    (ground.entered)(&space);
    let open = ground.files.iter().map(|file| ground.kernel.open(cx, file)).collect();
    let mut running = Running {
        ground,
        cx,
        space,
        areas,
        open,
        appended: Rc::new(RefCell::new(vec![0; ground.files.len()])),
        records,
        round: 0,
        at: 0,
        left: Vec::new(),
    };
    let mut random = Random::new(seed);
    let ended = running.rounds(task, &mut random);
    if ended.is_err() {
        running.leave_later_phases(task, &mut random);
    }
    process::end(ground.kernel, cx, &running.space);
    ended.map_err(|error| Failed { phase: running.at, error, left: running.left })
}

/// Runs a helper of a task to its end, in the calling one. What its operations leave is added to `records`.
///
/// # Errors
/// What a call said.
pub fn help<H: Devices>(
    task: &Task,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    helper: Helper<H>,
    records: &mut [Recorded],
) -> Result<(), Error> {
    let Helper { phase: at, round, space, open, appended, flow } = helper;
    space.add_task(cx);
    let (areas, left) = (Vec::new(), Vec::new());
    let mut running =
        Running { ground, cx, space, areas, open, appended, records, round, at, left };
    let ended = running.share(&task.phases[at], &flow);
    ground.kernel.exit_task(cx);
    running.space.remove_task(cx);
    ended
}

struct Running<'a, 'h, H: Devices> {
    ground: &'a Ground<'a, H>,
    cx: &'a Cx<'h, H>,
    space: Arc<Space<H>>,
    areas: Vec<Option<Area>>,
    open: Vec<Arc<OpenFile<H>>>,
    /// Where the next block of a log goes.
    appended: Rc<RefCell<Vec<u64>>>,
    records: &'a mut [Recorded],
    /// From 1.
    round: u64,
    /// The phase.
    at: usize,
    /// What is left to do by a task that dies.
    left: Vec<CutShort>,
}

/// What faults an operation took, and what it found of the pages that it asked for.
#[derive(Clone, Copy, Default)]
struct Faults {
    minor: u64,
    major: u64,
    asked: u64,
    found: u64,
}

impl<H: Devices> Running<'_, '_, H> {
    fn rounds(&mut self, task: &Task, random: &mut Random) -> Result<(), Error> {
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
            // Rounds without end in which no time passes would never end the job either.
            if task.rounds.is_none() && self.cx.host.now_ns() == begin_ns {
                return Err(Error::Invalid);
            }
        }
        Ok(())
    }

    /// A phase is gone through in this round.
    fn is_due(&self, task: &Task, phase: &Phase) -> bool {
        match phase.when {
            When::Always => true,
            When::First => self.round == 1,
            When::Last => task.rounds == Some(self.round),
        }
    }

    /// The task died: open loops of this round's later phases had their arrivals, too. Each begins when the one before
    /// was planned to end; what has no planned end takes no time.
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
            // Of what has no pages there is nothing to touch, however often.
            Some(0) => return Ok(()),
            Some(n) => (n, Picker::round(pattern, n)),
            None => (1, 1),
        };
        let picker = Picker::new(pattern, nr_units, random.below(u64::MAX));
        let begin_ns = self.cx.host.now_ns();
        // The task's own numbers, for as long as this goes on.
        let own = replace(random, Random::new(0));
        let flow = Rc::new(RefCell::new(Flow::new(phase, (picker, pass), begin_ns, own)));
        let helpers: Vec<Joined> =
            (1..phase.depth).map(|_| (self.ground.help)(self.helper(&flow))).collect();
        let mut ended = self.share(phase, &flow);
        for join in helpers {
            let (left, helped) = join();
            self.records.iter_mut().zip(&left).for_each(|(sum, record)| sum.merge(record));
            ended = ended.and(helped);
        }
        *random = flow.borrow_mut().give_back();
        // Helpers have ended: nobody else holds it.
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
            space: Arc::clone(&self.space),
            open: self.open.clone(),
            appended: Rc::clone(&self.appended),
            flow: Rc::clone(flow),
        }
    }

    /// As [`Self::operations`]; if that fails, those who share the flow end, too.
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
        loop {
            let is_done = flow.borrow().is_done(phase.often, || host.now_ns());
            if is_done || (self.ground.is_over)() {
                return Ok(());
            }
            if phase.depth > 1 {
                let due_ns = flow.borrow_mut().due_ns(phase.often).unwrap_or(0);
                let wait_ns = due_ns.saturating_sub(host.now_ns());
                if wait_ns > 0 {
                    host.sleep_ns(wait_ns);
                    if self.cx.is_dying() {
                        return Err(Error::Killed);
                    }
                    continue;
                }
            }
            let measured = phase.operation.is_some();
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
            let before = if measured { refaulted() } else { [0; 2] };
            let faults = self.act(&phase.action, at)?;
            if let Some((record, name)) = &phase.operation {
                let after = refaulted();
                let to_ns = host.now_ns();
                host.op_end(name);
                flow.borrow_mut().ended();
                let record = &mut self.records[*record];
                record.add(from_ns, to_ns);
                record.minor += faults.minor;
                record.major += faults.major;
                for kind in 0..after.len() {
                    record.refaults[kind] += after[kind] - before[kind];
                }
                record.asked += faults.asked;
                record.found += faults.found;
            }
            if self.cx.is_dying() {
                return Err(Error::Killed);
            }
            host.user_point();
        }
    }

    /// Pages or blocks of what a phase is about; none if it is about neither, or about an area that is not there.
    fn units(&self, action: &Action) -> Option<u64> {
        match *action {
            Action::Touch { area, .. } | Action::Advise { area, pattern: Some(_), .. } => {
                self.areas[area].map(|area| area.pages.into())
            }
            Action::Read { file, bytes, .. }
            | Action::Write { file, bytes, .. }
            | Action::Append { file, bytes } => Some(self.blocks(file, bytes)),
            _ => None,
        }
    }

    /// An area that is mapped: who uses another one gets what a program gets that does.
    fn area(&self, area: usize) -> Result<Area, Error> {
        self.areas[area].ok_or(Error::Fault)
    }

    fn blocks(&self, file: usize, bytes: u64) -> u64 {
        let size = u64::from(self.open[file].file.spec.max_pages) * PAGE_SIZE as u64;
        if size == 0 { 0 } else { (size / bytes.max(1)).max(1) }
    }

    fn act(&mut self, action: &Action, at: u64) -> Result<Faults, Error> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let none = Faults::default();
        match *action {
            Action::Map { area, of, how } => self.map(area, of, how)?,
            Action::Unmap { area } => self.unmap(area)?,
            Action::Touch { area, access, .. } => {
                let vpn = self.area(area)?.start + at as u32;
                let accesses: &[Access] = match access {
                    Touch::Read => &[Access::Read],
                    Touch::Write => &[Access::Write],
                    Touch::Update => &[Access::Read, Access::Write],
                };
                let mut faults = Faults { asked: 1, ..none };
                for &access in accesses {
                    match kernel.touch(cx, &self.space, vpn, access)? {
                        Fault::None => {}
                        Fault::Minor => faults.minor += 1,
                        Fault::Major => faults.major += 1,
                    }
                }
                faults.found = u64::from(faults.major == 0);
                return Ok(faults);
            }
            Action::Read { file, bytes, .. } => {
                let (open, from, mut found) = (&self.open[file], at * bytes, 0);
                let read = kernel.file_read_found(cx, open, from, bytes, &mut found)?;
                let page = PAGE_SIZE as u64;
                let asked = if read == 0 { 0 } else { (from + read).div_ceil(page) - from / page };
                return Ok(Faults { asked, found: found.min(asked), ..none });
            }
            Action::Write { file, bytes, .. } => self.write(file, at * bytes, bytes)?,
            Action::Append { file, bytes } => {
                let at = {
                    let next = &mut self.appended.borrow_mut()[file];
                    let at = *next % self.blocks(file, bytes).max(1);
                    *next = at + 1;
                    at
                };
                self.write(file, at * bytes, bytes)?;
            }
            Action::Fsync { file } => kernel.fsync(cx, &self.open[file])?,
            Action::AdviseFile { file, advice } => {
                kernel.fadvise(cx, &self.open[file], 0, 0, advice);
            }
            Action::Advise { area, advice, pattern } => {
                let Area { start, pages } = self.area(area)?;
                let (start, pages) = match pattern {
                    Some(_) => (start + at as u32, 1),
                    None => (start, pages),
                };
                if pages > 0 {
                    kernel.madvise(cx, &self.space, start, pages, advice)?;
                }
            }
            Action::Lock { area } => {
                let Area { start, pages } = self.area(area)?;
                if pages > 0 {
                    kernel.mlock(cx, &self.space, start, pages)?;
                }
            }
            Action::Unlock { area } => {
                let Area { start, pages } = self.area(area)?;
                if pages > 0 {
                    kernel.munlock(cx, &self.space, start, pages)?;
                }
            }
            Action::Exec => {
                self.space = kernel.exec(cx, &self.space)?;
                self.areas.fill(None);
                (self.ground.entered)(&self.space);
            }
            Action::Fork { task } => {
                let child = kernel.fork(cx, &self.space)?;
                (self.ground.fork)(task, (child, self.areas.clone()));
            }
            // The task's rounds look at it.
            Action::Exit => {}
            Action::Compute { ns } => (self.ground.compute)(cx, ns),
            Action::Sleep { ns } => cx.host.sleep_ns(ns),
            Action::Wait { task } => (self.ground.wait)(cx, task),
            Action::Compact => kernel.compact_memory(cx),
            Action::DropCaches(what) => kernel.drop_caches(cx, what),
            Action::Proactiveness(percent) => {
                kernel.set_compaction_proactiveness(cx, percent.into())
            }
            Action::Policy(policy) => kernel.set_memory_policy(cx, policy)?,
            Action::Mark(ref label) => {
                let label = label.as_deref().map(|label| numbered(label, self.round));
                (self.ground.mark)(cx, label);
            }
        }
        Ok(none)
    }

    fn map(&mut self, area: usize, of: Mapped, how: MapHow) -> Result<(), Error> {
        self.unmap(area)?;
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let mut flags = AreaFlags::READ;
        flags.set(AreaFlags::WRITE, !how.is_read_only);
        flags.set(AreaFlags::SHARED, how.is_shared);
        flags.set(AreaFlags::HUGEPAGE, how.huge == Some(true));
        flags.set(AreaFlags::NOHUGEPAGE, how.huge == Some(false));
        let (pages, backing) = match of {
            Mapped::Memory(pages) => (pages, Backing::Anon),
            Mapped::File(file) => {
                let open = kernel.open(cx, &self.open[file].file);
                (open.file.spec.max_pages, Backing::File { open, page: 0 })
            }
        };
        if pages == 0 {
            // An area without a page: nobody can touch it.
            self.areas[area] = Some(Area { start: 0, pages });
            return Ok(());
        }
        let start = kernel.mmap(cx, &self.space, pages, how.align.max(1), flags, backing)?;
        self.areas[area] = Some(Area { start, pages });
        Ok(())
    }

    fn unmap(&mut self, area: usize) -> Result<(), Error> {
        let area = self.areas[area].take().filter(|area| area.pages > 0);
        let Some(Area { start, pages }) = area else { return Ok(()) };
        self.ground.kernel.munmap(self.cx, &self.space, start, pages)
    }

    fn write(&self, file: usize, at: u64, bytes: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes {
            let n = self.ground.kernel.file_write(
                self.cx,
                &self.open[file],
                at + done,
                bytes - done,
            )?;
            if n == 0 {
                break;
            }
            done += n;
        }
        Ok(())
    }
}

fn pattern(action: &Action) -> Pattern {
    match *action {
        Action::Touch { pattern, .. }
        | Action::Read { pattern, .. }
        | Action::Write { pattern, .. }
        | Action::Advise { pattern: Some(pattern), .. } => pattern,
        _ => Pattern::Sequential,
    }
}

/// The name of a step with the number of its round: `{n}`, or so many times that, `{2n}`.
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
