//! The texts of a machine at rest, joined zone by zone.
//!
//! `zoneinfo` has sizes and watermarks, `buddyinfo` free blocks by order, `pagetypeinfo` free
//! blocks by type and order. `meminfo`, if it lies beside them, gives the size of a page and of a
//! huge page. Each is optional; what none of them has is `None`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use highwater_files::machine_file::state_texts::{BUDDYINFO, PAGETYPEINFO, ZONEINFO};
use highwater_results::import::log::Log;
use highwater_results::import::proc::{Buddyinfo, KernelZones, PageTypeInfo, Parts, Zoneinfo};
use highwater_results::import::{ImportError, KernelText, whole_text};

use super::folder::{Found, texts_of};

/// Most pages that are counted in the blocks of an order. Sums of absurd counts must not overflow.
const PAGES_MAX: u64 = 1 << 44;
/// Most types of a zone: kernels have six. Rows of further types are no text of a kernel.
const TYPES_MAX: usize = 16;
/// Longest name of a zone that is shown.
const NAME_CHARS_MAX: usize = 32;

/// The texts that were found.
#[derive(Debug, Default)]
pub(super) struct Texts {
    zoneinfo: Option<Zoneinfo>,
    buddyinfo: Option<Buddyinfo>,
    types: Option<PageTypeInfo>,
    meminfo: Option<Meminfo>,
    /// Texts of a state, by their names in `/proc`.
    pub(super) raw: Vec<(&'static str, String)>,
    /// Names of the texts that were read.
    pub(super) names: Vec<&'static str>,
    /// Remarks about texts that could not be read.
    pub(super) notes: Vec<String>,
    /// Two texts that do not agree.
    pub(super) contradiction: Option<Contradiction>,
}

/// Two texts of different moments: free pages by each, in zones that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Their names; the answer is by the second.
    pub texts: [&'static str; 2],
    /// Free pages by each.
    pub free: [u64; 2],
}

/// Free pages of a zone by each text.
#[derive(Clone, Copy, Debug)]
struct Counted {
    stated: Option<u64>,
    blocks: Option<u64>,
    by_type: Option<u64>,
}

/// Sizes of `/proc/meminfo`, in kB.
#[derive(Clone, Copy, Debug, Default)]
struct Meminfo {
    total: Option<u64>,
    huge_page: Option<u64>,
    /// Pages on the file LRU lists.
    file: Option<u64>,
}

/// A zone of the machine. Sizes are pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zone {
    /// Node number.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, ...
    pub name: String,
    /// Free pages.
    pub free: Option<u64>,
    /// Pages handed to the page allocator.
    pub managed: Option<u64>,
    /// Min, low and high watermark, with boost.
    pub marks: Option<[u64; 3]>,
    /// Largest lowmem reserve: that against requests which may use every zone.
    pub reserve: Option<u64>,
    /// Lowmem reserve against requests up to Normal, as those of `GFP_KERNEL`; `None` if the text
    /// does not say which number that is.
    pub reserve_normal: Option<u64>,
    /// Free pages of CMA, by zoneinfo.
    pub free_cma: Option<u64>,
    /// Pages on the file LRU lists, which reclaim can free.
    pub page_cache: Option<u64>,
    /// Free blocks of each order, of all types.
    pub blocks: Option<Vec<u64>>,
    /// Free blocks of each order by type; empty if the text does not have them.
    pub types: Vec<TypeBlocks>,
    /// Pageblocks by type; empty if the text does not have them.
    pub pageblocks: Vec<(String, u64)>,
    /// Linux stopped counting a list at 100,000, so the blocks are at least as many.
    pub is_capped: bool,
}

/// Free blocks of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeBlocks {
    /// `Unmovable`, `Movable`, `Reclaimable`, `HighAtomic`, `CMA`, `Isolate`.
    pub name: String,
    /// Free blocks of each order.
    pub blocks: Vec<u64>,
    /// Linux stopped counting one of the lists.
    pub is_capped: bool,
}

/// Sizes that hold for the whole machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a page.
    pub page: u64,
    /// The order of a huge page, or of a pageblock where the machine has no huge pages.
    pub huge_order: u32,
    /// True if a block of that order is a huge page.
    pub is_huge_page: bool,
    /// How these sizes were found, if no text states them.
    pub note: Option<String>,
}

impl Texts {
    /// Reads files and folders.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Texts, ImportError> {
        let mut texts = Texts::default();
        for path in paths {
            if path.is_dir() {
                texts.take_folder(path)?;
            } else {
                texts.take(&path.display().to_string(), &whole_text(path)?)?;
            }
        }
        Ok(texts)
    }

    /// Takes the texts of a folder, or of `proc` in it.
    fn take_folder(&mut self, folder: &Path) -> Result<(), ImportError> {
        let before = self.names.len();
        let mut refused = None;
        let shown = || folder.display().to_string();
        let paths = match texts_of(folder) {
            Found::Texts(paths) => paths,
            Found::Several(folders) => {
                let folders: Vec<String> =
                    folders.iter().map(|path| path.display().to_string()).collect();
                let problem =
                    format!("several machines are in it: give one, as {}", folders.join(" or "));
                return Err(format_error(&shown(), problem));
            }
        };
        for path in paths {
            let name = path.display().to_string();
            // pagetypeinfo is readable only by root; the others answer without it.
            match whole_text(&path) {
                Ok(text) => self.take(&name, &text)?,
                Err(error) => {
                    self.notes.push(error.to_string());
                    refused.get_or_insert(error);
                }
            }
        }
        if self.names.len() > before {
            return Ok(());
        }
        Err(refused.unwrap_or_else(|| {
            let problem =
                "no buddyinfo, zoneinfo or pagetypeinfo in this folder, in proc or root/proc";
            format_error(&shown(), problem.to_owned())
        }))
    }

    /// Takes a text, or several in one; the content says which they are.
    pub(super) fn take(&mut self, name: &str, text: &[u8]) -> Result<(), ImportError> {
        let kind = KernelText::of_bytes(text);
        let found = match kind {
            Some(
                KernelText::Log
                | KernelText::Trace
                | KernelText::VmstatProgram
                | KernelText::Pressure,
            ) => Parts::default(),
            _ => Parts::of(text),
        };
        if found.parts.is_empty() {
            return Err(format_error(name, refusal(kind, text)));
        }
        for part in found.parts {
            self.take_part(name, part.kind, part.text.as_bytes())?;
        }
        for run in &found.foreign {
            let lines = match run.last_line - run.first_line {
                0 => format!("line {}", run.first_line),
                _ => format!("lines {} to {}", run.first_line, run.last_line),
            };
            self.notes
                .push(format!("{name}: {lines} left out, no text that is read here: {}", run.text));
        }
        if found.nr_foreign > found.foreign.len() {
            let nr = found.nr_foreign - found.foreign.len();
            self.notes.push(format!("{name}: {nr} more runs of such lines left out"));
        }
        Ok(())
    }

    fn take_part(&mut self, name: &str, kind: KernelText, text: &[u8]) -> Result<(), ImportError> {
        let (is_second, file) = match kind {
            KernelText::Zoneinfo => {
                (self.zoneinfo.replace(Zoneinfo::parse(name, text)?).is_some(), Some(ZONEINFO))
            }
            KernelText::Buddyinfo => {
                (self.buddyinfo.replace(Buddyinfo::parse(name, text)?).is_some(), Some(BUDDYINFO))
            }
            KernelText::PageTypeInfo => {
                (self.types.replace(PageTypeInfo::parse(name, text)?).is_some(), Some(PAGETYPEINFO))
            }
            _ => {
                let own = Meminfo::of(&String::from_utf8_lossy(text));
                (self.meminfo.replace(own).is_some(), None)
            }
        };
        if is_second {
            let problem = format!("a second {}: give one machine at a time", kind.name());
            return Err(format_error(name, problem));
        }
        self.names.push(kind.name());
        if let Some(file) = file {
            // Lines of other texts before it are empty.
            let text = String::from_utf8_lossy(text);
            self.raw.push((file, text.trim_start_matches('\n').to_owned()));
        }
        Ok(())
    }

    /// All zones with memory, in the order of the first text that names them.
    pub(super) fn zones(&mut self) -> Result<Vec<Zone>, ImportError> {
        let mut zones = Zones::default();
        let kernel = self.zoneinfo.as_ref().and_then(KernelZones::of);
        for zone in self.zoneinfo.iter().flat_map(|info| &info.zones) {
            if zone.is_populated() {
                let own = zones.of(zone.node, &zone.zone);
                own.free = Some(zone.free);
                own.managed = zone.has_managed.then_some(zone.managed);
                own.marks = Some([zone.min, zone.low, zone.high]);
                own.reserve = zone.protection.iter().copied().max();
                own.reserve_normal =
                    kernel.as_ref().and_then(|kernel| kernel.value(&zone.protection, "Normal"));
                own.page_cache = file_pages(&zone.stats);
                own.free_cma = zone.stat("nr_free_cma");
            }
        }
        for zone in self.buddyinfo.iter().flat_map(|info| &info.zones) {
            let own = zones.of(zone.node, &zone.zone);
            own.blocks = Some(bounded(zone.nr_free.iter().copied()));
        }
        for row in self.types.iter().flat_map(|info| &info.free) {
            let blocks = bounded(row.nr_free.iter().map(|count| count.nr_blocks));
            let own = zones.of(row.node, &row.zone);
            if own.types.len() < TYPES_MAX {
                let is_capped = row.nr_free.iter().any(|count| count.is_capped);
                own.is_capped |= is_capped;
                let name = shown_name(&row.migratetype);
                own.types.push(TypeBlocks { name, blocks, is_capped });
            }
        }
        for row in self.types.iter().flat_map(|info| &info.pageblocks) {
            let blocks = row.nr_blocks.iter().take(TYPES_MAX);
            zones.of(row.node, &row.zone).pageblocks =
                blocks.map(|(name, nr)| (shown_name(name), *nr)).collect();
        }
        let mut zones = zones.all;
        if zones.is_empty() {
            let name = self.names.first().copied().unwrap_or("the texts");
            return Err(format_error(name, "no zone with memory in it".to_owned()));
        }
        let counted: Vec<Counted> = zones.iter_mut().map(|zone| self.complete(zone)).collect();
        let lists = if self.buddyinfo.is_some() { BUDDYINFO } else { PAGETYPEINFO };
        let by_zoneinfo = counted.iter().map(|zone| (zone.stated, zone.blocks));
        let by_type = counted.iter().map(|zone| (zone.by_type, zone.blocks));
        self.contradiction = contradiction([ZONEINFO, lists], by_zoneinfo)
            .or_else(|| contradiction([PAGETYPEINFO, BUDDYINFO], by_type));
        if self.contradiction.is_some() {
            for (zone, counted) in zones.iter_mut().zip(&counted) {
                zone.free = counted.blocks.or(zone.free);
            }
        }
        Ok(zones)
    }

    /// Fills in what follows from other texts, and remarks where two texts do not agree.
    fn complete(&mut self, zone: &mut Zone) -> Counted {
        let types = &zone.types;
        let is_capped = types.iter().any(|row| row.is_capped);
        let by_type = types.iter().map(|row| pages(&row.blocks)).fold(0, u64::saturating_add);
        let by_type = (!types.is_empty() && !is_capped && zone.blocks.is_some()).then_some(by_type);
        if zone.blocks.is_none() && !types.is_empty() {
            let nr_orders = types.iter().map(|row| row.blocks.len()).max().unwrap_or(0);
            let sum = |order: usize| types.iter().filter_map(|row| row.blocks.get(order)).sum();
            zone.blocks = Some(bounded((0..nr_orders).map(sum)));
        } else {
            // Only the lists by type are capped.
            zone.is_capped &= zone.blocks.is_none();
        }
        let blocks = zone.blocks.as_deref().map(pages);
        // A list that was not counted to its end may have the rest.
        let stated = zone.free.filter(|free| !zone.is_capped || blocks.is_none_or(|nr| nr > *free));
        zone.free = zone.free.or(blocks);
        for (text, pages) in [(ZONEINFO, stated), (PAGETYPEINFO, by_type)] {
            if let (Some(pages), Some(blocks)) = (pages, blocks)
                && is_other(pages, blocks)
            {
                self.notes.push(format!(
                    "node {} {}: {text} has {pages} free pages, the free blocks that are used here {blocks}",
                    zone.node, zone.name
                ));
            }
        }
        Counted { stated, blocks, by_type }
    }

    /// Pages of page cache by node; by meminfo those of the whole machine are under `None`.
    pub(super) fn page_cache(&self, page: u64) -> Vec<(Option<u32>, u64)> {
        let mut nodes: Vec<(Option<u32>, u64)> = Vec::new();
        for zone in self.zoneinfo.iter().flat_map(|info| &info.zones) {
            // Kernels before 4.8 count in each zone, later ones in the node.
            let stats = zone.per_node.as_deref().unwrap_or(&zone.stats);
            let Some(pages) = both(stats, ["nr_inactive_file", "nr_active_file"]) else { continue };
            match nodes.iter_mut().find(|(node, _)| *node == Some(zone.node)) {
                Some((_, sum)) => *sum = sum.saturating_add(pages),
                None => nodes.push((Some(zone.node), pages)),
            }
        }
        let by_meminfo = self.meminfo.and_then(|info| info.file);
        if let (true, Some(kb)) = (nodes.is_empty(), by_meminfo) {
            nodes.push((None, kb.saturating_mul(1024) / page.max(1)));
        }
        nodes
    }

    /// The sizes of a page and of a huge page.
    pub(super) fn sizes(&self, zones: &[Zone]) -> Sizes {
        let nr_orders = zones.iter().filter_map(|zone| Some(zone.blocks.as_ref()?.len())).max();
        let pageblock = self.types.as_ref().map(|types| types.pageblock_order.min(31) as u32);
        let stated = self.page_by_meminfo(zones);
        let page = stated.unwrap_or(match (pageblock, nr_orders) {
            (Some(13), _) | (None, Some(14)) => 64 << 10,
            (Some(11), Some(12)) | (None, Some(12)) => 16 << 10,
            _ => 4 << 10,
        });
        let usual = match page >> 10 {
            64 => 13,
            16 => 11,
            _ => 9,
        };
        let huge_kb = self.meminfo.and_then(|info| info.huge_page).filter(|_| stated.is_some());
        let by_meminfo = huge_kb.map(|kb| (kb.saturating_mul(1024) / page).max(1).ilog2());
        let order = by_meminfo.or(pageblock).unwrap_or(usual);
        let largest = nr_orders.map_or(31, |nr| nr as u32 - 1);
        let huge_order = order.min(largest);
        let is_huge_page = huge_order == by_meminfo.unwrap_or(usual);
        let kib = page >> 10;
        let by_orders = match (pageblock, nr_orders) {
            (Some(order), _) => format!("by the pageblock order of {order}"),
            (None, Some(nr)) => format!("by the {nr} orders"),
            (None, None) => "the usual size".to_owned(),
        };
        let hint = match self.meminfo {
            Some(_) => "/proc/meminfo does not fit these zones",
            None => "/proc/meminfo beside the other texts would say it",
        };
        let note = stated.is_none().then(|| {
            format!("no text states the size of a page; {kib} kB is assumed, {by_orders} ({hint})")
        });
        Sizes { page, huge_order, is_huge_page, note }
    }

    /// Bytes of a page: the machine's memory by its managed pages.
    fn page_by_meminfo(&self, zones: &[Zone]) -> Option<u64> {
        let bytes = self.meminfo?.total?.checked_mul(1024)?;
        let managed: Option<u64> = zones
            .iter()
            .map(|zone| zone.managed)
            .try_fold(0u64, |sum, pages| sum.checked_add(pages?));
        let pages = managed.filter(|pages| *pages > 0)?;
        [4u64 << 10, 16 << 10, 64 << 10].into_iter().find(|page| {
            let by_pages = pages.saturating_mul(*page);
            by_pages.abs_diff(bytes) < bytes / 8
        })
    }
}

impl Meminfo {
    fn of(text: &str) -> Meminfo {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().filter(|kb| *kb > 0)
        };
        let file = value("Active(file):").zip(value("Inactive(file):"));
        Meminfo {
            total: value("MemTotal:"),
            huge_page: value("Hugepagesize:"),
            file: file.map(|(active, inactive)| active.saturating_add(inactive)),
        }
    }
}

/// Zones by node and name.
#[derive(Default)]
struct Zones {
    all: Vec<Zone>,
    places: HashMap<(u32, String), usize>,
}

impl Zones {
    fn of(&mut self, node: u32, name: &str) -> &mut Zone {
        let place = *self.places.entry((node, name.to_owned())).or_insert_with(|| {
            self.all.push(Zone { node, name: shown_name(name), ..Zone::default() });
            self.all.len() - 1
        });
        &mut self.all[place]
    }
}

/// Counts that cannot overflow a sum of pages.
fn bounded(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    counts.enumerate().map(|(order, nr)| nr.min(PAGES_MAX >> order.min(44))).collect()
}

/// Pages in blocks of each order.
pub(super) fn pages(blocks: &[u64]) -> u64 {
    blocks.iter().enumerate().map(|(order, nr)| nr << order).sum()
}

/// Two counts of free pages that no per-CPU lists and no moment between two `cat` explain.
fn is_other(one: u64, other: u64) -> bool {
    one.abs_diff(other) > one.min(other) / 10 + 1024
}

/// The contradiction of two texts, if a zone has one: the sums of zones that both texts have.
fn contradiction(
    texts: [&'static str; 2],
    zones: impl Iterator<Item = (Option<u64>, Option<u64>)>,
) -> Option<Contradiction> {
    let both = zones.filter_map(|(one, other)| one.zip(other));
    let (mut free, mut has_any) = ([0u64; 2], false);
    for (one, other) in both {
        free = [free[0].saturating_add(one), free[1].saturating_add(other)];
        has_any |= is_other(one, other);
    }
    has_any.then_some(Contradiction { texts, free })
}

/// A name without control characters, which a terminal must not get.
fn shown_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Pages on the file LRU lists of a zone.
fn file_pages(stats: &[(String, u64)]) -> Option<u64> {
    both(stats, ["nr_zone_inactive_file", "nr_zone_active_file"])
        .or_else(|| both(stats, ["nr_inactive_file", "nr_active_file"]))
}

/// The sum of two named counters.
fn both(stats: &[(String, u64)], names: [&str; 2]) -> Option<u64> {
    let value = |name: &str| stats.iter().find(|(own, _)| own == name).map(|(_, nr)| *nr);
    Some(value(names[0])?.saturating_add(value(names[1])?).min(PAGES_MAX))
}

/// Why a text is none of `/proc` that is read here.
fn refusal(kind: Option<KernelText>, text: &[u8]) -> String {
    const EXPECTED: &str = "expected: /proc/buddyinfo, /proc/zoneinfo, /proc/pagetypeinfo";
    let is_other = |kind: KernelText| {
        use KernelText::{Log, Pressure, Trace, VmstatProgram};
        matches!(kind, Log | Trace | VmstatProgram | Pressure)
    };
    match kind {
        Some(kind) if is_other(kind) => {
            format!("this is {}: give it alone; only texts of /proc are read together", kind.name())
        }
        Some(kind) => format!("this is {}; {EXPECTED}", kind.name()),
        None if text.iter().all(u8::is_ascii_whitespace) => {
            format!("the text is empty; {EXPECTED}")
        }
        None if !Log::read(text).reports.is_empty() => {
            "this is a kernel log: give it alone; only texts of /proc are read together".to_owned()
        }
        None => format!("not a text of /proc that is known here; {EXPECTED}"),
    }
}

fn format_error(file: &str, problem: String) -> ImportError {
    ImportError::Format { file: file.to_owned(), problem }
}
