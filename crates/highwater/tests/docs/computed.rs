//! Figures in sentences and tables are what the program computes.
//!
//! `docs/figures.toml` has them, page by page: the text as it stands on the page, with a sum ([`formula`]) of results
//! ([`values`]) in the place of each figure. What is computed has to be on the page; if it is not, the failure prints
//! the text as it should be. Figures that the program cannot compute are listed there too, each text or section
//! with the reason ([`Stated`]), and a page must not have others.
//!
//! `UPDATE_FIGURES=1` writes the computed figures into the pages. The words around them are not changed, so read the
//! difference: "rises by −3 %" is right by this test.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};

use highwater_results::{Published, Store};
use regex::Regex;
use serde::Deserialize;

use crate::commands::{arguments, full, short};
use crate::formula::fill;
use crate::pages::{Page, pages};
use crate::root;
use crate::runs::highwater;
use crate::values::{Source, Values};

const FILE: &str = "docs/figures.toml";

/// Pages whose figures are vectors of rules, run by the tests that they name, and pages that are made.
const OTHERS: [&str; 6] = [
    "docs/src/rules/",
    "docs/src/formats/",
    "docs/src/how-to/",
    "docs/src/embedding/",
    "docs/src/policies.md",
    "docs/src/reproduced.md",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    computed: Vec<Computed>,
    stated: Vec<Stated>,
}

/// Texts of a page that one command computes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Computed {
    page: String,
    /// The command; none if all is published.
    command: Option<String>,
    /// Which test computes them.
    when: When,
    /// Short names of runs.
    #[serde(default)]
    runs: BTreeMap<String, String>,
    texts: Vec<String>,
}

/// How long the command takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum When {
    /// Seconds: a step of `.ci/full` that the gate runs, too, while its time allows.
    Always,
    /// A check of the model against captured Linux: a step of the gate.
    Gate,
    /// A check against more captures: the first step of `.ci/full`.
    Full,
    /// Less than a minute when released: in CI.
    Ci,
    /// Minutes: when somebody asks for it.
    Asked,
}

/// Figures of a page that are not computed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    page: String,
    /// All that stands below this heading; empty: before the first. Without it and without texts: the page.
    section: Option<String>,
    /// These texts.
    #[serde(default)]
    texts: Vec<String>,
    /// What they are.
    why: String,
}

fn figures() -> Figures {
    let text = fs::read_to_string(root().join(FILE)).expect("it is there");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"))
}

/// The captured files that a check reads.
fn captured(line: &str) -> Vec<&str> {
    line.split_whitespace().filter(|word| word.contains("reference/")).collect()
}

/// True if a step of its own runs this check of the model, or one of the same files.
pub(crate) fn has_own_step(line: &str) -> bool {
    static CHECKED: LazyLock<Vec<String>> = LazyLock::new(|| {
        let is_step = |of: &Computed| matches!(of.when, When::Gate | When::Full);
        figures().computed.into_iter().filter(is_step).filter_map(|of| of.command).collect()
    });
    let is_check = arguments(line).is_some_and(|args| args[0] == "check");
    is_check && CHECKED.iter().any(|checked| captured(checked) == captured(line))
}

/// A text in which every space is one.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn page(name: &str) -> Page {
    let found = pages().into_iter().find(|page| page.name == name);
    found.unwrap_or_else(|| panic!("{FILE}: there is no page {name}"))
}

fn source(computed: &Computed) -> Source {
    let Some(command) = &computed.command else { return Source::Published };
    let args = arguments(command).unwrap_or_else(|| panic!("{FILE}: {command} is not ours"));
    let is_short = matches!(computed.when, When::Always | When::Gate | When::Full);
    let done = highwater(&if is_short { short(&args) } else { full(&args) });
    assert!(matches!(done.status, Some(0 | 1)), "{command}: {}", done.stderr);
    match args[0].as_str() {
        "check" => Source::Checked(serde_json::from_str(&done.stdout).expect("JSON")),
        "replay" => Source::Replayed(serde_json::from_str(&done.stdout).expect("JSON")),
        _ => {
            let store = Store::open(&done.results).expect("the results were kept");
            Source::Compared(Box::new(store.read_document().expect("a document")))
        }
    }
}

/// The texts as they should be, or what is wrong with their sums.
fn filled(computed: &Computed) -> Vec<Result<String, String>> {
    let published = Published::load().expect("it is part of the program");
    let source = source(computed);
    let values = Values { source: &source, runs: &computed.runs, published: &published };
    let lookup = |name: &str, arguments: &[&str]| values.get(name, arguments);
    computed.texts.iter().map(|text| fill(&flat(text), &lookup)).collect()
}

/// Held while a page is read, compared and written.
static WRITING: Mutex<()> = Mutex::new(());

fn compare(when: When) {
    let all = figures().computed;
    // What takes minutes can be asked for page by page.
    let wanted = std::env::var("HIGHWATER_PAGE").unwrap_or_default();
    let is_meant = |computed: &&Computed| {
        computed.when == when && (when != When::Asked || computed.page.contains(&wanted))
    };
    let these: Vec<&Computed> = all.iter().filter(is_meant).collect();
    assert!(!these.is_empty(), "there are such figures");
    let updates = std::env::var_os("UPDATE_FIGURES").is_some();
    let mut wrong = Vec::new();
    for computed in these {
        let filled = filled(computed);
        // Tests beside this one write pages, too.
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let Page { name, mut text } = page(&computed.page);
        for (sums, filled) in computed.texts.iter().zip(filled) {
            let filled = match filled {
                Ok(filled) => filled,
                Err(error) => {
                    wrong.push(format!("{FILE}: {name}: {error}"));
                    continue;
                }
            };
            if updates {
                text = with_figures(&text, &flat(sums), &filled);
            }
            if !flat(&text).contains(&filled) {
                wrong.push(format!("{name} should have:\n  {filled}"));
            }
        }
        if updates {
            fs::write(root().join(&name), text).expect("the page can be written");
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A page with the figures of a filled text in the place of those that it has. Of several places that
/// have the words (two tables with the same rows), it is the one with most of the figures: published
/// ones do not change.
fn with_figures(page: &str, sums: &str, filled: &str) -> String {
    let of_filled = template(sums, " ").captures(filled).expect("it is filled");
    let news: Vec<&str> = of_filled.iter().skip(1).flatten().map(|new| new.as_str()).collect();
    let olds = |captures: &regex::Captures<'_>| -> Vec<std::ops::Range<usize>> {
        captures.iter().skip(1).flatten().map(|old| old.range()).collect()
    };
    let pattern = template(sums, r"\s+");
    let places = pattern.captures_iter(page).map(|captures| olds(&captures));
    let nr_same = |place: &Vec<std::ops::Range<usize>>| {
        place.iter().zip(&news).filter(|(old, new)| page[(*old).clone()] == ***new).count()
    };
    // The first of those with most: `max_by_key` has the last.
    let Some(place) = places.collect::<Vec<_>>().into_iter().rev().max_by_key(nr_same) else {
        return page.to_owned();
    };
    let (mut text, mut from) = (String::new(), 0);
    for (old, new) in place.into_iter().zip(news) {
        text += &page[from..old.start];
        text += new;
        from = old.end;
    }
    text + &page[from..]
}

#[test]
#[ignore = "simulates for seconds: a step of .ci/full"]
fn pages_have_the_figures_that_take_seconds() {
    compare(When::Always);
}

#[test]
#[ignore = "runs captured programs on the model: a step of the gate"]
fn checks_of_the_model_agree_as_their_pages_say() {
    check(When::Gate);
}

#[test]
#[ignore = "runs more captured programs on the model: a step of .ci/full"]
fn more_checks_of_the_model_agree_as_their_pages_say() {
    check(When::Full);
}

/// Checks that end as their commands say, with the figures of their pages.
fn check(when: When) {
    for command in figures().computed.iter().filter(|of| of.when == when) {
        let line = command.command.as_deref().expect("a check");
        let args = short(&arguments(line).expect("a command of ours"));
        let done = highwater(&args);
        // With a least agreement the command itself says whether it is reached.
        let wanted: &[i32] = if line.contains("--min-agreement") { &[0] } else { &[0, 1] };
        let is_good = done.status.is_some_and(|status| wanted.contains(&status));
        assert!(is_good, "{line}: {:?} {}", done.status, done.stderr);
    }
    compare(when);
}

#[test]
#[ignore = "simulates for half a minute: CI runs it with the released program"]
fn figures_of_full_runs_are_on_their_pages() {
    compare(When::Ci);
}

#[test]
#[ignore = "simulates for minutes: for whoever changes what a study computes (HIGHWATER_PAGE: only pages with this in their names)"]
fn studies_in_full_are_on_their_pages() {
    compare(When::Asked);
}

/// What a reader takes for a result: a number with a decimal point, with a comma, or with a unit.
fn is_figure(number: &str, behind: &str) -> bool {
    let units = ["%", "ms", "µs", "us", "ns", "s", "M", "k", "times"];
    let unit: String =
        behind.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '%').collect();
    let has_unit = behind.starts_with(' ') && units.contains(&unit.as_str());
    let is_version = !has_unit
        && (["4.", "5.", "6.", "2.6"].iter().any(|v| number.starts_with(v))
            || ["7.0", "7.1", "7.2"].contains(&number));
    has_unit || (number.contains(['.', ',']) && !is_version)
}

/// Where the texts stand: bytes of a flat page that they cover.
fn covered(text: &str, pattern: &str, is_covered: &mut [bool]) -> usize {
    let found: Vec<usize> = text.match_indices(pattern).map(|(at, _)| at).collect();
    for at in &found {
        is_covered[*at..at + pattern.len()].fill(true);
    }
    found.len()
}

/// The pattern that finds a text whatever its figures are. Between its words stands `space`.
fn template(text: &str, space: &str) -> Regex {
    let words = |text: &str| regex::escape(text).replace(' ', space);
    let mut pattern = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        pattern += &words(before);
        pattern += r"([−+]?\d[\d,.]*\d|[−+]?\d)";
        rest = after.split_once('}').map_or("", |(_, behind)| behind);
    }
    Regex::new(&(pattern + &words(rest))).expect("a pattern")
}

#[test]
fn every_figure_is_computed_or_stated() {
    let figures = figures();
    let code = Regex::new(r"(?s)```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->").expect("a pattern");
    let number = Regex::new(r"\d+(?:[.,]\d+)*").expect("a pattern");
    let mut wrong = Vec::new();
    for page in pages() {
        if OTHERS.iter().any(|other| page.name.starts_with(other)) {
            continue;
        }
        let text = flat(&page.text);
        let mut is_covered = vec![false; text.len()];
        for found in code.find_iter(&text) {
            is_covered[found.range()].fill(true);
        }
        for computed in figures.computed.iter().filter(|computed| computed.page == page.name) {
            for line in &computed.texts {
                let found: Vec<_> = template(&flat(line), " ").find_iter(&text).collect();
                for found in &found {
                    is_covered[found.range()].fill(true);
                }
                if found.is_empty() {
                    wrong.push(format!("{} does not have: {line}", page.name));
                }
            }
        }
        for stated in figures.stated.iter().filter(|stated| stated.page == page.name) {
            if stated.section.is_none() && stated.texts.is_empty() {
                is_covered.fill(true);
            }
            let mut nr_found = 0;
            for line in &stated.texts {
                nr_found += covered(&text, &flat(line), &mut is_covered).min(1);
            }
            let section =
                stated.section.as_deref().and_then(|heading| section(&page.text, heading));
            nr_found += section.map_or(0, |part| covered(&text, &flat(part), &mut is_covered));
            if nr_found != stated.texts.len() + usize::from(stated.section.is_some()) {
                let (what, why) = (stated.section.as_ref(), &stated.why);
                wrong.push(format!("{}: texts or section {what:?} are gone ({why})", page.name));
            }
        }
        for found in number.find_iter(&text) {
            if !is_covered[found.start()] && is_figure(found.as_str(), &text[found.end()..]) {
                let start = text.floor_char_boundary(found.start().saturating_sub(50));
                let end = text.ceil_char_boundary((found.end() + 30).min(text.len()));
                wrong.push(format!("{}: {} in: {}", page.name, found.as_str(), &text[start..end]));
            }
        }
    }
    let pages = pages();
    let named =
        figures.computed.iter().map(|c| &c.page).chain(figures.stated.iter().map(|s| &s.page));
    wrong.extend(
        named
            .filter(|name| !pages.iter().any(|page| page.name == **name))
            .map(|name| format!("{FILE}: there is no page {name}")),
    );
    assert!(wrong.is_empty(), "figures that {FILE} does not have:\n{}", wrong.join("\n"));
}

/// What stands below a heading, up to the next one.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let begins =
        |line: &str| line.starts_with('#') && line.trim_start_matches('#').trim() == heading;
    let mut at = 0;
    let mut from = heading.is_empty().then_some(0);
    for line in text.split_inclusive('\n') {
        match from {
            Some(from) if line.starts_with("## ") && at > from => return Some(&text[from..at]),
            None if begins(line) => from = Some(at),
            _ => {}
        }
        at += line.len();
    }
    from.map(|from| &text[from..])
}

#[test]
fn figures_and_sections_are_found() {
    for (number, behind) in [("36,788", " refaults"), ("1.5", " x"), ("12", " %"), ("3", " ms)")] {
        assert!(is_figure(number, behind), "{number}{behind}");
    }
    for (number, behind) in [("12", " files"), ("6.1", " kernel"), ("001", "."), ("3", "ms")] {
        assert!(!is_figure(number, behind), "{number}{behind}");
    }
    assert!(is_figure("5.2", " ms"));
    let text = "# Page\nfirst\n## One\na\n### Part\nb\n## Two\nc\n";
    assert_eq!(section(text, ""), Some("# Page\nfirst\n"));
    assert_eq!(section(text, "One"), Some("## One\na\n### Part\nb\n"));
    assert_eq!(section(text, "Two"), Some("## Two\nc\n"));
    assert_eq!(section(text, "Three"), None);
    assert!(template("of {a(b) | 2} ms", " ").is_match("of −1,234.5 ms"));
    assert!(!template("of {a(b)} ms", " ").is_match("of many ms"));
    let page = "It takes 5 s\nand 6.1 ms.";
    let new = with_figures(page, "takes {a} s and {b | 1} ms.", "takes 1,234 s and −7.0 ms.");
    assert_eq!(new, "It takes 1,234 s\nand −7.0 ms.");
    assert_eq!(with_figures(page, "no {a} text", "no 1 text"), page);
    let two = with_figures("| a | 1 | 7 |\n| a | 1 | 8 |", "| a | {x} | {y} |", "| a | 5 | 8 |");
    assert_eq!(two, "| a | 1 | 7 |\n| a | 5 | 8 |");
}
