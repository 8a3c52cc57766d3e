//! Compares the model with files captured from a real Linux.
//!
//! | kind of file | compared figures | agrees if |
//! |---|---|---|
//! | `static` | sizes that a boot computes for each zone | every figure is the same |
//! | `/proc/zoneinfo`, a directory with it | the same | the same |
//! | `ab-trace` | refills, drains, hottest block, distinct blocks of three kernels | within the limits of [`ab_trace`] |
//! | `scenario` | key counters of every step of a small program | within max(10 %, distance of the real runs, 256) |
//! | `memcg` | counters of the machine and of each group in every step of a script | as scenarios; kills are exact |
//! | a trace | refills, drains, hottest block of the replay under 6.1 | within the limits of [`trace`] |
//! | `stutterp`, `storm` | shapes: rates, shares and ratios of counters and throttled waits | within the limits of [`throttling`] |
//! | the same work of two kernels | by how much pages scanned fall or rise | the direction, and a factor 2 |
//!
//! Whether a figure agrees is decided by [`Limit`] alone.

pub mod ab_trace;
mod kernels;
mod machine;
pub mod memcg;
mod rows;
pub mod scenario;
pub mod static_machine;
pub mod throttling;
pub mod trace;
mod tree;

use std::path::{Path, PathBuf};

use highwater_results::import::linux61::Reference;
use highwater_results::import::{ImportError, KernelText};
use highwater_results::input;
use highwater_results::words::{count, refusal};
use serde::Serialize;

pub use crate::figure::{Figure, Limit};

use crate::capture::Source;
use highwater_files::input::{InputError, kernel_text, misplaced, recognised};

/// The kinds of files whose figures are counters.
const SCENARIO: &str = "scenario";
const MEMCG: &str = "memcg";
/// The kinds of files whose figures are rates, shares and ratios.
const STUTTERP: &str = "stutterp";
const STORM: &str = "storm";

/// The result of checking a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileResult {
    /// The file.
    pub file: String,
    /// Its kind.
    pub kind: String,
    /// Every figure compared.
    pub figures: Vec<Figure>,
    /// Why nothing was compared.
    pub not_checked: Option<String>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl FileResult {
    /// Whether no difference was found.
    pub fn agrees(&self) -> bool {
        self.figures.iter().all(|f| f.agrees)
    }

    /// What its figures are called.
    fn unit(&self) -> &'static str {
        match self.kind.as_str() {
            SCENARIO | MEMCG => "counters",
            STUTTERP | STORM => "shapes",
            _ => "fields",
        }
    }

    /// Figures that agree.
    pub fn nr_agreeing(&self) -> usize {
        self.figures.iter().filter(|f| f.agrees).count()
    }

    /// The part of the agreeing figures that agree only because a few events are always allowed.
    pub fn nr_only_by_events(&self) -> usize {
        self.figures.iter().filter(|f| f.only_by_events).count()
    }
}

/// All files, and the sums over them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// `highwater.check/1`.
    pub schema: &'static str,
    /// Of this program.
    pub version: &'static str,
    /// Number of compared files.
    pub nr_files: usize,
    /// Files of which every figure agrees.
    pub nr_files_agreeing: usize,
    /// Figures compared.
    pub nr_figures: usize,
    /// Figures that agree.
    pub nr_figures_agreeing: usize,
    /// Scenario figures that agree only because 256 events are always allowed.
    pub nr_figures_only_by_events: usize,
    /// Files that this version cannot judge.
    pub nr_not_checked: usize,
    /// Every file.
    pub files: Vec<FileResult>,
}

impl CheckReport {
    /// Sums up.
    pub fn new(files: Vec<FileResult>) -> CheckReport {
        let checked = || files.iter().filter(|f| f.not_checked.is_none());
        CheckReport {
            schema: "highwater.check/1",
            version: env!("CARGO_PKG_VERSION"),
            nr_files: checked().count(),
            nr_files_agreeing: checked().filter(|f| f.agrees()).count(),
            nr_figures: files.iter().map(|f| f.figures.len()).sum(),
            nr_figures_agreeing: files.iter().map(FileResult::nr_agreeing).sum(),
            nr_figures_only_by_events: files.iter().map(FileResult::nr_only_by_events).sum(),
            nr_not_checked: files.iter().filter(|f| f.not_checked.is_some()).count(),
            files,
        }
    }

    /// A line per file, the figures that differ, the sums.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for file in &self.files {
            lines.push(match &file.not_checked {
                Some(why) => {
                    format!("{}: {}: not checked by this version: {why}", file.file, file.kind)
                }
                None => format!(
                    "{}: {}: {} of {} {} agree",
                    file.file,
                    file.kind,
                    file.nr_agreeing(),
                    file.figures.len(),
                    file.unit()
                ),
            });
            let told: Vec<Figure> =
                file.figures.iter().filter(|f| f.is_worth_a_line()).cloned().collect();
            for f in &rows::collapsed(&told) {
                let verdict = if f.agrees { "agrees" } else { "DIFFERS" };
                // A user may grep only for lines that differ, so such a line must be complete by
                // itself.
                let file = if f.agrees { String::new() } else { format!("{}: ", file.file) };
                lines.push(format!(
                    "  {file}{}: Linux {}, model {}: {verdict} ({})",
                    f.field,
                    f.real,
                    f.model,
                    f.limit.text()
                ));
            }
            lines.extend(file.notes.iter().map(|note| format!("  # {note}")));
        }
        let mut sum = format!(
            "{} of {} {}, {} of {}",
            self.nr_files_agreeing,
            count(self.nr_files, "file"),
            if self.nr_files == 1 { "agrees" } else { "agree" },
            self.nr_figures_agreeing,
            count(self.nr_figures, "field")
        );
        let of_scenarios =
            || self.files.iter().filter(|file| file.kind == SCENARIO || file.kind == MEMCG);
        if of_scenarios().any(|file| file.not_checked.is_none()) {
            let agreeing: usize = of_scenarios().map(FileResult::nr_agreeing).sum();
            let all: usize = of_scenarios().map(|file| file.figures.len()).sum();
            let by_events = self.nr_figures_only_by_events;
            if by_events > 0 {
                let (events, others) = (scenario::EVENTS, agreeing - by_events);
                lines.push(format!(
                    "{by_events} counters agree only because {events} events are always allowed; \
                     without that rule {others} of {all} would"
                ));
            }
            lines.push(format!("{agreeing} of {all} counters agree"));
        }
        if self.nr_not_checked > 0 {
            sum += &format!("; {} not checked", count(self.nr_not_checked, "file"));
        }
        lines.push(sum);
        lines.join("\n") + "\n"
    }

    /// Share of the figures that agree, in percent; `None` if nothing was compared.
    pub fn agreement(&self) -> Option<f64> {
        let all = self.nr_figures as f64;
        (self.nr_figures > 0).then(|| self.nr_figures_agreeing as f64 * 100.0 / all)
    }
}

/// Checks files and everything below directories.
///
/// # Errors
/// If a path does not exist, or a file does not match its name.
pub fn check(paths: &[PathBuf]) -> Result<(CheckReport, Vec<InputError>), InputError> {
    check_telling(paths, CheckOptions::default(), &mut |_, _| {})
}

/// Facts of a captured run that its file does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Nanoseconds that the machine idles before the script of a `memcg` file. Work that a kernel
    /// does every few seconds then falls on other operations: the sums of statistics that reclaim
    /// goes by from 6.12 on, and the flushers' rounds.
    pub idle_ns: u64,
}

/// As [`check`]; `tell` is called with the number of finished files and the total, before each file
/// and at the end.
///
/// # Errors
/// As [`check`].
pub fn check_telling(
    paths: &[PathBuf],
    options: CheckOptions,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<(CheckReport, Vec<InputError>), InputError> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        collect(path, &mut files, Found::Named)?;
        if files.len() == before {
            let reason = "no captured file (.json, .trace, .trace.gz) and no proc/zoneinfo in this directory";
            return Err(InputError::whole(path.display().to_string(), reason));
        }
    }
    let mut results = Vec::new();
    let mut refused = Vec::new();
    let mut judged = Vec::new();
    for (at, file) in files.iter().enumerate() {
        tell(at, files.len());
        match check_file(file, options, &mut judged) {
            Ok(result) => results.push(result),
            Err(error) => refused.push(error),
        }
    }
    tell(files.len(), files.len());
    results.extend(throttling::changes(&judged));
    Ok((CheckReport::new(results), refused))
}

/// How a path came up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The user named it: checked under any name.
    Named,
    /// In a directory: only if its name marks a check file.
    InDirectory,
}

fn collect(path: &Path, files: &mut Vec<PathBuf>, found: Found) -> Result<(), InputError> {
    let unreadable = |error: std::io::Error| {
        InputError::whole(
            path.display().to_string(),
            format!("cannot be read: {}", refusal(&error)),
        )
    };
    // Links inside directories are not followed, because they may form loops.
    let kind = match found {
        Found::Named => std::fs::metadata(path),
        Found::InDirectory => std::fs::symlink_metadata(path),
    };
    if kind.map_err(unreadable)?.is_dir() {
        // The texts of a machine.
        let zoneinfo = [ZONEINFO, "zoneinfo", ZONEINFO_GZ, "zoneinfo.gz"];
        if zoneinfo.iter().any(|file| path.join(file).is_file()) {
            files.push(path.to_path_buf());
            return Ok(());
        }
        let entries: Result<Vec<_>, _> = std::fs::read_dir(path)
            .map_err(unreadable)?
            .map(|entry| entry.map(|e| e.path()))
            .collect();
        let mut entries = entries.map_err(unreadable)?;
        entries.sort();
        return entries.iter().try_for_each(|entry| collect(entry, files, Found::InDirectory));
    }
    if found == Found::Named || is_trace(path) || has_suffix(path, &[".json", ".json.gz"]) {
        files.push(path.to_path_buf());
    }
    Ok(())
}

/// Path of the zones in a recorded tree.
const ZONEINFO: &str = "proc/zoneinfo";
const ZONEINFO_GZ: &str = "proc/zoneinfo.gz";

fn is_trace(path: &Path) -> bool {
    has_suffix(path, &[".trace", ".trace.gz"])
}

fn has_suffix(path: &Path, suffixes: &[&str]) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    suffixes.iter().any(|suffix| name.ends_with(suffix))
}

/// Inputs that `check` reads.
const EXPECTED: &str =
    "/proc/zoneinfo or a directory with it, a trace, or a captured reference (.json)";

/// Larger than any text that is read here as a whole.
const BYTES_MAX: u64 = 64 << 20;

/// The text of a file.
fn text(path: &Path) -> Result<String, InputError> {
    let unreadable = |error| {
        InputError::whole(
            path.display().to_string(),
            format!("cannot be read: {}", refusal(&error)),
        )
    };
    input::read_text(path, BYTES_MAX).map_err(unreadable)
}

/// `judged` collects results that other files are compared with.
fn check_file(
    path: &Path,
    options: CheckOptions,
    judged: &mut Vec<throttling::Judged>,
) -> Result<FileResult, InputError> {
    let file = path.display().to_string();
    if path.is_dir() {
        return tree::check(&file, &Source::recorded(path));
    }
    // A pipe can be read only once.
    let piped = match input::is_read_once(path) {
        true => Some(text(path)?),
        false => None,
    };
    let recognised = piped.as_ref().map_or_else(|| recognised(path), |text| kernel_text(text));
    match recognised {
        Some(KernelText::Zoneinfo) => {
            let source = match piped {
                Some(text) => Source::zoneinfo_text(path, text),
                None => Source::zoneinfo(path),
            };
            return tree::check(&file, &source);
        }
        Some(KernelText::Trace) => return trace::check(path),
        Some(other) => return Err(InputError::whole(file, other.advice())),
        None if is_trace(path) => return trace::check(path),
        None => {}
    }
    let read = match &piped {
        Some(text) => Reference::parse(&file, text.as_bytes()),
        None => Reference::read(path),
    };
    let reference = match read {
        Ok(reference) => reference,
        Err(error) => {
            // Not JSON at all, or not the JSON of a reference.
            let is_another = matches!(error, ImportError::Json { .. });
            let reason = match piped.map_or_else(|| text(path), Ok) {
                _ if !is_another => None,
                Ok(text) => misplaced(&text, "check", EXPECTED),
                Err(_) => Some(format!("not text; expected: {EXPECTED}")),
            };
            return Err(
                reason.map_or_else(|| error.into(), |reason| InputError::whole(file, reason))
            );
        }
    };
    match &reference {
        Reference::Static(captured) => static_machine::check(&file, captured),
        Reference::AbTrace(captured) => ab_trace::check(path, captured),
        Reference::Scenario(captured) => scenario::check(&file, captured),
        Reference::Memcg(captured) => memcg::check(&file, captured, options),
        Reference::Stutterp(captured) => {
            let (result, run) = throttling::check(path, throttling::Kind::Stutterp, captured)?;
            judged.extend(run);
            Ok(result)
        }
        Reference::Storm(captured) => {
            let (result, run) = throttling::check(path, throttling::Kind::Storm, captured)?;
            judged.extend(run);
            Ok(result)
        }
    }
}

fn not_checked(file: &str, kind: &str, why: &str) -> FileResult {
    FileResult {
        file: file.to_owned(),
        kind: kind.to_owned(),
        figures: Vec::new(),
        not_checked: Some(why.to_owned()),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert!(Limit::Exact.holds(3, 3) && !Limit::Exact.holds(3, 4));
        let factor = Limit::Factor(2.0);
        assert!(factor.holds(10, 5) && factor.holds(10, 20) && factor.holds(0, 0));
        assert!(!factor.holds(10, 4) && !factor.holds(10, 21) && !factor.holds(0, 1));
        let share = Limit::Share { share: 0.25, events: 64 };
        assert!(share.holds(1000, 750) && share.holds(1000, 1250) && share.holds(0, 64));
        assert!(!share.holds(1000, 749) && !share.holds(1000, 1251) && !share.holds(0, 65));
    }
}
