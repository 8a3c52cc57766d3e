//! Answers as text for a terminal, as Markdown, and as JSON.

use std::fmt::Write as _;

use highwater_report::render::{Format, wrapped};
use highwater_report::{Cell, Layout, Table};
use highwater_results::import::log::{Log, Relation, RelationKind, ReportKind};
use serde_json::{Value, json};

use super::cause::Cause;
use super::fitted::LINES_MAX;
use super::words::{kb_text, order_text, time_text};
use super::zone::{ZoneRow, page_size};
use super::{Answer, Holder, Remedy};

/// Schema of the JSON form.
const SCHEMA: &str = "highwater.diagnose/1";
/// Most zones in the table; a report of a large machine has dozens.
const ZONES_MAX: usize = 8;
/// Most holders in words.
const HOLDERS_MAX: usize = 4;

/// The first lines of an answer: reason, severity, the report in brief.
pub(super) fn headline(answer: &Answer<'_>) -> Vec<String> {
    let mut lines = vec![answer.sentence.clone()];
    lines.extend(answer.severity.clone());
    lines
}

/// The request, its task and its kernel in one line.
pub(super) fn request(answer: &Answer<'_>) -> String {
    let report = answer.report;
    let mut text = match report.kind {
        ReportKind::PageAllocationFailure => "page allocation failure",
        ReportKind::Oom | ReportKind::MemcgOom if report.request.gfp.is_none() => "OOM kill",
        ReportKind::Oom if report.kill.as_ref().is_some_and(|kill| kill.has_panicked) => {
            "OOM panic, at a request"
        }
        ReportKind::Oom => match report.constraint.as_deref() {
            Some("CPUSET") => "OOM kill in a cpuset, at a request",
            Some("MEMORY_POLICY") => "OOM kill under a memory policy, at a request",
            _ => "OOM kill, at a request",
        },
        ReportKind::MemcgOom => "OOM kill in a memory cgroup, at a request",
        ReportKind::Vmalloc => "vmalloc failure",
        ReportKind::Stall => "stalled request",
        ReportKind::Other => "memory dump",
    }
    .to_owned();
    // Writing to a string does not fail.
    if let Some(comm) = &report.task.comm {
        let _ = write!(text, " of {comm}");
        if let Some(pid) = report.task.pid {
            let _ = write!(text, " (pid {pid})");
        }
    }
    if let Some(order) = report.request.order.and_then(|order| u32::try_from(order).ok()) {
        let _ = write!(text, ", {}", order_text(order, page_size(report)));
    }
    if let Some(gfp) = &report.request.gfp {
        // Blanks let a long list break between its names.
        let by = |names: &[String]| if names.len() > 4 { " | " } else { "|" };
        let names = gfp.names.as_ref().map(|names| names.join(by(names)));
        let _ = write!(text, ", {}", names.unwrap_or_else(|| gfp.printed.clone()));
    }
    if let Some(ms) = report.request.waited_ms {
        let _ = write!(text, ", waited {}", time_text(ms.saturating_mul(1_000_000)));
    }
    if let Some(kernel) = &report.kernel {
        let _ = write!(text, ", Linux {}", kernel.release);
    }
    let _ = write!(text, ", lines {} to {}", report.first_line, report.last_line);
    text
}

pub(super) fn zones(answer: &Answer<'_>) -> Option<Table> {
    if answer.rows.is_empty() {
        return None;
    }
    let columns = ["free", "mark", "reserve", "left over", "largest block", "for this request"];
    let columns = columns.map(str::to_owned).to_vec();
    let rules = &answer.judge.policy.name;
    let mut table = Table::new(
        format!("Zones, tested by the rules of {rules}{}", nearest(answer)),
        &["zone"],
        columns,
        Layout::Fitted,
    );
    let page = page_size(answer.report);
    let size = |pages: u64| kb_text(pages.saturating_mul(page) / 1024);
    let or_missing = |text: Option<String>| text.map_or(Cell::Missing, Cell::text);
    let populated: Vec<&ZoneRow<'_>> =
        answer.rows.iter().filter(|row| row.is_populated() || row.allowed == Some(true)).collect();
    for row in populated.iter().take(ZONES_MAX) {
        let zone = row.zone;
        let mark = row.mark_pages.map(size).or_else(|| zone.min.map(kb_text));
        let largest = zone.largest_free_order().map(|order| order_text(order, page));
        table.push(
            &[&row.name()],
            vec![
                or_missing(zone.free.map(kb_text)),
                or_missing(mark),
                or_missing(row.reserve_pages.map(size)),
                or_missing(row.spare_pages.map(|spare| format!("{spare} pages"))),
                or_missing(largest),
                Cell::text(for_request(answer, row)),
            ],
        );
    }
    let nr_more = populated.len().saturating_sub(ZONES_MAX);
    if nr_more > 0 {
        table.notes.push(format!("{nr_more} more zones are in the JSON form"));
    }
    table.notes.extend(not_counted(&populated[..populated.len().min(ZONES_MAX)]));
    if answer.judge.rights.is_some() {
        table.notes.push(
            "mark: what the request must leave; reserve: kept for requests that cannot use higher zones (lowmem_reserve); \
             left over: free pages beyond both and the request; at least 1 has to be left"
                .to_owned(),
        );
    }
    Some(table)
}

/// ` (the nearest to 3.10)` if there is no preset of the kernel's own version.
fn nearest(answer: &Answer<'_>) -> String {
    let version = answer.report.kernel.as_ref().and_then(|kernel| kernel.version);
    let Some(version) = version else { return String::new() };
    let own = format!("{}.{}", version.major, version.minor);
    if own == answer.judge.policy.name { String::new() } else { format!(" (the nearest to {own})") }
}

/// Free memory that the request may not have, by zone.
fn not_counted(rows: &[&ZoneRow<'_>]) -> Option<String> {
    let mut parts = Vec::new();
    for row in rows.iter().filter(|row| row.allowed == Some(true)) {
        let kept = [
            (row.highatomic_in_test(), "set aside for atomic requests"),
            (row.unusable_cma, "CMA"),
        ];
        let kept = kept.iter().filter_map(|(kb, what)| Some((kb.filter(|kb| *kb > 0)?, what)));
        parts.extend(kept.map(|(kb, what)| format!("{} {} {what}", row.name(), kb_text(kb))));
    }
    (!parts.is_empty()).then(|| format!("of free, left over does not count: {}", parts.join(", ")))
}

/// The zone as the request finds it.
fn for_request(answer: &Answer<'_>, row: &ZoneRow<'_>) -> String {
    if answer.reasons.cause == Cause::VmallocSpace {
        return "not asked".to_owned();
    }
    match (row.allowed, row.passes, row.has_block) {
        (None, ..) => "request not in the text".to_owned(),
        (Some(false), ..) => "may not use it".to_owned(),
        (_, Some(false), _) if row.spare_pages.is_some_and(|spare| spare > 0) => {
            "too much of it in lower orders".to_owned()
        }
        (_, Some(false), _) => "below mark and reserve".to_owned(),
        (_, Some(true), Some(false)) if !row.kept_types.is_empty() => {
            format!("no block (but of type {})", row.kept_types)
        }
        (_, Some(true), Some(false)) => "no block".to_owned(),
        (_, Some(true), _) => "would serve it".to_owned(),
        (_, None, _) => "not known".to_owned(),
    }
}

/// The holders of the memory in one line; none if the text does not say.
fn holders(answer: &Answer<'_>) -> Option<String> {
    let all = answer.memory_kb;
    let share = |holder: &Holder| match all {
        Some(all) if all > 0 => {
            format!(
                "{} {} ({:.0} %)",
                holder.what,
                kb_text(holder.kb),
                holder.kb as f64 * 100.0 / all as f64
            )
        }
        _ => format!("{} {}", holder.what, kb_text(holder.kb)),
    };
    let words: Vec<String> = answer.holders.iter().take(HOLDERS_MAX).map(share).collect();
    let of = all.map_or_else(String::new, |kb| format!("Of {}: ", kb_text(kb)));
    (!words.is_empty()).then(|| format!("{of}{}.", words.join(", ")))
}

/// The largest tasks in one line.
fn tasks(answer: &Answer<'_>) -> Option<String> {
    let size = |task: &Holder| match task.swap_kb {
        Some(swap) => format!("{} {} and {} in swap", task.what, kb_text(task.kb), kb_text(swap)),
        None => format!("{} {}", task.what, kb_text(task.kb)),
    };
    let words: Vec<String> = answer.tasks.iter().map(size).collect();
    (!words.is_empty()).then(|| format!("Largest tasks: {}.", words.join(", ")))
}

/// All answers as text of this width: reasons first. `only` (from 1) picks one report.
#[must_use]
pub fn terminal(log: &Log, answers: &[Answer<'_>], only: Option<usize>, width: usize) -> String {
    let lines = || Lines { lines: Vec::new(), width };
    let (mut out, mut shown) = (lines(), lines());
    let number = only.unwrap_or(1);
    if let Some(answer) = answers.get(number.saturating_sub(1)) {
        if answers.len() > 1 {
            shown.plain(format!("Report {number} of {}", answers.len()));
        }
        one(answer, &mut shown);
    }
    if answers.len() > 1 && only.is_none() {
        overview(log, answers, LINES_MAX.saturating_sub(shown.lines.len()), &mut out);
    }
    out.lines.append(&mut shown.lines);
    out.lines.join("\n") + "\n"
}

/// Most reports with their reason, and most relations.
const REPORTS_MAX: usize = 10;
const RELATIONS_MAX: usize = 3;

/// The reason of each report, and how they relate, in about so many lines.
fn overview(log: &Log, answers: &[Answer<'_>], room: usize, out: &mut Lines) {
    let mut nr = 0;
    for answer in answers.iter().take(REPORTS_MAX) {
        let before = out.lines.len();
        let has_panicked = answer.report.kill.as_ref().is_some_and(|kill| kill.has_panicked);
        let panic = if has_panicked { " The kernel panicked." } else { "" };
        out.item(&format!("{:>3}  ", nr + 1), &format!("{}{panic}", answer.sentence));
        // The last two lines say how many there are.
        if nr > 0 && out.lines.len() + 3 > room {
            out.lines.truncate(before);
            break;
        }
        nr += 1;
    }
    if answers.len() > nr {
        out.plain(format!("     and {} more", answers.len() - nr));
    }
    for relation in relations(log).iter().take(RELATIONS_MAX) {
        if out.lines.len() + 3 <= room {
            out.item("     ", relation);
        }
    }
    out.plain(format!("{} reports; --report N shows another one in full.", answers.len()));
    out.blank();
}

/// How reports relate, in words.
pub(super) fn relations(log: &Log) -> Vec<String> {
    let words = |relation: &Relation| {
        let (earlier, later) = (relation.earlier + 1, relation.later + 1);
        let what = match relation.kind {
            RelationKind::SameProcess => "the same process reports again",
            RelationKind::SameRequest => "the same request of another process",
            RelationKind::OomAfterFailure => "the OOM killer runs after the refusal",
            RelationKind::SameVictim => "the same process is killed",
        };
        let after = relation.seconds.filter(|s| *s >= 0.0);
        let after = after.map_or_else(String::new, |s| format!(", {s:.3} s later"));
        format!("reports {earlier} and {later}: {what}{after}")
    };
    log.relations.iter().map(words).collect()
}

fn one(answer: &Answer<'_>, out: &mut Lines) {
    for line in headline(answer) {
        out.item("", &line);
    }
    if !answer.to_do.is_empty() {
        out.plain("To do:".to_owned());
        answer.to_do.iter().for_each(|line| out.item("  - ", line));
    }
    out.item("", &request(answer));
    if let Some(table) = zones(answer) {
        out.blank();
        let text = Format::Terminal.tables(&[table], out.width);
        out.lines.extend(text.trim_end().lines().map(str::to_owned));
    }
    if !answer.remedies.is_empty() {
        out.blank();
        out.plain(asked(answer).to_owned());
        for remedy in &answer.remedies {
            out.item(helps(remedy), &format!("{}: {}", remedy.change, remedy.result));
        }
    }
    let held: Vec<String> = holders(answer).into_iter().chain(tasks(answer)).collect();
    if !held.is_empty() {
        out.blank();
        out.plain("What holds the memory".to_owned());
        held.iter().for_each(|line| out.item("  ", line));
    }
    if !answer.unknown.is_empty() {
        out.blank();
        out.plain("What cannot be known from the text".to_owned());
        answer.unknown.iter().for_each(|line| out.item("  - ", line));
    }
}

/// The heading of the trials.
pub(super) const fn asked(answer: &Answer<'_>) -> &'static str {
    match answer.report.kind {
        ReportKind::Oom | ReportKind::MemcgOom => "Would this have helped?",
        _ => "Trials on these numbers: would it have been served?",
    }
}

pub(super) const fn helps(remedy: &Remedy) -> &'static str {
    match remedy.helps {
        Some(true) => "  yes  ",
        Some(false) => "  no   ",
        None => "  ?    ",
    }
}

/// Lines of a text that is not wider than this.
struct Lines {
    lines: Vec<String>,
    width: usize,
}

impl Lines {
    fn plain(&mut self, line: String) {
        self.lines.push(line);
    }

    fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A text behind a mark; further lines are indented as the first.
    fn item(&mut self, mark: &str, text: &str) {
        let indent = " ".repeat(mark.len());
        let room = self.width.saturating_sub(mark.len()).max(20);
        for (number, line) in wrapped(text, room).into_iter().enumerate() {
            self.lines.push(format!("{}{line}", if number == 0 { mark } else { &indent }));
        }
    }
}

/// All answers as Markdown for a ticket.
#[must_use]
pub fn markdown(log: &Log, answers: &[Answer<'_>], only: Option<usize>) -> String {
    let mut text = String::new();
    let chosen =
        answers.iter().enumerate().filter(|(at, _)| only.is_none_or(|only| only == at + 1));
    for (index, answer) in chosen {
        // Writing to a string does not fail.
        if answers.len() > 1 {
            let _ = writeln!(text, "## Report {} of {}\n", index + 1, answers.len());
        }
        let _ = writeln!(text, "**{}**\n", answer.sentence);
        if let Some(severity) = &answer.severity {
            let _ = writeln!(text, "{severity}\n");
        }
        for line in &answer.to_do {
            let _ = writeln!(text, "- {line}");
        }
        if !answer.to_do.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "_{}_\n", request(answer));
        if let Some(table) = zones(answer) {
            let _ = writeln!(text, "{}", Format::Markdown.tables(&[table], 0));
        }
        if !answer.remedies.is_empty() {
            let _ = writeln!(text, "{}\n", asked(answer));
            for remedy in &answer.remedies {
                let helps = helps(remedy).trim();
                let _ = writeln!(text, "- {helps}: {}: {}", remedy.change, remedy.result);
            }
            text.push('\n');
        }
        for line in holders(answer).into_iter().chain(tasks(answer)) {
            let _ = writeln!(text, "{line}\n");
        }
        if !answer.unknown.is_empty() {
            let _ = writeln!(text, "What cannot be known from the text:\n");
            for line in &answer.unknown {
                let _ = writeln!(text, "- {line}");
            }
            text.push('\n');
        }
    }
    for relation in relations(log).iter().filter(|_| only.is_none()) {
        let _ = writeln!(text, "- {relation}");
    }
    text
}

/// The answers as JSON: a list `reports`, and how they relate. What the text does not say is
/// `null`.
#[must_use]
pub fn json(log: &Log, answers: &[Answer<'_>]) -> Value {
    json!({
        "schema": SCHEMA,
        "lines": log.lines,
        "reports": answers.iter().map(report).collect::<Vec<_>>(),
        "relations": log.relations,
    })
}

fn report(answer: &Answer<'_>) -> Value {
    let report = answer.report;
    let gfp = report.request.gfp.as_ref();
    let memory = report.memcg.as_ref().and_then(|memcg| memcg.memory);
    json!({
        "lines": [report.first_line, report.last_line],
        "kernel": report.kernel.as_ref().map(|kernel| &kernel.release),
        "arch": report.arch,
        "kind": report.kind,
        "order": report.request.order,
        "gfp": gfp.map(|gfp| &gfp.printed),
        "gfp_names": gfp.and_then(|gfp| gfp.names.as_ref()),
        "highest_zone": report.highest_zone.as_ref().or(report.zone_by_bits.as_ref()),
        "zone_types": Some(&report.zone_types).filter(|types| !types.is_empty()),
        "constraint": report.constraint,
        "page_size": report.page_size,
        "zones": answer.rows.iter().map(zone).collect::<Vec<_>>(),
        "swap": { "free_swap": report.swap.free, "total_swap": report.swap.total },
        "memcg": memory.map(|memory| json!({ "usage": memory.usage, "limit": memory.limit })),
        "slab_unreclaimable_pages": report.counters.get("slab_unreclaimable"),
        "ram_pages": report.pages.ram,
        "cause": answer.reasons.cause,
        "also": answer.reasons.also,
        "explanation": answer.sentence,
        "severity": answer.severity,
        "to_do": answer.to_do,
        "certain": if answer.reasons.is_certain { "yes" } else { "no" },
        "rules": answer.judge.policy.name,
        "memory_kb": answer.memory_kb,
        "holders": answer.holders,
        "tasks": answer.tasks,
        "remedies": answer.remedies,
        "not_known": answer.unknown,
        "missing": report.missing,
        "findings": report.findings,
        "damage": report.damage,
        "prefix": report.prefix,
    })
}

fn zone(row: &ZoneRow<'_>) -> Value {
    let zone = row.zone;
    json!({
        "node": zone.node,
        "name": zone.name,
        "free": zone.free,
        "min": zone.min,
        "low": zone.low,
        "high": zone.high,
        "boost": zone.boost,
        "reserve_for_request": row.reserve_pages,
        "managed": zone.managed,
        "unusable": { "cma": row.unusable_cma, "highatomic": row.unusable_highatomic },
        "allowed": row.allowed,
        "mark_pages": row.mark_pages,
        "spare_pages": row.spare_pages,
        "passes_watermark": row.passes,
        "largest_free_order": zone.largest_free_order(),
        "has_block_for_request": row.has_block,
    })
}
