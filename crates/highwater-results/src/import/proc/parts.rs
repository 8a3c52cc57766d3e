//! Several texts of `/proc` in one: `cat /proc/buddyinfo /proc/zoneinfo`, `head` or `tail` with
//! their `==> NAME <==` headings, `grep -r .` with a name before each line.
//!
//! Each text begins recognisably, so [`Parts::of`] needs no headings. A part keeps the places of
//! its lines: lines of other parts are empty in it, so errors have the line of the whole text.

use super::text::{is_pasted, unquoted, zone_line};
use super::zoneinfo;
use crate::import::KernelText;
use crate::import::error::shown;

/// Files whose texts are told apart.
const NAMES: [(&str, KernelText); 4] = [
    ("zoneinfo", KernelText::Zoneinfo),
    ("buddyinfo", KernelText::Buddyinfo),
    ("pagetypeinfo", KernelText::PageTypeInfo),
    ("meminfo", KernelText::Meminfo),
];
/// Most runs of foreign lines that are kept.
const FOREIGN_MAX: usize = 8;
/// Fewest numbers of a row of buddyinfo.
const ORDERS_MIN: usize = super::NR_ORDERS_MIN;

/// A text of `/proc` among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The text that it is.
    pub kind: KernelText,
    /// Its first line, from 1.
    pub first_line: usize,
    /// Its lines, and an empty line for each of another part before and between them.
    pub text: String,
}

/// Lines in a row that belong to no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// First line, from 1.
    pub first_line: usize,
    /// Last line.
    pub last_line: usize,
    /// The first of them.
    pub text: String,
}

/// A text that was split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Its parts, in their order.
    pub parts: Vec<Part>,
    /// Lines that belong to none of them; the first few runs.
    pub foreign: Vec<Foreign>,
    /// Number of runs of foreign lines.
    pub nr_foreign: usize,
}

impl Parts {
    /// Splits a text. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn of(text: &[u8]) -> Parts {
        let text = String::from_utf8_lossy(text);
        let mut reader = Reader::default();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            match glued(line) {
                Some((last, first)) => [last, first].map(|line| reader.take(at + 1, line)),
                None => [reader.take(at + 1, line), ()],
            };
        }
        reader.release();
        reader.parts
    }
}

/// Two lines in one: the last of a text that has no line end there, and the first of the next.
fn glued(line: &str) -> Option<(&str, &str)> {
    const STARTS: [&str; 3] = ["MemTotal:", "Page block order:", "Node "];
    let at = STARTS.iter().filter_map(|start| line.find(start)).min().filter(|at| *at > 0)?;
    let (last, first) = line.split_at(at);
    last.ends_with(|c: char| c == ')' || c.is_ascii_digit()).then_some((last, first))
}

/// `==> /proc/zoneinfo <==`: the name.
fn heading(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix("==>")?.strip_suffix("<==")?.trim())
}

/// `/proc/zoneinfo:Node 0, zone DMA`: the kind, and the line without the name.
pub(in crate::import) fn unnamed(line: &str) -> Option<(KernelText, &str)> {
    let (name, rest) = line.split_once(':')?;
    let file = name.rsplit('/').next()?;
    let kind = NAMES.iter().find(|(own, _)| *own == file)?.1;
    Some((kind, rest))
}

#[derive(Default)]
struct Reader {
    parts: Parts,
    /// The kind of the lines above; none after a heading, or at the beginning.
    current: Option<KernelText>,
    /// In pagetypeinfo, the number of types in the table of pageblocks.
    nr_types: Option<usize>,
    /// The lines of zoneinfo are indented, so a counter without is one of vmstat; none before the
    /// first line below a zone.
    is_indented: Option<bool>,
    /// Foreign lines below the last line of a part. If the part goes on behind them, they are its
    /// own, and its reader refuses them.
    held: Vec<(usize, String)>,
    /// Number of lines in the last part's text.
    nr_lines: usize,
}

impl Reader {
    fn take(&mut self, number: usize, line: &str) {
        let bare = unquoted(line);
        if bare.trim().is_empty() || is_pasted(bare) {
            return;
        }
        if heading(bare).is_some() {
            self.release();
            self.current = None;
            return;
        }
        let (named, bare) = match unnamed(bare) {
            Some((kind, rest)) => (Some(kind), rest),
            None => (None, bare),
        };
        if let Some(kind) = named {
            if bare.trim().is_empty() {
                return;
            }
            if self.current != Some(kind) {
                self.current = None;
            }
        }
        match self.kind(bare) {
            Some(kind) => self.add(kind, number, bare),
            None => self.held.push((number, line.to_owned())),
        }
    }

    /// The text that a line belongs to.
    fn kind(&mut self, line: &str) -> Option<KernelText> {
        if ["Page block order:", "Pages per block:", "Free pages count"]
            .iter()
            .any(|start| line.starts_with(start))
        {
            self.nr_types = None;
            return Some(KernelText::PageTypeInfo);
        }
        let in_types = self.current == Some(KernelText::PageTypeInfo);
        if let Some(types) = line.strip_prefix("Number of ").filter(|_| in_types) {
            // `Number of blocks type Unmovable ...`, `Number of mixed blocks Unmovable ...`.
            let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
            self.nr_types = Some(types.split_whitespace().filter(is_name).count());
            return Some(KernelText::PageTypeInfo);
        }
        let zone = zone_line(line);
        if zone.is_err() {
            // A damaged line: its reader refuses it.
            return self.current;
        }
        if let Ok(Some((_, _, rest))) = zone {
            let rest = rest.trim_start_matches([',', ' ']);
            let nr = rest.split_whitespace().count();
            return Some(match nr {
                _ if rest.starts_with("type ") => KernelText::PageTypeInfo,
                0 => {
                    self.is_indented = None;
                    KernelText::Zoneinfo
                }
                // A table of pageblocks has a number for each type, and buddyinfo one for each
                // order, which are more.
                _ if in_types && (self.nr_types == Some(nr) || nr < ORDERS_MIN) => {
                    KernelText::PageTypeInfo
                }
                _ => KernelText::Buddyinfo,
            });
        }
        if line.starts_with("MemTotal:") {
            return Some(KernelText::Meminfo);
        }
        match self.current {
            Some(KernelText::Meminfo) if is_meminfo(line) => self.current,
            Some(KernelText::Zoneinfo) => {
                let is_indented = line.starts_with([' ', '\t']);
                let is_own = is_indented || self.is_indented != Some(true);
                let is_line = is_own && zoneinfo::is_line(line.trim());
                if is_line {
                    self.is_indented.get_or_insert(is_indented);
                }
                is_line.then_some(KernelText::Zoneinfo)
            }
            _ => None,
        }
    }

    fn add(&mut self, kind: KernelText, number: usize, line: &str) {
        let is_same = self.current == Some(kind)
            && self.parts.parts.last().is_some_and(|part| part.kind == kind);
        if is_same {
            let held = std::mem::take(&mut self.held);
            held.into_iter().for_each(|(number, line)| self.push(number, &line));
        } else {
            self.release();
            let part = Part { kind, first_line: number, text: String::new() };
            self.parts.parts.push(part);
            (self.current, self.nr_lines) = (Some(kind), 0);
        }
        self.push(number, line);
    }

    /// Adds a line to the last part.
    fn push(&mut self, number: usize, line: &str) {
        if let Some(part) = self.parts.parts.last_mut() {
            part.text.extend((self.nr_lines + 1..number).map(|_| '\n'));
            part.text.push_str(line);
            part.text.push('\n');
            self.nr_lines = number;
        }
    }

    /// The held lines belong to no part.
    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        let (Some(first), Some(last)) = (held.first(), held.last()) else { return };
        self.parts.nr_foreign += 1;
        if self.parts.foreign.len() < FOREIGN_MAX {
            let text = shown(first.1.trim().as_bytes());
            self.parts.foreign.push(Foreign { first_line: first.0, last_line: last.0, text });
        }
    }
}

/// `MemFree:  12 kB`, `HugePages_Total:  0`, `Active(anon):  12 kB`.
fn is_meminfo(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_()".contains(c);
    let value = value.trim();
    let value = value.strip_suffix("kB").unwrap_or(value).trim();
    !name.is_empty() && name.chars().all(is_name) && value.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDDY: &str = "Node 0, zone      DMA      1      0      1      0      2      1      1\n\
                         Node 0, zone   Normal      7      0      1      0      2      1      1\n";
    const ZONES: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 3\n  pages free     9\n        \
                         min      1\n        protection: (0, 3)\n  pagesets\n    cpu: 0\n              count: 0\n  \
                         start_pfn:           1\n";
    const TYPES: &str = "Page block order: 9\nPages per block:  512\n\n\
                         Free pages count per migrate type at order 0 1 2 3 4 5 6\n\
                         Node    0, zone DMA, type Movable 1 0 0 0 0 0 0\n\n\
                         Number of blocks type     Unmovable      Movable\nNode 0, zone DMA 100 400\n";
    const MEMORY: &str = "MemTotal:  100 kB\nActive(anon):  1 kB\nHugePages_Total:  0\n";

    fn kinds(parts: &Parts) -> Vec<&'static str> {
        parts.parts.iter().map(|part| part.kind.name()).collect()
    }

    #[test]
    fn texts_in_a_row_are_told_apart_in_any_order() {
        let texts = [BUDDY, ZONES, TYPES, MEMORY];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 2, 0, 3], [0, 2, 1, 3]] {
            let text: String = order.iter().map(|at| texts[*at]).collect();
            let parts = Parts::of(text.as_bytes());
            let own: Vec<&str> = parts.parts.iter().map(|part| part.text.trim_start()).collect();
            let expected: Vec<&str> = order.iter().map(|at| texts[*at]).collect();
            assert_eq!(own, expected, "{order:?}");
            assert_eq!(parts.nr_foreign, 0, "{:?}", parts.foreign);
        }
    }

    #[test]
    fn lines_keep_their_places_and_lines_within_a_text_are_its_own() {
        let parts = Parts::of(format!("{BUDDY}{MEMORY}").as_bytes());
        assert_eq!(parts.parts[1].first_line, 3);
        assert!(parts.parts[1].text.starts_with("\n\nMemTotal:"));
        let parts = Parts::of(BUDDY.replace('\n', "\nodd\n").as_bytes());
        assert_eq!(parts.parts[0].text.matches("odd").count(), 1, "its reader refuses that");
        assert_eq!((parts.nr_foreign, parts.foreign[0].first_line), (1, 4));
    }

    #[test]
    fn headings_and_names_before_lines_end_a_text() {
        let text = format!(
            "==> /proc/zoneinfo <==\n{ZONES}\n==> /proc/version <==\nLinux version 6.1\n\n==> /proc/buddyinfo <==\n{BUDDY}"
        );
        let parts = Parts::of(text.as_bytes());
        assert_eq!(kinds(&parts), ["/proc/zoneinfo", "/proc/buddyinfo"]);
        assert_eq!((parts.nr_foreign, parts.foreign[0].first_line), (1, 14));
        assert!(parts.foreign[0].text.contains("Linux version"));
        let text: String = [("buddyinfo", BUDDY), ("zoneinfo", ZONES)]
            .iter()
            .flat_map(|(name, text)| text.lines().map(move |line| format!("/proc/{name}:{line}\n")))
            .collect();
        let parts = Parts::of(text.as_bytes());
        assert_eq!(kinds(&parts), ["/proc/buddyinfo", "/proc/zoneinfo"]);
        assert_eq!(parts.parts[0].text, BUDDY);
    }

    #[test]
    fn lines_between_are_foreign_and_counters_without_indent_are_those_of_vmstat() {
        let text = format!("{ZONES}nr_free_pages 12\nnr_dirty 3\nhello\n{BUDDY}bye\n");
        let parts = Parts::of(text.as_bytes());
        assert_eq!(kinds(&parts), ["/proc/zoneinfo", "/proc/buddyinfo"]);
        let runs: Vec<(usize, usize)> =
            parts.foreign.iter().map(|run| (run.first_line, run.last_line)).collect();
        assert_eq!(runs, [(11, 13), (16, 16)]);
        let parts = Parts::of(format!("{}{MEMORY}", ZONES.trim_end()).as_bytes());
        assert_eq!(kinds(&parts), ["/proc/zoneinfo", "/proc/meminfo"], "no line end between");
        let many: String = (0..50).map(|_| format!("x\n{BUDDY}x\n{MEMORY}")).collect();
        let parts = Parts::of(many.as_bytes());
        assert_eq!((parts.nr_foreign, parts.foreign.len()), (100, FOREIGN_MAX));
    }
}
