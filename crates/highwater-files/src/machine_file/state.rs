//! The state in which a machine starts: its free lists by type and order, zone by zone.
//!
//! A freshly booted machine has all its large blocks. A machine that has run for a while has not, and
//! fragmentation is the cause of many refusals. [`StartState::load`] reads a directory with Linux's
//! own texts ([`StateTexts`]); `highwater diagnose --state-out` writes one. A machine file has the
//! same as `[[state]]`, so results hold it in full:
//!
//! ```toml
//! [[state]]
//! node = 0
//! zone = "Normal"
//! free = { Movable = [5198, 1798, 238, 3, 0, 0, 0, 0, 0, 0, 0], Unmovable = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0] }
//! pageblocks = { Movable = 511, Unmovable = 1 }
//! on-lists = [40]                     # pages on the per-CPU lists of CPU 0, 1, ...
//! ```
//!
//! All other memory is in use, as single pages that are never freed, moved or reclaimed.
//! `highwater_runs::start` brings a booted machine into the state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use highwater_core::config::{Machine, ZoneSpec};
use highwater_core::page::{MAX_ORDER, MigrateType};
use highwater_core::zone::ZoneType;
use schemars::JsonSchema;
use serde::Deserialize;

use super::no_such_zone;
use super::state_texts::{StateTexts, zone_type};
use crate::input::InputError;
use crate::input::names::unknown;

/// Option of the command that names a directory of texts.
pub const OPTION: &str = "--state";

/// Free memory of a machine at the start of a run.
#[derive(Clone, Debug, Default)]
pub struct StartState {
    /// The directory as the user named it; empty for a state in a machine file.
    pub name: String,
    /// Zones, by node and type.
    pub zones: Vec<ZoneStart>,
}

/// Two states are equal if their contents are; their names do not matter.
impl PartialEq for StartState {
    fn eq(&self, other: &StartState) -> bool {
        self.zones == other.zones
    }
}

/// Free memory of a zone at the start of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneStart {
    /// Node.
    pub node: u16,
    /// Type of the zone.
    pub zone: ZoneType,
    /// Free blocks by type and order.
    pub free: [[u64; MAX_ORDER]; MigrateType::COUNT],
    /// Pageblocks by type; pageblocks that no type counts are movable.
    pub pageblocks: [u64; MigrateType::COUNT],
    /// Pages on per-CPU lists, by CPU.
    pub on_lists: Vec<u64>,
}

/// A state that does not fit a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Number of the zone in [`StartState::zones`]; none if the state lacks one of the machine's.
    pub zone: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl ZoneStart {
    /// A zone without free memory.
    pub fn new(node: u16, zone: ZoneType) -> ZoneStart {
        ZoneStart {
            node,
            zone,
            free: [[0; MAX_ORDER]; MigrateType::COUNT],
            pageblocks: [0; MigrateType::COUNT],
            on_lists: Vec::new(),
        }
    }

    /// Pages in its free blocks.
    pub fn free_pages(&self) -> u64 {
        let of_type = |blocks: &[u64; MAX_ORDER]| {
            let pages = (0..).zip(blocks).map(|(order, nr)| nr.saturating_mul(1 << order));
            pages.fold(0, u64::saturating_add)
        };
        self.free.iter().map(of_type).fold(0, u64::saturating_add)
    }

    /// Free pages, and pages on per-CPU lists.
    fn pages(&self) -> u64 {
        self.on_lists.iter().copied().fold(self.free_pages(), u64::saturating_add)
    }

    /// Its name in messages: `node 0 Normal`.
    pub fn name(&self) -> String {
        format!("node {} {}", self.node, self.zone)
    }
}

impl StartState {
    /// The state in a directory of texts, for a machine with its name. Also the texts, and remarks about
    /// what was added, left out or guessed.
    ///
    /// # Errors
    /// If a text cannot be read, or the state does not fit the machine: names file and line.
    pub fn load(
        dir: &str,
        name: &str,
        machine: &Machine,
    ) -> Result<(StateTexts, StartState, Vec<String>), InputError> {
        let texts = StateTexts::of_dir(Path::new(dir))?;
        let mut remarks = texts.disagreements();
        remarks.extend(texts.not_modelled("the kernel of the state"));
        if texts.pagetypeinfo.is_none() {
            remarks.push("no pagetypeinfo: all free blocks are taken for movable ones".to_owned());
        }
        let mut state = StartState { name: dir.to_owned(), zones: Vec::new() };
        let mut nr_cma = 0;
        for (node, zone) in texts.zones() {
            let at = |reason: String| texts.error_at(node, &zone, reason);
            let Some(kind) = zone_type(&zone) else {
                if texts.pages_of(node, &zone) == 0 {
                    continue;
                }
                return Err(at(no_such_zone(&zone)));
            };
            let Some(counted) = texts.zone_start(node, kind) else { continue };
            nr_cma += counted.nr_cma;
            state.zones.push(counted.start);
            remarks.extend(fit_lists(state.zones.last_mut(), machine));
            remarks.extend(compare_size(&texts, node, kind, machine).map_err(&at)?);
        }
        if nr_cma > 0 {
            remarks.push(format!(
                "{nr_cma} free pages are CMA, which is not modelled: they stay free"
            ));
        }
        state.zones.sort_by_key(|zone| (zone.node, zone.zone));
        if let Err(misfit) = state.check(machine, name) {
            return Err(texts.misfit(&state, &misfit));
        }
        let named = |remark| format!("{OPTION} {dir}: {remark}");
        Ok((texts, state, remarks.into_iter().map(named).collect()))
    }

    /// Checks that the state has exactly the machine's zones, each large enough.
    ///
    /// # Errors
    /// The first zone that does not fit.
    pub fn check(&self, machine: &Machine, name: &str) -> Result<(), Misfit> {
        let misfit = |zone, reason| Err(Misfit { zone, reason });
        for (at, zone) in self.zones.iter().enumerate() {
            let name_of_zone = zone.name();
            if self.zones[..at].iter().any(|z| (z.node, z.zone) == (zone.node, zone.zone)) {
                return misfit(Some(at), format!("{name_of_zone} comes twice"));
            }
            let Some(spec) = spec_of(machine, zone.node, zone.zone) else {
                if zone.pages() == 0 {
                    continue;
                }
                let (nodes, known) = (machine.nodes.len(), zones_of(machine));
                let reason = format!(
                    "{name_of_zone} is no zone of machine {name}, which has {nodes} {}: {known}",
                    if nodes == 1 { "node" } else { "nodes" }
                );
                return misfit(Some(at), reason);
            };
            let (pages, managed) = (zone.pages(), spec.managed);
            if pages > managed {
                let reason = format!(
                    "{name_of_zone} has {pages} free pages, but machine {name} has {managed} pages there"
                );
                return misfit(Some(at), reason);
            }
        }
        for (node, spec) in populated(machine) {
            if self.zones.iter().all(|zone| (zone.node, zone.zone) != (node, spec.zone)) {
                let zone = spec.zone;
                return misfit(None, format!("no node {node} {zone}, which machine {name} has"));
            }
        }
        Ok(())
    }

    /// The state of a zone.
    pub fn zone(&self, node: u16, zone: ZoneType) -> Option<&ZoneStart> {
        self.zones.iter().find(|z| (z.node, z.zone) == (node, zone))
    }

    /// Free pages of all zones.
    pub fn free_pages(&self) -> u64 {
        self.zones.iter().map(ZoneStart::free_pages).sum()
    }

    /// The content as `[[state]]` of a machine file: everything but the name.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for zone in &self.zones {
            let list = |numbers: &[u64]| {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                format!("[{}]", numbers.join(", "))
            };
            let by_type = |value: &dyn Fn(MigrateType) -> Option<String>| {
                let pairs = MigrateType::ALL.into_iter().filter_map(|t| Some((t, value(t)?)));
                let pairs: Vec<_> = pairs.map(|(t, v)| format!("{} = {v}", t.name())).collect();
                pairs.join(", ")
            };
            let blocks = |t: MigrateType| {
                let blocks = &zone.free[t.idx()];
                blocks.iter().any(|nr| *nr > 0).then(|| list(blocks))
            };
            let pageblocks = |t: MigrateType| {
                Some(zone.pageblocks[t.idx()]).filter(|nr| *nr > 0).map(|nr| nr.to_string())
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "\n[[state]]\nnode = {}\nzone = \"{}\"", zone.node, zone.zone);
            let _ = writeln!(text, "free = {{ {} }}", by_type(&blocks));
            let _ = writeln!(text, "pageblocks = {{ {} }}", by_type(&pageblocks));
            if zone.on_lists.iter().any(|nr| *nr > 0) {
                let _ = writeln!(text, "on-lists = {}", list(&zone.on_lists));
            }
        }
        text
    }
}

/// Zones with memory, by node.
fn populated(machine: &Machine) -> impl Iterator<Item = (u16, &ZoneSpec)> {
    let nodes = (0..).zip(&machine.nodes);
    nodes
        .flat_map(|(node, spec)| spec.zones.iter().map(move |zone| (node, zone)))
        .filter(|(_, z)| z.managed > 0)
}

fn spec_of(machine: &Machine, node: u16, zone: ZoneType) -> Option<&ZoneSpec> {
    populated(machine).find(|(n, spec)| (*n, spec.zone) == (node, zone)).map(|(_, spec)| spec)
}

/// The zones of a machine in a message: `node 0 DMA, node 0 DMA32`.
fn zones_of(machine: &Machine) -> String {
    let names = populated(machine).map(|(node, spec)| format!("node {node} {}", spec.zone));
    names.collect::<Vec<_>>().join(", ")
}

/// Drops pages on lists of CPUs that the machine does not have; says so.
fn fit_lists(zone: Option<&mut ZoneStart>, machine: &Machine) -> Option<String> {
    let zone = zone?;
    let nr_cpus = machine.nr_cpus();
    let dropped: u64 = zone.on_lists.iter().skip(nr_cpus).sum();
    zone.on_lists.truncate(nr_cpus);
    (dropped > 0).then(|| {
        format!(
            "{}: {dropped} pages on lists of CPUs from {nr_cpus} on, which the machine does not have, are in use",
            zone.name()
        )
    })
}

/// Compares a zone with its size in the captured zoneinfo: a remark if the machine's is larger.
///
/// # Errors
/// If it is smaller.
fn compare_size(
    texts: &StateTexts,
    node: u32,
    zone: ZoneType,
    machine: &Machine,
) -> Result<Option<String>, String> {
    let captured = texts.zoneinfo.as_ref().and_then(|info| info.zone(node, zone.name()));
    let spec = u16::try_from(node).ok().and_then(|node| spec_of(machine, node, zone));
    let (Some(captured), Some(spec)) = (captured, spec) else { return Ok(None) };
    let (was, is) = (captured.managed, spec.managed);
    if is < was {
        return Err(format!(
            "node {node} {zone} had {was} pages when the state was taken, and the machine has {is}; \
             diagnose --machine-out or capture write the machine of a state"
        ));
    }
    let more = is - was;
    Ok((more > 0).then(|| {
        format!("node {node} {zone} has {more} more pages than when the state was taken: they are in use")
    }))
}

/// Free memory of a zone at the start of a run; all other memory of the machine is in use, and is
/// never freed, moved or reclaimed. A machine has a state for each of its zones or for none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "State")]
pub struct RawState {
    /// Node of the zone.
    node: u16,
    /// Zone type.
    #[schemars(schema_with = "crate::machine_file::schema::zone_type")]
    zone: ZoneType,
    /// Free blocks of order 0, 1, ... on the free lists of each type.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::blocks_by_type")]
    free: BTreeMap<String, Vec<u64>>,
    /// Pageblocks of each type; those that no type counts are movable.
    #[serde(default)]
    #[schemars(schema_with = "crate::machine_file::schema::pageblocks_by_type")]
    pageblocks: BTreeMap<String, u64>,
    /// Pages on the per-CPU lists of CPU 0, 1, ...
    #[serde(default)]
    on_lists: Vec<u64>,
}

/// The state of a machine file; none if it has none.
///
/// # Errors
/// Path of the wrong key, and what is wrong.
pub(super) fn of_raw(
    raw: &[RawState],
    machine: &Machine,
) -> Result<Option<StartState>, (String, String)> {
    if raw.is_empty() {
        return Ok(None);
    }
    let mut state = StartState::default();
    for (at, raw) in raw.iter().enumerate() {
        let mut zone = ZoneStart::new(raw.node, raw.zone);
        let type_of = |key: &str, name: &str| {
            let found = MigrateType::ALL.into_iter().find(|t| t.name() == name);
            let known = MigrateType::ALL.map(MigrateType::name);
            found.ok_or_else(|| (format!("state.{at}.{key}"), unknown("type", name, &known)))
        };
        for (name, blocks) in &raw.free {
            let slots = &mut zone.free[type_of("free", name)?.idx()];
            if blocks.len() > MAX_ORDER {
                let reason = format!("{} orders; there are {MAX_ORDER}", blocks.len());
                return Err((format!("state.{at}.free.{name}"), reason));
            }
            slots[..blocks.len()].copy_from_slice(blocks);
        }
        for (name, nr) in &raw.pageblocks {
            zone.pageblocks[type_of("pageblocks", name)?.idx()] = *nr;
        }
        if raw.on_lists.len() > machine.nr_cpus() {
            let reason =
                format!("{} CPUs; the machine has {}", raw.on_lists.len(), machine.nr_cpus());
            return Err((format!("state.{at}.on-lists"), reason));
        }
        zone.on_lists.clone_from(&raw.on_lists);
        state.zones.push(zone);
    }
    state.check(machine, &machine.name).map_err(|Misfit { zone, reason }| {
        (zone.map_or_else(|| "state".to_owned(), |at| format!("state.{at}")), reason)
    })?;
    state.zones.sort_by_key(|zone| (zone.node, zone.zone));
    Ok(Some(state))
}
