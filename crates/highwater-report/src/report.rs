//! The whole report of a document: every table, machine by machine, in reading order.

use highwater_results::{Document, TableKind};

use crate::compare::{Options, comparison};
use crate::table::Table;
use crate::{by_seed, duration, evidence, histogram, ratio, vmstat};

/// Which parts to include; the comparison tables always are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Style and rows of the comparison tables.
    pub options: Options,
    /// Tests that assume no distribution.
    pub evidence: bool,
    /// Ratio report.
    pub ratios: bool,
    /// CPU and elapsed time.
    pub duration: bool,
    /// The vmstat block, without rows of zeros.
    pub vmstat: bool,
    /// Histograms: the most frequent keys of each, this many; 0 for none.
    pub nr_histogram_keys: usize,
}

/// All tables of a document.
pub fn tables(document: &Document, parts: &Parts) -> Vec<Table> {
    let style = parts.options.style;
    let mut tables = Vec::new();
    for (_, runs) in document.by_machine() {
        for metric in &document.metrics {
            tables.push(comparison(metric, &runs, &parts.options));
            if parts.evidence && runs.len() > 1 {
                tables.push(evidence::evidence(metric, &runs, style));
                if metric.table == TableKind::VariableTime {
                    tables.push(by_seed::samples(metric, &runs, style));
                }
            }
            if parts.ratios {
                tables.push(ratio::ratios(metric, &runs, style));
            }
        }
        if parts.duration {
            tables.push(duration::duration(&runs, style));
        }
        if parts.vmstat {
            tables.push(vmstat::vmstat(&runs, style).without_zero_rows());
        }
        if parts.nr_histogram_keys > 0 {
            for run in &runs {
                let of_run = run.histograms.iter();
                tables
                    .extend(of_run.map(|one| histogram::table(run, one, parts.nr_histogram_keys)));
            }
        }
    }
    tables
}
