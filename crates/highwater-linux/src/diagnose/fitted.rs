//! Tables with as many rows as a page on a terminal has room for.

use highwater_report::render::{Format, wrapped};
use highwater_report::{PAGE_WIDTH, Table};

/// Lines of an answer for a terminal.
pub(super) const LINES_MAX: usize = 40;
/// Rows that a table keeps even if the page gets longer.
const ROWS_MIN: usize = 3;

/// The tables of `make` with the most rows, `rows_max` at most, that fit below the sentence.
pub(super) fn fitted(
    sentence: &str,
    rows_max: usize,
    make: impl Fn(usize) -> Vec<Table>,
) -> Vec<Table> {
    let room = LINES_MAX.saturating_sub(wrapped(sentence, PAGE_WIDTH).len() + 1);
    let mut nr_rows = rows_max;
    loop {
        let tables = make(nr_rows);
        let nr_lines = Format::Terminal.tables(&tables, PAGE_WIDTH).lines().count();
        if nr_lines <= room || nr_rows <= ROWS_MIN {
            return tables;
        }
        nr_rows = nr_rows.saturating_sub((nr_lines - room).div_ceil(3)).max(ROWS_MIN);
    }
}
