//! Operations of a swarm's programs: the kinds, and the weight of each.

use std::fmt;

use super::draw::Draw;
use crate::rng::Stream;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident: $usual:literal,)*) => {
        /// A kind of operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op { $($(#[$doc])* $variant,)* }

        impl Op {
            /// All kinds.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];
            /// The usual weight of each.
            const USUAL: &'static [u32] = &[$($usual,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$variant => stringify!($variant),)* }
            }
        }
    };
}

operations! {
    /// Maps anonymous memory.
    MapAnon: 4,
    /// Maps a file, shared or private.
    MapFile: 4,
    /// Touches pages in order.
    TouchRun: 10,
    /// Touches pages at random.
    TouchRandom: 10,
    /// Touches few pages often.
    TouchHot: 6,
    /// Unmaps a part of a mapping.
    UnmapPart: 2,
    /// Unmaps a whole region.
    UnmapAll: 2,
    /// madvise.
    Advise: 4,
    /// mlock.
    Lock: 1,
    /// munlock.
    Unlock: 2,
    /// A memory policy for the task or a range, or another cpuset.
    Place: 2,
    /// Reads a file in order.
    ReadRun: 8,
    /// Reads a file at random places.
    ReadRandom: 6,
    /// Writes a file in order.
    WriteRun: 5,
    /// Writes a file at random places.
    WriteRandom: 4,
    /// fsync.
    Fsync: 2,
    /// posix_fadvise.
    FileAdvise: 3,
    /// Truncates a file.
    Truncate: 1,
    /// Deletes a file; another takes its place.
    Delete: 1,
    /// `drop_caches`.
    DropCaches: 1,
    /// `compact_memory`, or another `compaction_proactiveness`.
    Compact: 1,
    /// sync.
    Sync: 1,
    /// Sleeps.
    Sleep: 4,
    /// Uses the CPU.
    Compute: 4,
    /// Continues in a new address space, as after exec.
    NewMm: 1,
    /// Starts another task, in this address space or in a new one.
    Spawn: 2,
    /// Kills a task, as a user's signal does.
    Kill: 1,
    /// Wakes a task for no reason.
    Wake: 2,
    /// Takes a block from the allocator.
    TakeBlock: 4,
    /// Frees a block.
    GiveBlock: 4,
    /// Forks; the child runs in a new task.
    Fork: 3,
    /// exec.
    Exec: 1,
    /// Opens, reads and writes small files, of which there may be many.
    SmallFiles: 4,
    /// Deletes a small file.
    DeleteSmall: 1,
    /// Ends.
    Exit: 1,
}

impl Op {
    /// True if the operation, chosen often, would end a run before it has begun.
    const fn is_destructive(self) -> bool {
        matches!(self, Op::Kill | Op::Exit | Op::NewMm | Op::Exec | Op::Delete)
    }
}

/// The weight of each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<u32>);

impl Mix {
    /// The swarm's trick: a third of the kinds is never chosen, and a few are chosen most of the
    /// time. A run that does a little of everything never does one thing for long.
    pub(super) fn draw(stream: &mut Stream) -> Mix {
        let mut weights: Vec<u32> = Op::USUAL.to_vec();
        for (&op, weight) in Op::ALL.iter().zip(&mut weights) {
            match stream.below(20) {
                0..7 => *weight = 0,
                7..9 if !op.is_destructive() => *weight *= 20,
                _ => {}
            }
        }
        match stream.below(8) {
            0..4 => weights[Op::Kill as usize] = 0,
            // Many kills, with many new tasks.
            4 => {
                weights[Op::Kill as usize] = 10;
                weights[Op::Spawn as usize] = 20;
            }
            _ => {}
        }
        Mix(weights)
    }

    /// The mix of one task of a run: some kinds fewer.
    pub(super) fn of_task(&self, stream: &mut Stream) -> Mix {
        let mut weights = self.0.clone();
        if stream.one_in(2) {
            weights.iter_mut().for_each(|weight| *weight *= stream.below(4) as u32);
        }
        Mix(weights)
    }

    /// The next operation.
    pub(super) fn choose(&self, stream: &mut Stream) -> Op {
        Op::ALL[stream.weighted(&self.0)]
    }

    /// True if this kind is ever chosen.
    pub fn has(&self, op: Op) -> bool {
        self.0[op as usize] > 0
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mm = "";
        for (op, weight) in Op::ALL.iter().zip(&self.0).filter(|&(_, &weight)| weight > 0) {
            write!(f, "{mm}{op:?}:{weight}")?;
            mm = " ";
        }
        Ok(())
    }
}
