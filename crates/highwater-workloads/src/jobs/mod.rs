//! Jobs: tasks of one's own, each a list of phases that do one thing to memory or files, so often, at such a rate, in
//! such a pattern.
//!
//! ```text
//! task: phase, phase, phase ... again, as many rounds as it has
//!         |
//!         +-- wait for the arrival (open loop) --> action --> recorded: latency from the arrival, faults
//! ```
//!
//! A phase with a queue depth has helpers: tasks of the same address space, which take operations of the same flow. An operation may
//! be a request, whose steps are phases.
//!
//! Everything here is plain: sizes are pages and bytes, names are numbers. Who reads a file and gives names numbers is
//! the caller, as is who starts tasks.
//!
//! Key types: [`Task`], [`Phase`], [`Action`], [`Pattern`]; [`Ground`] (what tasks share), [`Recorded`] (what they leave), [`CutShort`] (what a task
//! that died had still to do), [`Helper`].

mod act;
mod files;
mod flow;
mod held;
mod pick;
mod record;
mod request;
mod run;

pub use act::Area;
pub use files::{FileHow, Files};
pub use held::Ask;
pub use pick::Pattern;
pub use record::Recorded;
pub use run::{CutShort, Failed, Ground, Helper, Inherited, Joined, Why, help, numbered, run};

use highwater_core::syscall::{FileAdvice, MemoryAdvice};
use highwater_core::units::MemoryPolicy;

use crate::random::job_seed;

/// The seed of a copy of a task, both by number, in a run with this seed.
pub const fn seed(run_seed: u64, task: u32, copy: u32) -> u64 {
    job_seed(run_seed, task, copy)
}

/// A kind of task; copies of it differ in their random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// What it does, in order.
    pub phases: Vec<Phase>,
    /// How many times over; none: until the job ends.
    pub rounds: Option<u64>,
    /// How many areas it has.
    pub nr_areas: usize,
    /// It serves a soft interrupt: it has no memory but what it allocates, and never sleeps for it.
    pub is_softirq: bool,
}

/// One thing, done again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What.
    pub action: Action,
    /// How often.
    pub often: Often,
    /// When each begins; none: when the one before has ended.
    pub arrivals: Option<Arrivals>,
    /// The number of its records, and what its operations are called; none: nobody wants to know.
    pub operation: Option<(usize, String)>,
    /// In which rounds.
    pub when: When,
    /// How many may be under way at once.
    pub depth: u32,
}

/// In which rounds of its task a phase is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum When {
    /// Each.
    #[default]
    Always,
    /// The first.
    First,
    /// The last, of so many.
    Last,
}

/// How often a phase does its thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Often {
    /// So many times.
    Times(u64),
    /// For so long, and at least once.
    Nanoseconds(u64),
    /// As many times as its file or area has blocks or pages; once, if it is about neither.
    Pass,
    /// So many times as often as that; whole times of it only.
    Passes(f64),
    /// Until the job ends.
    Forever,
}

/// When operations of an open loop begin, whether or not the one before has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Operations a second, on average.
    pub rate: f64,
    /// How they come.
    pub spacing: Spacing,
}

/// How operations of an open loop follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly.
    Steady,
    /// Independently of each other: a Poisson process.
    Poisson,
    /// So many at once, the bursts evenly.
    Bursts(u32),
}

/// What a phase does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Maps an area: so many pages of its own, or the whole of a file.
    Map {
        /// The area's number; one that is there is unmapped first.
        area: usize,
        /// What it is of.
        of: Mapped,
        /// How.
        how: MapHow,
    },
    /// Unmaps an area.
    Unmap {
        /// The area.
        area: usize,
    },
    /// Touches pages of an area, one each time.
    Touch {
        /// The area.
        area: usize,
        /// How.
        access: Touch,
        /// Which.
        pattern: Pattern,
    },
    /// Reads blocks of a file.
    Read {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
        /// Which.
        pattern: Pattern,
    },
    /// Writes blocks of a file.
    Write {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
        /// Which.
        pattern: Pattern,
    },
    /// Writes a block behind the file's end, or, of a file that does not grow, one behind the other, from its start again when it is
    /// full: a log.
    Append {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
    },
    /// Has a file written to its disk.
    Fsync {
        /// The file.
        file: usize,
    },
    /// Cuts a file.
    Truncate {
        /// The file.
        file: usize,
        /// To so many bytes, if it has more.
        bytes: u64,
    },
    /// Deletes a file: its name is that of an empty one from now on.
    Delete {
        /// The file.
        file: usize,
    },
    /// Says what a file will be used for.
    AdviseFile {
        /// The file.
        file: usize,
        /// What for.
        advice: FileAdvice,
        /// Only what the task has read and written since it last said so, not the whole of it.
        is_behind: bool,
    },
    /// Says what an area will be used for.
    Advise {
        /// The area.
        area: usize,
        /// What for.
        advice: MemoryAdvice,
        /// Page by page, of those; none: the whole of it at once.
        pattern: Option<Pattern>,
    },
    /// Locks an area into memory.
    Lock {
        /// The area.
        area: usize,
    },
    /// Takes that back.
    Unlock {
        /// The area.
        area: usize,
    },
    /// Starts another program: all areas are gone.
    Exec,
    /// Ends the task, whatever would come.
    Exit,
    /// Starts a task with a copy of this one's memory, and goes on.
    Fork {
        /// The task's number.
        task: usize,
    },
    /// Has the CPU for so long, and uses no memory.
    Compute {
        /// How long.
        ns: u64,
    },
    /// Sleeps.
    Sleep {
        /// How long.
        ns: u64,
    },
    /// Waits until all copies of another task have ended.
    Wait {
        /// The task's number.
        task: usize,
    },
    /// Allocates pages as the kernel does for itself.
    Alloc(Ask),
    /// Does several things, one after the other, each as often as it says: a request.
    Request(Vec<Phase>),
    /// Has all memory compacted, as by hand (`/proc/sys/vm/compact_memory`).
    Compact,
    /// Drops clean caches, as writing this to `/proc/sys/vm/drop_caches` does: 1 the page cache, 2 inodes, dentries and other
    /// slab, 3 both.
    DropCaches(u8),
    /// Sets `vm.compaction_proactiveness`, percent.
    Proactiveness(u32),
    /// Sets the task's memory policy.
    Policy(MemoryPolicy),
    /// Says that a step is over, so that counters are read: what it is called, `{n}` being the number of the round, `{2n}` twice
    /// that; none: that the first one begins.
    Mark(Option<String>),
}

/// How memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MapHow {
    /// Writes go to the file; or what a fork shares.
    pub is_shared: bool,
    /// It is not written to.
    pub is_read_only: bool,
    /// Huge pages are asked for, or refused.
    pub huge: Option<bool>,
    /// It begins at a multiple of so many pages; 0: anywhere.
    pub align: u32,
}

/// How a page is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A load and a store: a byte is read, changed and written back.
    Update,
}

/// What an area is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Memory of its own, so many pages.
    Memory(u32),
    /// A file, or so many pages of it from its start.
    File(usize, Option<u32>),
}
