//! Progress of a command before it has results: its estimated size, and how far it is.
//!
//! A terminal gets a bar; otherwise there is a line every few seconds, and with `--progress json`
//! an object on each line. All of it goes to stderr and comes from this computer's clock, so none
//! of it enters results.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use highwater_results::words::count;

use clap::ValueEnum;
use highwater_sim::engine::Passed;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{is_quiet, remark, say};
use crate::experiment::{Progress, RunPlan, Work};
use crate::plan::Plan;

/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two looks of a bar.
const BAR_EVERY: Duration = Duration::from_millis(200);
/// A command that runs longer than this prints how to shorten it.
const LONG: f64 = 120.0;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    /// A bar on a terminal, else lines
    #[default]
    Auto,
    /// A line every few seconds
    Plain,
    /// A JSON object every few seconds, each on a line of its own; with --quiet no other lines come between
    Json,
    /// Nothing
    None,
}

static WANTED: AtomicU8 = AtomicU8::new(ProgressArg::Auto as u8);
/// The bar that is drawn now, if one is: cleared before anything else is said.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Applies the user's choice from now on.
pub(super) fn choose(wanted: ProgressArg) {
    WANTED.store(wanted as u8, Ordering::Relaxed);
}

fn wanted() -> ProgressArg {
    let wanted = WANTED.load(Ordering::Relaxed);
    let all = ProgressArg::value_variants();
    all.iter().copied().find(|one| *one as u8 == wanted).unwrap_or_default()
}

/// Takes a bar away: the process is about to end.
pub(super) fn clear() {
    if let Ok(mut drawn) = DRAWN.lock()
        && let Some(bar) = drawn.take()
    {
        bar.finish_and_clear();
    }
}

/// How far a command is.
struct State {
    /// The name of the running command, for lines among other output.
    title: String,
    /// The unit of the count: `runs`, `files`.
    what: &'static str,
    total: AtomicUsize,
    done: AtomicUsize,
    /// The part of `done` that an earlier run had kept.
    found: AtomicUsize,
    /// Virtual time of all runs, if that is known.
    simulated_of: Option<f64>,
    is_simulated: bool,
    clock: Arc<Passed>,
    begun: Instant,
    /// How to shorten it, said once.
    advice: Option<String>,
    has_advised: AtomicBool,
}

/// A moment, as `--progress json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Moment<'a> {
    /// The name of the running command.
    title: &'a str,
    /// The unit of the count.
    what: &'a str,
    done: usize,
    total: usize,
    /// The part of `done` that an earlier run had kept.
    found: usize,
    /// Seconds of virtual time.
    simulated_s: f64,
    /// Of how many; null: not known.
    simulated_of_s: Option<f64>,
    events: u64,
    events_per_s: f64,
    /// Seconds of this computer's time.
    elapsed_s: f64,
    /// Remaining seconds; null: not known yet.
    left_s: Option<f64>,
}

impl State {
    /// At the start of some plans, which run one after the other.
    fn of(works: &[(&RunPlan, Work)]) -> State {
        let seconds = works.iter().map(|(plan, _)| plan.virtual_seconds());
        let sums: Option<f64> = seconds.sum();
        let is_known = works.iter().all(|(_, work)| work.seconds.is_some());
        let has_advice = !is_known && sums.is_some();
        State {
            title: works.first().map(|(plan, _)| plan.experiment.name.clone()).unwrap_or_default(),
            what: "runs",
            total: AtomicUsize::new(works.iter().map(|(_, work)| work.nr_units).sum()),
            done: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
            simulated_of: sums,
            is_simulated: works.iter().all(|(_, work)| work.bytes.is_some()),
            clock: Arc::default(),
            begun: Instant::now(),
            advice: has_advice
                .then(|| "to shorten it: fewer --iterations, or --set job.seconds=N".to_owned()),
            has_advised: AtomicBool::new(false),
        }
    }

    fn moment(&self) -> Moment<'_> {
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        let [done, found] = [&self.done, &self.found].map(|nr| nr.load(Ordering::Relaxed));
        let [ns, events] =
            [&self.clock.ns, &self.clock.events].map(|sum| sum.load(Ordering::Relaxed));
        let simulated_s = ns as f64 / 1e9;
        let total = self.total.load(Ordering::Relaxed);
        let ran = done.saturating_sub(found);
        let to_run = total.saturating_sub(found);
        // Units from an earlier run take no time, and have no share of the virtual time that
        // remains.
        let of_time = self.simulated_of.map(|all| {
            let all = all * to_run as f64 / total.max(1) as f64;
            if all > 0.0 { simulated_s / all } else { 0.0 }
        });
        let of_units = ran as f64 / to_run.max(1) as f64;
        // A run that ends before its time limit is ahead of the clock.
        let share = of_time.unwrap_or(0.0).max(of_units).min(1.0);
        let left_s = (share > 0.0).then(|| elapsed_s * (1.0 - share) / share);
        Moment {
            title: &self.title,
            what: self.what,
            done,
            total,
            found,
            simulated_s,
            simulated_of_s: self.simulated_of,
            events,
            events_per_s: events as f64 / elapsed_s.max(0.1),
            elapsed_s,
            left_s,
        }
    }

    /// The moment as one line.
    fn line(&self) -> String {
        let now = self.moment();
        let mut line = format!("{} of {} {}", now.done, now.total, now.what);
        if self.is_simulated {
            line += &match now.simulated_of_s {
                Some(all) => format!(", {:.1} of {all:.1} s simulated", now.simulated_s),
                None => format!(", {:.1} s simulated", now.simulated_s),
            };
            line += &format!(", {:.1} M events/s", now.events_per_s / 1e6);
        }
        line + &match now.left_s {
            Some(left) => format!(", about {} left", duration(left)),
            None => format!(", {} so far", duration(now.elapsed_s)),
        }
    }

    /// Prints how to shorten a long command, once its length is known.
    fn advise(&self) {
        let left_s = self.moment().left_s.filter(|left| *left > LONG);
        if let (Some(left), Some(advice)) = (left_s, &self.advice)
            && !self.has_advised.swap(true, Ordering::Relaxed)
        {
            remark(&format!("{}: about {}; {advice}", self.title, duration(left)));
        }
    }
}

/// A time for people.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// How far a command is, on stderr.
pub(super) struct Bar {
    state: Arc<State>,
    /// Units of the plans before the present one.
    before: AtomicUsize,
    bar: Option<ProgressBar>,
    /// The printer thread; dropping the sender stops it.
    printer: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Bar {
    /// Prints the estimate of a plan of one point, and starts.
    pub(super) fn start(plan: &RunPlan) -> Bar {
        let work = plan.work();
        remark(&format!("{}: {work}", plan.experiment.name));
        Bar::of(State::of(&[(plan, work)]))
    }

    /// The same of several plans of one experiment, which run one after the other.
    pub(super) fn start_all(plans: &[&RunPlan]) -> Bar {
        let works = works(plans);
        announce(&works, true);
        Bar::of(State::of(&works))
    }

    /// Starts with `nr_units` of the units of some plans, of which `found` are there already: only the
    /// others are reported as done.
    pub(super) fn start_some(plans: &[&RunPlan], nr_units: usize, found: usize) -> Bar {
        let state = State::of(&works(plans));
        let all = state.total.load(Ordering::Relaxed).max(1);
        let simulated_of = state.simulated_of.map(|all_s| all_s * nr_units as f64 / all as f64);
        let [total, done, kept] = [nr_units, found, found].map(AtomicUsize::new);
        let bar = Bar::of(State { simulated_of, total, done, found: kept, ..state });
        bar.next_plan();
        bar
    }

    /// Something that is counted and has no virtual time.
    pub(super) fn counting(title: &str, total: usize, what: &'static str) -> Bar {
        Bar::of(State {
            title: title.to_owned(),
            what,
            total: AtomicUsize::new(total),
            done: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
            simulated_of: None,
            is_simulated: false,
            clock: Arc::default(),
            begun: Instant::now(),
            advice: None,
            has_advised: AtomicBool::new(false),
        })
    }

    fn of(state: State) -> Bar {
        let state = Arc::new(state);
        let (mut bar, mut printer) = (None, None);
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        match wanted() {
            ProgressArg::None => {}
            // The user asked for JSON: with --quiet nothing else is on stderr.
            ProgressArg::Json => {
                printer = Some(every(LINE_EVERY, &state, print_json));
            }
            _ if is_quiet() => {}
            ProgressArg::Auto if is_terminal => {
                let new = ProgressBar::new(state.total.load(Ordering::Relaxed) as u64);
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                    new.set_style(style);
                }
                if let Ok(mut drawn) = DRAWN.lock() {
                    *drawn = Some(new.clone());
                }
                let shown = new.clone();
                printer = Some(every(BAR_EVERY, &state, move |state| {
                    shown.set_length(state.total.load(Ordering::Relaxed) as u64);
                    shown.set_position(state.done.load(Ordering::Relaxed) as u64);
                    shown.set_message(state.line());
                    if state.begun.elapsed() > LINE_EVERY {
                        shown.suspend(|| state.advise());
                    }
                }));
                bar = Some(new);
            }
            ProgressArg::Auto | ProgressArg::Plain => {
                printer = Some(every(LINE_EVERY, &state, |state| {
                    remark(&format!("{}: {}", state.title, state.line()));
                    state.advise();
                }));
            }
        }
        Bar { state, before: AtomicUsize::new(0), bar, printer }
    }

    /// Says something while the bar is there.
    pub(super) fn remark(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| remark(text)),
            None => remark(text),
        }
    }

    /// `done` of `total` units are finished.
    pub(super) fn set(&self, done: usize, total: usize) {
        self.state.total.store(total, Ordering::Relaxed);
        self.state.done.store(done, Ordering::Relaxed);
    }

    /// A plan is over: the next one counts from here.
    pub(super) fn next_plan(&self) {
        self.before.store(self.state.done.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes it away.
    pub(super) fn finish(mut self) {
        self.stop();
        if wanted() == ProgressArg::Json {
            print_json(&self.state);
        }
    }

    fn stop(&mut self) {
        if let Some((stop, printer)) = self.printer.take() {
            drop(stop);
            // The printer has stopped printing.
            let _ = printer.join();
        }
        if self.bar.take().is_some() {
            clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Plans with their sizes.
fn works<'p>(plans: &[&'p RunPlan]) -> Vec<(&'p RunPlan, Work)> {
    plans.iter().map(|plan| (*plan, plan.work())).collect()
}

/// Prints the estimate of all points of a plan.
pub(super) fn announce_plan(plan: &Plan) {
    announce(&works(&plan.runs()), !plan.keys.is_empty());
}

/// Prints the estimate of several plans of one experiment.
fn announce(works: &[(&RunPlan, Work)], is_grid: bool) {
    let sum = works.iter().map(|(_, work)| *work).reduce(Work::and);
    if let (Some((plan, _)), Some(sum)) = (works.first(), sum) {
        let points = is_grid.then(|| format!("{}, ", count(works.len(), "point")));
        remark(&format!("{}: {}{sum}", plan.experiment.name, points.unwrap_or_default()));
    }
}

/// Calls a function at intervals on a thread, until the sender is dropped.
fn every(
    period: Duration,
    state: &Arc<State>,
    print: impl Fn(&State) + Send + 'static,
) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel();
    let state = Arc::clone(state);
    let printer = thread::spawn(move || {
        while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            print(&state);
        }
    });
    (stop, printer)
}

fn print_json(state: &State) {
    // Numbers and two names: JSON can hold them.
    say(&serde_json::to_string(&state.moment()).unwrap_or_default());
}

impl Progress for Bar {
    fn cell_done(&self, done: usize, _: usize) {
        let before = self.before.load(Ordering::Relaxed);
        self.state.done.fetch_max(before + done, Ordering::Relaxed);
    }

    fn cell_found(&self, done: usize, total: usize) {
        self.state.found.fetch_add(1, Ordering::Relaxed);
        self.cell_done(done, total);
    }

    fn clock(&self) -> Option<&Arc<Passed>> {
        Some(&self.state.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(done: usize, found: usize, simulated_of: Option<f64>) -> State {
        State {
            title: "x".to_owned(),
            what: "runs",
            total: AtomicUsize::new(12),
            done: AtomicUsize::new(done),
            found: AtomicUsize::new(found),
            simulated_of,
            is_simulated: true,
            clock: Arc::default(),
            begun: Instant::now() - Duration::from_secs(60),
            advice: None,
            has_advised: AtomicBool::new(false),
        }
    }

    #[test]
    fn what_is_left_follows_from_runs_and_virtual_time() {
        // A quarter of twelve runs in a minute.
        let line = state(3, 0, None).line();
        assert_eq!(line, "3 of 12 runs, 0.0 s simulated, 0.0 M events/s, about 3 min left");
        // Half of the units that had to run.
        let left = state(8, 4, None).moment().left_s.unwrap();
        assert!((59.0..62.0).contains(&left), "{left}");
        assert_eq!(state(4, 4, None).moment().left_s, None);
        // None is done, and a tenth of the virtual time has passed.
        let state = state(0, 0, Some(20.0));
        state.clock.ns.store(2_000_000_000, Ordering::Relaxed);
        let left = state.moment().left_s.unwrap();
        assert!((530.0..560.0).contains(&left), "{left}");
        assert!(state.line().contains("2.0 of 20.0 s simulated"), "{}", state.line());
    }

    #[test]
    fn times_read_well() {
        assert_eq!([3.0, 300.0, 7200.0].map(duration), ["3 s", "5 min", "2.0 h"]);
    }
}
