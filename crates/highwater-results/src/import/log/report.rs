//! One report of the kernel as plain fields.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gfp::Gfp;
use super::kernel::KernelRelease;
use super::kill::Kill;
use super::memcg::Memcg;
use super::request::{MachinePages, ReportKind, Task, Vmalloc};
use super::tables::{SiteRow, SlabRow, TaskTable};
use super::zone::{HugePages, Node, Zone};

/// A report: a refused request with its memory dump, an OOM kill, or a dump alone.
///
/// Every field is what the text says. `None`, or an empty list, means that the text does not have
/// it. Three fields are inferred, and their docs say from what: `zone_types`, `highest_zone`,
/// `page_size`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// First line in the input, from 1.
    pub first_line: usize,
    /// Last line in the input.
    pub last_line: usize,
    /// Form of the prefix of most of its lines: `none`, `[t]`, `syslog host kernel:`, ...
    pub prefix: String,
    /// Seconds since boot of its first line, where the prefix has them.
    pub time: Option<f64>,
    /// Wall time of its first line as printed, where the prefix has it.
    pub clock: Option<String>,
    /// The kind of the report.
    pub kind: ReportKind,
    /// The process that asked.
    pub task: Task,
    /// The kernel.
    pub kernel: Option<KernelRelease>,
    /// Architecture as far as release, traces and registers tell: `x86-64`, `arm64`, ...
    pub arch: Option<String>,
    /// The request.
    pub request: Request,
    /// The context of the request, as far as the text says.
    pub context: Context,
    /// As printed after `CONSTRAINT_`: `NONE`, `CPUSET`, `MEMORY_POLICY`, `MEMCG`.
    pub constraint: Option<String>,
    /// Bytes of a page: the smallest block of the free lists. Without lists: kB of the node lines
    /// over the machine's pages. Without both (kills of a memory cgroup): `total-vm` of the killed
    /// process in kB over its `total_vm` in the table of processes, in pages.
    pub page_size: Option<u64>,
    /// Names of the columns of `lowmem_reserve[]`, inferred from their number, the names in the
    /// text, the first column that is not 0, and the architecture. Empty without such a line.
    pub zone_types: Vec<String>,
    /// The highest zone that the request may use, by its zone bits and `zone_types`.
    pub highest_zone: Option<String>,
    /// The highest zone by the zone bits alone: `HighMem` on machines without such a zone, too.
    pub zone_by_bits: Option<String>,
    /// Zones in the order of the text.
    pub zones: Vec<Zone>,
    /// Nodes in the order of the text (since 4.8).
    pub nodes: Vec<Node>,
    /// Counters of the machine by name, pages: `active_anon`, `slab_unreclaimable`, `free`, ...
    /// Names that old kernels print with a capital are in lower case.
    pub counters: BTreeMap<String, u64>,
    /// Swap of the machine.
    pub swap: Swap,
    /// Pages of the machine.
    pub pages: MachinePages,
    /// Huge pages by node and size.
    pub hugepages: Vec<HugePages>,
    /// The memory cgroup at its limit.
    pub memcg: Option<Memcg>,
    /// Processes.
    pub tasks: TaskTable,
    /// Slab caches that cannot be reclaimed.
    pub slabs: Vec<SlabRow>,
    /// Places in the kernel's code that hold most memory.
    pub sites: Vec<SiteRow>,
    /// The kill that followed.
    pub kill: Option<Kill>,
    /// The refused `vmalloc`.
    pub vmalloc: Option<Vmalloc>,
    /// Damage of the text: `quoted`, `wrapped`, `lines cut at the right`, `head cut`, ...
    pub damage: Vec<String>,
    /// Parts that a report of this kind has, and the text does not: `request`, `zones`, ...
    pub missing: Vec<String>,
    /// Numbers that do not agree, and lines without their counterpart.
    pub findings: Vec<Finding>,
}

/// The refused request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Order: 2^order pages. -1 is a kill by SysRq f.
    pub order: Option<i32>,
    /// Flags.
    pub gfp: Option<Gfp>,
    /// `nodemask`, as printed.
    pub nodemask: Option<String>,
    /// Cpuset of the process.
    pub cpuset: Option<String>,
    /// Nodes that the cpuset allows, as printed.
    pub mems_allowed: Option<String>,
    /// `oom_score_adj` of the process.
    pub oom_score_adj: Option<i32>,
    /// How long it has waited, milliseconds.
    pub waited_ms: Option<u64>,
    /// True if the request stands after the dump: the lines changed their order, or it is the
    /// request of a dump that follows. Then dump and request may not belong together.
    pub follows_dump: bool,
}

/// The context of a request, from its process and its call trace. `true` is seen, `false` is not
/// seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    /// kswapd itself asks, which may ignore watermarks (`PF_MEMALLOC`).
    pub is_kswapd: bool,
    /// The trace has an interrupt, so the flags of the process do not count.
    pub in_interrupt: bool,
    /// The trace has functions of reclaim: the process is in direct reclaim (`PF_MEMALLOC`).
    pub in_reclaim: bool,
}

/// Swap of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// Free, kB.
    pub free: Option<u64>,
    /// In all, kB.
    pub total: Option<u64>,
    /// Pages in the swap cache.
    pub cache_pages: Option<u64>,
}

impl Swap {
    /// At most a hundredth of the swap is free; false without swap, or if the text does not say.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let known = self.free.zip(self.total).filter(|(_, total)| *total > 0);
        known.is_some_and(|(free, total)| free <= total / 100)
    }
}

/// Numbers that do not agree, and lines without their counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum Finding {
    /// The blocks of a free list do not add up to the total printed behind them.
    ListSum {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
        /// The total as printed, kB.
        printed_kb: u64,
        /// Sum of the blocks, kB.
        sum_kb: u64,
    },
    /// The zone line and the free list differ: memory was freed or allocated between the two lines.
    FreeDiffers {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
        /// `free` of the zone line, kB.
        free_kb: u64,
        /// Total of the free list, kB.
        list_kb: u64,
    },
    /// The free list of a zone ends too early, or a part of it is damaged: it may have larger
    /// blocks than the text shows.
    ListCut {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
    },
    /// A zone has no free list, although others have.
    NoList {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
    },
    /// A zone has a free list only.
    NoLine {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
    },
    /// A node has a line, and none of its zones has. The kernel leaves out nodes that the request
    /// may not use.
    NodeWithoutZones {
        /// Node.
        node: u32,
    },
    /// Watermarks that are not in their order.
    MarksOrder {
        /// Node.
        node: Option<u32>,
        /// Zone.
        zone: String,
    },
}

impl Report {
    /// Column of `lowmem_reserve[]` that holds for the request.
    #[must_use]
    pub fn reserve_column(&self) -> Option<usize> {
        let highest = self.highest_zone.as_deref()?;
        self.zone_types.iter().position(|name| name == highest)
    }

    /// Pages that a zone keeps back from the request.
    #[must_use]
    pub fn reserve_for_request(&self, zone: &Zone) -> Option<u64> {
        zone.reserve(self.reserve_column()?)
    }

    /// True if the report has lines of the memory dump.
    #[must_use]
    pub fn has_dump(&self) -> bool {
        !self.zones.is_empty() || !self.nodes.is_empty() || !self.counters.is_empty()
    }

    /// Bytes of a page, from the free lists or else from the node lines or the killed process.
    pub(super) fn infer_page_size(&self) -> Option<u64> {
        let lists = self.zones.iter().filter_map(|zone| zone.list.as_ref());
        let smallest = lists.filter_map(|list| list.blocks.first()).map(|block| block.kb).min();
        if let Some(kb) = smallest {
            return kb.is_power_of_two().then(|| kb.checked_mul(1024)).flatten();
        }
        // All counters that the node lines share with the machine's line have to agree.
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for node in &self.nodes {
            for (name, kb) in &node.counters {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(*kb);
            }
        }
        if sums.is_empty() {
            return self.page_size_of_victim();
        }
        let mut ratio = None;
        for (name, pages) in &self.counters {
            let Some(kb) = sums.get(name.as_str()).filter(|_| *pages > 0) else { continue };
            if !kb.is_multiple_of(*pages) || ratio.is_some_and(|ratio| ratio != kb / pages) {
                return None;
            }
            ratio = Some(kb / pages);
        }
        ratio.filter(|kb| kb.is_power_of_two() && (4..=1024).contains(kb)).map(|kb| kb * 1024)
    }

    /// Bytes of a page, from the address space of the killed process: the table of processes has it
    /// in pages, the line of the kill in kB.
    fn page_size_of_victim(&self) -> Option<u64> {
        let kill = self.kill.as_ref()?;
        let pid = kill.pid.and_then(|pid| u64::try_from(pid).ok())?;
        let row = self.tasks.rows.iter().find(|row| row.pid == pid)?;
        let pages = row.values.get("total_vm").and_then(|pages| u64::try_from(*pages).ok());
        let (pages, kb) = (pages.filter(|pages| *pages > 0)?, *kill.memory_kb.get("total-vm")?);
        let size = kb / pages;
        let is_size = size.is_power_of_two() && (4..=64).contains(&size);
        (is_size && kb.is_multiple_of(pages)).then_some(size * 1024)
    }

    /// Compares numbers that the kernel prints twice.
    pub(super) fn find(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let has_lists = self.zones.iter().any(|zone| zone.list.is_some());
        for zone in &self.zones {
            let place = || (zone.node, zone.name.clone());
            if let Some(list) = &zone.list {
                if let (Some(printed_kb), Some(sum_kb)) = (list.total_kb, list.sum_kb)
                    && printed_kb != sum_kb
                {
                    let (node, zone) = place();
                    findings.push(Finding::ListSum { node, zone, printed_kb, sum_kb });
                }
                if let (Some(free_kb), Some(list_kb)) = (zone.free, list.total_kb)
                    && free_kb != list_kb
                {
                    let (node, zone) = place();
                    findings.push(Finding::FreeDiffers { node, zone, free_kb, list_kb });
                }
            }
            if zone.has_cut_list() {
                let (node, zone) = place();
                findings.push(Finding::ListCut { node, zone });
            }
            let (node, name) = place();
            if !zone.has_line {
                findings.push(Finding::NoLine { node, zone: name });
            } else if has_lists && zone.list.is_none() {
                findings.push(Finding::NoList { node, zone: name });
            }
            if let (Some(min), Some(low), Some(high)) = (zone.min, zone.low, zone.high)
                && !(min <= low && low <= high)
            {
                let (node, zone) = place();
                findings.push(Finding::MarksOrder { node, zone });
            }
        }
        for node in &self.nodes {
            // Without NUMA the node has a line, and its zones do not name it.
            if !self.zones.iter().any(|zone| zone.node.is_none_or(|number| number == node.node)) {
                findings.push(Finding::NodeWithoutZones { node: node.node });
            }
        }
        findings
    }

    /// Parts that reports of this kind have.
    pub(super) fn find_missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut expect = |is_there: bool, name: &str| {
            if !is_there {
                missing.push(name.to_owned());
            }
        };
        if self.kind == ReportKind::MemcgOom {
            expect(self.request.gfp.is_some(), "request");
            expect(self.memcg.as_ref().is_some_and(|memcg| memcg.memory.is_some()), "memory usage");
            expect(self.kill.is_some(), "kill");
            return missing;
        }
        let is_old_vmalloc = self.vmalloc.is_some() && self.request.gfp.is_none();
        expect(self.request.gfp.is_some() || is_old_vmalloc, "request");
        expect(!self.counters.is_empty(), "counters");
        expect(self.zones.iter().any(|zone| zone.has_line), "zones");
        expect(self.zones.iter().any(|zone| zone.list.is_some()), "lists");
        expect(self.swap.total.is_some() || self.swap.free.is_some(), "swap");
        expect(self.pages.ram.is_some(), "pages RAM");
        if self.kind == ReportKind::Oom {
            expect(self.kill.is_some(), "kill");
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::TaskRow;
    use super::super::zone::{FreeBlocks, FreeList};
    use super::*;

    fn zone(free: u64, list: u64, sum: u64) -> Zone {
        let block = FreeBlocks { order: 0, kb: 4, count: sum / 4, types: String::new() };
        Zone {
            name: "Normal".into(),
            has_line: true,
            free: Some(free),
            list: Some(FreeList {
                blocks: vec![block],
                total_kb: Some(list),
                sum_kb: Some(sum),
                is_empty: false,
            }),
            ..Zone::default()
        }
    }

    #[test]
    fn numbers_that_differ_are_findings() {
        let report = Report { zones: vec![zone(12, 8, 4)], ..Report::default() };
        assert_eq!(report.find().len(), 2);
        let report = Report { zones: vec![zone(8, 8, 8)], ..Report::default() };
        assert_eq!(report.find(), []);
        assert_eq!(report.infer_page_size(), Some(4096));
    }

    #[test]
    fn page_size_without_lists() {
        let node = |kb: u64| Node {
            counters: [("active_anon", 10 * kb), ("mapped", 3 * kb)]
                .map(|(n, v)| (n.into(), v))
                .into(),
            ..Node::default()
        };
        let counters: BTreeMap<String, u64> =
            [("active_anon", 10), ("mapped", 3)].map(|(n, v)| (n.into(), v)).into();
        let of = |nodes| {
            Report { nodes, counters: counters.clone(), ..Report::default() }.infer_page_size()
        };
        assert_eq!(of(vec![node(64)]), Some(65_536));
        assert_eq!(of(vec![node(3)]), None, "a node is missing");
        assert_eq!(of(vec![]), None);
    }

    #[test]
    fn page_size_of_a_killed_process() {
        let of = |kb: u64, kill_pid: i64| {
            let row = TaskRow {
                pid: 71,
                values: [("total_vm".to_owned(), 500)].into(),
                ..TaskRow::default()
            };
            let kill = Kill {
                pid: Some(kill_pid),
                memory_kb: [("total-vm".to_owned(), kb)].into(),
                ..Kill::default()
            };
            let tasks = TaskTable { rows: vec![row], ..TaskTable::default() };
            Report { tasks, kill: Some(kill), ..Report::default() }.infer_page_size()
        };
        assert_eq!(of(32_000, 71), Some(65_536));
        assert_eq!(of(2000, 71), Some(4096));
        assert_eq!(of(2004, 71), None, "does not divide");
        assert_eq!(of(1000, 71), None, "no page is so small");
        assert_eq!(of(32_000, 72), None, "another process");
    }
}
