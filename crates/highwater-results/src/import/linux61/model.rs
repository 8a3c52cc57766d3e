//! The reference files as structs. Sizes are pages unless the name says otherwise.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Counters or gauges by the names of `/proc/vmstat`. Changes of levels may be negative.
pub type Counters = BTreeMap<String, i64>;

/// `kind: static`: a freshly booted machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Static {
    /// Name of the capture.
    pub name: String,
    /// The Linux version; its first number is the version number.
    pub kernel: String,
    /// Always 4096.
    pub page_size: u64,
    /// Pages that Linux reports.
    pub phys_pages: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// Zones with memory.
    pub zones: Vec<Zone>,
    /// The value that Linux computed.
    pub min_free_kbytes: u64,
    /// Changed kernel settings, by the names of `/proc/sys` and `/sys/kernel/mm`; empty for the
    /// defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Free blocks at the time, for orientation.
    #[serde(default)]
    pub buddyinfo: Vec<ZoneBlocks>,
    /// Nodes, with and without memory or CPUs.
    pub nodes: Vec<Node>,
}

/// `kind: scenario`: the effect of a small program on the counters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Scenario {
    /// Name of the capture.
    pub name: String,
    /// The Linux version.
    pub kernel: String,
    /// Always 4096.
    pub page_size: u64,
    /// Pages that Linux reports; fractions in `params` refer to it.
    pub phys_pages: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// `cyclic`, `hotcold`, `anon`, `anonrand`, `mixed`, `randwrite`, `thp`, `compact-…`, `numa-…`,
    /// `zap`.
    pub scenario: String,
    /// Changed kernel settings, by the names of `/proc/sys` and `/sys/kernel/mm`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The scenario's parameters, in the scenario's order.
    pub params: Vec<f64>,
    /// Zones with memory, before the program ran.
    pub zones: Vec<Zone>,
    /// Nodes; `None` stands for one node with all CPUs.
    #[serde(default)]
    pub nodes: Option<Vec<Node>>,
    /// The same program several times; all runs have the same steps.
    pub runs: Vec<Run>,
    /// Free blocks at several moments (`thp`).
    #[serde(default)]
    pub buddyinfo: Vec<Vec<ZoneBlocks>>,
    /// Rules in which this kernel differs from the released one, by name.
    #[serde(default)]
    pub policy: BTreeMap<String, String>,
    /// Remark of the capture.
    #[serde(default)]
    pub cpu_note: Option<String>,
}

/// One run of a scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Run {
    /// Levels before the first step.
    pub start_gauges: Counters,
    /// The zones after this run's boot, if boots differ; empty if they are the file's.
    #[serde(default)]
    pub zones: Vec<RunZone>,
    /// Levels of each node before the first step; empty if not recorded.
    #[serde(default)]
    pub start_nodes: Vec<NodeLevels>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// The values of a zone that differ by run; all others are those of the file's zone of that node
/// and name.
///
/// A kernel relocates itself at boot, so the node that loses memory to it differs from boot to
/// boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RunZone {
    /// Node number.
    pub node: u32,
    /// The zone's name.
    pub zone: ZoneName,
    /// Without holes.
    pub present: u64,
    /// Handed to the page allocator by now.
    pub managed: u64,
    /// Min watermark.
    pub min: u64,
    /// Low watermark.
    pub low: u64,
    /// High watermark.
    pub high: u64,
    /// Free pages at the time.
    pub free: u64,
}

/// Levels of a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeLevels {
    /// Node number.
    pub id: u32,
    /// Levels by name; absent ones are 0.
    pub gauges: Counters,
}

/// Changes of a node in one step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeStep {
    /// Node number.
    pub id: u32,
    /// Changes by the names of the node's `numastat` and `vmstat`; absent ones did not change.
    pub counters: Counters,
    /// Levels at the end; absent ones are 0.
    pub gauges: Counters,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Step {
    /// Its name, such as `pass1`.
    pub label: String,
    /// Seconds it took on the emulated machine; never compared.
    pub elapsed_s: f64,
    /// Changes of the event counters since the step before; absent ones did not change.
    pub counters: Counters,
    /// Levels at the end; absent ones are 0.
    pub gauges: Counters,
    /// The same for each node, if recorded.
    #[serde(default)]
    pub nodes: Vec<NodeStep>,
}

/// `kind: ab-trace`: the same work on kernels that differ in one rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AbTrace {
    /// The workload.
    pub work: String,
    /// The machine.
    pub machine: String,
    /// One kernel per rule.
    pub kernels: Vec<AbKernel>,
}

/// Contents of one kernel's trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AbKernel {
    /// Name of the rule.
    pub policy: String,
    /// The Linux version.
    pub kernel: String,
    /// Events by tracepoint.
    pub events: BTreeMap<String, u64>,
    /// Events by `tracepoint order=N`.
    pub events_by_order: BTreeMap<String, u64>,
    /// Events by `tracepoint cpu=N`.
    pub events_by_cpu: BTreeMap<String, u64>,
    /// The blocks allocated most often, most used first.
    pub hottest: Vec<HotBlock>,
    /// Different blocks allocated, by order.
    pub distinct_blocks_by_order: BTreeMap<u8, u64>,
}

/// A block and how often it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct HotBlock {
    /// First frame.
    pub pfn: u64,
    /// Block size is 2^order frames.
    pub order: u8,
    /// Allocations.
    pub uses: u64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Node number.
    pub id: u32,
    /// Its CPUs; may be empty.
    pub cpus: Vec<u32>,
    /// Distance to each node, in the order of the node list; 10 to itself.
    pub distances: Vec<u32>,
}

/// A zone with memory, and the values that Linux computed for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Node number.
    pub node: u32,
    /// The zone's name.
    pub zone: ZoneName,
    /// One per CPU.
    pub pagesets: Vec<Pageset>,
    /// Levels of the node at the time, in the node's first zone with memory.
    #[serde(default)]
    pub baseline: Counters,
    /// Free pages at the time.
    pub free: u64,
    /// Watermark boost at the time; kernels before 5.14 do not print it.
    #[serde(default)]
    pub boost: u64,
    /// Min watermark.
    pub min: u64,
    /// Low watermark.
    pub low: u64,
    /// High watermark.
    pub high: u64,
    /// End minus start.
    pub spanned: u64,
    /// Without holes.
    pub present: u64,
    /// Handed to the page allocator by now.
    pub managed: u64,
    /// Managed pages when Linux computed the zone's sizes; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_at_boot: Option<u64>,
    /// Lowmem reserve against requests of each zone index.
    pub protection: Vec<u64>,
    /// First frame.
    pub start_pfn: u64,
}

/// The values that Linux computed for a zone's per-CPU lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pageset {
    /// CPU number.
    pub cpu: u32,
    /// Pages at which a list is drained.
    pub high: u64,
    /// Pages moved at a time.
    pub batch: u64,
    /// The value of `high` that follows from the zone's sizes (`high` tunes itself since 6.7);
    /// `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_min: Option<u64>,
    /// Largest counter delta that a CPU may keep to itself.
    pub stat_threshold: u64,
}

/// Free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneBlocks {
    /// Node number.
    pub node: u32,
    /// The zone's name.
    pub zone: ZoneName,
    /// Free blocks of orders 0 to 10.
    pub free_blocks: [u64; 11],
}

/// Linux's zone names on x86-64, in zone index order (rules/kmem-traces#proc-texts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are Linux's own.
pub enum ZoneName {
    #[serde(rename = "DMA")]
    Dma,
    #[serde(rename = "DMA32")]
    Dma32,
    Normal,
    Movable,
    Device,
}

impl Scenario {
    /// The zones as a run found them: the file's zones with the run's values.
    ///
    /// Sizes of per-CPU lists, reserves and the managed pages at boot were recorded for the file's
    /// zones. If a run's zone managed another number of pages, these values do not hold for it and
    /// are left out.
    #[must_use]
    pub fn zones_of(&self, run: &Run) -> Vec<Zone> {
        let mut zones = self.zones.clone();
        for own in &run.zones {
            let of_file = zones.iter_mut().find(|z| (z.node, z.zone) == (own.node, own.zone));
            let Some(zone) = of_file else { continue };
            if zone.managed != own.managed {
                zone.managed_at_boot = None;
                zone.pagesets.clear();
                // A reserve is a share of the managed pages of the zones above.
                let node = zone.node;
                zones.iter_mut().filter(|z| z.node == node).for_each(|z| z.protection.clear());
            }
            let of_file = zones.iter_mut().find(|z| (z.node, z.zone) == (own.node, own.zone));
            let Some(zone) = of_file else { continue };
            *zone = Zone {
                present: own.present,
                managed: own.managed,
                min: own.min,
                low: own.low,
                high: own.high,
                free: own.free,
                ..zone.clone()
            };
        }
        zones
    }
}

impl Zone {
    /// Managed pages when Linux computed the zone's sizes; the current number if that was not
    /// recorded.
    #[must_use]
    pub fn managed_for_sizing(&self) -> u64 {
        self.managed_at_boot.unwrap_or(self.managed)
    }

    /// First frame after the zone. The check of the file keeps it from overflowing.
    #[must_use]
    pub fn end_pfn(&self) -> u64 {
        self.start_pfn.saturating_add(self.spanned)
    }
}

impl ZoneName {
    /// The name as Linux prints it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
            Self::Device => "Device",
        }
    }

    /// Zone index, 0 for DMA.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
