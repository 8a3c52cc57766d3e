//! Two documents side by side: the same runs before and after a change that neither document
//! records, such as a change of the program itself.
//!
//! Runs are paired by machine and policy, and each pair is compared separately. [`against`] makes
//! one document of the pairs; [`report::tables`](crate::report::tables) makes its tables as for any
//! other document. [`differences`] reports what else differs between the two.

use std::collections::BTreeMap;

use highwater_results::setting::{self, Key, Scope};
use highwater_results::words::count;
use highwater_results::{Definition, Document, Run, Section};
use thiserror::Error;

use crate::report::Shown;
use crate::table::{Cell, Layout, Table};

/// Longest value shown for a difference.
const VALUE_MAX: usize = 40;
/// Number of unchanged keys shown beside the changed ones. The limit keeps the verdict on the first
/// screen.
const NR_SHOWN: usize = 8;

/// Reasons why two documents cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgainstError {
    /// The documents measured different things.
    #[error("{before} ran {first}, {after} ran {second}: nothing to compare")]
    Workloads {
        /// Name of the first document.
        before: String,
        /// Its workload.
        first: String,
        /// Name of the second document.
        after: String,
        /// Its workload.
        second: String,
    },
    /// Runs of the same machine and policy have no seed in common.
    #[error(
        "{run}: no seed ran in both {before} and {after}; run {after} again with --seed {seed}, the first of {before}"
    )]
    Seeds {
        /// Machine and policy.
        run: String,
        /// First seed of the first document.
        seed: u64,
        /// Name of the first document.
        before: String,
        /// Name of the second document.
        after: String,
    },
    /// No machine and policy occurs in both documents.
    #[error("no machine and policy ran in both: {before} has {first}, {after} has {second}")]
    Runs {
        /// Name of the first document.
        before: String,
        /// Its runs.
        first: String,
        /// Name of the second document.
        after: String,
        /// Its runs.
        second: String,
    },
}

/// A document and its display name.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Heading of its columns.
    pub name: &'a str,
    /// The document.
    pub document: &'a Document,
}

/// Makes one document of the runs that two documents have in common; the first document's runs are
/// the baselines.
///
/// The result serves tables only, because each of its groups stands for a machine and a policy.
/// Seeds that only one side has are left out.
///
/// # Errors
/// If the documents have no runs or seeds in common, or ran different workloads.
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
    for (mine, theirs) in document.metrics.iter_mut().zip(&b.metrics) {
        let news = theirs.operations.iter().filter(|name| !mine.operations.contains(name));
        let news: Vec<String> = news.cloned().collect();
        // An empty list stands for all operations.
        if !mine.operations.is_empty() {
            mine.operations.extend(news);
        }
        for (part, of) in &theirs.part_of {
            mine.part_of.entry(part.clone()).or_insert_with(|| of.clone());
        }
    }
    document.settings = Vec::new();
    // Published figures compare policies with each other; these tables compare documents.
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
    let mut fewest = usize::MAX;
    for (mine, theirs) in pairs(&a.runs, &b.runs) {
        let same = [mine.machine == theirs.machine, mine.policy == theirs.policy];
        let subject = match same {
            [true, true] => format!("{}, {}", mine.machine, mine.policy),
            [true, false] => mine.machine.clone(),
            [false, _] => format!("{} and {}", mine.machine, theirs.machine),
        };
        let seeds: Vec<u64> =
            mine.seeds.iter().copied().filter(|seed| theirs.seeds.contains(seed)).collect();
        if seeds.is_empty() {
            let (before, after) = (before.name.to_owned(), after.name.to_owned());
            let seed = a.seed;
            return Err(AgainstError::Seeds { run: subject, seed, before, after });
        }
        fewest = fewest.min(seeds.len());
        for (run, name) in [(mine, before.name), (theirs, after.name)] {
            let (machine, label) = (subject.clone(), name.to_owned());
            document.runs.push(Run { machine, label, ..of_seeds(run, &seeds) });
        }
    }
    document.iterations = u32::try_from(fewest).unwrap_or(document.iterations);
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

/// The results of some of a run's seeds. A histogram covers all seeds together, so it stays only if
/// all seeds stay.
pub(crate) fn of_seeds(run: &Run, seeds: &[u64]) -> Run {
    if run.seeds.iter().all(|seed| seeds.contains(seed)) {
        return run.clone();
    }
    let mut cut = Run::new(&run.machine, &run.policy, &run.label);
    cut.seeds = seeds.to_vec();
    cut.notes.clone_from(&run.notes);
    cut.samples = run.samples.iter().filter(|s| seeds.contains(&s.seed)).cloned().collect();
    cut.largest = run.largest.iter().filter(|l| seeds.contains(&l.seed)).cloned().collect();
    cut.per_seed = run.per_seed.iter().filter(|t| seeds.contains(&t.seed)).cloned().collect();
    for totals in &cut.per_seed {
        cut.counters.merge(&totals.counters);
        cut.times.user_ns += totals.times.user_ns;
        cut.times.system_ns += totals.times.system_ns;
        cut.times.elapsed_ns += totals.times.elapsed_ns;
    }
    cut
}

/// Pairs the runs of the same machine and policy.
///
/// Without such a pair, it pairs the runs of machines that have one run on each side, whatever the
/// policies; failing that, the only run of each document.
fn pairs<'a>(before: &'a [Run], after: &'a [Run]) -> Vec<(&'a Run, &'a Run)> {
    let same = |a: &'a Run| {
        let twin = |b: &&Run| b.machine == a.machine && b.policy == a.policy;
        // If two runs have the policy, the one with the same heading is taken.
        let by_label = after.iter().find(|b| twin(b) && b.label == a.label);
        by_label.or_else(|| after.iter().find(twin)).map(|b| (a, b))
    };
    let pairs: Vec<_> = before.iter().filter_map(same).collect();
    if !pairs.is_empty() {
        return pairs;
    }
    if let ([a], [b]) = (before, after) {
        return vec![(a, b)];
    }
    let only = |runs: &'a [Run], machine: &str| {
        let mut of_machine = runs.iter().filter(|run| run.machine == machine);
        of_machine.next().filter(|_| of_machine.next().is_none())
    };
    let alone = |a: &'a Run| Some((only(before, &a.machine)?, only(after, &a.machine)?));
    before.iter().filter_map(alone).collect()
}

/// Runs of one side that have no partner on the other.
fn left_out<'a>(runs: &'a [Run], paired: impl Iterator<Item = &'a Run> + Clone) -> Vec<String> {
    let is_paired = |run: &Run| paired.clone().any(|other| std::ptr::eq(run, other));
    let left = runs.iter().filter(|run| !is_paired(run));
    left.map(|run| format!("{} on {}", run.policy, run.machine)).collect()
}

fn runs_of(document: &Document) -> String {
    let name = |run: &Run| format!("{} on {}", run.policy, run.machine);
    document.runs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Differences of two documents besides their results; no rows if there are none.
///
/// Changed settings come first, as the user typed them. Unless all is asked for, the rest is cut to
/// leave room for the verdict.
pub fn differences(before: Named<'_>, after: Named<'_>, shown: Shown) -> Table {
    let title = format!("{} and {} differ in", before.name, after.name);
    let columns = vec![before.name.to_owned(), after.name.to_owned()];
    let mut table = Table::new(title, &["what"], columns, Layout::Fitted);
    let (a, b) = (before.document, after.document);
    let (mut mine, mut theirs) = (facts(a, b), facts(b, a));
    let cell = |value: Option<&String>| value.map_or(Cell::Missing, |v| Cell::text(cut(v)));
    let mut set: Vec<&str> = [a, b].into_iter().flat_map(settings).map(|(key, _)| key).collect();
    set.sort_unstable();
    set.dedup();
    for key in set {
        let value = |document, facts: &mut BTreeMap<String, String>| {
            let was = take(facts, document, key);
            let settings = settings(document);
            let typed = settings.iter().rev().find(|(other, _)| *other == key);
            typed.map(|(_, value)| (*value).to_owned()).or(was)
        };
        let (a, b) = (value(a, &mut mine), value(b, &mut theirs));
        if a != b {
            table.push(&[key], vec![cell(a.as_ref()), cell(b.as_ref())]);
        }
    }
    let mut keys: Vec<&String> = mine.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| mine.get(*key) != theirs.get(*key));
    let nr_shown = match shown {
        Shown::All => keys.len(),
        Shown::Changes => NR_SHOWN,
    };
    for key in keys.iter().take(nr_shown) {
        table.push(&[key], vec![cell(mine.get(*key)), cell(theirs.get(*key))]);
    }
    if keys.len() > nr_shown {
        let more = count(keys.len() - nr_shown, "more key");
        table.notes.push(format!("and {more}; --all shows all"));
    }
    if !table.rows.is_empty() {
        table.notes.push("changes below may be of these, too".to_owned());
    }
    let pairs = pairs(&a.runs, &b.runs);
    for (name, left) in [
        (before.name, left_out(&a.runs, pairs.iter().map(|(a, _)| *a))),
        (after.name, left_out(&b.runs, pairs.iter().map(|(_, b)| *b))),
    ] {
        if !left.is_empty() {
            table.notes.push(format!("only in {name}, so not compared: {}", left.join(", ")));
        }
    }
    table
}

/// Settings (key and value) that were changed for this document's run alone.
fn settings(document: &Document) -> Vec<(&str, &str)> {
    document.settings.iter().filter_map(|text| setting::split(text)).collect()
}

/// Takes the facts that a settable key stands for: those of all machines, all policies, or the
/// workload. Returns their value if all have the same.
fn take(facts: &mut BTreeMap<String, String>, document: &Document, key: &str) -> Option<String> {
    let key = Key::parse(key);
    let (definitions, kind) = match key.scope() {
        Scope::Experiment | Scope::Storage => return facts.remove(key.path()),
        Scope::Machine => (&document.machines[..], "machine"),
        Scope::Policy => (&document.policies[..], "policy"),
        Scope::Workload => (std::slice::from_ref(&document.workload), key.head()),
    };
    let mut names: Vec<String> =
        definitions.iter().map(|one| fact_of(&one.name, one, key.path())).collect();
    names.extend(definitions.first().map(|one| fact_of(kind, one, key.path())));
    let mut values: Vec<String> = names.iter().filter_map(|name| facts.remove(name)).collect();
    values.dedup();
    let value = if values.len() == 1 { values.pop() } else { None };
    value.map(|value| value.trim_matches('"').to_owned())
}

/// The name of the fact at a path of a definition. A list's elements go by name if they have one,
/// also where the path has their number.
fn fact_of(owner: &str, definition: &Definition, path: &str) -> String {
    let table = toml::from_str::<toml::Table>(&definition.definition).ok();
    let root = table.map(toml::Value::Table);
    let (mut fact, mut at) = (owner.to_owned(), root.as_ref());
    for part in path.split('.') {
        let list = at.and_then(toml::Value::as_array);
        let is_it = |(number, value): &(usize, &toml::Value)| {
            name_of(value).is_some_and(|name| name == part) || number.to_string() == part
        };
        let element = list.and_then(|list| list.iter().enumerate().find(is_it));
        let name = element.and_then(|(_, value)| name_of(value)).unwrap_or(part);
        fact += &format!(" {name}");
        at = match element {
            Some((_, value)) => Some(value),
            None => at.and_then(|value| value.get(part)),
        };
    }
    fact
}

/// The name of an element of a list.
fn name_of(value: &toml::Value) -> Option<&str> {
    value.get("name")?.as_str()
}

/// Shortens a value to fit a line.
fn cut(value: &str) -> String {
    match value.char_indices().nth(VALUE_MAX) {
        Some((at, _)) => format!("{}...", &value[..at]),
        None => value.to_owned(),
    }
}

/// All settings by name. If each side has one machine or policy and they differ in name, the
/// generic word replaces the name.
fn facts(document: &Document, other: &Document) -> BTreeMap<String, String> {
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
    keys_of(&document.workload.name, &document.workload, &mut facts);
    for (kind, mine, theirs) in [
        ("machine", &document.machines, &other.machines),
        ("policy", &document.policies, &other.policies),
    ] {
        let is_only = matches!((&mine[..], &theirs[..]), ([a], [b]) if a.name != b.name);
        for definition in mine {
            let name = if is_only { kind } else { &definition.name };
            keys_of(name, definition, &mut facts);
        }
    }
    facts
}

/// Every key of a definition, with its value.
fn keys_of(name: &str, definition: &Definition, facts: &mut BTreeMap<String, String>) {
    fn add(path: String, value: &toml::Value, facts: &mut BTreeMap<String, String>) {
        match value {
            toml::Value::Table(table) => {
                table.iter().for_each(|(key, v)| add(format!("{path} {key}"), v, facts));
            }
            toml::Value::Array(list) if list.iter().any(toml::Value::is_table) => {
                // List entries go by name if they have one, as a user names them when setting a
                // key.
                for (at, v) in list.iter().enumerate() {
                    let name = name_of(v).map_or_else(|| at.to_string(), str::to_owned);
                    add(format!("{path} {name}"), v, facts);
                }
            }
            value => drop(facts.insert(path, value.to_string())),
        }
    }
    let text = &definition.definition;
    match toml::from_str::<toml::Table>(text) {
        Ok(table) => add(name.to_owned(), &toml::Value::Table(table), facts),
        // This is not a table of keys, so all of it is one fact.
        Err(_) => drop(facts.insert(name.to_owned(), text.clone())),
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
            run.seeds = vec![1];
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
        assert!(differences(named("old", &a), named("new", &b), Shown::Changes).rows.is_empty());
        b.workload.definition = "rounds = 4\nsizes = [1, 2]\nmore = 1\n".to_owned();
        b.seed = 9;
        let table = differences(named("old", &a), named("new", &b), Shown::Changes);
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

    #[test]
    fn a_number_in_a_key_finds_the_element_that_has_a_name() {
        let definition = Definition {
            definition: "[[task]]\nname = \"db\"\ncount = 2\n[[task]]\ncount = 1\n".to_owned(),
            ..Definition::default()
        };
        let fact = |path| fact_of("job", &definition, path);
        assert_eq!(fact("task.0.count"), "job task db count");
        assert_eq!(fact("task.db.count"), "job task db count");
        assert_eq!(fact("task.1.count"), "job task 1 count");
        assert_eq!(fact("seconds"), "job seconds");
    }

    /// Changed settings are shown with their old value, as the user typed them, and the verdict
    /// keeps its room.
    #[test]
    fn what_was_set_comes_first_and_the_rest_is_short() {
        let machine = |name: &str, swappiness: u32, pages: u64| {
            let zones: String =
                (0..9).map(|zone| format!("[[zone]]\npages = {}\n", pages + zone)).collect();
            let definition =
                format!("memory = \"{pages}G\"\n{zones}[tunables]\nswappiness = {swappiness}\n");
            Definition { name: name.to_owned(), summary: String::new(), definition }
        };
        let (mut a, mut b) = (document(&["p"], 8.0), document(&["p"], 4.0));
        a.machines = vec![machine("m", 60, 4), machine("n", 60, 4)];
        b.machines = vec![machine("m", 10, 1), machine("n", 10, 1)];
        b.settings =
            ["machine.memory=1G", "vm.swappiness=10", "w.rounds=3"].map(str::to_owned).to_vec();
        let table = differences(named("old", &a), named("new", &b), Shown::Changes);
        let text = |row: &crate::table::Row| {
            let cell = |at: usize| row.cells[at].value_text();
            format!("{} {} {}", row.labels[0], cell(0), cell(1))
        };
        let rows: Vec<String> = table.rows.iter().map(text).collect();
        assert_eq!(rows[..2], ["machine.memory 4G 1G", "vm.swappiness 60 10"]);
        assert!(rows[2].starts_with("m zone 0 pages"), "as it was by itself: {rows:?}");
        assert_eq!(
            (rows.len(), table.notes[0].as_str()),
            (10, "and 10 more keys; --all shows all")
        );
        let all = differences(named("old", &a), named("new", &b), Shown::All);
        assert_eq!(all.rows.len(), 20);
    }

    #[test]
    fn only_seeds_of_both_are_compared() {
        let (mut a, b) = (document(&["p"], 8.0), document(&["p"], 4.0));
        a.runs[0].seeds = vec![1, 2];
        a.runs[0].push("op", 1, 2, 1000.0);
        for seed in [1, 2] {
            let counters = [("pgfault", 10 * seed as i64)].into_iter().collect();
            let totals = highwater_results::SeedTotals { seed, counters, ..Default::default() };
            a.runs[0].counters.merge(&totals.counters);
            a.runs[0].per_seed.push(totals);
        }
        let both = against(named("old", &a), named("new", &b)).unwrap();
        assert_eq!((both.iterations, both.runs[0].values("op")), (1, vec![8.0]));
        assert_eq!(both.runs[0].counters.get("pgfault"), 10);
        a.runs[0].seeds = vec![7];
        let error = against(named("old", &a), named("new", &b)).unwrap_err().to_string();
        assert_eq!(
            error,
            "small, p: no seed ran in both old and new; run new again with --seed 1, the first of old"
        );
    }

    #[test]
    fn what_is_not_compared_is_told() {
        let (a, mut b) = (document(&["p", "q"], 8.0), document(&["p"], 4.0));
        b.metrics[0].operations = vec!["op".to_owned()];
        let table = differences(named("old", &a), named("new", &b), Shown::Changes);
        assert_eq!(table.notes, ["only in old, so not compared: q on small"]);
        let mut other = document(&["p"], 4.0);
        other.runs[0].machine = "large".to_owned();
        let both = against(named("new", &b), named("other", &other)).unwrap();
        assert_eq!(both.runs[0].machine, "small and large", "the only run of each");
    }

    #[test]
    fn policies_that_are_alone_are_compared_key_by_key() {
        let policy = |name: &str, value: u32| Definition {
            name: name.to_owned(),
            summary: String::new(),
            definition: format!("same = 1\nkey = {value}\n"),
        };
        let (mut a, mut b) = (document(&["p"], 8.0), document(&["q"], 4.0));
        a.policies = vec![policy("p", 2)];
        b.policies = vec![policy("q", 3)];
        let table = differences(named("old", &a), named("new", &b), Shown::Changes);
        let labels: Vec<_> = table.rows.iter().map(|row| row.labels[0].as_str()).collect();
        assert_eq!(labels, ["policy key"]);
    }
}
