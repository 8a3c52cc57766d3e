//! Records: what the kernel printed as one message, joined from the lines that damage made of it.
//!
//! A record begins with a line that is recognised by its first tokens. Lines that fit the grammar
//! of the open record continue it. All other lines are text of other subsystems and leave the open
//! record alone. Each caller (`[ T123]`) has an open record of its own, so messages of two CPUs
//! may alternate.

use std::collections::HashMap;

use super::joint::{Joint, is_column_part, is_half_name, joint};
use super::kind::{Kind, classify};
use super::lines::{Line, mark};
use super::prefix::is_foreign;
use super::split::{is_partial, is_partial_head, joined_tokens, unjoined};
use super::zone::{is_counter_name, kb, number};

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// The lines that it was joined from.
    pub(super) parts: Vec<String>,
    /// First and last line of the input.
    pub(super) lines: (usize, usize),
    /// All marks of its lines.
    pub(super) marks: u16,
    /// True if its last token may be shortened.
    pub(super) is_open_ended: bool,
    /// True if it was joined from several lines that are not parts of one.
    pub(super) is_wrapped: bool,
    /// The prefix of its first line.
    pub(super) prefix: super::prefix::Prefix,
}

impl Record {
    /// All of its text on one line.
    pub(super) fn text(&self) -> String {
        self.tokens().join(" ")
    }

    /// Its tokens. Tokens that a line end broke are put together where the halves can only belong
    /// together; two halves of a number are left out, because digits between them may be lost.
    pub(super) fn tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = Vec::new();
        for part in &self.parts {
            let mut words = part.split_whitespace();
            if let (Some(last), Some(first)) = (tokens.last_mut(), words.next()) {
                match joint(last, first, self.kind) {
                    Joint::Glue => last.push_str(first),
                    Joint::Drop => {
                        tokens.pop();
                    }
                    Joint::Apart => tokens.push(first.to_owned()),
                }
            } else if let Some(first) = part.split_whitespace().next() {
                tokens.push(first.to_owned());
            }
            for word in words {
                // `slab_ reclaimable:0kB`: a blank in a name, where a line end once was.
                let has_units = matches!(self.kind, Kind::Zone | Kind::Node);
                match tokens.last_mut() {
                    Some(last) if has_units && is_half_name(last, word) => last.push_str(word),
                    _ => tokens.push(word.to_owned()),
                }
            }
        }
        tokens
    }

    /// True if more of it is to come, for kinds of which that shows.
    pub(super) fn is_unfinished(&self) -> bool {
        match self.kind {
            Kind::List => !has_total(self),
            Kind::Zone | Kind::Node | Kind::Counters | Kind::Lowmem | Kind::Head => true,
            _ => false,
        }
    }

    /// True if a line end broke a number, with digits lost.
    pub(super) fn has_broken_number(&self) -> bool {
        self.parts.windows(2).any(|pair| {
            let (Some(last), Some(first)) =
                (pair[0].split_whitespace().next_back(), pair[1].split_whitespace().next())
            else {
                return false;
            };
            joint(last, first, self.kind) == Joint::Drop
        })
    }
}

/// Lines of other texts between two lines of a record.
const GAP_LINES_MAX: usize = 16;
/// Lines of a record: a list of 21 orders with each of its tokens on a line has 66.
const PARTS_MAX: usize = 128;

/// Joins lines to records.
pub(super) fn assemble(lines: Vec<Line>) -> Vec<Record> {
    let stamped = lines.iter().filter(|line| line.prefix.form != 0).count();
    let has_prefixes = stamped * 3 > lines.len();
    let mut records: Vec<Record> = Vec::new();
    let mut open: HashMap<Option<String>, usize> = HashMap::new();
    let mut last_caller: Option<String> = None;
    let mut partial: Option<Line> = None;
    // Free lists whose end is still to come, by caller.
    let mut lists: HashMap<Option<String>, usize> = HashMap::new();
    for line in joined_tokens(lines).into_iter().flat_map(unjoined) {
        if line.text.is_empty() || line.marks & mark::TWICE != 0 {
            note(&mut records, &line);
            continue;
        }
        // The start of a message waits for its rest, while lines of other messages pass by.
        partial = partial.filter(|start| line.number - start.number < GAP_LINES_MAX);
        let line = match partial.as_ref().and_then(|start| completed(start, &line)) {
            Some(whole) => {
                partial = None;
                whole
            }
            None => line,
        };
        let caller =
            if line.prefix.form == 0 { last_caller.clone() } else { line.prefix.caller.clone() };
        let is_foreign = has_prefixes && line.prefix.form == 0 && is_foreign(&line.text);
        let kind = if is_foreign { foreign_kind(&line.text) } else { classify(&line.text) };
        let is_bare = has_prefixes && line.prefix.form == 0;
        if let Some(record) = open.get(&caller).and_then(|index| records.get_mut(*index))
            && line.number.saturating_sub(record.lines.1) < GAP_LINES_MAX
            && record.parts.len() < PARTS_MAX
            && !is_foreign
            && continues(record, kind, &line.text, is_bare || !has_prefixes)
        {
            let is_part = line.marks & (mark::OCTAL | mark::HEX) != 0;
            let is_apart = !is_part && line.number != record.lines.1;
            if is_apart && line.prefix.form != 0 {
                record.marks |= mark::TOKENS;
            } else {
                record.is_wrapped |= is_apart;
            }
            record.lines.1 = record.lines.1.max(line.number);
            record.marks |= line.marks;
            record.is_open_ended = line.is_open_ended();
            record.parts.push(line.text);
            continue;
        }
        // Messages of another CPU may stand between the parts of a list.
        if let Some(list) = lists.get(&caller).and_then(|index| records.get_mut(*index))
            && kind == Kind::Other
            && !is_foreign
            && line.number.saturating_sub(list.lines.1) < GAP_LINES_MAX
            && list.parts.len() < PARTS_MAX
            && is_rest_of_list(list, &line.text)
        {
            list.lines.1 = line.number;
            list.marks |= line.marks | mark::TOKENS;
            list.is_open_ended = line.is_open_ended();
            list.parts.push(line.text);
            continue;
        }
        if is_partial(&line.text) || is_partial_head(&line.text) {
            partial = Some(line);
            continue;
        }
        if kind == Kind::List {
            lists.insert(caller.clone(), records.len());
        }
        let is_kept = !matches!(kind, Kind::Other | Kind::Trace | Kind::Gap);
        if is_kept {
            open.insert(caller.clone(), records.len());
        }
        last_caller = caller;
        records.push(Record {
            kind,
            lines: (line.number, line.number),
            marks: line.marks,
            is_open_ended: line.is_open_ended(),
            is_wrapped: false,
            prefix: line.prefix,
            parts: vec![line.text],
        });
    }
    records
}

/// The start of a message and the line that goes on with it; none if the line is of another one.
fn completed(start: &Line, line: &Line) -> Option<Line> {
    if line.text.starts_with("Node ") || line.text == "Node" {
        return None;
    }
    let text = format!("{} {}", start.text, line.text);
    let is_known = !matches!(classify(&text), Kind::Other | Kind::Trace | Kind::Gap);
    (is_known || is_partial(&text) || is_partial_head(&text)).then(|| Line {
        number: start.number,
        prefix: start.prefix.clone(),
        text,
        marks: start.marks | line.marks | mark::TOKENS,
    })
}

/// A logger reports messages that it did not write.
fn foreign_kind(text: &str) -> Kind {
    let has_lost = text.contains(" lost ") || text.contains("uppressed ");
    if has_lost && text.contains(" messages") { Kind::Gap } else { Kind::Other }
}

/// Marks of a line that adds nothing belong to the record before it.
fn note(records: &mut [Record], line: &Line) {
    if let Some(record) = records.last_mut() {
        record.marks |= line.marks & (mark::TWICE | mark::PADDED);
    }
}

/// True if a line continues a record. `is_free`: the line has no prefix of its own, so it may be
/// the rest of a wrapped line.
fn continues(record: &Record, kind: Kind, text: &str, is_free: bool) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    let all = |fits: &dyn Fn(&str) -> bool| text.split_whitespace().all(fits);
    let is_pair = |token: &str| {
        token.split_once(':').is_some_and(|(name, value)| {
            (is_counter_name(name) || name.is_empty())
                && (value.is_empty() || value.starts_with(|c: char| c.is_ascii_digit()))
        }) || token.ends_with('?')
            || matches!(token, "yes" | "no")
            || kb(token).is_some()
    };
    let starts_anew = !matches!(
        kind,
        Kind::Other | Kind::Counters | Kind::MemcgStat | Kind::Pages | Kind::Cpuset
    );
    if starts_anew {
        return false;
    }
    match record.kind {
        Kind::Zone | Kind::Node => {
            let is_fragment = matches!(first, "kB" | "KB") || first.starts_with(':');
            (is_free && kind != Kind::Pages && (is_pair(first) || is_fragment))
                || (kind == Kind::Other && all(&is_pair))
                || (is_free
                    && text.split_whitespace().nth(1).is_some_and(is_pair)
                    && kind == Kind::Other)
        }
        Kind::Counters => {
            kind == Kind::Other
                && all(&|token| {
                    token.split_once(':').is_some_and(|(name, value)| {
                        is_counter_name(name) && number(value).is_some()
                    })
                })
        }
        Kind::Lowmem => all(&|token| number(token).is_some()),
        Kind::List => {
            let fits = |token: &str| {
                token.contains("kB")
                    || token == "="
                    || token == "empty"
                    || is_letters(token)
                    || token == "B"
                    || (token.ends_with('k') && token.contains('*'))
            };
            (all(&fits) || (is_free && (fits(first) || first.starts_with("*"))))
                && !has_total(record)
        }
        Kind::Head => {
            let has_flags =
                record.parts.iter().any(|p| p.contains("mode:") || p.contains("gfp_mask="));
            let is_rest = !has_flags
                && record.parts.len() < 4
                && ["mode:", "gfp_mask=", "order", "alloc"].iter().any(|word| text.contains(word));
            let is_open = record.parts.last().is_some_and(|part| part.ends_with(':'));
            is_free && (head_words(text) || is_open || is_rest)
        }
        Kind::Cpu => {
            is_free && kind == Kind::Other && !record.parts.iter().any(|part| part.contains(" #"))
        }
        Kind::HugePages => first.starts_with("hugepages_"),
        Kind::TaskHeader => is_free && all(&is_column_part),
        Kind::OomKill | Kind::Kill | Kind::MemcgUsage => {
            const WORDS: [&str; 6] = ["failcnt", "limit", "usage", "score", "process", "or"];
            let is_kb = kb(first.trim_end_matches(',')).is_some();
            let is_name = first.starts_with('(') && record.kind == Kind::Kill;
            let is_rest = WORDS.contains(&first) || text.contains(['=', ':']) || is_kb || is_name;
            let is_short = !text.contains("+0x") && record.parts.len() < 6;
            is_free && kind == Kind::Other && is_rest && is_short
        }
        // A row without its name.
        Kind::TaskRow => {
            let last = record.parts.last().and_then(|part| part.split_whitespace().next_back());
            let is_unnamed = last.is_some_and(|last| last.parse::<i64>().is_ok());
            is_free
                && kind == Kind::Other
                && is_unnamed
                && record.parts.len() < 4
                && text.len() < 80
        }
        Kind::MemcgTask => is_free && first.starts_with('/') && text.len() < 400,
        Kind::MemcgStats if is_free && first.starts_with('/') => {
            record.parts.last().is_some_and(|part| part.ends_with("for"))
        }
        Kind::MemcgStats => {
            kind == Kind::Other
                && all(&|token| {
                    token
                        .split_once(':')
                        .is_some_and(|(name, value)| is_counter_name(name) && kb(value).is_some())
                })
        }
        _ => false,
    }
}

/// `(UME)`, or one half of it.
fn is_letters(token: &str) -> bool {
    let inside = token.trim_start_matches('(').trim_end_matches(')');
    (token.starts_with('(') || token.ends_with(')'))
        && inside.len() < 9
        && inside.bytes().all(|b| b.is_ascii_uppercase())
}

/// True if a line between other messages goes on with a free list: it has blocks of the next order,
/// the types of the last one, or the end.
fn is_rest_of_list(list: &Record, text: &str) -> bool {
    let block = |token: &str| {
        let (count, size) = token.split_once('*')?;
        number(count).and(kb(size))
    };
    let mut tokens = text.split_whitespace();
    let is_list = |token: &str| block(token).is_some() || is_letters(token) || token == "=";
    let is_end = text.strip_prefix('=').is_some_and(|rest| kb(rest.trim()).is_some());
    if has_total(list) || !(is_end || tokens.clone().all(is_list)) {
        return false;
    }
    let own = list.tokens();
    let last = own.iter().rev().find_map(|token| block(token));
    match tokens.find_map(block) {
        Some(next) => last.is_none_or(|last| last.checked_mul(2) == Some(next)),
        None => own.last().is_some_and(|token| block(token).is_some() || is_end),
    }
}

/// True if the list has its `= 4kB`.
fn has_total(record: &Record) -> bool {
    let tokens = record.tokens();
    matches!(tokens.as_slice(), [.., equals, total] if equals == "=" && kb(total).is_some())
}

/// Words of the line of a refused request.
fn head_words(text: &str) -> bool {
    const WORDS: [&str; 9] = [
        "gfp_mask=",
        "order=",
        "order:",
        "mode:",
        "nodemask=",
        "page order",
        "oom_score_adj=",
        "mems_allowed=",
        "failed to allocate",
    ];
    WORDS.iter().any(|word| text.starts_with(word))
        || text.starts_with("order ")
        || text.contains("_score_adj=")
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn kinds(input: &str) -> Vec<(Kind, String)> {
        let records = assemble(lines::split(input.as_bytes()));
        records.iter().map(|record| (record.kind, record.text())).collect()
    }

    #[test]
    fn wrapped_lines_are_joined() {
        let text = "[    1.000000] Normal free:4kB min:8kB\nlow:12kB high:16kB \
                    writeback_t\nmp:0kB\n\
                    [    1.000001] lowmem_reserve[]: 0 1\n2 3\n\
                    [    1.000002] Normal: 1*4kB (U) 0*8kB (M\nE) = \n4kB\n";
        let found = kinds(text);
        assert_eq!(found[0].1, "Normal free:4kB min:8kB low:12kB high:16kB writeback_tmp:0kB");
        assert_eq!(found[1].1, "lowmem_reserve[]: 0 1 2 3");
        assert_eq!(found[2].1, "Normal: 1*4kB (U) 0*8kB (ME) = 4kB");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_number_that_a_line_end_broke_is_left_out() {
        let records =
            assemble(lines::split(b"Node 0 dirty:36\n1785kB shmem:0kB all_unreclaimable? no\n"));
        assert_eq!(records[0].text(), "Node 0 shmem:0kB all_unreclaimable? no");
        assert!(records[0].has_broken_number());
    }

    #[test]
    fn tokens_on_lines_of_their_own() {
        let text = "[    1.000000] Node 0\n[    1.000000] DMA:\n[    1.000000] 1*4kB\n\
                    [    1.000000] (U)\n\
                    [    1.000000] = 4kB\n[    1.000000] lowmem_reserve[]:\n[    1.000000]  0\n\
                    [    1.000000] 12\n\
                    [    1.000000] Free swap\n[    1.000000] = 4kB\n";
        let found = kinds(text);
        assert_eq!(found[0], (Kind::List, "Node 0 DMA: 1*4kB (U) = 4kB".into()));
        assert_eq!(found[2], (Kind::Swap, "Free swap = 4kB".into()));
    }

    #[test]
    fn tokens_between_lines_of_a_trace() {
        let tokens = [
            "Node 0",
            "DMA free:8kB min:4kB",
            "lowmem_reserve[]:",
            "0",
            "12",
            "Node 0",
            "DMA:",
            "2*4kB",
            "(U)",
        ];
        let text: String = tokens
            .iter()
            .map(|token| {
                format!("[    1.000000] {token}\n[    1.000000]  ? lock_acquire+0x1d5/0x580\n")
            })
            .collect();
        let found: Vec<String> = kinds(&text)
            .into_iter()
            .filter(|(kind, _)| *kind != Kind::Trace)
            .map(|(_, t)| t)
            .collect();
        let right =
            ["Node 0 DMA free:8kB min:4kB", "lowmem_reserve[]: 0 12", "Node 0 DMA: 2*4kB (U)"];
        assert_eq!(found, right);
    }

    #[test]
    fn a_list_goes_on_behind_messages_of_another_cpu() {
        let text = "Node 0 DMA: 1*4kB (U) 0*8kB\nCPU: 1 PID: 7 Comm: a Not tainted 4.15.0 #2\n\
                    1*16kB\nHardware name: Loom\n(U)\nMem-Info:\n0*64kB\n1*32kB\n= 52kB\n";
        let found = kinds(text);
        assert_eq!(found[0].1, "Node 0 DMA: 1*4kB (U) 0*8kB 1*16kB (U) 1*32kB = 52kB");
        assert!(found.contains(&(Kind::Other, "0*64kB".to_owned())), "not the next order");
    }

    #[test]
    fn headers_and_rows_of_processes_are_joined() {
        let text = "[    1.000000] [  pid  ]   uid  tgid total_vm      rss rss_anon\n\
                    rss_file rss_shmem pgtables_bytes swapents oom_score_ad\nj name\n\
                    [    1.000001] [   71]     0    71      500       90       10       80\n\
                    0    45056        0             0 weaver\n";
        let found = kinds(text);
        assert_eq!(
            found[0].1,
            "[ pid ] uid tgid total_vm rss rss_anon rss_file rss_shmem pgtables_bytes swapents \
             oom_score_adj name"
        );
        assert_eq!(found[1].1, "[ 71] 0 71 500 90 10 80 0 45056 0 0 weaver");
    }

    #[test]
    fn records_on_one_line_are_split() {
        let text = "Mem-Info: active_anon:1 free:2 Node 0 DMA free:4kB min:8kB \
                    lowmem_reserve[]: 0 1 \
                    Node 0 DMA: 1*4kB (U) = 4kB Free swap = 4kB 12 pages RAM\n";
        let found: Vec<Kind> = kinds(text).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(
            found,
            [Kind::MemInfo, Kind::Zone, Kind::Lowmem, Kind::List, Kind::Swap, Kind::Pages],
            "counters stay with Mem-Info"
        );
    }

    #[test]
    fn two_callers_do_not_mix() {
        let text = "[    1.000000][    T1] lowmem_reserve[]: 0\n\
                    [    1.000000][    T2] lowmem_reserve[]: 9\n\
                    [    1.000000][    T1] 1 2\n";
        assert_eq!(kinds(text)[0].1, "lowmem_reserve[]: 0 1 2");
    }
}
