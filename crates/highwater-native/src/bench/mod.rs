//! Micro-benchmarks of page allocation: nanoseconds per allocate-and-free pair. Also of page cache
//! and faults, compared with the computer's own kernel ([`run_pages`]).
//!
//! Patterns and sizes are those of llfree-rs's own benchmarks: 2^20 frames, half of them allocated.
//!
//! * *repeat* allocates and frees one block repeatedly.
//! * *bulk* fills half of the memory and frees it last-in first-out.
//! * *random* frees it in random order; each thread frees blocks that any of them allocated.
//!
//! The latter two run for `2^order` rounds, so that the number of pairs is the same at every order.
//!
//! | row | is |
//! |---|---|
//! | `highwater` | the whole fast path: watermark, per-CPU list behind its lock, counters |
//! | `floor: lock+LIFO` | a spin lock round trip and an array pop, then the same with a push |
//! | `buddy_system_allocator` | the crate many Rust kernels use, behind a spin lock |
//!
//! The benchmark measures the *CPU time of the measuring threads*, so that other load on the
//! machine adds noise only through the caches. Threads that sleep until a lock is free use no CPU
//! time: where several threads meet, look at the elapsed time too. A sample counts only if its
//! result is right: every block is aligned, inside the memory and held once; all memory is free
//! again at the end; and the counters report as many pages freed as allocated. A wrong result is an
//! error, not a fast time.
//!
//! The first sample of a row warms up and is dropped; a row is the median of the others.
//!
//! A program can measure an allocator of its own: it implements [`Subject`] and calls
//! [`Plan::sample`]. Samples of several patterns and orders can use one [`Highwater`].

mod pages;
mod pattern;
mod subject;
mod system;

use core::fmt;

use highwater_core::config::{Policy, preset};
use highwater_core::page::Order;

use crate::host::NativeError;
pub use pages::{PageOperation, PageRow, run_pages};
pub use pattern::{Plan, Sample};
use subject::{Crate, Floor};
pub use subject::{Highwater, Subject, Worker};

/// Frames of the benchmark machine: 4 GiB.
const NR_FRAMES: u32 = 1 << 20;
/// Frames with `quick`: 256 MiB.
const NR_FRAMES_QUICK: u32 = 1 << 16;
/// Timed samples per row.
const SAMPLES: usize = 7;
/// Pairs of one sample of the repeat pattern.
const REPEATS: u32 = 200_000;
/// The same with `quick`.
const REPEATS_QUICK: u32 = 10_000;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Small memory and one sample: for tests, not for figures.
    pub quick: bool,
    /// Orders.
    pub orders: Vec<Order>,
    /// Patterns.
    pub patterns: Vec<Pattern>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Nodes that `highwater`'s memory and CPUs are divided into; each has a separate zone lock.
    pub nodes: usize,
    /// The policy that `highwater` runs with; `None`: 6.1.
    pub policy: Option<Policy>,
    /// Measure the other allocators too.
    pub compare: bool,
    /// Bind threads to cores.
    pub pin_threads: bool,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions {
            quick: false,
            orders: vec![Order(0), Order(3), Order(9)],
            patterns: Pattern::ALL.to_vec(),
            threads: vec![1, 2],
            nodes: 1,
            policy: None,
            compare: true,
            pin_threads: true,
        }
    }
}

/// The order in which blocks are allocated and freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// One block, repeatedly, while half of the memory is in use.
    Repeat,
    /// Half of the memory, freed in reverse order.
    Bulk,
    /// Half of the memory, freed in random order.
    Random,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 3] = [Pattern::Repeat, Pattern::Bulk, Pattern::Random];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Repeat => "repeat",
            Pattern::Bulk => "bulk",
            Pattern::Random => "rand",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRow {
    /// Name of the allocator.
    pub allocator: &'static str,
    /// Block size.
    pub order: Order,
    /// Access pattern.
    pub pattern: Pattern,
    /// Threads at once.
    pub threads: usize,
    /// CPU time per allocate-and-free pair, nanoseconds: the median of the samples.
    pub ns_per_pair: f64,
    /// The best sample, which other load on the machine disturbed least.
    pub ns_per_pair_min: f64,
    /// Elapsed time per pair and thread, median. It is larger than the CPU time if threads slept
    /// for each other's locks, or if the machine had other work.
    pub wall_ns_per_pair: f64,
    /// A remark for the reader; usually empty.
    pub note: String,
}

/// The reason why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The machine could not be set up.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// No row fits these options.
    #[error("{0}")]
    Options(&'static str),
    /// A kernel could not be set up, or gave a wrong result.
    #[error("pages: {0}")]
    Pages(String),
    /// An allocator gave a wrong result.
    #[error("{allocator}, order {}, {pattern}, {threads} threads: {what}", order.0)]
    Wrong {
        /// Name of the allocator.
        allocator: &'static str,
        /// Block size.
        order: Order,
        /// Access pattern.
        pattern: Pattern,
        /// Threads at once.
        threads: usize,
        /// The error.
        what: String,
    },
}

/// Measures everything that `options` selects, in table order.
///
/// # Errors
/// If the options make no sense, a machine cannot be set up or an allocator's result is wrong.
pub fn run(options: &BenchOptions) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    run_with(options, |row| rows.push(row))?;
    Ok(rows)
}

/// As [`run`], handing over each row as soon as it is measured.
///
/// # Errors
/// As [`run`].
pub fn run_with(options: &BenchOptions, mut each: impl FnMut(BenchRow)) -> Result<(), BenchError> {
    check(options)?;
    let policy = match &options.policy {
        Some(policy) => policy.clone(),
        None => preset("6.1").ok_or(BenchError::Options("the 6.1 preset is missing"))?,
    };
    let nr_frames = if options.quick { NR_FRAMES_QUICK } else { NR_FRAMES };
    for &order in &options.orders {
        for &pattern in &options.patterns {
            for &threads in &options.threads {
                let plan = Plan {
                    order,
                    pattern,
                    threads,
                    nodes: options.nodes,
                    nr_frames,
                    repeats: if options.quick { REPEATS_QUICK } else { REPEATS },
                    samples: if options.quick { 1 } else { SAMPLES },
                };
                each(measure(&plan, &Highwater::new(&plan, &policy, options.pin_threads)?)?);
                if options.compare {
                    each(measure(&plan, &Floor::new(&plan, options.pin_threads)?)?);
                    each(measure(&plan, &Crate::new(&plan, options.pin_threads)?)?);
                }
            }
        }
    }
    Ok(())
}

fn check(options: &BenchOptions) -> Result<(), BenchError> {
    let smallest = if options.quick { NR_FRAMES_QUICK } else { NR_FRAMES };
    if options.orders.iter().any(|&order| order > Order::MAX) {
        return Err(BenchError::Options("orders go up to 10"));
    }
    if options.threads.contains(&0) {
        return Err(BenchError::Options("a benchmark needs a thread"));
    }
    if options.nodes == 0 || options.threads.iter().any(|&n| n < options.nodes) {
        return Err(BenchError::Options("each node needs a CPU, and so a thread"));
    }
    // Each thread needs at least two blocks of the largest order.
    if options.threads.iter().any(|&n| n > smallest as usize >> 12) {
        return Err(BenchError::Options("too many threads for the memory"));
    }
    Ok(())
}

fn measure<S: Subject>(plan: &Plan, subject: &S) -> Result<BenchRow, BenchError> {
    let wrong = |what: String| BenchError::Wrong {
        allocator: S::NAME,
        order: plan.order,
        pattern: plan.pattern,
        threads: plan.threads,
        what,
    };
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let mut note = String::new();
    for sample in 0..plan.samples + 1 {
        let result = plan.sample(subject).map_err(wrong)?;
        // The first one warms up.
        if sample > 0 {
            cpu.push(result.ns_per_pair);
            wall.push(result.wall_ns_per_pair);
            note = result.note;
        }
    }
    cpu.sort_by(f64::total_cmp);
    wall.sort_by(f64::total_cmp);
    Ok(BenchRow {
        allocator: S::NAME,
        order: plan.order,
        pattern: plan.pattern,
        threads: plan.threads,
        ns_per_pair: cpu[cpu.len() / 2],
        ns_per_pair_min: cpu[0],
        wall_ns_per_pair: wall[wall.len() / 2],
        note,
    })
}
