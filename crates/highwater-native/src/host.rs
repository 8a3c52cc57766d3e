//! [`NativeHost`]: the core's host on threads, real memory and the real clock.
//!
//! Charges and trace events compile to nothing: on a real machine the work itself is the cost.
//!
//! Synchronisation: all threads share everything here. The mutable parts are the arena (racy by
//! design), the lease slots and the list of meters (behind mutexes).

use core::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use highwater_core::host::{Cost, CpuId, Devices, Host, IoError, IoRequest, NS_PER_JIFFY, Tasks};
use highwater_core::page::{Order, Pfn};
use highwater_core::sync::order::LockClass;
use highwater_core::trace::{Event, Kind};

use crate::arena::{Arena, ArenaError, ArenaOptions};
use crate::cpu::{CpuLease, Cpus, LeaseError};
use crate::lock::{Barrier, CpuLock, LockMeter, LockReport, SpinLock};

/// A thread lets others run at every `GIVES_WAY_EVERY`th call of `yield_now`.
const GIVES_WAY_EVERY: u32 = 64;

thread_local! {
    /// Number of such calls of this thread.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Options of a native machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeOptions {
    /// The memory.
    pub arena: ArenaOptions,
    /// Bind each thread to a real core while it holds a CPU's lease (CPU number modulo cores).
    pub pin_threads: bool,
    /// Count acquisitions, contention and waiting of every lock.
    pub lock_statistics: bool,
    /// With `lock_statistics`: time every hold too, at the cost of two clock reads.
    pub lock_hold_times: bool,
    /// Order per-CPU locks by fences even if the kernel has `membarrier`.
    pub without_membarrier: bool,
}

/// The reason why a native machine cannot be set up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NativeError {
    /// The machine description is impossible.
    #[error("machine: {0}")]
    Machine(#[from] highwater_core::config::MachineError),
    /// No memory for the frames.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// CPUs cannot be leased with these options.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// The host.
#[derive(Debug)]
pub struct NativeHost {
    arena: Arena,
    cpus: Arc<Cpus>,
    barrier: Barrier,
    booted: Instant,
    /// One per lock, if locks are counted.
    meters: Option<Mutex<Vec<Arc<LockMeter>>>>,
    times_holds: bool,
}

impl NativeHost {
    /// A host with `nr_cpus` logical CPUs and memory behind frames `0..nr_frames`.
    ///
    /// # Errors
    /// If the memory cannot be mapped, or threads cannot be pinned as requested.
    pub fn new(
        nr_cpus: usize,
        nr_frames: u64,
        options: &NativeOptions,
    ) -> Result<NativeHost, NativeError> {
        let barrier = match options.without_membarrier {
            true => Barrier::Fence,
            false => Barrier::best(),
        };
        Ok(NativeHost {
            arena: Arena::new(nr_frames, options.arena)?,
            cpus: Cpus::new(nr_cpus, options.pin_threads)?,
            barrier,
            booted: Instant::now(),
            meters: options.lock_statistics.then(Mutex::default),
            times_holds: options.lock_hold_times,
        })
    }

    /// Runs the calling thread on a CPU, waiting until that is free.
    ///
    /// # Errors
    /// If there is no such CPU, or the thread runs on one already.
    pub fn enter(&self, cpu: CpuId) -> Result<CpuLease, LeaseError> {
        self.cpus.enter(cpu)
    }

    /// Runs the calling thread on a CPU if that is free.
    ///
    /// # Errors
    /// As [`Self::enter`], and if another thread runs on the CPU.
    pub fn try_enter(&self, cpu: CpuId) -> Result<CpuLease, LeaseError> {
        self.cpus.try_enter(cpu)
    }

    /// The logical CPUs.
    pub fn cpus(&self) -> &Cpus {
        &self.cpus
    }

    /// The memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The barrier that orders per-CPU locks here.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// Counts of the locks, by class; `None` if they do not count.
    pub fn lock_report(&self) -> Option<[(LockClass, LockReport); LockClass::COUNT]> {
        let meters = self.meters.as_ref()?;
        let mut report = LockClass::ALL.map(|class| (class, LockReport::default()));
        // A panic elsewhere cannot leave the list half changed.
        for meter in meters.lock().unwrap_or_else(|p| p.into_inner()).iter() {
            report[meter.class() as usize].1 += meter.counts();
        }
        Some(report)
    }

    fn new_meter(&self, class: LockClass) -> Option<Arc<LockMeter>> {
        let meters = self.meters.as_ref()?;
        let meter = Arc::new(match self.times_holds {
            false => LockMeter::new(class),
            true => LockMeter::with_hold_times(class),
        });
        meters.lock().unwrap_or_else(|p| p.into_inner()).push(Arc::clone(&meter));
        Some(meter)
    }
}

impl Host for NativeHost {
    type Lock<T> = SpinLock<T>;
    type CpuLock<T> = CpuLock<T>;

    const HAS_DATA: bool = true;
    const DEFERS_FREES: bool = true;

    fn new_lock<T>(&self, class: LockClass, value: T) -> SpinLock<T> {
        SpinLock::with_meter(value, self.new_meter(class))
    }

    fn new_cpu_lock<T>(&self, class: LockClass, owner: CpuId, value: T) -> CpuLock<T> {
        CpuLock::with_meter(value, &self.cpus, owner, self.barrier, self.new_meter(class))
    }

    fn now_ns(&self) -> u64 {
        self.booted.elapsed().as_nanos() as u64
    }

    #[inline(always)]
    fn charge(&self, _: Cost, _: u32) {}

    fn frame_zero(&self, pfn: Pfn, order: Order) {
        self.arena.zero(pfn, order);
    }

    fn frame_write(&self, pfn: Pfn, offset: usize, src: &[u8]) {
        self.arena.write(pfn, offset, src);
    }

    fn frame_read(&self, pfn: Pfn, offset: usize, dst: &mut [u8]) {
        self.arena.read(pfn, offset, dst);
    }

    #[inline(always)]
    fn trace(&self, _: CpuId, _: &Event) {}

    #[inline(always)]
    fn traces(&self, _: Kind) -> bool {
        false
    }

    /// `cond_resched` gives way at the end of a slice, but here the OS preempts by itself. It gives
    /// way now and then all the same: a caller that asks repeatedly may wait for a thread that does
    /// not run.
    fn yield_now(&self) {
        let asked = ASKED.get().wrapping_add(1);
        ASKED.set(asked);
        if asked.is_multiple_of(GIVES_WAY_EVERY) {
            crate::sync::yield_now();
        }
    }

    fn sleep_jiffies(&self, jiffies: u64) {
        std::thread::sleep(Duration::from_nanos(jiffies.saturating_mul(NS_PER_JIFFY)));
    }

    fn sleep_ns(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

impl Tasks for NativeHost {
    type Task = std::thread::Thread;

    fn current(&self) -> std::thread::Thread {
        std::thread::current()
    }

    fn park(&self, _why: &'static str) {
        std::thread::park();
    }

    fn park_jiffies(&self, _why: &'static str, timeout: u64) -> u64 {
        let start = self.jiffies();
        std::thread::park_timeout(Duration::from_nanos(timeout.saturating_mul(NS_PER_JIFFY)));
        (start + timeout).saturating_sub(self.jiffies())
    }

    fn unpark(&self, task: &std::thread::Thread) {
        task.unpark();
    }
}

/// Devices that complete at once; no data is moved.
impl Devices for NativeHost {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        Some((request, Ok(())))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use highwater_core::host::Lock;

    fn host(options: NativeOptions) -> NativeHost {
        NativeHost::new(2, 16, &options).unwrap()
    }

    #[test]
    fn time_goes_on_while_sleeping() {
        let host = host(NativeOptions::default());
        let before = host.now_ns();
        host.sleep_jiffies(2);
        assert!(host.now_ns() - before >= 2 * NS_PER_JIFFY);
        assert!(host.jiffies() >= 2);
    }

    #[test]
    fn locks_count_by_class_if_asked() {
        assert_eq!(host(NativeOptions::default()).lock_report(), None);
        let host = host(NativeOptions { lock_statistics: true, ..Default::default() });
        let zone = [0, 1].map(|_| host.new_lock(LockClass::Zone, ()));
        let pcp = host.new_cpu_lock(LockClass::Pcp, CpuId(1), ());
        for _ in 0..3 {
            zone.iter().for_each(|lock| drop(lock.lock(CpuId(0))));
            drop(pcp.lock(CpuId(0)));
        }
        let _lease = host.enter(CpuId(1)).unwrap();
        drop(pcp.lock(CpuId(1)));
        let report = host.lock_report().unwrap();
        let takings = report.map(|(class, counts)| (class, counts.takings));
        assert!(takings.contains(&(LockClass::Zone, 6)));
        assert!(takings.contains(&(LockClass::Pcp, 4)));
    }

    #[test]
    fn every_way_into_a_lock_is_timed_if_asked() {
        let options =
            NativeOptions { lock_statistics: true, lock_hold_times: true, ..Default::default() };
        let host = host(options);
        let pcp = host.new_cpu_lock(LockClass::Pcp, CpuId(1), ());
        let hold = |cpu| {
            let _guard = pcp.lock(cpu);
            std::thread::sleep(core::time::Duration::from_millis(2));
        };
        let held = || host.lock_report().unwrap()[LockClass::Pcp as usize].1.clone();
        hold(CpuId(0));
        let as_other = held();
        let _lease = host.enter(CpuId(1)).unwrap();
        hold(CpuId(1));
        let as_owner = held();
        assert!(as_other.hold_ns >= 2_000_000, "{as_other:?}");
        assert!(as_owner.hold_ns >= as_other.hold_ns + 2_000_000, "{as_owner:?}");
        assert!(as_owner.hold_ns_max >= 2_000_000 && !as_owner.worst_holder.is_empty());
    }
}
