//! The report of a document: the verdict, then the tables named by its sections, machine by
//! machine.
//!
//! Only the document decides what is shown: [`tables`] makes the same tables from a file as from
//! the run that wrote it.

use highwater_results::published::PublishedError;
use highwater_results::{Document, Metric, Run, Section, TableKind};

use crate::compare::{Changes, Options, RowSet, comparison, not_counted};
use crate::style::Style;
use crate::table::Table;
use crate::{
    beside, by_seed, dead, duration, evidence, histogram, largest, latency, orders, trace_times,
    verdict, vmstat,
};

/// How much of the evidence to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Rows that show a change, and a count of the others.
    #[default]
    Changes,
    /// All rows.
    All,
}

/// Only the verdicts of a document: that of the whole, and those against baselines other than the
/// first run.
///
/// # Errors
/// The same as [`tables`].
pub fn verdicts(document: &Document) -> Result<Vec<Table>, PublishedError> {
    let mut tables: Vec<Table> = verdict::verdict(document)?.into_iter().collect();
    for (label, part) in also_against(document) {
        tables.extend(verdict::verdict(&part)?.map(|table| against(&label, table)));
    }
    Ok(tables)
}

/// Tasks of a document that were killed or gave up; none if all went on to their end.
pub fn ended_early(document: &Document) -> Option<Table> {
    dead::table(document)
}

/// All tables of a document except empty ones: tasks that ended early, the verdicts, the others.
///
/// # Errors
/// If the document names a published table, histogram or figure that is not known.
pub fn tables(document: &Document, shown: Shown) -> Result<Vec<Table>, PublishedError> {
    let mut tables: Vec<Table> = dead::table(document).into_iter().collect();
    tables.extend(verdict::verdict(document)?);
    for (label, part) in also_against(document) {
        let of_part = verdict::verdict(&part)?.into_iter().chain(of_machines(&part, shown)?);
        tables.extend(of_part.map(|table| against(&label, table)));
    }
    tables.extend(of_machines(document, shown)?);
    Ok(tables)
}

/// Comparisons against baselines other than a machine's first run: each heading that the document
/// names, with its run and the runs after it.
fn also_against(document: &Document) -> Vec<(String, Document)> {
    let part = |label: &String| {
        let mut part = Document { runs: Vec::new(), ..document.clone() };
        for (_, runs) in document.by_machine() {
            let from = runs.iter().skip_while(|run| run.label != *label);
            part.runs.extend(from.map(|&run| run.clone()));
        }
        // Settings and published figures are reported with the whole document.
        (part.settings, part.published) = (Vec::new(), Vec::new());
        part.sections
            .retain(|section| matches!(section, Section::Evidence { .. } | Section::Seeds { .. }));
        (label.clone(), part)
    };
    document.also_against.iter().map(part).collect()
}

fn against(label: &str, mut table: Table) -> Table {
    table.title = format!("Against {label}: {}", table.title);
    table
}

/// The tables of a document's sections, machine by machine.
fn of_machines(document: &Document, shown: Shown) -> Result<Vec<Table>, PublishedError> {
    Ok(parts(document, shown)?.into_iter().flat_map(|part| part.tables).collect())
}

/// The tables of one section of a document, of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The machine.
    pub machine: String,
    /// The section.
    pub section: Section,
    /// Its tables.
    pub tables: Vec<Table>,
}

/// The tables of each section, machine by machine, without the verdicts.
///
/// # Errors
/// The same as [`tables`].
pub fn parts(document: &Document, shown: Shown) -> Result<Vec<Part>, PublishedError> {
    let mut parts = Vec::new();
    for (machine, runs) in document.by_machine() {
        let of_machine = OfMachine { document, machine, runs: &runs, style: Style::default() };
        for section in &document.sections {
            let of_section = of_machine.tables(section)?;
            let is_judged = matches!(
                section,
                Section::Evidence { .. } | Section::Seeds { .. } | Section::Totals
            );
            let of_section = of_section.into_iter().filter(|table| !table.rows.is_empty());
            let tables = of_section.map(|table| match (shown, is_judged) {
                (Shown::Changes, true) => evidence::changed_only(table),
                _ => table,
            });
            let (machine, section) = (machine.to_owned(), section.clone());
            parts.push(Part { machine, section, tables: tables.collect() });
        }
    }
    Ok(parts)
}

/// The part of a document that belongs to one machine.
struct OfMachine<'a> {
    document: &'a Document,
    machine: &'a str,
    /// Runs, the baseline first.
    runs: &'a [&'a Run],
    style: Style,
}

impl OfMachine<'_> {
    fn tables(&self, section: &Section) -> Result<Vec<Table>, PublishedError> {
        let &OfMachine { document, machine, runs, style } = self;
        let metric = |name: &str| document.metrics.iter().find(|metric| metric.name == name);
        let of = |name: &str, table: &dyn Fn(&Metric) -> Table| metric(name).map(table);
        let is_compared = runs.len() > 1;
        Ok(match section {
            Section::Comparison { metric, rows, style: said } => {
                // An unknown style is replaced by the default: the document may come from a later
                // program.
                let said = said.parse::<Style>().ok();
                let rows = match (rows.is_empty(), said) {
                    (true, None) => RowSet::Means,
                    (true, Some(_)) => RowSet::Full,
                    (false, _) => RowSet::Only(rows.clone()),
                };
                let style = said.unwrap_or(style);
                let options = Options { rows, style, changes: Changes::Factors };
                of(metric, &|metric| comparison(metric, runs, &options)).into_iter().collect()
            }
            Section::Published { metric: name } => match metric(name) {
                Some(metric) => beside::published(document, metric, machine, runs)?,
                None => Vec::new(),
            },
            Section::Hottest { histogram } => {
                beside::hottest(document, histogram, machine, runs)?.into_iter().collect()
            }
            Section::Evidence { metric } if is_compared && document.iterations > 1 => {
                of(metric, &|metric| evidence::evidence(metric, runs, style)).into_iter().collect()
            }
            Section::Seeds { metric } if is_compared => {
                of(metric, &|metric| by_seed::samples(metric, runs, style)).into_iter().collect()
            }
            Section::Evidence { .. } | Section::Seeds { .. } => Vec::new(),
            Section::Largest { metric: name } => {
                of(name, &|metric| largest::largest(metric, runs)).into_iter().collect()
            }
            Section::Claims => beside::claims(document, machine, runs)?.into_iter().collect(),
            Section::Duration => {
                let mut table = duration::duration(runs, style);
                // In a comparison, the verdict already says this.
                table.notes.extend(settings(document).filter(|_| !is_compared));
                // Of a metric of which nothing is counted there is no table that says so.
                let is_left_out = |metric: &&Metric| {
                    !is_compared && runs.iter().all(|run| verdict::lacks_all(metric, run))
                };
                let metrics = document.metrics.iter().filter(is_left_out);
                table.notes.extend(metrics.flat_map(|metric| not_counted(metric, runs)));
                table.notes.extend(remarks(runs));
                vec![table]
            }
            Section::Totals => vec![by_seed::totals(runs)],
            Section::Vmstat => vec![vmstat::vmstat(runs, style)],
            Section::VmstatBrief => vec![vmstat::brief(runs, style)],
            Section::Stalls => beside::stalls(document, machine, runs)?.into_iter().collect(),
            Section::Latencies => vec![latency::latencies(runs)],
            Section::Histograms => histogram::all_side_by_side(runs),
            Section::TraceTimes => vec![trace_times::trace_times(runs, style)],
            Section::Orders { metric } => {
                of(metric, &|metric| orders::orders(metric, runs)).into_iter().collect()
            }
            Section::Headline { metric: name } => match metric(name) {
                Some(metric) => {
                    beside::headline(document, metric, machine, runs)?.into_iter().collect()
                }
                None => Vec::new(),
            },
        })
    }
}

/// Settings that were changed for this run alone.
pub(crate) fn settings(document: &Document) -> Option<String> {
    let said = document.settings.join(" ");
    (!said.is_empty()).then(|| format!("set for this run: {said}"))
}

/// Remarks of the runs, each once; digests are for programs and are left out.
fn remarks(runs: &[&Run]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for note in runs.iter().flat_map(|run| run.remarks()) {
        if !remarks.contains(note) {
            remarks.push(note.clone());
        }
    }
    remarks
}

/// The sections of most benchmarks: each metric as mmtests shows it, beside the published figures,
/// and judged. Then claims, times, a few counters, and the study's main figures.
pub fn usual_sections(metrics: &[Metric]) -> Vec<Section> {
    let mut sections = Vec::new();
    for metric in metrics {
        let name = || metric.name.clone();
        sections.push(Section::Comparison {
            metric: name(),
            rows: Vec::new(),
            style: String::new(),
        });
        sections.push(Section::Published { metric: name() });
        sections.push(Section::Evidence { metric: name() });
        if metric.table == TableKind::VariableTime {
            sections.push(Section::Seeds { metric: name() });
        }
    }
    sections.extend([Section::Claims, Section::Duration, Section::VmstatBrief]);
    sections.extend(metrics.first().map(|m| Section::Headline { metric: m.name.clone() }));
    sections
}
