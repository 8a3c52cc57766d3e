//! Results of a benchmark's tasks when they end.

use highwater_core::kernel::Error;
use highwater_results::Times;
use highwater_sim::engine::JoinHandle;

use super::RunError;
use super::harness::{Timed, lost};

/// A task of a benchmark.
pub type Worker<T> = JoinHandle<Timed<Result<T, Error>>>;

/// CPU times of the ended tasks, and the first failure. A failure is reported only when all tasks
/// have ended, because a benchmark that leaves tasks behind would run forever.
#[derive(Debug)]
pub struct Ends {
    workload: &'static str,
    times: Times,
    error: Option<RunError>,
}

impl Ends {
    /// None has ended yet.
    pub fn new(workload: &'static str) -> Ends {
        Ends { workload, times: Times::default(), error: None }
    }

    /// Waits for a worker; returns its result, or the default if it failed.
    pub fn of<T: Default>(&mut self, worker: Worker<T>) -> T {
        let Some((result, used)) = worker.join() else {
            self.failed(lost("worker"));
            return T::default();
        };
        self.times.user_ns += used.user_ns;
        self.times.system_ns += used.system_ns;
        result.unwrap_or_else(|error| {
            self.failed(RunError::of(self.workload, error));
            T::default()
        })
    }

    /// Waits for all workers of a kind; returns the sum of their results.
    pub fn add_up(&mut self, workers: Vec<Worker<u64>>) -> u64 {
        workers.into_iter().map(|worker| self.of(worker)).sum()
    }

    /// Something went wrong.
    pub fn failed(&mut self, error: RunError) {
        self.error.get_or_insert(error);
    }

    /// True if something did.
    pub const fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// CPU times of all tasks.
    ///
    /// # Errors
    /// The first failure.
    pub fn times(self) -> Result<Times, RunError> {
        self.error.map_or(Ok(self.times), Err)
    }
}
