//! `stutterp` and `storm` files: memory hogs and writers on slow disks, and how reclaim slowed them
//! down.
//!
//! The work is chaotic: neither the real kernel nor the model gives the same counters twice. Two
//! runs of one kernel differ by a factor of 3.6 in pages scanned directly. So the shape has to
//! agree: rates, shares, ratios and how often each kind of wait came. A figure of all the model's
//! runs together agrees if it lies between those of the real runs, or outside by no more than its
//! limit:
//!
//! | judged | agrees within |
//! |---|---|
//! | rates and ratios: direct scans a second, pages scanned per page reclaimed, and the like | a factor 2 |
//! | shares of many events, such as anonymous pages of those scanned | 10 percentage points |
//! | number of waits of a kind | a factor 3, or the chance error of a small number |
//! | shares of few waits: by reason, at once, timed out | 10 points, or the chance error of a small number |
//! | between two kernels: by how much direct scans fall | the direction, and a factor 2 |
//!
//! The factor 2 is the variation of the benchmark itself between runs, as its author reports it
//! (rules/benchmarks#run-to-run: worst stalls of 24 and 12 s in one test). A share `p` of `n` waits
//! has a standard error of `sqrt(p (1 - p) / n)`, and their number has one of `sqrt(n)`, on both
//! sides. Waits come in bursts of similar waits, so the error of the difference is doubled. Two
//! such errors are allowed. No tolerance is made for a particular figure. Counters, latencies and
//! histograms are printed beside the real ones.
//!
//! Runs of the same work by the same kernel count together, from the file itself and from other
//! files beside it.
//!
//! No code here knows a particular file: workers, sizes, machine, disks and the kernel come from
//! its fields. Entry points are [`check`] for a file and [`changes`] for two kernels with the same
//! work.

mod change;
mod figures;
mod memory;
mod observed;
mod program;
mod shapes;
mod simulate;
mod storm;

use std::path::Path;

use highwater_core::page::PAGE_SIZE;
use highwater_results::import::linux61::{Reference, Throttling as Captured};

use super::kernels;
use super::machine::{DATA_PAGES, EMULATOR_OF_FOUR, System};
use super::{FileResult, STORM, STUTTERP, not_checked};
use highwater_files::input::InputError;
use highwater_files::policy_file;

pub use change::{Judged, changes};
use observed::Observed;

/// Longest run that is simulated: a bound on how long a bad file can keep us busy.
const SECONDS_MAX: f64 = 600.0;
/// Most workers, for the same reason.
const WORKERS_MAX: u32 = 256;

/// Which program ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hogs that map, write, unmap, again; writers of single pages.
    Stutterp,
    /// Hogs that fill free memory and keep it; writers of blocks; almost no swap.
    Storm,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Stutterp => STUTTERP,
            Kind::Storm => STORM,
        }
    }
}

/// Runs the work on the captured machine and compares. If it ran, also returns the data that
/// [`changes`] needs.
///
/// # Errors
/// If such a machine or work cannot exist.
pub fn check(
    path: &Path,
    kind: Kind,
    captured: &Captured,
) -> Result<(FileResult, Option<Judged>), InputError> {
    let file = path.display().to_string();
    validate(&file, captured)?;
    let Some(preset) = kernels::preset_of(&captured.kernel, &captured.settings) else {
        let why = format!("there is no policy for the kernel {:?}", captured.kernel);
        return Ok((not_checked(&file, kind.name(), &why), None));
    };
    let policy = policy_file::load(preset)?;
    let system = System {
        file: &file,
        name: kind.name(),
        cpus: captured.cpus,
        nodes: &[],
        zones: &captured.zones,
        start_nodes: &[],
        gauges: std::collections::BTreeMap::new(),
        disk_limit: Some(captured.disk_bytes_per_s),
        costs_of: EMULATOR_OF_FOUR,
        swap_pages: captured.swap_bytes.map(swap_pages),
        settings: captured.settings.clone(),
    };
    let model = simulate::runs(&system, kind, captured, &policy)?;
    let others = runs_beside(path, kind, captured);
    let nr_beside = others.len();
    let real: Vec<Observed> =
        captured.runs.iter().map(|run| Observed::of(captured, run)).chain(others).collect();
    let mut figures = shapes::figures(&real, &model);
    if kind == Kind::Storm {
        figures.extend(storm::figures(&real, &model));
    }
    let mut notes = vec![memory::note(captured)];
    if nr_beside > 0 {
        notes.push(match nr_beside {
            1 => "1 run of the same work comes from a file beside this one".to_owned(),
            _ => format!("{nr_beside} runs of the same work come from files beside this one"),
        });
    }
    notes.extend(kernels::remark(preset));
    notes.extend(shapes::notes(&real, &model, captured.seconds));
    let (captured, policy) = (captured.clone(), policy.name);
    let judged = Judged { file: file.clone(), kind, captured, policy, real, model };
    let result =
        FileResult { file, kind: kind.name().to_owned(), figures, not_checked: None, notes };
    Ok((result, Some(judged)))
}

/// Usable pages of a swap area: the first page is its header.
fn swap_pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_SIZE as u64).unwrap_or(u32::MAX).saturating_sub(1).max(1)
}

/// Runs of the same work in other files of the directory. An unreadable file is skipped here;
/// checking that file itself reports it.
fn runs_beside(path: &Path, kind: Kind, captured: &Captured) -> Vec<Observed> {
    let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|other| {
        other.extension().is_some_and(|e| e == "json") && other.file_name() != path.file_name()
    });
    paths.sort();
    let mut runs = Vec::new();
    for other in paths {
        let other = match (kind, Reference::read(&other)) {
            (Kind::Stutterp, Ok(Reference::Stutterp(other))) => other,
            (Kind::Storm, Ok(Reference::Storm(other))) => other,
            _ => continue,
        };
        if captured.is_same_work(&other) {
            runs.extend(other.runs.iter().map(|run| Observed::of(&other, run)));
        }
    }
    runs
}

/// Checks that the model can run it, which the parser of the file does not know.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_swap_is_the_header() {
        assert_eq!(swap_pages(8 << 20), 2047);
        assert_eq!(swap_pages(0), 1);
    }
}
