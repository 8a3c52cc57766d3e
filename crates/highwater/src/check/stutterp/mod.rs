//! `stutterp` files: memory hogs and writers on slow disks, and how reclaim throttled them.
//!
//! The work is chaotic and the file is one run of it: neither the real kernel nor the model would
//! come to the same counters twice. What has to agree is its shape, in quantities that do not scale
//! with the speed of a CPU or the length of the run: shares and ratios. Counters, latencies and the
//! histogram of throttled waits are printed beside the real ones and not judged.
//!
//! | judged | agrees if |
//! |---|---|
//! | ratios: pages scanned per page reclaimed, and the like | within a factor 2 |
//! | shares of many events, such as anonymous pages of those scanned | within 10 percentage points |
//! | shares of few waits: by reason, at once, timed out | within 10 points, or what chance makes of so few |
//!
//! The factor is what the benchmark itself varies by from run to run, as its author reports it
//! (rules/benchmarks#run-to-run: worst stalls of 24 and 12 s in one test). Of `n` waits a share `p`
//! has a standard error of `sqrt(p (1 - p) / n)`, here and there; waits come in bursts, of which
//! the members are alike, so the error of the difference is doubled, and two of that are allowed.
//! No tolerance is of a particular figure.
//!
//! Nothing here knows a file: workers, sizes, machine and disks come from its fields.

mod shapes;
mod simulate;

use std::collections::BTreeMap;

use highwater_core::page::PAGE_SIZE;
use highwater_results::Counters;
use highwater_results::import::linux61::{Stutterp as Captured, Throttled};

use super::machine::{DATA_PAGES, System};
use super::{FileResult, STUTTERP};
use crate::input::InputError;
use crate::policy_file;

/// The policy of the captured kernels.
const POLICY: &str = "6.1";
/// Longest run that is simulated: a bound on how long a bad file can keep us busy.
const SECONDS_MAX: f64 = 600.0;
/// Most workers, for the same reason.
const WORKERS_MAX: u32 = 256;

/// Key of a bar of the histogram: reason, longest wait allowed, wait; microseconds.
type Bar = (String, u64, u64);

/// What a run left behind; of the real kernel, one, of the model, several.
#[derive(Clone, Debug, Default)]
struct Observed {
    counters: Counters,
    /// Throttled waits of allocating tasks.
    direct: BTreeMap<Bar, u64>,
    /// Of kswapd.
    kswapd: BTreeMap<Bar, u64>,
    /// Times of the latency worker.
    latency_ms: Vec<f64>,
}

/// Runs the work on the captured machine and compares.
///
/// # Errors
/// If there can be no such machine or work.
pub fn check(file: &str, captured: &Captured) -> Result<FileResult, InputError> {
    validate(file, captured)?;
    let policy = policy_file::load(POLICY)?;
    let system = System {
        file,
        name: STUTTERP,
        cpus: captured.cpus,
        nodes: &[],
        zones: &captured.zones,
        gauges: BTreeMap::new(),
        disk_limit: Some(captured.disk_bytes_per_s),
        settings: std::collections::BTreeMap::new(),
    };
    let runs = simulate::runs(&system, captured, &policy)?;
    let real = observed(captured);
    let figures = shapes::figures(&real, &runs);
    let notes = shapes::notes(&real, &runs, captured.seconds);
    let (file, kind) = (file.to_owned(), STUTTERP.to_owned());
    Ok(FileResult { file, kind, figures, not_checked: None, notes })
}

/// What the reader of the file cannot know: what the model can do.
fn validate(file: &str, captured: &Captured) -> Result<(), InputError> {
    let wrong = |field: &str, reason: String| {
        Err(InputError { file: file.to_owned(), line: None, field: Some(field.to_owned()), reason })
    };
    if captured.seconds > SECONDS_MAX {
        return wrong("seconds", format!("more than {SECONDS_MAX}"));
    }
    if captured.workers > WORKERS_MAX {
        return wrong("workers", format!("more than {WORKERS_MAX}"));
    }
    let pages = captured.file_bytes_each / PAGE_SIZE as u64;
    if u64::from(captured.writers).saturating_mul(pages) > DATA_PAGES {
        return wrong(
            "file_bytes_each",
            format!("{} files of {pages} pages do not fit the disk", captured.writers),
        );
    }
    Ok(())
}

/// The real run.
fn observed(captured: &Captured) -> Observed {
    let mut counters = Counters::default();
    for (name, &value) in &captured.counters {
        counters.set(name, value);
    }
    let bars = |list: &[Throttled]| {
        let mut bars = BTreeMap::new();
        for bar in list {
            let key = (bar.reason.clone(), bar.usec_timeout, bar.usec_delayed);
            *bars.entry(key).or_default() += bar.count;
        }
        bars
    };
    Observed {
        counters,
        direct: bars(&captured.throttled),
        kswapd: bars(&captured.throttled_kswapd),
        latency_ms: captured.latency_ms.clone(),
    }
}
