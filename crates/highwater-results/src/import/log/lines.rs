//! From bytes to lines: undoes what mail programs, terminals and loggers did to the text.
//!
//! Steps, from the outside in: quoted-printable, quote marks, line ends written as `#012` or
//! `\x0a`, the prefix. Lines that a mail program wrapped stay separate here. `record` joins them,
//! because only the grammar of a record says whether the next line continues it.

use std::collections::BTreeMap;

use super::kind::{Kind, classify};
use super::prefix::{Prefix, stamp};

/// Marks of a line, as bits of [`Line::marks`].
pub(super) mod mark {
    /// The line had quote marks of a mail.
    pub(in super::super) const QUOTED: u16 = 1;
    /// The line was encoded as quoted-printable.
    pub(in super::super) const QUOTED_PRINTABLE: u16 = 1 << 1;
    /// The line is a part of one that had `#012` for line ends.
    pub(in super::super) const OCTAL: u16 = 1 << 2;
    /// The line is a part of one that had `\x0a` for line ends.
    pub(in super::super) const HEX: u16 = 1 << 3;
    /// Blanks fill the line up to the width of a terminal.
    pub(in super::super) const PADDED: u16 = 1 << 4;
    /// The end of the line is missing: a terminal or a pager cut it.
    pub(in super::super) const CUT: u16 = 1 << 5;
    /// The prefix has a colon before its time stamp.
    pub(in super::super) const COLON: u16 = 1 << 6;
    /// The same line stands before it.
    pub(in super::super) const TWICE: u16 = 1 << 7;
    /// The input ends in this line, without a line end: its last number may be shortened.
    pub(in super::super) const LAST: u16 = 1 << 8;
    /// The text goes on after the line end that this part had.
    pub(in super::super) const PART: u16 = 1 << 9;
    /// The text ends after the line, in the middle of the next prefix.
    pub(in super::super) const TAIL: u16 = 1 << 11;
    /// A token of a message has a line of its own.
    pub(in super::super) const TOKENS: u16 = 1 << 12;
    /// A terminal broke the line at its width.
    pub(in super::super) const WRAPPED: u16 = 1 << 10;
}

/// One line without its prefix.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Number in the input, from 1.
    pub(super) number: usize,
    /// The prefix of the text.
    pub(super) prefix: Prefix,
    /// The text, without blanks around it.
    pub(super) text: String,
    /// Bits of [`mark`].
    pub(super) marks: u16,
}

impl Line {
    /// True if the last token may be shortened.
    pub(super) fn is_open_ended(&self) -> bool {
        self.marks & (mark::CUT | mark::LAST) != 0
    }
}

/// Widths at which terminals end.
const WIDTH_MIN: usize = 72;

/// Splits a text into lines. Bytes that are not UTF-8 are replaced.
pub(super) fn split(bytes: &[u8]) -> Vec<Line> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let ends_early = !text.is_empty() && !text.ends_with('\n');
    let raw: Vec<(usize, String)> = physical(text);
    let is_encoded = is_quoted_printable(&raw);
    let raw =
        if is_encoded { decode(raw) } else { raw.into_iter().map(|(n, s)| (n, s, 0)).collect() };
    let raw = rejoined(dedented(raw.into_iter().map(without_quotes).collect()));
    let width = cut_width(&raw);
    let mut lines = Vec::with_capacity(raw.len());
    let is_prefixed = |line: &str| Prefix::strip(line).0.form != 0;
    let follows: Vec<bool> =
        raw.iter().skip(1).map(|(_, line, _)| is_prefixed(line)).chain([true]).collect();
    for ((number, mut line, mut marks), next_is_prefixed) in raw.into_iter().zip(follows) {
        if line.ends_with("    ") && line.len() >= WIDTH_MIN {
            marks |= mark::PADDED;
        }
        let end = line.trim_end();
        if end.ends_with('>') && end.len() > 40 && marks & mark::PADDED == 0 && !end.contains("<") {
            // A pager's sign that the line goes on; the token before it is shortened.
            marks |= mark::CUT;
            line.truncate(end.len() - 1);
        } else if width.is_some_and(|width| line.chars().count() == width)
            && !line.ends_with(' ')
            && (next_is_prefixed || !is_prefixed(&line))
        {
            marks |= mark::CUT;
        }
        line.truncate(line.trim_end().len());
        push(&mut lines, number, &line, marks);
    }
    if let Some(last) = lines.last_mut().filter(|_| ends_early) {
        last.marks |= mark::LAST;
    }
    mark_cut_prefix(&mut lines);
    mark_repeated(&mut lines);
    lines
}

/// Takes the quote marks off.
fn without_quotes((number, line, marks): (usize, String, u16)) -> (usize, String, u16) {
    let bare = line.trim_start();
    match bare.starts_with('>') {
        true => (number, unquoted(bare).to_owned(), marks | mark::QUOTED),
        false => (number, line, marks),
    }
}

/// Removes the blanks that all lines begin with.
fn dedented(mut raw: Vec<(usize, String, u16)>) -> Vec<(usize, String, u16)> {
    let blanks = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let written = raw.iter().filter(|(_, line, _)| !line.trim().is_empty());
    let common = written.map(|(_, line, _)| blanks(line)).min().unwrap_or(0);
    if common > 0 {
        for (_, line, _) in &mut raw {
            line.drain(..common.min(line.len()));
        }
    }
    raw
}

/// Joins lines that a terminal broke at its width: several lines of the greatest width end in the
/// middle of a token, and what follows them begins no message.
fn rejoined(raw: Vec<(usize, String, u16)>) -> Vec<(usize, String, u16)> {
    const BROKEN_MIN: usize = 2;
    let widths: Vec<usize> = raw.iter().map(|(_, line, _)| line.chars().count()).collect();
    let width = widths.iter().copied().max().unwrap_or(0);
    let goes_on = |index: usize| {
        let next = raw.get(index + 1).map(|(_, line, _)| line.as_str());
        widths[index] == width && next.is_some_and(|line| !begins_message(line))
    };
    let broken =
        (0..raw.len()).filter(|&index| goes_on(index) && is_shortened(&raw[index].1)).count();
    if width < WIDTH_MIN.min(60) || broken < BROKEN_MIN {
        return raw;
    }
    let joins: Vec<bool> = (0..raw.len()).map(goes_on).collect();
    let mut out: Vec<(usize, String, u16)> = Vec::with_capacity(raw.len());
    let mut is_open = false;
    for ((number, line, marks), joins_next) in raw.into_iter().zip(joins) {
        match out.last_mut() {
            Some((_, open, old)) if is_open => {
                open.push_str(&line);
                *old |= marks | mark::WRAPPED;
            }
            _ => out.push((number, line, marks)),
        }
        is_open = joins_next;
    }
    out
}

/// True if a line has a prefix, or begins like a message of a memory report.
fn begins_message(line: &str) -> bool {
    let (prefix, text) = Prefix::strip(line);
    let is_known = !matches!(
        classify(text.trim()),
        Kind::Other | Kind::Counters | Kind::MemcgStat | Kind::Pages | Kind::SlabRow | Kind::Cpuset
    );
    prefix.form != 0 || is_known || text.trim().is_empty()
}

/// Splits at line ends, removes terminal sequences and entities of HTML.
fn physical(text: &str) -> Vec<(usize, String)> {
    let has_entities = text.contains("&gt;") || text.contains("&lt;");
    let mut out = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let line = line.trim_matches('\r');
        let mut line = line.strip_suffix("^M").unwrap_or(line).replace('\0', "");
        if line.contains('\u{1b}') {
            line = without_escapes(&line);
        }
        if has_entities {
            line = line.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&");
        }
        for part in line.split('\r') {
            out.push((index + 1, printable(part)));
        }
    }
    if text.is_empty() || text.ends_with('\n') {
        out.pop();
    }
    out
}

/// Each blank as a space, and control characters replaced: answers quote names from the text, and a
/// name must not control a terminal.
fn printable(text: &str) -> String {
    let shown = |char: char| match char {
        '\t' | '\u{a0}' => ' ',
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    };
    text.chars().map(shown).collect()
}

/// Removes `ESC [ ... letter`.
fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'[') {
            chars.next();
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        }
    }
    out
}

/// True if equals signs of the text are written as `=3D`, or lines end in soft breaks.
fn is_quoted_printable(raw: &[(usize, String)]) -> bool {
    let encoded = |line: &String| line.contains("=3D") || line.ends_with("=20");
    let soft =
        |line: &String| line.ends_with('=') && line.len() >= WIDTH_MIN && !line.ends_with(" =");
    raw.iter().any(|(_, line)| encoded(line)) || raw.iter().filter(|(_, l)| soft(l)).count() > 1
}

/// Decodes quoted-printable and joins lines at soft breaks.
fn decode(raw: Vec<(usize, String)>) -> Vec<(usize, String, u16)> {
    let mut out: Vec<(usize, String, u16)> = Vec::with_capacity(raw.len());
    let mut is_open = false;
    for (number, line) in raw {
        let soft = line.ends_with('=') && !line.ends_with("==");
        let body = if soft { &line[..line.len() - 1] } else { line.as_str() };
        let decoded = unescaped(body);
        let marks = if soft || decoded.is_some() { mark::QUOTED_PRINTABLE } else { 0 };
        let decoded = decoded.unwrap_or_else(|| body.to_owned());
        match out.last_mut() {
            Some((_, open, old)) if is_open && !starts_anew(open, &line) => {
                open.push_str(&decoded);
                *old |= marks;
            }
            _ => out.push((number, decoded, marks)),
        }
        is_open = soft;
    }
    out
}

/// True if the line after a soft break is a line of its own: lines between the two are missing.
fn starts_anew(open: &str, next: &str) -> bool {
    let is_quote = |line: &str| line.starts_with('>');
    (is_quote(open) && is_quote(next)) || stamp(next.trim_start()).is_some()
}

/// Decodes `=XX`, or none if there is nothing to decode. Only characters that the encoding has to
/// touch are decoded, so that a plain `total=40` in a text of both kinds stays.
fn unescaped(line: &str) -> Option<String> {
    let bytes = line.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let (mut at, mut is_changed) = (0, false);
    while at < bytes.len() {
        let code = (bytes[at] == b'=')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .filter(|code| code.iter().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b)))
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        let after = bytes.get(at + 3);
        let is_plain = |byte: u8| match byte {
            b' ' | b'\t' => after.is_none() || matches!(after, Some(b'=' | b' ')),
            b'=' | b'.' | b'_' | b'[' | b']' | b'<' | b'>' | b'#' | b'-' => true,
            _ => byte >= 0x80,
        };
        match code {
            Some(byte) if is_plain(byte) => {
                out.push(byte);
                (at, is_changed) = (at + 3, true);
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    is_changed.then(|| printable(&String::from_utf8_lossy(&out)))
}

/// Removes the quote marks of mails.
fn unquoted(line: &str) -> &str {
    let mut rest = line;
    while let Some(after) = rest.trim_start().strip_prefix('>') {
        rest = after;
    }
    rest.strip_prefix(' ').unwrap_or(rest)
}

/// The width at which a terminal cut the lines: several lines of this width end in the middle of a
/// token, and hardly any is longer (a name may have been changed since).
fn cut_width(raw: &[(usize, String, u16)]) -> Option<usize> {
    const LONGER_MAX: usize = 2;
    let mut shortened: BTreeMap<usize, usize> = BTreeMap::new();
    let mut widths: Vec<usize> = Vec::with_capacity(raw.len());
    for (_, line, _) in raw {
        let width = line.chars().count();
        widths.push(width);
        if width >= WIDTH_MIN && is_shortened(line) {
            *shortened.entry(width).or_default() += 1;
        }
    }
    let (width, _) = shortened.into_iter().rev().find(|(_, count)| *count >= 2)?;
    (widths.iter().filter(|other| **other > width).count() <= LONGER_MAX).then_some(width)
}

/// True if the last token cannot end a line of a memory report.
fn is_shortened(line: &str) -> bool {
    let Some(last) = line.split(' ').next_back().filter(|last| !last.is_empty()) else {
        return false;
    };
    let is_word = last.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let has_unit = last.ends_with("kB") || last.ends_with("KB") || last.ends_with(')');
    let is_value = (last.contains(':') && !last.ends_with(':')) || last.contains('*');
    // A line about a killed process ends in `oom_score_adj:300`.
    let is_in_zone = line.contains("kB ") && !last.starts_with("oom_score_adj:");
    let is_half_open = last.contains('(') && !last.contains(')') && !last.starts_with('(');
    is_in_zone
        && !has_unit
        && (is_half_open || is_value || (is_word && !matches!(last, "yes" | "no")) || last == "B")
}

/// Splits one line at escaped line ends and at time stamps in its middle.
fn push(lines: &mut Vec<Line>, number: usize, line: &str, marks: u16) {
    let (prefix, rest) = Prefix::strip(line);
    let mut marks = marks;
    if prefix.form & super::prefix::part::COLON != 0 {
        marks |= mark::COLON;
    }
    let (separator, escape) = if rest.contains("#012") {
        ("#012", mark::OCTAL)
    } else if rest.contains("\\x0a") {
        ("\\x0a", mark::HEX)
    } else if rest.matches("\\n").count() > 2 {
        ("\\n", 0)
    } else {
        return push_glued(lines, number, prefix, rest, marks);
    };
    let mut parts = rest.split(separator).peekable();
    while let Some(part) = parts.next() {
        let own = marks | escape | if parts.peek().is_some() { mark::PART } else { 0 };
        let own = if parts.peek().is_some() { own & !mark::CUT } else { own };
        lines.push(Line {
            number,
            prefix: prefix.clone(),
            text: part.trim().to_owned(),
            marks: own,
        });
    }
}

/// Splits at a time stamp in the middle: two messages of the kernel on one line, or the output of
/// a program on the console before one.
fn push_glued(lines: &mut Vec<Line>, number: usize, prefix: Prefix, rest: &str, marks: u16) {
    let found = rest.match_indices('[').find(|&(at, _)| at > 0 && is_full_stamp(&rest[at..]));
    let Some((at, _)) = found else {
        lines.push(Line { number, prefix, text: rest.trim().to_owned(), marks });
        return;
    };
    let text = rest[..at].trim().to_owned();
    lines.push(Line { number, prefix, text, marks: marks & !mark::CUT });
    // The rest of the line has at most one stamp less, so this ends; each step looks at each byte
    // once.
    let mut tail = &rest[at..];
    loop {
        let (prefix, rest) = Prefix::strip(tail);
        let next = rest.match_indices('[').find(|&(at, _)| at > 0 && is_full_stamp(&rest[at..]));
        let end = next.map_or(rest.len(), |(at, _)| at);
        let own = if next.is_some() { marks & !mark::CUT } else { marks };
        lines.push(Line { number, prefix, text: rest[..end].trim().to_owned(), marks: own });
        match next {
            Some((at, _)) => tail = &rest[at..],
            None => return,
        }
    }
}

/// A time stamp with microseconds, as the kernel prints it.
fn is_full_stamp(text: &str) -> bool {
    stamp(text).is_some_and(|(_, len)| text[..len].rfind('.').is_some_and(|dot| len - dot == 8))
}

/// A last line that holds nothing but the start of a prefix: the text ends in the middle.
fn mark_cut_prefix(lines: &mut [Line]) {
    let is_written = |line: &&mut Line| !line.text.is_empty();
    let mut written = lines.iter_mut().rev().filter(is_written);
    let (Some(last), Some(before)) = (written.next(), written.next()) else { return };
    let clock = before.prefix.clock.as_deref().unwrap_or_default();
    if last.prefix.form == 0 && last.text.len() > 3 && clock.starts_with(&last.text) {
        last.text.clear();
        before.marks |= mark::TAIL;
    }
}

/// Marks lines that repeat the one before them, prefix and all.
fn mark_repeated(lines: &mut [Line]) {
    for index in 1..lines.len() {
        let (before, line) = (&lines[index - 1], &lines[index]);
        // A token on a line of its own may well come twice.
        let is_sentence = line.text.contains(' ') || line.text.len() > 7;
        if is_sentence && before.text == line.text && before.prefix == line.prefix {
            lines[index].marks |= mark::TWICE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<String> {
        split(input.as_bytes()).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn quoted_printable_is_decoded_and_joined() {
        let text = "[1=2E500000] x: order=3D0, mode=3D0x=\n20\n[1=2E600000] done=20\n";
        assert_eq!(texts(text), ["x: order=0, mode=0x20", "done"]);
        let lines = split(text.as_bytes());
        assert_eq!((lines[0].number, lines[1].number), (1, 3));
        assert_eq!(lines[1].prefix.time, Some(1.6));
    }

    #[test]
    fn soft_break_before_another_line_of_the_quote_joins_nothing() {
        assert_eq!(texts("> a=3D1 and more=\n> b\n"), ["a=1 and more", "b"]);
    }

    #[test]
    fn plain_equals_signs_stay() {
        assert_eq!(texts("a (M) =\n4kB\n"), ["a (M) =", "4kB"]);
        assert_eq!(texts("total=40 size=3D4\n"), ["total=40 size=4"]);
    }

    #[test]
    fn quotes_escapes_and_entities() {
        assert_eq!(texts("> > [    1.500000] a\n"), ["a"]);
        assert_eq!(texts("&gt; a &amp; b\n"), ["a & b"]);
        assert_eq!(texts("a:1#012 b:2#012 c:3\n"), ["a:1", "b:2", "c:3"]);
        assert_eq!(texts("a:1\\x0a b:2\n"), ["a:1", "b:2"]);
        assert_eq!(texts("\u{1b}[31ma\u{1b}[0m\r\nb\n"), ["a", "b"]);
    }

    #[test]
    fn two_messages_on_one_line_are_split() {
        assert_eq!(texts("[    1.500000] a[    1.500001] b [    1.500002] c\n"), ["a", "b", "c"]);
        let lines = split(b"Tying knots (9 of 9): [    1.500000] weaver invoked\n");
        assert_eq!((lines[1].text.as_str(), lines[1].prefix.time), ("weaver invoked", Some(1.5)));
    }

    #[test]
    fn cut_and_padded_lines_are_marked() {
        let wide = format!("{:<80}", "Normal free:4kB min:4kB");
        let lines = split(format!("{wide}\n").as_bytes());
        assert_ne!(lines[0].marks & mark::PADDED, 0);
        let cut = "Normal free:4kB min:4kB low:4kB high:4kB active_anon:0kB inactive_anon:0kB act>";
        let lines = split(format!("{cut}\nx\n").as_bytes());
        assert_ne!(lines[0].marks & mark::CUT, 0);
        assert!(lines[0].text.ends_with(" act"));
        assert!(split(b"free:1")[0].is_open_ended());
        assert!(!split(b"free:1\n")[0].is_open_ended());
    }
}
