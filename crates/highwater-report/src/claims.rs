//! The published claims of a study, each with ours, the author's other postings, and its class.
//!
//! Key types: [`Judged`] (a claim of one run), [`Tally`] (how many of each class), [`Claim`] (a
//! claim as data: `--format json`, `claims.csv`). [`of`] has all claims of a document.

use highwater_results::published::PublishedError;
use highwater_results::words::count;
use highwater_results::{Document, Posted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::beside;
use crate::headline::Verdict;
use crate::render::csv::Records;
use crate::repeats::{Class, Repeats};

/// A published figure of one run, with ours.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Name of the figure.
    pub label: String,
    /// Heading of the run.
    pub run: String,
    /// The published table; empty for a figure of the text.
    pub table: String,
    /// Our values before and after; none if we do not have this figure. A figure of the text has
    /// only the first.
    pub ours: [Option<f64>; 2],
    /// The published values.
    pub theirs: [Option<f64>; 2],
    /// The figure as the text gives it; empty for the row of a table.
    pub text: String,
    /// The same row in other postings.
    pub posted: Vec<Posted>,
    /// How far the author's other postings repeat it.
    pub repeats: Repeats,
    /// The comparison; none if a value is missing.
    pub verdict: Option<Verdict>,
}

impl Judged {
    /// The class.
    pub fn class(&self) -> Class {
        Class::of(self.verdict, self.repeats)
    }
}

/// How many claims there are of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u32; Class::ALL.len()]);

impl Tally {
    /// Counts a claim.
    pub fn count(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }

    /// Adds the counts of others.
    pub fn add(&mut self, other: Tally) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    /// The number of a class.
    pub const fn of(&self, class: Class) -> u32 {
        self.0[class as usize]
    }

    /// The number of claims that are judged.
    pub fn judged(&self) -> u32 {
        Class::ALL.into_iter().filter(|class| class.is_judged()).map(|class| self.of(class)).sum()
    }

    /// The number of all claims.
    pub fn all(&self) -> u32 {
        self.0.iter().sum()
    }

    /// The counts in one line.
    pub fn words(&self) -> String {
        let judged = count(self.judged() as usize, "judged claim");
        let mut parts = vec![
            format!("{} within a factor of 2", self.of(Class::Reproduced)),
            format!("{} in direction only", self.of(Class::DirectionOnly)),
        ];
        let of_class = |class, words: &str| match self.of(class) {
            0 => None,
            number => Some(format!("{number} {words}")),
        };
        parts.extend(of_class(Class::SignOnly, "in the sign (size not judged)"));
        parts.push(format!("{} missed", self.of(Class::Missed)));
        let beside = [
            of_class(Class::Noise, "within the published noise"),
            of_class(Class::NotMeasured, "not measured"),
        ];
        let beside: Vec<String> = beside.into_iter().flatten().collect();
        let beside = match beside.is_empty() {
            true => String::new(),
            false => format!("; not judged: {}", beside.join(", ")),
        };
        format!("of {judged} {}{beside}", parts.join(", "))
    }
}

impl FromIterator<Class> for Tally {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Tally {
        let mut tally = Tally::default();
        classes.into_iter().for_each(|class| tally.count(class));
        tally
    }
}

/// A published claim, with ours and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The experiment.
    pub experiment: String,
    /// The machine.
    pub machine: String,
    /// The published table; empty for a figure of the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub table: String,
    /// Name of the figure.
    pub figure: String,
    /// Heading of the run.
    pub run: String,
    /// Our value before the change; of a figure of the text the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Our value after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// The published value before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_before: Option<f64>,
    /// The published value after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_after: Option<f64>,
    /// The figure as the text gives it; empty for the row of a table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published: String,
    /// The same row in other postings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Posted>,
    /// How far the author's other postings repeat it.
    pub repeats: Repeats,
    /// Whether our change has the published direction; none if a value is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_same_way: Option<bool>,
    /// Whether it also has the published size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_same_size: Option<bool>,
    /// The class.
    pub class: Class,
}

/// The claims of a document, machine by machine.
///
/// # Errors
/// If the document names something that was not published.
pub fn of(document: &Document) -> Result<Vec<Claim>, PublishedError> {
    let mut all = Vec::new();
    for (machine, runs) in document.by_machine() {
        for judged in beside::all_claims(document, machine, &runs)? {
            let class = judged.class();
            let Judged { label, run, table, ours, theirs, text, posted, repeats, verdict } = judged;
            all.push(Claim {
                experiment: document.experiment.clone(),
                machine: machine.to_owned(),
                table,
                figure: label,
                run,
                before: ours[0],
                after: ours[1],
                published_before: theirs[0],
                published_after: theirs[1],
                published: text,
                elsewhere: posted,
                repeats,
                is_same_way: verdict.map(|verdict| verdict.is_same_way),
                is_same_size: verdict.map(|verdict| verdict.is_same_size),
                class,
            });
        }
    }
    Ok(all)
}

/// Columns of [`csv()`].
const COLUMNS: [&str; 14] = [
    "experiment",
    "machine",
    "table",
    "figure",
    "run",
    "before",
    "after",
    "published_before",
    "published_after",
    "published",
    "elsewhere",
    "other_machines",
    "repeats",
    "class",
];

/// Claims as CSV, a line each. `elsewhere` and `other_machines` have the ratios of after to before in
/// other postings, with spaces between them. A value that a claim does not have is an empty field.
pub fn csv(claims: &[Claim]) -> String {
    let mut records = Records::new(&COLUMNS);
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for claim in claims {
        let ratios = |is_same_machine| {
            let posted =
                claim.elsewhere.iter().filter(|one| one.is_same_machine == is_same_machine);
            let ratios = posted.filter_map(Posted::ratio).map(|ratio| format!("{ratio:.4}"));
            ratios.collect::<Vec<_>>().join(" ")
        };
        records.push([
            claim.experiment.clone(),
            claim.machine.clone(),
            claim.table.clone(),
            claim.figure.clone(),
            claim.run.clone(),
            number(claim.before),
            number(claim.after),
            number(claim.published_before),
            number(claim.published_after),
            claim.published.clone(),
            ratios(true),
            ratios(false),
            format!("{:?}", claim.repeats).to_lowercase(),
            claim.class.words().to_owned(),
        ]);
    }
    records.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_words() {
        let mut tally: Tally = [Class::Reproduced; 9].into_iter().collect();
        assert_eq!(
            tally.words(),
            "of 9 judged claims 9 within a factor of 2, 0 in direction only, 0 missed"
        );
        let others = [
            Class::DirectionOnly,
            Class::SignOnly,
            Class::SignOnly,
            Class::Missed,
            Class::Noise,
            Class::Noise,
            Class::NotMeasured,
        ];
        tally.add(others.into_iter().collect());
        assert_eq!(
            tally.words(),
            "of 13 judged claims 9 within a factor of 2, 1 in direction only, 2 in the sign (size \
             not judged), 1 missed; not judged: 2 within the published noise, 1 not measured"
        );
        assert_eq!((tally.judged(), tally.all()), (13, 16));
    }

    #[test]
    fn a_claim_is_a_line() {
        let posted = |after, is_same_machine| Posted {
            posting: "v3".to_owned(),
            is_same_machine,
            before: 2.0,
            after,
        };
        let claim = Claim {
            experiment: "000".to_owned(),
            machine: "m".to_owned(),
            table: "000.stutter".to_owned(),
            figure: "Max mmap".to_owned(),
            run: "after".to_owned(),
            before: Some(4.0),
            after: None,
            published_before: Some(2.0),
            published_after: Some(1.0),
            published: String::new(),
            elsewhere: vec![posted(1.5, true), posted(1.0, true), posted(3.0, false)],
            repeats: Repeats::Sign,
            is_same_way: None,
            is_same_size: None,
            class: Class::NotMeasured,
        };
        let text = csv(&[claim]);
        let (header, line) = text.split_once('\n').unwrap();
        assert_eq!(header, COLUMNS.join(","));
        assert_eq!(
            line,
            "000,m,000.stutter,Max mmap,after,4,,2,1,,0.7500 0.5000,1.5000,sign,not measured\n"
        );
    }
}
