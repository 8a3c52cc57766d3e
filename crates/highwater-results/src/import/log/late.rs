//! Requests that stand after their dump, or between its halves: the lines changed their order.

use super::draft::Draft;
use super::request::{ReportKind, Task};
use super::zone::Zone;

/// Seconds between a dump and a request that is printed after it.
const LATE_HEAD_SECONDS_MAX: f64 = 1.0;

/// Joins each dump without a request with the request after it.
pub(super) fn joined(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut joined: Vec<Draft> = Vec::with_capacity(drafts.len());
    for after in drafts {
        match joined.last_mut() {
            Some(before) if is_late_head(before, &after) => join(before, after),
            _ => joined.push(after),
        }
    }
    joined
}

fn join(draft: &mut Draft, after: Draft) {
    draft.report.last_line = after.report.last_line;
    draft.marks |= after.marks;
    draft.report.request.follows_dump = true;
    if draft.report.task == Task::default() {
        draft.report.task = after.report.task;
    }
    draft.report.kernel = draft.report.kernel.take().or(after.report.kernel);
    draft.head = after.head;
    for zone in after.report.zones {
        match draft.zone(zone.node, &zone.name) {
            Some(at) => {
                let mine = &mut draft.report.zones[at].list;
                *mine = mine.take().or(zone.list);
            }
            None => draft.report.zones.push(zone),
        }
    }
}

/// True if the request of a dump is printed after it.
fn is_late_head(before: &Draft, after: &Draft) -> bool {
    let is_close = match (before.report.time, after.report.time) {
        (Some(a), Some(b)) => (b - a).abs() <= LATE_HEAD_SECONDS_MAX,
        _ => false,
    };
    let is_failure = after.head.as_ref().is_some_and(|head| {
        matches!(head.kind, ReportKind::PageAllocationFailure | ReportKind::Vmalloc)
    });
    let is_bare = !after.has_dump() || has_other_half(before, after);
    let is_headless = before.head.is_none() && before.has_dump() && before.report.kill.is_none();
    is_close && is_failure && is_bare && after.report.kill.is_none() && is_headless
}

/// True if one report has the lines of the zones and the other one their free lists, as in a mail
/// that quotes them one by one. The kernel printed the request before the lines.
fn has_other_half(before: &Draft, after: &Draft) -> bool {
    let (lines, lists) = (&before.report.zones, &after.report.zones);
    let is_lines = |zone: &Zone| zone.has_line && zone.list.is_none();
    let is_list = |zone: &Zone| !zone.has_line;
    let is_rest = after.report.nodes.is_empty() && after.report.counters.is_empty();
    let is_earlier = before.report.time > after.report.time;
    let are_same = lines.iter().all(|zone| after.zone(zone.node, &zone.name).is_some());
    let are_halves = lines.iter().all(is_lines) && lists.iter().all(is_list);
    is_rest && is_earlier && are_same && are_halves && !lines.is_empty() && !after.has_mem_info
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one, read};

    #[test]
    fn a_request_between_the_halves_of_its_dump() {
        let text = "[   12.000003] DMA free:8kB min:4kB low:8kB high:12kB managed:64kB\n\
                That is above the mark. The request:\n\
                [   12.000001] weaver: page allocation failure: order:4, mode:0xc0d0\n\
                [   12.000005] DMA: 0*4kB 1*8kB = 8kB\n";
        let report = one(text);
        assert!(report.request.follows_dump && report.request.order == Some(4));
        assert_eq!((report.zones.len(), report.zones[0].free), (1, Some(8)));
        assert_eq!(report.zones[0].list.as_ref().unwrap().total_kb, Some(8));
        let later = text.replace("12.000001", "12.000004");
        assert_eq!(read(&later).reports.len(), 2, "the request is not that of the dump");
    }
}
