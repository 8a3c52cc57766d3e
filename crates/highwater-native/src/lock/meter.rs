//! Statistics of locks in real time, as in lock_stat.
//!
//! A lock has a [`LockMeter`] only if the host was made with lock statistics. Without one the cost
//! is a test in the lock's own cache line when it is taken and when it is released. The holder of
//! the lock writes the counts, so they need no locked instruction either. Timing holds costs two
//! clock reads each and must be enabled separately.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
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
    wait_ns_max: AtomicU64,
    holds: Option<Holds>,
}

/// Times of holds.
#[derive(Debug)]
struct Holds {
    epoch: Instant,
    /// Time at which the holder took the lock, since `epoch`.
    since_ns: AtomicU64,
    ns: AtomicU64,
    ns_max: AtomicU64,
    /// Name of the thread with the longest hold. Only the reader of a report waits for this mutex.
    longest: Mutex<String>,
}

/// Counts of one lock or of a class of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockReport {
    /// Number of times that it was taken.
    pub takings: u64,
    /// Number of times that the taker had to wait.
    pub contended: u64,
    /// Time spent waiting.
    pub wait_ns: u64,
    /// Longest wait.
    pub wait_ns_max: u64,
    /// Time it was held; 0 if holds are not timed.
    pub hold_ns: u64,
    /// Longest hold.
    pub hold_ns_max: u64,
    /// Name of the thread that held it longest; empty if it is not known.
    pub worst_holder: String,
}

impl LockMeter {
    /// A meter without counts.
    pub fn new(class: LockClass) -> LockMeter {
        let zero = || AtomicU64::new(0);
        let (takings, contended) = (zero(), zero());
        LockMeter { class, takings, contended, wait_ns: zero(), wait_ns_max: zero(), holds: None }
    }

    /// The same; holds are timed.
    pub fn with_hold_times(class: LockClass) -> LockMeter {
        let zero = || AtomicU64::new(0);
        let holds = Holds {
            epoch: Instant::now(),
            since_ns: zero(),
            ns: zero(),
            ns_max: zero(),
            longest: Mutex::default(),
        };
        LockMeter { holds: Some(holds), ..LockMeter::new(class) }
    }

    /// The class of the lock.
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// The counts so far.
    pub fn counts(&self) -> LockReport {
        let mut report = LockReport {
            takings: self.takings.load(Relaxed),
            contended: self.contended.load(Relaxed),
            wait_ns: self.wait_ns.load(Relaxed),
            wait_ns_max: self.wait_ns_max.load(Relaxed),
            ..LockReport::default()
        };
        if let Some(holds) = &self.holds {
            report.hold_ns = holds.ns.load(Relaxed);
            report.hold_ns_max = holds.ns_max.load(Relaxed);
            report.worst_holder.clone_from(&holds.longest());
        }
        report
    }
}

impl Holds {
    fn longest(&self) -> std::sync::MutexGuard<'_, String> {
        // The name is always complete, even if a thread panicked while writing it.
        self.longest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    #[cold]
    fn begin(&self) {
        self.since_ns.store(self.now_ns(), Relaxed);
    }

    #[cold]
    fn end(&self) {
        let ns = self.now_ns().saturating_sub(self.since_ns.load(Relaxed));
        bump(&self.ns, ns);
        if ns > self.ns_max.load(Relaxed) {
            self.ns_max.store(ns, Relaxed);
            let thread = std::thread::current();
            let mut longest = self.longest();
            longest.clear();
            longest.push_str(thread.name().unwrap_or("a thread without a name"));
        }
    }
}

impl core::ops::AddAssign for LockReport {
    fn add_assign(&mut self, other: LockReport) {
        self.takings += other.takings;
        self.contended += other.contended;
        self.wait_ns += other.wait_ns;
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
        self.hold_ns += other.hold_ns;
        if other.hold_ns_max > self.hold_ns_max {
            self.hold_ns_max = other.hold_ns_max;
            self.worst_holder = other.worst_holder;
        }
    }
}

/// A lock's meter, if it has one.
pub(super) struct Meter(pub(super) Option<Arc<LockMeter>>);

impl Meter {
    /// Records that the caller has just taken the lock.
    #[inline(always)]
    pub(super) fn taken(&self) {
        if let Some(meter) = &self.0 {
            bump(&meter.takings, 1);
            if let Some(holds) = &meter.holds {
                holds.begin();
            }
        }
    }

    /// Records that the caller, who holds the lock, is about to release it.
    #[inline(always)]
    pub(super) fn released(&self) {
        if let Some(meter) = &self.0
            && let Some(holds) = &meter.holds
        {
            holds.end();
        }
    }
}

/// A wait that has begun.
pub(super) struct Waited(Option<Instant>);

impl Waited {
    pub(super) fn start(meter: &Meter) -> Waited {
        Waited(meter.0.is_some().then(Instant::now))
    }

    /// Ends the wait: the caller holds the lock now.
    pub(super) fn end(self, meter: &Meter) {
        if let (Some(start), Some(meter)) = (self.0, &meter.0) {
            let ns = start.elapsed().as_nanos() as u64;
            bump(&meter.contended, 1);
            bump(&meter.wait_ns, ns);
            if ns > meter.wait_ns_max.load(Relaxed) {
                meter.wait_ns_max.store(ns, Relaxed);
            }
        }
    }
}
