//! A host of your own that threads share, and a whole kernel on it: address spaces, faults, swap, daemons.
//!
//! ```text
//! cargo run --release --example threaded_host -p highwater
//! ```
//!
//! `highwater_native` is such a host, with faster locks and memory behind its frames; this one shows how
//! little it takes. The locks are the standard library's, a task is a thread, and each thread *is* a CPU:
//! no two threads may use the same number at a time.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use highwater::core::Kernel;
use highwater::core::audit::check_kernel;
use highwater::core::block::{DeviceId, DeviceSpec};
use highwater::core::config::{Machine, preset};
use highwater::core::host::{
    Cost, CpuId, Devices, Host, IoError, IoRequest, Lock, NS_PER_JIFFY, Tasks,
};
use highwater::core::kernel::KernelSpec;
use highwater::core::page::{Order, Pfn};
use highwater::core::page_alloc::boot;
use highwater::core::swap::SwapSpec;
use highwater::core::sync::order::LockClass;
use highwater::core::trace::{Event, Kind};
use highwater::core::vm::{Access, Backing, VmaFlags};
use highwater::core::vmstat::VmEvent;

/// Threads and the clock. Frames hold no bytes here (the example `own_frames` has some that do).
struct Threads {
    started: Instant,
}

struct Guarded<T>(Mutex<T>);

impl<T> Lock<T> for Guarded<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn lock(&self, _: CpuId) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self, _: CpuId) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Host for Threads {
    type Lock<T> = Guarded<T>;
    type CpuLock<T> = Guarded<T>;

    const HAS_DATA: bool = false;

    fn new_lock<T>(&self, _: LockClass, value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    fn new_cpu_lock<T>(&self, _: LockClass, _owner: CpuId, value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// On a real machine the work itself is the cost.
    fn charge(&self, _: Cost, _: u32) {}

    fn frame_zero(&self, _: Pfn, _: Order) {}
    fn frame_write(&self, _: Pfn, _: usize, _: &[u8]) {}
    fn frame_read(&self, _: Pfn, _: usize, _: &mut [u8]) {}

    fn trace(&self, _: CpuId, _: &Event) {}

    fn traces(&self, _: Kind) -> bool {
        false
    }

    fn yield_now(&self) {
        thread::yield_now();
    }

    fn sleep_jiffies(&self, jiffies: u64) {
        thread::sleep(Duration::from_nanos(jiffies.saturating_mul(NS_PER_JIFFY)));
    }
}

/// Waiting: a thread that was unparked before it parks does not wait, which is all that is asked.
impl Tasks for Threads {
    type Task = Thread;

    fn current(&self) -> Thread {
        thread::current()
    }

    fn park(&self, _why: &'static str) {
        thread::park();
    }

    fn park_jiffies(&self, _why: &'static str, timeout: u64) -> u64 {
        let start = self.jiffies();
        thread::park_timeout(Duration::from_nanos(timeout.saturating_mul(NS_PER_JIFFY)));
        (start + timeout).saturating_sub(self.jiffies())
    }

    fn unpark(&self, task: &Thread) {
        task.unpark();
    }
}

/// A disk that is done at once. A slow one keeps the request, returns `None`, and gives it to
/// `Kernel::end_request` when it is done.
impl Devices for Threads {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        Some((request, Ok(())))
    }
}

/// Programs, one on each of the first CPUs.
const PROGRAMS: u16 = 2;
/// What each of them writes to, pages: together more than there are.
const PAGES_EACH: u32 = 12_000;

/// Maps memory, writes to all of it, twice, and leaves.
fn program(kernel: &Kernel<Threads>, host: &Threads, cpu: CpuId) -> Result<(), String> {
    let task = kernel.task(host, cpu).map_err(|error| error.to_string())?;
    let failed = |error: highwater::core::kernel::Error| error.to_string();
    let mm = kernel.create_mm(&task).map_err(failed)?;
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    let start = kernel.mmap(&task, &mm, PAGES_EACH, 1, flags, Backing::Anon).map_err(failed)?;
    for page in (start..start + PAGES_EACH).chain(start..start + PAGES_EACH) {
        kernel.touch(&task, &mm, page, Access::Write).map_err(failed)?;
    }
    kernel.munmap(&task, &mm, start, PAGES_EACH).map_err(failed)
}

fn main() -> Result<(), Box<dyn Error>> {
    let host = Threads { started: Instant::now() };
    // 64 MiB, all of it for the kernel, and a disk in memory to swap to. Daemons are on CPUs of their own.
    let swap = SwapSpec { device: DeviceId(0), pages: 1 << 15, priority: 0 };
    let spec = KernelSpec { devices: vec![DeviceSpec::ram(1 << 15)], swap: vec![swap], groups: 0 };
    let nr_daemons = 3; // kswapd, the disk's flusher, the OOM reaper
    let cpus = (0..PROGRAMS + nr_daemons).collect();
    let machine = Machine::bare("mine", &[(64 << 20, cpus)])?;

    let memory = boot(&host, &machine, &preset("6.1").ok_or("no such kernel")?)?;
    let first = memory.task(&host, CpuId(0))?;
    let kernel = Kernel::new(&first, memory, &spec)?;
    let done = thread::scope(|scope| -> Result<(), String> {
        for (cpu, daemon) in (PROGRAMS..).zip(kernel.daemons()) {
            let (kernel, host) = (&kernel, &host);
            scope.spawn(move || match kernel.task(host, CpuId(cpu)) {
                Ok(task) => kernel.run_daemon(&task, daemon),
                Err(error) => eprintln!("{}: {error}", daemon.name()),
            });
        }
        let programs: Vec<_> = (0..PROGRAMS)
            .map(|cpu| {
                let (kernel, host) = (&kernel, &host);
                scope.spawn(move || program(kernel, host, CpuId(cpu)))
            })
            .collect();
        let ends = programs.into_iter().map(|p| p.join().map_err(|_| "a program panicked".into()));
        let ended: Result<Vec<_>, String> = ends.collect();
        // Whatever came of the programs, the daemons have to return for the scope to end.
        kernel.shut_down(&first);
        ended?.into_iter().collect()
    });
    done?;

    check_kernel(&kernel, &first)?;
    let count = |event| kernel.mem.events.read(event);
    println!("{} pages of memory, {} written to", machine.managed_pages(), {
        u32::from(PROGRAMS) * PAGES_EACH
    });
    println!("swapped out {}, in {}", count(VmEvent::Pswpout), count(VmEvent::Pswpin));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main().unwrap();
    }
}
