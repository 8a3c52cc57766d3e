//! pagealloc: the page allocator alone.
//!
//! mmtests' benchmark of that name. One task, alone on the machine, allocates and frees batches of
//! blocks of each order. A cell is one run over all orders and batch sizes.

mod native;
mod sim;

use highwater_core::page::Order;
use highwater_results::{Better, Metric, TableKind};
use highwater_workloads::pagealloc::Taken;

use super::{HostKind, Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// Largest order.
const ORDER_MAX: u8 = 10;
/// Most blocks of a batch.
const BATCH_MAX: u32 = 1 << 16;

params! {
    /// Parameters.
    pub struct PageAllocParams {
        /// Orders of the blocks.
        orders: Vec<u8> = vec![0, 1, 2, 3, 4],
            |p| !p.orders.is_empty() && p.orders.iter().all(|&order| order <= ORDER_MAX)
                => "at least one, each at most 10";
        /// Numbers of blocks that are allocated before the first one is freed.
        batches: Vec<u32> = vec![1, 4, 16, 64, 256, 1024],
            |p| !p.batches.is_empty() && p.batches.iter().all(|n| (1..=BATCH_MAX).contains(n))
                => "at least one, each between 1 and 65536";
        /// Timed rounds for each order and number of blocks.
        rounds: u32 = 100, |p| p.rounds > 0 => "must be at least 1";
    }
}

/// The cost of allocating and freeing blocks, alone on the machine.
#[derive(Debug)]
pub struct PageAlloc;

impl Workload for PageAlloc {
    type Params = PageAllocParams;

    const NAME: &'static str = "pagealloc";
    const ABOUT: &'static str = "what it costs to allocate and free blocks, alone on the machine";
    const STUDY: Option<&'static str> = Some("allocator-nodes");

    /// A tenth of a microsecond for each block.
    fn seconds(params: &PageAllocParams, _: &MachineFile, _: usize) -> Option<f64> {
        let blocks: f64 = params.batches.iter().map(|&n| f64::from(n)).sum();
        Some(blocks * params.orders.len() as f64 * f64::from(params.rounds) * 1e-7)
    }

    fn run(params: &PageAllocParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        match unit.host {
            HostKind::Sim => sim::run(unit, params),
            HostKind::Native => native::run(unit, params),
        }
    }

    fn metrics(params: &PageAllocParams, _: &[MachineFile]) -> Vec<Metric> {
        let of = |what: &'static str| {
            let names = move |(order, batch)| operation(what, order, batch);
            params.pairs().map(names).collect::<Vec<_>>()
        };
        let mut operations = of("alloc");
        operations.extend(of("free"));
        vec![Metric {
            operations,
            about: "alloc-odrO-N, free-odrO-N: a block of order O, N at a time".to_owned(),
            ..Metric::new(Self::NAME, "nanoseconds a block", Better::Lower, TableKind::Multi)
        }]
    }
}

impl PageAllocParams {
    /// Each order with each number of blocks.
    fn pairs(&self) -> impl Iterator<Item = (Order, u32)> + '_ {
        let of = |&order: &u8| self.batches.iter().map(move |&batch| (Order(order), batch));
        self.orders.iter().flat_map(of)
    }
}

fn operation(what: &str, order: Order, batch: u32) -> String {
    format!("{what}-odr{}-{batch}", order.0)
}

/// The costs of a batch, as samples.
fn samples(order: Order, batch: u32, taken: &Taken) -> Result<[(String, f64); 2], RunError> {
    if taken.failed > 0 {
        let (failed, order) = (taken.failed, order.0);
        let reason = format!("{failed} requests of order {order} failed, {batch} at a time");
        return Err(RunError::Workload { workload: PageAlloc::NAME, reason });
    }
    let each = |ns: u64| ns as f64 / taken.blocks.max(1) as f64;
    Ok([
        (operation("alloc", order, batch), each(taken.alloc_ns)),
        (operation("free", order, batch), each(taken.free_ns)),
    ])
}
