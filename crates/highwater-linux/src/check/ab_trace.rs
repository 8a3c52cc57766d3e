//! `ab-trace` files: the same work on real kernels that differ in one rule.
//!
//! A trace of the work lies beside the file (`../traces/<work>.trace.gz` or the same directory). It
//! was recorded on another kernel than those of the file, so blocks and counts are close, not
//! equal. The model replays it under each kernel's rule.

use std::path::{Path, PathBuf};

use highwater_core::config::Policy;
use highwater_results::import::linux61::{AbKernel, AbTrace};

use super::{Figure, FileResult, Limit, trace};
use crate::replay::{self, EventKind, Replay, UseSidecars};
use highwater_files::input::InputError;
use highwater_files::policy_file;

/// Uses of the hottest block, and distinct blocks of its order.
const BLOCKS: Limit = Limit::Factor(2.0);

/// Rules as the files name them, and the policies that have them.
const RULES: &[(&str, &str)] =
    &[("limited", "6.1"), ("cached", "cached"), ("order0-only", "order0-pcp")];

/// Replays the work under the rule of each kernel and compares.
///
/// # Errors
/// If the trace cannot be replayed.
pub fn check(path: &Path, captured: &AbTrace) -> Result<FileResult, InputError> {
    let file = path.display().to_string();
    let Some(trace) = trace_of(path, &captured.work) else {
        let why = format!("no trace of {} beside it", captured.work);
        return Ok(super::not_checked(&file, "ab-trace", &why));
    };
    let mut notes = vec![format!("replay of {}", trace.display())];
    let mut kernels: Vec<(&AbKernel, Policy)> = Vec::new();
    for kernel in &captured.kernels {
        match RULES.iter().find(|(rule, _)| *rule == kernel.policy) {
            Some((_, policy)) => kernels.push((kernel, policy_file::load(policy)?)),
            None => notes.push(format!("no policy for the rule \"{}\"", kernel.policy)),
        }
    }
    let policies: Vec<Policy> = kernels.iter().map(|(_, policy)| policy.clone()).collect();
    let report = replay::run(&trace, &policies, None, UseSidecars::Yes)?;
    notes.extend(report.warning_lines());
    let figures =
        kernels.iter().zip(&report.replays).flat_map(|((kernel, _), r)| compare(kernel, r));
    let figures = figures.collect();
    Ok(FileResult { file, kind: "ab-trace".to_owned(), figures, not_checked: None, notes })
}

fn trace_of(path: &Path, work: &str) -> Option<PathBuf> {
    // A name, not a path: no file outside these directories is opened.
    if work.contains(['/', '\\']) {
        return None;
    }
    let here = path.parent()?;
    let names = [format!("{work}.trace.gz"), format!("{work}.trace")];
    let directories = [here.join("../traces"), here.to_path_buf()];
    let mut candidates = directories.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
    candidates.find(|candidate| candidate.is_file())
}

fn compare(kernel: &AbKernel, replay: &Replay) -> Vec<Figure> {
    let rule = kernel.policy.as_str();
    let events = |kind: EventKind| kernel.events.get(kind.name()).copied().unwrap_or(0);
    let mut figures = trace::events(rule, events, &replay.tally).to_vec();
    if let Some(hottest) = kernel.hottest.first() {
        let model = replay.tally.hottest_uses();
        figures.push(Figure::number(format!("{rule}: hottest block"), hottest.uses, model, BLOCKS));
        let order = hottest.order;
        let real = kernel.distinct_blocks_by_order.get(&order).copied().unwrap_or(0);
        let model = replay.tally.distinct().get(usize::from(order)).copied().unwrap_or(0);
        let field = format!("{rule}: distinct blocks of order {order}");
        figures.push(Figure::number(field, real, model, BLOCKS));
    }
    figures
}
