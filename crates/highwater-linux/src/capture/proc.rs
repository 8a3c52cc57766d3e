//! The kernel's report of the whole machine: memory, CPUs, caches, disks, settings.
//!
//! The parsers of [`highwater_results::import::proc`] read zones, free blocks and counters;
//! single-line values are parsed here. Offline CPUs and missing nodes leave gaps in Linux's
//! numbers. The model's machines have no gaps, so both are renumbered in order.

use std::collections::BTreeMap;

use highwater_results::import::linux61::{Node, ZoneName};
use highwater_results::import::proc::{
    Buddyinfo, KernelZones, PageTypeInfo, Zoneinfo, ZoneinfoZone, passed_over,
};

use super::kernel::ZoneLines;
use super::{Source, before_managed, settings};
use highwater_files::input::InputError;
use highwater_files::input::size::parse_ranges;
use highwater_files::machine_file::{BYTES_MAX, no_such_zone};

/// The modelled page size in bytes.
const PAGE_SIZE: u64 = 4096;
/// Bytes of a sector, the unit of disk sizes in sysfs.
const SECTOR: u64 = 512;
/// Block devices that are not disks of the machine: loop files, RAM, parts of other devices, and
/// removable media.
const NO_DISKS: [&str; 9] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtd"];
/// Zones may lack this share of memory without a note, because the counters are read one after the
/// other.
const MISSING_PART: u64 = 64;
/// Most disks in a machine file; the largest win.
const DISKS_MAX: usize = 4;

/// A machine and its kernel.
#[derive(Clone, Debug)]
pub struct System {
    /// `Linux 6.18.44`: the version without the build information.
    pub kernel: String,
    /// Page size in bytes, derived from the number of pages.
    pub page_bytes: u64,
    /// Zones with memory; nodes and CPUs are numbered without gaps.
    pub zones: Vec<ZoneinfoZone>,
    /// Zones that the kernel may have; `None` if its lists fit no kernel.
    pub kernel_zones: Option<KernelZones>,
    /// `lowmem_reserve_ratio`, one number for each of these; empty if not recorded.
    pub reserve_ratio: Vec<u64>,
    /// Free blocks, if readable.
    pub buddyinfo: Option<Buddyinfo>,
    /// Types of pageblocks, if readable.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// KiB by the names of `/proc/meminfo`.
    pub meminfo: BTreeMap<String, u64>,
    /// KiB by the names of each node's `meminfo`.
    pub node_meminfo: Vec<BTreeMap<String, u64>>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Online CPUs.
    pub nr_cpus: u32,
    /// Model name in `/proc/cpuinfo`; empty if it has none.
    pub cpu_model: String,
    /// Caches of a CPU; `None` if unknown.
    pub caches: Option<Caches>,
    /// Sockets.
    pub nr_sockets: u64,
    /// Disks, the largest first.
    pub disks: Vec<Disk>,
    /// Swap areas, in the order of `/proc/swaps`.
    pub swaps: Vec<SwapArea>,
    /// The kernel's settings, by Linux's names.
    pub settings: BTreeMap<String, String>,
    /// `/proc/pressure/memory`, if the kernel has PSI.
    pub memory_pressure: Option<String>,
    /// MGLRU is switched on; `None` if there is no `/sys/kernel/mm` to look at.
    pub has_mglru: Option<bool>,
}

/// Bytes of a CPU's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Data, first level.
    pub l1: u64,
    /// Second level.
    pub l2: u64,
    /// Last level.
    pub llc: u64,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// As the kernel calls it.
    pub name: String,
    /// How large it is.
    pub bytes: u64,
    /// The rotational flag that the disk reports.
    pub is_rotational: bool,
    /// I/O scheduler: the word in brackets.
    pub scheduler: Option<String>,
    /// Requests of its queue.
    pub nr_requests: Option<u64>,
    /// Its largest readahead window.
    pub read_ahead_kb: Option<u64>,
    /// Largest number of pieces of memory in a request.
    pub max_segments: Option<u64>,
}

/// A swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// Its size without the header page.
    pub kib: u64,
    /// KiB in use.
    pub used_kib: u64,
    /// Swap areas with a higher priority are filled first.
    pub priority: i64,
    /// It is a compressed RAM disk.
    pub is_in_memory: bool,
}

/// Linux's numbers, in order; the position is the model's number.
struct Numbering(Vec<u32>);

impl Numbering {
    fn new(mut numbers: Vec<u32>) -> Numbering {
        numbers.sort_unstable();
        numbers.dedup();
        Numbering(numbers)
    }

    fn of(&self, number: u32) -> Option<u32> {
        self.0.iter().position(|known| *known == number).map(|at| at as u32)
    }

    fn has_gaps(&self) -> bool {
        self.0.iter().enumerate().any(|(at, number)| at as u32 != *number)
    }
}

impl System {
    /// Reads all files of a source.
    ///
    /// # Errors
    /// If there are no zones, or a file cannot be parsed.
    pub fn read(source: &Source, notes: &mut Vec<String>) -> Result<System, InputError> {
        const ZONEINFO: &str = "proc/zoneinfo";
        let zoneinfo = source.needed(ZONEINFO)?;
        let name = source.name(ZONEINFO);
        notes.extend(passed_over(&zoneinfo).iter().map(|what| format!("{name}: {what}")));
        let zoneinfo = Zoneinfo::parse(&name, zoneinfo.as_bytes())?;
        let version = source.text("proc/version").unwrap_or_default();
        let meminfo = source.text_or_note("proc/meminfo", "memory is what the zones have", notes);
        let meminfo = match meminfo {
            Some(text) => sizes(&source.name("proc/meminfo"), &text)?,
            None => BTreeMap::new(),
        };
        let mut optional = |path: &str, lost: &str| source.text_or_note(path, lost, notes);
        let buddyinfo = optional("proc/buddyinfo", "free blocks are not known");
        let types = optional("proc/pagetypeinfo", "types of pageblocks are not known");
        let swaps = optional("proc/swaps", "swap areas are not known");
        let buddyinfo = buddyinfo.and_then(|text| {
            let parsed = Buddyinfo::parse(&source.name("proc/buddyinfo"), text.as_bytes());
            parsed.map_err(|error| notes.push(error.to_string())).ok()
        });
        let pagetypeinfo = types.and_then(|text| {
            let parsed = PageTypeInfo::parse(&source.name("proc/pagetypeinfo"), text.as_bytes());
            parsed.map_err(|error| notes.push(error.to_string())).ok()
        });
        let swaps = match swaps {
            Some(text) => swap_areas(&source.name("proc/swaps"), &text)?,
            None => Vec::new(),
        };

        let cpus = cpus(source, &zoneinfo, notes)?;
        // Device pages are never free, and a zone with no managed pages is left out.
        let has_memory = |zone: &&ZoneinfoZone| zone.is_populated() && zone.managed > 0;
        let idle = zoneinfo.zones.iter().filter(|zone| zone.is_populated() && zone.managed == 0);
        notes.extend(idle.map(|zone| {
            format!("node {} {}: it manages no page and is left out", zone.node, zone.zone)
        }));
        let with_memory = zoneinfo.zones.iter().filter(has_memory);
        let listed = source.numbered(NODES, "node");
        let numbers = Numbering::new(match listed.is_empty() {
            // Nodes without memory are listed too, because they have CPUs.
            true => zoneinfo.zones.iter().map(|zone| zone.node).collect(),
            false => listed,
        });
        if cpus.has_gaps() || numbers.has_gaps() {
            notes.push(
                "some CPUs or nodes are off: the others are numbered without gaps".to_owned(),
            );
        }
        let mut zones = Vec::new();
        for zone in with_memory {
            let mut zone = zone.clone();
            let field = format!("node {}", zone.node);
            zone.node = numbers.of(zone.node).ok_or_else(|| InputError {
                field: Some(field),
                ..InputError::whole(source.name(ZONEINFO), "the kernel lists no such node")
            })?;
            zone.pagesets.retain_mut(|set| match cpus.of(set.cpu) {
                Some(cpu) => {
                    set.cpu = cpu;
                    true
                }
                None => false,
            });
            zones.push(zone);
        }
        let buddyinfo = buddyinfo.map(|info| renumbered(info, &numbers));
        if let Some(info) = &buddyinfo {
            before_managed::free_is_present(&mut zones, info);
        }
        notes.extend(before_managed::note(&zones));
        let kernel_zones = KernelZones::of(&zoneinfo);
        let page_bytes = page_bytes(&zones, &meminfo);
        let system = System {
            kernel: kernel(&version),
            page_bytes,
            nodes: nodes(source, &numbers, &cpus, notes)?,
            node_meminfo: numbers.0.iter().map(|id| node_sizes(source, *id)).collect(),
            nr_cpus: cpus.0.len() as u32,
            cpu_model: cpu_model(source),
            caches: caches(source),
            nr_sockets: nr_sockets(source, &cpus),
            disks: disks(source),
            settings: settings::read(source, kernel_zones.as_ref(), notes),
            reserve_ratio: ratios(source),
            kernel_zones,
            memory_pressure: source.word("proc/pressure/memory"),
            has_mglru: has_mglru(source),
            zones,
            buddyinfo,
            pagetypeinfo,
            meminfo,
            swaps,
        };
        system.check_pages(&source.name(ZONEINFO), notes)?;
        Ok(system)
    }

    /// Pages of the machine as Linux reports them, or else the sum of its zones.
    pub fn phys_pages(&self) -> u64 {
        match self.meminfo.get("MemTotal") {
            Some(kib) => kib / (self.page_bytes / 1024),
            None => self.pages(|zone| zone.managed),
        }
    }

    /// Why the model cannot represent this machine; `None` if it can.
    pub fn not_modelled(&self) -> Option<String> {
        if self.page_bytes != PAGE_SIZE {
            let kib = self.page_bytes / 1024;
            return Some(format!(
                "pages of this kernel are larger than 4 KiB ({kib} KiB), and only such of 4 KiB are modelled"
            ));
        }
        let unknown = self.zones.iter().find(|zone| Self::zone_name(zone).is_err());
        if let Some(zone) = unknown {
            return Some(format!("node {}: {}", zone.node, no_such_zone(&zone.zone)));
        }
        let end = self
            .zones
            .iter()
            .map(|zone| zone.start_pfn.unwrap_or(0).saturating_add(zone.spanned))
            .max();
        let bytes = end.unwrap_or(0).saturating_mul(PAGE_SIZE);
        (bytes > BYTES_MAX).then(|| {
            format!(
                "memory up to {} GiB; machines here end at {} GiB",
                bytes >> 30,
                BYTES_MAX >> 30
            )
        })
    }

    /// Lines of zones that say how old the kernel is.
    pub(super) fn zone_lines(&self) -> ZoneLines {
        let has_promo = |zone: &ZoneinfoZone| zone.stat("promo").is_some();
        if self.zones.iter().flat_map(|zone| &zone.pagesets).any(|set| set.high_min.is_some()) {
            ZoneLines::HighMin
        } else if self.zones.iter().any(has_promo) {
            ZoneLines::Promo
        } else {
            ZoneLines::Old
        }
    }

    /// Bytes of memory that the zones manage.
    pub fn bytes(&self) -> u64 {
        self.pages(|zone| zone.managed).saturating_mul(self.page_bytes)
    }

    fn pages(&self, of: fn(&ZoneinfoZone) -> u64) -> u64 {
        self.zones.iter().fold(0, |sum, zone| sum.saturating_add(of(zone)))
    }

    /// The model's name for a zone.
    ///
    /// # Errors
    /// If the model does not have this zone.
    pub fn zone_name(zone: &ZoneinfoZone) -> Result<ZoneName, InputError> {
        let all =
            [ZoneName::Dma, ZoneName::Dma32, ZoneName::Normal, ZoneName::Movable, ZoneName::Device];
        all.into_iter().find(|name| name.as_str() == zone.zone).ok_or_else(|| InputError {
            field: Some(format!("node {}, zone {}", zone.node, zone.zone)),
            ..InputError::whole("proc/zoneinfo", no_such_zone(&zone.zone))
        })
    }

    /// Refuses a kernel with another page size than the modelled one, and notes memory that is in
    /// no zone.
    fn check_pages(&self, file: &str, notes: &mut Vec<String>) -> Result<(), InputError> {
        let (present, managed) = (self.pages(|zone| zone.present), self.pages(|zone| zone.managed));
        let said = self.phys_pages();
        if managed == 0 || said == 0 {
            return Err(InputError::whole(file, "no zone has memory"));
        }
        // `managed` cannot be compared, because zones can manage less than they have.
        if present < said {
            let kib = said.saturating_mul(self.page_bytes / 1024);
            let reason = format!(
                "the zones have {present} pages and /proc/meminfo {kib} KiB: pages of this kernel would be larger than \
                 64 KiB; are both texts of one machine?"
            );
            return Err(InputError::whole(file, reason));
        }
        if managed < said - said / MISSING_PART {
            notes.push(format!(
                "the zones manage {} MiB of the {} MiB of /proc/meminfo (the kernel gives them the rest when it is \
                 needed, or a balloon has it): the machine has what its zones have now",
                self.bytes() >> 20,
                (said * self.page_bytes) >> 20
            ));
        }
        Ok(())
    }
}

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// Page size in bytes: the smallest with which the zones cover the memory that the kernel reports.
fn page_bytes(zones: &[ZoneinfoZone], meminfo: &BTreeMap<String, u64>) -> u64 {
    let present = zones.iter().fold(0u64, |sum, zone| sum.saturating_add(zone.present));
    let said = meminfo.get("MemTotal").copied().unwrap_or(0);
    let holds = |bytes: &u64| said / (bytes / 1024) <= present;
    [PAGE_SIZE, 4 * PAGE_SIZE, 16 * PAGE_SIZE].into_iter().find(holds).unwrap_or(PAGE_SIZE)
}

/// `lowmem_reserve_ratio` of the kernel: one number for each zone that it may have.
fn ratios(source: &Source) -> Vec<u64> {
    let text = source.word("proc/sys/vm/lowmem_reserve_ratio").unwrap_or_default();
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// Takes `Linux 6.18.44` from `Linux version 6.18.44-x (user@host) ...`. The build user is private.
fn kernel(version: &str) -> String {
    let release = version.split_whitespace().nth(2).unwrap_or_default();
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    match release[..end].trim_end_matches('.') {
        "" => "Linux".to_owned(),
        release => format!("Linux {release}"),
    }
}

/// The number in a line `Name: 12 kB`, from the text after the colon; `None` if the line has
/// another form.
pub(super) fn kilobytes(
    (file, line): (&str, usize),
    name: &str,
    rest: &str,
) -> Result<Option<u64>, InputError> {
    let mut words = rest.split_whitespace();
    let (Some(value), Some("kB")) = (words.next(), words.next()) else { return Ok(None) };
    let wrong = |_| InputError {
        file: file.to_owned(),
        line: Some(line),
        field: Some(name.to_owned()),
        reason: format!("\"{value}\" is no number of kB"),
    };
    value.parse().map(Some).map_err(wrong)
}

/// `Name: 12 kB` lines, also with `Node 0` before the name. Lines with the same name are summed.
pub(super) fn sizes(file: &str, text: &str) -> Result<BTreeMap<String, u64>, InputError> {
    let mut sizes = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let name = name.split_whitespace().last().unwrap_or_default();
        let Some(value) = kilobytes((file, at + 1), name, rest)? else { continue };
        let sum: &mut u64 = sizes.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(value);
    }
    Ok(sizes)
}

fn node_sizes(source: &Source, node: u32) -> BTreeMap<String, u64> {
    let path = format!("{NODES}/node{node}/meminfo");
    let text = source.text(&path).unwrap_or_default();
    sizes(&path, &text).unwrap_or_default()
}

/// Online CPUs; without sysfs, the CPUs that have per-CPU lists.
fn cpus(
    source: &Source,
    zoneinfo: &Zoneinfo,
    notes: &mut Vec<String>,
) -> Result<Numbering, InputError> {
    let path = format!("{CPUS}/online");
    let listed = match source.word(&path) {
        Some(text) => ranges(source, &path, &text)?,
        None => {
            let sets = zoneinfo.zones.iter().flat_map(|zone| &zone.pagesets);
            sets.map(|set| set.cpu).collect()
        }
    };
    if listed.is_empty() {
        let file = source.name("proc/zoneinfo");
        notes.push(format!("{file}: it has no CPU's lists: one CPU is taken"));
        return Ok(Numbering::new(vec![0]));
    }
    Ok(Numbering::new(listed))
}

fn ranges(source: &Source, path: &str, text: &str) -> Result<Vec<u32>, InputError> {
    let numbers = parse_ranges(text).map_err(|why| InputError::whole(source.name(path), why))?;
    Ok(numbers.into_iter().map(u32::from).collect())
}

/// The nodes with their CPUs and distances. Without sysfs they share the CPUs equally, in order.
fn nodes(
    source: &Source,
    numbers: &Numbering,
    cpus: &Numbering,
    notes: &mut Vec<String>,
) -> Result<Vec<Node>, InputError> {
    let nr_nodes = numbers.0.len();
    let mut nodes = Vec::new();
    let share = |id: usize| -> Vec<u32> {
        let of = |(at, _): &(usize, &u32)| at * nr_nodes / cpus.0.len() == id;
        cpus.0.iter().enumerate().filter(of).map(|(_, cpu)| *cpu).collect()
    };
    let is_told = |number: &u32| source.exists(&format!("{NODES}/node{number}/cpulist"));
    let is_any_told = numbers.0.iter().any(is_told);
    if nr_nodes > 1 && !is_any_told {
        notes.push(format!(
            "{NODES} is missing: which CPUs are on which of the {nr_nodes} nodes is not known, each has an equal share"
        ));
    }
    for (id, number) in (0..).zip(&numbers.0) {
        let path = |file: &str| format!("{NODES}/node{number}/{file}");
        let listed = match source.word(&path("cpulist")) {
            Some(text) => ranges(source, &path("cpulist"), &text)?,
            None if !is_any_told => share(id as usize),
            None => Vec::new(),
        };
        let distance = |to: usize| if to == id as usize { 10 } else { 20 };
        let mut distances: Vec<u32> = (0..nr_nodes).map(distance).collect();
        if let Some(text) = source.word(&path("distance")) {
            let words: Option<Vec<u32>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
            distances = words.filter(|words| words.len() == nr_nodes).ok_or_else(|| {
                let reason = format!("\"{text}\" are no distances of {nr_nodes} nodes");
                InputError::whole(source.name(&path("distance")), reason)
            })?;
        }
        let cpus = listed.into_iter().filter_map(|cpu| cpus.of(cpu)).collect();
        nodes.push(Node { id, cpus, distances });
    }
    Ok(nodes)
}

fn renumbered(mut info: Buddyinfo, numbers: &Numbering) -> Buddyinfo {
    info.zones.retain_mut(|zone| match numbers.of(zone.node) {
        Some(node) => {
            zone.node = node;
            true
        }
        None => false,
    });
    info
}

fn cpu_model(source: &Source) -> String {
    let text = source.text("proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map(|model| model.trim_start_matches([' ', '\t', ':']).to_owned()).unwrap_or_default()
}

/// Caches of CPU 0; `None` unless first and second level are both known.
fn caches(source: &Source) -> Option<Caches> {
    let mut levels: BTreeMap<u64, u64> = BTreeMap::new();
    for index in source.numbered(&format!("{CPUS}/cpu0/cache"), "index") {
        let file = |name: &str| format!("{CPUS}/cpu0/cache/index{index}/{name}");
        if source.word(&file("type")).is_some_and(|kind| kind == "Instruction") {
            continue;
        }
        let size = source.word(&file("size"));
        let bytes = size.and_then(|size| highwater_files::input::size::parse_size(&size).ok());
        if let (Some(level), Some(bytes)) = (source.number(&file("level")), bytes) {
            levels.insert(level, bytes);
        }
    }
    let last = *levels.last_key_value()?.1;
    Some(Caches { l1: *levels.get(&1)?, l2: *levels.get(&2)?, llc: last })
}

/// Sockets of the online CPUs; one if unknown.
fn nr_sockets(source: &Source, cpus: &Numbering) -> u64 {
    let package =
        |cpu: &u32| source.number(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"));
    let mut packages: Vec<u64> = cpus.0.iter().filter_map(package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.len().max(1) as u64
}

fn disks(source: &Source) -> Vec<Disk> {
    let mut disks = Vec::new();
    for name in source.names("sys/block") {
        if NO_DISKS.iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        let file = |file: &str| format!("sys/block/{name}/{file}");
        let bytes = source.number(&file("size")).unwrap_or(0).saturating_mul(SECTOR);
        if bytes < PAGE_SIZE {
            continue;
        }
        let scheduler = source.word(&file("queue/scheduler")).and_then(|text| {
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            chosen.map(|(word, _)| word.to_owned())
        });
        let is_rotational = source.number(&file("queue/rotational")) == Some(1);
        let nr_requests = source.number(&file("queue/nr_requests"));
        let read_ahead_kb = source.number(&file("queue/read_ahead_kb"));
        let max_segments = source.number(&file("queue/max_segments"));
        let name = name.clone();
        disks.push(Disk {
            bytes,
            is_rotational,
            scheduler,
            nr_requests,
            read_ahead_kb,
            max_segments,
            name,
        });
    }
    disks.sort_by_key(|disk| std::cmp::Reverse(disk.bytes));
    disks.truncate(DISKS_MAX);
    disks
}

/// `/proc/swaps`: a line of headings, then file, type, size, used, priority.
fn swap_areas(file: &str, text: &str) -> Result<Vec<SwapArea>, InputError> {
    let mut areas = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        // A path may contain blanks; the fields after it do not.
        let mut words: Vec<&str> = line.split_whitespace().rev().take(4).collect();
        words.reverse();
        let &[_kind, size, used, priority] = words.as_slice() else { continue };
        let wrong = |field: &str, text: &str| InputError {
            file: file.to_owned(),
            line: Some(at + 1),
            field: Some(field.to_owned()),
            reason: format!("\"{text}\" is no number"),
        };
        areas.push(SwapArea {
            kib: size.parse().map_err(|_| wrong("Size", size))?,
            used_kib: used.parse().map_err(|_| wrong("Used", used))?,
            priority: priority.parse().map_err(|_| wrong("Priority", priority))?,
            is_in_memory: line.starts_with("/dev/zram"),
        });
    }
    Ok(areas)
}

/// True if bit 0 of `lru_gen/enabled` is set. A kernel without the file has no MGLRU.
fn has_mglru(source: &Source) -> Option<bool> {
    const MM: &str = "sys/kernel/mm";
    let Some(text) = source.word(&format!("{MM}/lru_gen/enabled")) else {
        return source.exists(MM).then_some(false);
    };
    Some(lru_gen_bits(&text)? & 1 != 0)
}

/// The bits of `lru_gen/enabled`, which a reader gets as `0x0007`; `y` stands for the first one.
pub(crate) fn lru_gen_bits(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => Some(u32::from(matches!(text, "y" | "Y" | "1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_its_version_and_nothing_else() {
        assert_eq!(kernel("Linux version 6.18.44-fc-v669 (me@here) (gcc) #1"), "Linux 6.18.44");
        assert_eq!(kernel("Linux version 6.1.0 (x)"), "Linux 6.1.0");
        assert_eq!(kernel("BSD"), "Linux");
    }

    #[test]
    fn the_first_bit_says_whether_mglru_is_on() {
        let dir = tempfile::tempdir().unwrap();
        let is_on = || has_mglru(&Source::recorded(dir.path()));
        assert_eq!(is_on(), None, "a tree without settings");
        let mm = dir.path().join("sys/kernel/mm/lru_gen");
        std::fs::create_dir_all(&mm).unwrap();
        assert_eq!(is_on(), Some(false), "a kernel without it");
        for (text, on) in
            [("0x0007\n", true), ("0x0001\n", true), ("0x0006\n", false), ("n", false)]
        {
            std::fs::write(mm.join("enabled"), text).unwrap();
            assert_eq!(is_on(), Some(on), "{text}");
        }
    }

    #[test]
    fn sizes_are_sums_and_name_what_is_wrong() {
        let text = "Rss: 12 kB\nPss: 7 kB\nHugePages_Total: 3\nRss: 8 kB\n0-1 rw [rollup]\n";
        let found = sizes("f", text).unwrap();
        assert_eq!((found["Rss"], found["Pss"], found.len()), (20, 7, 2));
        let node = sizes("f", "Node 0 MemTotal:       24684084 kB\n").unwrap();
        assert_eq!(node["MemTotal"], 24_684_084);
        let error = sizes("f", "A: 1 kB\nRss: x kB\n").unwrap_err().to_string();
        assert_eq!(error, "f:2: Rss: \"x\" is no number of kB");
    }

    #[test]
    fn swap_areas_are_told_from_the_end_of_their_lines() {
        let text = "Filename Type Size Used Priority\n/dev/zram0 partition 1048572 12 100\n\
                    /a file with blanks file 2097148 0 -2\n";
        let areas = swap_areas("f", text).unwrap();
        let area = |kib, used_kib, priority, is_in_memory| SwapArea {
            kib,
            used_kib,
            priority,
            is_in_memory,
        };
        assert_eq!(areas, [area(1_048_572, 12, 100, true), area(2_097_148, 0, -2, false)]);
        let error = swap_areas("f", "h\n/x partition many 0 -2\n").unwrap_err().to_string();
        assert_eq!(error, "f:2: Size: \"many\" is no number");
        assert!(swap_areas("f", "Filename Type Size Used Priority\n").unwrap().is_empty());
    }

    #[test]
    fn numbers_have_no_gaps() {
        let numbering = Numbering::new(vec![5, 0, 2, 2]);
        assert_eq!([0, 2, 5, 1].map(|n| numbering.of(n)), [Some(0), Some(1), Some(2), None]);
        assert!(numbering.has_gaps() && !Numbering::new(vec![1, 0]).has_gaps());
    }
}
