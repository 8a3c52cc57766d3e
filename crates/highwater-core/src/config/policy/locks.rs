//! Switches of locks over which tasks sleep: a page's, an address space's, a file's.

use super::table::policy;
use crate::wait::{Newcomers, RwSemRules};

policy! {
    /// Locks over which tasks sleep.
    // rules/sleeping-locks
    LocksPolicy {
        /// How a released page lock passes to the next waiter.
        // rules/sleeping-locks#page-walk, rules/sleeping-locks#page-unfair
        page_lock: PageLockRule = Retry {
            /// A woken waiter competes with all other tasks again, without limit (up to 5.8).
            Retry,
            /// A waiter that lost five times is handed the lock; a task that waits for a read to
            /// end does not check the page again (5.9 on).
            HandOver,
        },
        /// Waiting readers that enter together when a reader-writer semaphore is free.
        // rules/sleeping-locks#rwsem-release
        rwsem_readers: RwsemReaders = ToNextWriter {
            /// Those before the next writer (up to 5.1).
            ToNextWriter,
            /// All waiting readers, at most 256, also those behind writers (5.2 on).
            All,
        },
        /// A writer that waited longer than a tick for a reader-writer semaphore is handed it (5.2
        /// on).
        // rules/sleeping-locks#rwsem-handoff
        rwsem_handoff: bool = false,
        /// Action of a reader when a reader-writer semaphore is taken or has waiters.
        // rules/sleeping-locks#rwsem-read, rules/sleeping-locks#rwsem-spin
        rwsem_newcomers: RwsemNewcomers = Queue {
            /// It sleeps behind the waiters (up to 5.2).
            Queue,
            /// It spins while the owner runs, as writers do on all kernels (5.3 to 5.10).
            Spin,
            /// It overtakes the waiters, if no writer holds the semaphore and no other reader did
            /// so (5.11 on).
            Steal,
        },
    }
}

impl LocksPolicy {
    /// What semaphores ask.
    pub(crate) fn rwsem(&self) -> RwSemRules {
        RwSemRules {
            readers_pass_writers: self.rwsem_readers == RwsemReaders::All,
            hands_off: self.rwsem_handoff,
            newcomers: match self.rwsem_newcomers {
                RwsemNewcomers::Queue => Newcomers::Queue,
                RwsemNewcomers::Spin => Newcomers::Spin,
                RwsemNewcomers::Steal => Newcomers::Steal,
            },
        }
    }
}
