//! The static reference: the sizes that the kernel computed for its zones, in the format that
//! `highwater check` reads.

use highwater_core::config::{Machine, Policy, Tunables};
use highwater_core::host::Solo;
use highwater_core::page_alloc::boot;
use highwater_core::zone::ZoneType;
use highwater_results::import::linux61::{Counters, Pageset, Reference, Static, Zone, ZoneBlocks};
use highwater_results::import::proc::{ZoneinfoZone, in_orders};
use serde::Serialize;

use super::at_boot::{Rules, managed_at_boot};
use super::captured::captured_machine;
use super::min_free::MinFree;
use super::{Capture, System, settings};
use highwater_files::input::InputError;
use highwater_files::machine_file::check_size;

/// A remark about facts that the kernel does not report.
const REMARK: &str = "captured from a kernel that had been running: managed_at_boot, where it is given, was found from \
                      the sizes that the kernel computed, which it does not say itself; free pages and baselines \
                      are of the moment";

/// The file: its head, then the flattened rest.
#[derive(Serialize)]
struct Document<'a> {
    schema: u64,
    kind: &'static str,
    remark: &'static str,
    #[serde(flatten)]
    captured: &'a Static,
}

/// The text of the file.
pub(super) fn to_json(captured: &Static) -> String {
    let document = Document { schema: 1, kind: "static", remark: REMARK, captured };
    // Plain rows and names: always valid JSON.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// The captured sizes, with unreported inputs derived. `file` names the source in errors.
///
/// # Errors
/// If such a machine cannot exist, or is larger than the largest model machine.
pub(super) fn of(
    capture: &Capture,
    policy: &Policy,
    file: &str,
) -> Result<(Static, MinFree), InputError> {
    let system = &capture.system;
    let mut tunables = Tunables::default();
    let refused = |refused: settings::Refused| InputError::whole(refused.name, refused.reason);
    settings::adopt(&system.settings, &mut tunables).map_err(refused)?;
    let zones = zones(system)?;
    let mut captured = Static {
        name: "captured".to_owned(),
        kernel: system.kernel.clone(),
        page_size: 4096,
        phys_pages: system.phys_pages(),
        cpus: system.nr_cpus,
        buddyinfo: blocks(system, &zones),
        zones,
        // A placeholder: the zones are checked before the value is known.
        min_free_kbytes: 1,
        settings: system.settings.clone(),
        nodes: system.nodes.clone(),
    };
    // Check the zones before adding them up.
    read(&captured, file)?;
    let rules = |min_free_kbytes: u64| Rules {
        min_free_kbytes,
        scale_factor: tunables.watermark_scale_factor,
        reserve_ratio: tunables.lowmem_reserve_ratio,
        gaps: policy.watermark.gaps,
    };
    let min_free =
        MinFree::of(system, |kbytes| managed_at_boot(&captured.zones, rules(kbytes)).off);
    let min_free_kbytes = min_free.kbytes;
    captured.min_free_kbytes = min_free_kbytes;
    let found = managed_at_boot(&captured.zones, rules(min_free_kbytes)).managed;
    for (zone, pages) in captured.zones.iter_mut().zip(found) {
        zone.managed_at_boot = (pages != zone.managed).then_some(pages);
    }
    // A number that the kernel computes by default is not a setting.
    captured.settings.remove(settings::MIN_FREE);
    if computed_min_free(&captured, &tunables, policy) != Some(min_free_kbytes) {
        captured.settings.insert(settings::MIN_FREE.to_owned(), min_free_kbytes.to_string());
    }
    Ok((captured, min_free))
}

/// Parses it as `check` would. Errors name the zone, because the user has not seen the lines of
/// this text.
///
/// # Errors
/// If such a machine cannot exist; `file` names it.
pub(super) fn read(captured: &Static, file: &str) -> Result<Reference, InputError> {
    Reference::parse(file, to_json(captured).as_bytes()).map_err(|error| {
        let error = InputError::from(error);
        let field = error.field.map(|field| of_zone(&field, &captured.zones).unwrap_or(field));
        InputError { line: None, field, ..error }
    })
}

/// A field of a zone, as `zones[0].start_pfn`, with the names that `/proc/zoneinfo` has.
fn of_zone(field: &str, zones: &[Zone]) -> Option<String> {
    let (at, field) = field.strip_prefix("zones[")?.split_once("].")?;
    let zone = zones.get(at.parse::<usize>().ok()?)?;
    Some(format!("node {}, zone {}: {field}", zone.node, zone.zone))
}

/// The min_free_kbytes that the model computes when this machine boots; `None` if it cannot boot
/// (reported elsewhere).
fn computed_min_free(captured: &Static, tunables: &Tunables, policy: &Policy) -> Option<u64> {
    let tunables = Tunables { min_free_kbytes: None, ..tunables.clone() };
    let machine = captured_machine("", captured.cpus, &captured.nodes, &captured.zones);
    let machine = Machine { tunables, ..machine };
    check_size(&machine).ok()?;
    let host = Solo::default();
    Some(boot(&host, &machine, policy).ok()?.min_free_kbytes())
}

fn zones(system: &System) -> Result<Vec<Zone>, InputError> {
    let mut zones = Vec::new();
    for zone in &system.zones {
        let pageset = |set: &highwater_results::import::proc::ZoneinfoPageset| Pageset {
            cpu: set.cpu,
            high: set.high,
            batch: set.batch,
            high_min: set.high_min,
            stat_threshold: set.stat_threshold.unwrap_or(0),
        };
        let levels = zone.per_node.iter().flatten().filter(|(name, _)| name.starts_with("nr_"));
        let level =
            |(name, value): &(String, u64)| Some((name.clone(), i64::try_from(*value).ok()?));
        zones.push(Zone {
            node: zone.node,
            zone: System::zone_name(zone)?,
            pagesets: zone.pagesets.iter().map(pageset).collect(),
            baseline: levels.filter_map(level).collect::<Counters>(),
            free: zone.free,
            boost: zone.boost,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            spanned: zone.spanned,
            present: zone.present,
            managed: zone.managed,
            managed_at_boot: None,
            protection: protection(system, zone),
            // The parser requires this field for a zone with memory.
            start_pfn: zone.start_pfn.unwrap_or(0),
        });
    }
    // Linux lists the zones of a node by index; the model lists all zones by node.
    zones.sort_by_key(|zone| (zone.node, zone.zone));
    Ok(zones)
}

/// The zone's protection against requests for each of the model's zones.
fn protection(system: &System, zone: &ZoneinfoZone) -> Vec<u64> {
    let names = ZoneType::ALL.map(ZoneType::name);
    match &system.kernel_zones {
        Some(zones) => zones.reserves(&zone.zone, &zone.protection, &names),
        None => zone.protection.clone(),
    }
}

/// Free blocks of the listed zones.
fn blocks(system: &System, zones: &[Zone]) -> Vec<ZoneBlocks> {
    let rows = system.buddyinfo.iter().flat_map(|info| &info.zones);
    rows.filter_map(|row| {
        let is_it = |zone: &&Zone| zone.node == row.node && zone.zone.as_str() == row.zone;
        let zone = zones.iter().find(is_it)?;
        Some(ZoneBlocks { node: row.node, zone: zone.zone, free_blocks: in_orders(&row.nr_free).0 })
    })
    .collect()
}
