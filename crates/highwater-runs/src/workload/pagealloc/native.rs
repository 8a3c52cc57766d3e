//! One run on memory of this computer.

use highwater_core::host::CpuId;
use highwater_native::{NativeMachine, NativeOptions};
use highwater_results::{Counters, Times};
use highwater_workloads::pagealloc::Batches;

use super::super::Unit;
use super::super::harness::audit;
use super::{PageAllocParams, samples};
use crate::ledger;
use crate::outcome::{Outcome, RunError, snapshot};

/// Maps the memory, boots it, and runs all batches on its first CPU.
pub(super) fn run(unit: &Unit<'_>, params: &PageAllocParams) -> Result<Outcome, RunError> {
    let failed = |error: String| RunError::Native(error);
    let timed = unit.explain.is_some();
    let options = NativeOptions {
        lock_statistics: timed,
        lock_hold_times: timed,
        ..NativeOptions::default()
    };
    let native = NativeMachine::boot(&unit.machine.machine, unit.policy, &options)
        .map_err(|error| failed(error.to_string()))?;
    let before = snapshot(&native.alloc);
    let start = std::time::Instant::now();
    let mut all = Vec::new();
    {
        let task = native.enter(CpuId(0)).map_err(|error| failed(error.to_string()))?;
        for (order, batch) in params.pairs() {
            let memory = &native.alloc;
            let taken = Batches { memory, order, batch, rounds: params.rounds }.run(&task.cx);
            all.extend(samples(order, batch, &taken)?);
        }
    }
    let times = Times { elapsed_ns: start.elapsed().as_nanos() as u64, ..Times::default() };
    let explained = ledger::close_native(&native.host, unit.explain);
    let counters = Counters::difference(&before, &snapshot(&native.alloc));
    audit(&native.host, &native.alloc)?;
    Ok(Outcome { samples: all, counters, times, explained, ..Outcome::default() })
}
