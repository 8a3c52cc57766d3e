//! Histograms as text: stall delays and most used page frames
//! (rules/mmtests-tables#delay-histogram).
//!
//! Lines are ordered by count ascending, ties by text; the count is right-justified in 7 columns, a
//! space, the key.

use highwater_results::words::count;
use highwater_results::{Histogram, Run};

use crate::table::{Cell, Layout, Table};

/// The lines of one histogram, as the studies print them.
pub fn lines(histogram: &Histogram) -> String {
    histogram.by_count().iter().map(|(key, count)| format!("{count:7} {key}\n")).collect()
}

/// One histogram as a table, the most frequent keys last; `nr_keys` keys at most.
pub fn table(run: &Run, histogram: &Histogram, nr_keys: usize) -> Table {
    let title =
        format!("{}: {} ({}, {})", run.label, histogram.name, histogram.event, histogram.context);
    let mut table =
        Table::new(title, &["key"], vec!["count".into(), "share".into()], Layout::Fitted);
    let rows = histogram.by_count();
    let shown = &rows[rows.len().saturating_sub(nr_keys)..];
    for (key, count) in shown {
        let count = *count as f64;
        let share = Cell::share(count, histogram.total.max(1) as f64, 2);
        table.push(&[key], vec![Cell::number(count, 0), share]);
    }
    let nr_events: u64 = shown.iter().map(|(_, count)| count).sum();
    if nr_events < histogram.total {
        table.notes.push(format!("{nr_events} of {} shown", count(histogram.total, "event")));
    } else {
        table.notes.push(count(histogram.total, "event"));
    }
    table
}

/// Every event in every context, in the order in which runs have them.
pub fn all_side_by_side(runs: &[&Run]) -> Vec<Table> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for histogram in runs.iter().flat_map(|run| &run.histograms) {
        let kind = (histogram.event.as_str(), histogram.context.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.into_iter().map(|(event, context)| side_by_side(event, context, runs)).collect()
}

/// The keys of one event side by side for several runs. All keys appear in order, and numbers in
/// them are ordered by size. A key that a run lacks is shown as missing.
pub fn side_by_side(event: &str, context: &str, runs: &[&Run]) -> Table {
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let mut table = Table::new(format!("{event} ({context})"), &["key"], columns, Layout::Fitted);
    let of_run: Vec<Option<&Histogram>> =
        runs.iter().map(|run| run.histogram(event, context)).collect();
    let mut keys: Vec<&String> =
        of_run.iter().flatten().flat_map(|histogram| histogram.buckets.keys()).collect();
    keys.sort_by_cached_key(|key| (parts(key), *key));
    keys.dedup();
    for key in keys {
        let count = |histogram: &Option<&Histogram>| {
            let count = histogram.and_then(|histogram| histogram.buckets.get(key));
            count.map_or(Cell::Missing, |&count| Cell::number(count as f64, 0))
        };
        table.push(&[key], of_run.iter().map(count).collect());
    }
    let totals = of_run.iter().map(|found| match found {
        Some(histogram) => Cell::number(histogram.total as f64, 0),
        None => Cell::Missing,
    });
    let totals = totals.collect();
    table.push(&["total"], totals);
    table
}

/// A key's words and the numbers between them.
fn parts(key: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let number = &rest[word..];
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        parts.push((&rest[..word], number[..digits].parse().unwrap_or(u64::MAX)));
        rest = &number[digits..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays() -> Histogram {
        let mut histogram = Histogram::new("throttled", "mm_vmscan_throttled", "kswapd");
        for delay in [0, 4000, 0, 100_000, 4000, 0] {
            let key = format!(
                "usec_timeout=100000 usect_delayed={delay} reason=VMSCAN_THROTTLE_WRITEBACK"
            );
            histogram.record(&key, 1);
        }
        histogram
    }

    #[test]
    fn delay_histogram() {
        let expected =
            "      1 usec_timeout=100000 usect_delayed=100000 reason=VMSCAN_THROTTLE_WRITEBACK
      2 usec_timeout=100000 usect_delayed=4000 reason=VMSCAN_THROTTLE_WRITEBACK
      3 usec_timeout=100000 usect_delayed=0 reason=VMSCAN_THROTTLE_WRITEBACK
";
        assert_eq!(lines(&delays()), expected);
    }

    #[test]
    fn tables_say_how_much_they_show() {
        let run = Run::new("m", "after", "6.1-after");
        let table = table(&run, &delays(), 2);
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1].cells[1].value_text(), "50.00%");
        assert_eq!(table.notes, ["5 of 6 events shown"]);
    }

    #[test]
    fn side_by_side_marks_what_a_run_lacks() {
        let mut a = Run::new("m", "a", "a");
        let b = Run::new("m", "b", "b");
        a.histograms.push(delays());
        let table = side_by_side("mm_vmscan_throttled", "kswapd", &[&a, &b]);
        assert_eq!(table.rows.len(), 4);
        assert_eq!(table.row(&["total"]).unwrap().cells, [Cell::number(6.0, 0), Cell::Missing]);
        let delays = table.rows.iter().filter_map(|row| row.labels[0].split(' ').nth(1));
        assert!(delays.eq(["usect_delayed=0", "usect_delayed=4000", "usect_delayed=100000"]));
    }

    #[test]
    fn each_event_and_context_is_one_table() {
        let (mut a, mut b) = (Run::new("m", "a", "a"), Run::new("m", "b", "b"));
        a.histograms.push(delays());
        b.histograms.push(delays());
        b.histograms.push(Histogram::new("throttled", "mm_vmscan_throttled", "direct reclaim"));
        let tables = all_side_by_side(&[&a, &b]);
        let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(
            titles,
            ["mm_vmscan_throttled (kswapd)", "mm_vmscan_throttled (direct reclaim)"]
        );
        let totals = &tables[0].row(&["total"]).unwrap().cells;
        assert_eq!(totals, &[Cell::number(6.0, 0), Cell::number(6.0, 0)]);
    }

    #[test]
    fn numbers_in_keys_are_ordered_by_size() {
        let mut keys = ["9", "10", "a2 b", "a10 b", "a2 c", "", "x99999999999999999999999"];
        keys.sort_by_key(|key| parts(key));
        assert_eq!(keys, ["", "9", "10", "a2 b", "a2 c", "a10 b", "x99999999999999999999999"]);
    }
}
