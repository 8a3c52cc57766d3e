//! The signal that ends workers.

use std::sync::{Arc, Mutex, PoisonError};

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use highwater_core::host::{Cx, Host, Signals, TaskFlags};

/// Set once. Workers look at it between operations; who has enlisted gets a fatal signal besides, as
/// from `kill`: it ends after the page fault or the write that it is in, not after a whole sweep.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    enlisted: Mutex<Vec<Arc<Signals>>>,
}

impl Stop {
    /// Asks the workers to end.
    pub fn set(&self) {
        self.is_set.store(true, SeqCst);
        let enlisted = self.enlisted.lock().unwrap_or_else(PoisonError::into_inner);
        enlisted.iter().for_each(|signals| signals.raise(TaskFlags::FATAL_SIGNAL));
    }

    /// True once they were asked.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    /// The running task is to be killed.
    pub(crate) fn enlist<H: Host>(&self, cx: &Cx<'_, H>) {
        let mut enlisted = self.enlisted.lock().unwrap_or_else(PoisonError::into_inner);
        enlisted.push(Arc::clone(cx.signals()));
        if self.is_set() {
            cx.signals().raise(TaskFlags::FATAL_SIGNAL);
        }
    }
}
