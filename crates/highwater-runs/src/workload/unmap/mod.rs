//! The unmap workload (study 003).

mod native;
mod sim;

use highwater_results::{Better, Metric, TableKind};
use highwater_workloads::unmap::{Aftermath, RoundTimes};

use super::{HostKind, Outcome, RunError, Unit, Workload};
use crate::params;
use highwater_files::machine_file::MachineFile;

/// Most processes that may unmap at once.
const PROCESSES_MAX: usize = 64;
/// Most pages that each process maps: 1 GiB.
const PAGES_MAX: u32 = 1 << 18;

params! {
    /// Parameters.
    pub struct UnmapParams {
        /// Pages that each process maps and unmaps.
        pages: u32 = 512, |p| (1..=PAGES_MAX).contains(&p.pages) => "must be between 1 and 262144";
        /// Numbers of processes that unmap at the same moment, each a different file.
        processes: Vec<usize> = vec![1, 2, 4, 8],
            |p| !p.processes.is_empty() && p.processes.iter().all(|n| (1..=PROCESSES_MAX).contains(n))
                => "each number is between 1 and 64";
        /// Timed unmaps of each kind, per number of processes.
        rounds: u32 = 20, |p| p.rounds > 0 => "must be at least 1";
        /// Size of the mapped file of the second part, a fraction of memory.
        hot: f64 = 0.3, |p| is_share(p.hot) && p.hot <= 0.6
            => "must be above 0 and at most 0.6: the file has to fit memory";
        /// Size of the file that streams past, a fraction of memory.
        cold: f64 = 1.2, |p| is_share(p.cold) => "must be above 0 and at most 4";
    }
}

fn is_share(value: f64) -> bool {
    value.is_finite() && value > 0.0 && value <= 4.0
}

/// Processes unmap young file pages (study 003).
#[derive(Debug)]
pub struct Unmap;

impl Workload for Unmap {
    type Params = UnmapParams;

    const NAME: &'static str = "unmap";
    const ABOUT: &'static str =
        "processes unmap young file pages; then a stream of file data, and the pages again";
    const STUDY: Option<&'static str> = Some("003-unmap-accessed");

    /// Half a microsecond a page: the hot file is read three times, the cold one once.
    fn seconds(params: &UnmapParams, machine: &MachineFile, _: usize) -> Option<f64> {
        let pages = machine.machine.managed_pages() as f64 * (3.0 * params.hot + params.cold);
        let unmaps = params.processes.iter().sum::<usize>() as f64 * f64::from(params.rounds) * 2.0;
        Some((pages + unmaps * f64::from(params.pages)) * 0.5e-6)
    }

    fn run(params: &UnmapParams, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        match unit.host {
            HostKind::Sim => sim::run(unit, params),
            HostKind::Native => native::run(unit, params),
        }
    }

    fn metrics(params: &UnmapParams, _: &[MachineFile]) -> Vec<Metric> {
        let over_processes =
            |stem: &str| params.processes.iter().map(|n| format!("{stem}-{n}")).collect::<Vec<_>>();
        let mut times = Metric::new("unmap", "microseconds", Better::Lower, TableKind::Multi);
        times.operations = over_processes("first");
        times.operations.extend(over_processes("again"));
        times.operations.extend(over_processes("activate"));
        times.part_of =
            over_processes("activate").into_iter().zip(over_processes("again")).collect();
        times.about =
            "first-N, again-N: unmaps by N processes at once; activate-N: what again-N takes longer"
                .to_owned();
        let mut share =
            Metric::new("activation", "percent of the unmap", Better::Lower, TableKind::Multi);
        share.operations = over_processes("share");
        share.whole = Some(100.0);
        share.about = "what activate-N is of again-N".to_owned();
        let mut lock = Metric::new(
            "lru_lock",
            "microseconds waited per process and unmap",
            Better::Lower,
            TableKind::Multi,
        );
        lock.operations = over_processes("wait");
        lock.decimals = 3;
        let mut pages = Metric::new("aftermath", "pages", Better::Lower, TableKind::Multi);
        pages.operations = ["activated", "scanned", "refaulted", "reactivated", "major-faults"]
            .map(str::to_owned)
            .to_vec();
        pages.about = "of a mapped file, while other data stream past it".to_owned();
        let mut again = Metric::new("remap", "milliseconds", Better::Lower, TableKind::Multi);
        again.operations = vec!["remap".to_owned()];
        again.about = "using that file once more".to_owned();
        vec![times, share, lock, pages, again]
    }
}

/// A share of memory as pages.
fn pages_of(share: f64, managed: u64) -> u64 {
    ((share * managed as f64) as u64).max(1)
}

/// The results of the unmaps for one number of processes.
struct Unmapped {
    /// How many processes.
    processes: usize,
    /// By process.
    times: Vec<Vec<RoundTimes>>,
    /// Whether the host measures waits for the LRU lock.
    has_waits: bool,
}

/// Everything as samples.
fn samples(unmapped: &[Unmapped], after: &Aftermath) -> Vec<(String, f64)> {
    let mut samples = Vec::new();
    let mut push = |name: String, value: f64| samples.push((name, value));
    for set in unmapped {
        let n = set.processes;
        let (mut first, mut again, mut wait, mut unmaps) = (0, 0, 0, 0);
        for times in set.times.iter().flatten() {
            push(format!("first-{n}"), times.first_ns as f64 / 1e3);
            push(format!("again-{n}"), times.again_ns as f64 / 1e3);
            let more_ns = times.again_ns as f64 - times.first_ns as f64;
            push(format!("activate-{n}"), more_ns / 1e3);
            (first, again) = (first + times.first_ns, again + times.again_ns);
            (wait, unmaps) = (wait + times.lru_wait_ns, unmaps + 2);
        }
        // The first unmap only sets bits that are clear; the second one's extra time is activation.
        let share = 100.0 * (1.0 - first as f64 / again.max(1) as f64);
        push(format!("share-{n}"), share);
        if set.has_waits {
            push(format!("wait-{n}"), wait as f64 / f64::from(unmaps.max(1)) / 1e3);
        }
    }
    push("activated".to_owned(), after.activated as f64);
    push("scanned".to_owned(), after.scanned as f64);
    push("refaulted".to_owned(), after.refaulted as f64);
    push("reactivated".to_owned(), after.reactivated as f64);
    push("major-faults".to_owned(), after.major_faults as f64);
    push("remap".to_owned(), after.again_ns as f64 / 1e6);
    samples
}
