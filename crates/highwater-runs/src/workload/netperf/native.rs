//! One unit on threads and memory of this computer.

use std::thread;

use highwater_core::host::CpuId;
use highwater_core::page_alloc::NoRelief;
use highwater_native::{NativeMachine, NativeOptions};
use highwater_results::{Counters, Times};
use highwater_workloads::netperf::{Flow, NetperfError, Receiver, Sender};

use super::super::harness::audit;
use super::super::{Unit, Workload};
use super::{Netperf, NetperfParams, hottest, throughput};
use crate::ledger;
use crate::outcome::{Outcome, RunError, snapshot};

/// Maps the memory, boots it, and runs sender and receiver as threads.
pub(super) fn run(unit: &Unit<'_>, params: &NetperfParams) -> Result<Outcome, RunError> {
    let machine = &unit.machine.machine;
    let timed = unit.explain.is_some();
    let options = NativeOptions {
        lock_statistics: timed,
        lock_hold_times: timed,
        ..NativeOptions::default()
    };
    let native = NativeMachine::boot(machine, unit.policy, &options)
        .map_err(|error| RunError::Native(error.to_string()))?;
    let memory = &native.alloc;
    let before = snapshot(memory);
    let plan = params.plan();
    let flow = Flow::new(&native.host, plan.socket_buffer);

    let failed = |error: NetperfError| RunError::of(Netperf::NAME, error);
    let enter = |cpu: u16| native.enter(CpuId(cpu)).map_err(|e| RunError::Native(e.to_string()));
    let start = std::time::Instant::now();
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Result<_, RunError> {
            let task = enter(params.receiver_cpu)?;
            Receiver { memory, flow: &flow, plan: &plan }.run(&task.cx).map_err(failed)
        });
        let sent = enter(params.sender_cpu).and_then(|task| {
            let sender = Sender { memory, relief: &NoRelief, flow: &flow, plan: &plan };
            sender.run(&task.cx).map_err(failed)
        });
        let received = receiver
            .join()
            .unwrap_or_else(|_| Err(RunError::Native("the receiving thread panicked".to_owned())));
        (sent, received)
    });
    let (sent, received) = (sent?, received?);
    let elapsed_ns = start.elapsed().as_nanos() as u64;

    let explained = ledger::close_native(&native.host, unit.explain);
    let counters = Counters::difference(&before, &snapshot(memory));
    audit(&native.host, memory)?;
    let samples = throughput(&plan, &sent, &received);
    let histograms = vec![hottest(&sent.uses)];
    let times = Times { elapsed_ns, ..Times::default() };
    Ok(Outcome { samples, histograms, counters, times, explained, ..Outcome::default() })
}
