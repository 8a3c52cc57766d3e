//! Results as one self-contained HTML page, to look at, print or send.
//!
//! ```text
//! Document --report::parts--> tables ---\
//!          --samples--> distribution ----> Page --minijinja--> HTML with style, script and uPlot inside
//! timeline.csv --> timeline -------------/
//! pageblocks.csv, ages.csv --> memory --/
//! stalls.json  --> causes --------------/
//! ```
//!
//! | module | makes |
//! |---|---|
//! | `table` | tables that can be copied and downloaded |
//! | `figure`, `svg` | drawings, each with its table |
//! | `distribution` | curves with their bands, boxes |
//! | `heat` | maps of grids |
//! | `answers` | the page of `diagnose`: reports of a kernel, their free lists as bars |
//! | `causes` | the slowest operations' time, by cause |
//! | `timeline` | charts for the chart library |
//! | `memory` | maps of pageblocks, LRU lists by age |
//! | `latency` | latencies of each operation of a job |
//! | `warnings` | warnings about weak results |
//!
//! Key types: [`Story`] (the data beside a document), [`page`]. The same results give the same
//! bytes.

mod answers;
mod causes;
mod distribution;
mod figure;
mod heat;
mod latency;
mod memory;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod warnings;

use highwater_results::explain::{ExplainedRun, Explanation};
use highwater_results::published::PublishedError;
use highwater_results::words::count;
use highwater_results::{Definition, Document, RunMaps, RunSeries, Section};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use thiserror::Error;

use crate::grid::Grid;
use crate::report::{self, Shown};
use crate::table::{Cell, Judgement};
use crate::{Table, dead, next, verdict};
pub use answers::{AnswerPart, BlocksOfOrder, Fitness, FreeBlocksOf, answers};
use causes::Bars;
use figure::Figure;
use memory::Memory;
use table::View;
use timeline::Charts;

/// The template and the files that are inserted unchanged.
const TEMPLATE: &str =
    concat!(include_str!("assets/macros.html"), include_str!("assets/report.html"));
const ANSWERS: &str =
    concat!(include_str!("assets/macros.html"), include_str!("assets/answers.html"));
const FRAGMENT: &str = include_str!("assets/fragment.html");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
const CHART_STYLE: &str = include_str!("assets/uplot/uPlot.min.css");
const CHART_SCRIPT: &str = include_str!("assets/uplot/uPlot.iife.min.js");

/// The data that lies beside a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Story<'a> {
    /// Counters over time; empty if there are none.
    pub series: &'a [RunSeries],
    /// Where the time of the slowest operations went.
    pub explanation: Option<&'a Explanation>,
    /// Memory maps; empty if there are none.
    pub maps: &'a [RunMaps],
    /// Ages of the pages on LRU lists.
    pub ages: &'a [RunSeries],
}

/// Reasons why no page could be made.
#[derive(Debug, Error)]
pub enum PageError {
    /// The document names something that was not published.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The template and its data do not fit: a defect of this crate.
    #[error("the page cannot be made: {0}")]
    Template(#[from] minijinja::Error),
}

/// The page of a document.
///
/// # Errors
/// If the document names a published table, histogram or figure that is not known.
pub fn page(document: &Document, story: Story<'_>) -> Result<String, PageError> {
    let verdicts = report::verdicts(document)?;
    render(&Page::of(document, &verdicts, Vec::new(), story)?)
}

/// The page of two documents side by side: `both` compares the runs that they have in common,
/// `differences` lists what else differs.
///
/// # Errors
/// The same as [`page`].
pub fn side_by_side(both: &Document, differences: &[Table]) -> Result<String, PageError> {
    let verdicts = report::verdicts(both)?;
    let differences = differences.iter().map(View::of).collect();
    render(&Page::of(both, &verdicts, differences, Story::default())?)
}

/// The page of a grid: how much each key matters, the means at each point, and heat maps of them.
///
/// # Errors
/// The same as [`page`].
pub fn grid(grid: &Grid<'_>) -> Result<String, PageError> {
    let Some(first) = grid.points.first() else { return Ok(String::new()) };
    // The tables of importance come first, the tables of single means last.
    let verdicts: Vec<Table> = grid.tables_of_means().into_iter().rev().collect();
    let mut page = Page::of(
        &Document { runs: Vec::new(), ..first.document.clone() },
        &[],
        Vec::new(),
        Story::default(),
    )?;
    page.dead = grid.ended_early().iter().map(View::of).collect();
    page.verdicts = verdicts.iter().map(View::of).collect();
    page.what = format!(
        "{}: {} of {}",
        first.document.workload.name,
        count(grid.points.len(), "point"),
        grid.keys.join(", ")
    );
    page.maps = heat::maps(grid);
    page.missing.clear();
    render(&page)
}

/// The page of several experiments: their summary, then each verdict.
///
/// # Errors
/// The same as [`page`].
pub fn several(documents: &[Document]) -> Result<String, PageError> {
    let Some(first) = documents.first() else { return Ok(String::new()) };
    let mut verdicts = vec![crate::summary::summary(documents)?];
    for document in documents {
        verdicts.extend(dead::table(document));
        verdicts.extend(report::verdicts(document)?);
    }
    let mut page = Page::of(
        &Document { runs: Vec::new(), ..first.clone() },
        &[],
        Vec::new(),
        Story::default(),
    )?;
    page.verdicts = verdicts.iter().map(View::of).collect();
    page.title = "What several studies add up to".to_owned();
    let names: Vec<&str> = documents.iter().map(|document| document.experiment.as_str()).collect();
    page.experiment = names.join(", ");
    page.what = format!("{} experiments; each one's directory has its own page", names.len());
    page.missing.clear();
    page.warnings.clear();
    page.definitions.clear();
    render(&page)
}

/// Tables for a cell of a notebook: a part of a page, with its style and without scripts. `folded` is
/// a text that unfolds below them, under its heading; empty: nothing does.
///
/// # Errors
/// Never for the program as released: a test renders one.
pub fn fragment(tables: &[Table], folded: (&str, &str)) -> Result<String, PageError> {
    #[derive(Serialize)]
    struct Fragment<'a> {
        views: Vec<View>,
        summary: &'a str,
        text: &'a str,
    }
    let views = tables.iter().map(View::of).collect();
    let (summary, text) = folded;
    let environment = environment()?;
    let template = environment.template_from_named_str("fragment.html", FRAGMENT)?;
    Ok(template.render(Value::from(Serde(Fragment { views, summary, text })))?)
}

/// All data of the template.
#[derive(Debug, Serialize)]
struct Page {
    title: String,
    experiment: String,
    version: String,
    /// Machines, policies and seeds in one line.
    what: String,
    /// Tasks that ended early.
    dead: Vec<View>,
    headlines: Vec<Headline>,
    verdicts: Vec<View>,
    differences: Vec<View>,
    warnings: Vec<String>,
    /// Heat maps of a grid.
    maps: Vec<Figure>,
    /// Headings of runs, in the order of their colours.
    policies: Vec<String>,
    machines: Vec<MachinePart>,
    /// Reasons why the page has no charts over time and no causes.
    missing: Vec<String>,
    command: String,
    definitions: Vec<Defined>,
    /// Letters used in memory maps.
    states: Vec<memory::State>,
}

/// A change in words: one row of the verdict's table.
#[derive(Debug, Serialize)]
struct Headline {
    text: String,
    /// `good`, `bad` or nothing.
    class: &'static str,
}

/// The data shown for a machine.
#[derive(Debug, Serialize)]
struct MachinePart {
    name: String,
    id: String,
    groups: Vec<Group>,
    hottest: Vec<Figure>,
    boxes: Option<Figure>,
    curves: Vec<Figure>,
    /// Histogram and distribution of each operation's latencies.
    latencies: Vec<Figure>,
    bars: Option<Bars>,
    icicles: Vec<Figure>,
    timeline: Vec<Charts>,
    /// The same for the script, as JSON.
    charts: String,
    memory: Vec<MemoryPart>,
    /// The same for the script, as JSON.
    maps: String,
}

/// The tables of a part's memory, for readers without the script.
#[derive(Debug, Serialize)]
struct MemoryPart {
    part: String,
    tables: Vec<View>,
}

/// Tables of one kind.
#[derive(Debug, Serialize)]
struct Group {
    title: &'static str,
    /// True if the tables are open at first; the others unfold.
    is_open: bool,
    tables: Vec<View>,
}

/// The definition of a machine, a policy or the workload, as text.
#[derive(Debug, Serialize)]
struct Defined {
    kind: &'static str,
    name: String,
    summary: String,
    text: String,
}

impl Page {
    fn of(
        document: &Document,
        verdicts: &[Table],
        differences: Vec<View>,
        story: Story<'_>,
    ) -> Result<Page, PageError> {
        let parts = report::parts(document, Shown::All)?;
        let mut policies: Vec<String> = Vec::new();
        for run in &document.runs {
            if !policies.contains(&run.label) {
                policies.push(run.label.clone());
            }
        }
        let explained = story.explanation.map_or(&[][..], |explanation| &explanation.runs);
        let machines = (0..).zip(document.by_machine()).map(|(at, (machine, runs))| {
            let of_machine = parts.iter().filter(|part| part.machine == machine);
            let metric = document.metrics.first();
            let explained: Vec<&ExplainedRun> =
                explained.iter().filter(|run| run.machine == machine).collect();
            let timeline = timeline::charts(machine, story.series);
            let memory =
                memory::parts(machine, story.maps, story.ages, document.by_machine().len());
            MachinePart {
                name: machine.to_owned(),
                id: format!("machine-{at}"),
                groups: groups(of_machine),
                hottest: hottest(document, machine, &runs),
                boxes: metric.and_then(|metric| distribution::boxes(metric, machine, &runs)),
                curves: metric
                    .map_or_else(Vec::new, |metric| distribution::curves(metric, machine, &runs)),
                latencies: latency::figures(machine, &runs),
                bars: causes::bars(machine, &explained),
                icicles: explained.iter().filter_map(|run| causes::icicle(run)).collect(),
                charts: json(&timeline),
                timeline,
                maps: json(&memory),
                memory: memory
                    .into_iter()
                    .map(|Memory { part, tables, .. }| MemoryPart { part, tables })
                    .collect(),
            }
        });
        let machines: Vec<MachinePart> = machines.collect();
        let mut missing = Vec::new();
        if machines.iter().all(|machine| machine.timeline.is_empty()) && differences.is_empty() {
            missing.push(
                "No counters over time lie beside these results: `compare --out DIR` and `run --out DIR` keep them for \
                 what runs in virtual time."
                    .to_owned(),
            );
        }
        if story.explanation.is_none() && differences.is_empty() {
            missing.push(format!(
                "No causes of slow operations lie beside these results: `{}` finds them.",
                next::explain(document)
            ));
        }
        Ok(Page {
            title: match document.title.as_str() {
                "" => document.experiment.clone(),
                title => title.to_owned(),
            },
            experiment: document.experiment.clone(),
            version: document.version.clone(),
            what: what(document),
            dead: dead::table(document).iter().map(View::of).collect(),
            headlines: match verdicts.first() {
                Some(verdict) => headlines(verdict, verdict::published(document)?),
                None => Vec::new(),
            },
            verdicts: verdicts.iter().map(View::of).collect(),
            differences,
            warnings: warnings::of(document),
            maps: Vec::new(),
            policies,
            machines,
            missing,
            command: document.command_line.join(" "),
            definitions: definitions(document),
            states: memory::states().to_vec(),
        })
    }
}

/// The verdict's rows as sentences, with the published figures.
fn headlines(verdict: &Table, published: Vec<String>) -> Vec<Headline> {
    let rows = verdict.rows.iter().map(|row| {
        let cell = |at: usize| row.cells.get(at).and_then(Cell::known_text);
        let shown = |at: usize| cell(at).unwrap_or_else(|| "-".to_owned());
        let label = |at: usize| row.labels.get(at).map_or("", String::as_str);
        let interval = cell(2).map(|interval| format!(", 95 % interval {interval}"));
        let (metric, machine, run) = (label(0), label(1), label(2));
        let (what, change) = (shown(0), shown(1));
        let interval = interval.unwrap_or_default();
        let text = format!("{run} on {machine}, {metric}: {what} {change}{interval}");
        Headline { text, class: class(row.judged) }
    });
    rows.chain(published.into_iter().map(|text| Headline { text, class: "" })).collect()
}

/// The colour of a judgement, as the style sheet names it.
const fn class(judged: Option<Judgement>) -> &'static str {
    match judged {
        Some(Judgement::Better) => "good",
        Some(Judgement::Worse) => "bad",
        Some(Judgement::More | Judgement::Less | Judgement::Same) | None => "",
    }
}

/// Bars of the histograms that sections show as most used.
fn hottest(document: &Document, machine: &str, runs: &[&highwater_results::Run]) -> Vec<Figure> {
    let names = document.sections.iter().filter_map(|section| match section {
        Section::Hottest { histogram } => Some(histogram),
        _ => None,
    });
    names.filter_map(|name| distribution::hottest(name, machine, runs)).collect()
}

/// The experiment in one line.
fn what(document: &Document) -> String {
    let count = |n: usize, one: &str, more: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {more}"),
    };
    let time = if document.host == "native" { "on this computer" } else { "in virtual time" };
    format!(
        "{}: {}, {}, {}, {time}",
        document.workload.name,
        count(document.by_machine().len(), "machine", "machines"),
        count(document.policies.len(), "policy", "policies"),
        count(document.iterations as usize, "seed", "seeds"),
    )
}

/// Tables grouped by purpose, in reading order.
fn groups<'a>(parts: impl Iterator<Item = &'a report::Part>) -> Vec<Group> {
    let mut groups = [
        ("What was published, and what came out", true),
        ("Measured", true),
        ("How sure it is, seed by seed", false),
        ("Counters, delays and times", false),
    ]
    .map(|(title, is_open)| Group { title, is_open, tables: Vec::new() });
    for part in parts {
        let at = match part.section {
            Section::Headline { .. } | Section::Published { .. } | Section::Claims => 0,
            Section::Comparison { .. } | Section::Hottest { .. } | Section::Latencies => 1,
            Section::Evidence { .. }
            | Section::Seeds { .. }
            | Section::Largest { .. }
            | Section::Totals => 2,
            Section::Duration
            | Section::Vmstat
            | Section::VmstatBrief
            | Section::Stalls
            | Section::Histograms
            | Section::TraceTimes
            | Section::Orders { .. } => 3,
        };
        let views: Vec<View> = part.tables.iter().map(View::of).collect();
        match part.section {
            // The study's main figures come first.
            Section::Headline { .. } => drop(groups[at].tables.splice(0..0, views)),
            _ => groups[at].tables.extend(views),
        }
    }
    groups.into_iter().filter(|group| !group.tables.is_empty()).collect()
}

fn definitions(document: &Document) -> Vec<Defined> {
    let defined = |kind, of: &Definition| Defined {
        kind,
        name: of.name.clone(),
        summary: of.summary.clone(),
        text: of.definition.clone(),
    };
    let machines = document.machines.iter().map(|machine| defined("machine", machine));
    let policies = document.policies.iter().map(|policy| defined("policy", policy));
    std::iter::once(defined("workload", &document.workload))
        .chain(machines)
        .chain(policies)
        .collect()
}

/// JSON for the script. No text in it can end the enclosing element.
fn json(value: &impl Serialize) -> String {
    // Plain data always has a form in JSON.
    serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c")
}

fn render(page: &Page) -> Result<String, PageError> {
    let mut environment = environment()?;
    environment.add_global("style", STYLE);
    environment.add_global("script", SCRIPT);
    environment.add_global("chart_style", CHART_STYLE);
    environment.add_global("chart_script", CHART_SCRIPT);
    let template = environment.template_from_named_str("report.html", TEMPLATE)?;
    Ok(template.render(Value::from(Serde(page)))?)
}

fn environment() -> Result<Environment<'static>, PageError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    Ok(environment)
}
