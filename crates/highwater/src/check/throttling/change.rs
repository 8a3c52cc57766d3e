//! What two kernels make of the same work: the captured change beside the model's.

use highwater_results::import::linux61::Throttling as Captured;

use super::observed::Observed;
use super::{Kind, figures};
use crate::check::{Figure, FileResult, Limit};

/// A file that was run, for comparing it with another kernel's.
#[derive(Debug)]
pub struct Judged {
    pub(super) file: String,
    pub(super) kind: Kind,
    pub(super) captured: Captured,
    pub(super) real: Vec<Observed>,
    pub(super) model: Vec<Observed>,
}

/// What changes from one kernel to another; a name with a plus is a sum.
const CHANGES: [(&str, &str); 2] = [
    ("direct reclaim: pages scanned a second", "pgscan_direct"),
    ("all reclaim: pages scanned a second", "pgscan_direct+pgscan_kswapd"),
];

/// Every pair of an older and a newer kernel that ran the same work, among files that were judged.
pub fn changes(judged: &[Judged]) -> Vec<FileResult> {
    let mut results = Vec::new();
    for before in judged {
        for after in judged {
            let pair = (version(&before.captured.kernel), version(&after.captured.kernel));
            if before.kind == after.kind && pair.0 < pair.1 && is_same_program(before, after) {
                results.push(change(before, after));
            }
        }
    }
    results
}

/// `5.10` before `6.1` before `6.12`.
fn version(kernel: &str) -> Vec<u32> {
    let text = super::version(kernel).unwrap_or_default();
    text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// The same number of everything; sizes follow from what each kernel left free, and differ a little.
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
        let mean = |runs: &[Observed]| {
            runs.iter().map(|run| run.rate(key)).sum::<f64>() / runs.len().max(1) as f64
        };
        percent(
            name,
            mean(&after.real) / mean(&before.real) - 1.0,
            mean(&after.model) / mean(&before.model) - 1.0,
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

/// A relative change: the same direction, and within a factor in size.
fn percent(name: &str, real: f64, model: f64) -> Figure {
    let text = |value: f64| format!("{:+.0} %", 100.0 * value);
    let (small, large) = (real.abs().min(model.abs()), real.abs().max(model.abs()));
    let agrees = real.signum() == model.signum() && large <= small * figures::FACTOR;
    Figure {
        field: format!("change of {name}"),
        real: text(real),
        model: text(model),
        limit: Limit::Factor(figures::FACTOR),
        agrees,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_kernels_come_first() {
        assert!(version("Linux 5.10 (Debian)") < version("Linux 6.1 (Debian)"));
        assert!(version("Linux 6.1") < version("Linux 6.12"));
    }

    #[test]
    fn a_change_agrees_in_direction_and_size() {
        let agrees = |model: f64| percent("scans", -0.36, model).agrees;
        assert!(agrees(-0.36) && agrees(-0.18) && agrees(-0.72));
        assert!(!agrees(-0.17) && !agrees(-0.73) && !agrees(0.36));
        assert_eq!(percent("scans", -0.364, 0.2).real, "-36 %");
    }
}
