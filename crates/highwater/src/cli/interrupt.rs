//! Ctrl-C and SIGTERM: the process ends at once, and what is finished stays.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{CliError, complain, progress};
use crate::experiment::unit::UnitStore;

/// The library's question whether to stop is not needed: the process ends instead.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// What a signal must not leave behind, and what it leaves.
#[derive(Default)]
pub(super) struct AtEnd {
    /// The directory that was made for results: removed if nothing is in it.
    pub(super) made: Option<PathBuf>,
    /// Finished units, which stay.
    pub(super) units: Option<Arc<UnitStore>>,
}

/// From now on SIGINT and SIGTERM end the process at once, with status 130 and 143; but not while results are being
/// written, which the caller says by setting what is returned: files are whole or not there.
pub(super) fn exit_on_interrupt(at_end: AtEnd) -> Result<Arc<AtomicBool>, CliError> {
    let is_keeping = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_keeping);
    let cannot = |error| CliError::new(format!("cannot watch for interrupts: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if !seen.load(Ordering::Relaxed) {
                end(signal, &at_end);
            }
        }
    });
    Ok(is_keeping)
}

fn end(signal: i32, at_end: &AtEnd) -> ! {
    // Nobody writes a unit from here on.
    let paused = at_end.units.as_ref().map(|units| units.pause());
    progress::clear();
    let said = at_end.units.as_ref().and_then(|units| {
        let nr = units.len();
        let runs = if nr == 1 { "finished run is" } else { "finished runs are" };
        let dir = units.dir().display();
        let next = "the same command with --resume continues";
        (nr > 0).then(|| format!("interrupted; {nr} {runs} kept in {dir}: {next}"))
    });
    complain(said.as_deref().unwrap_or("interrupted"));
    if let Some(made) = &at_end.made {
        // Only if it is empty; and one that stays does no harm.
        let _ = std::fs::remove_dir(made);
    }
    drop(paused);
    std::process::exit(128 + signal)
}
