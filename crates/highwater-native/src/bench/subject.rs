//! The allocators under test, behind one small interface.

use std::sync::Arc;

use buddy_system_allocator::FrameAllocator;
use crossbeam_utils::CachePadded;
use highwater_core::audit;
use highwater_core::config::{Machine, MachineError, NodeSpec, Policy, ZoneSpec};
use highwater_core::host::CpuId;
use highwater_core::page::{MAX_ORDER, Order, Pfn};
use highwater_core::page_alloc::Gfp;
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::ZoneType;

use super::pattern::Plan;
use crate::arena::ArenaOptions;
use crate::cpu::{CpuLease, Cpus};
use crate::host::{NativeError, NativeOptions};
use crate::lock::SpinLock;
use crate::machine::{NativeMachine, Task};

/// An allocator. Frames are numbered from 0.
pub trait Subject: Sync {
    /// Its name in tables.
    const NAME: &'static str;
    /// See [`Worker`].
    type Worker<'a>: Worker
    where
        Self: 'a;

    /// A thread's access to it. Called on that thread.
    ///
    /// # Errors
    /// If the thread cannot use it.
    fn worker(&self, number: usize) -> Result<Self::Worker<'_>, String>;

    /// Free frames.
    fn nr_free(&self) -> u64;

    /// Drains all freed memory to the buddy lists and checks the allocator's own counters.
    ///
    /// # Errors
    /// If a counter is wrong.
    fn settle(&self) -> Result<(), String>;
}

/// One thread's access to a [`Subject`].
pub trait Worker {
    /// The first frame of a new block.
    fn alloc(&mut self, order: Order) -> Option<u32>;
    /// Frees the block that begins at this frame.
    fn free(&mut self, pfn: u32, order: Order);
}

/// Puts the thread on a CPU, as highwater's threads are, so that all are pinned alike.
fn lease(cpus: &Arc<Cpus>, number: usize) -> Result<CpuLease, String> {
    cpus.enter(CpuId(number as u16)).map_err(|e| e.to_string())
}

/// First frame of the NORMAL zone.
const NORMAL_START: u32 = 1 << 20;

/// Highwater on this machine, in one zone of each node.
pub struct Highwater {
    machine: NativeMachine,
}

impl Highwater {
    /// Boots it with the memory, CPUs and nodes of the plan.
    ///
    /// # Errors
    /// If there is no such machine, or this computer lacks the memory for it.
    pub fn new(plan: &Plan, policy: &Policy, pin_threads: bool) -> Result<Highwater, NativeError> {
        let machine = machine(plan.nr_frames, plan.threads, plan.nodes)?;
        let options = NativeOptions {
            arena: ArenaOptions { huge_pages: false, ..ArenaOptions::default() },
            pin_threads,
            ..NativeOptions::default()
        };
        Ok(Highwater { machine: NativeMachine::boot(&machine, policy, &options)? })
    }

    /// Frames of each zone.
    pub fn zone_sizes(&self) -> Vec<u64> {
        self.machine.alloc.populated_zones().map(|zone| zone.managed()).collect()
    }
}

/// Frames and CPUs divided into `nr_nodes` nodes, each with one zone; as equal as possible.
fn machine(nr_frames: u32, nr_cpus: usize, nr_nodes: usize) -> Result<Machine, MachineError> {
    let share = |whole: usize, node: usize| whole * node / nr_nodes;
    // Zones begin and end with blocks of the largest order.
    let nr_blocks = nr_frames as usize >> Order::MAX.0;
    let frame = |node| u64::from(NORMAL_START) + (share(nr_blocks, node) << Order::MAX.0) as u64;
    let nodes = (0..nr_nodes).map(|node| {
        let cpus = share(nr_cpus, node) as u16..share(nr_cpus, node + 1) as u16;
        let (start, end) = (frame(node), frame(node + 1));
        let zone = ZoneSpec::full(ZoneType::Normal, start, end - start);
        NodeSpec { cpus: cpus.collect(), zones: vec![zone] }
    });
    Machine::of_nodes("bench", nodes.collect())
}

impl Subject for Highwater {
    const NAME: &'static str = "highwater";
    type Worker<'a> = Task<'a>;

    fn worker(&self, number: usize) -> Result<Task<'_>, String> {
        self.machine.enter(CpuId(number as u16)).map_err(|e| e.to_string())
    }

    fn nr_free(&self) -> u64 {
        self.machine.alloc.nr_free_pages()
    }

    fn settle(&self) -> Result<(), String> {
        let task = self.worker(0)?;
        task.drain_all();
        let alloc = &self.machine.alloc;
        let report = audit::check(alloc, &task.cx).map_err(|e| e.to_string())?;
        if report.used != 0 {
            return Err(format!("{} pages are still in use", report.used));
        }
        let allocated = alloc.events.read(VmEvent::PgallocNormal);
        let freed = alloc.events.read(VmEvent::Pgfree);
        // CPUs free into each other's pageblocks under this policy, and a CPU may find its own
        // lists busy. Such a free is not counted (rules/per-cpu-lists#free).
        let has_uncounted = alloc.policy.pcp.own_blocks && freed < allocated;
        match allocated == freed || has_uncounted {
            true => Ok(()),
            false => Err(format!("pgalloc is {allocated}, pgfree {freed}")),
        }
    }
}

impl Worker for Task<'_> {
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u32> {
        let pfn = Task::alloc(self, Gfp::GFP_HIGHUSER_MOVABLE, order)?;
        Some(pfn.0.wrapping_sub(NORMAL_START))
    }

    #[inline]
    fn free(&mut self, pfn: u32, order: Order) {
        // An error leaves the page allocated, which the check at the end reports.
        let _ = Task::free(self, Pfn(pfn.wrapping_add(NORMAL_START)), order);
    }
}

/// The minimum cost of a per-CPU list behind a spin lock.
pub(super) struct Floor {
    cpus: Arc<Cpus>,
    lists: Vec<CachePadded<SpinLock<Vec<u32>>>>,
    order: Order,
}

impl Floor {
    pub(super) fn new(plan: &Plan, pin_threads: bool) -> Result<Floor, NativeError> {
        let per_thread = (plan.nr_frames >> plan.order.0) / plan.threads as u32;
        let lists = (0..plan.threads as u32)
            .map(|n| {
                let blocks = (0..per_thread).rev().map(|b| (n * per_thread + b) << plan.order.0);
                CachePadded::new(SpinLock::new(blocks.collect()))
            })
            .collect();
        let cpus = Cpus::new(plan.threads, pin_threads)?;
        Ok(Floor { cpus, lists, order: plan.order })
    }
}

impl Subject for Floor {
    const NAME: &'static str = "floor: lock+LIFO";
    type Worker<'a> = FloorWorker<'a>;

    fn worker(&self, number: usize) -> Result<FloorWorker<'_>, String> {
        Ok(FloorWorker(&self.lists[number], lease(&self.cpus, number)?))
    }

    fn nr_free(&self) -> u64 {
        self.lists.iter().map(|list| (list.take().len() as u64) << self.order.0).sum()
    }

    fn settle(&self) -> Result<(), String> {
        Ok(())
    }
}

pub(super) struct FloorWorker<'a>(
    &'a SpinLock<Vec<u32>>,
    #[allow(dead_code, reason = "held while the thread works")] CpuLease,
);

impl Worker for FloorWorker<'_> {
    #[inline]
    fn alloc(&mut self, _: Order) -> Option<u32> {
        self.0.take().pop()
    }

    #[inline]
    fn free(&mut self, pfn: u32, _: Order) {
        self.0.take().push(pfn);
    }
}

/// The `buddy_system_allocator` crate behind our spin lock.
pub(super) struct Crate {
    cpus: Arc<Cpus>,
    /// The allocator and its number of free frames, which the crate does not report.
    frames: CrateFrames,
}

impl Crate {
    pub(super) fn new(plan: &Plan, pin_threads: bool) -> Result<Crate, NativeError> {
        let mut frames = FrameAllocator::new();
        frames.add_frame(0, plan.nr_frames as usize);
        let cpus = Cpus::new(plan.threads, pin_threads)?;
        Ok(Crate { cpus, frames: SpinLock::new((frames, u64::from(plan.nr_frames))) })
    }
}

impl Subject for Crate {
    const NAME: &'static str = "buddy_system_allocator";
    type Worker<'a> = CrateWorker<'a>;

    fn worker(&self, number: usize) -> Result<CrateWorker<'_>, String> {
        Ok(CrateWorker(&self.frames, lease(&self.cpus, number)?))
    }

    /// Checked by `settle`, which allocates all memory.
    fn nr_free(&self) -> u64 {
        self.frames.take().1
    }

    fn settle(&self) -> Result<(), String> {
        let (frames, nr_free) = &mut *self.frames.take();
        let largest = 1 << Order::MAX.0;
        let blocks: Vec<usize> = core::iter::from_fn(|| frames.alloc(largest)).collect();
        let whole = blocks.len() as u64 * largest as u64;
        blocks.iter().for_each(|&start| frames.dealloc(start, largest));
        match whole == *nr_free {
            true => Ok(()),
            false => Err(format!("{whole} of {nr_free} free frames are in whole blocks")),
        }
    }
}

type CrateFrames = SpinLock<(FrameAllocator<MAX_ORDER>, u64)>;

pub(super) struct CrateWorker<'a>(
    &'a CrateFrames,
    #[allow(dead_code, reason = "held while the thread works")] CpuLease,
);

impl Worker for CrateWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u32> {
        let (frames, nr_free) = &mut *self.0.take();
        let start = frames.alloc(1 << order.0)?;
        *nr_free -= order.pages();
        Some(start as u32)
    }

    #[inline]
    fn free(&mut self, pfn: u32, order: Order) {
        let (frames, nr_free) = &mut *self.0.take();
        frames.dealloc(pfn as usize, 1 << order.0);
        *nr_free += order.pages();
    }
}
