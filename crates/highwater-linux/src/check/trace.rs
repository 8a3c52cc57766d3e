//! Traces: a replay under the traced kernel's own rules has to work the allocator as hard as the
//! kernel did.

use std::path::Path;

use super::{Figure, FileResult, Limit};
use crate::replay::{self, EventKind, Tally, UseSidecars};
use highwater_files::input::InputError;
use highwater_files::policy_file;

/// Refills and drains: within a quarter, or within 64 events for small counts.
pub(super) const EVENTS: Limit =
    Limit::Share { share: replay::NEAR_SHARE, events: replay::NEAR_EVENTS };
/// Uses of the hottest block.
const HOTTEST: Limit = Limit::Factor(1.5);
/// The policy of the captured kernels.
const POLICY: &str = "6.1";

/// Replays a trace and compares it with itself.
///
/// # Errors
/// If it cannot be replayed.
pub fn check(path: &Path) -> Result<FileResult, InputError> {
    let policy = policy_file::load(POLICY)?;
    let report = replay::run(path, &[policy], None, UseSidecars::Yes)?;
    let real = &report.survey.tally;
    let mut figures = Vec::new();
    for replayed in &report.replays {
        figures.extend(events(POLICY, |kind| real.total(kind), &replayed.tally));
        let uses = (real.hottest_uses(), replayed.tally.hottest_uses());
        figures.push(Figure::number(format!("{POLICY}: hottest block"), uses.0, uses.1, HOTTEST));
    }
    let mut notes = vec![format!("machine {}", report.shape.source.name())];
    notes.extend(report.warning_lines());
    let file = path.display().to_string();
    Ok(FileResult { file, kind: "trace".to_owned(), figures, not_checked: None, notes })
}

/// Refills and drains of a replay beside the real ones.
pub(super) fn events(policy: &str, real: impl Fn(EventKind) -> u64, model: &Tally) -> [Figure; 2] {
    [(EventKind::ZoneLocked, "refills"), (EventKind::PcpuDrain, "drains")].map(|(kind, what)| {
        Figure::number(format!("{policy}: {what}"), real(kind), model.total(kind), EVENTS)
    })
}
