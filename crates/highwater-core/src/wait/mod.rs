//! Sleeping: wait queues and a reader-writer lock over which tasks sleep.
//!
//! Both are built on a host's park and unpark ([`crate::host::Tasks`]). Spinning locks belong to
//! the host ([`crate::host::Lock`]).

mod queue;
mod rwsem;

pub use queue::WaitQueue;
pub use rwsem::{Newcomers, ReadGuard, RwSem, RwSemRules, WriteGuard};
