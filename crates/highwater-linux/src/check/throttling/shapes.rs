//! The shapes that are judged for every captured program, and how the rest is printed.

use std::collections::{BTreeMap, BTreeSet};

use super::figures::{ERRORS, FACTOR, POINTS, Parts, Quotients, pooled};
use super::observed::{Bar, Bars, MSLEEP, Observed, count};
use crate::check::Figure;

/// Fewest waits of a kind whose endings are judged: with fewer, chance allows any result.
const WAITS_MIN: u64 = 16;

/// A test of a wait.
type Test<'a> = &'a dyn Fn(&Bar) -> bool;
/// A kind of task: its name in figures and in bars, and its waits.
type Side = (&'static str, &'static str, fn(&Observed) -> &Bars);
const SIDES: [Side; 2] =
    [("direct reclaim", "", |run| &run.direct), ("kswapd", "kswapd ", |run| &run.kswapd)];

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
    Quotient {
        name: "direct reclaim of the pages scanned",
        of: "pgscan_direct",
        by: "pgscan_direct+pgscan_kswapd",
    },
];
/// Printed, not judged: these depend on speed, or on which task came first.
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

/// Everything judged.
pub(super) fn figures(real: &[Observed], model: &[Observed]) -> Vec<Figure> {
    let of = |q: &Quotient| {
        Quotients::new(real, model, |run| Parts { of: run.sum(q.of), by: run.sum(q.by) })
    };
    let rate = Quotients::new(real, model, |run| Parts { of: run.rate("pgscan_direct"), by: 1.0 });
    let mut figures = vec![rate.ratio("direct reclaim: pages scanned a second", FACTOR)];
    figures.extend(RATIOS.iter().map(|q| of(q).ratio(q.name, FACTOR)));
    figures.extend(SHARES.iter().map(|q| of(q).share(&format!("share of {}", q.name), POINTS)));
    figures.extend(numbers_of_waits(real, model));
    figures.extend(waits(real, model));
    figures
}

/// Percentage points by which the shares of two sets of waits may differ; each is how many of how many.
fn points((real_of, real): (u64, u64), (model_of, model): (u64, u64)) -> f64 {
    // Add one of each kind: zero among a few does not mean never.
    let p = (real_of + model_of + 1) as f64 / (real + model + 2) as f64;
    let variance = |n: u64| p * (1.0 - p) / n.max(1) as f64;
    (100.0 * ERRORS * (variance(real) + variance(model)).sqrt()).max(POINTS)
}

/// A share of waits, judged. `parts` is how many of how many of a run.
fn share_of_waits(
    field: &str,
    real: &[Observed],
    model: &[Observed],
    parts: &dyn Fn(&Observed) -> (u64, u64),
) -> Figure {
    let sums = |runs: &[Observed]| {
        runs.iter().map(parts).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let points = points(sums(real), sums(model));
    let quotients = Quotients::new(real, model, |run| {
        let (of, by) = parts(run);
        Parts { of: of as f64, by: by as f64 }
    });
    quotients.share(field, points)
}

/// The kinds of waits seen on either side.
fn kinds<'r>(
    real: &'r [Observed],
    model: &'r [Observed],
    bars: fn(&Observed) -> &Bars,
) -> BTreeSet<&'r str> {
    let runs = real.iter().chain(model);
    runs.flat_map(move |run| bars(run).keys()).map(|(kind, ..)| kind.as_str()).collect()
}

/// How often each kind of wait came in a run.
fn numbers_of_waits(real: &[Observed], model: &[Observed]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (who, _, bars) in SIDES {
        for kind in kinds(real, model, bars) {
            let number = Quotients::new(real, model, |run| {
                let is = |bar: &Bar| bar.0 == kind;
                Parts { of: count(bars(run), &is) as f64, by: 1.0 }
            });
            figures.push(number.count(&format!("{who}: {kind} waits in a run")));
        }
    }
    // Counted in some runs only. A kernel that wakes its sleepers has none.
    let number = Quotients::new(real, model, |run| Parts {
        of: run.msleep100.unwrap_or(0) as f64,
        by: if run.msleep100.is_some() { 1.0 } else { 0.0 },
    });
    if number.real.iter().any(|run| run.by > 0.0) {
        figures.push(number.count(&format!("direct reclaim: {MSLEEP} waits in a run")));
    }
    figures
}

/// Shares of waits.
fn waits(real: &[Observed], model: &[Observed]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let any = |_: &Bar| true;
    for kind in kinds(real, model, |run| &run.direct) {
        let is = |bar: &Bar| bar.0 == kind;
        let field = format!("throttled waits: share of {kind}");
        figures.push(share_of_waits(&field, real, model, &|run| {
            (count(&run.direct, &is), count(&run.direct, &any))
        }));
        let seen: u64 = real.iter().map(|run| count(&run.direct, &is)).sum();
        if seen >= WAITS_MIN {
            let at_once = |bar: &Bar| is(bar) && bar.2 == 0;
            let timed_out = |bar: &Bar| is(bar) && bar.2 >= bar.1;
            let ends: [Test<'_>; 2] = [&at_once, &timed_out];
            for (how, end) in ["returned at once", "timed out"].into_iter().zip(ends) {
                let field = format!("{kind} waits: share that {how}");
                figures.push(share_of_waits(&field, real, model, &|run| {
                    (count(&run.direct, end), count(&run.direct, &is))
                }));
            }
        }
    }
    // kswapd's share of all throttled waits.
    let field = "throttled waits: share of kswapd";
    figures.push(share_of_waits(field, real, model, &|run| {
        let waits = count(&run.kswapd, &any);
        (waits, waits + count(&run.direct, &any))
    }));
    figures
}

/// Figures that are reported and not judged.
pub(super) fn notes(real: &[Observed], model: &[Observed], seconds: f64) -> Vec<String> {
    let mean = |runs: &[Observed], of: &dyn Fn(&Observed) -> f64| {
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    };
    let mut notes = vec![format!(
        "judged: the shapes above, of {} runs together (in brackets: one by one); reported: the rest, means of a run",
        model.len()
    )];
    for key in COUNTERS {
        let of = |run: &Observed| run.sum(key);
        let (real, model) = (mean(real, &of), mean(model, &of));
        if real > 0.0 || model > 0.0 {
            let name = if key.contains("allocstall") { "allocstall" } else { key };
            notes.push(format!("{name}: Linux {real:.0}, model {model:.0}"));
        }
    }
    let timed: Vec<Observed> = real.iter().filter(|run| run.system_s.is_some()).cloned().collect();
    if !timed.is_empty() {
        let of = |run: &Observed| run.system_s.unwrap_or(0.0);
        notes.push(format!(
            "system CPU seconds: Linux {:.1}, model {:.1}",
            mean(&timed, &of),
            mean(model, &of)
        ));
    }
    let cost = |runs: &[Observed]| {
        let late = runs.iter().filter_map(|run| run.late);
        let parts = late.map(|late| Parts {
            of: late.system_s * 1e6,
            by: late.scanned_direct + late.scanned_kswapd,
        });
        pooled(&parts.collect::<Vec<_>>())
    };
    if let (Some(real), Some(model)) = (cost(real), cost(model)) {
        notes.push(format!(
            "after 10 s: system CPU microseconds per page scanned: Linux {real:.1}, model {model:.1}"
        ));
    }
    let waits = |run: &Observed| run.direct.values().chain(run.kswapd.values()).sum::<u64>() as f64;
    notes.push(format!(
        "throttled waits: Linux {:.0}, model {:.1}",
        mean(real, &waits),
        mean(model, &waits)
    ));
    let operations = |run: &Observed| run.latency_ms.len() as f64;
    notes.push(format!(
        "latency operations in {seconds} s: Linux {:.0}, model {:.1}",
        mean(real, &operations),
        mean(model, &operations)
    ));
    let times = |runs: &[Observed]| -> Vec<f64> {
        runs.iter().flat_map(|run| run.latency_ms.iter().copied()).collect()
    };
    let (real_ms, model_ms) = (times(real), times(model));
    for (name, part) in [("median", 0.5), ("90 %", 0.9), ("largest", 1.0)] {
        let (real, model) = (quantile(&real_ms, part), quantile(&model_ms, part));
        notes.push(format!("latency {name} in ms: Linux {real:.0}, model {model:.0}"));
    }
    for (_, who, bars) in SIDES {
        let keys: BTreeSet<Bar> =
            real.iter().chain(model).map(bars).flat_map(BTreeMap::keys).cloned().collect();
        for key in keys {
            let of = |run: &Observed| bars(run).get(&key).copied().unwrap_or(0) as f64;
            let (kind, timeout, delayed) = &key;
            notes.push(format!(
                "{who}throttled {kind}, {delayed} of {timeout} us: Linux {}, model {:.1}",
                mean(real, &of),
                mean(model, &of)
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

    fn observed(bars: &[(&str, u64, u64, u64)]) -> Observed {
        let mut observed = Observed::default();
        for &(kind, timeout, delayed, count) in bars {
            observed.direct.insert((kind.to_owned(), timeout, delayed), count);
        }
        observed
    }

    fn figure<'a>(figures: &'a [Figure], field: &str) -> &'a Figure {
        figures.iter().find(|figure| figure.field.contains(field)).expect(field)
    }

    #[test]
    fn few_waits_may_differ_by_chance() {
        // Four times the error of 7.2 points; the large sample adds almost nothing.
        let half = points((24, 47), (50_000, 100_000));
        assert!((half - 29.2).abs() < 0.1, "{half}");
        // A smaller sample on either side allows a larger difference.
        assert!((points((24, 47), (25, 47)) - 41.2).abs() < 0.1);
        assert!((points((0, 47), (2, 11)) - 29.2).abs() < 0.1);
        assert!((points((10_000, 10_000), (30_000, 30_000)) - POINTS).abs() < f64::EPSILON);
        assert!(points((0, 0), (0, 5)) > 100.0, "nothing is known of what did not happen");
    }

    #[test]
    fn kinds_of_waits_and_how_they_ended() {
        let real = [observed(&[
            ("ISOLATED", 20_000, 0, 24),
            ("ISOLATED", 20_000, 8000, 21),
            ("ISOLATED", 20_000, 20_000, 2),
        ])];
        let same = [observed(&[("ISOLATED", 20_000, 0, 24), ("ISOLATED", 20_000, 12_000, 23)])];
        let differing = |model: &[Observed]| -> Vec<String> {
            let figures = figures(&real, model);
            figures.into_iter().filter(|figure| !figure.agrees).map(|figure| figure.field).collect()
        };
        assert_eq!(differing(&same), [""; 0]);
        let other = [observed(&[("ISOLATED", 20_000, 20_000, 200), ("NOPROGRESS", 4000, 0, 140)])];
        let figures = figures(&real, &other);
        for field in [
            "direct reclaim: ISOLATED waits",
            "direct reclaim: NOPROGRESS waits",
            "share of ISOLATED",
            "share of NOPROGRESS",
            "timed out",
            "at once",
        ] {
            assert!(!figure(&figures, field).agrees, "{field}");
        }
    }

    #[test]
    fn sleeps_that_nobody_counted_are_not_judged() {
        let counted = |n| Observed { msleep100: n, ..Observed::default() };
        let number = |real: &[Observed]| {
            let figures = figures(real, &[counted(Some(5))]);
            figures.into_iter().find(|figure| figure.field.contains(MSLEEP))
        };
        assert_eq!(number(&[counted(None)]), None);
        assert_eq!(number(&[counted(None), counted(Some(6))]).map(|f| f.agrees), Some(true));
    }

    #[test]
    fn quantiles_of_few_values() {
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
    }
}
