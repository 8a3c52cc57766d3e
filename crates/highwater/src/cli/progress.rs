//! What a user sees of a run before there are results: what it will take, how far it is; and Ctrl-C.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{FormattedDuration, ProgressBar, ProgressState, ProgressStyle};

use highwater_sim::engine::Passed;

use super::{CliError, complain, remark};
use crate::experiment::{Progress, RunPlan};
use crate::workload::HostKind;

/// A run that is not kept yet loses nothing by ending at once.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// Ends the process when the user asks to, at once; but not while results are being kept, which the caller says
/// by setting what is returned: files are whole or not there. The directory that was made for them goes, too.
pub(super) fn exit_on_interrupt(made: Option<PathBuf>) -> Result<Arc<AtomicBool>, CliError> {
    let is_keeping = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_keeping);
    ctrlc::set_handler(move || {
        if !seen.load(Ordering::Relaxed) {
            complain("interrupted");
            if let Some(made) = &made {
                // Only if it is empty; and one that stays does no harm.
                let _ = std::fs::remove_dir(made);
            }
            std::process::exit(130);
        }
    })
    .map_err(|error| CliError::new(format!("cannot watch for interrupts: {error}")))?;
    Ok(is_keeping)
}

/// How far a plan is, on stderr, if that is a terminal: runs, and from the first second on virtual time.
pub(super) struct Bar {
    bar: ProgressBar,
    clock: Arc<Passed>,
}

impl Bar {
    /// Says what a plan will take, and begins.
    pub(super) fn start(plan: &RunPlan) -> Bar {
        let work = plan.work();
        remark(&format!("{}: {work}", plan.experiment.name));
        let clock = Arc::new(Passed::default());
        let bar = match super::is_quiet() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(work.nr_units as u64),
        };
        let simulated = match plan.host {
            HostKind::Sim => ", {simulated}",
            HostKind::Native => "",
        };
        let template = format!("{{bar:30}} {{pos}}/{{len}} runs{simulated}, {{left}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let shown = Arc::clone(&clock);
            let simulated = move |state: &ProgressState, to: &mut dyn std::fmt::Write| {
                let seconds = shown.ns.load(Ordering::Relaxed) as f64 / 1e9;
                let events = shown.events.load(Ordering::Relaxed) as f64;
                let rate = events / state.elapsed().as_secs_f64().max(0.1) / 1e6;
                // Nothing is left to do if even this cannot be shown.
                let _ = write!(to, "{seconds:.1} s simulated, {rate:.1} M events/s");
            };
            let left = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
                let _ = match state.pos() {
                    // Of nothing no rest follows.
                    0 => write!(to, "{} so far", FormattedDuration(state.elapsed())),
                    _ => write!(to, "{} left", FormattedDuration(state.eta())),
                };
            };
            bar.set_style(style.with_key("simulated", simulated).with_key("left", left));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar { bar, clock }
    }

    /// Takes it away.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn cell_done(&self, done: usize, _: usize) {
        self.bar.set_position(done as u64);
    }

    fn clock(&self) -> Option<&Arc<Passed>> {
        Some(&self.clock)
    }
}
