//! The whole memory manager on threads: a host, a booted kernel, and threads for its daemons.
//!
//! Disks are not real here: a transfer completes at once and moves nothing, so a file's pages have
//! the old contents of their frames. Files serve to exercise the kernel's handling of their pages:
//! caching, mapping, unmapping, reclaiming.
//!
//! Every daemon takes one CPU for as long as it runs, because a thread here is a CPU while it holds
//! the lease. Give the machine [`NativeKernel::daemon_cpus`] more CPUs than programs need.

use std::thread;

use highwater_core::Kernel;
use highwater_core::config::{Machine, Policy};
use highwater_core::host::{CpuId, Cx};
use highwater_core::kernel::{Daemon, DaemonCpus, Error, KernelSpec};
use highwater_core::page_alloc::boot;

use crate::cpu::{CpuLease, LeaseError};
use crate::host::{NativeError, NativeHost, NativeOptions};

/// A kernel made of this process: share it by reference (scoped threads) or in an `Arc`.
pub struct NativeKernel {
    /// CPUs, memory, locks, clock.
    pub host: NativeHost,
    /// Memory management.
    pub kernel: Kernel<NativeHost>,
    nr_cpus: usize,
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<NativeKernel>();
};

/// The reason why a kernel does not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NativeKernelError {
    /// The host does not start.
    #[error(transparent)]
    Host(#[from] NativeError),
    /// The kernel does not start.
    #[error("kernel: {0}")]
    Kernel(Error),
    /// The machine has fewer CPUs than its daemons need plus one.
    #[error("the machine has {0} CPUs, its daemons alone need {1}")]
    Cpus(usize, usize),
}

/// The calling thread as a task that runs on a CPU of a [`NativeKernel`].
pub struct KernelTask<'k> {
    /// Host and CPU, for calls into the core.
    pub cx: Cx<'k, NativeHost>,
    kernel: &'k Kernel<NativeHost>,
    _lease: CpuLease,
}

/// A task that leaves a CPU flushes its deferred frees there.
impl Drop for KernelTask<'_> {
    fn drop(&mut self) {
        self.kernel.mem.free_mine_deferred(&self.cx);
    }
}

/// The daemons that run as threads. Each has a CPU for itself, so none can serve another CPU: what
/// only a CPU's own daemon does (`DaemonCpus::Cpu`), the core does at once.
fn daemons(kernel: &Kernel<NativeHost>) -> impl Iterator<Item = Daemon> {
    let all = kernel.daemons().into_iter();
    all.filter(|daemon| !matches!(daemon.runs_on(), DaemonCpus::Cpu(_)))
}

impl NativeKernel {
    /// CPUs that the daemons of a kernel with one node take: kswapd, kcompactd, the OOM reaper, and
    /// one flusher per device. A kernel with huge pages has khugepaged besides, and one with memory
    /// cgroups the flusher of their statistics.
    pub const fn daemon_cpus(nr_devices: usize) -> usize {
        3 + nr_devices
    }

    /// Maps the memory of `machine` and boots a kernel on it. Nothing runs yet.
    ///
    /// # Errors
    /// If the machine cannot exist or has too few CPUs, its memory cannot be mapped, threads cannot
    /// be pinned, or the kernel refuses its devices.
    pub fn boot(
        machine: &Machine,
        policy: &Policy,
        options: &NativeOptions,
        spec: &KernelSpec,
    ) -> Result<NativeKernel, NativeKernelError> {
        machine.validate().map_err(NativeError::from)?;
        let nr_cpus = machine.nr_cpus();
        let host = NativeHost::new(nr_cpus, machine.end_pfn(), options)?;
        let memory = boot(&host, machine, policy).map_err(NativeError::from)?;
        crate::arena::advise_huge_pages(&memory.map);
        let kernel = {
            let _lease = host.enter(CpuId(0)).map_err(NativeError::from)?;
            Kernel::new(&Cx::new(&host, CpuId(0)), memory, spec)
                .map_err(NativeKernelError::Kernel)?
        };
        let needed = daemons(&kernel).count();
        if needed >= nr_cpus {
            return Err(NativeKernelError::Cpus(nr_cpus, needed));
        }
        Ok(NativeKernel { host, kernel, nr_cpus })
    }

    /// CPUs that programs may use: `0..n`.
    pub fn program_cpus(&self) -> usize {
        self.nr_cpus - daemons(&self.kernel).count()
    }

    /// Runs the calling thread on a CPU, waiting until that is free.
    ///
    /// # Errors
    /// If there is no such CPU, or the thread runs on one already.
    pub fn enter(&self, cpu: CpuId) -> Result<KernelTask<'_>, LeaseError> {
        let lease = self.host.enter(cpu)?;
        Ok(KernelTask { cx: Cx::new(&self.host, cpu), kernel: &self.kernel, _lease: lease })
    }

    /// Runs `body` with the daemons, each on a thread and one of the last CPUs; they have ended
    /// when this returns. A kernel does this once: its daemons do not start again. khugepaged is
    /// one of them if every program gets huge pages (`Thp::Always`). With `Thp::Madvise`, the
    /// default, programs that ask for huge pages get them by faults alone.
    ///
    /// # Errors
    /// If a daemon cannot have its CPU. `body` did not run then.
    pub fn with_daemons<T>(&self, body: impl FnOnce() -> T) -> Result<T, LeaseError> {
        let first = self.program_cpus();
        thread::scope(|scope| {
            let (started, starts) = std::sync::mpsc::channel();
            let daemons: Vec<_> = daemons(&self.kernel).collect();
            for (index, daemon) in daemons.iter().copied().enumerate() {
                let started = started.clone();
                scope.spawn(move || {
                    let task = match self.enter(CpuId((first + index) as u16)) {
                        Ok(task) => task,
                        Err(error) => {
                            let _ = started.send(Err(error));
                            return;
                        }
                    };
                    let _ = started.send(Ok(()));
                    self.kernel.run_daemon(&task.cx, daemon);
                });
            }
            let ready = starts.iter().take(daemons.len()).collect::<Result<(), LeaseError>>();
            let _end = EndOfDaemons(self);
            ready.map(|()| body())
        })
    }
}

/// Ends the daemons, also if the body panics: their threads are joined either way.
struct EndOfDaemons<'k>(&'k NativeKernel);

impl Drop for EndOfDaemons<'_> {
    fn drop(&mut self) {
        // Waking needs no lease: wait queues are behind plain locks.
        self.0.kernel.shut_down(&Cx::new(&self.0.host, CpuId(0)));
    }
}
