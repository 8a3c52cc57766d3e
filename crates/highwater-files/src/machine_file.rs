//! Machines: those that come with the program, files, and shapes given on the command line.
//!
//! ```toml
//! name = "two-nodes"                  # default: the file's name
//! summary = "one line"
//! distances = [[10, 21], [21, 10]]    # default: 20 between nodes
//! costs = "server-3ghz"               # a table of machines/costs, or a file; optional
//! sched = "cfs"                       # its scheduler: fifo, cfs or eevdf (default: the kernel's)
//!
//! [[node]]
//! memory = "8G"                       # laid out as x86-64 does; "0" = none
//! cpus = "0-7"
//!
//! [[node]]                            # or zone by zone, in pages
//! cpus = "8-15"
//! zones = [{ zone = "Normal", start-pfn = 2097152, spanned = 2097152, present = 2097152, managed = 2060000 }]
//!
//! [tunables]                          # sysctls by their names
//! thp = "madvise"
//!
//! [cache]                             # for the simulated machine, with [cost]
//!
//! [[disk]]                            # and [[swap]]: see `machine_file/disks.rs`
//!
//! [[state]]                           # free memory at the start: see `machine_file/state.rs`
//! ```
//!
//! Key types: [`MachineFile`], [`MachineArg`] (how the command line says which machine).

pub mod costs;
pub mod disks;
pub mod equip;
pub mod schema;
pub mod state;
pub mod state_texts;

use std::fmt::Write as _;
use std::path::Path;

use highwater_core::config::{Machine, MachineError, NodeSpec, TunableForm, Tunables, ZoneSpec};
use highwater_core::page::PAGE_SIZE;
use highwater_core::swap::SwapSpec;
use highwater_core::vm::Pte;
use highwater_core::zone::ZoneType;
use highwater_results::Definition;
use highwater_sim::cost::{CostModel, CostTable, TableError};
use highwater_sim::cpu::SchedPolicy;
use highwater_sim::disk::DiskSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::input::catalogue::texts;
use crate::input::names::unknown;
use crate::input::size::Bytes;
use crate::input::size::{parse_ranges, parse_size};
use crate::input::{Catalogue, InputError, Source, read_flag, read_flags};
use disks::{Disks, RawDisk, RawSwap};
use state::{RawState, StartState};

/// The machines that come with the program.
const CATALOGUE: Catalogue = Catalogue {
    what: "machine",
    kinds: &["machine"],
    option: "--machine",
    folder: "machines",
    texts: texts::MACHINES,
};

/// Most memory that a machine here may reach up to: a terabyte, the hole that a PC leaves below 4 GiB, and as
/// much again as page table entries can name.
pub const BYTES_MAX: u64 = 1150 << 30;
const _: () = assert!(BYTES_MAX / PAGE_SIZE as u64 <= Pte::MAX_PFN as u64 + 1);

/// Says so if a machine is larger than this computer should try to hold.
pub fn check_size(machine: &Machine) -> Result<(), String> {
    let bytes = machine.end_pfn().saturating_mul(PAGE_SIZE as u64);
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    let (gib, most) = (bytes >> 30, BYTES_MAX >> 30);
    Err(format!("memory up to {gib} GiB; machines here end at {most} GiB"))
}

/// Least memory of a machine that runs: an x86-64 kernel lies at a multiple of 2 MiB behind the first, which firmware uses, and is
/// mapped in pages of 2 MiB.
pub(crate) const BYTES_MIN: u64 = 4 << 20;
/// Frames of a small PC that are no memory: frame 0, the hole below 1 MiB.
const PC_HOLE_PAGES: u64 = 98;

/// Says so if no kernel would boot with so little memory.
pub fn check_boots(machine: &Machine) -> Result<(), String> {
    let zones = machine.nodes.iter().flat_map(|node| &node.zones);
    let pages: u64 = zones.map(|zone| zone.present).sum();
    let bytes = (pages + PC_HOLE_PAGES).saturating_mul(PAGE_SIZE as u64);
    if bytes >= BYTES_MIN {
        return Ok(());
    }
    Err(too_small(bytes))
}

/// A PC with nodes of these sizes and CPUs. Of too little memory there is one message, whether the PC's own hole is
/// larger than that or no kernel boots in it.
fn pc(name: &str, nodes: &[(u64, Vec<u16>)]) -> Result<Machine, MachineError> {
    Machine::from_sizes(name, nodes).map_err(|error| {
        let bytes = nodes.iter().map(|(bytes, _)| bytes).sum();
        let reason = if bytes < BYTES_MIN { too_small(bytes) } else { error.reason };
        MachineError { reason, ..error }
    })
}

/// The message about a machine with so little memory.
fn too_small(bytes: u64) -> String {
    let least = BYTES_MIN >> 20;
    let memory = match bytes >> 10 {
        kib if kib % 1024 == 0 => format!("{} MiB", kib >> 10),
        kib => format!("{kib} KiB"),
    };
    format!(
        "{memory} of memory: no kernel boots in less than {least} MiB, which its own image takes"
    )
}

/// Why there is no zone of a name that Linux has.
pub fn no_such_zone(name: &str) -> String {
    match name {
        "HighMem" => "HighMem is not modelled: only a 32-bit kernel has it, whose memory above 896 MiB it is; \
                      `highwater check` compares the sizes of such a machine's zones all the same"
            .to_owned(),
        "Device" => "zone Device is not modelled: its pages are never free".to_owned(),
        _ => format!("\"{name}\" is no zone that is modelled: DMA, DMA32, Normal, Movable are"),
    }
}

/// The cost table of machines that name none.
const GENERIC_COSTS: &str = "server-3ghz";

/// A machine with what belongs to its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFile {
    /// Name shown in reports.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// The machine.
    pub machine: Machine,
    /// Its free memory at the start of a run; none: as boot leaves it.
    pub state: Option<StartState>,
    /// The file as named by the user; none if the machine came from the command line.
    source: Option<String>,
    /// `[cache]` and `[cost]`, the named cost table merged in.
    simulation: toml::Table,
    /// `[[disk]]` and `[[swap]]`.
    disks: Disks,
    /// The scheduler that it names.
    sched: Option<SchedPolicy>,
}

impl MachineFile {
    /// The machine of a name or a file.
    ///
    /// # Errors
    /// If there is none, or it cannot exist.
    pub fn load(name: &str) -> Result<MachineFile, InputError> {
        let found = CATALOGUE.open(name, &[])?;
        Self::parse(&found.file, &found.text)
    }

    /// The machine that a file of something else calls by a name, or by a path from its own
    /// directory.
    ///
    /// # Errors
    /// As [`MachineFile::load`].
    pub fn load_beside(file: &str, name: &str) -> Result<MachineFile, InputError> {
        Self::load(&CATALOGUE.beside(file, name, false))
    }

    /// Every machine that comes with the program.
    ///
    /// # Errors
    /// Never for the program as released: a test parses them all.
    pub fn embedded() -> Result<Vec<MachineFile>, InputError> {
        CATALOGUE.all().map(|found| Self::parse(&found.file, &found.text)).collect()
    }

    /// A machine known from elsewhere, without costs of its own.
    pub fn of(machine: Machine, summary: &str) -> MachineFile {
        MachineFile {
            name: machine.name.clone(),
            summary: summary.to_owned(),
            state: None,
            source: None,
            simulation: default_simulation(machine.nodes.len()),
            disks: Disks::default(),
            sched: None,
            machine,
        }
    }

    /// Reads a file's text; `file` names it in errors and gives the machine its name unless the
    /// text does.
    ///
    /// # Errors
    /// With the line and the field that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<MachineFile, InputError> {
        let place = Source { file, text };
        let raw = Raw::read(text).map_err(|error| place.toml(&error))?;
        let stem = Path::new(file).file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = raw.name.clone().or(stem).unwrap_or_default();
        let machine = raw.machine(place, &name)?;
        let mut simulation = raw.simulation(place)?;
        for (section, default) in default_simulation(machine.nodes.len()) {
            simulation.entry(section).or_insert(default);
        }
        let disks = Disks::read(place, &raw.disks, &raw.swap)?;
        let sched = raw.sched(place)?;
        let source = Some(file.to_owned());
        let summary = raw.summary;
        let state = state::of_raw(&raw.state, &machine)
            .map_err(|(path, reason)| place.at_path(&path, reason))?;
        let machine =
            MachineFile { name, summary, machine, state, source, simulation, disks, sched };
        machine.cost_table().map_err(|error| place.at_path(&error.field, error.problem))?;
        Ok(machine)
    }

    /// The machine as results keep it: a file of this format with every zone and every cost, so
    /// that the run can be repeated from it alone.
    pub fn definition(&self) -> Definition {
        let simulation = toml::to_string(&self.simulation).unwrap_or_default();
        let machine = to_toml(&self.machine, &self.summary, self.sched);
        let state = self.state.as_ref().map_or_else(String::new, StartState::to_toml);
        let definition = format!("{machine}{}\n{simulation}{state}", self.disks.to_toml());
        Definition { name: self.name.clone(), summary: self.summary.clone(), definition }
    }

    /// Its disks, by device number.
    pub fn disks(&self) -> &[DiskSpec] {
        &self.disks.disks
    }

    /// Its swap areas.
    pub fn swap(&self) -> &[SwapSpec] {
        &self.disks.swap
    }

    /// What operations cost on it; those of a generic server if the file says nothing.
    ///
    /// # Errors
    /// If the tables are incomplete or wrong, naming the field.
    pub fn costs(&self) -> Result<CostModel, String> {
        let table = self.cost_table().map_err(|error| {
            let file = self.source.as_deref().unwrap_or(&self.name);
            format!("{file}: {}: {}", error.field, error.problem)
        })?;
        let mut model = CostModel::new(&table);
        model.sched_named = self.sched;
        Ok(model)
    }

    /// The same as the table that they are made from, with the source of each figure.
    ///
    /// # Errors
    /// As [`MachineFile::costs`].
    pub fn cost_table(&self) -> Result<CostTable, TableError> {
        // A table that was read from TOML has a form in it.
        let text = toml::to_string(&self.simulation).unwrap_or_default();
        CostTable::parse(&self.name, &text)
    }
}

/// A machine: nodes with CPUs and memory, sysctls of its kernel, and for virtual time the costs of
/// operations and the disks.
// The file as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Machine")]
pub struct Raw {
    /// Name in reports; default: the file's name.
    name: Option<String>,
    /// One line about it, for lists.
    #[serde(default)]
    summary: String,
    /// Memory nodes, by number. Either all have sizes or all have zones.
    #[serde(rename = "node")]
    #[schemars(with = "Vec<RawNode>")]
    nodes: Spanned<Vec<RawNode>>,
    /// Distance from each node (row) to each node (column); 10 from a node to itself. Default: 20
    /// between nodes.
    #[schemars(with = "Option<Vec<Vec<u16>>>")]
    distances: Option<Spanned<Vec<Vec<u16>>>>,
    /// Sysctls of the machine's kernel, by their names.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::tunables")]
    tunables: Tunables,
    /// Cost table that comes with the program, or a file of costs such as `highwater calibrate`
    /// writes, by its path from this file. Without it and without `[cost]`: the costs of a generic
    /// server.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::cost_tables")]
    costs: Option<Spanned<String>>,
    /// Scheduler of the machine's CPUs; default: the kernel's, `cfs` up to 6.5 and `eevdf` from
    /// 6.6.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::sched")]
    sched: Option<Spanned<String>>,
    /// Caches of the machine, with all keys; default: those of a generic server, with one socket
    /// per node.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::cache")]
    cache: Option<toml::Table>,
    /// Costs of operations in nanoseconds; they override the table that `costs` names. Without
    /// `costs` every key is required.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::cost")]
    cost: Option<toml::Table>,
    /// Disks, by number; at most 256.
    #[serde(default, rename = "disk")]
    #[schemars(schema_with = "crate::machine_file::schema::disks")]
    disks: Vec<RawDisk>,
    /// Swap areas.
    #[serde(default)]
    swap: Vec<RawSwap>,
    /// Free memory at the start of a run, zone by zone; default: as boot leaves it.
    #[serde(default)]
    state: Vec<RawState>,
}

/// A memory node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Node")]
struct RawNode {
    /// Memory of the node, laid out as on a PC: from 0 upwards with a hole between 3 and 4 GiB.
    /// Without it and without zones the node has only CPUs, as with `"0"`.
    #[schemars(with = "Option<Bytes>")]
    memory: Option<Spanned<String>>,
    /// CPUs of the node; default: none.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::cpus")]
    cpus: Option<Spanned<String>>,
    /// Memory of the node zone by zone, instead of `memory`.
    #[serde(default)]
    #[schemars(with = "Vec<RawZone>")]
    zones: Vec<Spanned<RawZone>>,
}

/// A zone, in pages of 4 KiB.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Zone")]
struct RawZone {
    /// Zone type.
    #[schemars(schema_with = "crate::machine_file::schema::zone_type")]
    zone: ZoneType,
    /// First page frame.
    start_pfn: u64,
    /// Page frames from the first to the last, holes included.
    spanned: u64,
    /// Page frames that exist.
    present: u64,
    /// Page frames that the allocator manages.
    managed: u64,
    /// Page frames that the allocator managed when watermarks were computed; default: `managed`.
    managed_at_boot: Option<u64>,
}

impl Raw {
    /// Reads a file's text; a sysctl that is on or off may be 1 or 0.
    fn read(text: &str) -> Result<Raw, toml::de::Error> {
        let mut root = DeTable::parse(text)?;
        if let Some(DeValue::Table(tunables)) =
            root.get_mut().get_mut("tunables").map(Spanned::get_mut)
        {
            read_flags(tunables, &|key| {
                Tunables::FIELDS
                    .iter()
                    .any(|field| field.key == key && field.form == TunableForm::Bool)
            });
        }
        if let Some(all) = root.get_mut().get_mut("disk") {
            read_flag(all, false, &disks::is_flag);
        }
        let span = root.span();
        let root = Spanned::new(span, DeValue::Table(root.into_inner()));
        Raw::deserialize(ValueDeserializer::from(root))
    }

    fn machine(&self, place: Source<'_>, name: &str) -> Result<Machine, InputError> {
        let nodes = self.nodes.get_ref();
        let mut sizes = Vec::new();
        let mut exact = Vec::new();
        for node in nodes {
            let cpus = match &node.cpus {
                None => Vec::new(),
                Some(cpus) => parse_ranges(cpus.get_ref())
                    .map_err(|reason| place.at(cpus.span(), "cpus", reason))?,
            };
            let bytes = match &node.memory {
                None => 0,
                Some(memory) => parse_size(memory.get_ref())
                    .map_err(|reason| place.at(memory.span(), "memory", reason))?,
            };
            if let (Some(memory), false) = (&node.memory, node.zones.is_empty()) {
                let reason = "a node has either a size or zones";
                return Err(place.at(memory.span(), "memory", reason));
            }
            sizes.push((bytes, cpus.clone()));
            let zones = node.zones.iter().map(|z| z.get_ref().spec()).collect();
            exact.push(NodeSpec { cpus, zones });
        }
        let has_sizes = sizes.iter().any(|(bytes, _)| *bytes > 0);
        if has_sizes && exact.iter().any(|n| !n.zones.is_empty()) {
            let reason = "either all nodes have sizes or all have zones";
            return Err(place.at(self.nodes.span(), "node", reason));
        }
        let lay_out = || -> Result<Machine, MachineError> {
            let mut machine = if has_sizes {
                pc(name, &sizes)?
            } else {
                Machine {
                    name: name.to_owned(),
                    distances: uniform(exact.len()),
                    nodes: exact.clone(),
                    tunables: Tunables::default(),
                    ..Machine::default()
                }
            };
            machine.tunables = self.tunables(place);
            if let Some(distances) = &self.distances {
                machine.distances = distances.get_ref().clone();
            }
            machine.validate()?;
            Ok(machine)
        };
        let machine = lay_out().map_err(|error| match error.field.starts_with("tunables.") {
            true => place.at_path(&error.field, error.reason),
            false => place.at(self.span_of(&error.field), error.field.clone(), error.reason),
        })?;
        check_size(&machine).map_err(|reason| place.at(self.nodes.span(), "node", reason))?;
        Ok(machine)
    }

    /// The sysctls. Of two that say the same in bytes and as a share the one written last holds,
    /// and the other is 0.
    fn tunables(&self, place: Source<'_>) -> Tunables {
        // What was read from TOML can be TOML again.
        let Ok(mut table) = toml::Table::try_from(&self.tunables) else {
            return self.tunables.clone();
        };
        let at = |key: &str| place.place_of(&format!("tunables.{key}")).map(|span| span.start);
        for [bytes, ratio] in Tunables::EITHER {
            // One that is 0 is not in force.
            let is_set = |key: &str| table.get(key).and_then(toml::Value::as_integer) > Some(0);
            if is_set(bytes) {
                let ratio_holds = is_set(ratio) && at(ratio) > at(bytes);
                table.insert(if ratio_holds { bytes } else { ratio }.to_owned(), 0.into());
            }
        }
        table.try_into().unwrap_or_else(|_| self.tunables.clone())
    }

    /// Where in the file a field of the machine stands.
    fn span_of(&self, field: &str) -> std::ops::Range<usize> {
        let nodes = self.nodes.get_ref();
        let whole = self.nodes.span();
        let indices: Vec<usize> = field
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        if field.starts_with("distances") {
            return self.distances.as_ref().map_or(whole, Spanned::span);
        }
        let Some(node) = indices.first().and_then(|&i| nodes.get(i)) else { return whole };
        let zone = indices.get(1).and_then(|&k| node.zones.get(k)).map(Spanned::span);
        let cpus = node.cpus.as_ref().map(Spanned::span);
        let memory = node.memory.as_ref().map(Spanned::span);
        match field.contains("].cpus") {
            true => cpus.or(memory).unwrap_or(whole),
            false => zone.or(memory).or(cpus).unwrap_or(whole),
        }
    }

    fn sched(&self, place: Source<'_>) -> Result<Option<SchedPolicy>, InputError> {
        let Some(sched) = &self.sched else { return Ok(None) };
        let name = sched.get_ref();
        SchedPolicy::from_name(name).map(Some).ok_or_else(|| {
            let known = SchedPolicy::ALL.map(SchedPolicy::name);
            place.at(sched.span(), "sched", unknown("scheduler", name, &known))
        })
    }

    fn simulation(&self, place: Source<'_>) -> Result<toml::Table, InputError> {
        let mut tables = toml::Table::new();
        if let Some(costs) = &self.costs {
            tables = costs::sections(place.file, costs.get_ref()).map_err(|error| {
                let reason = match error.file.as_str() {
                    "costs" => error.reason,
                    _ => error.to_string(),
                };
                place.at(costs.span(), "costs", reason)
            })?;
        }
        if let Some(cost) = &self.cost {
            let merged = tables.entry("cost").or_insert_with(|| toml::Table::new().into());
            if let Some(merged) = merged.as_table_mut() {
                merged.extend(cost.clone());
            }
        }
        if let Some(cache) = &self.cache {
            tables.insert("cache".to_owned(), cache.clone().into());
        }
        Ok(tables)
    }
}

impl RawZone {
    fn spec(&self) -> ZoneSpec {
        ZoneSpec {
            zone: self.zone,
            start_pfn: self.start_pfn,
            spanned: self.spanned,
            present: self.present,
            managed: self.managed,
            managed_at_boot: self.managed_at_boot.unwrap_or(self.managed),
        }
    }
}

/// Costs and caches of machines that say nothing about them: the generic server, a socket per node.
fn default_simulation(nr_nodes: usize) -> toml::Table {
    let figure = |unit: &str, value: usize| {
        let source = toml::Value::from("default: a generic server, one socket per node");
        let value = toml::Value::from(value as i64);
        toml::Value::Table(
            [(unit.to_owned(), value), ("source".to_owned(), source)].into_iter().collect(),
        )
    };
    let cache = [
        ("l1", figure("bytes", 32 << 10)),
        ("l2", figure("bytes", 1 << 20)),
        ("llc", figure("bytes", 25 << 20)),
        ("sockets", figure("count", nr_nodes)),
    ];
    // The table that comes with the program parses: a test reads every machine.
    let generic =
        texts::COSTS.iter().find(|(name, _)| *name == GENERIC_COSTS).map_or("", |(_, t)| *t);
    let mut tables: toml::Table = toml::from_str(generic).unwrap_or_default();
    let cache = cache.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    tables.insert("cache".to_owned(), toml::Value::Table(cache));
    tables
}

/// A machine in this module's own format, zone by zone.
fn to_toml(machine: &Machine, summary: &str, sched: Option<SchedPolicy>) -> String {
    let mut text = format!("name = {:?}\nsummary = {summary:?}\n", machine.name);
    let _ = writeln!(text, "distances = {:?}", machine.distances);
    if let Some(sched) = sched {
        let _ = writeln!(text, "sched = \"{}\"", sched.name());
    }
    for node in &machine.nodes {
        let cpus: Vec<_> = node.cpus.iter().map(u16::to_string).collect();
        let _ = writeln!(text, "\n[[node]]\ncpus = \"{}\"\nzones = [", cpus.join(","));
        for z in &node.zones {
            let _ = writeln!(
                text,
                "  {{ zone = \"{}\", start-pfn = {}, spanned = {}, present = {}, managed = {}, \
                 managed-at-boot = {} }},",
                z.zone, z.start_pfn, z.spanned, z.present, z.managed, z.managed_at_boot
            );
        }
        text.push_str("]\n");
    }
    if machine.tunables != Tunables::default()
        && let Ok(tunables) = toml::to_string(&machine.tunables)
    {
        let _ = write!(text, "\n[tunables]\n{tunables}");
    }
    text
}

/// Distances of nodes that are all equally far from each other.
fn uniform(nr_nodes: usize) -> Vec<Vec<u16>> {
    let row = |i| (0..nr_nodes).map(|j| if i == j { 10 } else { 20 }).collect();
    (0..nr_nodes).map(row).collect()
}

/// How the command line says which machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineArg {
    /// `--machine NAME|FILE`.
    pub name: Option<String>,
    /// `--mem 8G`.
    pub mem: Option<String>,
    /// `--cpus 4`.
    pub cpus: Option<u16>,
    /// `--numa 4G,cpus=0-1`, one per node.
    pub numa: Vec<String>,
    /// `--numa-distance 0,1=21`.
    pub numa_distance: Vec<String>,
}

impl MachineArg {
    /// The machine asked for; none if nothing was said.
    ///
    /// # Errors
    /// If what was said contradicts itself or describes no machine.
    pub fn resolve(&self) -> Result<Option<MachineFile>, InputError> {
        if !self.numa.is_empty() {
            return self.of_nodes().map(Some);
        }
        if let Some(distance) = self.numa_distance.first() {
            let reason = format!("\"{distance}\" needs nodes: --numa");
            return Err(InputError::whole("--numa-distance", reason));
        }
        match (&self.name, &self.mem) {
            (Some(name), _) => MachineFile::load(name).map(Some),
            (None, Some(mem)) => self.of_size(mem).map(Some),
            (None, None) if self.cpus.is_some() => {
                Err(InputError::whole("--cpus", "needs the memory size too: --mem"))
            }
            (None, None) => Ok(None),
        }
    }

    fn of_size(&self, mem: &str) -> Result<MachineFile, InputError> {
        let bytes = parse_size(mem).map_err(|reason| InputError::whole("--mem", reason))?;
        let cpus = self.cpus.unwrap_or(1);
        let name = format!("{mem}-{cpus}cpu");
        let machine = pc(&name, &[(bytes, (0..cpus).collect())])
            .map_err(|error| InputError::whole("--mem", error.reason))?;
        check_size(&machine).map_err(|reason| InputError::whole("--mem", reason))?;
        Ok(MachineFile::of(machine, "given by --mem and --cpus"))
    }

    fn of_nodes(&self) -> Result<MachineFile, InputError> {
        let nodes: Vec<_> = self.numa.iter().map(|n| parse_node(n)).collect::<Result<_, _>>()?;
        let name = format!("numa-{}", nodes.len());
        let mut machine = pc(&name, &nodes).map_err(|error| {
            let reason = format!("{}: {}", error.field, error.reason);
            InputError::whole("--numa", reason)
        })?;
        check_size(&machine).map_err(|reason| InputError::whole("--numa", reason))?;
        for text in &self.numa_distance {
            let wrong = |reason: String| InputError::whole("--numa-distance", reason);
            let (from, to, distance) = parse_distance(text).map_err(wrong)?;
            let nr = nodes.len();
            if from.max(to) >= nr {
                return Err(wrong(format!("\"{text}\": there are nodes 0 to {}", nr - 1)));
            }
            machine.distances[from][to] = distance;
            machine.distances[to][from] = distance;
        }
        machine
            .validate()
            .map_err(|error| InputError::whole("--numa-distance", error.to_string()))?;
        Ok(MachineFile::of(machine, "given by --numa"))
    }
}

/// `4G,cpus=0-1` or `4G,cpus=0,cpus=2-3`.
fn parse_node(text: &str) -> Result<(u64, Vec<u16>), InputError> {
    let wrong = |reason: String| InputError::whole("--numa", format!("\"{text}\": {reason}"));
    let (size, rest) = text.split_once(',').unwrap_or((text, ""));
    let bytes = parse_size(size).map_err(wrong)?;
    let mut cpus = Vec::new();
    for part in rest.split(',').filter(|part| !part.is_empty()) {
        let Some(("cpus", range)) = part.split_once('=') else {
            return Err(wrong(format!("\"{part}\" is not cpus=FIRST-LAST")));
        };
        cpus.extend(parse_ranges(range).map_err(wrong)?);
    }
    Ok((bytes, cpus))
}

/// `0,1=21`.
fn parse_distance(text: &str) -> Result<(usize, usize, u16), String> {
    let parts = text.split_once('=').and_then(|(nodes, distance)| {
        let (from, to) = nodes.split_once(',')?;
        let node = |n: &str| n.trim().parse::<usize>().ok();
        Some((node(from)?, node(to)?, distance.trim().parse().ok()?))
    });
    parts.ok_or_else(|| format!("\"{text}\" is not FROM,TO=DISTANCE such as 0,1=21"))
}

#[cfg(test)]
mod tests;
