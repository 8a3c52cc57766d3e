//! The results of a unit of work: samples, counters, histograms, times.

use highwater_core::config::MachineError;
use highwater_core::host::Host;
use highwater_core::page_alloc::PageAllocator;
use highwater_core::proc::numastat_of;
use highwater_core::vmstat::{NodeStat, NumaStat, VmEvent, ZoneStat, names};
use highwater_core::zone::NodeId;
use highwater_results::explain::ExplainedRun;
use highwater_results::texts::known;
use highwater_results::{Counters, EndedEarly, Histogram, Largest, Times};
use highwater_sim::engine;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// Why a cell failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The machine cannot exist.
    #[error("machine {name}: {reason}")]
    Machine {
        /// Its name.
        name: String,
        /// Field and reason.
        reason: MachineError,
    },
    /// The machine cannot boot.
    #[error("simulation: {0}")]
    Boot(String),
    /// There is too little room on a disk.
    #[error("simulation: {0}")]
    Room(String),
    /// The machine file has no costs and caches, or unusable ones.
    #[error("{0}")]
    Costs(String),
    /// The workload failed.
    #[error("{workload}: {reason}")]
    Workload {
        /// Its name.
        workload: &'static str,
        /// The error.
        reason: String,
    },
    /// A value of the workload cannot be satisfied.
    #[error("{reason}{}", place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default())]
    At {
        /// The keys that lead to it, with dots between them; elements of lists go by number.
        path: String,
        /// What is missing.
        reason: String,
        /// File and line, once the file is known.
        place: Option<String>,
    },
    /// The simulation got stuck or a task panicked.
    #[error("simulation: {0}")]
    Stuck(String),
    /// The host cannot run it.
    #[error("native host: {0}")]
    Native(String),
    /// The memory is not consistent after the run.
    #[error("audit after the run: {0}")]
    Audit(String),
    /// Time without a cause.
    #[error("the ledger: {0}")]
    Ledger(String),
    /// The host books no time by cause.
    #[error("{0}")]
    Unexplained(String),
    /// A finished unit cannot be kept.
    #[error(transparent)]
    Store(Box<dyn std::error::Error + Send + Sync>),
    /// The files of the machine cannot be written (`--cgroupfs`).
    #[error("--cgroupfs {0}")]
    Files(String),
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// A workload failed.
    pub fn of(workload: &'static str, reason: impl ToString) -> RunError {
        RunError::Workload { workload, reason: reason.to_string() }
    }
}

impl From<engine::RunError> for RunError {
    fn from(error: engine::RunError) -> RunError {
        match error {
            engine::RunError::Stopped { .. } => RunError::Interrupted,
            stuck => RunError::Stuck(stuck.to_string()),
        }
    }
}

/// Result of one unit of work, or of several put together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Operation and value.
    pub samples: Vec<(String, f64)>,
    /// The largest samples, of operations whose end times are known.
    pub largest: Vec<Largest>,
    /// Histograms; results keep those of the first seed.
    pub histograms: Vec<Histogram>,
    /// Counter changes over the run.
    pub counters: Counters,
    /// Time spent.
    pub times: Times,
    /// Tasks that ended before their time.
    pub ended_early: Vec<EndedEarly>,
    /// Remarks for readers of the results: additions to the machine, and things left out.
    pub notes: Vec<String>,
    /// Digest of every event; 0 on hosts without one.
    pub digest: u64,
    /// The kernel's own proc files at the end: the name of a file of the results, and its text.
    /// Results keep those of the first seed.
    #[serde(deserialize_with = "known_files")]
    pub texts: Vec<(&'static str, String)>,
    /// Where the time went, if wanted.
    pub explained: Option<ExplainedRun>,
}

/// Texts with the names of their files, which must be known.
fn known_files<'de, D>(reader: D) -> Result<Vec<(&'static str, String)>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = Vec::<(String, String)>::deserialize(reader)?;
    let known = |(name, text): (String, String)| {
        let unknown = || serde::de::Error::custom(format!("no text has the name {name}"));
        known(&name).map(|file| (file, text)).ok_or_else(unknown)
    };
    texts.into_iter().map(known).collect()
}

impl Outcome {
    /// Adds the outcome of the cell's next unit of work.
    pub fn append(&mut self, other: Outcome) {
        self.samples.extend(other.samples);
        other.largest.into_iter().for_each(|new| Largest::keep(&mut self.largest, new));
        for histogram in other.histograms {
            add_histogram(&mut self.histograms, histogram);
        }
        self.counters.merge(&other.counters);
        self.times.user_ns += other.times.user_ns;
        self.times.system_ns += other.times.system_ns;
        self.times.elapsed_ns += other.times.elapsed_ns;
        self.ended_early.extend(other.ended_early);
        let news = other.notes.into_iter().filter(|note| !self.notes.contains(note));
        let news: Vec<String> = news.collect();
        self.notes.extend(news);
        self.texts.extend(other.texts);
        self.digest = self.digest.rotate_left(1) ^ other.digest;
        self.explained = match (self.explained.take(), other.explained) {
            (Some(mut mine), Some(theirs)) => {
                // If fewer slowest operations are wanted, the caller cuts the list.
                mine.merge(theirs);
                Some(mine)
            }
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// Adds a histogram to that of the same event and context, or to the list.
pub fn add_histogram(all: &mut Vec<Histogram>, new: Histogram) {
    let same =
        |h: &&mut Histogram| h.event == new.event && h.context == new.context && h.name == new.name;
    match all.iter_mut().find(same) {
        Some(mine) => mine.merge(&new),
        None => all.push(new),
    }
}

/// All counters that a machine's kernel has, by name, as `/proc/vmstat` shows them.
pub fn snapshot<H: Host>(memory: &PageAllocator<H>) -> Counters {
    let mut counters = Counters::default();
    counters_of(memory, |name, value| counters.add(name, value as i64));
    counters
}

/// The names of all counters of any kernel, in the order of `/proc/vmstat`.
pub fn counter_names() -> impl Iterator<Item = &'static str> {
    names().map(|(name, _)| name)
}

/// The counters of one node, by the names of its `numastat` and `vmstat`.
pub fn node_snapshot<H: Host>(memory: &PageAllocator<H>, node: NodeId) -> Counters {
    let mut counters = Counters::default();
    numastat_of(memory, node, |name, value| counters.add(name, value as i64));
    for &item in ZoneStat::ALL {
        let read = memory.zones_of(node).map(|zone| zone.stats.read_exact(item as usize));
        counters.add(item.name(), read.sum::<u64>() as i64);
    }
    for &item in NodeStat::ALL {
        counters.add(item.name(), memory.node(node).stats.read_exact(item as usize) as i64);
    }
    counters
}

/// Reports each counter of a machine, in the order of `/proc/vmstat`. The model counts all of them under every policy; a
/// counter that the policy's kernel lacks is not reported, because 0 would read as "it never happened".
pub(crate) fn counters_of<H: Host>(
    memory: &PageAllocator<H>,
    mut each: impl FnMut(&'static str, u64),
) {
    let kernel = memory.policy.counters();
    for item in ZoneStat::of_kernel(kernel) {
        each(
            item.name(),
            memory.populated_zones().map(|z| z.stats.read_exact(item as usize)).sum(),
        );
    }
    for item in NumaStat::of_kernel(kernel) {
        each(item.name(), memory.populated_zones().map(|z| z.numa_stat(item)).sum());
    }
    for item in NodeStat::of_kernel(kernel) {
        each(item.name(), memory.nodes().iter().map(|n| n.stats.read_exact(item as usize)).sum());
    }
    for event in VmEvent::of_kernel(kernel) {
        each(event.name(), memory.events.read(event));
    }
}
