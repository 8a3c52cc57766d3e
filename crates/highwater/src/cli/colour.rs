//! Colours on a terminal: better and worse results, notes below a table, errors.
//!
//! Only printed text is coloured, never text in files. It is coloured only on a terminal, unless
//! the user says otherwise (`--color`, `NO_COLOR`, `CLICOLOR_FORCE`).

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU8, Ordering};

use clap::ColorChoice;

const GOOD: &str = "\u{1b}[32m";
const BAD: &str = "\u{1b}[31m";
const DIM: &str = "\u{1b}[2m";
const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// The user's choice: 0 auto, 1 always, 2 never.
static CHOICE: AtomicU8 = AtomicU8::new(0);

/// From now on.
pub(super) fn choose(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => 0,
        ColorChoice::Always => 1,
        ColorChoice::Never => 2,
    };
    CHOICE.store(choice, Ordering::Relaxed);
}

/// Whether standard output is to have colours.
pub(super) fn is_wanted() -> bool {
    is_wanted_on(io::stdout().is_terminal())
}

fn is_wanted_on(is_terminal: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match CHOICE.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ if is_set("NO_COLOR") => false,
        _ if is_set("CLICOLOR_FORCE") => true,
        _ => is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// The beginning of an error.
pub(super) fn error(text: &str) -> String {
    match is_wanted_on(io::stderr().is_terminal()) {
        true => format!("{BAD}{text}{PLAIN}"),
        false => text.to_owned(),
    }
}

/// Adds colours to tables in [`Format::Terminal`](highwater_report::Format::Terminal). Only colour
/// codes are added.
pub(super) fn painted(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() + text.len() / 8);
    let mut is_title = true;
    for line in text.split_inclusive('\n') {
        let (words, end) = match line.strip_suffix('\n') {
            Some(words) => (words, "\n"),
            None => (line, ""),
        };
        match words {
            "" => {}
            note if note.starts_with('#') => wrap(&mut painted, DIM, note),
            title if is_title => wrap(&mut painted, BOLD, title),
            row => paint_row(&mut painted, row),
        }
        // A title is the first line after an empty one. Its continuation lines are indented.
        is_title = words.is_empty();
        painted.push_str(end);
    }
    painted
}

fn wrap(to: &mut String, colour: &str, text: &str) {
    to.extend([colour, text, PLAIN]);
}

/// Paints marked changes (`*  12.50%*`) and the words of a verdict (`better x3`).
fn paint_row(to: &mut String, row: &str) {
    let mut rest = row;
    while !rest.is_empty() {
        let mark = rest.find('*').and_then(|open| {
            let close = open + 1 + rest[open + 1..].find('*')?;
            let is_change = |text: &str| text.ends_with('%') || text.starts_with(['x', '-']);
            is_change(rest[open + 1..close].trim()).then_some((open, close + 1))
        });
        let word = ["better ", "worse "].iter().filter_map(|word| {
            let at = rest.find(word)?;
            let value =
                rest[at + word.len()..].find(' ').map_or(rest.len(), |len| at + word.len() + len);
            Some((at, value))
        });
        let Some((from, to_)) = mark.into_iter().chain(word).min() else { break };
        let part = &rest[from..to_];
        let is_bad =
            part.starts_with("worse") || part.trim_start_matches(['*', ' ']).starts_with('-');
        to.push_str(&rest[..from]);
        wrap(to, if is_bad { BAD } else { GOOD }, part);
        rest = &rest[to_..];
    }
    to.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_painted_and_nothing_is_lost() {
        let text = "Verdict: x\nrun  better x4.5  -\nrun  worse 58.9%  -\n# a note\n\nA title\nAmean  1.0 *  41.06%*  2.0 * -10.00%*\n";
        let painted = painted(text);
        let expected = [
            "\u{1b}[1mVerdict: x\u{1b}[0m\n",
            "run  \u{1b}[32mbetter x4.5\u{1b}[0m  -\n",
            "run  \u{1b}[31mworse 58.9%\u{1b}[0m  -\n",
            "\u{1b}[2m# a note\u{1b}[0m\n\n",
            "\u{1b}[1mA title\u{1b}[0m\n",
            "Amean  1.0 \u{1b}[32m*  41.06%*\u{1b}[0m  2.0 \u{1b}[31m* -10.00%*\u{1b}[0m\n",
        ];
        assert_eq!(painted, expected.concat());
        let mut plain = painted;
        for colour in [GOOD, BAD, DIM, BOLD, PLAIN] {
            plain = plain.replace(colour, "");
        }
        assert_eq!(plain, text);
    }
}
