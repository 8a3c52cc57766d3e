//! The columns of `vmstat`: which there are depends on the version and the options, so each header
//! names them.

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// `r`: tasks that run or could run.
    Runnable,
    /// `b`: tasks in uninterruptible sleep, most of which wait for a disk.
    Blocked,
    /// `swpd`: memory in swap.
    Swapped,
    /// `free`: free memory.
    Free,
    /// `buff`: buffers.
    Buffers,
    /// `cache`: page cache.
    Cache,
    /// `inact` (`-a`): inactive lists.
    Inactive,
    /// `active` (`-a`): active lists.
    Active,
    /// `si`: memory swapped in, per second.
    SwapIn,
    /// `so`: memory swapped out, per second.
    SwapOut,
    /// `bi`: KiB read from disks, per second.
    BlocksIn,
    /// `bo`: KiB written to disks, per second.
    BlocksOut,
    /// `in`: interrupts per second.
    Interrupts,
    /// `cs`: context switches per second.
    Switches,
    /// `us`: percent of CPU time.
    User,
    /// `sy`: percent of CPU time.
    System,
    /// `id`: percent of CPU time.
    Idle,
    /// `wa`: percent of CPU time that is idle while a task waits for a disk.
    IoWait,
    /// `st`: percent of CPU time that a hypervisor gave to others.
    Stolen,
    /// `gu`: percent of CPU time for guests.
    Guest,
}

/// Number of columns.
pub(super) const NR_COLUMNS: usize = 20;

/// Names in headers, and the columns in the order of their declaration.
const NAMES: [(&str, Column); NR_COLUMNS] = [
    ("r", Column::Runnable),
    ("b", Column::Blocked),
    ("swpd", Column::Swapped),
    ("free", Column::Free),
    ("buff", Column::Buffers),
    ("cache", Column::Cache),
    ("inact", Column::Inactive),
    ("active", Column::Active),
    ("si", Column::SwapIn),
    ("so", Column::SwapOut),
    ("bi", Column::BlocksIn),
    ("bo", Column::BlocksOut),
    ("in", Column::Interrupts),
    ("cs", Column::Switches),
    ("us", Column::User),
    ("sy", Column::System),
    ("id", Column::Idle),
    ("wa", Column::IoWait),
    ("st", Column::Stolen),
    ("gu", Column::Guest),
];

/// The usual header, for a text whose beginning is missing.
const USUAL: &str = "r b swpd free buff cache si so bi bo in cs us sy id wa st";
/// Its number of columns; procps 4 has one more, for guests.
const NR_USUAL: usize = 17;
/// Words of a time before or after a row.
const STAMP_WORDS_MAX: usize = 7;

/// The values of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    present: u32,
    values: [u64; NR_COLUMNS],
}

impl Values {
    /// The value of a column; `None` if the text does not have it.
    #[must_use]
    pub fn get(&self, column: Column) -> Option<u64> {
        let at = column as usize;
        (self.present & (1 << at) != 0).then_some(self.values[at])
    }

    fn set(&mut self, column: Column, value: u64) {
        self.present |= 1 << column as usize;
        self.values[column as usize] = value;
    }
}

/// The columns of a header, in its order; `None` for one whose name is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header(Vec<Option<Column>>);

impl Header {
    /// Reads a line such as `r b swpd free ...`, with anything before it.
    pub(super) fn of(line: &str) -> Option<Header> {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        let from = words.windows(2).position(|pair| pair == ["r", "b"])?;
        let named = |word: &&str| NAMES.iter().find(|(name, _)| name == word).map(|(_, c)| *c);
        let mut columns: Vec<Option<Column>> = words[from..].iter().map(named).collect();
        // With -t the header ends in the name of the time zone.
        while columns.last() == Some(&None) {
            columns.pop();
        }
        let is_known = columns.iter().flatten().any(|column| *column == Column::Free);
        is_known.then_some(Header(columns))
    }

    /// The usual columns, if a row without a header has as many numbers: 17 or 18, of which the last
    /// ones are percents of CPU time. A time may stand before or after them.
    pub(super) fn assumed(line: &str) -> Option<Header> {
        let words: Vec<&str> = line.split_whitespace().take(32).collect();
        let is_number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
        let first = (0..=words.len().min(STAMP_WORDS_MAX)).find(|&at| {
            let row = words.get(at..at + NR_USUAL);
            row.is_some_and(|row| row.iter().all(is_number) && sums_to_all(&row[12..]))
        })?;
        let after = &words[first + NR_USUAL..];
        let has_guests = after.first().is_some_and(|word| is_number(word) && word.len() <= 3);
        let rest = after.len() - usize::from(has_guests);
        if first + rest > STAMP_WORDS_MAX {
            return None;
        }
        Header::of(&format!("{USUAL}{}", if has_guests { " gu" } else { "" }))
    }

    /// The values of a row, and the text before or after them.
    pub(super) fn row<'l>(&self, line: &'l str) -> Option<(Values, &'l str)> {
        let nr = self.0.len();
        let after = |nr: usize| {
            let mut rest = line.trim_start();
            for _ in 0..nr {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                rest = rest[end..].trim_start();
            }
            rest
        };
        let mut words = line.split_ascii_whitespace();
        if let Some(values) = self.values(&mut words) {
            // Most rows have nothing behind them.
            let rest = if words.next().is_some() { after(nr) } else { "" };
            return Some((values, rest));
        }
        // A time stamp that somebody put before each line.
        let nr_words = line.split_whitespace().take(nr + 8).count();
        let before = nr_words.checked_sub(nr).filter(|before| (1..8).contains(before))?;
        let rest = after(before);
        let values = self.values(&mut rest.split_ascii_whitespace())?;
        Some((values, line[..line.len() - rest.len()].trim()))
    }

    fn values<'l>(&self, words: &mut impl Iterator<Item = &'l str>) -> Option<Values> {
        let mut values = Values::default();
        for column in &self.0 {
            let word = words.next()?;
            // procps prints `-` for what the kernel does not have.
            match (word.parse::<u64>(), column) {
                (Ok(value), Some(column)) => values.set(*column, value),
                (Ok(_), None) => {}
                (Err(_), _) if word == "-" => {}
                (Err(_), _) => return None,
            }
        }
        Some(values)
    }
}

/// True if percents of CPU time are all of it, but for rounding.
fn sums_to_all(percents: &[&str]) -> bool {
    let parts = percents.iter().map(|word| word.parse::<u64>().ok().filter(|part| *part <= 100));
    parts.sum::<Option<u64>>().is_some_and(|sum| (95..=105).contains(&sum))
}

/// True for a row of `vmstat` without its header, with the usual columns.
pub(in crate::import) fn is_bare_row(line: &str) -> bool {
    Header::assumed(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_the_declared_columns() {
        for (at, (name, column)) in NAMES.iter().enumerate() {
            assert_eq!(*column as usize, at, "{name}");
        }
    }

    #[test]
    fn columns_are_those_of_the_header() {
        let header = Header::of(
            " r  b   swpd   free  inact active   si   so    bi    bo   in   cs us sy id wa st   UTC",
        );
        let (values, rest) =
            header.unwrap().row(" 4  1  0 19628652 2241560 1880616 0 7 630 1055 380 419 77 4 18 0 0 2026-11-27 18:38:05").unwrap();
        assert_eq!(values.get(Column::Active), Some(1_880_616));
        assert_eq!((values.get(Column::SwapOut), values.get(Column::Cache)), (Some(7), None));
        assert_eq!(rest, "2026-11-27 18:38:05");
        // The columns of 2.4 have a `w`.
        let old = Header::of(" r  b  w   swpd   free").unwrap();
        assert_eq!(old.row("1 2 3 4 5").unwrap().0.get(Column::Free), Some(5));
        let with_gaps = Header::of("r b new swpd free").unwrap();
        let (values, _) = with_gaps.row("1 2 3 4 5").unwrap();
        assert_eq!((values.get(Column::Free), values.get(Column::IoWait)), (Some(5), None));
    }

    #[test]
    fn stamps_before_rows_and_damage() {
        let header = Header::of("18:00:00 r b swpd free").unwrap();
        assert_eq!(header.row("18:00:01 1 2 3 4").unwrap().1, "18:00:01");
        assert_eq!(header.row("Nov 27 18:00:01  1 2 3 4").unwrap().1, "Nov 27 18:00:01");
        for bad in ["", "1 2 3", "1 2 3 x", "a b c d e f g h i 1 2 3 4", "-1 2 3 4"] {
            assert_eq!(header.row(bad), None, "{bad}");
        }
        assert!(header.row("1 - 3 4").unwrap().0.get(Column::Blocked).is_none());
        assert!(Header::of("r b").is_none());
    }

    #[test]
    fn rows_without_a_header_are_known_by_their_percents() {
        let row = "1 0 0 1 1 1 0 0 1 1 1 1 5 2 90 3 0";
        for (line, nr) in [
            (row.to_owned(), 17),
            (format!("{row} 0"), 18),
            (format!("{row} 2026-11-28 03:00:01"), 17),
            (format!("{row} 0 2026-11-28 03:00:01"), 18),
            (format!("03:00:01 {row}"), 17),
        ] {
            assert_eq!(Header::assumed(&line).map(|header| header.0.len()), Some(nr), "{line}");
        }
        for bad in ["1 0 0 1 1 1 0 0 1 1 1 1 5 2 93 0", "1 0 0 1 1 1 0 0 1 1 1 1 5 2 9 3 0", ""] {
            assert_eq!(Header::assumed(bad), None, "{bad}");
        }
    }
}
