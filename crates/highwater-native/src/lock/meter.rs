//! What locks can tell about themselves, as lock_stat does.
//!
//! A lock has a [`LockMeter`] only if the host was made with lock statistics; without one the cost
//! is a test of a pointer in the lock's own cache line. Counts are written by the holder of the
//! lock, so they need no locked instruction either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use highwater_core::sync::bump;
use highwater_core::sync::order::LockClass;

/// Counts of one lock. Written under that lock, read at any time.
#[derive(Debug)]
pub struct LockMeter {
    class: LockClass,
    takings: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
}

/// Counts of one lock or of a class of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockReport {
    /// How often it was taken.
    pub takings: u64,
    /// How often the taker had to wait.
    pub contended: u64,
    /// Time spent waiting.
    pub wait_ns: u64,
}

impl LockMeter {
    /// Nothing counted yet.
    pub fn new(class: LockClass) -> LockMeter {
        let zero = || AtomicU64::new(0);
        LockMeter { class, takings: zero(), contended: zero(), wait_ns: zero() }
    }

    /// The class of the lock.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// What was counted so far.
    pub fn counts(&self) -> LockReport {
        LockReport {
            takings: self.takings.load(Relaxed),
            contended: self.contended.load(Relaxed),
            wait_ns: self.wait_ns.load(Relaxed),
        }
    }
}

impl core::ops::AddAssign for LockReport {
    fn add_assign(&mut self, other: LockReport) {
        self.takings += other.takings;
        self.contended += other.contended;
        self.wait_ns += other.wait_ns;
    }
}

/// A lock's meter, if it has one.
pub(super) struct Meter(pub(super) Option<Arc<LockMeter>>);

impl Meter {
    /// The caller holds the lock since just now.
    #[inline(always)]
    pub(super) fn taken(&self) {
        if let Some(meter) = &self.0 {
            bump(&meter.takings, 1);
        }
    }
}

/// A wait that has begun.
pub(super) struct Waited(Option<Instant>);

impl Waited {
    pub(super) fn start(meter: &Meter) -> Waited {
        Waited(meter.0.is_some().then(Instant::now))
    }

    /// The wait is over and the caller holds the lock.
    pub(super) fn end(self, meter: &Meter) {
        if let (Some(start), Some(meter)) = (self.0, &meter.0) {
            bump(&meter.contended, 1);
            bump(&meter.wait_ns, start.elapsed().as_nanos() as u64);
        }
    }
}
