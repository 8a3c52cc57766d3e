//! The figures of a disk, by the names that machine files use.
//!
//! A line of [`FIGURES`] holds everything that files have to know of a figure: its key, its place
//! and its valid values. Reading, writing and every message about the figure come from that line.
//! The book's page "How to add a figure of a disk" goes through one.

use std::fmt;
use std::ops::RangeInclusive;

use super::{DiskKind, DiskSpec, Scheduler};

/// Most channels: more than the queues of any drive.
const CHANNELS_MAX: u64 = 1 << 16;

/// Longest readahead window, KiB: 1 GiB.
const READ_AHEAD_KB_MAX: u64 = 1 << 20;

/// The value of a figure. Prints in TOML syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureValue<'a> {
    /// A number.
    Number(u64),
    /// True or false.
    Flag(bool),
    /// One of several words.
    Word(&'a str),
}

impl fmt::Display for FigureValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureValue::Number(number) => write!(f, "{number}"),
            FigureValue::Flag(flag) => write!(f, "{flag}"),
            FigureValue::Word(word) => write!(f, "{word:?}"),
        }
    }
}

/// A field that is a figure.
trait Field {
    fn get(&self) -> FigureValue<'static>;
    /// Sets the value, or returns the reason why it is invalid.
    fn set(&mut self, value: FigureValue<'_>) -> Result<(), String>;
    /// The valid words, if the value is a word.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Field for u64 {
    fn get(&self) -> FigureValue<'static> {
        FigureValue::Number(*self)
    }

    fn set(&mut self, value: FigureValue<'_>) -> Result<(), String> {
        let FigureValue::Number(number) = value else {
            return Err(format!("invalid value: {value}, expected a number"));
        };
        *self = number;
        Ok(())
    }
}

impl Field for u32 {
    fn get(&self) -> FigureValue<'static> {
        FigureValue::Number(u64::from(*self))
    }

    fn set(&mut self, value: FigureValue<'_>) -> Result<(), String> {
        let mut number = 0_u64;
        Field::set(&mut number, value)?;
        *self = u32::try_from(number).map_err(|_| format!("{number} is too large"))?;
        Ok(())
    }
}

impl Field for bool {
    fn get(&self) -> FigureValue<'static> {
        FigureValue::Flag(*self)
    }

    fn set(&mut self, value: FigureValue<'_>) -> Result<(), String> {
        let FigureValue::Flag(flag) = value else {
            return Err(format!("invalid value: {value}, expected true or false"));
        };
        *self = flag;
        Ok(())
    }
}

impl Field for Scheduler {
    fn get(&self) -> FigureValue<'static> {
        FigureValue::Word(match self {
            Scheduler::None => "none",
            Scheduler::Deadline => "deadline",
        })
    }

    fn set(&mut self, value: FigureValue<'_>) -> Result<(), String> {
        *self = match value {
            FigureValue::Word("none") => Scheduler::None,
            FigureValue::Word("deadline") => Scheduler::Deadline,
            FigureValue::Word(other) => {
                return Err(format!("unknown scheduler \"{other}\"; there are none, deadline"));
            }
            _ => return Err(format!("invalid value: {value}, expected a name")),
        };
        Ok(())
    }

    fn words(&self) -> &'static [&'static str] {
        &["none", "deadline"]
    }
}

/// Description of a figure.
pub struct Figure {
    /// Its name in machine files.
    pub key: &'static str,
    /// Its meaning, with its unit.
    pub doc: &'static str,
    /// True if only one disk model has it. Otherwise every disk has it, with a default that the
    /// model's may decide.
    pub is_of_model: bool,
    /// Valid range of a number.
    pub range: RangeInclusive<u64>,
    /// Returns `None` if the disk's model has no such figure.
    place: fn(&mut DiskSpec) -> Option<&mut dyn Field>,
}

impl Figure {
    /// The value for a disk; `None` if its model has no such figure.
    pub fn get(&self, disk: &DiskSpec) -> Option<FigureValue<'static>> {
        (self.place)(&mut disk.clone()).map(|field| field.get())
    }

    /// The valid words for a disk that has it; empty if the value is not a word.
    pub fn words(&self, disk: &DiskSpec) -> &'static [&'static str] {
        (self.place)(&mut disk.clone()).map_or(&[], |field| field.words())
    }

    /// Sets it; false if the disk's model has no such figure.
    ///
    /// # Errors
    /// A message that says what is wrong with the value.
    pub fn set(&self, disk: &mut DiskSpec, value: FigureValue<'_>) -> Result<bool, String> {
        let Some(field) = (self.place)(disk) else { return Ok(false) };
        if let FigureValue::Number(number) = value
            && !self.range.contains(&number)
        {
            return Err(match (number, self.range.start()) {
                (0, 1) => "must not be 0".to_owned(),
                (_, 0 | 1) => format!("must be {} at most", self.range.end()),
                (_, least) => format!("must be {least} to {}", self.range.end()),
            });
        }
        field.set(value)?;
        Ok(true)
    }
}

macro_rules! figures {
    ($(
        $(#[doc = $doc:literal])+
        $key:literal: $($field:ident).+ $(of $kind:ident)? $(in $range:expr)?,
    )*) => {
        /// Every figure, in the order in which files have them.
        pub const FIGURES: &[Figure] = &[$(Figure {
            key: $key,
            doc: concat!($($doc),+).trim_ascii(),
            is_of_model: figures!(@is_of_model $($kind)?),
            range: figures!(@range $($range)?),
            place: figures!(@place $($field).+, $($kind)?),
        },)*];
    };
    (@is_of_model) => { false };
    (@is_of_model $kind:ident) => { true };
    (@range) => { 0..=u64::MAX };
    (@range $range:expr) => { $range };
    (@place $($field:ident).+,) => { |disk| Some(&mut disk.$($field).+) };
    (@place $($field:ident).+, $kind:ident) => {
        |disk| match &mut disk.kind {
            DiskKind::$kind(spec) => Some(&mut spec.$($field).+),
            _ => None,
        }
    };
}

figures! {
    /// Requests in flight at once, including those that wait for the scheduler.
    "depth": depth in 1..=u32::MAX as u64,
    /// How the next waiting request is chosen: the oldest (`none`), or reads before writes, each in
    /// the order of the disk (`deadline`).
    "scheduler": scheduler,
    /// Largest number of pieces of memory in a request, as `queue/max_segments` has it; 0: no
    /// limit. Pages of one bio whose frames follow each other are one piece.
    "max-segments": max_segments in 0..=u32::MAX as u64,
    /// Largest readahead window of a file without advice, KiB; 0: no readahead. Advice
    /// (`sequential`) doubles it.
    "read-ahead-kb": read_ahead_kb in 0..=READ_AHEAD_KB_MAX,
    /// True if the kernel treats seeks as expensive, whatever the model.
    "rotational": rotational,
    /// True if pages under writeback must not change.
    "stable-writes": stable_writes,
    /// Number of transfers that the disk serves in parallel.
    "channels": channels of Ssd in 1..=CHANNELS_MAX,
    /// Time from the start of a read to its first byte, nanoseconds.
    "read-latency-ns": latency_ns.read of Ssd,
    /// Time from the start of a write to its first byte, nanoseconds.
    "write-latency-ns": latency_ns.write of Ssd,
    /// Bandwidth of the bus for reads, bytes per second.
    "read-bytes-per-s": bytes_per_s.read of Ssd in 1..=u64::MAX,
    /// Bandwidth of the bus for writes, bytes per second.
    "write-bytes-per-s": bytes_per_s.write of Ssd in 1..=u64::MAX,
    /// Time of one revolution, nanoseconds. A transfer that does not start where the last one ended
    /// waits for half of it.
    "revolution-ns": revolution_ns of Hdd,
    /// Time of a seek from one track to the next, nanoseconds.
    "seek-min-ns": seek_min_ns of Hdd,
    /// Time of a seek across all tracks, nanoseconds; not less than `seek-min-ns`.
    "seek-max-ns": seek_max_ns of Hdd,
    /// Bandwidth under the head, bytes per second.
    "bytes-per-s": bytes_per_s of Hdd in 1..=u64::MAX,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_figure_of_a_disk_can_be_read_and_set_again() {
        let disks = [DiskSpec::nvme("n", 9), DiskSpec::hdd("h", 9), DiskSpec::ram("r", 9)];
        let mut met = BTreeSet::new();
        for disk in &disks {
            for figure in FIGURES {
                let Some(value) = figure.get(disk) else {
                    assert!(figure.is_of_model, "{} is every disk's", figure.key);
                    continue;
                };
                met.insert(figure.key);
                let mut again = disk.clone();
                assert_eq!(figure.set(&mut again, value), Ok(true), "{}", figure.key);
                assert_eq!(&again, disk);
                let other = match value {
                    FigureValue::Number(number) => FigureValue::Number(number + 1),
                    FigureValue::Flag(flag) => FigureValue::Flag(!flag),
                    FigureValue::Word(word) => {
                        let words = figure.words(disk);
                        assert!(words.contains(&word), "{word} is one of {words:?}");
                        FigureValue::Word(words.iter().find(|&&other| other != word).expect("two"))
                    }
                };
                assert_eq!(figure.set(&mut again, other), Ok(true));
                assert_eq!(figure.get(&again), Some(other), "{}", figure.key);
            }
        }
        assert_eq!(
            met.len(),
            FIGURES.len(),
            "each figure is some disk's, and has a key of its own"
        );
    }

    #[test]
    fn wrong_values_are_told_and_change_nothing() {
        let by_key = |key| FIGURES.iter().find(|figure| figure.key == key).expect("declared");
        let mut disk = DiskSpec::nvme("n", 9);
        let mut refused = |key, value| by_key(key).set(&mut disk, value).unwrap_err();
        assert_eq!(refused("depth", FigureValue::Number(0)), "must not be 0");
        assert_eq!(refused("depth", FigureValue::Number(1 << 32)), "must be 4294967295 at most");
        let wrong = refused("rotational", FigureValue::Number(1));
        assert_eq!(wrong, "invalid value: 1, expected true or false");
        assert!(refused("depth", FigureValue::Word("many")).starts_with("invalid value: \"many\""));
        assert!(
            refused("scheduler", FigureValue::Word("cfq")).contains("there are none, deadline")
        );
        assert_eq!(by_key("seek-min-ns").set(&mut disk, FigureValue::Number(1)), Ok(false));
        assert_eq!(disk, DiskSpec::nvme("n", 9));
        let from_two = Figure { range: 2..=9, ..*by_key("depth") };
        let wrong = from_two.set(&mut disk, FigureValue::Number(1)).unwrap_err();
        assert_eq!(wrong, "must be 2 to 9");
    }
}
