//! One sample: the pattern on all threads, timed, and checked.
//!
//! Checks run between the timed parts. A shared bitmap records each block after it was taken and
//! clears it before it is freed. So it detects a block that is held twice, by any threads.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};

use highwater_core::page::Order;
use rustix::time::{ClockId, clock_gettime};

use super::Pattern;
use super::subject::{Subject, Worker};

/// The measurement of one row.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Block size.
    pub order: Order,
    /// Access pattern.
    pub pattern: Pattern,
    /// Threads at once.
    pub threads: usize,
    /// Nodes that memory and CPUs are divided into.
    pub nodes: usize,
    /// Frames of the memory.
    pub nr_frames: u32,
    /// Pairs per thread and sample of the repeat pattern.
    pub repeats: u32,
    /// Timed samples of the row.
    pub samples: usize,
}

/// The result of one sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// CPU time per allocate-and-free pair, nanoseconds.
    pub ns_per_pair: f64,
    /// Elapsed time per pair and thread, nanoseconds.
    pub wall_ns_per_pair: f64,
    /// A remark for the reader; usually empty.
    pub note: String,
}

impl Plan {
    /// Most blocks that each thread holds: together half of the memory.
    pub(super) fn blocks_per_thread(&self) -> usize {
        (self.nr_frames as usize >> 1 >> self.order.0) / self.threads
    }

    /// Number of times that memory is filled and freed. Larger blocks get more rounds, so that the
    /// number of pairs is the same.
    fn rounds(&self) -> u32 {
        1 << self.order.0
    }

    /// Runs the pattern once on all threads.
    ///
    /// # Errors
    /// If the allocator gives a wrong result, or has too little memory.
    pub fn sample<S: Subject>(&self, subject: &S) -> Result<Sample, String> {
        let before = subject.nr_free();
        let held = Held::new(self);
        let exchange = Exchange::default();
        let (start, given_up) = (Barrier::new(self.threads), AtomicBool::new(false));
        let results: Vec<Result<Timed, String>> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..self.threads)
                .map(|n| {
                    let (held, exchange, start, given_up) = (&held, &exchange, &start, &given_up);
                    let meeting = Meeting { number: n, held, exchange, start, given_up };
                    s.spawn(move || self.one_thread(subject, &meeting))
                })
                .collect();
            let joined = threads.into_iter().map(|t| t.join());
            joined.map(|t| t.unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
        });
        // A thread's own error takes precedence over the news that another thread stopped.
        let found =
            |result: &&Result<Timed, String>| result.as_ref().is_err_and(|why| why != OTHERS);
        if let Some(Err(why)) = results.iter().find(found) {
            return Err(why.clone());
        }
        let mut all = Timed::default();
        for result in results {
            let timed = result?;
            all.took.add(timed.took);
            all.pairs += timed.pairs;
            all.moved += timed.moved;
        }
        held.check_empty()?;
        subject.settle()?;
        let after = subject.nr_free();
        if after != before {
            return Err(format!("{before} pages were free before and {after} after"));
        }
        let note = match all.moved {
            0 => String::new(),
            moved => format!("another frame in {moved} of {} repeats", all.pairs),
        };
        let per_pair = |ns: u64| ns as f64 / all.pairs as f64;
        Ok(Sample {
            ns_per_pair: per_pair(all.took.cpu_ns),
            wall_ns_per_pair: per_pair(all.took.wall_ns),
            note,
        })
    }

    fn one_thread<S: Subject>(&self, subject: &S, meeting: &Meeting<'_>) -> Result<Timed, String> {
        let mut worker = subject.worker(meeting.number).inspect_err(|_| meeting.give_up())?;
        match self.pattern {
            Pattern::Repeat => self.repeat(&mut worker, meeting),
            Pattern::Bulk | Pattern::Random => self.fill_and_free(&mut worker, meeting),
        }
    }

    /// Half of the memory stays allocated; one more block is allocated and freed repeatedly.
    fn repeat<W: Worker>(&self, worker: &mut W, meeting: &Meeting<'_>) -> Result<Timed, String> {
        let held = meeting.held;
        let mut prefill = Vec::new();
        self.fill(worker, &mut prefill);
        // The timed parts of all threads should overlap, whatever happened before.
        if !meeting.all_are_there() {
            return Err(OTHERS.into());
        }
        let first = worker.alloc(self.order).ok_or("out of memory")?;
        worker.free(first, self.order);
        let mut timed = Timed { pairs: u64::from(self.repeats), ..Timed::default() };
        let begun = Clocks::now();
        for _ in 0..self.repeats {
            let Some(pfn) = worker.alloc(self.order) else {
                return Err("out of memory".into());
            };
            timed.moved += u64::from(black_box(pfn) != first);
            worker.free(pfn, self.order);
        }
        timed.took = begun.elapsed();
        held.enter(&prefill)?;
        held.leave(&prefill)?;
        for &pfn in &prefill {
            worker.free(pfn, self.order);
        }
        Ok(timed)
    }

    /// Takes this thread's share, then frees it in reverse order, or frees as many blocks out of
    /// all threads' blocks, shuffled. No thread frees before all have taken. The number of rounds
    /// gives a sample the same number of pairs at every order. The first round finds the caches as
    /// the audit left them.
    fn fill_and_free<W: Worker>(
        &self,
        worker: &mut W,
        meeting: &Meeting<'_>,
    ) -> Result<Timed, String> {
        let (mut timed, mut blocks) = (Timed::default(), Vec::new());
        for _ in 0..self.rounds() {
            if !meeting.all_are_there() {
                return Err(OTHERS.into());
            }
            self.round(worker, meeting, &mut blocks, &mut timed)
                .inspect_err(|_| meeting.give_up())?;
        }
        // A thread that gave up in the last round waits here.
        match meeting.all_are_there() {
            true => Ok(timed),
            false => Err(OTHERS.into()),
        }
    }

    /// One round. All threads meet in it the same number of times, whatever goes wrong.
    fn round<W: Worker>(
        &self,
        worker: &mut W,
        meeting: &Meeting<'_>,
        blocks: &mut Vec<u32>,
        timed: &mut Timed,
    ) -> Result<(), String> {
        let held = meeting.held;
        timed.took.add(self.fill(worker, blocks));
        let nr = blocks.len();
        let entered = held.enter(blocks);
        match self.pattern {
            Pattern::Random => meeting.shuffle(blocks, self.threads),
            _ => {
                meeting.start.wait();
                blocks.reverse();
            }
        }
        entered?;
        held.leave(blocks)?;
        let begun = Clocks::now();
        for &pfn in &*blocks {
            worker.free(pfn, self.order);
        }
        timed.took.add(begun.elapsed());
        timed.pairs += nr as u64;
        match nr == self.blocks_per_thread() {
            true => Ok(()),
            false => Err(format!("out of memory after {nr} blocks")),
        }
    }

    /// Takes this thread's share and returns the time it took.
    fn fill<W: Worker>(&self, worker: &mut W, blocks: &mut Vec<u32>) -> Clocks {
        // Touched beforehand: the allocator's time must not include page faults of the benchmark's
        // own array.
        blocks.clear();
        blocks.resize(self.blocks_per_thread(), u32::MAX);
        let mut nr = 0;
        let begun = Clocks::now();
        for slot in &mut **blocks {
            let Some(pfn) = worker.alloc(self.order) else { break };
            *slot = pfn;
            nr += 1;
        }
        let took = begun.elapsed();
        blocks.truncate(nr);
        took
    }
}

/// The meeting point of the threads of a sample.
struct Meeting<'s> {
    /// Number of the thread.
    number: usize,
    held: &'s Held,
    exchange: &'s Exchange,
    start: &'s Barrier,
    /// A thread has given up. It is set between two meetings at which all threads check
    /// it, and at least one meeting lies between.
    given_up: &'s AtomicBool,
}

/// The message of a thread that stops because another one did.
const OTHERS: &str = "another thread stopped";

/// The blocks of all threads.
type Exchange = Mutex<Vec<u32>>;

impl Meeting<'_> {
    /// This thread will not come again. It comes once more for the threads that wait for it, and
    /// they learn that it gave up.
    fn give_up(&self) {
        self.given_up.store(true, Relaxed);
        self.start.wait();
    }

    /// Waits for all threads; false if one of them gave up.
    fn all_are_there(&self) -> bool {
        self.start.wait();
        !self.given_up.load(Relaxed)
    }

    /// Adds this thread's blocks to those of the others, and takes its share of the shuffled whole.
    fn shuffle(&self, blocks: &mut Vec<u32>, nr_threads: usize) {
        let all = || self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        if self.number == 0 {
            all().clear();
        }
        self.start.wait();
        all().append(blocks);
        self.start.wait();
        if self.number == 0 {
            // The order in which the threads arrive must not matter.
            let mut all = all();
            all.sort_unstable();
            shuffle(&mut all, 1);
        }
        self.start.wait();
        let all = all();
        // Parts that differ by at most one block and cover all blocks.
        let begin = |number: usize| number * all.len() / nr_threads;
        blocks.extend(&all[begin(self.number)..begin(self.number + 1)]);
    }
}

/// The measurement of one thread.
#[derive(Default)]
struct Timed {
    took: Clocks,
    pairs: u64,
    /// Repeats that got another frame than the first one.
    moved: u64,
}

/// The blocks that any thread holds.
struct Held {
    bits: Vec<AtomicU64>,
    order: Order,
    nr_frames: u32,
}

impl Held {
    fn new(plan: &Plan) -> Held {
        let words = (plan.nr_frames as usize >> plan.order.0).div_ceil(64);
        let bits = (0..words).map(|_| AtomicU64::new(0)).collect();
        Held { bits, order: plan.order, nr_frames: plan.nr_frames }
    }

    fn enter(&self, blocks: &[u32]) -> Result<(), String> {
        for &pfn in blocks {
            let (word, bit) = self.place(pfn)?;
            if self.bits[word].fetch_or(bit, Relaxed) & bit != 0 {
                return Err(format!("frame {pfn} was handed out twice"));
            }
        }
        Ok(())
    }

    fn leave(&self, blocks: &[u32]) -> Result<(), String> {
        for &pfn in blocks {
            let (word, bit) = self.place(pfn)?;
            if self.bits[word].fetch_and(!bit, Relaxed) & bit == 0 {
                return Err(format!("frame {pfn} is freed twice"));
            }
        }
        Ok(())
    }

    fn check_empty(&self) -> Result<(), String> {
        match self.bits.iter().all(|word| word.load(Relaxed) == 0) {
            true => Ok(()),
            false => Err("blocks were not freed".into()),
        }
    }

    /// Frames are numbered from the start of the memory under test.
    fn place(&self, pfn: u32) -> Result<(usize, u64), String> {
        if pfn >= self.nr_frames || pfn & ((1 << self.order.0) - 1) != 0 {
            return Err(format!("no block of order {} starts at frame {pfn}", self.order.0));
        }
        let block = pfn >> self.order.0;
        Ok((block as usize / 64, 1 << (block % 64)))
    }
}

/// Two clocks at one moment, or the time between two moments.
#[derive(Clone, Copy, Default)]
pub(super) struct Clocks {
    /// CPU time of the calling thread.
    pub(super) cpu_ns: u64,
    wall_ns: u64,
}

impl Clocks {
    pub(super) fn now() -> Clocks {
        let ns = |id| {
            let t = clock_gettime(id);
            t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
        };
        Clocks { cpu_ns: ns(ClockId::ThreadCPUTime), wall_ns: ns(ClockId::Monotonic) }
    }

    /// Adds a time.
    fn add(&mut self, more: Clocks) {
        self.cpu_ns += more.cpu_ns;
        self.wall_ns += more.wall_ns;
    }

    pub(super) fn elapsed(self) -> Clocks {
        let now = Clocks::now();
        Clocks { cpu_ns: now.cpu_ns - self.cpu_ns, wall_ns: now.wall_ns - self.wall_ns }
    }
}

/// Fisher-Yates with a splitmix64 stream.
fn shuffle(blocks: &mut [u32], seed: u64) {
    let mut state = seed;
    for i in (1..blocks.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        blocks.swap(i, (x % (i as u64 + 1)) as usize);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            order: Order(0),
            pattern: Pattern::Bulk,
            threads: 1,
            nodes: 1,
            nr_frames: 256,
            repeats: 4,
            samples: 1,
        }
    }

    /// Always returns frame 0, or loses the blocks that are freed.
    struct Broken {
        twice: bool,
    }

    struct BrokenWorker(bool, u32);

    impl Subject for Broken {
        const NAME: &'static str = "broken";
        type Worker<'a> = BrokenWorker;

        fn worker(&self, _: usize) -> Result<BrokenWorker, String> {
            Ok(BrokenWorker(self.twice, 0))
        }

        fn nr_free(&self) -> u64 {
            256
        }

        fn settle(&self) -> Result<(), String> {
            Ok(())
        }
    }

    impl Worker for BrokenWorker {
        fn alloc(&mut self, _: Order) -> Option<u32> {
            self.1 += 1;
            Some(if self.0 { 0 } else { self.1 + 300 })
        }

        fn free(&mut self, _: u32, _: Order) {}
    }

    #[test]
    fn wrong_allocators_are_found_out() {
        let twice = plan().sample(&Broken { twice: true }).err().unwrap();
        assert!(twice.contains("handed out twice"), "{twice}");
        let outside = plan().sample(&Broken { twice: false }).err().unwrap();
        assert!(outside.contains("no block of order 0"), "{outside}");
    }

    /// Returns free blocks until a thread has had a number of blocks, or gives that thread no
    /// worker at all.
    struct Failing {
        next: AtomicU64,
        thread: usize,
        after: Option<u32>,
    }

    struct FailingWorker<'a>(&'a AtomicU64, Option<u32>);

    impl Subject for Failing {
        const NAME: &'static str = "failing";
        type Worker<'a> = FailingWorker<'a>;

        fn worker(&self, number: usize) -> Result<FailingWorker<'_>, String> {
            match (number == self.thread, self.after) {
                (true, None) => Err("no worker".into()),
                (true, after) => Ok(FailingWorker(&self.next, after)),
                _ => Ok(FailingWorker(&self.next, None)),
            }
        }

        fn nr_free(&self) -> u64 {
            256
        }

        fn settle(&self) -> Result<(), String> {
            Ok(())
        }
    }

    impl Worker for FailingWorker<'_> {
        fn alloc(&mut self, order: Order) -> Option<u32> {
            if let Some(left) = &mut self.1 {
                *left = left.checked_sub(1)?;
            }
            let block = self.0.fetch_add(1, Relaxed) % (256 >> order.0);
            Some((block as u32) << order.0)
        }

        fn free(&mut self, _: u32, _: Order) {}
    }

    #[test]
    fn who_gives_up_leaves_nobody_waiting() {
        for pattern in Pattern::ALL {
            // In the first round, in the second, in the last of eight, or before any.
            for after in [Some(3), Some(8), Some(38), None] {
                for thread in 0..3 {
                    let plan = Plan { pattern, threads: 3, order: Order(3), ..plan() };
                    let subject = Failing { next: AtomicU64::new(0), thread, after };
                    let result = plan.sample(&subject);
                    let is_over = pattern == Pattern::Repeat && after == Some(38);
                    let why = match result {
                        Ok(_) => {
                            assert!(is_over, "{pattern} {after:?} {thread}: no error");
                            continue;
                        }
                        Err(why) => why,
                    };
                    assert_ne!(why, OTHERS, "{pattern} {after:?} {thread}");
                }
            }
        }
    }

    #[test]
    fn shuffle_is_a_permutation() {
        let mut blocks: Vec<u32> = (0..1000).collect();
        shuffle(&mut blocks, 1);
        assert!(!blocks.is_sorted());
        blocks.sort();
        assert!(blocks.into_iter().eq(0..1000));
    }
}
