//! Ctrl-C and SIGTERM: the process ends at once, and finished results stay.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{CliError, complain, progress};
use crate::experiment::unit::UnitStore;
use crate::ledger::Ledger;
use highwater_results::words::{count, is, refusal};

/// The library's question whether to stop is not needed: the process ends instead.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// Resources at exit: what a signal must clean up, and what it keeps.
#[derive(Default)]
pub(super) struct AtEnd {
    /// The directory that was made for results; it is removed if it is empty.
    pub(super) made: Option<PathBuf>,
    /// Finished units, which stay.
    pub(super) units: Option<Arc<UnitStore>>,
    /// The same of a sweep.
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl AtEnd {
    /// The number of finished runs, and how to continue; none if there are none.
    fn said(&self) -> Option<String> {
        let units = self
            .units
            .as_ref()
            .map(|units| (units.len(), units.dir(), "the same command with --resume continues"));
        let ledger = self.ledger.as_ref().map(|ledger| {
            let nr = ledger.ids().map_or(0, |ids| ids.len());
            (nr, ledger.units_dir(), "the same command continues")
        });
        let (nr, dir, next) = units.or(ledger).filter(|(nr, ..)| *nr > 0)?;
        let (runs, are, dir) = (count(nr, "finished run"), is(nr), dir.display());
        Some(format!("interrupted; {runs} {are} kept in {dir}: {next}"))
    }
}

/// Signal state: whether a signal may end the process now.
pub(super) struct Interrupts {
    state: Mutex<State>,
    at_end: AtEnd,
}

/// Whether a signal may end the process now.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    /// Results are being written: a signal waits.
    is_keeping: bool,
    /// The signal that waits.
    waiting: Option<i32>,
}

impl State {
    /// A signal has come: returns it if it ends the process now.
    fn came(&mut self, signal: i32) -> Option<i32> {
        match self.is_keeping {
            true => {
                // Of several the first says how the process ends.
                self.waiting.get_or_insert(signal);
                None
            }
            false => Some(signal),
        }
    }

    /// Results are written: returns a signal that came meanwhile.
    fn written(&mut self) -> Option<i32> {
        self.is_keeping = false;
        self.waiting.take()
    }
}

impl Interrupts {
    /// Results are being written. A signal waits until the end, so that the files are complete.
    pub(super) fn begin_keeping(&self) {
        self.lock().is_keeping = true;
    }

    /// Results are written: a signal that came meanwhile ends the process.
    pub(super) fn end_keeping(&self) {
        let mut state = self.lock();
        if let Some(signal) = state.written() {
            end(signal, &self.at_end);
        }
    }

    fn came(&self, signal: i32) {
        // Hold the lock until exit, so that no thread begins to write results.
        let mut state = self.lock();
        if let Some(signal) = state.came(signal) {
            end(signal, &self.at_end);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From now on SIGINT and SIGTERM end the process at once, with status 130 and 143. They wait while
/// results are being written, which the caller marks on the returned object.
pub(super) fn exit_on_interrupt(at_end: AtEnd) -> Result<Arc<Interrupts>, CliError> {
    let interrupts = Arc::new(Interrupts { state: Mutex::default(), at_end });
    let seen = Arc::clone(&interrupts);
    let cannot = |error| CliError::new(format!("cannot watch for interrupts: {}", refusal(&error)));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            seen.came(signal);
        }
    });
    Ok(interrupts)
}

fn end(signal: i32, at_end: &AtEnd) -> ! {
    // Nobody writes a unit from here on.
    let paused = at_end.units.as_ref().map(|units| units.pause());
    let paused = (paused, at_end.ledger.as_ref().map(|ledger| ledger.pause()));
    progress::clear();
    complain(at_end.said().as_deref().unwrap_or("interrupted"));
    if let Some(made) = &at_end.made {
        // This removes only an empty directory. Leaving it behind does no harm.
        let _ = std::fs::remove_dir(made);
    }
    drop(paused);
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_while_results_are_written_is_not_lost() {
        let mut state = State::default();
        assert_eq!(state.came(SIGTERM), Some(SIGTERM));
        state.is_keeping = true;
        assert_eq!((state.came(SIGTERM), state.came(SIGINT)), (None, None));
        assert_eq!(state.written(), Some(SIGTERM));
        assert_eq!(state, State::default());
        state.is_keeping = true;
        assert_eq!(state.written(), None);
    }
}
