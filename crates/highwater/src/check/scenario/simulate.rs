//! One run of a captured program on the model.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use highwater_core::config::Policy;
use highwater_results::Counters;
use highwater_results::import::linux61::Scenario as Captured;
use highwater_sim::engine::Placement;
use highwater_sim::machine::SimMachine;
use highwater_workloads::scenario::{Ground, Moment, Scenario};

use super::{Step, machine};
use crate::error::InputError;
use crate::experiment::snapshot;

/// Of the disks' jitter and the program's random numbers. Nothing of the capture depends on it.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The counters of every step.
pub(super) fn run(
    file: &str,
    captured: &Captured,
    program: &Scenario,
    policy: &Policy,
) -> Result<Vec<Step>, InputError> {
    let failed = |reason: String| InputError::whole(file, reason);
    let config = machine::config(file, captured, policy)?;
    let mut machine = SimMachine::boot(config).map_err(|error| failed(error.to_string()))?;
    machine::adopt_sizes(&machine.kernel, captured);
    let baseline = machine::baseline(captured);
    let readings: Rc<RefCell<Vec<(String, Counters)>>> = Rc::default();
    let (seen, program, phys_pages) = (Rc::clone(&readings), *program, captured.phys_pages);
    let task = machine.spawn_task("program", Placement::Anywhere, move |cx, kernel| {
        let idle = baseline.apply(kernel, cx)?;
        let ground =
            Ground { kernel, phys_pages, data: machine::DATA, next_page: Cell::new(0), seed: SEED };
        let done = program.run(&ground, cx, &mut |moment| {
            let label = match moment {
                Moment::Start => String::new(),
                Moment::Step(label) => label.to_owned(),
            };
            seen.borrow_mut().push((label, snapshot(&kernel.mem)));
        });
        drop(idle);
        done
    });
    machine.run().map_err(|error| failed(error.to_string()))?;
    match task.take() {
        Some(Ok(())) => {}
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
