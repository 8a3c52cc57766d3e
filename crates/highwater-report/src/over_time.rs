//! Counters over virtual time: which of them appear in a page's charts and, small, in the terminal.
//!
//! A line names its columns. What is drawn of them follows from their declared unit and kind:
//! totals are shown as rates, levels as they are.

use std::borrow::Cow;

use highwater_results::column::{Kind, Owner, Unit};
use highwater_results::{Column, RunSeries, Series};

use crate::table::{Cell, Layout, Table};

const MIB_PAGES: f64 = 256.0;
/// Largest number of points in a line; beyond this, only every n-th is kept.
pub(crate) const POINTS_MAX: usize = 240;

/// A charted counter, or the sum of several.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) title: Cow<'static, str>,
    of: Of,
    pub(crate) scale: Scale,
}

/// The columns of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// The sum of the columns with these names.
    Sum(Cow<'static, [Cow<'static, str>]>),
    /// Free memory in blocks of these orders.
    Blocks(u8, u8),
    /// The share of free memory in blocks too small for a huge page.
    Unusable,
}

/// How values are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// The unit that is shown.
    pub(crate) unit: &'static str,
    /// The same where there is little room.
    short: &'static str,
    /// True for growth per millisecond.
    is_rate: bool,
    /// The divisor of a sum, or of its growth.
    divisor: f64,
}

impl Scale {
    const fn level(unit: &'static str, divisor: f64) -> Scale {
        Scale { unit, short: unit, is_rate: false, divisor }
    }

    const fn rate(unit: &'static str, short: &'static str, divisor: f64) -> Scale {
        Scale { unit, short, is_rate: true, divisor }
    }

    /// The scale of a column.
    const fn of(unit: Unit, kind: Kind) -> Scale {
        match (unit, kind) {
            // Per millisecond is thousand per second.
            (Unit::Pages | Unit::Blocks { .. }, Kind::Total) => {
                Scale::rate("thousand pages/s", "k/s", 1.0)
            }
            (Unit::Events, Kind::Total) => Scale::rate("thousand events/s", "k/s", 1.0),
            (Unit::Objects, Kind::Total) => Scale::rate("thousand objects/s", "k/s", 1.0),
            (Unit::Kibibytes, Kind::Total) => Scale::rate("MiB/s", "MiB/s", 1.024),
            // Microseconds per millisecond, divided by 10, are percent of elapsed time.
            (Unit::Microseconds, Kind::Total) => Scale::rate("%", "%", 10.0),
            (Unit::Percent, Kind::Total) => Scale::rate("%/ms", "%/ms", 1.0),
            (Unit::Pages | Unit::Blocks { .. }, _) => Scale::level("MiB", MIB_PAGES),
            (Unit::Kibibytes, _) => Scale::level("MiB", 1024.0),
            (Unit::Microseconds, _) => Scale::level("ms", 1000.0),
            (Unit::Percent, _) => Scale::level("%", 1.0),
            (Unit::Events, _) => Scale::level("events", 1.0),
            (Unit::Objects, _) => Scale::level("objects", 1.0),
        }
    }
}

/// Names of columns.
macro_rules! of {
    ($($name:literal),*) => { Of::Sum(Cow::Borrowed(&[$(Cow::Borrowed($name)),*])) };
}

const LINES: [(&str, Of); 20] = [
    ("Free memory", of!["nr_free_pages"]),
    ("Time in which some tasks wait for memory", of!["pressure/memory/some"]),
    ("Time in which all tasks wait for memory", of!["pressure/memory/full"]),
    ("Time in which some tasks wait for a device", of!["pressure/io/some"]),
    ("Scanned by kswapd", of!["pgscan_kswapd"]),
    ("Scanned by direct reclaim", of!["pgscan_direct"]),
    ("Reclaimed", of!["pgsteal_kswapd", "pgsteal_direct"]),
    ("Dirty pages of files", of!["nr_dirty"]),
    ("Under writeback", of!["nr_writeback"]),
    ("Inactive, of files", of!["nr_inactive_file"]),
    ("Active, of files", of!["nr_active_file"]),
    ("Inactive, anonymous", of!["nr_inactive_anon"]),
    ("Active, anonymous", of!["nr_active_anon"]),
    ("Swapped in and out", of!["pswpin", "pswpout"]),
    ("Refaults", of!["workingset_refault_anon", "workingset_refault_file"]),
    ("Scanned by compaction", of!["compact_migrate_scanned", "compact_free_scanned"]),
    ("Free in blocks of order 0 to 2", Of::Blocks(0, 2)),
    ("Free in blocks of order 3 to 8", Of::Blocks(3, 8)),
    ("Free in blocks of order 9 and more", Of::Blocks(9, u8::MAX)),
    ("Free memory in blocks below a huge page", Of::Unusable),
];

/// The lines shown for some series: the same ones for all machines, and the memory of each task and
/// each memory cgroup of a job. A line whose columns no series has is left out.
pub(crate) fn lines<'a>(all: impl Iterator<Item = &'a Series> + Clone) -> Vec<Line> {
    let fixed = LINES.into_iter().map(|(title, of)| (Cow::Borrowed(title), of));
    let mut tasks: Vec<&Owner> = Vec::new();
    let mut groups: Vec<(&Owner, &str)> = Vec::new();
    for column in all.clone().flat_map(|series| &series.columns) {
        match &column.of {
            of @ Owner::Task { .. } if !tasks.contains(&of) => tasks.push(of),
            of @ Owner::Group { group } if !groups.contains(&(of, group.as_str())) => {
                groups.push((of, group));
            }
            _ => {}
        }
    }
    let of_tasks = tasks.into_iter().flat_map(|of| {
        let task = match of {
            Owner::Task { task } => task.as_str(),
            _ => "",
        };
        let line = |title: &str, parts: &[&str]| {
            let names: Vec<Cow<'static, str>> =
                parts.iter().map(|part| Cow::Owned(format!("{of}{part}"))).collect();
            (Cow::Owned(format!("{task}: {title}")), Of::Sum(names.into()))
        };
        [line("resident memory", &["anon", "file"]), line("swapped memory", &["swap"])]
    });
    let of_groups = groups.into_iter().flat_map(|(of, group)| {
        let line = |title: &str, part: &str| {
            let name = Cow::Owned(format!("{of}{part}"));
            (Cow::Owned(format!("group {group}: {title}")), Of::Sum(vec![name].into()))
        };
        [
            line("memory", USAGE),
            line("swapped memory", "swap"),
            line("refaults", "refault"),
            line("time in which some tasks wait for memory", "memory-some"),
            line("time in which all tasks wait for memory", "memory-full"),
            line("time asleep for memory.high, of all tasks", "throttled"),
        ]
    });
    let scaled = fixed.chain(of_tasks).chain(of_groups).filter_map(|(title, of)| {
        let scale = all.clone().find_map(|series| of.scale(series))?;
        Some(Line { title, of, scale })
    });
    scaled.collect()
}

/// The column of a group's memory, beside which its limits are drawn.
const USAGE: &str = "current";

/// Order of a huge page.
const HUGE_ORDER: u8 = 9;

impl Of {
    /// The columns of a series.
    fn columns<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (usize, &'a Column)> {
        let is_one = move |column: &Column| match (self, column.unit) {
            (Of::Sum(names), _) => names.iter().any(|name| *name == column.name),
            (Of::Blocks(from, to), Unit::Blocks { order }) => (*from..=*to).contains(&order),
            (Of::Unusable, Unit::Blocks { .. }) => true,
            _ => false,
        };
        series.columns.iter().enumerate().filter(move |(_, column)| is_one(column))
    }

    /// How these columns of a series are shown; none if it has none, or if they do not add up.
    fn scale(&self, series: &Series) -> Option<Scale> {
        if matches!(self, Of::Unusable) {
            return self.columns(series).next().map(|_| Scale::of(Unit::Percent, Kind::Level));
        }
        let mut scales =
            self.columns(series).map(|(_, column)| Scale::of(column.unit, column.kind));
        let first = scales.next()?;
        scales.all(|scale| scale == first).then_some(first)
    }
}

impl Line {
    /// Bounds that are drawn beside the line: the watermarks beside free memory, its limits beside
    /// the memory of a group. Name, times and values of each.
    pub(crate) fn bounds(&self, series: &Series) -> Vec<(String, Vec<f64>, Vec<f64>)> {
        if self.of == of!["nr_free_pages"] {
            return watermarks(series);
        }
        let mut columns = self.of.columns(series).map(|(_, column)| column);
        match (columns.next(), columns.next()) {
            (Some(column), None) if column.what() == USAGE => limits(&column.of, series),
            _ => Vec::new(),
        }
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
            table.push(&[&format!("{}, {}", line.title, line.scale.short), label], cells);
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
    let Line { of, scale, .. } = line;
    if of.scale(series)? != *scale {
        return None;
    }
    let values: Vec<(f64, f64)> = if *of == Of::Unusable {
        unusable(series)
    } else {
        let columns: Vec<(usize, Unit)> =
            of.columns(series).map(|(at, column)| (at, column.unit)).collect();
        let sum =
            |row: &[u64]| columns.iter().map(|&(at, unit)| amount(row[at], unit)).sum::<u64>();
        let sums = series.rows().map(|(at, row)| (ms(at), sum(row) as f64));
        if scale.is_rate {
            let sums: Vec<(f64, f64)> = sums.collect();
            let every = sums.len().div_ceil(most).max(1);
            // Rates are taken between kept points, so events between them still count.
            let kept: Vec<(f64, f64)> = sums.into_iter().step_by(every).collect();
            let pairs = kept.windows(2).filter(|pair| pair[1].0 > pair[0].0);
            let rate = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            pairs.map(|pair| (pair[1].0, rate(pair) / scale.divisor)).collect()
        } else {
            sums.map(|(at, sum)| (at, sum / scale.divisor)).collect()
        }
    };
    let every = values.len().div_ceil(most).max(1);
    let (t, v) = values.into_iter().step_by(every).map(|(t, v)| (rounded(t), rounded(v))).unzip();
    Some((t, v))
}

/// A number of a column as its scale takes it: blocks count with their pages.
const fn amount(number: u64, unit: Unit) -> u64 {
    match unit {
        Unit::Blocks { order } => number << order,
        _ => number,
    }
}

/// Percent of free memory in blocks smaller than a huge page
/// (rules/compaction#fragmentation-index).
fn unusable(series: &Series) -> Vec<(f64, f64)> {
    let pages = |row: &[u64], from| {
        let blocks = Of::Blocks(from, u8::MAX);
        let columns = blocks.columns(series);
        columns.map(|(at, column)| amount(row[at], column.unit)).sum::<u64>() as f64
    };
    let share = |row: &[u64]| {
        let all = pages(row, 0);
        if all > 0.0 { 100.0 * (1.0 - pages(row, HUGE_ORDER) / all) } else { 0.0 }
    };
    series.rows().map(|(at, row)| (ms(at), share(row))).collect()
}

/// The limits of a group over time; times at which it has none (0) are left out.
fn limits(of: &Owner, series: &Series) -> Vec<(String, Vec<f64>, Vec<f64>)> {
    let is_limit = |column: &&Column| column.kind == Kind::Limit && column.of == *of;
    let columns = (0..).zip(&series.columns).filter(|(_, column)| is_limit(column));
    let every = series.len().div_ceil(POINTS_MAX).max(1);
    let drawn = columns.map(|(at, column): (usize, &Column)| {
        let set = series.rows().step_by(every).filter(|(_, row)| row[at] > 0);
        let points =
            set.map(|(at_ns, row)| (rounded(ms(at_ns)), rounded(row[at] as f64 / MIB_PAGES)));
        let (t, v) = points.unzip();
        (format!("memory.{}", column.what()), t, v)
    });
    drawn.collect()
}

/// Watermarks summed over all zones, if the series has them: name, times and values of each.
fn watermarks(series: &Series) -> Vec<(String, Vec<f64>, Vec<f64>)> {
    let is_mark =
        |column: &&Column| column.kind == Kind::Limit && matches!(column.of, Owner::Zone { .. });
    let mut marks: Vec<&str> = Vec::new();
    for column in series.columns.iter().filter(is_mark) {
        if !marks.contains(&column.what()) {
            marks.push(column.what());
        }
    }
    let of = |mark: &&str| {
        let columns = (0..).zip(&series.columns);
        let columns = columns.filter(|(_, column)| is_mark(column) && column.what() == *mark);
        let columns: Vec<usize> = columns.map(|(at, _)| at).collect();
        let every = series.len().div_ceil(POINTS_MAX).max(1);
        let points = series.rows().step_by(every).map(|(at, row)| {
            let pages = columns.iter().map(|&at| row[at]).sum::<u64>() as f64;
            (rounded(ms(at)), rounded(pages / MIB_PAGES))
        });
        let (t, v) = points.unzip();
        (format!("{mark} watermark"), t, v)
    };
    marks.iter().map(of).collect()
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
            let column = |name, kind| Column::new(Owner::Machine, name, Unit::Pages, kind);
            let mut series = Series::new(vec![
                column("nr_free_pages", Kind::Level),
                column("pgscan_direct", Kind::Total),
            ]);
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

    /// The declaration decides the chart: the same name with another unit is another
    /// chart.
    #[test]
    fn units_come_from_columns_not_from_names() {
        let drawn = |name: &str, unit, kind| {
            let mut series = Series::new(vec![Column::new(Owner::Machine, name, unit, kind)]);
            (0..3).for_each(|at| series.push(at * 1_000_000_000, [at * 512_000]));
            let line = lines([&series].into_iter()).into_iter().next()?;
            let (_, values) = points(&line, &series, POINTS_MAX)?;
            Some((line.scale.unit, values.last().copied()?))
        };
        let pressure = "pressure/memory/some";
        let total = drawn(pressure, Unit::Microseconds, Kind::Total);
        assert_eq!(total, Some(("%", 51.2)), "0.512 of each second");
        assert_eq!(drawn("nr_dirty", Unit::Pages, Kind::Level), Some(("MiB", 4000.0)));
        assert_eq!(drawn("nr_dirty", Unit::Percent, Kind::Level), Some(("%", 1_024_000.0)));
        let total = drawn("nr_dirty", Unit::Pages, Kind::Total);
        assert_eq!(total, Some(("thousand pages/s", 512.0)));
        let total = drawn("nr_dirty", Unit::Kibibytes, Kind::Total);
        assert_eq!(total, Some(("MiB/s", 500.0)));
        assert_eq!(drawn("unheard_of", Unit::Pages, Kind::Level), None);
    }

    #[test]
    fn limits_of_a_group_are_drawn_beside_its_memory_while_it_has_them() {
        let of = || Owner::Group { group: "db".to_owned() };
        let mut series = Series::new(vec![
            Column::new(of(), "current", Unit::Pages, Kind::Level),
            Column::new(of(), "max", Unit::Pages, Kind::Limit),
        ]);
        (0..3u64).for_each(|at| series.push(at * 1_000_000, [256 * at, 512 * (at / 2)]));
        let lines = lines([&series].into_iter());
        assert_eq!((lines.len(), &*lines[0].title), (1, "group db: memory"));
        let bounds = lines[0].bounds(&series);
        assert_eq!(bounds, [("memory.max".to_owned(), vec![2.0], vec![2.0])]);
    }

    #[test]
    fn columns_of_one_line_have_one_unit() {
        let column = |name, unit| Column::new(Owner::Machine, name, unit, Kind::Total);
        let other = [column("pswpin", Unit::Pages), column("pswpout", Unit::Kibibytes)];
        assert!(lines([&Series::new(other.to_vec())].into_iter()).is_empty());
    }
}
