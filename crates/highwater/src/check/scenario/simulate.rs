//! One run of a captured program on the model.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread;

use highwater_core::audit::check_kernel;
use highwater_core::config::Policy;
use highwater_core::host::{HZ, Host};
use highwater_results::Counters;
use highwater_results::import::linux61::Scenario as Captured;
use highwater_sim::engine::Placement;
use highwater_sim::machine::SimMachine;
use highwater_workloads::scenario::{Ground, Moment, Scenario};

use super::super::machine::{self, System};
use super::Step;
use crate::input::InputError;
use crate::workload::outcome::snapshot;

/// Seeds of the disks' jitter and the program's random numbers: a step may end while kswapd is at work,
/// in a real machine and in the model, and one run says little about how far it got.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Ten seconds.
const SETTLE_JIFFIES: u64 = 10 * HZ;

/// The counters of every step, of several runs.
pub(super) fn runs(
    file: &str,
    captured: &Captured,
    program: &Scenario,
    policy: &Policy,
) -> Result<Vec<Vec<Step>>, InputError> {
    thread::scope(|scope| {
        let runs =
            SEEDS.map(|seed| scope.spawn(move || run(file, captured, program, policy, seed)));
        let panicked = || InputError::whole(file, "the simulation panicked");
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}

fn run(
    file: &str,
    captured: &Captured,
    program: &Scenario,
    policy: &Policy,
    seed: u64,
) -> Result<Vec<Step>, InputError> {
    let failed = |reason: String| InputError::whole(file, reason);
    let system = System {
        file,
        name: &captured.name,
        cpus: captured.cpus,
        nodes: captured.nodes.as_deref().unwrap_or_default(),
        zones: &captured.zones,
        gauges: captured.runs.first().map(|run| run.start_gauges.clone()).unwrap_or_default(),
        disk_limit: None,
        costs_of: machine::EMULATOR,
        swap_pages: None,
        settings: captured.settings.clone(),
    };
    let mut config = machine::config(&system, policy)?;
    config.seed = seed;
    let mut machine = SimMachine::boot(config).map_err(|error| failed(error.to_string()))?;
    machine::adopt_sizes(&machine.kernel, &captured.zones);
    let baseline = machine::baseline(&system);
    let readings: Rc<RefCell<Vec<(String, Counters)>>> = Rc::default();
    let (seen, program, phys_pages) = (Rc::clone(&readings), *program, captured.phys_pages);
    let task = machine.spawn_task("program", Placement::Anywhere, move |cx, kernel| {
        let idle = baseline.apply(kernel, cx)?;
        let ground = Ground {
            kernel,
            phys_pages,
            data: machine::DATA,
            next_page: Cell::new(0),
            // Any number but 0.
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        let done = program.run(&ground, cx, &mut |moment| {
            let label = match moment {
                Moment::Start => String::new(),
                Moment::Step(label) => label.to_owned(),
            };
            seen.borrow_mut().push((label, snapshot(&kernel.mem)));
        });
        drop(idle);
        // The audit wants nothing under way: flushers and kswapd end what they are doing.
        cx.host.sleep_jiffies(SETTLE_JIFFIES);
        let audited = check_kernel(kernel, cx).map(drop).map_err(|error| error.to_string());
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
    let steps = readings.windows(2).map(|pair| Step {
        label: pair[1].0.clone(),
        counters: Counters::difference(&pair[0].1, &pair[1].1),
    });
    Ok(steps.collect())
}
