//! Jobs: custom tasks. A task is a list of phases; a phase repeats one operation on memory or
//! files, with a count, a rate and an access pattern.
//!
//! ```text
//! task: phase, phase, phase ... again, as many rounds as it has
//!         |
//!         +-- wait for the arrival (open loop) --> action --> recorded: latency from the arrival, faults
//! ```
//!
//! A phase with a queue depth has helpers: tasks of the same address space, which take operations
//! of the same flow. An operation may be a request, whose steps are phases.
//!
//! Everything here is plain: sizes are pages and bytes, names are numbers. The caller reads the job
//! file, maps names to numbers, and starts tasks.
//!
//! Key types: [`Task`], [`Phase`], [`Action`], [`Pattern`]; [`Ground`] (the state that tasks
//! share), [`Groups`] (memory cgroups), [`Sockets`] (connections), [`Recorded`] (their results),
//! [`CutShort`] (the remaining work of a task that died), [`Helper`].

mod act;
mod files;
mod flow;
mod groups;
mod held;
mod pick;
mod record;
mod request;
mod run;
mod sockets;

pub use act::Area;
pub use files::{FileHow, Files};
pub use groups::{GroupHow, Groups, RECLAIM_SINCE};
pub use held::Ask;
pub use pick::Pattern;
pub use record::Recorded;
pub use run::{CutShort, Failed, Ground, Helper, Inherited, Joined, Why, help, numbered, run};
pub use sockets::Sockets;

use highwater_core::reclaim::GroupSetting;
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
    /// Its phases, in order.
    pub phases: Vec<Phase>,
    /// Number of rounds; `None`: until the job ends.
    pub rounds: Option<u64>,
    /// Number of its VMAs.
    pub nr_areas: usize,
    /// The number of its memory cgroup; `None`: its parent's, or the root.
    pub group: Option<usize>,
    /// It serves a soft interrupt: it has no user memory, only what it allocates, and its
    /// allocations never sleep.
    pub is_softirq: bool,
}

/// One action, repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The action.
    pub action: Action,
    /// Number of repetitions.
    pub often: Often,
    /// Start times of the operations; `None`: each begins when the one before has ended.
    pub arrivals: Option<Arrivals>,
    /// The number of its records, and the name of its operations; `None`: not recorded.
    pub operation: Option<(usize, String)>,
    /// The rounds in which it runs.
    pub when: When,
    /// Most operations in progress at once.
    pub depth: u32,
}

/// The rounds of its task in which a phase runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum When {
    /// Every round.
    #[default]
    Always,
    /// The first round.
    First,
    /// The last of this many rounds.
    Last,
}

/// Number of repetitions of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Often {
    /// This many times.
    Times(u64),
    /// For this time, and at least once.
    Nanoseconds(u64),
    /// Once for each block of its file or page of its VMA; once, if it has neither.
    Pass,
    /// This number of passes, rounded down to whole operations.
    Passes(f64),
    /// Until the job ends.
    Forever,
}

/// Start times of the operations of an open loop, independent of the end of earlier operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Operations a second, on average.
    pub rate: f64,
    /// Their spacing.
    pub spacing: Spacing,
}

/// Spacing of the operations of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Even.
    Steady,
    /// Independent of each other: a Poisson process.
    Poisson,
    /// This many at once; the bursts are evenly spaced.
    Bursts(u32),
}

/// The action of a phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Maps a VMA: anonymous pages, or a file.
    Map {
        /// The VMA's number; an existing one is unmapped first.
        area: usize,
        /// The backing.
        of: Mapped,
        /// Flags of the mapping.
        how: MapHow,
    },
    /// Unmaps a VMA.
    Unmap {
        /// The VMA.
        area: usize,
    },
    /// Touches pages of a VMA, one each time.
    Touch {
        /// The VMA.
        area: usize,
        /// Kind of access.
        access: Touch,
        /// Order of the pages.
        pattern: Pattern,
    },
    /// Reads blocks of a file.
    Read {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
        /// Order of the blocks.
        pattern: Pattern,
    },
    /// Writes blocks of a file.
    Write {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
        /// Order of the blocks.
        pattern: Pattern,
    },
    /// Writes a block at the file's end. In a file that does not grow, blocks follow one another
    /// and wrap around when it is full: a log.
    Append {
        /// The file.
        file: usize,
        /// Bytes of a block.
        bytes: u64,
    },
    /// Writes a file's dirty pages to its disk.
    Fsync {
        /// The file.
        file: usize,
    },
    /// Truncates a file.
    Truncate {
        /// The file.
        file: usize,
        /// New size, if the file is larger.
        bytes: u64,
    },
    /// Deletes a file: its name refers to an empty one from now on.
    Delete {
        /// The file.
        file: usize,
    },
    /// Advises the kernel on the use of a file.
    AdviseFile {
        /// The file.
        file: usize,
        /// The advice.
        advice: FileAdvice,
        /// Only for the ranges that the task has read and written since its last advice, not for
        /// the whole file.
        is_behind: bool,
    },
    /// Advises the kernel on the use of a VMA.
    Advise {
        /// The VMA.
        area: usize,
        /// The advice.
        advice: MemoryAdvice,
        /// Page by page, in this order; `None`: the whole VMA at once.
        pattern: Option<Pattern>,
    },
    /// Locks a VMA into memory.
    Lock {
        /// The VMA.
        area: usize,
    },
    /// Unlocks a VMA.
    Unlock {
        /// The VMA.
        area: usize,
    },
    /// Starts another program: all VMAs are gone.
    Exec,
    /// Ends the task, whatever would follow.
    Exit,
    /// Starts a task with a copy of this one's memory, and continues.
    Fork {
        /// The task's number.
        task: usize,
    },
    /// Uses the CPU for a time, without memory.
    Compute {
        /// Duration.
        ns: u64,
    },
    /// Sleeps.
    Sleep {
        /// Duration.
        ns: u64,
    },
    /// Waits until all copies of another task have ended.
    Wait {
        /// The task's number.
        task: usize,
    },
    /// Allocates pages as the kernel does for itself.
    Alloc(Ask),
    /// Runs several actions, one after the other, each with its number of repetitions: a request.
    Request(Vec<Phase>),
    /// Compacts all memory, as a write to `/proc/sys/vm/compact_memory` does.
    Compact,
    /// Drops clean caches, as writing this to `/proc/sys/vm/drop_caches` does: 1 the page cache, 2
    /// inodes, dentries and other slab, 3 both.
    DropCaches(u8),
    /// Sets `vm.compaction_proactiveness`, percent.
    Proactiveness(u32),
    /// Sets the task's memory policy.
    Policy(MemoryPolicy),
    /// Writes a setting of a memory cgroup.
    SetGroup {
        /// The group's number.
        group: usize,
        /// The setting.
        setting: GroupSetting,
    },
    /// Reclaims from a memory cgroup, as a write to its `memory.reclaim` does.
    Reclaim {
        /// The group's number.
        group: usize,
        /// Pages.
        pages: u64,
    },
    /// Removes a memory cgroup.
    RemoveGroup {
        /// The group's number.
        group: usize,
    },
    /// Moves the task and its address space to a memory cgroup.
    Join {
        /// The group's number.
        group: usize,
    },
    /// Opens a TCP connection on the loopback device.
    Connect {
        /// The number of its name.
        socket: usize,
        /// No task of the job receives from it: the task has both ends.
        is_unread: bool,
    },
    /// Sends bytes on the task's connection.
    Send {
        /// The number of its name.
        socket: usize,
        /// Bytes.
        bytes: u64,
        /// Waits for room in the send buffer; else what does not fit is not sent.
        waits: bool,
    },
    /// Receives bytes; accepts a connection first, if the task has none.
    Receive {
        /// The number of its name.
        socket: usize,
        /// Bytes.
        bytes: u64,
    },
    /// Closes the task's ends of a connection.
    Close {
        /// The number of its name.
        socket: usize,
    },
    /// Marks the end of a step, so that counters are read. The name may contain `{n}`, the number
    /// of the round, or `{2n}`, twice that. `None`: the first step begins.
    Mark(Option<String>),
}

/// Flags of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MapHow {
    /// Writes go to the file; for anonymous memory, forks share it.
    pub is_shared: bool,
    /// Read-only.
    pub is_read_only: bool,
    /// The task stores only zeros there.
    pub holds_zeros: bool,
    /// Huge pages are requested or refused.
    pub huge: Option<bool>,
    /// Start alignment in pages; 0: anywhere.
    pub align: u32,
}

/// Kind of access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A load and a store: a byte is read, changed and written back.
    Update,
}

/// Backing of a VMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Anonymous memory, in pages.
    Memory(u32),
    /// A file, or this many pages of it from its start.
    File(usize, Option<u32>),
}
