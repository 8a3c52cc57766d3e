//! The claims of the five studies on record (`record/claims.json`) are what the studies compute.
//!
//! The book's page about all claims is made from the record, so that it can be checked without
//! running the studies, which takes minutes:
//!
//! ```text
//! UPDATE_RECORD=1 HIGHWATER=target/release/highwater cargo test -p highwater --test docs -- --ignored studies
//! UPDATE_BOOK=1 cargo test -p highwater --test book
//! ```
//!
//! writes both anew; `HIGHWATER_PAGE=study-000` takes one study only. `record/full.json` is the same
//! of runs with `--full`, which take up to an hour. It has the studies that were run so, and the
//! test `claims_of_full_runs` adds one that is named.

use std::collections::BTreeMap;
use std::fs;

use highwater_report::claims::{self, Claim};
use highwater_report::repeats::{Class, Repeats};
use highwater_results::{Postings, Published, Store};

use crate::root;
use crate::runs::highwater;

const STUDIES: [&str; 5] = ["000", "001", "002", "003", "004"];

/// A file of claims, and the options of the runs that it is of.
struct Record {
    file: &'static str,
    options: &'static [&'static str],
}

const DEFAULT: Record = Record { file: "record/claims.json", options: &[] };
const FULL: Record = Record { file: "record/full.json", options: &["--full"] };

impl Record {
    /// The claims on record.
    fn claims(&self) -> Vec<Claim> {
        let text = fs::read_to_string(root().join(self.file)).unwrap_or_else(|_| "[]".to_owned());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", self.file))
    }

    /// The claims that a study computes.
    fn computed(&self, study: &str) -> Vec<Claim> {
        let mut words = vec!["compare", study];
        words.extend(self.options);
        let done = highwater(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(done.status, Some(0), "{words:?}: {}", done.stderr);
        let store = Store::open(&done.results).expect("the results were kept");
        claims::of(&store.read_document().expect("a document")).expect("what it names is published")
    }

    /// Runs the studies that are meant. What they compute is on record, or is now.
    fn hold(&self, is_meant: impl Fn(&str) -> bool) {
        let of_study = |claims: Vec<Claim>, study: &str| {
            let is_its = |claim: &Claim| claim.experiment.starts_with(study);
            claims.into_iter().filter(is_its).collect::<Vec<_>>()
        };
        let known = self.claims();
        let mut all = BTreeMap::new();
        for study in STUDIES {
            all.insert(study, of_study(known.clone(), study));
        }
        for study in STUDIES.iter().filter(|study| is_meant(study)) {
            all.insert(study, self.computed(study));
        }
        let now: Vec<Claim> = all.into_values().flatten().collect();
        if std::env::var_os("UPDATE_RECORD").is_some() {
            fs::write(root().join(self.file), text(&now)).expect("the file can be written");
            return;
        }
        let differ = now.iter().zip(&known).filter(|(now, known)| now != known);
        let differ: Vec<String> =
            differ.map(|(now, known)| format!("{known:?}\n  is {now:?}")).collect();
        assert!(
            differ.is_empty() && now.len() == known.len(),
            "{} is not what the studies compute; UPDATE_RECORD=1 writes it anew:\n{}",
            self.file,
            differ.join("\n")
        );
    }
}

/// A line for each claim, so that a difference shows what changed.
fn text(claims: &[Claim]) -> String {
    let line = |claim| serde_json::to_string(claim).expect("a claim is JSON");
    format!("[\n{}\n]\n", claims.iter().map(line).collect::<Vec<_>>().join(",\n"))
}

/// The part of a study's name that the caller asked for.
fn wanted() -> Option<String> {
    std::env::var("HIGHWATER_PAGE").ok()
}

#[test]
#[ignore = "simulates for minutes: for whoever changes what a study computes (HIGHWATER_PAGE: only pages with this in their names)"]
fn claims_of_studies_are_those_on_record() {
    let wanted = wanted().unwrap_or_default();
    DEFAULT.hold(|study| format!("study-{study}").contains(&wanted));
}

#[test]
#[ignore = "simulates for an hour: for whoever changes what a study computes (HIGHWATER_PAGE: only pages with this in their names)"]
fn claims_of_full_runs_are_those_on_record() {
    let known = FULL.claims();
    let is_known = |study: &str| known.iter().any(|claim| claim.experiment.starts_with(study));
    FULL.hold(|study| match wanted() {
        Some(wanted) => format!("study-{study}").contains(&wanted),
        None => is_known(study),
    });
}

/// Classes, postings and published figures on record are those of today. Its verdicts are the runs'.
#[test]
fn classes_on_record_follow_from_its_verdicts() {
    let (published, postings) = (Published::load().expect("JSON"), Postings::load().expect("JSON"));
    let known = [DEFAULT, FULL].map(|record| record.claims());
    assert!(known[0].len() > 90 && !known[1].is_empty(), "the claims are on record");
    for claim in known.iter().flatten() {
        let verdict = claim.is_same_way.zip(claim.is_same_size);
        let verdict = verdict.map(|(is_same_way, is_same_size)| {
            highwater_report::headline::Verdict { is_same_way, is_same_size }
        });
        assert_eq!(Class::of(verdict, claim.repeats), claim.class, "{claim:?}");
        let table = published.tables.iter().find(|table| table.id == claim.table);
        let Some(table) = table else {
            assert_eq!(claim.repeats, Repeats::Unknown, "{claim:?}");
            continue;
        };
        let name = claim.figure.split(" (").next().unwrap_or_default();
        let row = table.rows.iter().find(|row| row.name() == name);
        let row = row.unwrap_or_else(|| panic!("{}: no row {name}", table.id));
        let column = row.values.iter().position(|value| Some(*value) == claim.published_after);
        let column = column.unwrap_or_else(|| panic!("{claim:?}: not what was published"));
        assert_eq!(claim.elsewhere, postings.of_row(&table.id, row, column), "{claim:?}");
    }
}
