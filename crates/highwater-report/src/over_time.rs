//! Counters over virtual time: which of them appear in a page's charts and, small, in the terminal.
//!
//! Counters that only grow are shown as rates, gauges as they are.

use std::borrow::Cow;

use highwater_results::{RunSeries, Series};

use crate::table::{Cell, Layout, Table};

const MIB_PAGES: f64 = 256.0;
/// Largest number of points in a line; beyond this, only every n-th is kept.
pub(crate) const POINTS_MAX: usize = 240;

/// A charted counter, or the sum of several.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) title: Cow<'static, str>,
    pub(crate) unit: &'static str,
    kind: Kind,
    /// Names of columns.
    of: Cow<'static, [Cow<'static, str>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Pages, shown in MiB.
    Level,
    /// Events, shown as thousands per second.
    Rate,
    /// Microseconds, shown as percent of elapsed time.
    Share,
    /// Percent of free memory in blocks too small for a huge page.
    Unusable,
    /// Free memory in blocks of these orders, shown in MiB.
    Blocks(u32, u32),
}

/// A line whose columns and names are known here.
const fn fixed(
    title: &'static str,
    unit: &'static str,
    kind: Kind,
    of: &'static [Cow<'static, str>],
) -> Line {
    Line { title: Cow::Borrowed(title), unit, kind, of: Cow::Borrowed(of) }
}

/// Names of columns.
macro_rules! of {
    ($($name:literal),*) => { &[$(Cow::Borrowed($name)),*] };
}

const MIB: &str = "MiB";
const K_PAGES: &str = "thousand pages/s";

const LINES: [Line; 20] = [
    fixed("Free memory", MIB, Kind::Level, of!["nr_free_pages"]),
    fixed(
        "Time in which some tasks wait for memory",
        "%",
        Kind::Share,
        of!["pressure/memory/some"],
    ),
    fixed("Time in which all tasks wait for memory", "%", Kind::Share, of!["pressure/memory/full"]),
    fixed("Time in which some tasks wait for a device", "%", Kind::Share, of!["pressure/io/some"]),
    fixed("Scanned by kswapd", K_PAGES, Kind::Rate, of!["pgscan_kswapd"]),
    fixed("Scanned by direct reclaim", K_PAGES, Kind::Rate, of!["pgscan_direct"]),
    fixed("Reclaimed", K_PAGES, Kind::Rate, of!["pgsteal_kswapd", "pgsteal_direct"]),
    fixed("Dirty pages of files", MIB, Kind::Level, of!["nr_dirty"]),
    fixed("Under writeback", MIB, Kind::Level, of!["nr_writeback"]),
    fixed("Inactive, of files", MIB, Kind::Level, of!["nr_inactive_file"]),
    fixed("Active, of files", MIB, Kind::Level, of!["nr_active_file"]),
    fixed("Inactive, anonymous", MIB, Kind::Level, of!["nr_inactive_anon"]),
    fixed("Active, anonymous", MIB, Kind::Level, of!["nr_active_anon"]),
    fixed("Swapped in and out", K_PAGES, Kind::Rate, of!["pswpin", "pswpout"]),
    fixed(
        "Refaults",
        K_PAGES,
        Kind::Rate,
        of!["workingset_refault_anon", "workingset_refault_file"],
    ),
    fixed(
        "Scanned by compaction",
        K_PAGES,
        Kind::Rate,
        of!["compact_migrate_scanned", "compact_free_scanned"],
    ),
    fixed("Free in blocks of order 0 to 2", MIB, Kind::Blocks(0, 2), &[]),
    fixed("Free in blocks of order 3 to 8", MIB, Kind::Blocks(3, 8), &[]),
    fixed("Free in blocks of order 9 and more", MIB, Kind::Blocks(9, u32::MAX), &[]),
    fixed("Free memory in blocks below a huge page", "%", Kind::Unusable, &[]),
];

/// The lines shown for some series: the same ones for all machines, and the memory of each task of
/// a job.
pub(crate) fn lines<'a>(all: impl Iterator<Item = &'a Series>) -> Vec<Line> {
    let mut lines = LINES.to_vec();
    let mut tasks: Vec<&str> = Vec::new();
    for column in all.flat_map(|series| &series.columns) {
        let task = column.strip_prefix("task/").and_then(|rest| rest.strip_suffix("/anon"));
        if let Some(task) = task.filter(|task| !tasks.contains(task)) {
            tasks.push(task);
        }
    }
    for task in tasks {
        let column = |part: &str| Cow::Owned(format!("task/{task}/{part}"));
        let mut push = |title: String, of: Vec<Cow<'static, str>>| {
            lines.push(Line { title: title.into(), unit: MIB, kind: Kind::Level, of: of.into() });
        };
        push(format!("{task}: resident memory"), vec![column("anon"), column("file")]);
        push(format!("{task}: swapped memory"), vec![column("swap")]);
    }
    lines
}

/// Order of a huge page.
const HUGE_ORDER: u32 = 9;

impl Line {
    /// True for the line that watermarks are drawn beside.
    pub(crate) fn is_free_memory(&self) -> bool {
        *self.of == ["nr_free_pages"]
    }
}

/// Steps of a bar in a small chart.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of a small chart in characters.
const BARS_WIDE: usize = 28;

/// A table for each machine: one small chart per counter and policy, from the last step of the
/// first seed.
pub fn sparklines(all: &[RunSeries]) -> Vec<Table> {
    let mut machines: Vec<&str> = Vec::new();
    for run in all {
        if !machines.contains(&run.machine.as_str()) {
            machines.push(&run.machine);
        }
    }
    machines.iter().filter_map(|machine| of_machine(machine, all)).collect()
}

fn of_machine(machine: &str, all: &[RunSeries]) -> Option<Table> {
    let runs: Vec<&RunSeries> = all.iter().filter(|run| run.machine == machine).collect();
    let seed = runs.first()?.seed;
    let part = &runs.iter().rfind(|run| run.seed == seed)?.series.part;
    let runs: Vec<&&RunSeries> =
        runs.iter().filter(|run| run.seed == seed && run.series.part == *part).collect();
    let longest = runs.iter().filter_map(|run| run.series.rows().last()).map(|(at, _)| at).max()?;
    let drawn = |line: &Line| -> Vec<(&str, Vec<f64>, Vec<f64>)> {
        let drawn = runs.iter().filter_map(|run| {
            let (t, v) = points(line, &run.series, usize::MAX)?;
            Some((&*run.label, t, v))
        });
        drawn.collect()
    };
    let place = if part.is_empty() { machine.to_owned() } else { format!("{machine}, {part}") };
    let heads = ["over time", "smallest", "largest"].map(str::to_owned).to_vec();
    let mut table =
        Table::new(format!("Over time on {place}"), &["", "run"], heads, Layout::Fitted);
    for line in &lines(runs.iter().map(|run| &run.series)) {
        let drawn = drawn(line);
        let largest = drawn.iter().flat_map(|(_, _, v)| v).copied().fold(0.0, f64::max);
        if largest == 0.0 {
            continue;
        }
        for (label, times, values) in drawn {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            let cells =
                [bars(&times, &values, longest as f64 / 1e6, largest), number(low), number(high)]
                    .map(Cell::text)
                    .to_vec();
            let unit = line.unit.replace("thousand pages", "k");
            table.push(&[&format!("{}, {unit}", line.title), label], cells);
        }
    }
    table.notes.push(format!(
        "seed {seed}, from boot to {:.3} s; a bar is the largest of its time, as high as the row's counter is at \
         its largest under any of the runs; report -o FILE.html draws all steps",
        longest as f64 / 1e9
    ));
    (!table.rows.is_empty()).then_some(table)
}

/// One bar for each span of time up to the end of the longest run, blank after a run's end. A span
/// without a point repeats the last value.
fn bars(times: &[f64], values: &[f64], end_ms: f64, largest: f64) -> String {
    let own_end_ms = times.last().copied().unwrap_or(0.0);
    let (mut next, mut last) = (0, 0.0);
    let bar = |at: usize| {
        let from_ms = end_ms * at as f64 / BARS_WIDE as f64;
        let to_ms = end_ms * (at + 1) as f64 / BARS_WIDE as f64;
        let is_last = at + 1 == BARS_WIDE;
        let mut high: Option<f64> = None;
        while next < times.len() && (times[next] < to_ms || is_last) {
            last = values[next];
            high = Some(high.map_or(last, |high| high.max(last)));
            next += 1;
        }
        let value = match high {
            Some(high) => high,
            None if from_ms <= own_end_ms => last,
            None => 0.0,
        };
        let step = (value / largest * BARS.len() as f64).ceil() as usize;
        if step == 0 { ' ' } else { BARS[step.min(BARS.len()) - 1] }
    };
    (0..BARS_WIDE).map(bar).collect()
}

fn number(value: f64) -> String {
    match value {
        ..0.005 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Times in milliseconds and values of a line; every n-th if there are more than `most`. None if
/// the series has no such counter.
pub(crate) fn points(line: &Line, series: &Series, most: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let columns: Vec<usize> =
        line.of.iter().filter_map(|name| series.column(name.as_ref())).collect();
    let sum = |row: &[u64]| columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
    let values: Vec<(f64, f64)> = match line.kind {
        Kind::Level if columns.is_empty() => return None,
        Kind::Rate | Kind::Share if columns.is_empty() => return None,
        Kind::Level => series.rows().map(|(at, row)| (ms(at), sum(row) / MIB_PAGES)).collect(),
        Kind::Rate | Kind::Share => {
            // Microseconds per millisecond, divided by 10, are percent.
            let unit = if line.kind == Kind::Share { 10.0 } else { 1.0 };
            let rows: Vec<(f64, f64)> = series.rows().map(|(at, row)| (ms(at), sum(row))).collect();
            let every = rows.len().div_ceil(most).max(1);
            // Rates are taken between kept points, so events between them still count.
            let kept: Vec<(f64, f64)> = rows.into_iter().step_by(every).collect();
            let pairs = kept.windows(2);
            let rates = pairs.filter(|pair| pair[1].0 > pair[0].0);
            rates
                .map(|pair| (pair[1].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0) / unit))
                .collect()
        }
        Kind::Unusable => unusable(series)?,
        Kind::Blocks(from, to) => free_blocks(series, from, to)?,
    };
    let every = values.len().div_ceil(most).max(1);
    let (t, v) = values.into_iter().step_by(every).map(|(t, v)| (rounded(t), rounded(v))).unzip();
    Some((t, v))
}

/// Free memory in blocks of some orders.
fn free_blocks(series: &Series, from: u32, to: u32) -> Option<Vec<(f64, f64)>> {
    let blocks: Vec<(usize, u32)> =
        orders(series).into_iter().filter(|(_, order)| (from..=to).contains(order)).collect();
    let pages = |row: &[u64]| blocks.iter().map(|&(at, order)| row[at] << order).sum::<u64>();
    let mib = |row: &[u64]| pages(row) as f64 / MIB_PAGES;
    (!blocks.is_empty()).then(|| series.rows().map(|(at, row)| (ms(at), mib(row))).collect())
}

/// Columns of free blocks, with their orders.
fn orders(series: &Series) -> Vec<(usize, u32)> {
    let order =
        |(at, name): (usize, &String)| Some((at, name.split_once("/order")?.1.parse().ok()?));
    (0..).zip(&series.columns).filter_map(order).collect()
}

/// Percent of free memory in blocks smaller than a huge page
/// (rules/compaction#fragmentation-index).
fn unusable(series: &Series) -> Option<Vec<(f64, f64)>> {
    let blocks = orders(series);
    if blocks.is_empty() {
        return None;
    }
    let share = |row: &[u64]| {
        let pages = |from: u32| {
            let counted = blocks.iter().filter(|(_, order)| *order >= from);
            counted.map(|&(at, order)| row[at] << order).sum::<u64>() as f64
        };
        let all = pages(0);
        if all > 0.0 { 100.0 * (1.0 - pages(HUGE_ORDER) / all) } else { 0.0 }
    };
    Some(series.rows().map(|(at, row)| (ms(at), share(row))).collect())
}

/// Watermarks summed over all zones, if the series has them: name, times and values of each.
pub(crate) fn watermarks(series: &Series) -> Vec<(String, Vec<f64>, Vec<f64>)> {
    let of = |mark: &str| {
        let columns: Vec<usize> = (0..)
            .zip(&series.columns)
            .filter(|(_, name)| name.ends_with(&format!("/{mark}")))
            .map(|(at, _)| at)
            .collect();
        if columns.is_empty() {
            return None;
        }
        let every = series.len().div_ceil(POINTS_MAX).max(1);
        let points = series.rows().step_by(every).map(|(at, row)| {
            let pages = columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
            (rounded(ms(at)), rounded(pages / MIB_PAGES))
        });
        let (t, v) = points.unzip();
        Some((format!("{mark} watermark"), t, v))
    };
    ["min", "low", "high"].into_iter().filter_map(of).collect()
}

fn ms(at_ns: u64) -> f64 {
    at_ns as f64 / 1e6
}

/// A chart cannot show more than four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().ceil() as i32;
    if digits <= 0 {
        value.round()
    } else {
        format!("{value:.*}", digits.min(6) as usize).parse().unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_where_their_time_is() {
        let wide = BARS_WIDE as f64;
        let times: Vec<f64> = (0..BARS_WIDE).map(|at| at as f64).collect();
        let rising = bars(&times, &times, wide, wide - 1.0);
        assert_eq!((rising.chars().count(), rising.chars().last()), (BARS_WIDE, Some('█')));
        assert!(rising.starts_with(" ▁▁▁"), "{rising}");
        // A run of half the duration has half the bars; a single point holds until its run ends.
        let half = bars(&[0.0, wide / 2.0 - 0.5], &[8.0, 1.0], wide, 8.0);
        let expected = format!("{}▁{}", "█".repeat(BARS_WIDE / 2 - 1), " ".repeat(BARS_WIDE / 2));
        assert_eq!(half, expected);
    }

    #[test]
    fn the_last_step_of_the_first_seed_is_shown() {
        let run = |label: &str, seed, part: &str, free: [u64; 3]| {
            let mut series =
                Series::new(vec!["nr_free_pages".to_owned(), "pgscan_direct".to_owned()]);
            part.clone_into(&mut series.part);
            (0..3).for_each(|at| series.push(at as u64 * 1_000_000_000, [free[at], 0]));
            let [machine, label, policy] = ["m", label, label].map(str::to_owned);
            RunSeries { machine, policy, label, seed, series }
        };
        let all = [
            run("before", 1, "mmap-4", [1, 1, 1]),
            run("before", 1, "mmap-12", [2048, 1024, 256]),
            run("after", 1, "mmap-12", [512, 0, 512]),
            run("after", 2, "mmap-12", [9, 9, 9]),
        ];
        let tables = sparklines(&all);
        let text = crate::render::terminal(&tables[0]);
        assert_eq!((tables.len(), tables[0].rows.len()), (1, 2), "{text}");
        for line in [
            "Over time on m, mmap-12",
            "before ██████████████▄▄▄▄▄▄▄▄▄▄▄▄▄▁",
            "after  ▂▂▂▂▂▂▂▂▂▂▂▂▂▂ ▂",
            "1.00  8.00",
            "from boot to 2.000 s",
        ] {
            assert!(
                text.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .contains(&line.split_whitespace().collect::<Vec<_>>().join(" ")),
                "{line}: {text}"
            );
        }
        assert_eq!(sparklines(&[]), Vec::new());
    }
}
