//! Random machines under random load: one seed chooses everything, checkers watch.
//!
//! Key types: [`Options`] (the choices of a seed), [`Mix`] (the operations of tasks), [`check`] (a
//! seed's verdict), [`Failure`].
//!
//! | file | is |
//! |---|---|
//! | `options`, `policy` | the choices of a seed before the run |
//! | `mix` | kinds of operations, and the weight of each |
//! | `worker`, `acts` | a program: one random operation after the other |
//! | `shared` | state that programs share; the gate at which they stop for an audit |
//! | `seeds` | seeds as words; a seed's verdict, panics included |
//! | `run` | one run: ballast, programs, audits, clearing away |
//! | `liveness` | its second phase, and machines whose memory is full by then |
//! | `full` | a machine that a test fills, to check the steps of that phase |
//!
//! A run has two phases. In the safety phase disks fail and stall and programs kill each other,
//! until the seed's work is done. In the liveness phase the faults are over, and every program has
//! to do a few more operations and end.
//!
//! A run passes if
//! - every program ends: none waits for ever (the engine reports that), and none gets an error that
//!   cannot happen (I/O errors without a faulty disk, an address fault where memory is mapped),
//! - the audit of the whole kernel finds nothing, at a few quiet points and at the end,
//! - nothing is left once all files are deleted and all blocks are freed,
//! - a second run does the same, event by event, trace events included, although it has a ledger;
//!   the times of every operation and task add up.

mod acts;
mod draw;
mod full;
mod groups;
mod liveness;
mod mix;
mod options;
mod policy;
mod run;
mod seeds;
mod shared;
mod sockets;
mod worker;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use highwater_core::audit::AuditError;

pub use full::FullMachine;
pub use liveness::ROOM;
pub use mix::{Mix, Op};
pub use options::Options;
pub use run::{Run, Summary, run, run_booked};
pub use seeds::{parse_seed, verdict};

use crate::digest::{Comparison, Digest, DigestPlan, Divergence, first_divergence};
use crate::engine::RunError;

/// Trace events shown before the first difference of two runs.
const EVENTS_SHOWN: usize = 8;

/// The failure of a seed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The machine does not boot.
    Boot(String),
    /// Programs do not end, or one panics.
    Run(RunError),
    /// An audit found an error.
    Audit {
        /// The audit that found it.
        when: String,
        /// The error.
        error: AuditError,
    },
    /// Memory is left after everything was freed.
    Left(String),
    /// The machine does not come to rest.
    Restless(String),
    /// Tasks do not end although the faults have: the event that each waits for.
    Stuck(String),
    /// The time of an operation or a task is not completely booked.
    Ledger(String),
    /// A second run diverged.
    Diverged {
        /// The first difference.
        divergence: Divergence,
        /// Trace events before that.
        before: Vec<String>,
    },
    /// Further runs diverged at a different event each time.
    Unstable(u32),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Boot(error) => write!(f, "the machine does not boot: {error}"),
            Failure::Run(error) => error.fmt(f),
            Failure::Audit { when, error } => write!(f, "audit {when}: {error}"),
            Failure::Left(what) => write!(f, "left at the end: {what}"),
            Failure::Restless(what) => write!(f, "the machine does not come to rest: {what}"),
            Failure::Stuck(waits) => write!(f, "a day after the faults ended: {waits}"),
            Failure::Ledger(gap) => write!(f, "the ledger: {gap}"),
            Failure::Diverged { divergence, before } => {
                write!(f, "two runs part at {divergence}; trace events before that:")?;
                before.iter().try_for_each(|event| write!(f, "\n  {event}"))
            }
            Failure::Unstable(pairs) => write!(f, "{pairs} pairs of runs, each parts elsewhere"),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs a seed twice, the second time with a ledger.
///
/// # Errors
/// The failure of the seed.
pub fn check(options: &Options) -> Result<Summary, Failure> {
    let mut verdict = None;
    let mut nr_runs = 0;
    let comparison = first_divergence(|plan| {
        nr_runs += 1;
        let Run { digest, result, .. } =
            if nr_runs % 2 == 0 { run_booked(options, plan) } else { run(options, plan, None) };
        // A failure may show in one run only.
        match &verdict {
            Some(Err(_)) => {}
            _ => verdict = Some(result),
        }
        digest.unwrap_or_else(|| Digest::new(plan))
    });
    let summary = verdict.expect("it ran")?;
    match comparison {
        Comparison::Equal => Ok(summary),
        Comparison::Diverged(divergence) => {
            let before = events_before(options, &divergence);
            Err(Failure::Diverged { divergence, before })
        }
        Comparison::Unstable { pairs } => Err(Failure::Unstable(pairs)),
    }
}

/// The last trace events before the divergence, in words, from one more run.
fn events_before(options: &Options, divergence: &Divergence) -> Vec<String> {
    let Some(end_ns) = divergence.left.or(divergence.right).map(|event| event.time_ns) else {
        return Vec::new();
    };
    let last: Rc<RefCell<VecDeque<String>>> = Rc::default();
    let kept = Rc::clone(&last);
    let sink = move |time_ns: u64, cpu: highwater_core::host::CpuId, event: &_| {
        if time_ns <= end_ns {
            let mut kept = kept.borrow_mut();
            if kept.len() == EVENTS_SHOWN {
                kept.pop_front();
            }
            kept.push_back(format!("{time_ns} ns CPU {}: {event}", cpu.0));
        }
    };
    let _ = run(options, DigestPlan::default(), Some(Box::new(sink)));
    let mut last = last.borrow_mut();
    last.drain(..).collect()
}
