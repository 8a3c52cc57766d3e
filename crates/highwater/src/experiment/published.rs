//! Our figures beside the published ones.

use highwater_report::published::{self, Pairing};
use highwater_report::{Cell as TableCell, Layout, Table};
use highwater_results::published::{PublishedError, PublishedHistogram};
use highwater_results::{Histogram, Metric, Published, Run};

use super::file::Experiment;
use super::netperf::HOTTEST;

/// Tables that set what was published of a machine beside our runs on it: changes of the benchmark,
/// hottest page frames (ours always, theirs where counted).
///
/// Published columns are paired with the experiment's own policies; other policies have none.
///
/// # Errors
/// If the experiment names a table or histogram that was not published.
pub fn published_tables(
    experiment: &Experiment,
    metric: &Metric,
    machine: &str,
    runs: &[&Run],
) -> Result<Vec<Table>, PublishedError> {
    let known = Published::load()?;
    let mut tables = Vec::new();
    let entry = experiment.machines.iter().find(|m| m.name == machine);
    let column = |run: &Run| experiment.policies.iter().position(|p| p.name == run.policy);
    for id in entry.map_or(&[][..], |e| &e.published) {
        let table = known.table(id)?;
        let pairs: Vec<_> =
            runs.iter().filter_map(|&run| Some(Pairing { run, column: column(run)? })).collect();
        if pairs.len() > 1 {
            tables.push(published::side_by_side(metric, &pairs, table));
        }
    }
    let ids = entry.map_or(&[][..], |e| &e.hottest);
    let mut histograms = Vec::new();
    for run in runs {
        let id = column(run).and_then(|c| ids.get(c));
        histograms.push(id.map(|id| known.histogram(id)).transpose()?);
    }
    tables.extend(hottest(runs, &histograms));
    Ok(tables)
}

/// Single published figures beside ours of the baseline; none if the experiment names none for this
/// machine.
///
/// # Errors
/// If the experiment names a figure that was not published.
pub fn claims_table(
    experiment: &Experiment,
    machine: &str,
    runs: &[&Run],
) -> Result<Option<Table>, PublishedError> {
    let entry = experiment.machines.iter().find(|m| m.name == machine);
    let claims = entry.map_or(&[][..], |e| &e.claims);
    let Some(baseline) = runs.first().filter(|_| !claims.is_empty()) else { return Ok(None) };
    let known = Published::load()?;
    let mut table = Table::new(
        format!("Beside what was published of {}", baseline.label),
        &["figure"],
        ["ours", "published"].map(str::to_owned).to_vec(),
        Layout::Fitted,
    );
    for wanted in claims {
        let claim = known.claim(&wanted.study, wanted.line, &wanted.unit)?;
        let values = baseline.values(&wanted.operation);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let ours = if values.is_empty() {
            TableCell::Missing
        } else {
            TableCell::number(mean * wanted.factor, 2)
        };
        let label = format!("{} ({})", claim.what, claim.unit);
        table.push(&[&label], vec![ours, TableCell::Text { text: claim.figure() }]);
    }
    Ok(Some(table))
}

/// The hottest block of each policy, and how many blocks went round.
fn hottest(runs: &[&Run], published: &[Option<&PublishedHistogram>]) -> Option<Table> {
    let of = |run: &Run| run.histograms.iter().find(|h| h.name == HOTTEST).cloned();
    let first = of(runs.first()?)?;
    let baseline = top(&first, 1).first().copied().unwrap_or(0);
    let columns = ["hottest", "fifth", "blocks", "allocations", "times baseline", "published"];
    let mut table = Table::new(
        "Most used page frames: allocations of the hottest block".to_owned(),
        &["policy"],
        columns.iter().map(|&c| c.to_owned()).collect(),
        Layout::Fitted,
    );
    let published_top = |h: &PublishedHistogram| h.buckets.iter().map(|b| b.count).max();
    let published_base = published.first().copied().flatten().and_then(published_top);
    for (run, theirs) in runs.iter().zip(published) {
        let Some(histogram) = of(run) else { continue };
        let uses = top(&histogram, 5);
        let hottest = uses.first().copied().unwrap_or(0);
        let fifth = uses.last().copied().unwrap_or(0);
        let ratio = hottest as f64 / baseline.max(1) as f64;
        let theirs = theirs.and_then(published_top).zip(published_base);
        let theirs = theirs.map(|(top, base)| top as f64 / base as f64);
        let count = |n: u64| TableCell::number(n as f64, 0);
        table.push(
            &[&run.label],
            vec![
                count(hottest),
                count(fifth),
                count(histogram.buckets.len() as u64),
                count(histogram.total),
                TableCell::number(ratio, 1),
                theirs.map_or(TableCell::Missing, |t| TableCell::number(t, 1)),
            ],
        );
    }
    table.notes.push("blocks of order 3, first seed, measured phases only".to_owned());
    Some(table)
}

/// The `n` largest counts, descending.
fn top(histogram: &Histogram, n: usize) -> Vec<u64> {
    let mut counts: Vec<u64> = histogram.buckets.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.truncate(n);
    counts
}
