//! `highwater watch`: shows a run in the terminal while it goes on, so that you see reclaim happen.
//!
//! The simulation has its own thread and publishes a look at fixed steps of virtual time
//! ([`crate::session`]). This module draws the latest look and reads keys. Without a keyboard,
//! `--at` prints one look.

mod draw;

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use highwater_results::words::refusal;

use super::args::WatchArgs;
use super::{CliError, Outcome, kernel_files, one_run, print};
use crate::session::Session;
use crate::watching::{Frame, Pace, Watcher};
use crate::workload::Registry;
use draw::Seen;

/// Pictures a second, at most.
const PICTURES: Duration = Duration::from_millis(50);
/// The keys and their meaning.
const KEYS: &str =
    "space: stop, go on   n: next look   + -: faster, slower   f: as fast as it can   q: end";

/// Watches a run.
pub(super) fn run(registry: &Registry, args: &WatchArgs) -> Result<Outcome, CliError> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.at.is_none() && !is_terminal {
        let reason = "needs a terminal, for its keys; --at TIME prints the screen of that time";
        return Err(CliError::new(format!("watch: {reason}")));
    }
    let mut plan = one_run::plan(registry, &args.run)?;
    kernel_files::of_looks(&args.cgroupfs, &mut plan, args.every)?;
    let watcher = Watcher::new(args.every);
    watcher.set_pace(pace_of(args.speed, args.every));
    let running = Session::start(plan, args.run.step.as_deref(), watcher)?;
    match args.at {
        Some(at_ns) => print_at(&running, at_ns),
        None => on_screen(&running, args.speed),
    }
}

/// Least time that a look stays, at this many seconds of virtual time per second of real time.
fn pace_of(speed: Option<f64>, every_ns: u64) -> Pace {
    speed.map_or(Pace::Free, |speed| {
        Pace::Every(Duration::from_secs_f64((every_ns as f64 / 1e9 / speed).min(3600.0)))
    })
}

fn title(running: &Session, frame: &Frame, how: &str) -> String {
    format!("{}: {:.3} s{how}", running.title(), frame.at_ns as f64 / 1e9)
}

/// One look as text.
fn print_at(running: &Session, at_ns: u64) -> Result<Outcome, CliError> {
    let mut seen = Seen::default();
    // Rates need two looks.
    let before_ns = at_ns.saturating_sub(running.watcher().every_ns());
    let is_over = || running.is_over();
    let look = |at_ns| running.watcher().frame_at(at_ns, is_over);
    if let Some(frame) = look(before_ns) {
        seen.see(&frame);
    }
    if let Some(frame) = look(at_ns) {
        seen.see(&frame);
        let lines = seen.lines(&frame, highwater_report::PAGE_WIDTH);
        print(&format!("{}\n{}", title(running, &frame, ""), draw::plain(&lines)))?;
        return Ok(Outcome::Done);
    }
    match running.ended() {
        Some(Err(error)) => Err(error.into()),
        _ => {
            let s = at_ns as f64 / 1e9;
            Err(CliError::new(format!("--at {s}: the run has ended before that")))
        }
    }
}

/// Draws until the user leaves.
fn on_screen(running: &Session, speed: Option<f64>) -> Result<Outcome, CliError> {
    let mut terminal = ratatui::try_init().map_err(|error| broken(&error))?;
    let result = draw_until_left(&mut terminal, running, speed);
    ratatui::restore();
    result?;
    match running.ended() {
        Some(Err(error)) => Err(error.into()),
        _ => Ok(Outcome::Done),
    }
}

fn broken(error: &std::io::Error) -> CliError {
    CliError::new(format!("the terminal: {}", refusal(error)))
}

fn draw_until_left(
    terminal: &mut ratatui::DefaultTerminal,
    running: &Session,
    speed: Option<f64>,
) -> Result<(), CliError> {
    let (mut seen, mut speed) = (Seen::default(), speed);
    let mut nr_seen = 0;
    let watcher = running.watcher();
    loop {
        let (frame, nr_frames) = watcher.frame();
        if let Some(frame) = &frame {
            if nr_frames != nr_seen {
                seen.see(frame);
                nr_seen = nr_frames;
            }
            let how = match (running.is_over(), watcher.pace()) {
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
