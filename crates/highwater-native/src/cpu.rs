//! Logical CPUs, leased to threads.
//!
//! A machine has N CPUs; a thread runs on one while it holds its [`CpuLease`]. A lease is exclusive
//! (one thread per CPU, one CPU per thread) and bound to its thread, so holding it *proves* that no
//! other thread acts as that CPU. [`crate::lock::CpuLock`] builds on that proof:
//!
//! ```text
//! lease of CPU 2 of host H            thread-local "which CPU am I?"      lock of CPU 2 of host H
//!   slot 2 taken           enter -->    badge 7002                ==        owner badge 7002
//! ```
//!
//! A badge is a number that names one CPU of one host, never used twice in a process. 0 is no CPU.
//!
//! Synchronisation: slots are behind a mutex, so one thread's actions as a CPU happen before the
//! next thread's actions as that CPU.

use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use highwater_core::host::{CpuId, NoSuchCpu};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::sync::{Condvar, Mutex};

/// Names one CPU of one host for the life of the process; 0 names none.
pub(crate) type Badge = u64;

/// Next unused badge.
static NEXT_BADGE: AtomicU64 = AtomicU64::new(1);

#[cfg(not(loom))]
mod current {
    use super::Badge;
    use core::cell::Cell;

    thread_local! {
        static BADGE: Cell<Badge> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(crate) fn badge() -> Badge {
        BADGE.get()
    }

    pub(super) fn set_badge(badge: Badge) {
        BADGE.set(badge);
    }
}

#[cfg(loom)]
mod current {
    use super::Badge;
    use core::cell::Cell;

    loom::thread_local! {
        static BADGE: Cell<Badge> = Cell::new(0);
    }

    pub(crate) fn badge() -> Badge {
        BADGE.with(Cell::get)
    }

    pub(super) fn set_badge(badge: Badge) {
        BADGE.with(|b| b.set(badge));
    }
}

pub(crate) use current::badge;

/// The reason why a thread cannot run on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The machine has fewer CPUs.
    #[error("{0}")]
    NoSuchCpu(NoSuchCpu),
    /// Another thread runs on it.
    #[error("CPU {} is in use", .0.0)]
    Busy(CpuId),
    /// The calling thread runs on a CPU already.
    #[error("this thread runs on a CPU already")]
    HasCpu,
    /// The OS refused to pin the thread.
    #[error("cannot pin the thread: {0}")]
    Pin(rustix::io::Errno),
}

/// The CPUs of a host.
#[derive(Debug)]
pub struct Cpus {
    taken: Mutex<Vec<bool>>,
    freed: Condvar,
    first_badge: Badge,
    nr_cpus: usize,
    /// Real cores that leases pin to, round robin; empty = no pinning.
    cores: Vec<usize>,
}

impl Cpus {
    /// `nr_cpus` free CPUs. With `pin`, leases bind their thread to a real core.
    ///
    /// # Errors
    /// If pinning is requested and the set of real cores cannot be read.
    pub fn new(nr_cpus: usize, pin: bool) -> Result<Arc<Cpus>, LeaseError> {
        let cores = match pin {
            false => Vec::new(),
            true => {
                let allowed = sched_getaffinity(None).map_err(LeaseError::Pin)?;
                (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
            }
        };
        let first_badge =
            NEXT_BADGE.fetch_add(nr_cpus as u64, std::sync::atomic::Ordering::Relaxed);
        let taken = Mutex::new(vec![false; nr_cpus]);
        Ok(Arc::new(Cpus { taken, freed: Condvar::new(), first_badge, nr_cpus, cores }))
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.nr_cpus
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.nr_cpus == 0
    }

    /// Runs the calling thread on `cpu`, waiting until it is free.
    ///
    /// # Errors
    /// If there is no such CPU, the thread has one already, or it cannot be pinned.
    pub fn enter(self: &Arc<Self>, cpu: CpuId) -> Result<CpuLease, LeaseError> {
        self.check(cpu)?;
        let mut taken = self.lock_slots();
        while taken[cpu.idx()] {
            taken = self.freed.wait(taken).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        taken[cpu.idx()] = true;
        drop(taken);
        self.start(cpu)
    }

    /// As [`Self::enter`], without waiting.
    ///
    /// # Errors
    /// As [`Self::enter`], and if another thread runs on the CPU.
    pub fn try_enter(self: &Arc<Self>, cpu: CpuId) -> Result<CpuLease, LeaseError> {
        self.check(cpu)?;
        let mut taken = self.lock_slots();
        if core::mem::replace(&mut taken[cpu.idx()], true) {
            return Err(LeaseError::Busy(cpu));
        }
        drop(taken);
        self.start(cpu)
    }

    /// The badge of a CPU, if there is such a CPU.
    pub(crate) fn badge_of(&self, cpu: CpuId) -> Option<Badge> {
        (cpu.idx() < self.nr_cpus).then(|| self.first_badge + cpu.idx() as u64)
    }

    fn check(&self, cpu: CpuId) -> Result<(), LeaseError> {
        if cpu.idx() >= self.nr_cpus {
            return Err(self.no_such_cpu(cpu));
        }
        if badge() != 0 { Err(LeaseError::HasCpu) } else { Ok(()) }
    }

    fn no_such_cpu(&self, cpu: CpuId) -> LeaseError {
        LeaseError::NoSuchCpu(NoSuchCpu { cpu, nr_cpus: self.nr_cpus })
    }

    /// Makes the calling thread that CPU; the caller has taken the slot.
    fn start(self: &Arc<Self>, cpu: CpuId) -> Result<CpuLease, LeaseError> {
        current::set_badge(self.badge_of(cpu).ok_or_else(|| self.no_such_cpu(cpu))?);
        let mut lease =
            CpuLease { cpus: Arc::clone(self), cpu, unpinned: None, not_send: PhantomData };
        if !self.cores.is_empty() {
            // On an error the lease drops, which frees the slot.
            let before = sched_getaffinity(None).map_err(LeaseError::Pin)?;
            let mut core = CpuSet::new();
            core.set(self.cores[cpu.idx() % self.cores.len()]);
            sched_setaffinity(None, &core).map_err(LeaseError::Pin)?;
            lease.unpinned = Some(before);
        }
        Ok(lease)
    }

    #[cfg(not(loom))]
    fn lock_slots(&self) -> std::sync::MutexGuard<'_, Vec<bool>> {
        // A panic cannot leave the slots half changed: each change is one store.
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[cfg(loom)]
    fn lock_slots(&self) -> loom::sync::MutexGuard<'_, Vec<bool>> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The calling thread runs on a CPU until this is dropped.
#[derive(Debug)]
pub struct CpuLease {
    cpus: Arc<Cpus>,
    cpu: CpuId,
    /// The thread's affinity before it was pinned.
    unpinned: Option<CpuSet>,
    /// The badge is in this thread's storage: the lease must end here.
    not_send: PhantomData<*mut ()>,
}

impl CpuLease {
    /// The CPU.
    #[inline(always)]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }
}

impl Drop for CpuLease {
    fn drop(&mut self) {
        if let Some(before) = &self.unpinned {
            // Nothing sensible is left to do if the OS refuses to widen the set again.
            let _ = sched_setaffinity(None, before);
        }
        current::set_badge(0);
        self.cpus.lock_slots()[self.cpu.idx()] = false;
        self.cpus.freed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_one_thread_and_a_thread_one_cpu() {
        let cpus = Cpus::new(2, false).unwrap();
        let lease = cpus.enter(CpuId(1)).unwrap();
        assert_eq!(Some(badge()), cpus.badge_of(CpuId(1)));
        assert_eq!(cpus.enter(CpuId(0)).unwrap_err(), LeaseError::HasCpu);
        std::thread::scope(|s| {
            s.spawn(|| {
                assert_eq!(cpus.try_enter(CpuId(1)).unwrap_err(), LeaseError::Busy(CpuId(1)));
                let error = cpus.enter(CpuId(2)).unwrap_err().to_string();
                assert_eq!(error, "there is no CPU 2: the machine has CPUs 0 to 1");
                assert_eq!(cpus.enter(CpuId(0)).unwrap().cpu(), CpuId(0));
            });
        });
        drop(lease);
        assert_eq!(badge(), 0);
        cpus.try_enter(CpuId(1)).unwrap();
    }

    #[test]
    fn enter_waits_for_the_holder() {
        let cpus = Cpus::new(1, false).unwrap();
        let lease = cpus.enter(CpuId(0)).unwrap();
        std::thread::scope(|s| {
            let waiter = s.spawn(|| cpus.enter(CpuId(0)).map(|l| l.cpu()));
            std::thread::sleep(core::time::Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(lease);
            assert_eq!(waiter.join().unwrap(), Ok(CpuId(0)));
        });
    }

    #[test]
    fn pinning_ends_with_the_lease() {
        let cpus = Cpus::new(3, true).unwrap();
        let before = sched_getaffinity(None).unwrap();
        let lease = cpus.enter(CpuId(2)).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(lease);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn badges_of_different_hosts_differ() {
        let (a, b) = (Cpus::new(2, false).unwrap(), Cpus::new(2, false).unwrap());
        assert_ne!(a.badge_of(CpuId(0)), b.badge_of(CpuId(0)));
        assert_eq!(a.badge_of(CpuId(2)), None);
    }
}
