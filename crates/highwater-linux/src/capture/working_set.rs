//! Memory that a process touches in an interval: clear the referenced bits, wait, and read them
//! again.
//!
//! Writing 1 to `/proc/PID/clear_refs` clears the referenced bit of every page that the process
//! maps. `Referenced` in `smaps` then counts pages that were touched since. It is read twice, after
//! half of the interval and at its end. Random touches of a hot set of H pages at rate r reference
//! `H (1 - exp(-r t / H))` pages after t. So two readings give both H and r.
//!
//! Reclaim uses the same bits. Clearing them makes all of a process's memory look idle to the
//! kernel once.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use highwater_results::words::refusal;

use super::Source;
use super::process::{self, Process};
use super::smaps::{Area, Kind};

const PAGE: f64 = 4096.0;
/// Most touches of each hot page in the whole interval that can be measured. Above this the second
/// reading adds nothing, so a higher rate looks the same.
const TOUCHES_MOST: f64 = 6.0;
/// The same with one reading only: 95 % of the hot set have been touched.
const TOUCHES_ONE: f64 = 3.0;
/// Less of a mapping than this counts as none.
const LEAST: u64 = 4096;

/// Pages that a process touched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkingSet {
    /// Seconds from the clearing to the last reading.
    pub seconds: f64,
    /// Seconds to the reading at half time; `None` if there was only one reading.
    pub half_seconds: Option<f64>,
    /// Touched bytes of each kind and key, at half time and at the end.
    pub touched: BTreeMap<(Kind, String), [u64; 2]>,
}

/// How a mapping is touched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touching {
    /// Touched bytes of it.
    pub hot: u64,
    /// Touches a second.
    pub rate: f64,
}

impl WorkingSet {
    /// Touched bytes of all mappings.
    pub fn bytes(&self) -> u64 {
        self.touched.values().fold(0, |sum, [_, full]| sum.saturating_add(*full))
    }

    /// How these mappings are touched, of which `rss` bytes are resident; `None` if they are not
    /// touched.
    pub fn touching(&self, areas: &[(Kind, String)], rss: u64) -> Option<Touching> {
        let mut sums = [0u64; 2];
        for bytes in areas.iter().filter_map(|area| self.touched.get(area)) {
            sums = [sums[0].saturating_add(bytes[0]), sums[1].saturating_add(bytes[1])];
        }
        let [half, full] = sums;
        let whole = rss.max(full);
        if full < LEAST || self.seconds <= 0.0 {
            return None;
        }
        let half = self.half_seconds.map(|seconds| (half as f64, seconds));
        Some(fitted(whole as f64, half, (full as f64, self.seconds)))
    }
}

/// The hot set and the touch rate that explain the bytes touched at half time and at the end.
fn fitted(whole: f64, half: Option<(f64, f64)>, (full, seconds): (f64, f64)) -> Touching {
    let touched = |turns: f64| 1.0 - (-turns).exp();
    // How often each page of the hot set is touched in the whole time.
    let turns = match half {
        None => TOUCHES_ONE,
        Some((half, half_seconds)) => {
            // With x = exp(-turns / 2): full / half = (1 - x x) / (1 - x) = 1 + x. The formula also
            // serves for times near a half.
            let ratio = (full / half.max(1.0))
                .powf((0.5 * seconds / half_seconds.max(1e-9)).clamp(0.5, 1.0));
            let x = (ratio - 1.0).clamp((-TOUCHES_MOST / 2.0).exp(), 1.0);
            -2.0 * x.ln()
        }
    };
    let turns = turns.min(TOUCHES_MOST);
    let hot = if turns > 0.0 { full / touched(turns) } else { f64::INFINITY };
    let (hot, turns) = match hot < whole {
        true => (hot, turns),
        // More than the whole: everything is hot, at the rate that gives the touched bytes.
        false => {
            let share = (full / whole).min(touched(TOUCHES_MOST));
            (whole, -(1.0 - share).ln())
        }
    };
    let pages = hot / PAGE;
    Touching { hot: (pages.ceil() * PAGE) as u64, rate: turns * pages / seconds }
}

/// Measures the memory that processes touch; a note for each process that could not be measured.
pub(super) fn measure(
    source: &Source,
    seconds: Duration,
    processes: &mut [Process],
    notes: &mut Vec<String>,
) {
    if source.is_recorded() {
        // A recorded tree: the bits were cleared before the files were copied, and the given
        // interval is how long before.
        for process in processes {
            process.working_set = Some(WorkingSet {
                seconds: seconds.as_secs_f64(),
                half_seconds: None,
                touched: referenced(&process.last.areas),
            });
        }
        return;
    }
    let began = Instant::now();
    let mut cleared: Vec<Option<f64>> = Vec::new();
    for process in processes.iter() {
        let (pid, comm) = (process.pid, &process.comm);
        cleared.push(match source.tell(&format!("proc/{pid}/clear_refs"), "1") {
            Ok(()) => Some(began.elapsed().as_secs_f64()),
            Err(error) => {
                notes.push(format!(
                    "process {pid} ({comm}): its working set was not measured, its touches are a guess: clear_refs: {}",
                    refusal(&error)
                ));
                None
            }
        });
    }
    let mut halves = Vec::new();
    for part in [seconds / 2, seconds] {
        thread::sleep(part.saturating_sub(began.elapsed()));
        for (at, process) in processes.iter_mut().enumerate() {
            let Some(Some(since)) = cleared.get(at).copied() else { continue };
            let now = process::areas(source, process.pid, &BTreeMap::new());
            let is_same =
                process::began_ticks(source, process.pid) == Some(process.first.began_ticks);
            let (Ok((areas, process::Told::Smaps)), true) = (now, is_same) else {
                let (pid, comm) = (process.pid, &process.comm);
                let why = if is_same { "its smaps cannot be read" } else { "it ended" };
                notes.push(format!(
                    "process {pid} ({comm}): its working set was not measured, its touches are a guess: {why}"
                ));
                cleared[at] = None;
                process.working_set = None;
                continue;
            };
            let passed = began.elapsed().as_secs_f64() - since;
            match part < seconds {
                true => halves.push((process.pid, passed, referenced(&areas))),
                false => {
                    let half = halves.iter().find(|(pid, ..)| *pid == process.pid);
                    process.working_set = Some(joined(half, passed, referenced(&areas)));
                    // It may have grown since the last look.
                    process.has_now(areas);
                }
            }
        }
    }
}

/// Referenced bytes, by mapping.
fn referenced(areas: &[Area]) -> BTreeMap<(Kind, String), [u64; 2]> {
    let of = |area: &Area| ((area.kind, area.key.clone()), [area.referenced; 2]);
    areas.iter().map(of).collect()
}

type Half = (u32, f64, BTreeMap<(Kind, String), [u64; 2]>);

fn joined(
    half: Option<&Half>,
    seconds: f64,
    full: BTreeMap<(Kind, String), [u64; 2]>,
) -> WorkingSet {
    let mut touched = full;
    for (key, bytes) in &mut touched {
        let at_half = half.and_then(|(.., areas)| areas.get(key)).map_or(0, |[half, _]| *half);
        bytes[0] = at_half.min(bytes[1]);
    }
    WorkingSet { seconds, half_seconds: half.map(|(_, seconds, _)| *seconds), touched }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    /// Bytes of a hot set that were touched after some seconds of random touches at this rate.
    fn left(hot: f64, rate: f64, seconds: f64) -> f64 {
        hot * (1.0 - (-rate * PAGE * seconds / hot).exp())
    }

    #[test]
    fn hot_set_and_rate_come_back() {
        for (hot, rate) in [(64.0 * MIB, 4000.0), (64.0 * MIB, 1000.0), (200.0 * MIB, 3000.0)] {
            let (half, full) = (left(hot, rate, 5.0), left(hot, rate, 10.0));
            let found = fitted(1024.0 * MIB, Some((half, 5.0)), (full, 10.0));
            assert!((found.hot as f64 / hot - 1.0).abs() < 0.01, "{found:?}, {hot}");
            assert!((found.rate / rate - 1.0).abs() < 0.01, "{found:?}, {rate}");
        }
    }

    #[test]
    fn what_is_touched_in_the_time_is_what_was_touched() {
        let cases = [
            // All of it at once: the rate is capped.
            (64.0, Some(64.0), 64.0),
            // In order: as much in the second half as in the first one.
            (64.0, Some(10.0), 20.0),
            (64.0, None, 20.0),
            (20.0, None, 20.0),
            (64.0, Some(0.0), 1.0),
        ];
        for (whole, half, full) in cases {
            let half = half.map(|half: f64| (half * MIB, 5.0));
            let found = fitted(whole * MIB, half, (full * MIB, 10.0));
            let touched = left(found.hot as f64, found.rate, 10.0);
            assert!(
                (touched / (full * MIB) - 1.0).abs() < 0.06,
                "{whole} {half:?} {full}: {found:?}"
            );
            assert!(found.hot as f64 <= whole * MIB, "{found:?}");
        }
        let once = fitted(64.0 * MIB, Some((64.0 * MIB, 5.0)), (64.0 * MIB, 10.0));
        assert!(once.rate <= TOUCHES_MOST * 64.0 * MIB / PAGE / 10.0 + 1.0, "{once:?}");
    }

    #[test]
    fn an_area_that_nobody_touched_is_left_alone() {
        let area = [(Kind::Anon, String::new())];
        let set = |full| WorkingSet {
            seconds: 4.0,
            half_seconds: Some(2.0),
            touched: [((Kind::Anon, String::new()), [full; 2])].into(),
        };
        assert_eq!(set(0).touching(&area, 1 << 20), None);
        let half = set(1 << 19).touching(&area, 1 << 20);
        assert!(half.is_some_and(|found| found.hot.abs_diff(1 << 19) < 8192), "{half:?}");
        assert_eq!((set(1 << 19).touching(&[], 1 << 20), set(5).bytes()), (None, 5));
    }
}
