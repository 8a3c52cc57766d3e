//! The cost section of a machine file.
//!
//! ```toml
//! [cache]                                   # sizes of one core's L1d and L2, of one socket's LLC
//! l1  = { bytes = 32768, source = "..." }
//! l2  = { bytes = 1048576, source = "..." }
//! llc = { bytes = 26214400, source = "..." }
//! sockets = { count = 2, source = "..." }
//!
//! [cost]                                    # nanoseconds each
//! pcp_alloc = { ns = 50, source = "rules/costs#sums" }
//! pcp_free  = { ns = 40, source = "rules/costs#sums" }
//! # ... every required key
//! ```
//!
//! This module ignores the other sections of the file. Every figure names its source. Required keys
//! are the core's charge points ([`Cost`]) and the machine's keys ([`MACHINE_KEYS`]). Any other key
//! is an error, as are missing keys, and each error names file, line and field.

use std::collections::BTreeMap;
use std::ops::Range;

use highwater_core::host::Cost;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys that the simulated machine reads itself, each with the operation that it prices.
pub const MACHINE_KEYS: &[(&str, &str)] = &[
    ("lock_hot", "Taking and releasing a lock whose line is in this core's cache."),
    (
        "lock_same_socket",
        "Taking and releasing a lock whose line another core of the socket wrote last.",
    ),
    (
        "lock_cross_socket",
        "Taking and releasing a lock whose line a core of another socket wrote last.",
    ),
    ("lock_handoff", "From a lock's release to the first instruction of the next spinner."),
    ("zero_4k_l1", "Zeroing a page that is in L1."),
    ("zero_4k_l2", "Zeroing a page that is in L2."),
    ("zero_4k_llc", "Zeroing a page that is in the last-level cache."),
    ("zero_4k_dram", "Zeroing a page that is in no cache."),
    (
        "zero_4k_llc_in_order",
        "Zeroing a page that is in the last-level cache, right after the page before it.",
    ),
    (
        "zero_4k_dram_in_order",
        "Zeroing a page that is in no cache, right after the page before it.",
    ),
    ("zero_2m", "Zeroing a huge page."),
    ("copy_4k_l1", "Copying a page that is in L1."),
    ("copy_4k_l2", "Copying a page that is in L2."),
    ("copy_4k_llc", "Copying a page that is in the last-level cache."),
    ("copy_4k_dram", "Copying a page that is in no cache."),
    (
        "copy_4k_llc_in_order",
        "Copying a page that is in the last-level cache, right after the page before it.",
    ),
    (
        "copy_4k_dram_in_order",
        "Copying a page that is in no cache, right after the page before it.",
    ),
    ("context_switch", "Switching from one task to another."),
    ("wakeup", "Waking a task that sleeps (paid by the waker)."),
    (
        "wake_idle_shallow",
        "From a wake-up to the first instruction on a CPU in a shallow idle state.",
    ),
    ("wake_idle_deep", "From a wake-up to the first instruction on a CPU in a deep idle state."),
    ("idle_deep_after", "Idle time after which a CPU enters a deep idle state."),
    ("tick", "One timer interrupt of a busy CPU."),
    ("ipi_first", "An interrupt to one other CPU, until that CPU answers."),
    ("ipi_next", "Each further CPU of the same call."),
    ("io_interrupt", "A device's interrupt, without the work at the end of each page."),
    ("yield_check", "Checking whether to give up the CPU."),
];

/// Keys of `[cache]`, all required: key, unit and meaning.
pub const CACHE_KEYS: [(&str, &str, &str); 4] = [
    ("l1", "bytes", "First-level data cache of a core."),
    ("l2", "bytes", "Second-level cache of a core."),
    ("llc", "bytes", "Last-level cache of a socket."),
    ("sockets", "count", "Number of sockets; nodes are spread over them evenly."),
];

/// The table of a generic 3 GHz server.
const SERVER: &str = include_str!("../../costs/server-3ghz.toml");

/// A figure and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Nanoseconds, bytes or a count.
    pub value: u64,
    /// Its source.
    pub source: String,
}

/// The `[cache]` and `[cost]` sections of one machine file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    entries: BTreeMap<String, Figure>,
    /// First-level data cache of a core.
    pub l1_bytes: Figure,
    /// Second-level cache of a core.
    pub l2_bytes: Figure,
    /// Last-level cache of a socket.
    pub llc_bytes: Figure,
    /// Number of sockets; nodes are spread over them evenly.
    pub nr_sockets: Figure,
}

/// An error in a cost table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {field}: {problem}")]
pub struct TableError {
    /// The file.
    pub file: String,
    /// Line of the offending item; of the section's start if something is missing.
    pub line: usize,
    /// The field, as `section.key`.
    pub field: String,
    /// The problem with it.
    pub problem: String,
}

impl CostTable {
    /// Reads the sections from a machine file's text. `file` is for messages only.
    pub fn parse(file: &str, text: &str) -> Result<Self, TableError> {
        let reader = Reader { file, text };
        let document = DeTable::parse(text).map_err(|error| {
            reader.error(&error.span().unwrap_or(0..0), "TOML", error.message().to_owned())
        })?;
        let cache = reader.section(&document, "cache")?;
        let cost = reader.section(&document, "cost")?;

        let known: Vec<&str> = required_keys().collect();
        let entries = reader.figures(cost, "cost", "ns", &known)?;
        if let Some(missing) = required_keys().find(|key| !entries.contains_key(*key)) {
            return Err(reader.missing(cost, "cost", missing));
        }

        let known = |key: &Key<'_>| CACHE_KEYS.iter().any(|(name, ..)| key.get_ref() == name);
        if let Some((key, _)) = cache.table.iter().find(|(key, _)| !known(key)) {
            return Err(reader.unknown(key, "cache"));
        }
        let [l1, l2, llc, sockets] =
            CACHE_KEYS.map(|(name, unit, _)| reader.cache(cache, name, unit));
        Ok(CostTable {
            entries,
            l1_bytes: l1?,
            l2_bytes: l2?,
            llc_bytes: llc?,
            nr_sockets: sockets?,
        })
    }

    /// Nanoseconds of an entry; `None` if there is no such key.
    pub fn ns(&self, key: &str) -> Option<u64> {
        self.entries.get(key).map(|figure| figure.value)
    }

    /// The table with another figure for an entry; `None` if there is no such key.
    pub fn with(mut self, key: &str, ns: u64, source: &str) -> Option<Self> {
        *self.entries.get_mut(key)? = Figure { value: ns, source: source.to_owned() };
        Some(self)
    }

    /// All entries by key, for reports.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.entries.iter().map(|(key, figure)| (key.as_str(), figure))
    }

    /// The table of a generic 3 GHz server with two sockets and the caches of its time. Its figures
    /// are those of rules/costs#sums, split into the pieces that the core charges.
    ///
    /// # Panics
    /// If the table that comes with the program is wrong: a test reads it.
    pub fn server_3ghz() -> Self {
        let figure = |unit, value: u64| format!("{{ {unit} = {value}, source = \"guess\" }}");
        let text = format!(
            "{SERVER}\n[cache]\nl1 = {}\nl2 = {}\nllc = {}\nsockets = {}\n",
            figure("bytes", 32 << 10),
            figure("bytes", 1 << 20),
            figure("bytes", 25 << 20),
            figure("count", 2),
        );
        match CostTable::parse("server-3ghz.toml", &text) {
            Ok(table) => table,
            Err(error) => panic!("{error}"),
        }
    }
}

/// All required keys.
pub fn required_keys() -> impl Iterator<Item = &'static str> {
    described_keys().map(|(key, _)| key)
}

/// All required keys, each with the operation that it prices.
pub fn described_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let core = Cost::ALL.iter().map(|cost| (cost.key(), cost.doc()));
    let own = MACHINE_KEYS.iter().copied();
    core.chain(own.filter(|(key, _)| Cost::ALL.iter().all(|cost| cost.key() != *key)))
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

/// A section and where its header is.
#[derive(Clone, Copy)]
struct Section<'a> {
    table: &'a DeTable<'a>,
    start: usize,
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

impl Reader<'_> {
    fn section<'a>(
        &self,
        document: &'a Spanned<DeTable<'a>>,
        name: &str,
    ) -> Result<Section<'a>, TableError> {
        let found = document.get_ref().iter().find(|(key, _)| key.get_ref() == name);
        let Some((key, value)) = found else {
            return Err(self.error(&(0..0), name, "section is missing".to_owned()));
        };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Section { table, start: key.span().start }),
            _ => Err(self.error(&value.span(), name, "must be a table".to_owned())),
        }
    }

    fn figures(
        &self,
        section: Section<'_>,
        name: &str,
        unit: &str,
        known: &[&str],
    ) -> Result<BTreeMap<String, Figure>, TableError> {
        let mut figures = BTreeMap::new();
        // Sorted by position, so that the first error of the file is the one that is reported.
        let mut items: Vec<_> = section.table.iter().collect();
        items.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in items {
            if !known.contains(&key.get_ref().as_ref()) {
                return Err(self.unknown(key, name));
            }
            figures.insert(key.get_ref().to_string(), self.figure(key, value, name, unit)?);
        }
        Ok(figures)
    }

    /// A figure of [`CACHE_KEYS`].
    fn cache(&self, section: Section<'_>, name: &str, unit: &str) -> Result<Figure, TableError> {
        let found = section.table.iter().find(|(key, _)| key.get_ref() == name);
        let Some((key, value)) = found else {
            return Err(self.missing(section, "cache", name));
        };
        let figure = self.figure(key, value, "cache", unit)?;
        if figure.value == 0 {
            let field = format!("cache.{name}");
            return Err(self.error(&value.span(), &field, "must not be zero".to_owned()));
        }
        Ok(figure)
    }

    /// Reads `key = { unit = N, source = "..." }`.
    fn figure(
        &self,
        key: &Key<'_>,
        value: &Spanned<DeValue<'_>>,
        section: &str,
        unit: &str,
    ) -> Result<Figure, TableError> {
        let field = format!("{section}.{}", key.get_ref());
        let DeValue::Table(table) = value.get_ref() else {
            let problem = format!("must be {{ {unit} = ..., source = \"...\" }}");
            return Err(self.error(&value.span(), &field, problem));
        };
        let (mut number, mut source) = (None, None);
        for (part, value) in table {
            let at = |problem: &str| {
                self.error(
                    &value.span(),
                    &format!("{field}.{}", part.get_ref()),
                    problem.to_owned(),
                )
            };
            match (part.get_ref().as_ref(), value.get_ref()) {
                (name, DeValue::Integer(integer)) if name == unit => {
                    let parsed = u64::from_str_radix(integer.as_str(), integer.radix());
                    number = Some(parsed.map_err(|_| at("must be a whole number, not negative"))?);
                }
                (name, _) if name == unit => return Err(at("must be a whole number")),
                ("source", DeValue::String(text)) if !text.trim().is_empty() => {
                    source = Some(text.to_string());
                }
                ("source", _) => {
                    return Err(at("must be a text that says where the figure is from"));
                }
                _ => return Err(at("unknown field")),
            }
        }
        match (number, source) {
            (Some(value), Some(source)) => Ok(Figure { value, source }),
            (None, _) => Err(self.error(&value.span(), &field, format!("{unit} is missing"))),
            (_, None) => Err(self.error(&value.span(), &field, "source is missing".to_owned())),
        }
    }

    fn unknown(&self, key: &Key<'_>, section: &str) -> TableError {
        let field = format!("{section}.{}", key.get_ref());
        self.error(&key.span(), &field, "unknown key".to_owned())
    }

    fn missing(&self, section: Section<'_>, name: &str, key: &str) -> TableError {
        let field = format!("{name}.{key}");
        self.error(&(section.start..section.start), &field, "required key is missing".to_owned())
    }

    fn error(&self, span: &Range<usize>, field: &str, problem: String) -> TableError {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        TableError { file: self.file.to_owned(), line, field: field.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A complete file, one entry per line, the cost section's header on line 7.
    fn example() -> String {
        let mut text = String::from(
            "name = \"example\"\n\
             [cache]\n\
             l1 = { bytes = 32768, source = \"data sheet\" }\n\
             l2 = { bytes = 1_048_576, source = \"data sheet\" }\n\
             llc = { bytes = 26214400, source = \"data sheet\" }\n\
             sockets = { count = 2, source = \"data sheet\" }\n\
             [cost]\n",
        );
        for key in required_keys() {
            text.push_str(&format!("{key} = {{ ns = 17, source = \"measured\" }}\n"));
        }
        text
    }

    fn error(text: &str) -> String {
        CostTable::parse("m.toml", text).expect_err("must fail").to_string()
    }

    #[test]
    fn a_complete_table_is_read() {
        let mut text = example();
        text.push_str("[nodes]\nanything = 1\n");
        let table = CostTable::parse("m.toml", &text).expect("valid");
        assert_eq!(table.ns("pcp_alloc"), Some(17));
        assert_eq!(table.ns("zap_nothing"), None);
        assert_eq!(table.l2_bytes.value, 1 << 20);
        assert_eq!(table.nr_sockets.value, 2);
        assert!(table.entries().all(|(_, figure)| !figure.source.is_empty()));
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let good = example();
        let line_of = |key: &str| {
            1 + good.lines().position(|line| line.starts_with(&format!("{key} "))).expect("there")
        };
        let tick = line_of("tick");
        let with = |from: &str, to: &str| {
            assert!(good.contains(from));
            error(&good.replace(from, to))
        };
        assert_eq!(with("tick = ", "tock = "), format!("m.toml:{tick}: cost.tock: unknown key"));
        let without: String =
            good.lines().filter(|l| !l.starts_with("tick ")).map(|l| format!("{l}\n")).collect();
        assert_eq!(error(&without), "m.toml:7: cost.tick: required key is missing");
        assert_eq!(
            with("tick = { ns = 17,", "tick = { ns = -1,"),
            format!("m.toml:{tick}: cost.tick.ns: must be a whole number, not negative")
        );
        assert_eq!(
            with("tick = { ns = 17,", "tick = { ns = 1.5,"),
            format!("m.toml:{tick}: cost.tick.ns: must be a whole number")
        );
        assert_eq!(
            with("tick = { ns = 17, source = \"measured\" }", "tick = { ns = 17 }"),
            format!("m.toml:{tick}: cost.tick: source is missing")
        );
        assert_eq!(
            with("tick = { ns = 17,", "tick = { us = 17,"),
            format!("m.toml:{tick}: cost.tick.us: unknown field")
        );
        assert_eq!(
            with("tick = { ns = 17, source = \"measured\" }", "tick = 17"),
            format!("m.toml:{tick}: cost.tick: must be {{ ns = ..., source = \"...\" }}")
        );
        assert_eq!(
            with("tick = { ns = 17, source = \"measured\" }", "tick = { ns = 17, source = \" \" }"),
            format!(
                "m.toml:{tick}: cost.tick.source: must be a text that says where the figure is from"
            )
        );
        assert_eq!(with("\nllc = ", "\nl4 = "), "m.toml:5: cache.l4: unknown key");
        assert_eq!(with("bytes = 32768", "bytes = 0"), "m.toml:3: cache.l1: must not be zero");
        assert_eq!(with("[cost]", "[costs]"), "m.toml:1: cost: section is missing");
        assert!(with("[cost]", "[cost").starts_with("m.toml:7: TOML: "));
        assert!(error("").contains("section is missing"));
    }

    #[test]
    fn the_generic_server_is_complete() {
        let table = CostTable::server_3ghz();
        for key in required_keys() {
            assert!(table.ns(key).is_some(), "{key}");
        }
        assert_eq!(table.ns("scan_page"), Some(200));
    }

    #[test]
    fn no_key_is_listed_twice() {
        let mut keys: Vec<_> = required_keys().collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// The rows of rules/costs#sums, as sums of the pieces that the core charges. For operations
    /// that touch memory, the row lies between the costs in L2 and in DRAM; the level is in the
    /// name.
    #[test]
    fn the_pieces_add_up_to_the_rows_of_the_rules() {
        let table = CostTable::server_3ghz();
        let sum = |keys: &[&str]| -> u64 {
            keys.iter().map(|key| table.ns(key).unwrap_or_else(|| panic!("no key {key}"))).sum()
        };
        for (row, pieces) in [
            (50, &["pcp_alloc"][..]),
            (40, &["pcp_free"]),
            (35, &["buddy_remove"]),
            (40, &["buddy_free"]),
            (20, &["lock_hot"]),
            (350, &["fault_entry"]),
            (
                700,
                &["fault_entry", "anon_fault", "pcp_alloc", "zero_4k_llc", "set_pte", "lru_move"],
            ),
            (900, &["fault_entry", "shared_write_fault"]),
            (1_100, &["fault_entry", "copy_fault", "pcp_alloc", "copy_4k_llc", "lru_move"]),
            (10, &["set_pte"]),
            (15, &["clear_pte"]),
            (15, &["zap_zero"]),
            (85, &["zap_anon", "lru_move", "pcp_free"]),
            (50, &["zap_file"]),
            (15, &["mark_referenced"]),
            (120, &["mark_activate"]),
            (60, &["tlb_page"]),
            (200, &["tlb_full"]),
            (1_500, &["ipi_first"]),
            (200, &["ipi_next"]),
            (120, &["rmap_walk", "rmap_mapping"]),
            (30, &["lru_isolate"]),
            (200, &["scan_page"]),
            (350, &["lru_isolate", "scan_page", "reclaim_unmapped", "pcp_free"]),
            (
                700,
                &[
                    "lru_isolate",
                    "scan_page",
                    "reclaim_unmapped",
                    "pcp_free",
                    "reclaim_mapped",
                    "rmap_walk",
                    "rmap_mapping",
                    "rmap_walk",
                    "rmap_mapping",
                    "clear_pte",
                ],
            ),
            (40, &["page_cache_lookup"]),
            (350, &["truncate_page", "lru_move", "pcp_free"]),
            (1_200, &["context_switch", "wakeup"]),
            (3_000, &["wake_idle_shallow"]),
            (50_000, &["wake_idle_deep"]),
            (1_500, &["tick"]),
            (100, &["syscall"]),
            (100_000, &["zero_2m"]),
        ] {
            assert_eq!(sum(pieces), row, "{pieces:?}");
        }
        // Per page of a fault-around of 16.
        assert_eq!(sum(&["fault_entry"]) / 16 + sum(&["file_map"]), 96, "about 100");
        let read = ["syscall", "page_cache_lookup", "read_hit"];
        let write = ["syscall", "page_cache_lookup", "write_hit"];
        let new = ["page_cache_add", "lru_move", "pcp_alloc"];
        for (row, pieces) in
            [(350, &read[..]), (500, &write), (1_000, &[&write[..], &new].concat())]
        {
            let (near, far) = (sum(&["copy_4k_l2"]), sum(&["copy_4k_dram"]));
            let rest = sum(pieces);
            assert!((rest + near..=rest + far).contains(&row), "{row}: {rest} + {near}..{far}");
        }
    }
}
