//! The tasks of an address space, as other tasks use them: signals, and waking.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Mm;
use crate::host::{Cx, Lock, Signals, TaskFlags, Tasks};

/// A task that runs in an address space.
pub struct MmTask<H: Tasks> {
    pub(crate) signals: Arc<Signals>,
    pub(crate) task: H::Task,
}

impl<H: Tasks> Clone for MmTask<H> {
    fn clone(&self) -> Self {
        MmTask { signals: Arc::clone(&self.signals), task: self.task.clone() }
    }
}

impl<H: Tasks> Mm<H> {
    /// The running task belongs to this mm from now on, so the OOM killer can choose it. An mm
    /// without tasks is never chosen.
    pub fn add_task(&self, cx: &Cx<'_, H>) {
        let new = MmTask { signals: Arc::clone(cx.signals()), task: cx.host.current() };
        let mut tasks = self.tasks.lock(cx.cpu());
        if !tasks.iter().any(|task| Arc::ptr_eq(&task.signals, &new.signals)) {
            tasks.push(new);
        }
    }

    /// The running task leaves the mm (it exits).
    pub fn remove_task(&self, cx: &Cx<'_, H>) {
        self.tasks.lock(cx.cpu()).retain(|task| !Arc::ptr_eq(&task.signals, cx.signals()));
    }

    /// True if the running task belongs to the mm.
    pub(crate) fn has_task(&self, cx: &Cx<'_, H>) -> bool {
        self.tasks.lock(cx.cpu()).iter().any(|task| Arc::ptr_eq(&task.signals, cx.signals()))
    }

    /// Tasks of the mm.
    pub fn nr_tasks(&self, cx: &Cx<'_, H>) -> usize {
        self.tasks.lock(cx.cpu()).len()
    }

    /// True if there is a task of which something holds.
    pub(crate) fn any_task(&self, cx: &Cx<'_, H>, holds: impl Fn(&Signals) -> bool) -> bool {
        self.tasks.lock(cx.cpu()).iter().any(|task| holds(&task.signals))
    }

    /// Sets flags on every task and ends its wait: killable sleeps look at the flags again, others
    /// go on waiting.
    pub(crate) fn signal_tasks(&self, cx: &Cx<'_, H>, flags: TaskFlags) {
        let tasks: Vec<MmTask<H>> = self.tasks.lock(cx.cpu()).clone();
        for task in &tasks {
            task.signals.raise(flags);
        }
        for task in &tasks {
            cx.host.unpark(&task.task);
        }
    }
}
