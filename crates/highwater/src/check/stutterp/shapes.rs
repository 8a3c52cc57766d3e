//! Which shapes are judged, and how the rest is printed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bar, Observed};
use crate::check::{Figure, Limit};

/// Largest factor between two ratios.
const FACTOR: f64 = 2.0;
/// Smallest distance that is allowed between two shares, percentage points.
const POINTS: f64 = 10.0;
/// Doubled because waits come in bursts; twice the error for chance.
const ERRORS: f64 = 2.0 * 2.0;
/// How a reason's waits ended is judged from so many of them on: of fewer, chance allows anything.
const WAITS_MIN: u64 = 16;
/// What the names of reasons begin with.
const PREFIX: &str = "VMSCAN_THROTTLE_";

/// A quotient of counters; a name with a plus is a sum.
struct Quotient {
    name: &'static str,
    of: &'static str,
    by: &'static str,
}

/// Judged within [`FACTOR`].
const RATIOS: &[Quotient] = &[
    Quotient {
        name: "direct reclaim: pages scanned per page reclaimed",
        of: "pgscan_direct",
        by: "pgsteal_direct",
    },
    Quotient {
        name: "kswapd: pages scanned per page reclaimed",
        of: "pgscan_kswapd",
        by: "pgsteal_kswapd",
    },
    Quotient { name: "pages deactivated per page activated", of: "pgdeactivate", by: "pgactivate" },
    Quotient {
        name: "pages rotated at the end of writeback per page written",
        of: "pgrotated",
        by: "nr_written",
    },
];
/// Judged within [`POINTS`].
const SHARES: &[Quotient] = &[
    Quotient {
        name: "anonymous pages of those scanned",
        of: "pgscan_anon",
        by: "pgscan_anon+pgscan_file",
    },
    Quotient {
        name: "anonymous pages of those reclaimed",
        of: "pgsteal_anon",
        by: "pgsteal_anon+pgsteal_file",
    },
    Quotient { name: "swap of the pages written", of: "pswpout", by: "nr_written" },
];
/// Printed, not judged: they say how fast things were, or who came first.
const COUNTERS: &[&str] = &[
    "pgfault",
    "pswpin",
    "pswpout",
    "nr_dirtied",
    "nr_written",
    "nr_vmscan_write",
    "nr_vmscan_immediate_reclaim",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pgscan_anon",
    "pgscan_file",
    "pgsteal_anon",
    "pgsteal_file",
    "pgactivate",
    "pgdeactivate",
    "pgrefill",
    "pgrotated",
    "allocstall_dma32+allocstall_normal+allocstall_movable",
    "pageoutrun",
    "pgmigrate_success",
    "oom_kill",
];

/// The sum of a key's counters.
fn sum(observed: &Observed, key: &str) -> f64 {
    key.split('+').map(|name| observed.counters.get(name)).sum::<i64>() as f64
}

/// The quotient of a run; none if there is nothing to divide by.
fn quotient(observed: &Observed, q: &Quotient) -> Option<f64> {
    let by = sum(observed, q.by);
    (by > 0.0).then(|| sum(observed, q.of) / by)
}

/// Of all runs together.
fn pooled(runs: &[Observed], q: &Quotient) -> Option<f64> {
    let total = |key: &str| runs.iter().map(|run| sum(run, key)).sum::<f64>();
    let by = total(q.by);
    (by > 0.0).then(|| total(q.of) / by)
}

/// A value, and between what the single runs lie.
fn with_runs(value: Option<f64>, runs: &[Option<f64>], text: &dyn Fn(f64) -> String) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let each = || runs.iter().flatten().copied();
    let (low, high) = (each().fold(value, f64::min), each().fold(value, f64::max));
    format!("{} ({} to {})", text(value), text(low), text(high))
}

/// Everything judged.
pub(super) fn figures(real: &Observed, runs: &[Observed]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for q in RATIOS {
        let model = pooled(runs, q);
        let real = quotient(real, q);
        let agrees = match (real, model) {
            (Some(real), Some(model)) => real.max(model) <= real.min(model) * FACTOR,
            (real, model) => real.is_none() && model.is_none(),
        };
        let text = |value: f64| format!("{value:.2}");
        let each: Vec<Option<f64>> = runs.iter().map(|run| quotient(run, q)).collect();
        figures.push(Figure {
            field: q.name.to_owned(),
            real: real.map_or_else(|| "none".to_owned(), text),
            model: with_runs(model, &each, &text),
            limit: Limit::Factor(FACTOR),
            agrees,
        });
    }
    for q in SHARES {
        let each: Vec<Option<f64>> = runs.iter().map(|run| quotient(run, q)).collect();
        let field = format!("share of {}", q.name);
        figures.push(share(field, quotient(real, q), pooled(runs, q), &each, POINTS));
    }
    figures.extend(waits(real, runs));
    figures
}

fn share(
    field: String,
    real: Option<f64>,
    model: Option<f64>,
    each: &[Option<f64>],
    points: f64,
) -> Figure {
    let text = |value: f64| format!("{:.1} %", 100.0 * value);
    let agrees = match (real, model) {
        (Some(real), Some(model)) => 100.0 * (real - model).abs() <= points,
        (real, model) => real.is_none() && model.is_none(),
    };
    Figure {
        field,
        real: real.map_or_else(|| "none".to_owned(), text),
        model: with_runs(model, each, &text),
        limit: Limit::Points(points),
        agrees,
    }
}

/// Percentage points by which the shares of two sets of waits may differ; each is how many of how many.
fn points((real_of, real): (u64, u64), (model_of, model): (u64, u64)) -> f64 {
    // One of each kind more than were seen: none of a few does not mean never.
    let p = (real_of + model_of + 1) as f64 / (real + model + 2) as f64;
    let variance = |n: u64| p * (1.0 - p) / n.max(1) as f64;
    (100.0 * ERRORS * (variance(real) + variance(model)).sqrt()).max(POINTS)
}

/// Waits whose key passes a test.
fn count(bars: &BTreeMap<Bar, u64>, test: &dyn Fn(&Bar) -> bool) -> u64 {
    bars.iter().filter(|(bar, _)| test(bar)).map(|(_, count)| count).sum()
}

/// A share of waits, judged.
fn share_of_waits(
    field: String,
    real: &Observed,
    runs: &[Observed],
    of: &dyn Fn(&Bar) -> bool,
    by: &dyn Fn(&Bar) -> bool,
) -> Figure {
    let quotient = |(of, by): (u64, u64)| (by > 0).then(|| of as f64 / by as f64);
    let real = (count(&real.direct, of), count(&real.direct, by));
    let each: Vec<(u64, u64)> =
        runs.iter().map(|run| (count(&run.direct, of), count(&run.direct, by))).collect();
    let sums = each.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let each: Vec<Option<f64>> = each.into_iter().map(quotient).collect();
    share(field, quotient(real), quotient(sums), &each, points(real, sums))
}

/// Shares of throttled waits.
fn waits(real: &Observed, runs: &[Observed]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let reasons: BTreeSet<&str> = std::iter::once(real)
        .chain(runs)
        .flat_map(|run| run.direct.keys())
        .map(|(reason, ..)| reason.as_str())
        .collect();
    let any = |_: &Bar| true;
    for &reason in &reasons {
        let is = |bar: &Bar| bar.0 == reason;
        let name = short(reason);
        let field = format!("throttled waits: share of {name}");
        figures.push(share_of_waits(field, real, runs, &is, &any));
        if count(&real.direct, &is) >= WAITS_MIN {
            let at_once = |bar: &Bar| is(bar) && bar.2 == 0;
            let timed_out = |bar: &Bar| is(bar) && bar.2 >= bar.1;
            let field = format!("{name} waits: share that returned at once");
            figures.push(share_of_waits(field, real, runs, &at_once, &is));
            let field = format!("{name} waits: share that timed out");
            figures.push(share_of_waits(field, real, runs, &timed_out, &is));
        }
    }
    // kswapd among all who were throttled.
    let kswapd = |run: &Observed| {
        let waits = run.kswapd.values().sum::<u64>();
        (waits, waits + run.direct.values().sum::<u64>())
    };
    let quotient = |(of, by): (u64, u64)| (by > 0).then(|| of as f64 / by as f64);
    let (real, each): (_, Vec<_>) = (kswapd(real), runs.iter().map(kswapd).collect());
    let sums = each.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let each: Vec<Option<f64>> = each.into_iter().map(quotient).collect();
    let field = "throttled waits: share of kswapd".to_owned();
    figures.push(share(field, quotient(real), quotient(sums), &each, points(real, sums)));
    figures
}

/// `ISOLATED`.
fn short(reason: &str) -> &str {
    reason.strip_prefix(PREFIX).unwrap_or(reason)
}

/// What is reported and not judged.
pub(super) fn notes(real: &Observed, runs: &[Observed], seconds: f64) -> Vec<String> {
    let nr_runs = runs.len() as f64;
    let mut notes = vec![format!(
        "judged: the shapes above, of {} runs together (in brackets: one by one); reported: the rest, means of a run",
        runs.len()
    )];
    for key in COUNTERS {
        let model = runs.iter().map(|run| sum(run, key)).sum::<f64>() / nr_runs;
        let real = sum(real, key);
        if real > 0.0 || model > 0.0 {
            let name = if key.contains("allocstall") { "allocstall" } else { key };
            notes.push(format!("{name}: Linux {real:.0}, model {model:.0}"));
        }
    }
    let model: Vec<f64> = runs.iter().flat_map(|run| run.latency_ms.iter().copied()).collect();
    let per_run = |count: f64| count / nr_runs;
    let waits = |run: &Observed| run.direct.values().chain(run.kswapd.values()).sum::<u64>();
    notes.push(format!(
        "throttled waits: Linux {}, model {:.1}",
        waits(real),
        per_run(runs.iter().map(waits).sum::<u64>() as f64)
    ));
    notes.push(format!(
        "latency operations in {seconds} s: Linux {}, model {:.1}",
        real.latency_ms.len(),
        per_run(model.len() as f64)
    ));
    for (name, part) in [("median", 0.5), ("90 %", 0.9), ("largest", 1.0)] {
        let (real, model) = (quantile(&real.latency_ms, part), quantile(&model, part));
        notes.push(format!("latency {name} in ms: Linux {real:.0}, model {model:.0}"));
    }
    for (who, bars) in [("", 0), ("kswapd ", 1)] {
        let of = |run: &Observed| if bars == 0 { run.direct.clone() } else { run.kswapd.clone() };
        let (real, models): (_, Vec<_>) = (of(real), runs.iter().map(of).collect());
        let keys: BTreeSet<Bar> =
            real.keys().chain(models.iter().flat_map(BTreeMap::keys)).cloned().collect();
        for key in keys {
            let count = |bars: &BTreeMap<Bar, u64>| bars.get(&key).copied().unwrap_or(0);
            let mean = models.iter().map(count).sum::<u64>() as f64 / nr_runs;
            let (reason, timeout, delayed) = (short(&key.0), key.1, key.2);
            let real = count(&real);
            notes.push(format!(
                "{who}throttled {reason}, {delayed} of {timeout} us: Linux {real}, model {mean:.1}"
            ));
        }
    }
    notes
}

/// The value that this part of the values does not exceed; 0 without values.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(counters: &[(&str, i64)], bars: &[(&str, u64, u64, u64)]) -> Observed {
        let mut observed = Observed::default();
        for (name, value) in counters {
            observed.counters.set(name, *value);
        }
        for &(reason, timeout, delayed, count) in bars {
            let key = (format!("{PREFIX}{reason}"), timeout, delayed);
            observed.direct.insert(key, count);
        }
        observed
    }

    fn figure<'a>(figures: &'a [Figure], field: &str) -> &'a Figure {
        figures.iter().find(|figure| figure.field.contains(field)).expect(field)
    }

    #[test]
    fn ratios_are_of_all_runs_together() {
        let real = observed(&[("pgscan_direct", 3000), ("pgsteal_direct", 100)], &[]);
        let runs = |scanned: i64| {
            let one = observed(&[("pgscan_direct", scanned), ("pgsteal_direct", 50)], &[]);
            let other = observed(&[("pgscan_direct", 1000), ("pgsteal_direct", 150)], &[]);
            [one, other]
        };
        let ratio = |scanned: i64| {
            let figures = figures(&real, &runs(scanned));
            let figure = figure(&figures, "direct reclaim").clone();
            (figure.model, figure.agrees)
        };
        assert_eq!(ratio(2000), ("15.00 (6.67 to 40.00)".to_owned(), true));
        assert!(!ratio(1990).1);
        // kswapd did nothing anywhere.
        assert!(figure(&figures(&real, &runs(0)), "kswapd: pages").agrees);
    }

    #[test]
    fn few_waits_may_differ_by_chance() {
        // Four times the error of 7.2 points, and next to nothing for the many.
        let half = points((24, 47), (50_000, 100_000));
        assert!((half - 29.2).abs() < 0.1, "{half}");
        // The fewer there are on either side, the less they say.
        assert!((points((24, 47), (25, 47)) - 41.2).abs() < 0.1);
        assert!((points((0, 47), (2, 11)) - 29.2).abs() < 0.1);
        assert!((points((10_000, 10_000), (30_000, 30_000)) - POINTS).abs() < f64::EPSILON);
        assert!(points((0, 0), (0, 5)) > 100.0, "nothing is known of what did not happen");
    }

    #[test]
    fn reasons_and_how_waits_ended() {
        let real = observed(
            &[],
            &[
                ("ISOLATED", 20_000, 0, 24),
                ("ISOLATED", 20_000, 8000, 21),
                ("ISOLATED", 20_000, 20_000, 2),
            ],
        );
        let same =
            [observed(&[], &[("ISOLATED", 20_000, 0, 240), ("ISOLATED", 20_000, 12_000, 230)])];
        assert!(figures(&real, &same).iter().all(|figure| figure.agrees));
        let other =
            [observed(&[], &[("ISOLATED", 20_000, 20_000, 60), ("NOPROGRESS", 4000, 0, 140)])];
        let figures = figures(&real, &other);
        for field in ["share of ISOLATED", "share of NOPROGRESS", "timed out", "at once"] {
            assert!(!figure(&figures, field).agrees, "{field}");
        }
    }

    #[test]
    fn quantiles_of_few_values() {
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
    }
}
