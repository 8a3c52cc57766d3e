//! What a page shows as the output of a command is what the command prints.
//!
//! Output stands below its command in a `console` block, or in a `text` block after a comment that names the
//! command: `<!-- printed by: highwater compare 002 -->`. Lines are in the order of the output and next to each
//! other; `...` stands for lines that were left out, and in a line for a part of it. A `text` block without such a
//! comment is a drawing or a formula and is listed in [`NOT_PRINTED`]. `printed by: cat FILE` quotes a file.
//!
//! What takes longer than its command's short form is compared by the tests that CI runs with the released program.

use std::fs;

use crate::commands::{arguments, full, run, short};
use crate::pages::{Block, Command, all_blocks};
use crate::root;
use crate::runs::highwater;

/// Blocks that no command prints, by page and first line, and why.
const NOT_PRINTED: &[(&str, &str, &str)] = &[
    ("docs/src/reclaim.md", "budget ", "a drawing of a pass"),
    ("docs/src/compaction.md", " first frame", "a drawing of the scanners"),
    ("docs/src/page-cache.md", " 0 ", "a drawing of the limits"),
    ("docs/src/swap-and-disks.md", " mapped", "a drawing of a page's way"),
    ("docs/src/embedding/library.md", "node 0 DMA", "examples/embed, whose test compares it"),
    ("docs/src/how-to/swarm.md", "seed 1234: FAILED", "a failure; no seed fails"),
    ("docs/src/how-to/calibrate.md", "Costs of primitives here", "measured on one computer"),
    ("docs/src/how-to/calibrate.md", "6.1 on machine beside", "measured on one computer"),
    ("docs/src/how-to/calibrate.md", "Costs in costs.toml", "measured on one computer"),
    ("docs/src/how-to/capture.md", "machine.toml: ", "a capture of a machine that runs"),
    ("docs/src/how-to/capture.md", "service ", "a trial with services that run"),
    ("docs/src/how-to/capture.md", "Memory cgroups", "a capture of a tree that a test makes"),
    (
        "docs/src/how-to/add-a-tracepoint.md",
        "$ cargo run --release --example tracepoints",
        "the tracepoint is the one that the page adds",
    ),
];

/// Pages whose `text` blocks are formulas and formats, of kernels and of files.
const FORMULAS: [&str; 2] = ["docs/src/rules/", "docs/src/formats/"];

/// Output that a page shows.
struct Quote {
    place: String,
    command: String,
    lines: Vec<String>,
}

/// True for a block that no command prints.
fn is_not_printed(block: &Block) -> bool {
    let begins = |first: &str| block.lines[0].starts_with(first);
    NOT_PRINTED.iter().any(|(page, first, _)| *page == block.page && begins(first))
}

fn quotes() -> Vec<Quote> {
    let mut quotes = Vec::new();
    for block in all_blocks().into_iter().filter(|block| !is_not_printed(block)) {
        for Command { place, line, output, .. } in block.commands() {
            if !output.is_empty() {
                quotes.push(Quote { place, command: line, lines: output });
            }
        }
        if let Block { place, printed_by: Some(command), lines, .. } = block {
            quotes.push(Quote { place, command, lines });
        }
    }
    assert!(quotes.len() >= 4, "the quotes were found");
    quotes
}

/// The first line of a quote that the output does not have where it should be.
fn first_wrong<'a>(quote: &'a [String], output: &str) -> Option<&'a str> {
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let mut from = 0;
    for part in quote.split(|line| line.trim() == "...").filter(|part| !part.is_empty()) {
        let fits = |at: usize| part.iter().zip(&output[at..]).take_while(|(q, o)| is_like(q, o));
        let starts = from..output.len();
        match starts.clone().find(|at| fits(*at).count() == part.len()) {
            Some(at) => from = at + part.len(),
            None => {
                let nearest = starts.map(|at| fits(at).count()).max().unwrap_or(0);
                return Some(&part[nearest]);
            }
        }
    }
    None
}

/// The same line, or the same in the parts that are shown, with other gaps between them.
fn is_like(quoted: &str, printed: &str) -> bool {
    let quoted = quoted.trim_end();
    if !quoted.contains(" ... ") {
        return quoted == printed;
    }
    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }
    let printed = words(printed);
    let mut from = 0;
    quoted.split(" ... ").all(|part| {
        let part = words(part);
        let found = (from..printed.len()).find(|at| printed[*at..].starts_with(&part));
        from = found.map_or(from, |at| at + part.len());
        found.is_some()
    })
}

/// True if what the command prints does not depend on the form in which it runs.
fn is_short(args: &[String]) -> bool {
    let print = |args: Vec<String>| args.into_iter().filter(|word| word != "--jobs" && word != "1");
    print(short(args)).eq(print(full(args)))
}

fn compare(quotes: &[Quote], output: impl Fn(&Quote) -> String) {
    assert!(!quotes.is_empty(), "there are such quotes");
    let mut wrong = Vec::new();
    for quote in quotes {
        if let Some(line) = first_wrong(&quote.lines, &output(quote)) {
            wrong.push(format!("{}: {} does not print:\n{line}", quote.place, quote.command));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "simulates for half a minute: a step of .ci/full"]
fn quoted_output_is_printed() {
    let is_quick = |quote: &Quote| arguments(&quote.command).is_some_and(|args| is_short(&args));
    let quotes: Vec<Quote> = quotes().into_iter().filter(is_quick).collect();
    let blocks = all_blocks();
    compare(&quotes, |quote| {
        let (place, line) = (quote.place.clone(), quote.command.clone());
        run(&Command { place, line, dir: None, output: Vec::new() }, &blocks).stdout.clone()
    });
}

#[test]
#[ignore = "simulates for half a minute: CI runs it with the released program"]
fn figures_quoted_from_full_runs_are_printed() {
    let is_full = |quote: &Quote| arguments(&quote.command).is_some_and(|args| !is_short(&args));
    let quotes: Vec<Quote> = quotes().into_iter().filter(is_full).collect();
    compare(&quotes, |quote| {
        highwater(&full(&arguments(&quote.command).unwrap_or_default())).stdout.clone()
    });
}

#[test]
fn quoted_files_have_what_is_quoted() {
    let is_of_file = |quote: &Quote| quote.command.starts_with("cat ");
    let quotes: Vec<Quote> = quotes().into_iter().filter(is_of_file).collect();
    compare(&quotes, |quote| {
        let file = quote.command.trim_start_matches("cat ");
        fs::read_to_string(root().join(file)).expect("the file is there")
    });
}

#[test]
fn every_block_of_text_is_printed_or_is_no_output() {
    let blocks = all_blocks();
    let is_formula = |block: &Block| FORMULAS.iter().any(|dir| block.page.starts_with(dir));
    let texts = blocks.iter().filter(|block| ["text", ""].contains(&block.language.as_str()));
    for block in texts {
        assert!(
            block.printed_by.is_some() || is_not_printed(block) || is_formula(block),
            "{}: what prints this? Say it in a comment, or list it as no output",
            block.place
        );
    }
    for (page, first, why) in NOT_PRINTED {
        let is_used = blocks.iter().any(|b| b.page == *page && b.lines[0].starts_with(first));
        assert!(is_used, "{page} has no block that begins with {first:?} any more ({why})");
    }
}

#[test]
fn a_wrong_quote_is_found() {
    let output = "one\ntwo  \nthree 1 2 3\nfour\nfive";
    let wrong = |quote: &str| {
        let lines: Vec<String> = quote.lines().map(str::to_owned).collect();
        first_wrong(&lines, output).map(str::to_owned)
    };
    for right in
        ["one\ntwo", "...\ntwo\n...\nfive", "three ... 2 ... 3\nfour", "one\n...\nthree 1 2 3"]
    {
        assert_eq!(wrong(right), None, "{right}");
    }
    assert_eq!(wrong("one\nthree 1 2 3").as_deref(), Some("three 1 2 3"));
    assert_eq!(wrong("five\n...\none").as_deref(), Some("one"));
    assert_eq!(wrong("three ... 3 ... 2").as_deref(), Some("three ... 3 ... 2"));
    assert_eq!(wrong("two\nthree 1 2 3\nfour\nsix").as_deref(), Some("six"));
}
