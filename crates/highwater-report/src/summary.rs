//! A summary of several experiments: how many of each study's claims were reproduced.
//!
//! A claim is something that a study states about a machine:
//! * a row of its main figures; if its experiment names none, a row that its table marks as
//!   significant,
//! * a single figure in its text,
//! * how hot the hottest block is.
//!
//! [`Class`] says what each outcome means.

use highwater_results::Document;
use highwater_results::published::PublishedError;

use crate::beside;
use crate::by_seed::SEEDS_MIN;
use crate::claims::{Judged, Tally};
use crate::repeats::Class;
use crate::table::{Cell, Layout, Table};

/// The cells of a row: all claims, then those of each class.
fn cells(tally: Tally) -> Vec<Cell> {
    let counts = Class::ALL.map(|class| tally.of(class));
    let all = [tally.all()].into_iter().chain(counts);
    all.map(|count| Cell::number(f64::from(count), 0)).collect()
}

/// Names of the claims of a class; with the run's if several runs have the claim.
fn names(claims: &[Judged], class: Class) -> Vec<String> {
    let of_class = claims.iter().filter(|claim| claim.class() == class);
    let name = |claim: &Judged| {
        let is_other = |other: &&Judged| other.label == claim.label && other.run != claim.run;
        match claims.iter().find(is_other) {
            Some(_) => format!("{} of {}", claim.label, claim.run),
            None => claim.label.clone(),
        }
    };
    of_class.map(name).collect()
}

/// One row per experiment and machine with published figures, and one for all; the notes name the
/// missed claims and those within the published noise.
///
/// # Errors
/// If the document names something that was not published.
pub fn summary(documents: &[Document]) -> Result<Table, PublishedError> {
    let columns = ["claims"].into_iter().chain(Class::ALL.map(Class::words));
    let mut table = Table::new(
        "Summary: what was published, and what came out".to_owned(),
        &["experiment", "machine"],
        columns.map(str::to_owned).collect(),
        Layout::Fitted,
    );
    let (mut all, mut named, mut few) = (Tally::default(), Vec::new(), Vec::new());
    for document in documents {
        for (machine, runs) in document.by_machine() {
            let claims = beside::all_claims(document, machine, &runs)?;
            if claims.is_empty() {
                continue;
            }
            let tally: Tally = claims.iter().map(Judged::class).collect();
            table.push(&[&document.experiment, machine], cells(tally));
            all.add(tally);
            let name = document.experiment.as_str();
            if (document.iterations as usize) < SEEDS_MIN && !few.contains(&name) {
                few.push(name);
            }
            for class in [Class::Missed, Class::Noise] {
                let names = names(&claims, class);
                if !names.is_empty() {
                    let names = names.join(", ");
                    named.push(format!("{class} by {name} on {machine}: {names}"));
                }
            }
        }
    }
    table.push(&["all", ""], cells(all));
    table.notes.push(all.words());
    table.notes.push(
        "reproduced: the change goes the way that was published and is between half and twice as large; of single \
         figures: ours is as published"
            .to_owned(),
    );
    let has = |class| all.of(class) > 0;
    if has(Class::SignOnly) {
        table.notes.push(
            "sign only: the author's other postings repeat the sign and not the size, so ours is judged by its sign"
                .to_owned(),
        );
    }
    if has(Class::Noise) {
        table.notes.push(
            "noise: the author's other postings do not even repeat the sign, so ours is not judged"
                .to_owned(),
        );
    }
    table.notes.extend(named);
    if !few.is_empty() {
        table.notes.push(format!(
            "few seeds, so a claim may have come out or been missed by chance: {}",
            few.join(", ")
        ));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use highwater_results::{Better, MachineFigures, Metric, Run, TableKind};

    use super::*;

    /// Study 000's figures; each value after is `factors` times the value before. Figures not
    /// listed are not measured.
    fn stutter(name: &str, values: [&[f64]; 2]) -> Document {
        let mut document = Document::new("0.1.0", name, "sim", 1);
        document.metrics.push(Metric::new("mmap", "ms", Better::Lower, TableKind::Multi));
        document.published_policies = vec!["a".to_owned(), "b".to_owned()];
        let beside = ["Min", "Max", "Mean"].map(
            |row| serde_json::json!({ "table": "000.stutter", "row": row, "operation": "mmap" }),
        );
        let figures = serde_json::json!({ "name": "m", "beside": beside });
        document.published.push(serde_json::from_value::<MachineFigures>(figures).unwrap());
        for (label, values) in ["a", "b"].iter().zip(values) {
            let mut run = Run::new("m", label, label);
            values.iter().for_each(|value| run.push("mmap", 0, 1, *value));
            document.runs.push(run);
        }
        document
    }

    fn counts(table: &Table, labels: &[&str]) -> Vec<String> {
        let row = table.row(labels).unwrap();
        row.cells.iter().map(Cell::value_text).collect()
    }

    #[test]
    fn claims_are_counted_by_study_and_in_all() {
        // The published changes: Min the same, Max to 0.53, Mean to 0.82.
        let good = stutter("000-good", [&[1.0, 10.0], &[1.0, 5.0]]);
        // Max falls by much more than published, Mean with it, and Min moves.
        let bad = stutter("000-bad", [&[1.0, 1.0, 10.0], &[2.0, 2.0, 2.0]]);
        let table = summary(&[good, bad]).unwrap();
        // Of Max and Mean only the sign repeats for the author.
        assert_eq!(counts(&table, &["000-good", "m"]), ["3", "1", "0", "2", "0", "0", "0"]);
        assert_eq!(counts(&table, &["000-bad", "m"]), ["3", "0", "0", "2", "1", "0", "0"]);
        assert_eq!(counts(&table, &["all", ""]), ["6", "1", "0", "4", "1", "0", "0"]);
        assert!(
            table.notes[0].starts_with("of 6 judged claims 1 within a factor of 2"),
            "{table:?}"
        );
        let missed = table.notes.iter().filter(|note| note.starts_with("missed by"));
        assert_eq!(missed.collect::<Vec<_>>(), ["missed by 000-bad on m: Min mmap"]);
    }

    #[test]
    fn what_was_not_measured_is_neither_missed_nor_reproduced() {
        let table = summary(&[stutter("000", [&[], &[]])]).unwrap();
        assert_eq!(counts(&table, &["all", ""]), ["3", "0", "0", "0", "0", "0", "3"]);
        // The policies are not the study's, so nothing was published for them.
        let mut other = stutter("000", [&[1.0], &[1.0]]);
        other.runs[1].policy = "c".to_owned();
        assert_eq!(counts(&summary(&[other]).unwrap(), &["all", ""]), ["0"; 7]);
    }
}
