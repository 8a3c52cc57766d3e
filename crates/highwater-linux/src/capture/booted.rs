//! A captured machine, booted, and the sizes of its zones beside those that Linux computed
//! (rules/watermarks#min-free).

use std::collections::BTreeMap;

use highwater_core::config::{Machine, PcpSizing, Policy, Tunables};
use highwater_core::host::Solo;
use highwater_core::page_alloc::PageAllocator;
use highwater_core::page_alloc::boot;
use highwater_core::zone::{NodeId, ZoneType, watermark};
use highwater_results::import::linux61::{Static, Zone};

use super::captured::captured_machine;
use super::sizes::{SizedList, SizedMachine, SizedZone};
use crate::figure::{Figure, Limit};
use highwater_files::input::InputError;
use highwater_files::machine_file::check_size;

/// The machine of a reference, with its kernel's settings.
///
/// # Errors
/// If the model cannot represent a setting.
pub(crate) fn machine(file: &str, captured: &Static) -> Result<Machine, InputError> {
    let mut machine =
        captured_machine(&captured.name, captured.cpus, &captured.nodes, &captured.zones);
    adopt_settings(file, &captured.settings, &mut machine.tunables)?;
    Ok(machine)
}

/// Applies the captured kernel's settings to a machine. Settings that the model does not have are
/// left out.
pub(crate) fn adopt_settings(
    file: &str,
    settings: &BTreeMap<String, String>,
    tunables: &mut Tunables,
) -> Result<(), InputError> {
    super::settings::adopt(settings, tunables).map_err(|refused| InputError {
        file: file.to_owned(),
        line: None,
        field: Some(format!("settings.{}", refused.name)),
        reason: refused.reason,
    })
}

/// Figures of a boot compared with those of a kernel, and remarks about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compared {
    pub(crate) figures: Vec<Figure>,
    pub(crate) notes: Vec<String>,
}

impl Compared {
    /// Figures that differ.
    pub(crate) fn nr_wrong(&self) -> usize {
        self.figures.iter().filter(|figure| !figure.agrees).count()
    }
}

/// Boots a machine and compares its figures with those of a captured one. If the machine has more
/// memory than the model can boot, the same figures are computed from its page counts.
///
/// # Errors
/// If such a machine cannot exist.
pub(crate) fn compare(
    file: &str,
    machine: &Machine,
    policy: &Policy,
    captured: &Static,
) -> Result<Compared, InputError> {
    let real = captured.min_free_kbytes;
    if let Err(reason) = check_size(machine) {
        let figures = sized(machine, captured).figures(policy);
        let notes = vec![format!("{reason}: its sizes are computed, it cannot be booted")];
        return Ok(Compared { figures, notes });
    }
    let host = Solo::default();
    let memory = boot(&host, machine, policy).map_err(|error| InputError {
        file: file.to_owned(),
        line: None,
        field: Some(error.field),
        reason: error.reason,
    })?;
    let figures =
        vec![Figure::number("min_free_kbytes", real, memory.min_free_kbytes(), Limit::Exact)];
    let mut compared = Compared { figures, notes: Vec::new() };
    for zone in &captured.zones {
        let is_above = |other: &&Zone| other.node == zone.node && other.zone > zone.zone;
        let is_last = !captured.zones.iter().any(|other| is_above(&other));
        compare_zone(&memory, zone, is_last, &mut compared);
    }
    Ok(compared)
}

/// The inputs of the sizes of a captured machine.
fn sized(machine: &Machine, captured: &Static) -> SizedMachine {
    let zone = |zone: &Zone| SizedZone {
        node: zone.node,
        name: zone.zone.as_str().to_owned(),
        at_boot: zone.managed_for_sizing(),
        managed: zone.managed,
        marks: [zone.min, zone.low, zone.high].map(|mark| mark.saturating_sub(zone.boost)),
        protection: zone.protection.clone(),
        lists: zone
            .pagesets
            .iter()
            .map(|set| SizedList {
                cpu: set.cpu,
                high: set.high_min.unwrap_or(set.high),
                batch: set.batch,
                threshold: Some(set.stat_threshold),
            })
            .collect(),
    };
    SizedMachine {
        page_bytes: captured.page_size,
        nr_cpus: u64::from(captured.cpus),
        node_cpus: machine.nodes.iter().map(|node| node.cpus.len() as u64).collect(),
        min_free_kbytes: captured.min_free_kbytes,
        scale_factor: machine.tunables.watermark_scale_factor,
        high_fraction: machine.tunables.percpu_pagelist_high_fraction,
        kernel_zones: ZoneType::ALL.iter().map(|zone| zone.name().to_owned()).collect(),
        ratios: machine.tunables.lowmem_reserve_ratio.to_vec(),
        zones: captured.zones.iter().map(zone).collect(),
    }
}

/// Pages of a section. A kernel with deferred memory initialisation starts with one section of a
/// node's last zone.
const SECTION_PAGES: u64 = 1 << 15;

fn compare_zone(memory: &PageAllocator<Solo>, real: &Zone, is_last: bool, compared: &mut Compared) {
    let name = |field: &str| format!("node {} {}: {field}", real.node, real.zone);
    let figures = &mut compared.figures;
    let kind = ZoneType::ALL[real.zone.index()];
    let Some(zone) = memory.zone(NodeId(real.node as u16), kind) else {
        figures.push(Figure::text(name("zone"), "populated".into(), "missing".into()));
        return;
    };
    let marks = zone.marks();
    let mut push = |field: &str, real: u64, model: u64| {
        figures.push(Figure::number(name(field), real, model, Limit::Exact));
    };
    push("min", real.min.saturating_sub(real.boost), marks.min);
    push("low", real.low.saturating_sub(real.boost), marks.low);
    push("high", real.high.saturating_sub(real.boost), marks.high);
    if real.boost == 0 {
        push("boost", 0, zone.boost());
    }
    let whole = (u64::from(zone.pcp_batch()), u64::from(zone.pcp_high()));
    let late = late_lists(memory, zone.managed(), is_last);
    let (mut nr_late, mut nr_later, mut nr_tuned) = (0, 0, 0);
    // A list that tunes itself has no limit before its first use.
    let tunes = memory.policy.pcp.sizing == PcpSizing::Auto;
    let tuned = zone.pcp_high()..=zone.pcp_high_max();
    let cpus = memory.nr_cpus() as u64;
    // As the zone is now, and while kswapd works: each pass of kswapd sets the threshold again.
    let at_boot = u64::from(zone.stats.threshold());
    let later = [
        watermark::stat_threshold(cpus, zone.managed()),
        watermark::stat_threshold_pressure(&marks, cpus),
    ];
    for set in &real.pagesets {
        // The high of a list without auto-tuning; the initial high of a list that tunes itself.
        let high = set.high_min.unwrap_or(set.high);
        let is_late = Some((set.batch, high)) == late && late != Some(whole);
        nr_late += u32::from(is_late);
        let (batch, mut model_high) = if is_late { (set.batch, high) } else { whole };
        let is_tuned = tunes && set.high_min.is_none();
        if is_tuned && (high == 0 || u32::try_from(high).is_ok_and(|high| tuned.contains(&high))) {
            nr_tuned += u32::from(high != model_high);
            model_high = high;
        }
        push(&format!("cpu {} high", set.cpu), high, model_high);
        push(&format!("cpu {} batch", set.cpu), set.batch, batch);
        let is_later = set.stat_threshold != at_boot
            && later.iter().any(|threshold| u64::from(*threshold) == set.stat_threshold);
        nr_later += u32::from(is_later);
        let threshold = if is_later { set.stat_threshold } else { at_boot };
        push(&format!("cpu {} stat_threshold", set.cpu), set.stat_threshold, threshold);
    }
    if nr_late > 0 {
        let (batch, high) = whole;
        compared.notes.push(format!(
            "node {} {}: its kernel initialises memory late, and sized the lists while this zone had one section of \
             128 MiB (before 5.4); the machine here boots with batch {batch}, high {high}",
            real.node, real.zone
        ));
    }
    if nr_tuned > 0 {
        compared.notes.push(format!(
            "node {} {}: the limit of a list is what the kernel had tuned it to; it may be 0 before the first use, or \
             {} to {}",
            real.node,
            real.zone,
            tuned.start(),
            tuned.end()
        ));
    }
    if nr_later > 0 {
        compared.notes.push(format!(
            "node {} {}: stat_threshold is what kswapd set it to (by what the zone manages since the memory of the \
             kernel's start was freed, or by its marks while kswapd works); at boot it is {at_boot}",
            real.node, real.zone
        ));
    }
    compared.figures.push(Figure::entries(
        name("protection"),
        &real.protection,
        &zone.lowmem_reserves(),
    ));
}

/// Batch and high of a node's last zone in a kernel that defers memory initialisation and does not
/// recompute them afterwards (rules/per-cpu-lists#sizes). `None` for a kernel that recomputes them,
/// or for a zone of at most one section.
fn late_lists(memory: &PageAllocator<Solo>, managed: u64, is_last: bool) -> Option<(u64, u64)> {
    let sizing = memory.policy.pcp.sizing;
    let is_fixed = matches!(sizing, PcpSizing::SixBatches | PcpSizing::SixBatchesMib);
    if !is_fixed || !is_last || managed <= SECTION_PAGES {
        return None;
    }
    let (batch, high) = watermark::pcp_sizes(SECTION_PAGES, 0, 1, 0, sizing);
    Some((u64::from(batch), u64::from(high)))
}
