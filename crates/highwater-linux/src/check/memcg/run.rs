//! One run of a script on the model: the main program, in the root group on CPU 0.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use highwater_core::config::Policy;
use highwater_core::host::{CpuId, Cx, HZ, Host};
use highwater_core::kernel::Kernel;
use highwater_core::page::PAGE_SIZE;
use highwater_core::reclaim::GroupSetting;
use highwater_core::units::GroupId;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::NodeId;
use highwater_results::Counters;
use highwater_results::import::linux61::{Memcg as Captured, Op, Setting, Zone};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{SimKernel, SimMachine};
use highwater_workloads::scenario::{Baseline, Held, IdleLists, ScenarioError};

use super::super::machine::{self, System};
use super::desk::{Desk, Order, Outcome};
use super::files::World;
use super::items::{GroupNow, ROOT};
use super::worker::{OWN_PAGES, Start};
use highwater_files::input::InputError;
use highwater_runs::workload::harness;
use highwater_runs::workload::outcome::snapshot;

/// Seeds of the disks' jitter: see `check::scenario`.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Room for groups beyond those of the script.
const MORE_GROUPS: u16 = 16;
const SETTLE_JIFFIES: u64 = 10 * HZ;
/// Counters of kernels after 6.1 that rules of these kernels count.
const LATER_COUNTERS: [VmEvent; 2] = [VmEvent::PgscanProactive, VmEvent::PgstealProactive];

/// Readings at a snapshot, and what became of the operations before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) counters: Counters,
    pub(super) groups: BTreeMap<String, GroupNow>,
    /// The operations since the snapshot before, by their place in the script.
    pub(super) done: Vec<(usize, Outcome)>,
}

/// The first `nr_ops` operations of the script, several times, each after some idle time.
pub(super) fn runs(
    file: &str,
    captured: &Captured,
    policy: &Policy,
    nr_ops: usize,
    idle_ns: u64,
) -> Result<Vec<Vec<Reading>>, InputError> {
    thread::scope(|scope| {
        let run = |seed| run(file, captured, policy, (nr_ops, idle_ns, seed));
        let runs = SEEDS.map(|seed| scope.spawn(move || run(seed)));
        let panicked = || InputError::whole(file, "the simulation panicked");
        let runs = runs.map(|run| run.join().unwrap_or_else(|_| Err(panicked())));
        runs.into_iter().collect()
    })
}

fn run(
    file: &str,
    captured: &Captured,
    policy: &Policy,
    (nr_ops, idle_ns, seed): (usize, u64, u64),
) -> Result<Vec<Reading>, InputError> {
    let failed = |reason: String| InputError::whole(file, reason);
    let system = System {
        file,
        name: &captured.name,
        cpus: captured.cpus,
        nodes: &[],
        zones: &captured.zones,
        gauges: captured.runs[0].start_gauges.clone(),
        start_nodes: &[],
        disk_limit: None,
        costs_of: machine::EMULATOR,
        swap_pages: None,
        settings: captured.settings.clone(),
    };
    let mut config = machine::config(&system, policy)?;
    config.seed = seed;
    config.groups = captured.nr_groups() as u16 + MORE_GROUPS;
    let mut machine = SimMachine::boot(config).map_err(|error| failed(error.to_string()))?;
    machine.sim().measure_pressure();
    machine::adopt_sizes(&machine.kernel, &captured.zones);
    let baseline = Baseline { idle: vec![idle(captured)], ..machine::baseline(&system) };
    let free = captured.zones.iter().map(|zone| zone.free).sum();
    let readings: Rc<RefCell<Vec<Reading>>> = Rc::default();
    let (seen, script) = (Rc::clone(&readings), captured.script[..nr_ops].to_vec());
    let zones = captured.zones.clone();
    let captured_run = &captured.runs[seed as usize % captured.runs.len()];
    let times = captured_run.times(&captured.script);
    // Elsewhere no decision hangs on the time of an operation, and pacing does harm: it holds back
    // the worker and not kswapd, so more of the reclaim is left to kswapd.
    let is_paced = policy.compares_late_statistics();
    let parts = SimKernel::clone(&machine);
    let place = Placement::Pinned(CpuId(0));
    let task = machine.spawn_task("main", place, move |cx, kernel| {
        let held = baseline.apply(kernel, cx)?;
        let world = Rc::new(World::new(kernel, cx, &script));
        let (mm, own) = first_process(kernel, cx)?;
        let groups = vec![(ROOT.to_owned(), GroupId::ROOT)];
        let (workers, done) = (BTreeMap::new(), Vec::new());
        let has_begin = script.iter().any(|line| line.op == Op::Begin);
        let mut main = Main {
            kernel,
            cx,
            machine: parts,
            held,
            free,
            world,
            mm: Arc::clone(&mm),
            own,
            groups,
            workers,
            done,
            readings: &seen,
            zones: &zones,
            has_begin,
        };
        cx.host.sim().sleep_ns(idle_ns);
        let begin = cx.host.now_ns();
        let ran = script.iter().zip(times).enumerate().try_for_each(|(at, (line, time))| {
            main.wait_until(begin + in_ns(time.start_s));
            let took_ns = time.worker_s.filter(|_| is_paced).map(in_ns);
            main.act(at, &line.op, took_ns)
        });
        main.end_workers();
        kernel.exit_mm(cx, &mm);
        mm.remove_task(cx);
        // The audit needs an idle machine: let flushers and kswapd finish.
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        let audited = harness::audit_at_rest(kernel, cx).map_err(|error| error.to_string());
        ran.map(|()| audited)
    });
    machine.run().map_err(|error| failed(error.to_string()))?;
    match task.take() {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(broken))) => return Err(failed(format!("audit after the run: {broken}"))),
        Some(Err(error)) => return Err(failed(format!("the program failed: {error}"))),
        None => return Err(failed("the program was killed".to_owned())),
    }
    Ok(readings.take())
}

/// Swappable memory of the root at the first snapshot: all of it, without that of the groups.
fn idle(captured: &Captured) -> IdleLists {
    let run = &captured.runs[0];
    let level = |name: &str| run.start_gauges.get(name).copied().unwrap_or(0);
    let groups = run.start_groups.iter().filter(|(path, _)| !path.contains('/'));
    let of_groups = |name: &str| -> i64 {
        let bytes = groups.clone().map(|(_, group)| group.gauges.get(name).copied().unwrap_or(0));
        bytes.sum::<i64>() / PAGE_SIZE as i64
    };
    let all = level("nr_shmem") + level("nr_anon_pages") - of_groups("anon");
    let active = level("nr_active_anon") - of_groups("active_anon");
    let (all, active) = (all.max(0) as u64, active.max(0) as u64);
    let active_anon = active.min(all);
    IdleLists { node: None, inactive_anon: all - active_anon, active_anon }
}

/// The main program's process, with the memory that workers inherit; its first page is written to.
fn first_process(
    kernel: &Kernel<SimHost>,
    cx: &Cx<'_, SimHost>,
) -> Result<(Arc<Mm<SimHost>>, u32), ScenarioError> {
    let doing = "making a process";
    let called = |error| ScenarioError::Call { doing, error };
    let mm = kernel.create_mm(cx).map_err(called)?;
    mm.add_task(cx);
    let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NOHUGEPAGE;
    let own = kernel.mmap(cx, &mm, OWN_PAGES, 1, flags, Backing::Anon).map_err(called)?;
    kernel.touch(cx, &mm, own, Access::Write).map_err(called)?;
    Ok((mm, own))
}

/// The main program.
struct Main<'a, 'h> {
    kernel: &'a Rc<Kernel<SimHost>>,
    cx: &'a Cx<'h, SimHost>,
    machine: SimKernel,
    held: Held<SimHost>,
    /// Free pages when the caches are dropped.
    free: u64,
    world: Rc<World>,
    mm: Arc<Mm<SimHost>>,
    /// First page of the memory that workers inherit.
    own: u32,
    /// In the order in which they were made.
    groups: Vec<(String, GroupId)>,
    workers: BTreeMap<String, Rc<Desk>>,
    /// Operations since the last snapshot.
    done: Vec<(usize, Outcome)>,
    readings: &'a RefCell<Vec<Reading>>,
    /// Of the capture.
    zones: &'a [Zone],
    has_begin: bool,
}

impl Main<'_, '_> {
    /// Sleeps until a time; not at all if it has passed.
    fn wait_until(&self, ns: u64) {
        let left = ns.saturating_sub(self.cx.host.now_ns());
        if left != 0 {
            self.cx.host.sim().sleep_ns(left);
        }
    }

    /// An operation of the script. `took_ns`: the least time that its worker is to take.
    fn act(&mut self, at: usize, op: &Op, took_ns: Option<u64>) -> Result<(), ScenarioError> {
        let (kernel, cx) = (self.kernel, self.cx);
        let failed = |doing: &'static str| move |error| ScenarioError::Call { doing, error };
        match op {
            Op::MakeFile { file, pages } => self.world.make_file(kernel, cx, file, *pages)?,
            Op::Group(path) => {
                let above = path.rsplit_once('/').map_or(ROOT, |(above, _)| above);
                let made = kernel.make_group(cx, self.group(above));
                self.groups.push((path.clone(), made.map_err(failed("making a group"))?));
            }
            Op::RemoveGroup(path) => {
                let removed = kernel.remove_group(cx, self.group(path));
                removed.map_err(failed("removing a group"))?;
                self.groups.retain(|(known, _)| known != path);
            }
            Op::Set { group, setting } => {
                let set = kernel.set_group(cx, self.group(group), in_pages(*setting));
                set.map_err(failed("writing a setting"))?;
            }
            Op::Reclaim { group, bytes } => {
                let pages = bytes / PAGE_SIZE as u64;
                let (done, failed) = match kernel.reclaim_from_group(cx, self.group(group), pages) {
                    Ok(got) => (got, None),
                    // The file answers EAGAIN.
                    Err(short) => (short.got, Some(highwater_core::kernel::Error::NoMemory)),
                };
                self.done.push((at, Outcome { done, failed, ..Outcome::default() }));
            }
            Op::Worker { worker, group, cpu } => {
                let mm = kernel.fork(cx, &self.mm).map_err(failed("forking a worker"))?;
                let desk = Rc::new(Desk::new(cx.host));
                let start = Start {
                    name: worker.clone(),
                    cpu: CpuId(*cpu),
                    mm,
                    own: self.own,
                    group: self.group(group),
                    desk: Rc::clone(&desk),
                    world: Rc::clone(&self.world),
                    machine: self.machine.clone(),
                };
                start.spawn();
                self.workers.insert(worker.clone(), desk);
                self.wait(at, worker);
            }
            Op::Move { worker, group } => self.give(at, worker, Order::Join(self.group(group))),
            Op::Kill(worker) => self.give(at, worker, Order::End),
            Op::Sleep(ms) => cx.host.sim().sleep_ns(ms * 1_000_000),
            Op::Drop => kernel.drop_caches(cx, 3),
            Op::Sync => kernel.sync_all(cx),
            Op::Begin => self.begin(),
            Op::Snap(_) => {
                if self.readings.borrow().is_empty() && !self.has_begin {
                    self.begin();
                }
                if self.readings.borrow().is_empty() {
                    // The zones were read here.
                    machine::adopt_tuned_limits(kernel, cx, self.zones);
                }
                self.snap();
            }
            Op::Work { worker, work, is_parallel } => {
                let order = Order::Work { work: work.clone(), took_ns };
                match is_parallel {
                    true => self.workers[worker].give(cx, order),
                    false => self.give(at, worker, order),
                }
            }
            Op::Wait(worker) => self.wait(at, worker),
        }
        Ok(())
    }

    /// A group by path. The file was checked.
    fn group(&self, path: &str) -> GroupId {
        let found = self.groups.iter().find(|(known, _)| known == path);
        found.map_or(GroupId::ROOT, |(_, group)| *group)
    }

    /// Hands an operation to a worker and waits.
    fn give(&mut self, at: usize, worker: &str, order: Order) {
        let desk = &self.workers[worker];
        if desk.is_gone() {
            self.done.push((at, Outcome { is_dead: true, ..Outcome::default() }));
            return;
        }
        desk.give(self.cx, order);
        self.wait(at, worker);
    }

    fn wait(&mut self, at: usize, worker: &str) {
        if let Some(outcome) = self.workers[worker].wait(self.cx) {
            self.done.push((at, outcome));
        }
    }

    /// Drops caches; what is free then is what was free in the captured machine.
    fn begin(&mut self) {
        self.kernel.sync_all(self.cx);
        self.kernel.drop_caches(self.cx, 3);
        self.held.settle(self.kernel, self.cx, NodeId(0), self.free);
    }

    fn snap(&mut self) {
        let mut counters = snapshot(&self.kernel.mem);
        // The policy is 6.1 with rules of a later kernel, and a snapshot has the counters of 6.1.
        for event in LATER_COUNTERS {
            if counters.get(event.name()) == 0 {
                counters.add(event.name(), self.kernel.mem.events.read(event) as i64);
            }
        }
        let groups = self
            .groups
            .iter()
            .map(|(path, group)| (path.clone(), GroupNow::read(self.kernel, self.cx, *group)));
        let (groups, done) = (groups.collect(), std::mem::take(&mut self.done));
        self.readings.borrow_mut().push(Reading { counters, groups, done });
    }

    fn end_workers(&self) {
        for desk in self.workers.values().filter(|desk| !desk.is_gone()) {
            // One that still works ends behind its operation.
            desk.wait(self.cx);
            desk.give(self.cx, Order::End);
            desk.wait(self.cx);
        }
    }
}

fn in_ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Settings in pages.
fn in_pages(setting: Setting) -> GroupSetting {
    let pages = |bytes: u64| if bytes == u64::MAX { bytes } else { bytes / PAGE_SIZE as u64 };
    let limit = |bytes: Option<u64>| bytes.map_or(u64::MAX, pages);
    match setting {
        Setting::Min(bytes) => GroupSetting::Min(pages(bytes)),
        Setting::Low(bytes) => GroupSetting::Low(pages(bytes)),
        Setting::High(bytes) => GroupSetting::High(limit(bytes)),
        Setting::Max(bytes) => GroupSetting::Max(limit(bytes)),
        Setting::SwapHigh(bytes) => GroupSetting::SwapHigh(limit(bytes)),
        Setting::SwapMax(bytes) => GroupSetting::SwapMax(limit(bytes)),
        Setting::OomGroup(all) => GroupSetting::OomGroup(all),
    }
}
