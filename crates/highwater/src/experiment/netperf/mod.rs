//! netperf-tcp as an experiment's workload (study 002).

mod native;
mod sim;

use highwater_results::{Better, Histogram, Metric, TableKind};
use highwater_workloads::netperf::{BlockUses, Plan, Received, Sent};
use serde::Deserialize;

use super::file::{Bytes, HostKind};
use super::outcome::{Outcome, RunError};
use super::runner::Cell;

/// Name of the histogram of block uses.
pub(super) const HOTTEST: &str = "hottest blocks";

/// Parameters of netperf.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetperfSection {
    /// Bytes per send and receive.
    pub sizes: Vec<usize>,
    /// Duration of each size.
    pub ms_per_size: u64,
    /// Sent before measuring.
    pub warmup: Bytes,
    /// In flight.
    pub socket_buffer: Bytes,
    /// CPU of the sender.
    pub sender_cpu: u16,
    /// CPU of the receiver.
    pub receiver_cpu: u16,
}

/// What `--quick` changes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NetperfQuick {
    /// Duration of each size.
    ms_per_size: u64,
    /// Sent before measuring.
    warmup: Bytes,
}

impl NetperfSection {
    /// The first field that cannot be, and why.
    pub(super) fn problem(
        &self,
        quick: Option<&NetperfQuick>,
    ) -> Option<(&'static str, &'static str)> {
        let too_large = |&size: &usize| size == 0 || size > self.socket_buffer.0 as usize;
        if self.sizes.is_empty() || self.sizes.iter().any(too_large) {
            Some(("sizes", "each size is at least 1 and fits the socket buffer"))
        } else if self.ms_per_size == 0 || quick.is_some_and(|q| q.ms_per_size == 0) {
            Some(("ms-per-size", "must be at least 1"))
        } else if self.sender_cpu == self.receiver_cpu {
            Some(("receiver-cpu", "sender and receiver run on different CPUs"))
        } else {
            None
        }
    }

    pub(super) fn apply(&mut self, quick: &NetperfQuick) {
        self.ms_per_size = quick.ms_per_size;
        self.warmup = quick.warmup;
    }

    /// The workload's phases.
    fn plan(&self) -> Plan {
        let ns = self.ms_per_size.saturating_mul(1_000_000);
        Plan::new(&self.sizes, ns, self.warmup.0, self.socket_buffer.0 as usize)
    }

    /// The tables to make.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metric = Metric::new("netperf-tcp", "10^6 bit/s", Better::Higher, TableKind::Multi);
        metric.operations = self.sizes.iter().map(usize::to_string).collect();
        vec![metric]
    }

    /// Runs one cell.
    pub(super) fn run(&self, cell: &Cell<'_>, host: HostKind) -> Result<Outcome, RunError> {
        match host {
            HostKind::Sim => sim::run(cell, self),
            HostKind::Native => native::run(cell, self),
        }
    }
}

/// Throughput of every measured phase, in 10^6 bit/s: bytes received over the time from the phase's
/// first send to its last byte copied out.
fn throughput(plan: &Plan, sent: &Sent, received: &Received) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    for (i, phase) in plan.phases.iter().enumerate().filter(|(_, p)| p.measured) {
        let ns = received.phase_end_ns[i] - sent.phase_start_ns[i];
        let bits = received.phase_bytes[i] as f64 * 8.0;
        samples.push((phase.size.to_string(), bits * 1000.0 / ns.max(1) as f64));
    }
    samples
}

/// Frames of different boots are different frames: one boot's histogram says most.
fn hottest(uses: &BlockUses) -> Histogram {
    let mut histogram = Histogram::new(HOTTEST, "kmem:mm_page_alloc", "first seed");
    for ((pfn, _), count) in uses {
        histogram.record(&format!("{pfn:#x}"), *count);
    }
    histogram
}
