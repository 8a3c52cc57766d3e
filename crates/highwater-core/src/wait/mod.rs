//! Sleeping: wait queues and a reader-writer lock over which tasks sleep.
//!
//! Both are made of what a host offers its tasks ([`crate::host::Tasks`]: park and unpark); locks that
//! spin are the host's own ([`crate::host::Lock`]).

mod queue;
mod rwsem;

pub use queue::WaitQueue;
pub use rwsem::{Newcomers, ReadGuard, RwSem, RwSemRules, WriteGuard};
