//! A system call that does nothing, and the timer interrupt.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::process::getppid;

use crate::cpus;
use crate::session::{Session, each, timed};

/// Calls of a sample.
const CALLS: usize = 2000;
/// How long a CPU spins while interrupts are counted, at least and at most.
const WATCHED: [Duration; 2] = [Duration::from_millis(25), Duration::from_millis(100)];
/// A gap between two looks at the clock that is shorter is no interrupt.
const GAP_MIN_NS: f64 = 400.0;
/// A longer gap is another task, or another guest of the host.
const GAP_MAX_NS: f64 = 30_000.0;
/// Kernels tick 100 to 1000 times a second.
const TICKS_PER_S: std::ops::RangeInclusive<f64> = 80.0..=1300.0;

pub(crate) fn measure(session: &mut Session<'_>) {
    session.measure("trap.getppid", "a loop of getppid", || {
        let took = timed(|| {
            for _ in 0..CALLS {
                black_box(getppid());
            }
        });
        Ok(each(took, CALLS))
    });
    let how = "gaps of 0.4 to 30 us in a loop that reads the clock; the median gap of each look";
    let watched = (session.share() / 5).clamp(WATCHED[0], WATCHED[1]);
    session.measure("interrupt.tick", how, || gap(watched));
}

/// The median gap of a CPU that spins: mostly the timer interrupt.
fn gap(watched: Duration) -> Result<f64, String> {
    if let Some(cpu) = cpus::allowed()?.first() {
        cpus::pin(*cpu)?;
    }
    let begun = Instant::now();
    let mut last = begun;
    let (mut gaps, mut away) = (Vec::new(), Duration::ZERO);
    while last - begun < watched {
        let now = Instant::now();
        let gap = (now - last).as_nanos() as f64;
        if (GAP_MIN_NS..GAP_MAX_NS).contains(&gap) {
            gaps.push(gap);
        } else if gap >= GAP_MAX_NS {
            away += now - last;
        }
        last = now;
    }
    let per_s = gaps.len() as f64 / (last - begun).saturating_sub(away).as_secs_f64().max(1e-3);
    if !TICKS_PER_S.contains(&per_s) {
        return Err(format!(
            "{per_s:.0} interrupts a second on a CPU that spins: not a timer's rate"
        ));
    }
    gaps.sort_by(f64::total_cmp);
    Ok(gaps[gaps.len() / 2])
}
