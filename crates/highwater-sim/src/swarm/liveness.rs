//! The liveness phase: faults are off, and every program has to end.
//!
//! A program needs memory to begin. A machine may have none: files in memory without swap, locked
//! pages of files and ballast can hold all of it, and the OOM killer finds nobody to kill. Linux
//! stops or refuses the fork there. That is no hang, so the phase goes on in steps, as an
//! administrator would:
//!
//! 1. All tasks that are missing start. If one of them does its operations or is killed in them,
//!    the phase has passed.
//! 2. If every task was refused, the machine comes to rest, and they start once more: writes
//!    that were on their way are done by now.
//! 3. If all are refused again, memory must really be held. Free or reclaimable pages are a
//!    failure of the kernel. If there are none, ballast and the files in memory go, and the tasks
//!    start for the last time.
//!
//! The same goes, once, for a task that a kernel before 4.12 leaves at the gate of the reserves for
//! ever.

use highwater_core::config::KswapdGoal;
use highwater_core::page::{PageFlags, Pfn};
use highwater_core::page_alloc::PageAllocator;
use highwater_core::vmstat::NodeStat;
use highwater_core::zone::{Mark, NodeId, Zone, ZoneType};

use super::Failure;
use super::groups;
use super::run::{Director, REST_LIMIT_NS};
use super::shared::{Phase, Shared};
use super::worker::{self, Start};
use crate::engine::{JoinHandle, Outcome};
use crate::host::SimHost;

/// Time after which the administrator makes room for tasks that a kernel before 4.12 leaves waiting.
/// Its kswapd calls a zone balanced that it has scanned six times for nothing, and the gate of the
/// reserves counts the zone as short (rules/kswapd#zone-reclaimable, rules/node-pass#gate): a task
/// at the gate waits for ever.
const PATIENCE_NS: u64 = 120 * 1_000_000_000;
/// The name of that wait in the list of waits.
const GATE: &str = "reserves to recover";

/// Pages that must be free above the marks for programs to start and do something.
pub const ROOM: u64 = 500;

/// Pages that kernel and programs can get without reclaim, above `mark` in each zone. A movable
/// zone is left out, because page tables cannot be there. So are the pages that a low zone keeps
/// for requests that need them.
pub(super) fn usable_pages(mem: &PageAllocator<SimHost>, mark: Mark) -> u64 {
    let usable = |zone: &Zone<SimHost>| {
        let kept = zone.mark(mark) + zone.lowmem_reserve(ZoneType::Normal);
        zone.nr_free_pages_exact().saturating_sub(kept + zone.nr_reserved_highatomic())
    };
    mem.populated_zones().filter(|zone| zone.zone <= ZoneType::Normal).map(usable).sum()
}

impl Director {
    /// The liveness phase: the faults and the limits of groups end, and every task has to end,
    /// those that wait at the gate and as many new ones as are missing.
    pub(super) fn let_finish(&mut self) -> Result<(), Failure> {
        self.machine.host.heal_disks();
        self.healed_ns = self.machine.sim().now_ns();
        self.nr_safe_ops = self.shared.tally.nr_ops.get();
        self.shared.has_failed_swapins.set(has_failed_swapins(&self.shared));
        self.shared.phase.set(Phase::Liveness);
        if self.shared.options.nr_groups > 0 {
            drop(self.program("lifter", groups::lift_limits));
        }
        self.finish_tasks()?;
        if self.is_idle() {
            self.audit_at_rest("with no program able to start")?;
            self.finish_tasks()?;
        }
        if self.is_idle() {
            self.audit_at_rest("with no program able to start again")?;
            self.check_refusal()?;
            self.make_room()?;
            self.finish_tasks()?;
        }
        match self.is_idle() {
            true => Err(Failure::Stuck("no task did anything after the faults ended".to_owned())),
            false => Ok(()),
        }
    }

    /// Starts the tasks that are missing, opens the gate, and lets all come to their end.
    fn finish_tasks(&mut self) -> Result<(), Failure> {
        for _ in self.shared.nr_alive.get()..self.shared.options.nr_tasks {
            worker::spawn_beyond(&self.shared, Start::Own);
        }
        self.shared.gate.is_closed.set(false);
        let (mut look_ns, limit_ns) = (self.now_ns + PATIENCE_NS, self.now_ns + REST_LIMIT_NS);
        while self.step()? != Outcome::Finished {
            if self.now_ns > limit_ns {
                return Err(Failure::Stuck(self.waits()));
            }
            let goal = self.shared.options.policy.reclaim.kswapd.goal;
            let is_old = matches!(goal, KswapdGoal::Block | KswapdGoal::Room);
            if is_old && self.now_ns > look_ns && !self.has_made_room {
                look_ns = self.now_ns + PATIENCE_NS;
                if self.waits().contains(GATE) {
                    drop(self.administrator());
                }
            }
        }
        Ok(())
    }

    /// True if no task has done anything in the liveness phase.
    fn is_idle(&self) -> bool {
        let tally = &self.shared.tally;
        tally.nr_finished.get() + tally.nr_cut_short.get() == 0
    }

    /// Fails if the kernel refuses programs although it has memory for them. No program runs, and
    /// the machine is at rest.
    pub(super) fn check_refusal(&self) -> Result<(), Failure> {
        let Shared { options, machine, tally, .. } = &*self.shared;
        // A cpuset may be full while other nodes are not.
        if options.has_mems_allowed && options.machine.tunables.cpusets {
            return Ok(());
        }
        let kernel = &machine.kernel;
        let pages = |items: &[NodeStat]| -> u64 {
            let nodes = (0..kernel.mem.nr_nodes()).map(|id| kernel.mem.node(NodeId(id as u16)));
            let read = |node: &highwater_core::zone::Node| -> u64 {
                items.iter().map(|&item| node.stats.read_exact(item as usize)).sum()
            };
            nodes.map(read).sum()
        };
        let free = usable_pages(&kernel.mem, Mark::Min);
        let files = pages(&[NodeStat::InactiveFile, NodeStat::ActiveFile]);
        let swaps = options.machine.tunables.swappiness > 0;
        let anon = match swaps {
            true => {
                pages(&[NodeStat::InactiveAnon, NodeStat::ActiveAnon]).min(kernel.swap.nr_free())
            }
            false => 0,
        };
        if free + files + anon > ROOM {
            return Err(Failure::Stuck(format!(
                "{} programs were refused an address space, and {free} pages are free above the marks, {files} \
                 pages of files and {anon} others can be reclaimed",
                tally.nr_refused.get()
            )));
        }
        Ok(())
    }

    /// Frees what no program holds and the kernel cannot reclaim: ballast, and files in memory. New
    /// files take their places.
    pub(super) fn make_room(&mut self) -> Result<(), Failure> {
        drop(self.administrator());
        self.run_to_end()
    }

    /// The program that does so.
    fn administrator(&mut self) -> JoinHandle<()> {
        self.has_made_room = true;
        let ballast = std::mem::take(&mut self.ballast);
        self.program("administrator", move |cx, shared| {
            let kernel = &shared.machine.kernel;
            ballast.into_iter().for_each(|block| shared.give_back(cx, block));
            for (at, spec) in shared.options.files.iter().enumerate() {
                if spec.filesystem.is_memory {
                    let new = kernel.create_file(cx, *spec);
                    let old = std::mem::replace(&mut shared.files.borrow_mut()[at], new);
                    kernel.delete_file(cx, &old);
                }
            }
            let small = std::mem::take(&mut *shared.small.borrow_mut());
            let (gone, kept) = small.into_iter().partition(|file| file.is_memory());
            *shared.small.borrow_mut() = kept;
            let gone: Vec<_> = gone;
            gone.iter().for_each(|file| kernel.delete_file(cx, file));
        })
    }
}

/// True if the swap cache has pages that a disk could not read, or reads now. Such a page stays
/// there until it is reclaimed, and until then it fails every access: healing the disk does not
/// read it again.
fn has_failed_swapins(shared: &Shared) -> bool {
    let options = &shared.options;
    let fails = |device: usize| {
        let faults = options.disks[device].faults.as_ref();
        faults.is_some_and(|faults| faults.errors.read > 0.0)
    };
    if !options.swap.iter().any(|area| fails(area.device.0.into())) {
        return false;
    }
    let mem = &shared.machine.kernel.mem;
    let mut frames = mem.populated_zones().flat_map(|zone| (zone.start.0..zone.end.0).map(Pfn));
    frames.any(|pfn| {
        let page = mem.map.page(mem.map.folio(pfn));
        page.is(PageFlags::SWAPCACHE) && !page.is(PageFlags::UPTODATE)
    })
}
