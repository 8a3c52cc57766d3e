//! Facts that the text lacks, and numbers in it that do not agree.

use highwater_results::import::log::{Finding, Report, ReportKind};

use super::cause::{Cause, Reasons};
use super::holder::all_tasks;
use super::judge::Judge;
use super::words::{kb_text, total};
use super::zone::{ZoneRow, page_size};

/// Damage by which parts of a report are lost. Other damage is undone without loss.
const LOSSY: [&str; 6] = [
    "broken line",
    "cut",
    "head cut",
    "lines cut at the right",
    "lists missing",
    "two reports mixed",
];

/// `node 0 Normal`, or the zone alone.
fn place(node: Option<u32>, zone: &str) -> String {
    node.map_or_else(|| zone.to_owned(), |node| format!("node {node} {zone}"))
}

/// Sentences, the most important first.
pub(super) fn of(
    report: &Report,
    judge: &Judge,
    rows: &[ZoneRow<'_>],
    reasons: &Reasons,
) -> Vec<String> {
    let mut found = Vec::new();
    if !reasons.is_certain && reasons.cause != Cause::CannotTell {
        found.push(
            "the reason above is likely, not certain: the text lacks a part of it".to_owned(),
        );
    }
    if reasons.cause == Cause::CmaOnly && judge.rights.is_some_and(|rights| rights.movable) {
        found.push(
            "movable requests may use CMA in Linux itself; some vendors' kernels refuse it"
                .to_owned(),
        );
    }
    // The severity says that the kill is missing.
    let missing: Vec<&str> =
        report.missing.iter().map(String::as_str).filter(|part| *part != "kill").collect();
    if !missing.is_empty() {
        found.push(format!("not in the text: {}", missing.join(", ")));
    }
    found.extend(judge.note.clone());
    let hidden = rows.iter().any(|row| row.allowed == Some(true) && row.passes.is_none());
    if hidden && judge.hides_highatomic() {
        found.push(
            "the kernel sets high-atomic pageblocks aside (type H) and does not print how many: the test of the \
             watermark depends on it"
                .to_owned(),
        );
    }
    if super::zone::is_of_unknown_node(report, rows) {
        found.push("the node of the request (__GFP_THISNODE) is not in the text".to_owned());
    }
    if super::judge::ignores_marks(report) && !rows.is_empty() {
        found.push(
            "this request may ignore watermarks (PF_MEMALLOC): free pages were used up, or came free before the dump"
                .to_owned(),
        );
    }
    if report.page_size.is_none() && !rows.is_empty() {
        found.push("the size of a page is not in the text: taken to be 4 kB".to_owned());
    }
    found.extend(cut_table(report));
    if report.request.follows_dump {
        found.push("the request stands after the dump: they may not belong together".to_owned());
    }
    let (lists, free): (Vec<_>, Vec<_>) = report
        .findings
        .iter()
        .filter(|finding| matches!(finding, Finding::ListSum { .. } | Finding::FreeDiffers { .. }))
        .partition(|finding| matches!(finding, Finding::ListSum { .. }));
    for finding in lists {
        if let Finding::ListSum { node, zone, printed_kb, sum_kb } = finding {
            found.push(format!(
                "the blocks of {} add up to {}, printed are {}",
                place(*node, zone),
                kb_text(*sum_kb),
                kb_text(*printed_kb)
            ));
        }
    }
    let differing = free.iter().filter_map(|finding| match finding {
        Finding::FreeDiffers { node, zone, free_kb, list_kb } => {
            Some((place(*node, zone), free_kb.abs_diff(*list_kb)))
        }
        _ => None,
    });
    if let Some((zone, kb)) = differing.max_by_key(|(_, kb)| *kb) {
        found.push(format!(
            "free and the free list of {zone} differ by {}: memory was freed or taken while the report was printed",
            kb_text(kb)
        ));
    }
    if let Some(node) = report.findings.iter().find_map(|finding| match finding {
        Finding::NodeWithoutZones { node } => Some(node),
        _ => None,
    }) {
        found.push(format!(
            "node {node} has no zone lines: kernels leave out nodes that the request may not use"
        ));
    }
    let lost: Vec<&str> =
        report.damage.iter().map(String::as_str).filter(|damage| LOSSY.contains(damage)).collect();
    if !lost.is_empty() {
        found.push(format!("the text is damaged: {}", lost.join(", ")));
    }
    found
}

/// A table whose tasks hold less than half of anonymous memory: people leave most rows out.
fn cut_table(report: &Report) -> Option<String> {
    let counter = |name: &str| report.counters.get(name).copied();
    let anon = counter("active_anon")?.saturating_add(counter("inactive_anon")?);
    let anon = anon.saturating_sub(counter("shmem").unwrap_or(0));
    let anon_kb = anon.saturating_mul(page_size(report) / 1024);
    let tasks = all_tasks(report);
    let kb = total(tasks.iter().map(|(_, task)| task.kb));
    (report.kind == ReportKind::Oom && !tasks.is_empty() && kb < anon_kb / 2).then(|| {
        format!(
            "the tasks in the table hold {} of {} of anonymous memory: most tasks are not in the text",
            kb_text(kb),
            kb_text(anon_kb)
        )
    })
}
