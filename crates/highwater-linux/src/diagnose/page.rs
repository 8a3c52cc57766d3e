//! The answers as one HTML page.

use highwater_report::html::{self, AnswerPart, BlocksOfOrder, Fitness, FreeBlocksOf, PageError};
use highwater_report::{Cell, Layout, Table};
use highwater_results::import::log::{FreeBlocks, Log};

use super::text::{asked, headline, helps, relations, request, zones};
use super::zone::ZoneRow;
use super::{Answer, Holder};

/// Most zones with a figure.
const FIGURES_MAX: usize = 12;

/// The page of a log. `name` is the text's.
///
/// # Errors
/// Never for the program as released.
pub fn page(
    name: &str,
    log: &Log,
    answers: &[Answer<'_>],
    only: Option<usize>,
) -> Result<String, PageError> {
    let nr = answers.len();
    let numbered = answers.iter().enumerate().map(|(at, answer)| (at + 1, answer));
    let chosen = numbered.filter(|(number, _)| only.is_none_or(|only| only == *number));
    let parts: Vec<AnswerPart> = chosen.map(|(number, answer)| part(answer, number, nr)).collect();
    let mut lines = vec![format!("{name}, {} lines", log.lines)];
    lines.extend(relations(log).into_iter().filter(|_| only.is_none()));
    html::answers("Why did the kernel refuse?", &lines, &parts)
}

fn part(answer: &Answer<'_>, number: usize, nr: usize) -> AnswerPart {
    let tables = [
        zones(answer),
        holders("What holds the memory", &answer.holders, answer.memory_kb),
        holders("The largest tasks", &answer.tasks, answer.memory_kb),
    ];
    AnswerPart {
        heading: if nr > 1 { format!("Report {number} of {nr}") } else { "The answer".to_owned() },
        sentences: headline(answer),
        to_do: answer.to_do.clone(),
        about: request(answer),
        tables: tables.into_iter().flatten().collect(),
        asked: asked(answer),
        tried: answer
            .remedies
            .iter()
            .map(|remedy| (helps(remedy).trim(), format!("{}: {}", remedy.change, remedy.result)))
            .collect(),
        lists: answer.rows.iter().filter_map(|row| list(answer, row)).take(FIGURES_MAX).collect(),
        notes: answer.unknown.clone(),
    }
}

fn holders(title: &str, holders: &[Holder], all: Option<u64>) -> Option<Table> {
    let has_swap = holders.iter().any(|holder| holder.swap_kb.is_some());
    let mut columns = vec!["MiB".to_owned(), "of all, %".to_owned()];
    columns.extend(has_swap.then(|| "in swap, MiB".to_owned()));
    let mut table = Table::new(title, &["holder"], columns, Layout::Fitted);
    for holder in holders {
        let share = all
            .filter(|kb| *kb > 0)
            .map_or(Cell::Missing, |all| Cell::number(holder.kb as f64 * 100.0 / all as f64, 1));
        let mib = |kb: u64| Cell::number(kb as f64 / 1024.0, 1);
        let mut cells = vec![mib(holder.kb), share];
        cells.extend(has_swap.then(|| holder.swap_kb.map_or(Cell::Missing, mib)));
        table.push(&[&holder.what], cells);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn list(answer: &Answer<'_>, row: &ZoneRow<'_>) -> Option<FreeBlocksOf> {
    let list = row.zone.list.as_ref().filter(|list| !list.blocks.is_empty())?;
    let wanted = answer.judge.rights.filter(|_| row.allowed == Some(true));
    let fitness = |block: &FreeBlocks| match wanted {
        None => Fitness::Unknown,
        Some(rights) if block.order < u32::from(rights.order) => Fitness::TooSmall,
        Some(_)
            if !block.types.is_empty()
                && block.types.chars().all(|letter| row.kept_types.contains(letter)) =>
        {
            Fitness::Kept
        }
        Some(_) => Fitness::Fits,
    };
    let orders = list.blocks.iter().map(|block| BlocksOfOrder {
        order: block.order,
        kb: block.kb,
        count: block.count,
        types: block.types.clone(),
        fitness: fitness(block),
    });
    Some(FreeBlocksOf { zone: row.name(), orders: orders.collect() })
}
