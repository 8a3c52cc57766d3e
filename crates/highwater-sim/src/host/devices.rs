//! The host's disks: submission, and interrupts when transfers are done.
//!
//! A disk interrupts the CPU that submitted (as NVMe's vectors and the block layer's completion
//! steering do). For each disk and CPU there is one task in that CPU's interrupts
//! ([`SimHost::serve_interrupts`]), so that CPUs handle completions in parallel.
//!
//! ```text
//! submit (any task) --> DiskQueue --> the earliest completion's vector is armed for its time
//! vector: takes what is done for its CPU, ends it, arms the next one, parks
//! ```
//!
//! Invariant: whenever no code of this module runs, the vector of the earliest completion is due at
//! that completion's time at the latest. So every completion is noticed when it happens.

use std::cell::RefCell;

use highwater_core::block::DeviceId;
use highwater_core::host::{CpuId, Cx, Devices, IoDirection, IoError, IoRequest};
use highwater_core::page::PAGE_SIZE;

use super::SimHost;
use crate::cpu::cache_warmth::Touch;
use crate::disk::{DiskQueue, DiskSpec, DiskStats, Finished, PerDirection};
use crate::engine::TaskId;
use crate::ledger::Transfer;

/// One disk of a host.
pub(super) struct Disk {
    queue: RefCell<DiskQueue>,
    is_synchronous: bool,
    /// By CPU: the task that serves the disk's interrupts there.
    vectors: RefCell<Vec<Option<TaskId>>>,
}

impl Disk {
    fn new(spec: &DiskSpec, seed: u64, index: usize, nr_cpus: usize) -> Self {
        Disk {
            queue: RefCell::new(spec.build(seed, index)),
            is_synchronous: spec.is_synchronous(),
            vectors: RefCell::new(vec![None; nr_cpus]),
        }
    }
}

impl SimHost {
    /// This host with disks 0, 1, ... whose random streams derive from `seed`. Each disk needs a
    /// server for its interrupts: see [`SimHost::serve_interrupts`]. Transfers of a device without
    /// a disk are done at once.
    #[must_use]
    pub fn with_disks(mut self, specs: &[DiskSpec], seed: u64) -> Self {
        let nr_cpus = self.sim.nr_cpus();
        let disks = specs.iter().enumerate();
        self.disks = disks.map(|(i, spec)| Disk::new(spec, seed, i, nr_cpus)).collect();
        self
    }

    /// Numbers of the disks that interrupt.
    pub fn interrupting_disks(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let disks = self.disks.iter().enumerate();
        disks.filter(|(_, disk)| !disk.is_synchronous).map(|(i, _)| DeviceId(i as u8))
    }

    /// Ends the faults of all disks: later transfers succeed.
    pub fn heal_disks(&self) {
        self.disks.iter().for_each(|disk| disk.queue.borrow_mut().heal());
    }

    /// Statistics of a disk so far.
    pub fn disk_stats(&self, device: DeviceId) -> PerDirection<DiskStats> {
        let disk = self.disks.get(usize::from(device.0));
        disk.map_or_else(PerDirection::default, |disk| disk.queue.borrow().stats())
    }

    /// Serves a disk's interrupts on the CPU of the calling task, for ever. `end` receives the
    /// finished requests.
    pub fn serve_interrupts(
        &self,
        device: DeviceId,
        cx: &Cx<'_, SimHost>,
        mut end: impl FnMut(IoRequest, Result<(), IoError>),
    ) {
        const WHY: &str = "a transfer to be done";
        let (Some(disk), Some(me)) = (self.disks.get(usize::from(device.0)), self.sim.current())
        else {
            return;
        };
        let cpu = cx.cpu();
        disk.vectors.borrow_mut()[cpu.idx()] = Some(me);
        let mut is_inside = false;
        loop {
            self.sim.sync();
            disk.queue.borrow_mut().advance(self.sim.now_ns());
            let next = self.arm_others(disk, cpu);
            let finished = disk.queue.borrow_mut().take_done(cpu);
            match (finished, next) {
                (Some(finished), _) => {
                    if !is_inside {
                        self.sim.charge(self.costs.io_interrupt_ns);
                        is_inside = true;
                    }
                    let Finished { request, result, submitted_ns, begun_ns, done_ns } = finished;
                    self.sim.ending_transfer(Some(Transfer { submitted_ns, begun_ns, done_ns }));
                    end(request, result);
                    self.sim.ending_transfer(None);
                    continue;
                }
                (None, Some(at_ns)) => {
                    self.sim.park_until(WHY, at_ns);
                }
                (None, None) => self.sim.park(WHY),
            }
            is_inside = false;
        }
    }

    /// Arms the vectors of all CPUs but `me`. Returns when `me` must look next, unless another one
    /// looks earlier.
    fn arm_others(&self, disk: &Disk, me: CpuId) -> Option<u64> {
        let (next, waiting) = {
            let queue = disk.queue.borrow();
            let waiting: Vec<CpuId> = queue.cpus_with_done().filter(|&cpu| cpu != me).collect();
            (queue.next_done(), waiting)
        };
        let now_ns = self.sim.now_ns();
        for cpu in waiting {
            self.wake_vector(disk, cpu, now_ns);
        }
        let (at_ns, cpu) = next?;
        if cpu == me {
            return Some(at_ns);
        }
        self.wake_vector(disk, cpu, at_ns);
        None
    }

    fn wake_vector(&self, disk: &Disk, cpu: CpuId, at_ns: u64) {
        let vector = disk.vectors.borrow()[cpu.idx()];
        if let Some(vector) = vector {
            self.sim.wake_by(vector, at_ns);
        }
    }

    /// Charges the submitter for the copying of a disk in memory.
    fn copy_frames(&self, request: &IoRequest) {
        let touch = match request.direction {
            IoDirection::Read => Touch::CopyTo,
            IoDirection::Write => Touch::CopyFrom,
        };
        for &pfn in request.bios.iter().flat_map(|bio| &bio.pages) {
            self.copy(pfn, 0, PAGE_SIZE, touch);
        }
    }
}

impl Devices for SimHost {
    fn submit(&self, request: IoRequest) -> Option<(IoRequest, Result<(), IoError>)> {
        let Some(disk) = self.disks.get(usize::from(request.device.0)) else {
            return Some((request, Ok(())));
        };
        if disk.is_synchronous {
            self.copy_frames(&request);
            let result = disk.queue.borrow_mut().move_at_once(self.sim.now_ns(), &request);
            return Some((request, result));
        }
        self.sim.sync();
        let (now_ns, cpu) = (self.sim.now_ns(), self.sim.cpu());
        let first = {
            let mut queue = disk.queue.borrow_mut();
            let before = queue.next_done();
            queue.submit(now_ns, cpu, request);
            (queue.next_done() != before).then(|| queue.next_done()).flatten()
        };
        if let Some((at_ns, cpu)) = first {
            self.wake_vector(disk, cpu, at_ns);
        }
        None
    }
}
