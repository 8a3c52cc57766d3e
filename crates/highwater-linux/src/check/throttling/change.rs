//! Two kernels with the same work: the captured change beside the model's.

use highwater_results::import::linux61::Throttling as Captured;

use super::observed::Observed;
use super::{Kind, figures};
use crate::capture::KernelVersion;
use crate::check::{Figure, FileResult, Limit};

/// A judged file, kept for comparison with another kernel's file.
#[derive(Debug)]
pub struct Judged {
    pub(super) file: String,
    pub(super) kind: Kind,
    pub(super) captured: Captured,
    /// The policy by whose rules it ran.
    pub(super) policy: String,
    pub(super) real: Vec<Observed>,
    pub(super) model: Vec<Observed>,
}

/// Figures that are compared between kernels; a name with a plus is a sum.
const CHANGES: [(&str, &str); 2] = [
    ("direct reclaim: pages scanned a second", "pgscan_direct"),
    ("all reclaim: pages scanned a second", "pgscan_direct+pgscan_kswapd"),
];

/// Every pair of an older and a newer kernel that ran the same work, among the judged files. Two
/// kernels with the same policy are not a pair, because the model would be compared with itself.
pub fn changes(judged: &[Judged]) -> Vec<FileResult> {
    let mut results = Vec::new();
    for before in judged {
        for after in judged {
            let version = |judged: &Judged| KernelVersion::find(&judged.captured.kernel);
            let pair = (version(before), version(after));
            let is_pair = before.kind == after.kind && before.policy != after.policy;
            if is_pair && pair.0 < pair.1 && is_same_program(before, after) {
                results.push(change(before, after));
            }
        }
    }
    results
}

/// Counts of everything are equal. Sizes may differ a little, because they depend on what each
/// kernel left free.
fn is_same_program(a: &Judged, b: &Judged) -> bool {
    let program = |judged: &Judged| {
        let c = &judged.captured;
        (
            (c.cpus, c.workers, c.writers, c.hogs, c.seconds.to_bits()),
            (c.write_bytes, c.room_bytes, c.latency_bytes, c.disk_bytes_per_s, c.swap_bytes),
        )
    };
    program(a) == program(b)
}

fn change(before: &Judged, after: &Judged) -> FileResult {
    let figures = CHANGES.iter().map(|(name, key)| {
        let rates = |runs: &[Observed]| runs.iter().map(|run| run.rate(key)).collect::<Vec<_>>();
        percent(
            name,
            &Change::new(&rates(&before.real), &rates(&after.real)),
            &Change::new(&rates(&before.model), &rates(&after.model)),
        )
    });
    FileResult {
        file: format!("{} -> {}", before.file, after.file),
        kind: format!("{}, change", before.kind.name()),
        figures: figures.collect(),
        not_checked: None,
        notes: Vec::new(),
    }
}

/// How much a rate changes: the change of the means, and the range of the changes between single
/// runs.
struct Change {
    mean: f64,
    low: f64,
    high: f64,
}

impl Change {
    fn new(before: &[f64], after: &[f64]) -> Change {
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
        Change {
            mean: mean(after) / mean(before) - 1.0,
            low: least(after) / most(before) - 1.0,
            high: most(after) / least(before) - 1.0,
        }
    }

    fn text(&self) -> String {
        let text = |value: f64| format!("{:+.0} %", 100.0 * value);
        format!("{} ({} to {})", text(self.mean), text(self.low), text(self.high))
    }
}

/// A relative change agrees if it lies between those of single real runs. It also agrees if it has
/// the sign of the nearest one and is within the factor in size.
fn percent(name: &str, real: &Change, model: &Change) -> Figure {
    let nearest = model.mean.clamp(real.low.min(real.high), real.high.max(real.low));
    let (small, large) = (nearest.abs().min(model.mean.abs()), nearest.abs().max(model.mean.abs()));
    let is_inside = (nearest - model.mean).abs() < f64::EPSILON;
    let is_near = nearest.signum() == model.mean.signum() && large <= small * figures::FACTOR;
    Figure {
        field: format!("change of {name}"),
        real: real.text(),
        model: model.text(),
        limit: Limit::Factor(figures::FACTOR),
        agrees: is_inside || is_near,
        only_by_events: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_agrees_in_direction_and_size() {
        let agrees = |real: &[f64], model: f64| {
            let (real, model) = (Change::new(&[100.0], real), Change::new(&[1.0], &[1.0 + model]));
            percent("scans", &real, &model).agrees
        };
        assert!(agrees(&[64.0], -0.36) && agrees(&[64.0], -0.19) && agrees(&[64.0], -0.71));
        assert!(!agrees(&[64.0], -0.17) && !agrees(&[64.0], -0.73) && !agrees(&[64.0], 0.36));
        // Single runs differ in direction: so may the model.
        assert!(agrees(&[90.0, 120.0], 0.05) && agrees(&[90.0, 120.0], -0.19));
        assert!(!agrees(&[90.0, 120.0], -0.21));
        let change = Change::new(&[100.0, 125.0], &[50.0, 75.0]);
        assert_eq!(change.text(), "-44 % (-60 % to -25 %)");
    }
}
