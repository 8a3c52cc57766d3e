//! Waiting and waking: what a host provides for tasks beyond locks and time.

use super::Host;

/// A host whose callers are tasks that can wait for each other.
pub trait Tasks: Host {
    /// Names a task of this host.
    type Task: Clone + Send;

    /// The running task.
    fn current(&self) -> Self::Task;

    /// Waits until another task unparks this one; returns at once if that happened since its last
    /// wait. May return early, so callers check their condition again. `why` appears in reports of
    /// stuck tasks.
    fn park(&self, why: &'static str);

    /// Like [`Tasks::park`], for `timeout` timer ticks at most, rounded as the kernel's timer
    /// wheel does. Returns the ticks that were left (`schedule_timeout`), 0 if time ran out.
    fn park_jiffies(&self, why: &'static str, timeout: u64) -> u64;

    /// Ends the wait of a task, or its next one.
    fn unpark(&self, task: &Self::Task);

    /// True if [`Tasks::is_on_cpu`] works. If false, no task spins for a sleeping lock.
    const KNOWS_WHO_RUNS: bool = false;

    /// The running task as a number below 2^62, for [`Tasks::is_on_cpu`].
    #[inline(always)]
    fn current_word(&self) -> u64 {
        0
    }

    /// True if a task has a CPU now (`on_cpu`). Asked only if [`Tasks::KNOWS_WHO_RUNS`].
    fn is_on_cpu(&self, word: u64) -> bool {
        let _ = word;
        false
    }

    /// Keeps the CPU busy for about `ns` (`cpu_relax` in a loop). Others run meanwhile, here too if it is their turn.
    fn relax(&self, ns: u64) {
        let _ = ns;
        core::hint::spin_loop();
    }

    /// Runs all events earlier than the caller's clock. Only the simulator needs it: its tasks run ahead of each other.
    #[inline(always)]
    fn settle(&self) {}
}
