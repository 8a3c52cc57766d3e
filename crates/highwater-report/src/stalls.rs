//! How long throttled tasks slept, by reason and by kind of task
//! (rules/mmtests-tables#stall-table).
//!
//! Key type: [`Delays`] (the delays of one kind of stall). For each kind: the number of events, the
//! share that returned at once, the share that slept for the whole timeout or longer, and the mean.
//!
//! The histogram keys are stalls: [`Stall::from_key`].

use highwater_results::published::PublishedHistogram;
use highwater_results::{Histogram, Run, Stall};

use crate::table::{Cell, Layout, Table};

/// Prefix of reasons in the kernel's text.
const REASON_PREFIX: &str = "VMSCAN_THROTTLE_";
/// Context of published histograms that do not distinguish tasks.
const ALL: &str = "all callers";

/// Delays of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delays {
    /// The kind of task that slept.
    pub context: String,
    /// The reason, or the event if it has none.
    pub reason: String,
    /// Number of stalls.
    pub nr_events: u64,
    /// Number of stalls that returned at once.
    pub nr_at_once: u64,
    /// Number of stalls that lasted for the whole timeout or longer.
    pub nr_full: u64,
    /// Sum of all delays.
    pub total_us: u64,
}

impl Delays {
    /// The delays of one of our histograms, by reason. Keys that are not stalls are left out.
    pub fn of(histogram: &Histogram) -> Vec<Delays> {
        let mut all = Vec::new();
        for (key, &count) in &histogram.buckets {
            add(&mut all, (&histogram.context, &histogram.event), Stall::from_key(key), count);
        }
        all
    }

    /// The delays of a published histogram, by reason.
    pub fn of_published(histogram: &PublishedHistogram) -> Vec<Delays> {
        let mut all = Vec::new();
        for bucket in &histogram.buckets {
            add(&mut all, (&histogram.context, &histogram.event), bucket.stall(), bucket.count);
        }
        all
    }

    fn is_same_kind(&self, other: &Delays) -> bool {
        self.context == other.context && self.reason == other.reason
    }

    fn merge(&mut self, other: &Delays) {
        self.nr_events += other.nr_events;
        self.nr_at_once += other.nr_at_once;
        self.nr_full += other.nr_full;
        self.total_us += other.total_us;
    }

    fn percent(&self, part: u64) -> f64 {
        100.0 * part as f64 / self.nr_events.max(1) as f64
    }

    /// Events, shares, mean.
    fn cells(&self) -> [Cell; 4] {
        let mean_ms = self.total_us as f64 / 1e3 / self.nr_events.max(1) as f64;
        [
            Cell::number(self.nr_events as f64, 0),
            Cell::percent(self.percent(self.nr_at_once)),
            Cell::percent(self.percent(self.nr_full)),
            Cell::number(mean_ms, 2),
        ]
    }
}

/// Adds `count` stalls of `context` with `event`, if their length is known.
fn add(all: &mut Vec<Delays>, (context, event): (&str, &str), stall: Stall<'_>, count: u64) {
    let Some((timeout_us, delay_us)) = stall.usec_timeout.zip(stall.usec_delayed) else { return };
    let reason = stall.reason.unwrap_or(event);
    let reason = reason.strip_prefix(REASON_PREFIX).unwrap_or(reason);
    let new = Delays {
        context: context.to_owned(),
        reason: reason.to_owned(),
        nr_events: count,
        nr_at_once: if delay_us == 0 { count } else { 0 },
        nr_full: if delay_us >= timeout_us { count } else { 0 },
        total_us: count * delay_us,
    };
    insert(all, &new);
}

fn insert(all: &mut Vec<Delays>, new: &Delays) {
    match all.iter_mut().find(|known| known.is_same_kind(new)) {
        Some(known) => known.merge(new),
        None => all.push(new.clone()),
    }
}

/// All delays of a run by reason. If the published figures do not distinguish tasks, a sum over all
/// tasks is added.
fn of_run(run: &Run, published: &[Delays]) -> Vec<Delays> {
    let mut all: Vec<Delays> = run.histograms.iter().flat_map(Delays::of).collect();
    for together in published.iter().filter(|delays| delays.context == ALL) {
        let parts: Vec<Delays> =
            all.iter().filter(|d| d.reason == together.reason).cloned().collect();
        for part in parts {
            insert(&mut all, &Delays { context: ALL.to_owned(), ..part });
        }
    }
    all.sort_by(|a, b| (&a.reason, &a.context).cmp(&(&b.reason, &b.context)));
    all
}

/// Stalls of every run, with published stalls of the same policy beside them.
pub fn table(runs: &[(&Run, Vec<&PublishedHistogram>)]) -> Table {
    let columns =
        ["events", "at once", "full", "mean ms", "theirs events", "at once", "full", "mean ms"];
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    let title = "Throttled tasks: how long they slept".to_owned();
    // The columns of ours and theirs.
    let mut table = Table::new(title, &["run", "reason", "tasks"], columns, Layout::Fitted)
        .breaking_at(&[0, 4]);
    for (run, histograms) in runs {
        let published: Vec<Delays> =
            histograms.iter().flat_map(|histogram| Delays::of_published(histogram)).collect();
        let ours = of_run(run, &published);
        let mut push = |delays: &Delays, ours: Option<&Delays>, theirs: Option<&Delays>| {
            let half = |delays: Option<&Delays>| {
                delays.map_or([const { Cell::Missing }; 4], Delays::cells)
            };
            let cells = half(ours).into_iter().chain(half(theirs)).collect();
            table.push(&[&run.label, &delays.reason, &delays.context], cells);
        };
        for delays in &ours {
            let theirs = published.iter().find(|known| known.is_same_kind(delays));
            push(delays, Some(delays), theirs);
        }
        for delays in published.iter().filter(|d| !ours.iter().any(|o| o.is_same_kind(d))) {
            push(delays, None, Some(delays));
        }
        let slept: u64 =
            ours.iter().filter(|d| d.context != ALL).map(|delays| delays.total_us).sum();
        if slept > 0 {
            let seconds = slept as f64 / 1e6;
            table.notes.push(format!("{}: {seconds:.0} task-seconds asleep in all", run.label));
        }
    }
    table.notes.push(
        "at once: delay 0; full: the whole timeout or longer; --histograms prints every delay"
            .to_owned(),
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::Published;

    #[test]
    fn published_histograms_give_the_published_figures() {
        let known = Published::load().unwrap();
        // rules/mmtests-tables#stall-table: events, share at 0, share of full timeouts, mean.
        for (id, events, at_once, full, mean) in [
            ("001.vanilla.wait_iff_congested", 82434, 99.95, 0.0, 0.0),
            ("001.vanilla.congestion_wait", 1165, 0.0, 100.0, 105.4),
            ("001.patched.kswapd.writeback", 244, 38.5, 4.5, 8.0),
            ("001.patched.direct.isolated", 6624, 98.4, 1.3, 0.29),
            ("001.patched.direct.noprogress", 93246, 24.4, 55.0, 285.6),
            ("001.patched.direct.writeback", 96934, 7.4, 86.6, 87.2),
        ] {
            let all = Delays::of_published(known.histogram(id).unwrap());
            let [delays] = &all[..] else { panic!("{id}: {all:?}") };
            assert_eq!(delays.nr_events, events, "{id}");
            let near = |a: f64, b: f64| (a - b).abs() <= 0.051;
            assert!(near(delays.percent(delays.nr_at_once), at_once), "{id} {delays:?}");
            assert!(near(delays.percent(delays.nr_full), full), "{id} {delays:?}");
            let mean_ms = delays.total_us as f64 / 1e3 / events as f64;
            assert!(near(mean_ms, mean), "{id} {mean_ms}");
        }
    }

    #[test]
    fn ours_stand_beside_theirs() {
        let known = Published::load().unwrap();
        let mut run = Run::new("m", "after", "after");
        let mut histogram = Histogram::new("h", "mm_vmscan_throttled", "direct reclaim");
        for (timeout, delay, reason) in
            [(100_000, 0, "WRITEBACK"), (100_000, 100_000, "WRITEBACK"), (4000, 4000, "CONGESTED")]
        {
            let key = format!(
                "usec_timeout={timeout} usect_delayed={delay} reason=VMSCAN_THROTTLE_{reason}"
            );
            histogram.record(&key, 1);
        }
        run.histograms.push(histogram);
        let theirs = known.histogram("001.patched.direct.writeback").unwrap();
        let table = table(&[(&run, vec![theirs])]);
        let texts = |row: usize| -> Vec<String> {
            table.rows[row].cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(table.rows[1].labels, ["after", "WRITEBACK", "direct reclaim"]);
        assert_eq!(texts(0)[..4], ["1", "0.00%", "100.00%", "4.00"]);
        assert_eq!(texts(0)[4], "-");
        assert_eq!(texts(1)[..5], ["2", "50.00%", "50.00%", "50.00", "96934"]);
    }

    #[test]
    fn callers_that_were_not_told_apart_are_added_up() {
        let known = Published::load().unwrap();
        let mut run = Run::new("m", "before", "before");
        for context in ["kswapd", "direct reclaim"] {
            let mut histogram = Histogram::new("h", "writeback_congestion_wait", context);
            histogram.record("usec_timeout=100000 usec_delayed=104000", 2);
            run.histograms.push(histogram);
        }
        let theirs = known.histogram("001.vanilla.congestion_wait").unwrap();
        let table = table(&[(&run, vec![theirs])]);
        let all = table.row(&["before", "writeback_congestion_wait", "all callers"]).unwrap();
        let texts: Vec<String> = all.cells.iter().map(Cell::value_text).collect();
        assert_eq!(texts[..5], ["4", "0.00%", "100.00%", "104.00", "1165"]);
        assert_eq!(table.rows.len(), 3);
    }
}
