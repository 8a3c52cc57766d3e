//! One run of a seed: ballast, programs, audits at the gate, clearing away, the last audits.

use std::fmt;
use std::rc::Rc;

use highwater_core::audit::{KernelReport, check_kernel_besides};
use highwater_core::block::DeviceId;
use highwater_core::config::KswapdGoal;
use highwater_core::host::Cx;
use highwater_core::page::{Order, Pfn};
use highwater_core::page_alloc::{Gfp, NoRelief};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::Mark;

use super::Failure;
use super::groups;
use super::liveness::{ROOM, usable_pages};
use super::options::Options;
use super::shared::Shared;
use super::worker::{self, Start};
use crate::cost::CostModel;
use crate::digest::{Digest, DigestPlan};
use crate::engine::{JoinHandle, Outcome, Placement};
use crate::host::{SimHost, TraceSink, Tracing};
use crate::ledger::Ledger;
use crate::machine::{MachineConfig, SimMachine};

const SECOND: u64 = 1_000_000_000;
/// Time between two looks at the gate.
const STEP_NS: u64 = SECOND / 4;
/// Limit for a run: a month of virtual time.
const LIMIT_NS: u64 = 30 * 24 * 3600 * SECOND;
/// Limit for programs to reach the gate and for the machine to come to rest.
pub(super) const REST_LIMIT_NS: u64 = 24 * 3600 * SECOND;
/// Time after which limits of groups no longer keep programs from the gate.
const GROUPS_LIMIT_NS: u64 = 3600 * SECOND;
/// The machine is at rest after this many steps without a change.
const REST_STEPS: u32 = 8;
/// Time after which reclaim no longer keeps a machine from rest on which no program runs and
/// nothing is transferred. khugepaged that never pauses reclaims for ever for a huge page that it
/// cannot get; a kswapd of before 4.12 may have no end ([`Director::miss_audit`]).
const PATIENCE_NS: u64 = 60 * SECOND;
/// Looks for a moment at which no daemon runs, once the machine is at rest, and the time between
/// two of them. A kswapd that does not stop makes 100,000 events in a second, so the time is short,
/// and no multiple of a tick.
const QUIET_TRIES: u32 = 100;
const QUIET_STEP_NS: u64 = 1_009_000;

/// The result of a run.
pub struct Run {
    /// Digest of all events; `None` if the machine did not boot.
    pub digest: Option<Digest>,
    /// The summary, or the failure.
    pub result: Result<Summary, Failure>,
    /// Time of all tasks by cause, if requested.
    pub ledger: Ledger,
}

/// Counts of a run, to see the coverage of a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// Virtual time.
    pub virtual_ns: u64,
    /// Events of the simulation.
    pub nr_events: u64,
    /// Operations of programs.
    pub nr_ops: u64,
    /// Programs.
    pub nr_tasks: u64,
    /// Audits.
    pub nr_audits: u64,
    /// Audits that kswapd prevented, because it did not stop.
    pub nr_missed: u64,
    /// Victims of the OOM killer.
    pub nr_oom_kills: u64,
    /// Calls that ended with an I/O error.
    pub nr_io_errors: u64,
    /// Calls that ended without memory.
    pub nr_no_memory: u64,
    /// Calls that ended because the task was killed.
    pub nr_killed: u64,
    /// Pages scanned by kswapd.
    pub scanned_kswapd: u64,
    /// Pages scanned by direct reclaim.
    pub scanned_direct: u64,
    /// Pages written to swap.
    pub swapped_out: u64,
    /// Pages read from swap.
    pub swapped_in: u64,
    /// Pages moved to other frames.
    pub migrated: u64,
    /// Pages that could not be moved.
    pub migrate_failed: u64,
    /// Huge pages that faults mapped.
    pub huge_faults: u64,
    /// Huge pages that were split.
    pub huge_splits: u64,
    /// Huge pages that khugepaged allocated.
    pub huge_collapses: u64,
    /// Huge pages swapped out whole.
    pub huge_swapped: u64,
    /// Virtual time at which the faults ended.
    pub healed_ns: u64,
    /// Transfers that disks failed.
    pub nr_failed_transfers: u64,
    /// Tasks that did all of their operations in the liveness phase.
    pub nr_finished: u64,
    /// Tasks that were killed in the liveness phase, for lack of memory.
    pub nr_cut_short: u64,
    /// Operations of the liveness phase.
    pub nr_live_ops: u64,
    /// No program could start in the liveness phase until ballast and files in memory were gone.
    pub has_made_room: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} s, {} events, {} operations of {} tasks, {} audits; scanned {} + {}; \
             swapped {} out, {} in; moved {}, {} not; {} OOM kills, {} I/O errors, {} without memory, {} killed",
            self.virtual_ns as f64 / 1e9,
            self.nr_events,
            self.nr_ops,
            self.nr_tasks,
            self.nr_audits,
            self.scanned_kswapd,
            self.scanned_direct,
            self.swapped_out,
            self.swapped_in,
            self.migrated,
            self.migrate_failed,
            self.nr_oom_kills,
            self.nr_io_errors,
            self.nr_no_memory,
            self.nr_killed,
        )
    }
}

/// Runs the options once.
pub fn run(options: &Options, digest: DigestPlan, sink: Option<TraceSink>) -> Run {
    run_with(options, digest, sink, false)
}

/// Runs the options once with a ledger of all tasks' time.
pub fn run_booked(options: &Options, digest: DigestPlan) -> Run {
    run_with(options, digest, None, true)
}

fn run_with(
    options: &Options,
    digest: DigestPlan,
    sink: Option<TraceSink>,
    is_booked: bool,
) -> Run {
    let mut director = match Director::boot(options, digest, sink) {
        Ok(director) => director,
        Err(error) => {
            return Run { digest: None, result: Err(error), ledger: Ledger::default() };
        }
    };
    if is_booked {
        director.machine.sim().open_ledger();
    }
    let mut result = director.direct();
    let ledger = director.machine.sim().close_ledger();
    if let (Ok(_), Some(gap)) = (&result, ledger.first_gap()) {
        result = Err(Failure::Ledger(gap));
    }
    Run { digest: Some(director.machine.digest()), result, ledger }
}

/// Controls the run from outside the simulation, step by step.
pub(super) struct Director {
    pub(super) machine: SimMachine,
    pub(super) shared: Rc<Shared>,
    /// Blocks that hold a part of memory.
    pub(super) ballast: Vec<(Pfn, Order)>,
    /// Virtual time reached so far.
    pub(super) now_ns: u64,
    nr_audits: u64,
    nr_missed: u64,
    pub(super) healed_ns: u64,
    pub(super) nr_safe_ops: u64,
    /// Memory was full in the liveness phase.
    pub(super) has_made_room: bool,
}

impl Director {
    /// Boots the machine of the options; nothing has happened yet.
    pub(super) fn boot(
        options: &Options,
        digest: DigestPlan,
        sink: Option<TraceSink>,
    ) -> Result<Director, Failure> {
        let mut costs = CostModel::new(&options.costs.1);
        costs.sched_named = Some(options.sched);
        let config = MachineConfig {
            disks: options.disks.clone(),
            swap: options.swap.clone(),
            seed: options.seed,
            tracing: Tracing { digest: true, sink, ..Tracing::default() },
            digest,
            advised: true,
            groups: options.nr_groups,
            ..MachineConfig::new(options.machine.clone(), costs, options.policy.clone())
        };
        let machine = SimMachine::boot(config).map_err(|error| Failure::Boot(error.to_string()))?;
        let shared = Shared::new(options, machine.clone());
        Ok(Director {
            machine,
            shared,
            ballast: Vec::new(),
            now_ns: 0,
            nr_audits: 0,
            nr_missed: 0,
            healed_ns: 0,
            nr_safe_ops: 0,
            has_made_room: false,
        })
    }

    fn direct(&mut self) -> Result<Summary, Failure> {
        self.take_ballast()?;
        self.make_files();
        for _ in 0..self.shared.options.nr_tasks {
            worker::spawn(&self.shared, Start::Own);
        }
        self.run_programs()?;
        self.let_finish()?;
        if let Some(full) = self.audit_at_rest("with all programs gone")?
            && full.tables + full.entries + full.swap_entries > 0
        {
            return Err(Failure::Left(format!("of address spaces: {full:?}")));
        }
        self.clear_away()?;
        // With all memory free, kswapd of any kernel has nothing to do.
        let Some(empty) = self.audit_at_rest("with all files deleted")? else {
            return Err(Failure::Restless(format!("with all files deleted: {}", self.waits())));
        };
        if empty.cached + empty.foreign > 0 {
            return Err(Failure::Left(format!("of files and blocks: {empty:?}")));
        }
        // Pages under writeback that lost their last user meanwhile wait for reclaim.
        if empty.on_lists > empty.swap_cached + empty.in_batches {
            return Err(Failure::Left(format!("on LRU lists: {empty:?}")));
        }
        Ok(self.summary())
    }

    /// Takes large blocks, then smaller ones, without any pressure on reclaim. Leaves [`ROOM`] pages
    /// above all marks together, and as many that programs can use: without them no program could
    /// start, and no check would mean anything.
    fn take_ballast(&mut self) -> Result<(), Failure> {
        let pages = self.shared.options.ballast;
        let nodes = self.shared.options.nodes_with_memory();
        let handle = self.program("ballast", move |cx, shared| {
            let mem = &shared.machine.kernel.mem;
            let gfp = Gfp::GFP_HIGHUSER_MOVABLE - Gfp::RECLAIM;
            let (mut taken, mut left) = (Vec::new(), pages);
            for (order, &node) in (0..=10).rev().flat_map(|o| nodes.iter().map(move |n| (o, n))) {
                let order = Order(order);
                while left >= order.pages() {
                    let got = mem.alloc(cx, &NoRelief, gfp, order, node, None);
                    let Some(pfn) = got else { break };
                    shared.blocks.borrow_mut().insert(pfn);
                    taken.push((pfn, order));
                    left -= order.pages();
                }
            }
            let marks: u64 = mem.populated_zones().map(|zone| zone.mark(Mark::High)).sum();
            let has_room =
                || mem.nr_free_pages() >= marks + ROOM && usable_pages(mem, Mark::High) >= ROOM;
            while !has_room()
                && let Some(block) = taken.pop()
            {
                shared.give_back(cx, block);
            }
            taken
        });
        self.run_to_end()?;
        self.ballast = handle.take().unwrap_or_default();
        Ok(())
    }

    pub(super) fn make_files(&mut self) {
        let cx = self.machine.outside();
        let specs = &self.shared.options.files;
        let files = specs.iter().map(|&spec| self.machine.kernel.create_file(&cx, spec));
        *self.shared.files.borrow_mut() = files.collect();
    }

    fn run_programs(&mut self) -> Result<(), Failure> {
        loop {
            if self.step()? == Outcome::Finished {
                return Ok(());
            }
            if self.shared.gate.is_closed.get() {
                self.audit("at the gate", |shared| {
                    shared.all_wait() || shared.nr_alive.get() == 0
                })?;
                if self.shared.work_left() == 0 {
                    return Ok(());
                }
                self.shared.gate.is_closed.set(false);
            }
        }
    }

    /// Waits for rest and audits, with a program that keeps the run alive meanwhile.
    /// `None`: kswapd did not stop.
    pub(super) fn audit_at_rest(&mut self, when: &str) -> Result<Option<KernelReport>, Failure> {
        self.shared.gate.is_closed.set(true);
        let keeper = self.program("keeper", |cx, shared| shared.pass_gate(cx));
        let report = self.audit(when, |_| true)?;
        self.shared.gate.is_closed.set(false);
        self.run_to_end()?;
        drop(keeper);
        Ok(report)
    }

    /// Deletes all files, frees all blocks, and empties the swap cache as far as possible.
    fn clear_away(&mut self) -> Result<(), Failure> {
        let ballast = std::mem::take(&mut self.ballast);
        self.program("cleaner", move |cx, shared| {
            let kernel = &shared.machine.kernel;
            for file in kernel.all_files(cx) {
                kernel.delete_file(cx, &file);
            }
            ballast.into_iter().for_each(|block| shared.give_back(cx, block));
        });
        self.run_to_end()
    }

    pub(super) fn program<T: 'static>(
        &self,
        name: &'static str,
        body: impl FnOnce(&Cx<'_, SimHost>, &Shared) -> T + 'static,
    ) -> JoinHandle<T> {
        let shared = Rc::clone(&self.shared);
        self.machine.spawn_task(name, Placement::Anywhere, move |cx, _| body(cx, &shared))
    }

    pub(super) fn step(&mut self) -> Result<Outcome, Failure> {
        self.step_by(STEP_NS)
    }

    fn step_by(&mut self, step_ns: u64) -> Result<Outcome, Failure> {
        self.now_ns = self.now_ns.max(self.machine.sim().now_ns()) + step_ns;
        if self.now_ns > LIMIT_NS {
            // The error names every task.
            self.machine.run_within(LIMIT_NS).map_err(Failure::Run)?;
        }
        self.machine.run_until(self.now_ns).map_err(Failure::Run)
    }

    pub(super) fn run_to_end(&mut self) -> Result<(), Failure> {
        while self.step()? != Outcome::Finished {}
        Ok(())
    }

    /// Continues the run until `is_ready` holds and the machine is at rest, and audits; `None` if
    /// the last program ended before that, or if kswapd does not stop.
    fn audit(
        &mut self,
        when: &str,
        is_ready: impl Fn(&Shared) -> bool,
    ) -> Result<Option<KernelReport>, Failure> {
        let limit_ns = self.now_ns + REST_LIMIT_NS;
        let (mut seen, mut nr_equal) = (None, 0);
        let has_groups = self.shared.options.nr_groups > 0;
        let mut lift_ns = has_groups.then_some(self.now_ns + GROUPS_LIMIT_NS);
        let mut ready_ns = None;
        while nr_equal < REST_STEPS {
            if self.step()? == Outcome::Finished {
                return Ok(None);
            }
            // A task over its group's memory.high goes on by a page a second, which takes days.
            if lift_ns.is_some_and(|at_ns| self.now_ns > at_ns) {
                lift_ns = None;
                drop(self.program("lifter", groups::lift_limits));
            }
            let mut now = self.activity();
            let is_ready = is_ready(&self.shared);
            let since_ns = *ready_ns.get_or_insert(self.now_ns);
            if !is_ready {
                ready_ns = None;
            } else if self.now_ns - since_ns > PATIENCE_NS {
                now.scanned = match self.shared.options.policy.reclaim.kswapd.goal {
                    KswapdGoal::AnyZone => self.event(VmEvent::PgscanKswapd),
                    KswapdGoal::Block | KswapdGoal::Room => 0,
                };
            }
            let is_at_rest = is_ready && now.in_flight == 0 && seen == Some(now);
            nr_equal = if is_at_rest { nr_equal + 1 } else { 0 };
            seen = Some(now);
            if self.now_ns > limit_ns {
                return Err(Failure::Restless(format!("{when}: {now:?}; {}", self.waits())));
            }
        }
        for _ in 0..QUIET_TRIES {
            if !self.machine.engine().has_awake_task() {
                break;
            }
            if self.step_by(QUIET_STEP_NS)? == Outcome::Finished {
                return Ok(None);
            }
        }
        if self.machine.engine().has_awake_task() {
            return self.miss_audit(when);
        }
        self.nr_audits += 1;
        let result = {
            let blocks = self.shared.blocks.borrow();
            let is_foreign = |pfn| blocks.contains(&pfn);
            let cx = self.machine.outside();
            check_kernel_besides(&self.machine.kernel, &cx, &is_foreign)
        };
        result.map(Some).map_err(|error| {
            let when = format!("{when} ({})", self.waits());
            Failure::Audit { when, error }
        })
    }

    /// A daemon runs for ever, so there is no moment at which memory is whole. Before 4.12 kswapd
    /// has no end on a node whose short zone can give nothing (rules/kswapd#zone-reclaimable).
    /// Later kernels give up.
    fn miss_audit(&mut self, when: &str) -> Result<Option<KernelReport>, Failure> {
        match self.shared.options.policy.reclaim.kswapd.goal {
            KswapdGoal::AnyZone => Err(Failure::Restless(format!("{when}: {}", self.waits()))),
            KswapdGoal::Block | KswapdGoal::Room => {
                self.nr_missed += 1;
                Ok(None)
            }
        }
    }

    /// The event that each task waits for.
    pub(super) fn waits(&mut self) -> String {
        let limit = self.machine.run_within(self.now_ns).err();
        limit.map_or_else(String::new, |error| error.to_string())
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.machine.kernel.mem.events.read(event)
    }

    fn failed_transfers(&self) -> u64 {
        let devices = (0..self.shared.options.disks.len()).map(|disk| DeviceId(disk as u8));
        let stats = devices.map(|device| self.machine.host.disk_stats(device));
        stats.map(|of| of.read.nr_failed + of.write.nr_failed).sum()
    }

    fn activity(&self) -> Activity {
        let kernel = &self.machine.kernel;
        let devices = kernel.block.devices.iter();
        let moved = [VmEvent::Pgpgin, VmEvent::Pgpgout, VmEvent::Pswpin, VmEvent::Pswpout];
        let scanned = [VmEvent::PgscanKswapd, VmEvent::PgscanDirect, VmEvent::Pgfree];
        Activity {
            in_flight: devices.map(|device| u64::from(device.in_flight())).sum(),
            moved: moved.iter().map(|&event| self.event(event)).sum(),
            scanned: scanned.iter().map(|&event| self.event(event)).sum(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let tally = &self.shared.tally;
        Summary {
            virtual_ns: self.machine.sim().now_ns(),
            nr_events: self.machine.digest().nr_events(),
            nr_ops: tally.nr_ops.get(),
            nr_tasks: self.shared.nr_started.get(),
            nr_audits: self.nr_audits,
            nr_missed: self.nr_missed,
            nr_oom_kills: self.event(VmEvent::OomKill),
            nr_io_errors: tally.nr_io_errors.get(),
            nr_no_memory: tally.nr_no_memory.get(),
            nr_killed: tally.nr_killed.get(),
            scanned_kswapd: self.event(VmEvent::PgscanKswapd),
            scanned_direct: self.event(VmEvent::PgscanDirect),
            swapped_out: self.event(VmEvent::Pswpout),
            swapped_in: self.event(VmEvent::Pswpin),
            migrated: self.event(VmEvent::PgmigrateSuccess),
            migrate_failed: self.event(VmEvent::PgmigrateFail),
            huge_faults: self.event(VmEvent::ThpFaultAlloc),
            huge_splits: self.event(VmEvent::ThpSplitPage),
            huge_collapses: self.event(VmEvent::ThpCollapseAlloc),
            huge_swapped: self.event(VmEvent::ThpSwpout),
            healed_ns: self.healed_ns,
            nr_failed_transfers: self.failed_transfers(),
            nr_finished: tally.nr_finished.get(),
            nr_cut_short: tally.nr_cut_short.get(),
            nr_live_ops: tally.nr_ops.get() - self.nr_safe_ops,
            has_made_room: self.has_made_room,
        }
    }
}

/// Figures that change if the machine is not at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activity {
    in_flight: u64,
    moved: u64,
    scanned: u64,
}
