//! Figures that are judged for a storm, besides the shapes of every captured program.
//!
//! For the first seconds hogs fill free memory; after that almost all pages are under writeback.
//! The storm proper is the time after the tenth second. How long the filling takes depends on the
//! cost of a page fault.

use super::figures::{FACTOR, POINTS, Parts, Quotients};
use super::observed::{Late, Observed};
use crate::check::Figure;

pub(super) fn figures(real: &[Observed], model: &[Observed]) -> Vec<Figure> {
    let late = |parts: &dyn Fn(&Late) -> Parts| {
        Quotients::new(real, model, |run| run.late.as_ref().map(parts).unwrap_or_default())
    };
    let whole = |of: &str, by: &str| {
        Quotients::new(real, model, |run| Parts { of: run.sum(of), by: run.sum(by) })
    };
    let rate = |of: &str| Quotients::new(real, model, |run| Parts { of: run.rate(of), by: 1.0 });
    vec![
        late(&|late| Parts { of: late.scanned_direct, by: late.seconds })
            .ratio("after 10 s: direct scans a second", FACTOR),
        late(&|late| Parts { of: late.scanned_direct, by: late.stolen_direct })
            .ratio("after 10 s: pages scanned per page that direct reclaim got", FACTOR),
        late(&|late| Parts {
            of: late.scanned_direct,
            by: late.scanned_direct + late.scanned_kswapd,
        })
        .share("after 10 s: share of direct reclaim of the pages scanned", POINTS),
        rate("pgsteal_direct+pgsteal_kswapd").ratio("pages reclaimed a second", FACTOR),
        whole("pgsteal_direct", "pgsteal_direct+pgsteal_kswapd")
            .share("share of direct reclaim of the pages reclaimed", POINTS),
        rate("nr_written").ratio("pages written a second", FACTOR),
        Quotients::new(real, model, |run| Parts { of: run.sum("oom_kill"), by: 1.0 })
            .count("OOM kills in a run"),
    ]
}
