//! Work on a thread of its own. Python's thread waits for it without the GIL, looks for Ctrl-C,
//! reports progress, and asks whether the caller still wants the result.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use highwater::experiment::Progress;
use highwater::sim::engine::Passed;
use pyo3::prelude::*;

use crate::error::{Failed, HighwaterError};

/// Between two looks at signals, the progress and the caller's `stop`.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Stopped work gets this long to end. A simulation notices within milliseconds; booting a large
/// machine and writing a file are not interrupted, and end behind the caller's back.
const GRACE: Duration = Duration::from_millis(800);
/// Stack of the thread that works, as large as a main thread's.
const STACK_BYTES: usize = 8 << 20;

/// The caller's interest in some work.
pub(crate) struct Caller {
    /// Called with the number of finished units and of all; `None`: not wanted.
    pub(crate) tell: Option<Py<PyAny>>,
    /// An event whose `is_set` says that the caller wants no more; `None`: there is none.
    pub(crate) stop: Option<Py<PyAny>>,
}

/// How far work is, and whether it shall stop. Shared by the two threads.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Finished units, and all.
    counted: Mutex<(usize, usize)>,
    /// Set when the work shall stop.
    pub(crate) stop: AtomicBool,
    clock: Arc<Passed>,
}

impl Watch {
    /// Something that is counted and is no unit.
    pub(crate) fn set(&self, done: usize, total: usize) {
        *self.counted() = (done, total);
    }

    /// The next part of a search, which counts from 0.
    pub(crate) fn part(&self) -> Part<'_> {
        self.set(0, 0);
        Part(self)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.clock.stop.store(true, Ordering::Relaxed);
    }

    fn counted(&self) -> MutexGuard<'_, (usize, usize)> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Watch {
    fn cell_done(&self, done: usize, total: usize) {
        // Threads report in any order.
        let mut counted = self.counted();
        *counted = (counted.0.max(done), total);
    }

    fn clock(&self) -> Option<&Arc<Passed>> {
        Some(&self.clock)
    }
}

/// The progress of a part of the work, for searches.
pub(crate) struct Part<'a>(&'a Watch);

impl Progress for Part<'_> {
    fn cell_done(&self, done: usize, total: usize) {
        self.0.cell_done(done, total);
    }

    fn clock(&self) -> Option<&Arc<Passed>> {
        self.0.clock()
    }
}

impl Caller {
    /// Does the work and returns its result.
    ///
    /// # Errors
    /// `KeyboardInterrupt` within a second after Ctrl-C, the error of the caller's function, or
    /// that of the work.
    pub(crate) fn wait<T, W>(&self, py: Python<'_>, work: W) -> PyResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Watch) -> Result<T, Failed> + Send + 'static,
    {
        let watch = Arc::new(Watch::default());
        let (send, receive) = mpsc::channel();
        let seen = Arc::clone(&watch);
        let thread = thread::Builder::new().name("highwater".to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&seen)));
            // The caller may have gone.
            let _ = send.send(result);
        });
        begun.map_err(|error| HighwaterError::new_err(format!("no thread: {error}")))?;
        let receive = Mutex::new(receive);
        let wait = |time: Duration| {
            py.detach(|| receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time))
        };
        let mut told = (0, 0);
        let result = loop {
            match wait(LOOK_EVERY) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(HighwaterError::new_err("the work ended without a result"));
                }
            }
            let look = py.check_signals().and_then(|()| self.tell(py, &watch, &mut told));
            if let Err(error) = look {
                watch.stop();
                let _ = wait(GRACE);
                return Err(error);
            }
            if self.wants_no_more(py)? {
                watch.stop();
                let _ = wait(GRACE);
                return Err(Failed::Stopped.into());
            }
        };
        let result = result.map_err(|panic| {
            HighwaterError::new_err(format!(
                "a defect of Highwater, please report it: {}",
                text_of(&*panic)
            ))
        })?;
        let value = result?;
        self.tell(py, &watch, &mut told)?;
        Ok(value)
    }

    fn tell(&self, py: Python<'_>, watch: &Watch, told: &mut (usize, usize)) -> PyResult<()> {
        let now = *watch.counted();
        match &self.tell {
            Some(tell) if now != *told => {
                *told = now;
                tell.call1(py, now).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn wants_no_more(&self, py: Python<'_>) -> PyResult<bool> {
        match &self.stop {
            Some(stop) => stop.call_method0(py, "is_set")?.extract(py),
            None => Ok(false),
        }
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
