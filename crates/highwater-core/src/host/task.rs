//! Waiting and waking: what tasks ask of a host beyond locks and time.

use super::Host;

/// A host whose callers are tasks that can wait for each other.
pub trait Tasks: Host {
    /// Names a task of this host.
    type Task: Clone + Send;

    /// The running task.
    fn current(&self) -> Self::Task;

    /// Waits until somebody unparks this task; returns at once if that happened since its last
    /// wait. May return early: callers check their condition again. `why` appears in reports of
    /// stuck tasks.
    fn park(&self, why: &'static str);

    /// Like [`Tasks::park`], for `timeout` timer ticks at most, rounded as the kernel's timer
    /// wheel does. Returns the ticks that were left (`schedule_timeout`), 0 if time ran out.
    fn park_jiffies(&self, why: &'static str, timeout: u64) -> u64;

    /// Ends the wait of a task, or its next one.
    fn unpark(&self, task: &Self::Task);
}
