//! `compare --vary KEY=A,B,..`: the same experiment at every combination of values.
//!
//! A point is `compare` with `--set KEY=VALUE` for each key, so a key is one of `--set`. All points
//! are resolved before the first one runs, so an invalid value is refused at once. Points run one
//! after the other, each on all jobs, so the results do not depend on the number of jobs.

use highwater_report::grid::{Grid, Point};
use highwater_report::{Format, PAGE_WIDTH};
use highwater_results::contents::REPORT_FILE;
use highwater_results::store::Store;
use highwater_results::{Contents, Document};

use super::args::CompareArgs;
use super::compare;
use super::interrupt::NEVER;
use super::out::{Out, Plans, failed, points, prepare};
use super::plan::experiment_plan;
use super::progress::Bar;
use super::report::{self, Look};
use super::{CliError, Outcome};
use crate::experiment::{self, RunPlan};
use crate::input::names::nearest;
use crate::workload::Registry;
use crate::workload::outcome::counter_names;

/// Most points of a grid.
const POINTS_MAX: usize = 10_000;

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Factor {
    key: String,
    values: Vec<String>,
}

/// Runs the grid.
pub(super) fn run(
    registry: &Registry,
    experiment: &str,
    args: &CompareArgs,
    counters: &[String],
    out: Option<&Out<'_>>,
) -> Result<Outcome, CliError> {
    check_counters(counters)?;
    if args.format == Format::Json {
        let reason = "a grid is a table (csv); --out DIR keeps the results of each point as JSON";
        return Err(CliError::new(format!("--format json: {reason}")));
    }
    let factors: Vec<Factor> =
        args.vary.iter().map(|text| factor(text)).collect::<Result<_, _>>()?;
    let keys: Vec<String> = factors.iter().map(|factor| factor.key.clone()).collect();
    let points = combinations(&factors)?;
    let plan_of = |values: &Vec<String>| plan(registry, experiment, args, &keys, values);
    let plans: Vec<RunPlan> = points.iter().map(plan_of).collect::<Result<_, _>>()?;

    let place = prepare(out, &plans, Plans::All)?;
    let mut documents: Vec<Document> = Vec::new();
    let bar = Bar::start_all(&plans);
    for (at, (plan, values)) in plans.into_iter().zip(&points).enumerate() {
        bar.remark(&format!("point {} of {}: {}", at + 1, points.len(), said(&keys, values)));
        let mut document = experiment::run_all(&place.keeps(plan), &bar, &NEVER)?.document;
        bar.next_plan();
        document.command_line = compare::command_line();
        document.validate().map_err(|error| CliError::new(error.to_string()))?;
        documents.push(document);
    }
    bar.finish();
    let grid = Grid {
        keys: &keys,
        counters,
        points: points
            .iter()
            .zip(&documents)
            .map(|(values, document)| Point { values, document })
            .collect(),
    };
    let csv = grid.csv();
    super::show(args.format, &report::of_grid(&grid, Look::new(args.format, false)))?;
    if let Some(store) = place.begin(Contents::Grid)? {
        keep(store, args, &grid, &csv)?;
    }
    Ok(Outcome::Done)
}

/// Refuses names that no counter has.
fn check_counters(counters: &[String]) -> Result<(), CliError> {
    let known: Vec<&str> = counter_names().collect();
    let Some(wrong) = counters.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let near = match nearest(wrong, known).as_slice() {
        [] => "names are those of /proc/vmstat".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(CliError::new(format!("--counter {wrong}: no such counter; {near}")))
}

/// Writes the table, its summary, and each point's results in a subdirectory.
fn keep(store: &Store, args: &CompareArgs, grid: &Grid<'_>, csv: &str) -> Result<(), CliError> {
    for (store, point) in points(store, grid.points.len())?.iter().zip(&grid.points) {
        store.write_document(point.document).map_err(failed)?;
        let text = report::text(point.document, Look::new(args.format, false).kept())?;
        store.write_text(REPORT_FILE, &text).map_err(failed)?;
    }
    store
        .write_text(REPORT_FILE, &Format::Terminal.tables(&grid.tables(), PAGE_WIDTH))
        .map_err(failed)?;
    // Written last: if this file exists, all others do.
    store.write_text(Contents::Grid.last_file(), csv).map_err(failed)?;
    Ok(())
}

/// The plan of `compare` at a point.
fn plan(
    registry: &Registry,
    experiment: &str,
    args: &CompareArgs,
    keys: &[String],
    values: &[String],
) -> Result<RunPlan, CliError> {
    let mut args = args.clone();
    args.vary.clear();
    args.set.set.extend(keys.iter().zip(values).map(|(key, value)| format!("{key}={value}")));
    experiment_plan(registry, experiment, &args, None)
}

fn said(keys: &[String], values: &[String]) -> String {
    let pairs = keys.iter().zip(values).map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Reads `KEY=A,B,..`. A value that is a list has brackets.
fn factor(text: &str) -> Result<Factor, CliError> {
    let wrong = |reason: String| CliError::new(format!("--vary {text}: {reason}"));
    let Some((key, list)) = text.split_once('=') else {
        return Err(wrong("must be KEY=VALUE,VALUE,..".to_owned()));
    };
    let mut values = vec![String::new()];
    let mut depth = 0_u32;
    for letter in list.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (letter, values.last_mut()) {
            (',', _) if depth == 0 => values.push(String::new()),
            (_, Some(value)) => value.push(letter),
            (_, None) => {}
        }
    }
    let values: Vec<String> = values.into_iter().map(|value| value.trim().to_owned()).collect();
    if key.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong("must be KEY=VALUE,VALUE,..".to_owned()));
    }
    for (at, value) in values.iter().enumerate() {
        if values[..at].contains(value) {
            return Err(wrong(format!("{value} comes twice")));
        }
    }
    Ok(Factor { key: key.trim().to_owned(), values })
}

/// Every combination, the last key's values next to each other.
fn combinations(factors: &[Factor]) -> Result<Vec<Vec<String>>, CliError> {
    for (at, factor) in factors.iter().enumerate() {
        if factors[..at].iter().any(|other| other.key == factor.key) {
            return Err(CliError::new(format!("--vary {}: is varied twice", factor.key)));
        }
    }
    let sizes = factors.iter().map(|factor| factor.values.len());
    let size = sizes.fold(1_usize, usize::saturating_mul);
    if size > POINTS_MAX {
        return Err(CliError::new(format!("--vary: {size} points; {POINTS_MAX} at most")));
    }
    Ok(factors.iter().fold(vec![Vec::new()], |points, factor| {
        let with = |point: &Vec<String>| {
            let point = point.clone();
            factor
                .values
                .iter()
                .map(move |value| [&point[..], std::slice::from_ref(value)].concat())
        };
        points.iter().flat_map(with).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_outside_brackets() {
        let values = |text: &str| factor(text).unwrap().values;
        assert_eq!(values("machine.memory=2G,4G, 8G"), ["2G", "4G", "8G"]);
        assert_eq!(values("unmap.processes=[1,2],[4]"), ["[1,2]", "[4]"]);
        let wrong = |text: &str| factor(text).unwrap_err().to_string();
        assert_eq!(wrong("x"), "--vary x: must be KEY=VALUE,VALUE,..");
        assert_eq!(wrong("x=1,,2"), "--vary x=1,,2: must be KEY=VALUE,VALUE,..");
        assert_eq!(wrong("x=1,1"), "--vary x=1,1: 1 comes twice");
    }

    #[test]
    fn every_combination_once() {
        let factors = ["a=1,2", "b=x,y,z"].map(|text| factor(text).unwrap());
        let points = combinations(&factors).unwrap();
        let texts: Vec<String> = points.iter().map(|point| point.concat()).collect();
        assert_eq!(texts, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        let twice = ["a=1,2", "a=3"].map(|text| factor(text).unwrap());
        assert_eq!(combinations(&twice).unwrap_err().to_string(), "--vary a: is varied twice");
        let values: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        let of = |key: &str| Factor { key: key.to_owned(), values: values.clone() };
        assert!(combinations(&[of("a"), of("b")]).is_err(), "10,201 points");
    }
}
