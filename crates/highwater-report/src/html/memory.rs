//! Memory maps over time, and the ages of pages on LRU lists: data for the page's script, and
//! tables of their figures.

use std::collections::BTreeMap;

use highwater_results::column::Owner;
use highwater_results::pageblocks::{BLOCK_STATES, PAGEBLOCK_PAGES, shortened};
use highwater_results::{RunMaps, RunSeries};
use serde::Serialize;

use super::distribution::POLICIES_MAX;
use super::table::View;
use crate::table::{Cell, Layout, Table};

const MIB_PAGES: f64 = 256.0;
/// Number of moments in a table; of more, every n-th is taken.
const TABLE_ROWS: usize = 8;
/// Largest total size of the maps on a page. Above it, every other moment is dropped until they
/// fit.
const BYTES_MAX: usize = 600 << 10;

/// One part of the runs on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Memory {
    /// Name of the part; empty if there is only one.
    pub(super) part: String,
    maps: Vec<Map>,
    /// Lists of pages, each with a chart for each policy.
    lists: Vec<List>,
    /// Not passed to the script.
    #[serde(skip)]
    pub(super) tables: Vec<View>,
}

/// Maps of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Map {
    label: String,
    zones: Vec<Zone>,
    /// Seconds since boot, and the cells of each zone.
    moments: Vec<(f64, Vec<String>)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Zone {
    name: String,
    first: u32,
    /// Pageblocks per cell, and frames.
    per: u32,
    pages: u32,
}

/// A list of pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct List {
    title: String,
    runs: Vec<AgedList>,
}

/// A list of pages under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct AgedList {
    label: String,
    /// The age range of each row of values.
    ages: Vec<String>,
    t: Vec<f64>,
    /// MiB of each age range, oldest last.
    v: Vec<Vec<f64>>,
}

/// A cell state, for the legend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct State {
    letter: char,
    name: &'static str,
}

/// The legend of maps.
pub(super) fn states() -> [State; BLOCK_STATES.len()] {
    BLOCK_STATES.map(|(letter, name)| State { letter, name })
}

/// All parts of a machine, in the order of its runs. `share` is the part of a page's map budget
/// that this machine may use.
pub(super) fn parts(
    machine: &str,
    maps: &[RunMaps],
    ages: &[RunSeries],
    share: usize,
) -> Vec<Memory> {
    let mut parts: Vec<Memory> = Vec::new();
    let mut runs: Vec<Vec<&RunMaps>> = Vec::new();
    for run in maps.iter().filter(|run| run.machine == machine) {
        let at = parts.iter().position(|known| known.part == run.maps.part).unwrap_or_else(|| {
            parts.push(Memory { part: run.maps.part.clone(), ..Memory::default() });
            runs.push(Vec::new());
            parts.len() - 1
        });
        if runs[at].len() < POLICIES_MAX {
            runs[at].push(run);
        }
    }
    let mut every = 1;
    loop {
        for (part, runs) in parts.iter_mut().zip(&runs) {
            part.maps = runs.iter().map(|run| map(run, every)).collect();
        }
        let weigh = |map: &Map| -> usize {
            map.moments.iter().flat_map(|(_, cells)| cells).map(|cells| cells.len() + 3).sum()
        };
        let bytes: usize = parts.iter().flat_map(|part| &part.maps).map(weigh).sum();
        if bytes <= BYTES_MAX / share.max(1) || every >= 64 {
            break;
        }
        every *= 2;
    }
    let is_alone = parts.len() == 1;
    for (part, runs) in parts.iter_mut().zip(&runs) {
        let of_part: Vec<&RunSeries> = ages
            .iter()
            .filter(|run| run.machine == machine && run.series.part == part.part)
            .take(POLICIES_MAX)
            .collect();
        part.lists = lists(&of_part);
        if is_alone {
            part.part.clear();
        }
        part.tables = vec![map_table(part, runs), ages_table(part)];
        part.tables.retain(|table| !table.is_empty());
    }
    parts
}

fn map(run: &RunMaps, every: usize) -> Map {
    let zones = run.maps.zones.iter().map(|zone| Zone {
        name: zone.name.clone(),
        first: zone.first_pfn,
        per: zone.blocks_per_cell,
        pages: zone.blocks_per_cell.saturating_mul(PAGEBLOCK_PAGES),
    });
    let moments = run.maps.moments.iter().step_by(every).map(|(at_ns, cells)| {
        (seconds(*at_ns), cells.iter().map(|cells| shortened(cells)).collect())
    });
    Map { label: run.label.clone(), zones: zones.collect(), moments: moments.collect() }
}

fn seconds(at_ns: u64) -> f64 {
    (at_ns as f64 / 1e6).round() / 1e3
}

/// Number of cells in each state at some moments.
fn map_table(part: &Memory, runs: &[&RunMaps]) -> View {
    let heads = BLOCK_STATES.map(|(_, name)| name.to_owned()).to_vec();
    let title = format!("Pageblocks by what is in them{}", of(&part.part));
    let mut table = Table::new(&title, &["policy", "seconds", "zone"], heads, Layout::Fitted);
    for run in runs {
        let moments = &run.maps.moments;
        for (at_ns, cells) in moments.iter().step_by(moments.len().div_ceil(TABLE_ROWS).max(1)) {
            for (zone, cells) in run.maps.zones.iter().zip(cells) {
                let count = |(letter, _)| {
                    let cells = cells.chars().filter(|cell| *cell == letter).count();
                    Cell::number((cells * zone.blocks_per_cell as usize) as f64, 0)
                };
                let labels = [&*run.label, &format!("{:.3}", seconds(*at_ns)), &*zone.name];
                table.push(&labels, BLOCK_STATES.map(count).to_vec());
            }
        }
    }
    View::of(&table)
}

fn ages_table(part: &Memory) -> View {
    let title = format!("Pages on LRU lists by age{}, MiB", of(&part.part));
    let mut heads: Vec<String> = Vec::new();
    for run in part.lists.iter().flat_map(|list| &list.runs) {
        for age in &run.ages {
            if !heads.contains(age) {
                heads.push(age.clone());
            }
        }
    }
    let mut table =
        Table::new(&title, &["list", "policy", "seconds"], heads.clone(), Layout::Fitted);
    for list in &part.lists {
        for run in &list.runs {
            for at in (0..run.t.len()).step_by(run.t.len().div_ceil(TABLE_ROWS).max(1)) {
                let value = |head: &String| {
                    let age = run.ages.iter().position(|age| age == head);
                    age.map_or(Cell::Missing, |age| Cell::number(run.v[age][at], 1))
                };
                let labels = [&*list.title, &run.label, &format!("{:.3}", run.t[at])];
                table.push(&labels, heads.iter().map(value).collect());
            }
        }
    }
    View::of(&table)
}

fn of(part: &str) -> String {
    if part.is_empty() { String::new() } else { format!(", {part}") }
}

/// The lists on which some run has pages; nodes are summed.
fn lists(runs: &[&RunSeries]) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    for run in runs {
        // For each list: its columns, keyed by the start of their age range.
        let mut columns: BTreeMap<&str, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
        for (at, column) in run.series.columns.iter().enumerate() {
            let Owner::List { list, from_ms, .. } = &column.of else { continue };
            columns.entry(list).or_default().entry(*from_ms).or_default().push(at);
        }
        for (list, ages) in columns {
            let bounds: Vec<u64> = ages.keys().copied().collect();
            // A short run has no pages of the oldest ranges, so these are left out.
            let is_there = |columns: &Vec<usize>| {
                run.series.rows().any(|(_, row)| columns.iter().any(|&at| row[at] > 0))
            };
            let there = ages.values().collect::<Vec<_>>();
            let there = there.iter().rposition(|age| is_there(age)).map_or(0, |last| last + 1);
            let t = run.series.rows().map(|(at_ns, _)| seconds(at_ns)).collect();
            let of_age = |columns: &Vec<usize>| -> Vec<f64> {
                let pages = |row: &[u64]| columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
                run.series
                    .rows()
                    .map(|(_, row)| (pages(row) / MIB_PAGES * 100.0).round() / 100.0)
                    .collect()
            };
            let aged = AgedList {
                label: run.label.clone(),
                ages: (0..there).map(|at| age_name(&bounds, at)).collect(),
                t,
                v: ages.values().take(there).map(of_age).collect(),
            };
            let title = list_title(list);
            match lists.iter_mut().find(|known| known.title == title) {
                Some(known) => known.runs.push(aged),
                None => lists.push(List { title, runs: vec![aged] }),
            }
        }
    }
    lists
}

/// A list's name in words, for example of `inactive_anon`.
fn list_title(name: &str) -> String {
    let (first, rest) = name.split_at(1.min(name.len()));
    let words = rest.replace("_anon", ", anonymous").replace("_file", ", of files");
    format!("{}{words}", first.to_ascii_uppercase())
}

fn age_name(bounds: &[u64], at: usize) -> String {
    let said = |ms: u64| match ms as f64 / 1000.0 {
        ..1.0 => format!("{ms} ms"),
        seconds @ ..10.0 => format!("{seconds:.1} s"),
        seconds => format!("{seconds:.0} s"),
    };
    match (bounds[at], bounds.get(at + 1)) {
        (0, Some(&to)) => format!("up to {}", said(to)),
        (from, Some(&to)) => format!("{} to {}", said(from), said(to)),
        (from, None) => format!("{} and older", said(from)),
    }
}

#[cfg(test)]
mod tests {
    use highwater_results::pageblocks::{BlockMaps, MappedZone};
    use highwater_results::{Column, Series};

    use super::*;

    fn run(label: &str, cells: &str, nr_moments: u64) -> RunMaps {
        let zone = MappedZone { name: "node0/Normal".into(), first_pfn: 512, blocks_per_cell: 2 };
        let moments = (0..nr_moments).map(|at| (at * 16_000_000, vec![cells.to_owned()]));
        let maps =
            BlockMaps { part: "mmap-4".into(), zones: vec![zone], moments: moments.collect() };
        RunMaps { machine: "m".into(), policy: label.into(), label: label.into(), seed: 1, maps }
    }

    fn ages(label: &str) -> RunSeries {
        let column = |node, from_ms| Column::aged(node, "active_file", from_ms);
        let mut series = Series::new(vec![column(0, 0), column(0, 2048), column(1, 0)]);
        series.part = "mmap-4".into();
        series.push(16_000_000, [256, 512, 256]);
        RunSeries {
            machine: "m".into(),
            policy: label.into(),
            label: label.into(),
            seed: 1,
            series,
        }
    }

    #[test]
    fn policies_stand_side_by_side_with_their_figures() {
        let maps = [run("a", "fMMx", 3), run("b", "ffff", 2)];
        let parts = parts("m", &maps, &[ages("a"), ages("b")], 1);
        assert_eq!((parts.len(), parts[0].maps.len(), parts[0].tables.len()), (1, 2, 2));
        assert_eq!(parts[0].maps[0].moments[1], (0.016, vec!["fM2x".to_owned()]));
        let list = &parts[0].lists[0];
        assert_eq!((&*list.title, list.runs.len()), ("Active, of files", 2));
        assert_eq!(list.runs[0].ages, ["up to 2.0 s", "2.0 s and older"]);
        assert_eq!(list.runs[0].v, [[2.0], [2.0]]);
        let table = serde_json::to_string(&parts[0].tables).unwrap();
        // A cell stands for two pageblocks.
        assert!(table.contains("\"4\"") && table.contains("2.0 s and older"), "{table}");
        assert_eq!(super::parts("other", &maps, &[], 1), Vec::new());
    }

    #[test]
    fn maps_that_weigh_too_much_have_fewer_moments() {
        let cells = "fM".repeat(4096);
        let parts = parts("m", &[run("a", &cells, 32), run("b", &cells, 32)], &[], 2);
        assert_eq!(parts[0].maps[0].moments.len(), 16);
        assert_eq!(parts[0].tables.len(), 1);
    }
}
