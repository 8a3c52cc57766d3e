//! Contents of a machine's pageblocks at several moments of a run: the data of memory maps.
//!
//! A [`BlockMaps`] covers one unit of work. It is stored beside the document ([`PAGEBLOCKS_FILE`]).
//! The ages of pages on LRU lists at the same moments are stored likewise ([`AGES_FILE`], a
//! [`crate::Series`]).

use serde::{Deserialize, Serialize};

/// File name of the maps of the first seed in a result directory.
pub const PAGEBLOCKS_FILE: &str = "pageblocks.csv";
/// File name of the ages of the first seed's pages on LRU lists.
pub const AGES_FILE: &str = "ages.csv";

/// Frames per pageblock.
pub const PAGEBLOCK_PAGES: u32 = 512;

/// States of a map's cell: letter and meaning.
pub const BLOCK_STATES: [(char, &str); 8] = [
    ('f', "free"),
    ('m', "movable, up to half full"),
    ('M', "movable"),
    ('u', "unmovable, up to half full"),
    ('U', "unmovable"),
    ('x', "mixed, up to half full"),
    ('X', "mixed"),
    ('-', "not the allocator's"),
];

/// Number of pages in a cell by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUse {
    /// Free, on buddy lists or per-CPU lists.
    pub free: u32,
    /// In use, and movable by compaction.
    pub movable: u32,
    /// In use, and not movable.
    pub unmovable: u32,
}

impl BlockUse {
    /// The letter of a cell with these pages: one of [`BLOCK_STATES`].
    pub const fn letter(self) -> char {
        let is_full = self.movable + self.unmovable > self.free;
        match (self.movable > 0, self.unmovable > 0, is_full) {
            (false, false, _) if self.free == 0 => '-',
            (false, false, _) => 'f',
            (true, false, false) => 'm',
            (true, false, true) => 'M',
            (false, true, false) => 'u',
            (false, true, true) => 'U',
            (true, true, false) => 'x',
            (true, true, true) => 'X',
        }
    }
}

/// Maps of one part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockMaps {
    /// The part of the run: the name of one of its steps.
    pub part: String,
    /// Zones with memory.
    pub zones: Vec<MappedZone>,
    /// Times in nanoseconds since boot; for each time and zone, one letter per cell.
    pub moments: Vec<(u64, Vec<String>)>,
}

/// A zone of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedZone {
    /// `node0/Normal`.
    pub name: String,
    /// Its first frame.
    pub first_pfn: u32,
    /// Number of pageblocks in a cell.
    pub blocks_per_cell: u32,
}

/// The maps of one unit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMaps {
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// The heading of its column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// The maps.
    pub maps: BlockMaps,
}

impl BlockMaps {
    /// Drops every other moment, beginning with the second.
    pub fn thin(&mut self) {
        let mut is_kept = false;
        self.moments.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }
}

/// Run-length encodes letters: `mmmMff` becomes `m3Mf2`.
pub fn shortened(letters: &str) -> String {
    let mut short = String::new();
    let mut rest = letters.chars().peekable();
    while let Some(letter) = rest.next() {
        let mut count = 1;
        while rest.next_if_eq(&letter).is_some() {
            count += 1;
        }
        short.push(letter);
        if count > 1 {
            short.push_str(&count.to_string());
        }
    }
    short
}

/// Decodes letters written by [`shortened`]. None if the text is not of that form or has more than
/// `most` letters.
pub fn lengthened(short: &str, most: usize) -> Option<String> {
    let mut letters = String::new();
    let mut rest = short.chars().peekable();
    while let Some(letter) = rest.next() {
        BLOCK_STATES.iter().find(|(known, _)| *known == letter)?;
        let mut digits = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let count: usize = if digits.is_empty() { 1 } else { digits.parse().ok()? };
        if count == 0 || count > most - letters.len() {
            return None;
        }
        letters.extend(std::iter::repeat_n(letter, count));
    }
    Some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_is_in_it() {
        let letter = |free, movable, unmovable| BlockUse { free, movable, unmovable }.letter();
        assert_eq!([letter(0, 0, 0), letter(512, 0, 0)], ['-', 'f']);
        assert_eq!([letter(256, 256, 0), letter(255, 257, 0)], ['m', 'M']);
        assert_eq!([letter(500, 0, 12), letter(0, 0, 512)], ['u', 'U']);
        assert_eq!([letter(500, 6, 6), letter(0, 511, 1)], ['x', 'X']);
    }

    #[test]
    fn letters_become_short_and_long_again() {
        for (letters, short) in
            [("mmmMff", "m3Mf2"), ("", ""), ("-", "-"), (&"f".repeat(12), "f12")]
        {
            assert_eq!(shortened(letters), short);
            assert_eq!(lengthened(short, letters.len()).as_deref(), Some(letters));
        }
        for wrong in ["q", "3m", "m0", "f13", "f99999999999999999999"] {
            assert_eq!(lengthened(wrong, 12), None, "{wrong}");
        }
    }

    #[test]
    fn every_other_moment_is_left_out() {
        let mut maps =
            BlockMaps { moments: (0..5).map(|at| (at, vec![])).collect(), ..BlockMaps::default() };
        maps.thin();
        assert_eq!(maps.moments.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2, 4]);
    }
}
