//! Facts that the text lacks, and numbers in it that do not agree.

use highwater_results::import::log::{Finding, Report};

use super::judge::Judge;
use super::words::kb_text;
use super::zone::ZoneRow;

/// Sentences, the most important first.
pub(super) fn of(report: &Report, judge: &Judge, rows: &[ZoneRow<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    if !report.missing.is_empty() {
        found.push(format!("not in the text: {}", report.missing.join(", ")));
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
    let rules = report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
    let ignores = rules.is_some_and(|rules| {
        !rules.nomemalloc && (rules.memalloc || super::judge::reclaims(report))
    });
    if ignores && !rows.is_empty() {
        found.push(
            "this request may ignore watermarks (PF_MEMALLOC): free pages were used up, or came free before the dump"
                .to_owned(),
        );
    }
    if report.page_size.is_none() && !rows.is_empty() {
        found.push("the size of a page is not in the text: taken to be 4 kB".to_owned());
    }
    if report.request.follows_dump {
        found.push("the request stands after the dump: they may not belong together".to_owned());
    }
    let (lists, free): (Vec<_>, Vec<_>) = report
        .findings
        .iter()
        .filter(|finding| matches!(finding, Finding::ListSum { .. } | Finding::FreeDiffers { .. }))
        .partition(|finding| matches!(finding, Finding::ListSum { .. }));
    for finding in lists {
        if let Finding::ListSum { zone, printed_kb, sum_kb, .. } = finding {
            found.push(format!(
                "the blocks of {zone} add up to {}, printed are {}",
                kb_text(*sum_kb),
                kb_text(*printed_kb)
            ));
        }
    }
    let differing = free.iter().filter_map(|finding| match finding {
        Finding::FreeDiffers { zone, free_kb, list_kb, .. } => {
            Some((zone.as_str(), free_kb.abs_diff(*list_kb)))
        }
        _ => None,
    });
    if let Some((zone, kb)) = differing.max_by_key(|(_, kb)| *kb) {
        found.push(format!(
            "free and the free list of {zone} differ by {}: memory moved while the report was printed",
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
    if !report.damage.is_empty() {
        found.push(format!("the text is damaged: {}", report.damage.join(", ")));
    }
    found
}
