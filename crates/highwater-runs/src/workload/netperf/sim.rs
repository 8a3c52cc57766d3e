//! One unit on the simulated machine.

use std::rc::Rc;

use highwater_core::config::Machine;
use highwater_core::host::{CpuId, Cx, HZ};
use highwater_core::page_alloc::{NoRelief, PageAllocator};
use highwater_results::{Counters, Times};
use highwater_sim::engine::{JoinHandle, Sim, Spawn, TaskTimes};
use highwater_sim::host::SimHost;
use highwater_sim::rng::Stream;
use highwater_workloads::netperf::{Flow, NetperfError, Plan, Receiver, Sender};

use super::super::harness::{AllocatorOnly, audit, boot_allocator};
use super::super::{Unit, Workload};
use super::{Netperf, NetperfParams, hottest, throughput};
use crate::ledger;
use crate::outcome::{Outcome, RunError, snapshot};

/// Interrupts and other small work that takes CPU time now and then: about one per millisecond,
/// three microseconds each, both exponential. This is a guess at the housekeeping of an idle
/// server; it makes seeds differ.
const NOISE_GAP_NS: f64 = 1e6;
const NOISE_NS: f64 = 3e3;

/// Boots the machine and runs the workload to its end.
pub(super) fn run(unit: &Unit<'_>, params: &NetperfParams) -> Result<Outcome, RunError> {
    let machine = &unit.machine.machine;
    let AllocatorOnly { mut engine, sim, host, memory } = boot_allocator(unit)?;
    let before = snapshot(&memory);

    let plan = Rc::new(params.plan());
    let flow = Rc::new(Flow::new(&*host, plan.socket_buffer));
    let sender_cpu = CpuId(params.sender_cpu);
    let receiver_cpu = CpuId(params.receiver_cpu);
    start_daemons(&sim, machine, &host, &memory, unit.seed, [sender_cpu, receiver_cpu]);
    let sender = spawn(&sim, "netperf", sender_cpu, (&host, &memory, &flow, &plan), |cx, parts| {
        let (_, memory, flow, plan) = parts;
        Sender { memory, relief: &NoRelief, flow, plan }.run(cx)
    });
    let receiver =
        spawn(&sim, "netserver", receiver_cpu, (&host, &memory, &flow, &plan), |cx, parts| {
            let (_, memory, flow, plan) = parts;
            Receiver { memory, flow, plan }.run(cx)
        });
    engine.run()?;
    let explained = ledger::close(&sim, unit)?;

    let lost = || RunError::Stuck("a task left no result".to_owned());
    let (sent, sender_times) = sender.take().ok_or_else(lost)?;
    let (received, receiver_times) = receiver.take().ok_or_else(lost)?;
    let failed = |error: NetperfError| RunError::of(Netperf::NAME, error);
    let (sent, received) = (sent.map_err(failed)?, received.map_err(failed)?);
    let times = Times {
        user_ns: sender_times.user_ns + receiver_times.user_ns,
        system_ns: sender_times.system_ns + receiver_times.system_ns,
        elapsed_ns: sim.now_ns(),
    };
    let counters = Counters::difference(&before, &snapshot(&memory));
    let digest = engine.digest().value();
    audit(&*host, &memory)?;
    let samples = throughput(&plan, &sent, &received);
    let histograms = vec![hottest(&sent.uses)];
    Ok(Outcome { samples, histograms, counters, times, digest, explained, ..Outcome::default() })
}

type Parts<'a> =
    (&'a Rc<SimHost>, &'a Rc<PageAllocator<SimHost>>, &'a Rc<Flow<SimHost>>, &'a Rc<Plan>);

fn spawn<T: 'static>(
    sim: &Sim,
    name: &'static str,
    cpu: CpuId,
    parts: Parts<'_>,
    body: impl FnOnce(&Cx<'_, SimHost>, Parts<'_>) -> Result<T, NetperfError> + 'static,
) -> JoinHandle<(Result<T, NetperfError>, TaskTimes)> {
    let (host, memory, flow, plan) =
        (Rc::clone(parts.0), Rc::clone(parts.1), Rc::clone(parts.2), Rc::clone(parts.3));
    sim.spawn(Spawn::new(name).pinned(cpu), move |sim| {
        let cx = Cx::new(&*host, cpu);
        let result = body(&cx, (&host, &memory, &flow, &plan));
        let times = sim.current().and_then(|me| sim.task_times(me)).unwrap_or_default();
        (result, times)
    })
}

/// The kernel threads of an otherwise idle machine: counter folding every second on every CPU,
/// noise on the busy ones.
fn start_daemons(
    sim: &Sim,
    machine: &Machine,
    host: &Rc<SimHost>,
    memory: &Rc<PageAllocator<SimHost>>,
    seed: u64,
    busy: [CpuId; 2],
) {
    for cpu in (0..machine.nr_cpus() as u16).map(CpuId) {
        let (host, memory) = (Rc::clone(host), Rc::clone(memory));
        let name = format!("vmstat/{}", cpu.0);
        sim.spawn(Spawn::new(name).pinned(cpu).kernel_thread().daemon(), move |sim| {
            let cx = Cx::new(&*host, cpu);
            loop {
                sim.sleep_jiffies(HZ);
                memory.refresh_cpu_stats(&cx);
            }
        });
    }
    for cpu in busy {
        let name = format!("noise/{}", cpu.0);
        let mut stream = Stream::indexed(seed, "noise", u64::from(cpu.0));
        sim.spawn(Spawn::new(name).pinned(cpu).kernel_thread().daemon(), move |sim| {
            loop {
                sim.sleep_ns(stream.exponential(NOISE_GAP_NS) as u64);
                sim.charge(stream.exponential(NOISE_NS) as u64);
            }
        });
    }
}
