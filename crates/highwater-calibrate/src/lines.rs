//! Locks, and cache lines and blocks that move between two CPUs.

use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cpus::{self, Pair};
use crate::memory::at_random;
use crate::row::{Spread, Unit};
use crate::session::{Session, each, timed};
use crate::system::{PAGE, copy};

/// Takings of a lock in a sample.
const TAKINGS: usize = 4096;
/// Round trips of a line in a sample.
const TRIPS: u32 = 200;
/// Locks that the other CPU takes before this one does.
const LOCKS: usize = 256;
/// Bytes of a block that moves, blocks of the ring, blocks of a sample, and blocks in flight.
const BLOCK: usize = 32 << 10;
const RING: usize = 16;
const BLOCKS: usize = 64;
const IN_FLIGHT: u64 = 8;
/// A CPU that does not answer within this time does not run our thread.
const PATIENCE: Duration = Duration::from_secs(2);
/// The value that ends a helper.
pub(crate) const STOP: u32 = u32::MAX;

/// A value on a cache line of its own, and of the neighbour that processors fetch with it.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Apart<T>(pub(crate) T);

pub(crate) fn measure(session: &mut Session<'_>) {
    let lock = Apart(AtomicBool::new(false));
    session.measure("lock.hot", "compare-and-swap and store, one line, one CPU", || {
        Ok(each(timed(|| (0..TAKINGS).for_each(|_| take(&lock.0))), TAKINGS))
    });
    if session.pairs.is_empty() {
        let why = "this process may run on one CPU only";
        session.leave_out("line, lock.moved, lock.handoff, block of a pair of CPUs", why);
    }
    for pair in session.pairs {
        let Pair { a, b, relation } = *pair;
        let (of, is) = (format!("{a}-{b}"), relation.words());
        let how = format!("half of a round trip of one line, both CPUs spin; {is}");
        let spread = line(session, *pair);
        session.put(format!("line.{of}"), Unit::Ns, how, spread);
        let how = format!("{LOCKS} locks that the other CPU took last, each once; {is}");
        let spread = moved(session, *pair);
        session.put(format!("lock.moved.{of}"), Unit::Ns, how, spread);
        let how = format!("a ticket lock that both CPUs take in turn, for each taking; {is}");
        let spread = handoff(session, *pair);
        session.put(format!("lock.handoff.{of}"), Unit::Ns, how, spread);
        let how =
            |side| format!("blocks of 32 KiB, one CPU fills, the other empties them: {side}; {is}");
        match shuttle(session, *pair) {
            Ok([fills, empties]) => {
                let (unit, side) = (Unit::NsPerPage, "the one that fills");
                session.put(format!("block.fill.{of}"), unit, how(side), Ok(fills));
                let side = "the one that empties";
                session.put(format!("block.empty.{of}"), unit, how(side), Ok(empties));
            }
            Err(why) => session.leave_out(format!("block.{of}"), why),
        }
    }
}

/// Takes a lock that nobody holds for long, and releases it.
#[inline]
fn take(lock: &AtomicBool) {
    while lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        spin_loop();
    }
    lock.store(false, Ordering::Release);
}

/// Waits until something is so; an error if it takes too long.
pub(crate) fn until(is_so: impl Fn() -> bool) -> Result<(), String> {
    let mut begun = None;
    loop {
        for _ in 0..4096 {
            if is_so() {
                return Ok(());
            }
            spin_loop();
        }
        // The clock is read only in a long wait: a short one is what is measured.
        if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err("the other CPU did not answer in 2 s".to_owned());
        }
    }
}

/// Runs `helper` on the pair's second CPU while the first runs `main`. `helper` ends when the word
/// is [`STOP`].
pub(crate) fn with_helper<T>(
    pair: Pair,
    word: &AtomicU32,
    helper: impl FnOnce() -> Result<(), String> + Send,
    main: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    cpus::pin(pair.a)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            cpus::pin(pair.b)?;
            helper()
        });
        let done = main();
        word.store(STOP, Ordering::Release);
        // A helper that gave up has the first reason.
        other.join().map_err(|_| "a helper thread panicked".to_owned())??;
        done
    })
}

/// Waits for each odd number in the word, does something, and answers with the next number.
fn answers(word: &AtomicU32, each: impl Fn()) -> Result<(), String> {
    let mut next = 1;
    loop {
        until(|| word.load(Ordering::Acquire) >= next)?;
        if word.load(Ordering::Acquire) == STOP {
            return Ok(());
        }
        each();
        word.store(next + 1, Ordering::Release);
        next += 2;
    }
}

/// One way of a line between two CPUs.
fn line(session: &Session<'_>, pair: Pair) -> Result<Spread, String> {
    let word = Apart(AtomicU32::new(0));
    let word = &word.0;
    let helper = || answers(word, || ());
    let mut next = 1;
    with_helper(pair, word, helper, || {
        session.samples(|| {
            let begun = Instant::now();
            for _ in 0..TRIPS {
                word.store(next, Ordering::Release);
                until(|| word.load(Ordering::Acquire) > next)?;
                next += 2;
            }
            Ok(each(begun.elapsed(), 2 * TRIPS as usize))
        })
    })
}

/// A lock, and the place of the next one on its line.
#[derive(Default)]
struct Link {
    lock: AtomicBool,
    next: AtomicU32,
}

/// Locks in a ring whose order no prefetcher follows: where the next one lies stands in each.
fn ring() -> Vec<Apart<Link>> {
    let links: Vec<Apart<Link>> = (0..LOCKS).map(|_| Apart::default()).collect();
    let order = at_random(LOCKS);
    for (at, &link) in order.iter().enumerate() {
        links[link].0.next.store(order[(at + 1) % LOCKS] as u32, Ordering::Relaxed);
    }
    links
}

/// Takes every lock of a ring, one after the other.
fn take_all(links: &[Apart<Link>]) {
    let mut at = 0;
    for _ in 0..LOCKS {
        let link = &links[at].0;
        while link.lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            spin_loop();
        }
        // The next address depends on what the lock's line holds.
        at = link.next.load(Ordering::Relaxed) as usize;
        link.lock.store(false, Ordering::Release);
    }
}

/// Taking locks whose lines the other CPU wrote last.
fn moved(session: &Session<'_>, pair: Pair) -> Result<Spread, String> {
    let links = ring();
    let word = Apart(AtomicU32::new(0));
    let word = &word.0;
    let helper = || answers(word, || take_all(&links));
    let mut next = 1;
    with_helper(pair, word, helper, || {
        session.samples(|| {
            word.store(next, Ordering::Release);
            until(|| word.load(Ordering::Acquire) > next)?;
            next += 2;
            Ok(each(timed(|| take_all(&links)), LOCKS))
        })
    })
}

/// A lock that two CPUs hand to each other.
fn handoff(session: &Session<'_>, pair: Pair) -> Result<Spread, String> {
    let (ticket, owner) = (Apart(AtomicU32::new(0)), Apart(AtomicU32::new(0)));
    let stop = Apart(AtomicU32::new(0));
    let taken = || -> Result<(), String> {
        let mine = ticket.0.fetch_add(1, Ordering::Relaxed);
        until(|| owner.0.load(Ordering::Acquire) == mine)?;
        owner.0.store(mine.wrapping_add(1), Ordering::Release);
        Ok(())
    };
    let helper = || {
        while stop.0.load(Ordering::Relaxed) != STOP {
            taken()?;
        }
        Ok(())
    };
    with_helper(pair, &stop.0, helper, || {
        let [spread] = session.rounds(|| {
            let first = ticket.0.load(Ordering::Relaxed);
            let begun = Instant::now();
            for _ in 0..TRIPS {
                taken()?;
            }
            let took = begun.elapsed();
            // Takings of both CPUs. Unless they took turns, nothing was handed over.
            let nr = ticket.0.load(Ordering::Relaxed).wrapping_sub(first);
            Ok((nr >= TRIPS * 9 / 5).then(|| [each(took, nr as usize)]))
        })?;
        Ok(spread)
    })
}

/// Blocks that one CPU fills and the other empties: the median time of a block's copy alone, so
/// that a CPU that did something else meanwhile does not count.
fn shuttle(session: &Session<'_>, pair: Pair) -> Result<[Spread; 2], String> {
    let ring: Vec<Mutex<Vec<u8>>> = (0..RING).map(|_| Mutex::new(vec![1; BLOCK])).collect();
    let (head, tail) = (Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0)));
    let emptied: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let stop = Apart(AtomicU32::new(0));
    // The counters say whose a block is, so its lock is free.
    let pages = |at: u64, page: &mut dyn FnMut(&mut [u8])| -> u64 {
        let mut block = ring[at as usize % RING].lock().unwrap_or_else(|e| e.into_inner());
        timed(|| block.chunks_exact_mut(PAGE).for_each(page)).as_nanos() as u64
    };
    let helper = || {
        let mut hot = vec![0; PAGE];
        let mut at = 0;
        loop {
            until(|| {
                head.0.load(Ordering::Acquire) > at || stop.0.load(Ordering::Acquire) == STOP
            })?;
            if head.0.load(Ordering::Acquire) <= at {
                return Ok(());
            }
            let took = pages(at, &mut |page| copy(&mut hot, page));
            emptied[at as usize % BLOCKS].store(took, Ordering::Relaxed);
            at += 1;
            tail.0.store(at, Ordering::Release);
        }
    };
    let mut at = 0;
    let hot = vec![3; PAGE];
    let per_page = |mut blocks: Vec<u64>| {
        blocks.sort_unstable();
        blocks[blocks.len() / 2] as f64 / (BLOCK / PAGE) as f64
    };
    with_helper(pair, &stop.0, helper, || {
        session.rounds(|| {
            let mut filled = Vec::with_capacity(BLOCKS);
            for _ in 0..BLOCKS {
                until(|| at - tail.0.load(Ordering::Acquire) < IN_FLIGHT)?;
                filled.push(pages(at, &mut |page| copy(page, &hot)));
                at += 1;
                head.0.store(at, Ordering::Release);
            }
            until(|| tail.0.load(Ordering::Acquire) == at)?;
            let emptied = emptied.iter().map(|took| took.load(Ordering::Relaxed)).collect();
            Ok(Some([per_page(filled), per_page(emptied)]))
        })
    })
}
