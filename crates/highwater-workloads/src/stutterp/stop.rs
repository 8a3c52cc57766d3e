//! The signal that ends workers.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Set once; workers look at it after each operation.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks the workers to end.
    pub fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// True once they were asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}
