//! Tasks that waited for others until the job ended, phases that found nothing to work on, and jobs
//! that did no work at all.

use std::cell::RefCell;

use super::super::RunError;
use super::file::{Do, JobParams, JobPhase, JobTask};

/// A task waited for another one until the job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    /// The number of the task.
    pub(super) number: usize,
    /// The number of the one that it waited for.
    pub(super) of: usize,
    /// Since when.
    pub(super) since_ns: u64,
}

/// The outcome of a phase so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Came {
    /// The phase did not run.
    #[default]
    NotYet,
    /// Each time it ran, there was no page or block to work on.
    ToNothing,
    /// It did something.
    ToSomething,
}

/// Collects waits that did not end, and phases that found nothing to do.
#[derive(Clone, Debug)]
pub(super) struct Stuck {
    params: JobParams,
    waits: RefCell<Vec<Waited>>,
    /// Of each task, of each phase.
    phases: RefCell<Vec<Vec<Came>>>,
}

impl Stuck {
    pub(super) fn new(params: &JobParams) -> Stuck {
        let phases = params.task.iter().map(|task| vec![Came::default(); task.phase.len()]);
        let phases = RefCell::new(phases.collect());
        Stuck { params: params.clone(), waits: RefCell::default(), phases }
    }

    /// Records that a task waited until the job ended; only the first copy is reported.
    pub(super) fn waited(&self, waited: Waited) {
        let mut waits = self.waits.borrow_mut();
        if !waits.iter().any(|known| (known.number, known.of) == (waited.number, waited.of)) {
            waits.push(waited);
        }
    }

    /// Records that a phase of a task did some work, or found nothing to do.
    pub(super) fn did(&self, number: usize, phase: usize, something: bool) {
        let came = &mut self.phases.borrow_mut()[number][phase];
        match (something, *came) {
            (true, _) => *came = Came::ToSomething,
            (false, Came::NotYet) => *came = Came::ToNothing,
            (false, _) => {}
        }
    }

    /// Names the phase that found nothing to do, for a task whose rounds take no time.
    pub(super) fn nothing_of(&self, number: usize) -> Option<String> {
        let (task, phases) = (&self.params.task[number], self.phases.borrow());
        let at = phases[number].iter().position(|came| *came == Came::ToNothing)?;
        Some(nothing(&self.params, task, &task.phase[at]))
    }

    /// The report's lines about them.
    ///
    /// # Errors
    /// If tasks wait for each other, or if no work was done although all tasks lived (`all_lived`).
    pub(super) fn told(&self, all_lived: bool) -> Result<Vec<String>, RunError> {
        let params = &self.params;
        let name = |number: usize| params.task[number].name.as_str();
        let waits = self.waits.borrow();
        if let Some(circle) = circle(&waits) {
            let names: Vec<&str> = circle.iter().map(|&number| name(number)).collect();
            let reason = match names.as_slice() {
                [one] => format!("{one} waits for itself: it cannot end before it has ended"),
                [first, rest @ ..] => format!(
                    "{first} waits for {}, which waits for {first}: none of them can end",
                    rest.join(", which waits for ")
                ),
                [] => String::new(),
            };
            let (number, of) = (circle[0], *circle.get(1).unwrap_or(&circle[0]));
            let is_it = |phase: &JobPhase| {
                phase.action == Do::Wait && phase.of.as_deref() == Some(name(of))
            };
            let phase = params.task[number].phase.iter().position(is_it).unwrap_or(0);
            let path = format!("task.{number}.phase.{phase}.do");
            return Err(RunError::At { path, reason, place: None });
        }
        let mut notes = Vec::new();
        // Background tasks end with the job, whatever they wait for.
        for wait in waits.iter().filter(|wait| !params.task[wait.number].background) {
            let (waiter, of, since_s) =
                (name(wait.number), name(wait.of), wait.since_ns as f64 / 1e9);
            let why = never_ends(&params.task[wait.of])
                .map_or_else(String::new, |why| format!(": {why}"));
            notes.push(format!(
                "{waiter} waited for {of} from {since_s:.3} s to the end of the job, when {of} had not ended{why}"
            ));
        }
        let phases = self.phases.borrow();
        let mut first = None;
        for (number, (task, came)) in params.task.iter().zip(&*phases).enumerate() {
            for (at, (phase, came)) in task.phase.iter().zip(came).enumerate() {
                if *came == Came::ToNothing {
                    let said = nothing(params, task, phase);
                    first.get_or_insert_with(|| {
                        (format!("task.{number}.phase.{at}.do"), said.clone())
                    });
                    notes.push(said);
                }
            }
        }
        let is_idle = !phases.iter().flatten().any(|came| *came == Came::ToSomething);
        if is_idle && all_lived {
            let seconds = params.seconds;
            let (path, why) = first.unwrap_or_else(|| {
                ("task.0.name".to_owned(), "no phase of any task began an operation".to_owned())
            });
            let reason = format!("nothing was done in the {seconds} s of the job: {why}");
            return Err(RunError::At { path, reason, place: None });
        }
        Ok(notes)
    }
}

/// A cycle of tasks in which each waited for the next; `None` if there is none.
fn circle(waits: &[Waited]) -> Option<Vec<usize>> {
    // Start at the earliest task: the order in which they noticed the end means nothing.
    let mut waits = waits.to_vec();
    waits.sort_by_key(|wait| wait.number);
    waits.iter().find_map(|first| {
        let mut line = vec![first.number];
        let mut next = first.of;
        while next != first.number {
            let wait = waits.iter().find(|wait| wait.number == next)?;
            if line.contains(&next) {
                return None;
            }
            line.push(next);
            next = wait.of;
        }
        Some(line)
    })
}

/// Why a task runs until the job ends.
fn never_ends(task: &JobTask) -> Option<&'static str> {
    let is_forever = task.phase.iter().any(|phase| phase.forever);
    match (task.rounds, is_forever) {
        (_, true) => Some("one of its phases goes on forever"),
        (0, _) => Some("its rounds never end (rounds = 0)"),
        _ => None,
    }
}

/// Describes a phase that never found anything to work on, and what it lacked.
fn nothing(params: &JobParams, task: &JobTask, phase: &JobPhase) -> String {
    let (name, does) = (&task.name, phase.action.name());
    let Some(of) = phase.of.as_deref() else {
        // For a request, its steps name the object.
        let steps: Vec<String> =
            phase.step.iter().map(|step| nothing(params, task, step)).collect();
        return steps
            .into_iter()
            .next()
            .unwrap_or_else(|| format!("{name}: {does} found nothing to do"));
    };
    let file_of = |area: &str| {
        let mut maps = task.phase.iter().flat_map(JobPhase::all);
        maps.find(|map| map.action == Do::Map && map.of.as_deref() == Some(area))
            .and_then(|map| map.file.as_deref())
    };
    let file = params.file.iter().find(|file| file.name == of || Some(&*file.name) == file_of(of));
    let Some(file) = file else {
        return format!(
            "{name}: nothing to {does} in {of}: it has no pages; its map says of what size"
        );
    };
    let writes = |phase: &JobPhase| {
        matches!(phase.action, Do::Write | Do::Append) && phase.of.as_deref() == Some(&file.name)
    };
    let mut phases = params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all);
    let (is_written, is_empty) = (phases.any(writes), file.size.is_nothing());
    let (file, why) = (
        &file.name,
        match (is_empty, is_written) {
            (true, false) => "begins empty, and no task writes it; give it a size, or append to it",
            (true, true) => {
                "begins empty, and was so whenever this came; what writes it comes later"
            }
            _ => "was empty whenever this came",
        },
    );
    format!("{name}: nothing to {does}: file {file} {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_of_waits_are_found_and_chains_are_none() {
        let waits = |pairs: &[(usize, usize)]| {
            let wait = |&(number, of): &(usize, usize)| Waited { number, of, since_ns: 0 };
            circle(&pairs.iter().map(wait).collect::<Vec<_>>())
        };
        assert_eq!(waits(&[]), None);
        assert_eq!(waits(&[(0, 1)]), None);
        assert_eq!(waits(&[(0, 1), (1, 2)]), None);
        assert_eq!(waits(&[(0, 0)]), Some(vec![0]));
        assert_eq!(waits(&[(0, 1), (1, 0)]), Some(vec![0, 1]));
        // The first task leads into a cycle, but is not part of it.
        assert_eq!(waits(&[(3, 1), (1, 2), (2, 1)]), Some(vec![1, 2]));
    }
}
