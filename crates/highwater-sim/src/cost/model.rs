//! A cost table in the form the simulation uses: arrays by enum, one struct per consumer.

use highwater_core::host::Cost;
use highwater_core::sync::order::LockClass;

use super::table::CostTable;
use crate::cpu::cache_warmth::{CacheCosts, CacheSizes, LevelCosts};
use crate::cpu::{SchedParams, SchedPolicy};
use crate::engine::clock::NS_PER_JIFFY;
use crate::lock::LockCosts;

/// All costs of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Nanoseconds by [`Cost`].
    by_cost: [u64; Cost::COUNT],
    /// Scheduling and interrupts.
    pub sched: SchedParams,
    /// The scheduler that the machine names; `None`: the kernel's, when one boots.
    pub sched_named: Option<SchedPolicy>,
    /// Cache sizes.
    pub cache_sizes: CacheSizes,
    /// Memory by cache level.
    pub cache_costs: CacheCosts,
    /// Number of sockets.
    pub nr_sockets: u64,
    /// Entering and leaving a disk's interrupt.
    pub io_interrupt_ns: u64,
    /// Cost of checking whether another task should run. It is not zero, so that a loop which waits
    /// for another CPU by yielding lets time pass.
    pub yield_check_ns: u64,
    locks: [LockCosts; LockClass::COUNT],
}

impl CostModel {
    /// The model of a table.
    pub fn new(table: &CostTable) -> Self {
        // A table has every required key: `CostTable::parse` checked it.
        let ns = |key: &str| table.ns(key).unwrap_or(0);
        let levels = |what: &str| LevelCosts {
            l1_ns: ns(&format!("{what}_4k_l1")),
            l2_ns: ns(&format!("{what}_4k_l2")),
            llc_ns: ns(&format!("{what}_4k_llc")),
            dram_ns: ns(&format!("{what}_4k_dram")),
            llc_in_order_ns: ns(&format!("{what}_4k_llc_in_order")),
            dram_in_order_ns: ns(&format!("{what}_4k_dram_in_order")),
        };
        let mut by_cost = [0; Cost::COUNT];
        for &cost in Cost::ALL {
            by_cost[cost as usize] = ns(cost.key());
        }
        CostModel {
            by_cost,
            sched: SchedParams {
                policy: SchedPolicy::default(),
                slice_ns: NS_PER_JIFFY,
                wakeup_ns: ns("wakeup"),
                context_switch_ns: ns("context_switch"),
                wake_idle_shallow_ns: ns("wake_idle_shallow"),
                wake_idle_deep_ns: ns("wake_idle_deep"),
                idle_deep_after_ns: ns("idle_deep_after"),
                tick_ns: ns("tick"),
                ipi_first_ns: ns("ipi_first"),
                ipi_next_ns: ns("ipi_next"),
            },
            sched_named: None,
            cache_sizes: CacheSizes {
                l1_bytes: table.l1_bytes.value,
                l2_bytes: table.l2_bytes.value,
                llc_bytes: table.llc_bytes.value,
            },
            cache_costs: CacheCosts {
                zero: levels("zero"),
                copy: levels("copy"),
                zero_2m_ns: ns("zero_2m"),
            },
            nr_sockets: table.nr_sockets.value,
            io_interrupt_ns: ns("io_interrupt"),
            yield_check_ns: ns("yield_check").max(1),
            locks: LockClass::ALL.map(|class| lock_costs(class, ns)),
        }
    }

    /// Nanoseconds of one operation.
    #[inline(always)]
    pub fn ns(&self, cost: Cost) -> u64 {
        self.by_cost[cost as usize]
    }

    /// Costs of taking a lock of a class.
    pub fn lock(&self, class: LockClass) -> LockCosts {
        self.locks[class as usize]
    }
}

/// Costs of a spin lock. A spin lock is a cache line: the cost of taking it depends on the core
/// that wrote it last, not on the data that it protects (rules/costs#locks).
fn lock_costs(class: LockClass, ns: impl Fn(&str) -> u64) -> LockCosts {
    let costs = LockCosts {
        hot_ns: ns("lock_hot"),
        same_node_ns: ns("lock_same_socket"),
        cross_node_ns: ns("lock_cross_socket"),
        handoff_ns: ns("lock_handoff"),
    };
    match class {
        // The figure of the list operation includes taking the lock on its own CPU.
        LockClass::Pcp | LockClass::LruBatch => LockCosts { hot_ns: 0, ..costs },
        // Bookkeeping that a kernel does without locks.
        LockClass::Table | LockClass::Wait => {
            LockCosts { hot_ns: 0, same_node_ns: 0, cross_node_ns: 0, handoff_ns: 0 }
        }
        _ => costs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_reach_their_consumers() {
        let model = CostModel::new(&CostTable::server_3ghz());
        assert_eq!(model.ns(Cost::PcpAlloc), 50);
        assert_eq!(model.ns(Cost::Syscall), 100);
        assert_eq!(model.sched.wake_idle_deep_ns, 50_000);
        assert_eq!(model.cache_costs.zero.dram_ns, 450);
        assert_eq!(model.cache_costs.copy.l1_ns, 25);
        assert_eq!(model.lock(LockClass::Zone).handoff_ns, 100);
        assert_eq!(model.lock(LockClass::Zone).same_node_ns, 80);
        assert_eq!(model.lock(LockClass::Workload).cross_node_ns, 250);
        assert_eq!(model.nr_sockets, 2);
    }
}
