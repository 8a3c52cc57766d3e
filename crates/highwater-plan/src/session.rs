//! One simulated run that an observer takes step by step.
//!
//! ```text
//! start ──▶ next_frame ──▶ set vm.swappiness=10 ──▶ next_frame ──▶ ... ──▶ finish
//! ```
//!
//! The simulation has a thread of its own and stands still between two steps. A [`Session`] gives
//! its looks ([`Frame`]), writes sysctls and limits of groups between them, and has the outcome at
//! the end. The same steps with the same writes give the same results. `highwater watch` is a
//! session at the pace of a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::experiment::RunPlan;
use crate::experiment::files::failure;
use crate::plan::PlanError;
use crate::settings::{Said, Settings};
use highwater_runs::watching::{Frame, Pace, Watcher};
use highwater_runs::workload::{HostKind, Outcome, RunError, Unit};
use highwater_sim::engine::Passed;

/// A run on its way.
pub struct Session {
    title: String,
    workload: &'static str,
    watcher: Watcher,
    is_over: Arc<AtomicBool>,
    ended: Receiver<Result<Outcome, RunError>>,
    clock: Arc<Passed>,
    nr_seen: u64,
}

/// Says that the run is over, however it ended.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Session {
    /// Starts the first policy on the first machine of a plan, with the plan's seed. `part` names a
    /// part of the run where it has several (a step of stutterp); none: the last one.
    ///
    /// The watcher's pace decides whether it runs on or stands still until [`Session::next_frame`].
    ///
    /// # Errors
    /// If there is no such part, nothing to run, or the plan measures this computer.
    pub fn start(
        plan: RunPlan,
        part: Option<&str>,
        watcher: Watcher,
    ) -> Result<Session, PlanError> {
        if plan.host != HostKind::Sim {
            let reason = "only what runs in virtual time can be watched";
            return Err(PlanError::refused("--host native", reason));
        }
        let (Some(machine), Some((_, label))) = (plan.machines.first(), plan.policies.first())
        else {
            let reason = "nothing to run: no machine, or no policy";
            return Err(PlanError::refused(&plan.experiment.name, reason));
        };
        let job = plan.experiment.job_on(&machine.name);
        let names: Vec<String> =
            (0..job.units(machine)).map(|part| job.part_name(machine, part)).collect();
        let number = match part {
            None => names.len().saturating_sub(1),
            Some(part) => names.iter().position(|name| name == part).ok_or_else(|| {
                let reason = format!("no such step; there are {}", names.join(", "));
                PlanError::refused(format!("--step {part}"), reason)
            })?,
        };
        let of_part = if names.len() > 1 { format!(", {}", names[number]) } else { String::new() };
        let name = &plan.experiment.name;
        let title = format!("{name}: {label} on {}, seed {}{of_part}", machine.name, plan.seed);
        let workload = job.entry().name;
        // One part runs, so it has the directory itself.
        let files = plan.files.as_ref().map(|files| files.writer(None)).transpose()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (send, ended) = channel();
        let (shown, over) = (watcher.clone(), Arc::clone(&is_over));
        let clock = Arc::new(Passed::default());
        let told = Arc::clone(&clock);
        thread::spawn(move || {
            let _over = Over(over);
            let (machine, policy) = (&plan.machines[0], &plan.policies[0].0);
            let unit = Unit::of(machine, policy, plan.seed);
            let unit = Unit { part: number, watcher: Some(&shown), clock: Some(&told), ..unit };
            let unit = Unit { files: files.as_ref(), ..unit };
            let result = plan.experiment.job_on(&machine.name).run(&unit);
            let result = failure(files.as_ref()).and(result);
            // Nobody may be waiting for it any more.
            let _ = send.send(result);
        });
        Ok(Session { title, workload, watcher, is_over, ended, clock, nr_seen: 0 })
    }

    /// The run in words: `001-reclaim-throttle: 6.1 on box, seed 1`.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its looks and its pace.
    pub const fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// True once the run has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Goes on to the next look and stops there; `None` if the run ends before it.
    pub fn next_frame(&mut self) -> Option<Arc<Frame>> {
        // A run that was paused from the start stands at its first look, which nobody has seen.
        if self.nr_seen > 0 {
            self.watcher.step();
        }
        let (frame, nr) = self.watcher.frame_after(self.nr_seen, || self.is_over())?;
        self.nr_seen = nr;
        Some(frame)
    }

    /// Writes sysctls (`vm.swappiness=10`) and settings of groups (`group.web.high=64M`), in force
    /// from the look at which the run stands. All are written, or none.
    ///
    /// # Errors
    /// If one is another key, the kernel lacks or refuses it, or the run is over.
    pub fn set<S: Clone + Into<Said>>(&self, said: &[S]) -> Result<(), PlanError> {
        let settings = Settings::parse(said, self.workload)?;
        let words = settings.texts().join(" ");
        let over = || PlanError::refused(&words, "the run is over");
        let (Some(frame), _) = self.watcher.frame() else {
            return Err(PlanError::refused(&words, "the run has not reached its first look"));
        };
        let wanted = settings.writes(&frame.sysctls)?;
        let written = self.watcher.write(wanted, || self.is_over()).ok_or_else(over)?;
        written.map_err(|error| PlanError::refused(&words, error.to_string()))
    }

    /// Runs to the end; what the run left.
    ///
    /// # Errors
    /// If the run failed.
    pub fn finish(self) -> Result<Outcome, RunError> {
        self.watcher.set_pace(Pace::Free);
        self.ended.recv().unwrap_or(Err(RunError::Interrupted))
    }

    /// How the run ended, if it has.
    pub fn ended(&self) -> Option<Result<Outcome, RunError>> {
        self.ended.try_recv().ok()
    }
}

impl Drop for Session {
    /// A run that nobody watches any more ends within milliseconds.
    fn drop(&mut self) {
        self.clock.stop.store(true, Ordering::Relaxed);
        self.watcher.set_pace(Pace::Free);
    }
}
