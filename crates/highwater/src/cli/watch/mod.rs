//! `highwater watch`: shows a run in the terminal while it goes on, so that you see reclaim happen.
//!
//! The simulation has its own thread and publishes a look at fixed steps of virtual time
//! ([`crate::watching`]). This module draws the latest look and reads keys. Without a keyboard,
//! `--at` prints one look.

mod draw;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use highwater_results::words::refusal;

use super::args::WatchArgs;
use super::{CliError, Outcome, one_run, print};
use crate::experiment::{HostKind, RunPlan};
use crate::watching::{Frame, Pace, Watcher};
use crate::workload::{Registry, RunError, Unit};
use draw::Seen;

/// Pictures a second, at most.
const PICTURES: Duration = Duration::from_millis(50);
/// The keys and their meaning.
const KEYS: &str =
    "space: stop, go on   n: next look   + -: faster, slower   f: as fast as it can   q: end";

/// A run on its way.
struct Running {
    title: String,
    watcher: Watcher,
    is_over: Arc<AtomicBool>,
    ended: Receiver<Result<(), RunError>>,
}

/// Says that the run is over, however it ended.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Watches a run.
pub(super) fn run(registry: &Registry, args: &WatchArgs) -> Result<Outcome, CliError> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.at.is_none() && !is_terminal {
        let reason = "needs a terminal, for its keys; --at TIME prints the screen of that time";
        return Err(CliError::new(format!("watch: {reason}")));
    }
    let plan = one_run::plan(registry, &args.run)?;
    if plan.host != HostKind::Sim {
        return Err(CliError::new("watch: only what runs in virtual time can be watched"));
    }
    let watcher = Watcher::new(args.every);
    watcher.set_pace(pace_of(args.speed, args.every));
    let running = start(plan, args.run.step.as_deref(), watcher)?;
    match args.at {
        Some(at_ns) => print_at(&running, at_ns),
        None => on_screen(&running, args.speed),
    }
}

/// Starts the run on its own thread.
fn start(plan: RunPlan, step: Option<&str>, watcher: Watcher) -> Result<Running, CliError> {
    let machine = &plan.machines[0];
    let job = plan.experiment.job_on(&machine.name);
    let names: Vec<String> =
        (0..job.units(machine)).map(|part| job.part_name(machine, part)).collect();
    let part = match step {
        None => names.len().saturating_sub(1),
        Some(step) => names.iter().position(|name| name == step).ok_or_else(|| {
            let names = names.join(", ");
            CliError::new(format!("--step {step}: no such step; there are {names}"))
        })?,
    };
    let of_step = if names.len() > 1 { format!(", {}", names[part]) } else { String::new() };
    let (label, name) = (&plan.policies[0].1, &plan.experiment.name);
    let title = format!("{name}: {label} on {}, seed {}{of_step}", machine.name, plan.seed);
    let is_over = Arc::new(AtomicBool::new(false));
    let (send, ended) = channel();
    let (shown, over) = (watcher.clone(), Arc::clone(&is_over));
    // Leaving early ends the process, and the thread with it.
    thread::spawn(move || {
        let _over = Over(over);
        let (machine, policy) = (&plan.machines[0], &plan.policies[0].0);
        let unit = Unit::of(machine, policy, plan.seed);
        let unit = Unit { part, watcher: Some(&shown), ..unit };
        let result = plan.experiment.job_on(&machine.name).run(&unit).map(drop);
        // Nobody may be waiting for it any more.
        let _ = send.send(result);
    });
    Ok(Running { title, watcher, is_over, ended })
}

/// Least time that a look stays, at this many seconds of virtual time per second of real time.
fn pace_of(speed: Option<f64>, every_ns: u64) -> Pace {
    speed.map_or(Pace::Free, |speed| {
        Pace::Every(Duration::from_secs_f64((every_ns as f64 / 1e9 / speed).min(3600.0)))
    })
}

fn title(running: &Running, frame: &Frame, how: &str) -> String {
    format!("{}: {:.3} s{how}", running.title, frame.at_ns as f64 / 1e9)
}

/// One look as text.
fn print_at(running: &Running, at_ns: u64) -> Result<Outcome, CliError> {
    let mut seen = Seen::default();
    // Rates need two looks.
    let before_ns = at_ns.saturating_sub(running.watcher.every_ns());
    let is_over = || running.is_over.load(Ordering::Relaxed);
    let look = |at_ns| running.watcher.frame_at(at_ns, is_over);
    if let Some(frame) = look(before_ns) {
        seen.see(&frame);
    }
    if let Some(frame) = look(at_ns) {
        seen.see(&frame);
        let lines = seen.lines(&frame, highwater_report::PAGE_WIDTH);
        print(&format!("{}\n{}", title(running, &frame, ""), draw::plain(&lines)))?;
        return Ok(Outcome::Done);
    }
    match running.ended.try_recv() {
        Ok(Err(error)) => Err(error.into()),
        _ => {
            let s = at_ns as f64 / 1e9;
            Err(CliError::new(format!("--at {s}: the run has ended before that")))
        }
    }
}

/// Draws until the user leaves.
fn on_screen(running: &Running, speed: Option<f64>) -> Result<Outcome, CliError> {
    let mut terminal = ratatui::try_init().map_err(|error| broken(&error))?;
    let result = draw_until_left(&mut terminal, running, speed);
    ratatui::restore();
    result?;
    match running.ended.try_recv() {
        Ok(Err(error)) => Err(error.into()),
        _ => Ok(Outcome::Done),
    }
}

fn broken(error: &std::io::Error) -> CliError {
    CliError::new(format!("the terminal: {}", refusal(error)))
}

fn draw_until_left(
    terminal: &mut ratatui::DefaultTerminal,
    running: &Running,
    speed: Option<f64>,
) -> Result<(), CliError> {
    let (mut seen, mut speed) = (Seen::default(), speed);
    let mut nr_seen = 0;
    let watcher = &running.watcher;
    loop {
        let (frame, nr_frames) = watcher.frame();
        if let Some(frame) = &frame {
            if nr_frames != nr_seen {
                seen.see(frame);
                nr_seen = nr_frames;
            }
            let how = match (running.is_over.load(Ordering::Relaxed), watcher.pace()) {
                (true, _) => ", ended".to_owned(),
                (_, Pace::Paused) => ", stopped".to_owned(),
                (_, Pace::Free) => String::new(),
                (_, Pace::Every(_)) => format!(", x{:.3}", speed.unwrap_or(1.0)),
            };
            let bold = Style::new().add_modifier(Modifier::REVERSED);
            let drawn = terminal.draw(|screen| {
                let area = screen.area();
                let mut lines = vec![Line::styled(title(running, frame, &how), bold)];
                lines.extend(seen.lines(frame, usize::from(area.width)));
                lines.truncate(usize::from(area.height).saturating_sub(1));
                lines.push(Line::raw(KEYS));
                screen.render_widget(Paragraph::new(lines), area);
            });
            drawn.map_err(|error| broken(&error))?;
        }
        if !event::poll(PICTURES).map_err(|error| broken(&error))? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(|error| broken(&error))? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        let faster = |factor: f64| Some((speed.unwrap_or(1.0) * factor).clamp(1e-4, 1e4));
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Char(' ') if watcher.pace() == Pace::Paused => {
                watcher.set_pace(pace_of(speed, watcher.every_ns()));
            }
            KeyCode::Char(' ') => watcher.set_pace(Pace::Paused),
            KeyCode::Char('n') | KeyCode::Right => watcher.step(),
            KeyCode::Char('f') => {
                speed = None;
                watcher.set_pace(Pace::Free);
            }
            KeyCode::Char('+' | '=') => {
                speed = faster(2.0);
                watcher.set_pace(pace_of(speed, watcher.every_ns()));
            }
            KeyCode::Char('-') => {
                speed = faster(0.5);
                watcher.set_pace(pace_of(speed, watcher.every_ns()));
            }
            _ => {}
        }
    }
}
