//! Machines that cannot exist, and captures that contradict themselves.
//!
//! Each check names the path of the value at fault. Spans of zones may not overlap at all. Real
//! Linux accepts overlaps if the memory of two nodes interleaves, but a model that finds a frame's
//! zone by span cannot.

use super::model::{AbTrace, Node, Run, Scenario, Static, Zone, ZoneBlocks};
use super::{Document, ImportError};

pub(super) type Checked = Result<(), ImportError>;

pub(super) const PAGE_SIZE: u64 = 4096;
/// Linux's own limits on x86-64.
const CPU_LIMIT: u32 = 8192;
const NODE_LIMIT: u32 = 1024;
/// Frames are below this (4 PiB), as in traces.
const PFN_LIMIT: u64 = crate::import::kmem::PFN_LIMIT;
const ORDER_MAX: u8 = crate::import::kmem::ORDER_MAX;
const NR_ZONES: usize = 5;
/// ACPI's distance of a node to itself. Smaller ones are reserved; 255 means unreachable.
const LOCAL_DISTANCE: u32 = 10;
const DISTANCE_MAX: u32 = 254;

/// Largest file or mapping of a worker: 1 TiB.
const MAPPING_BYTES_MAX: u64 = 1 << 40;

/// Number of parameters of each known scenario.
const SCENARIOS: [(&str, usize); 11] = [
    ("cyclic", 2),
    ("hotcold", 3),
    ("anon", 2),
    ("anonrand", 2),
    ("mixed", 3),
    ("numa-anon", 1),
    ("numa-fileanon", 2),
    ("numa-policy", 2),
    ("randwrite", 2),
    ("thp", 3),
    ("zap", 3),
];

impl Static {
    pub(super) fn validate(&self, document: &Document<'_>) -> Checked {
        page_size(document, self.page_size)?;
        machine(document, self.cpus, self.phys_pages, &self.zones)?;
        nodes(document, self.cpus, &self.nodes, &self.zones)?;
        if self.min_free_kbytes == 0 {
            return Err(document.error("min_free_kbytes", "0: Linux keeps at least 128"));
        }
        buddyinfo(document, "buddyinfo", &self.buddyinfo, &self.zones)
    }
}

impl Scenario {
    pub(super) fn validate(&self, document: &Document<'_>) -> Checked {
        page_size(document, self.page_size)?;
        machine(document, self.cpus, self.phys_pages, &self.zones)?;
        if let Some(list) = &self.nodes {
            nodes(document, self.cpus, list, &self.zones)?;
        }
        for (i, param) in self.params.iter().enumerate() {
            if !param.is_finite() || *param < 0.0 {
                return Err(document
                    .error(format!("params[{i}]"), format!("{param} is not a size or a number")));
            }
        }
        if let Some((name, nr_params)) = SCENARIOS.iter().find(|(name, _)| *name == self.scenario)
            && self.params.len() != *nr_params
        {
            let found = self.params.len();
            return Err(
                document.error("params", format!("{found} values, but {name} has {nr_params}"))
            );
        }
        self.validate_runs(document)?;
        for (i, blocks) in self.buddyinfo.iter().enumerate() {
            buddyinfo(document, &format!("buddyinfo[{i}]"), blocks, &self.zones)?;
        }
        Ok(())
    }

    fn validate_runs(&self, document: &Document<'_>) -> Checked {
        let Some(first) = self.runs.first() else {
            return Err(document.error("runs", "no run"));
        };
        if first.steps.is_empty() {
            return Err(document.error("runs[0].steps", "no step"));
        }
        for (r, run) in self.runs.iter().enumerate() {
            self.validate_places(document, r, run)?;
            if run.steps.len() != first.steps.len() {
                let (found, expected) = (run.steps.len(), first.steps.len());
                let problem = format!("{found} steps, but the first run has {expected}");
                return Err(document.error(format!("runs[{r}].steps"), problem));
            }
            for (s, (step, expected)) in run.steps.iter().zip(&first.steps).enumerate() {
                if step.label != expected.label {
                    let problem = "not the label that the first run has here";
                    return Err(document.error(format!("runs[{r}].steps[{s}].label"), problem));
                }
            }
        }
        Ok(())
    }

    /// Checks that a run's zones and nodes are those of the file, with possible values.
    fn validate_places(&self, document: &Document<'_>, r: usize, run: &Run) -> Checked {
        for (i, own) in run.zones.iter().enumerate() {
            let error = |field: &str, problem: String| {
                Err(document.error(format!("runs[{r}].zones[{i}].{field}"), problem))
            };
            let place = (own.node, own.zone);
            let Some(zone) = self.zones.iter().find(|z| (z.node, z.zone) == place) else {
                let problem =
                    format!("{} of node {} is not among the file's zones", own.zone, own.node);
                return error("zone", problem);
            };
            if run.zones[..i].iter().any(|other| (other.node, other.zone) == place) {
                return error("zone", format!("{} of node {} given twice", own.zone, own.node));
            }
            if own.present > zone.spanned {
                return error(
                    "present",
                    format!("{} pages in a span of {}", own.present, zone.spanned),
                );
            }
            if own.managed > own.present {
                return error(
                    "managed",
                    format!("{} pages of {} present", own.managed, own.present),
                );
            }
            if own.free > own.managed {
                return error("free", format!("{} pages of {} managed", own.free, own.managed));
            }
            if own.low < own.min {
                return error("low", format!("{} is below min {}", own.low, own.min));
            }
            if own.high < own.low {
                return error("high", format!("{} is below low {}", own.high, own.low));
            }
        }
        self.node_ids(
            document,
            &format!("runs[{r}].start_nodes"),
            run.start_nodes.iter().map(|node| node.id),
        )?;
        for (s, step) in run.steps.iter().enumerate() {
            let ids = step.nodes.iter().map(|node| node.id);
            self.node_ids(document, &format!("runs[{r}].steps[{s}].nodes"), ids)?;
        }
        Ok(())
    }

    /// The numbers of the machine's nodes, each once.
    fn node_ids(
        &self,
        document: &Document<'_>,
        field: &str,
        ids: impl Iterator<Item = u32> + Clone,
    ) -> Checked {
        let has = |id: u32| match &self.nodes {
            Some(nodes) => nodes.iter().any(|node| node.id == id),
            None => id == 0,
        };
        for (i, id) in ids.clone().enumerate() {
            let path = format!("{field}[{i}].id");
            if !has(id) {
                return Err(document.error(path, format!("there is no node {id}")));
            }
            if ids.clone().take(i).any(|other| other == id) {
                return Err(document.error(path, format!("node {id} given twice")));
            }
        }
        Ok(())
    }
}

impl AbTrace {
    pub(super) fn validate(&self, document: &Document<'_>) -> Checked {
        if self.kernels.is_empty() {
            return Err(document.error("kernels", "no kernel"));
        }
        for (k, kernel) in self.kernels.iter().enumerate() {
            if self.kernels[..k].iter().any(|other| other.policy == kernel.policy) {
                return Err(document.error(format!("kernels[{k}].policy"), "given twice"));
            }
            for (h, block) in kernel.hottest.iter().enumerate() {
                let path = |field: &str| format!("kernels[{k}].hottest[{h}].{field}");
                order(document, path("order"), block.order)?;
                if block.pfn >= PFN_LIMIT {
                    return Err(
                        document.error(path("pfn"), format!("{} is not a page frame", block.pfn))
                    );
                }
            }
            for &found in kernel.distinct_blocks_by_order.keys() {
                order(document, format!("kernels[{k}].distinct_blocks_by_order.{found}"), found)?;
            }
        }
        Ok(())
    }
}

/// Checks the size of a worker's file or mapping.
pub(super) fn mapping(document: &Document<'_>, field: &str, bytes: u64) -> Checked {
    if (PAGE_SIZE..=MAPPING_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    let problem = format!("{bytes} is not between a page ({PAGE_SIZE}) and {MAPPING_BYTES_MAX}");
    Err(document.error(field, problem))
}

pub(super) fn page_size(document: &Document<'_>, size: u64) -> Checked {
    if size == PAGE_SIZE {
        return Ok(());
    }
    Err(document
        .error("page_size", format!("{size} is not {PAGE_SIZE}, the only size that is modelled")))
}

fn order(document: &Document<'_>, path: String, order: u8) -> Checked {
    if order <= ORDER_MAX {
        return Ok(());
    }
    Err(document.error(path, format!("{order} is above {ORDER_MAX}")))
}

/// Checks CPUs, memory and zones, without regard to nodes.
pub(super) fn machine(
    document: &Document<'_>,
    cpus: u32,
    phys_pages: u64,
    zones: &[Zone],
) -> Checked {
    if cpus == 0 || cpus > CPU_LIMIT {
        return Err(document.error("cpus", format!("{cpus} is not between 1 and {CPU_LIMIT}")));
    }
    if zones.is_empty() {
        return Err(document.error("zones", "no zone: a machine without memory"));
    }
    if zones.len() > NR_ZONES * NODE_LIMIT as usize {
        return Err(
            document.error("zones", format!("{} zones: more than any machine has", zones.len()))
        );
    }
    for (i, z) in zones.iter().enumerate() {
        zone(document, i, z, cpus)?;
    }
    let nr_managed: u64 = zones.iter().map(|z| z.managed).sum();
    let nr_present: u64 = zones.iter().map(|z| z.present).sum();
    if nr_managed == 0 {
        return Err(document.error("zones", "no zone has a managed page: a machine without memory"));
    }
    if phys_pages == 0 {
        return Err(document.error("phys_pages", "0: a machine without memory"));
    }
    if phys_pages > nr_present {
        let problem = format!("{phys_pages} pages, but the zones have only {nr_present}");
        return Err(document.error("phys_pages", problem));
    }
    zone_pairs(document, zones)
}

/// Checks one zone by itself.
fn zone(document: &Document<'_>, i: usize, z: &Zone, cpus: u32) -> Checked {
    let error =
        |field: &str, problem: String| Err(document.error(format!("zones[{i}].{field}"), problem));
    if z.spanned >= PFN_LIMIT || z.start_pfn >= PFN_LIMIT {
        let field = if z.spanned >= PFN_LIMIT { "spanned" } else { "start_pfn" };
        return error(field, "2^40 pages or more: beyond any machine's memory".to_owned());
    }
    if z.present > z.spanned {
        return error("present", format!("{} pages in a span of {}", z.present, z.spanned));
    }
    if z.managed > z.present {
        return error("managed", format!("{} pages of {} present", z.managed, z.present));
    }
    if let Some(at_boot) = z.managed_at_boot.filter(|&at_boot| at_boot > z.present) {
        return error("managed_at_boot", format!("{at_boot} pages of {} present", z.present));
    }
    if z.free > z.present {
        return error("free", format!("{} pages of {} present", z.free, z.present));
    }
    if z.low < z.min {
        return error("low", format!("{} is below min {}", z.low, z.min));
    }
    if z.high < z.low {
        return error("high", format!("{} is below low {}", z.high, z.low));
    }
    if z.protection.len() > NR_ZONES {
        return error("protection", format!("{} values for {NR_ZONES} zones", z.protection.len()));
    }
    for (p, pageset) in z.pagesets.iter().enumerate() {
        let field = format!("pagesets[{p}].cpu");
        if pageset.cpu >= cpus {
            return error(&field, format!("CPU {} of a machine with {cpus} CPUs", pageset.cpu));
        }
        if z.pagesets[..p].iter().any(|other| other.cpu == pageset.cpu) {
            return error(&field, format!("CPU {} given twice", pageset.cpu));
        }
    }
    Ok(())
}

/// Checks zones against each other: none twice, no overlap, and in index order on each node.
fn zone_pairs(document: &Document<'_>, zones: &[Zone]) -> Checked {
    for (i, z) in zones.iter().enumerate() {
        for (j, other) in zones[..i].iter().enumerate() {
            if z.node == other.node && z.zone == other.zone {
                let problem = format!("{} of node {} is also zones[{j}]", z.zone, z.node);
                return Err(document.error(format!("zones[{i}].zone"), problem));
            }
            if z.spanned == 0 || other.spanned == 0 {
                continue;
            }
            if z.start_pfn < other.end_pfn() && other.start_pfn < z.end_pfn() {
                let problem = format!(
                    "{} of node {} [{}, {}) overlaps {} of node {} [{}, {})",
                    z.zone,
                    z.node,
                    z.start_pfn,
                    z.end_pfn(),
                    other.zone,
                    other.node,
                    other.start_pfn,
                    other.end_pfn()
                );
                return Err(document.error(format!("zones[{i}].start_pfn"), problem));
            }
            if z.node == other.node && (z.zone < other.zone) != (z.start_pfn < other.start_pfn) {
                let problem = format!(
                    "{} and {} of node {} are in the wrong order",
                    z.zone, other.zone, z.node
                );
                return Err(document.error(format!("zones[{i}].start_pfn"), problem));
            }
        }
    }
    Ok(())
}

/// Checks nodes, their CPUs and distances. Zones and CPUs must be on nodes that exist.
fn nodes(document: &Document<'_>, cpus: u32, nodes: &[Node], zones: &[Zone]) -> Checked {
    if nodes.is_empty() {
        return Err(document.error("nodes", "no node"));
    }
    let mut node_of_cpu = vec![None; cpus as usize];
    for (i, node) in nodes.iter().enumerate() {
        if node.id >= NODE_LIMIT {
            return Err(document.error(
                format!("nodes[{i}].id"),
                format!("{} is not below {NODE_LIMIT}", node.id),
            ));
        }
        if nodes[..i].iter().any(|other| other.id == node.id) {
            return Err(
                document.error(format!("nodes[{i}].id"), format!("node {} given twice", node.id))
            );
        }
        for (c, &cpu) in node.cpus.iter().enumerate() {
            let path = format!("nodes[{i}].cpus[{c}]");
            match node_of_cpu.get_mut(cpu as usize) {
                None => {
                    return Err(
                        document.error(path, format!("CPU {cpu} of a machine with {cpus} CPUs"))
                    );
                }
                Some(Some(other)) => {
                    return Err(
                        document.error(path, format!("CPU {cpu} is already on node {other}"))
                    );
                }
                Some(slot) => *slot = Some(node.id),
            }
        }
        distances(document, i, node, nodes.len())?;
    }
    if let Some(cpu) = node_of_cpu.iter().position(Option::is_none) {
        return Err(document.error("nodes", format!("CPU {cpu} is on no node")));
    }
    for (i, z) in zones.iter().enumerate() {
        if !nodes.iter().any(|node| node.id == z.node) {
            return Err(
                document.error(format!("zones[{i}].node"), format!("there is no node {}", z.node))
            );
        }
    }
    Ok(())
}

fn distances(document: &Document<'_>, i: usize, node: &Node, nr_nodes: usize) -> Checked {
    if node.distances.len() != nr_nodes {
        let problem = format!("{} distances for {nr_nodes} nodes", node.distances.len());
        return Err(document.error(format!("nodes[{i}].distances"), problem));
    }
    for (j, &distance) in node.distances.iter().enumerate() {
        let path = format!("nodes[{i}].distances[{j}]");
        if i == j && distance != LOCAL_DISTANCE {
            let problem =
                format!("{distance} from a node to itself, which is always {LOCAL_DISTANCE}");
            return Err(document.error(path, problem));
        }
        if !(LOCAL_DISTANCE..=DISTANCE_MAX).contains(&distance) {
            let problem = format!("{distance} is not between {LOCAL_DISTANCE} and {DISTANCE_MAX}");
            return Err(document.error(path, problem));
        }
    }
    Ok(())
}

/// Checks that free blocks belong to a zone of the file and fit into it.
fn buddyinfo(
    document: &Document<'_>,
    path: &str,
    blocks: &[ZoneBlocks],
    zones: &[Zone],
) -> Checked {
    for (i, row) in blocks.iter().enumerate() {
        let Some(zone) = zones.iter().find(|z| z.node == row.node && z.zone == row.zone) else {
            let problem = format!("{} of node {} is not among the zones", row.zone, row.node);
            return Err(document.error(format!("{path}[{i}].zone"), problem));
        };
        let nr_pages =
            row.free_blocks.iter().enumerate().fold(0, |sum: u64, (order, &nr_blocks)| {
                sum.saturating_add(nr_blocks.saturating_mul(1 << order))
            });
        if nr_pages > zone.present {
            let problem = format!("{nr_pages} free pages of {} present", zone.present);
            return Err(document.error(format!("{path}[{i}].free_blocks"), problem));
        }
    }
    Ok(())
}
