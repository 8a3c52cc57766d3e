//! `static` files: what Linux computed for the zones of a freshly booted machine.
//!
//! Given nodes, CPUs, spans, settings and what each zone managed at boot, every figure has to be the same
//! (rules/watermarks#min-free). The policy is the preset of the file's kernel; of a kernel that is none, the nearest
//! one, and a note says so.

use highwater_core::config::{Machine, Policy};
use highwater_core::host::Solo;
use highwater_core::page_alloc::PageAllocator;
use highwater_core::page_alloc::boot;
use highwater_core::zone::{NodeId, ZoneType};
use highwater_results::import::linux61::{Static, Zone};

use super::captured::captured_machine;
use super::machine::adopt_settings;
use super::{Figure, FileResult, Limit};
use crate::capture::Nearest;
use crate::input::InputError;
use crate::machine_file::check_size;
use crate::policy_file;

/// Boots the captured machine and compares.
///
/// # Errors
/// If there can be no such machine.
pub fn check(file: &str, captured: &Static) -> Result<FileResult, InputError> {
    let mut machine =
        captured_machine(&captured.name, captured.cpus, &captured.nodes, &captured.zones);
    adopt_settings(file, &captured.settings, &mut machine.tunables)?;
    let nearest = Nearest::to(&captured.kernel);
    let policy = policy_file::load(nearest.preset)?;
    let figures = compare(file, &machine, &policy, captured)?;
    let mut notes: Vec<String> = nearest.note(&captured.kernel).into_iter().collect();
    for zone in &captured.zones {
        if zone.boost > 0 {
            notes.push(format!(
                "node {} {}: captured with a boost of {}; watermarks compared without it",
                zone.node, zone.zone, zone.boost
            ));
        }
    }
    let (file, kind) = (file.to_owned(), "static".to_owned());
    Ok(FileResult { file, kind, figures, not_checked: None, notes })
}

/// Boots a machine and sets its figures beside those of a captured one.
///
/// # Errors
/// If there can be no such machine.
pub(crate) fn compare(
    file: &str,
    machine: &Machine,
    policy: &Policy,
    captured: &Static,
) -> Result<Vec<Figure>, InputError> {
    check_size(machine).map_err(|reason| InputError {
        field: Some("zones".to_owned()),
        ..InputError::whole(file, reason)
    })?;
    let host = Solo::default();
    let memory = boot(&host, machine, policy).map_err(|error| InputError {
        file: file.to_owned(),
        line: None,
        field: Some(error.field),
        reason: error.reason,
    })?;
    let real = captured.min_free_kbytes;
    let mut figures =
        vec![Figure::number("min_free_kbytes", real, memory.min_free_kbytes(), Limit::Exact)];
    for zone in &captured.zones {
        compare_zone(&memory, zone, &mut figures);
    }
    Ok(figures)
}

fn compare_zone(memory: &PageAllocator<Solo>, real: &Zone, figures: &mut Vec<Figure>) {
    let name = |field: &str| format!("node {} {}: {field}", real.node, real.zone);
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
    for set in &real.pagesets {
        // Where a list tunes itself, what it starts from.
        let high = set.high_min.unwrap_or(set.high);
        push(&format!("cpu {} high", set.cpu), high, u64::from(zone.pcp_high()));
        push(&format!("cpu {} batch", set.cpu), set.batch, u64::from(zone.pcp_batch()));
        let threshold = u64::from(zone.stats.threshold());
        push(&format!("cpu {} stat_threshold", set.cpu), set.stat_threshold, threshold);
    }
    let list = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let protection = zone.lowmem_reserves();
    figures.push(Figure::text(name("protection"), list(&real.protection), list(&protection)));
}
