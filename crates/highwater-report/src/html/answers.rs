//! The page of `diagnose`: reports of a kernel with their answers, and the free lists of each zone
//! as bars.

use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::figure::Figure;
use super::svg::{Axis, Svg};
use super::table::View;
use super::{ANSWERS, PageError, SCRIPT, STYLE, environment};
use crate::table::{Cell, Layout, Table};

/// A report and its answer.
#[derive(Clone, Debug, Default)]
pub struct AnswerPart {
    /// Heading.
    pub heading: String,
    /// The answer, the reason first.
    pub sentences: Vec<String>,
    /// Advice to an operator.
    pub to_do: Vec<String>,
    /// The report in one line.
    pub about: String,
    /// Tables, in order.
    pub tables: Vec<Table>,
    /// Heading of the trials.
    pub asked: &'static str,
    /// Trials: `yes`, `no` or `?`, and the trial.
    pub tried: Vec<(&'static str, String)>,
    /// Free lists, a figure for each zone.
    pub lists: Vec<FreeBlocksOf>,
    /// Facts that the text lacks.
    pub notes: Vec<String>,
}

/// The free blocks of a zone.
#[derive(Clone, Debug)]
pub struct FreeBlocksOf {
    /// Zone.
    pub zone: String,
    /// By order, ascending.
    pub orders: Vec<BlocksOfOrder>,
}

/// The free blocks of an order.
#[derive(Clone, Debug)]
pub struct BlocksOfOrder {
    /// Order.
    pub order: u32,
    /// Size of a block, kB.
    pub kb: u64,
    /// Number of blocks.
    pub count: u64,
    /// Letters of their types, if printed.
    pub types: String,
    /// Their use to the request.
    pub fitness: Fitness,
}

/// The use of free blocks to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// Smaller than the request.
    TooSmall,
    /// Large enough, and of a type that it may have.
    Fits,
    /// Large enough, and kept for others.
    Kept,
    /// The request is not known, or may not use the zone.
    Unknown,
}

impl Fitness {
    /// Class of the colour, and words.
    const fn look(self) -> (usize, &'static str) {
        match self {
            Fitness::TooSmall => (1, "too small"),
            Fitness::Fits => (4, "large enough"),
            Fitness::Kept => (0, "large enough, but kept for other requests"),
            Fitness::Unknown => (2, "not for this request, or request not known"),
        }
    }
}

const ALL: [Fitness; 4] = [Fitness::Fits, Fitness::TooSmall, Fitness::Kept, Fitness::Unknown];
const SIZE: (f64, f64) = (330.0, 206.0);
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 150.0;

/// A report as the template takes it.
#[derive(Serialize)]
struct Shown<'a> {
    heading: &'a str,
    sentences: &'a [String],
    to_do: &'a [String],
    about: &'a str,
    tables: Vec<View>,
    asked: &'a str,
    tried: &'a [(&'static str, String)],
    lists: Vec<Figure>,
    notes: &'a [String],
}

impl<'a> Shown<'a> {
    fn of(part: &'a AnswerPart) -> Shown<'a> {
        Shown {
            heading: &part.heading,
            sentences: &part.sentences,
            to_do: &part.to_do,
            about: &part.about,
            tables: part.tables.iter().map(View::of).collect(),
            asked: part.asked,
            tried: &part.tried,
            lists: part.lists.iter().map(figure).collect(),
            notes: &part.notes,
        }
    }
}

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    version: &'a str,
    lines: &'a [String],
    parts: Vec<Shown<'a>>,
    colours: Vec<(usize, &'static str)>,
}

/// The page. `lines` stand below its title.
///
/// # Errors
/// Never for the program as released: a test renders one.
pub fn answers(title: &str, lines: &[String], parts: &[AnswerPart]) -> Result<String, PageError> {
    let page = Page {
        title,
        version: env!("CARGO_PKG_VERSION"),
        lines,
        parts: parts.iter().map(Shown::of).collect(),
        colours: ALL.map(Fitness::look).to_vec(),
    };
    let mut environment = environment()?;
    environment.add_global("style", STYLE);
    environment.add_global("script", SCRIPT);
    let template = environment.template_from_named_str("answers.html", ANSWERS)?;
    Ok(template.render(Value::from(Serde(page)))?)
}

/// Bars: free memory in the blocks of each order.
fn figure(list: &FreeBlocksOf) -> Figure {
    let title = format!("{}: free memory by order, MiB", list.zone);
    let mib = |of: &BlocksOfOrder| of.kb as f64 * of.count as f64 / 1024.0;
    let mut svg = Svg::new(SIZE.0 as u32, SIZE.1 as u32, &title);
    let most = list.orders.iter().map(mib).fold(0.0, f64::max).max(0.001);
    let up = Axis::of([0.0, most].into_iter(), [BOTTOM, 16.0]);
    svg.up(&up, LEFT, SIZE.0 - 4.0, false);
    let step = (SIZE.0 - LEFT - 8.0) / list.orders.len().max(1) as f64;
    let heads = ["block, kB", "blocks", "MiB", "types", "for the request"].map(str::to_owned);
    let mut table = Table::new(&title, &["order"], heads.to_vec(), Layout::Fitted);
    for (at, of) in list.orders.iter().enumerate() {
        let x = LEFT + 4.0 + step * at as f64;
        let (class, words) = of.fitness.look();
        let top = up.at(mib(of));
        let tip = format!("order {}: {} blocks of {} kB, {words}", of.order, of.count, of.kb);
        if of.count > 0 {
            svg.rect(&format!("heat h{class}"), (x, top), (step * 0.8, BOTTOM - top), &tip);
        }
        let middle = x + step * 0.4;
        svg.words((middle, BOTTOM + 14.0), "middle", &of.order.to_string());
        // Letters of neighbours would run together on one line.
        let below = if at % 2 == 0 { 27.0 } else { 39.0 };
        svg.words((middle, BOTTOM + below), "middle", &of.types);
        let types = if of.types.is_empty() { Cell::Missing } else { Cell::text(&of.types) };
        table.push(
            &[&of.order.to_string()],
            vec![
                Cell::number(of.kb as f64, 0),
                Cell::number(of.count as f64, 0),
                Cell::number(mib(of), 2),
                types,
                Cell::text(words),
            ],
        );
    }
    svg.words((SIZE.0 - 4.0, SIZE.1 - 2.0), "end", "order and types");
    Figure::drawn(&title, svg.finish(), &table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_answer_tables_and_bars() {
        let block = |order, count, fitness| BlocksOfOrder {
            order,
            kb: 4 << order,
            count,
            types: "UM".to_owned(),
            fitness,
        };
        let part = AnswerPart {
            heading: "Report of a <task>".to_owned(),
            sentences: vec!["Memory is short.".to_owned()],
            to_do: vec!["Add swap.".to_owned()],
            about: "order 1".to_owned(),
            tables: vec![Table::new("Zones", &["zone"], Vec::new(), Layout::Fitted)],
            asked: "Would this have helped?",
            tried: vec![("no", "waiting".to_owned())],
            lists: vec![FreeBlocksOf {
                zone: "Normal".to_owned(),
                orders: vec![block(0, 300, Fitness::TooSmall), block(1, 0, Fitness::Fits)],
            }],
            notes: vec!["no swap lines".to_owned()],
        };
        let html = answers("Why?", &["log.txt".to_owned()], &[part]).unwrap();
        assert!(html.contains("<!doctype html>"));
        for words in [
            "Report of a &lt;task&gt;",
            "Memory is short.",
            "<li>Add swap.</li>",
            "Would this have helped?",
            "300 blocks of 4 kB, too small",
            "no swap lines",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert_eq!(html.matches("<rect class=\"heat h1\"").count(), 2, "the legend and one bar");
    }
}
