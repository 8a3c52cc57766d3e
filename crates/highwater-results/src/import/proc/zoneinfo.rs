//! `/proc/zoneinfo`: every zone of every node.

use std::path::Path;

use super::text::{
    at, for_each_line, foreign, new_zone, number, read, set, small_number, zone_line,
};
use crate::import::ImportError;
use crate::import::error::FieldProblem;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zoneinfo {
    /// All zones, populated or not, in the order of the file; at least one.
    pub zones: Vec<ZoneinfoZone>,
}

/// One zone. Sizes are pages; `managed <= present <= spanned`, and `free <= present` if the kernel
/// is too old to print `managed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneinfoZone {
    /// Node number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, ...
    pub zone: String,
    /// The node's statistics; `None` except in the node's first populated zone.
    pub per_node: Option<Vec<(String, u64)>>,
    /// Free pages.
    pub free: u64,
    /// Watermark boost; 0 before 5.0, where there is none.
    pub boost: u64,
    /// Min watermark, with boost.
    pub min: u64,
    /// Low watermark, with boost.
    pub low: u64,
    /// High watermark, with boost.
    pub high: u64,
    /// End minus start.
    pub spanned: u64,
    /// Pages without holes.
    pub present: u64,
    /// Pages handed to the page allocator; the kernel's `present` if it is too old to print
    /// `managed`.
    pub managed: u64,
    /// True if the file prints `managed`. Kernels before 3.9 do not. Their `present` excludes the
    /// pages of page structs, even if these lie in another zone, so more pages can be free than
    /// present. The larger number is then used as `present` here.
    pub has_managed: bool,
    /// Lowmem reserve against requests of each zone index.
    pub protection: Vec<u64>,
    /// Further named numbers of the zone (counters, `cma`), in the order of the file.
    pub stats: Vec<(String, u64)>,
    /// One per online CPU; empty for an unpopulated zone.
    pub pagesets: Vec<ZoneinfoPageset>,
    /// True if kswapd has given up; `None` if the file does not say.
    pub node_unreclaimable: Option<bool>,
    /// First frame; `None` for an unpopulated zone.
    pub start_pfn: Option<u64>,
}

/// The per-CPU list of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneinfoPageset {
    /// CPU number.
    pub cpu: u32,
    /// Pages on the list.
    pub count: u64,
    /// Pages at which it is drained.
    pub high: u64,
    /// Pages moved at a time.
    pub batch: u64,
    /// The value of `high` that follows from the machine's sizes (`high` tunes itself since 6.7);
    /// `None` if the file does not say.
    pub high_min: Option<u64>,
    /// Largest counter delta that a CPU may keep to itself; `None` on a kernel without SMP.
    pub stat_threshold: Option<u64>,
}

impl Zoneinfo {
    /// Reads a file, plain or gzip.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        read(path.as_ref(), Self::parse)
    }

    /// Parses a text; `file` names it in errors.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, ImportError> {
        let mut zones: Vec<ZoneinfoZone> = Vec::new();
        let mut open: Option<ZoneReader> = None;
        let nr_lines = for_each_line(file, text, |_, line| {
            if let Some((node, zone, _)) = zone_line(line)? {
                if let Some(done) = open.replace(ZoneReader::new(node, zone)) {
                    zones.push(done.finish()?);
                }
                let is_known = zones.iter().any(|z| z.node == node && z.zone == zone);
                new_zone(node, zone, zones.len(), is_known)?;
                return Ok(());
            }
            match &mut open {
                Some(reader) => reader.take(line.trim()),
                // The head of the text is missing, or other text comes before it.
                None if line.split_whitespace().next().is_some_and(is_known) => {
                    let problem = "no `Node 0, zone` before this line: the beginning is missing";
                    Err(FieldProblem::new("Node", problem))
                }
                None => Err(foreign(line, "/proc/zoneinfo, which begins with `Node 0, zone`")),
            }
        })?;
        let Some(last) = open else {
            return Err(at(file, nr_lines, FieldProblem::new("Node", "no zone in the file")));
        };
        zones.push(last.finish().map_err(|problem| at(file, nr_lines, problem))?);
        Ok(Self { zones })
    }

    /// A zone by node and name.
    #[must_use]
    pub fn zone(&self, node: u32, zone: &str) -> Option<&ZoneinfoZone> {
        self.zones.iter().find(|z| z.node == node && z.zone == zone)
    }
}

impl ZoneinfoZone {
    /// True if the zone has memory.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        self.present > 0
    }

    /// A named number of the zone.
    #[must_use]
    pub fn stat(&self, name: &str) -> Option<u64> {
        self.stats.iter().find(|(n, _)| n == name).map(|&(_, value)| value)
    }
}

/// A zone while its lines are read.
struct ZoneReader {
    node: u32,
    zone: String,
    section: Section,
    per_node: Option<Vec<(String, u64)>>,
    sizes: [Option<u64>; SIZES.len()],
    protection: Option<Vec<u64>>,
    stats: Vec<(String, u64)>,
    pagesets: Vec<PagesetReader>,
    node_unreclaimable: Option<bool>,
    start_pfn: Option<u64>,
}

/// The list that the next named number belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    PerNode,
    Zone,
    Pagesets,
}

/// Named sizes of a zone; the position is the slot in [`ZoneReader::sizes`].
const SIZES: [&str; 8] = ["free", "boost", "min", "low", "high", "spanned", "present", "managed"];

/// Names of a zone's lines: names of sizes, and names that look like a counter's.
fn is_known(name: &str) -> bool {
    let name = name.trim_end_matches(':');
    let others = ["cpu", "count", "batch", "vm stats threshold"];
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let is_counter = || name.contains('_') && name.bytes().all(is_part);
    SIZES.contains(&name) || others.contains(&name) || is_counter()
}

/// True for a line, without the blanks around it, that belongs to the block of a zone.
pub(super) fn is_line(line: &str) -> bool {
    const LISTS: [&str; 5] = ["per-node stats", "pagesets", "protection:", "pages free", "scanned"];
    let is_name = |line: &str| line.split([' ', '\t', ':']).next().is_some_and(is_known);
    let has_number = |line: &str| {
        named_value(line).is_ok_and(|(_, value)| value.bytes().all(|b| b.is_ascii_digit()))
    };
    LISTS.iter().any(|start| line.starts_with(start))
        || line.bytes().all(|b| b.is_ascii_digit())
        || is_name(line)
        || has_number(line)
}

#[derive(Default)]
struct PagesetReader {
    cpu: u32,
    count: Option<u64>,
    high: Option<u64>,
    batch: Option<u64>,
    high_min: Option<u64>,
    stat_threshold: Option<u64>,
}

impl ZoneReader {
    fn new(node: u32, zone: &str) -> Self {
        Self {
            node,
            zone: zone.to_owned(),
            section: Section::Zone,
            per_node: None,
            sizes: [None; SIZES.len()],
            protection: None,
            stats: Vec::new(),
            pagesets: Vec::new(),
            node_unreclaimable: None,
            start_pfn: None,
        }
    }

    /// One line, without the blanks around it.
    fn take(&mut self, line: &str) -> Result<(), FieldProblem> {
        match line {
            "per-node stats" => {
                self.section = Section::PerNode;
                return set(&mut self.per_node, "per-node stats", Vec::new());
            }
            "pagesets" => {
                self.section = Section::Pagesets;
                return Ok(());
            }
            // RHEL 8 hides a counter by printing its number without a name.
            hidden if hidden.bytes().all(|b| b.is_ascii_digit()) => return Ok(()),
            _ => {}
        }
        if let Some(list) = line.strip_prefix("protection:") {
            return set(&mut self.protection, "protection", protection(list)?);
        }
        let line = match line.strip_prefix("pages free") {
            Some(_) => {
                self.section = Section::Zone;
                &line["pages ".len()..]
            }
            None => line,
        };
        // 2.6 prints the lists that were scanned after the number: `scanned  0 (aa: 0 ia: 0)`.
        let line = match line.strip_prefix("scanned") {
            Some(rest) if rest.contains('(') => line.split('(').next().unwrap_or(line).trim(),
            _ => line,
        };
        let is_number = |value: &str| value.bytes().next().is_some_and(|b| b.is_ascii_digit());
        let (name, value) = match named_value(line) {
            // An error in a value names its field, if the field is known.
            Ok((name, value)) if !is_number(value) && !is_known(name) => {
                return Err(foreign(line, "/proc/zoneinfo"));
            }
            Err(_) if !is_known(line) => return Err(foreign(line, "/proc/zoneinfo")),
            other => other?,
        };
        match name {
            "vm stats threshold" => {
                let threshold = number(name, value)?;
                set(&mut self.pageset(name)?.stat_threshold, name, threshold)
            }
            "cpu" => {
                let cpu = small_number(name, value)?;
                if cpu >= super::CPU_LIMIT {
                    let problem = format!("{cpu} is not below {}", super::CPU_LIMIT);
                    return Err(FieldProblem::new(name, problem));
                }
                if self.pagesets.iter().any(|p| p.cpu == cpu) {
                    return Err(FieldProblem::new(name, format!("{cpu} given twice")));
                }
                self.section = Section::Pagesets;
                self.pagesets.push(PagesetReader { cpu, ..PagesetReader::default() });
                Ok(())
            }
            "start_pfn" => set(&mut self.start_pfn, name, number(name, value)?),
            "node_unreclaimable" | "all_unreclaimable" => match number(name, value)? {
                flag @ (0 | 1) => set(&mut self.node_unreclaimable, name, flag == 1),
                other => Err(FieldProblem::new(name, format!("{other} is neither 0 nor 1"))),
            },
            _ => self.take_in_section(name, value),
        }
    }

    fn take_in_section(&mut self, name: &str, value: &str) -> Result<(), FieldProblem> {
        let value = number(name, value)?;
        match self.section {
            Section::PerNode => {
                self.per_node.get_or_insert_default().push((name.to_owned(), value));
                Ok(())
            }
            Section::Pagesets => match name {
                "count" => set(&mut self.pageset(name)?.count, name, value),
                "high" => set(&mut self.pageset(name)?.high, name, value),
                "batch" => set(&mut self.pageset(name)?.batch, name, value),
                "high_min" => set(&mut self.pageset(name)?.high_min, name, value),
                // Some kernels print more about a list or a zone here (`high_max`,
                // `inactive_ratio`).
                _ => Ok(()),
            },
            Section::Zone => match SIZES.iter().position(|&size| size == name) {
                Some(slot) => set(&mut self.sizes[slot], name, value),
                None => {
                    self.stats.push((name.to_owned(), value));
                    Ok(())
                }
            },
        }
    }

    fn pageset(&mut self, field: &str) -> Result<&mut PagesetReader, FieldProblem> {
        self.pagesets.last_mut().ok_or_else(|| FieldProblem::new(field, "no `cpu:` before it"))
    }

    /// Ends the zone. The end of the zone is the best place for its errors.
    fn finish(self) -> Result<ZoneinfoZone, FieldProblem> {
        let whose = format!("in node {}, zone {}", self.node, self.zone);
        let wrong =
            |field: &str, problem: String| FieldProblem::new(field, format!("{problem} {whose}"));
        let missing = |field: &str| wrong(field, "missing".to_owned());
        let size = |slot: usize| self.sizes[slot].ok_or_else(|| missing(SIZES[slot]));
        let [free, min, low, high] = [size(0)?, size(2)?, size(3)?, size(4)?];
        let [spanned, present] = [size(5)?, size(6)?];
        // Kernels before 3.9 do not print `managed`; their `present` has that meaning.
        let managed = self.sizes[7].unwrap_or(present);
        let has_managed = self.sizes[7].is_some();
        let present = if has_managed { present } else { present.max(free) };
        if present > spanned {
            return Err(wrong("present", format!("{present} pages in a span of {spanned}")));
        }
        if managed > present {
            return Err(wrong("managed", format!("{managed} pages of {present} present")));
        }
        if present > 0 && self.start_pfn.is_none() {
            return Err(missing("start_pfn"));
        }
        let complete = |p: &PagesetReader| {
            let need = |value: Option<u64>, field: &str| {
                value.ok_or_else(|| wrong(field, format!("missing for cpu {}", p.cpu)))
            };
            Ok(ZoneinfoPageset {
                cpu: p.cpu,
                count: need(p.count, "count")?,
                high: need(p.high, "high")?,
                batch: need(p.batch, "batch")?,
                high_min: p.high_min,
                stat_threshold: p.stat_threshold,
            })
        };
        Ok(ZoneinfoZone {
            pagesets: self.pagesets.iter().map(complete).collect::<Result<_, _>>()?,
            protection: self.protection.clone().ok_or_else(|| missing("protection"))?,
            node: self.node,
            zone: self.zone.clone(),
            per_node: self.per_node.clone(),
            free,
            boost: self.sizes[1].unwrap_or(0),
            min,
            low,
            high,
            spanned,
            present,
            managed,
            has_managed,
            stats: self.stats.clone(),
            node_unreclaimable: self.node_unreclaimable,
            start_pfn: self.start_pfn,
        })
    }
}

/// `name: value` or `name value`.
fn named_value(line: &str) -> Result<(&str, &str), FieldProblem> {
    let (name, value) = match line.split_once(':') {
        Some((name, value)) => (name.trim(), value.trim()),
        None => line
            .split_once(char::is_whitespace)
            .map_or((line, ""), |(name, value)| (name, value.trim())),
    };
    if value.is_empty() {
        return Err(FieldProblem::new(name, "no value"));
    }
    Ok((name, value))
}

/// `(0, 931, 931, 931, 931)`
fn protection(list: &str) -> Result<Vec<u64>, FieldProblem> {
    let inner = list.trim().strip_prefix('(').and_then(|l| l.strip_suffix(')'));
    let inner =
        inner.ok_or_else(|| FieldProblem::new("protection", "not a list in parentheses"))?;
    inner.split(',').map(|value| number("protection", value.trim())).collect()
}
