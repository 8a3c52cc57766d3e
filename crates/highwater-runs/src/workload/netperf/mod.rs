//! netperf-tcp (study 002).

mod native;
mod sim;

use highwater_report::report::usual_sections;
use highwater_results::{Better, Histogram, Metric, Section, TableKind};
use highwater_workloads::netperf::{BlockUses, Plan, Received, Sent};

use super::{Bytes, HostKind, Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// Name of the histogram of block uses.
const HOTTEST: &str = "hottest blocks";

params! {
    /// Parameters.
    pub struct NetperfParams {
        /// Bytes per send and receive.
        sizes: Vec<usize> = vec![64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384],
            |p| !p.sizes.is_empty() && p.sizes.iter().all(|&s| s > 0 && s <= p.socket_buffer.0 as usize)
                => "each size is at least 1 and fits the socket buffer";
        /// Duration of each size, milliseconds.
        ms_per_size: u64 = 100, |p| p.ms_per_size > 0 => "must be at least 1";
        /// Bytes sent before the first measurement: several times what the receiver's lists can
        /// hold.
        warmup: Bytes = Bytes(256 << 20);
        /// Bytes in flight between sender and receiver.
        socket_buffer: Bytes = Bytes(256 << 10);
        /// CPU of the sender.
        sender_cpu: u16 = 0;
        /// CPU of the receiver.
        receiver_cpu: u16 = 1, |p| p.sender_cpu != p.receiver_cpu
            => "sender and receiver run on different CPUs";
    }
}

/// Blocks allocated on one CPU and freed on another (study 002).
#[derive(Debug)]
pub struct Netperf;

impl Workload for Netperf {
    type Params = NetperfParams;

    const NAME: &'static str = "netperf-tcp";
    const ABOUT: &'static str =
        "netperf TCP_STREAM over loopback: blocks allocated on one CPU, freed on another";
    const STUDY: Option<&'static str> = Some("002-pcp-high-order");

    fn cpus_needed(params: &NetperfParams) -> usize {
        usize::from(params.sender_cpu.max(params.receiver_cpu)) + 1
    }

    /// Mostly the boot of a large machine; then half as long as is simulated.
    fn seconds(params: &NetperfParams, machine: &MachineFile, _: usize) -> Option<f64> {
        let boot = machine.machine.end_pfn() as f64 * 25e-9;
        let measured = params.sizes.len() as f64 * params.ms_per_size as f64 / 1e3;
        Some(boot + measured / 2.0)
    }

    fn run(params: &NetperfParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        match unit.host {
            HostKind::Sim => sim::run(unit, params),
            HostKind::Native => native::run(unit, params),
        }
    }

    fn metrics(params: &NetperfParams, _: &[MachineFile]) -> Vec<Metric> {
        let mut metric = Metric::new(Self::NAME, "10^6 bit/s", Better::Higher, TableKind::Multi);
        metric.operations = params.sizes.iter().map(usize::to_string).collect();
        vec![metric]
    }

    fn sections(_: &NetperfParams, metrics: &[Metric]) -> Vec<Section> {
        let mut sections = usual_sections(metrics);
        let published = |section: &Section| matches!(section, Section::Published { .. });
        let after = sections.iter().position(published).map_or(0, |at| at + 1);
        sections.insert(after, Section::Hottest { histogram: HOTTEST.to_owned() });
        sections
    }
}

impl NetperfParams {
    /// The workload's phases.
    fn plan(&self) -> Plan {
        let ns = self.ms_per_size.saturating_mul(1_000_000);
        Plan::new(&self.sizes, ns, self.warmup.0, self.socket_buffer.0 as usize)
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

/// Frames of different boots cannot be added up, so use the histogram of one boot.
fn hottest(uses: &BlockUses) -> Histogram {
    let mut histogram = Histogram::new(HOTTEST, "kmem:mm_page_alloc", "first seed");
    for ((pfn, _), count) in uses {
        histogram.record(&format!("{pfn:#x}"), *count);
    }
    histogram
}
