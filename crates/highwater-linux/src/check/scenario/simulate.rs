//! One run of a captured program on the model.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use highwater_core::config::Policy;
use highwater_core::host::{CpuId, Cx, HZ, Host};
use highwater_core::kernel::Kernel;
use highwater_core::vm::Mm;
use highwater_core::zone::NodeId;
use highwater_results::Counters;
use highwater_results::import::linux61::{NodeLevels, Run, Scenario as Captured, Zone};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimMachine;
use highwater_workloads::jobs::{self, Action, Files, Ground, Groups, Sockets, Task};
use highwater_workloads::scenario::{FileMaker, ScenarioError};

use super::super::machine::{self, System};
use super::Step;
use highwater_files::input::InputError;
use highwater_runs::workload::harness;
use highwater_runs::workload::job::{JobParams, plan};
use highwater_runs::workload::outcome::{node_snapshot, snapshot};

/// Seeds of the disks' jitter and the program's random numbers: a step may end while kswapd is at
/// work, in a real machine and in the model, and one run says little about how far it got.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Ten seconds.
const SETTLE_JIFFIES: u64 = 10 * HZ;

/// The counters of every step, of several runs.
pub(super) fn runs(
    file: &str,
    captured: &Captured,
    program: &JobParams,
    policy: &Policy,
) -> Result<Vec<Vec<Step>>, InputError> {
    // If each boot gave another machine, each one is run; otherwise one stands for all.
    let boots =
        captured.runs.iter().take(match captured.runs.iter().any(|r| !r.zones.is_empty()) {
            true => captured.runs.len(),
            false => 1,
        });
    let mut all = Vec::new();
    for real in boots {
        let zones = captured.zones_of(real);
        let of_boot = thread::scope(|scope| {
            let zones = &zones;
            let runs = SEEDS.map(|seed| {
                scope.spawn(move || run(file, captured, (real, zones), program, policy, seed))
            });
            let panicked = || InputError::whole(file, "the simulation panicked");
            let runs = runs.map(|run| run.join().unwrap_or_else(|_| Err(panicked())));
            runs.into_iter().collect::<Result<Vec<_>, _>>()
        });
        all.extend(of_boot?);
    }
    Ok(all)
}

fn run(
    file: &str,
    captured: &Captured,
    (real, zones): (&Run, &[Zone]),
    program: &JobParams,
    policy: &Policy,
    seed: u64,
) -> Result<Vec<Step>, InputError> {
    let failed = |reason: String| InputError::whole(file, reason);
    let system = System {
        file,
        name: &captured.name,
        cpus: captured.cpus,
        nodes: captured.nodes.as_deref().unwrap_or_default(),
        zones,
        gauges: real.start_gauges.clone(),
        start_nodes: &real.start_nodes,
        disk_limit: None,
        costs_of: machine::EMULATOR,
        swap_pages: None,
        settings: captured.settings.clone(),
    };
    let mut config = machine::config(&system, policy)?;
    config.seed = seed;
    let mut machine = SimMachine::boot(config).map_err(|error| failed(error.to_string()))?;
    machine::adopt_sizes(&machine.kernel, zones);
    let baseline = machine::baseline(&system);
    let readings: Rc<RefCell<Vec<Reading>>> = Rc::default();
    let seen = Rc::clone(&readings);
    // The one task of the program, as large as the machine is said to be.
    let (tasks, _) = plan::tasks(program, captured.phys_pages);
    let sizes: Vec<u64> =
        program.file.iter().map(|file| plan::pages(file.size, captured.phys_pages)).collect();
    let (Some(task), 1) = (tasks.first().cloned(), tasks.len()) else {
        return Err(failed("a captured program is one task".to_owned()));
    };
    let nodes: Vec<NodeId> = machine.kernel.mem.nodes().iter().map(|node| node.id).collect();
    let free = |node: &NodeLevels| {
        let free = node.gauges.get("nr_free_pages").copied().unwrap_or(0).max(0);
        (NodeId(node.id as u16), free as u64)
    };
    let start_free: Vec<(NodeId, u64)> = real.start_nodes.iter().map(free).collect();
    let placement = match program.task.first().and_then(|task| task.cpu) {
        Some(cpu) => Placement::Pinned(CpuId(cpu)),
        None => Placement::Anywhere,
    };
    let task = machine.spawn_task("program", placement, move |cx, kernel| {
        // The program's process existed when the rest of memory was recorded.
        let mm = kernel.create_mm(cx);
        let doing = "making a process";
        let mm = mm.map_err(|error| ScenarioError::Call { doing, error })?;
        let mut held = baseline.apply(kernel, cx)?;
        let held = RefCell::new(&mut held);
        let read = |label: Option<String>| {
            if label.is_none() {
                for &(node, free) in &start_free {
                    held.borrow_mut().settle(kernel, cx, node, free);
                }
            }
            let of_nodes = nodes.iter().map(|&node| node_snapshot(&kernel.mem, node)).collect();
            let (label, counters) = (label.unwrap_or_default(), snapshot(&kernel.mem));
            seen.borrow_mut().push(Reading { label, counters, of_nodes });
        };
        let done = play(kernel, cx, (&task, &sizes), mm, seed, &read);
        // The audit needs an idle machine: let flushers and kswapd finish.
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        let audited = harness::audit_at_rest(kernel, cx).map_err(|error| error.to_string());
        done.map(|()| audited)
    });
    machine.run().map_err(|error| failed(error.to_string()))?;
    match task.take() {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(broken))) => return Err(failed(format!("audit after the run: {broken}"))),
        Some(Err(error)) => return Err(failed(format!("the program failed: {error}"))),
        None => return Err(failed("the program was killed".to_owned())),
    }
    let readings = readings.take();
    let change = Counters::difference;
    let steps = readings.windows(2).map(|pair| Step {
        label: pair[1].label.clone(),
        counters: change(&pair[0].counters, &pair[1].counters),
        nodes: pair[0].of_nodes.iter().zip(&pair[1].of_nodes).map(|(a, b)| change(a, b)).collect(),
    });
    Ok(steps.collect())
}

/// Makes the files of a program and runs its task.
fn play(
    kernel: &Kernel<SimHost>,
    cx: &Cx<'_, SimHost>,
    (task, sizes): (&Task, &[u64]),
    mm: Arc<Mm<SimHost>>,
    seed: u64,
    read: &dyn Fn(Option<String>),
) -> Result<(), ScenarioError> {
    let is_written = |number: usize| {
        task.phases.iter().any(|phase| match phase.action {
            Action::Write { file, .. } | Action::Append { file, .. } => file == number,
            _ => false,
        })
    };
    let maker = FileMaker { kernel, data: machine::DATA, next_page: Cell::new(0) };
    let files = (0..).zip(sizes).map(|(number, &pages)| maker.make(cx, pages, is_written(number)));
    let files = Files::of(files.collect::<Result<Vec<_>, _>>()?);
    let ground = Ground {
        kernel,
        files: &files,
        groups: &Groups::default(),
        sockets: &Sockets::default(),
        is_over: &|| false,
        compute: &|cx: &Cx<'_, SimHost>, ns| cx.host.sim().compute(ns),
        // There is one task.
        wait: &|_: &Cx<'_, SimHost>, _| {},
        may_fork: &|| true,
        fork: &|_, _| {},
        help: &|_| Box::new(|| (Vec::new(), Ok(()))),
        mark: &|_: &Cx<'_, SimHost>, label| read(label),
        did: &|_, _| {},
        entered: &|_| {},
    };
    let inherited = Some((mm, Vec::new(), None));
    let ran = jobs::run(task, &ground, cx, inherited, jobs::seed(seed, 0, 0), &mut []);
    let doing = "running the program";
    ran.map_err(|failed| ScenarioError::Call { doing, error: failed.why.error() })
}

/// The counters at a moment.
struct Reading {
    label: String,
    counters: Counters,
    of_nodes: Vec<Counters>,
}
