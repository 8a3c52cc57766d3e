//! What happened when: a part of one simulated run as rows, from which timelines are drawn.
//!
//! Key types: [`Recording`] (one policy on one machine with one seed, of its steps one), [`Row`] (something that happened
//! to a task), [`Happening`] (what).
//!
//! Neighbours: filled by `highwater` from the simulation's journal, written as Perfetto's protobuf or ftrace's text by
//! `highwater-report`. Plain rows; names stand once, in [`Recording::names`].

use crate::Series;

/// A part of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Name of the experiment or workload.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// Heading of its column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// Which step of it; empty if there is only one.
    pub part: String,
    /// Its beginning, virtual time since boot in nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// How many CPUs the machine has.
    pub nr_cpus: u16,
    /// Who was there.
    pub tasks: Vec<RecordedTask>,
    /// Names of phases, locks, waits, operations and tracepoints.
    pub names: Vec<String>,
    /// What happened, in order of time.
    pub rows: Vec<Row>,
    /// Counters over time, as `--sample-every` has them.
    pub counters: Series,
    /// If it begins with the boot, files of `/proc` as they were then: `zoneinfo` and its text.
    pub proc_files: Vec<(String, String)>,
    /// Remarks for the reader: what was left out.
    pub notes: Vec<String>,
}

/// A task of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTask {
    /// Its name: `kswapd0`.
    pub name: String,
    /// A thread of the kernel.
    pub is_kernel: bool,
    /// It runs in interrupts and never has a CPU of its own.
    pub is_interrupt: bool,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When, virtual time since boot in nanoseconds.
    pub at_ns: u64,
    /// To which task: an index of [`Recording::tasks`].
    pub task: u32,
    /// What.
    pub what: Happening,
}

/// An index of [`Recording::names`].
pub type NameId = u32;

/// What may happen to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It has this CPU from now on.
    Runs {
        /// The CPU.
        cpu: u16,
    },
    /// It has none any more, and would like one.
    Preempted,
    /// It has none any more, and waits.
    Waits {
        /// What for.
        why: NameId,
        /// A sleep or a timer: nobody else is waited for.
        is_sleep: bool,
    },
    /// Its wait is over.
    Woken {
        /// By whom; none: its time was over.
        by: Option<u32>,
    },
    /// It begins something inside what it does.
    Enters {
        /// A phase or the wait for a lock.
        what: NameId,
    },
    /// It ends what it began last and has not ended.
    Leaves,
    /// It begins an operation: one that the workload measures.
    BeginsOperation,
    /// It ends it.
    EndsOperation {
        /// What it was.
        name: NameId,
    },
    /// It passed a tracepoint.
    Passes {
        /// On which CPU.
        cpu: u16,
        /// The tracepoint's system: `vmscan`.
        system: NameId,
        /// Its name: `mm_vmscan_kswapd_wake`.
        name: NameId,
        /// The rest of its line in ftrace's text: `nid=0 order=0`.
        text: Box<str>,
    },
    /// It has ended.
    Ends,
}

impl Recording {
    /// A name.
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id as usize).map_or("", String::as_str)
    }

    /// How often each tracepoint was passed, by system and name.
    pub fn event_counts(&self) -> Vec<(&str, &str, u64)> {
        let mut counts: Vec<(NameId, NameId, u64)> = Vec::new();
        for row in &self.rows {
            if let Happening::Passes { system, name, .. } = row.what {
                match counts.iter_mut().find(|(_, known, _)| *known == name) {
                    Some((_, _, count)) => *count += 1,
                    None => counts.push((system, name, 1)),
                }
            }
        }
        let mut named: Vec<_> =
            counts.iter().map(|&(s, n, count)| (self.name(s), self.name(n), count)).collect();
        named.sort_unstable();
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_counted_by_name() {
        let names = ["kmem", "b", "a"].map(str::to_owned).to_vec();
        let mut recording = Recording { names, ..Recording::default() };
        for name in [1, 2, 1] {
            let what = Happening::Passes { cpu: 0, system: 0, name, text: "".into() };
            recording.rows.push(Row { at_ns: 0, task: 0, what });
        }
        assert_eq!(recording.event_counts(), [("kmem", "a", 1), ("kmem", "b", 2)]);
    }
}
