//! Observations of a run, of the real kernel or of the model. One type, so that both are judged by
//! the same formulas.

use std::collections::BTreeMap;

use highwater_results::Counters;
use highwater_results::import::linux61::{Bar as CapturedBar, Throttling, ThrottlingRun};

/// Bars of a histogram of waits: kind, longest wait allowed, wait; microseconds.
pub(super) type Bar = (String, u64, u64);
/// Waits by task kind, reason and duration.
pub(super) type Bars = BTreeMap<Bar, u64>;

/// Waits of reclaim that have no length: 5.15's sleeps for isolated pages.
pub(super) const MSLEEP: &str = "msleep100";

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Length of the observation in seconds.
    pub(super) seconds: f64,
    /// Changes over the run.
    pub(super) counters: Counters,
    /// Waits of tasks that allocate.
    pub(super) direct: Bars,
    /// Of kswapd.
    pub(super) kswapd: Bars,
    /// Sleeps of 100 ms for isolated pages; `None`: not counted.
    pub(super) msleep100: Option<u64>,
    /// Times of the latency worker.
    pub(super) latency_ms: Vec<f64>,
    /// System time of all CPUs in seconds; `None`: not recorded.
    pub(super) system_s: Option<f64>,
    /// Observations after the tenth second.
    pub(super) late: Option<Late>,
}

/// The part of a run behind its tenth second, when all memory is taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    pub(super) seconds: f64,
    pub(super) scanned_direct: f64,
    pub(super) stolen_direct: f64,
    pub(super) scanned_kswapd: f64,
    pub(super) system_s: f64,
}

impl Observed {
    /// A captured run.
    pub(super) fn of(captured: &Throttling, run: &ThrottlingRun) -> Observed {
        let mut counters = Counters::default();
        for (name, &value) in &run.counters {
            counters.set(name, value);
        }
        let late = run.after_10_s.map(|after| Late {
            seconds: after.seconds,
            scanned_direct: after.pgscan_direct as f64,
            stolen_direct: after.pgsteal_direct as f64,
            scanned_kswapd: after.pgscan_kswapd as f64,
            system_s: after.system_cpu_s,
        });
        Observed {
            seconds: run.elapsed_s.unwrap_or(captured.seconds),
            counters,
            direct: bars(&run.waits.direct),
            kswapd: bars(&run.waits.kswapd),
            msleep100: run.waits.msleep100,
            latency_ms: run.latency_ms.clone(),
            system_s: run.cpu_s.get("system").copied(),
            late,
        }
    }

    /// The sum of counters: names joined by a plus.
    pub(super) fn sum(&self, key: &str) -> f64 {
        key.split('+').map(|name| self.counters.get(name)).sum::<i64>() as f64
    }

    /// Counters a second.
    pub(super) fn rate(&self, key: &str) -> f64 {
        self.sum(key) / self.seconds.max(f64::MIN_POSITIVE)
    }
}

fn bars(list: &[CapturedBar]) -> Bars {
    let mut bars = Bars::new();
    for bar in list {
        let key = (bar.kind.clone(), bar.usec_timeout, bar.usec_delayed);
        *bars.entry(key).or_default() += bar.count;
    }
    bars
}

/// Number of waits whose key passes a test.
pub(super) fn count(bars: &Bars, test: &dyn Fn(&Bar) -> bool) -> u64 {
    bars.iter().filter(|(bar, _)| test(bar)).map(|(_, count)| count).sum()
}
