//! What a study is about, as its experiment names it: published figures and published delays.

use highwater_report::headline::{Figure, headline};
use highwater_report::published::Pairing;
use highwater_report::{Table, stalls};
use highwater_results::published::{PublishedError, PublishedHistogram};
use highwater_results::{Metric, Published, Run};
use serde::Deserialize;

use super::file::Experiment;

/// A published row: its table, its label or statistic, its operation if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The table.
    pub table: String,
    /// Label or statistic.
    pub row: String,
    /// Operation of a statistic.
    #[serde(default)]
    pub operation: String,
}

/// A published histogram of delays, and the policy that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StallEntry {
    /// The policy.
    pub policy: String,
    /// The histogram.
    pub histogram: String,
}

/// Our figures beside the published ones that the study is about; none if the experiment names none
/// for this machine, or the policies are not the experiment's.
///
/// # Errors
/// If the experiment names what was not published.
pub fn headline_table(
    experiment: &Experiment,
    metric: &Metric,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let entry = experiment.machines.iter().find(|m| m.name == machine);
    let wanted = entry.map_or(&[][..], |e| &e.beside);
    let column = |run: &Run| experiment.policies.iter().position(|p| p.name == run.policy);
    let known = Published::load()?;
    let mut figures = Vec::new();
    for beside in wanted {
        let table = known.table(&beside.table)?;
        let figure = Figure::find(table, &beside.row, &beside.operation);
        let figure = figure.ok_or_else(|| PublishedError::Unknown {
            what: "row",
            id: format!("{} {} {}", beside.table, beside.row, beside.operation),
            known: table.id.clone(),
        })?;
        figures.push(figure);
    }
    // Only columns that were published.
    let nr_columns = figures.iter().map(|f| f.table.columns.len()).min().unwrap_or(0);
    let pairs: Vec<Pairing<'_>> = runs
        .iter()
        .filter_map(|&run| Some(Pairing { run, column: column(run)? }))
        .filter(|pair| pair.column < nr_columns)
        .collect();
    let is_paired = pairs.len() > 1 && pairs[0].column == 0;
    Ok(is_paired.then(|| headline(metric, &pairs, &figures)))
}

/// How long throttled tasks slept under each policy, published delays beside ours; none if no task
/// was throttled and nothing was published.
///
/// # Errors
/// If the experiment names a histogram that was not published.
pub fn stalls_table(
    experiment: &Experiment,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let entry = experiment.machines.iter().find(|m| m.name == machine);
    let wanted = entry.map_or(&[][..], |e| &e.stalls);
    let known = Published::load()?;
    let mut with_published = Vec::new();
    for &run in runs {
        let of_run = wanted.iter().filter(|stall| stall.policy == run.policy);
        let histograms: Vec<&PublishedHistogram> =
            of_run.map(|stall| known.histogram(&stall.histogram)).collect::<Result<_, _>>()?;
        with_published.push((run, histograms));
    }
    let table = stalls::table(&with_published);
    Ok((!table.rows.is_empty()).then_some(table))
}
