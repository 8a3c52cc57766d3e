//! Interrupts between CPUs (IPIs) and their costs.
//!
//! The sender spins until all targets have answered, so it pays for the round trip. Each target
//! that has a task loses the handler's time. Idle targets are interrupted too unless the caller
//! leaves them out (as the kernel does for TLB flushes of lazily attached CPUs).

pub use highwater_core::host::IpiScope;

use super::CpuId;
use crate::engine::Sim;
use crate::ledger::NodeKey;

impl Sim {
    /// Interrupts `targets` (the caller's own CPU is left out), each for `handler_ns`, and waits
    /// for all of them. Returns the number of interrupted CPUs.
    pub fn interrupt(
        &self,
        targets: impl IntoIterator<Item = CpuId>,
        scope: IpiScope,
        handler_ns: u64,
    ) -> u64 {
        self.sync();
        let me = self.cpu();
        let cost_ns;
        let mut nr_sent = 0;
        {
            let sched = &mut self.inner.state.borrow_mut().sched;
            for cpu in targets {
                if cpu == me || (scope == IpiScope::BusyOnly && sched.is_idle(cpu)) {
                    continue;
                }
                sched.steal_time(cpu, handler_ns);
                nr_sent += 1;
            }
            cost_ns = round_trip_ns(
                nr_sent,
                sched.params.ipi_first_ns,
                sched.params.ipi_next_ns,
                handler_ns,
            );
        }
        self.charge_as(NodeKey::Answers, cost_ns);
        nr_sent
    }
}

/// Time until the last of `nr_targets` has answered: targets work in parallel, the sender sends one
/// after another.
const fn round_trip_ns(nr_targets: u64, first_ns: u64, next_ns: u64, handler_ns: u64) -> u64 {
    match nr_targets {
        0 => 0,
        n => first_ns + (n - 1) * next_ns + handler_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineConfig, Spawn};

    #[test]
    fn sender_waits_and_busy_targets_lose_the_handlers_time() {
        let mut config = EngineConfig::new(3);
        config.sched.ipi_first_ns = 1500;
        config.sched.ipi_next_ns = 200;
        let mut engine = Engine::new(&config);
        let all = || (0..3).map(CpuId);
        engine.spawn(Spawn::new("sender").pinned(CpuId(0)), move |sim| {
            sim.charge(1000);
            // CPU 2 is idle.
            assert_eq!(sim.interrupt(all(), IpiScope::BusyOnly, 60), 1);
            assert_eq!(sim.now_ns(), 1000 + 1500 + 60);
            assert_eq!(sim.interrupt(all(), IpiScope::All, 60), 2);
            assert_eq!(sim.now_ns(), 2560 + 1700 + 60);
        });
        let target = engine.spawn(Spawn::new("target").pinned(CpuId(1)), |sim| {
            sim.charge(3000);
            sim.sync();
            sim.now_ns()
        });
        engine.run().expect("run");
        assert_eq!(target.take(), Some(3000 + 2 * 60));
        let times = engine.sim().cpu_times(CpuId(1));
        assert_eq!(times.system_ns, 3120);
    }

    #[test]
    fn nobody_to_interrupt_costs_nothing() {
        assert_eq!(round_trip_ns(0, 1500, 200, 60), 0);
        assert_eq!(round_trip_ns(1, 1500, 200, 60), 1560);
        assert_eq!(round_trip_ns(3, 1500, 200, 60), 1960);
    }
}
