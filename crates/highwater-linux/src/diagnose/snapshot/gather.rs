//! The texts of a machine at rest, joined zone by zone.
//!
//! `zoneinfo` has sizes and watermarks, `buddyinfo` free blocks by order, `pagetypeinfo` free
//! blocks by type and order. `meminfo`, if it lies beside them, gives the size of a page and of a
//! huge page. Each is optional; what none of them has is `None`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use highwater_files::machine_file::state_texts::{BUDDYINFO, PAGETYPEINFO, ZONEINFO};
use highwater_results::import::proc::{Buddyinfo, PageTypeInfo, Zoneinfo};
use highwater_results::import::{ImportError, KernelText, whole_text};

/// Bytes at the beginning of a text by which it is recognised.
const HEAD_BYTES: usize = 64 * 1024;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 4096;
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
}

/// Sizes of `/proc/meminfo`, in kB.
#[derive(Clone, Copy, Debug, Default)]
struct Meminfo {
    total: Option<u64>,
    huge_page: Option<u64>,
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
        for path in files_of(folder) {
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
        Err(refused.unwrap_or_else(|| ImportError::Format {
            file: folder.display().to_string(),
            problem: "no buddyinfo, zoneinfo or pagetypeinfo in this folder".to_owned(),
        }))
    }

    /// Takes a text; its content says which it is.
    pub(super) fn take(&mut self, name: &str, text: &[u8]) -> Result<(), ImportError> {
        let head = String::from_utf8_lossy(&text[..text.len().min(HEAD_BYTES)]);
        let kind = KernelText::of(&head);
        let is_second = match kind {
            Some(KernelText::Zoneinfo) => {
                self.zoneinfo.replace(Zoneinfo::parse(name, text)?).is_some()
            }
            Some(KernelText::Buddyinfo) => {
                self.buddyinfo.replace(Buddyinfo::parse(name, text)?).is_some()
            }
            Some(KernelText::PageTypeInfo) => {
                self.types.replace(PageTypeInfo::parse(name, text)?).is_some()
            }
            Some(KernelText::Meminfo) => self.meminfo.replace(Meminfo::of(&head)).is_some(),
            other => {
                let what = match other {
                    Some(kind) => format!("this is {}", kind.name()),
                    None if head.trim().is_empty() => "there is nothing in it".to_owned(),
                    None => "not a text of /proc that is known here".to_owned(),
                };
                let problem = format!(
                    "{what}; expected: /proc/buddyinfo, /proc/zoneinfo, /proc/pagetypeinfo"
                );
                return Err(format_error(name, problem));
            }
        };
        let file = match kind {
            Some(KernelText::Zoneinfo) => Some(ZONEINFO),
            Some(KernelText::Buddyinfo) => Some(BUDDYINFO),
            Some(KernelText::PageTypeInfo) => Some(PAGETYPEINFO),
            _ => None,
        };
        let kind = kind.map_or("", KernelText::name);
        if is_second {
            return Err(format_error(name, format!("a second {kind}: give one machine at a time")));
        }
        self.names.push(kind);
        if let Some(name) = file {
            self.raw.push((name, String::from_utf8_lossy(text).into_owned()));
        }
        Ok(())
    }

    /// All zones with memory, in the order of the first text that names them.
    pub(super) fn zones(&mut self) -> Result<Vec<Zone>, ImportError> {
        let mut zones = Zones::default();
        for zone in self.zoneinfo.iter().flat_map(|info| &info.zones) {
            if zone.is_populated() {
                let own = zones.of(zone.node, &zone.zone);
                own.free = Some(zone.free);
                own.managed = zone.has_managed.then_some(zone.managed);
                own.marks = Some([zone.min, zone.low, zone.high]);
                own.reserve = zone.protection.iter().copied().max();
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
                own.is_capped |= row.nr_free.iter().any(|count| count.is_capped);
                own.types.push(TypeBlocks { name: row.migratetype.clone(), blocks });
            }
        }
        for row in self.types.iter().flat_map(|info| &info.pageblocks) {
            zones.of(row.node, &row.zone).pageblocks = row.nr_blocks.clone();
        }
        let mut zones = zones.all;
        if zones.is_empty() {
            let name = self.names.first().copied().unwrap_or("the texts");
            return Err(format_error(name, "no zone with memory in it".to_owned()));
        }
        for zone in &mut zones {
            self.complete(zone);
        }
        Ok(zones)
    }

    /// Fills in what follows from other texts, and remarks where two texts do not agree.
    fn complete(&mut self, zone: &mut Zone) {
        if zone.blocks.is_none() && !zone.types.is_empty() {
            let nr_orders = zone.types.iter().map(|row| row.blocks.len()).max().unwrap_or(0);
            let sum =
                |order: usize| zone.types.iter().filter_map(|row| row.blocks.get(order)).sum();
            zone.blocks = Some(bounded((0..nr_orders).map(sum)));
        } else {
            // Only the lists by type are capped.
            zone.is_capped &= zone.blocks.is_none();
        }
        let on_lists = zone.blocks.as_deref().map(pages);
        let free = *zone.free.get_or_insert(on_lists.unwrap_or(0));
        if on_lists.is_none() && zone.marks.is_none() {
            zone.free = None;
        }
        if let Some(on_lists) = on_lists
            && self.names.len() > 1
            && on_lists.abs_diff(free) > free / 10 + 1024
        {
            self.notes.push(format!(
                "node {} {}: zoneinfo has {free} free pages, the free blocks have {on_lists}: the texts are \
                 of different moments, and the blocks are used",
                zone.node, zone.name
            ));
            zone.free = Some(on_lists);
        }
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
        let by_meminfo = huge_kb.map(|kb| (kb * 1024 / page).max(1).ilog2());
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
        Meminfo { total: value("MemTotal:"), huge_page: value("Hugepagesize:") }
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
            // A terminal must not get control characters.
            let shown = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
            self.all.push(Zone { node, name: shown, ..Zone::default() });
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

/// Files of a folder with one of the texts: those of `/proc` by name, else those whose name ends
/// like it.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    const NAMES: [&str; 4] = ["zoneinfo", "buddyinfo", "pagetypeinfo", "meminfo"];
    for folder in [folder.to_owned(), folder.join("proc")] {
        let named = NAMES.map(|name| folder.join(name));
        if named[..3].iter().any(|path| path.is_file()) {
            return named.into_iter().filter(|path| path.is_file()).collect();
        }
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path());
    let ends = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        path.is_file() && NAMES.iter().any(|end| name.ends_with(end))
    };
    let mut found: Vec<PathBuf> = entries.filter(ends).collect();
    found.sort();
    found
}

fn format_error(file: &str, problem: String) -> ImportError {
    ImportError::Format { file: file.to_owned(), problem }
}
