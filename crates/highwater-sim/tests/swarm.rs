//! Random machines under random load, by seed. See [`highwater_sim::swarm`].
//!
//! ```text
//! HIGHWATER_SWARM_SEED=123 cargo test --release -p highwater-sim --test all -- --nocapture one_seed
//! ```
//!
//! shows the choices of seed 123 and runs it. A seed may be any word, such as a commit's hash.
//! `HIGHWATER_SWARM_VERBOSE=1` prints more when many seeds run. `scripts/swarm` runs a thousand.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use highwater_sim::swarm::{Options, Summary, check};

/// Seeds that every test run tries; the gate (`.ci/run`) tries more of them.
const SLICE: std::ops::Range<u64> = 0..10;

/// Both runs of a seed take less time than this on any machine.
const HANGS_AFTER: Duration = Duration::from_secs(600);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, usual: u64) -> u64 {
    variable(name).map_or(usual, |value| value.parse().expect(name))
}

/// A number as it is; for any other word the hash (FNV-1a).
fn parse_seed(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| {
        word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    })
}

fn how_to_see(seed: u64) -> String {
    format!(
        "to see it again:\n  HIGHWATER_SWARM_SEED={seed} \
         cargo test --release -p highwater-sim --test all -- --nocapture one_seed"
    )
}

/// A seed's verdict; a failure comes with everything needed to reproduce it.
fn verdict(seed: u64) -> Result<Summary, String> {
    let mut options = String::new();
    let mut run = || {
        let drawn = Options::draw(seed);
        options = drawn.to_string();
        check(&drawn)
    };
    let verdict = catch_unwind(AssertUnwindSafe(&mut run));
    let tell = |what: String| format!("{options}\n\nseed {seed}: {what}\n\n{}\n", how_to_see(seed));
    match verdict {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err(failure)) => Err(tell(failure.to_string())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Err(tell(format!("panicked: {text}")))
        }
    }
}

#[test]
fn slice() {
    for seed in SLICE {
        verdict(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn one_seed() {
    let Some(word) = variable("HIGHWATER_SWARM_SEED") else { return };
    let seed = parse_seed(&word);
    println!("{}\n", Options::draw(seed));
    match verdict(seed) {
        Ok(summary) => println!("seed {seed}: {summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// Totals of a swarm.
#[derive(Default)]
struct Total {
    nr_seeds: u64,
    failures: Vec<(u64, String)>,
    /// Number of seeds that covered each item.
    covered: Vec<(&'static str, u64)>,
}

impl Total {
    fn add(&mut self, summary: &Summary) {
        let facts = [
            ("out of memory", summary.nr_oom_kills),
            ("scanned by kswapd", summary.scanned_kswapd),
            ("scanned directly", summary.scanned_direct),
            ("swapped out", summary.swapped_out),
            ("swapped in", summary.swapped_in),
            ("moved", summary.migrated),
            ("not moved", summary.migrate_failed),
            ("huge faults", summary.huge_faults),
            ("huge splits", summary.huge_splits),
            ("huge collapses", summary.huge_collapses),
            ("huge swapped", summary.huge_swapped),
            ("I/O errors", summary.nr_io_errors),
            ("calls without memory", summary.nr_no_memory),
            ("killed in a call", summary.nr_killed),
        ];
        self.covered.resize(facts.len(), ("", 0));
        for (total, (name, number)) in self.covered.iter_mut().zip(facts) {
            total.0 = name;
            total.1 += u64::from(number > 0);
        }
    }
}

/// `HIGHWATER_SWARM_FIRST` and `_COUNT` select the seeds; `_JOBS` is the number of parallel runs.
#[test]
#[ignore = "takes minutes; scripts/swarm runs it"]
fn many_seeds() {
    let first = variable("HIGHWATER_SWARM_FIRST").map_or(0, |word| parse_seed(&word));
    let count = number("HIGHWATER_SWARM_COUNT", 1000);
    let jobs = number("HIGHWATER_SWARM_JOBS", 2);
    let is_verbose = variable("HIGHWATER_SWARM_VERBOSE").is_some();
    let next = AtomicU64::new(first);
    let total = Mutex::new(Total::default());
    let running: Mutex<BTreeMap<u64, Instant>> = Mutex::default();
    let work = || {
        while let Some(seed) =
            Some(next.fetch_add(1, Relaxed)).filter(|s| s.wrapping_sub(first) < count)
        {
            let start = Instant::now();
            running.lock().expect("nobody panics with it").insert(seed, start);
            let verdict = verdict(seed);
            let took = start.elapsed();
            running.lock().expect("nobody panics with it").remove(&seed);
            let mut total = total.lock().expect("nobody panics with it");
            total.nr_seeds += 1;
            match verdict {
                Ok(summary) => {
                    total.add(&summary);
                    if is_verbose || took.as_secs() >= 20 {
                        println!("seed {seed}: {took:.1?}: {summary}");
                    }
                }
                Err(failure) => {
                    println!("FAILED\n{failure}");
                    total.failures.push((seed, failure));
                }
            }
            if total.nr_seeds.is_multiple_of(100) {
                println!("{} seeds, {} failed", total.nr_seeds, total.failures.len());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        // A loop that no event ends cannot be stopped from inside.
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(200));
            for (seed, start) in running.lock().expect("nobody panics with it").iter() {
                if start.elapsed() > HANGS_AFTER {
                    println!("seed {seed}: no end after {HANGS_AFTER:?}\n{}", how_to_see(*seed));
                    std::process::abort();
                }
            }
        }
    });
    let total = total.into_inner().expect("nobody panicked with it");
    println!("{} seeds; with {:?}", total.nr_seeds, total.covered);
    let failed: Vec<u64> = total.failures.iter().map(|&(seed, _)| seed).collect();
    assert!(failed.is_empty(), "{} seeds failed: {failed:?}", failed.len());
}

#[test]
fn seeds_are_numbers_or_any_word() {
    assert_eq!(parse_seed("123"), 123);
    assert_eq!(parse_seed("1145dee"), parse_seed("1145dee"));
    assert_ne!(parse_seed("1145dee"), parse_seed("1145def"));
}
