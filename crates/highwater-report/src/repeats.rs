//! How far a published change repeats in its author's other postings, and what a claim about it
//! can be judged by.
//!
//! Key types: [`Repeats`] (of a published row), [`Class`] (of a claim). The other postings are
//! held to the test that our own change is held to ([`Verdict`]): a row whose author does not meet
//! it cannot demand it of us (rules/claims).

use std::fmt;

use highwater_results::Posted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::headline::Verdict;

/// The part of a published change that repeats when its author measures it again on the same kind
/// of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Repeats {
    /// Direction and size, in every posting.
    Size,
    /// The direction in every posting; the size not in every one.
    Sign,
    /// Not even the direction.
    No,
    /// Nobody measured it again on such a machine.
    Unknown,
}

impl Repeats {
    /// Judges the postings of the same kind of machine. `judge` compares the values without and with
    /// the change with the published ones; it has no verdict on values that have no ratio, and such
    /// a posting says nothing.
    pub fn of(posted: &[Posted], judge: impl Fn((f64, f64)) -> Option<Verdict>) -> Repeats {
        let same = posted.iter().filter(|posted| posted.is_same_machine);
        let verdicts = same.filter_map(|posted| judge((posted.before, posted.after)));
        let worst = verdicts.map(|verdict| match verdict {
            Verdict { is_same_way: false, .. } => Repeats::No,
            Verdict { is_same_size: false, .. } => Repeats::Sign,
            Verdict { .. } => Repeats::Size,
        });
        let rank = |repeats: &Repeats| match repeats {
            Repeats::No => 0,
            Repeats::Sign => 1,
            Repeats::Size | Repeats::Unknown => 2,
        };
        worst.min_by_key(rank).unwrap_or(Repeats::Unknown)
    }
}

/// The outcome of a claim.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Same direction, and between half and twice as large. A single figure: as published.
    Reproduced,
    /// Same direction, and another size.
    DirectionOnly,
    /// Same direction; the published size does not repeat, so ours is not judged.
    SignOnly,
    /// Another direction. A single figure: not as published.
    Missed,
    /// Within the published noise: not even the direction repeats for its author. Not judged.
    Noise,
    /// We have no such figure.
    NotMeasured,
}

impl Class {
    /// All classes, best first; the last two are not judged.
    pub const ALL: [Class; 6] = [
        Class::Reproduced,
        Class::DirectionOnly,
        Class::SignOnly,
        Class::Missed,
        Class::Noise,
        Class::NotMeasured,
    ];

    /// The class of a claim.
    pub fn of(verdict: Option<Verdict>, repeats: Repeats) -> Class {
        match (repeats, verdict) {
            (Repeats::No, _) => Class::Noise,
            (_, None) => Class::NotMeasured,
            (_, Some(Verdict { is_same_way: false, .. })) => Class::Missed,
            (Repeats::Sign, _) => Class::SignOnly,
            (_, Some(Verdict { is_same_size: false, .. })) => Class::DirectionOnly,
            (_, Some(_)) => Class::Reproduced,
        }
    }

    /// True if the claim counts.
    pub const fn is_judged(self) -> bool {
        !matches!(self, Class::Noise | Class::NotMeasured)
    }

    /// The class in words, as columns and pages name it.
    pub const fn words(self) -> &'static str {
        match self {
            Class::Reproduced => "reproduced",
            Class::DirectionOnly => "direction only",
            Class::SignOnly => "sign only",
            Class::Missed => "missed",
            Class::Noise => "noise",
            Class::NotMeasured => "not measured",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use highwater_results::{Postings, Published};

    use super::*;

    /// How a row of a published table repeats.
    fn repeats(table: &str, row: &str) -> Repeats {
        let (published, postings) = (Published::load().unwrap(), Postings::load().unwrap());
        let table = published.table(table).unwrap();
        let row = table.rows.iter().find(|known| known.name() == row).unwrap();
        let theirs = (row.values[0], row.values[1]);
        let posted = postings.of_row(&table.id, row, 1);
        Repeats::of(&posted, |other| Verdict::new(other, theirs))
    }

    fn all(table: &str, expected: Repeats, rows: &[&str]) {
        for row in rows {
            assert_eq!(repeats(table, row), expected, "{table} {row}");
        }
    }

    /// Study 000: only the undisturbed rows and the fall of the worst stall and of the mean repeat.
    #[test]
    fn of_study_000_only_the_longest_stall_and_the_quiet_rows_repeat() {
        let rows = ["Min mmap", "1st-qrtle mmap", "2nd-qrtle mmap", "3rd-qrtle mmap"];
        all("000.stutter", Repeats::Size, &rows);
        all("000.stutter", Repeats::Size, &["Max-95% mmap", "Max-99% mmap"]);
        // 0.53, then 0.10: the size is 3.7 times as large. 0.82, then 0.97.
        all("000.stutter", Repeats::Sign, &["Max mmap", "Mean mmap"]);
        // 0.59 and 0.69, then 1.01 and 1.01: the ratios are within a factor of 2, the signs differ.
        all("000.stutter", Repeats::No, &["Max-90% mmap", "Max-93% mmap"]);
    }

    /// Study 001: direct scans fall by 52 %, 85 % and 93 %: sizes of 0.74, 1.93 and 2.61.
    #[test]
    fn of_study_001_signs_repeat_and_few_sizes() {
        let sign = [
            "Direct pages scanned",
            "Direct efficiency %",
            "Percentage direct scans",
            "Page writes by reclaim",
            "Page writes anon",
        ];
        all("001.vmstat", Repeats::Sign, &sign);
        let size = ["Page reclaim immediate", "Kswapd efficiency %", "Slabs scanned"];
        all("001.vmstat", Repeats::Size, &size);
        all("001.vmstat", Repeats::No, &["Kswapd pages scanned"]);
        all("001.duration", Repeats::Size, &["Duration System", "Duration Elapsed"]);
        for workers in [4, 7, 12, 30, 48] {
            all("001.stutterp", Repeats::Sign, &[&format!("Amean mmap-{workers}")]);
        }
        all("001.stutterp", Repeats::No, &["Amean mmap-21", "Max-90 mmap-4"]);
        all("001.stutterp", Repeats::Size, &["Max-90 mmap-48", "Max mmap-4"]);
        // The single socket's machine was measured once.
        all("001.stutterp-1socket", Repeats::Unknown, &["Amean mmap-4"]);
    }

    #[test]
    fn of_study_004_most_rows_repeat() {
        let success = ["Mean Success 1", "Mean Success 2", "Mean Success 3"];
        all("004.success.nodirect", Repeats::Size, &success);
        all("004.success.direct", Repeats::No, &success[..2]);
        all("004.success.direct", Repeats::Size, &success[2..]);
        for table in ["004.vmstat.nodirect", "004.vmstat.direct"] {
            all(table, Repeats::Size, &["Compaction stalls", "Page migrate success"]);
            all(table, Repeats::No, &["Page migrate failure"]);
        }
        all("004.vmstat.direct", Repeats::No, &["Direct pages scanned"]);
        // Zeros have no ratio.
        all("004.vmstat.nodirect", Repeats::Unknown, &["THP splits"]);
        all("004.ftrace.nodirect", Repeats::Unknown, &["Time kswapd awake"]);
    }

    /// How many of all rows repeat, as the transcription counts them.
    #[test]
    fn every_row_of_every_table_has_its_class() {
        let published = Published::load().unwrap();
        let mut counts = [0; 4];
        for table in published.tables.iter().filter(|table| !table.id.starts_with("002")) {
            for row in &table.rows {
                counts[repeats(&table.id, &row.name()) as usize] += 1;
            }
        }
        assert_eq!(counts, [82, 20, 15, 17]);
    }

    #[test]
    fn other_machines_do_not_count() {
        let posted = |after: f64, is_same_machine| Posted {
            posting: String::new(),
            is_same_machine,
            before: 1.0,
            after,
        };
        let of = |posted: &[Posted]| Repeats::of(posted, |other| Verdict::new(other, (1.0, 0.5)));
        assert_eq!(of(&[]), Repeats::Unknown);
        assert_eq!(of(&[posted(2.0, false)]), Repeats::Unknown);
        assert_eq!(of(&[posted(0.5, true), posted(2.0, false)]), Repeats::Size);
        assert_eq!(of(&[posted(0.5, true), posted(0.9, true)]), Repeats::Sign);
        assert_eq!(of(&[posted(1.1, true), posted(0.9, true)]), Repeats::No);
        assert_eq!(of(&[posted(0.0, true)]), Repeats::Unknown);
    }

    #[test]
    fn a_claim_is_judged_by_what_repeats() {
        let verdict = |is_same_way, is_same_size| Some(Verdict { is_same_way, is_same_size });
        let (right, way, wrong) =
            (verdict(true, true), verdict(true, false), verdict(false, false));
        for (repeats, classes) in [
            (Repeats::Size, [Class::Reproduced, Class::DirectionOnly, Class::Missed]),
            (Repeats::Unknown, [Class::Reproduced, Class::DirectionOnly, Class::Missed]),
            (Repeats::Sign, [Class::SignOnly, Class::SignOnly, Class::Missed]),
            (Repeats::No, [Class::Noise; 3]),
        ] {
            let of = [right, way, wrong].map(|verdict| Class::of(verdict, repeats));
            assert_eq!(of, classes, "{repeats:?}");
        }
        assert_eq!(Class::of(None, Repeats::Sign), Class::NotMeasured);
        assert_eq!(Class::of(None, Repeats::No), Class::Noise);
        let judged = Class::ALL.iter().filter(|class| class.is_judged());
        assert_eq!(judged.count(), 4);
    }
}
