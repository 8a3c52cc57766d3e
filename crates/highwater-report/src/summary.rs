//! A summary of several experiments: how many of each study's claims were reproduced.
//!
//! A claim is something that a study states about a machine:
//! * a row of its main figures; if its experiment names none, a row that its table marks as
//!   significant,
//! * a single figure in its text,
//! * how hot the hottest block is.
//!
//! A claim is *reproduced* if our change has the same direction and is between half and twice as
//! large (a single figure: if ours is as published). It has the *direction only* if the direction
//! alone agrees, and is *missed* otherwise.

use highwater_results::Document;
use highwater_results::published::PublishedError;

use crate::beside;
use crate::by_seed::SEEDS_MIN;
use crate::headline::Verdict;
use crate::table::{Cell, Layout, Table};

/// Number of claims by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    reproduced: u32,
    way_only: u32,
    missed: u32,
    not_measured: u32,
}

impl Tally {
    fn count(&mut self, verdict: Option<Verdict>) {
        *match verdict {
            None => &mut self.not_measured,
            Some(Verdict { is_same_way: false, .. }) => &mut self.missed,
            Some(Verdict { is_same_size: false, .. }) => &mut self.way_only,
            Some(_) => &mut self.reproduced,
        } += 1;
    }

    fn add(&mut self, other: Tally) {
        self.reproduced += other.reproduced;
        self.way_only += other.way_only;
        self.missed += other.missed;
        self.not_measured += other.not_measured;
    }

    fn cells(self) -> Vec<Cell> {
        let Tally { reproduced, way_only, missed, not_measured } = self;
        let all = reproduced + way_only + missed + not_measured;
        let counts = [all, reproduced, way_only, missed, not_measured];
        counts.map(|count| Cell::number(f64::from(count), 0)).to_vec()
    }
}

/// One row per experiment and machine with published figures, and one for all; the notes name the
/// missed claims.
///
/// # Errors
/// If the document names something that was not published.
pub fn summary(documents: &[Document]) -> Result<Table, PublishedError> {
    let columns = ["claims", "reproduced", "direction only", "missed", "not measured"];
    let mut table = Table::new(
        "Summary: what was published, and what came out".to_owned(),
        &["experiment", "machine"],
        columns.map(str::to_owned).to_vec(),
        Layout::Fitted,
    );
    let (mut all, mut missed, mut few) = (Tally::default(), Vec::new(), Vec::new());
    for document in documents {
        for (machine, runs) in document.by_machine() {
            let claims = beside::all_claims(document, machine, &runs)?;
            if claims.is_empty() {
                continue;
            }
            let mut tally = Tally::default();
            claims.iter().for_each(|(_, verdict)| tally.count(*verdict));
            table.push(&[&document.experiment, machine], tally.cells());
            all.add(tally);
            let name = document.experiment.as_str();
            if (document.iterations as usize) < SEEDS_MIN && !few.contains(&name) {
                few.push(name);
            }
            let is_missed = |verdict: &Option<Verdict>| verdict.is_some_and(|v| !v.is_same_way);
            let names = claims.iter().filter(|(_, verdict)| is_missed(verdict));
            let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
            if !names.is_empty() {
                let names = names.join(", ");
                missed.push(format!("missed by {} on {machine}: {names}", document.experiment));
            }
        }
    }
    table.push(&["all", ""], all.cells());
    table.notes.push(
        "reproduced: the change goes the way that was published and is between half and twice as large; of single \
         figures: ours is as published"
            .to_owned(),
    );
    table.notes.extend(missed);
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
        // The mean falls from 5.5 to 3: more than twice the published change.
        assert_eq!(counts(&table, &["000-good", "m"]), ["3", "2", "1", "0", "0"]);
        assert_eq!(counts(&table, &["000-bad", "m"]), ["3", "0", "2", "1", "0"]);
        assert_eq!(counts(&table, &["all", ""]), ["6", "2", "3", "1", "0"]);
        let missed = table.notes.iter().filter(|note| note.starts_with("missed"));
        assert_eq!(missed.collect::<Vec<_>>(), ["missed by 000-bad on m: Min mmap"]);
    }

    #[test]
    fn what_was_not_measured_is_neither_missed_nor_reproduced() {
        let table = summary(&[stutter("000", [&[], &[]])]).unwrap();
        assert_eq!(counts(&table, &["all", ""]), ["3", "0", "0", "0", "3"]);
        // The policies are not the study's, so nothing was published for them.
        let mut other = stutter("000", [&[1.0], &[1.0]]);
        other.runs[1].policy = "c".to_owned();
        assert_eq!(counts(&summary(&[other]).unwrap(), &["all", ""]), ["0"; 5]);
    }
}
