//! A lock biased to the CPU that nearly always takes it.
//!
//! Its own CPU takes the lock of a per-CPU page list millions of times a second; other CPUs take it
//! only to drain the list. So the owner pays nothing (a store, a load, a store; no locked
//! instruction, no fence), and any other CPU pays a system call.
//!
//! # The algorithm
//!
//! Two flags and a handshake after Dekker. Only the owner writes `held`. The others write `remote`,
//! after they have excluded each other by a compare-and-swap on it.
//!
//! ```text
//!   owner                                     another thread
//!   -----                                     --------------
//!   held = true                               remote: false -> true   (compare-and-swap, else wait)
//!   light barrier                             heavy barrier
//!   remote?  no  -> in                        wait until not held
//!            yes -> held = false, wait, again in
//!   ...                                       ...
//!   held = false            (release)         remote = false          (release)
//! ```
//!
//! Each side announces itself, then looks for the other. If both barriers order the announcement
//! before the look, at least one side sees the other, so both are never in: the owner steps back,
//! the other waits. The owner never delays the other for longer than one hold, since it does not
//! come in while `remote` is set.
//!
//! # The asymmetric barrier
//!
//! The light barrier is a compiler fence, which emits nothing; the CPU may still delay the owner's
//! store past its load. The heavy barrier makes up for it: `membarrier(PRIVATE_EXPEDITED)` returns
//! after every thread of the process that runs on a CPU has executed a full barrier there. (A
//! thread that does not run has executed one since it was switched out.) At that barrier the
//! owner's instructions divide:
//!
//! ```text
//!   owner's store before it  ->  the store is visible now: the other sees `held` and waits
//!   owner's store after it   ->  so is the owner's load, and `remote` was set before: it steps back
//! ```
//!
//! If the kernel refuses membarrier (seccomp, old kernels), both barriers are sequentially
//! consistent fences: the same algorithm with a more expensive owner ([`Barrier::Fence`]). Loom
//! checks that form, because it cannot model a system call that fences other threads.
//!
//! # The owner
//!
//! The owner is the thread that holds the lease of the lock's CPU ([`crate::cpu`]), whatever CPU
//! number the caller passes. A thread without that lease takes the other path, which is safe for
//! any thread. A guard can outlive its lease. So the owner looks at `held` before setting it, and
//! the next owner waits for such a guard (the lease's mutex makes the old `held = true` visible to
//! it).
//!
//! | | owner | another CPU |
//! |---|---|---|
//! | owner | same thread: `try_lock` fails, `lock` would deadlock | handshake |
//! | another CPU | handshake | compare-and-swap on `remote` |

#![allow(unsafe_code, reason = "a lock hands out references into its cell")]

use core::fmt;
use core::sync::atomic::compiler_fence;
use std::sync::Arc;

use highwater_core::host::{CpuId, Lock};
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use super::LockMeter;
use super::guard::LockGuard;
use super::meter::{Meter, Waited};
use crate::cpu::{Badge, Cpus, badge};
use crate::sync::{AtomicBool, Ordering, UnsafeCell, Wait, fence};

/// The barrier that orders the owner and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// The owner pays nothing, others a `membarrier` call.
    Membarrier,
    /// Both sides pay a full fence.
    Fence,
}

impl Barrier {
    /// The cheapest that the kernel allows. Registers the process for expedited barriers.
    pub fn best() -> Barrier {
        if cfg!(loom) {
            return Barrier::Fence;
        }
        let wanted =
            MembarrierQuery::PRIVATE_EXPEDITED | MembarrierQuery::REGISTER_PRIVATE_EXPEDITED;
        let register = MembarrierCommand::RegisterPrivateExpedited;
        if membarrier_query().contains(wanted)
            && membarrier(register).is_ok()
            && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
        {
            Barrier::Membarrier
        } else {
            Barrier::Fence
        }
    }

    /// The owner's side.
    #[inline(always)]
    fn light(self) {
        match self {
            Barrier::Membarrier => compiler_fence(core::sync::atomic::Ordering::SeqCst),
            Barrier::Fence => fence(Ordering::SeqCst),
        }
    }

    /// The others' side.
    fn heavy(self) {
        match self {
            Barrier::Membarrier => {
                fence(Ordering::SeqCst);
                // A child process after fork(2) may have to register again.
                let done = membarrier(MembarrierCommand::PrivateExpedited).or_else(|_| {
                    membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
                    membarrier(MembarrierCommand::PrivateExpedited)
                });
                assert!(done.is_ok(), "membarrier worked before, and the lock depends on it");
            }
            Barrier::Fence => fence(Ordering::SeqCst),
        }
    }
}

/// A badge that no thread has.
const NOBODY: Badge = Badge::MAX;

/// Mutual exclusion that costs its owner CPU next to nothing.
#[repr(C)]
pub struct CpuLock<T> {
    /// The owner is in, or about to look. Written by the owner only; see the module.
    held: AtomicBool,
    /// Another CPU is in, or waits for the owner to leave.
    remote: AtomicBool,
    /// The owner must do more than the plain handshake: a fence, or counting.
    special: bool,
    barrier: Barrier,
    /// Badge of the owner CPU; `NOBODY` if that CPU does not exist.
    owner: Badge,
    meter: Meter,
    value: UnsafeCell<T>,
}

// SAFETY: 1. `value` is reached only through a guard; 2. at most one guard exists: owner and other
// exclude each other by the handshake (module), others exclude each other by the exchange on
// `remote`, owners follow each other by the lease, and `held` covers a guard that outlives its
// lease; 3. each way in acquires what the previous holder released; 4. a guard moves the right to
// access `T` between threads, hence `T: Send`.
unsafe impl<T: Send> Sync for CpuLock<T> {}

impl<T> CpuLock<T> {
    /// A free lock whose owner is a CPU of `cpus`.
    pub fn new(value: T, cpus: &Cpus, owner: CpuId, barrier: Barrier) -> CpuLock<T> {
        CpuLock::with_meter(value, cpus, owner, barrier, None)
    }

    /// A free lock that counts into `meter`.
    pub fn with_meter(
        value: T,
        cpus: &Cpus,
        owner: CpuId,
        barrier: Barrier,
        meter: Option<Arc<LockMeter>>,
    ) -> CpuLock<T> {
        CpuLock {
            held: AtomicBool::new(false),
            remote: AtomicBool::new(false),
            special: barrier == Barrier::Fence || meter.is_some(),
            barrier,
            owner: cpus.badge_of(owner).unwrap_or(NOBODY),
            meter: Meter(meter),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, waiting if need be.
    #[inline]
    pub fn take(&self) -> LockGuard<'_, T> {
        if self.is_owner() {
            if !self.owner_enter() {
                self.owner_wait();
            }
            self.guard(&self.held)
        } else {
            self.remote_wait();
            self.guard(&self.remote)
        }
    }

    /// Takes the lock if that needs no waiting.
    #[inline(always)]
    pub fn try_take(&self) -> Option<LockGuard<'_, T>> {
        let flag = if self.is_owner() {
            self.owner_enter().then_some(&self.held)
        } else {
            self.remote_enter().then_some(&self.remote)
        }?;
        Some(self.guard(flag))
    }

    /// True on the thread that holds the lease of the lock's CPU.
    #[inline(always)]
    fn is_owner(&self) -> bool {
        badge() == self.owner
    }

    /// Lets the owner in if that needs no waiting.
    #[inline(always)]
    fn owner_enter(&self) -> bool {
        match self.special {
            false => self.owner_handshake(|| Barrier::Membarrier.light()),
            true => self.owner_enter_special(),
        }
    }

    #[cold]
    fn owner_enter_special(&self) -> bool {
        let entered = self.owner_handshake(|| self.barrier.light());
        if entered {
            self.meter.taken();
        }
        entered
    }

    /// The owner's half of the handshake; on failure it has stepped back.
    #[inline(always)]
    fn owner_handshake(&self, light_barrier: impl FnOnce()) -> bool {
        // Acquire pairs with the release store of a guard that outlived an earlier lease.
        if self.held.load(Ordering::Acquire) {
            return false;
        }
        self.held.store(true, Ordering::Relaxed);
        light_barrier();
        // Acquire pairs with the release store when another CPU leaves.
        if self.remote.load(Ordering::Acquire) {
            self.held.store(false, Ordering::Release);
            return false;
        }
        true
    }

    #[cold]
    fn owner_wait(&self) {
        let waited = Waited::start(&self.meter);
        let mut wait = Wait::often();
        loop {
            wait.relax();
            if !self.remote.load(Ordering::Relaxed) && self.owner_enter() {
                break;
            }
        }
        waited.end(&self.meter);
    }

    /// Wins `remote` against other CPUs; acquire pairs with the release store of the last one.
    fn remote_claim(&self) -> bool {
        self.remote.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The other half of the handshake, without waiting; on failure it has stepped back.
    #[cold]
    fn remote_enter(&self) -> bool {
        // A look first: the system call is wasted if the owner is in anyway.
        if self.held.load(Ordering::Relaxed) || !self.remote_claim() {
            return false;
        }
        self.barrier.heavy();
        // Acquire pairs with the release store when the owner leaves.
        if self.held.load(Ordering::Acquire) {
            self.remote.store(false, Ordering::Release);
            return false;
        }
        self.meter.taken();
        true
    }

    #[cold]
    fn remote_wait(&self) {
        let mut waited = None;
        let mut wait = Wait::seldom();
        while !self.remote_claim() {
            waited.get_or_insert_with(|| Waited::start(&self.meter));
            wait.relax();
        }
        self.barrier.heavy();
        let mut wait = Wait::often();
        while self.held.load(Ordering::Acquire) {
            waited.get_or_insert_with(|| Waited::start(&self.meter));
            wait.relax();
        }
        if let Some(waited) = waited {
            waited.end(&self.meter);
        }
        self.meter.taken();
    }

    /// Makes the guard of a lock that was just taken; clearing `flag` releases the lock.
    #[inline(always)]
    fn guard<'a>(&'a self, flag: &'a AtomicBool) -> LockGuard<'a, T> {
        // SAFETY: callers have just been let in, one at a time (`Sync` above), and `flag` is what
        // let them in.
        unsafe { LockGuard::new(&self.value, flag, &self.meter) }
    }
}

impl<T> Lock<T> for CpuLock<T> {
    type Guard<'a>
        = LockGuard<'a, T>
    where
        T: 'a;

    #[inline]
    fn lock(&self, _: CpuId) -> LockGuard<'_, T> {
        self.take()
    }

    #[inline(always)]
    fn try_lock(&self, _: CpuId) -> Option<LockGuard<'_, T>> {
        self.try_take()
    }
}

impl<T> fmt::Debug for CpuLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuLock")
            .field("held", &self.held)
            .field("remote", &self.remote)
            .field("barrier", &self.barrier)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn barriers() -> Vec<Barrier> {
        let mut all = vec![Barrier::Fence];
        if Barrier::best() == Barrier::Membarrier {
            all.push(Barrier::Membarrier);
        }
        all
    }

    #[test]
    fn owner_and_others_exclude_each_other() {
        for barrier in barriers() {
            let cpus = Cpus::new(2, false).unwrap();
            let lock = CpuLock::new((0u64, 0u64), &cpus, CpuId(0), barrier);
            let add = |n: u64| {
                for _ in 0..n {
                    let mut both = lock.take();
                    assert_eq!(both.0, both.1, "{barrier:?}");
                    both.0 += 1;
                    both.1 += 1;
                }
            };
            std::thread::scope(|s| {
                s.spawn(|| {
                    let _lease = cpus.enter(CpuId(0)).unwrap();
                    add(200_000);
                });
                s.spawn(|| {
                    let _lease = cpus.enter(CpuId(1)).unwrap();
                    add(2_000);
                });
                s.spawn(|| add(2_000));
            });
            assert_eq!(lock.take().0, 204_000, "{barrier:?}");
        }
    }

    /// Each side first writes a line that the other wrote last. The store of `held` has to wait in
    /// the CPU's store buffer behind that write, while the load of `remote` does not. On two real
    /// cores, this lets both in at once if the heavy barrier does not reach the owner.
    #[test]
    fn nobody_slips_through_the_handshake() {
        for barrier in barriers() {
            let cpus = Cpus::new(1, false).unwrap();
            let lock = CpuLock::new((), &cpus, CpuId(0), barrier);
            let inside = std::sync::atomic::AtomicBool::new(false);
            let bounced = crossbeam_utils::CachePadded::new(std::sync::atomic::AtomicU64::new(0));
            let end = std::time::Instant::now() + core::time::Duration::from_millis(300);
            let hammer = || {
                let mut nr = 0u64;
                while nr == 0 || std::time::Instant::now() < end {
                    for _ in 0..100 {
                        bounced.store(nr, Ordering::Relaxed);
                        let Some(_guard) = lock.try_take() else { continue };
                        assert!(!inside.swap(true, Ordering::Relaxed), "{barrier:?}");
                        inside.store(false, Ordering::Relaxed);
                        nr += 1;
                    }
                }
                nr
            };
            let (owner, other) = std::thread::scope(|s| {
                let owner = s.spawn(|| {
                    let _lease = cpus.enter(CpuId(0)).unwrap();
                    hammer()
                });
                let other = s.spawn(hammer);
                (owner.join().unwrap(), other.join().unwrap())
            });
            assert!(owner > 0 && other > 0);
        }
    }

    #[test]
    fn try_lock_of_the_owner_fails_while_another_holds() {
        for barrier in barriers() {
            let cpus = Cpus::new(1, false).unwrap();
            let lock = CpuLock::new((), &cpus, CpuId(0), barrier);
            let theirs = lock.take();
            std::thread::scope(|s| {
                s.spawn(|| {
                    let _lease = cpus.enter(CpuId(0)).unwrap();
                    assert!(lock.try_take().is_none());
                });
            });
            drop(theirs);
            let _lease = cpus.enter(CpuId(0)).unwrap();
            let mine = lock.try_take().unwrap();
            assert!(lock.try_take().is_none(), "not recursive");
            std::thread::scope(|s| {
                s.spawn(|| assert!(lock.try_take().is_none()));
            });
            drop(mine);
            assert!(lock.try_take().is_some());
        }
    }

    #[test]
    fn a_guard_that_outlives_its_lease_keeps_the_next_owner_out() {
        for barrier in barriers() {
            let cpus = Cpus::new(1, false).unwrap();
            let lock = CpuLock::new(0, &cpus, CpuId(0), barrier);
            let lease = cpus.enter(CpuId(0)).unwrap();
            let guard = lock.take();
            drop(lease);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let _lease = cpus.enter(CpuId(0)).unwrap();
                    assert!(lock.try_take().is_none());
                });
            });
            drop(guard);
            assert!(lock.try_take().is_some());
        }
    }
}
