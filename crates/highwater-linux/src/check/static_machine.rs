//! `static` files: the sizes that Linux computed for the zones of a freshly booted machine.
//!
//! The file gives nodes, CPUs, spans, settings and the pages that each zone managed at boot. With
//! these every figure must be equal (rules/watermarks#min-free). The policy is the preset of the
//! file's kernel. A kernel without a preset is judged by the nearest one, and a note says so.

use highwater_results::import::linux61::{Static, Zone};

use super::FileResult;
use crate::capture::booted::{compare, machine};
use crate::capture::{Judged, ZoneLines, judged_by};
use highwater_files::input::InputError;

/// Boots the captured machine and compares.
///
/// # Errors
/// If such a machine cannot exist.
pub fn check(file: &str, captured: &Static) -> Result<FileResult, InputError> {
    let machine = machine(file, captured)?;
    // A static file does not record `promo`.
    let has_min = |zone: &Zone| zone.pagesets.iter().any(|set| set.high_min.is_some());
    let lines = match captured.zones.iter().any(has_min) {
        true => ZoneLines::HighMin,
        false => ZoneLines::Unknown,
    };
    let judged = Judged { kernel: &captured.kernel, lines };
    let (nearest, compared) = judged_by(judged, |policy| {
        let compared = compare(file, &machine, policy, captured)?;
        let nr_wrong = compared.nr_wrong();
        Ok((compared, nr_wrong))
    })?;
    let mut notes: Vec<String> = nearest.note(&captured.kernel).into_iter().collect();
    notes.extend(compared.notes);
    let figures = compared.figures;
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
