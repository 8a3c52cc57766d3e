//! `highwater swarm`: random machines under random load, by seed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use highwater_sim::swarm::{Options, Summary, parse_seed, verdict};

use super::args::SwarmArgs;
use super::{CliError, Outcome, print};

/// Both runs of a seed take less time than this on any computer.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// The checks of a passed seed.
const CHECKED: &str = "checked: every task ended, no error without a cause, audits of all memory at quiet points \
                       and at the end, nothing left after all was freed, a second run with the same events, all \
                       time booked";

/// Runs the seeds and prints each one's verdict.
pub(super) fn run(args: &SwarmArgs) -> Result<Outcome, CliError> {
    let first = parse_seed(&args.seed);
    if args.seed.parse::<u64>().is_err() {
        print(&format!("seed {}: {first}\n", args.seed))?;
    }
    if args.seeds == 1 {
        print(&format!("{}\n\n", Options::draw(first)))?;
    }
    let jobs = args.jobs.said().unwrap_or_else(crate::plan::processors);
    let mut total = Total::default();
    run_all(first, args.seeds, jobs, |seed, verdict| {
        total.add(seed, &verdict);
        print(&told(seed, &verdict, args.seeds == 1))
    })?;
    if args.seeds > 1 {
        print(&total.told())?;
    }
    Ok(if total.failed.is_empty() { Outcome::Done } else { Outcome::Disagrees })
}

type Verdict = Result<Summary, String>;

/// Runs seeds on `jobs` threads; `done` gets each verdict, in the order of the seeds.
fn run_all(
    first: u64,
    count: u64,
    jobs: usize,
    mut done: impl FnMut(u64, Verdict) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let next = AtomicU64::new(0);
    let running: Mutex<BTreeMap<u64, Instant>> = Mutex::default();
    let note = |change: &dyn Fn(&mut BTreeMap<u64, Instant>)| {
        if let Ok(mut running) = running.lock() {
            change(&mut running);
        }
    };
    let (sender, verdicts) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(usize::try_from(count).unwrap_or(jobs)) {
            let (sender, next, note) = (sender.clone(), &next, &note);
            scope.spawn(move || {
                while let Some(nth) = Some(next.fetch_add(1, Relaxed)).filter(|&nth| nth < count) {
                    let seed = first.wrapping_add(nth);
                    note(&|running| {
                        running.insert(seed, Instant::now());
                    });
                    let verdict = verdict(seed);
                    note(&|running| {
                        running.remove(&seed);
                    });
                    if sender.send((nth, verdict)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut told = 0;
        let mut result = Ok(());
        loop {
            match verdicts.recv_timeout(Duration::from_millis(200)) {
                Ok((nth, verdict)) => {
                    early.insert(nth, verdict);
                }
                Err(RecvTimeoutError::Disconnected) => return result,
                // A loop that no event ends cannot be stopped from inside.
                Err(RecvTimeoutError::Timeout) => note(&stop_if_one_hangs),
            }
            while let Some(verdict) = early.remove(&told) {
                if result.is_ok() {
                    result = done(first.wrapping_add(told), verdict);
                }
                told += 1;
            }
            if result.is_err() {
                // Nobody reads any more: the seeds that run are the last.
                next.store(count, Relaxed);
            }
        }
    })
}

fn stop_if_one_hangs(running: &mut BTreeMap<u64, Instant>) {
    let Some((seed, _)) = running.iter().find(|(_, start)| start.elapsed() > HANGS_AFTER) else {
        return;
    };
    let verdict = Err(format!("no end after {} s of this computer's time", HANGS_AFTER.as_secs()));
    // Nothing is left to do if even this cannot be printed.
    let _ = print(&told(*seed, &verdict, false));
    process::exit(1);
}

/// The verdict on a seed, for people. `is_only`: its options were printed already.
fn told(seed: u64, verdict: &Verdict, is_only: bool) -> String {
    match verdict {
        Ok(summary) if is_only => {
            format!("{}\n{CHECKED}\nseed {seed}: passed\n", phases(summary))
        }
        Ok(summary) => format!("seed {seed}: passed; {summary}\n"),
        Err(failure) => {
            let mut text = String::new();
            if !is_only {
                // Of several seeds only those that fail show what they drew.
                let _ = writeln!(text, "{}\n", Options::draw(seed));
            }
            let _ = writeln!(text, "seed {seed}: FAILED: {failure}");
            let _ = writeln!(text, "repeat it: highwater swarm {seed}");
            text
        }
    }
}

/// The counts of the two phases.
fn phases(summary: &Summary) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let safe_ops = summary.nr_ops - summary.nr_live_ops;
    let mut text = format!(
        "safety, with faults: {:.3} s, {safe_ops} operations of {} tasks, {} audits; {} failed transfers, \
         {} calls with I/O errors, {} without memory, {} killed, {} OOM kills\n\
         liveness, faults off: {:.3} s, {} operations; {} tasks did all of theirs, {} were killed for lack of \
         memory, none is left\n\
         memory: scanned {} by kswapd, {} directly; swapped {} out, {} in; moved {}",
        seconds(summary.healed_ns),
        summary.nr_tasks,
        summary.nr_audits,
        summary.nr_failed_transfers,
        summary.nr_io_errors,
        summary.nr_no_memory,
        summary.nr_killed,
        summary.nr_oom_kills,
        seconds(summary.virtual_ns.saturating_sub(summary.healed_ns)),
        summary.nr_live_ops,
        summary.nr_finished,
        summary.nr_cut_short,
        summary.scanned_kswapd,
        summary.scanned_direct,
        summary.swapped_out,
        summary.swapped_in,
        summary.migrated,
    );
    if summary.has_made_room {
        text.push_str(
            "\nmemory was full: after the faults programs could not start, or waited for ever, until ballast \
             and files in memory were deleted",
        );
    }
    if summary.nr_missed > 0 {
        let _ = write!(
            text,
            "\n{} audits left out: kswapd of this kernel did not stop",
            summary.nr_missed
        );
    }
    text
}

/// Totals of several seeds.
#[derive(Default)]
struct Total {
    nr_seeds: u64,
    failed: Vec<u64>,
    /// The counts, and the number of seeds.
    covered: BTreeMap<&'static str, u64>,
}

impl Total {
    fn add(&mut self, seed: u64, verdict: &Verdict) {
        self.nr_seeds += 1;
        let summary = match verdict {
            Ok(summary) => summary,
            Err(_) => return self.failed.push(seed),
        };
        for (what, number) in [
            ("direct reclaim", summary.scanned_direct),
            ("audits left out", summary.nr_missed),
            ("failed transfers", summary.nr_failed_transfers),
            ("huge faults", summary.huge_faults),
            ("huge pages swapped whole", summary.huge_swapped),
            ("huge splits", summary.huge_splits),
            ("khugepaged", summary.huge_collapses),
            ("kswapd", summary.scanned_kswapd),
            ("memory full at the end", summary.has_made_room.into()),
            ("migration", summary.migrated),
            ("OOM kills", summary.nr_oom_kills),
            ("swap-in", summary.swapped_in),
            ("swap-out", summary.swapped_out),
        ] {
            *self.covered.entry(what).or_default() += u64::from(number > 0);
        }
    }

    fn told(&self) -> String {
        let covered: Vec<String> =
            self.covered.iter().map(|(what, seeds)| format!("{what} {seeds}")).collect();
        let mut text = format!("{} seeds; seeds with {}\n", self.nr_seeds, covered.join(", "));
        let _ = match self.failed.len() {
            0 => writeln!(text, "{CHECKED}\nall passed"),
            nr => writeln!(text, "{nr} failed: {:?}", self.failed),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let text = told(7, &Err("left at the end: 3 pages".to_owned()), true);
        assert_eq!(
            text,
            "seed 7: FAILED: left at the end: 3 pages\nrepeat it: highwater swarm 7\n"
        );
        let text = told(7, &Err("left".to_owned()), false);
        assert!(text.starts_with(&Options::draw(7).to_string()), "{text}");
        let mut total = Total::default();
        total.add(7, &Err("left".to_owned()));
        total.add(8, &Ok(Summary { swapped_in: 3, ..Summary::default() }));
        let text = total.told();
        assert!(text.starts_with("2 seeds; ") && text.contains("swap-in 1"), "{text}");
        assert!(text.ends_with("1 failed: [7]\n"), "{text}");
    }
}
