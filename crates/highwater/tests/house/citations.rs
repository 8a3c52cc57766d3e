//! What comments, tests and the book refer to is there: the project explains itself, by itself.
//!
//! Code names a rule as `rules/PAGE#ANCHOR`, a page of the book's rules and an anchor on it; a rule names the
//! tests that run its numbers; pages name each other. Nothing refers to a text that readers do not have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

use super::{pattern, root};

/// How citations of rules begin.
const RULES: &str = "rules/";

/// Folders of which nothing is looked at: what was captured, and what is not part of the project.
const SKIPPED: [&str; 5] = [".git", "book", "out", "reference", "target"];

/// The text files of the project by path from the root.
static TEXTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(texts);

fn texts() -> BTreeMap<String, String> {
    let (mut dirs, mut texts) = (vec![root()], BTreeMap::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                let is_skipped = SKIPPED.iter().any(|name| path.ends_with(name));
                dirs.extend((!is_skipped).then_some(path));
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path.strip_prefix(root()).expect("inside").to_string_lossy();
                texts.insert(name.into_owned(), text);
            }
        }
    }
    texts
}

/// Pages by path in the book, each with its anchors: explicit ones, and headings.
type Book<'a> = BTreeMap<&'a str, BTreeSet<String>>;

fn book(texts: &BTreeMap<String, String>) -> Book<'_> {
    let explicit = pattern(r#"<a id="([^"]+)"></a>"#);
    let heading = pattern(r"(?m)^#+ (.*)$");
    let pages = texts.iter().filter_map(|(name, text)| {
        let page = name.strip_prefix("docs/src/").filter(|page| page.ends_with(".md"))?;
        let mut anchors: BTreeSet<String> =
            explicit.captures_iter(text).map(|found| found[1].to_owned()).collect();
        for found in heading.captures_iter(text) {
            let kept = found[1].chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            anchors.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
        }
        Some((page, anchors))
    });
    pages.collect()
}

/// Is there such a page, and such a place on it?
fn opens(book: &Book<'_>, page: &str, anchor: Option<&str>) -> bool {
    book.get(page).is_some_and(|page| anchor.is_none_or(|anchor| page.contains(&anchor[1..])))
}

/// Puts together what was found in texts, how much and what of it is wrong: enough, and nothing.
fn assert_good<'a>(least: usize, found: impl Iterator<Item = (&'a str, (usize, Vec<String>))>) {
    let (mut nr_found, mut wrong) = (0, Vec::new());
    for (name, (nr, bad)) in found {
        nr_found += nr;
        wrong.extend(bad.iter().map(|what| format!("{name}: {what}")));
    }
    assert!(nr_found >= least, "the search found them: {nr_found}");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The lines of a text that refer to the description which the rules were written from.
fn foreign(text: &str) -> Vec<String> {
    let citation = pattern(
        "\\b[Ss]pec 0\\d|\u{a7}|_of_the_spe[c]|\\bspec_(defaults|vector)|fn \\w*(vector|v16|_23)_\\d",
    );
    text.lines().filter(|line| citation.is_match(line)).map(str::to_owned).collect()
}

#[test]
fn nothing_cites_what_readers_do_not_have() {
    let texts = &*TEXTS;
    assert_good(400, texts.iter().map(|(name, text)| (name.as_str(), (1, foreign(text)))));

    let text = format!("// By {}1.\n// By rule 1.\n// \u{a7}2\nlet spec = 01;\n", "spec 0");
    assert_eq!(foreign(&text).len(), 2);
    let names = ["rows_of_the_", "", "up_to_5_8", "vector_", "v16_", "table_23_"];
    let named = names
        .map(|name| format!("fn {name}{}()\n", if name.ends_with("the_") { "spec" } else { "3" }));
    assert_eq!(foreign(&named.concat()).len(), 4);
}

/// The rules that a text cites, and those of them that do not open.
fn cited(book: &Book<'_>, text: &str) -> (usize, Vec<String>) {
    let citation =
        pattern(&format!(r"(docs/src/)?\b{RULES}([a-z0-9-]+)(#[A-Za-z0-9_-]*)?(\.\w+)?"));
    let (mut nr_cited, mut wrong) = (0, Vec::new());
    for found in citation.captures_iter(text) {
        nr_cited += 1;
        let page = format!("{RULES}{}.md", &found[2]);
        let is_path = found.get(1).is_some();
        let has_extension = found.get(4).is_some_and(|extension| extension.as_str() == ".md");
        let anchor = found.get(3).map(|anchor| anchor.as_str());
        if is_path != has_extension || !opens(book, &page, anchor) {
            wrong.push(found[0].to_owned());
        }
    }
    (nr_cited, wrong)
}

#[test]
fn every_rule_that_is_cited_opens() {
    let texts = &*TEXTS;
    let book = book(texts);
    let code = texts.iter().filter(|(name, _)| name.starts_with("crates/"));
    assert_good(400, code.map(|(name, text)| (name.as_str(), cited(&book, text))));

    let good = format!("({RULES}watermarks#fast-test, {RULES}lru). See docs/src/{RULES}index.md");
    assert_eq!(cited(&book, &good), (3, Vec::new()));
    let bad =
        format!("({RULES}watermark#fast-test), {RULES}nothing, {RULES}lru#nothing, {RULES}lru.md");
    assert_eq!(cited(&book, &bad).1.len(), 4);
}

/// The tests that a page names, and what is wrong with its lines about them.
fn named_tests(texts: &BTreeMap<String, String>, page: &str) -> (usize, Vec<String>) {
    let form = pattern(r"^Tested by `([^`]+)` (`\w+`(?:, `\w+`)*)\.$");
    let (mut nr_named, mut wrong) = (0, Vec::new());
    for line in page.lines().filter(|line| line.contains("Tested by")) {
        let Some(found) = form.captures(line) else {
            wrong.push(format!("not understood: {line}"));
            continue;
        };
        let Some(source) = texts.get(&found[1]) else {
            wrong.push(format!("no file {}", &found[1]));
            continue;
        };
        for name in found[2].split(", ").map(|name| name.trim_matches('`')) {
            nr_named += 1;
            if !source.contains(&format!("fn {name}(")) {
                wrong.push(format!("{} has no {name}", &found[1]));
            }
        }
    }
    (nr_named, wrong)
}

#[test]
fn every_test_that_a_rule_names_is_there() {
    let texts = &*TEXTS;
    let pages = texts.iter().filter(|(name, _)| name.starts_with("docs/src/rules"));
    assert_good(400, pages.map(|(name, page)| (name.as_str(), named_tests(texts, page))));

    let me = "crates/highwater/tests/house/citations.rs";
    let good = format!("Tested by `{me}` `named_tests`, `cited`.\n");
    assert_eq!(named_tests(texts, &good), (2, Vec::new()));
    let bad = format!("Tested by `{me}` `no_such`.\nTested by `x.rs` `a`.\nTested by `{me}`.");
    assert_eq!(named_tests(texts, &bad).1.len(), 3);
}

/// The links of a page to pages of the book and places on them, and those that do not open.
fn links(book: &Book<'_>, page: &str, text: &str) -> (usize, Vec<String>) {
    let link = pattern(r"\]\(([^)#\s:]*\.md)?(#[^)\s]+)?\)");
    let (mut nr_links, mut wrong) = (0, Vec::new());
    for found in link.captures_iter(text) {
        nr_links += 1;
        let mut path: Vec<&str> = page.split('/').collect();
        if let Some(target) = found.get(1) {
            path.pop();
            for part in target.as_str().split('/') {
                match part {
                    ".." => drop(path.pop()),
                    part => path.push(part),
                }
            }
        }
        if !opens(book, &path.join("/"), found.get(2).map(|anchor| anchor.as_str())) {
            wrong.push(found[0].to_owned());
        }
    }
    (nr_links, wrong)
}

#[test]
fn every_link_between_pages_opens() {
    let texts = &*TEXTS;
    let book = book(texts);
    let text = |page: &str| &texts[&format!("docs/src/{page}")];
    assert_good(300, book.keys().map(|page| (*page, links(&book, page, text(page)))));

    let page = format!("{RULES}watermarks.md");
    let good = "[a](lru.md#lists) [b](../tour.md) [c](#marks) [d](https://example.org/x.md#y)";
    assert_eq!(links(&book, &page, good), (3, Vec::new()));
    assert_eq!(links(&book, &page, "[a](lru.md#no) [b](tour.md) [c](#nothing)").1.len(), 3);
}
