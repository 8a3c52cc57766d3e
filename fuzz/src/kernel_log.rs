//! Kernel logs: `highwater diagnose`.

use highwater_linux::diagnose::{Answer, Cause, answers, json, markdown, terminal};
use highwater_results::import::log::Log;

/// Any bytes are a log, perhaps without reports. The answers stay inside the text, all three forms
/// can be written, and nothing is certain that needs zones which are not there.
pub fn kernel_log(bytes: &[u8]) {
    let log = Log::read(bytes);
    // Reports may be interleaved, and two heads may stand on one line.
    for report in &log.reports {
        assert!(report.first_line >= 1 && report.first_line <= report.last_line);
        assert!(report.last_line <= log.lines);
    }
    for relation in &log.relations {
        assert!(relation.earlier < relation.later && relation.later < log.reports.len());
    }
    let answers = answers(&log);
    assert_eq!(answers.len(), log.reports.len());
    answers.iter().for_each(claims_what_it_has);
    for width in [40, 100] {
        prints(&terminal(&log, &answers, None, width));
    }
    prints(&markdown(&log, &answers, None));
    for nr in 1..=answers.len().min(4) {
        prints(&terminal(&log, &answers, Some(nr), 100));
        prints(&markdown(&log, &answers, Some(nr)));
    }
    let document = json(&log, &answers);
    assert_eq!(document["reports"].as_array().map(Vec::len), Some(answers.len()));
    assert!(serde_json::to_string(&document).is_ok_and(|text| !text.is_empty()));
}

fn claims_what_it_has(answer: &Answer<'_>) {
    let of_zones = !matches!(
        answer.reasons.cause,
        Cause::MemcgLimit | Cause::VmallocSpace | Cause::Requested | Cause::CorruptMarks
    );
    let is_certain = answer.reasons.is_certain;
    assert!(!is_certain || answer.reasons.cause != Cause::CannotTell);
    assert!(!is_certain || !of_zones || !answer.rows.is_empty(), "certain without zones");
    assert!(!answer.reasons.also.contains(&answer.reasons.cause), "a cause is named twice");
    for row in &answer.rows {
        assert!(row.passes.is_none() || row.spare_pages.is_some(), "a test without numbers");
        assert!(!row.serves() || row.allowed == Some(true));
    }
    let texts = answer.remedies.iter().flat_map(|remedy| [&remedy.change, &remedy.result]);
    for text in texts.chain([&answer.sentence]).chain(&answer.unknown) {
        assert!(!text.is_empty());
        crate::is_one_line(text);
    }
}

/// Output for a terminal has line ends and no other control characters.
fn prints(text: &str) {
    text.lines().for_each(crate::is_one_line);
}
