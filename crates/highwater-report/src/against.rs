//! Two documents side by side: the same runs before and after a change that neither of them knows of, say of the
//! program itself.
//!
//! Runs are paired by machine and policy, and every pair is compared by itself: [`against`] makes a document of them,
//! of which [`report::tables`](crate::report::tables) makes the same tables as of any other. What else differs between
//! the two is told by [`differences`].

use std::collections::BTreeMap;

use highwater_results::{Definition, Document, Run, Section};
use thiserror::Error;

use crate::table::{Cell, Layout, Table};

/// Longest value that is shown of a difference.
const VALUE_MAX: usize = 40;

/// Why two documents cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgainstError {
    /// They measured different things.
    #[error("{before} ran {first}, {after} ran {second}: nothing to compare")]
    Workloads {
        /// Name of the first.
        before: String,
        /// Its workload.
        first: String,
        /// Name of the second.
        after: String,
        /// Its workload.
        second: String,
    },
    /// No machine and policy ran in both.
    #[error("no machine and policy ran in both: {before} has {first}, {after} has {second}")]
    Runs {
        /// Name of the first.
        before: String,
        /// Its runs.
        first: String,
        /// Name of the second.
        after: String,
        /// Its runs.
        second: String,
    },
}

/// A document and what to call it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Heading of its columns.
    pub name: &'a str,
    /// The document.
    pub document: &'a Document,
}

/// One document of the runs that two have in common, those of the first as baselines.
///
/// # Errors
/// If they have none, or ran different workloads.
pub fn against(before: Named<'_>, after: Named<'_>) -> Result<Document, AgainstError> {
    let (a, b) = (before.document, after.document);
    if a.workload.name != b.workload.name {
        return Err(AgainstError::Workloads {
            before: before.name.to_owned(),
            first: a.workload.name.clone(),
            after: after.name.to_owned(),
            second: b.workload.name.clone(),
        });
    }
    let mut document = a.clone();
    document.title = format!("{}: {} against {}", a.experiment, after.name, before.name);
    document.iterations = a.iterations.min(b.iterations);
    document.settings = Vec::new();
    // What was published is of policies against each other, which these tables are not.
    document.published = Vec::new();
    document.sections.retain(|section| {
        !matches!(
            section,
            Section::Published { .. }
                | Section::Claims
                | Section::Stalls
                | Section::Hottest { .. }
                | Section::Headline { .. }
        )
    });
    document.runs = Vec::new();
    for (mine, theirs) in pairs(&a.runs, &b.runs) {
        let subject = match mine.policy == theirs.policy {
            true => format!("{}, {}", mine.machine, mine.policy),
            false => mine.machine.clone(),
        };
        for (run, name) in [(mine, before.name), (theirs, after.name)] {
            let (machine, label) = (subject.clone(), name.to_owned());
            document.runs.push(Run { machine, label, ..run.clone() });
        }
    }
    if document.runs.is_empty() {
        return Err(AgainstError::Runs {
            before: before.name.to_owned(),
            first: runs_of(a),
            after: after.name.to_owned(),
            second: runs_of(b),
        });
    }
    Ok(document)
}

/// Runs of the same machine and policy; where each side has one run of a machine, these, whatever their policies.
fn pairs<'a>(before: &'a [Run], after: &'a [Run]) -> Vec<(&'a Run, &'a Run)> {
    let same = |a: &'a Run| {
        let twin = |b: &&Run| b.machine == a.machine && b.policy == a.policy;
        after.iter().find(twin).map(|b| (a, b))
    };
    let pairs: Vec<_> = before.iter().filter_map(same).collect();
    if !pairs.is_empty() {
        return pairs;
    }
    let only = |runs: &'a [Run], machine: &str| {
        let mut of_machine = runs.iter().filter(|run| run.machine == machine);
        of_machine.next().filter(|_| of_machine.next().is_none())
    };
    let alone = |a: &'a Run| Some((only(before, &a.machine)?, only(after, &a.machine)?));
    before.iter().filter_map(alone).collect()
}

fn runs_of(document: &Document) -> String {
    let name = |run: &Run| format!("{} on {}", run.policy, run.machine);
    document.runs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// What two documents differ in besides their results; no rows if in nothing.
pub fn differences(before: Named<'_>, after: Named<'_>) -> Table {
    let title = format!("{} and {} differ in", before.name, after.name);
    let columns = vec![before.name.to_owned(), after.name.to_owned()];
    let mut table = Table::new(title, &["what"], columns, Layout::Fitted);
    let (mine, theirs) = (facts(before.document), facts(after.document));
    let mut keys: Vec<&String> = mine.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (mine.get(key), theirs.get(key));
        if a != b {
            let cell = |value: Option<&String>| value.map_or(Cell::Missing, |v| Cell::text(cut(v)));
            table.push(&[key], vec![cell(a), cell(b)]);
        }
    }
    if !table.rows.is_empty() {
        table.notes.push("changes below may be of these, too".to_owned());
    }
    table
}

/// A value that fits a line.
fn cut(value: &str) -> String {
    match value.char_indices().nth(VALUE_MAX) {
        Some((at, _)) => format!("{}...", &value[..at]),
        None => value.to_owned(),
    }
}

/// Everything that was chosen, by name.
fn facts(document: &Document) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (name, value) in [
        ("version", document.version.clone()),
        ("experiment", document.experiment.clone()),
        ("host", document.host.clone()),
        ("first seed", document.seed.to_string()),
        ("iterations", document.iterations.to_string()),
    ] {
        facts.insert(name.to_owned(), value);
    }
    let workload = std::slice::from_ref(&document.workload);
    for definitions in [workload, &document.machines, &document.policies] {
        definitions.iter().for_each(|definition| keys_of(definition, &mut facts));
    }
    facts
}

/// Every key of a definition with its value.
fn keys_of(definition: &Definition, facts: &mut BTreeMap<String, String>) {
    fn add(path: String, value: &toml::Value, facts: &mut BTreeMap<String, String>) {
        match value {
            toml::Value::Table(table) => {
                table.iter().for_each(|(key, v)| add(format!("{path} {key}"), v, facts));
            }
            toml::Value::Array(list) if list.iter().any(toml::Value::is_table) => {
                let numbered = list.iter().enumerate();
                numbered.for_each(|(at, v)| add(format!("{path} {at}"), v, facts));
            }
            value => drop(facts.insert(path, value.to_string())),
        }
    }
    let Definition { name, definition: text, .. } = definition;
    match toml::from_str::<toml::Table>(text) {
        Ok(table) => add(name.clone(), &toml::Value::Table(table), facts),
        // Not what a definition is made of: all of it is one fact.
        Err(_) => drop(facts.insert(name.clone(), text.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Better, Metric, TableKind};

    fn document(policies: &[&str], mean: f64) -> Document {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        document.workload = Definition {
            name: "w".to_owned(),
            summary: String::new(),
            definition: "rounds = 3\nsizes = [1, 2]\n".to_owned(),
        };
        document.metrics.push(Metric::new("m", "ms", Better::Lower, TableKind::Multi));
        document.sections = crate::report::usual_sections(&document.metrics);
        for policy in policies {
            let mut run = Run::new("small", policy, &format!("6.1-{policy}"));
            run.push("op", 0, 1, mean);
            document.runs.push(run);
        }
        document
    }

    fn named<'a>(name: &'a str, document: &'a Document) -> Named<'a> {
        Named { name, document }
    }

    #[test]
    fn runs_are_paired_by_machine_and_policy() {
        let (a, b) = (document(&["p", "q"], 8.0), document(&["q", "p"], 4.0));
        let both = against(named("old", &a), named("new", &b)).unwrap();
        both.validate().unwrap();
        let shape: Vec<_> =
            both.runs.iter().map(|r| (r.machine.as_str(), r.label.as_str())).collect();
        let expected =
            [("small, p", "old"), ("small, p", "new"), ("small, q", "old"), ("small, q", "new")];
        assert_eq!(shape, expected);
        let tables = crate::report::tables(&both, crate::report::Shown::All).unwrap();
        assert_eq!(tables[0].title, "Verdict: x: new against old");
        assert_eq!(tables[0].rows.len(), 2);
        assert_eq!(tables[0].rows[0].cells[1], Cell::text("better 50.0%"));
    }

    #[test]
    fn one_policy_each_is_a_pair_and_nothing_in_common_is_an_error() {
        let (a, b) = (document(&["p"], 8.0), document(&["q"], 4.0));
        let both = against(named("old", &a), named("new", &b)).unwrap();
        assert_eq!((both.runs.len(), both.runs[1].machine.as_str()), (2, "small"));
        let c = document(&["q", "r"], 4.0);
        let error = against(named("old", &a), named("new", &c)).unwrap_err().to_string();
        let expected =
            "no machine and policy ran in both: old has p on small, new has q on small, r on small";
        assert_eq!(error, expected);
        let mut other = b.clone();
        other.workload.name = "v".to_owned();
        let error = against(named("old", &a), named("new", &other)).unwrap_err().to_string();
        assert_eq!(error, "old ran w, new ran v: nothing to compare");
    }

    #[test]
    fn what_else_differs_is_told_key_by_key() {
        let (a, mut b) = (document(&["p"], 8.0), document(&["p"], 4.0));
        assert!(differences(named("old", &a), named("new", &b)).rows.is_empty());
        b.workload.definition = "rounds = 4\nsizes = [1, 2]\nmore = 1\n".to_owned();
        b.seed = 9;
        let table = differences(named("old", &a), named("new", &b));
        let rows: Vec<String> = table
            .rows
            .iter()
            .map(|row| {
                format!(
                    "{} {} {}",
                    row.labels[0],
                    row.cells[0].value_text(),
                    row.cells[1].value_text()
                )
            })
            .collect();
        assert_eq!(rows, ["first seed 1 9", "w more - 1", "w rounds 3 4"]);
    }
}
