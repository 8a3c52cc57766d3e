//! The signal that ends workers.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use highwater_core::host::{Cx, Host, Signals, TaskFlags};

/// A flag that is set once. Workers check it between operations. A task that has enlisted also gets
/// a fatal signal, as from `kill`: it ends after its current page fault or write, not after a whole
/// sweep.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    /// Tasks that have ended are forgotten when the list is full.
    enlisted: Mutex<Vec<Weak<Signals>>>,
}

impl Stop {
    /// Stops the workers.
    pub fn set(&self) {
        self.is_set.store(true, SeqCst);
        let enlisted = self.enlisted.lock().unwrap_or_else(PoisonError::into_inner);
        let living = enlisted.iter().filter_map(Weak::upgrade);
        living.for_each(|signals| signals.raise(TaskFlags::FATAL_SIGNAL));
    }

    /// True once the workers were told to stop.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    /// Registers the running task to be killed.
    pub(crate) fn enlist<H: Host>(&self, cx: &Cx<'_, H>) {
        let mut enlisted = self.enlisted.lock().unwrap_or_else(PoisonError::into_inner);
        if enlisted.len() == enlisted.capacity() {
            enlisted.retain(|signals| signals.strong_count() > 0);
        }
        enlisted.push(Arc::downgrade(cx.signals()));
        if self.is_set() {
            cx.signals().raise(TaskFlags::FATAL_SIGNAL);
        }
    }
}
