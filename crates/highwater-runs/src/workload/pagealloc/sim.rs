//! One run in virtual time.

use std::rc::Rc;

use highwater_core::host::{CpuId, Cx};
use highwater_results::{Counters, Times};
use highwater_sim::engine::Spawn;
use highwater_workloads::pagealloc::Batches;

use super::super::harness::{AllocatorOnly, audit, boot_allocator, lost, timed};
use super::super::{Unit, Workload};
use super::{PageAlloc, PageAllocParams, samples};
use crate::ledger;
use crate::outcome::{Outcome, RunError, snapshot};

/// Boots the machine's memory and runs all batches on its first CPU.
pub(super) fn run(unit: &Unit<'_>, params: &PageAllocParams) -> Result<Outcome, RunError> {
    let AllocatorOnly { mut engine, sim, host, memory } = boot_allocator(unit)?;
    let before = snapshot(&memory);
    let parts = (Rc::clone(&host), Rc::clone(&memory), params.clone());
    let task = sim.spawn(Spawn::new(PageAlloc::NAME).pinned(CpuId(0)), move |_| {
        let (host, memory, params) = &parts;
        let cx = Cx::new(&**host, CpuId(0));
        timed(&cx, || {
            params.pairs().try_fold(Vec::new(), |mut all, (order, batch)| {
                let taken = Batches { memory, order, batch, rounds: params.rounds }.run(&cx);
                all.extend(samples(order, batch, &taken)?);
                Ok::<_, RunError>(all)
            })
        })
    });
    engine.run()?;
    let explained = ledger::close(&sim, unit)?;
    let (samples, used) = task.take().ok_or_else(|| lost("task"))?;
    let times =
        Times { user_ns: used.user_ns, system_ns: used.system_ns, elapsed_ns: sim.now_ns() };
    let counters = Counters::difference(&before, &snapshot(&memory));
    let digest = engine.digest().value();
    audit(&*host, &memory)?;
    Ok(Outcome { samples: samples?, counters, times, digest, explained, ..Outcome::default() })
}
