//! The primitives under locks and leases: the standard library's, or loom's under `--cfg loom`.
//!
//! [`MutPtr`] is a pointer that loom watches for as long as it lives; without loom it is only a
//! pointer. `relax` is one step of waiting.

#[cfg(loom)]
pub(crate) use loom::{
    cell::{MutPtr, UnsafeCell},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering, fence},
    },
};

#[cfg(not(loom))]
pub(crate) use self::plain::{MutPtr, UnsafeCell};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, Ordering, fence},
};

/// Spins before the waiter lets other threads run: ten to forty microseconds, by processor.
const SPINS: u32 = 1024;
/// Spins between two looks at a lock that its holder may take again.
///
/// A lock that changes hands moves all data that it protects along: about a hundred nanoseconds or
/// more for each cache line, if cores are far from each other. So a waiter looks seldom. Meanwhile
/// the holder takes the lock repeatedly with all lines local, and both make faster progress than if
/// they took turns.
const SELDOM: u32 = 128;
/// Spins between two looks for a thread that will not take the lock again before the waiter had it.
const OFTEN: u32 = 4;
/// Yields to the OS before a waiter starts to sleep.
const YIELDS: u32 = 64;
/// Sleep of a waiter when yielding did not help: the holder is not running.
const NAP: core::time::Duration = core::time::Duration::from_micros(50);

/// Waiting for another thread: spins at first, then lets others run, then naps.
///
/// Bounded by the other threads' progress: a waiter for a contended lock gets its share by chance,
/// not in turn.
pub(crate) struct Wait {
    spins: u32,
    steps: u32,
}

impl Wait {
    /// A wait for a lock that others may take again meanwhile.
    pub(crate) fn seldom() -> Wait {
        Wait { spins: SELDOM, steps: 0 }
    }

    /// A wait for something that the waiter gets as soon as it is free.
    pub(crate) fn often() -> Wait {
        Wait { spins: OFTEN, steps: 0 }
    }

    /// One step of waiting.
    pub(crate) fn relax(&mut self) {
        let looks = SPINS / self.spins;
        self.steps += 1;
        if cfg!(loom) {
            yield_now();
        } else if self.steps <= looks {
            (0..self.spins).for_each(|_| core::hint::spin_loop());
        } else if self.steps <= looks + YIELDS {
            // The holder may be descheduled: spinning would keep it from running.
            yield_now();
        } else {
            self.steps = looks + YIELDS;
            std::thread::sleep(NAP);
        }
    }
}

/// Lets another thread run.
pub(crate) fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(not(loom))]
mod plain {
    /// [`core::cell::UnsafeCell`] with loom's interface.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            UnsafeCell(core::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }
    }

    /// A pointer into an [`UnsafeCell`].
    #[derive(Debug)]
    pub(crate) struct MutPtr<T>(*mut T);

    impl<T> MutPtr<T> {
        /// The value.
        ///
        /// # Safety
        /// The cell is alive and no other thread accesses its value while the reference lives.
        #[allow(unsafe_code, reason = "mirrors loom's interface; callers carry the proof")]
        #[allow(clippy::mut_from_ref, reason = "as loom's")]
        #[inline(always)]
        pub(crate) unsafe fn deref(&self) -> &mut T {
            // SAFETY: the caller guarantees it.
            unsafe { &mut *self.0 }
        }
    }
}
