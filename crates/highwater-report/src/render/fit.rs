//! Widths: a table on a page, words on a line.
//!
//! A table that is too wide first has its headings wrapped, then its widest label. If that is not
//! enough, it continues below: blocks of columns, each with the labels.

use std::ops::Range;

use crate::table::{Cell, Table};

/// Blanks before a column.
const GAP: usize = 2;
/// Labels are not wrapped to less than this.
const LABEL_MIN: usize = 16;
/// Neither are the words of cells.
const CELL_MIN: usize = 12;

/// Widths of a table with columns as wide as their contents, and its blocks of columns.
pub(super) struct Fit {
    /// Width of each label column.
    pub(super) labels: Vec<usize>,
    /// Width of each value column.
    pub(super) columns: Vec<usize>,
    /// The columns of each block.
    pub(super) blocks: Vec<Range<usize>>,
}

impl Fit {
    /// Fits a table, whose cells print as `texts`, on a page of `page` columns.
    pub(super) fn new(table: &Table, texts: &[Vec<String>], page: usize) -> Fit {
        let of_labels = |column: usize| {
            let labels = table.rows.iter().map(|row| width(&row.labels[column]));
            labels.fold(width(&table.labels[column]), usize::max)
        };
        let cells = |column: usize| texts.iter().map(|row| width(&row[column])).max().unwrap_or(0);
        let nr_columns = table.columns.len();
        let mut labels: Vec<usize> = (0..table.labels.len()).map(of_labels).collect();
        let columns: Vec<usize> =
            (0..nr_columns).map(|n| cells(n).max(width(&table.columns[n]))).collect();
        if total(&labels, &columns) <= page {
            return Fit { labels, columns, blocks: std::iter::once(0..nr_columns).collect() };
        }
        let longest_piece = |name: &String| pieces(name).map(width).max().unwrap_or(0);
        let mut columns: Vec<usize> =
            (0..nr_columns).map(|n| cells(n).max(longest_piece(&table.columns[n]))).collect();
        wrap_widest(&mut labels, page.saturating_sub(total(&[], &columns)));
        if total(&labels, &columns) > page {
            // The labels may fill two thirds of the page, which leaves room for values.
            wrap_widest(&mut labels, page * 2 / 3);
        }
        // Words beside the labels are wrapped, too; numbers are not.
        let room = page.saturating_sub(total(&labels, &[]) + GAP).max(CELL_MIN);
        for (n, width) in columns.iter_mut().enumerate() {
            let is_text = |cell: &Cell| matches!(cell, Cell::Text { .. } | Cell::Missing);
            if *width > room && table.rows.iter().all(|row| is_text(&row.cells[n])) {
                *width = room;
            }
        }
        let with_gaps: Vec<usize> = columns.iter().map(|width| GAP + width).collect();
        let blocks = blocks(total(&labels, &[]), &with_gaps, &table.breaks, page);
        Fit { labels, columns, blocks }
    }
}

/// Total width of a line.
fn total(labels: &[usize], columns: &[usize]) -> usize {
    let labels = labels.iter().sum::<usize>() + labels.len().saturating_sub(1);
    labels + columns.iter().map(|width| GAP + width).sum::<usize>()
}

/// Narrows the widest label by the excess of all labels, if enough of it is left.
fn wrap_widest(labels: &mut [usize], page: usize) {
    let excess = total(labels, &[]).saturating_sub(page);
    if let Some(widest) = labels.iter_mut().max_by_key(|width| **width)
        && *widest >= excess + LABEL_MIN
    {
        *widest -= excess;
    }
}

/// Splits the columns into blocks that fit on the page beside their labels. A block begins at one
/// of `breaks` if possible, and has at least one column.
pub(super) fn blocks(
    labels: usize,
    columns: &[usize],
    breaks: &[usize],
    page: usize,
) -> Vec<Range<usize>> {
    let room = page.saturating_sub(labels);
    let taken = |columns_of: Range<usize>| columns[columns_of].iter().sum::<usize>();
    let mut blocks = Vec::new();
    let mut begin = 0;
    while begin < columns.len() {
        let mut end = begin + 1;
        while end < columns.len() && taken(begin..end + 1) <= room {
            end += 1;
        }
        let is_break =
            |at: &usize| breaks.is_empty() || breaks.contains(at) || *at == columns.len();
        let end = (begin + 1..=end).rev().find(is_break).unwrap_or(end);
        blocks.push(begin..end);
        begin = end;
    }
    if blocks.is_empty() {
        blocks.push(0..0);
    }
    blocks
}

fn width(text: &(impl AsRef<str> + ?Sized)) -> usize {
    text.as_ref().chars().count()
}

/// The pieces into which a text may be broken: words, and the parts of a name up to each of its
/// dashes.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(parts)
}

/// A word in parts that end with a dash between letters.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = word;
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_end = |at: usize, rest: &str| {
        is_letter(rest[..at].chars().next_back()) && is_letter(rest[at + 1..].chars().next())
    };
    while let Some((at, _)) = rest.match_indices('-').find(|&(at, _)| is_end(at, rest)) {
        let (part, others) = rest.split_at(at + 1);
        parts.push(part);
        rest = others;
    }
    parts.push(rest);
    parts
}

/// Breaks a text into lines of this width: between words, after a dash, or anywhere if there is
/// neither. A text that fits stays unchanged. All lines get the indentation of the text.
pub fn wrapped(text: &str, page: usize) -> Vec<String> {
    if width(text) <= page {
        return vec![text.to_owned()];
    }
    let indent = &text[..text.len() - text.trim_start().len()];
    let room = page.saturating_sub(indent.len()).max(1);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        for (number, part) in parts(word).into_iter().enumerate() {
            let last = lines.last().map_or(0, width);
            let blank = if number == 0 && last > 0 { " " } else { "" };
            if last > 0 && last + blank.len() + width(part) > room {
                lines.push(String::new());
            } else if let Some(line) = lines.last_mut() {
                line.push_str(blank);
            }
            for letter in part.chars() {
                if lines.last().is_some_and(|line| width(line) >= room) {
                    lines.push(String::new());
                }
                if let Some(line) = lines.last_mut() {
                    line.push(letter);
                }
            }
        }
    }
    lines.iter().map(|line| format!("{indent}{line}")).collect()
}

/// Breaks a text into lines of whole words. The first line begins with `first`, the others with
/// `others`.
pub(super) fn wrapped_words(first: &str, others: &str, text: &str, page: usize) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, width);
        if !is_empty && last + 1 + width(word) > page {
            lines.push(others.to_owned());
            is_empty = true;
        }
        if let Some(line) = lines.last_mut() {
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
        }
        is_empty = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_begin_where_they_may() {
        let of = |breaks: &[usize], page| blocks(10, &[10; 6], breaks, page);
        assert_eq!(of(&[], 70), of(&[], 1000));
        assert_eq!(of(&[], 70).len(), 1);
        assert_eq!(of(&[], 69), [0..5, 5..6]);
        assert_eq!(of(&[0, 2, 4], 69), [0..4, 4..6]);
        assert_eq!(of(&[0, 4], 35), [0..2, 2..4, 4..6], "parts that are too wide themselves");
        assert_eq!(of(&[], 5), [0..1, 1..2, 2..3, 3..4, 4..5, 5..6], "one column at least");
        assert!(blocks(10, &[], &[], 5)[0].is_empty());
    }

    #[test]
    fn texts_are_broken_between_words_and_after_dashes() {
        assert_eq!(wrapped("pairs better", 12), ["pairs better"]);
        assert_eq!(wrapped("pairs better", 6), ["pairs", "better"]);
        assert_eq!(wrapped("5.17.0-rc3-reverthighpcp", 22), ["5.17.0-rc3-", "reverthighpcp"]);
        assert_eq!(wrapped("  a throttled task", 10), ["  a", "  throttle", "  d task"]);
        assert_eq!(wrapped("x --force y", 7), ["x", "--force", "y"]);
        assert_eq!(
            wrapped_words("# ", "#  ", "a note of words", 8),
            ["# a note", "#  of", "#  words"]
        );
        assert_eq!(wrapped_words("", "  ", "", 8), [""]);
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_and_no_line_is_too_wide(text in "[a-c -]{0,60}", page in 8usize..30) {
            let lines = wrapped(&text, page);
            let indent = text.len() - text.trim_start().len();
            prop_assert!(indent + 1 > page || lines.iter().all(|line| line.len() <= page));
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
