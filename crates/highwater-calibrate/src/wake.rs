//! Futex wake-ups, context switches, and interrupts between CPUs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::futex::{Flags, Timespec, wait, wake};
use rustix::thread::{MembarrierCommand, membarrier, sched_yield};
use rustix::time::{ClockId, clock_gettime};

use crate::cpus::{self, Pair};
use crate::lines::{Apart, STOP, until, with_helper};
use crate::row::{Spread, Unit};
use crate::session::{Session, each, timed};

/// Round trips of a sample.
const TRIPS: u32 = 64;
/// Sleepers that one call wakes.
const SLEEPERS: usize = 16;
/// A CPU that was idle for this long is in a shallow state.
const SHALLOW: Duration = Duration::from_micros(150);
/// A CPU that was idle for this long is in the deepest state that it goes to.
const DEEP: Duration = Duration::from_millis(25);
/// Interrupts of a sample.
const BARRIERS: usize = 30;
/// A spinning thread that does not look at the clock for this long lost its CPU.
const AWAY_NS: u64 = 60_000;
/// Nobody sleeps longer than this, whatever went wrong.
const NAP: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

pub(crate) fn measure(session: &mut Session<'_>) {
    let first = session.cpus.first().copied().unwrap_or(0);
    let on_one = Pair { a: first, b: first, relation: cpus::Relation::SameCore };
    let how = "two threads on one CPU wake each other and sleep: half of a round trip";
    let spread = ping_pong(session, on_one);
    session.put("futex.switch.one-cpu", Unit::Ns, how, spread);
    let how = format!("CPU time of a call that wakes {SLEEPERS} threads of its own CPU, for each");
    let spread = woken(session, first);
    session.put("futex.wake.one-cpu", Unit::Ns, how, spread);
    let Some(&pair) = session.pairs.first() else {
        let why = "this process may run on one CPU only";
        session.leave_out("futex.switch, futex.latency and ipi between CPUs", why);
        return;
    };
    for pair in session.pairs {
        let (of, is) = (format!("{}-{}", pair.a, pair.b), pair.relation.words());
        let how = format!("threads on two CPUs wake each other and sleep: half of a trip; {is}");
        let spread = ping_pong(session, *pair);
        session.put(format!("futex.switch.{of}"), Unit::Ns, how, spread);
    }
    for (name, idle) in [("shallow", SHALLOW), ("deep", DEEP)] {
        let how = format!(
            "from before the wake-up to the first instruction on CPU {}, asleep for {} us",
            pair.b,
            idle.as_micros()
        );
        let spread = latency(session, pair, idle);
        session.put(format!("futex.latency.{name}"), Unit::Ns, how, spread);
    }
    interrupts(session);
}

/// Sleeps while the word has this value.
fn sleep_while(word: &AtomicU32, value: u32) -> Result<(), String> {
    let begun = Instant::now();
    while word.load(Ordering::Acquire) == value {
        // Woken, changed meanwhile, a signal or the end of the nap: the word decides.
        let _ = wait(word, Flags::PRIVATE, value, Some(&NAP));
        if begun.elapsed() > Duration::from_secs(4) {
            return Err("the other thread did not answer in 4 s".to_owned());
        }
    }
    Ok(())
}

fn wake_all(word: &AtomicU32) -> Result<usize, String> {
    wake(word, Flags::PRIVATE, i32::MAX as u32).map_err(|error| format!("futex: {error}"))
}

/// Half of a round trip of two threads that sleep in turn.
fn ping_pong(session: &Session<'_>, pair: Pair) -> Result<Spread, String> {
    let word = Apart(AtomicU32::new(0));
    let word = &word.0;
    // The main thread has the turn while the word is 0.
    let helper = || {
        loop {
            sleep_while(word, 0)?;
            if word.swap(0, Ordering::AcqRel) == STOP {
                return Ok(());
            }
            wake_all(word)?;
        }
    };
    with_helper(pair, word, helper, || {
        let result = session.samples(|| {
            let begun = Instant::now();
            for _ in 0..TRIPS {
                word.store(1, Ordering::Release);
                wake_all(word)?;
                sleep_while(word, 1)?;
            }
            Ok(each(begun.elapsed(), 2 * TRIPS as usize))
        });
        word.store(STOP, Ordering::Release);
        wake_all(word)?;
        result
    })
}

/// Cost to the waker of waking a thread.
fn woken(session: &Session<'_>, cpu: usize) -> Result<Spread, String> {
    cpus::pin(cpu)?;
    let (word, asleep) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        let sleepers: Vec<_> = (0..SLEEPERS)
            .map(|_| {
                scope.spawn(|| -> Result<(), String> {
                    loop {
                        let seen = word.load(Ordering::Acquire);
                        if seen == STOP {
                            return Ok(());
                        }
                        asleep.fetch_add(1, Ordering::AcqRel);
                        sleep_while(&word, seen)?;
                    }
                })
            })
            .collect();
        let result = session.rounds(|| {
            let begun = Instant::now();
            while asleep.load(Ordering::Acquire) < SLEEPERS as u32 {
                sched_yield();
                if begun.elapsed() > Duration::from_secs(2) {
                    return Err("the sleepers did not come to rest in 2 s".to_owned());
                }
            }
            // The last one says so just before it sleeps.
            thread::sleep(Duration::from_micros(50));
            asleep.store(0, Ordering::Release);
            let t0 = cpu_time();
            wake_all(&AtomicU32::new(0))?;
            let t1 = cpu_time();
            word.fetch_add(1, Ordering::AcqRel);
            let t2 = cpu_time();
            let nr = wake_all(&word)?;
            let t3 = cpu_time();
            let ns = (t3 - t2).saturating_sub(t1 - t0).as_nanos() as f64 / SLEEPERS as f64;
            Ok((nr == SLEEPERS && ns > 0.0).then_some([ns]))
        });
        word.store(STOP, Ordering::Release);
        let woken = wake_all(&word);
        for sleeper in sleepers {
            sleeper.join().map_err(|_| "a sleeper panicked".to_owned())??;
        }
        woken?;
        result.map(|[spread]| spread)
    })
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

/// From before a wake-up until the woken thread runs on another CPU.
fn latency(session: &Session<'_>, pair: Pair, idle: Duration) -> Result<Spread, String> {
    let (word, stamp) = (Apart(AtomicU32::new(0)), Apart(AtomicU64::new(0)));
    let (word, stamp, base) = (&word.0, &stamp.0, Instant::now());
    let helper = || {
        let mut seen = 0;
        loop {
            sleep_while(word, seen)?;
            seen = word.load(Ordering::Acquire);
            if seen == STOP {
                return Ok(());
            }
            stamp.store(base.elapsed().as_nanos() as u64, Ordering::Release);
        }
    };
    with_helper(pair, word, helper, || {
        let mut next = 1;
        let result = session.rounds(|| {
            match idle > Duration::from_millis(1) {
                true => thread::sleep(idle),
                // Sleeping would let this CPU become idle, too.
                false => {
                    let begun = Instant::now();
                    while begun.elapsed() < idle {
                        std::hint::spin_loop();
                    }
                }
            }
            let before = base.elapsed().as_nanos() as u64;
            word.store(next, Ordering::Release);
            next += 1;
            let nr = wake_all(word)?;
            until(|| stamp.load(Ordering::Acquire) > before)?;
            // A thread that was not asleep was not woken.
            Ok((nr == 1).then(|| [(stamp.load(Ordering::Acquire) - before) as f64]))
        });
        word.store(STOP, Ordering::Release);
        wake_all(word)?;
        result.map(|[spread]| spread)
    })
}

/// Interrupts to CPUs that run threads of this process, which a memory barrier sends.
fn interrupts(session: &mut Session<'_>) {
    let register = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    if let Err(error) = register {
        let why = format!("the kernel does not send them for a program (membarrier: {error})");
        return session.leave_out("ipi.first, ipi.next", why);
    }
    let names = [(0, "none"), (1, "one"), (3, "three")];
    for (nr, name) in names {
        if session.cpus.len() <= nr {
            let why = format!("it takes {} CPUs", nr + 1);
            session.leave_out(format!("ipi.{name}"), why);
            continue;
        }
        let how = format!("membarrier while threads of this process spin on other CPUs: {nr}");
        let spread = spinners(session, nr);
        session.put(format!("ipi.{name}"), Unit::Ns, how, spread);
    }
}

/// Reports of a thread that spins.
#[derive(Default)]
struct Spinner {
    /// Time in which it had lost its CPU.
    away_ns: AtomicU64,
    /// Looks at the clock.
    beats: AtomicU64,
}

/// Time of a barrier while `nr` other CPUs run a thread of this process. A thread that lost its CPU
/// gets no interrupt, so a round counts only if each thread ran all the time.
fn spinners(session: &Session<'_>, nr: usize) -> Result<Spread, String> {
    let (stop, running) = (AtomicU32::new(0), AtomicU32::new(0));
    let spinners: Vec<Apart<Spinner>> = (0..nr).map(|_| Apart::default()).collect();
    cpus::pin(session.cpus[0])?;
    thread::scope(|scope| {
        for (&cpu, own) in session.cpus[1..=nr].iter().zip(&spinners) {
            let (stop, running) = (&stop, &running);
            scope.spawn(move || {
                let pinned = cpus::pin(cpu);
                running.fetch_add(1, Ordering::AcqRel);
                let mut last = Instant::now();
                while pinned.is_ok() && stop.load(Ordering::Relaxed) == 0 {
                    let now = Instant::now();
                    let gap = (now - last).as_nanos() as u64;
                    if gap > AWAY_NS {
                        own.0.away_ns.fetch_add(gap, Ordering::AcqRel);
                    }
                    own.0.beats.fetch_add(1, Ordering::AcqRel);
                    last = now;
                }
            });
        }
        let round = || {
            spinners.iter().for_each(|one| one.0.away_ns.store(0, Ordering::Release));
            let mut done = Ok(());
            let took = timed(|| {
                for _ in 0..BARRIERS {
                    done = done.and(membarrier(MembarrierCommand::PrivateExpedited));
                }
            });
            done.map_err(|error| format!("membarrier: {error}"))?;
            // A thread that was away reports that as soon as it runs again, and must run now.
            let beats = |one: &Apart<Spinner>| one.0.beats.load(Ordering::Acquire);
            let before: Vec<u64> = spinners.iter().map(beats).collect();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(50) {
                std::hint::spin_loop();
            }
            let ran = spinners.iter().zip(before).all(|(one, before)| {
                beats(one) > before && one.0.away_ns.load(Ordering::Acquire) == 0
            });
            Ok::<_, String>(ran.then(|| [each(took, BARRIERS)]))
        };
        let result = until(|| running.load(Ordering::Acquire) == nr as u32)
            .and_then(|()| session.rounds(round));
        stop.store(1, Ordering::Relaxed);
        result.map(|[spread]| spread)
    })
}
